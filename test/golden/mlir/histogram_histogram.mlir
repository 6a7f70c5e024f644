#map = affine_map<(d0, d1) -> (d1 + d0 * 256)>
module attributes {gpu.container_module} {
  gpu.module @histogram_module {
    gpu.func @histogram(%arg0: memref<?xi8>, %arg1: memref<256xi32>, %arg2: index) workgroup(%arg3 : memref<256xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 32, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %c0_i32 = arith.constant 0 : i32
      memref.store %c0_i32, %arg3[%thread_id_x] : memref<256xi32, #gpu.address_space<workgroup>>
      gpu.barrier
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %c8192 = arith.constant 8192 : index
      scf.for %arg4 = %0 to %arg2 step %c8192 {
        %3 = memref.load %arg0[%arg4] : memref<?xi8>
        %4 = arith.index_castui %3 : i8 to index
        %c1_i32 = arith.constant 1 : i32
        %5 = memref.atomic_rmw addi %c1_i32, %arg3[%4] {lego.scope = "device"} : (i32, memref<256xi32, #gpu.address_space<workgroup>>) -> i32
      }
      gpu.barrier
      %1 = memref.load %arg3[%thread_id_x] : memref<256xi32, #gpu.address_space<workgroup>>
      %2 = memref.atomic_rmw addi %1, %arg1[%thread_id_x] {lego.scope = "device"} : (i32, memref<256xi32>) -> i32
      gpu.return
    }
  }
}
