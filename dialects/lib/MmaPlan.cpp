//===- MmaPlan.cpp - Products of spread tiles -------------------*- C++ -*-===//
//
// Lanes 0 and 1 of a fragment of a or b number elements along K, lanes 2 to 4
// its rows or columns; in the result lanes 0 and 1 number columns, lanes 2 to 4
// rows. An instruction sums over all values of its bits along K, so these may be
// any independent elements along K, if a and b have the same ones in the same
// bits; and its rows and columns may be any of the result, if a and b have those
// of the result. What the instruction's bits do not cover is a loop.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/MmaPlan.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

static constexpr unsigned kLaneBits = 5, kAlongK = 2;

std::optional<MmaKind> lego::getMmaKind(Type operand, Type result) {
  if ((operand.isF16() || operand.isBF16()) && result.isF32())
    return MmaKind{1, 1, 1};
  if (operand.isF32() && result.isF32())
    return MmaKind{0, 1, 1};
  if (operand.isF64() && result.isF64())
    return MmaKind{0, 0, 0};
  if (operand.isInteger(8) && result.isInteger(32))
    return MmaKind{2, 1, 1};
  return std::nullopt;
}

namespace {

/// A basis of a matrix.
struct Basis {
  int64_t row, column;

  bool isRow() const { return row && !column; }
  bool isColumn() const { return column && !row; }
};

/// The bases of a layout, and which registers hold an element.
struct Fragments {
  explicit Fragments(RankedTensorType type)
      : map(getMap(type)), shape(getPaddedShape(type.getShape())),
        inside(getInsideRegisters(type)) {
    for (Bits element : map.columns) {
      auto index = split(element, shape);
      bases.push_back({index[0], index[1]});
    }
    for (unsigned k = 0; k < map.registers; ++k)
      repeats |= span.add(map.columns[k], bit(k)).has_value();
  }

  const Basis &lane(unsigned k) const { return bases[map.registers + k]; }
  const Basis &warp(unsigned k) const {
    return bases[map.registers + map.lanes + k];
  }
  /// The register of an element of lane 0 of warp 0.
  std::optional<Bits> find(int64_t row, int64_t column) const {
    return span.solve(join({row, column}, shape));
  }

  SpreadMap map;
  SmallVector<int64_t> shape;
  llvm::BitVector inside;
  SmallVector<Basis> bases;
  Span span; // of registers
  bool repeats = false;
};

/// Makes the plan of one product.
class MmaPlanner {
public:
  MmaPlanner(const MmaKind &kind, RankedTensorType a, RankedTensorType b,
             RankedTensorType acc)
      : kind(kind), a(a), b(b), c(acc) {}

  std::optional<MmaPlan> plan(std::string &reason);

private:
  const char *checkResult();
  const char *checkOperand(const Fragments &x, bool isLeft);
  const char *chooseSteps();
  const char *addInstruction(MmaPlan &plan, int64_t row, int64_t column,
                             int64_t k);

  const MmaKind &kind;
  Fragments a, b, c;
  SmallVector<int64_t> inK, overK; // of an instruction, and of the loop
  SmallVector<int64_t> overRows, overColumns;
  int64_t upperRow = 0, neighbour = 0; // of the result's registers
};

} // namespace

/// The sum of those numbers whose bits are set.
static int64_t chosen(ArrayRef<int64_t> numbers, Bits bits) {
  int64_t sum = 0;
  for (auto [k, n] : llvm::enumerate(numbers))
    if (bits & bit(k))
      sum ^= n;
  return sum;
}

const char *MmaPlanner::checkResult() {
  if (c.repeats)
    return "registers of the result hold an element twice";
  for (unsigned k = 0; k < kLaneBits; ++k)
    if (!(k < kAlongK ? c.lane(k).isColumn() : c.lane(k).isRow()))
      return "lanes 0 and 1 of the result must number columns, lanes 2 to 4 rows";
  for (const Basis &basis : c.bases)
    if (basis.row && basis.column)
      return "a basis of the result moves along rows and columns";
  for (unsigned k = 0; k < c.map.registers; ++k)
    (c.bases[k].isRow() ? overRows : overColumns)
        .push_back(c.bases[k].row + c.bases[k].column);
  llvm::sort(overRows);
  if (kind.upperRows) {
    if (overRows.empty())
      return "no register of the result numbers rows";
    upperRow = overRows.front();
    overRows.erase(overRows.begin());
  }
  return nullptr;
}

