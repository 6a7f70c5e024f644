//===- ArithEmitter.cpp - Sums as arithmetic --------------------*- C++ -*-===//

#include "LegoMLIR/Emitters.h"
#include "LegoMLIR/Integers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace lego;

Value Emitter::emit(const Comparison &comparison) {
  if (comparison.never || comparison.less.empty())
    return arith::ConstantIntOp::create(builder, loc, !comparison.never, 1);
  Value all;
  for (const auto &[first, second] : comparison.less) {
    Value a = emit(first), b = emit(second);
    if (!a || !b)
      return {};
    Value less = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                       a, b);
    all = all ? arith::AndIOp::create(builder, loc, all, less) : less;
  }
  return all;
}

Value ArithEmitter::constant(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

Value ArithEmitter::emit(const Sum &sum) {
  Terms positive, negative;
  for (Term term : sum.getTerms()) {
    // factor * (leaf div factor), which is exact, is the leaf.
    for (AtomId &id : term.atoms) {
      const Atom &atom = algebra.get(id);
      if (atom.kind != AtomKind::Exact || term.coefficient % atom.divisor)
        continue;
      term.coefficient /= atom.divisor;
      id = *algebra.leaf(atom.leaf, std::nullopt, std::nullopt).getAtom();
    }
    bool below = term.coefficient < 0 && term.coefficient != INT64_MIN;
    if (below)
      term.coefficient = -term.coefficient;
    (below ? negative : positive).push_back(std::move(term));
  }
  if (negative.empty())
    return emitTerms(std::move(positive));
  Value all = emitTerms(std::move(positive));
  Value less = emitTerms(std::move(negative));
  return all && less ? arith::SubIOp::create(builder, loc, all, less).getResult()
                     : Value();
}

/// The multiplications that a term needs.
static unsigned costOf(const Term &term) {
  return term.atoms.empty() ? 0
                            : term.atoms.size() - 1 + (term.coefficient != 1);
}

static Term commonFactor(const Term &a, const Term &b) {
  Term result;
  result.coefficient = std::gcd(a.coefficient, b.coefficient);
  std::set_intersection(a.atoms.begin(), a.atoms.end(), b.atoms.begin(),
                        b.atoms.end(), std::back_inserter(result.atoms));
  return result;
}

static std::optional<Term> dividedBy(const Term &term, const Term &factor) {
  if (term.coefficient % factor.coefficient ||
      !std::includes(term.atoms.begin(), term.atoms.end(),
                     factor.atoms.begin(), factor.atoms.end()))
    return std::nullopt;
  Term result;
  result.coefficient = term.coefficient / factor.coefficient;
  std::set_difference(term.atoms.begin(), term.atoms.end(),
                      factor.atoms.begin(), factor.atoms.end(),
                      std::back_inserter(result.atoms));
  return result;
}

/// The factor of two or more terms that saves the most multiplications.
static std::optional<Term> bestFactor(ArrayRef<Term> terms) {
  std::optional<Term> best;
  unsigned bestSaved = 0;
  for (unsigned i = 0; i < terms.size(); ++i)
    for (unsigned j = 0; j < i; ++j) {
      Term factor = commonFactor(terms[i], terms[j]);
      unsigned before = 0, after = factor.atoms.size() + (factor.coefficient != 1);
      if (!after)
        continue;
      for (const Term &term : terms)
        if (auto rest = dividedBy(term, factor)) {
          before += costOf(term);
          after += costOf(*rest);
        }
      if (before > after && before - after > bestSaved) {
        bestSaved = before - after;
        best = factor;
      }
    }
  return best;
}

/// A sum of terms with positive coefficients.
Value ArithEmitter::emitTerms(Terms terms) {
  if (terms.empty())
    return constant(0);
  for (Term &term : terms)
    llvm::sort(term.atoms);
  Terms inside, outside;
  std::optional<Term> factor;
  if (terms.size() > 1 && terms.size() <= 16)
    factor = bestFactor(terms);
  for (const Term &term : terms) {
    auto rest = factor ? dividedBy(term, *factor) : std::nullopt;
    (rest ? inside : outside).push_back(rest ? *rest : term);
  }
  Value total;
  if (factor) {
    Value scale = emitTerm(*factor), sum = emitTerms(inside);
    if (!scale || !sum)
      return {};
    total = arith::MulIOp::create(builder, loc, sum, scale);
  }
  // The constant is added last: its term comes first.
  for (const Term &term : llvm::reverse(outside)) {
    Value value = emitTerm(term);
    if (!value)
      return {};
    total = total ? arith::AddIOp::create(builder, loc, total, value) : value;
  }
  return total;
}

Value ArithEmitter::emitTerm(const Term &term) {
  Value product;
  for (AtomId id : term.atoms) {
    Value value = emitAtom(id);
    if (!value)
      return {};
    product = product ? arith::MulIOp::create(builder, loc, product, value)
                      : value;
  }
  if (!product)
    return constant(term.coefficient);
  if (term.coefficient == 1)
    return product;
  return arith::MulIOp::create(builder, loc, product,
                               constant(term.coefficient));
}

//===----------------------------------------------------------------------===//
// Atoms
//===----------------------------------------------------------------------===//

Value ArithEmitter::emitAtom(AtomId id) {
  if (Value known = values.lookup(id))
    return known;
  Value value = emitNewAtom(algebra.get(id));
  if (value)
    values[id] = value;
  return value;
}

template <typename Op> Value ArithEmitter::chain(const Atom &atom) {
  Value all;
  for (const Sum &operand : atom.operands) {
    Value value = emit(operand);
    if (!value)
      return {};
    all = all ? Op::create(builder, loc, all, value) : value;
  }
  return all;
}

Value ArithEmitter::emitNewAtom(const Atom &atom) {
  switch (atom.kind) {
  case AtomKind::Leaf:
    return getLeaf(atom);
  case AtomKind::Exact:
    return arith::DivUIOp::create(builder, loc, getLeaf(atom),
                                  constant(atom.divisor));
  case AtomKind::Div:
    return chain<arith::DivUIOp>(atom);
  case AtomKind::Rem:
    return chain<arith::RemUIOp>(atom);
  case AtomKind::Xor:
    return chain<arith::XOrIOp>(atom);
  case AtomKind::And:
    return chain<arith::AndIOp>(atom);
  case AtomKind::Or:
    return chain<arith::OrIOp>(atom);
  case AtomKind::Min:
    return chain<arith::MinSIOp>(atom);
  case AtomKind::Opaque:
    return emit(atom.operands[0]);
  case AtomKind::Select: {
    Value a = emit(atom.operands[0]), b = emit(atom.operands[1]);
    Value x = emit(atom.operands[2]), y = emit(atom.operands[3]);
    if (!a || !b || !x || !y)
      return {};
    Value less =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
    return arith::SelectOp::create(builder, loc, less, x, y);
  }
  case AtomKind::Isqrt:
    return emitIsqrt(atom);
  case AtomKind::Look:
    return emitLook(atom);
  case AtomKind::Call:
    return emitCall(atom);
  }
  return {};
}

/// The exact integer root from the floating-point one: lego_mlir/printers/
/// isqrt.py has the proof. Below 2^22 f32 is enough, below 2^51 f64; beyond,
/// the root is corrected by one either way.
Value ArithEmitter::emitIsqrt(const Atom &atom) {
  std::optional<int64_t> most = algebra.getHigh(atom.operands[0]);
  bool narrow = most && *most < int64_t(1) << 22;
  Type word = narrow ? builder.getI32Type() : builder.getI64Type();
  Type number = narrow ? Type(builder.getF32Type()) : builder.getF64Type();
  Value x = emit(atom.operands[0]);
  if (!x)
    return {};
  x = arith::IndexCastUIOp::create(builder, loc, word, x);
  Value root = arith::FPToUIOp::create(
      builder, loc, word,
      math::SqrtOp::create(builder, loc,
                           arith::UIToFPOp::create(builder, loc, number, x)));
  if (!most || *most >= int64_t(1) << 51) {
    Value one = arith::ConstantIntOp::create(builder, loc, 1, 64);
    auto squareAbove = [&](Value r, arith::CmpIPredicate predicate) {
      return arith::CmpIOp::create(
          builder, loc, predicate, arith::MulIOp::create(builder, loc, r, r), x);
    };
    root = arith::SelectOp::create(
        builder, loc, squareAbove(root, arith::CmpIPredicate::ugt),
        arith::SubIOp::create(builder, loc, root, one), root);
    Value more = arith::AddIOp::create(builder, loc, root, one);
    root = arith::SelectOp::create(
        builder, loc, squareAbove(more, arith::CmpIPredicate::ugt), root, more);
  }
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(),
                                      root);
}

