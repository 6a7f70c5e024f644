#map = affine_map<(d0, d1) -> (d0 * 1024 + d1)>
#map1 = affine_map<(d0, d1, d2) -> (d2 * 128 + (d0 mod 2) * 4096 + d1)>
#map2 = affine_map<(d0, d1) -> (d0 * 1024 + d1 + 512)>
#map3 = affine_map<(d0, d1, d2) -> (d2 * 128 + (d0 mod 2) * 4096 + d1 + 2048)>
#map4 = affine_map<(d0, d1) -> (d0 * 2048 + d1)>
#map5 = affine_map<(d0, d1, d2) -> ((d0 floordiv 2) * 64 + d2 * 128 + d1)>
#map6 = affine_map<(d0, d1) -> (d0 * 2048 + d1 + 512)>
#map7 = affine_map<(d0, d1, d2) -> ((d0 floordiv 2) * 64 + d2 * 128 + d1 + 1024)>
#map8 = affine_map<(d0, d1) -> (d0 * 2048 + d1 + 1024)>
#map9 = affine_map<(d0, d1, d2) -> ((d0 floordiv 2) * 64 + d2 * 128 + d1 + 2048)>
#map10 = affine_map<(d0, d1) -> (d0 * 2048 + d1 + 1536)>
#map11 = affine_map<(d0, d1, d2) -> ((d0 floordiv 2) * 64 + d2 * 128 + d1 + 3072)>
#map12 = affine_map<(d0) -> (d0 + 1)>
#map13 = affine_map<(d0, d1, d2, d3) -> (d1 * 32 + d3 * 128 + (d0 mod 2) * 4096 + d2 + 32)>
#map14 = affine_map<(d0, d1, d2, d3) -> (d1 * 32 + d3 * 128 + (d0 mod 2) * 4096 + d2 + 2080)>
#map15 = affine_map<(d0, d1, d2, d3) -> ((d0 floordiv 2) * 64 + d3 * 128 + d1 * 4096 + d2 + 4096)>
#map16 = affine_map<(d0, d1, d2, d3) -> ((d0 floordiv 2) * 64 + d3 * 128 + d1 * 4096 + d2 + 5120)>
#map17 = affine_map<(d0, d1, d2, d3) -> ((d0 floordiv 2) * 64 + d3 * 128 + d1 * 4096 + d2 + 6144)>
#map18 = affine_map<(d0, d1, d2, d3) -> ((d0 floordiv 2) * 64 + d3 * 128 + d1 * 4096 + d2 + 7168)>
#map19 = affine_map<(d0, d1) -> (d1 * 72 + d0)>
#map20 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 576)>
#map21 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 16)>
#map22 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 592)>
#map23 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 32)>
#map24 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 608)>
#map25 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 48)>
#map26 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 624)>
#map27 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1152)>
#map28 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1728)>
#map29 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1168)>
#map30 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1744)>
#map31 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1184)>
#map32 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1760)>
#map33 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1200)>
#map34 = affine_map<(d0, d1) -> (d1 * 72 + d0 + 1776)>
#map35 = affine_map<(d0, d1) -> (((d0 + d1 floordiv 16) * 18 + d1 mod 16) * 4)>
#map36 = affine_map<(d0, d1, d2) -> ((((d1 + (d0 mod 2) * 32 + d2 floordiv 16) * 2 + d0 floordiv 2) * 16 + d2 mod 16) * 4)>
#map37 = affine_map<(d0, d1) -> (((d0 + d1 floordiv 16 + 4) * 18 + d1 mod 16) * 4)>
#map38 = affine_map<(d0, d1, d2) -> ((((d1 + (d0 mod 2) * 32 + d2 floordiv 16 + 4) * 2 + d0 floordiv 2) * 16 + d2 mod 16) * 4)>
#map39 = affine_map<(d0, d1) -> (((d0 + d1 floordiv 16 + 8) * 18 + d1 mod 16) * 4)>
#map40 = affine_map<(d0, d1, d2) -> ((((d1 + (d0 mod 2) * 32 + d2 floordiv 16 + 8) * 2 + d0 floordiv 2) * 16 + d2 mod 16) * 4)>
#map41 = affine_map<(d0, d1) -> (((d0 + d1 floordiv 16 + 12) * 18 + d1 mod 16) * 4)>
#map42 = affine_map<(d0, d1, d2) -> ((((d1 + (d0 mod 2) * 32 + d2 floordiv 16 + 12) * 2 + d0 floordiv 2) * 16 + d2 mod 16) * 4)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: memref<8192xf16>, %arg1: memref<16384xf16>, %arg2: memref<8192xf32>) workgroup(%arg3 : memref<2304xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg4 : memref<2048xf16, #gpu.address_space<workgroup>> {lego.name = "shared0", llvm.align = 16 : i64}, %arg5 : memref<4096xf16, #gpu.address_space<workgroup>> {lego.name = "shared1", llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 4, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %c0_i32 = arith.constant 0 : i32
      %cst = arith.constant 0.000000e+00 : f32
      %0 = arith.index_cast %c0_i32 : i32 to index
      %c0 = arith.constant 0 : index
      %1 = index.cmp sle(%c0, %0)
      %c2 = arith.constant 2 : index
      %2 = index.cmp slt(%0, %c2)
      %3 = arith.andi %1, %2 : i1
      llvm.intr.assume %3 : i1 {lego.claim = "0 <= %283 < 2"}
      %4 = arith.index_cast %c0_i32 : i32 to index
      %5 = index.cmp sle(%c0, %4)
      %6 = index.cmp slt(%4, %c2)
      %7 = arith.andi %5, %6 : i1
      llvm.intr.assume %7 : i1 {lego.claim = "0 <= %284 < 2"}
      %c24 = arith.constant 24 : index
      %8 = index.and %c24, %thread_id_x
      %c3 = arith.constant 3 : index
      %9 = index.shl %thread_id_x, %c3
      %10 = index.xor %8, %9
      %11 = affine.apply #map(%0, %10)
      %12 = index.and %c3, %thread_id_x
      %13 = index.shl %12, %c3
      %14 = index.shrs %thread_id_x, %c2
      %15 = affine.apply #map1(%block_id_x, %13, %14)
      %16 = nvgpu.device_async_copy %arg0[%15], %arg4[%11], 8 {bypassL1} : memref<8192xf16> to memref<2048xf16, #gpu.address_space<workgroup>>
      %17 = affine.apply #map2(%0, %10)
      %18 = affine.apply #map3(%block_id_x, %13, %14)
      %19 = nvgpu.device_async_copy %arg0[%18], %arg4[%17], 8 {bypassL1} : memref<8192xf16> to memref<2048xf16, #gpu.address_space<workgroup>>
      %c56 = arith.constant 56 : index
      %20 = index.and %c56, %thread_id_x
      %21 = index.xor %20, %9
      %22 = affine.apply #map4(%0, %21)
      %c7 = arith.constant 7 : index
      %23 = index.and %c7, %thread_id_x
      %24 = index.shl %23, %c3
      %25 = index.shrs %thread_id_x, %c3
      %26 = affine.apply #map5(%block_id_x, %24, %25)
      %27 = nvgpu.device_async_copy %arg1[%26], %arg5[%22], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
      %28 = affine.apply #map6(%0, %21)
      %29 = affine.apply #map7(%block_id_x, %24, %25)
      %30 = nvgpu.device_async_copy %arg1[%29], %arg5[%28], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
      %31 = affine.apply #map8(%0, %21)
      %32 = affine.apply #map9(%block_id_x, %24, %25)
      %33 = nvgpu.device_async_copy %arg1[%32], %arg5[%31], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
      %34 = affine.apply #map10(%0, %21)
      %35 = affine.apply #map11(%block_id_x, %24, %25)
      %36 = nvgpu.device_async_copy %arg1[%35], %arg5[%34], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
      %c1_i32 = arith.constant 1 : i32
      %37 = arith.cmpi eq, %c0_i32, %c1_i32 : i32
      %38 = arith.subi %c1_i32, %c0_i32 : i32
      %39 = arith.select %37, %38, %c0_i32 : i32
      %40 = arith.addi %c0_i32, %c1_i32 : i32
      %41 = arith.select %37, %c0_i32, %40 : i32
      nvvm.cp.async.commit.group
      %c4 = arith.constant 4 : index
      %c1 = arith.constant 1 : index
      %42:37 = scf.for %arg6 = %c0 to %c4 step %c1 iter_args(%arg7 = %39, %arg8 = %41, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst, %arg15 = %cst, %arg16 = %cst, %arg17 = %cst, %arg18 = %cst, %arg19 = %cst, %arg20 = %cst, %arg21 = %cst, %arg22 = %cst, %arg23 = %cst, %arg24 = %cst, %arg25 = %cst, %arg26 = %cst, %arg27 = %cst, %arg28 = %cst, %arg29 = %cst, %arg30 = %cst, %arg31 = %cst, %arg32 = %cst, %arg33 = %cst, %arg34 = %cst, %arg35 = %cst, %arg36 = %cst, %arg37 = %cst, %arg38 = %cst, %arg39 = %cst, %arg40 = %cst, %arg41 = %c0_i32, %arg42 = %c0_i32, %arg43 = %c0_i32) -> (i32, i32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32, i32) {
        %85 = arith.index_cast %arg43 : i32 to index
        %86 = index.cmp sle(%c0, %85)
        %87 = index.cmp slt(%85, %c2)
        %88 = arith.andi %86, %87 : i1
        llvm.intr.assume %88 : i1 {lego.claim = "0 <= %283 < 2"}
        %89 = arith.index_cast %arg42 : i32 to index
        %90 = index.cmp sle(%c0, %89)
        %91 = index.cmp slt(%89, %c2)
        %92 = arith.andi %90, %91 : i1
        llvm.intr.assume %92 : i1 {lego.claim = "0 <= %284 < 2"}
        %93 = arith.index_cast %arg41 : i32 to index
        %94 = index.cmp sle(%c0, %93)
        %95 = index.cmp slt(%93, %c2)
        %96 = arith.andi %94, %95 : i1
        llvm.intr.assume %96 : i1 {lego.claim = "0 <= %285 < 2"}
        nvvm.cp.async.wait.group 0
        gpu.barrier
        %97 = affine.apply #map12(%arg6)
        %98 = index.cmp slt(%97, %c4)
        %99:2 = scf.if %98 -> (i32, i32) {
          %201 = arith.index_cast %arg8 : i32 to index
          %202 = index.cmp sle(%c0, %201)
          %203 = index.cmp slt(%201, %c2)
          %204 = arith.andi %202, %203 : i1
          llvm.intr.assume %204 : i1 {lego.claim = "0 <= %283 < 2"}
          %205 = arith.index_cast %arg7 : i32 to index
          %206 = index.cmp sle(%c0, %205)
          %207 = index.cmp slt(%205, %c2)
          %208 = arith.andi %206, %207 : i1
          llvm.intr.assume %208 : i1 {lego.claim = "0 <= %284 < 2"}
          %209 = affine.apply #map(%201, %10)
          %210 = affine.apply #map13(%block_id_x, %arg6, %13, %14)
          %211 = nvgpu.device_async_copy %arg0[%210], %arg4[%209], 8 {bypassL1} : memref<8192xf16> to memref<2048xf16, #gpu.address_space<workgroup>>
          %212 = affine.apply #map2(%201, %10)
          %213 = affine.apply #map14(%block_id_x, %arg6, %13, %14)
          %214 = nvgpu.device_async_copy %arg0[%213], %arg4[%212], 8 {bypassL1} : memref<8192xf16> to memref<2048xf16, #gpu.address_space<workgroup>>
          %215 = affine.apply #map4(%201, %21)
          %216 = affine.apply #map15(%block_id_x, %arg6, %24, %25)
          %217 = nvgpu.device_async_copy %arg1[%216], %arg5[%215], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
          %218 = affine.apply #map6(%201, %21)
          %219 = affine.apply #map16(%block_id_x, %arg6, %24, %25)
          %220 = nvgpu.device_async_copy %arg1[%219], %arg5[%218], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
          %221 = affine.apply #map8(%201, %21)
          %222 = affine.apply #map17(%block_id_x, %arg6, %24, %25)
          %223 = nvgpu.device_async_copy %arg1[%222], %arg5[%221], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
          %224 = affine.apply #map10(%201, %21)
          %225 = affine.apply #map18(%block_id_x, %arg6, %24, %25)
          %226 = nvgpu.device_async_copy %arg1[%225], %arg5[%224], 8 {bypassL1} : memref<16384xf16> to memref<4096xf16, #gpu.address_space<workgroup>>
          %227 = arith.cmpi eq, %arg8, %c1_i32 : i32
          %228 = arith.subi %c1_i32, %arg7 : i32
          %229 = arith.select %227, %228, %arg7 : i32
          %230 = arith.addi %arg8, %c1_i32 : i32
          %231 = arith.select %227, %c0_i32, %230 : i32
          scf.yield %229, %231 : i32, i32
        } else {
          scf.yield %arg7, %arg8 : i32, i32
        }
        nvvm.cp.async.commit.group
        %100 = vector.from_elements %arg9, %arg10, %arg11, %arg12 : vector<2x2xf32>
        %101 = vector.from_elements %arg13, %arg14, %arg15, %arg16 : vector<2x2xf32>
        %102 = vector.from_elements %arg17, %arg18, %arg19, %arg20 : vector<2x2xf32>
        %103 = vector.from_elements %arg21, %arg22, %arg23, %arg24 : vector<2x2xf32>
        %104 = vector.from_elements %arg25, %arg26, %arg27, %arg28 : vector<2x2xf32>
        %105 = vector.from_elements %arg29, %arg30, %arg31, %arg32 : vector<2x2xf32>
        %106 = vector.from_elements %arg33, %arg34, %arg35, %arg36 : vector<2x2xf32>
        %107 = vector.from_elements %arg37, %arg38, %arg39, %arg40 : vector<2x2xf32>
        %c15 = arith.constant 15 : index
        %108 = index.and %c15, %thread_id_x
        %c5 = arith.constant 5 : index
        %109 = index.shl %108, %c5
        %c6 = arith.constant 6 : index
        %110 = index.and %c6, %thread_id_x
        %111 = index.shl %110, %c2
        %112 = index.or %109, %111
        %c16_0 = arith.constant 16 : index
        %113 = index.and %c16_0, %thread_id_x
        %114 = index.shrs %113, %c1
        %115 = index.xor %112, %114
        %116 = affine.apply #map(%85, %115)
        %117 = nvgpu.ldmatrix %arg4[%116] {numTiles = 4 : i32, transpose = false} : memref<2048xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %118 = index.shl %108, %c6
        %119 = index.or %118, %24
        %120 = index.xor %119, %113
        %c32_1 = arith.constant 32 : index
        %121 = index.and %c32_1, %thread_id_x
        %122 = index.shrs %121, %c2
        %123 = index.xor %120, %122
        %124 = affine.apply #map4(%85, %123)
        %125 = nvgpu.ldmatrix %arg5[%124] {numTiles = 4 : i32, transpose = true} : memref<4096xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %126 = vector.extract_strided_slice %125 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %127 = nvgpu.mma.sync(%117, %126, %100) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %128 = vector.extract_strided_slice %125 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %129 = nvgpu.mma.sync(%117, %128, %101) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %130 = index.xor %123, %c32_1
        %131 = affine.apply #map4(%85, %130)
        %132 = nvgpu.ldmatrix %arg5[%131] {numTiles = 4 : i32, transpose = true} : memref<4096xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %133 = vector.extract_strided_slice %132 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %134 = nvgpu.mma.sync(%117, %133, %102) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %135 = vector.extract_strided_slice %132 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %136 = nvgpu.mma.sync(%117, %135, %103) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %137 = affine.apply #map2(%85, %115)
        %138 = nvgpu.ldmatrix %arg4[%137] {numTiles = 4 : i32, transpose = false} : memref<2048xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %139 = nvgpu.mma.sync(%138, %135, %107) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %140 = nvgpu.mma.sync(%138, %133, %106) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %141 = nvgpu.mma.sync(%138, %128, %105) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %142 = nvgpu.mma.sync(%138, %126, %104) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %143 = index.xor %115, %c16_0
        %144 = affine.apply #map(%85, %143)
        %145 = nvgpu.ldmatrix %arg4[%144] {numTiles = 4 : i32, transpose = false} : memref<2048xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %146 = affine.apply #map8(%85, %130)
        %147 = nvgpu.ldmatrix %arg5[%146] {numTiles = 4 : i32, transpose = true} : memref<4096xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %148 = vector.extract_strided_slice %147 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %149 = nvgpu.mma.sync(%145, %148, %136) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %150 = vector.extract_strided_slice %147 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %151 = nvgpu.mma.sync(%145, %150, %134) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %152 = affine.apply #map8(%85, %123)
        %153 = nvgpu.ldmatrix %arg5[%152] {numTiles = 4 : i32, transpose = true} : memref<4096xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %154 = vector.extract_strided_slice %153 {offsets = [2, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %155 = nvgpu.mma.sync(%145, %154, %129) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %156 = vector.extract_strided_slice %153 {offsets = [0, 0], sizes = [2, 2], strides = [1, 1]} : vector<4x2xf16> to vector<2x2xf16>
        %157 = nvgpu.mma.sync(%145, %156, %127) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %158 = affine.apply #map2(%85, %143)
        %159 = nvgpu.ldmatrix %arg4[%158] {numTiles = 4 : i32, transpose = false} : memref<2048xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>
        %160 = nvgpu.mma.sync(%159, %156, %142) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %161 = nvgpu.mma.sync(%159, %154, %141) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %162 = nvgpu.mma.sync(%159, %150, %140) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %163 = nvgpu.mma.sync(%159, %148, %139) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
        %164 = vector.extract %157[0, 0] : f32 from vector<2x2xf32>
        %165 = vector.extract %157[0, 1] : f32 from vector<2x2xf32>
        %166 = vector.extract %157[1, 0] : f32 from vector<2x2xf32>
        %167 = vector.extract %157[1, 1] : f32 from vector<2x2xf32>
        %168 = vector.extract %155[0, 0] : f32 from vector<2x2xf32>
        %169 = vector.extract %155[0, 1] : f32 from vector<2x2xf32>
        %170 = vector.extract %155[1, 0] : f32 from vector<2x2xf32>
        %171 = vector.extract %155[1, 1] : f32 from vector<2x2xf32>
        %172 = vector.extract %151[0, 0] : f32 from vector<2x2xf32>
        %173 = vector.extract %151[0, 1] : f32 from vector<2x2xf32>
        %174 = vector.extract %151[1, 0] : f32 from vector<2x2xf32>
        %175 = vector.extract %151[1, 1] : f32 from vector<2x2xf32>
        %176 = vector.extract %149[0, 0] : f32 from vector<2x2xf32>
        %177 = vector.extract %149[0, 1] : f32 from vector<2x2xf32>
        %178 = vector.extract %149[1, 0] : f32 from vector<2x2xf32>
        %179 = vector.extract %149[1, 1] : f32 from vector<2x2xf32>
        %180 = vector.extract %160[0, 0] : f32 from vector<2x2xf32>
        %181 = vector.extract %160[0, 1] : f32 from vector<2x2xf32>
        %182 = vector.extract %160[1, 0] : f32 from vector<2x2xf32>
        %183 = vector.extract %160[1, 1] : f32 from vector<2x2xf32>
        %184 = vector.extract %161[0, 0] : f32 from vector<2x2xf32>
        %185 = vector.extract %161[0, 1] : f32 from vector<2x2xf32>
        %186 = vector.extract %161[1, 0] : f32 from vector<2x2xf32>
        %187 = vector.extract %161[1, 1] : f32 from vector<2x2xf32>
        %188 = vector.extract %162[0, 0] : f32 from vector<2x2xf32>
        %189 = vector.extract %162[0, 1] : f32 from vector<2x2xf32>
        %190 = vector.extract %162[1, 0] : f32 from vector<2x2xf32>
        %191 = vector.extract %162[1, 1] : f32 from vector<2x2xf32>
        %192 = vector.extract %163[0, 0] : f32 from vector<2x2xf32>
        %193 = vector.extract %163[0, 1] : f32 from vector<2x2xf32>
        %194 = vector.extract %163[1, 0] : f32 from vector<2x2xf32>
        %195 = vector.extract %163[1, 1] : f32 from vector<2x2xf32>
        %196 = arith.cmpi eq, %arg43, %c1_i32 : i32
        %197 = arith.subi %c1_i32, %arg42 : i32
        %198 = arith.select %196, %197, %arg42 : i32
        %199 = arith.addi %arg43, %c1_i32 : i32
        %200 = arith.select %196, %c0_i32, %199 : i32
        scf.yield %99#0, %99#1, %164, %165, %166, %167, %168, %169, %170, %171, %172, %173, %174, %175, %176, %177, %178, %179, %180, %181, %182, %183, %184, %185, %186, %187, %188, %189, %190, %191, %192, %193, %194, %195, %arg43, %198, %200 : i32, i32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32, i32
      }
      %43 = arith.index_cast %42#34 : i32 to index
      %44 = index.cmp sle(%c0, %43)
      %45 = index.cmp slt(%43, %c2)
      %46 = arith.andi %44, %45 : i1
      llvm.intr.assume %46 : i1 {lego.claim = "0 <= %420 < 2"}
      %47 = vector.from_elements %42#2, %42#3 : vector<2xf32>
      %48 = index.shl %12, %c1
      %c32 = arith.constant 32 : index
      %49 = index.and %c32, %thread_id_x
      %50 = index.shrs %49, %c2
      %51 = index.or %48, %50
      %c28 = arith.constant 28 : index
      %52 = index.and %c28, %thread_id_x
      %53 = index.shrs %52, %c2
      %54 = affine.apply #map19(%51, %53)
      vector.store %47, %arg3[%54] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %55 = vector.from_elements %42#4, %42#5 : vector<2xf32>
      %56 = affine.apply #map20(%51, %53)
      vector.store %55, %arg3[%56] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %57 = vector.from_elements %42#6, %42#7 : vector<2xf32>
      %58 = affine.apply #map21(%51, %53)
      vector.store %57, %arg3[%58] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %59 = vector.from_elements %42#8, %42#9 : vector<2xf32>
      %60 = affine.apply #map22(%51, %53)
      vector.store %59, %arg3[%60] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %61 = vector.from_elements %42#10, %42#11 : vector<2xf32>
      %62 = affine.apply #map23(%51, %53)
      vector.store %61, %arg3[%62] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %63 = vector.from_elements %42#12, %42#13 : vector<2xf32>
      %64 = affine.apply #map24(%51, %53)
      vector.store %63, %arg3[%64] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %65 = vector.from_elements %42#14, %42#15 : vector<2xf32>
      %66 = affine.apply #map25(%51, %53)
      vector.store %65, %arg3[%66] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %67 = vector.from_elements %42#16, %42#17 : vector<2xf32>
      %68 = affine.apply #map26(%51, %53)
      vector.store %67, %arg3[%68] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %69 = vector.from_elements %42#18, %42#19 : vector<2xf32>
      %70 = affine.apply #map27(%51, %53)
      vector.store %69, %arg3[%70] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %71 = vector.from_elements %42#20, %42#21 : vector<2xf32>
      %72 = affine.apply #map28(%51, %53)
      vector.store %71, %arg3[%72] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %73 = vector.from_elements %42#22, %42#23 : vector<2xf32>
      %74 = affine.apply #map29(%51, %53)
      vector.store %73, %arg3[%74] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %75 = vector.from_elements %42#24, %42#25 : vector<2xf32>
      %76 = affine.apply #map30(%51, %53)
      vector.store %75, %arg3[%76] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %77 = vector.from_elements %42#26, %42#27 : vector<2xf32>
      %78 = affine.apply #map31(%51, %53)
      vector.store %77, %arg3[%78] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %79 = vector.from_elements %42#28, %42#29 : vector<2xf32>
      %80 = affine.apply #map32(%51, %53)
      vector.store %79, %arg3[%80] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %81 = vector.from_elements %42#30, %42#31 : vector<2xf32>
      %82 = affine.apply #map33(%51, %53)
      vector.store %81, %arg3[%82] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      %83 = vector.from_elements %42#32, %42#33 : vector<2xf32>
      %84 = affine.apply #map34(%51, %53)
      vector.store %83, %arg3[%84] {alignment = 8 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<2xf32>
      gpu.barrier
      %c16 = arith.constant 16 : index
      scf.for %arg6 = %c0 to %c32 step %c16 {
        %85 = affine.apply #map35(%arg6, %thread_id_x)
        %86 = vector.load %arg3[%85] {alignment = 16 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %87 = affine.apply #map36(%block_id_x, %arg6, %thread_id_x)
        vector.store %86, %arg2[%87] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %88 = affine.apply #map37(%arg6, %thread_id_x)
        %89 = vector.load %arg3[%88] {alignment = 16 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %90 = affine.apply #map38(%block_id_x, %arg6, %thread_id_x)
        vector.store %89, %arg2[%90] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %91 = affine.apply #map39(%arg6, %thread_id_x)
        %92 = vector.load %arg3[%91] {alignment = 16 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %93 = affine.apply #map40(%block_id_x, %arg6, %thread_id_x)
        vector.store %92, %arg2[%93] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
        %94 = affine.apply #map41(%arg6, %thread_id_x)
        %95 = vector.load %arg3[%94] {alignment = 16 : i64} : memref<2304xf32, #gpu.address_space<workgroup>>, vector<4xf32>
        %96 = affine.apply #map42(%block_id_x, %arg6, %thread_id_x)
        vector.store %95, %arg2[%96] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
