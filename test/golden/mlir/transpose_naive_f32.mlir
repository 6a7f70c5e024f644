#map = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 32 + d2 * 64 + d0 * 2048)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072 + 768)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 32 + d2 * 64 + d0 * 2048 + 8)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072 + 1536)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 32 + d2 * 64 + d0 * 2048 + 16)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072 + 2304)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 32 + d2 * 64 + d0 * 2048 + 24)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) kernel attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 3, 2, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %1 = memref.load %arg0[%0] : memref<6144xf32>
      %2 = affine.apply #map1(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %1, %arg1[%2] : memref<6144xf32>
      %3 = affine.apply #map2(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %4 = memref.load %arg0[%3] : memref<6144xf32>
      %5 = affine.apply #map3(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %4, %arg1[%5] : memref<6144xf32>
      %6 = affine.apply #map4(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %7 = memref.load %arg0[%6] : memref<6144xf32>
      %8 = affine.apply #map5(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %7, %arg1[%8] : memref<6144xf32>
      %9 = affine.apply #map6(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %10 = memref.load %arg0[%9] : memref<6144xf32>
      %11 = affine.apply #map7(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %10, %arg1[%11] : memref<6144xf32>
      gpu.return
    }
  }
}
