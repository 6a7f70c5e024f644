#map = affine_map<(d0, d1, d2) -> (d1 * 8 + d2 * 64 + d0 * 4096)>
#map1 = affine_map<(d0) -> (d0 floordiv 8)>
#map2 = affine_map<(d0, d1) -> (d1 * 8 + d0 * 64)>
#map3 = affine_map<(d0, d1, d2) -> (d1 * 8 + d2 * 64 + d0 * 4096 + 2048)>
#map4 = affine_map<(d0) -> (d0 floordiv 8 + 4)>
#map5 = affine_map<(d0, d1) -> (d1 * 8 + (d0 + 32) * 64)>
#map6 = affine_map<(d0) -> (d0 * 8)>
#map7 = affine_map<(d0, d1) -> (d0 * 512 + d1)>
#map8 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 64)>
#map9 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 128)>
#map10 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 192)>
#map11 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 256)>
#map12 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 320)>
#map13 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 384)>
#map14 = affine_map<(d0, d1) -> (d0 * 512 + d1 + 448)>
#map15 = affine_map<(d0, d1, d2) -> (d1 * 8 + d0 * 64 + d2 * 128)>
#map16 = affine_map<(d0) -> (d0 + 32)>
#map17 = affine_map<(d0, d1, d2) -> (d1 * 8 + d0 * 64 + d2 * 128 + 4096)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<8192xf16>, %arg1: memref<8192xf16>) workgroup(%arg2 : memref<4096xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 8, 32, 1>, known_grid_size = array<i32: 1, 2, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_y = gpu.block_id y
      %0 = affine.apply #map(%block_id_y, %thread_id_x, %thread_id_y)
      %1 = vector.load %arg0[%0] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %2 = affine.apply #map1(%thread_id_y)
      %3 = index.xor %thread_id_x, %2
      %4 = affine.apply #map2(%thread_id_y, %3)
      vector.store %1, %arg2[%4] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %5 = affine.apply #map3(%block_id_y, %thread_id_x, %thread_id_y)
      %6 = vector.load %arg0[%5] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %7 = affine.apply #map4(%thread_id_y)
      %8 = index.xor %thread_id_x, %7
      %9 = affine.apply #map5(%thread_id_y, %8)
      vector.store %6, %arg2[%9] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      gpu.barrier
      %10 = affine.apply #map6(%thread_id_x)
      %11 = index.xor %10, %thread_id_y
      %12 = affine.apply #map7(%thread_id_x, %11)
      %13 = memref.load %arg2[%12] : memref<4096xf16, #gpu.address_space<workgroup>>
      %14 = affine.apply #map8(%thread_id_x, %11)
      %15 = memref.load %arg2[%14] : memref<4096xf16, #gpu.address_space<workgroup>>
      %16 = affine.apply #map9(%thread_id_x, %11)
      %17 = memref.load %arg2[%16] : memref<4096xf16, #gpu.address_space<workgroup>>
      %18 = affine.apply #map10(%thread_id_x, %11)
      %19 = memref.load %arg2[%18] : memref<4096xf16, #gpu.address_space<workgroup>>
      %20 = affine.apply #map11(%thread_id_x, %11)
      %21 = memref.load %arg2[%20] : memref<4096xf16, #gpu.address_space<workgroup>>
      %22 = affine.apply #map12(%thread_id_x, %11)
      %23 = memref.load %arg2[%22] : memref<4096xf16, #gpu.address_space<workgroup>>
      %24 = affine.apply #map13(%thread_id_x, %11)
      %25 = memref.load %arg2[%24] : memref<4096xf16, #gpu.address_space<workgroup>>
      %26 = affine.apply #map14(%thread_id_x, %11)
      %27 = memref.load %arg2[%26] : memref<4096xf16, #gpu.address_space<workgroup>>
      %28 = vector.from_elements %13, %15, %17, %19, %21, %23, %25, %27 : vector<8xf16>
      %29 = affine.apply #map15(%block_id_y, %thread_id_x, %thread_id_y)
      vector.store %28, %arg1[%29] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %30 = affine.apply #map16(%thread_id_y)
      %31 = index.xor %10, %30
      %32 = affine.apply #map7(%thread_id_x, %31)
      %33 = memref.load %arg2[%32] : memref<4096xf16, #gpu.address_space<workgroup>>
      %34 = affine.apply #map8(%thread_id_x, %31)
      %35 = memref.load %arg2[%34] : memref<4096xf16, #gpu.address_space<workgroup>>
      %36 = affine.apply #map9(%thread_id_x, %31)
      %37 = memref.load %arg2[%36] : memref<4096xf16, #gpu.address_space<workgroup>>
      %38 = affine.apply #map10(%thread_id_x, %31)
      %39 = memref.load %arg2[%38] : memref<4096xf16, #gpu.address_space<workgroup>>
      %40 = affine.apply #map11(%thread_id_x, %31)
      %41 = memref.load %arg2[%40] : memref<4096xf16, #gpu.address_space<workgroup>>
      %42 = affine.apply #map12(%thread_id_x, %31)
      %43 = memref.load %arg2[%42] : memref<4096xf16, #gpu.address_space<workgroup>>
      %44 = affine.apply #map13(%thread_id_x, %31)
      %45 = memref.load %arg2[%44] : memref<4096xf16, #gpu.address_space<workgroup>>
      %46 = affine.apply #map14(%thread_id_x, %31)
      %47 = memref.load %arg2[%46] : memref<4096xf16, #gpu.address_space<workgroup>>
      %48 = vector.from_elements %33, %35, %37, %39, %41, %43, %45, %47 : vector<8xf16>
      %49 = affine.apply #map17(%block_id_y, %thread_id_x, %thread_id_y)
      vector.store %48, %arg1[%49] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.return
    }
  }
}
