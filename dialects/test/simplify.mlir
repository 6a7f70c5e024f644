// RUN: %lego-opt --pass-pipeline='builtin.module(lego-simplify)' %s | FileCheck %s

// CHECK-LABEL: @quotient
// CHECK-NOT: divui
// CHECK-NOT: remui
// CHECK: return %[[B:.*]], %[[T:.*]] : index, index
func.func @quotient() -> (index, index) {
  %b = gpu.block_id x upper_bound 64
  %t = gpu.thread_id x upper_bound 32
  %c32 = arith.constant 32 : index
  %x = arith.muli %b, %c32 : index
  %p = arith.addi %x, %t : index
  %q = arith.divui %p, %c32 : index
  %r = arith.remui %p, %c32 : index
  return %q, %r : index, index
}

// Without a range nothing is known: the sum may wrap.
// CHECK-LABEL: @unknown
// CHECK: divui
func.func @unknown(%b: index, %t: index) -> index {
  %c32 = arith.constant 32 : index
  %x = arith.muli %b, %c32 : index
  %p = arith.addi %x, %t : index
  %q = arith.divui %p, %c32 : index
  return %q : index
}

// n*(t div n) + t rem n, also as affine and index operations.
// CHECK-LABEL: @joined
// CHECK-NEXT: %[[T:.*]] = gpu.thread_id
// CHECK-NEXT: return %[[T]]
func.func @joined() -> index {
  %t = gpu.thread_id x upper_bound 1024
  %c8 = index.constant 8
  %q = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%t)
  %r = index.remu %t, %c8
  %x = index.mul %q, %c8
  %s = index.add %x, %r
  return %s : index
}
