//===- Algebra.h - Sums over atoms, simplified with bounds ------*- C++ -*-===//
//
// Index arithmetic as polynomials. An atom is a value that is not a sum or a
// product: an SSA value, a size, a quotient, an exclusive or. A `Sum` is an
// integer combination of products of atoms, so equality by the laws of the ring
// is equality of objects. Atoms are hash-consed in an `Algebra`, which also
// knows bounds of each: constants, or sums over sizes for symbolic layouts.
//
// Division uses the bounds. With 0 <= j < 32,
//
//   (32*i + j) div 32 = i        32 divides the first term; the rest is below 32
//   (32*i + j) rem 32 = j
//   (32*i + 8*k) div 64 = (4*i + k) div 8                     common factors
//   n*(t div n) + (t rem n) = t                               on addition
//
// Coefficients may be negative, as long as the bounds of the whole sum show that
// it is not: what is known of a sum is computed from its terms, never assumed.
// Coefficients that overflow mark a sum as wrapped; nothing is concluded of it.
//
// `Algebra` is a domain of the evaluator in Semantics.h.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_ALGEBRA_H
#define LEGOMLIR_ALGEBRA_H

#include "LegoMLIR/Lego.h"
#include <deque>
#include <map>

namespace lego {

using AtomId = unsigned;

/// coefficient * product of atoms, which are sorted.
struct Term {
  llvm::SmallVector<AtomId, 2> atoms;
  int64_t coefficient = 0;
};

/// A sum of terms with different atoms, sorted by them; the constant first.
class Sum {
public:
  Sum() = default;
  Sum(int64_t constant);
  static Sum atom(AtomId id);

  llvm::ArrayRef<Term> getTerms() const { return terms; }
  bool isZero() const { return terms.empty() && !wrapped; }
  std::optional<int64_t> getConstant() const;
  /// The coefficient of the term without atoms.
  int64_t getOffset() const;
  /// The atom that is the whole sum, with coefficient 1.
  std::optional<AtomId> getAtom() const;
  bool isWrapped() const { return wrapped; }

  void add(llvm::ArrayRef<AtomId> atoms, int64_t coefficient);
  Sum operator+(const Sum &other) const;
  Sum operator-(const Sum &other) const;
  Sum operator*(const Sum &other) const;
  bool operator==(const Sum &other) const;
  /// A sequence of words that determines the sum.
  void profile(std::vector<uint64_t> &key) const;

private:
  llvm::SmallVector<Term, 2> terms;
  bool wrapped = false;
};

/// A conjunction of comparisons `first < second`; empty: true.
struct Comparison {
  bool never = false;
  llvm::SmallVector<std::pair<Sum, Sum>, 1> less;
};

enum class AtomKind {
  Leaf,   // an SSA value, or the k-th symbol of a layout that is verified
  Exact,  // a leaf divided by a divisor that its declaration promises
  Div,    // operands[0] div operands[1], of values >= 0
  Rem,    // operands[0] rem operands[1]
  Xor,    // all operands; those that cancel are gone
  And,    // of two operands
  Or,     // of two operands
  Min,    // of two operands
  Select, // operands[0] < operands[1] ? operands[2] : operands[3]
  Isqrt,  // of one operand
  Look,   // entry operands[0] of a table
  Call,   // a result of a function of a lego.genp
  Opaque, // operands[0], a sum whose terms are not looked at
};

struct Atom {
  AtomKind kind;
  llvm::SmallVector<Sum, 1> operands;
  const void *leaf = nullptr; // of Leaf and Exact: an mlir::Value or a number
  mlir::Attribute attribute;  // of Look and Call
  bool inverse = false;       // of Look and Call: the inverse function
  unsigned number = 0;        // of Call: the result
  int64_t divisor = 1;        // of Exact
  bool isSize = false;        // depends on sizes alone
  std::optional<Sum> low, high; // inclusive bounds, sums over sizes
};

/// What a declaration promises of a size.
struct SizeFacts {
  int64_t min = 1, max = 0, multipleOf = 1;
};

class Algebra {
public:
  using Value = Sum;
  using Condition = Comparison;

  const Atom &get(AtomId id) const { return atoms[id]; }

  //===--------------------------------------------------------------------===//
  // Atoms
  //===--------------------------------------------------------------------===//

