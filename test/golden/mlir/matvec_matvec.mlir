#map = affine_map<(d0, d1) -> (d1 + d0 * 8)>
#map1 = affine_map<(d0, d1) -> (d0 + d1)>
module attributes {gpu.container_module} {
  gpu.module @matvec_module {
    gpu.func @matvec(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: memref<?xf32>, %arg3: index, %arg4: index) kernel attributes {known_block_size = array<i32: 32, 8, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %cst = arith.constant 0.000000e+00 : f32
      %0 = affine.apply #map(%block_id_x, %thread_id_y)
      %1 = index.cmp slt(%0, %arg3)
      %2 = scf.if %1 -> (f32) {
        %c32 = arith.constant 32 : index
        %3 = scf.for %arg5 = %thread_id_x to %arg4 step %c32 iter_args(%arg6 = %cst) -> (f32) {
          %10 = index.mul %0, %arg4
          %11 = affine.apply #map1(%arg5, %10)
          %12 = memref.load %arg0[%11] : memref<?xf32>
          %13 = memref.load %arg1[%arg5] : memref<?xf32>
          %14 = math.fma %12, %13, %arg6 : f32
          scf.yield %14 : f32
        }
        %c1_i32 = arith.constant 1 : i32
        %c32_i32 = arith.constant 32 : i32
        %shuffleResult, %valid = gpu.shuffle xor %3, %c1_i32, %c32_i32 : f32
        %4 = arith.addf %3, %shuffleResult : f32
        %c2_i32 = arith.constant 2 : i32
        %shuffleResult_0, %valid_1 = gpu.shuffle xor %4, %c2_i32, %c32_i32 : f32
        %5 = arith.addf %4, %shuffleResult_0 : f32
        %c4_i32 = arith.constant 4 : i32
        %shuffleResult_2, %valid_3 = gpu.shuffle xor %5, %c4_i32, %c32_i32 : f32
        %6 = arith.addf %5, %shuffleResult_2 : f32
        %c8_i32 = arith.constant 8 : i32
        %shuffleResult_4, %valid_5 = gpu.shuffle xor %6, %c8_i32, %c32_i32 : f32
        %7 = arith.addf %6, %shuffleResult_4 : f32
        %c16_i32 = arith.constant 16 : i32
        %shuffleResult_6, %valid_7 = gpu.shuffle xor %7, %c16_i32, %c32_i32 : f32
        %8 = arith.addf %7, %shuffleResult_6 : f32
        %c0 = arith.constant 0 : index
        %9 = index.cmp eq(%thread_id_x, %c0)
        scf.if %9 {
          memref.store %8, %arg2[%0] : memref<?xf32>
        }
        scf.yield %3 : f32
      } else {
        scf.yield %cst : f32
      }
      gpu.return
    }
  }
}
