// RUN: %lego-opt --pass-pipeline='builtin.module(lego-lower-to-arith,canonicalize,cse)' %s | FileCheck %s

// CHECK-LABEL: @flat
// CHECK: %[[X:.*]] = arith.xori
// CHECK: %[[P:.*]] = arith.addi
// CHECK: memref.load %arg0[%[[P]]] : memref<1024xf32>
// CHECK: memref.store
func.func @flat(%m: memref<1024xf32>, %i: index, %j: index) {
  %v = lego.view %m : !lego.view<memref<1024xf32>, #lego.layout<gallery.xor_swizzle(32, 32)>>
  %x = lego.load %v[%i, %j] : !lego.view<memref<1024xf32>, #lego.layout<gallery.xor_swizzle(32, 32)>>
  lego.store %x, %v[%j, %i] : !lego.view<memref<1024xf32>, #lego.layout<gallery.xor_swizzle(32, 32)>>
  return
}

// Rows in a memref of the same rows: no arithmetic is left.
// CHECK-LABEL: @rows
// CHECK-NEXT: memref.load %arg0[%arg1, %arg2] : memref<?x32xf32>
func.func @rows(%m: memref<?x32xf32>, %i: index, %j: index, %M: index) -> f32 {
  %v = lego.view %m[%M] : !lego.view<memref<?x32xf32>, #lego.layout<[M]: Row(M, 32)>>
  %x = lego.load %v[%i, %j] : !lego.view<memref<?x32xf32>, #lego.layout<[M]: Row(M, 32)>>
  return %x : f32
}

// Four elements in a row are contiguous in a swizzle of groups of four only
// where the first of them starts a group.
// CHECK-LABEL: @vectors
// CHECK: vector.load %arg0[%{{.*}}] : memref<1024xf32>, vector<4xf32>
// CHECK-NOT: vector.store
// CHECK-COUNT-4: memref.store
func.func @vectors(%m: memref<1024xf32>, %i: index, %j: index) {
  %c4 = arith.constant 4 : index
  %t = gpu.thread_id x upper_bound 8
  %first = arith.muli %t, %c4 : index
  %v = lego.view %m : !lego.view<memref<1024xf32>, #lego.layout<gallery.xor_swizzle(32, 32, vec=4)>>
  %x = lego.vector_load %v[%i, %first] : !lego.view<memref<1024xf32>, #lego.layout<gallery.xor_swizzle(32, 32, vec=4)>>, vector<4xf32>
  lego.vector_store %x, %v[%i, %j] : !lego.view<memref<1024xf32>, #lego.layout<gallery.xor_swizzle(32, 32, vec=4)>>, vector<4xf32>
  return
}

// CHECK-LABEL: @sum
// CHECK: %[[R:.*]] = scf.for %[[P:.*]] = %{{.*}} to %c32 step %{{.*}} iter_args
// CHECK: memref.load %arg0[%[[P]]]
// CHECK: scf.yield
// CHECK: return %[[R]]
func.func @sum(%m: memref<32xf32>, %zero: f32) -> f32 {
  %v = lego.view %m : !lego.view<memref<32xf32>, #lego.layout<Col(4, 8)>>
  %r = lego.for_each (%i, %j) in #lego.layout<Col(4, 8)> iter_args(%s = %zero) -> (f32) {
    %x = lego.load %v[%i, %j] : !lego.view<memref<32xf32>, #lego.layout<Col(4, 8)>>
    %t = arith.addf %s, %x : f32
    lego.yield %t : f32
  }
  return %r : f32
}

// Unused positions are skipped.
// CHECK-LABEL: @padded
// CHECK: scf.for
// CHECK: arith.cmpi slt
// CHECK: scf.if
// CHECK: memref.store
func.func @padded(%m: memref<40xf32>, %x: f32) {
  %v = lego.view %m : !lego.view<memref<40xf32>, #lego.layout<Padded(Row(4, 9), [4, 8])>>
  lego.for_each (%i, %j) in #lego.layout<Padded(Row(4, 9), [4, 8])> {
    lego.store %x, %v[%i, %j] : !lego.view<memref<40xf32>, #lego.layout<Padded(Row(4, 9), [4, 8])>>
  }
  return
}
