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
#map14 = affine_map<()[s0] -> (((s0 floordiv 32) floordiv 2) * 32)>
#map15 = affine_map<()[s0] -> (((s0 floordiv 32) floordiv 2) * 32 + 16)>
#map16 = affine_map<()[s0] -> ((s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64)>
#map17 = affine_map<(d0, d1) -> (d1, d0)>
#map18 = affine_map<()[s0] -> ((s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 16)>
#map19 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map20 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map21 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map22 = affine_map<()[s0] -> ((s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 8)>
#map23 = affine_map<()[s0] -> ((s0 floordiv 32) * 32 - ((s0 floordiv 32) floordiv 2) * 64 + 24)>
#map24 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16)>
#map25 = affine_map<()[s0] -> (s0 * 4 - (s0 floordiv 16) * 64)>
#map26 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64)>
#map27 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 4)>
#map28 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 512)>
#map29 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 8)>
#map30 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1024)>
#map31 = affine_map<(d0)[s0] -> (d0 + s0 floordiv 16 + 12)>
#map32 = affine_map<(d0)[s0, s1] -> (d0 * 128 + s0 * 4096 + s1 * 4 - (s0 floordiv 2) * 8128 + (s1 floordiv 16) * 64 + 1536)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: memref<8192xf16>, %arg1: memref<16384xf16>, %arg2: memref<8192xf32>) workgroup(%arg3 : memref<32x32xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg4 : memref<32x64xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg5 : memref<32x72xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>} {
      %c32 = arith.constant 32 : index
      %c16 = arith.constant 16 : index
      %cst = arith.constant 0.000000e+00 : f16
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c0 = arith.constant 0 : index
      %cst_0 = arith.constant dense<0.000000e+00> : vector<16x8xf32>
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0:8 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %cst_0, %arg8 = %cst_0, %arg9 = %cst_0, %arg10 = %cst_0, %arg11 = %cst_0, %arg12 = %cst_0, %arg13 = %cst_0, %arg14 = %cst_0) -> (vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>) {
        gpu.barrier
        %7 = affine.apply #map(%arg6)[%block_id_x, %thread_id_x]
        %8 = affine.apply #map1()[%thread_id_x]
        %9 = affine.apply #map2()[%thread_id_x]
        %10 = nvgpu.device_async_copy %arg0[%7], %arg3[%8, %9], 8 {bypassL1} : memref<8192xf16> to memref<32x32xf16, #gpu.address_space<workgroup>>
        %11 = affine.apply #map3(%arg6)[%block_id_x, %thread_id_x]
        %12 = affine.apply #map4()[%thread_id_x]
        %13 = nvgpu.device_async_copy %arg0[%11], %arg3[%12, %9], 8 {bypassL1} : memref<8192xf16> to memref<32x32xf16, #gpu.address_space<workgroup>>
        %14 = affine.apply #map5(%arg6)[%block_id_x, %thread_id_x]
        %15 = affine.apply #map6()[%thread_id_x]
        %16 = affine.apply #map7()[%thread_id_x]
        %17 = nvgpu.device_async_copy %arg1[%14], %arg4[%15, %16], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %18 = affine.apply #map8(%arg6)[%block_id_x, %thread_id_x]
        %19 = affine.apply #map9()[%thread_id_x]
        %20 = nvgpu.device_async_copy %arg1[%18], %arg4[%19, %16], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %21 = affine.apply #map10(%arg6)[%block_id_x, %thread_id_x]
        %22 = affine.apply #map11()[%thread_id_x]
        %23 = nvgpu.device_async_copy %arg1[%21], %arg4[%22, %16], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %24 = affine.apply #map12(%arg6)[%block_id_x, %thread_id_x]
        %25 = affine.apply #map13()[%thread_id_x]
        %26 = nvgpu.device_async_copy %arg1[%24], %arg4[%25, %16], 8 {bypassL1} : memref<16384xf16> to memref<32x64xf16, #gpu.address_space<workgroup>>
        %27 = nvgpu.device_async_create_group %10, %13, %17, %20, %23, %26
        nvgpu.device_async_wait %27
        gpu.barrier
        %28 = affine.apply #map14()[%thread_id_x]
        %29 = vector.transfer_read %arg3[%28, %c0], %cst {in_bounds = [true, true]} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %30 = affine.apply #map15()[%thread_id_x]
        %31 = vector.transfer_read %arg3[%30, %c0], %cst {in_bounds = [true, true]} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %32 = affine.apply #map16()[%thread_id_x]
        %33 = vector.transfer_read %arg4[%c0, %32], %cst {in_bounds = [true, true], permutation_map = #map17} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %34 = vector.extract_strided_slice %33 {offsets = [0, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %35 = vector.extract_strided_slice %33 {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %36 = affine.apply #map18()[%thread_id_x]
        %37 = vector.transfer_read %arg4[%c0, %36], %cst {in_bounds = [true, true], permutation_map = #map17} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %38 = vector.extract_strided_slice %37 {offsets = [0, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %39 = vector.extract_strided_slice %37 {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %40 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %29, %34, %arg7 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %41 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %29, %35, %arg8 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %42 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %29, %38, %arg9 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %43 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %29, %39, %arg10 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %44 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %31, %39, %arg11 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %45 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %31, %38, %arg12 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %46 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %31, %35, %arg13 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %47 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %31, %34, %arg14 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %48 = vector.transfer_read %arg3[%28, %c16], %cst {in_bounds = [true, true]} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %49 = vector.transfer_read %arg3[%30, %c16], %cst {in_bounds = [true, true]} : memref<32x32xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %50 = vector.transfer_read %arg4[%c16, %32], %cst {in_bounds = [true, true], permutation_map = #map17} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %51 = vector.extract_strided_slice %50 {offsets = [0, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %52 = vector.extract_strided_slice %50 {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %53 = vector.transfer_read %arg4[%c16, %36], %cst {in_bounds = [true, true], permutation_map = #map17} : memref<32x64xf16, #gpu.address_space<workgroup>>, vector<16x16xf16>
        %54 = vector.extract_strided_slice %53 {offsets = [0, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %55 = vector.extract_strided_slice %53 {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
        %56 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %48, %55, %43 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %57 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %48, %54, %42 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %58 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %48, %52, %41 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %59 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %48, %51, %40 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %60 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %49, %51, %47 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %61 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %49, %52, %46 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %62 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %49, %54, %45 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        %63 = vector.contract {indexing_maps = [#map19, #map20, #map21], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %49, %55, %44 : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
        scf.yield %59, %58, %57, %56, %63, %62, %61, %60 : vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>, vector<16x8xf32>
      }
      %1 = affine.apply #map14()[%thread_id_x]
      %2 = affine.apply #map16()[%thread_id_x]
      vector.transfer_write %0#0, %arg5[%1, %2] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      %3 = affine.apply #map22()[%thread_id_x]
      vector.transfer_write %0#1, %arg5[%1, %3] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      %4 = affine.apply #map18()[%thread_id_x]
      vector.transfer_write %0#2, %arg5[%1, %4] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      %5 = affine.apply #map23()[%thread_id_x]
      vector.transfer_write %0#3, %arg5[%1, %5] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      %6 = affine.apply #map15()[%thread_id_x]
      vector.transfer_write %0#7, %arg5[%6, %2] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      vector.transfer_write %0#6, %arg5[%6, %3] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      vector.transfer_write %0#5, %arg5[%6, %4] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      vector.transfer_write %0#4, %arg5[%6, %5] {in_bounds = [true, true]} : vector<16x8xf32>, memref<32x72xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %7 = affine.apply #map24(%arg6)[%thread_id_x]
        %8 = affine.apply #map25()[%thread_id_x]
        %9 = vector.load %arg5[%7, %8] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %10 = affine.apply #map26(%arg6)[%block_id_x, %thread_id_x]
        vector.store %9, %arg2[%10] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %11 = affine.apply #map27(%arg6)[%thread_id_x]
        %12 = vector.load %arg5[%11, %8] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %13 = affine.apply #map28(%arg6)[%block_id_x, %thread_id_x]
        vector.store %12, %arg2[%13] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %14 = affine.apply #map29(%arg6)[%thread_id_x]
        %15 = vector.load %arg5[%14, %8] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %16 = affine.apply #map30(%arg6)[%block_id_x, %thread_id_x]
        vector.store %15, %arg2[%16] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %17 = affine.apply #map31(%arg6)[%thread_id_x]
        %18 = vector.load %arg5[%17, %8] {alignment = 16 : i64} : memref<32x72xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %19 = affine.apply #map32(%arg6)[%block_id_x, %thread_id_x]
        vector.store %18, %arg2[%19] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
