//===- AffineEmitter.cpp - Sums as affine expressions -----------*- C++ -*-===//
//
// Quotients and remainders by constants and symbols are affine; products of two
// indices, bit operations, roots and tables are not, and are refused.
//
//===----------------------------------------------------------------------===//

#include "LegoMLIR/Emitters.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace lego;

Value AffineEmitter::emit(const Sum &sum) {
  dims.clear();
  symbols.clear();
  AffineExpr expr = convert(sum);
  if (!expr) {
    if (!silent)
      scope->emitOpError() << "is not affine: the layout has products of "
                              "indices, bit operations, roots, tables or "
                              "functions";
    return {};
  }
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return arith::ConstantIndexOp::create(builder, loc, constant.getValue());
  SmallVector<Value> operands(dims);
  llvm::append_range(operands, symbols);
  auto map = AffineMap::get(dims.size(), symbols.size(), expr);
  return builder.createOrFold<affine::AffineApplyOp>(loc, map, operands);
}

AffineExpr AffineEmitter::convert(const Sum &sum) {
  AffineExpr total = builder.getAffineConstantExpr(0);
  for (const Term &term : sum.getTerms()) {
    AffineExpr product = builder.getAffineConstantExpr(term.coefficient);
    for (AtomId id : term.atoms) {
      AffineExpr factor = convertAtom(id);
      if (!factor ||
          (!factor.isSymbolicOrConstant() && !product.isSymbolicOrConstant()))
        return {};
      product = factor.isSymbolicOrConstant() ? product * factor
                                              : factor * product;
    }
    total = total + product;
  }
  return total;
}

AffineExpr AffineEmitter::convertAtom(AtomId id) {
  const Atom &atom = algebra.get(id);
  if (atom.kind == AtomKind::Opaque)
    return convert(atom.operands[0]);
  if (atom.kind == AtomKind::Leaf || atom.kind == AtomKind::Exact) {
    Value value = getLeaf(atom);
    bool symbol = affine::isValidSymbol(value);
    auto &values = symbol ? symbols : dims;
    unsigned place = llvm::find(values, value) - values.begin();
    if (place == values.size())
      values.push_back(value);
    AffineExpr leaf = symbol ? builder.getAffineSymbolExpr(place)
                             : builder.getAffineDimExpr(place);
    return leaf.floorDiv(atom.divisor);
  }
  if (atom.kind != AtomKind::Div && atom.kind != AtomKind::Rem)
    return {};
  AffineExpr dividend = convert(atom.operands[0]);
  AffineExpr divisor = convert(atom.operands[1]);
  if (!dividend || !divisor || !divisor.isSymbolicOrConstant())
    return {};
  return atom.kind == AtomKind::Div ? dividend.floorDiv(divisor)
                                    : dividend % divisor;
}
