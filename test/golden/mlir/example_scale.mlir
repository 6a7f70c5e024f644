#map = affine_map<(d0, d1) -> (d1 * 4 + d0 * 128)>
#map1 = affine_map<(d0, d1) -> (d1 + d0 * 8)>
#map2 = affine_map<(d0, d1, d2) -> (d1 * 4 + d0 * 128 + d2)>
module attributes {gpu.container_module} {
  gpu.module @scale_module {
    gpu.func @scale(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: f32, %arg3: index, %arg4: index) kernel attributes {known_block_size = array<i32: 32, 8, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %cst = arith.constant 0.000000e+00 : f32
      %0 = vector.broadcast %cst : f32 to vector<4xf32>
      %1 = affine.apply #map(%block_id_x, %thread_id_x)
      %2 = index.cmp slt(%1, %arg4)
      %3 = affine.apply #map1(%block_id_y, %thread_id_y)
      %4 = index.cmp slt(%3, %arg3)
      %5 = arith.andi %2, %4 : i1
      %6 = scf.if %5 -> (vector<4xf32>) {
        %9 = index.mul %3, %arg4
        %10 = affine.apply #map2(%block_id_x, %thread_id_x, %9)
        %11 = vector.load %arg0[%10] {alignment = 16 : i64} : memref<?xf32>, vector<4xf32>
        scf.yield %11 : vector<4xf32>
      } else {
        scf.yield %0 : vector<4xf32>
      }
      %7 = vector.broadcast %arg2 : f32 to vector<4xf32>
      %8 = arith.mulf %7, %6 : vector<4xf32>
      scf.if %5 {
        %9 = index.mul %3, %arg4
        %10 = affine.apply #map2(%block_id_x, %thread_id_x, %9)
        vector.store %8, %arg1[%10] {alignment = 16 : i64} : memref<?xf32>, vector<4xf32>
      }
      gpu.return
    }
  }
}
