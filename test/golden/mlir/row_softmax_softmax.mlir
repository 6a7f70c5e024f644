#map = affine_map<(d0, d1) -> (d0 + d1)>
#map1 = affine_map<(d0) -> (d0 + 128)>
#map2 = affine_map<(d0, d1) -> (d0 + d1 + 128)>
#map3 = affine_map<(d0) -> (d0 + 256)>
#map4 = affine_map<(d0, d1) -> (d0 + d1 + 256)>
#map5 = affine_map<(d0) -> (d0 + 384)>
#map6 = affine_map<(d0, d1) -> (d0 + d1 + 384)>
#map7 = affine_map<(d0) -> (d0 + 512)>
#map8 = affine_map<(d0, d1) -> (d0 + d1 + 512)>
#map9 = affine_map<(d0) -> (d0 + 640)>
#map10 = affine_map<(d0, d1) -> (d0 + d1 + 640)>
#map11 = affine_map<(d0) -> (d0 + 768)>
#map12 = affine_map<(d0, d1) -> (d0 + d1 + 768)>
#map13 = affine_map<(d0) -> (d0 + 896)>
#map14 = affine_map<(d0, d1) -> (d0 + d1 + 896)>
#map15 = affine_map<(d0) -> (d0 mod 32)>
#map16 = affine_map<(d0) -> (d0 floordiv 32)>
#map17 = affine_map<(d0) -> (d0 mod 4)>
module attributes {gpu.container_module} {
  gpu.module @softmax_module {
    gpu.func @softmax(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: index, %arg3: index {lego.range = array<i64: 1, 1024>}) workgroup(%arg4 : memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg5 : memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 128, 1, 1>, lego.largest_grid = array<i64: 2147483647, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %cst = arith.constant 0xFF800000 : f32
      %0 = index.cmp slt(%thread_id_x, %arg3)
      %1 = scf.if %0 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %2 = affine.apply #map1(%thread_id_x)
      %3 = index.cmp slt(%2, %arg3)
      %4 = scf.if %3 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map2(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %5 = affine.apply #map3(%thread_id_x)
      %6 = index.cmp slt(%5, %arg3)
      %7 = scf.if %6 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map4(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %8 = affine.apply #map5(%thread_id_x)
      %9 = index.cmp slt(%8, %arg3)
      %10 = scf.if %9 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map6(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %11 = affine.apply #map7(%thread_id_x)
      %12 = index.cmp slt(%11, %arg3)
      %13 = scf.if %12 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map8(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %14 = affine.apply #map9(%thread_id_x)
      %15 = index.cmp slt(%14, %arg3)
      %16 = scf.if %15 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map10(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %17 = affine.apply #map11(%thread_id_x)
      %18 = index.cmp slt(%17, %arg3)
      %19 = scf.if %18 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map12(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %20 = affine.apply #map13(%thread_id_x)
      %21 = index.cmp slt(%20, %arg3)
      %22 = scf.if %21 -> (f32) {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map14(%thread_id_x, %82)
        %84 = memref.load %arg0[%83] : memref<?xf32>
        scf.yield %84 : f32
      } else {
        scf.yield %cst : f32
      }
      %23 = arith.maximumf %1, %4 : f32
      %24 = arith.maximumf %23, %7 : f32
      %25 = arith.maximumf %24, %10 : f32
      %26 = arith.maximumf %25, %13 : f32
      %27 = arith.maximumf %26, %16 : f32
      %28 = arith.maximumf %27, %19 : f32
      %29 = arith.maximumf %28, %22 : f32
      %c1_i32 = arith.constant 1 : i32
      %c32_i32 = arith.constant 32 : i32
      %shuffleResult, %valid = gpu.shuffle xor %29, %c1_i32, %c32_i32 : f32
      %30 = arith.maximumf %29, %shuffleResult : f32
      %c2_i32 = arith.constant 2 : i32
      %shuffleResult_0, %valid_1 = gpu.shuffle xor %30, %c2_i32, %c32_i32 : f32
      %31 = arith.maximumf %30, %shuffleResult_0 : f32
      %c4_i32 = arith.constant 4 : i32
      %shuffleResult_2, %valid_3 = gpu.shuffle xor %31, %c4_i32, %c32_i32 : f32
      %32 = arith.maximumf %31, %shuffleResult_2 : f32
      %c8_i32 = arith.constant 8 : i32
      %shuffleResult_4, %valid_5 = gpu.shuffle xor %32, %c8_i32, %c32_i32 : f32
      %33 = arith.maximumf %32, %shuffleResult_4 : f32
      %c16_i32 = arith.constant 16 : i32
      %shuffleResult_6, %valid_7 = gpu.shuffle xor %33, %c16_i32, %c32_i32 : f32
      %34 = arith.maximumf %33, %shuffleResult_6 : f32
      %35 = affine.apply #map15(%thread_id_x)
      %c1 = arith.constant 1 : index
      %36 = index.cmp slt(%35, %c1)
      scf.if %36 {
        %82 = affine.apply #map16(%thread_id_x)
        memref.store %34, %arg4[%82] : memref<4xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %37 = affine.apply #map17(%thread_id_x)
      %38 = memref.load %arg4[%37] : memref<4xf32, #gpu.address_space<workgroup>>
      %shuffleResult_8, %valid_9 = gpu.shuffle xor %38, %c1_i32, %c32_i32 : f32
      %39 = arith.maximumf %38, %shuffleResult_8 : f32
      %shuffleResult_10, %valid_11 = gpu.shuffle xor %39, %c2_i32, %c32_i32 : f32
      %40 = arith.maximumf %39, %shuffleResult_10 : f32
      %41 = arith.subf %1, %40 : f32
      %42 = math.exp %41 : f32
      %43 = arith.subf %4, %40 : f32
      %44 = math.exp %43 : f32
      %45 = arith.subf %7, %40 : f32
      %46 = math.exp %45 : f32
      %47 = arith.subf %10, %40 : f32
      %48 = math.exp %47 : f32
      %49 = arith.subf %13, %40 : f32
      %50 = math.exp %49 : f32
      %51 = arith.subf %16, %40 : f32
      %52 = math.exp %51 : f32
      %53 = arith.subf %19, %40 : f32
      %54 = math.exp %53 : f32
      %55 = arith.subf %22, %40 : f32
      %56 = math.exp %55 : f32
      %cst_12 = arith.constant 0.000000e+00 : f32
      %57 = arith.addf %cst_12, %42 : f32
      %58 = arith.addf %57, %44 : f32
      %59 = arith.addf %58, %46 : f32
      %60 = arith.addf %59, %48 : f32
      %61 = arith.addf %60, %50 : f32
      %62 = arith.addf %61, %52 : f32
      %63 = arith.addf %62, %54 : f32
      %64 = arith.addf %63, %56 : f32
      %shuffleResult_13, %valid_14 = gpu.shuffle xor %64, %c1_i32, %c32_i32 : f32
      %65 = arith.addf %64, %shuffleResult_13 : f32
      %shuffleResult_15, %valid_16 = gpu.shuffle xor %65, %c2_i32, %c32_i32 : f32
      %66 = arith.addf %65, %shuffleResult_15 : f32
      %shuffleResult_17, %valid_18 = gpu.shuffle xor %66, %c4_i32, %c32_i32 : f32
      %67 = arith.addf %66, %shuffleResult_17 : f32
      %shuffleResult_19, %valid_20 = gpu.shuffle xor %67, %c8_i32, %c32_i32 : f32
      %68 = arith.addf %67, %shuffleResult_19 : f32
      %shuffleResult_21, %valid_22 = gpu.shuffle xor %68, %c16_i32, %c32_i32 : f32
      %69 = arith.addf %68, %shuffleResult_21 : f32
      scf.if %36 {
        %82 = affine.apply #map16(%thread_id_x)
        memref.store %69, %arg5[%82] : memref<4xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %70 = memref.load %arg5[%37] : memref<4xf32, #gpu.address_space<workgroup>>
      %shuffleResult_23, %valid_24 = gpu.shuffle xor %70, %c1_i32, %c32_i32 : f32
      %71 = arith.addf %70, %shuffleResult_23 : f32
      %shuffleResult_25, %valid_26 = gpu.shuffle xor %71, %c2_i32, %c32_i32 : f32
      %72 = arith.addf %71, %shuffleResult_25 : f32
      %cst_27 = arith.constant 1.000000e+00 : f32
      %73 = arith.divf %cst_27, %72 : f32
      %74 = arith.mulf %42, %73 : f32
      scf.if %0 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map(%thread_id_x, %82)
        memref.store %74, %arg1[%83] : memref<?xf32>
      }
      %75 = arith.mulf %44, %73 : f32
      scf.if %3 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map2(%thread_id_x, %82)
        memref.store %75, %arg1[%83] : memref<?xf32>
      }
      %76 = arith.mulf %46, %73 : f32
      scf.if %6 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map4(%thread_id_x, %82)
        memref.store %76, %arg1[%83] : memref<?xf32>
      }
      %77 = arith.mulf %48, %73 : f32
      scf.if %9 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map6(%thread_id_x, %82)
        memref.store %77, %arg1[%83] : memref<?xf32>
      }
      %78 = arith.mulf %50, %73 : f32
      scf.if %12 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map8(%thread_id_x, %82)
        memref.store %78, %arg1[%83] : memref<?xf32>
      }
      %79 = arith.mulf %52, %73 : f32
      scf.if %15 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map10(%thread_id_x, %82)
        memref.store %79, %arg1[%83] : memref<?xf32>
      }
      %80 = arith.mulf %54, %73 : f32
      scf.if %18 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map12(%thread_id_x, %82)
        memref.store %80, %arg1[%83] : memref<?xf32>
      }
      %81 = arith.mulf %56, %73 : f32
      scf.if %21 {
        %82 = index.mul %block_id_x, %arg3
        %83 = affine.apply #map14(%thread_id_x, %82)
        memref.store %81, %arg1[%83] : memref<?xf32>
      }
      gpu.return
    }
  }
}
