//===- Integers.h - Layouts evaluated on integers ---------------*- C++ -*-===//
//
// The domain of constant folding and enumeration. Arithmetic that leaves int64,
// divides by zero, or calls a function that does not fold, sets `failed`; the
// results are meaningless from then on.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_INTEGERS_H
#define LEGOMLIR_INTEGERS_H

#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Semantics.h"

namespace lego {

class Integers {
public:
  using Value = int64_t;
  using Condition = bool;

  /// Functions of lego.genp are looked up from `scope`.
  explicit Integers(mlir::Operation *scope) : scope(scope) {}

  bool failed = false;
  llvm::SmallVector<int64_t> symbols;

  int64_t constant(int64_t value) { return value; }
  int64_t symbol(unsigned k) { return symbols[k]; }
  int64_t add(int64_t a, int64_t b);
  int64_t sub(int64_t a, int64_t b);
  int64_t mul(int64_t a, int64_t b);
  int64_t div(int64_t a, int64_t n);
  int64_t rem(int64_t a, int64_t n);
  int64_t bitXor(int64_t a, int64_t b) { return a ^ b; }
  int64_t bitAnd(int64_t a, int64_t b) { return a & b; }
  int64_t bitOr(int64_t a, int64_t b) { return a | b; }
  int64_t minimum(int64_t a, int64_t b) { return std::min(a, b); }
  int64_t isqrt(int64_t a);
  bool always() { return true; }
  bool less(int64_t a, int64_t b) { return a < b; }
  bool both(bool p, bool q) { return p && q; }
  int64_t select(bool p, int64_t a, int64_t b) { return p ? a : b; }
  int64_t within(int64_t a, int64_t n) { return a; }
  int64_t look(TableAttr table, bool inverse, int64_t a);
  llvm::SmallVector<int64_t> call(GenPAttr genp, llvm::ArrayRef<int64_t> sizes,
                                  bool inverse,
                                  llvm::ArrayRef<int64_t> arguments);

  /// The lego.genp of a permutation, where it is not looked up.
  void define(GenPAttr genp, GenPOp op) { functions[genp.getSymbol()] = op; }

private:
  mlir::Operation *scope;
  llvm::DenseMap<mlir::Attribute, std::vector<int64_t>> inverses;
  llvm::DenseMap<mlir::Attribute, GenPOp> functions;
};

/// The results of a region of straight-line code, by folding; none if an
/// operation does not fold.
std::optional<llvm::SmallVector<int64_t>>
evaluateRegion(mlir::Region &region, llvm::ArrayRef<int64_t> arguments);

/// The lego.genp that a permutation names.
GenPOp lookupGenP(mlir::Operation *scope, GenPAttr genp);

/// An index at which a layout is not one-to-one, or its inverse is wrong.
struct CounterExample {
  std::string text;
};

/// Whether values of the symbols agree with each other: counts of a view and its
/// reorderings are equal, padded boxes fit, tiles cover.
bool doSizesAgree(LayoutAttr layout, llvm::ArrayRef<int64_t> symbols);

/// Enumerates a layout with concrete sizes and symbols. `unknown` is set if a
/// function could not be evaluated.
std::optional<CounterExample> findCounterExample(mlir::Attribute view,
                                                 Integers &integers,
                                                 bool &unknown);

/// Enumerates the functions of a lego.genp, with values of its `?` sizes.
std::optional<CounterExample>
findCounterExample(GenPOp op, llvm::ArrayRef<int64_t> dynamicSizes,
                   bool &unknown);

} // namespace lego

#endif // LEGOMLIR_INTEGERS_H
