#map = affine_map<(d0, d1, d2, d3) -> (d2 * 4 + d0 * 32 + d3 * 96 + d1 * 3072)>
#map1 = affine_map<(d0) -> (d0 floordiv 4)>
#map2 = affine_map<(d0, d1) -> (d1 * 4 + d0 * 32)>
#map3 = affine_map<(d0) -> (d0 * 4)>
#map4 = affine_map<(d0, d1) -> (d0 * 128 + d1)>
#map5 = affine_map<(d0, d1) -> (d0 * 128 + d1 + 32)>
#map6 = affine_map<(d0, d1) -> (d0 * 128 + d1 + 64)>
#map7 = affine_map<(d0, d1) -> (d0 * 128 + d1 + 96)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d2 * 4 + d1 * 32 + d3 * 64 + d0 * 2048)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 8, 32, 1>, known_grid_size = array<i32: 3, 2, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %1 = vector.load %arg0[%0] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %2 = affine.apply #map1(%thread_id_y)
      %3 = index.xor %thread_id_x, %2
      %4 = affine.apply #map2(%thread_id_y, %3)
      vector.store %1, %arg2[%4] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      gpu.barrier
      %5 = affine.apply #map3(%thread_id_x)
      %6 = index.xor %5, %thread_id_y
      %7 = affine.apply #map4(%thread_id_x, %6)
      %8 = memref.load %arg2[%7] : memref<1024xf32, #gpu.address_space<workgroup>>
      %9 = affine.apply #map5(%thread_id_x, %6)
      %10 = memref.load %arg2[%9] : memref<1024xf32, #gpu.address_space<workgroup>>
      %11 = affine.apply #map6(%thread_id_x, %6)
      %12 = memref.load %arg2[%11] : memref<1024xf32, #gpu.address_space<workgroup>>
      %13 = affine.apply #map7(%thread_id_x, %6)
      %14 = memref.load %arg2[%13] : memref<1024xf32, #gpu.address_space<workgroup>>
      %15 = vector.from_elements %8, %10, %12, %14 : vector<4xf32>
      %16 = affine.apply #map8(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      vector.store %15, %arg1[%16] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      gpu.return
    }
  }
}
