// RUN: %lego-opt %s --pass-pipeline='builtin.module(lego-propagate-spread,lego-lower-spread,canonicalize,cse)' \
// RUN:   | FileCheck %s

// A kernel that is launched where it stands: its block size is that of the
// launch. What is stored has another layout than what was loaded.
#rows = #lego.spread<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]]>
#swapped = #lego.spread<register = [[1], [4]], lane = [[2], [8], [16], [32], [64]], warp = [[128]]>
// CHECK-LABEL: func.func @launched
// CHECK: gpu.launch
// CHECK: %[[X:.*]] = vector.load {{.*}} vector<4xf32>
// CHECK: arith.mulf %[[X]], %[[X]] : vector<4xf32>
// CHECK-COUNT-2: gpu.shuffle xor {{.*}} : f32
// CHECK: vector.store {{.*}} vector<2xf32>
// CHECK: gpu.terminator
func.func @launched(%m: memref<256xf32>) {
  %one = arith.constant 1 : index
  %threads = arith.constant 64 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
             threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %one, %sz = %one) {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<256xf32>, tensor<256xf32, #rows>
    %y = arith.mulf %x, %x : tensor<256xf32, #rows>
    %z = lego.convert %y : tensor<256xf32, #rows> to tensor<256xf32, #swapped>
    lego.tile_store %z, %m[%i] : memref<256xf32>, tensor<256xf32, #swapped>
    gpu.terminator
  }
  return
}
