#map = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192)>
#map1 = affine_map<()[s0] -> (s0 floordiv 4)>
#map2 = affine_map<()[s0] -> (s0 * 8 - (s0 floordiv 4) * 32)>
#map3 = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2048)>
#map4 = affine_map<()[s0] -> (s0 floordiv 4 + 16)>
#map5 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64)>
#map6 = affine_map<()[s0] -> (s0 floordiv 8)>
#map7 = affine_map<()[s0] -> (s0 * 8 - (s0 floordiv 8) * 64)>
#map8 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 1024)>
#map9 = affine_map<()[s0] -> (s0 floordiv 8 + 8)>
#map10 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 2048)>
#map11 = affine_map<()[s0] -> (s0 floordiv 8 + 16)>
#map12 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 3072)>
#map13 = affine_map<()[s0] -> (s0 floordiv 8 + 24)>
#map14 = affine_map<()[s0, s1] -> (s1 mod 16 + ((s0 floordiv 32) floordiv 2) * 32)>
#map15 = affine_map<()[s0] -> ((s0 floordiv 16) * 8)>
#map16 = affine_map<()[s0, s1] -> (s1 mod 16 + ((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map17 = affine_map<()[s0, s1] -> ((s1 floordiv 16) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map18 = affine_map<()[s0] -> (s0 mod 16)>
#map19 = affine_map<()[s0, s1] -> ((s1 floordiv 16) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map20 = affine_map<()[s0] -> ((s0 floordiv 16) * 8 + 16)>
#map21 = affine_map<()[s0] -> (s0 mod 16 + 16)>
#map22 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32)>
#map23 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map24 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 8)>
#map25 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 8)>
#map26 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map27 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 24)>
#map28 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map29 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 24)>
#map30 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16)>
#map31 = affine_map<()[s0] -> (s0 * 4 - (s0 floordiv 16) * 64)>
#map32 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64)>
#map33 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 4)>
#map34 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 512)>
#map35 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 8)>
#map36 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1024)>
#map37 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 12)>
#map38 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: memref<8192xf16>, %arg1: memref<16384xf16>, %arg2: memref<8192xf32>) workgroup(%arg3 : memref<32x72xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg4 : memref<32x32xf16, #gpu.address_space<workgroup>> {llvm.align = 128 : i64}, %arg5 : memref<32x64xf16, #gpu.address_space<workgroup>> {llvm.align = 128 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, lego.apart} {
      %cst = arith.constant dense<0.000000e+00> : vector<2x2xf32>
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0:8 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst) -> (vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>) {
        gpu.barrier
        %26 = affine.apply #map(%arg6)[%block_id_x, %thread_id_x]
        %27 = affine.apply #map1()[%thread_id_x]
        %28 = affine.apply #map2()[%thread_id_x]
        %c2 = arith.constant 2 : index
        %29 = arith.divui %27, %c2 : index
        %c4_0 = arith.constant 4 : index
        %30 = arith.remui %29, %c4_0 : index
        %c8 = arith.constant 8 : index
        %31 = arith.muli %30, %c8 : index
        %32 = arith.xori %28, %31 : index
        %33 = nvgpu.device_async_copy %arg0[%26], %arg4[%27, %32], 8 {bypassL1} : memref<8192xf16> to memref<32x32xf16, #gpu.address_space<workgroup>>
        %34 = affine.apply #map3(%arg6)[%block_id_x, %thread_id_x]
        %35 = affine.apply #map4()[%thread_id_x]
        %c2_1 = arith.constant 2 : index
        %36 = arith.divui %35, %c2_1 : index
        %c4_2 = arith.constant 4 : index
        %37 = arith.remui %36, %c4_2 : index
        %c8_3 = arith.constant 8 : index
        %38 = arith.muli %37, %c8_3 : index
        %39 = arith.xori %28, %38 : index
        %40 = nvgpu.device_async_copy %arg0[%34], %arg4[%35, %39], 8 {bypassL1} : memref<8192xf16> to memref<32x32xf16, #gpu.address_space<workgroup>>
        %41 = affine.apply #map5(%arg6)[%block_id_x, %thread_id_x]
        %42 = affine.apply #map6()[%thread_id_x]
        %43 = affine.apply #map7()[%thread_id_x]
        %c1_4 = arith.constant 1 : index
        %44 = arith.divui %42, %c1_4 : index
        %c8_5 = arith.constant 8 : index
        %45 = arith.remui %44, %c8_5 : index
        %c8_6 = arith.constant 8 : index
        %46 = arith.muli %45, %c8_6 : index
        %47 = arith.xori %43, %46 : index
        %48 = nvgpu.device_async_copy %arg1[%41], %arg5[%42, %47], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %49 = affine.apply #map8(%arg6)[%block_id_x, %thread_id_x]
        %50 = affine.apply #map9()[%thread_id_x]
        %c1_7 = arith.constant 1 : index
        %51 = arith.divui %50, %c1_7 : index
        %c8_8 = arith.constant 8 : index
        %52 = arith.remui %51, %c8_8 : index
        %c8_9 = arith.constant 8 : index
        %53 = arith.muli %52, %c8_9 : index
        %54 = arith.xori %43, %53 : index
        %55 = nvgpu.device_async_copy %arg1[%49], %arg5[%50, %54], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %56 = affine.apply #map10(%arg6)[%block_id_x, %thread_id_x]
        %57 = affine.apply #map11()[%thread_id_x]
        %c1_10 = arith.constant 1 : index
        %58 = arith.divui %57, %c1_10 : index
        %c8_11 = arith.constant 8 : index
        %59 = arith.remui %58, %c8_11 : index
        %c8_12 = arith.constant 8 : index
        %60 = arith.muli %59, %c8_12 : index
        %61 = arith.xori %43, %60 : index
        %62 = nvgpu.device_async_copy %arg1[%56], %arg5[%57, %61], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %63 = affine.apply #map12(%arg6)[%block_id_x, %thread_id_x]
        %64 = affine.apply #map13()[%thread_id_x]
        %c1_13 = arith.constant 1 : index
        %65 = arith.divui %64, %c1_13 : index
        %c8_14 = arith.constant 8 : index
        %66 = arith.remui %65, %c8_14 : index
        %c8_15 = arith.constant 8 : index
        %67 = arith.muli %66, %c8_15 : index
        %68 = arith.xori %43, %67 : index
        %69 = nvgpu.device_async_copy %arg1[%63], %arg5[%64, %68], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %70 = nvgpu.device_async_create_group %33, %40, %48, %55, %62, %69
        nvgpu.device_async_wait %70
        gpu.barrier
        %71 = gpu.lane_id
        %72 = affine.apply #map14()[%thread_id_x, %71]
        %73 = affine.apply #map15()[%71]
        %c2_16 = arith.constant 2 : index
        %74 = arith.divui %72, %c2_16 : index
        %c4_17 = arith.constant 4 : index
        %75 = arith.remui %74, %c4_17 : index
        %c8_18 = arith.constant 8 : index
        %76 = arith.muli %75, %c8_18 : index
        %77 = arith.xori %73, %76 : index
        %78 = nvgpu.ldmatrix %arg4[%72, %77] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %79 = affine.apply #map16()[%thread_id_x, %71]
        %c2_19 = arith.constant 2 : index
        %80 = arith.divui %79, %c2_19 : index
        %c4_20 = arith.constant 4 : index
        %81 = arith.remui %80, %c4_20 : index
        %c8_21 = arith.constant 8 : index
        %82 = arith.muli %81, %c8_21 : index
        %83 = arith.xori %73, %82 : index
        %84 = nvgpu.ldmatrix %arg4[%79, %83] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %85 = affine.apply #map17()[%thread_id_x, %71]
        %86 = affine.apply #map18()[%71]
        %c1_22 = arith.constant 1 : index
        %87 = arith.divui %86, %c1_22 : index
        %c8_23 = arith.constant 8 : index
        %88 = arith.remui %87, %c8_23 : index
        %c8_24 = arith.constant 8 : index
        %89 = arith.muli %88, %c8_24 : index
        %90 = arith.xori %85, %89 : index
        %91 = nvgpu.ldmatrix %arg5[%86, %90] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %92 = vector.extract_strided_slice %91 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %93 = vector.extract_strided_slice %91 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %94 = affine.apply #map19()[%thread_id_x, %71]
        %c1_25 = arith.constant 1 : index
        %95 = arith.divui %86, %c1_25 : index
        %c8_26 = arith.constant 8 : index
        %96 = arith.remui %95, %c8_26 : index
        %c8_27 = arith.constant 8 : index
        %97 = arith.muli %96, %c8_27 : index
        %98 = arith.xori %94, %97 : index
        %99 = nvgpu.ldmatrix %arg5[%86, %98] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %100 = vector.extract_strided_slice %99 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %101 = vector.extract_strided_slice %99 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %102 = nvgpu.mma.sync(%78, %92, %arg7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %103 = nvgpu.mma.sync(%78, %93, %arg8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %104 = nvgpu.mma.sync(%78, %100, %arg9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %105 = nvgpu.mma.sync(%78, %101, %arg10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %106 = nvgpu.mma.sync(%84, %101, %arg11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %107 = nvgpu.mma.sync(%84, %100, %arg12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %108 = nvgpu.mma.sync(%84, %93, %arg13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %109 = nvgpu.mma.sync(%84, %92, %arg14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %110 = affine.apply #map20()[%71]
        %c2_28 = arith.constant 2 : index
        %111 = arith.divui %72, %c2_28 : index
        %c4_29 = arith.constant 4 : index
        %112 = arith.remui %111, %c4_29 : index
        %c8_30 = arith.constant 8 : index
        %113 = arith.muli %112, %c8_30 : index
        %114 = arith.xori %110, %113 : index
        %115 = nvgpu.ldmatrix %arg4[%72, %114] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %c2_31 = arith.constant 2 : index
        %116 = arith.divui %79, %c2_31 : index
        %c4_32 = arith.constant 4 : index
        %117 = arith.remui %116, %c4_32 : index
        %c8_33 = arith.constant 8 : index
        %118 = arith.muli %117, %c8_33 : index
        %119 = arith.xori %110, %118 : index
        %120 = nvgpu.ldmatrix %arg4[%79, %119] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %121 = affine.apply #map21()[%71]
        %c1_34 = arith.constant 1 : index
        %122 = arith.divui %121, %c1_34 : index
        %c8_35 = arith.constant 8 : index
        %123 = arith.remui %122, %c8_35 : index
        %c8_36 = arith.constant 8 : index
        %124 = arith.muli %123, %c8_36 : index
        %125 = arith.xori %85, %124 : index
        %126 = nvgpu.ldmatrix %arg5[%121, %125] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %127 = vector.extract_strided_slice %126 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %128 = vector.extract_strided_slice %126 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %c1_37 = arith.constant 1 : index
        %129 = arith.divui %121, %c1_37 : index
        %c8_38 = arith.constant 8 : index
        %130 = arith.remui %129, %c8_38 : index
        %c8_39 = arith.constant 8 : index
        %131 = arith.muli %130, %c8_39 : index
        %132 = arith.xori %94, %131 : index
        %133 = nvgpu.ldmatrix %arg5[%121, %132] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %134 = vector.extract_strided_slice %133 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %135 = vector.extract_strided_slice %133 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %136 = nvgpu.mma.sync(%115, %135, %105) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %137 = nvgpu.mma.sync(%115, %134, %104) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %138 = nvgpu.mma.sync(%115, %128, %103) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %139 = nvgpu.mma.sync(%115, %127, %102) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %140 = nvgpu.mma.sync(%120, %127, %109) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %141 = nvgpu.mma.sync(%120, %128, %108) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %142 = nvgpu.mma.sync(%120, %134, %107) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %143 = nvgpu.mma.sync(%120, %135, %106) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        scf.yield %139, %138, %137, %136, %143, %142, %141, %140 : vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>
      }
      %1 = gpu.lane_id
      %2 = vector.extract %0#0[0] : vector<2xf32> from vector<2x2xf32>
      %3 = affine.apply #map22()[%thread_id_x, %1]
      %4 = affine.apply #map23()[%thread_id_x, %1]
      vector.store %2, %arg3[%3, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %5 = vector.extract %0#0[1] : vector<2xf32> from vector<2x2xf32>
      %6 = affine.apply #map24()[%thread_id_x, %1]
      vector.store %5, %arg3[%6, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %7 = vector.extract %0#1[0] : vector<2xf32> from vector<2x2xf32>
      %8 = affine.apply #map25()[%thread_id_x, %1]
      vector.store %7, %arg3[%3, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %9 = vector.extract %0#1[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %9, %arg3[%6, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %10 = vector.extract %0#2[0] : vector<2xf32> from vector<2x2xf32>
      %11 = affine.apply #map26()[%thread_id_x, %1]
      vector.store %10, %arg3[%3, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %12 = vector.extract %0#2[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %12, %arg3[%6, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %13 = vector.extract %0#3[0] : vector<2xf32> from vector<2x2xf32>
      %14 = affine.apply #map27()[%thread_id_x, %1]
      vector.store %13, %arg3[%3, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %15 = vector.extract %0#3[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %15, %arg3[%6, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %16 = vector.extract %0#7[0] : vector<2xf32> from vector<2x2xf32>
      %17 = affine.apply #map28()[%thread_id_x, %1]
      vector.store %16, %arg3[%17, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %18 = vector.extract %0#7[1] : vector<2xf32> from vector<2x2xf32>
      %19 = affine.apply #map29()[%thread_id_x, %1]
      vector.store %18, %arg3[%19, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %20 = vector.extract %0#6[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %20, %arg3[%17, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %21 = vector.extract %0#6[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %21, %arg3[%19, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %22 = vector.extract %0#5[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %22, %arg3[%17, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %23 = vector.extract %0#5[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %23, %arg3[%19, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %24 = vector.extract %0#4[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %24, %arg3[%17, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %25 = vector.extract %0#4[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %25, %arg3[%19, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %26 = affine.apply #map30(%arg6)[%thread_id_x]
        %27 = affine.apply #map31()[%thread_id_x]
        %28 = vector.load %arg3[%26, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %29 = affine.apply #map32(%arg6)[%block_id_x, %thread_id_x]
        vector.store %28, %arg2[%29] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %30 = affine.apply #map33(%arg6)[%thread_id_x]
        %31 = vector.load %arg3[%30, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %32 = affine.apply #map34(%arg6)[%block_id_x, %thread_id_x]
        vector.store %31, %arg2[%32] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %33 = affine.apply #map35(%arg6)[%thread_id_x]
        %34 = vector.load %arg3[%33, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %35 = affine.apply #map36(%arg6)[%block_id_x, %thread_id_x]
        vector.store %34, %arg2[%35] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %36 = affine.apply #map37(%arg6)[%thread_id_x]
        %37 = vector.load %arg3[%36, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %38 = affine.apply #map38(%arg6)[%block_id_x, %thread_id_x]
        vector.store %37, %arg2[%38] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
