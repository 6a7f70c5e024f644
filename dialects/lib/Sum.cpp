//===- Sum.cpp - Polynomials with integer coefficients ----------*- C++ -*-===//

#include "LegoMLIR/Algebra.h"
#include "llvm/Support/MathExtras.h"

using namespace lego;

Sum::Sum(int64_t constant) { add({}, constant); }

Sum Sum::atom(AtomId id) {
  Sum sum;
  sum.add({id}, 1);
  return sum;
}

std::optional<int64_t> Sum::getConstant() const {
  if (wrapped || terms.size() > 1 || (terms.size() == 1 && !terms[0].atoms.empty()))
    return std::nullopt;
  return getOffset();
}

int64_t Sum::getOffset() const {
  return terms.empty() || !terms[0].atoms.empty() ? 0 : terms[0].coefficient;
}

std::optional<AtomId> Sum::getAtom() const {
  if (wrapped || terms.size() != 1 || terms[0].atoms.size() != 1 ||
      terms[0].coefficient != 1)
    return std::nullopt;
  return terms[0].atoms[0];
}

void Sum::add(llvm::ArrayRef<AtomId> atoms, int64_t coefficient) {
  if (!coefficient)
    return;
  auto *place = llvm::lower_bound(terms, atoms, [](const Term &t, auto key) {
    return std::lexicographical_compare(t.atoms.begin(), t.atoms.end(),
                                        key.begin(), key.end());
  });
  if (place == terms.end() || llvm::ArrayRef<AtomId>(place->atoms) != atoms) {
    Term term;
    term.atoms.assign(atoms.begin(), atoms.end());
    term.coefficient = coefficient;
    terms.insert(place, std::move(term));
    return;
  }
  wrapped |= llvm::AddOverflow(place->coefficient, coefficient,
                               place->coefficient);
  if (!place->coefficient)
    terms.erase(place);
}

Sum Sum::operator+(const Sum &other) const {
  Sum sum = *this;
  sum.wrapped |= other.wrapped;
  for (const Term &term : other.terms)
    sum.add(term.atoms, term.coefficient);
  return sum;
}

Sum Sum::operator-(const Sum &other) const { return *this + other * Sum(-1); }

Sum Sum::operator*(const Sum &other) const {
  Sum product;
  product.wrapped = wrapped || other.wrapped;
  for (const Term &a : terms)
    for (const Term &b : other.terms) {
      llvm::SmallVector<AtomId, 4> atoms;
      std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(),
                 b.atoms.end(), std::back_inserter(atoms));
      int64_t coefficient;
      product.wrapped |=
          llvm::MulOverflow(a.coefficient, b.coefficient, coefficient);
      product.add(atoms, coefficient);
    }
  return product;
}

bool Sum::operator==(const Sum &other) const {
  return wrapped == other.wrapped && terms.size() == other.terms.size() &&
         llvm::all_of(llvm::zip(terms, other.terms), [](auto pair) {
           auto &[a, b] = pair;
           return a.coefficient == b.coefficient && a.atoms == b.atoms;
         });
}

void Sum::profile(std::vector<uint64_t> &key) const {
  key.push_back(terms.size() << 1 | wrapped);
  for (const Term &term : terms) {
    key.push_back(term.coefficient);
    key.push_back(term.atoms.size());
    key.insert(key.end(), term.atoms.begin(), term.atoms.end());
  }
}
