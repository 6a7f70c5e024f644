#map = affine_map<()[s0, s1] -> (s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192)>
#map1 = affine_map<()[s0] -> (s0 floordiv 4)>
#map2 = affine_map<()[s0] -> (s0 * 8 - (s0 floordiv 4) * 32)>
#map3 = affine_map<()[s0, s1] -> (s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2048)>
#map4 = affine_map<()[s0] -> (s0 floordiv 4 + 16)>
#map5 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64)>
#map6 = affine_map<()[s0] -> (s0 floordiv 8)>
#map7 = affine_map<()[s0] -> (s0 * 8 - (s0 floordiv 8) * 64)>
#map8 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 1024)>
#map9 = affine_map<()[s0] -> (s0 floordiv 8 + 8)>
#map10 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 2048)>
#map11 = affine_map<()[s0] -> (s0 floordiv 8 + 16)>
#map12 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 3072)>
#map13 = affine_map<()[s0] -> (s0 floordiv 8 + 24)>
#map14 = affine_map<()[s0, s1] -> (s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 32)>
#map15 = affine_map<()[s0, s1] -> (s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2080)>
#map16 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 4096)>
#map17 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 5120)>
#map18 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 6144)>
#map19 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 7168)>
#map20 = affine_map<()[s0, s1] -> (s1 mod 16 + ((s0 floordiv 32) floordiv 2) * 32)>
#map21 = affine_map<()[s0] -> ((s0 floordiv 16) * 8)>
#map22 = affine_map<()[s0, s1] -> (s1 mod 16 + ((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map23 = affine_map<()[s0] -> (s0 mod 16)>
#map24 = affine_map<()[s0, s1] -> ((s1 floordiv 16) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map25 = affine_map<()[s0, s1] -> ((s1 floordiv 16) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map26 = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192)>
#map27 = affine_map<(d0) -> (d0 mod 3)>
#map28 = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2048)>
#map29 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64)>
#map30 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 1024)>
#map31 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 2048)>
#map32 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 3072)>
#map33 = affine_map<()[s0] -> ((s0 floordiv 16) * 8 + 16)>
#map34 = affine_map<()[s0] -> (s0 mod 16 + 16)>
#map35 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32)>
#map36 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map37 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 8)>
#map38 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 8)>
#map39 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map40 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 24)>
#map41 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map42 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 24)>
#map43 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16)>
#map44 = affine_map<()[s0] -> (s0 * 4 - (s0 floordiv 16) * 64)>
#map45 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64)>
#map46 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 4)>
#map47 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 512)>
#map48 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 8)>
#map49 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1024)>
#map50 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 12)>
#map51 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: memref<8192xf16>, %arg1: memref<16384xf16>, %arg2: memref<8192xf32>) workgroup(%arg3 : memref<32x72xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg4 : memref<3x32x32xf16, #gpu.address_space<workgroup>> {llvm.align = 128 : i64}, %arg5 : memref<3x32x64xf16, #gpu.address_space<workgroup>> {llvm.align = 128 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>} {
      %c2 = arith.constant 2 : index
      %c8 = arith.constant 8 : index
      %cst = arith.constant dense<0.000000e+00> : vector<2x2xf32>
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map()[%block_id_x, %thread_id_x]
      %1 = affine.apply #map1()[%thread_id_x]
      %2 = affine.apply #map2()[%thread_id_x]
      %c2_0 = arith.constant 2 : index
      %3 = arith.divui %1, %c2_0 : index
      %c4_1 = arith.constant 4 : index
      %4 = arith.remui %3, %c4_1 : index
      %c8_2 = arith.constant 8 : index
      %5 = arith.muli %4, %c8_2 : index
      %6 = arith.xori %2, %5 : index
      %7 = nvgpu.device_async_copy %arg0[%0], %arg4[%c0, %1, %6], 8 {bypassL1} : memref<8192xf16> to memref<3x32x32xf16, #gpu.address_space<workgroup>>
      %8 = affine.apply #map3()[%block_id_x, %thread_id_x]
      %9 = affine.apply #map4()[%thread_id_x]
      %c2_3 = arith.constant 2 : index
      %10 = arith.divui %9, %c2_3 : index
      %c4_4 = arith.constant 4 : index
      %11 = arith.remui %10, %c4_4 : index
      %c8_5 = arith.constant 8 : index
      %12 = arith.muli %11, %c8_5 : index
      %13 = arith.xori %2, %12 : index
      %14 = nvgpu.device_async_copy %arg0[%8], %arg4[%c0, %9, %13], 8 {bypassL1} : memref<8192xf16> to memref<3x32x32xf16, #gpu.address_space<workgroup>>
      %15 = affine.apply #map5()[%block_id_x, %thread_id_x]
      %16 = affine.apply #map6()[%thread_id_x]
      %17 = affine.apply #map7()[%thread_id_x]
      %c1_6 = arith.constant 1 : index
      %18 = arith.divui %16, %c1_6 : index
      %c8_7 = arith.constant 8 : index
      %19 = arith.remui %18, %c8_7 : index
      %c8_8 = arith.constant 8 : index
      %20 = arith.muli %19, %c8_8 : index
      %21 = arith.xori %17, %20 : index
      %22 = nvgpu.device_async_copy %arg1[%15], %arg5[%c0, %16, %21], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %23 = affine.apply #map8()[%block_id_x, %thread_id_x]
      %24 = affine.apply #map9()[%thread_id_x]
      %c1_9 = arith.constant 1 : index
      %25 = arith.divui %24, %c1_9 : index
      %c8_10 = arith.constant 8 : index
      %26 = arith.remui %25, %c8_10 : index
      %c8_11 = arith.constant 8 : index
      %27 = arith.muli %26, %c8_11 : index
      %28 = arith.xori %17, %27 : index
      %29 = nvgpu.device_async_copy %arg1[%23], %arg5[%c0, %24, %28], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %30 = affine.apply #map10()[%block_id_x, %thread_id_x]
      %31 = affine.apply #map11()[%thread_id_x]
      %c1_12 = arith.constant 1 : index
      %32 = arith.divui %31, %c1_12 : index
      %c8_13 = arith.constant 8 : index
      %33 = arith.remui %32, %c8_13 : index
      %c8_14 = arith.constant 8 : index
      %34 = arith.muli %33, %c8_14 : index
      %35 = arith.xori %17, %34 : index
      %36 = nvgpu.device_async_copy %arg1[%30], %arg5[%c0, %31, %35], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %37 = affine.apply #map12()[%block_id_x, %thread_id_x]
      %38 = affine.apply #map13()[%thread_id_x]
      %c1_15 = arith.constant 1 : index
      %39 = arith.divui %38, %c1_15 : index
      %c8_16 = arith.constant 8 : index
      %40 = arith.remui %39, %c8_16 : index
      %c8_17 = arith.constant 8 : index
      %41 = arith.muli %40, %c8_17 : index
      %42 = arith.xori %17, %41 : index
      %43 = nvgpu.device_async_copy %arg1[%37], %arg5[%c0, %38, %42], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %44 = nvgpu.device_async_create_group %7, %14, %22, %29, %36, %43
      %45 = affine.apply #map14()[%block_id_x, %thread_id_x]
      %c2_18 = arith.constant 2 : index
      %46 = arith.divui %1, %c2_18 : index
      %c4_19 = arith.constant 4 : index
      %47 = arith.remui %46, %c4_19 : index
      %c8_20 = arith.constant 8 : index
      %48 = arith.muli %47, %c8_20 : index
      %49 = arith.xori %2, %48 : index
      %50 = nvgpu.device_async_copy %arg0[%45], %arg4[%c1, %1, %49], 8 {bypassL1} : memref<8192xf16> to memref<3x32x32xf16, #gpu.address_space<workgroup>>
      %51 = affine.apply #map15()[%block_id_x, %thread_id_x]
      %c2_21 = arith.constant 2 : index
      %52 = arith.divui %9, %c2_21 : index
      %c4_22 = arith.constant 4 : index
      %53 = arith.remui %52, %c4_22 : index
      %c8_23 = arith.constant 8 : index
      %54 = arith.muli %53, %c8_23 : index
      %55 = arith.xori %2, %54 : index
      %56 = nvgpu.device_async_copy %arg0[%51], %arg4[%c1, %9, %55], 8 {bypassL1} : memref<8192xf16> to memref<3x32x32xf16, #gpu.address_space<workgroup>>
      %57 = affine.apply #map16()[%block_id_x, %thread_id_x]
      %c1_24 = arith.constant 1 : index
      %58 = arith.divui %16, %c1_24 : index
      %c8_25 = arith.constant 8 : index
      %59 = arith.remui %58, %c8_25 : index
      %c8_26 = arith.constant 8 : index
      %60 = arith.muli %59, %c8_26 : index
      %61 = arith.xori %17, %60 : index
      %62 = nvgpu.device_async_copy %arg1[%57], %arg5[%c1, %16, %61], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %63 = affine.apply #map17()[%block_id_x, %thread_id_x]
      %c1_27 = arith.constant 1 : index
      %64 = arith.divui %24, %c1_27 : index
      %c8_28 = arith.constant 8 : index
      %65 = arith.remui %64, %c8_28 : index
      %c8_29 = arith.constant 8 : index
      %66 = arith.muli %65, %c8_29 : index
      %67 = arith.xori %17, %66 : index
      %68 = nvgpu.device_async_copy %arg1[%63], %arg5[%c1, %24, %67], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %69 = affine.apply #map18()[%block_id_x, %thread_id_x]
      %c1_30 = arith.constant 1 : index
      %70 = arith.divui %31, %c1_30 : index
      %c8_31 = arith.constant 8 : index
      %71 = arith.remui %70, %c8_31 : index
      %c8_32 = arith.constant 8 : index
      %72 = arith.muli %71, %c8_32 : index
      %73 = arith.xori %17, %72 : index
      %74 = nvgpu.device_async_copy %arg1[%69], %arg5[%c1, %31, %73], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %75 = affine.apply #map19()[%block_id_x, %thread_id_x]
      %c1_33 = arith.constant 1 : index
      %76 = arith.divui %38, %c1_33 : index
      %c8_34 = arith.constant 8 : index
      %77 = arith.remui %76, %c8_34 : index
      %c8_35 = arith.constant 8 : index
      %78 = arith.muli %77, %c8_35 : index
      %79 = arith.xori %17, %78 : index
      %80 = nvgpu.device_async_copy %arg1[%75], %arg5[%c1, %38, %79], 8 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
      %81 = nvgpu.device_async_create_group %50, %56, %62, %68, %74, %80
      nvgpu.device_async_wait %44 {numGroups = 1 : i32}
      gpu.barrier
      %82 = gpu.lane_id
      %83 = affine.apply #map20()[%thread_id_x, %82]
      %84 = affine.apply #map21()[%82]
      %c2_36 = arith.constant 2 : index
      %85 = arith.divui %83, %c2_36 : index
      %c4_37 = arith.constant 4 : index
      %86 = arith.remui %85, %c4_37 : index
      %c8_38 = arith.constant 8 : index
      %87 = arith.muli %86, %c8_38 : index
      %88 = arith.xori %84, %87 : index
      %89 = nvgpu.ldmatrix %arg4[%c0, %83, %88] {numTiles = 4 : i32, transpose = false} : memref<3x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %90 = affine.apply #map22()[%thread_id_x, %82]
      %c2_39 = arith.constant 2 : index
      %91 = arith.divui %90, %c2_39 : index
      %c4_40 = arith.constant 4 : index
      %92 = arith.remui %91, %c4_40 : index
      %c8_41 = arith.constant 8 : index
      %93 = arith.muli %92, %c8_41 : index
      %94 = arith.xori %84, %93 : index
      %95 = nvgpu.ldmatrix %arg4[%c0, %90, %94] {numTiles = 4 : i32, transpose = false} : memref<3x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %96 = affine.apply #map23()[%82]
      %97 = affine.apply #map24()[%thread_id_x, %82]
      %c1_42 = arith.constant 1 : index
      %98 = arith.divui %96, %c1_42 : index
      %c8_43 = arith.constant 8 : index
      %99 = arith.remui %98, %c8_43 : index
      %c8_44 = arith.constant 8 : index
      %100 = arith.muli %99, %c8_44 : index
      %101 = arith.xori %97, %100 : index
      %102 = nvgpu.ldmatrix %arg5[%c0, %96, %101] {numTiles = 4 : i32, transpose = true} : memref<3x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %103 = affine.apply #map25()[%thread_id_x, %82]
      %c1_45 = arith.constant 1 : index
      %104 = arith.divui %96, %c1_45 : index
      %c8_46 = arith.constant 8 : index
      %105 = arith.remui %104, %c8_46 : index
      %c8_47 = arith.constant 8 : index
      %106 = arith.muli %105, %c8_47 : index
      %107 = arith.xori %103, %106 : index
      %108 = nvgpu.ldmatrix %arg5[%c0, %96, %107] {numTiles = 4 : i32, transpose = true} : memref<3x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
      %109:16 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst, %arg15 = %44, %arg16 = %81, %arg17 = %c0, %arg18 = %c1, %arg19 = %89, %arg20 = %95, %arg21 = %102, %arg22 = %108) -> (vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, !nvgpu.device.async.token, !nvgpu.device.async.token, index, index, vector<4x2xf16>, vector<4x2xf16>, vector<4x2xf16>, vector<4x2xf16>) {
        %135 = arith.cmpi slt, %arg6, %c2 : index
        %136 = gpu.lane_id
        %137 = affine.apply #map20()[%thread_id_x, %136]
        %138 = affine.apply #map22()[%thread_id_x, %136]
        %139 = affine.apply #map24()[%thread_id_x, %136]
        %140 = vector.extract_strided_slice %arg21 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %141 = vector.extract_strided_slice %arg21 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %142 = affine.apply #map25()[%thread_id_x, %136]
        %143 = vector.extract_strided_slice %arg22 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %144 = vector.extract_strided_slice %arg22 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %145 = nvgpu.mma.sync(%arg19, %140, %arg7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %146 = nvgpu.mma.sync(%arg19, %141, %arg8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %147 = arith.addi %arg6, %c2 : index
        %148 = affine.apply #map26(%147)[%block_id_x, %thread_id_x]
        %149 = affine.apply #map27(%147)
        %150 = arith.select %135, %c8, %c0 : index
        %c2_48 = arith.constant 2 : index
        %151 = arith.divui %1, %c2_48 : index
        %c4_49 = arith.constant 4 : index
        %152 = arith.remui %151, %c4_49 : index
        %c8_50 = arith.constant 8 : index
        %153 = arith.muli %152, %c8_50 : index
        %154 = arith.xori %2, %153 : index
        %155 = nvgpu.device_async_copy %arg0[%148], %arg4[%149, %1, %154], 8, %150 {bypassL1} : memref<8192xf16> to memref<3x32x32xf16, #gpu.address_space<workgroup>>
        %156 = affine.apply #map28(%147)[%block_id_x, %thread_id_x]
        %c2_51 = arith.constant 2 : index
        %157 = arith.divui %9, %c2_51 : index
        %c4_52 = arith.constant 4 : index
        %158 = arith.remui %157, %c4_52 : index
        %c8_53 = arith.constant 8 : index
        %159 = arith.muli %158, %c8_53 : index
        %160 = arith.xori %2, %159 : index
        %161 = nvgpu.device_async_copy %arg0[%156], %arg4[%149, %9, %160], 8, %150 {bypassL1} : memref<8192xf16> to memref<3x32x32xf16, #gpu.address_space<workgroup>>
        %162 = affine.apply #map29(%147)[%block_id_x, %thread_id_x]
        %c1_54 = arith.constant 1 : index
        %163 = arith.divui %16, %c1_54 : index
        %c8_55 = arith.constant 8 : index
        %164 = arith.remui %163, %c8_55 : index
        %c8_56 = arith.constant 8 : index
        %165 = arith.muli %164, %c8_56 : index
        %166 = arith.xori %17, %165 : index
        %167 = nvgpu.device_async_copy %arg1[%162], %arg5[%149, %16, %166], 8, %150 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
        %168 = affine.apply #map30(%147)[%block_id_x, %thread_id_x]
        %c1_57 = arith.constant 1 : index
        %169 = arith.divui %24, %c1_57 : index
        %c8_58 = arith.constant 8 : index
        %170 = arith.remui %169, %c8_58 : index
        %c8_59 = arith.constant 8 : index
        %171 = arith.muli %170, %c8_59 : index
        %172 = arith.xori %17, %171 : index
        %173 = nvgpu.device_async_copy %arg1[%168], %arg5[%149, %24, %172], 8, %150 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
        %174 = affine.apply #map31(%147)[%block_id_x, %thread_id_x]
        %c1_60 = arith.constant 1 : index
        %175 = arith.divui %31, %c1_60 : index
        %c8_61 = arith.constant 8 : index
        %176 = arith.remui %175, %c8_61 : index
        %c8_62 = arith.constant 8 : index
        %177 = arith.muli %176, %c8_62 : index
        %178 = arith.xori %17, %177 : index
        %179 = nvgpu.device_async_copy %arg1[%174], %arg5[%149, %31, %178], 8, %150 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
        %180 = affine.apply #map32(%147)[%block_id_x, %thread_id_x]
        %c1_63 = arith.constant 1 : index
        %181 = arith.divui %38, %c1_63 : index
        %c8_64 = arith.constant 8 : index
        %182 = arith.remui %181, %c8_64 : index
        %c8_65 = arith.constant 8 : index
        %183 = arith.muli %182, %c8_65 : index
        %184 = arith.xori %17, %183 : index
        %185 = nvgpu.device_async_copy %arg1[%180], %arg5[%149, %38, %184], 8, %150 {bypassL1} : memref<16384xf16> to memref<3x32x64xf16, #gpu.address_space<workgroup>>
        %186 = nvgpu.mma.sync(%arg19, %143, %arg9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %187 = nvgpu.mma.sync(%arg19, %144, %arg10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %188 = affine.apply #map33()[%136]
        %c2_66 = arith.constant 2 : index
        %189 = arith.divui %137, %c2_66 : index
        %c4_67 = arith.constant 4 : index
        %190 = arith.remui %189, %c4_67 : index
        %c8_68 = arith.constant 8 : index
        %191 = arith.muli %190, %c8_68 : index
        %192 = arith.xori %188, %191 : index
        %193 = nvgpu.ldmatrix %arg4[%arg17, %137, %192] {numTiles = 4 : i32, transpose = false} : memref<3x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %194 = nvgpu.mma.sync(%arg20, %144, %arg11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %195 = nvgpu.mma.sync(%arg20, %143, %arg12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %196 = affine.apply #map34()[%136]
        %c1_69 = arith.constant 1 : index
        %197 = arith.divui %196, %c1_69 : index
        %c8_70 = arith.constant 8 : index
        %198 = arith.remui %197, %c8_70 : index
        %c8_71 = arith.constant 8 : index
        %199 = arith.muli %198, %c8_71 : index
        %200 = arith.xori %142, %199 : index
        %201 = nvgpu.ldmatrix %arg5[%arg17, %196, %200] {numTiles = 4 : i32, transpose = true} : memref<3x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %202 = nvgpu.mma.sync(%arg20, %141, %arg13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %203 = nvgpu.mma.sync(%arg20, %140, %arg14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %c2_72 = arith.constant 2 : index
        %204 = arith.divui %138, %c2_72 : index
        %c4_73 = arith.constant 4 : index
        %205 = arith.remui %204, %c4_73 : index
        %c8_74 = arith.constant 8 : index
        %206 = arith.muli %205, %c8_74 : index
        %207 = arith.xori %188, %206 : index
        %208 = nvgpu.ldmatrix %arg4[%arg17, %138, %207] {numTiles = 4 : i32, transpose = false} : memref<3x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %c1_75 = arith.constant 1 : index
        %209 = arith.divui %196, %c1_75 : index
        %c8_76 = arith.constant 8 : index
        %210 = arith.remui %209, %c8_76 : index
        %c8_77 = arith.constant 8 : index
        %211 = arith.muli %210, %c8_77 : index
        %212 = arith.xori %139, %211 : index
        %213 = nvgpu.ldmatrix %arg5[%arg17, %196, %212] {numTiles = 4 : i32, transpose = true} : memref<3x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %214 = vector.extract_strided_slice %213 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %215 = vector.extract_strided_slice %213 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %216 = vector.extract_strided_slice %201 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %217 = vector.extract_strided_slice %201 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %218 = nvgpu.device_async_create_group %155, %161, %167, %173, %179, %185
        %219 = arith.addi %arg6, %c1 : index
        nvgpu.device_async_wait %arg16 {numGroups = 1 : i32}
        gpu.barrier
        %220 = gpu.lane_id
        %221 = affine.apply #map20()[%thread_id_x, %220]
        %222 = affine.apply #map21()[%220]
        %c2_78 = arith.constant 2 : index
        %223 = arith.divui %221, %c2_78 : index
        %c4_79 = arith.constant 4 : index
        %224 = arith.remui %223, %c4_79 : index
        %c8_80 = arith.constant 8 : index
        %225 = arith.muli %224, %c8_80 : index
        %226 = arith.xori %222, %225 : index
        %227 = nvgpu.ldmatrix %arg4[%arg18, %221, %226] {numTiles = 4 : i32, transpose = false} : memref<3x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %228 = affine.apply #map22()[%thread_id_x, %220]
        %c2_81 = arith.constant 2 : index
        %229 = arith.divui %228, %c2_81 : index
        %c4_82 = arith.constant 4 : index
        %230 = arith.remui %229, %c4_82 : index
        %c8_83 = arith.constant 8 : index
        %231 = arith.muli %230, %c8_83 : index
        %232 = arith.xori %222, %231 : index
        %233 = nvgpu.ldmatrix %arg4[%arg18, %228, %232] {numTiles = 4 : i32, transpose = false} : memref<3x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %234 = affine.apply #map23()[%220]
        %235 = affine.apply #map24()[%thread_id_x, %220]
        %c1_84 = arith.constant 1 : index
        %236 = arith.divui %234, %c1_84 : index
        %c8_85 = arith.constant 8 : index
        %237 = arith.remui %236, %c8_85 : index
        %c8_86 = arith.constant 8 : index
        %238 = arith.muli %237, %c8_86 : index
        %239 = arith.xori %235, %238 : index
        %240 = nvgpu.ldmatrix %arg5[%arg18, %234, %239] {numTiles = 4 : i32, transpose = true} : memref<3x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %241 = affine.apply #map25()[%thread_id_x, %220]
        %c1_87 = arith.constant 1 : index
        %242 = arith.divui %234, %c1_87 : index
        %c8_88 = arith.constant 8 : index
        %243 = arith.remui %242, %c8_88 : index
        %c8_89 = arith.constant 8 : index
        %244 = arith.muli %243, %c8_89 : index
        %245 = arith.xori %241, %244 : index
        %246 = nvgpu.ldmatrix %arg5[%arg18, %234, %245] {numTiles = 4 : i32, transpose = true} : memref<3x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %247 = nvgpu.mma.sync(%193, %217, %187) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %248 = nvgpu.mma.sync(%193, %216, %186) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %249 = nvgpu.mma.sync(%193, %215, %146) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %250 = nvgpu.mma.sync(%193, %214, %145) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %251 = nvgpu.mma.sync(%208, %214, %203) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %252 = nvgpu.mma.sync(%208, %215, %202) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %253 = nvgpu.mma.sync(%208, %216, %195) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %254 = nvgpu.mma.sync(%208, %217, %194) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        scf.yield %250, %249, %248, %247, %254, %253, %252, %251, %arg16, %218, %arg18, %149, %227, %233, %240, %246 : vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, !nvgpu.device.async.token, !nvgpu.device.async.token, index, index, vector<4x2xf16>, vector<4x2xf16>, vector<4x2xf16>, vector<4x2xf16>
      }
      %110 = gpu.lane_id
      %111 = vector.extract %109#0[0] : vector<2xf32> from vector<2x2xf32>
      %112 = affine.apply #map35()[%thread_id_x, %110]
      %113 = affine.apply #map36()[%thread_id_x, %110]
      vector.store %111, %arg3[%112, %113] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %114 = vector.extract %109#0[1] : vector<2xf32> from vector<2x2xf32>
      %115 = affine.apply #map37()[%thread_id_x, %110]
      vector.store %114, %arg3[%115, %113] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %116 = vector.extract %109#1[0] : vector<2xf32> from vector<2x2xf32>
      %117 = affine.apply #map38()[%thread_id_x, %110]
      vector.store %116, %arg3[%112, %117] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %118 = vector.extract %109#1[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %118, %arg3[%115, %117] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %119 = vector.extract %109#2[0] : vector<2xf32> from vector<2x2xf32>
      %120 = affine.apply #map39()[%thread_id_x, %110]
      vector.store %119, %arg3[%112, %120] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %121 = vector.extract %109#2[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %121, %arg3[%115, %120] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %122 = vector.extract %109#3[0] : vector<2xf32> from vector<2x2xf32>
      %123 = affine.apply #map40()[%thread_id_x, %110]
      vector.store %122, %arg3[%112, %123] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %124 = vector.extract %109#3[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %124, %arg3[%115, %123] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %125 = vector.extract %109#7[0] : vector<2xf32> from vector<2x2xf32>
      %126 = affine.apply #map41()[%thread_id_x, %110]
      vector.store %125, %arg3[%126, %113] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %127 = vector.extract %109#7[1] : vector<2xf32> from vector<2x2xf32>
      %128 = affine.apply #map42()[%thread_id_x, %110]
      vector.store %127, %arg3[%128, %113] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %129 = vector.extract %109#6[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %129, %arg3[%126, %117] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %130 = vector.extract %109#6[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %130, %arg3[%128, %117] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %131 = vector.extract %109#5[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %131, %arg3[%126, %120] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %132 = vector.extract %109#5[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %132, %arg3[%128, %120] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %133 = vector.extract %109#4[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %133, %arg3[%126, %123] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %134 = vector.extract %109#4[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %134, %arg3[%128, %123] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %135 = affine.apply #map43(%arg6)[%thread_id_x]
        %136 = affine.apply #map44()[%thread_id_x]
        %137 = vector.load %arg3[%135, %136] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %138 = affine.apply #map45(%arg6)[%block_id_x, %thread_id_x]
        vector.store %137, %arg2[%138] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %139 = affine.apply #map46(%arg6)[%thread_id_x]
        %140 = vector.load %arg3[%139, %136] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %141 = affine.apply #map47(%arg6)[%block_id_x, %thread_id_x]
        vector.store %140, %arg2[%141] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %142 = affine.apply #map48(%arg6)[%thread_id_x]
        %143 = vector.load %arg3[%142, %136] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %144 = affine.apply #map49(%arg6)[%block_id_x, %thread_id_x]
        vector.store %143, %arg2[%144] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %145 = affine.apply #map50(%arg6)[%thread_id_x]
        %146 = vector.load %arg3[%145, %136] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %147 = affine.apply #map51(%arg6)[%block_id_x, %thread_id_x]
        vector.store %146, %arg2[%147] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
