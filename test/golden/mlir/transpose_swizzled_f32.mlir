#map = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32)>
#map1 = affine_map<(d0) -> (d0 mod 32)>
#map2 = affine_map<(d0) -> (d0 floordiv 32)>
#map3 = affine_map<(d0, d1) -> ((d0 floordiv 32) * 32 + d1)>
#map4 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 768)>
#map5 = affine_map<(d0) -> (d0 floordiv 32 + 8)>
#map6 = affine_map<(d0, d1) -> ((d0 floordiv 32 + 8) * 32 + d1)>
#map7 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 1536)>
#map8 = affine_map<(d0) -> (d0 floordiv 32 + 16)>
#map9 = affine_map<(d0, d1) -> ((d0 floordiv 32 + 16) * 32 + d1)>
#map10 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 96 + (d0 floordiv 3) * 3072 + d1 mod 32 + 2304)>
#map11 = affine_map<(d0) -> (d0 floordiv 32 + 24)>
#map12 = affine_map<(d0, d1) -> ((d0 floordiv 32 + 24) * 32 + d1)>
#map13 = affine_map<(d0, d1) -> ((d0 mod 32) * 32 + d1)>
#map14 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32)>
#map15 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 512)>
#map16 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 1024)>
#map17 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 64 + (d0 mod 3) * 2048 + d1 mod 32 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = memref.load %arg0[%0] : memref<6144xf32>
      %2 = affine.apply #map1(%thread_id_x)
      %3 = affine.apply #map2(%thread_id_x)
      %4 = index.xor %2, %3
      %5 = affine.apply #map3(%thread_id_x, %4)
      memref.store %1, %arg2[%5] : memref<1024xf32, #gpu.address_space<workgroup>>
      %6 = affine.apply #map4(%block_id_x, %thread_id_x)
      %7 = memref.load %arg0[%6] : memref<6144xf32>
      %8 = affine.apply #map5(%thread_id_x)
      %9 = index.xor %2, %8
      %10 = affine.apply #map6(%thread_id_x, %9)
      memref.store %7, %arg2[%10] : memref<1024xf32, #gpu.address_space<workgroup>>
      %11 = affine.apply #map7(%block_id_x, %thread_id_x)
      %12 = memref.load %arg0[%11] : memref<6144xf32>
      %13 = affine.apply #map8(%thread_id_x)
      %14 = index.xor %2, %13
      %15 = affine.apply #map9(%thread_id_x, %14)
      memref.store %12, %arg2[%15] : memref<1024xf32, #gpu.address_space<workgroup>>
      %16 = affine.apply #map10(%block_id_x, %thread_id_x)
      %17 = memref.load %arg0[%16] : memref<6144xf32>
      %18 = affine.apply #map11(%thread_id_x)
      %19 = index.xor %2, %18
      %20 = affine.apply #map12(%thread_id_x, %19)
      memref.store %17, %arg2[%20] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %21 = affine.apply #map13(%thread_id_x, %4)
      %22 = memref.load %arg2[%21] : memref<1024xf32, #gpu.address_space<workgroup>>
      %23 = affine.apply #map14(%block_id_x, %thread_id_x)
      memref.store %22, %arg1[%23] : memref<6144xf32>
      %24 = affine.apply #map13(%thread_id_x, %9)
      %25 = memref.load %arg2[%24] : memref<1024xf32, #gpu.address_space<workgroup>>
      %26 = affine.apply #map15(%block_id_x, %thread_id_x)
      memref.store %25, %arg1[%26] : memref<6144xf32>
      %27 = affine.apply #map13(%thread_id_x, %14)
      %28 = memref.load %arg2[%27] : memref<1024xf32, #gpu.address_space<workgroup>>
      %29 = affine.apply #map16(%block_id_x, %thread_id_x)
      memref.store %28, %arg1[%29] : memref<6144xf32>
      %30 = affine.apply #map13(%thread_id_x, %19)
      %31 = memref.load %arg2[%30] : memref<1024xf32, #gpu.address_space<workgroup>>
      %32 = affine.apply #map17(%block_id_x, %thread_id_x)
      memref.store %31, %arg1[%32] : memref<6144xf32>
      gpu.return
    }
  }
}
