// RUN: %lego-opt --split-input-file %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-lower-spread,canonicalize,cse))' | FileCheck %s
// RUN: %lego-opt --split-input-file %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-lower-spread{shuffles=false},canonicalize,cse))' \
// RUN:   | FileCheck %s --check-prefix=MEMORY

// Four registers in a row are one access. Register bit 1 and lane bit 0 change
// places: a lane sends the half that it does not keep, by shuffles to its
// neighbour.
#rows = #lego.spread<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]]>
#swapped = #lego.spread<register = [[1], [4]], lane = [[2], [8], [16], [32], [64]], warp = [[128]]>
gpu.module @m {
  // CHECK-LABEL: gpu.func @shuffle
  // CHECK: vector.load %{{.*}} vector<4xf32>
  // CHECK-COUNT-2: gpu.shuffle xor {{.*}} : f32
  // CHECK-NOT: gpu.{{shuffle|barrier}}
  // CHECK: vector.store {{.*}} vector<2xf32>
  // MEMORY-LABEL: gpu.func @shuffle
  // MEMORY-SAME: workgroup(%[[S:.*]] : memref<256xf32, #gpu.address_space<workgroup>>)
  // MEMORY: gpu.barrier
  // MEMORY: vector.store %{{.*}}, %[[S]]{{.*}} vector<4xf32>
  // MEMORY: gpu.barrier
  // MEMORY-COUNT-2: vector.load %[[S]]{{.*}} vector<2xf32>
  gpu.func @shuffle(%m: memref<256xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<256xf32>, tensor<256xf32, #rows>
    %y = lego.convert %x : tensor<256xf32, #rows> to tensor<256xf32, #swapped>
    lego.tile_store %y, %m[%i] : memref<256xf32>, tensor<256xf32, #swapped>
    gpu.return
  }
}
// -----
// Registers alone: other numbers, and nothing moves.
#one = #lego.spread<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = []>
#two = #lego.spread<register = [[2], [1]], lane = [[4], [8], [16], [32], [64]], warp = []>
gpu.module @m {
  // CHECK-LABEL: gpu.func @registers
  // CHECK: %[[X:.*]]:4 = vector.to_elements
  // CHECK: vector.from_elements %[[X]]#0, %[[X]]#2, %[[X]]#1, %[[X]]#3
  // CHECK-NOT: gpu.shuffle
  gpu.func @registers(%m: memref<128xf32>, %out: memref<32xvector<4xf32>>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    %thread = gpu.thread_id x
    %x = lego.tile_load %m[%i] : memref<128xf32>, tensor<128xf32, #one>
    %y = lego.convert %x : tensor<128xf32, #one> to tensor<128xf32, #two>
    %v = builtin.unrealized_conversion_cast %y : tensor<128xf32, #two> to vector<4xf32>
    memref.store %v, %out[%thread] : memref<32xvector<4xf32>>
    gpu.return
  }
}
// -----
// A sum over rows: one addition of registers, five shuffles, and the two warps
// through memory. One lane stores the result.
#rows = #lego.spread<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]]>
#sum = #lego.spread<register = [], lane = [[], [], [], [], []], warp = [[]], copies = 64>
gpu.module @m {
  // CHECK-LABEL: gpu.func @sum
  // CHECK-COUNT-5: gpu.shuffle xor
  // CHECK: gpu.barrier
  // CHECK: scf.if
  // CHECK: gpu.barrier
  // CHECK-COUNT-2: memref.load
  // CHECK: scf.if
  // CHECK-NEXT: memref.store %{{.*}}, %{{.*}}[] : memref<f32>
  gpu.func @sum(%m: memref<128xf32>, %out: memref<f32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<128xf32>, tensor<128xf32, #rows>
    %zero = arith.constant dense<0.0> : tensor<f32, #sum>
    %s = linalg.reduce { arith.addf } ins(%x : tensor<128xf32, #rows>) outs(%zero : tensor<f32, #sum>) dimensions = [0]
    lego.tile_store %s, %out[] : memref<f32>, tensor<f32, #sum>
    gpu.return
  }
}
// -----
// A tile of 512 registers in each thread, four in an access.
#many = #lego.spread<register = [[1], [2], [4], [8], [16], [32], [64], [128], [256]], lane = [[512], [1024], [2048], [4096], [8192]], warp = []>
gpu.module @m {
  // CHECK-LABEL: gpu.func @many
  // CHECK-COUNT-128: vector.load {{.*}} vector<4xi32>
  // CHECK-NOT: vector.load
  // CHECK-COUNT-128: vector.store {{.*}} vector<4xi32>
  gpu.func @many(%m: memref<16384xi32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<16384xi32>, tensor<16384xi32, #many>
    lego.tile_store %x, %m[%i] : memref<16384xi32>, tensor<16384xi32, #many>
    gpu.return
  }
}
// -----
// Elements of other widths move as words of 32 bits.
#p = #lego.spread<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
#q = #lego.spread<register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>
gpu.module @m {
  // CHECK-LABEL: gpu.func @words
  // CHECK-COUNT-4: gpu.shuffle idx {{.*}} : i32
  // CHECK-COUNT-6: gpu.shuffle idx {{.*}} : i32
  // CHECK-NOT: gpu.shuffle
  // MEMORY-LABEL: gpu.func @words
  gpu.func @words(%m: memref<64xi48>, %n: memref<64xf80>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %m[%i] : memref<64xi48>, tensor<64xi48, #p>
    %y = lego.convert %x : tensor<64xi48, #p> to tensor<64xi48, #q>
    lego.tile_store %y, %m[%i] : memref<64xi48>, tensor<64xi48, #q>
    %u = lego.tile_load %n[%i] : memref<64xf80>, tensor<64xf80, #p>
    %v = lego.convert %u : tensor<64xf80, #p> to tensor<64xf80, #q>
    lego.tile_store %v, %n[%i] : memref<64xf80>, tensor<64xf80, #q>
    gpu.return
  }
}