/// The memref.global of a table in the module around `scope`, made on first use.
static memref::GlobalOp getTable(OpBuilder &builder, Operation *scope,
                                 TableAttr table, bool inverse) {
  Operation *owner = SymbolTable::getNearestSymbolTable(scope);
  ArrayRef<int64_t> positions = table.getPositions();
  SmallVector<uint64_t> entries(positions.size());
  for (auto [k, position] : llvm::enumerate(positions))
    entries[inverse ? position : k] = inverse ? k : position;
  unsigned width = 8;
  while (width < 64 && positions.size() - 1 >> width)
    width *= 2;
  auto type = MemRefType::get(int64_t(entries.size()),
                              builder.getIntegerType(width));
  SmallVector<APInt> words;
  for (uint64_t entry : entries)
    words.push_back(APInt(width, entry));
  auto data = DenseElementsAttr::get(
      RankedTensorType::get(type.getShape(), type.getElementType()), words);
  StringRef wish = table.getName() ? table.getName().getValue() : "lego_table";
  std::string base = (wish + (inverse ? "_inv" : "")).str(), name = base;
  for (unsigned count = 1;; ++count) {
    Operation *other = SymbolTable::lookupSymbolIn(owner, name);
    if (!other)
      break;
    auto global = dyn_cast<memref::GlobalOp>(other);
    if (global && global.getInitialValue() == Attribute(data))
      return global;
    name = base + "_" + std::to_string(count);
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&owner->getRegion(0).front());
  return memref::GlobalOp::create(builder, scope->getLoc(), name,
                                  builder.getStringAttr("private"), type, data,
                                  /*constant=*/true,
                                  builder.getI64IntegerAttr(16));
}

