// RUN: %lego-opt --split-input-file --pass-pipeline='builtin.module(func.func(lego-lower-to-affine{skip=true}))' %s | FileCheck %s

// CHECK-DAG: #[[TILE:.*]] = affine_map<()[s0, s1] -> (s0 * 3 + (s1 floordiv 3) * 18 + s1 mod 3)>
// CHECK-LABEL: @affine
func.func @affine(%i: index, %j: index, %N: index) -> (index, index, index) {
  // CHECK: affine.apply #[[TILE]]()[%arg0, %arg1]
  %p = lego.apply #lego.layout<TileOrderBy(Col(2, 2), Row(3, 3)) GroupBy([6, 6])>(%i, %j)
  // CHECK: affine.apply
  %q:2 = lego.inv #lego.layout<[N]: Row(4, N)>(%p)[%N]
  // CHECK: return
  return %p, %q#0, %q#1 : index, index, index
}
// -----
// CHECK-LABEL: @xor
func.func @xor(%i: index, %j: index) -> index {
  // CHECK: lego.apply
  %p = lego.apply #lego.layout<gallery.xor_swizzle(8, 8)>(%i, %j)
  return %p : index
}
