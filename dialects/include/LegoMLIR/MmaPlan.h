//===- MmaPlan.h - Products of spread tiles ---------------------*- C++ -*-===//
//
// A lego.mma is a sequence of mma.sync, each on a few registers of every lane of
// a warp. Which registers follows from the three layouts.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_MMAPLAN_H
#define LEGOMLIR_MMAPLAN_H

#include "LegoMLIR/Spread.h"

namespace lego {

/// The mma.sync of an element type: the bits of the fragments of one lane. (PTX
/// ISA, "Matrix Fragments for mma".)
struct MmaKind {
  unsigned neighbours; // bits along K that a register of a fragment has
  unsigned upperK;     // bits along K above those of the lanes, 0 or 1
  unsigned upperRows;  // bits of rows above those of the lanes, 0 or 1

  int64_t rows() const { return 8 << upperRows; }
  int64_t columns() const { return 8; }
  int64_t depth() const { return int64_t(4) << (neighbours + upperK); }
};

/// The instruction for elements of `operand` that are added as `result`.
std::optional<MmaKind> getMmaKind(mlir::Type operand, mlir::Type result);

/// The registers of each fragment, in the order of its elements.
struct MmaPlan {
  struct Instruction {
    llvm::SmallVector<Bits> a, b, c;
  };
  llvm::SmallVector<Instruction> instructions;
};

/// The instructions of acc + a b, or none, and why the layouts are not those of
/// fragments.
std::optional<MmaPlan> planMma(const MmaKind &kind, mlir::RankedTensorType a,
                               mlir::RankedTensorType b,
                               mlir::RankedTensorType acc, std::string &reason);

/// The layout of a result: warps along the rows, then along the columns. Null
/// for a tile that is smaller than an instruction's.
SpreadAttr getMmaResult(const MmaKind &kind, mlir::RankedTensorType type,
                        unsigned laneBits, unsigned warpBits);
/// The layout of operand 0 or 1 for a result in the layout `acc`, or null.
SpreadAttr getMmaOperand(const MmaKind &kind, unsigned index,
                         mlir::RankedTensorType operand,
                         mlir::RankedTensorType result, SpreadAttr acc);

/// The layouts of the fragments of a product.
struct FragmentLayouts {
  SpreadAttr a, b, result;
};

/// The layouts to which a product's tiles are converted: their own if they are
/// those of fragments; or else those for the layout of the result, which it has;
/// or else those of getMmaResult. Null if a warp has not 32 lanes.
FragmentLayouts getFragments(mlir::RankedTensorType a, mlir::RankedTensorType b,
                             mlir::RankedTensorType result);

} // namespace lego

#endif // LEGOMLIR_MMAPLAN_H
