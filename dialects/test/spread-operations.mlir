// RUN: %lego-opt --split-input-file --verify-diagnostics --canonicalize %s | FileCheck %s

#rows = #lego.spread<register = [[1]], lane = [[2], [4]], warp = []>
#lanes = #lego.spread<register = [[4]], lane = [[1], [2]], warp = []>
// Two conversions are one, one to the same layout is none, and a constant needs
// none.
// CHECK-LABEL: func.func @fold
// CHECK-SAME: %[[X:.*]]: tensor<8xf32, #[[ROWS:[^>]*]]>
// CHECK: %[[C:.*]] = arith.constant dense<1.0{{.*}}> : tensor<8xf32, #[[LANES:[^>]*]]>
// CHECK: %[[Y:.*]] = lego.convert %[[X]] : tensor<8xf32, #[[ROWS]]>> to tensor<8xf32, #[[LANES]]>>
// CHECK-NOT: lego.convert
// CHECK: return %[[Y]], %[[X]], %[[C]]
func.func @fold(%x: tensor<8xf32, #rows>)
    -> (tensor<8xf32, #lanes>, tensor<8xf32, #rows>, tensor<8xf32, #lanes>) {
  %y = lego.convert %x : tensor<8xf32, #rows> to tensor<8xf32, #lanes>
  %z = lego.convert %y : tensor<8xf32, #lanes> to tensor<8xf32, #rows>
  %one = arith.constant dense<1.0> : tensor<8xf32, #rows>
  %c = lego.convert %one : tensor<8xf32, #rows> to tensor<8xf32, #lanes>
  return %y, %z, %c : tensor<8xf32, #lanes>, tensor<8xf32, #rows>, tensor<8xf32, #lanes>
}
// CHECK-LABEL: func.func @access
// CHECK: lego.tile_load %{{.*}}[%{{.*}}] : memref<?xf32>, tensor<8xf32, #[[ROWS]]>>
// CHECK: lego.tile_store %{{.*}}, %{{.*}}[%{{.*}}] : memref<?xf32>, tensor<8xf32, #[[ROWS]]>>
func.func @access(%m: memref<?xf32>, %i: index) {
  %x = lego.tile_load %m[%i] : memref<?xf32>, tensor<8xf32, #rows>
  lego.tile_store %x, %m[%i] : memref<?xf32>, tensor<8xf32, #rows>
  return
}
// -----
func.func @open(%x: tensor<8xf32>) {
  // expected-error @+1 {{needs tensors with the encoding #lego.spread; one of them may have none until lego-propagate-spread}}
  %y = lego.convert %x : tensor<8xf32> to tensor<8xf32>
  return
}
// -----
#two = #lego.spread<register = [[1]], lane = [[2], [4]], warp = []>
#three = #lego.spread<register = [], lane = [[1], [2], [4]], warp = []>
func.func @threads(%x: tensor<8xf32, #two>) {
  // expected-error @+1 {{needs the same lanes and warps on both sides}}
  %y = lego.convert %x : tensor<8xf32, #two> to tensor<8xf32, #three>
  return
}
// -----
func.func @types(%m: memref<?xf16>, %i: index) {
  // expected-error @+1 {{needs a memref with the element type and the number of axes of the tile}}
  %x = lego.tile_load %m[%i] : memref<?xf16>, tensor<8xf32>
  return
}
// -----
func.func @indices(%m: memref<?xf32>, %i: index) {
  // expected-error @+1 {{has 2 indices, the tile has 1 axes}}
  %x = lego.tile_load %m[%i, %i] : memref<?xf32>, tensor<8xf32>
  return
}
// -----
func.func @encoding(%m: memref<?xf32>, %i: index) {
  // expected-error @+1 {{needs a tile of static shape, with the encoding #lego.spread or none}}
  %x = lego.tile_load %m[%i] : memref<?xf32>, tensor<8xf32, "other">
  return
}
