// RUN: %lego-opt --split-input-file --verify-diagnostics %s | %lego-opt --split-input-file | FileCheck %s
// RUN: %lego-opt --split-input-file --verify-diagnostics --mlir-print-op-generic %s | %lego-opt --split-input-file | FileCheck %s

// A product of one warp, in the layouts of one m16n8k16 each, and masks.
#a = #lego.spread<register = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<16x16xf16, #a>, %y: tensor<16x8xf16, #b>, %z: tensor<16x8xf32, #c>,
                   %m: memref<16x8xf32>, %i: index, %other: f32) {
  // CHECK: lego.mma %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x16xf16, #{{.*}}>, tensor<16x8xf16, #{{.*}}>, tensor<16x8xf32, #{{.*}}>
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  // CHECK: lego.tile_index 1 : tensor<16x8xindex, #{{.*}}>
  %j = lego.tile_index 1 : tensor<16x8xindex, #c>
  %p = arith.cmpi eq, %j, %j : tensor<16x8xindex, #c>
  // CHECK: lego.tile_load %{{.*}}[%{{.*}}, %{{.*}}] mask %{{.*}} : tensor<16x8xi1, #{{.*}}> else %{{.*}} : f32 in : memref<16x8xf32>, tensor<16x8xf32, #{{.*}}>
  %l = lego.tile_load %m[%i, %i] mask %p : tensor<16x8xi1, #c> else %other : f32 in
    : memref<16x8xf32>, tensor<16x8xf32, #c>
  // CHECK: lego.tile_store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] mask %{{.*}} : tensor<16x8xi1, #{{.*}}> in : memref<16x8xf32>, tensor<16x8xf32, #{{.*}}>
  lego.tile_store %l, %m[%i, %i] mask %p : tensor<16x8xi1, #c> in
    : memref<16x8xf32>, tensor<16x8xf32, #c>
  return
}
// -----
// The order along K is free, if a and b have the same one.
#a = #lego.spread<register = [[0, 8], [0, 3], [8, 0]], lane = [[0, 4], [0, 1], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[3, 0], [8, 0]], lane = [[4, 0], [1, 0], [0, 4], [0, 2], [0, 1]], warp = []>
#c = #lego.spread<register = [[8, 0], [0, 4]], lane = [[0, 2], [0, 1], [1, 0], [2, 0], [4, 0]], warp = []>
// CHECK-LABEL: func.func @order
func.func @order(%x: tensor<16x16xf16, #a>, %y: tensor<16x8xf16, #b>, %z: tensor<16x8xf32, #c>) {
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  return
}
// -----
#a = #lego.spread<register = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[1, 0], [2, 0]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
func.func @along(%x: tensor<16x16xf16, #a>, %y: tensor<16x8xf16, #b>, %z: tensor<16x8xf32, #c>) {
  // expected-error @+1 {{other layouts than those of fragments: lanes 0 and 1 of a and b number different elements along K}}
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  return
}
// -----
#a = #lego.spread<register = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 2], [0, 1], [0, 4]], warp = []>
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
func.func @columns(%x: tensor<16x16xf16, #a>, %y: tensor<16x8xf16, #b>, %z: tensor<16x8xf32, #c>) {
  // expected-error @+1 {{lanes 2 to 4 of b must number the columns of a register and of lanes 0 and 1 of the result}}
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  return
}
// -----
#a = #lego.spread<register = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [2, 0], [1, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
func.func @rows(%x: tensor<16x16xf16, #a>, %y: tensor<16x8xf16, #b>, %z: tensor<16x8xf32, #c>) {
  // expected-error @+1 {{lanes 2 to 4 of a must number the rows of the result's}}
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  return
}
// -----
#a = #lego.spread<register = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #lego.spread<register = [[0, 1], [0, 2]], lane = [[8, 0], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
func.func @result(%x: tensor<16x16xf16, #a>, %y: tensor<16x8xf16, #b>, %z: tensor<16x8xf32, #c>) {
  // expected-error @+1 {{lanes 0 and 1 of the result must number columns, lanes 2 to 4 rows}}
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  return
}
// -----
#a = #lego.spread<register = [[0, 1], [0, 8], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]], copies = 2>
#b = #lego.spread<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 0]], copies = 2>
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 8]]>
func.func @warps(%x: tensor<16x16xf16, #a>, %y: tensor<16x16xf16>, %z: tensor<16x16xf32, #c>, %w: tensor<16x8xf16, #b>) {
  // An operand without a layout is one of lego-propagate-spread.
  %d = lego.mma %x, %y, %z : tensor<16x16xf16, #a>, tensor<16x16xf16>, tensor<16x16xf32, #c>
  // expected-error @+1 {{multiplies 16x16 by 16x8 into 16x16}}
  %e = lego.mma %x, %w, %z : tensor<16x16xf16, #a>, tensor<16x8xf16, #b>, tensor<16x16xf32, #c>
  return
}
// -----
func.func @types(%x: tensor<16x16xf16>, %y: tensor<16x8xf16>, %z: tensor<16x8xf16>) {
  // expected-error @+1 {{multiplies f16, bf16 or f32 into f32, f64 into f64, or i8 into i32, got 'f16' into 'f16'}}
  %d = lego.mma %x, %y, %z : tensor<16x16xf16>, tensor<16x8xf16>, tensor<16x8xf16>
  return
}
// -----
func.func @sizes(%x: tensor<16x8xf16>, %y: tensor<8x8xf16>, %z: tensor<16x8xf32>) {
  // expected-error @+1 {{needs multiples of 16 rows, 8 columns and a depth of 16, got 16, 8 and 8}}
  %d = lego.mma %x, %y, %z : tensor<16x8xf16>, tensor<8x8xf16>, tensor<16x8xf32>
  return
}
// -----
func.func @axis() {
  // expected-error @+1 {{has axis 1, the tile has 1 axes}}
  %j = lego.tile_index 1 : tensor<8xindex>
  return
}
// -----
func.func @mask(%m: memref<8xf32>, %i: index, %p: tensor<4xi1>, %other: f32) {
  // expected-error @+1 {{needs a mask of i1 in the shape of the tile, got 'tensor<4xi1>' and 'tensor<8xf32>'}}
  %x = lego.tile_load %m[%i] mask %p : tensor<4xi1> else %other : f32 in : memref<8xf32>, tensor<8xf32>
  return
}
// -----
func.func @other(%m: memref<8xf32>, %i: index, %p: tensor<8xi1>, %other: f16) {
  // expected-error @+1 {{needs with a mask, and only then, a number of type 'f32' for elements that are not loaded}}
  %x = lego.tile_load %m[%i] mask %p : tensor<8xi1> else %other : f16 in : memref<8xf32>, tensor<8xf32>
  return
}
