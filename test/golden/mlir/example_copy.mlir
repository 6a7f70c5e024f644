#map = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 128 + d1 * 1024)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 8 + d2 * 64 + d0 * 2048)>
module attributes {gpu.container_module} {
  gpu.module @copy_module {
    gpu.func @copy(%arg0: memref<8192xf32>, %arg1: memref<8192xf32>) kernel attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 4, 8, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %1 = memref.load %arg0[%0] : memref<8192xf32>
      %2 = affine.apply #map1(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %1, %arg1[%2] : memref<8192xf32>
      gpu.return
    }
  }
}
