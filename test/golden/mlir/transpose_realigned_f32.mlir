#map = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 - 1536)>
#map1 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96)>
#map2 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 1536)>
#map3 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 3072)>
#map4 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 4608)>
#map5 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65)>
#map6 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 1)>
#map7 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 1040)>
#map8 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 1041)>
#map9 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 2080)>
#map10 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 2081)>
#map11 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 3120)>
#map12 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 3121)>
#map13 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 4160)>
#map14 = affine_map<(d0) -> ((d0 mod 32) * 2 + (d0 floordiv 32) * 65 + 4161)>
#map15 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 - 1472)>
#map16 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 64)>
#map17 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 1600)>
#map18 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 3136)>
#map19 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 4672)>
#map20 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1040)>
#map21 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1105)>
#map22 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096)>
#map23 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1056)>
#map24 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1121)>
#map25 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 1024)>
#map26 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1072)>
#map27 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1137)>
#map28 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 2048)>
#map29 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1088)>
#map30 = affine_map<(d0) -> ((d0 mod 32) * 130 + d0 floordiv 32 + 1153)>
#map31 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 3072)>
#map32 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 - 1534)>
#map33 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 - 1535)>
#map34 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 4610)>
#map35 = affine_map<(d0, d1) -> ((d1 mod 32) * 2 + d0 * 64 + (d1 floordiv 32) * 96 + 4609)>
#map36 = affine_map<(d0) -> ((d0 mod 32) * 2)>
#map37 = affine_map<(d0) -> ((d0 mod 32) * 2 + 2)>
#map38 = affine_map<(d0, d1) -> (d0 * 64 + d1 floordiv 32 + 32)>
#map39 = affine_map<(d0) -> ((d0 mod 32) * 2 + 1)>
#map40 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 2049)>
#map41 = affine_map<(d0, d1) -> (d0 * 64 + d1 floordiv 32 + 48)>
#map42 = affine_map<(d0, d1) -> (d1 * 2 + d0 * 4096 + 3073)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<6144xf32>, %arg1: memref<6144xf32>) workgroup(%arg2 : memref<5200xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 512, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, lego.apart} {
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
        %8 = affine.apply #map4(%block_id_x, %thread_id_x)
        %9 = vector.load %arg0[%8] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %10 = vector.extract %1[0] : f32 from vector<2xf32>
        %11 = affine.apply #map5(%thread_id_x)
        memref.store %10, %arg2[%11] : memref<5200xf32, #gpu.address_space<workgroup>>
        %12 = vector.extract %1[1] : f32 from vector<2xf32>
        %13 = affine.apply #map6(%thread_id_x)
        memref.store %12, %arg2[%13] : memref<5200xf32, #gpu.address_space<workgroup>>
        %14 = vector.extract %3[0] : f32 from vector<2xf32>
        %15 = affine.apply #map7(%thread_id_x)
        memref.store %14, %arg2[%15] : memref<5200xf32, #gpu.address_space<workgroup>>
        %16 = vector.extract %3[1] : f32 from vector<2xf32>
        %17 = affine.apply #map8(%thread_id_x)
        memref.store %16, %arg2[%17] : memref<5200xf32, #gpu.address_space<workgroup>>
        %18 = vector.extract %5[0] : f32 from vector<2xf32>
        %19 = affine.apply #map9(%thread_id_x)
        memref.store %18, %arg2[%19] : memref<5200xf32, #gpu.address_space<workgroup>>
        %20 = vector.extract %5[1] : f32 from vector<2xf32>
        %21 = affine.apply #map10(%thread_id_x)
        memref.store %20, %arg2[%21] : memref<5200xf32, #gpu.address_space<workgroup>>
        %22 = vector.extract %7[0] : f32 from vector<2xf32>
        %23 = affine.apply #map11(%thread_id_x)
        memref.store %22, %arg2[%23] : memref<5200xf32, #gpu.address_space<workgroup>>
        %24 = vector.extract %7[1] : f32 from vector<2xf32>
        %25 = affine.apply #map12(%thread_id_x)
        memref.store %24, %arg2[%25] : memref<5200xf32, #gpu.address_space<workgroup>>
        %26 = vector.extract %9[0] : f32 from vector<2xf32>
        %27 = affine.apply #map13(%thread_id_x)
        memref.store %26, %arg2[%27] : memref<5200xf32, #gpu.address_space<workgroup>>
        %28 = vector.extract %9[1] : f32 from vector<2xf32>
        %29 = affine.apply #map14(%thread_id_x)
        memref.store %28, %arg2[%29] : memref<5200xf32, #gpu.address_space<workgroup>>
        %30 = affine.apply #map15(%block_id_x, %thread_id_x)
        %31 = vector.load %arg0[%30] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %32 = affine.apply #map16(%block_id_x, %thread_id_x)
        %33 = vector.load %arg0[%32] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %34 = affine.apply #map17(%block_id_x, %thread_id_x)
        %35 = vector.load %arg0[%34] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %36 = affine.apply #map18(%block_id_x, %thread_id_x)
        %37 = vector.load %arg0[%36] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %38 = affine.apply #map19(%block_id_x, %thread_id_x)
        %39 = vector.load %arg0[%38] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %40 = vector.extract %31[0] : f32 from vector<2xf32>
        memref.store %40, %arg2[%11] : memref<5200xf32, #gpu.address_space<workgroup>>
        %41 = vector.extract %33[0] : f32 from vector<2xf32>
        memref.store %41, %arg2[%15] : memref<5200xf32, #gpu.address_space<workgroup>>
        %42 = vector.extract %35[0] : f32 from vector<2xf32>
        memref.store %42, %arg2[%19] : memref<5200xf32, #gpu.address_space<workgroup>>
        %43 = vector.extract %37[0] : f32 from vector<2xf32>
        memref.store %43, %arg2[%23] : memref<5200xf32, #gpu.address_space<workgroup>>
        %44 = vector.extract %39[0] : f32 from vector<2xf32>
        memref.store %44, %arg2[%27] : memref<5200xf32, #gpu.address_space<workgroup>>
        gpu.barrier
        %45 = affine.apply #map20(%thread_id_x)
        %46 = memref.load %arg2[%45] : memref<5200xf32, #gpu.address_space<workgroup>>
        %47 = affine.apply #map21(%thread_id_x)
        %48 = memref.load %arg2[%47] : memref<5200xf32, #gpu.address_space<workgroup>>
        %49 = vector.from_elements %46, %48 : vector<2xf32>
        %50 = affine.apply #map22(%block_id_x, %thread_id_x)
        vector.store %49, %arg1[%50] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %51 = affine.apply #map23(%thread_id_x)
        %52 = memref.load %arg2[%51] : memref<5200xf32, #gpu.address_space<workgroup>>
        %53 = affine.apply #map24(%thread_id_x)
        %54 = memref.load %arg2[%53] : memref<5200xf32, #gpu.address_space<workgroup>>
        %55 = vector.from_elements %52, %54 : vector<2xf32>
        %56 = affine.apply #map25(%block_id_x, %thread_id_x)
        vector.store %55, %arg1[%56] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %57 = affine.apply #map26(%thread_id_x)
        %58 = memref.load %arg2[%57] : memref<5200xf32, #gpu.address_space<workgroup>>
        %59 = affine.apply #map27(%thread_id_x)
        %60 = memref.load %arg2[%59] : memref<5200xf32, #gpu.address_space<workgroup>>
        %61 = vector.from_elements %58, %60 : vector<2xf32>
        %62 = affine.apply #map28(%block_id_x, %thread_id_x)
        vector.store %61, %arg1[%62] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %63 = affine.apply #map29(%thread_id_x)
        %64 = memref.load %arg2[%63] : memref<5200xf32, #gpu.address_space<workgroup>>
        %65 = affine.apply #map30(%thread_id_x)
        %66 = memref.load %arg2[%65] : memref<5200xf32, #gpu.address_space<workgroup>>
        %67 = vector.from_elements %64, %66 : vector<2xf32>
        %68 = affine.apply #map31(%block_id_x, %thread_id_x)
        vector.store %67, %arg1[%68] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
      } else {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = affine.apply #map(%block_id_x, %thread_id_x)
        %1 = index.cmp sle(%c0, %0)
        %2 = affine.apply #map32(%block_id_x, %thread_id_x)
        %c6144 = arith.constant 6144 : index
        %3 = index.cmp sle(%2, %c6144)
        %4 = arith.andi %1, %3 : i1
        %5:2 = scf.if %4 -> (f32, f32) {
          %68 = vector.load %arg0[%0] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %69 = vector.extract %68[0] : f32 from vector<2xf32>
          %70 = vector.extract %68[1] : f32 from vector<2xf32>
          scf.yield %69, %70 : f32, f32
        } else {
          %68 = index.cmp slt(%0, %c6144)
          %69 = arith.andi %1, %68 : i1
          %70 = scf.if %69 -> (f32) {
            %76 = memref.load %arg0[%0] : memref<6144xf32>
            scf.yield %76 : f32
          } else {
            scf.yield %cst : f32
          }
          %71 = affine.apply #map33(%block_id_x, %thread_id_x)
          %72 = index.cmp sle(%c0, %71)
          %73 = index.cmp slt(%71, %c6144)
          %74 = arith.andi %72, %73 : i1
          %75 = scf.if %74 -> (f32) {
            %76 = memref.load %arg0[%71] : memref<6144xf32>
            scf.yield %76 : f32
          } else {
            scf.yield %cst : f32
          }
          scf.yield %70, %75 : f32, f32
        }
        %6 = affine.apply #map1(%block_id_x, %thread_id_x)
        %7 = vector.load %arg0[%6] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %8 = vector.extract %7[0] : f32 from vector<2xf32>
        %9 = vector.extract %7[1] : f32 from vector<2xf32>
        %10 = affine.apply #map2(%block_id_x, %thread_id_x)
        %11 = vector.load %arg0[%10] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %12 = vector.extract %11[0] : f32 from vector<2xf32>
        %13 = vector.extract %11[1] : f32 from vector<2xf32>
        %14 = affine.apply #map3(%block_id_x, %thread_id_x)
        %15 = vector.load %arg0[%14] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %16 = vector.extract %15[0] : f32 from vector<2xf32>
        %17 = vector.extract %15[1] : f32 from vector<2xf32>
        %18 = affine.apply #map4(%block_id_x, %thread_id_x)
        %19 = index.cmp sle(%c0, %18)
        %20 = affine.apply #map34(%block_id_x, %thread_id_x)
        %21 = index.cmp sle(%20, %c6144)
        %22 = arith.andi %19, %21 : i1
        %23:2 = scf.if %22 -> (f32, f32) {
          %68 = vector.load %arg0[%18] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %69 = vector.extract %68[0] : f32 from vector<2xf32>
          %70 = vector.extract %68[1] : f32 from vector<2xf32>
          scf.yield %69, %70 : f32, f32
        } else {
          %68 = index.cmp slt(%18, %c6144)
          %69 = arith.andi %19, %68 : i1
          %70 = scf.if %69 -> (f32) {
            %76 = memref.load %arg0[%18] : memref<6144xf32>
            scf.yield %76 : f32
          } else {
            scf.yield %cst : f32
          }
          %71 = affine.apply #map35(%block_id_x, %thread_id_x)
          %72 = index.cmp sle(%c0, %71)
          %73 = index.cmp slt(%71, %c6144)
          %74 = arith.andi %72, %73 : i1
          %75 = scf.if %74 -> (f32) {
            %76 = memref.load %arg0[%71] : memref<6144xf32>
            scf.yield %76 : f32
          } else {
            scf.yield %cst : f32
          }
          scf.yield %70, %75 : f32, f32
        }
        %24 = affine.apply #map5(%thread_id_x)
        memref.store %5#0, %arg2[%24] : memref<5200xf32, #gpu.address_space<workgroup>>
        %25 = affine.apply #map6(%thread_id_x)
        memref.store %5#1, %arg2[%25] : memref<5200xf32, #gpu.address_space<workgroup>>
        %26 = affine.apply #map7(%thread_id_x)
        memref.store %8, %arg2[%26] : memref<5200xf32, #gpu.address_space<workgroup>>
        %27 = affine.apply #map8(%thread_id_x)
        memref.store %9, %arg2[%27] : memref<5200xf32, #gpu.address_space<workgroup>>
        %28 = affine.apply #map9(%thread_id_x)
        memref.store %12, %arg2[%28] : memref<5200xf32, #gpu.address_space<workgroup>>
        %29 = affine.apply #map10(%thread_id_x)
        memref.store %13, %arg2[%29] : memref<5200xf32, #gpu.address_space<workgroup>>
        %30 = affine.apply #map11(%thread_id_x)
        memref.store %16, %arg2[%30] : memref<5200xf32, #gpu.address_space<workgroup>>
        %31 = affine.apply #map12(%thread_id_x)
        memref.store %17, %arg2[%31] : memref<5200xf32, #gpu.address_space<workgroup>>
        %32 = affine.apply #map13(%thread_id_x)
        memref.store %23#0, %arg2[%32] : memref<5200xf32, #gpu.address_space<workgroup>>
        %33 = affine.apply #map14(%thread_id_x)
        memref.store %23#1, %arg2[%33] : memref<5200xf32, #gpu.address_space<workgroup>>
        scf.if %false {
          %68 = affine.apply #map15(%block_id_x, %thread_id_x)
          %69 = vector.load %arg0[%68] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %70 = vector.extract %69[0] : f32 from vector<2xf32>
          %71 = vector.extract %69[1] : f32 from vector<2xf32>
          %72 = affine.apply #map16(%block_id_x, %thread_id_x)
          %73 = vector.load %arg0[%72] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %74 = vector.extract %73[0] : f32 from vector<2xf32>
          %75 = vector.extract %73[1] : f32 from vector<2xf32>
          %76 = affine.apply #map17(%block_id_x, %thread_id_x)
          %77 = vector.load %arg0[%76] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %78 = vector.extract %77[0] : f32 from vector<2xf32>
          %79 = vector.extract %77[1] : f32 from vector<2xf32>
          %80 = affine.apply #map18(%block_id_x, %thread_id_x)
          %81 = vector.load %arg0[%80] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %82 = vector.extract %81[0] : f32 from vector<2xf32>
          %83 = vector.extract %81[1] : f32 from vector<2xf32>
          %84 = affine.apply #map19(%block_id_x, %thread_id_x)
          %85 = vector.load %arg0[%84] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
          %86 = vector.extract %85[0] : f32 from vector<2xf32>
          %87 = vector.extract %85[1] : f32 from vector<2xf32>
          memref.store %70, %arg2[%24] : memref<5200xf32, #gpu.address_space<workgroup>>
          memref.store %74, %arg2[%26] : memref<5200xf32, #gpu.address_space<workgroup>>
          memref.store %78, %arg2[%28] : memref<5200xf32, #gpu.address_space<workgroup>>
          memref.store %82, %arg2[%30] : memref<5200xf32, #gpu.address_space<workgroup>>
          memref.store %86, %arg2[%32] : memref<5200xf32, #gpu.address_space<workgroup>>
        }
        gpu.barrier
        %34 = affine.apply #map20(%thread_id_x)
        %35 = memref.load %arg2[%34] : memref<5200xf32, #gpu.address_space<workgroup>>
        %36 = affine.apply #map21(%thread_id_x)
        %37 = memref.load %arg2[%36] : memref<5200xf32, #gpu.address_space<workgroup>>
        %38 = vector.from_elements %35, %37 : vector<2xf32>
        %39 = affine.apply #map22(%block_id_x, %thread_id_x)
        vector.store %38, %arg1[%39] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %40 = affine.apply #map23(%thread_id_x)
        %41 = memref.load %arg2[%40] : memref<5200xf32, #gpu.address_space<workgroup>>
        %42 = affine.apply #map24(%thread_id_x)
        %43 = memref.load %arg2[%42] : memref<5200xf32, #gpu.address_space<workgroup>>
        %44 = vector.from_elements %41, %43 : vector<2xf32>
        %45 = affine.apply #map25(%block_id_x, %thread_id_x)
        vector.store %44, %arg1[%45] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        %46 = affine.apply #map26(%thread_id_x)
        %47 = memref.load %arg2[%46] : memref<5200xf32, #gpu.address_space<workgroup>>
        %48 = affine.apply #map27(%thread_id_x)
        %49 = memref.load %arg2[%48] : memref<5200xf32, #gpu.address_space<workgroup>>
        %50 = vector.from_elements %47, %49 : vector<2xf32>
        %51 = affine.apply #map36(%thread_id_x)
        %52 = index.cmp sle(%c0, %51)
        %53 = affine.apply #map37(%thread_id_x)
        %c64 = arith.constant 64 : index
        %54 = index.cmp sle(%53, %c64)
        %55 = affine.apply #map38(%block_id_x, %thread_id_x)
        %c96 = arith.constant 96 : index
        %56 = index.cmp slt(%55, %c96)
        %57 = arith.andi %52, %54 : i1
        %58 = arith.andi %57, %56 : i1
        scf.if %58 {
          %68 = affine.apply #map28(%block_id_x, %thread_id_x)
          vector.store %50, %arg1[%68] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        } else {
          %68 = index.cmp slt(%51, %c64)
          %69 = arith.andi %52, %68 : i1
          %70 = arith.andi %69, %56 : i1
          scf.if %70 {
            %76 = vector.extract %50[0] : f32 from vector<2xf32>
            %77 = affine.apply #map28(%block_id_x, %thread_id_x)
            memref.store %76, %arg1[%77] : memref<6144xf32>
          }
          %71 = affine.apply #map39(%thread_id_x)
          %72 = index.cmp sle(%c0, %71)
          %73 = index.cmp slt(%71, %c64)
          %74 = arith.andi %72, %73 : i1
          %75 = arith.andi %74, %56 : i1
          scf.if %75 {
            %76 = vector.extract %50[1] : f32 from vector<2xf32>
            %77 = affine.apply #map40(%block_id_x, %thread_id_x)
            memref.store %76, %arg1[%77] : memref<6144xf32>
          }
        }
        %59 = affine.apply #map29(%thread_id_x)
        %60 = memref.load %arg2[%59] : memref<5200xf32, #gpu.address_space<workgroup>>
        %61 = affine.apply #map30(%thread_id_x)
        %62 = memref.load %arg2[%61] : memref<5200xf32, #gpu.address_space<workgroup>>
        %63 = vector.from_elements %60, %62 : vector<2xf32>
        %64 = affine.apply #map41(%block_id_x, %thread_id_x)
        %65 = index.cmp slt(%64, %c96)
        %66 = arith.andi %52, %54 : i1
        %67 = arith.andi %66, %65 : i1
        scf.if %67 {
          %68 = affine.apply #map31(%block_id_x, %thread_id_x)
          vector.store %63, %arg1[%68] {alignment = 8 : i64} : memref<6144xf32>, vector<2xf32>
        } else {
          %68 = index.cmp slt(%51, %c64)
          %69 = arith.andi %52, %68 : i1
          %70 = arith.andi %69, %65 : i1
          scf.if %70 {
            %76 = vector.extract %63[0] : f32 from vector<2xf32>
            %77 = affine.apply #map31(%block_id_x, %thread_id_x)
            memref.store %76, %arg1[%77] : memref<6144xf32>
          }
          %71 = affine.apply #map39(%thread_id_x)
          %72 = index.cmp sle(%c0, %71)
          %73 = index.cmp slt(%71, %c64)
          %74 = arith.andi %72, %73 : i1
          %75 = arith.andi %74, %65 : i1
          scf.if %75 {
            %76 = vector.extract %63[1] : f32 from vector<2xf32>
            %77 = affine.apply #map42(%block_id_x, %thread_id_x)
            memref.store %76, %arg1[%77] : memref<6144xf32>
          }
        }
      }
      gpu.return
    }
  }
}
