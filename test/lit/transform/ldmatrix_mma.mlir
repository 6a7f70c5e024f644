// A warp multiplies a 16x16 and a 16x16 tile: two contractions, dealt out to the lanes, the result rounded as it is
// stored. B lies with its depths side by side, so its four tiles are loaded by exchanged lanes.
//
// RUN: lego-mlir compile %s --transform ldmatrix_mma.mlir --emit transformed -o %t.after.mlir
// RUN: FileCheck --input-file %t.after.mlir %s
// RUN: mlir-opt --verify-each %t.after.mlir -o /dev/null
// RUN: lego-mlir compile %s --transform ldmatrix_mma.mlir --emit ptx | FileCheck --check-prefix=PTX %s
// RUN: sed s/f16/bf16/g %s | lego-mlir compile - --transform ldmatrix_mma.mlir --emit ptx | FileCheck --check-prefix=BF16 %s
// RUN: mlir-opt %{scripts}/ldmatrix_mma.mlir -o /dev/null
// REQUIRES: mlir-opt
//
// CHECK-DAG: #[[EXCHANGED:.*]] = affine_map<{{.*}} -> (d0 mod 8 + (d0 floordiv 16) * 8 + ((d0 floordiv 8) mod 2) * 16)>
// CHECK: gpu.func @product
// CHECK-NOT: vector.transfer_read
// CHECK: %[[A:.*]] = nvgpu.ldmatrix %arg3[{{.*}}] {numTiles = 4 : i32, transpose = false}
// CHECK: affine.apply #[[EXCHANGED]](%{{.*}})
// CHECK: %[[B:.*]] = nvgpu.ldmatrix %arg4[{{.*}}] {numTiles = 4 : i32, transpose = false}
// CHECK-DAG: %[[LEFT:.*]] = vector.extract_strided_slice %[[B]] {offsets = [0, 0], sizes = [2, 2]
// CHECK-DAG: %[[RIGHT:.*]] = vector.extract_strided_slice %[[B]] {offsets = [2, 0], sizes = [2, 2]
// CHECK: nvgpu.mma.sync(%[[A]], %[[LEFT]], %{{.*}}) {mmaShape = [16, 8, 16]}
// CHECK: nvgpu.mma.sync(%[[A]], %[[RIGHT]], %{{.*}}) {mmaShape = [16, 8, 16]}
// CHECK-NOT: vector.contract
// CHECK-COUNT-4: arith.truncf %{{.*}} : vector<2xf32> to vector<2xf16>
// CHECK-NOT: unrealized_conversion_cast
//
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX-COUNT-2: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// PTX-COUNT-4: st.shared.{{[bu]}}32
// BF16: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// BF16-COUNT-2: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>
#trait = {indexing_maps = [#rows, #columns, #result], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
!shared = memref<16x16xf16, #gpu.address_space<workgroup>>
gpu.module @m {
  gpu.func @product(%left: memref<256xf16>, %right: memref<256xf16>, %out: memref<256xf16>)
      workgroup(%a: !shared, %b: !shared, %c: !shared)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %zero = arith.constant 0.0 : f16
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %zeros = arith.constant dense<0.0> : vector<16x8xf32>
    %i = gpu.thread_id x
    %at = affine.apply affine_map<(d0) -> (8 * d0)>(%i)
    %row = affine.apply affine_map<(d0) -> (d0 floordiv 2)>(%i)
    %column = affine.apply affine_map<(d0) -> ((d0 mod 2) * 8)>(%i)
    %l = vector.load %left[%at] : memref<256xf16>, vector<8xf16>
    %r = vector.load %right[%at] : memref<256xf16>, vector<8xf16>
    vector.store %l, %a[%row, %column] : !shared, vector<8xf16>
    vector.store %r, %b[%row, %column] : !shared, vector<8xf16>
    gpu.barrier
    %x = vector.transfer_read %a[%c0, %c0], %zero {in_bounds = [true, true]} : !shared, vector<16x16xf16>
    %y = vector.transfer_read %b[%c0, %c0], %zero {in_bounds = [true, true]} : !shared, vector<16x16xf16>
    %y0 = vector.extract_strided_slice %y {offsets = [0, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
    %y1 = vector.extract_strided_slice %y {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]} : vector<16x16xf16> to vector<8x16xf16>
    %p0 = vector.contract #trait %x, %y0, %zeros : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %p1 = vector.contract #trait %x, %y1, %zeros : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %r0 = arith.truncf %p0 : vector<16x8xf32> to vector<16x8xf16>
    %r1 = arith.truncf %p1 : vector<16x8xf32> to vector<16x8xf16>
    vector.transfer_write %r0, %c[%c0, %c0] {in_bounds = [true, true]} : vector<16x8xf16>, !shared
    vector.transfer_write %r1, %c[%c0, %c8] {in_bounds = [true, true]} : vector<16x8xf16>, !shared
    gpu.barrier
    %o = vector.load %c[%row, %column] : !shared, vector<8xf16>
    vector.store %o, %out[%at] : memref<256xf16>, vector<8xf16>
    gpu.return
  }
}