/// That an operand has the rows or columns of the result.
const char *MmaPlanner::checkOperand(const Fragments &x, bool isLeft) {
  auto alongK = [&](const Basis &basis) { return isLeft ? basis.column : basis.row; };
  auto across = [&](const Basis &basis) { return isLeft ? basis.row : basis.column; };
  for (unsigned k = 0; k < kAlongK; ++k)
    if (!alongK(x.lane(k)) || across(x.lane(k)))
      return "lanes 0 and 1 of the operands must number elements along K";
  for (unsigned k = kAlongK; k < kLaneBits; ++k) {
    int64_t wanted;
    if (isLeft)
      wanted = c.lane(k).row;
    else
      wanted = k == kAlongK ? neighbour : c.lane(k - kAlongK - 1).column;
    if (alongK(x.lane(k)) || across(x.lane(k)) != wanted)
      return isLeft ? "lanes 2 to 4 of a must number the rows of the result's"
                    : "lanes 2 to 4 of b must number the columns of a register "
                      "and of lanes 0 and 1 of the result";
  }
  for (unsigned k = 0; k < x.map.warps; ++k)
    if (alongK(x.warp(k)) || across(x.warp(k)) != across(c.warp(k)))
      return isLeft ? "warps of a must have the rows of the result's"
                    : "warps of b must have the columns of the result's";
  return nullptr;
}

const char *MmaPlanner::chooseSteps() {
  SmallVector<int64_t> ofRegisters;
  Span alongK;
  for (unsigned k = 0; k < kAlongK; ++k) {
    if (a.lane(k).column != b.lane(k).row)
      return "lanes 0 and 1 of a and b number different elements along K";
    alongK.add(a.lane(k).column, 0);
  }
  for (unsigned k = 0; k < a.map.registers; ++k)
    if (a.bases[k].isColumn()) {
      if (alongK.add(a.bases[k].column, 0))
        return "registers of a hold elements along K twice";
      ofRegisters.push_back(a.bases[k].column);
    }
  if (ofRegisters.size() + kAlongK != llvm::Log2_64(a.shape[1]) ||
      ofRegisters.size() < kind.neighbours + kind.upperK)
    return "registers of a do not have all elements along K";
  llvm::sort(ofRegisters);
  unsigned own = kind.neighbours + kind.upperK;
  inK.assign(ofRegisters.begin(), ofRegisters.begin() + own);
  overK.assign(ofRegisters.begin() + own, ofRegisters.end());
  return nullptr;
}

/// Appends one instruction, unless its elements are all outside of the tiles.
const char *MmaPlanner::addInstruction(MmaPlan &plan, int64_t row,
                                       int64_t column, int64_t k) {
  auto &made = plan.instructions.emplace_back();
  unsigned outside = 0, all = 0;
  bool missing = false;
  auto add = [&](SmallVectorImpl<Bits> &fragment, const Fragments &x,
                 int64_t r, int64_t s) {
    auto found = x.find(r, s);
    missing |= !found;
    fragment.push_back(found.value_or(0));
    ++all;
    outside += found && !x.inside[*found];
  };
  Bits perRegister = bit(kind.neighbours), registers = bit(kind.upperK);
  int64_t upperK = kind.upperK ? inK.back() : 0;
  for (Bits high = 0; high < registers; ++high)
    for (Bits upper = 0; upper < bit(kind.upperRows); ++upper)
      for (Bits j = 0; j < perRegister; ++j)
        add(made.a, a, row ^ (upper ? upperRow : 0),
            k ^ (high ? upperK : 0) ^
                chosen(ArrayRef<int64_t>(inK).take_front(kind.neighbours), j));
  for (Bits high = 0; high < registers; ++high)
    for (Bits j = 0; j < perRegister; ++j)
      add(made.b, b,
          k ^ (high ? upperK : 0) ^
              chosen(ArrayRef<int64_t>(inK).take_front(kind.neighbours), j),
          column);
  for (Bits upper = 0; upper < bit(kind.upperRows); ++upper)
    for (int64_t n : {int64_t(0), neighbour})
      add(made.c, c, row ^ (upper ? upperRow : 0), column ^ n);
  if (missing)
    return "registers of a and b do not have the result's rows and columns, or "
           "not the same elements along K";
  if (outside == 0)
    return nullptr;
  // A product with elements outside of a tile is left out; one that has both
  // would read what no thread holds.
  auto isOutside = [&](const SmallVectorImpl<Bits> &fragment, const Fragments &x) {
    return llvm::all_of(fragment, [&](Bits r) { return !x.inside[r]; });
  };
  bool whole = isOutside(made.a, a) || isOutside(made.b, b) || isOutside(made.c, c);
  plan.instructions.pop_back();
  return whole ? nullptr : "a tile ends inside what an instruction multiplies";
}

