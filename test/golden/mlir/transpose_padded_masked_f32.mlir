#map = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + d1 mod 32)>
#map1 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + d1 floordiv 32)>
#map2 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 65 + (d0 floordiv 3) * 2080 + d1 mod 32)>
#map3 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32)>
#map4 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + d1 floordiv 32 + 8)>
#map5 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 65 + (d0 floordiv 3) * 2080 + d1 mod 32 + 520)>
#map6 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32 + 264)>
#map7 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + d1 floordiv 32 + 16)>
#map8 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 65 + (d0 floordiv 3) * 2080 + d1 mod 32 + 1040)>
#map9 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32 + 528)>
#map10 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + d1 floordiv 32 + 24)>
#map11 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + (d1 floordiv 32) * 65 + (d0 floordiv 3) * 2080 + d1 mod 32 + 1560)>
#map12 = affine_map<(d0) -> ((d0 floordiv 32) * 33 + d0 mod 32 + 792)>
#map13 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32)>
#map14 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + d1 mod 32)>
#map15 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + d1 floordiv 32)>
#map16 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 33 + (d0 mod 3) * 1056 + d1 mod 32)>
#map17 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32 + 8)>
#map18 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + d1 floordiv 32 + 8)>
#map19 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 33 + (d0 mod 3) * 1056 + d1 mod 32 + 264)>
#map20 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32 + 16)>
#map21 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + d1 floordiv 32 + 16)>
#map22 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 33 + (d0 mod 3) * 1056 + d1 mod 32 + 528)>
#map23 = affine_map<(d0) -> ((d0 mod 32) * 33 + d0 floordiv 32 + 24)>
#map24 = affine_map<(d0, d1) -> ((d0 mod 3) * 32 + d1 floordiv 32 + 24)>
#map25 = affine_map<(d0, d1) -> ((d0 floordiv 3) * 32 + (d1 floordiv 32) * 33 + (d0 mod 3) * 1056 + d1 mod 32 + 792)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<2145xf32>, %arg1: memref<2145xf32>) workgroup(%arg2 : memref<1056xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 6, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %cst = arith.constant 0.000000e+00 : f32
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %c65 = arith.constant 65 : index
      %1 = index.cmp slt(%0, %c65)
      %2 = affine.apply #map1(%block_id_x, %thread_id_x)
      %c33 = arith.constant 33 : index
      %3 = index.cmp slt(%2, %c33)
      %4 = arith.andi %1, %3 : i1
      %5 = scf.if %4 -> (f32) {
        %44 = affine.apply #map2(%block_id_x, %thread_id_x)
        %45 = memref.load %arg0[%44] : memref<2145xf32>
        scf.yield %45 : f32
      } else {
        scf.yield %cst : f32
      }
      %6 = affine.apply #map3(%thread_id_x)
      memref.store %5, %arg2[%6] : memref<1056xf32, #gpu.address_space<workgroup>>
      %7 = affine.apply #map4(%block_id_x, %thread_id_x)
      %8 = index.cmp slt(%7, %c33)
      %9 = arith.andi %1, %8 : i1
      %10 = scf.if %9 -> (f32) {
        %44 = affine.apply #map5(%block_id_x, %thread_id_x)
        %45 = memref.load %arg0[%44] : memref<2145xf32>
        scf.yield %45 : f32
      } else {
        scf.yield %cst : f32
      }
      %11 = affine.apply #map6(%thread_id_x)
      memref.store %10, %arg2[%11] : memref<1056xf32, #gpu.address_space<workgroup>>
      %12 = affine.apply #map7(%block_id_x, %thread_id_x)
      %13 = index.cmp slt(%12, %c33)
      %14 = arith.andi %1, %13 : i1
      %15 = scf.if %14 -> (f32) {
        %44 = affine.apply #map8(%block_id_x, %thread_id_x)
        %45 = memref.load %arg0[%44] : memref<2145xf32>
        scf.yield %45 : f32
      } else {
        scf.yield %cst : f32
      }
      %16 = affine.apply #map9(%thread_id_x)
      memref.store %15, %arg2[%16] : memref<1056xf32, #gpu.address_space<workgroup>>
      %17 = affine.apply #map10(%block_id_x, %thread_id_x)
      %18 = index.cmp slt(%17, %c33)
      %19 = arith.andi %1, %18 : i1
      %20 = scf.if %19 -> (f32) {
        %44 = affine.apply #map11(%block_id_x, %thread_id_x)
        %45 = memref.load %arg0[%44] : memref<2145xf32>
        scf.yield %45 : f32
      } else {
        scf.yield %cst : f32
      }
      %21 = affine.apply #map12(%thread_id_x)
      memref.store %20, %arg2[%21] : memref<1056xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %22 = affine.apply #map13(%thread_id_x)
      %23 = memref.load %arg2[%22] : memref<1056xf32, #gpu.address_space<workgroup>>
      %24 = affine.apply #map14(%block_id_x, %thread_id_x)
      %25 = index.cmp slt(%24, %c33)
      %26 = affine.apply #map15(%block_id_x, %thread_id_x)
      %27 = index.cmp slt(%26, %c65)
      %28 = arith.andi %25, %27 : i1
      scf.if %28 {
        %44 = affine.apply #map16(%block_id_x, %thread_id_x)
        memref.store %23, %arg1[%44] : memref<2145xf32>
      }
      %29 = affine.apply #map17(%thread_id_x)
      %30 = memref.load %arg2[%29] : memref<1056xf32, #gpu.address_space<workgroup>>
      %31 = affine.apply #map18(%block_id_x, %thread_id_x)
      %32 = index.cmp slt(%31, %c65)
      %33 = arith.andi %25, %32 : i1
      scf.if %33 {
        %44 = affine.apply #map19(%block_id_x, %thread_id_x)
        memref.store %30, %arg1[%44] : memref<2145xf32>
      }
      %34 = affine.apply #map20(%thread_id_x)
      %35 = memref.load %arg2[%34] : memref<1056xf32, #gpu.address_space<workgroup>>
      %36 = affine.apply #map21(%block_id_x, %thread_id_x)
      %37 = index.cmp slt(%36, %c65)
      %38 = arith.andi %25, %37 : i1
      scf.if %38 {
        %44 = affine.apply #map22(%block_id_x, %thread_id_x)
        memref.store %35, %arg1[%44] : memref<2145xf32>
      }
      %39 = affine.apply #map23(%thread_id_x)
      %40 = memref.load %arg2[%39] : memref<1056xf32, #gpu.address_space<workgroup>>
      %41 = affine.apply #map24(%block_id_x, %thread_id_x)
      %42 = index.cmp slt(%41, %c65)
      %43 = arith.andi %25, %42 : i1
      scf.if %43 {
        %44 = affine.apply #map25(%block_id_x, %thread_id_x)
        memref.store %40, %arg1[%44] : memref<2145xf32>
      }
      gpu.return
    }
  }
}
