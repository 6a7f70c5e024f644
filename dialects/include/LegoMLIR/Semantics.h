//===- Semantics.h - What a layout computes ---------------------*- C++ -*-===//
//
// One evaluator for every arithmetic. `Evaluator<Domain>` computes the position
// of an index, the index of a position, and the mask, with the operations of a
// domain: 64-bit integers fold constants and enumerate layouts, sums over SSA
// values simplify while they lower.
//
// A domain has a type `Value`, a type `Condition`, and
//
//   constant(c), symbol(k)                an integer, the k-th declared size
//   add, sub, mul, div, rem               floor division of values >= 0 by >= 1
//   bitXor, bitAnd, bitOr, isqrt, minimum of values >= 0
//   less(a, b), both(p, q), always(), select(p, a, b)
//   within(a, n)                          a is known to be in 0 .. n-1
//   look(table, inverse, a)               an entry of a table
//   call(genp, sizes, inverse, arguments) a function of a lego.genp
//
// Order of application, as in the paper: the memory's side comes first in the
// text and last in `apply`. A 2 x 3 example:
//
//   OrderBy(Col(2, 3)) GroupBy([6]):   apply(k) = Col.apply(k div 3, k mod 3)
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_SEMANTICS_H
#define LEGOMLIR_SEMANTICS_H

#include "LegoMLIR/Gallery.h"
#include "LegoMLIR/Lego.h"

namespace lego {

template <typename Domain> class Evaluator {
public:
  using Value = typename Domain::Value;
  using Condition = typename Domain::Condition;
  using Values = llvm::SmallVector<Value>;
  using Index = llvm::ArrayRef<Value>;
  using Sizes = llvm::ArrayRef<mlir::AffineExpr>;

  explicit Evaluator(Domain &domain) : domain(domain) {}

  /// The position of a logical index.
  Value apply(mlir::Attribute view, Index index) {
    if (auto group = llvm::dyn_cast<GroupByAttr>(view))
      return applyGroup(group, index);
    if (auto padded = llvm::dyn_cast<PaddedAttr>(view))
      return apply(padded.getInner(), index);
    if (auto tiled = llvm::dyn_cast<TiledAttr>(view))
      return apply(tiled.getInner(), logical(tiled, index));
    auto strided = llvm::cast<StridedAttr>(view);
    Value position = domain.constant(0);
    for (auto [i, stride] : llvm::zip_equal(index, strided.getStrides()))
      position = domain.add(position, domain.mul(i, size(stride)));
    return position;
  }

  /// The logical index of a position.
  Values inv(mlir::Attribute view, Value position) {
    if (auto group = llvm::dyn_cast<GroupByAttr>(view))
      return invGroup(group, position);
    if (auto padded = llvm::dyn_cast<PaddedAttr>(view))
      return inv(padded.getInner(), position);
    if (auto tiled = llvm::dyn_cast<TiledAttr>(view))
      return invTiled(tiled, position);
    return invStrided(llvm::cast<StridedAttr>(view), position);
  }

  /// Whether an index names an element: false past the end of a partial tile.
  Condition mask(mlir::Attribute view, Index index) {
    if (auto padded = llvm::dyn_cast<PaddedAttr>(view))
      return mask(padded.getInner(), index);
    auto tiled = llvm::dyn_cast<TiledAttr>(view);
    if (!tiled)
      return domain.always();
    Values inner = logical(tiled, index);
    Condition named = domain.always();
    for (auto [i, n] : llvm::zip_equal(inner, getViewSizes(tiled.getInner())))
      named = domain.both(named, domain.less(i, size(n)));
    return domain.both(named, mask(tiled.getInner(), inner));
  }

  /// Whether an element is at a position; `index` is that of the position.
  Condition holds(mlir::Attribute view, Value position) {
    if (llvm::isa<GroupByAttr>(view))
      return domain.always();
    if (auto tiled = llvm::dyn_cast<TiledAttr>(view))
      return holds(tiled.getInner(), position);
    Condition held = domain.always();
    if (auto padded = llvm::dyn_cast<PaddedAttr>(view)) {
      held = holds(padded.getInner(), position);
    } else {
      Value back = apply(view, inv(view, position));
      held = domain.both(domain.less(back, domain.add(position,
                                                      domain.constant(1))),
                         domain.less(position,
                                     domain.add(back, domain.constant(1))));
    }
    mlir::Attribute inner = view;
    if (auto padded = llvm::dyn_cast<PaddedAttr>(view))
      inner = padded.getInner();
    for (auto [i, n] : llvm::zip_equal(inv(inner, position),
                                       getViewSizes(view)))
      held = domain.both(held, domain.less(i, size(n)));
    return held;
  }

  /// The value of a size.
  Value size(mlir::AffineExpr expr) {
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr))
      return domain.constant(constant.getValue());
    if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr))
      return domain.symbol(symbol.getPosition());
    auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
    Value left = size(binary.getLHS());
    // A negative factor is a difference: values of a domain are >= 0.
    if (expr.getKind() == mlir::AffineExprKind::Add)
      return add(left, binary.getRHS());
    Value right = size(binary.getRHS());
    switch (expr.getKind()) {
    case mlir::AffineExprKind::Mul:
      return domain.mul(left, right);
    case mlir::AffineExprKind::FloorDiv:
      return domain.div(left, right);
    case mlir::AffineExprKind::CeilDiv:
      return domain.div(
          domain.sub(domain.add(left, right), domain.constant(1)), right);
    default:
      return domain.rem(left, right);
    }
  }

  Values sizes(Sizes exprs) {
    Values values;
    for (mlir::AffineExpr expr : exprs)
      values.push_back(size(expr));
    return values;
  }

  /// Row-major order: the paper's B.
  Value flatten(Index index, Sizes dims) {
    Value flat = index.front();
    for (auto [i, n] : llvm::zip_equal(index.drop_front(), dims.drop_front()))
      flat = domain.add(domain.mul(flat, size(n)), i);
    return flat;
  }

  /// The inverse of flatten. The outermost coordinate is the last quotient.
  Values unflatten(Value flat, Sizes dims) {
    Values index(dims.size());
    for (unsigned k = dims.size(); --k > 0;) {
      Value n = size(dims[k]);
      index[k] = domain.rem(flat, n);
      flat = domain.div(flat, n);
    }
    index.front() = flat;
    return index;
  }

