// RUN: %lego-opt --split-input-file --verify-diagnostics --transform-interpreter %s | FileCheck %s

// Kernels that are launched in place: ids and sizes are arguments of the body.
// CHECK-LABEL: func.func @order
// CHECK: gpu.launch blocks(%[[X:[^,]*]], %[[Y:[^,]*]], %
// CHECK-DAG: %[[IDX:.*]] = gpu.block_id  x
// CHECK-DAG: %[[IDY:.*]] = gpu.block_id  y
// CHECK: %[[C8:.*]] = arith.constant 8
// CHECK: %[[ROW:.*]] = arith.muli %[[IDY]], %[[C8]]
// CHECK: %[[N:.*]] = arith.addi %[[ROW]], %[[IDX]]
// CHECK: %[[I:.*]]:2 = lego.inv #lego.layout<Col(8, 4)>(%[[N]])
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[I]]#0, %[[I]]#1]
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[I]]#0, %[[I]]#1]
func.func @order(%m: memref<8x4xf32>, %x: f32) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c8, %gy = %c4, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    memref.store %x, %m[%a, %b] : memref<8x4xf32>
    %d = gpu.block_id x
    %e = gpu.block_id y
    memref.store %x, %m[%d, %e] : memref<8x4xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// All three axes of ids, in a grid of one dimension.
// CHECK-LABEL: func.func @order_line
// CHECK: gpu.launch blocks(%[[X:[^,]*]], %[[Y:[^,]*]], %[[Z:[^,]*]]) in
// CHECK: %[[I:.*]] = lego.inv #lego.layout<gallery.reverse(8)>
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[I]], %[[Y]], %[[Z]]]
func.func @order_line(%m: memref<8x1x1xf32>, %x: f32) {
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c8, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    memref.store %x, %m[%a, %b, %c] : memref<8x1x1xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.order %m with(#lego.layout<gallery.reverse(8)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @grid_size(%m: memref<8x4xf32>, %x: f32) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  // expected-note @+1 {{the target, whose grid is [8, 4, 1]}}
  gpu.launch blocks(%a, %b, %c) in (%gx = %c8, %gy = %c4, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    memref.store %x, %m[%a, %b] : memref<8x4xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the layout must have its sizes (x, y, z) and one position for each block}}
    %n = transform.lego.order %m with(#lego.layout<Col(4, 8)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// A grid that is known only when the kernel is launched.
func.func @grid_unknown(%m: memref<8x4xf32>, %x: f32, %n: index) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-note @+1 {{the target, whose grid is []}}
  gpu.launch blocks(%a, %b, %c) in (%gx = %n, %gy = %c4, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    memref.store %x, %m[%a, %b] : memref<8x4xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the target must be a gpu.launch with constant grid sizes}}
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// The number of blocks is beyond 64 bits.
func.func @grid_huge(%m: memref<8x4xf32>, %x: f32) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %huge = arith.constant 4611686018427387904 : index
  // expected-note @+1 {{the target, whose grid is [4611686018427387904, 4611686018427387904, 4]}}
  gpu.launch blocks(%a, %b, %c) in (%gx = %huge, %gy = %huge, %gz = %c4)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    memref.store %x, %m[%a, %b] : memref<8x4xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the layout must have its sizes}}
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @global_id(%m: memref<8x4xf32>, %x: f32) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  // expected-note @+1 {{the target}}
  gpu.launch blocks(%a, %b, %c) in (%gx = %c8, %gy = %c4, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    %g = gpu.global_id x
    memref.store %x, %m[%g, %b] : memref<8x4xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot reorder the blocks: gpu.global_id is not reordered; compute it from gpu.block_id}}
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @clusters(%m: memref<8x4xf32>, %x: f32) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  // expected-note @+1 {{the target}}
  gpu.launch clusters(%u, %v, %w) in (%cx = %c4, %cy = %c1, %cz = %c1) blocks(%a, %b, %c) in (%gx = %c8, %gy = %c4, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c1, %by = %c1, %bz = %c1) {
    memref.store %x, %m[%a, %b] : memref<8x4xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.launch"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot reorder the blocks: the blocks of a cluster must stay together}}
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
gpu.module @m {
  // expected-note @+1 {{the target}}
  gpu.func @known_cluster(%m: memref<8xf32>, %x: f32) kernel attributes {known_grid_size = array<i32: 8, 4, 1>, known_cluster_size = array<i32: 4, 1, 1>} {
    %a = gpu.block_id x
    memref.store %x, %m[%a] : memref<8xf32>
    gpu.return
  }
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot reorder the blocks: the blocks of a cluster must stay together}}
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
gpu.module @m {
  // expected-note @+1 {{the target}}
  gpu.func @func_global_id(%m: memref<8xf32>, %x: f32) kernel attributes {known_grid_size = array<i32: 8, 4, 1>} {
    %a = gpu.global_id x
    memref.store %x, %m[%a] : memref<8xf32>
    gpu.return
  }
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot reorder the blocks: gpu.global_id is not reordered; compute it from gpu.block_id}}
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// The same choice as in a gpu.func.
// CHECK-LABEL: func.func @swizzle
// CHECK: gpu.launch
// CHECK: lego.view {{.*}}#lego.layout<gallery.xor_swizzle(32, 32
func.func @swizzle(%in: memref<32x32xf32>, %out: memref<32x32xf32>) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    // expected-remark @+1 {{8 wavefronts of a warp, in rows 132}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// The sizes of the block are its arguments too, and the first block is 0. The
// host's conditions are outside the kernel.
// CHECK-LABEL: func.func @sizes
// CHECK: lego.view {{.*}}#lego.layout<gallery.xor_swizzle(32, 32
func.func @sizes(%in: memref<32x32xf32>, %out: memref<32x32xf32>, %flag: i1) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  scf.if %flag {
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    // expected-remark @+1 {{8 wavefronts of a warp, in rows 132}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    %d = arith.addi %k, %a : index
    %e = arith.muli %d, %bx : index
    %q = arith.addi %e, %j : index
    gpu.barrier
    %y = memref.load %m[%q, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.terminator
  }
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @data(%in: memref<32xindex>, %out: memref<32x32xf32>) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    // expected-note @+1 {{the target}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %p = memref.load %in[%j] : memref<32xindex>
    %y = memref.load %m[%j, %p] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot choose a layout: the index of an access depends on data}}
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// No block has 0 threads, or as many as these.
func.func @no_threads(%in: memref<32x32xf32>, %out: memref<32x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c0, %by = %c1, %bz = %c1) {
    // expected-note @+1 {{the target}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot choose a layout: it is not in a gpu.launch or gpu.func with a known block size of 1 to 1024 threads}}
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @many_threads(%in: memref<32x32xf32>, %out: memref<32x32xf32>) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %huge = arith.constant 4611686018427387904 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %huge, %by = %huge, %bz = %c32) {
    // expected-note @+1 {{the target}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot choose a layout: it is not in a gpu.launch or gpu.func with a known block size of 1 to 1024 threads}}
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @unknown_threads(%in: memref<32x32xf32>, %out: memref<32x32xf32>, %n: index) {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %n, %by = %c1, %bz = %c1) {
    // expected-note @+1 {{the target}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot choose a layout: it is not in a gpu.launch or gpu.func with a known block size of 1 to 1024 threads}}
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// The loop's fourth iteration is beyond 64 bits.
func.func @long_step(%in: memref<32x32xf32>, %out: memref<32x32xf32>) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %huge = arith.constant 4611686018427387904 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    // expected-note @+1 {{the target}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    scf.for %q = %j to %c32 step %huge {
      %y = memref.load %m[%q, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
      memref.store %y, %out[%i, %j] : memref<32x32xf32>
    }
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot choose a layout: the index of an access depends on data}}
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// An element without an index has one layout.
// CHECK-LABEL: func.func @scalar
// CHECK: memref.store %{{.*}}, %{{.*}}[] : memref<f32, #gpu.address_space<workgroup>>
func.func @scalar(%x: f32) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    %m = memref.alloc() : memref<f32, #gpu.address_space<workgroup>>
    memref.store %x, %m[] : memref<f32, #gpu.address_space<workgroup>>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// Memory without elements has one layout.
