#map = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 2048 + d1 * 65536)>
#map1 = affine_map<(d0, d1) -> (d0 * 32 + d1)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 2048 + d1 * 65536 + 16384)>
#map3 = affine_map<(d0) -> (d0 + 8)>
#map4 = affine_map<(d0, d1) -> ((d0 + 8) * 32 + d1)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 2048 + d1 * 65536 + 32768)>
#map6 = affine_map<(d0) -> (d0 + 16)>
#map7 = affine_map<(d0, d1) -> ((d0 + 16) * 32 + d1)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 2048 + d1 * 65536 + 49152)>
#map9 = affine_map<(d0) -> (d0 + 24)>
#map10 = affine_map<(d0, d1) -> ((d0 + 24) * 32 + d1)>
#map11 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 1024 + d0 * 32768)>
#map12 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 1024 + d0 * 32768 + 8192)>
#map13 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 1024 + d0 * 32768 + 16384)>
#map14 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 1024 + d0 * 32768 + 24576)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<2097152xf32>, %arg1: memref<2097152xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 64, 32, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %1 = memref.load %arg0[%0] : memref<2097152xf32>
      %2 = index.xor %thread_id_x, %thread_id_y
      %3 = affine.apply #map1(%thread_id_y, %2)
      memref.store %1, %arg2[%3] : memref<1024xf32, #gpu.address_space<workgroup>>
      %4 = affine.apply #map2(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %5 = memref.load %arg0[%4] : memref<2097152xf32>
      %6 = affine.apply #map3(%thread_id_y)
      %7 = index.xor %thread_id_x, %6
      %8 = affine.apply #map4(%thread_id_y, %7)
      memref.store %5, %arg2[%8] : memref<1024xf32, #gpu.address_space<workgroup>>
      %9 = affine.apply #map5(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %10 = memref.load %arg0[%9] : memref<2097152xf32>
      %11 = affine.apply #map6(%thread_id_y)
      %12 = index.xor %thread_id_x, %11
      %13 = affine.apply #map7(%thread_id_y, %12)
      memref.store %10, %arg2[%13] : memref<1024xf32, #gpu.address_space<workgroup>>
      %14 = affine.apply #map8(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %15 = memref.load %arg0[%14] : memref<2097152xf32>
      %16 = affine.apply #map9(%thread_id_y)
      %17 = index.xor %thread_id_x, %16
      %18 = affine.apply #map10(%thread_id_y, %17)
      memref.store %15, %arg2[%18] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %19 = affine.apply #map1(%thread_id_x, %2)
      %20 = memref.load %arg2[%19] : memref<1024xf32, #gpu.address_space<workgroup>>
      %21 = affine.apply #map11(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %20, %arg1[%21] : memref<2097152xf32>
      %22 = affine.apply #map1(%thread_id_x, %7)
      %23 = memref.load %arg2[%22] : memref<1024xf32, #gpu.address_space<workgroup>>
      %24 = affine.apply #map12(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %23, %arg1[%24] : memref<2097152xf32>
      %25 = affine.apply #map1(%thread_id_x, %12)
      %26 = memref.load %arg2[%25] : memref<1024xf32, #gpu.address_space<workgroup>>
      %27 = affine.apply #map13(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %26, %arg1[%27] : memref<2097152xf32>
      %28 = affine.apply #map1(%thread_id_x, %17)
      %29 = memref.load %arg2[%28] : memref<1024xf32, #gpu.address_space<workgroup>>
      %30 = affine.apply #map14(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %29, %arg1[%30] : memref<2097152xf32>
      gpu.return
    }
  }
}
