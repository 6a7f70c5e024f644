// RUN: %lego-opt --split-input-file --verify-diagnostics %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread))'
// RUN: not %lego-opt --split-input-file %s 2>&1 \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread{warps=64}))' | FileCheck %s
// CHECK: lanes and warps are powers of two, at most 64 lanes and 1024 threads, got 32 and 64

gpu.module @m {
  gpu.func @unreached(%m: memref<64xf32>) kernel {
    %i = arith.constant 0 : index
    // expected-error @+1 {{has a tile that no layout reaches; give one to a tile_load or lego.convert, or the pass the number of 'warps'}}
    %x = lego.tile_load %m[%i] : memref<64xf32>, tensor<64xf32>
    lego.tile_store %x, %m[%i] : memref<64xf32>, tensor<64xf32>
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @splat(%m: memref<64xf32>) kernel {
    %i = arith.constant 0 : index
    %x = arith.constant dense<1.0> : tensor<64xf32>
    // expected-error @+1 {{stores a tile that no layout reaches; give the pass the number of 'warps'}}
    lego.tile_store %x, %m[%i] : memref<64xf32>, tensor<64xf32>
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @sizes(%m: memref<?xf32>, %n: memref<4xf32>) kernel {
    %i = arith.constant 0 : index
    %x = lego.tile_load %n[%i] : memref<4xf32>, tensor<4xf32, #a>
    // expected-error @+1 {{has a tile whose sizes are not known, or too large: 'tensor<8388608xf32>'}}
    %y = lego.tile_load %m[%i] : memref<?xf32>, tensor<8388608xf32>
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @product(%m: memref<16x16xf16>) kernel {
    %i = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : tensor<16x16xf32>
    %x = lego.tile_load %m[%i, %i] : memref<16x16xf16>, tensor<16x16xf16>
    // expected-error @+1 {{is a product whose layout is open; give its result one by lego.convert, or the pass the number of 'warps'}}
    %d = lego.mma %x, %x, %zero : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32>
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @unknown(%m: memref<4xf32>) kernel {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    // expected-error @+1 {{is not supported on spread tiles}}
    %y = tensor.extract %x[%i] : tensor<4xf32, #a>
    gpu.return
  }
}
// -----
#a = #lego.spread<register = [[1]], lane = [[2]], warp = []>
gpu.module @m {
  gpu.func @registers(%m: memref<4xf32>) kernel {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<4xf32>, tensor<4xf32, #a>
    %y = lego.convert %x : tensor<4xf32, #a> to tensor<4xf32>
    %e = tensor.empty() : tensor<4x8192xf32>
    // expected-error @+1 {{has a tile with more than 4096 elements in one thread}}
    %z = linalg.broadcast ins(%y : tensor<4xf32>) outs(%e : tensor<4x8192xf32>) dimensions = [1]
    gpu.return
  }
}
// -----
// Lanes of a warp of 16.
#c = #lego.spread<register = [[0, 1], [0, 2], [8, 0]], lane = [[0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
gpu.module @m {
  gpu.func @lanes(%m: memref<16x16xf16>, %n: memref<16x8xf16>, %c: memref<16x8xf32>) kernel {
    %i = arith.constant 0 : index
    %z = lego.tile_load %c[%i, %i] : memref<16x8xf32>, tensor<16x8xf32, #c>
    %open = lego.convert %z : tensor<16x8xf32, #c> to tensor<16x8xf32>
    %x = arith.constant dense<1.0> : tensor<16x16xf16>
    %y = arith.constant dense<1.0> : tensor<16x8xf16>
    // expected-error @+1 {{is a product of a warp of 32 lanes, got 16}}
    %d = lego.mma %x, %y, %open : tensor<16x16xf16>, tensor<16x8xf16>, tensor<16x8xf32>
    lego.tile_store %d, %c[%i, %i] : memref<16x8xf32>, tensor<16x8xf32>
    gpu.return
  }
}
// -----
// Each warp would have all elements along K.
#c = #lego.spread<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0]], copies = 2>
gpu.module @m {
  gpu.func @deep(%c: memref<16x8xf32>) kernel {
    %i = arith.constant 0 : index
    %z = lego.tile_load %c[%i, %i] : memref<16x8xf32>, tensor<16x8xf32, #c>
    %open = lego.convert %z : tensor<16x8xf32, #c> to tensor<16x8xf32>
    %x = arith.constant dense<1.0> : tensor<16x16384xf16>
    %y = arith.constant dense<1.0> : tensor<16384x8xf16>
    // expected-error @+1 {{has a tile with more than 4096 elements in one thread}}
    %d = lego.mma %x, %y, %open : tensor<16x16384xf16>, tensor<16384x8xf16>, tensor<16x8xf32>
    lego.tile_store %d, %c[%i, %i] : memref<16x8xf32>, tensor<16x8xf32>
    gpu.return
  }
}
// -----
gpu.module @m {
  gpu.func @argument(%x: tensor<64xf32>, %m: memref<64xf32>) {
    %i = arith.constant 0 : index
    // expected-error @+1 {{has a tile from outside of the kernel; load it by lego.tile_load}}
    lego.tile_store %x, %m[%i] : memref<64xf32>, tensor<64xf32>
    gpu.return
  }
}
