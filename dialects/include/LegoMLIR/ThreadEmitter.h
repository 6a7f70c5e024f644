//===- ThreadEmitter.h - Code of the threads of a kernel --------*- C++ -*-===//
//
// A spread tile is, in each thread, the values of its registers. What depends
// on the thread is linear in the bits of its number.
//
//===----------------------------------------------------------------------===//

#ifndef LEGOMLIR_THREADEMITTER_H
#define LEGOMLIR_THREADEMITTER_H

#include "LegoMLIR/Spread.h"
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

/// Emits code of a kernel at one place.
class ThreadEmitter {
public:
  ThreadEmitter(mlir::OpBuilder &builder, mlir::Location loc, Kernel &kernel,
                unsigned laneBits, unsigned threadBits)
      : b(loc, builder), kernel(kernel), laneBits(laneBits),
        threadBits(threadBits) {}

  Values unpack(mlir::Value vector);
  mlir::Value pack(const Values &values);

  /// The registers of a tile whose element 0 is at `base`; of 0 where it is
  /// empty. `shape` is the tile's.
  Values load(mlir::Value memref, mlir::ValueRange base,
              llvm::ArrayRef<int64_t> shape, const SpreadMap &map);
  /// Each element is stored by one thread.
  void store(const Values &values, mlir::Value memref, mlir::ValueRange base,
             llvm::ArrayRef<int64_t> shape, const SpreadMap &map);

  /// The registers in the target's layout, by a plan of registers or shuffles.
  Values exchange(const Values &values, const ExchangePlan &plan);
  /// The same through workgroup memory.
  Values exchangeThroughMemory(const Values &values, const SpreadMap &source,
                               const SpreadMap &target, int64_t elements);

  /// The sums over the bits of a place whose bases are in `reduced`; those in
  /// `kept` number the elements of the result.
  Values reduce(Values values, const SpreadMap &kept, const SpreadMap &reduced,
                int64_t elements, Combine combine);

private:
  mlir::Value constant(int64_t value);
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
