#map = affine_map<(d0, d1) -> (d1 + d0 * 64)>
#map1 = affine_map<(d0, d1) -> (-(d1 + d0 * 64) + 1023)>
#map2 = affine_map<(d0) -> (d0 * 8 + 1)>
#map3 = affine_map<(d0) -> ((d0 + 1) floordiv 2 - 1)>
#map4 = affine_map<(d0) -> ((d0 + 1) floordiv 2)>
#map5 = affine_map<(d0, d1, d2) -> (-d2 + d0 floordiv 2 + (d1 + 1) floordiv 2 - 1)>
#map6 = affine_map<(d0, d1, d2) -> (-(d0 floordiv 2) - (d1 + 1) floordiv 2 + d2 + 32)>
#map7 = affine_map<(d0, d1) -> (-(d0 floordiv 2) + d1)>
#map8 = affine_map<(d0, d1) -> (-(-(d0 floordiv 2) + d1) + 31)>
#map9 = affine_map<(d0, d1) -> (d1 * 32 + d0)>
module attributes {gpu.container_module} {
  gpu.module @unpack_module {
    gpu.func @unpack(%arg0: memref<1024xf32>, %arg1: memref<1024xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 16, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = memref.load %arg0[%0] : memref<1024xf32>
      %c528 = arith.constant 528 : index
      %2 = index.cmp slt(%0, %c528)
      %3 = affine.apply #map1(%block_id_x, %thread_id_x)
      %4 = arith.select %2, %0, %3 : index
      %5 = affine.apply #map2(%4)
      %6 = arith.index_cast %5 : index to i32
      %7 = arith.uitofp %6 : i32 to f32
      %8 = math.sqrt %7 : f32
      %9 = arith.fptoui %8 : f32 to i32
      %10 = arith.index_cast %9 : i32 to index
      %11 = affine.apply #map3(%10)
      %12 = affine.apply #map4(%10)
      %13 = index.mul %11, %12
      %14 = affine.apply #map5(%13, %10, %4)
      %15 = affine.apply #map6(%13, %10, %4)
      %16 = arith.select %2, %14, %15 : index
      %17 = affine.apply #map7(%13, %4)
      %18 = affine.apply #map8(%13, %4)
      %19 = arith.select %2, %17, %18 : index
      %20 = affine.apply #map9(%16, %19)
      memref.store %1, %arg1[%20] : memref<1024xf32>
      gpu.return
    }
  }
}
