#map = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 8 + d3 * 32 + d1 * 256)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d2 + d3 + d0 * 8 + d1 * 8)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d2 + d3 + d0 * 8 + d1 * 8 + 1)>
#map3 = affine_map<(d0, d1, d2) -> (d1 + d0 * 8 + d2 floordiv 2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (-(d2 + d3 + d0 * 8 + d1 * 8) + 62)>
#map5 = affine_map<(d0, d1, d2, d3) -> (-(d2 + d3 + d0 * 8 + d1 * 8) + 63)>
#map6 = affine_map<(d0, d1, d2) -> (d1 - d2 floordiv 2 + d0 * 8 + 992)>
module attributes {gpu.container_module} {
  gpu.module @pack_module {
    gpu.func @pack(%arg0: memref<1024xf32>, %arg1: memref<1024xf32>) kernel attributes {known_block_size = array<i32: 8, 8, 1>, known_grid_size = array<i32: 4, 4, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %1 = memref.load %arg0[%0] : memref<1024xf32>
      %2 = affine.apply #map1(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %c32 = arith.constant 32 : index
      %3 = index.cmp slt(%2, %c32)
      %4 = affine.apply #map2(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %5 = index.mul %2, %4
      %6 = affine.apply #map3(%block_id_y, %thread_id_y, %5)
      %7 = affine.apply #map4(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %8 = affine.apply #map5(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %9 = index.mul %7, %8
      %10 = affine.apply #map6(%block_id_y, %thread_id_y, %9)
      %11 = arith.select %3, %6, %10 : index
      memref.store %1, %arg1[%11] : memref<1024xf32>
      gpu.return
    }
  }
}