// CHECK-LABEL: func.func @no_columns
// CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : memref<32x0xf32, #gpu.address_space<workgroup>>
func.func @no_columns(%x: f32) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    %m = memref.alloc() : memref<32x0xf32, #gpu.address_space<workgroup>>
    memref.store %x, %m[%i, %j] : memref<32x0xf32, #gpu.address_space<workgroup>>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// CHECK-LABEL: func.func @relayout
// CHECK: threads(%[[J:[^,]*]], %[[I:[^,]*]], %
// CHECK: %[[A:.*]] = memref.alloc() : memref<1056xf32, #gpu.address_space<workgroup>>
// CHECK: %[[V:.*]] = lego.view %[[A]]
// CHECK: lego.store %{{.*}}, %[[V]][%[[I]], %[[J]]]
// CHECK: lego.vector_load %[[V]][%[[J]], %[[I]]]
// CHECK: lego.vector_store %{{.*}}, %[[V]][%[[I]], %[[J]]]
// CHECK: memref.dealloc %[[A]]
func.func @relayout(%x: f32) {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%j, %i, %k) in (%bx = %c32, %by = %c32, %bz = %c1) {
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    %y = vector.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    vector.store %y, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    memref.dealloc %m : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.terminator
  }
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.relayout %m with(#lego.layout<Padded(Row(32, 33), [32, 32])>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// CHECK-LABEL: gpu.func @relayout_func
// CHECK: %[[J:.*]] = gpu.thread_id  x
// CHECK: %[[I:.*]] = gpu.thread_id  y
// CHECK: %[[A:.*]] = memref.alloc() : memref<1056xf32, #gpu.address_space<workgroup>>
// CHECK: %[[V:.*]] = lego.view %[[A]]
// CHECK: lego.store %{{.*}}, %[[V]][%[[I]], %[[J]]]
// CHECK: lego.vector_load %[[V]][%[[J]], %[[I]]]
// CHECK: lego.vector_store %{{.*}}, %[[V]][%[[I]], %[[J]]]
// CHECK: memref.dealloc %[[A]]
gpu.module @m {
  gpu.func @relayout_func(%x: f32) kernel {
    %j = gpu.thread_id x
    %i = gpu.thread_id y
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    %y = vector.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    vector.store %y, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    memref.dealloc %m : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.relayout %m with(#lego.layout<Padded(Row(32, 33), [32, 32])>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
