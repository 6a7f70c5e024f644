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
    gpu.func @matmul(%arg0: memref<8192xf16>, %arg1: memref<16384xf16>, %arg2: memref<8192xf32>) workgroup(%arg3 : memref<32x32xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg4 : memref<32x64xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg5 : memref<32x72xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>} {
      %c32 = arith.constant 32 : index
      %c16 = arith.constant 16 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c0 = arith.constant 0 : index
      %cst = arith.constant dense<0.000000e+00> : vector<2x2xf32>
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0:8 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst) -> (vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>) {
        gpu.barrier
        %26 = affine.apply #map(%arg6)[%block_id_x, %thread_id_x]
        %27 = vector.load %arg0[%26] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
        %28 = affine.apply #map1()[%thread_id_x]
        %29 = affine.apply #map2()[%thread_id_x]
        vector.store %27, %arg3[%28, %29] {alignment = 16 : i64} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %30 = affine.apply #map3(%arg6)[%block_id_x, %thread_id_x]
        %31 = vector.load %arg0[%30] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
        %32 = affine.apply #map4()[%thread_id_x]
        vector.store %31, %arg3[%32, %29] {alignment = 16 : i64} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %33 = affine.apply #map5(%arg6)[%block_id_x, %thread_id_x]
        %34 = vector.load %arg1[%33] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %35 = affine.apply #map6()[%thread_id_x]
        %36 = affine.apply #map7()[%thread_id_x]
        vector.store %34, %arg4[%35, %36] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %37 = affine.apply #map8(%arg6)[%block_id_x, %thread_id_x]
        %38 = vector.load %arg1[%37] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %39 = affine.apply #map9()[%thread_id_x]
        vector.store %38, %arg4[%39, %36] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %40 = affine.apply #map10(%arg6)[%block_id_x, %thread_id_x]
        %41 = vector.load %arg1[%40] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %42 = affine.apply #map11()[%thread_id_x]
        vector.store %41, %arg4[%42, %36] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %43 = affine.apply #map12(%arg6)[%block_id_x, %thread_id_x]
        %44 = vector.load %arg1[%43] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %45 = affine.apply #map13()[%thread_id_x]
        vector.store %44, %arg4[%45, %36] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier
        %46 = gpu.lane_id
        %47 = affine.apply #map14()[%thread_id_x, %46]
        %48 = affine.apply #map15()[%46]
        %49 = nvgpu.ldmatrix %arg3[%47, %48] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %50 = affine.apply #map16()[%thread_id_x, %46]
        %51 = nvgpu.ldmatrix %arg3[%50, %48] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %52 = affine.apply #map17()[%thread_id_x, %46]
        %53 = affine.apply #map18()[%46]
        %54 = nvgpu.ldmatrix %arg4[%53, %52] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %55 = vector.extract_strided_slice %54 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %56 = vector.extract_strided_slice %54 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %57 = affine.apply #map19()[%thread_id_x, %46]
        %58 = nvgpu.ldmatrix %arg4[%53, %57] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %59 = vector.extract_strided_slice %58 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %60 = vector.extract_strided_slice %58 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %61 = nvgpu.mma.sync(%49, %55, %arg7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %62 = nvgpu.mma.sync(%49, %56, %arg8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %63 = nvgpu.mma.sync(%49, %59, %arg9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %64 = nvgpu.mma.sync(%49, %60, %arg10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %65 = nvgpu.mma.sync(%51, %60, %arg11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %66 = nvgpu.mma.sync(%51, %59, %arg12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %67 = nvgpu.mma.sync(%51, %56, %arg13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %68 = nvgpu.mma.sync(%51, %55, %arg14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %69 = affine.apply #map20()[%46]
        %70 = nvgpu.ldmatrix %arg3[%47, %69] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %71 = nvgpu.ldmatrix %arg3[%50, %69] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %72 = affine.apply #map21()[%46]
        %73 = nvgpu.ldmatrix %arg4[%72, %52] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %74 = vector.extract_strided_slice %73 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %75 = vector.extract_strided_slice %73 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %76 = nvgpu.ldmatrix %arg4[%72, %57] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %77 = vector.extract_strided_slice %76 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %78 = vector.extract_strided_slice %76 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %79 = nvgpu.mma.sync(%70, %78, %64) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %80 = nvgpu.mma.sync(%70, %77, %63) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %81 = nvgpu.mma.sync(%70, %75, %62) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %82 = nvgpu.mma.sync(%70, %74, %61) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %83 = nvgpu.mma.sync(%71, %74, %68) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %84 = nvgpu.mma.sync(%71, %75, %67) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %85 = nvgpu.mma.sync(%71, %77, %66) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %86 = nvgpu.mma.sync(%71, %78, %65) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        scf.yield %82, %81, %80, %79, %86, %85, %84, %83 : vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>
      }
      %1 = gpu.lane_id
      %2 = vector.extract %0#0[0] : vector<2xf32> from vector<2x2xf32>
      %3 = affine.apply #map22()[%thread_id_x, %1]
      %4 = affine.apply #map23()[%thread_id_x, %1]
      vector.store %2, %arg5[%3, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %5 = vector.extract %0#0[1] : vector<2xf32> from vector<2x2xf32>
      %6 = affine.apply #map24()[%thread_id_x, %1]
      vector.store %5, %arg5[%6, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %7 = vector.extract %0#1[0] : vector<2xf32> from vector<2x2xf32>
      %8 = affine.apply #map25()[%thread_id_x, %1]
      vector.store %7, %arg5[%3, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %9 = vector.extract %0#1[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %9, %arg5[%6, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %10 = vector.extract %0#2[0] : vector<2xf32> from vector<2x2xf32>
      %11 = affine.apply #map26()[%thread_id_x, %1]
      vector.store %10, %arg5[%3, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %12 = vector.extract %0#2[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %12, %arg5[%6, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %13 = vector.extract %0#3[0] : vector<2xf32> from vector<2x2xf32>
      %14 = affine.apply #map27()[%thread_id_x, %1]
      vector.store %13, %arg5[%3, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %15 = vector.extract %0#3[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %15, %arg5[%6, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %16 = vector.extract %0#7[0] : vector<2xf32> from vector<2x2xf32>
      %17 = affine.apply #map28()[%thread_id_x, %1]
      vector.store %16, %arg5[%17, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %18 = vector.extract %0#7[1] : vector<2xf32> from vector<2x2xf32>
      %19 = affine.apply #map29()[%thread_id_x, %1]
      vector.store %18, %arg5[%19, %4] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %20 = vector.extract %0#6[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %20, %arg5[%17, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %21 = vector.extract %0#6[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %21, %arg5[%19, %8] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %22 = vector.extract %0#5[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %22, %arg5[%17, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %23 = vector.extract %0#5[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %23, %arg5[%19, %11] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %24 = vector.extract %0#4[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %24, %arg5[%17, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %25 = vector.extract %0#4[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %25, %arg5[%19, %14] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %26 = affine.apply #map30(%arg6)[%thread_id_x]
        %27 = affine.apply #map31()[%thread_id_x]
        %28 = vector.load %arg5[%26, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %29 = affine.apply #map32(%arg6)[%block_id_x, %thread_id_x]
        vector.store %28, %arg2[%29] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %30 = affine.apply #map33(%arg6)[%thread_id_x]
        %31 = vector.load %arg5[%30, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %32 = affine.apply #map34(%arg6)[%block_id_x, %thread_id_x]
        vector.store %31, %arg2[%32] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %33 = affine.apply #map35(%arg6)[%thread_id_x]
        %34 = vector.load %arg5[%33, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %35 = affine.apply #map36(%arg6)[%block_id_x, %thread_id_x]
        vector.store %34, %arg2[%35] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %36 = affine.apply #map37(%arg6)[%thread_id_x]
        %37 = vector.load %arg5[%36, %27] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %38 = affine.apply #map38(%arg6)[%block_id_x, %thread_id_x]
        vector.store %37, %arg2[%38] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
