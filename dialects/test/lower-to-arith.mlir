// RUN: %lego-opt --pass-pipeline='builtin.module(lego-lower-to-arith,canonicalize,cse)' %s | FileCheck %s

// CHECK-LABEL: @row
// CHECK-DAG: %[[C:.*]] = arith.constant 6
// CHECK: %[[A:.*]] = arith.muli %arg0, %[[C]]
// CHECK: %[[B:.*]] = arith.addi
// CHECK: return %[[B]]
func.func @row(%i: index, %j: index) -> index {
  %p = lego.apply #lego.layout<Row(6, 6)>(%i, %j)
  return %p : index
}

// The inverse of a position plus an offset within the row.
// CHECK-LABEL: @inverse_of_sum
// CHECK-NOT: divui
// CHECK-NOT: remui
// CHECK: return %arg0, %{{.*}} : index, index
func.func @inverse_of_sum(%i: index, %t: index) -> (index, index) {
  %zero = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %p = lego.apply #lego.layout<Row(6, 32)>(%i, %zero)
  %x = gpu.thread_id x upper_bound 16
  %s = arith.addi %p, %x : index
  %q = arith.addi %s, %c8 : index
  %r:2 = lego.inv #lego.layout<Row(6, 32)>(%q)
  return %r#0, %r#1 : index, index
}

// CHECK-LABEL: @swizzle
// CHECK: arith.remui %arg0
// CHECK: arith.xori
// CHECK-NOT: divui
func.func @swizzle(%i: index, %j: index) -> index {
  %p = lego.apply #lego.layout<gallery.xor_swizzle(64, 32)>(%i, %j)
  return %p : index
}

// Swizzling twice is the identity.
// CHECK-LABEL: @twice
// CHECK-NOT: xori
// CHECK: return %arg0, %arg1
func.func @twice(%i: index, %j: index) -> (index, index) {
  %p = lego.apply #lego.layout<gallery.xor_swizzle(64, 32)>(%i, %j)
  %q:2 = lego.inv #lego.layout<gallery.xor_swizzle(64, 32)>(%p)
  return %q#0, %q#1 : index, index
}

// Symbolic: the tiles of M multiple_of 32 need no division of M.
// CHECK-LABEL: @symbolic
// CHECK-NOT: divui
// CHECK: return
func.func @symbolic(%a: index, %b: index, %i: index, %j: index, %M: index, %N: index) -> index {
  %p = lego.apply #lego.layout<[M multiple_of 32, N multiple_of 32]: Row(M, N) tile_by([M floordiv 32, N floordiv 32], [32, 32])>(%a, %b, %i, %j)[%M, %N]
  return %p : index
}

// CHECK-LABEL: @mask
// CHECK: %[[I:.*]] = arith.cmpi slt
// CHECK: %[[J:.*]] = arith.cmpi slt
// CHECK: arith.andi %[[I]], %[[J]]
func.func @mask(%a: index, %b: index, %i: index, %j: index) -> i1 {
  %p = lego.mask #lego.layout<Row(6, 6) tile_by([2, 2], [4, 4])>(%a, %b, %i, %j)
  return %p : i1
}

// CHECK-LABEL: @root
// CHECK: math.sqrt {{.*}} : f32
func.func @root(%p: index) -> (index, index) {
  %q:2 = lego.inv #lego.layout<gallery.antidiagonal(30)>(%p)
  return %q#0, %q#1 : index, index
}

// CHECK-LABEL: @genp
// CHECK-NOT: lego
// CHECK: arith.subi
func.func @genp(%i: index) -> index {
  %p = lego.apply #lego.layout<GenP([8], @back)>(%i)
  return %p : index
}
lego.genp private @back sizes [8] apply(%i) {
  %last = arith.constant 7 : index
  %p = arith.subi %last, %i : index
  lego.yield %p : index
} inv(%p) {
  %last = arith.constant 7 : index
  %i = arith.subi %last, %p : index
  lego.yield %i : index
}
