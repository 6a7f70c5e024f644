// RUN: %lego-opt %s --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread{warps=2}))' | FileCheck %s
// RUN: %lego-opt %s --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread{warps=1 lanes=16}))' \
// RUN:   | FileCheck %s --check-prefix=LANES

// No layout is given: 16 bytes a thread, lanes in a row, then warps. The sum of
// a row is in the threads of that row, and stays there.
gpu.module @m {
  // CHECK-LABEL: gpu.func @rows
  // CHECK: lego.tile_load {{.*}} tensor<8x64xf32, #lego.spread<register = {{\[\[}}0, 1], [0, 2], [4, 0]], lane = {{\[\[}}0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = {{\[\[}}2, 0]]>>
  // CHECK-NOT: lego.convert
  // CHECK: lego.tile_store {{.*}} tensor<8xf32, #lego.spread<register = {{\[\[}}4]], lane = {{\[\[}}0], [0], [0], [0], [1]], warp = {{\[\[}}2]], copies = 16>>
  // LANES: lego.tile_load {{.*}} tensor<8x64xf32, #lego.spread<register = {{\[\[}}0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], lane = {{\[\[}}0, 4], [0, 8], [0, 16], [0, 32]], warp = []>>
  gpu.func @rows(%m: memref<8x64xf32>, %n: memref<8xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i, %i] : memref<8x64xf32>, tensor<8x64xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %s = linalg.reduce { arith.addf } ins(%x : tensor<8x64xf32>) outs(%zero : tensor<8xf32>) dimensions = [1]
    lego.tile_store %s, %n[%i] : memref<8xf32>, tensor<8xf32>
    gpu.return
  }
}
