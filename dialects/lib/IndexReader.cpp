//===- IndexReader.cpp - SSA values as sums ---------------------*- C++ -*-===//

#include "LegoMLIR/IndexReader.h"
#include "mlir/Analysis/DataFlow/ConstantPropagationAnalysis.h"
#include "mlir/Analysis/DataFlow/DeadCodeAnalysis.h"
#include "mlir/Analysis/DataFlow/IntegerRangeAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lego;

IndexReader::IndexReader(Operation *root) {
  solver.load<dataflow::DeadCodeAnalysis>();
  solver.load<dataflow::SparseConstantPropagation>();
  solver.load<dataflow::IntegerRangeAnalysis>();
  // Without ranges every rule keeps its general form.
  (void)solver.initializeAndRun(root);
}

Sum IndexReader::leaf(Value value) {
  std::optional<int64_t> low, high;
  auto *state = solver.lookupState<dataflow::IntegerValueRangeLattice>(value);
  if (state && !state->getValue().isUninitialized()) {
    const ConstantIntRanges &range = state->getValue().getValue();
    if (range.smin().getBitWidth() == 64 && !range.smin().isMinSignedValue())
      low = range.smin().getSExtValue();
    if (range.smax().getBitWidth() == 64 && !range.smax().isMaxSignedValue())
      high = range.smax().getSExtValue();
  }
  return algebra.leaf(value.getAsOpaquePointer(), low, high);
}

