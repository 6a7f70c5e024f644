#map = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 floordiv 2) * 32 + (d1 floordiv 8) * 384 + (d0 mod 2) * 3072)>
#map1 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 floordiv 2) * 32 + (d1 floordiv 8) * 384 + (d0 mod 2) * 3072 + 96)>
#map2 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 floordiv 2) * 32 + (d1 floordiv 8) * 384 + (d0 mod 2) * 3072 + 192)>
#map3 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 floordiv 2) * 32 + (d1 floordiv 8) * 384 + (d0 mod 2) * 3072 + 288)>
#map4 = affine_map<(d0) -> (d0 mod 8)>
#map5 = affine_map<(d0) -> (d0 floordiv 8)>
#map6 = affine_map<(d0, d1) -> (d1 * 4 + (d0 mod 8) * 128)>
#map7 = affine_map<(d0, d1) -> (d1 * 4 + (d0 mod 8) * 128 + 32)>
#map8 = affine_map<(d0, d1) -> (d1 * 4 + (d0 mod 8) * 128 + 64)>
#map9 = affine_map<(d0, d1) -> (d1 * 4 + (d0 mod 8) * 128 + 96)>
#map10 = affine_map<(d0) -> (d0 floordiv 32)>
#map11 = affine_map<(d0, d1) -> (d1 * 4 + (d0 floordiv 8) * 32)>
#map12 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 mod 2) * 32 + (d1 floordiv 8) * 64 + (d0 floordiv 2) * 2048)>
#map13 = affine_map<(d0) -> (d0 floordiv 32 + 2)>
#map14 = affine_map<(d0, d1) -> (d1 * 4 + (d0 floordiv 8 + 8) * 32)>
#map15 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 mod 2) * 32 + (d1 floordiv 8) * 64 + (d0 floordiv 2) * 2048 + 512)>
#map16 = affine_map<(d0) -> (d0 floordiv 32 + 4)>
#map17 = affine_map<(d0, d1) -> (d1 * 4 + (d0 floordiv 8 + 16) * 32)>
#map18 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 mod 2) * 32 + (d1 floordiv 8) * 64 + (d0 floordiv 2) * 2048 + 1024)>
#map19 = affine_map<(d0) -> (d0 floordiv 32 + 6)>
#map20 = affine_map<(d0, d1) -> (d1 * 4 + (d0 floordiv 8 + 24) * 32)>
#map21 = affine_map<(d0, d1) -> ((d1 mod 8) * 4 + (d0 mod 2) * 32 + (d1 floordiv 8) * 64 + (d0 floordiv 2) * 2048 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 6, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = vector.load %arg0[%0] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %2 = affine.apply #map1(%block_id_x, %thread_id_x)
      %3 = vector.load %arg0[%2] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %4 = affine.apply #map2(%block_id_x, %thread_id_x)
      %5 = vector.load %arg0[%4] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %6 = affine.apply #map3(%block_id_x, %thread_id_x)
      %7 = vector.load %arg0[%6] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %8 = vector.extract %1[0] : f32 from vector<4xf32>
      %9 = vector.extract %3[0] : f32 from vector<4xf32>
      %10 = vector.extract %5[0] : f32 from vector<4xf32>
      %11 = vector.extract %7[0] : f32 from vector<4xf32>
      %12 = vector.from_elements %8, %9, %10, %11 : vector<4xf32>
      %13 = affine.apply #map4(%thread_id_x)
      %14 = affine.apply #map5(%thread_id_x)
      %15 = index.xor %13, %14
      %16 = affine.apply #map6(%thread_id_x, %15)
      vector.store %12, %arg2[%16] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %17 = vector.extract %1[1] : f32 from vector<4xf32>
      %18 = vector.extract %3[1] : f32 from vector<4xf32>
      %19 = vector.extract %5[1] : f32 from vector<4xf32>
      %20 = vector.extract %7[1] : f32 from vector<4xf32>
      %21 = vector.from_elements %17, %18, %19, %20 : vector<4xf32>
      %22 = affine.apply #map7(%thread_id_x, %15)
      vector.store %21, %arg2[%22] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %23 = vector.extract %1[2] : f32 from vector<4xf32>
      %24 = vector.extract %3[2] : f32 from vector<4xf32>
      %25 = vector.extract %5[2] : f32 from vector<4xf32>
      %26 = vector.extract %7[2] : f32 from vector<4xf32>
      %27 = vector.from_elements %23, %24, %25, %26 : vector<4xf32>
      %28 = affine.apply #map8(%thread_id_x, %15)
      vector.store %27, %arg2[%28] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %29 = vector.extract %1[3] : f32 from vector<4xf32>
      %30 = vector.extract %3[3] : f32 from vector<4xf32>
      %31 = vector.extract %5[3] : f32 from vector<4xf32>
      %32 = vector.extract %7[3] : f32 from vector<4xf32>
      %33 = vector.from_elements %29, %30, %31, %32 : vector<4xf32>
      %34 = affine.apply #map9(%thread_id_x, %15)
      vector.store %33, %arg2[%34] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      gpu.barrier
      %35 = affine.apply #map10(%thread_id_x)
      %36 = index.xor %13, %35
      %37 = affine.apply #map11(%thread_id_x, %36)
      %38 = vector.load %arg2[%37] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %39 = affine.apply #map12(%block_id_x, %thread_id_x)
      vector.store %38, %arg1[%39] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %40 = affine.apply #map13(%thread_id_x)
      %41 = index.xor %13, %40
      %42 = affine.apply #map14(%thread_id_x, %41)
      %43 = vector.load %arg2[%42] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %44 = affine.apply #map15(%block_id_x, %thread_id_x)
      vector.store %43, %arg1[%44] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %45 = affine.apply #map16(%thread_id_x)
      %46 = index.xor %13, %45
      %47 = affine.apply #map17(%thread_id_x, %46)
      %48 = vector.load %arg2[%47] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %49 = affine.apply #map18(%block_id_x, %thread_id_x)
      vector.store %48, %arg1[%49] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      %50 = affine.apply #map19(%thread_id_x)
      %51 = index.xor %13, %50
      %52 = affine.apply #map20(%thread_id_x, %51)
      %53 = vector.load %arg2[%52] {alignment = 16 : i64} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %54 = affine.apply #map21(%block_id_x, %thread_id_x)
      vector.store %53, %arg1[%54] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
      gpu.return
    }
  }
}
