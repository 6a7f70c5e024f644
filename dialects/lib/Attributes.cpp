//===- Attributes.cpp - Verification of layouts -----------------*- C++ -*-===//
//
// What is checked when a layout is parsed: every part checks itself, and the
// layout, which knows the facts about its symbols, compares element counts.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Algebra.h"
#include "LegoMLIR/Integers.h"
#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Limits.h"
#include "LegoMLIR/Semantics.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

ArrayRef<AffineExpr> lego::getPermSizes(Attribute perm) {
  return llvm::TypeSwitch<Attribute, ArrayRef<AffineExpr>>(perm)
      .Case<RegPAttr, GenPAttr, GalleryAttr, TableAttr>(
          [](auto perm) { return perm.getSizes(); })
      .Default(ArrayRef<AffineExpr>());
}

SmallVector<AffineExpr> lego::getViewSizes(Attribute view) {
  return llvm::TypeSwitch<Attribute, SmallVector<AffineExpr>>(view)
      .Case<GroupByAttr, PaddedAttr, TiledAttr, StridedAttr>(
          [](auto view) { return SmallVector<AffineExpr>(view.getSizes()); })
      .Default(SmallVector<AffineExpr>());
}

AffineExpr lego::getProduct(ArrayRef<AffineExpr> sizes, MLIRContext *context) {
  int64_t factor = 1;
  AffineExpr product;
  for (AffineExpr size : sizes) {
    if (auto constant = dyn_cast<AffineConstantExpr>(size)) {
      if (llvm::MulOverflow(factor, constant.getValue(), factor) ||
          factor > kMaxPositions)
        return {};
    } else {
      product = product ? product * size : size;
    }
  }
  AffineExpr constant = getAffineConstantExpr(factor, context);
  return product ? product * constant : constant;
}

AffineExpr lego::getViewPositions(Attribute view, MLIRContext *context) {
  if (auto padded = dyn_cast<PaddedAttr>(view))
    return getViewPositions(padded.getInner(), context);
  if (auto tiled = dyn_cast<TiledAttr>(view))
    return getViewPositions(tiled.getInner(), context);
  auto strided = dyn_cast<StridedAttr>(view);
  if (!strided)
    return getProduct(getViewSizes(view), context);
  AffineExpr last = getAffineConstantExpr(1, context);
  for (auto [n, stride] :
       llvm::zip_equal(strided.getSizes(), strided.getStrides())) {
    AffineExpr reach = getProduct({n - 1, stride}, context);
    auto a = dyn_cast<AffineConstantExpr>(last);
    auto b = dyn_cast_or_null<AffineConstantExpr>(reach);
    if (!reach || (a && b && b.getValue() > kMaxPositions - a.getValue()))
      return {};
    last = last + reach;
  }
  return last;
}

std::optional<SmallVector<int64_t>>
lego::getConstants(ArrayRef<AffineExpr> sizes) {
  SmallVector<int64_t> values;
  for (AffineExpr size : sizes) {
    auto constant = dyn_cast<AffineConstantExpr>(size);
    if (!constant)
      return std::nullopt;
    values.push_back(constant.getValue());
  }
  return values;
}

SmallVector<AffineExpr> LayoutAttr::getSizes() const {
  return getViewSizes(getView());
}

std::optional<SmallVector<int64_t>> LayoutAttr::getConstantSizes() const {
  return getConstants(getSizes());
}

std::optional<int64_t> LayoutAttr::getConstantPositions() const {
  auto count = dyn_cast<AffineConstantExpr>(
      getViewPositions(getView(), getContext()));
  return count ? std::optional(count.getValue()) : std::nullopt;
}

SmallVector<int64_t> lego::getTileSigma(unsigned rank, unsigned levels) {
  SmallVector<int64_t> sigma;
  for (unsigned axis = 0; axis < rank; ++axis)
    for (unsigned level = 0; level < levels; ++level)
      sigma.push_back(axis + 1 + rank * level);
  return sigma;
}