  /// An SSA value with constant bounds, where they are known.
  Sum leaf(const void *value, std::optional<int64_t> low,
           std::optional<int64_t> high);
  /// A size: a factor times an atom if a divisor is promised.
  Sum size(const void *value, const SizeFacts &facts);
  /// `value` where it is known to be an index below `end`: its leaves get
  /// bounds, or else it becomes an atom with bounds.
  Sum indexBelow(const Sum &value, const Sum &end);
  /// A sum as one atom with the bounds 0 and end - 1.
  Sum opaque(const Sum &value, const Sum &end);

  //===--------------------------------------------------------------------===//
  // The domain of the evaluator
  //===--------------------------------------------------------------------===//

  /// The values of the declared sizes, set for each layout.
  llvm::SmallVector<Sum> symbols;
  /// Begins the evaluation of a layout, whose number of rules is bounded.
  void startLayout();

  Sum constant(int64_t value) { return value; }
  Sum symbol(unsigned k) { return symbols[k]; }
  Sum add(const Sum &a, const Sum &b) { return joined(a + b); }
  Sum sub(const Sum &a, const Sum &b) { return joined(a - b); }
  Sum mul(const Sum &a, const Sum &b);
  Sum div(const Sum &a, const Sum &n) { return divide(a, n).first; }
  Sum rem(const Sum &a, const Sum &n) { return divide(a, n).second; }
  Sum bitXor(const Sum &a, const Sum &b);
  Sum bitAnd(const Sum &a, const Sum &b);
  Sum bitOr(const Sum &a, const Sum &b);
  Sum minimum(const Sum &a, const Sum &b);
  Sum isqrt(const Sum &a);
  Comparison always() { return {}; }
  Comparison less(const Sum &a, const Sum &b);
  Comparison both(const Comparison &p, const Comparison &q);
  Sum select(const Comparison &p, const Sum &a, const Sum &b);
  Sum within(const Sum &a, const Sum &n);
  Sum look(TableAttr table, bool inverse, const Sum &a);
  llvm::SmallVector<Sum> call(GenPAttr genp, llvm::ArrayRef<Sum> sizes,
                              bool inverse, llvm::ArrayRef<Sum> arguments);

  //===--------------------------------------------------------------------===//
  // Bounds
  //===--------------------------------------------------------------------===//

  /// Whether a sum is proved to be >= 0 for all values of its atoms.
  bool isNonNegative(const Sum &value);
  /// Whether 0 <= value < end is proved.
  bool isBelow(const Sum &value, const Sum &end);
  /// The least and the greatest value, if they are known constants.
  std::optional<int64_t> getLow(const Sum &value);
  std::optional<int64_t> getHigh(const Sum &value);

private:
  using Division = std::pair<Sum, Sum>;

  AtomId intern(Atom atom);
  Sum make(Atom atom) { return Sum::atom(intern(std::move(atom))); }
  Sum bitwise(AtomKind kind, const Sum &a, const Sum &b);
  std::optional<Division> bitwiseDivision(const Sum &a, const Sum &n);
  std::optional<Sum> splitLowBits(AtomKind kind, llvm::ArrayRef<Sum> operands);
  Sum bounded(const Atom &leaf, const Sum &high);

  /// Whether the bounds on time and stack leave room for another rule.
  bool mayRecurse() const;
  Division divide(const Sum &a, const Sum &n);
  Division divideUncached(const Sum &a, const Sum &n);
  std::optional<Division> splitMultiples(const Sum &a, const Sum &n);
  std::optional<Division> splitFactor(const Sum &a, const Sum &n);
  Division divideRest(const Sum &a, const Sum &n);
  Sum joined(Sum sum);

  /// Bounds as sums over sizes.
  std::optional<Sum> lower(const Sum &value);
  std::optional<Sum> upper(const Sum &value);
  bool isNonNegativeOverSizes(Sum value);

  std::deque<Atom> atoms; // references stay valid
  std::map<std::vector<uint64_t>, AtomId> ids;
  std::map<std::vector<uint64_t>, Division> divisions;
  unsigned depth = 0;
  size_t divisionsBefore = 0;
};

} // namespace lego

#endif // LEGOMLIR_ALGEBRA_H