std::optional<MmaPlan> MmaPlanner::plan(std::string &reason) {
  auto fail = [&](const char *why) -> std::optional<MmaPlan> {
    reason = why;
    return std::nullopt;
  };
  for (const Fragments *x : {&a, &b, &c})
    if (x->map.lanes != kLaneBits)
      return fail("a warp has 32 lanes");
  if (a.map.warps != c.map.warps || b.map.warps != c.map.warps)
    return fail("the layouts have different numbers of warps");
  if (const char *why = checkResult())
    return fail(why);
  // Lane 2 of b has the columns of one register of the result.
  neighbour = b.lane(kAlongK).column;
  if (!llvm::is_contained(overColumns, neighbour))
    return fail("lanes 2 to 4 of b must number the columns of a register and of "
                "lanes 0 and 1 of the result");
  llvm::erase(overColumns, neighbour);
  llvm::sort(overColumns);
  if (const char *why = checkOperand(a, /*isLeft=*/true))
    return fail(why);
  if (const char *why = checkOperand(b, /*isLeft=*/false))
    return fail(why);
  if (const char *why = chooseSteps())
    return fail(why);
  MmaPlan plan;
  for (Bits step = 0; step < bit(overK.size()); ++step)
    for (Bits row = 0; row < bit(overRows.size()); ++row)
      for (Bits column = 0; column < bit(overColumns.size()); ++column)
        if (const char *why =
                addInstruction(plan, chosen(overRows, row),
                               chosen(overColumns, column), chosen(overK, step)))
          return fail(why);
  return plan;
}

std::optional<MmaPlan> lego::planMma(const MmaKind &kind, RankedTensorType a,
                                     RankedTensorType b, RankedTensorType acc,
                                     std::string &reason) {
  return MmaPlanner(kind, a, b, acc).plan(reason);
}

//===----------------------------------------------------------------------===//
// Layouts of products
//===----------------------------------------------------------------------===//

/// The sizes 1, 2, 4, .. of an axis below `end`, from `begin` on.
static SmallVector<int64_t> powers(int64_t begin, int64_t end) {
  SmallVector<int64_t> found;
  for (int64_t n = begin; n < end; n *= 2)
    found.push_back(n);
  return found;
}

SpreadAttr lego::getMmaResult(const MmaKind &kind, RankedTensorType type,
                              unsigned laneBits, unsigned warpBits) {
  auto shape = getPaddedShape(type.getShape());
  if (type.getRank() != 2 || laneBits != kLaneBits ||
      type.getDimSize(0) % kind.rows() || type.getDimSize(1) % kind.columns())
    return {};
  SpreadMap map{0, laneBits, warpBits, {}};
  auto add = [&](int64_t row, int64_t column) {
    map.columns.push_back(join({row, column}, shape));
  };
  // Rows and columns that warps may have: those that do not end inside.
  auto whole = [&](unsigned axis, int64_t begin) {
    int64_t n = type.getDimSize(axis);
    return powers(begin, n == shape[axis] ? n : n & -n);
  };
  SmallVector<int64_t> rows = whole(0, kind.rows());
  SmallVector<int64_t> columns = whole(1, kind.columns());
  SmallVector<Bits> warps;
  int64_t firstRow = kind.rows(), firstColumn = kind.columns();
  for (unsigned k = 0; k < warpBits; ++k) {
    if (k < rows.size())
      warps.push_back(join({rows[k], 0}, shape)), firstRow = 2 * rows[k];
    else if (k - rows.size() < columns.size())
      warps.push_back(join({0, columns[k - rows.size()]}, shape)),
          firstColumn = 2 * columns[k - rows.size()];
    else
      warps.push_back(0);
  }
  add(0, 1);
  if (kind.upperRows)
    add(8, 0);
  for (int64_t n : powers(firstColumn, shape[1]))
    add(0, n);
  for (int64_t n : powers(firstRow, shape[0]))
    add(n, 0);
  map.registers = map.columns.size();
  add(0, 2), add(0, 4), add(1, 0), add(2, 0), add(4, 0);
  llvm::append_range(map.columns, warps);
  return getAttr(type.getContext(), map, type.getShape());
}

