//===- Integers.cpp - Layouts evaluated on integers -------------*- C++ -*-===//

#include "LegoMLIR/Integers.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace lego;

int64_t Integers::add(int64_t a, int64_t b) {
  int64_t result;
  failed |= llvm::AddOverflow(a, b, result);
  return result;
}

int64_t Integers::sub(int64_t a, int64_t b) {
  int64_t result;
  failed |= llvm::SubOverflow(a, b, result);
  return result;
}

int64_t Integers::mul(int64_t a, int64_t b) {
  int64_t result;
  failed |= llvm::MulOverflow(a, b, result);
  return result;
}

int64_t Integers::div(int64_t a, int64_t n) {
  failed |= n < 1 || a < 0;
  return n < 1 || a < 0 ? 0 : a / n;
}

int64_t Integers::rem(int64_t a, int64_t n) {
  failed |= n < 1 || a < 0;
  return n < 1 || a < 0 ? 0 : a % n;
}

int64_t Integers::isqrt(int64_t a) {
  failed |= a < 0;
  if (a <= 0)
    return 0;
  int64_t root = std::sqrt(double(a));
  while (root > a / root)
    --root;
  while (root + 1 <= a / (root + 1))
    ++root;
  return root;
}

int64_t Integers::look(TableAttr table, bool inverse, int64_t a) {
  ArrayRef<int64_t> positions = table.getPositions();
  if (a < 0 || a >= int64_t(positions.size())) {
    failed = true;
    return 0;
  }
  if (!inverse)
    return positions[a];
  std::vector<int64_t> &entries = inverses[table];
  if (entries.empty()) {
    entries.resize(positions.size());
    for (auto [k, position] : llvm::enumerate(positions))
      entries[position] = k;
  }
  return entries[a];
}

SmallVector<int64_t> Integers::call(GenPAttr genp, ArrayRef<int64_t> sizes,
                                    bool inverse,
                                    ArrayRef<int64_t> arguments) {
  auto [place, inserted] = functions.try_emplace(genp.getSymbol());
  if (inserted)
    place->second = lookupGenP(scope, genp);
  GenPOp op = place->second;
  SmallVector<int64_t> dummy(inverse ? sizes.size() : 1, 0);
  if (!op || op.getSizes().size() != sizes.size()) {
    failed = true;
    return dummy;
  }
  SmallVector<int64_t> given(arguments);
  for (auto [size, declared] : llvm::zip_equal(sizes, op.getSizes()))
    if (ShapedType::isDynamic(declared))
      given.push_back(size);
  auto results = evaluateRegion(inverse ? op.getInv() : op.getApply(), given);
  failed |= !results;
  return results ? *results : dummy;
}

GenPOp lego::lookupGenP(Operation *scope, GenPAttr genp) {
  return scope ? SymbolTable::lookupNearestSymbolFrom<GenPOp>(scope,
                                                              genp.getSymbol())
               : GenPOp();
}

std::optional<SmallVector<int64_t>>
lego::evaluateRegion(Region &region, ArrayRef<int64_t> arguments) {
  if (!region.hasOneBlock() || region.getNumArguments() != arguments.size())
    return std::nullopt;
  Block &block = region.front();
  Builder builder(region.getContext());
  DenseMap<Value, Attribute> values;
  for (auto [argument, value] : llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = builder.getIndexAttr(value);
  for (Operation &op : block.without_terminator()) {
    SmallVector<Attribute> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values.lookup(operand));
    SmallVector<OpFoldResult> folded;
    if (failed(op.fold(operands, folded)) ||
        folded.size() != op.getNumResults())
      return std::nullopt;
    for (auto [result, value] : llvm::zip_equal(op.getResults(), folded)) {
      auto attribute = dyn_cast<Attribute>(value);
      if (auto operand = dyn_cast<Value>(value))
        attribute = values.lookup(operand);
      if (!attribute)
        return std::nullopt;
      values[result] = attribute;
    }
  }
  SmallVector<int64_t> results;
  for (Value operand : block.getTerminator()->getOperands()) {
    auto value = dyn_cast_or_null<IntegerAttr>(values.lookup(operand));
    if (!value || !value.getType().isIndex())
      return std::nullopt;
    results.push_back(value.getInt());
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Enumeration
//===----------------------------------------------------------------------===//

static std::string show(ArrayRef<int64_t> index) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(index, os);
  os << ']';
  return text;
}

/// The index after `index` in row-major order; false after the last one.
static bool advance(SmallVectorImpl<int64_t> &index, ArrayRef<int64_t> sizes) {
  for (unsigned k = sizes.size(); k-- > 0;) {
    if (++index[k] < sizes[k])
      return true;
    index[k] = 0;
  }
  return false;
}

std::optional<CounterExample>
lego::findCounterExample(Attribute view, Integers &integers, bool &unknown) {
  Evaluator<Integers> evaluator(integers);
  auto sizes = evaluator.sizes(getViewSizes(view));
  int64_t positions =
      evaluator.size(getViewPositions(view, view.getContext()));
  unknown = integers.failed || positions < 1;
  if (unknown)
    return std::nullopt;
  llvm::BitVector taken(positions);
  SmallVector<int64_t> index(sizes.size(), 0);
  auto evaluated = [&](ArrayRef<int64_t> at) { return evaluator.apply(view, at); };
  do {
    bool named = evaluator.mask(view, index);
    if (!named)
      continue;
    int64_t position = evaluated(index);
    if ((unknown = integers.failed))
      return std::nullopt;
    if (position < 0 || position >= positions)
      return CounterExample{"apply maps " + show(index) + " to " +
                            std::to_string(position) + ", outside 0.." +
                            std::to_string(positions - 1)};
    if (taken.test(position)) {
      SmallVector<int64_t> first(sizes.size(), 0);
      while ((!evaluator.mask(view, first) || evaluated(first) != position) &&
             advance(first, sizes))
        ;
      return CounterExample{"apply maps " + show(first) + " and " +
                            show(index) + " both to " +
                            std::to_string(position)};
    }
    taken.set(position);
    auto back = evaluator.inv(view, position);
    if ((unknown = integers.failed))
      return std::nullopt;
    if (ArrayRef<int64_t>(back) != ArrayRef<int64_t>(index))
      return CounterExample{"apply maps " + show(index) + " to " +
                            std::to_string(position) + ", inv maps " +
                            std::to_string(position) + " to " + show(back)};
  } while (advance(index, sizes));
  return std::nullopt;
}
