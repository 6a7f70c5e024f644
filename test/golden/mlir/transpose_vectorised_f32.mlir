#map = affine_map<(d0, d1) -> ((d1 mod 16) * 2 + (d0 mod 3) * 32 + (d1 floordiv 16) * 192 + (d0 floordiv 3) * 3072)>
#map1 = affine_map<(d0, d1) -> ((d1 mod 16) * 2 + (d0 mod 3) * 32 + (d1 floordiv 16) * 192 + (d0 floordiv 3) * 3072 + 96)>
#map2 = affine_map<(d0) -> (d0 mod 16)>
#map3 = affine_map<(d0) -> (d0 floordiv 16)>
#map4 = affine_map<(d0, d1) -> (d1 * 2 + (d0 mod 16) * 64)>
#map5 = affine_map<(d0, d1) -> (d1 * 2 + (d0 mod 16) * 64 + 32)>
#map6 = affine_map<(d0) -> (d0 floordiv 32)>
#map7 = affine_map<(d0, d1) -> (d1 * 2 + (d0 floordiv 16) * 32)>
#map8 = affine_map<(d0, d1) -> ((d1 mod 16) * 2 + (d0 floordiv 3) * 32 + (d1 floordiv 16) * 64 + (d0 mod 3) * 2048)>
#map9 = affine_map<(d0) -> (d0 floordiv 32 + 8)>
#map10 = affine_map<(d0, d1) -> (d1 * 2 + (d0 floordiv 16 + 16) * 32)>
#map11 = affine_map<(d0, d1) -> ((d1 mod 16) * 2 + (d0 floordiv 3) * 32 + (d1 floordiv 16) * 64 + (d0 mod 3) * 2048 + 1024)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = vector.load %arg0[%0] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
      %2 = affine.apply #map1(%block_id_x, %thread_id_x)
      %3 = vector.load %arg0[%2] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
      %4 = vector.extract %1[0] : f32 from vector<2xf32>
      %5 = vector.extract %3[0] : f32 from vector<2xf32>
      %6 = vector.from_elements %4, %5 : vector<2xf32>
      %7 = affine.apply #map2(%thread_id_x)
      %8 = affine.apply #map3(%thread_id_x)
      %9 = index.xor %7, %8
      %10 = affine.apply #map4(%thread_id_x, %9)
      vector.store %6, %arg2[%10] {alignment = 8 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %11 = vector.extract %1[1] : f32 from vector<2xf32>
      %12 = vector.extract %3[1] : f32 from vector<2xf32>
      %13 = vector.from_elements %11, %12 : vector<2xf32>
      %14 = affine.apply #map5(%thread_id_x, %9)
      vector.store %13, %arg2[%14] {alignment = 8 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      %15 = affine.apply #map6(%thread_id_x)
      %16 = index.xor %7, %15
      %17 = affine.apply #map7(%thread_id_x, %16)
      %18 = vector.load %arg2[%17] {alignment = 8 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %19 = affine.apply #map8(%block_id_x, %thread_id_x)
      vector.store %18, %arg1[%19] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
      gpu.barrier
      %20 = affine.apply #map9(%thread_id_x)
      %21 = index.xor %7, %20
      %22 = affine.apply #map10(%thread_id_x, %21)
      %23 = vector.load %arg2[%22] {alignment = 8 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %24 = affine.apply #map11(%block_id_x, %thread_id_x)
      vector.store %23, %arg1[%24] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
      gpu.return
    }
  }
}
