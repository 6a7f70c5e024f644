//===- LoweringPasses.cpp - lego-lower-to-arith and -affine -----*- C++ -*-===//

#include "LegoMLIR/Lowering.h"
#include "LegoMLIR/Passes.h"

namespace lego {
#define GEN_PASS_DEF_LEGOLOWERTOARITH
#define GEN_PASS_DEF_LEGOLOWERTOAFFINE
#include "LegoMLIR/LegoPasses.h.inc"
} // namespace lego

using namespace mlir;
using namespace lego;

/// Functions of lego.genp that no layout names any more.
static void eraseUnusedGenP(Operation *root) {
  SmallVector<GenPOp> unused;
  root->walk([&](GenPOp op) {
    Operation *table = SymbolTable::getNearestSymbolTable(op->getParentOp());
    if (table && SymbolTable::symbolKnownUseEmpty(op, table))
      unused.push_back(op);
  });
  for (GenPOp op : unused)
    op.erase();
}

namespace {

struct LegoLowerToArith
    : lego::impl::LegoLowerToArithBase<LegoLowerToArith> {
  void runOnOperation() override {
    auto make = [](OpBuilder &builder, Operation *scope, Algebra &algebra) {
      return std::unique_ptr<Emitter>(
          std::make_unique<ArithEmitter>(builder, scope, algebra));
    };
    if (failed(lowerLego(getOperation(), make, /*partial=*/false)))
      return signalPassFailure();
    eraseUnusedGenP(getOperation());
  }
};

struct LegoLowerToAffine
    : lego::impl::LegoLowerToAffineBase<LegoLowerToAffine> {
  using LegoLowerToAffineBase::LegoLowerToAffineBase;

  void runOnOperation() override {
    auto make = [&](OpBuilder &builder, Operation *scope, Algebra &algebra) {
      return std::unique_ptr<Emitter>(
          std::make_unique<AffineEmitter>(builder, scope, algebra, skip));
    };
    if (failed(lowerLego(getOperation(), make, skip)))
      return signalPassFailure();
    eraseUnusedGenP(getOperation());
  }
};

} // namespace
