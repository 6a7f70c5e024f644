//===- Algebra.cpp - Atoms and their operations -----------------*- C++ -*-===//

#include "LegoMLIR/Algebra.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lego;

/// Products with more terms are computed from the values of their factors.
static constexpr unsigned kMaxTerms = 64;

AtomId Algebra::intern(Atom atom) {
  std::vector<uint64_t> key = {
      uint64_t(atom.kind), uint64_t(uintptr_t(atom.leaf)),
      uint64_t(uintptr_t(atom.attribute.getAsOpaquePointer())),
      atom.inverse,        atom.number,
      uint64_t(atom.divisor)};
  for (const Sum &operand : atom.operands)
    operand.profile(key);
  // Bounds belong to the identity of atoms that are assumed to have them.
  if (atom.kind == AtomKind::Leaf || atom.kind == AtomKind::Exact ||
      atom.kind == AtomKind::Opaque) {
    key.push_back(atom.isSize);
    for (const std::optional<Sum> *bound : {&atom.low, &atom.high}) {
      key.push_back(bound->has_value());
      if (*bound)
        (*bound)->profile(key);
    }
  }
  auto [place, inserted] = ids.try_emplace(key, atoms.size());
  if (inserted) {
    if (!atom.operands.empty())
      atom.isSize = llvm::all_of(atom.operands, [&](const Sum &operand) {
        return llvm::all_of(operand.getTerms(), [&](const Term &term) {
          return llvm::all_of(term.atoms,
                              [&](AtomId id) { return atoms[id].isSize; });
        });
      });
    atoms.push_back(std::move(atom));
  }
  return place->second;
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

Sum Algebra::leaf(const void *value, std::optional<int64_t> low,
                  std::optional<int64_t> high) {
  Atom atom{AtomKind::Leaf};
  atom.leaf = value;
  if (low)
    atom.low = Sum(*low);
  if (high)
    atom.high = Sum(*high);
  return make(atom);
}

Sum Algebra::size(const void *value, const SizeFacts &facts) {
  int64_t factor = facts.multipleOf;
  Atom atom{factor == 1 ? AtomKind::Leaf : AtomKind::Exact};
  atom.leaf = value;
  atom.divisor = factor;
  atom.isSize = true;
  atom.low = Sum(std::max<int64_t>(1, llvm::divideCeilSigned(facts.min, factor)));
  if (facts.max)
    atom.high = Sum(facts.max / factor);
  return make(atom) * Sum(factor);
}

Sum Algebra::bounded(const Atom &leaf, const Sum &high) {
  if (high.getConstant() == 0) // the only number below 1
    return Sum(0);
  Atom atom = leaf;
  atom.low = Sum(0);
  // Of two bounds the smaller one; the given one if they cannot be compared.
  if (!leaf.high || !isNonNegative(high - *leaf.high))
    atom.high = high;
  return make(atom);
}

Sum Algebra::indexBelow(const Sum &value, const Sum &end) {
  if (end == Sum(1)) // an axis of one element
    return 0;
  if (isBelow(value, end))
    return value;
  Sum highest = end - Sum(1);
  auto id = value.getAtom();
  if (id && get(*id).kind == AtomKind::Leaf)
    return bounded(get(*id), highest);
  // Each term is at most what the others leave.
  if (value.isWrapped() || !isNonNegative(value))
    return opaque(value, end);
  Sum result;
  for (const Term &term : value.getTerms()) {
    Sum own;
    own.add(term.atoms, term.coefficient);
    std::optional<Sum> others = lower(value - own);
    bool leaf = term.atoms.size() == 1 && term.coefficient > 0 && others &&
                get(term.atoms[0]).kind == AtomKind::Leaf;
    if (leaf) {
      Sum most = divide(highest - *others, term.coefficient).first;
      own = bounded(get(term.atoms[0]), most) * Sum(term.coefficient);
    }
    result = result + own;
  }
  return isBelow(result, end) ? result : opaque(value, end);
}

Sum Algebra::opaque(const Sum &value, const Sum &end) {
  if (end == Sum(1))
    return 0;
  Atom atom{AtomKind::Opaque};
  atom.operands = {value};
  atom.low = Sum(0);
  atom.high = end - Sum(1);
  return make(atom);
}

Sum Algebra::within(const Sum &a, const Sum &n) {
  return isBelow(a, n) ? a : opaque(a, n);
}

//===----------------------------------------------------------------------===//
// Products and sums
//===----------------------------------------------------------------------===//

Sum Algebra::mul(const Sum &a, const Sum &b) {
  if (a.getTerms().size() * b.getTerms().size() <= kMaxTerms)
    return joined(a * b);
  auto sealed = [&](const Sum &sum) {
    Atom atom{AtomKind::Opaque};
    atom.operands = {sum};
    atom.low = lower(sum);
    atom.high = upper(sum);
    return make(atom);
  };
  return sealed(a) * sealed(b);
}

/// n*(t div n) + t rem n = t, and b*((x div b) rem a) + x rem b = x rem (a*b),
/// each times a common factor.
Sum Algebra::joined(Sum sum) {
  auto withoutAtom = [](const Term &term, AtomId id) {
    Sum rest;
    llvm::SmallVector<AtomId, 2> atoms(term.atoms);
    atoms.erase(llvm::find(atoms, id));
    rest.add(atoms, term.coefficient);
    return rest;
  };
  auto contains = [](const Sum &all, const Sum &part) {
    return !part.isZero() && !part.isWrapped() &&
           llvm::all_of(part.getTerms(), [&](const Term &wanted) {
             return llvm::any_of(all.getTerms(), [&](const Term &term) {
               return term.atoms == wanted.atoms &&
                      term.coefficient == wanted.coefficient;
             });
           });
  };
  auto joinOnce = [&]() -> bool {
    for (const Term &term : sum.getTerms())
      for (AtomId id : term.atoms) {
        if (get(id).kind != AtomKind::Rem)
          continue;
        Sum factor = withoutAtom(term, id);
        Sum t = get(id).operands[0], n = get(id).operands[1];
        Sum quotient = divide(t, n).first;
        Sum whole = factor * n * quotient;
        if (contains(sum, whole)) {
          sum = sum - whole - factor * Sum::atom(id) + factor * t;
          return true;
        }
        for (const Term &other : sum.getTerms())
          for (AtomId outer : other.atoms) {
            if (get(outer).kind != AtomKind::Rem ||
                !(get(outer).operands[0] == quotient))
              continue;
            Sum partial = factor * n * Sum::atom(outer);
            if (!contains(sum, partial))
              continue;
            Sum wider = divide(t, n * get(outer).operands[1]).second;
            sum = sum - partial - factor * Sum::atom(id) + factor * wider;
            return true;
          }
      }
    return false;
  };
  for (unsigned round = 0; round < 16 && !sum.isWrapped() && joinOnce(); ++round)
    ;
  return sum;
}

//===----------------------------------------------------------------------===//
// Bit operations
//===----------------------------------------------------------------------===//

Sum Algebra::bitXor(const Sum &a, const Sum &b) {
  return bitwise(AtomKind::Xor, a, b);
}

Sum Algebra::bitOr(const Sum &a, const Sum &b) {
  return bitwise(AtomKind::Or, a, b);
}

Sum Algebra::bitAnd(const Sum &a, const Sum &b) {
  std::optional<int64_t> mask = b.getConstant();
  if (mask && *mask > 0 && llvm::isPowerOf2_64(*mask + 1) &&
      isNonNegative(a))
    return rem(a, *mask + 1);
  return bitwise(AtomKind::And, a, b);
}

static int64_t fold(AtomKind kind, int64_t a, int64_t b) {
  return kind == AtomKind::Xor ? a ^ b : kind == AtomKind::Or ? a | b : a & b;
}

/// The greatest power of two that divides all coefficients.
static unsigned commonZeros(llvm::ArrayRef<Sum> sums) {
  unsigned zeros = 62;
  for (const Sum &sum : sums)
    for (const Term &term : sum.getTerms())
      zeros = std::min<unsigned>(
          zeros, llvm::countr_zero(uint64_t(term.coefficient)));
  return zeros;
}

static Sum scaledDown(const Sum &sum, int64_t factor) {
  Sum result;
  for (const Term &term : sum.getTerms())
    result.add(term.atoms, term.coefficient / factor);
  return result;
}

/// (2^k*x + y) ^ 2^k*z = 2^k*(x ^ z) + y for 0 <= y < 2^k: the bits of y meet
/// only zeros.
std::optional<Sum> Algebra::splitLowBits(AtomKind kind,
                                         llvm::ArrayRef<Sum> operands) {
  for (size_t k = 0; k < operands.size(); ++k) {
    llvm::SmallVector<Sum> others(operands.begin(), operands.end());
    others.erase(others.begin() + k);
    int64_t unit = int64_t(1) << commonZeros(others);
    Sum above, below;
    for (const Term &term : operands[k].getTerms())
      (term.coefficient % unit ? below : above)
          .add(term.atoms, term.coefficient);
    if (unit == 1 || below.isZero() || !isBelow(below, unit))
      continue;
    for (const Sum &other : others)
      above = bitwise(kind, above, other);
    return joined(above + below);
  }
  return std::nullopt;
}

Sum Algebra::bitwise(AtomKind kind, const Sum &a, const Sum &b) {
  llvm::SmallVector<Sum> operands;
  int64_t constant = kind == AtomKind::And ? -1 : 0;
  // Operands of the same operation are operands of this one.
  std::function<void(const Sum &)> gather = [&](const Sum &sum) {
    if (auto value = sum.getConstant()) {
      constant = fold(kind, constant, *value);
      return;
    }
    auto id = sum.getAtom();
    if (id && kind == AtomKind::Xor) {
      const Atom &atom = get(*id);
      auto inner = atom.kind == AtomKind::Opaque ? atom.operands[0].getAtom()
                                                 : id;
      if (inner && get(*inner).kind == kind) {
        llvm::for_each(get(*inner).operands, gather);
        return;
      }
    }
    // x + c is x ^ c where they have no bits in common; (x ^ y) ^ c shares x ^ y.
    int64_t offset = sum.getOffset();
    Sum rest = sum - Sum(offset);
    auto most = getHigh(rest);
    if (kind == AtomKind::Xor && offset > 0 && most && isNonNegative(rest) &&
        *most < (offset & -offset)) {
      constant ^= offset;
      gather(rest);
      return;
    }
    auto *equal = llvm::find(operands, sum);
    if (equal == operands.end())
      operands.push_back(sum);
    else if (kind == AtomKind::Xor)
      operands.erase(equal);
  };
  gather(a);
  gather(b);
  if (operands.empty())
    return constant;
  if (kind == AtomKind::And && !constant)
    return 0;
  if (operands.size() == 1 && constant == (kind == AtomKind::And ? -1 : 0))
    return operands.front();
  if (constant != (kind == AtomKind::And ? -1 : 0))
    operands.push_back(constant);
  if (unsigned zeros = commonZeros(operands)) {
    Sum inner = scaledDown(operands.front(), int64_t(1) << zeros);
    for (const Sum &operand : llvm::drop_begin(operands))
      inner = bitwise(kind, inner, scaledDown(operand, int64_t(1) << zeros));
    return mul(inner, int64_t(1) << zeros);
  }
  if (kind != AtomKind::And)
    if (auto split = splitLowBits(kind, operands))
      return *split;
  llvm::sort(operands, [](const Sum &x, const Sum &y) {
    std::vector<uint64_t> left, right;
    x.profile(left);
    y.profile(right);
    return left < right;
  });
  Atom atom{kind};
  int64_t bits = 0, least = INT64_MAX;
  bool known = true;
  for (const Sum &operand : operands) {
    auto high = getHigh(operand);
    known &= high && isNonNegative(operand);
    bits |= high.value_or(0);
    least = std::min(least, high.value_or(0));
  }
  if (known) {
    atom.low = Sum(0);
    atom.high = Sum(kind == AtomKind::And
                        ? least
                        : int64_t(llvm::NextPowerOf2(bits) - 1));
  }
  atom.operands.assign(operands.begin(), operands.end());
  return make(atom);
}

//===----------------------------------------------------------------------===//
// Selection, roots, tables, functions
//===----------------------------------------------------------------------===//

Sum Algebra::minimum(const Sum &a, const Sum &b) {
  if (isNonNegative(b - a))
    return a;
  if (isNonNegative(a - b))
    return b;
  Atom atom{AtomKind::Min};
  atom.operands = {a, b};
  auto lowA = getLow(a), lowB = getLow(b), highA = getHigh(a),
       highB = getHigh(b);
  if (lowA && lowB)
    atom.low = Sum(std::min(*lowA, *lowB));
  if (highA || highB)
    atom.high = Sum(std::min(highA.value_or(INT64_MAX),
                             highB.value_or(INT64_MAX)));
  else
    atom.high = upper(b);
  return make(atom);
}

Sum Algebra::isqrt(const Sum &a) {
  auto root = [](int64_t x) {
    int64_t r = std::sqrt(double(x));
    while (r > 0 && r > x / r)
      --r;
    while ((r + 1) <= x / (r + 1))
      ++r;
    return r;
  };
  if (auto value = a.getConstant(); value && *value >= 0)
    return root(*value);
  Atom atom{AtomKind::Isqrt};
  atom.operands = {a};
  atom.low = Sum(0);
  if (auto high = getHigh(a); high && *high >= 0)
    atom.high = Sum(root(*high));
  return make(atom);
}

Comparison Algebra::less(const Sum &a, const Sum &b) {
  Comparison result;
  if (isNonNegative(b - a - Sum(1)))
    return result;
  if (isNonNegative(a - b))
    result.never = true;
  else
    result.less.push_back({a, b});
  return result;
}

Comparison Algebra::both(const Comparison &p, const Comparison &q) {
  Comparison result = p;
  result.never |= q.never;
  llvm::append_range(result.less, q.less);
  return result;
}

Sum Algebra::select(const Comparison &p, const Sum &a, const Sum &b) {
  if (p.never || a == b)
    return b;
  Sum result = a;
  for (const auto &[x, y] : llvm::reverse(p.less)) {
    Atom atom{AtomKind::Select};
    atom.operands = {x, y, result, b};
    auto lowA = getLow(result), lowB = getLow(b);
    if (lowA && lowB)
      atom.low = Sum(std::min(*lowA, *lowB));
    auto highA = upper(result), highB = upper(b);
    if (highA && highB && isNonNegative(*highA - *highB))
      atom.high = highA;
    else if (highA && highB && isNonNegative(*highB - *highA))
      atom.high = highB;
    result = make(atom);
  }
  return result;
}

Sum Algebra::look(TableAttr table, bool inverse, const Sum &a) {
  ArrayRef<int64_t> positions = table.getPositions();
  if (auto k = a.getConstant()) {
    if (!inverse && *k >= 0 && *k < int64_t(positions.size()))
      return positions[*k];
    if (inverse)
      return llvm::find(positions, *k) - positions.begin();
  }
  Atom atom{AtomKind::Look};
  atom.operands = {a};
  atom.attribute = table;
  atom.inverse = inverse;
  atom.low = Sum(0);
  atom.high = Sum(int64_t(positions.size()) - 1);
  return make(atom);
}

llvm::SmallVector<Sum> Algebra::call(GenPAttr genp, ArrayRef<Sum> sizes,
                                     bool inverse, ArrayRef<Sum> arguments) {
  llvm::SmallVector<Sum> results;
  for (unsigned k = 0, n = inverse ? sizes.size() : 1; k < n; ++k) {
    Atom atom{AtomKind::Call};
    atom.operands.assign(arguments.begin(), arguments.end());
    atom.operands.append(sizes.begin(), sizes.end());
    atom.attribute = genp;
    atom.inverse = inverse;
    atom.number = k;
    results.push_back(make(atom));
  }
  return results;
}
