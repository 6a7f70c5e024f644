#map = affine_map<(d0, d1) -> (d1 + d0 * 256)>
#map1 = affine_map<(d0) -> ((d0 + 4095) floordiv 4096)>
module attributes {gpu.container_module} {
  gpu.module @clear_module {
    gpu.func @clear(%arg0: memref<?xi64>, %arg1: index) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %c0_i64 = arith.constant 0 : i64
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = affine.apply #map1(%arg1)
      %2 = index.cmp slt(%0, %1)
      scf.if %2 {
        memref.store %c0_i64, %arg0[%0] : memref<?xi64>
      }
      gpu.return
    }
  }
}
