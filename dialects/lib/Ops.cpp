//===- Ops.cpp - Verifiers, folders and ranges of operations ----*- C++ -*-===//

#include "LegoMLIR/Integers.h"
#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Limits.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace lego;

#define GET_OP_CLASSES
#include "LegoMLIR/LegoOps.cpp.inc"

void YieldOp::build(OpBuilder &, OperationState &) {}

//===----------------------------------------------------------------------===//
// Common checks
//===----------------------------------------------------------------------===//

static LogicalResult verifySizes(Operation *op, LayoutAttr layout,
                                 OperandRange sizes) {
  if (sizes.size() != layout.getSymbols().size())
    return op->emitOpError() << "the layout declares "
                             << layout.getSymbols().size()
                             << " sizes, and " << sizes.size() << " are given";
  return success();
}

static LogicalResult verifyIndices(Operation *op, LayoutAttr layout,
                                   OperandRange indices) {
  auto sizes = layout.getSizes();
  if (indices.size() != sizes.size())
    return op->emitOpError() << "the layout has " << sizes.size()
                             << " logical indices, and " << indices.size()
                             << " are given";
  return success();
}

/// Every lego.genp that a layout names exists and has the layout's sizes.
static LogicalResult verifyGenP(Operation *op, LayoutAttr layout,
                                SymbolTableCollection &symbols) {
  LogicalResult result = success();
  layout.walk([&](GenPAttr genp) {
    auto function =
        symbols.lookupNearestSymbolFrom<GenPOp>(op, genp.getSymbol());
    if (!function) {
      result = op->emitOpError()
               << genp.getSymbol() << " does not name a lego.genp";
      return WalkResult::interrupt();
    }
    ArrayRef<int64_t> declared = function.getSizes();
    bool fits = declared.size() == genp.getSizes().size();
    for (unsigned k = 0; fits && k < declared.size(); ++k) {
      auto constant = dyn_cast<AffineConstantExpr>(genp.getSizes()[k]);
      fits = ShapedType::isDynamic(declared[k]) ||
             (constant && constant.getValue() == declared[k]);
    }
    if (fits)
      return WalkResult::advance();
    result = op->emitOpError() << "the sizes of " << genp.getSymbol()
                               << " in the layout differ from those of the "
                                  "lego.genp";
    return WalkResult::interrupt();
  });
  return result;
}

LogicalResult ApplyOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGenP(*this, getLayout(), symbols);
}
LogicalResult InvOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGenP(*this, getLayout(), symbols);
}
LogicalResult MaskOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGenP(*this, getLayout(), symbols);
}
LogicalResult ViewOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGenP(*this, getType().getLayout(), symbols);
}
LogicalResult ForEachOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGenP(*this, getLayout(), symbols);
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

/// The values of constant operands; none if one is not constant.
static std::optional<SmallVector<int64_t>>
constantsOf(ArrayRef<Attribute> operands) {
  SmallVector<int64_t> values;
  for (Attribute operand : operands) {
    auto value = dyn_cast_or_null<IntegerAttr>(operand);
    if (!value)
      return std::nullopt;
    values.push_back(value.getInt());
  }
  return values;
}

static bool areBelow(ArrayRef<int64_t> index, ArrayRef<int64_t> sizes) {
  return llvm::all_of(llvm::zip_equal(index, sizes), [](auto pair) {
    auto [i, n] = pair;
    return i >= 0 && i < n;
  });
}

OpFoldResult ApplyOp::fold(FoldAdaptor adaptor) {
  // apply(inv(p)) = p.
  if (!getIndices().empty())
    if (auto inv = getIndices().front().getDefiningOp<InvOp>())
      if (inv.getLayout() == getLayout() && inv.getSizes() == getSizes() &&
          ValueRange(getIndices()) == ValueRange(inv.getResults()))
        return inv.getPosition();
  auto indices = constantsOf(adaptor.getIndices());
  auto sizes = constantsOf(adaptor.getSizes());
  if (!indices || !sizes)
    return {};
  Integers integers(*this);
  integers.symbols = *sizes;
  Evaluator<Integers> evaluator(integers);
  if (!areBelow(*indices, evaluator.sizes(getLayout().getSizes())))
    return {};
  int64_t position = evaluator.apply(getLayout().getView(), *indices);
  if (integers.failed)
    return {};
  return IntegerAttr::get(IndexType::get(getContext()), position);
}

