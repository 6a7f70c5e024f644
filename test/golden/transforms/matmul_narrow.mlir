#map = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192)>
#map1 = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2048)>
#map2 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64)>
#map3 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 1024)>
#map4 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 2048)>
#map5 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 3072)>
#map6 = affine_map<()[s0] -> (s0 floordiv 4)>
#map7 = affine_map<()[s0] -> (s0 * 8 - (s0 floordiv 4) * 32)>
#map8 = affine_map<()[s0] -> (s0 floordiv 4 + 16)>
#map9 = affine_map<()[s0] -> (s0 floordiv 8)>
#map10 = affine_map<()[s0] -> (s0 * 8 - (s0 floordiv 8) * 64)>
#map11 = affine_map<()[s0] -> (s0 floordiv 8 + 8)>
#map12 = affine_map<()[s0] -> (s0 floordiv 8 + 16)>
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
      %0 = affine.apply #map(%c0)[%block_id_x, %thread_id_x]
      %1 = vector.load %arg0[%0] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %2 = affine.apply #map1(%c0)[%block_id_x, %thread_id_x]
      %3 = vector.load %arg0[%2] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %4 = affine.apply #map2(%c0)[%block_id_x, %thread_id_x]
      %5 = vector.load %arg1[%4] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
      %6 = affine.apply #map3(%c0)[%block_id_x, %thread_id_x]
      %7 = vector.load %arg1[%6] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
      %8 = affine.apply #map4(%c0)[%block_id_x, %thread_id_x]
      %9 = vector.load %arg1[%8] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
      %10 = affine.apply #map5(%c0)[%block_id_x, %thread_id_x]
      %11 = vector.load %arg1[%10] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
      %12:14 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst, %arg15 = %1, %arg16 = %3, %arg17 = %5, %arg18 = %7, %arg19 = %9, %arg20 = %11) -> (vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<8xf16>, vector<8xf16>, vector<8xf16>, vector<8xf16>, vector<8xf16>, vector<8xf16>) {
        gpu.barrier
        %38 = affine.apply #map6()[%thread_id_x]
        %39 = affine.apply #map7()[%thread_id_x]
        vector.store %arg15, %arg3[%38, %39] {alignment = 16 : i64} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %40 = affine.apply #map8()[%thread_id_x]
        vector.store %arg16, %arg3[%40, %39] {alignment = 16 : i64} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %41 = affine.apply #map9()[%thread_id_x]
        %42 = affine.apply #map10()[%thread_id_x]
        vector.store %arg17, %arg4[%41, %42] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %43 = affine.apply #map11()[%thread_id_x]
        vector.store %arg18, %arg4[%43, %42] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %44 = affine.apply #map12()[%thread_id_x]
        vector.store %arg19, %arg4[%44, %42] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        %45 = affine.apply #map13()[%thread_id_x]
        vector.store %arg20, %arg4[%45, %42] {alignment = 16 : i64} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<8xf16>
        gpu.barrier
        %46 = arith.addi %arg6, %c1 : index
        %47 = arith.cmpi slt, %46, %c4 : index
        %48 = arith.select %47, %46, %arg6 : index
        %49 = affine.apply #map(%48)[%block_id_x, %thread_id_x]
        %50 = vector.load %arg0[%49] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
        %51 = affine.apply #map1(%48)[%block_id_x, %thread_id_x]
        %52 = vector.load %arg0[%51] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
        %53 = affine.apply #map2(%48)[%block_id_x, %thread_id_x]
        %54 = vector.load %arg1[%53] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %55 = affine.apply #map3(%48)[%block_id_x, %thread_id_x]
        %56 = vector.load %arg1[%55] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %57 = affine.apply #map4(%48)[%block_id_x, %thread_id_x]
        %58 = vector.load %arg1[%57] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %59 = affine.apply #map5(%48)[%block_id_x, %thread_id_x]
        %60 = vector.load %arg1[%59] {alignment = 16 : i64} : memref<16384xf16>, vector<8xf16>
        %61 = gpu.lane_id
        %62 = affine.apply #map14()[%thread_id_x, %61]
        %63 = affine.apply #map15()[%61]
        %64 = nvgpu.ldmatrix %arg3[%62, %63] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %65 = affine.apply #map16()[%thread_id_x, %61]
        %66 = nvgpu.ldmatrix %arg3[%65, %63] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %67 = affine.apply #map17()[%thread_id_x, %61]
        %68 = affine.apply #map18()[%61]
        %69 = nvgpu.ldmatrix %arg4[%68, %67] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %70 = vector.extract_strided_slice %69 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %71 = vector.extract_strided_slice %69 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %72 = affine.apply #map19()[%thread_id_x, %61]
        %73 = nvgpu.ldmatrix %arg4[%68, %72] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %74 = vector.extract_strided_slice %73 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %75 = vector.extract_strided_slice %73 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %76 = nvgpu.mma.sync(%64, %70, %arg7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %77 = nvgpu.mma.sync(%64, %71, %arg8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %78 = nvgpu.mma.sync(%64, %74, %arg9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %79 = nvgpu.mma.sync(%64, %75, %arg10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %80 = nvgpu.mma.sync(%66, %75, %arg11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %81 = nvgpu.mma.sync(%66, %74, %arg12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %82 = nvgpu.mma.sync(%66, %71, %arg13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %83 = nvgpu.mma.sync(%66, %70, %arg14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %84 = affine.apply #map20()[%61]
        %85 = nvgpu.ldmatrix %arg3[%62, %84] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %86 = nvgpu.ldmatrix %arg3[%65, %84] {numTiles = 4 : i32, transpose = false} : memref<32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %87 = affine.apply #map21()[%61]
        %88 = nvgpu.ldmatrix %arg4[%87, %67] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %89 = vector.extract_strided_slice %88 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %90 = vector.extract_strided_slice %88 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %91 = nvgpu.ldmatrix %arg4[%87, %72] {numTiles = 4 : i32, transpose = true} : memref<32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %92 = vector.extract_strided_slice %91 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %93 = vector.extract_strided_slice %91 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %94 = nvgpu.mma.sync(%85, %93, %79) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %95 = nvgpu.mma.sync(%85, %92, %78) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %96 = nvgpu.mma.sync(%85, %90, %77) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %97 = nvgpu.mma.sync(%85, %89, %76) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %98 = nvgpu.mma.sync(%86, %89, %83) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %99 = nvgpu.mma.sync(%86, %90, %82) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %100 = nvgpu.mma.sync(%86, %92, %81) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %101 = nvgpu.mma.sync(%86, %93, %80) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        scf.yield %97, %96, %95, %94, %101, %100, %99, %98, %50, %52, %54, %56, %58, %60 : vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<8xf16>, vector<8xf16>, vector<8xf16>, vector<8xf16>, vector<8xf16>, vector<8xf16>
      }
      %13 = gpu.lane_id
      %14 = vector.extract %12#0[0] : vector<2xf32> from vector<2x2xf32>
      %15 = affine.apply #map22()[%thread_id_x, %13]
      %16 = affine.apply #map23()[%thread_id_x, %13]
      vector.store %14, %arg5[%15, %16] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %17 = vector.extract %12#0[1] : vector<2xf32> from vector<2x2xf32>
      %18 = affine.apply #map24()[%thread_id_x, %13]
      vector.store %17, %arg5[%18, %16] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %19 = vector.extract %12#1[0] : vector<2xf32> from vector<2x2xf32>
      %20 = affine.apply #map25()[%thread_id_x, %13]
      vector.store %19, %arg5[%15, %20] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %21 = vector.extract %12#1[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %21, %arg5[%18, %20] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %22 = vector.extract %12#2[0] : vector<2xf32> from vector<2x2xf32>
      %23 = affine.apply #map26()[%thread_id_x, %13]
      vector.store %22, %arg5[%15, %23] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %24 = vector.extract %12#2[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %24, %arg5[%18, %23] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %25 = vector.extract %12#3[0] : vector<2xf32> from vector<2x2xf32>
      %26 = affine.apply #map27()[%thread_id_x, %13]
      vector.store %25, %arg5[%15, %26] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %27 = vector.extract %12#3[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %27, %arg5[%18, %26] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %28 = vector.extract %12#7[0] : vector<2xf32> from vector<2x2xf32>
      %29 = affine.apply #map28()[%thread_id_x, %13]
      vector.store %28, %arg5[%29, %16] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %30 = vector.extract %12#7[1] : vector<2xf32> from vector<2x2xf32>
      %31 = affine.apply #map29()[%thread_id_x, %13]
      vector.store %30, %arg5[%31, %16] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %32 = vector.extract %12#6[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %32, %arg5[%29, %20] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %33 = vector.extract %12#6[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %33, %arg5[%31, %20] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %34 = vector.extract %12#5[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %34, %arg5[%29, %23] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %35 = vector.extract %12#5[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %35, %arg5[%31, %23] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %36 = vector.extract %12#4[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %36, %arg5[%29, %26] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %37 = vector.extract %12#4[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %37, %arg5[%31, %26] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %38 = affine.apply #map30(%arg6)[%thread_id_x]
        %39 = affine.apply #map31()[%thread_id_x]
        %40 = vector.load %arg5[%38, %39] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %41 = affine.apply #map32(%arg6)[%block_id_x, %thread_id_x]
        vector.store %40, %arg2[%41] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %42 = affine.apply #map33(%arg6)[%thread_id_x]
        %43 = vector.load %arg5[%42, %39] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %44 = affine.apply #map34(%arg6)[%block_id_x, %thread_id_x]
        vector.store %43, %arg2[%44] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %45 = affine.apply #map35(%arg6)[%thread_id_x]
        %46 = vector.load %arg5[%45, %39] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %47 = affine.apply #map36(%arg6)[%block_id_x, %thread_id_x]
        vector.store %46, %arg2[%47] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %48 = affine.apply #map37(%arg6)[%thread_id_x]
        %49 = vector.load %arg5[%48, %39] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %50 = affine.apply #map38(%arg6)[%block_id_x, %thread_id_x]
        vector.store %49, %arg2[%50] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
