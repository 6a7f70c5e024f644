// RUN: %lego-opt --canonicalize %s | FileCheck %s
// RUN: %lego-opt --int-range-optimizations %s | FileCheck %s --check-prefix=RANGE

// Figure 9 of the paper.
// CHECK-LABEL: @constants
// CHECK-DAG: %[[P:.*]] = arith.constant 15 : index
// CHECK-DAG: %[[I:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[J:.*]] = arith.constant 2 : index
// CHECK: return %[[P]], %[[I]], %[[J]]
func.func @constants() -> (index, index, index) {
  %c4 = arith.constant 4 : index
  %c2 = arith.constant 2 : index
  %c15 = arith.constant 15 : index
  %p = lego.apply #lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])>(%c4, %c2)
  %q:2 = lego.inv #lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])>(%c15)
  return %p, %q#0, %q#1 : index, index, index
}

// CHECK-LABEL: @inverses
// CHECK: return %arg0, %arg1, %arg2
func.func @inverses(%i: index, %j: index, %p: index, %M: index) -> (index, index, index) {
  %a = lego.apply #lego.layout<[M]: Col(M, 8)>(%i, %j)[%M]
  %b:2 = lego.inv #lego.layout<[M]: Col(M, 8)>(%a)[%M]
  %c:2 = lego.inv #lego.layout<[M]: Col(M, 8)>(%p)[%M]
  %d = lego.apply #lego.layout<[M]: Col(M, 8)>(%c#0, %c#1)[%M]
  return %b#0, %b#1, %d : index, index, index
}

// A function of a lego.genp.
// CHECK-LABEL: @genp
// CHECK: %[[P:.*]] = arith.constant 5 : index
// CHECK: return %[[P]]
lego.genp private @back sizes [8] apply(%i) {
  %last = arith.constant 7 : index
  %p = arith.subi %last, %i : index
  lego.yield %p : index
} inv(%p) {
  %last = arith.constant 7 : index
  %i = arith.subi %last, %p : index
  lego.yield %i : index
}
func.func @genp() -> index {
  %c2 = arith.constant 2 : index
  %p = lego.apply #lego.layout<GenP([8], @back)>(%c2)
  return %p : index
}

// Outside the layout nothing is folded.
// CHECK-LABEL: @outside
// CHECK: lego.apply
func.func @outside() -> index {
  %c9 = arith.constant 9 : index
  %p = lego.apply #lego.layout<Row(8)>(%c9)
  return %p : index
}

// CHECK-LABEL: @masks
// CHECK-DAG: %[[T:.*]] = arith.constant true
// CHECK-DAG: %[[F:.*]] = arith.constant false
// CHECK: return %[[T]], %[[F]]
func.func @masks(%i: index) -> (i1, i1) {
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %a = lego.mask #lego.layout<Row(8)>(%i)
  %b = lego.mask #lego.layout<Row(6) tile_by([2], [4])>(%c1, %c3)
  return %a, %b : i1, i1
}

// CHECK-LABEL: @one_element
// CHECK-NOT: for_each
// CHECK: return %arg0
func.func @one_element(%x: f32) -> f32 {
  %r = lego.for_each (%i, %j) in #lego.layout<Row(1, 1)> iter_args(%s = %x) -> (f32) {
    lego.yield %s : f32
  }
  return %r : f32
}

// The ranges of results flow to upstream's passes.
// RANGE-LABEL: @ranges
// RANGE: %[[T:.*]] = arith.constant true
// RANGE: return %[[T]], %[[T]]
func.func @ranges(%i: index, %j: index, %p: index) -> (i1, i1) {
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %a = lego.apply #lego.layout<Row(4, 8)>(%i, %j)
  %b:2 = lego.inv #lego.layout<Row(4, 8)>(%p)
  %x = arith.cmpi ult, %a, %c32 : index
  %y = arith.cmpi ult, %b#1, %c8 : index
  return %x, %y : i1, i1
}
