#map = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072)>
#map1 = affine_map<(d0, d1) -> (d0 + d1 * 32)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072 + 768)>
#map3 = affine_map<(d0, d1) -> (d0 + d1 * 32 + 256)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072 + 1536)>
#map5 = affine_map<(d0, d1) -> (d0 + d1 * 32 + 512)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d2 + d0 * 32 + d3 * 96 + d1 * 3072 + 2304)>
#map7 = affine_map<(d0, d1) -> (d0 + d1 * 32 + 768)>
#map8 = affine_map<(d0, d1) -> (d1 + d0 * 32)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 64 + d0 * 2048)>
#map10 = affine_map<(d0, d1) -> (d1 + d0 * 32 + 8)>
#map11 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 64 + d0 * 2048 + 512)>
#map12 = affine_map<(d0, d1) -> (d1 + d0 * 32 + 16)>
#map13 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 64 + d0 * 2048 + 1024)>
#map14 = affine_map<(d0, d1) -> (d1 + d0 * 32 + 24)>
#map15 = affine_map<(d0, d1, d2, d3) -> (d2 + d1 * 32 + d3 * 64 + d0 * 2048 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 3, 2, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %1 = memref.load %arg0[%0] : memref<6144xf32>
      %2 = affine.apply #map1(%thread_id_x, %thread_id_y)
      memref.store %1, %arg2[%2] : memref<1024xf32, #gpu.address_space<workgroup>>
      %3 = affine.apply #map2(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %4 = memref.load %arg0[%3] : memref<6144xf32>
      %5 = affine.apply #map3(%thread_id_x, %thread_id_y)
      memref.store %4, %arg2[%5] : memref<1024xf32, #gpu.address_space<workgroup>>
      %6 = affine.apply #map4(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %7 = memref.load %arg0[%6] : memref<6144xf32>
      %8 = affine.apply #map5(%thread_id_x, %thread_id_y)
      memref.store %7, %arg2[%8] : memref<1024xf32, #gpu.address_space<workgroup>>
      %9 = affine.apply #map6(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      %10 = memref.load %arg0[%9] : memref<6144xf32>
      %11 = affine.apply #map7(%thread_id_x, %thread_id_y)
      memref.store %10, %arg2[%11] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %12 = affine.apply #map8(%thread_id_x, %thread_id_y)
      %13 = memref.load %arg2[%12] : memref<1024xf32, #gpu.address_space<workgroup>>
      %14 = affine.apply #map9(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %13, %arg1[%14] : memref<6144xf32>
      %15 = affine.apply #map10(%thread_id_x, %thread_id_y)
      %16 = memref.load %arg2[%15] : memref<1024xf32, #gpu.address_space<workgroup>>
      %17 = affine.apply #map11(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %16, %arg1[%17] : memref<6144xf32>
      %18 = affine.apply #map12(%thread_id_x, %thread_id_y)
      %19 = memref.load %arg2[%18] : memref<1024xf32, #gpu.address_space<workgroup>>
      %20 = affine.apply #map13(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %19, %arg1[%20] : memref<6144xf32>
      %21 = affine.apply #map14(%thread_id_x, %thread_id_y)
      %22 = memref.load %arg2[%21] : memref<1024xf32, #gpu.address_space<workgroup>>
      %23 = affine.apply #map15(%block_id_x, %block_id_y, %thread_id_x, %thread_id_y)
      memref.store %22, %arg1[%23] : memref<6144xf32>
      gpu.return
    }
  }
}
