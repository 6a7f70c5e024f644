// A transform script from a file: it unrolls the loop, and finding nothing to unroll is an error.
//
// RUN: lego-mlir compile %s --transform %S/Inputs/unroll.mlir --emit transformed | FileCheck %s
// RUN: lego-mlir compile %S/Inputs/straight.mlir --emit transformed | not lego-mlir compile - --transform %S/Inputs/unroll.mlir --emit ptx 2>&1 | FileCheck --check-prefix=NOTHING %s
//
// CHECK: gpu.func @scale
// CHECK-NOT: scf.for
// CHECK-COUNT-4: memref.store
// NOTHING: unroll.mlir:4:14: the script matched nothing: it looked for ops ["scf.for"]
// NOTHING: to reproduce: lego-mlir compile
gpu.module @m {
  gpu.func @scale(%p: memref<128xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %c128 = arith.constant 128 : index
    scf.for %k = %c0 to %c128 step %c32 {
      %j = arith.addi %i, %k : index
      %v = memref.load %p[%j] : memref<128xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %p[%j] : memref<128xf32>
    }
    gpu.return
  }
}
