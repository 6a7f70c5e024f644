// RUN: %lego-opt --pass-pipeline='builtin.module(lego-lower-to-arith)' %s | FileCheck %s

// One global for each table and direction, in the smallest width.
// CHECK-DAG: memref.global "private" constant @perm : memref<4xi8> = dense<[3, 1, 0, 2]>
// CHECK-DAG: memref.global "private" constant @perm_inv : memref<4xi8> = dense<[2, 1, 3, 0]>
// CHECK-NOT: memref.global
// CHECK: func.func @table
func.func @table(%i: index, %j: index, %p: index) -> (index, index, index, index) {
  // CHECK: memref.get_global @perm
  // CHECK: arith.index_castui
  %a = lego.apply #lego.layout<gallery.table([2, 2], [3, 1, 0, 2], name="perm")>(%i, %j)
  %b = lego.apply #lego.layout<gallery.table([2, 2], [3, 1, 0, 2], name="perm")>(%j, %i)
  %c:2 = lego.inv #lego.layout<gallery.table([2, 2], [3, 1, 0, 2], name="perm")>(%p)
  return %a, %b, %c#0, %c#1 : index, index, index, index
}
