//===- SimplifyPass.cpp - lego-simplify -------------------------*- C++ -*-===//
//
// Index arithmetic is read as sums and written back where that is cheaper. It
// is read before anything is changed, since ranges are known of the original
// values only.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Emitters.h"
#include "LegoMLIR/IndexReader.h"
#include "LegoMLIR/Passes.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace lego {
#define GEN_PASS_DEF_LEGOSIMPLIFY
#include "LegoMLIR/LegoPasses.h.inc"
} // namespace lego

using namespace mlir;
using namespace lego;

/// Arithmetic on values of type index.
static bool isIndexArithmetic(Operation *op) {
  if (!op || op->getNumResults() != 1 || op->getNumRegions() ||
      !op->getResult(0).getType().isIndex() || !op->getNumOperands())
    return false;
  if (isa<affine::AffineApplyOp>(op))
    return true;
  Dialect *dialect = op->getDialect();
  return isa_and_nonnull<arith::ArithDialect, index::IndexDialect>(dialect) &&
         llvm::all_of(op->getOperandTypes(),
                      [](Type type) { return type.isIndex(); });
}

static unsigned countNodes(AffineExpr expr) {
  unsigned nodes = 0;
  expr.walk([&](AffineExpr part) { nodes += isa<AffineBinaryOpExpr>(part); });
  return nodes;
}

static unsigned costOf(Operation *op) {
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
    return countNodes(apply.getAffineMap().getResult(0));
  return op->hasTrait<OpTrait::ConstantLike>() ? 0 : 1;
}

/// The cost of the arithmetic that computes a value, each operation once.
static unsigned costOf(Value value) {
  SetVector<Operation *> work;
  auto push = [&](Value operand) {
    if (isIndexArithmetic(operand.getDefiningOp()))
      work.insert(operand.getDefiningOp());
  };
  push(value);
  unsigned cost = 0;
  for (unsigned k = 0; k < work.size(); ++k) {
    cost += costOf(work[k]);
    llvm::for_each(work[k]->getOperands(), push);
  }
  return cost;
}

namespace {

struct LegoSimplify : lego::impl::LegoSimplifyBase<LegoSimplify> {
  void runOnOperation() override;

private:
  void simplify(IndexReader &reader, Operation *op, const Sum &sum);
};

} // namespace

void LegoSimplify::runOnOperation() {
  IndexReader reader(getOperation());
  SmallVector<std::pair<Operation *, Sum>> found;
  getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isIndexArithmetic(op))
      return;
    Sum sum = reader.read(op->getResult(0));
    bool inner = llvm::all_of(op->getUsers(), isIndexArithmetic);
    if (!inner && !sum.isWrapped())
      found.push_back({op, sum});
  });
  for (auto &[op, sum] : found)
    simplify(reader, op, sum);
  // What is unused now; users come after their operands.
  SmallVector<Operation *> arithmetic;
  getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isIndexArithmetic(op) || op->hasTrait<OpTrait::ConstantLike>())
      arithmetic.push_back(op);
  });
  for (Operation *op : llvm::reverse(arithmetic))
    if (isOpTriviallyDead(op))
      op->erase();
}

void LegoSimplify::simplify(IndexReader &reader, Operation *op,
                            const Sum &sum) {
  OpBuilder builder(op);
  ArithEmitter emitter(builder, op, reader.getAlgebra());
  Operation *before = op->getPrevNode();
  Value value = emitter.emit(sum);
  SmallVector<Operation *> emitted;
  unsigned cost = 0;
  for (Operation *made = before ? before->getNextNode() : &op->getBlock()->front();
       made != op; made = made->getNextNode()) {
    emitted.push_back(made);
    cost += costOf(made);
  }
  bool itself = value == op->getResult(0); // a leaf
  if (value && !itself && cost < costOf(op->getResult(0))) {
    op->getResult(0).replaceAllUsesWith(value);
    return;
  }
  for (Operation *made : llvm::reverse(emitted))
    made->erase();
}
