// RUN: %lego-opt --split-input-file --verify-diagnostics %s --pass-pipeline='builtin.module(lego-lower-spread)'

#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @threads(%m: memref<4xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    // expected-error @+1 {{has a tile for 2 threads; it must be in a gpu.launch or gpu.func whose known block size is as many, got 64}}
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @open(%m: memref<4xf32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    // expected-error @+1 {{has a tile without a layout; run lego-propagate-spread right before this pass}}
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32>
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[0, 1]], lane = [[1, 0]], warp = []>
gpu.module @m {
  gpu.func @moves(%m: memref<2x2xf32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i, %i] : memref<2x2xf32>, tensor<2x2xf32, #a>
    %e = tensor.empty() : tensor<2x2xf32, #a>
    // expected-error @+1 {{moves no elements between threads, but its result is wanted in #lego.spread}}
    %y = linalg.transpose ins(%x : tensor<2x2xf32, #a>) outs(%e : tensor<2x2xf32, #a>) permutation = [1, 0]
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
#b = #lego.spread<register = [[2]], lane = [[1]], warp = []>
gpu.module @m {
  gpu.func @two(%m: memref<4xf32>, %n: memref<4xi32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    %k = lego.tile_load %n[%i] : memref<4xi32>, tensor<4xi32, #b>
    // expected-error @+1 {{has operands in two layouts; run lego-propagate-spread first}}
    %y = math.fpowi %x, %k : tensor<4xf32, #a>, tensor<4xi32, #b>
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1, 1]], lane = [[1, 0]], warp = []>
#r = #lego.spread<register = [[1]], lane = [[1]], warp = [], copies = 2>
gpu.module @m {
  gpu.func @mixed(%m: memref<2x2xf32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i, %i] : memref<2x2xf32>, tensor<2x2xf32, #a>
    %e = tensor.empty() : tensor<2xf32, #r>
    // expected-error @+1 {{needs bases that move along the axes that are reduced or along those that are kept, not both}}
    %y = linalg.reduce { arith.addf } ins(%x : tensor<2x2xf32, #a>) outs(%e : tensor<2xf32, #r>) dimensions = [1]
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
#r = #lego.spread<register = [], lane = [[]], warp = [], copies = 2>
gpu.module @m {
  gpu.func @difference(%m: memref<4xf32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    %e = tensor.empty() : tensor<f32, #r>
    // expected-error @+1 {{reduces a spread tile by other than one commutative operation}}
    %y = linalg.reduce { arith.subf } ins(%x : tensor<4xf32, #a>) outs(%e : tensor<f32, #r>) dimensions = [0]
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @cast(%m: memref<4xf32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    // expected-error @+1 {{is of a tile, and of the vector of its registers, 'vector<2xf32>'}}
    %v = builtin.unrealized_conversion_cast %x : tensor<4xf32, #a> to vector<4xf32>
    gpu.return
  }
}
// -----
#b = #lego.spread<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = []>
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
gpu.module @m {
  gpu.func @first(%m: memref<16x8xf16>, %n: memref<16x8xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    %x = arith.constant dense<1.0> : tensor<16x16xf16>
    %y = lego.tile_load %m[%i, %i] : memref<16x8xf16>, tensor<16x8xf16, #b>
    %z = lego.tile_load %n[%i, %i] : memref<16x8xf32>, tensor<16x8xf32, #c>
    // expected-error @+1 {{has a tile without a layout; run lego-propagate-spread right before this pass}}
    %d = lego.mma %x, %y, %z : tensor<16x16xf16>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @map(%m: memref<4xf32>) kernel attributes {known_block_size = array<i32: 2, 1, 1>} {
    %i = arith.constant 0 : index
    %c = arith.constant dense<1.0> : tensor<4xf32>
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    // expected-error @+1 {{has a tile without a layout; run lego-propagate-spread right before this pass}}
    %y = linalg.map ins(%c : tensor<4xf32>) outs(%x : tensor<4xf32, #a>) (%p: f32, %o: f32) { linalg.yield %p : f32 }
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @argument(%x: tensor<4xf32, #a>) attributes {known_block_size = array<i32: 2, 1, 1>} {
    // expected-error @+1 {{has a tile from outside of the kernel; load it by lego.tile_load}}
    %y = arith.addf %x, %x : tensor<4xf32, #a>
    gpu.return
  }
}
