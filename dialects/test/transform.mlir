// RUN: %lego-opt --split-input-file --verify-diagnostics --transform-interpreter %s | FileCheck %s

// CHECK-LABEL: @relayout
// CHECK: %[[A:.*]] = memref.alloc() : memref<1056xf32, #gpu.address_space<workgroup>>
// CHECK: %[[V:.*]] = lego.view %[[A]] : !lego.view<{{.*}}, #lego.layout<Padded(Row(32, 33), [32, 32])>>
// CHECK: lego.store %{{.*}}, %[[V]][%arg0, %arg1]
// CHECK: lego.load %[[V]][%arg1, %arg0]
// CHECK: lego.vector_load %[[V]][%arg1, %arg0]
// CHECK: memref.dealloc %[[A]]
func.func @relayout(%i: index, %j: index, %x: f32) -> (f32, vector<4xf32>) {
  %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
  memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
  %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
  %z = vector.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>, vector<4xf32>
  memref.dealloc %m : memref<32x32xf32, #gpu.address_space<workgroup>>
  return %y, %z : f32, vector<4xf32>
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.relayout %m with(#lego.layout<Padded(Row(32, 33), [32, 32])>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @subview() {
  // expected-note @+1 {{the target}}
  %m = memref.alloc() : memref<32x32xf32>
  %s = memref.subview %m[0, 0][4, 4][1, 1] : memref<32x32xf32> to memref<4x4xf32, strided<[32, 1]>>
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot relay: it is used by memref.subview, which is not a load or store}}
    %n = transform.lego.relayout %m with(#lego.layout<Col(32, 32)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
func.func @sizes() {
  // expected-note @+1 {{the target}}
  %m = memref.alloc() : memref<32x32xf32>
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot relay: the sizes of the layout must be those of the allocation, [32, 32]}}
    %n = transform.lego.relayout %m with(#lego.layout<Col(32, 16)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// CHECK-LABEL: gpu.func @order
// CHECK-DAG: %[[X:.*]] = gpu.block_id  x
// CHECK-DAG: %[[Y:.*]] = gpu.block_id  y
// CHECK: %[[I:.*]]:2 = lego.inv #lego.layout<Col(8, 4)>
// CHECK: memref.store %{{.*}}, %arg0[%[[I]]#0, %[[I]]#1]
gpu.module @m {
  gpu.func @order(%m: memref<8x4xf32>, %x: f32) kernel attributes {known_grid_size = array<i32: 8, 4, 1>, known_block_size = array<i32: 1, 1, 1>} {
    %a = gpu.block_id x
    %b = gpu.block_id y
    memref.store %x, %m[%a, %b] : memref<8x4xf32>
    gpu.return
  }
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.order %m with(#lego.layout<Col(8, 4)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
gpu.module @m {
  // expected-note @+1 {{the target, whose grid is [8, 4, 1]}}
  gpu.func @order(%m: memref<8x4xf32>) kernel attributes {known_grid_size = array<i32: 8, 4, 1>} {
    gpu.return
  }
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{the layout must have its sizes (x, y, z) and one position for each block}}
    %n = transform.lego.order %m with(#lego.layout<Col(4, 8)>) : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
// A column of a 32x32 tile of f32 is in one bank: 1 + 32 wavefronts for each of
// four iterations become 1 + 1.
// CHECK-LABEL: gpu.func @swizzle
// CHECK: lego.view {{.*}}#lego.layout<gallery.xor_swizzle(32, 32
gpu.module @m {
  gpu.func @swizzle(%in: memref<32x32xf32>, %out: memref<32x32xf32>) kernel attributes {known_block_size = array<i32: 32, 32, 1>} {
    %i = gpu.thread_id y
    %j = gpu.thread_id x
    // expected-remark @+1 {{8 wavefronts of a warp, in rows 132}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %x = memref.load %in[%i, %j] : memref<32x32xf32>
    memref.store %x, %m[%i, %j] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %y, %out[%i, %j] : memref<32x32xf32>
    gpu.return
  }
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
// -----
gpu.module @m {
  gpu.func @data(%in: memref<32xindex>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %j = gpu.thread_id x
    // expected-note @+1 {{the target}}
    %m = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %i = memref.load %in[%j] : memref<32xindex>
    %y = memref.load %m[%j, %i] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
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
func.func @global() {
  // expected-note @+1 {{the target}}
  %m = memref.alloc() : memref<32x32xf32>
  return
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %m = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{cannot choose a layout: the target must be a memref.alloc in #gpu.address_space<workgroup>}}
    %n = transform.lego.swizzle %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
