// RUN: %lego-opt --split-input-file --verify-diagnostics %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread))' | FileCheck %s

// One load has a layout. It reaches the product forward, the other load
// backward, and the column through the broadcast; the constant takes it.
#rows = #lego.spread<register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], warp = []>
gpu.module @m {
  // CHECK-LABEL: gpu.func @reach
  gpu.func @reach(%a: memref<4x16xf32>, %b: memref<4xf32>, %t: memref<16x4xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    // CHECK: lego.tile_load %{{.*}} : memref<4x16xf32>, tensor<4x16xf32, #[[L:[^>]*]]>
    %x = lego.tile_load %a[%i, %i] : memref<4x16xf32>, tensor<4x16xf32, #rows>
    %open = lego.convert %x : tensor<4x16xf32, #rows> to tensor<4x16xf32>
    // CHECK: lego.tile_load %{{.*}} : memref<4xf32>, tensor<4xf32, #lego.spread<register = [], lane = {{\[\[}}0], [0], [0], [1], [2]], warp = [], copies = 8>>
    %column = lego.tile_load %b[%i] : memref<4xf32>, tensor<4xf32>
    %empty = tensor.empty() : tensor<4x16xf32>
    // CHECK: %[[Y:.*]] = linalg.broadcast {{.*}} outs(%{{.*}} : tensor<4x16xf32, #[[L]]>>)
    %y = linalg.broadcast ins(%column : tensor<4xf32>) outs(%empty : tensor<4x16xf32>) dimensions = [1]
    %one = arith.constant dense<1.0> : tensor<4x16xf32>
    // CHECK: arith.mulf %{{.*}}, %[[Y]] : tensor<4x16xf32, #[[L]]>>
    %z = arith.mulf %open, %y : tensor<4x16xf32>
    // CHECK: %[[ONE:.*]] = arith.constant dense<1.0{{.*}}> : tensor<4x16xf32, #[[L]]>>
    // CHECK: arith.addf %{{.*}}, %[[ONE]] : tensor<4x16xf32, #[[L]]>>
    %w = arith.addf %z, %one : tensor<4x16xf32>
    %other = tensor.empty() : tensor<16x4xf32>
    // CHECK: linalg.transpose {{.*}} outs(%{{.*}} : tensor<16x4xf32, #[[T:lego.spread<register = .*1, 0.*, lane = .*2, 0.*4, 0.*8, 0.*0, 1.*0, 2[^>]*]]>>)
    %v = linalg.transpose ins(%w : tensor<4x16xf32>) outs(%other : tensor<16x4xf32>) permutation = [1, 0]
    // CHECK-NOT: lego.convert
    // CHECK: lego.tile_store %{{.*}} : memref<16x4xf32>, tensor<16x4xf32, #[[T]]>>
    lego.tile_store %v, %t[%i, %i] : memref<16x4xf32>, tensor<16x4xf32>
    gpu.return
  }
}
// -----
// Two layouts meet: one conversion, after the definition, serves both sums.
#a = #lego.spread<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
#b = #lego.spread<register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>
gpu.module @m {
  // CHECK-LABEL: gpu.func @meet
  gpu.func @meet(%m: memref<64xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<64xf32>, tensor<64xf32, #a>
    // CHECK: %[[Y:.*]] = lego.tile_load
    // CHECK: %[[Y2:.*]] = lego.tile_load
    // CHECK: %[[Z:.*]] = lego.convert %[[Y2]]
    %y = lego.tile_load %m[%i] : memref<64xf32>, tensor<64xf32, #b>
    %p = lego.convert %x : tensor<64xf32, #a> to tensor<64xf32>
    %q = lego.convert %y : tensor<64xf32, #b> to tensor<64xf32>
    // CHECK-NEXT: %[[S:.*]] = arith.addf %[[Y]], %[[Z]]
    %s = arith.addf %p, %q : tensor<64xf32>
    // CHECK-NEXT: arith.mulf %[[S]], %[[Z]]
    %t = arith.mulf %s, %q : tensor<64xf32>
    lego.tile_store %t, %m[%i] : memref<64xf32>, tensor<64xf32>
    gpu.return
  }
}
// -----
// Registers in another order need no conversion, but upstream replaces the
// transposition by its operand, which then has to have the layout of the sum.
#a = #lego.spread<register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = []>
#b = #lego.spread<register = [[0, 2], [0, 1]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = []>
gpu.module @m {
  // CHECK-LABEL: gpu.func @order
  gpu.func @order(%m: memref<8x16xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    // CHECK: %[[X:.*]] = lego.tile_load
    %x = lego.tile_load %m[%i, %i] : memref<8x16xf32>, tensor<8x16xf32, #a>
    %empty = tensor.empty() : tensor<8x16xf32, #b>
    // CHECK: %[[Y:.*]] = lego.convert %[[X]]
    // CHECK: linalg.transpose ins(%[[Y]] :
    %y = linalg.transpose ins(%x : tensor<8x16xf32, #a>) outs(%empty : tensor<8x16xf32, #b>) permutation = [0, 1]
    %z = arith.addf %y, %y : tensor<8x16xf32, #b>
    // CHECK: linalg.broadcast ins(%[[Y]] :
    %w = linalg.broadcast ins(%x : tensor<8x16xf32, #a>) outs(%empty : tensor<8x16xf32, #b>) dimensions = []
    %v = arith.addf %z, %w : tensor<8x16xf32, #b>
    lego.tile_store %v, %m[%i, %i] : memref<8x16xf32>, tensor<8x16xf32, #b>
    gpu.return
  }
}
// -----
// So has a register of copies, which the sum has.
#c = #lego.spread<register = [[0], [32]], lane = [[1], [2], [4], [8], [16]], warp = [], copies = 2>
gpu.module @m {
  // CHECK-LABEL: gpu.func @copies
  gpu.func @copies(%m: memref<64xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    // CHECK: %[[X:.*]] = lego.tile_load %{{.*}} : memref<64xf32>, tensor<64xf32, #[[C:[^>]*]]>>
    %x = lego.tile_load %m[%i] : memref<64xf32>, tensor<64xf32, #c>
    %empty = tensor.empty() : tensor<64xf32, #c>
    // CHECK: linalg.transpose ins(%[[X]] : tensor<64xf32, #[[C]]>>)
    %y = linalg.transpose ins(%x : tensor<64xf32, #c>) outs(%empty : tensor<64xf32, #c>) permutation = [0]
    %z = arith.addf %y, %x : tensor<64xf32, #c>
    lego.tile_store %z, %m[%i] : memref<64xf32>, tensor<64xf32, #c>
    gpu.return
  }
}