SpreadAttr lego::getMmaOperand(const MmaKind &kind, unsigned index,
                               RankedTensorType operand, RankedTensorType result,
                               SpreadAttr acc) {
  Fragments c(withSpread(result, acc));
  auto shape = getPaddedShape(operand.getShape());
  if (c.map.lanes != kLaneBits || operand.getDimSize(index ? 0 : 1) % kind.depth())
    return {};
  SpreadMap map{0, c.map.lanes, c.map.warps, {}};
  auto add = [&](int64_t across, int64_t k) {
    map.columns.push_back(index ? join({k, across}, shape) : join({across, k}, shape));
  };
  auto ofResult = [&](const Basis &basis) { return index ? basis.column : basis.row; };
  int64_t neighbour = 0; // the least of the result's registers along columns
  for (unsigned k = 0; k < c.map.registers; ++k)
    if (c.bases[k].isColumn() && (!neighbour || c.bases[k].column < neighbour))
      neighbour = c.bases[k].column;
  SmallVector<int64_t> k = powers(1, shape[index ? 0 : 1]);
  SmallVector<int64_t> alongLanes(k.begin() + kind.neighbours,
                                  k.begin() + kind.neighbours + kAlongK);
  for (int64_t n : k)
    if (!llvm::is_contained(alongLanes, n))
      add(0, n);
  for (unsigned r = 0; r < c.map.registers; ++r)
    if (ofResult(c.bases[r]) && !(index && c.bases[r].column == neighbour))
      add(ofResult(c.bases[r]), 0);
  map.registers = map.columns.size();
  for (int64_t n : alongLanes)
    add(0, n);
  if (index) {
    add(neighbour, 0);
    for (unsigned lane = 0; lane < kAlongK; ++lane)
      add(c.lane(lane).column, 0);
  } else {
    for (unsigned lane = kAlongK; lane < kLaneBits; ++lane)
      add(c.lane(lane).row, 0);
  }
  for (unsigned warp = 0; warp < c.map.warps; ++warp)
    add(ofResult(c.warp(warp)), 0);
  return getAttr(operand.getContext(), map, operand.getShape());
}

FragmentLayouts lego::getFragments(RankedTensorType a, RankedTensorType b,
                                   RankedTensorType result) {
  MmaKind kind = *getMmaKind(a.getElementType(), result.getElementType());
  auto fits = [&](const FragmentLayouts &layouts) {
    std::string reason;
    return layouts.a && layouts.b &&
           planMma(kind, withSpread(a, layouts.a), withSpread(b, layouts.b),
                   withSpread(result, layouts.result), reason);
  };
  auto ofResult = [&](SpreadAttr layout) -> FragmentLayouts {
    if (!layout)
      return {};
    return {getMmaOperand(kind, 0, a, result, layout),
            getMmaOperand(kind, 1, b, result, layout), layout};
  };
  SpreadAttr wanted = getSpread(result);
  FragmentLayouts own{getSpread(a), getSpread(b), wanted};
  if (!fits(own))
    own = ofResult(wanted);
  if (!fits(own))
    own = ofResult(getMmaResult(kind, result, wanted.getLaneBits(),
                                wanted.getWarpBits()));
  return own;
}
