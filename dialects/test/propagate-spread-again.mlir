// RUN: %lego-opt %s --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread,canonicalize))' | FileCheck %s --check-prefix=ONCE
// RUN: %lego-opt %s --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread,canonicalize,lego-propagate-spread))' | FileCheck %s
// RUN: %lego-opt %s --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread,canonicalize,lego-propagate-spread,lego-lower-spread))' \
// RUN:   | FileCheck %s --check-prefix=LOWER

// Upstream transposes the operand of the broadcast in place of its result, and
// leaves what it makes without a layout.
#rows = #lego.spread<register = [[0, 0, 1]], lane = [[0, 0, 2], [0, 1, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = []>
gpu.module @m {
  gpu.func @swap(%m: memref<8x2x4xi32>, %n: memref<2x4x2x8xi32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i, %i, %i] : memref<8x2x4xi32>, tensor<8x2x4xi32, #rows>
    %open = lego.convert %x : tensor<8x2x4xi32, #rows> to tensor<8x2x4xi32>
    %wide = tensor.empty() : tensor<8x2x2x4xi32>
    %y = linalg.broadcast ins(%open : tensor<8x2x4xi32>) outs(%wide : tensor<8x2x2x4xi32>) dimensions = [1]
    %turned = tensor.empty() : tensor<2x4x2x8xi32>
    // ONCE: linalg.transpose {{.*}} outs(%{{.*}} : tensor<4x2x8xi32>)
    // CHECK: linalg.transpose {{.*}} outs(%{{.*}} : tensor<4x2x8xi32, #lego.spread<register = {{\[\[}}1, 0, 0]],
    // CHECK-NOT: lego.convert
    // LOWER-NOT: gpu.barrier
    // LOWER: memref.store {{.*}} : memref<2x4x2x8xi32>
    %z = linalg.transpose ins(%y : tensor<8x2x2x4xi32>) outs(%turned : tensor<2x4x2x8xi32>) permutation = [1, 3, 2, 0]
    lego.tile_store %z, %n[%i, %i, %i, %i] : memref<2x4x2x8xi32>, tensor<2x4x2x8xi32>
    gpu.return
  }
}