Value ArithEmitter::emitLook(const Atom &atom) {
  Value index = emit(atom.operands[0]);
  if (!index)
    return {};
  auto global = getTable(builder, scope, cast<TableAttr>(atom.attribute),
                         atom.inverse);
  Value entries = memref::GetGlobalOp::create(builder, loc, global.getType(),
                                              global.getSymName());
  Value entry = memref::LoadOp::create(builder, loc, entries, index);
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(),
                                      entry);
}

Value ArithEmitter::emitCall(const Atom &atom) {
  auto perm = cast<GenPAttr>(atom.attribute);
  GenPOp op = lookupGenP(scope, perm);
  if (!op) {
    scope->emitOpError() << perm.getSymbol() << " does not name a lego.genp";
    return {};
  }
  Region &region = atom.inverse ? op.getInv() : op.getApply();
  unsigned own = region.getNumArguments() - op.getNumDynamic();
  SmallVector<Value> arguments;
  for (unsigned k = 0; k < atom.operands.size(); ++k)
    if (k < own || ShapedType::isDynamic(op.getSizes()[k - own]))
      arguments.push_back(emit(atom.operands[k]));
  if (llvm::is_contained(arguments, Value()))
    return {};
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  for (Operation &inner : region.front().without_terminator())
    builder.clone(inner, mapping);
  return mapping.lookupOrDefault(
      region.front().getTerminator()->getOperand(atom.number));
}
