//===- TransformOps.h - Layouts in transform scripts ------------*- C++ -*-===//

#ifndef LEGOMLIR_TRANSFORMOPS_H
#define LEGOMLIR_TRANSFORMOPS_H

#include "LegoMLIR/Lego.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include <array>

#define GET_OP_CLASSES
#include "LegoMLIR/LegoTransformOps.h.inc"

namespace lego {

/// The transform operations of the dialect.
void registerLegoTransforms(mlir::DialectRegistry &registry);

/// The values of x, y and z, in an array that can be kept or looped over.
std::array<mlir::Value, 3> getAxes(const mlir::gpu::KernelDim3 &values);

/// The constants of x, y and z; empty if one is not known.
llvm::SmallVector<int64_t> getConstants(const mlir::gpu::KernelDim3 &values);

/// Why an allocation cannot be relaid by a layout; empty if it can.
std::string findObstacle(mlir::memref::AllocOp alloc, LayoutAttr layout);

/// Replaces an allocation that has no obstacle, and its uses.
mlir::memref::AllocOp relayout(mlir::RewriterBase &rewriter,
                               mlir::memref::AllocOp alloc, LayoutAttr layout);

/// A layout of a shared allocation, with the wavefronts of all accesses.
struct SharedLayout {
  LayoutAttr layout; // null: as it is
  int64_t wavefronts = 0, rowMajor = 0;
};

/// The cheapest layout with the fewest wavefronts; `reason` is set if the
/// accesses cannot be evaluated.
SharedLayout chooseSharedLayout(mlir::memref::AllocOp alloc,
                                std::string &reason);

} // namespace lego

#endif // LEGOMLIR_TRANSFORMOPS_H