LogicalResult InvOp::fold(FoldAdaptor adaptor,
                          SmallVectorImpl<OpFoldResult> &results) {
  // inv(apply(i)) = i.
  if (auto apply = getPosition().getDefiningOp<ApplyOp>())
    if (apply.getLayout() == getLayout() && apply.getSizes() == getSizes()) {
      llvm::append_range(results, apply.getIndices());
      return success();
    }
  auto position = dyn_cast_or_null<IntegerAttr>(adaptor.getPositions().front());
  auto sizes = constantsOf(adaptor.getSizes());
  if (!position || !sizes)
    return failure();
  Integers integers(*this);
  integers.symbols = *sizes;
  Evaluator<Integers> evaluator(integers);
  Attribute view = getLayout().getView();
  int64_t positions = evaluator.size(getViewPositions(view, getContext()));
  if (position.getInt() < 0 || position.getInt() >= positions)
    return failure();
  auto index = evaluator.inv(view, position.getInt());
  if (integers.failed)
    return failure();
  for (int64_t i : index)
    results.push_back(IntegerAttr::get(IndexType::get(getContext()), i));
  return success();
}

OpFoldResult MaskOp::fold(FoldAdaptor adaptor) {
  auto indices = constantsOf(adaptor.getIndices());
  auto sizes = constantsOf(adaptor.getSizes());
  bool tiled = false;
  getLayout().walk([&](TiledAttr) { tiled = true; });
  if (!tiled)
    return BoolAttr::get(getContext(), true);
  if (!indices || !sizes)
    return {};
  Integers integers(*this);
  integers.symbols = *sizes;
  Evaluator<Integers> evaluator(integers);
  bool named = evaluator.mask(getLayout().getView(), *indices);
  return integers.failed ? OpFoldResult()
                         : OpFoldResult(BoolAttr::get(getContext(), named));
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

/// 0 .. n - 1, or 0 .. 2^62 - 1 for an n that is not known.
static ConstantIntRanges rangeBelow(AffineExpr n) {
  auto constant = dyn_cast_or_null<AffineConstantExpr>(n);
  uint64_t last = (constant ? constant.getValue() : kMaxPositions) - 1;
  return ConstantIntRanges::fromUnsigned(APInt(64, 0), APInt(64, last));
}

void ApplyOp::inferResultRanges(ArrayRef<ConstantIntRanges>,
                                SetIntRangeFn setRange) {
  setRange(getResult(), rangeBelow(getViewPositions(getLayout().getView(),
                                                    getContext())));
}

void InvOp::inferResultRanges(ArrayRef<ConstantIntRanges>,
                              SetIntRangeFn setRange) {
  for (auto [index, size] :
       llvm::zip_equal(getResults(), getLayout().getSizes()))
    setRange(index, rangeBelow(size));
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult ApplyOp::verify() {
  if (failed(verifySizes(*this, getLayout(), getSizes())))
    return failure();
  return verifyIndices(*this, getLayout(), getIndices());
}

LogicalResult MaskOp::verify() {
  if (failed(verifySizes(*this, getLayout(), getSizes())))
    return failure();
  return verifyIndices(*this, getLayout(), getIndices());
}

LogicalResult InvOp::verify() {
  if (getPositions().size() != 1)
    return emitOpError() << "takes one position, got " << getPositions().size();
  return verifySizes(*this, getLayout(), getSizes());
}

LogicalResult InvOp::inferReturnTypes(
    MLIRContext *context, std::optional<Location> location, ValueRange operands,
    DictionaryAttr attributes, OpaqueProperties properties, RegionRange regions,
    SmallVectorImpl<Type> &types) {
  LayoutAttr layout = properties.as<InvOp::Properties *>()->layout;
  if (!layout)
    return emitOptionalError(location, "lego.inv needs a layout");
  types.assign(layout.getRank(), IndexType::get(context));
  return success();
}

LogicalResult ViewOp::verify() {
  return verifySizes(*this, getType().getLayout(), getSizes());
}

Value ViewOp::getViewSource() { return getSource(); }

LogicalResult LoadOp::verify() {
  return verifyIndices(*this, getView().getType().getLayout(), getIndices());
}

LogicalResult StoreOp::verify() {
  return verifyIndices(*this, getView().getType().getLayout(), getIndices());
}

static LogicalResult verifyVector(Operation *op, VectorType vector,
                                  ViewType view, OperandRange indices) {
  Type element = view.getMemref().getElementType();
  if (vector.getElementType() != element)
    return op->emitOpError() << "the vector has elements of type "
                             << vector.getElementType() << ", the view of "
                             << element;
  if (failed(verifyIndices(op, view.getLayout(), indices)))
    return failure();
  auto last = dyn_cast<AffineConstantExpr>(view.getLayout().getSizes().back());
  if (last && last.getValue() < vector.getNumElements())
    return op->emitOpError() << "a vector of " << vector.getNumElements()
                             << " elements is longer than the last axis of "
                             << last.getValue();
  return success();
}

LogicalResult VectorLoadOp::verify() {
  return verifyVector(*this, getResult().getType(), getView().getType(),
                      getIndices());
}

LogicalResult VectorStoreOp::verify() {
  return verifyVector(*this, getValue().getType(), getView().getType(),
                      getIndices());
}
