//===- Lowering.h - The walk that both lowerings share ----------*- C++ -*-===//

#ifndef LEGOMLIR_LOWERING_H
#define LEGOMLIR_LOWERING_H

#include "LegoMLIR/Emitters.h"
#include "mlir/Support/LLVM.h"

namespace lego {

/// Makes the emitter for the operations before `scope`.
using MakeEmitter = llvm::function_ref<std::unique_ptr<Emitter>(
    mlir::OpBuilder &, mlir::Operation *scope, Algebra &)>;

/// Replaces the lego operations below `root`. Operations that an emitter
/// refuses are left if `partial`, and otherwise make it fail.
mlir::LogicalResult lowerLego(mlir::Operation *root, MakeEmitter makeEmitter,
                              bool partial);

} // namespace lego

#endif // LEGOMLIR_LOWERING_H
