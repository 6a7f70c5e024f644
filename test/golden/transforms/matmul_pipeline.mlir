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
#map20 = affine_map<()[s0, s1] -> (s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 64)>
#map21 = affine_map<()[s0, s1] -> (s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2112)>
#map22 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 8192)>
#map23 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 9216)>
#map24 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 10240)>
#map25 = affine_map<()[s0, s1] -> (s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 11264)>
#map26 = affine_map<()[s0, s1] -> (s1 mod 16 + ((s0 floordiv 32) floordiv 2) * 32)>
#map27 = affine_map<()[s0] -> ((s0 floordiv 16) * 8)>
#map28 = affine_map<()[s0, s1] -> (s1 mod 16 + ((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map29 = affine_map<()[s0] -> (s0 mod 16)>
#map30 = affine_map<()[s0, s1] -> ((s1 floordiv 16) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map31 = affine_map<()[s0, s1] -> ((s1 floordiv 16) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map32 = affine_map<()[s0] -> ((s0 floordiv 16) * 8 + 16)>
#map33 = affine_map<()[s0] -> (s0 mod 16 + 16)>
#map34 = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192)>
#map35 = affine_map<(d0) -> (d0 mod 4)>
#map36 = affine_map<(d0)[s0, s1] -> (d0 * 32 + s0 * 4096 + s1 * 8 + (s1 floordiv 4) * 96 - (s0 floordiv 2) * 8192 + 2048)>
#map37 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64)>
#map38 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 1024)>
#map39 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 2048)>
#map40 = affine_map<(d0)[s0, s1] -> (d0 * 4096 + s1 * 8 + (s1 floordiv 8) * 64 + (s0 floordiv 2) * 64 + 3072)>
#map41 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32)>
#map42 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map43 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 8)>
#map44 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 8)>
#map45 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map46 = affine_map<()[s0, s1] -> (s1 * 2 - (s1 floordiv 4) * 8 + (s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 24)>
#map47 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map48 = affine_map<()[s0, s1] -> (s1 floordiv 4 + ((s0 floordiv 32) floordiv 2) * 32 + 24)>
#map49 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16)>
#map50 = affine_map<()[s0] -> (s0 * 4 - (s0 floordiv 16) * 64)>
#map51 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64)>
#map52 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 4)>
#map53 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 512)>
#map54 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 8)>
#map55 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1024)>
#map56 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 12)>
#map57 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: memref<8192xf16>, %arg1: memref<16384xf16>, %arg2: memref<8192xf32>) workgroup(%arg3 : memref<32x72xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg4 : memref<4x32x32xf16, #gpu.address_space<workgroup>> {llvm.align = 128 : i64}, %arg5 : memref<4x32x64xf16, #gpu.address_space<workgroup>> {llvm.align = 128 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>} {
      %c3 = arith.constant 3 : index
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
      %3 = nvgpu.device_async_copy %arg0[%0], %arg4[%c0, %1, %2], 8 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
      %4 = affine.apply #map3()[%block_id_x, %thread_id_x]
      %5 = affine.apply #map4()[%thread_id_x]
      %6 = nvgpu.device_async_copy %arg0[%4], %arg4[%c0, %5, %2], 8 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
      %7 = affine.apply #map5()[%block_id_x, %thread_id_x]
      %8 = affine.apply #map6()[%thread_id_x]
      %9 = affine.apply #map7()[%thread_id_x]
      %10 = nvgpu.device_async_copy %arg1[%7], %arg5[%c0, %8, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %11 = affine.apply #map8()[%block_id_x, %thread_id_x]
      %12 = affine.apply #map9()[%thread_id_x]
      %13 = nvgpu.device_async_copy %arg1[%11], %arg5[%c0, %12, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %14 = affine.apply #map10()[%block_id_x, %thread_id_x]
      %15 = affine.apply #map11()[%thread_id_x]
      %16 = nvgpu.device_async_copy %arg1[%14], %arg5[%c0, %15, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %17 = affine.apply #map12()[%block_id_x, %thread_id_x]
      %18 = affine.apply #map13()[%thread_id_x]
      %19 = nvgpu.device_async_copy %arg1[%17], %arg5[%c0, %18, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %20 = nvgpu.device_async_create_group %3, %6, %10, %13, %16, %19
      %21 = affine.apply #map14()[%block_id_x, %thread_id_x]
      %22 = nvgpu.device_async_copy %arg0[%21], %arg4[%c1, %1, %2], 8 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
      %23 = affine.apply #map15()[%block_id_x, %thread_id_x]
      %24 = nvgpu.device_async_copy %arg0[%23], %arg4[%c1, %5, %2], 8 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
      %25 = affine.apply #map16()[%block_id_x, %thread_id_x]
      %26 = nvgpu.device_async_copy %arg1[%25], %arg5[%c1, %8, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %27 = affine.apply #map17()[%block_id_x, %thread_id_x]
      %28 = nvgpu.device_async_copy %arg1[%27], %arg5[%c1, %12, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %29 = affine.apply #map18()[%block_id_x, %thread_id_x]
      %30 = nvgpu.device_async_copy %arg1[%29], %arg5[%c1, %15, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %31 = affine.apply #map19()[%block_id_x, %thread_id_x]
      %32 = nvgpu.device_async_copy %arg1[%31], %arg5[%c1, %18, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %33 = nvgpu.device_async_create_group %22, %24, %26, %28, %30, %32
      %34 = affine.apply #map20()[%block_id_x, %thread_id_x]
      %35 = nvgpu.device_async_copy %arg0[%34], %arg4[%c2, %1, %2], 8 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
      %36 = affine.apply #map21()[%block_id_x, %thread_id_x]
      %37 = nvgpu.device_async_copy %arg0[%36], %arg4[%c2, %5, %2], 8 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
      %38 = affine.apply #map22()[%block_id_x, %thread_id_x]
      %39 = nvgpu.device_async_copy %arg1[%38], %arg5[%c2, %8, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %40 = affine.apply #map23()[%block_id_x, %thread_id_x]
      %41 = nvgpu.device_async_copy %arg1[%40], %arg5[%c2, %12, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %42 = affine.apply #map24()[%block_id_x, %thread_id_x]
      %43 = nvgpu.device_async_copy %arg1[%42], %arg5[%c2, %15, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %44 = affine.apply #map25()[%block_id_x, %thread_id_x]
      %45 = nvgpu.device_async_copy %arg1[%44], %arg5[%c2, %18, %9], 8 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
      %46 = nvgpu.device_async_create_group %35, %37, %39, %41, %43, %45
      %47:14 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst, %arg15 = %20, %arg16 = %33, %arg17 = %46, %arg18 = %c0, %arg19 = %c1, %arg20 = %c2) -> (vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, !nvgpu.device.async.token, !nvgpu.device.async.token, !nvgpu.device.async.token, index, index, index) {
        %73 = arith.cmpi slt, %arg6, %c1 : index
        nvgpu.device_async_wait %arg15 {numGroups = 2 : i32}
        gpu.barrier
        %74 = gpu.lane_id
        %75 = affine.apply #map26()[%thread_id_x, %74]
        %76 = affine.apply #map27()[%74]
        %77 = nvgpu.ldmatrix %arg4[%arg18, %75, %76] {numTiles = 4 : i32, transpose = false} : memref<4x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %78 = affine.apply #map28()[%thread_id_x, %74]
        %79 = nvgpu.ldmatrix %arg4[%arg18, %78, %76] {numTiles = 4 : i32, transpose = false} : memref<4x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %80 = affine.apply #map29()[%74]
        %81 = affine.apply #map30()[%thread_id_x, %74]
        %82 = nvgpu.ldmatrix %arg5[%arg18, %80, %81] {numTiles = 4 : i32, transpose = true} : memref<4x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %83 = vector.extract_strided_slice %82 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %84 = vector.extract_strided_slice %82 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %85 = affine.apply #map31()[%thread_id_x, %74]
        %86 = nvgpu.ldmatrix %arg5[%arg18, %80, %85] {numTiles = 4 : i32, transpose = true} : memref<4x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %87 = vector.extract_strided_slice %86 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %88 = vector.extract_strided_slice %86 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %89 = nvgpu.mma.sync(%77, %83, %arg7) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %90 = nvgpu.mma.sync(%77, %84, %arg8) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %91 = nvgpu.mma.sync(%77, %87, %arg9) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %92 = nvgpu.mma.sync(%77, %88, %arg10) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %93 = nvgpu.mma.sync(%79, %88, %arg11) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %94 = nvgpu.mma.sync(%79, %87, %arg12) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %95 = nvgpu.mma.sync(%79, %84, %arg13) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %96 = nvgpu.mma.sync(%79, %83, %arg14) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %97 = affine.apply #map32()[%74]
        %98 = nvgpu.ldmatrix %arg4[%arg18, %75, %97] {numTiles = 4 : i32, transpose = false} : memref<4x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %99 = nvgpu.ldmatrix %arg4[%arg18, %78, %97] {numTiles = 4 : i32, transpose = false} : memref<4x32x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %100 = affine.apply #map33()[%74]
        %101 = nvgpu.ldmatrix %arg5[%arg18, %100, %81] {numTiles = 4 : i32, transpose = true} : memref<4x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %102 = vector.extract_strided_slice %101 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %103 = vector.extract_strided_slice %101 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %104 = nvgpu.ldmatrix %arg5[%arg18, %100, %85] {numTiles = 4 : i32, transpose = true} : memref<4x32x64xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %105 = vector.extract_strided_slice %104 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %106 = vector.extract_strided_slice %104 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %107 = nvgpu.mma.sync(%98, %106, %92) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %108 = nvgpu.mma.sync(%98, %105, %91) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %109 = nvgpu.mma.sync(%98, %103, %90) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %110 = nvgpu.mma.sync(%98, %102, %89) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %111 = nvgpu.mma.sync(%99, %102, %96) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %112 = nvgpu.mma.sync(%99, %103, %95) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %113 = nvgpu.mma.sync(%99, %105, %94) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %114 = nvgpu.mma.sync(%99, %106, %93) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %115 = arith.addi %arg6, %c3 : index
        %116 = affine.apply #map34(%115)[%block_id_x, %thread_id_x]
        %117 = affine.apply #map35(%115)
        %118 = arith.select %73, %c8, %c0 : index
        %119 = nvgpu.device_async_copy %arg0[%116], %arg4[%117, %1, %2], 8, %118 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
        %120 = affine.apply #map36(%115)[%block_id_x, %thread_id_x]
        %121 = nvgpu.device_async_copy %arg0[%120], %arg4[%117, %5, %2], 8, %118 {bypassL1} : memref<8192xf16> to memref<4x32x32xf16, #gpu.address_space<workgroup>>
        %122 = affine.apply #map37(%115)[%block_id_x, %thread_id_x]
        %123 = nvgpu.device_async_copy %arg1[%122], %arg5[%117, %8, %9], 8, %118 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
        %124 = affine.apply #map38(%115)[%block_id_x, %thread_id_x]
        %125 = nvgpu.device_async_copy %arg1[%124], %arg5[%117, %12, %9], 8, %118 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
        %126 = affine.apply #map39(%115)[%block_id_x, %thread_id_x]
        %127 = nvgpu.device_async_copy %arg1[%126], %arg5[%117, %15, %9], 8, %118 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
        %128 = affine.apply #map40(%115)[%block_id_x, %thread_id_x]
        %129 = nvgpu.device_async_copy %arg1[%128], %arg5[%117, %18, %9], 8, %118 {bypassL1} : memref<16384xf16> to memref<4x32x64xf16, #gpu.address_space<workgroup>>
        %130 = nvgpu.device_async_create_group %119, %121, %123, %125, %127, %129
        scf.yield %110, %109, %108, %107, %114, %113, %112, %111, %arg16, %arg17, %130, %arg19, %arg20, %117 : vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, vector<2x2xf32>, !nvgpu.device.async.token, !nvgpu.device.async.token, !nvgpu.device.async.token, index, index, index
      }
      %48 = gpu.lane_id
      %49 = vector.extract %47#0[0] : vector<2xf32> from vector<2x2xf32>
      %50 = affine.apply #map41()[%thread_id_x, %48]
      %51 = affine.apply #map42()[%thread_id_x, %48]
      vector.store %49, %arg3[%50, %51] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %52 = vector.extract %47#0[1] : vector<2xf32> from vector<2x2xf32>
      %53 = affine.apply #map43()[%thread_id_x, %48]
      vector.store %52, %arg3[%53, %51] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %54 = vector.extract %47#1[0] : vector<2xf32> from vector<2x2xf32>
      %55 = affine.apply #map44()[%thread_id_x, %48]
      vector.store %54, %arg3[%50, %55] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %56 = vector.extract %47#1[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %56, %arg3[%53, %55] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %57 = vector.extract %47#2[0] : vector<2xf32> from vector<2x2xf32>
      %58 = affine.apply #map45()[%thread_id_x, %48]
      vector.store %57, %arg3[%50, %58] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %59 = vector.extract %47#2[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %59, %arg3[%53, %58] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %60 = vector.extract %47#3[0] : vector<2xf32> from vector<2x2xf32>
      %61 = affine.apply #map46()[%thread_id_x, %48]
      vector.store %60, %arg3[%50, %61] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %62 = vector.extract %47#3[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %62, %arg3[%53, %61] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %63 = vector.extract %47#7[0] : vector<2xf32> from vector<2x2xf32>
      %64 = affine.apply #map47()[%thread_id_x, %48]
      vector.store %63, %arg3[%64, %51] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %65 = vector.extract %47#7[1] : vector<2xf32> from vector<2x2xf32>
      %66 = affine.apply #map48()[%thread_id_x, %48]
      vector.store %65, %arg3[%66, %51] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %67 = vector.extract %47#6[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %67, %arg3[%64, %55] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %68 = vector.extract %47#6[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %68, %arg3[%66, %55] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %69 = vector.extract %47#5[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %69, %arg3[%64, %58] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %70 = vector.extract %47#5[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %70, %arg3[%66, %58] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %71 = vector.extract %47#4[0] : vector<2xf32> from vector<2x2xf32>
      vector.store %71, %arg3[%64, %61] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %72 = vector.extract %47#4[1] : vector<2xf32> from vector<2x2xf32>
      vector.store %72, %arg3[%66, %61] : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %73 = affine.apply #map49(%arg6)[%thread_id_x]
        %74 = affine.apply #map50()[%thread_id_x]
        %75 = vector.load %arg3[%73, %74] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %76 = affine.apply #map51(%arg6)[%block_id_x, %thread_id_x]
        vector.store %75, %arg2[%76] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %77 = affine.apply #map52(%arg6)[%thread_id_x]
        %78 = vector.load %arg3[%77, %74] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %79 = affine.apply #map53(%arg6)[%block_id_x, %thread_id_x]
        vector.store %78, %arg2[%79] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %80 = affine.apply #map54(%arg6)[%thread_id_x]
        %81 = vector.load %arg3[%80, %74] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %82 = affine.apply #map55(%arg6)[%block_id_x, %thread_id_x]
        vector.store %81, %arg2[%82] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %83 = affine.apply #map56(%arg6)[%thread_id_x]
        %84 = vector.load %arg3[%83, %74] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %85 = affine.apply #map57(%arg6)[%block_id_x, %thread_id_x]
        vector.store %84, %arg2[%85] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
