// A transpose as another compiler might leave it: tiles of 32 x 32 through shared memory, copied by linalg, mapped to blocks
// and threads. Reading a column of the tile has 32-fold bank conflicts. examples/linalg_transpose_swizzle.mlir removes them:
//
//   lego-mlir analyze examples/linalg_transpose.mlir --transform examples/linalg_transpose_swizzle.mlir

module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%in: memref<128x128xf32>, %out: memref<128x128xf32>) kernel
        attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 4, 4, 1>} {
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %c32 = arith.constant 32 : index
      %i = arith.muli %by, %c32 : index
      %j = arith.muli %bx, %c32 : index
      %tile = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %from = memref.subview %in[%i, %j] [32, 32] [1, 1]
        : memref<128x128xf32> to memref<32x32xf32, strided<[128, 1], offset: ?>>
      %to = memref.subview %out[%j, %i] [32, 32] [1, 1]
        : memref<128x128xf32> to memref<32x32xf32, strided<[128, 1], offset: ?>>
      scf.for %r = %c0 to %c32 step %c8 {
        %row = arith.addi %r, %ty : index
        %a = memref.subview %from[%row, %tx] [1, 1] [1, 1]
          : memref<32x32xf32, strided<[128, 1], offset: ?>> to memref<1x1xf32, strided<[128, 1], offset: ?>>
        %b = memref.subview %tile[%row, %tx] [1, 1] [1, 1]
          : memref<32x32xf32, #gpu.address_space<workgroup>>
            to memref<1x1xf32, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>
        linalg.copy ins(%a : memref<1x1xf32, strided<[128, 1], offset: ?>>)
          outs(%b : memref<1x1xf32, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>)
      }
      gpu.barrier
      scf.for %r = %c0 to %c32 step %c8 {
        %row = arith.addi %r, %ty : index
        %a = memref.subview %tile[%tx, %row] [1, 1] [1, 1]
          : memref<32x32xf32, #gpu.address_space<workgroup>>
            to memref<1x1xf32, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>
        %b = memref.subview %to[%row, %tx] [1, 1] [1, 1]
          : memref<32x32xf32, strided<[128, 1], offset: ?>> to memref<1x1xf32, strided<[128, 1], offset: ?>>
        linalg.transpose ins(%a : memref<1x1xf32, strided<[32, 1], offset: ?>, #gpu.address_space<workgroup>>)
          outs(%b : memref<1x1xf32, strided<[128, 1], offset: ?>>) permutation = [1, 0]
      }
      gpu.return
    }
  }
}
