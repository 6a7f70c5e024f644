//===- Bounds.cpp - What is known of the value of a sum ---------*- C++ -*-===//
//
// The bounds of a sum follow from those of its terms. First, atoms that are not
// sizes are replaced by their bounds, which are sums over sizes: the lower bound
// of N - 1 - j, with j <= N - 1, is 0. What is left is decided with the least
// values of the sizes: in N*M - N every size n is written n' + 1, and a sum
// without negative coefficients is not negative.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Algebra.h"
#include "llvm/Support/MathExtras.h"

using namespace lego;

std::optional<Sum> Algebra::lower(const Sum &value) {
  if (value.isWrapped())
    return std::nullopt;
  Sum result;
  for (const Term &term : value.getTerms()) {
    llvm::SmallVector<AtomId> sizes, others;
    for (AtomId id : term.atoms)
      (get(id).isSize ? sizes : others).push_back(id);
    Sum bound;
    bound.add(sizes, term.coefficient);
    for (AtomId id : others) {
      const Atom &atom = get(id);
      const std::optional<Sum> &end = term.coefficient > 0 ? atom.low : atom.high;
      // Products are monotone only where no factor is negative.
      if (!end || (others.size() > 1 &&
                   !(atom.low && isNonNegativeOverSizes(*atom.low))))
        return std::nullopt;
      bound = bound * *end;
    }
    result = result + bound;
  }
  return result.isWrapped() ? std::nullopt : std::optional(result);
}

std::optional<Sum> Algebra::upper(const Sum &value) {
  std::optional<Sum> negated = lower(Sum(0) - value);
  return negated ? std::optional(Sum(0) - *negated) : std::nullopt;
}

bool Algebra::isNonNegative(const Sum &value) {
  std::optional<Sum> least = lower(value);
  return least && isNonNegativeOverSizes(*least);
}

bool Algebra::isBelow(const Sum &value, const Sum &end) {
  return isNonNegative(end - value - Sum(1)) && isNonNegative(value);
}

bool Algebra::isNonNegativeOverSizes(Sum value) {
  auto nonNegative = [&](const Sum &sum) {
    return !sum.isWrapped() && llvm::all_of(sum.getTerms(), [](const Term &t) {
      return t.coefficient >= 0;
    });
  };
  if (nonNegative(value))
    return true;
  llvm::SmallVector<AtomId> involved;
  for (const Term &term : value.getTerms())
    for (AtomId id : term.atoms)
      if (!llvm::is_contained(involved, id))
        involved.push_back(id);
  for (AtomId id : involved) {
    const Atom &atom = get(id);
    auto low = atom.low ? atom.low->getConstant() : std::nullopt;
    auto high = atom.high ? atom.high->getConstant() : std::nullopt;
    bool onlyNegative = llvm::all_of(value.getTerms(), [&](const Term &term) {
      return term.coefficient < 0 || !llvm::is_contained(term.atoms, id);
    });
    if (!low || *low < 0)
      return false;
    // From here on the atom represents its excess over the least value.
    Sum replacement = onlyNegative && high ? Sum(*high)
                                           : Sum(*low) + Sum::atom(id);
    Sum shifted;
    for (const Term &term : value.getTerms()) {
      Sum product = term.coefficient;
      for (AtomId factor : term.atoms)
        product = product * (factor == id ? replacement : Sum::atom(factor));
      shifted = shifted + product;
    }
    value = shifted;
    if (value.isWrapped() || value.getTerms().size() > 256)
      return false;
  }
  return nonNegative(value);
}

/// The least value of a sum over sizes, from the constant bounds of each.
static std::optional<int64_t> leastOverSizes(const Algebra &algebra,
                                             const Sum &value) {
  int64_t total = 0;
  for (const Term &term : value.getTerms()) {
    int64_t product = term.coefficient;
    for (AtomId id : term.atoms) {
      const Atom &atom = algebra.get(id);
      const std::optional<Sum> &end = term.coefficient > 0 ? atom.low : atom.high;
      auto constant = end ? end->getConstant() : std::nullopt;
      if (!constant || *constant < 0 ||
          llvm::MulOverflow(product, *constant, product))
        return std::nullopt;
    }
    if (llvm::AddOverflow(total, product, total))
      return std::nullopt;
  }
  return total;
}

std::optional<int64_t> Algebra::getLow(const Sum &value) {
  std::optional<Sum> least = lower(value);
  return least ? leastOverSizes(*this, *least) : std::nullopt;
}

std::optional<int64_t> Algebra::getHigh(const Sum &value) {
  std::optional<int64_t> negated = getLow(Sum(0) - value);
  return negated && *negated != INT64_MIN ? std::optional(-*negated)
                                          : std::nullopt;
}
