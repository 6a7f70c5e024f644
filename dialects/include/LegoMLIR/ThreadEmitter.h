//===- ThreadEmitter.h - Code of the threads of a kernel --------*- C++ -*-===//
//
// A spread tile is, in each thread, the values of its registers. What depends
// on the thread is linear in the bits of its number.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_THREADEMITTER_H
#define LEGOMLIR_THREADEMITTER_H

#include "LegoMLIR/MmaPlan.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace lego {

using Values = llvm::SmallVector<mlir::Value>;
/// Combines two elements.
using Combine =
    llvm::function_ref<mlir::Value(mlir::Value left, mlir::Value right)>;

/// A gpu.launch or gpu.func, the numbers of its threads, and its scratch.
struct Kernel {
  mlir::Operation *op;
  mlir::Value thread; // of type index
  llvm::DenseMap<mlir::Type, mlir::BlockArgument> scratch;

  /// Workgroup memory for elements of a type. All users share it, between
  /// barriers.
  mlir::Value getScratch(mlir::Type element, int64_t count);
};

/// The launch or function around an operation, or null.
mlir::Operation *getKernelOf(mlir::Operation *op);
/// The sizes of its block; empty if they are not known.
llvm::SmallVector<int64_t> getBlockSize(mlir::Operation *kernel);
/// Whether a tile is not computed in a kernel: an argument, or from around it.
bool isFromOutside(mlir::Value tile);

/// Emits code of a kernel at one place.
class ThreadEmitter {
public:
  ThreadEmitter(mlir::OpBuilder &builder, mlir::Location loc, Kernel &kernel,
                unsigned laneBits, unsigned threadBits)
      : b(loc, builder), kernel(kernel), laneBits(laneBits),
        threadBits(threadBits) {}

  /// The registers of a tile, null for those outside of its box, and the vector
  /// of those inside.
  Values unpack(mlir::Value vector, mlir::RankedTensorType tile);
  mlir::Value pack(const Values &values, mlir::RankedTensorType tile);
  /// The elements of a vector, and back.
  Values unpack(mlir::Value vector);
  mlir::Value pack(const Values &values);

  /// Where a tile is in memory.
  struct Place {
    mlir::Value memref;
    mlir::ValueRange base;         // the index of element 0; 0 where it is empty
    llvm::ArrayRef<int64_t> shape; // padded
    int64_t run;                   // consecutive elements that are inside together
  };

  /// The registers of a tile, but for those that are not `wanted`. With a `mask`,
  /// a register whose condition is false is `other`.
  Values load(const Place &place, const SpreadMap &map,
              const llvm::BitVector &wanted, const Values &mask = {},
              mlir::Value other = {});
  /// Each element is stored by one thread; null values are not stored, nor those
  /// whose condition is false.
  void store(const Values &values, const Place &place, const SpreadMap &map,
             const Values &mask = {});

  /// The registers in the target's layout, by a plan of registers or shuffles.
  Values exchange(const Values &values, const ExchangePlan &plan);
  /// The same through workgroup memory, between types with one shape.
  Values exchangeThroughMemory(const Values &values, mlir::RankedTensorType source,
                               mlir::RankedTensorType target);

  /// A reduction's operand as two matrices: `kept` numbers the elements of the
  /// result, `reduced` those that are combined, of which `isInside` may refuse
  /// the ones of a warp.
  struct Parts {
    SpreadMap kept, reduced;
    llvm::function_ref<bool(Bits element)> isInside;
    int64_t elements, run; // of the result, padded
  };
  Values reduce(Values values, const Parts &parts, Combine combine);

  /// The indices of a tile's registers along an axis.
  Values indices(unsigned axis, mlir::RankedTensorType tile);

  /// acc + a b, register by register.
  Values multiply(const MmaKind &kind, const MmaPlan &plan, const Values &a,
                  const Values &b, Values acc);

private:
  mlir::Value constant(int64_t value);
  mlir::Value loadOne(mlir::Value memref, const Values &index,
                      mlir::Value condition, mlir::Value other);
  mlir::Value linear(llvm::ArrayRef<Bits> columns);
  mlir::Value isOdd(Bits mask);
  mlir::Value moved(mlir::Value base, Bits image, Bits offset);
  Values permute(const Values &values, llvm::ArrayRef<Bits> columns);
  mlir::Value shuffle(mlir::Value value, mlir::gpu::ShuffleMode mode,
                      mlir::Value lane);
  mlir::Value shuffleWord(mlir::Value value, mlir::gpu::ShuffleMode mode,
                          mlir::Value lane);
  llvm::SmallVector<Values> indicesOf(llvm::ArrayRef<Bits> firsts,
                                      mlir::ValueRange base,
                                      llvm::ArrayRef<int64_t> shape,
                                      const SpreadMap &map);

  mlir::ImplicitLocOpBuilder b;
  Kernel &kernel;
  unsigned laneBits, threadBits;
};

} // namespace lego

#endif // LEGOMLIR_THREADEMITTER_H
