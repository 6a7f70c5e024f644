#map = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32)>
#map1 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 768)>
#map2 = affine_map<(d0) -> (d0 + 256)>
#map3 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 1536)>
#map4 = affine_map<(d0) -> (d0 + 512)>
#map5 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 2304)>
#map6 = affine_map<(d0) -> (d0 + 768)>
#map7 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32)>
#map8 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32)>
#map9 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32 + 8)>
#map10 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 512)>
#map11 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32 + 16)>
#map12 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 1024)>
#map13 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32 + 24)>
#map14 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = memref.load %arg0[%0] : memref<6144xf32>
      memref.store %1, %arg2[%thread_id_x] : memref<1024xf32, #gpu.address_space<workgroup>>
      %2 = affine.apply #map1(%block_id_x, %thread_id_x)
      %3 = memref.load %arg0[%2] : memref<6144xf32>
      %4 = affine.apply #map2(%thread_id_x)
      memref.store %3, %arg2[%4] : memref<1024xf32, #gpu.address_space<workgroup>>
      %5 = affine.apply #map3(%block_id_x, %thread_id_x)
      %6 = memref.load %arg0[%5] : memref<6144xf32>
      %7 = affine.apply #map4(%thread_id_x)
      memref.store %6, %arg2[%7] : memref<1024xf32, #gpu.address_space<workgroup>>
      %8 = affine.apply #map5(%block_id_x, %thread_id_x)
      %9 = memref.load %arg0[%8] : memref<6144xf32>
      %10 = affine.apply #map6(%thread_id_x)
      memref.store %9, %arg2[%10] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %11 = affine.apply #map7(%thread_id_x)
      %12 = memref.load %arg2[%11] : memref<1024xf32, #gpu.address_space<workgroup>>
      %13 = affine.apply #map8(%block_id_x, %thread_id_x)
      memref.store %12, %arg1[%13] : memref<6144xf32>
      %14 = affine.apply #map9(%thread_id_x)
      %15 = memref.load %arg2[%14] : memref<1024xf32, #gpu.address_space<workgroup>>
      %16 = affine.apply #map10(%block_id_x, %thread_id_x)
      memref.store %15, %arg1[%16] : memref<6144xf32>
      %17 = affine.apply #map11(%thread_id_x)
      %18 = memref.load %arg2[%17] : memref<1024xf32, #gpu.address_space<workgroup>>
      %19 = affine.apply #map12(%block_id_x, %thread_id_x)
      memref.store %18, %arg1[%19] : memref<6144xf32>
      %20 = affine.apply #map13(%thread_id_x)
      %21 = memref.load %arg2[%20] : memref<1024xf32, #gpu.address_space<workgroup>>
      %22 = affine.apply #map14(%block_id_x, %thread_id_x)
      memref.store %21, %arg1[%22] : memref<6144xf32>
      gpu.return
    }
  }
}