private:
  Value add(Value left, mlir::AffineExpr right) {
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(right);
        constant && constant.getValue() < 0)
      return domain.sub(left, domain.constant(-constant.getValue()));
    auto product = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(right);
    if (product && right.getKind() == mlir::AffineExprKind::Mul)
      if (auto factor =
              llvm::dyn_cast<mlir::AffineConstantExpr>(product.getRHS());
          factor && factor.getValue() < 0)
        return domain.sub(left, domain.mul(size(product.getLHS()),
                                           domain.constant(-factor.getValue())));
    return domain.add(left, size(right));
  }

  mlir::AffineExpr numel(Sizes dims) {
    return getProduct(dims, dims.front().getContext());
  }

  //===--------------------------------------------------------------------===//
  // Chains
  //===--------------------------------------------------------------------===//

  llvm::SmallVector<mlir::AffineExpr> dimsOf(OrderByAttr order) {
    llvm::SmallVector<mlir::AffineExpr> dims;
    for (mlir::Attribute perm : order.getPerms())
      llvm::append_range(dims, getPermSizes(perm));
    return dims;
  }

  Value applyGroup(GroupByAttr group, Index given) {
    Values index(given);
    llvm::SmallVector<mlir::AffineExpr> dims(group.getSizes());
    for (OrderByAttr order : llvm::reverse(group.getOrders())) {
      auto inner = dimsOf(order);
      if (inner != dims) // otherwise B and its inverse cancel
        index = unflatten(flatten(index, dims), inner);
      index = {applyOrder(order, index)};
      dims = {numel(inner)};
    }
    return flatten(index, dims);
  }

  Values invGroup(GroupByAttr group, Value position) {
    Sizes dims = group.getSizes();
    for (OrderByAttr order : group.getOrders()) {
      auto inner = dimsOf(order);
      Values index = invOrder(order, position);
      if (order == group.getOrders().back() && Sizes(inner) == dims)
        return index;
      position = flatten(index, inner);
    }
    return unflatten(position, dims);
  }

  Value applyOrder(OrderByAttr order, Index index) {
    Value position;
    bool first = true;
    for (mlir::Attribute perm : order.getPerms()) {
      Sizes dims = getPermSizes(perm);
      Value here = applyPerm(perm, index.take_front(dims.size()));
      index = index.drop_front(dims.size());
      position = first ? here
                       : domain.add(domain.mul(position, size(numel(dims))),
                                    here);
      first = false;
    }
    return position;
  }

  Values invOrder(OrderByAttr order, Value position) {
    llvm::SmallVector<mlir::AffineExpr> counts;
    for (mlir::Attribute perm : order.getPerms())
      counts.push_back(numel(getPermSizes(perm)));
    Values offsets = unflatten(position, counts), index;
    for (auto [perm, offset] : llvm::zip_equal(order.getPerms(), offsets))
      index.append(invPerm(perm, offset));
    return index;
  }

  //===--------------------------------------------------------------------===//
  // Permutations
  //===--------------------------------------------------------------------===//

  Value applyPerm(mlir::Attribute perm, Index index) {
    Sizes dims = getPermSizes(perm);
    if (auto regular = llvm::dyn_cast<RegPAttr>(perm)) {
      Values permuted;
      llvm::SmallVector<mlir::AffineExpr> physical;
      for (int64_t axis : regular.getSigma()) {
        permuted.push_back(index[axis - 1]);
        physical.push_back(dims[axis - 1]);
      }
      return flatten(permuted, physical);
    }
    Value n = size(numel(dims));
    if (auto general = llvm::dyn_cast<GenPAttr>(perm))
      return domain.within(
          domain.call(general, sizes(dims), false, index).front(), n);
    if (auto table = llvm::dyn_cast<TableAttr>(perm))
      return domain.look(table, false, flatten(index, dims));
    return Gallery<Domain>(*this, domain)
        .apply(llvm::cast<GalleryAttr>(perm), index);
  }

  Values invPerm(mlir::Attribute perm, Value position) {
    Sizes dims = getPermSizes(perm);
    if (auto regular = llvm::dyn_cast<RegPAttr>(perm)) {
      llvm::SmallVector<mlir::AffineExpr> physical;
      for (int64_t axis : regular.getSigma())
        physical.push_back(dims[axis - 1]);
      Values permuted = unflatten(position, physical), index(dims.size());
      for (auto [axis, i] : llvm::zip_equal(regular.getSigma(), permuted))
        index[axis - 1] = i;
      return index;
    }
    if (auto general = llvm::dyn_cast<GenPAttr>(perm)) {
      Values index = domain.call(general, sizes(dims), true, position);
      for (auto [i, n] : llvm::zip_equal(index, dims))
        i = domain.within(i, size(n));
      return index;
    }
    if (auto table = llvm::dyn_cast<TableAttr>(perm))
      return unflatten(domain.look(table, true, position), dims);
    return Gallery<Domain>(*this, domain)
        .inv(llvm::cast<GalleryAttr>(perm), position);
  }

  //===--------------------------------------------------------------------===//
  // Tiles and strides
  //===--------------------------------------------------------------------===//

  /// The sizes of one axis of a tiled layout, outermost level first.
  static llvm::SmallVector<mlir::AffineExpr> axisOf(TiledAttr tiled,
                                                    unsigned axis,
                                                    unsigned rank) {
    llvm::SmallVector<mlir::AffineExpr> levels;
    for (unsigned k = axis; k < tiled.getSizes().size(); k += rank)
      levels.push_back(tiled.getSizes()[k]);
    return levels;
  }

  Values logical(TiledAttr tiled, Index index) {
    unsigned rank = getViewSizes(tiled.getInner()).size();
    Values inner;
    for (unsigned axis = 0; axis < rank; ++axis) {
      Values parts;
      for (unsigned k = axis; k < index.size(); k += rank)
        parts.push_back(index[k]);
      inner.push_back(flatten(parts, axisOf(tiled, axis, rank)));
    }
    return inner;
  }

  Values invTiled(TiledAttr tiled, Value position) {
    Values inner = inv(tiled.getInner(), position);
    unsigned rank = inner.size();
    Values index(tiled.getSizes().size());
    for (unsigned axis = 0; axis < rank; ++axis)
      for (auto [level, i] : llvm::enumerate(
               unflatten(inner[axis], axisOf(tiled, axis, rank))))
        index[level * rank + axis] = i;
    return index;
  }

  /// Quotients by the strides, from the largest down. The verifier admits only
  /// strides that have such an order.
  Values invStrided(StridedAttr strided, Value position) {
    Values index(strided.getSizes().size(), domain.constant(0));
    for (unsigned axis : getStrideOrder(strided)) {
      Value stride = size(strided.getStrides()[axis]);
      index[axis] = domain.div(position, stride);
      position = domain.rem(position, stride);
    }
    return index;
  }

  Domain &domain;
};

} // namespace lego

#endif // LEGOMLIR_SEMANTICS_H
