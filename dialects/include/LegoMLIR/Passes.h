//===- Passes.h - Passes and registration -----------------------*- C++ -*-===//

#ifndef LEGOMLIR_PASSES_H
#define LEGOMLIR_PASSES_H

#include "LegoMLIR/Lego.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace lego {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "LegoMLIR/LegoPasses.h.inc"

} // namespace lego

#endif // LEGOMLIR_PASSES_H
