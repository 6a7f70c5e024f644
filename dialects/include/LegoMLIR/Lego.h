//===- Lego.h - The lego dialect --------------------------------*- C++ -*-===//

#ifndef LEGOMLIR_LEGO_H
#define LEGOMLIR_LEGO_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace lego {

/// The named permutations. Their options follow the sizes:
enum class GalleryKind {
  AntiDiagonal, // none
  Morton,       // none
  Hilbert,      // none
  Reverse,      // none
  BlockCyclic,  // block, owners
  XorSwizzle,   // vec, per_phase, max_phase (0: the largest)
  Grouped,      // rows
  Columns,      // width
};

} // namespace lego

#include "LegoMLIR/LegoDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "LegoMLIR/LegoAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "LegoMLIR/LegoTypes.h.inc"

#define GET_OP_CLASSES
#include "LegoMLIR/LegoOps.h.inc"

namespace lego {

/// The sizes of a permutation.
llvm::ArrayRef<mlir::AffineExpr> getPermSizes(mlir::Attribute perm);
/// The logical sizes of a view.
llvm::SmallVector<mlir::AffineExpr> getViewSizes(mlir::Attribute view);
/// The product of sizes; null if constant factors exceed kMaxPositions.
mlir::AffineExpr getProduct(llvm::ArrayRef<mlir::AffineExpr> sizes,
                            mlir::MLIRContext *context);
/// The number of positions of a view, also unused ones.
mlir::AffineExpr getViewPositions(mlir::Attribute view,
                                  mlir::MLIRContext *context);
/// The values of constant sizes; none if a symbol determines one.
std::optional<llvm::SmallVector<int64_t>>
getConstants(llvm::ArrayRef<mlir::AffineExpr> sizes);
/// The sigma of tiles of `rank` axes in `levels` levels: axis by axis, the
/// levels of each axis together. Equals the paper's sigma of d x q.
llvm::SmallVector<int64_t> getTileSigma(unsigned rank, unsigned levels);
/// The largest power of two that divides the groups of a swizzled row, or the
/// given number of phases.
int64_t getPhases(GalleryAttr swizzle);
/// The axes of a strided layout from the largest stride down; empty if the
/// strides are not one-to-one in any order.
llvm::SmallVector<unsigned> getStrideOrder(StridedAttr strided);
/// Whether the layout contains a permutation by functions of a lego.genp.
bool usesGenP(LayoutAttr layout);

} // namespace lego

#endif // LEGOMLIR_LEGO_H
