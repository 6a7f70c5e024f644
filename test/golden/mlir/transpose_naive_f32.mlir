#map = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32)>
#map1 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 mod 32) * 64 + (d0 mod 3) * 2048 + d1 floordiv 32)>
#map2 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 768)>
#map3 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 mod 32) * 64 + (d0 mod 3) * 2048 + d1 floordiv 32 + 8)>
#map4 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 1536)>
#map5 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 mod 32) * 64 + (d0 mod 3) * 2048 + d1 floordiv 32 + 16)>
#map6 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 2304)>
#map7 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 mod 32) * 64 + (d0 mod 3) * 2048 + d1 floordiv 32 + 24)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = memref.load %arg0[%0] : memref<6144xf32>
      %2 = affine.apply #map1(%block_id_x, %thread_id_x)
      memref.store %1, %arg1[%2] : memref<6144xf32>
      %3 = affine.apply #map2(%block_id_x, %thread_id_x)
      %4 = memref.load %arg0[%3] : memref<6144xf32>
      %5 = affine.apply #map3(%block_id_x, %thread_id_x)
      memref.store %4, %arg1[%5] : memref<6144xf32>
      %6 = affine.apply #map4(%block_id_x, %thread_id_x)
      %7 = memref.load %arg0[%6] : memref<6144xf32>
      %8 = affine.apply #map5(%block_id_x, %thread_id_x)
      memref.store %7, %arg1[%8] : memref<6144xf32>
      %9 = affine.apply #map6(%block_id_x, %thread_id_x)
      %10 = memref.load %arg0[%9] : memref<6144xf32>
      %11 = affine.apply #map7(%block_id_x, %thread_id_x)
      memref.store %10, %arg1[%11] : memref<6144xf32>
      gpu.return
    }
  }
}
