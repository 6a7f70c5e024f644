//===- Gallery.h - The named permutations -----------------------*- C++ -*-===//
//
// The formulas of lego_mlir/layout/gallery, for every arithmetic of
// Semantics.h.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_GALLERY_H
#define LEGOMLIR_GALLERY_H

#include "LegoMLIR/Lego.h"
#include "llvm/Support/MathExtras.h"

namespace lego {

template <typename Domain> class Evaluator;

template <typename Domain> class Gallery {
public:
  using Value = typename Domain::Value;
  using Values = llvm::SmallVector<Value>;

  Gallery(Evaluator<Domain> &evaluator, Domain &domain)
      : evaluator(evaluator), d(domain) {}

  Value apply(GalleryAttr perm, llvm::ArrayRef<Value> index) {
    auto sizes = perm.getSizes();
    switch (perm.getKind()) {
    case GalleryKind::AntiDiagonal:
      return antiDiagonal(evaluator.size(sizes[0]), index[0], index[1]);
    case GalleryKind::Morton:
      return morton(constant(sizes[0]), constant(sizes[1]), index[0], index[1]);
    case GalleryKind::Hilbert:
      return hilbert(constant(sizes[0]), index[0], index[1]);
    case GalleryKind::Reverse:
      return reversed(perm, evaluator.flatten(index, sizes));
    case GalleryKind::BlockCyclic: {
      auto [rounds, block, owners] = dealt(perm);
      Value turn = c(block * owners);
      Value round = d.div(index[0], turn), within = d.rem(index[0], turn);
      Value owner = d.div(within, c(block));
      return d.add(d.mul(d.add(d.mul(owner, rounds), round), c(block)),
                   d.rem(within, c(block)));
    }
    case GalleryKind::XorSwizzle:
      return d.add(d.mul(index[0], c(constant(sizes[1]))),
                   swizzled(perm, index[0], index[1]));
    case GalleryKind::Grouped:
      return grouped(perm, index[0], index[1], evaluator.size(sizes[0]),
                     evaluator.size(sizes[1]));
    case GalleryKind::Columns:
      return grouped(perm, index[1], index[0], evaluator.size(sizes[1]),
                     evaluator.size(sizes[0]));
    }
    llvm_unreachable("unknown permutation");
  }

  Values inv(GalleryAttr perm, Value p) {
    auto sizes = perm.getSizes();
    switch (perm.getKind()) {
    case GalleryKind::AntiDiagonal:
      return antiDiagonalInv(evaluator.size(sizes[0]), p);
    case GalleryKind::Morton:
      return mortonInv(constant(sizes[0]), constant(sizes[1]), p);
    case GalleryKind::Hilbert:
      return hilbertInv(constant(sizes[0]), p);
    case GalleryKind::Reverse:
      return evaluator.unflatten(reversed(perm, p), sizes);
    case GalleryKind::BlockCyclic: {
      auto [rounds, block, owners] = dealt(perm);
      Value rest = d.div(p, c(block));
      Value owner = d.div(rest, rounds), round = d.rem(rest, rounds);
      return {d.add(d.mul(d.add(d.mul(round, c(owners)), owner), c(block)),
                    d.rem(p, c(block)))};
    }
    case GalleryKind::XorSwizzle: {
      Value columns = c(constant(sizes[1]));
      Value i = d.div(p, columns);
      return {i, swizzled(perm, i, d.rem(p, columns))};
    }
    case GalleryKind::Grouped:
      return groupedInv(perm, p, evaluator.size(sizes[0]),
                        evaluator.size(sizes[1]));
    case GalleryKind::Columns: {
      Values index = groupedInv(perm, p, evaluator.size(sizes[1]),
                                evaluator.size(sizes[0]));
      return {index[1], index[0]};
    }
    }
    llvm_unreachable("unknown permutation");
  }

private:
  Value c(int64_t value) { return d.constant(value); }
  static int64_t constant(mlir::AffineExpr size) {
    return llvm::cast<mlir::AffineConstantExpr>(size).getValue();
  }

  //===--------------------------------------------------------------------===//
  // Anti-diagonals (LEGO, figure 8)
  //===--------------------------------------------------------------------===//

  /// The elements on the diagonals before the one with k elements.
  Value before(Value k) { return d.div(d.mul(k, d.sub(k, c(1))), c(2)); }

  /// Past the longest diagonal, by symmetry, the square is counted from its far
  /// corner.
  Value antiDiagonal(Value n, Value i, Value j) {
    Value fromStart = d.add(d.add(i, j), c(1));
    auto firstHalf = d.less(fromStart, d.add(n, c(1)));
    Value skipped = before(
        d.select(firstHalf, fromStart, d.sub(d.mul(c(2), n), fromStart)));
    Value rest = d.sub(d.sub(d.mul(n, n), n), skipped);
    return d.within(d.add(i, d.select(firstHalf, skipped, rest)), d.mul(n, n));
  }

  Values antiDiagonalInv(Value n, Value p) {
    Value half = d.div(d.mul(n, d.add(n, c(1))), c(2));
    auto firstHalf = d.less(p, half);
    Value last = d.sub(d.mul(n, n), c(1));
    Value q = d.select(firstHalf, p, d.sub(last, p));
    Value k = d.div(d.add(d.isqrt(d.add(d.mul(c(8), q), c(1))), c(1)), c(2));
    Value i = d.sub(q, before(k));
    Value j = d.sub(d.sub(k, c(1)), i);
    Value far = d.sub(n, c(1));
    return {d.within(d.select(firstHalf, i, d.sub(far, i)), n),
            d.within(d.select(firstHalf, j, d.sub(far, j)), n)};
  }

  //===--------------------------------------------------------------------===//
  // Swizzle, reversal, blocks dealt in turn
  //===--------------------------------------------------------------------===//

  Value reversed(GalleryAttr perm, Value flat) {
    auto sizes = perm.getSizes();
    Value n = evaluator.size(getProduct(sizes, perm.getContext()));
    return d.sub(d.sub(n, c(1)), flat);
  }

  std::tuple<Value, int64_t, int64_t> dealt(GalleryAttr perm) {
    int64_t block = perm.getOptions()[0], owners = perm.getOptions()[1];
    Value rounds = d.div(evaluator.size(perm.getSizes()[0]), c(block * owners));
    return {rounds, block, owners};
  }

  /// The column of an element within its row; its own inverse.
  Value swizzled(GalleryAttr perm, Value i, Value j) {
    int64_t vec = perm.getOptions()[0], perPhase = perm.getOptions()[1];
    int64_t columns = constant(perm.getSizes()[1]), phases = getPhases(perm);
    Value phase = d.rem(d.div(i, c(perPhase)), c(phases));
    // vec divides every exclusive-ored term, so the order within a group is
    // unchanged: for a power of two one exclusive or is enough.
    Value column =
        llvm::isPowerOf2_64(vec)
            ? d.bitXor(j, d.mul(phase, c(vec)))
            : d.add(d.mul(d.bitXor(d.div(j, c(vec)), phase), c(vec)),
                    d.rem(j, c(vec)));
    return d.within(column, c(columns));
  }

  //===--------------------------------------------------------------------===//
  // Tile orders: groups of rows, each column by column
  //===--------------------------------------------------------------------===//

  Value grouped(GalleryAttr perm, Value i, Value j, Value m, Value n) {
    Value rows = c(perm.getOptions()[0]);
    Value first = d.mul(d.div(i, rows), rows);
    Value height = d.minimum(d.sub(m, first), rows);
    return d.within(d.add(d.add(d.mul(first, n), d.mul(j, height)),
                          d.sub(i, first)),
                    d.mul(m, n));
  }

  Values groupedInv(GalleryAttr perm, Value p, Value m, Value n) {
    Value rows = c(perm.getOptions()[0]);
    Value whole = d.mul(rows, n);
    Value first = d.mul(d.div(p, whole), rows), within = d.rem(p, whole);
    // An unspecified position could be past the end: keep the divisor positive.
    Value left = d.select(d.less(first, m), d.sub(m, first), c(1));
    Value height = d.minimum(left, rows);
    return {d.within(d.add(first, d.rem(within, height)), m),
            d.within(d.div(within, height), n)};
  }

  //===--------------------------------------------------------------------===//
  // Space-filling curves
  //===--------------------------------------------------------------------===//

  Value shiftLeft(Value a, unsigned k) { return d.mul(a, c(int64_t(1) << k)); }
  Value shiftRight(Value a, unsigned k) { return d.div(a, c(int64_t(1) << k)); }

  static llvm::SmallVector<unsigned> shifts(unsigned k) {
    llvm::SmallVector<unsigned> found;
    for (unsigned width = 1; width < k; width *= 2)
      found.push_back(width);
    return found;
  }

  /// The distance at which two spread words fit into one; 0 if they do not.
  static unsigned apart(unsigned k) {
    auto widths = shifts(k);
    unsigned distance = 2 * k + (widths.empty() ? 1 : widths.back());
    return distance + 2 * k < 64 ? distance : 0;
  }

  /// Mask of k bits in blocks of `width`, each followed by `width` empty bits,
  /// and the same again at `second`.
  static int64_t blocks(unsigned k, unsigned width, unsigned second) {
    int64_t mask = 0;
    for (unsigned bit = 0; bit < k; ++bit)
      mask |= int64_t(1) << (2 * width * (bit / width) + bit % width);
    return mask | (second ? mask << second : 0);
  }

  /// The bits of a k-bit word, with a gap after every bit; also those of the
  /// word at `second`.
  Value spread(Value word, unsigned k, unsigned second = 0) {
    llvm::SmallVector<unsigned> widths = shifts(k);
    for (unsigned shift : llvm::reverse(widths))
      word = d.bitAnd(d.bitOr(word, shiftLeft(word, shift)),
                      c(blocks(k, shift, second)));
    return word;
  }

  /// The inverse of spread; bits at other places are ignored.
  Value gathered(Value word, unsigned k, unsigned second = 0) {
    word = d.bitAnd(word, c(blocks(k, 1, second)));
    for (unsigned shift : shifts(k))
      word = d.bitAnd(d.bitOr(word, shiftRight(word, shift)),
                      c(blocks(k, 2 * shift, second)));
    return word;
  }

  Value interleaved(Value upper, Value lower, unsigned k) {
    unsigned second = apart(k);
    if (!second)
      return d.bitOr(shiftLeft(spread(upper, k), 1), spread(lower, k));
    Value word = spread(d.bitOr(shiftLeft(upper, second), lower), k, second);
    return d.bitAnd(d.bitOr(shiftRight(word, second - 1), word),
                    c((int64_t(1) << 2 * k) - 1));
  }

  /// The bits at odd places, and those at even places.
  std::pair<Value, Value> deinterleaved(Value word, unsigned k) {
    unsigned second = apart(k);
    if (!second)
      return {gathered(shiftRight(word, 1), k), gathered(word, k)};
    Value both =
        gathered(d.bitOr(shiftLeft(word, second - 1), word), k, second);
    return {shiftRight(both, second),
            d.bitAnd(both, c((int64_t(1) << k) - 1))};
  }

  Value morton(int64_t rows, int64_t columns, Value i, Value j) {
    int64_t side = std::min(rows, columns);
    unsigned k = llvm::Log2_64(side);
    Value inside = d.within(
        interleaved(d.rem(i, c(side)), d.rem(j, c(side)), k), c(side * side));
    Value square = d.add(d.div(i, c(side)), d.div(j, c(side)));
    return d.add(d.mul(square, c(side * side)), inside);
  }

  Values mortonInv(int64_t rows, int64_t columns, Value p) {
    int64_t side = std::min(rows, columns);
    unsigned k = llvm::Log2_64(side);
    Value inside = d.rem(p, c(side * side));
    Value beyond = d.mul(d.div(p, c(side * side)), c(side));
    auto [upper, lower] = deinterleaved(inside, k);
    Value i = d.within(upper, c(side)), j = d.within(lower, c(side));
    if (rows > columns)
      return {d.add(i, beyond), j};
    return {i, d.add(j, beyond)};
  }

  /// The state in the place of the next finer level. Every word holds the bit
  /// of one level in place, so that no bit is shifted down to be tested.
  void rotate(Value &transposed, Value &upright, Value unlike,
              Value sideways) {
    transposed = shiftRight(d.bitXor(transposed, sideways), 1);
    upright = shiftRight(d.bitXor(upright, d.bitAnd(unlike, sideways)), 1);
  }

  Value hilbert(int64_t n, Value i, Value j) {
    unsigned k = llvm::Log2_64(n);
    Value difference = d.bitXor(i, j);
    Value complement = c(0), transposed = c(0), upright = c(n >> 1);
    for (unsigned level = k; level-- > 0;) {
      Value bit = c(int64_t(1) << level);
      Value unlike = d.bitAnd(difference, bit);
      Value sideways = d.bitXor(d.bitXor(d.bitAnd(j, bit), upright),
                                d.bitAnd(unlike, transposed));
      complement = d.bitOr(complement, d.bitXor(sideways, unlike));
      rotate(transposed, upright, unlike, sideways);
    }
    return d.within(interleaved(d.bitXor(complement, c(n - 1)), difference, k),
                    c(n * n));
  }

  Values hilbertInv(int64_t n, Value p) {
    unsigned k = llvm::Log2_64(n);
    auto [upper, difference] = deinterleaved(p, k);
    Value complement = d.bitXor(upper, c(n - 1));
    Value j = c(0), transposed = c(0), upright = c(n >> 1);
    for (unsigned level = k; level-- > 0;) {
      Value bit = c(int64_t(1) << level);
      Value unlike = d.bitAnd(difference, bit);
      Value sideways = d.bitXor(d.bitAnd(complement, bit), unlike);
      j = d.bitOr(j, d.bitXor(d.bitXor(sideways, upright),
                              d.bitAnd(unlike, transposed)));
      rotate(transposed, upright, unlike, sideways);
    }
    return {d.within(d.bitXor(j, difference), c(n)), d.within(j, c(n))};
  }

  Evaluator<Domain> &evaluator;
  Domain &d;
};

} // namespace lego

#endif // LEGOMLIR_GALLERY_H
