// RUN: %lego-opt --split-input-file --pass-pipeline='builtin.module(lego-verify,lego-lower-to-arith,lego-simplify,canonicalize,cse)' %s | FileCheck %s
// RUN: %lego-opt --split-input-file --pass-pipeline='builtin.module(lego-lower-to-affine{skip=true})' %s | FileCheck %s --check-prefix=AFFINE
// RUN: %lego-opt --split-input-file %s | %lego-opt --split-input-file --mlir-print-op-generic | %lego-opt --split-input-file | FileCheck %s --check-prefix=SAME

// Every operation, in a kernel that is launched by name and in one that is
// launched in place.
// CHECK-LABEL: gpu.func @kernel
// CHECK-NOT: lego.{{[a-z]}}
// CHECK-DAG: memref.get_global @lego_table
// CHECK-DAG: arith.cmpi slt
// CHECK: scf.if
// CHECK: vector.load {{.*}} vector<4xf32>
// CHECK: vector.store {{.*}} vector<4xf32>
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf
// CHECK: memref.store
// AFFINE-LABEL: gpu.func @kernel
// AFFINE: affine.apply
// AFFINE: lego.apply #lego.layout<GenP([8], @back)>
// AFFINE: affine.apply
// SAME-LABEL: gpu.func @kernel
// SAME: lego.apply #lego.layout<Col(8, 8)>
// SAME: lego.for_each
// SAME: lego.yield
gpu.module @m {
  gpu.func @kernel(%x: memref<?x8xf32>, %M: index) kernel attributes {known_block_size = array<i32: 8, 8, 1>} {
    %i = gpu.thread_id x
    %j = gpu.thread_id y
    %z = arith.constant 0 : index
    %p = lego.apply #lego.layout<Col(8, 8)>(%i, %j)
    %q:2 = lego.inv #lego.layout<Row(8, 8)>(%p)
    %r = lego.apply #lego.layout<GenP([8], @back)>(%q#0)
    %t = lego.apply #lego.layout<gallery.table([8], [3, 1, 0, 2, 7, 6, 5, 4])>(%r)
    %named = lego.mask #lego.layout<Row(6, 6) tile_by([1, 1], [8, 8])>(%z, %z, %i, %j)
    %v = lego.view %x[%M] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
    %e = lego.load %v[%t, %j] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
    scf.if %named {
      lego.store %e, %v[%i, %j] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
    }
    %four = lego.vector_load %v[%i, %z] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>, vector<4xf32>
    lego.vector_store %four, %v[%j, %z] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>, vector<4xf32>
    %sum = lego.for_each (%k, %l) in #lego.layout<Padded(Row(4, 9), [4, 8])> iter_args(%s = %e) -> (f32) {
      %a = lego.load %v[%k, %l] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
      %b = arith.addf %s, %a : f32
      lego.yield %b : f32
    }
    memref.store %sum, %x[%i, %j] : memref<?x8xf32>
    gpu.return
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
}
// -----
// CHECK-LABEL: func.func @launch
// CHECK-NOT: lego.{{[a-z]}}
// CHECK-DAG: memref.get_global @lego_table
// CHECK-DAG: arith.cmpi slt
// CHECK: scf.if
// CHECK: vector.load {{.*}} vector<4xf32>
// CHECK: vector.store {{.*}} vector<4xf32>
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.addf
// CHECK: memref.store
// AFFINE-LABEL: func.func @launch
// AFFINE: affine.apply
// AFFINE: lego.apply #lego.layout<GenP([8], @back)>
// AFFINE: affine.apply
// SAME-LABEL: func.func @launch
// SAME: lego.apply #lego.layout<Col(8, 8)>
// SAME: lego.for_each
// SAME: lego.yield
func.func @launch(%x: memref<?x8xf32>, %M: index) {
  %z = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
      threads(%i, %j, %h) in (%nx = %eight, %ny = %eight, %nz = %one) {
    %p = lego.apply #lego.layout<Col(8, 8)>(%i, %j)
    %q:2 = lego.inv #lego.layout<Row(8, 8)>(%p)
    %r = lego.apply #lego.layout<GenP([8], @back)>(%q#0)
    %t = lego.apply #lego.layout<gallery.table([8], [3, 1, 0, 2, 7, 6, 5, 4])>(%r)
    %named = lego.mask #lego.layout<Row(6, 6) tile_by([1, 1], [8, 8])>(%z, %z, %i, %j)
    %v = lego.view %x[%M] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
    %e = lego.load %v[%t, %j] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
    scf.if %named {
      lego.store %e, %v[%i, %j] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
    }
    %four = lego.vector_load %v[%i, %z] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>, vector<4xf32>
    lego.vector_store %four, %v[%j, %z] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>, vector<4xf32>
    %sum = lego.for_each (%k, %l) in #lego.layout<Padded(Row(4, 9), [4, 8])> iter_args(%s = %e) -> (f32) {
      %a = lego.load %v[%k, %l] : !lego.view<memref<?x8xf32>, #lego.layout<[M]: Row(M, 8)>>
      %b = arith.addf %s, %a : f32
      lego.yield %b : f32
    }
    memref.store %sum, %x[%i, %j] : memref<?x8xf32>
    gpu.terminator
  }
  return
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
// -----
// The extent of memory is read where the memory is defined: both kernels see it.
// CHECK-LABEL: func.func @two_views
// CHECK: memref.dim %arg0
// CHECK: gpu.launch
// CHECK-NOT: memref.dim
// CHECK: gpu.launch
// CHECK-NOT: memref.dim
// AFFINE-LABEL: func.func @two_views
func.func @two_views(%m: memref<?x?xf32>, %x: f32) {
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
      threads(%i, %j, %h) in (%nx = %eight, %ny = %eight, %nz = %one) {
    %v = lego.view %m : !lego.view<memref<?x?xf32>, #lego.layout<Col(8, 8)>>
    lego.store %x, %v[%i, %j] : !lego.view<memref<?x?xf32>, #lego.layout<Col(8, 8)>>
    gpu.terminator
  }
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
      threads(%i, %j, %h) in (%nx = %eight, %ny = %eight, %nz = %one) {
    %v = lego.view %m : !lego.view<memref<?x?xf32>, #lego.layout<Col(8, 8)>>
    lego.store %x, %v[%i, %j] : !lego.view<memref<?x?xf32>, #lego.layout<Col(8, 8)>>
    gpu.terminator
  }
  return
}
