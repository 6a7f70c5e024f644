//===- Division.cpp - Quotients and remainders of sums ----------*- C++ -*-===//
//
// The rules, in order; each has a condition that the bounds must settle.
//
//   0 <= a < n                       a div n = 0, a rem n = a
//   a = n*q + r, r >= 0              (q + r div n, r rem n)
//   a = g*x + y, 0 <= y < g, n = g*m (x div m, g*(x rem m) + y)
//   (x div m) div n                  x div (m*n)
//   (x rem (n*t)) div n              (x div n) rem t;  .. rem n: x rem n
//   (x ^ y) div 2^k                  (x div 2^k) ^ (y div 2^k), if one vanishes
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Algebra.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace lego;

static constexpr unsigned kMaxDivisionDepth = 64;
/// Divisions of one layout that are simplified; the others are emitted as they
/// are. Chains of dozens of reorderings of many axes reach it.
static constexpr unsigned kMaxDivisions = 4000;

static int64_t floorMod(int64_t a, int64_t n) { return ((a % n) + n) % n; }

/// term / divisor, if it divides.
static std::optional<Term> quotientOf(const Term &term, const Term &divisor) {
  if (term.coefficient % divisor.coefficient)
    return std::nullopt;
  if (!std::includes(term.atoms.begin(), term.atoms.end(),
                     divisor.atoms.begin(), divisor.atoms.end()))
    return std::nullopt;
  Term result;
  result.coefficient = term.coefficient / divisor.coefficient;
  std::set_difference(term.atoms.begin(), term.atoms.end(),
                      divisor.atoms.begin(), divisor.atoms.end(),
                      std::back_inserter(result.atoms));
  return result;
}

static Term greatestCommonFactor(const Term &a, const Term &b) {
  Term result;
  result.coefficient = std::gcd(a.coefficient, b.coefficient);
  std::set_intersection(a.atoms.begin(), a.atoms.end(), b.atoms.begin(),
                        b.atoms.end(), std::back_inserter(result.atoms));
  return result;
}

static Sum sumOf(const Term &term) {
  Sum sum;
  sum.add(term.atoms, term.coefficient);
  return sum;
}

/// The one term of a positive divisor; none for a sum of several.
static const Term *singleTerm(const Sum &n) {
  if (n.isWrapped() || n.getTerms().size() != 1 ||
      n.getTerms().front().coefficient < 1)
    return nullptr;
  return &n.getTerms().front();
}

void Algebra::startLayout() { divisionsBefore = divisions.size(); }

bool Algebra::mayRecurse() const {
  return depth < kMaxDivisionDepth &&
         divisions.size() - divisionsBefore < kMaxDivisions;
}

Algebra::Division Algebra::divide(const Sum &a, const Sum &n) {
  std::vector<uint64_t> key;
  a.profile(key);
  n.profile(key);
  auto found = divisions.find(key);
  if (found != divisions.end())
    return found->second;
  ++depth;
  Division result = divideUncached(a, n);
  --depth;
  divisions.emplace(std::move(key), result);
  return result;
}

Algebra::Division Algebra::divideUncached(const Sum &a, const Sum &n) {
  auto dividend = a.getConstant(), divisor = n.getConstant();
  if (divisor == 1)
    return {a, Sum(0)};
  if (a.isZero())
    return {Sum(0), Sum(0)};
  if (dividend && divisor && *dividend >= 0 && *divisor > 0)
    return {Sum(*dividend / *divisor), Sum(*dividend % *divisor)};
  if (mayRecurse() && isBelow(a, n))
    return {Sum(0), a};
  if (mayRecurse() && !a.isWrapped() && singleTerm(n))
    if (auto split = splitMultiples(a, n))
      return *split;
  return divideRest(a, n);
}

std::optional<Algebra::Division> Algebra::splitMultiples(const Sum &a,
                                                         const Sum &n) {
  Term divisor = *singleTerm(n);
  Sum whole, rest;
  for (const Term &term : a.getTerms()) {
    if (term.atoms.empty())
      continue;
    if (auto quotient = quotientOf(term, divisor))
      whole.add(quotient->atoms, quotient->coefficient);
    else
      rest.add(term.atoms, term.coefficient);
  }
  int64_t offset = a.getOffset();
  Sum moved = whole, remaining;
  bool found = false;
  if (divisor.atoms.empty()) {
    // The constant of the rest makes its least value 0 .. n-1.
    int64_t c = divisor.coefficient, low = getLow(rest).value_or(0), kept;
    if (whole.isZero() && offset >= 0 && offset < c)
      return std::nullopt;
    if (llvm::AddOverflow(offset, low, kept))
      return std::nullopt;
    kept = floorMod(kept, c) - low;
    remaining = rest + Sum(kept);
    moved = whole + Sum((offset - kept) / c);
    found = isNonNegative(remaining);
  }
  for (int64_t k : {0, -1, 1}) {
    if (found || divisor.atoms.empty())
      break;
    remaining = rest + Sum(offset) - n * Sum(k);
    moved = whole + Sum(k);
    found = isNonNegative(remaining);
  }
  if (!found)
    return std::nullopt;
  if (isBelow(remaining, n))
    return Division{moved, remaining};
  if (moved.isZero())
    return std::nullopt;
  auto [quotient, remainder] = divide(remaining, n);
  return Division{add(moved, quotient), remainder};
}

