// RUN: %lego-opt --split-input-file --verify-diagnostics %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread{warps=4}))' | FileCheck %s
// RUN: %lego-opt --split-input-file --verify-diagnostics %s \
// RUN:   --pass-pipeline='builtin.module(gpu.module(lego-propagate-spread{warps=4},lego-lower-spread,canonicalize,cse))' \
// RUN:   | FileCheck %s --check-prefix=LOWER

// A product in a loop: the sum that it carries is in a layout of the matrix unit,
// with its warps along the rows, and operands are converted to fragments.
gpu.module @m {
  // CHECK-LABEL: gpu.func @product
  // CHECK: %[[ZERO:.*]] = arith.constant dense<0.0{{.*}}> : tensor<64x64xf32, #[[C:lego.spread<register = [^>]*warp = ..16, 0., .32, 0..]]>>
  // CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %[[ZERO]]) -> (tensor<64x64xf32, #[[C]]>>)
  // CHECK: %[[X:.*]] = lego.convert {{.*}} to tensor<64x16xf16, #[[A:lego.spread<register = ..0, 1., .0, 8., .8, 0.., lane = [^>]*]]>>
  // CHECK: %[[Y:.*]] = lego.convert {{.*}} to tensor<16x64xf16, #[[B:lego.spread<[^>]*copies = 4]]>>
  // CHECK: lego.mma %[[X]], %[[Y]], %[[S]] : tensor<64x16xf16, #[[A]]>>, tensor<16x64xf16, #[[B]]>>, tensor<64x64xf32, #[[C]]>>
  // CHECK-NOT: lego.convert
  // LOWER-LABEL: gpu.func @product
  // LOWER: scf.for {{.*}} -> (vector<32xf32>)
  // LOWER-COUNT-8: nvgpu.mma.sync({{.*}}) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
  // LOWER-NOT: nvgpu.mma.sync
  gpu.func @product(%a: memref<64x32xf16>, %b: memref<32x64xf16>, %c: memref<64x64xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = arith.constant 0 : index
    %step = arith.constant 16 : index
    %end = arith.constant 32 : index
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %sum = scf.for %k = %i to %end step %step iter_args(%s = %zero) -> (tensor<64x64xf32>) {
      %x = lego.tile_load %a[%i, %k] : memref<64x32xf16>, tensor<64x16xf16>
      %y = lego.tile_load %b[%k, %i] : memref<32x64xf16>, tensor<16x64xf16>
      %d = lego.mma %x, %y, %s : tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    lego.tile_store %sum, %c[%i, %i] : memref<64x64xf32>, tensor<64x64xf32>
    gpu.return
  }
}
// -----
// A loop with a condition carries its tile in one layout; what is added to it is
// converted.
#rows = #lego.spread<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]], copies = 4>
#other = #lego.spread<register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = [[0], [0]], copies = 4>
gpu.module @m {
  // CHECK-LABEL: gpu.func @while
  // CHECK: scf.while {{.*}} : (tensor<64xf32, #[[R:lego.spread<register = ..1.., [^>]*]]>>, index)
  // CHECK: scf.condition(%{{.*}}) %{{.*}}, %{{.*}} : tensor<64xf32, #[[R]]>>, index
  // CHECK: lego.convert {{.*}} to tensor<64xf32, #[[R]]>>
  // CHECK: scf.yield %{{.*}}, %{{.*}} : tensor<64xf32, #[[R]]>>, index
  // LOWER-LABEL: gpu.func @while
  // LOWER: scf.while {{.*}} : (vector<2xf32>, index) -> (vector<2xf32>, index)
  gpu.func @while(%m: memref<64xf32>, %n: index) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = arith.constant 0 : index
    %one = arith.constant 1 : index
    %x = lego.tile_load %m[%i] : memref<64xf32>, tensor<64xf32, #rows>
    %open = lego.convert %x : tensor<64xf32, #rows> to tensor<64xf32>
    %y = lego.tile_load %m[%i] : memref<64xf32>, tensor<64xf32, #other>
    %w:2 = scf.while (%t = %open, %k = %i) : (tensor<64xf32>, index) -> (tensor<64xf32>, index) {
      %c = arith.cmpi slt, %k, %n : index
      scf.condition(%c) %t, %k : tensor<64xf32>, index
    } do {
    ^bb0(%t: tensor<64xf32>, %k: index):
      %p = lego.convert %y : tensor<64xf32, #other> to tensor<64xf32>
      %u = arith.addf %p, %t : tensor<64xf32>
      %l = arith.addi %k, %one : index
      scf.yield %u, %l : tensor<64xf32>, index
    }
    lego.tile_store %w#0, %m[%i] : memref<64xf32>, tensor<64xf32>
    gpu.return
  }
}
// -----
// A mask is where its tile is; indices are made again in each layout, and the
// region of a linalg.map runs for each register.
#rows = #lego.spread<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0], [0]], copies = 4>
gpu.module @m {
  // CHECK-LABEL: gpu.func @masked
  // CHECK: lego.tile_load {{.*}} mask %[[P:[^ ]*]] : tensor<64xi1, #[[R:lego.spread<register = ..1.., [^>]*]]>> else
  // CHECK: lego.tile_index 0 : tensor<64xindex, #[[R]]>>
  // CHECK: linalg.map
  // CHECK: lego.tile_store {{.*}} mask %[[P]] : tensor<64xi1, #[[R]]>> in
  // LOWER-LABEL: gpu.func @masked
  // LOWER: vector.maskedload {{.*}} vector<2xi1>, vector<2xf32> into vector<2xf32>
  // LOWER-COUNT-2: arith.sitofp
  // LOWER: vector.maskedstore
  gpu.func @masked(%m: memref<60xf32>, %r: index) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %other = arith.constant -1.0 : f32
    %end = arith.constant dense<60> : tensor<64xindex>
    %j = lego.tile_index 0 : tensor<64xindex>
    %first = tensor.splat %r : tensor<64xindex>
    %at = arith.addi %first, %j : tensor<64xindex>
    %p = arith.cmpi ult, %at, %end : tensor<64xindex>
    %x = lego.tile_load %m[%r] mask %p : tensor<64xi1> else %other : f32 in : memref<60xf32>, tensor<64xf32, #rows>
    %open = lego.convert %x : tensor<64xf32, #rows> to tensor<64xf32>
    %e = tensor.empty() : tensor<64xf32>
    %y = linalg.map ins(%open, %j : tensor<64xf32>, tensor<64xindex>) outs(%e : tensor<64xf32>) (%a: f32, %b: index, %o: f32) {
      %k = arith.index_cast %b : index to i32
      %f = arith.sitofp %k : i32 to f32
      %s = arith.addf %a, %f : f32
      linalg.yield %s : f32
    }
    lego.tile_store %y, %m[%r] mask %p : tensor<64xi1> in : memref<60xf32>, tensor<64xf32>
    gpu.return
  }
}
// -----
// A result that is wanted in rows is converted after the product.
#rows = #lego.spread<register = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[0, 0], [0, 0]], copies = 4>
gpu.module @m {
  // CHECK-LABEL: gpu.func @wanted
  // CHECK: %[[D:.*]] = lego.mma
  // CHECK: lego.convert %[[D]]
  // CHECK: lego.tile_store
  gpu.func @wanted(%a: memref<16x16xf16>, %b: memref<16x8xf16>, %c: memref<16x8xf32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = arith.constant 0 : index
    %x = lego.tile_load %a[%i, %i] : memref<16x16xf16>, tensor<16x16xf16>
    %y = lego.tile_load %b[%i, %i] : memref<16x8xf16>, tensor<16x8xf16>
    %z = lego.tile_load %c[%i, %i] : memref<16x8xf32>, tensor<16x8xf32, #rows>
    %open = lego.convert %z : tensor<16x8xf32, #rows> to tensor<16x8xf32>
    %d = lego.mma %x, %y, %open : tensor<16x16xf16>, tensor<16x8xf16>, tensor<16x8xf32>
    lego.tile_store %d, %c[%i, %i] : memref<16x8xf32>, tensor<16x8xf32>
    gpu.return
  }
}
// -----
// What is reduced, or moved along axes, may be known without any thread's work.
gpu.module @m {
  // CHECK-LABEL: gpu.func @known
  // CHECK: %[[X:.*]] = arith.constant dense<2.0{{.*}}> : tensor<32x64xf32, #lego.spread
  // CHECK: linalg.reduce {{.*}} ins(%[[X]]
  // CHECK: %[[J:.*]] = lego.tile_index 1 : tensor<32x64xindex, #lego.spread
  // CHECK: linalg.transpose ins(%[[J]]
  // LOWER-LABEL: gpu.func @known
  // LOWER-NOT: lego.
  gpu.func @known(%m: memref<32xf32>, %n: memref<64x32xindex>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = arith.constant 0 : index
    %x = arith.constant dense<2.0> : tensor<32x64xf32>
    %zero = lego.tile_load %m[%i] : memref<32xf32>, tensor<32xf32>
    %s = linalg.reduce { arith.addf } ins(%x : tensor<32x64xf32>) outs(%zero : tensor<32xf32>) dimensions = [1]
    lego.tile_store %s, %m[%i] : memref<32xf32>, tensor<32xf32>
    %j = lego.tile_index 1 : tensor<32x64xindex>
    %e = tensor.empty() : tensor<64x32xindex>
    %t = linalg.transpose ins(%j : tensor<32x64xindex>) outs(%e : tensor<64x32xindex>) permutation = [1, 0]
    lego.tile_store %t, %n[%i, %i] : memref<64x32xindex>, tensor<64x32xindex>
    gpu.return
  }
}
