//===- VerifyPass.cpp - lego-verify -----------------------------*- C++ -*-===//
//
// Layouts are bijections by construction, except for the functions of a
// lego.genp and for symbolic sizes whose relation nobody proved. Both are
// enumerated here: the second with small values of the sizes.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Integers.h"
#include "LegoMLIR/Passes.h"
#include "llvm/Support/MathExtras.h"

namespace lego {
#define GEN_PASS_DEF_LEGOVERIFY
#include "LegoMLIR/LegoPasses.h.inc"
} // namespace lego

using namespace mlir;
using namespace lego;

/// Values tried for each symbol, and combinations of them tried for a layout.
static constexpr unsigned kValuesPerSymbol = 3, kCombinations = 27;

namespace {

struct LegoVerify : lego::impl::LegoVerifyBase<LegoVerify> {
  using LegoVerifyBase::LegoVerifyBase;

  void runOnOperation() override;

private:
  LogicalResult verifyFunctions(GenPOp op);
  LogicalResult verifyLayout(Operation *op, LayoutAttr layout);
  LogicalResult verifyWith(Operation *op, LayoutAttr layout,
                           ArrayRef<int64_t> symbols, bool &checked);
};

} // namespace

void LegoVerify::runOnOperation() {
  bool failed = false;
  getOperation()->walk([&](Operation *op) {
    if (auto genp = dyn_cast<GenPOp>(op))
      failed |= mlir::failed(verifyFunctions(genp));
    // One layout may be named by many operations: once for each is enough, as
    // its functions are looked up from there.
    SetVector<LayoutAttr> layouts;
    auto collect = [&](LayoutAttr layout) { layouts.insert(layout); };
    op->getAttrDictionary().walk(collect);
    for (Type type : op->getResultTypes())
      type.walk(collect);
    for (LayoutAttr layout : layouts)
      failed |= mlir::failed(verifyLayout(op, layout));
  });
  if (failed)
    signalPassFailure();
}

/// Enumerates the functions where all sizes are constant; with symbolic sizes
/// they are enumerated through the layouts that name them.
LogicalResult LegoVerify::verifyFunctions(GenPOp op) {
  int64_t elements = 1;
  for (int64_t size : op.getSizes())
    if (ShapedType::isDynamic(size) ||
        llvm::MulOverflow(elements, size, elements) || elements > bound) {
      op.emitRemark() << "not enumerated: its sizes are not known, or it has "
                         "more than "
                      << bound.getValue() << " elements";
      return success();
    }
  bool unknown = false;
  if (auto example = findCounterExample(op, {}, unknown))
    return op.emitOpError()
           << "is not a bijection with its inverse: " << example->text;
  if (unknown)
    op.emitWarning() << "its functions cannot be evaluated on constants";
  return success();
}

static bool hasIrregularPerm(LayoutAttr layout) {
  return layout
      .walk([](Attribute part) {
        return isa<GenPAttr, TableAttr, GalleryAttr>(part)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult LegoVerify::verifyLayout(Operation *op, LayoutAttr layout) {
  ArrayRef<SymbolAttr> symbols = layout.getSymbols();
  SmallVector<unsigned> choice(symbols.size(), 0);
  bool checked = false;
  for (unsigned tried = 0; tried < kCombinations; ++tried) {
    SmallVector<int64_t> values;
    bool admitted = true;
    for (auto [symbol, k] : llvm::zip_equal(symbols, choice)) {
      int64_t step = symbol.getMultipleOf(), value;
      value = llvm::divideCeilSigned(symbol.getMin(), step) * step + k * step;
      admitted &= !symbol.getMax() || value <= symbol.getMax();
      values.push_back(value);
    }
    if (admitted && failed(verifyWith(op, layout, values, checked)))
      return failure();
    unsigned place = 0;
    while (place < choice.size() && ++choice[place] == kValuesPerSymbol)
      choice[place++] = 0;
    if (place == choice.size())
      break;
  }
  if (!checked && hasIrregularPerm(layout))
    op->emitRemark() << "not enumerated: a layout with more than " << bound.getValue()
                     << " elements";
  return success();
}

LogicalResult LegoVerify::verifyWith(Operation *op, LayoutAttr layout,
                                     ArrayRef<int64_t> symbols, bool &checked) {
  if (!doSizesAgree(layout, symbols))
    return success();
  Integers integers(op);
  integers.symbols.assign(symbols.begin(), symbols.end());
  Evaluator<Integers> evaluator(integers);
  int64_t positions =
      evaluator.size(getViewPositions(layout.getView(), op->getContext()));
  int64_t elements = 1;
  for (int64_t n : evaluator.sizes(layout.getSizes()))
    elements = integers.mul(elements, std::max<int64_t>(n, 0));
  if (integers.failed || std::max(positions, elements) > bound)
    return success();
  bool unknown = false;
  auto example = findCounterExample(layout.getView(), integers, unknown);
  checked |= !unknown;
  if (!example)
    return success();
  auto error = op->emitOpError() << "has a layout that is not one-to-one: "
                                 << example->text;
  for (auto [symbol, value] : llvm::zip_equal(layout.getSymbols(), symbols))
    error << ", with " << symbol.getName().getValue() << " = " << value;
  return error;
}
