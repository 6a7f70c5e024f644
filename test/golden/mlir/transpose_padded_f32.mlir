#map = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32)>
#map1 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32)>
#map2 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 768)>
#map3 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32 + 264)>
#map4 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 1536)>
#map5 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32 + 528)>
#map6 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 2304)>
#map7 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32 + 792)>
#map8 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32)>
#map9 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32)>
#map10 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32 + 8)>
#map11 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 512)>
#map12 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32 + 16)>
#map13 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 1024)>
#map14 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32 + 24)>
#map15 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1056xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = memref.load %arg0[%0] : memref<6144xf32>
      %2 = affine.apply #map1(%thread_id_x)
      memref.store %1, %arg2[%2] : memref<1056xf32, #gpu.address_space<workgroup>>
      %3 = affine.apply #map2(%block_id_x, %thread_id_x)
      %4 = memref.load %arg0[%3] : memref<6144xf32>
      %5 = affine.apply #map3(%thread_id_x)
      memref.store %4, %arg2[%5] : memref<1056xf32, #gpu.address_space<workgroup>>
      %6 = affine.apply #map4(%block_id_x, %thread_id_x)
      %7 = memref.load %arg0[%6] : memref<6144xf32>
      %8 = affine.apply #map5(%thread_id_x)
      memref.store %7, %arg2[%8] : memref<1056xf32, #gpu.address_space<workgroup>>
      %9 = affine.apply #map6(%block_id_x, %thread_id_x)
      %10 = memref.load %arg0[%9] : memref<6144xf32>
      %11 = affine.apply #map7(%thread_id_x)
      memref.store %10, %arg2[%11] : memref<1056xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %12 = affine.apply #map8(%thread_id_x)
      %13 = memref.load %arg2[%12] : memref<1056xf32, #gpu.address_space<workgroup>>
      %14 = affine.apply #map9(%block_id_x, %thread_id_x)
      memref.store %13, %arg1[%14] : memref<6144xf32>
      %15 = affine.apply #map10(%thread_id_x)
      %16 = memref.load %arg2[%15] : memref<1056xf32, #gpu.address_space<workgroup>>
      %17 = affine.apply #map11(%block_id_x, %thread_id_x)
      memref.store %16, %arg1[%17] : memref<6144xf32>
      %18 = affine.apply #map12(%thread_id_x)
      %19 = memref.load %arg2[%18] : memref<1056xf32, #gpu.address_space<workgroup>>
      %20 = affine.apply #map13(%block_id_x, %thread_id_x)
      memref.store %19, %arg1[%20] : memref<6144xf32>
      %21 = affine.apply #map14(%thread_id_x)
      %22 = memref.load %arg2[%21] : memref<1056xf32, #gpu.address_space<workgroup>>
      %23 = affine.apply #map15(%block_id_x, %thread_id_x)
      memref.store %22, %arg1[%23] : memref<6144xf32>
      gpu.return
    }
  }
}