Sum IndexReader::read(Value value) {
  auto found = sums.find(value);
  if (found != sums.end())
    return found->second;
  APInt constant;
  std::optional<Sum> sum;
  if (matchPattern(value, m_ConstantInt(&constant)))
    sum = Sum(constant.getSExtValue());
  else if (auto result = dyn_cast<OpResult>(value))
    sum = readOperation(result.getOwner(), result.getResultNumber());
  // A long sum is no longer worth reading through. Results of lego operations
  // are never leaves: they are replaced.
  bool useful = sum && (value.getDefiningOp<ApplyOp>() ||
                        value.getDefiningOp<InvOp>() ||
                        (!sum->isWrapped() && sum->getTerms().size() <= 32));
  return sums[value] = useful ? *sum : leaf(value);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Division of machine integers is division of integers where the dividend is
/// not negative and the divisor is positive.
std::optional<Sum> IndexReader::divided(const Sum &a, const Sum &n,
                                        bool remainder) {
  auto least = algebra.getLow(n);
  if (!least || *least < 1 || !algebra.isNonNegative(a))
    return std::nullopt;
  return remainder ? algebra.rem(a, n) : algebra.div(a, n);
}

std::optional<Sum> IndexReader::readOperation(Operation *op, unsigned number) {
  if (auto inv = dyn_cast<InvOp>(op)) {
    auto index = readInverse(inv.getLayout(), inv.getPosition(), inv.getSizes());
    for (auto [result, sum] : llvm::zip_equal(op->getResults(), index))
      sums[result] = sum;
    return index[number];
  }
  if (auto apply = dyn_cast<ApplyOp>(op))
    return readPosition(apply.getLayout(), apply.getIndices(),
                        apply.getSizes());
  if (!op->getResult(number).getType().isIndex() ||
      !llvm::all_of(op->getOperandTypes(), [](Type t) { return t.isIndex(); }))
    return std::nullopt;
  if (auto map = dyn_cast<affine::AffineApplyOp>(op)) {
    SmallVector<Sum> operands;
    for (Value operand : map.getMapOperands())
      operands.push_back(read(operand));
    AffineMap affineMap = map.getAffineMap();
    return readAffine(affineMap.getResult(0), affineMap.getNumDims(), operands);
  }
  if (op->getNumOperands() != 2)
    return std::nullopt;
  Value left = op->getOperand(0), right = op->getOperand(1);
  auto binary = [&](auto compute) -> std::optional<Sum> {
    Sum a = read(left), b = read(right);
    return compute(a, b);
  };
  using Result = std::optional<Sum>;
  auto by = [&](Sum (Algebra::*compute)(const Sum &, const Sum &)) -> Result {
    Sum a = read(left), b = read(right);
    return (algebra.*compute)(a, b);
  };
  auto shift = [&](bool toLeft) {
    return binary([&](const Sum &a, const Sum &b) -> Result {
      auto distance = b.getConstant();
      if (!distance || *distance < 0 || *distance > 61)
        return std::nullopt;
      Sum factor = int64_t(1) << *distance;
      return toLeft ? Result(algebra.mul(a, factor)) : divided(a, factor, false);
    });
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<arith::AddIOp, index::AddOp>([&](auto) { return by(&Algebra::add); })
      .Case<arith::SubIOp, index::SubOp>([&](auto) { return by(&Algebra::sub); })
      .Case<arith::MulIOp, index::MulOp>([&](auto) { return by(&Algebra::mul); })
      .Case<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp, index::DivUOp,
            index::DivSOp, index::FloorDivSOp>([&](auto) {
        return binary([&](auto &a, auto &b) { return divided(a, b, false); });
      })
      .Case<arith::RemUIOp, arith::RemSIOp, index::RemUOp, index::RemSOp>(
          [&](auto) {
            return binary(
                [&](auto &a, auto &b) { return divided(a, b, true); });
          })
      .Case<arith::XOrIOp, index::XOrOp>([&](auto) { return by(&Algebra::bitXor); })
      .Case<arith::AndIOp, index::AndOp>([&](auto) { return by(&Algebra::bitAnd); })
      .Case<arith::OrIOp, index::OrOp>([&](auto) { return by(&Algebra::bitOr); })
      .Case<arith::ShLIOp, index::ShlOp>([&](auto) { return shift(true); })
      .Case<arith::ShRUIOp, arith::ShRSIOp, index::ShrUOp, index::ShrSOp>(
          [&](auto) { return shift(false); })
      .Default([](Operation *) -> Result { return std::nullopt; });
}

std::optional<Sum> IndexReader::readAffine(AffineExpr expr, unsigned numDims,
                                           ArrayRef<Sum> operands) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return Sum(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[numDims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  auto left = readAffine(binary.getLHS(), numDims, operands);
  auto right = readAffine(binary.getRHS(), numDims, operands);
  if (!left || !right)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return algebra.add(*left, *right);
  case AffineExprKind::Mul:
    return algebra.mul(*left, *right);
  case AffineExprKind::FloorDiv:
    return divided(*left, *right, false);
  case AffineExprKind::CeilDiv:
    return divided(*left + *right - Sum(1), *right, false);
  case AffineExprKind::Mod:
    return divided(*left, *right, true);
  default:
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

void IndexReader::bindSizes(LayoutAttr layout, ValueRange sizes) {
  SmallVector<Sum> bound;
  for (auto [symbol, size] : llvm::zip_equal(layout.getSymbols(), sizes)) {
    if (auto constant = read(size).getConstant())
      bound.push_back(*constant);
    else
      bound.push_back(algebra.size(
          size.getAsOpaquePointer(),
          {symbol.getMin(), symbol.getMax(), symbol.getMultipleOf()}));
  }
  algebra.symbols = std::move(bound);
  algebra.startLayout();
}

SmallVector<Sum> IndexReader::readIndex(LayoutAttr layout, ValueRange indices,
                                        ValueRange sizes, int64_t tail) {
  SmallVector<Sum> read;
  for (Value index : indices)
    read.push_back(this->read(index));
  bindSizes(layout, sizes); // after reading, which binds those of others
  auto ends = layout.getSizes();
  for (auto [k, end] : llvm::enumerate(ends)) {
    Sum limit = evaluator.size(end);
    if (k + 1 == ends.size())
      limit = limit - Sum(tail);
    read[k] = algebra.indexBelow(read[k], limit);
  }
  return read;
}

Sum IndexReader::readPosition(LayoutAttr layout, ValueRange indices,
                              ValueRange sizes) {
  auto index = readIndex(layout, indices, sizes);
  return evaluator.apply(layout.getView(), index);
}

SmallVector<Sum> IndexReader::readInverse(LayoutAttr layout, Value position,
                                          ValueRange sizes) {
  Sum sum = read(position);
  bindSizes(layout, sizes);
  Sum end = evaluator.size(
      getViewPositions(layout.getView(), layout.getContext()));
  sum = algebra.indexBelow(sum, end);
  return evaluator.inv(layout.getView(), sum);
}

Comparison IndexReader::readMask(LayoutAttr layout, ValueRange indices,
                                 ValueRange sizes) {
  auto index = readIndex(layout, indices, sizes);
  return evaluator.mask(layout.getView(), index);
}

Comparison IndexReader::readHolds(LayoutAttr layout, Value position,
                                  ValueRange sizes) {
  Sum sum = read(position);
  bindSizes(layout, sizes);
  Sum end = evaluator.size(
      getViewPositions(layout.getView(), layout.getContext()));
  sum = algebra.indexBelow(sum, end);
  return evaluator.holds(layout.getView(), sum);
}

bool IndexReader::dependsOn(const Sum &sum, AtomId id) {
  SmallVector<AtomId> work;
  llvm::DenseSet<AtomId> seen;
  auto push = [&](const Sum &part) {
    for (const Term &term : part.getTerms())
      for (AtomId atom : term.atoms)
        if (seen.insert(atom).second)
          work.push_back(atom);
  };
  push(sum);
  while (!work.empty()) {
    AtomId atom = work.pop_back_val();
    if (atom == id)
      return true;
    llvm::for_each(algebra.get(atom).operands, push);
  }
  return false;
}

std::optional<Sum> IndexReader::readVector(LayoutAttr layout, ValueRange indices,
                                           ValueRange sizes, int64_t count) {
  auto index = readIndex(layout, indices, sizes, count - 1);
  // A leaf without a value represents the element's number in the vector.
  Sum element = algebra.leaf(this, 0, count - 1);
  index.back() = index.back() + element;
  Sum first = evaluator.apply(layout.getView(), index) - element;
  if (first.isWrapped() || dependsOn(first, *element.getAtom()))
    return std::nullopt;
  return first;
}
