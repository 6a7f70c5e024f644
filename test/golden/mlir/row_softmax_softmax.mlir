#map = affine_map<(d0, d1) -> (d0 + d1)>
#map1 = affine_map<(d0) -> (d0 mod 32)>
#map2 = affine_map<(d0) -> (d0 floordiv 32)>
#map3 = affine_map<(d0) -> (d0 mod 4)>
module attributes {gpu.container_module} {
  gpu.module @softmax_module {
    gpu.func @softmax(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: index, %arg3: index) workgroup(%arg4 : memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg5 : memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %cst = arith.constant 0xFF800000 : f32
      %cst_0 = arith.constant 0.000000e+00 : f32
      %c128 = arith.constant 128 : index
      %0 = scf.for %arg6 = %thread_id_x to %arg3 step %c128 iter_args(%arg7 = %cst) -> (f32) {
        %22 = index.mul %block_id_x, %arg3
        %23 = affine.apply #map(%arg6, %22)
        %24 = memref.load %arg0[%23] : memref<?xf32>
        %25 = arith.maximumf %arg7, %24 : f32
        scf.yield %25 : f32
      }
      %c1_i32 = arith.constant 1 : i32
      %c32_i32 = arith.constant 32 : i32
      %shuffleResult, %valid = gpu.shuffle xor %0, %c1_i32, %c32_i32 : f32
      %1 = arith.maximumf %0, %shuffleResult : f32
      %c2_i32 = arith.constant 2 : i32
      %shuffleResult_1, %valid_2 = gpu.shuffle xor %1, %c2_i32, %c32_i32 : f32
      %2 = arith.maximumf %1, %shuffleResult_1 : f32
      %c4_i32 = arith.constant 4 : i32
      %shuffleResult_3, %valid_4 = gpu.shuffle xor %2, %c4_i32, %c32_i32 : f32
      %3 = arith.maximumf %2, %shuffleResult_3 : f32
      %c8_i32 = arith.constant 8 : i32
      %shuffleResult_5, %valid_6 = gpu.shuffle xor %3, %c8_i32, %c32_i32 : f32
      %4 = arith.maximumf %3, %shuffleResult_5 : f32
      %c16_i32 = arith.constant 16 : i32
      %shuffleResult_7, %valid_8 = gpu.shuffle xor %4, %c16_i32, %c32_i32 : f32
      %5 = arith.maximumf %4, %shuffleResult_7 : f32
      %6 = affine.apply #map1(%thread_id_x)
      %c1 = arith.constant 1 : index
      %7 = index.cmp slt(%6, %c1)
      scf.if %7 {
        %22 = affine.apply #map2(%thread_id_x)
        memref.store %5, %arg4[%22] : memref<4xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %8 = affine.apply #map3(%thread_id_x)
      %9 = memref.load %arg4[%8] : memref<4xf32, #gpu.address_space<workgroup>>
      %shuffleResult_9, %valid_10 = gpu.shuffle xor %9, %c1_i32, %c32_i32 : f32
      %10 = arith.maximumf %9, %shuffleResult_9 : f32
      %shuffleResult_11, %valid_12 = gpu.shuffle xor %10, %c2_i32, %c32_i32 : f32
      %11 = arith.maximumf %10, %shuffleResult_11 : f32
      %12 = scf.for %arg6 = %thread_id_x to %arg3 step %c128 iter_args(%arg7 = %cst_0) -> (f32) {
        %22 = index.mul %block_id_x, %arg3
        %23 = affine.apply #map(%arg6, %22)
        %24 = memref.load %arg0[%23] : memref<?xf32>
        %25 = arith.subf %24, %11 : f32
        %26 = math.exp %25 : f32
        %27 = arith.addf %arg7, %26 : f32
        scf.yield %27 : f32
      }
      %shuffleResult_13, %valid_14 = gpu.shuffle xor %12, %c1_i32, %c32_i32 : f32
      %13 = arith.addf %12, %shuffleResult_13 : f32
      %shuffleResult_15, %valid_16 = gpu.shuffle xor %13, %c2_i32, %c32_i32 : f32
      %14 = arith.addf %13, %shuffleResult_15 : f32
      %shuffleResult_17, %valid_18 = gpu.shuffle xor %14, %c4_i32, %c32_i32 : f32
      %15 = arith.addf %14, %shuffleResult_17 : f32
      %shuffleResult_19, %valid_20 = gpu.shuffle xor %15, %c8_i32, %c32_i32 : f32
      %16 = arith.addf %15, %shuffleResult_19 : f32
      %shuffleResult_21, %valid_22 = gpu.shuffle xor %16, %c16_i32, %c32_i32 : f32
      %17 = arith.addf %16, %shuffleResult_21 : f32
      scf.if %7 {
        %22 = affine.apply #map2(%thread_id_x)
        memref.store %17, %arg5[%22] : memref<4xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %18 = memref.load %arg5[%8] : memref<4xf32, #gpu.address_space<workgroup>>
      %shuffleResult_23, %valid_24 = gpu.shuffle xor %18, %c1_i32, %c32_i32 : f32
      %19 = arith.addf %18, %shuffleResult_23 : f32
      %shuffleResult_25, %valid_26 = gpu.shuffle xor %19, %c2_i32, %c32_i32 : f32
      %20 = arith.addf %19, %shuffleResult_25 : f32
      %cst_27 = arith.constant 1.000000e+00 : f32
      %21 = arith.divf %cst_27, %20 : f32
      scf.for %arg6 = %thread_id_x to %arg3 step %c128 {
        %22 = index.mul %block_id_x, %arg3
        %23 = affine.apply #map(%arg6, %22)
        %24 = memref.load %arg0[%23] : memref<?xf32>
        %25 = arith.subf %24, %11 : f32
        %26 = math.exp %25 : f32
        %27 = arith.mulf %26, %21 : f32
        memref.store %27, %arg1[%23] : memref<?xf32>
      }
      gpu.return
    }
  }
}
