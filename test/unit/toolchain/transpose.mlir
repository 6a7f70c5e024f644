// A transpose of 64x64 f32 through a padded tile in shared memory, written by hand.
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%src: memref<4096xf32>, %dst: memref<4096xf32>)
        workgroup(%tile : memref<1056xf32, #gpu.address_space<workgroup>>)
        kernel attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 2, 2, 1>} {
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %c32 = arith.constant 32 : index
      scf.for %r = %c0 to %c32 step %c8 {
        %g = affine.apply affine_map<(bx, by, tx, ty, r) -> ((by * 32 + ty + r) * 64 + bx * 32 + tx)>(%bx, %by, %tx, %ty, %r)
        %s = affine.apply affine_map<(tx, ty, r) -> ((ty + r) * 33 + tx)>(%tx, %ty, %r)
        %v = memref.load %src[%g] : memref<4096xf32>
        memref.store %v, %tile[%s] : memref<1056xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      scf.for %r = %c0 to %c32 step %c8 {
        %g = affine.apply affine_map<(bx, by, tx, ty, r) -> ((bx * 32 + ty + r) * 64 + by * 32 + tx)>(%bx, %by, %tx, %ty, %r)
        %s = affine.apply affine_map<(tx, ty, r) -> (tx * 33 + ty + r)>(%tx, %ty, %r)
        %v = memref.load %tile[%s] : memref<1056xf32, #gpu.address_space<workgroup>>
        memref.store %v, %dst[%g] : memref<4096xf32>
      }
      gpu.return
    }
  }
}
