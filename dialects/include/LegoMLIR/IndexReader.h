//===- IndexReader.h - SSA values as sums -----------------------*- C++ -*-===//
//
// One map from values of type index to sums, for a whole function. Chains of
// arith, index and affine operations are read through, and so are lego.apply
// and lego.inv: an inverse that is taken of a position plus an offset is
// simplified with the sum behind that position. Other values are leaves, with
// the bounds of upstream's integer range analysis.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_INDEXREADER_H
#define LEGOMLIR_INDEXREADER_H

#include "LegoMLIR/Algebra.h"
#include "LegoMLIR/Lego.h"
#include "LegoMLIR/Semantics.h"
#include "mlir/Analysis/DataFlowFramework.h"

namespace lego {

class IndexReader {
public:
  /// Analyses the ranges of all values below `root`.
  explicit IndexReader(mlir::Operation *root);

  /// The sum of a value of type index.
  Sum read(mlir::Value value);
  /// The facts about the sizes of a layout, for its evaluation.
  void bindSizes(LayoutAttr layout, mlir::ValueRange sizes);
  /// Logical indices with their bounds; the last one is `tail` below its end.
  llvm::SmallVector<Sum> readIndex(LayoutAttr layout, mlir::ValueRange indices,
                                   mlir::ValueRange sizes, int64_t tail = 0);
  Sum readPosition(LayoutAttr layout, mlir::ValueRange indices,
                   mlir::ValueRange sizes);
  llvm::SmallVector<Sum> readInverse(LayoutAttr layout, mlir::Value position,
                                     mlir::ValueRange sizes);
  Comparison readMask(LayoutAttr layout, mlir::ValueRange indices,
                      mlir::ValueRange sizes);
  Comparison readHolds(LayoutAttr layout, mlir::Value position,
                       mlir::ValueRange sizes);
  /// The position of the first of `count` consecutive elements, if those are at
  /// consecutive positions.
  std::optional<Sum> readVector(LayoutAttr layout, mlir::ValueRange indices,
                                mlir::ValueRange sizes, int64_t count);

  Algebra &getAlgebra() { return algebra; }

private:
  Sum leaf(mlir::Value value);
  std::optional<Sum> readOperation(mlir::Operation *op, unsigned result);
  std::optional<Sum> readAffine(mlir::AffineExpr expr, unsigned numDims,
                                llvm::ArrayRef<Sum> operands);
  std::optional<Sum> divided(const Sum &a, const Sum &n, bool remainder);
  bool dependsOn(const Sum &sum, AtomId id);

  mlir::DataFlowSolver solver;
  Algebra algebra;
  Evaluator<Algebra> evaluator{algebra};
  llvm::DenseMap<mlir::Value, Sum> sums;
};

} // namespace lego

#endif // LEGOMLIR_INDEXREADER_H