std::optional<Algebra::Division> Algebra::splitFactor(const Sum &a,
                                                      const Sum &n) {
  Term divisor = *singleTerm(n);
  llvm::SmallVector<Term> factors;
  for (const Term &term : a.getTerms()) {
    Term factor = greatestCommonFactor(term, divisor);
    bool trivial = factor.atoms.empty() && factor.coefficient == 1;
    if (!term.atoms.empty() && !trivial)
      factors.push_back(factor);
  }
  llvm::stable_sort(factors, [](const Term &x, const Term &y) {
    return std::pair(x.atoms.size(), x.coefficient) >
           std::pair(y.atoms.size(), y.coefficient);
  });
  for (const Term &factor : factors) {
    Sum above, below;
    for (const Term &term : a.getTerms()) {
      if (auto quotient = quotientOf(term, factor))
        above.add(quotient->atoms, quotient->coefficient);
      else if (term.atoms.empty() && factor.atoms.empty()) {
        int64_t left = floorMod(term.coefficient, factor.coefficient);
        above.add({}, (term.coefficient - left) / factor.coefficient);
        below.add({}, left);
      } else
        below.add(term.atoms, term.coefficient);
    }
    if (above.isZero() || !isBelow(below, sumOf(factor)))
      continue;
    auto [quotient, remainder] =
        divide(above, sumOf(*quotientOf(divisor, factor)));
    return Division{quotient, add(sumOf(factor) * remainder, below)};
  }
  return std::nullopt;
}

std::optional<Algebra::Division> Algebra::bitwiseDivision(const Sum &a,
                                                          const Sum &n) {
  auto id = a.getAtom();
  auto divisor = n.getConstant();
  if (!id || !divisor || !llvm::isPowerOf2_64(*divisor))
    return std::nullopt;
  if (get(*id).kind == AtomKind::Opaque)
    id = get(*id).operands[0].getAtom();
  if (!id)
    return std::nullopt;
  AtomKind kind = get(*id).kind;
  if (kind != AtomKind::Xor && kind != AtomKind::And && kind != AtomKind::Or)
    return std::nullopt;
  llvm::SmallVector<Sum> operands(get(*id).operands.begin(),
                                  get(*id).operands.end());
  std::optional<Division> result;
  bool vanishes = false;
  for (const Sum &operand : operands) {
    if (!isNonNegative(operand))
      return std::nullopt;
    Division part = divide(operand, n);
    vanishes |= !operand.getConstant() &&
                (part.first.getConstant() || part.second.getConstant());
    if (!result)
      result = part;
    else
      result = Division{bitwise(kind, result->first, part.first),
                        bitwise(kind, result->second, part.second)};
  }
  return vanishes ? result : std::nullopt;
}

Algebra::Division Algebra::divideRest(const Sum &a, const Sum &n) {
  auto id = a.getAtom();
  Atom quotient{AtomKind::Div}, remainder{AtomKind::Rem};
  if (mayRecurse() && !a.isWrapped()) {
    if (singleTerm(n))
      if (auto split = splitFactor(a, n))
        return *split;
    if (auto split = bitwiseDivision(a, n))
      return *split;
    if (id && get(*id).kind == AtomKind::Rem && singleTerm(n)) {
      Sum x = get(*id).operands[0], m = get(*id).operands[1];
      const Term *whole = singleTerm(m);
      if (auto t = whole ? quotientOf(*whole, *singleTerm(n)) : std::nullopt)
        return {divide(divide(x, n).first, sumOf(*t)).second,
                divide(x, n).second};
    }
  }
  remainder.operands = {a, n};
  remainder.low = Sum(0);
  if (auto most = upper(n))
    remainder.high = *most - Sum(1);
  if (id && get(*id).kind == AtomKind::Div && mayRecurse()) {
    const Atom &inner = get(*id);
    return {divide(inner.operands[0], inner.operands[1] * n).first,
            make(remainder)};
  }
  quotient.operands = {a, n};
  quotient.low = Sum(0);
  auto greatest = upper(a);
  auto most = getHigh(a), least = getLow(n);
  if (auto low = getLow(a); low && *low > 0)
    if (auto large = getHigh(n); large && *large > 0)
      quotient.low = Sum(*low / *large);
  if (most && least && *least > 0 && *most >= 0)
    quotient.high = Sum(*most / *least);
  else if (greatest && mayRecurse() && !(*greatest == a))
    quotient.high = divide(*greatest, n).first;
  return {make(quotient), make(remainder)};
}
