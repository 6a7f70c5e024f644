#map = affine_map<(d0, d1, d2, d3) -> (d3 + d0 * 128 + d2 * 384 + d1 * 49152)>
#map1 = affine_map<(d0, d1) -> (d0 * 128 + d1)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d3 + d0 * 128 + d2 * 384 + d1 * 49152 + 32)>
#map3 = affine_map<(d0) -> (d0 + 32)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d3 + d0 * 128 + d2 * 384 + d1 * 49152 + 64)>
#map5 = affine_map<(d0) -> (d0 + 64)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d3 + d0 * 128 + d2 * 384 + d1 * 49152 + 96)>
#map7 = affine_map<(d0) -> (d0 + 96)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 128 + d2 * 256 + d0 * 32768)>
#map9 = affine_map<(d0, d1) -> ((d0 + 32) * 128 + d1)>
#map10 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 128 + d2 * 256 + d0 * 32768 + 32)>
#map11 = affine_map<(d0, d1) -> ((d0 + 64) * 128 + d1)>
#map12 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 128 + d2 * 256 + d0 * 32768 + 64)>
#map13 = affine_map<(d0, d1) -> ((d0 + 96) * 128 + d1)>
#map14 = affine_map<(d0, d1, d2, d3) -> (d3 + d1 * 128 + d2 * 256 + d0 * 32768 + 96)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<98304xf32>, %arg1: memref<98304xf32>) kernel attributes {known_block_size = array<i32: 32, 16, 1>, known_grid_size = array<i32: 3, 2, 1>, lego.apart} {
      %0 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %c0 = arith.constant 0 : index
      %view = memref.view %0[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<16384xf32, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %c128 = arith.constant 128 : index
      %c16 = arith.constant 16 : index
      scf.for %arg2 = %thread_id_y to %c128 step %c16 {
        %1 = affine.apply #map(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        %2 = memref.load %arg0[%1] : memref<98304xf32>
        %3 = index.xor %arg2, %thread_id_x
        %4 = affine.apply #map1(%arg2, %3)
        memref.store %2, %view[%4] : memref<16384xf32, #gpu.address_space<workgroup>>
        %5 = affine.apply #map2(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        %6 = memref.load %arg0[%5] : memref<98304xf32>
        %7 = affine.apply #map3(%thread_id_x)
        %8 = index.xor %arg2, %7
        %9 = affine.apply #map1(%arg2, %8)
        memref.store %6, %view[%9] : memref<16384xf32, #gpu.address_space<workgroup>>
        %10 = affine.apply #map4(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        %11 = memref.load %arg0[%10] : memref<98304xf32>
        %12 = affine.apply #map5(%thread_id_x)
        %13 = index.xor %arg2, %12
        %14 = affine.apply #map1(%arg2, %13)
        memref.store %11, %view[%14] : memref<16384xf32, #gpu.address_space<workgroup>>
        %15 = affine.apply #map6(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        %16 = memref.load %arg0[%15] : memref<98304xf32>
        %17 = affine.apply #map7(%thread_id_x)
        %18 = index.xor %arg2, %17
        %19 = affine.apply #map1(%arg2, %18)
        memref.store %16, %view[%19] : memref<16384xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      scf.for %arg2 = %thread_id_y to %c128 step %c16 {
        %1 = index.xor %arg2, %thread_id_x
        %2 = affine.apply #map1(%thread_id_x, %1)
        %3 = memref.load %view[%2] : memref<16384xf32, #gpu.address_space<workgroup>>
        %4 = affine.apply #map8(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        memref.store %3, %arg1[%4] : memref<98304xf32>
        %5 = affine.apply #map3(%thread_id_x)
        %6 = index.xor %arg2, %5
        %7 = affine.apply #map9(%thread_id_x, %6)
        %8 = memref.load %view[%7] : memref<16384xf32, #gpu.address_space<workgroup>>
        %9 = affine.apply #map10(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        memref.store %8, %arg1[%9] : memref<98304xf32>
        %10 = affine.apply #map5(%thread_id_x)
        %11 = index.xor %arg2, %10
        %12 = affine.apply #map11(%thread_id_x, %11)
        %13 = memref.load %view[%12] : memref<16384xf32, #gpu.address_space<workgroup>>
        %14 = affine.apply #map12(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        memref.store %13, %arg1[%14] : memref<98304xf32>
        %15 = affine.apply #map7(%thread_id_x)
        %16 = index.xor %arg2, %15
        %17 = affine.apply #map13(%thread_id_x, %16)
        %18 = memref.load %view[%17] : memref<16384xf32, #gpu.address_space<workgroup>>
        %19 = affine.apply #map14(%block_id_x, %block_id_y, %arg2, %thread_id_x)
        memref.store %18, %arg1[%19] : memref<98304xf32>
      }
      gpu.return
    }
  }
}
