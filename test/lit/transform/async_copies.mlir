// Wide reads that go to shared memory become asynchronous copies: one group and one wait for all, before the barrier.
// The second tile is read under a branch; its copy reads 4 elements or none, and fills the rest with zeros.
//
// RUN: lego-mlir compile %s --transform async_copies.mlir --emit transformed -o %t.after.mlir
// RUN: FileCheck --input-file %t.after.mlir %s
// RUN: mlir-opt --verify-each %t.after.mlir -o /dev/null
// RUN: lego-mlir compile %s --transform async_copies.mlir --param bypass_l1=false --emit transformed | FileCheck --check-prefix=L1 %s
// RUN: lego-mlir compile %s --transform async_copies.mlir --emit ptx | FileCheck --check-prefix=PTX %s
// RUN: mlir-opt %{scripts}/async_copies.mlir -o /dev/null
// REQUIRES: mlir-opt
//
// CHECK: gpu.func @copy
// CHECK-NOT: vector.load %arg0
// CHECK: %[[FIRST:.*]] = nvgpu.device_async_copy %arg0[{{.*}}], %{{.*}}, 4 {bypassL1} : memref<256xf32> to memref<128xf32, #gpu.address_space<workgroup>>
// CHECK: %[[LEFT:.*]] = arith.select %{{.*}}, %c4, %c0 : index
// CHECK: %[[SECOND:.*]] = nvgpu.device_async_copy %arg0[{{.*}}], %{{.*}}, 4, %[[LEFT]] {bypassL1}
// CHECK-NEXT: %[[GROUP:.*]] = nvgpu.device_async_create_group %[[FIRST]], %[[SECOND]]
// CHECK-NEXT: nvgpu.device_async_wait %[[GROUP]]
// CHECK-NEXT: gpu.barrier
//
// L1: nvgpu.device_async_copy
// L1-NOT: bypassL1
//
// PTX: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16
// PTX: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %r
// PTX: cp.async.wait_group 0
// PTX: bar.sync
gpu.module @m {
  gpu.func @copy(%a: memref<256xf32>, %b: memref<128xf32>, %n: index)
      workgroup(%s: memref<128xf32, #gpu.address_space<workgroup>>, %t: memref<128xf32, #gpu.address_space<workgroup>>)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = gpu.thread_id x
    %j = affine.apply affine_map<(d0) -> (4 * d0)>(%i)
    %k = affine.apply affine_map<(d0) -> (4 * d0 + 128)>(%i)
    %zeros = arith.constant dense<0.0> : vector<4xf32>
    %x = vector.load %a[%j] : memref<256xf32>, vector<4xf32>
    vector.store %x, %s[%j] : memref<128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    %inside = index.cmp slt(%k, %n)
    %y = scf.if %inside -> vector<4xf32> {
      %read = vector.load %a[%k] : memref<256xf32>, vector<4xf32>
      scf.yield %read : vector<4xf32>
    } else {
      scf.yield %zeros : vector<4xf32>
    }
    vector.store %y, %t[%j] : memref<128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    gpu.barrier
    %back = affine.apply affine_map<(d0) -> (124 - 4 * d0)>(%i)
    %p = vector.load %s[%back] : memref<128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    %q = vector.load %t[%back] : memref<128xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    %sum = arith.addf %p, %q : vector<4xf32>
    vector.store %sum, %b[%j] : memref<128xf32>, vector<4xf32>
    gpu.return
  }
}
