// RUN: %lego-opt --split-input-file --verify-diagnostics %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread{warps=2},lego-lower-spread,canonicalize,cse))' | FileCheck %s

// A thread has 6 of the 8 registers of the padded tile, as three pairs. The sum of
// all needs five additions, shuffles, and one part of each warp.
#rows = #lego.spread<register = [[0, 1], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp = [[2, 0]], box = [4, 96]>
gpu.module @m {
  // CHECK-LABEL: gpu.func @sum
  // CHECK-COUNT-3: vector.load {{.*}} vector<2xf32>
  // CHECK-NOT: vector.load
  // CHECK-COUNT-5: arith.addf {{.*}} : f32
  // CHECK: gpu.shuffle
  gpu.func @sum(%m: memref<4x96xf32>, %n: memref<4xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i, %i] : memref<4x96xf32>, tensor<4x96xf32, #rows>
    %open = lego.convert %x : tensor<4x96xf32, #rows> to tensor<4x96xf32>
    %zero = arith.constant dense<0.0> : tensor<4xf32>
    %s = linalg.reduce { arith.addf } ins(%open : tensor<4x96xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
    lego.tile_store %s, %n[%i] : memref<4xf32>, tensor<4xf32>
    gpu.return
  }
}
// -----
// Three warps: the fourth of the layout is outside of the tile. The sum over the
// warps has three parts.
#warps = #lego.spread<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]], box = [96]>
#sum = #lego.spread<register = [], lane = [[], [], [], [], []], warp = [[], []], copies = 128>
gpu.module @m {
  // CHECK-LABEL: gpu.func @three
  // CHECK-SAME: workgroup(%[[S:.*]] : memref<4xf32
  // CHECK-COUNT-5: gpu.shuffle xor
  // CHECK-COUNT-3: memref.load %[[S]]
  // CHECK-NOT: memref.load %[[S]]
  gpu.func @three(%m: memref<96xf32>, %out: memref<f32>) kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<96xf32>, tensor<96xf32, #warps>
    %zero = arith.constant dense<0.0> : tensor<f32, #sum>
    %s = linalg.reduce { arith.addf } ins(%x : tensor<96xf32, #warps>) outs(%zero : tensor<f32, #sum>) dimensions = [0]
    lego.tile_store %s, %out[] : memref<f32>, tensor<f32, #sum>
    gpu.return
  }
}
// -----
// Without a layout, what ends the box is in registers. Columns 16 to 23 and K from
// 48 on of the padded tiles are not multiplied: 3 column pieces, 3 steps.
gpu.module @m {
  // CHECK-LABEL: gpu.func @product
  // CHECK-COUNT-9: nvgpu.mma.sync
  // CHECK-NOT: nvgpu.mma.sync
  gpu.func @product(%a: memref<32x48xf16>, %b: memref<48x24xf16>, %c: memref<32x24xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : tensor<32x24xf32>
    %x = lego.tile_load %a[%i, %i] : memref<32x48xf16>, tensor<32x48xf16>
    %y = lego.tile_load %b[%i, %i] : memref<48x24xf16>, tensor<48x24xf16>
    %d = lego.mma %x, %y, %zero : tensor<32x48xf16>, tensor<48x24xf16>, tensor<32x24xf32>
    lego.tile_store %d, %c[%i, %i] : memref<32x24xf32>, tensor<32x24xf32>
    gpu.return
  }
}
// -----
#warps = #lego.spread<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]], box = [96]>
gpu.module @m {
  gpu.func @outside(%m: memref<96xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = arith.constant 0 : index
    // expected-error @+1 {{has a tile of which warp 3 is outside; it must be in a gpu.launch or gpu.func whose known block size is as many, got 128}}
    %x = lego.tile_load %m[%i] : memref<96xf32>, tensor<96xf32, #warps>
    gpu.return
  }
}
// -----
#warps = #lego.spread<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]]>
gpu.module @m {
  gpu.func @missing(%m: memref<128xf32>) kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    %i = arith.constant 0 : index
    // expected-error @+1 {{has a tile of which warp 3 holds elements}}
    %x = lego.tile_load %m[%i] : memref<128xf32>, tensor<128xf32, #warps>
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @divided(%m: memref<6xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<6xf32>, tensor<6xf32>
    // expected-error @+1 {{divides a size that is no power of two}}
    %y = tensor.expand_shape %x [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
    gpu.return
  }
}
