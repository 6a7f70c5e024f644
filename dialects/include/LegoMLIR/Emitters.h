//===- Emitters.h - Sums as operations --------------------------*- C++ -*-===//
//
// The ways back from a sum to MLIR: arithmetic, or one affine.apply.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_EMITTERS_H
#define LEGOMLIR_EMITTERS_H

#include "LegoMLIR/Algebra.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace lego {

/// Emits sums before an operation, `scope`, from which symbols are looked up.
/// Atoms are emitted once.
class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Operation *scope, Algebra &algebra)
      : builder(builder), scope(scope), loc(scope->getLoc()),
        algebra(algebra) {}
  virtual ~Emitter() = default;

  /// The value of a sum; null if it cannot be emitted, which was reported.
  virtual mlir::Value emit(const Sum &sum) = 0;
  mlir::Value emit(const Comparison &comparison);

  /// Values that were replaced while their sums were in use.
  const llvm::DenseMap<mlir::Value, mlir::Value> *replaced = nullptr;

protected:
  /// The SSA value of a leaf.
  mlir::Value getLeaf(const Atom &atom) const {
    auto value = mlir::Value::getFromOpaquePointer(atom.leaf);
    mlir::Value other = replaced ? replaced->lookup(value) : mlir::Value();
    return other ? other : value;
  }

  mlir::OpBuilder &builder;
  mlir::Operation *scope;
  mlir::Location loc;
  Algebra &algebra;
};

/// Operations of arith; also math.sqrt, tables and functions.
class ArithEmitter : public Emitter {
public:
  using Emitter::Emitter;
  using Emitter::emit;
  mlir::Value emit(const Sum &sum) override;

private:
  using Terms = llvm::SmallVector<Term>;

  mlir::Value emitAtom(AtomId id);
  mlir::Value emitNewAtom(const Atom &atom);
  mlir::Value emitTerms(Terms terms);
  mlir::Value emitTerm(const Term &term);
  mlir::Value emitIsqrt(const Atom &atom);
  mlir::Value emitLook(const Atom &atom);
  mlir::Value emitCall(const Atom &atom);
  mlir::Value constant(int64_t value);
  template <typename Op> mlir::Value chain(const Atom &atom);

  llvm::DenseMap<AtomId, mlir::Value> values;
};

/// One affine.apply for each sum.
class AffineEmitter : public Emitter {
public:
  AffineEmitter(mlir::OpBuilder &builder, mlir::Operation *scope,
                Algebra &algebra, bool silent)
      : Emitter(builder, scope, algebra), silent(silent) {}
  using Emitter::emit;
  mlir::Value emit(const Sum &sum) override;

private:
  mlir::AffineExpr convert(const Sum &sum);
  mlir::AffineExpr convertAtom(AtomId id);

  bool silent;
  llvm::SmallVector<mlir::Value> dims, symbols;
};

} // namespace lego

#endif // LEGOMLIR_EMITTERS_H
