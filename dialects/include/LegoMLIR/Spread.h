//===- Spread.h - Spread tiles as matrices of bits --------------*- C++ -*-===//
//
// A #lego.spread over a shape is a matrix over F2: its columns are the bits of
// a place (registers, then lanes, then warps), its rows those of the number of
// an element, which counts the last axis fastest. Shape operations renumber
// rows; a conversion solves one matrix for the other.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_SPREAD_H
#define LEGOMLIR_SPREAD_H

#include "LegoMLIR/Lego.h"
#include "llvm/ADT/BitVector.h"

namespace lego {

/// A vector over F2.
using Bits = uint64_t;

inline Bits bit(unsigned k) { return Bits(1) << k; }

/// The image of a vector under the matrix with these columns.
Bits multiply(llvm::ArrayRef<Bits> columns, Bits vector);

/// Independent vectors, each with a label; a sum of vectors has the sum of
/// their labels.
class Span {
public:
  /// Adds a vector, unless it is the sum of others: then returns their label.
  std::optional<Bits> add(Bits vector, Bits label);
  /// The label of the vectors whose sum this is.
  std::optional<Bits> solve(Bits vector) const;

private:
  struct Row {
    Bits vector, label;
  };
  static void reduce(llvm::ArrayRef<Row> rows, Row &row);

  // A row has no leading bit of an earlier one.
  llvm::SmallVector<Row> rows;
};

/// A spread tile: the element of each bit of a place.
struct SpreadMap {
  unsigned registers = 0, lanes = 0, warps = 0; // numbers of bits
  llvm::SmallVector<Bits> columns;

  unsigned threads() const { return lanes + warps; }
  /// The bases of the bits of a thread's number, lanes first.
  llvm::ArrayRef<Bits> ofThreads() const {
    return llvm::ArrayRef<Bits>(columns).drop_front(registers);
  }
  llvm::ArrayRef<Bits> ofRegisters() const {
    return llvm::ArrayRef<Bits>(columns).take_front(registers);
  }
  bool operator==(const SpreadMap &other) const {
    return registers == other.registers && lanes == other.lanes &&
           warps == other.warps && columns == other.columns;
  }
};

/// The encoding of a tensor, or null.
SpreadAttr getSpread(mlir::Type type);
/// The tensor type with another encoding, or none.
mlir::RankedTensorType withSpread(mlir::Type type, mlir::Attribute spread);

/// The next powers of two, over which elements are numbered.
llvm::SmallVector<int64_t> getPaddedShape(llvm::ArrayRef<int64_t> shape);
/// The registers that hold elements of a spread tile, for all threads.
llvm::BitVector getInsideRegisters(mlir::RankedTensorType type);
/// The least number of consecutive elements, in the order of their numbers, of
/// which all or none are inside; 2^62 where the tile has no box.
int64_t getWholeRun(llvm::ArrayRef<int64_t> shape);

/// The matrix of an encoding over a shape that it verifies, which it may pad.
SpreadMap getMap(SpreadAttr spread, llvm::ArrayRef<int64_t> shape);
SpreadMap getMap(mlir::Type type);
SpreadAttr getAttr(mlir::MLIRContext *context, const SpreadMap &map,
                   llvm::ArrayRef<int64_t> shape);

/// The coordinates of an element, and back. The shape is padded.
llvm::SmallVector<int64_t> split(Bits element, llvm::ArrayRef<int64_t> shape);
Bits join(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> shape);

/// The map under other axes: axis k of the result is axis `axes[k]` of `shape`,
/// or new and of index 0 if that is negative. Registers of copies go, unless they
/// are kept. Shapes are padded.
SpreadMap renumber(const SpreadMap &map, llvm::ArrayRef<int64_t> shape,
                   llvm::ArrayRef<int64_t> axes,
                   llvm::ArrayRef<int64_t> resultShape, bool keepCopies = false);

/// Constants, splats, fills, empty tiles and those of indices, which every
/// layout fits.
bool fitsAnyLayout(mlir::Operation *op);
/// Elementwise operations, and linalg.map.
bool isElementwise(mlir::Operation *op);
/// linalg.transpose and broadcast, tensor.expand_shape and collapse_shape.
bool isShapeOp(mlir::Operation *op);

/// Whether the numbers of elements stay: boxes end along the first of the axes
/// that tensor.expand_shape or collapse_shape divides or joins.
bool keepsNumbers(mlir::Operation *reshape);

/// Layouts through one operation, or null where it determines none: the
/// encoding of its result from that of operand 0, and back, without copies in
/// registers, except back through what may fold to its operand. Elementwise
/// operations, linalg.transpose, broadcast and reduce, tensor.expand_shape and
/// collapse_shape.
SpreadAttr getForward(mlir::Operation *op, SpreadAttr operand);
SpreadAttr getBackward(mlir::Operation *op, SpreadAttr result);
/// The encoding of operand 0 as one of the result's shape, from which the
/// result's registers are taken.
SpreadMap getMapInResult(mlir::Operation *op);
/// Whether the result of a shape operation or reduction is in the threads that
/// its operand's layout gives it.
bool isInThread(mlir::Operation *op);
/// Whether upstream may replace the operation by its operand, whatever the layouts
/// of the two are, as it does with transpositions that together move nothing.
bool mayFoldToOperand(mlir::Operation *op);

/// How a tile changes its layout. In round k each thread sends one register and
/// reads that of one lane:
///
///   sent[x]  = source[x ^ send(thread)]
///   read[k]  = sent[round.sent] of lane round.lane ^ lane(thread)
///   kept[x]  = read[x ^ place(thread)]
///   result r = kept[repeat(r)]
///
/// where send, lane, place and repeat are linear in the bits of their argument.
struct ExchangePlan {
  enum Kind { InThread, Shuffles, Memory } kind = Memory;
  struct Round {
    Bits sent, lane;
  };
  llvm::SmallVector<Bits> send, lane, place, repeat; // columns; of threads: lanes first
  llvm::SmallVector<Round> rounds;
};

/// The plan for a tile in `source` that is wanted in `target`, which have the
/// same lanes and warps.
ExchangePlan planExchange(const SpreadMap &source, const SpreadMap &target);

} // namespace lego

#endif // LEGOMLIR_SPREAD_H
