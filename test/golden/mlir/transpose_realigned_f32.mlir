#map = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96)>
#map1 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 1536)>
#map2 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 3072)>
#map3 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 4608)>
#map4 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65)>
#map5 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 1)>
#map6 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 1040)>
#map7 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 1041)>
#map8 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 2080)>
#map9 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 2081)>
#map10 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 3120)>
#map11 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 3121)>
#map12 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 64)>
#map13 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 1600)>
#map14 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 3136)>
#map15 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 4672)>
#map16 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32)>
#map17 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 65)>
#map18 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096)>
#map19 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 16)>
#map20 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 81)>
#map21 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 1024)>
#map22 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 32)>
#map23 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 97)>
#map24 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 2048)>
#map25 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 48)>
#map26 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 113)>
#map27 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 3072)>
#map28 = affine_map<(d0, d1) -> (d0 * 64 + d1 mod 64)>
#map29 = affine_map<(d0, d1) -> (d0 * 64 + (d1 floordiv 64) * 96 + d1 mod 64)>
#map30 = affine_map<(d0) -> ((d0 floordiv 64) * 65 + d0 mod 64)>
#map31 = affine_map<(d0) -> ((d0 mod 64) * 65 + d0 floordiv 64)>
#map32 = affine_map<(d0, d1) -> (d0 * 64 + d1 floordiv 64)>
#map33 = affine_map<(d0, d1) -> (d1 + d0 * 4096)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<4160xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 512, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %false = arith.constant false
      scf.if %false {
        %0 = affine.apply #map(%block_id_x, %thread_id_x)
        %1 = vector.load %arg0[%0] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %2 = affine.apply #map1(%block_id_x, %thread_id_x)
        %3 = vector.load %arg0[%2] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %4 = affine.apply #map2(%block_id_x, %thread_id_x)
        %5 = vector.load %arg0[%4] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %6 = affine.apply #map3(%block_id_x, %thread_id_x)
        %7 = vector.load %arg0[%6] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %8 = vector.extract %1[0] : f32 from vector<2xf32>
        %9 = affine.apply #map4(%thread_id_x)
        memref.store %8, %arg2[%9] : memref<4160xf32, #gpu.address_space<workgroup>>
        %10 = vector.extract %1[1] : f32 from vector<2xf32>
        %11 = affine.apply #map5(%thread_id_x)
        memref.store %10, %arg2[%11] : memref<4160xf32, #gpu.address_space<workgroup>>
        %12 = vector.extract %3[0] : f32 from vector<2xf32>
        %13 = affine.apply #map6(%thread_id_x)
        memref.store %12, %arg2[%13] : memref<4160xf32, #gpu.address_space<workgroup>>
        %14 = vector.extract %3[1] : f32 from vector<2xf32>
        %15 = affine.apply #map7(%thread_id_x)
        memref.store %14, %arg2[%15] : memref<4160xf32, #gpu.address_space<workgroup>>
        %16 = vector.extract %5[0] : f32 from vector<2xf32>
        %17 = affine.apply #map8(%thread_id_x)
        memref.store %16, %arg2[%17] : memref<4160xf32, #gpu.address_space<workgroup>>
        %18 = vector.extract %5[1] : f32 from vector<2xf32>
        %19 = affine.apply #map9(%thread_id_x)
        memref.store %18, %arg2[%19] : memref<4160xf32, #gpu.address_space<workgroup>>
        %20 = vector.extract %7[0] : f32 from vector<2xf32>
        %21 = affine.apply #map10(%thread_id_x)
        memref.store %20, %arg2[%21] : memref<4160xf32, #gpu.address_space<workgroup>>
        %22 = vector.extract %7[1] : f32 from vector<2xf32>
        %23 = affine.apply #map11(%thread_id_x)
        memref.store %22, %arg2[%23] : memref<4160xf32, #gpu.address_space<workgroup>>
        %24 = affine.apply #map12(%block_id_x, %thread_id_x)
        %25 = vector.load %arg0[%24] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %26 = affine.apply #map13(%block_id_x, %thread_id_x)
        %27 = vector.load %arg0[%26] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %28 = affine.apply #map14(%block_id_x, %thread_id_x)
        %29 = vector.load %arg0[%28] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %30 = affine.apply #map15(%block_id_x, %thread_id_x)
        %31 = vector.load %arg0[%30] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %32 = vector.extract %25[0] : f32 from vector<2xf32>
        memref.store %32, %arg2[%9] : memref<4160xf32, #gpu.address_space<workgroup>>
        %33 = vector.extract %27[0] : f32 from vector<2xf32>
        memref.store %33, %arg2[%13] : memref<4160xf32, #gpu.address_space<workgroup>>
        %34 = vector.extract %29[0] : f32 from vector<2xf32>
        memref.store %34, %arg2[%17] : memref<4160xf32, #gpu.address_space<workgroup>>
        %35 = vector.extract %31[0] : f32 from vector<2xf32>
        memref.store %35, %arg2[%21] : memref<4160xf32, #gpu.address_space<workgroup>>
        gpu.barrier
        %36 = affine.apply #map16(%thread_id_x)
        %37 = memref.load %arg2[%36] : memref<4160xf32, #gpu.address_space<workgroup>>
        %38 = affine.apply #map17(%thread_id_x)
        %39 = memref.load %arg2[%38] : memref<4160xf32, #gpu.address_space<workgroup>>
        %40 = vector.from_elements %37, %39 : vector<2xf32>
        %41 = affine.apply #map18(%block_id_x, %thread_id_x)
        vector.store %40, %arg1[%41] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %42 = affine.apply #map19(%thread_id_x)
        %43 = memref.load %arg2[%42] : memref<4160xf32, #gpu.address_space<workgroup>>
        %44 = affine.apply #map20(%thread_id_x)
        %45 = memref.load %arg2[%44] : memref<4160xf32, #gpu.address_space<workgroup>>
        %46 = vector.from_elements %43, %45 : vector<2xf32>
        %47 = affine.apply #map21(%block_id_x, %thread_id_x)
        vector.store %46, %arg1[%47] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %48 = affine.apply #map22(%thread_id_x)
        %49 = memref.load %arg2[%48] : memref<4160xf32, #gpu.address_space<workgroup>>
        %50 = affine.apply #map23(%thread_id_x)
        %51 = memref.load %arg2[%50] : memref<4160xf32, #gpu.address_space<workgroup>>
        %52 = vector.from_elements %49, %51 : vector<2xf32>
        %53 = affine.apply #map24(%block_id_x, %thread_id_x)
        vector.store %52, %arg1[%53] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %54 = affine.apply #map25(%thread_id_x)
        %55 = memref.load %arg2[%54] : memref<4160xf32, #gpu.address_space<workgroup>>
        %56 = affine.apply #map26(%thread_id_x)
        %57 = memref.load %arg2[%56] : memref<4160xf32, #gpu.address_space<workgroup>>
        %58 = vector.from_elements %55, %57 : vector<2xf32>
        %59 = affine.apply #map27(%block_id_x, %thread_id_x)
        vector.store %58, %arg1[%59] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
      } else {
        %c4096 = arith.constant 4096 : index
        %c512 = arith.constant 512 : index
        scf.for %arg3 = %thread_id_x to %c4096 step %c512 {
          %cst = arith.constant 0.000000e+00 : f32
          %0 = affine.apply #map28(%block_id_x, %arg3)
          %c96 = arith.constant 96 : index
          %1 = index.cmp slt(%0, %c96)
          %2 = scf.if %1 -> (f32) {
            %4 = affine.apply #map29(%block_id_x, %arg3)
            %5 = memref.load %arg0[%4] : memref<6144xf32>
            scf.yield %5 : f32
          } else {
            scf.yield %cst : f32
          }
          %3 = affine.apply #map30(%arg3)
          memref.store %2, %arg2[%3] : memref<4160xf32, #gpu.address_space<workgroup>>
        }
        gpu.barrier
        scf.for %arg3 = %thread_id_x to %c4096 step %c512 {
          %0 = affine.apply #map31(%arg3)
          %1 = memref.load %arg2[%0] : memref<4160xf32, #gpu.address_space<workgroup>>
          %2 = affine.apply #map32(%block_id_x, %arg3)
          %c96 = arith.constant 96 : index
          %3 = index.cmp slt(%2, %c96)
          scf.if %3 {
            %4 = affine.apply #map33(%block_id_x, %arg3)
            memref.store %1, %arg1[%4] : memref<6144xf32>
          }
        }
      }
      gpu.return
    }
  }
}
