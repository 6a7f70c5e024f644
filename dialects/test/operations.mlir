// RUN: %lego-opt %s | FileCheck %s
// RUN: %lego-opt --mlir-print-op-generic %s | %lego-opt | FileCheck %s

// CHECK: lego.genp @mirror sizes [4, ?] apply(%[[I:.*]], %[[J:.*]])[%[[N:.*]]] {
// CHECK: } inv(%{{.*}})[%{{.*}}] {
lego.genp @mirror sizes [4, ?] apply(%i, %j)[%n] {
  %last = arith.constant 3 : index
  %r = arith.subi %last, %i : index
  %s = arith.muli %r, %n : index
  %p = arith.addi %s, %j : index
  lego.yield %p : index
} inv(%p)[%n] {
  %last = arith.constant 3 : index
  %r = arith.divui %p, %n : index
  %i = arith.subi %last, %r : index
  %j = arith.remui %p, %n : index
  lego.yield %i, %j : index, index
}
// CHECK: lego.genp private @back sizes [8]
lego.genp private @back sizes [8] apply(%i) {
  %last = arith.constant 7 : index
  %p = arith.subi %last, %i : index
  lego.yield %p : index
} inv(%p) {
  %last = arith.constant 7 : index
  %i = arith.subi %last, %p : index
  lego.yield %i : index
}

// CHECK-LABEL: func.func @evaluation
func.func @evaluation(%i: index, %j: index, %M: index) {
  // CHECK: lego.apply #lego.layout<[M]: Row(M, 64)>(%arg0, %arg1)[%arg2]
  %p = lego.apply #lego.layout<[M]: Row(M, 64)>(%i, %j)[%M]
  // CHECK: lego.inv #lego.layout<Col(4, 8)>(%{{.*}})
  %q:2 = lego.inv #lego.layout<Col(4, 8)>(%p)
  // CHECK: lego.mask #lego.layout<Row(6, 6) tile_by([2, 2], [4, 4])>(
  %m = lego.mask #lego.layout<Row(6, 6) tile_by([2, 2], [4, 4])>(%i, %j, %i, %j)
  // CHECK: lego.apply #lego.layout<[N]: GenP([4, N], @mirror)>
  %r = lego.apply #lego.layout<[N]: GenP([4, N], @mirror)>(%i, %j)[%M]
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%buffer: memref<?xf32>, %i: index, %j: index, %M: index) {
  // CHECK: lego.view %arg0[%arg3] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>
  %v = lego.view %buffer[%M] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>
  // CHECK: lego.load %{{.*}}[%arg1, %arg2] : !lego.view<
  %x = lego.load %v[%i, %j] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>
  // CHECK: lego.store %{{.*}}, %{{.*}}[%arg1, %arg2] : !lego.view<
  lego.store %x, %v[%i, %j] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>
  // CHECK: lego.vector_load {{.*}}, vector<4xf32>
  %y = lego.vector_load %v[%i, %j] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>, vector<4xf32>
  // CHECK: lego.vector_store {{.*}}, vector<4xf32>
  lego.vector_store %y, %v[%i, %j] : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M, 64)>>, vector<4xf32>
  return
}

// CHECK-LABEL: func.func @loops
func.func @loops(%v: !lego.view<memref<32xf32>, #lego.layout<Col(4, 8)>>, %M: index, %zero: f32) -> f32 {
  // CHECK: lego.for_each (%[[A:.*]], %[[B:.*]]) in #lego.layout<Col(4, 8)> iter_args(%[[S:.*]] = %arg2) -> (f32) {
  %sum = lego.for_each (%i, %j) in #lego.layout<Col(4, 8)> iter_args(%s = %zero) -> (f32) {
    %x = lego.load %v[%i, %j] : !lego.view<memref<32xf32>, #lego.layout<Col(4, 8)>>
    %t = arith.addf %s, %x : f32
    // CHECK: lego.yield %{{.*}} : f32
    lego.yield %t : f32
  }
  // CHECK: lego.for_each (%{{.*}}, %{{.*}}) in #lego.layout<[M]: Row(M, 8)>[%arg1] {
  lego.for_each (%i, %j) in #lego.layout<[M]: Row(M, 8)>[%M] {
    lego.store %zero, %v[%j, %j] : !lego.view<memref<32xf32>, #lego.layout<Col(4, 8)>>
  }
  return %sum : f32
}