int64_t lego::getPhases(GalleryAttr swizzle) {
  int64_t columns =
      cast<AffineConstantExpr>(swizzle.getSizes()[1]).getValue();
  int64_t groups = columns / swizzle.getOptions()[0];
  int64_t given = swizzle.getOptions()[2];
  return given ? given : groups & -groups;
}

bool lego::usesGenP(LayoutAttr layout) {
  return layout.walk([](GenPAttr) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

//===----------------------------------------------------------------------===//
// Permutations
//===----------------------------------------------------------------------===//

static LogicalResult verifyTile(EmitError emitError, StringRef owner,
                                ArrayRef<AffineExpr> sizes) {
  if (sizes.empty())
    return emitError() << owner << ": a tile needs at least one size";
  if (sizes.size() > kMaxRank)
    return emitError() << owner << ": a tile has at most " << kMaxRank
                       << " sizes, got " << sizes.size();
  for (AffineExpr size : sizes)
    if (auto constant = dyn_cast<AffineConstantExpr>(size);
        constant && constant.getValue() < 1)
      return emitError() << owner << ": a size is at least 1, got "
                         << constant.getValue();
  if (!getProduct(sizes, sizes.front().getContext()))
    return emitError() << owner << ": more than 2^62 elements";
  return success();
}

LogicalResult SymbolAttr::verify(EmitError emitError, StringAttr name,
                                 int64_t min, int64_t max, int64_t multipleOf) {
  if (min < 1 || multipleOf < 1 || (max && max < min) || max < 0)
    return emitError() << "size '" << name.getValue()
                       << "': min and multiple_of are at least 1, and max is at "
                          "least min; got min "
                       << min << ", max " << max << ", multiple_of "
                       << multipleOf;
  if (max && max / multipleOf * multipleOf < min)
    return emitError() << "size '" << name.getValue() << "': no multiple of "
                       << multipleOf << " is in " << min << ".." << max;
  if (min > kMaxPositions || multipleOf > kMaxPositions || max > kMaxPositions)
    return emitError() << "size '" << name.getValue() << "' exceeds 2^62";
  return success();
}

LogicalResult RegPAttr::verify(EmitError emitError, ArrayRef<AffineExpr> sizes,
                               ArrayRef<int64_t> sigma) {
  if (failed(verifyTile(emitError, "RegP", sizes)))
    return failure();
  int64_t rank = sizes.size();
  SmallVector<int64_t> sorted(sigma);
  llvm::sort(sorted);
  SmallVector<int64_t> zeroBased, oneBased;
  for (int64_t k = 0; k < rank; ++k) {
    zeroBased.push_back(k);
    oneBased.push_back(k + 1);
  }
  if (sorted == zeroBased)
    return emitError() << "RegP: sigma [" << sigma
                       << "] counts axes from 0; sigma is 1-based";
  if (sorted != oneBased)
    return emitError() << "RegP: sigma must order the " << rank
                       << " axes, got [" << sigma << "]; each of 1.." << rank
                       << " appears once";
  return success();
}

LogicalResult GenPAttr::verify(EmitError emitError, ArrayRef<AffineExpr> sizes,
                               FlatSymbolRefAttr symbol) {
  return verifyTile(emitError, "GenP", sizes);
}

static LogicalResult verifyPowers(EmitError emitError, StringRef owner,
                                  ArrayRef<AffineExpr> sizes) {
  for (AffineExpr size : sizes) {
    auto constant = dyn_cast<AffineConstantExpr>(size);
    if (!constant)
      return emitError() << owner << ": sizes must be integers";
    if (!llvm::isPowerOf2_64(constant.getValue()))
      return emitError() << owner << ": sizes must be powers of two, got "
                         << constant.getValue() << "; pad with Padded(...)";
  }
  return success();
}

static LogicalResult verifySwizzle(EmitError emitError, int64_t columns,
                                   ArrayRef<int64_t> options) {
  int64_t vec = options[0], perPhase = options[1], maxPhase = options[2];
  if (vec < 1 || perPhase < 1 || maxPhase < 0)
    return emitError() << "gallery.xor_swizzle: vec, per_phase and max_phase "
                          "are at least 1";
  if (columns % vec)
    return emitError() << "gallery.xor_swizzle: vec=" << vec
                       << " must divide the " << columns << " columns";
  int64_t groups = columns / vec, largest = groups & -groups;
  if (maxPhase && (!llvm::isPowerOf2_64(maxPhase) || groups % maxPhase))
    return emitError() << "gallery.xor_swizzle: max_phase=" << maxPhase
                       << " must be a power of two that divides the " << groups
                       << " groups of a row; " << largest << " is the largest";
  return success();
}

static LogicalResult verifyDealt(EmitError emitError, AffineExpr size,
                                 ArrayRef<int64_t> options) {
  int64_t turn;
  if (options[0] < 1 || options[1] < 1 ||
      llvm::MulOverflow(options[0], options[1], turn) || turn > kMaxPositions)
    return emitError() << "gallery.block_cyclic: block and owners are at least "
                          "1 and their product at most 2^62";
  auto constant = dyn_cast<AffineConstantExpr>(size);
  if (constant && constant.getValue() % turn)
    return emitError() << "gallery.block_cyclic: " << options[1]
                       << " owners times blocks of " << options[0]
                       << " must divide " << constant.getValue();
  return success();
}

LogicalResult GalleryAttr::verify(EmitError emitError, GalleryKind kind,
                                  ArrayRef<AffineExpr> sizes,
                                  ArrayRef<int64_t> options) {
  if (failed(verifyTile(emitError, "gallery", sizes)))
    return failure();
  switch (kind) {
  case GalleryKind::AntiDiagonal:
    // 8*q + 1 of q < n*n must not wrap.
    if (auto n = dyn_cast<AffineConstantExpr>(sizes[0]);
        n && n.getValue() > int64_t(1) << 29)
      return emitError() << "gallery.antidiagonal: the size is at most 2^29";
    return success();
  case GalleryKind::Reverse:
    return success();
  case GalleryKind::Morton:
    return verifyPowers(emitError, "gallery.morton", sizes);
  case GalleryKind::Hilbert:
    return verifyPowers(emitError, "gallery.hilbert", sizes);
  case GalleryKind::BlockCyclic:
    return verifyDealt(emitError, sizes[0], options);
  case GalleryKind::XorSwizzle: {
    auto columns = dyn_cast<AffineConstantExpr>(sizes[1]);
    if (!columns)
      return emitError() << "gallery.xor_swizzle: the number of columns must be "
                            "an integer";
    return verifySwizzle(emitError, columns.getValue(), options);
  }
  case GalleryKind::Grouped:
  case GalleryKind::Columns:
    if (options[0] < 1 || options[0] > INT32_MAX)
      return emitError() << (kind == GalleryKind::Grouped
                                 ? "grids.grouped: rows"
                                 : "grids.columns: width")
                         << " must be at least 1, got " << options[0];
    return success();
  }
  return failure();
}

LogicalResult TableAttr::verify(EmitError emitError, ArrayRef<AffineExpr> sizes,
                                DenseI64ArrayAttr positions, StringAttr name) {
  if (failed(verifyTile(emitError, "gallery.table", sizes)))
    return failure();
  if (!getConstants(sizes))
    return emitError() << "gallery.table: sizes must be integers";
  ArrayRef<int64_t> entries = positions.asArrayRef();
  int64_t elements = cast<AffineConstantExpr>(
                         getProduct(sizes, sizes.front().getContext()))
                         .getValue();
  if (elements != int64_t(entries.size()))
    return emitError() << "gallery.table: " << elements
                       << " positions are needed, got " << entries.size();
  llvm::BitVector seen(elements);
  for (auto [k, position] : llvm::enumerate(entries)) {
    if (position < 0 || position >= elements)
      return emitError() << "gallery.table: entry " << k << " is " << position
                         << ", outside 0.." << elements - 1;
    if (seen.test(position))
      return emitError() << "gallery.table: entries "
                         << llvm::find(entries, position) - entries.begin()
                         << " and " << k << " are both " << position
                         << "; each of 0.." << elements - 1 << " appears once";
    seen.set(position);
  }
  bool identifier =
      !name || (!name.empty() && !llvm::isDigit(name.getValue().front()) &&
                llvm::all_of(name.getValue(), [](char c) {
                  return llvm::isAlnum(c) || c == '_';
                }));
  if (!identifier)
    return emitError() << "gallery.table: the name " << name
                       << " must be an ASCII identifier";
  return success();
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

LogicalResult OrderByAttr::verify(EmitError emitError,
                                  ArrayRef<Attribute> perms) {
  SmallVector<AffineExpr> sizes;
  for (Attribute perm : perms) {
    if (!isa<RegPAttr, GenPAttr, GalleryAttr, TableAttr>(perm))
      return emitError() << "OrderBy takes permutations";
    llvm::append_range(sizes, getPermSizes(perm));
  }
  return verifyTile(emitError, "OrderBy", sizes);
}

LogicalResult GroupByAttr::verify(EmitError emitError,
                                  ArrayRef<OrderByAttr> orders,
                                  ArrayRef<AffineExpr> sizes,
                                  ArrayRef<int64_t> ranks) {
  return verifyTile(emitError, "GroupBy", sizes);
}

LogicalResult PaddedAttr::verify(EmitError emitError, Attribute inner,
                                 ArrayRef<AffineExpr> sizes) {
  size_t rank = getViewSizes(inner).size();
  if (sizes.size() != rank)
    return emitError() << "Padded: the inner layout has " << rank
                       << " sizes, the box has " << sizes.size();
  return verifyTile(emitError, "Padded", sizes);
}

LogicalResult TiledAttr::verify(EmitError emitError, Attribute inner,
                                ArrayRef<AffineExpr> sizes) {
  size_t rank = getViewSizes(inner).size();
  if (sizes.empty() || sizes.size() % rank)
    return emitError() << "tile_by: each level needs " << rank << " sizes";
  return verifyTile(emitError, "tile_by", sizes);
}

LogicalResult StridedAttr::verify(EmitError emitError,
                                  ArrayRef<AffineExpr> sizes,
                                  ArrayRef<AffineExpr> strides) {
  if (sizes.size() != strides.size())
    return emitError() << "Strided: " << sizes.size() << " sizes and "
                       << strides.size() << " strides";
  return verifyTile(emitError, "Strided", sizes);
}

SmallVector<unsigned> lego::getStrideOrder(StridedAttr strided) {
  // Axes in the order of constant strides, or as they are, outermost first.
  SmallVector<unsigned> order;
  for (unsigned axis = 0; axis < strided.getSizes().size(); ++axis)
    order.push_back(axis);
  if (auto strides = getConstants(strided.getStrides()))
    llvm::stable_sort(order, [&](unsigned a, unsigned b) {
      return (*strides)[a] > (*strides)[b];
    });
  return order;
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

namespace {

/// Compares sizes, with what is declared of the symbols.
class SizeComparison {
public:
  explicit SizeComparison(ArrayRef<SymbolAttr> symbols) : evaluator(algebra) {
    for (auto [k, symbol] : llvm::enumerate(symbols))
      algebra.symbols.push_back(algebra.size(
          reinterpret_cast<const void *>(k + 1),
          {symbol.getMin(), symbol.getMax(), symbol.getMultipleOf()}));
  }

  explicit SizeComparison(ArrayRef<int64_t> values) : evaluator(algebra) {
    algebra.symbols.assign(values.begin(), values.end());
  }

  Sum product(ArrayRef<AffineExpr> sizes) {
    Sum result = 1;
    for (AffineExpr size : sizes)
      result = algebra.mul(result, evaluator.size(size));
    return result;
  }
  Sum size(AffineExpr expr) { return evaluator.size(expr); }
  /// Whether a < b is proved.
  bool isLess(const Sum &a, const Sum &b) {
    return algebra.isNonNegative(b - a - Sum(1));
  }
  bool areDifferent(const Sum &a, const Sum &b) {
    return isLess(a, b) || isLess(b, a);
  }
  bool isAtMost(const Sum &a, const Sum &b) {
    return algebra.isNonNegative(b - a);
  }

private:
  Algebra algebra;
  Evaluator<Algebra> evaluator;
};

} // namespace

static std::string show(ArrayRef<AffineExpr> sizes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(sizes, os);
  os << ']';
  return text;
}

static std::string show(AffineExpr size) {
  std::string text;
  llvm::raw_string_ostream(text) << size;
  return text;
}

static LogicalResult verifyGroup(EmitError emitError, GroupByAttr group,
                                 SizeComparison &compare) {
  for (OrderByAttr order : group.getOrders()) {
    SmallVector<AffineExpr> sizes;
    for (Attribute perm : order.getPerms())
      llvm::append_range(sizes, getPermSizes(perm));
    if (compare.areDifferent(compare.product(sizes),
                             compare.product(group.getSizes())))
      return emitError() << "GroupBy: the view " << show(group.getSizes())
                         << " and the reordering " << show(sizes)
                         << " differ in their number of elements";
  }
  return success();
}

static LogicalResult verifyStrided(EmitError emitError, StridedAttr strided,
                                   SizeComparison &compare) {
  // From the smallest stride up, each exceeds the reach of those before.
  Sum reach = 0;
  auto order = getStrideOrder(strided);
  for (unsigned axis : llvm::reverse(order)) {
    Sum stride = compare.size(strided.getStrides()[axis]);
    Sum extent = compare.size(strided.getSizes()[axis]) - Sum(1);
    if (!extent.isZero() && !compare.isLess(reach, stride))
      return emitError() << "Strided: the stride "
                         << show(strided.getStrides()[axis])
                         << " is not proved to exceed the reach of the smaller "
                            "ones";
    reach = reach + extent * stride;
  }
  return success();
}

static LogicalResult verifyView(EmitError emitError, Attribute view,
                                SizeComparison &compare) {
  if (auto group = dyn_cast<GroupByAttr>(view))
    return verifyGroup(emitError, group, compare);
  if (auto strided = dyn_cast<StridedAttr>(view))
    return verifyStrided(emitError, strided, compare);
  if (auto padded = dyn_cast<PaddedAttr>(view)) {
    auto outer = getViewSizes(padded.getInner());
    for (auto [n, limit] : llvm::zip_equal(padded.getSizes(), outer))
      if (compare.isLess(compare.size(limit), compare.size(n)))
        return emitError() << "Padded: " << show(padded.getSizes())
                           << " does not fit into " << show(outer);
    return verifyView(emitError, padded.getInner(), compare);
  }
  auto tiled = dyn_cast<TiledAttr>(view);
  if (!tiled)
    return emitError() << "not a view";
  auto sizes = getViewSizes(tiled.getInner());
  for (auto [axis, n] : llvm::enumerate(sizes)) {
    SmallVector<AffineExpr> levels;
    for (size_t k = axis; k < tiled.getSizes().size(); k += sizes.size())
      levels.push_back(tiled.getSizes()[k]);
    if (compare.isLess(compare.product(levels), compare.size(n)))
      return emitError() << "tile_by: the tiles of axis " << axis
                         << " do not cover its " << show(n) << " elements: "
                         << show(levels);
  }
  return verifyView(emitError, tiled.getInner(), compare);
}

LogicalResult LayoutAttr::verify(EmitError emitError,
                                 ArrayRef<SymbolAttr> symbols, Attribute view) {
  MLIRContext *context = view.getContext();
  if (!getViewPositions(view, context))
    return emitError() << "a layout has at most 2^62 positions";
  SizeComparison compare(symbols);
  return verifyView(emitError, view, compare);
}

bool lego::doSizesAgree(LayoutAttr layout, ArrayRef<int64_t> symbols) {
  SizeComparison compare(symbols);
  MLIRContext *context = layout.getContext();
  // The reason is of no interest.
  ScopedDiagnosticHandler silent(context, [](Diagnostic &) { return success(); });
  auto emitError = [&] { return mlir::emitError(UnknownLoc::get(context)); };
  return succeeded(verifyView(emitError, layout.getView(), compare));
}
