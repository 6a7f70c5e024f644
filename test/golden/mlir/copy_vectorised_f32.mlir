#map = affine_map<(d0, d1, d2) -> (d1 * 4 + d2 * 128 + d0 * 4096)>
#map1 = affine_map<(d0, d1, d2) -> (d1 * 4 + d2 * 128 + d0 * 4096 + 1024)>
#map2 = affine_map<(d0, d1, d2) -> (d1 * 4 + d2 * 128 + d0 * 4096 + 2048)>
#map3 = affine_map<(d0, d1, d2) -> (d1 * 4 + d2 * 128 + d0 * 4096 + 3072)>
module attributes {gpu.container_module} {
  gpu.module @copy_module {
    gpu.func @copy(%arg0: memref<8192xf32>, %arg1: memref<8192xf32>) kernel attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 1, 2, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_y, %thread_id_x, %thread_id_y)
      %1 = vector.load %arg0[%0] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      vector.store %1, %arg1[%0] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      %2 = affine.apply #map1(%block_id_y, %thread_id_x, %thread_id_y)
      %3 = vector.load %arg0[%2] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      vector.store %3, %arg1[%2] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      %4 = affine.apply #map2(%block_id_y, %thread_id_x, %thread_id_y)
      %5 = vector.load %arg0[%4] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      vector.store %5, %arg1[%4] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      %6 = affine.apply #map3(%block_id_y, %thread_id_x, %thread_id_y)
      %7 = vector.load %arg0[%6] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      vector.store %7, %arg1[%6] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      gpu.return
    }
  }
}
