#map = affine_map<(d0, d1) -> (d1 + d0 * 32)>
#map1 = affine_map<(d0, d1, d2) -> (d1 + d0 * 32 + d2)>
#map2 = affine_map<(d0, d1) -> (d0 + d1 * 32)>
#map3 = affine_map<(d0, d1) -> (d1 + d0 * 32 + 8)>
#map4 = affine_map<(d0, d1) -> (d0 + d1 * 32 + 256)>
#map5 = affine_map<(d0, d1) -> (d1 + d0 * 32 + 16)>
#map6 = affine_map<(d0, d1) -> (d0 + d1 * 32 + 512)>
#map7 = affine_map<(d0, d1) -> (d1 + d0 * 32 + 24)>
#map8 = affine_map<(d0, d1) -> (d0 + d1 * 32 + 768)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: index, %arg3: index) workgroup(%arg4 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 8, 1>} {
      %thread_id_x = gpu.thread_id x
      %thread_id_y = gpu.thread_id y
      %block_id_x = gpu.block_id x
      %block_id_y = gpu.block_id y
      %cst = arith.constant 0.000000e+00 : f32
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = index.cmp slt(%0, %arg3)
      %2 = affine.apply #map(%block_id_y, %thread_id_y)
      %3 = index.cmp slt(%2, %arg2)
      %4 = arith.andi %1, %3 : i1
      %5 = scf.if %4 -> (f32) {
        %44 = index.mul %2, %arg3
        %45 = affine.apply #map1(%block_id_x, %thread_id_x, %44)
        %46 = memref.load %arg0[%45] : memref<?xf32>
        scf.yield %46 : f32
      } else {
        scf.yield %cst : f32
      }
      %6 = affine.apply #map2(%thread_id_x, %thread_id_y)
      memref.store %5, %arg4[%6] : memref<1024xf32, #gpu.address_space<workgroup>>
      %7 = affine.apply #map3(%block_id_y, %thread_id_y)
      %8 = index.cmp slt(%7, %arg2)
      %9 = arith.andi %1, %8 : i1
      %10 = scf.if %9 -> (f32) {
        %44 = index.mul %7, %arg3
        %45 = affine.apply #map1(%block_id_x, %thread_id_x, %44)
        %46 = memref.load %arg0[%45] : memref<?xf32>
        scf.yield %46 : f32
      } else {
        scf.yield %cst : f32
      }
      %11 = affine.apply #map4(%thread_id_x, %thread_id_y)
      memref.store %10, %arg4[%11] : memref<1024xf32, #gpu.address_space<workgroup>>
      %12 = affine.apply #map5(%block_id_y, %thread_id_y)
      %13 = index.cmp slt(%12, %arg2)
      %14 = arith.andi %1, %13 : i1
      %15 = scf.if %14 -> (f32) {
        %44 = index.mul %12, %arg3
        %45 = affine.apply #map1(%block_id_x, %thread_id_x, %44)
        %46 = memref.load %arg0[%45] : memref<?xf32>
        scf.yield %46 : f32
      } else {
        scf.yield %cst : f32
      }
      %16 = affine.apply #map6(%thread_id_x, %thread_id_y)
      memref.store %15, %arg4[%16] : memref<1024xf32, #gpu.address_space<workgroup>>
      %17 = affine.apply #map7(%block_id_y, %thread_id_y)
      %18 = index.cmp slt(%17, %arg2)
      %19 = arith.andi %1, %18 : i1
      %20 = scf.if %19 -> (f32) {
        %44 = index.mul %17, %arg3
        %45 = affine.apply #map1(%block_id_x, %thread_id_x, %44)
        %46 = memref.load %arg0[%45] : memref<?xf32>
        scf.yield %46 : f32
      } else {
        scf.yield %cst : f32
      }
      %21 = affine.apply #map8(%thread_id_x, %thread_id_y)
      memref.store %20, %arg4[%21] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %22 = affine.apply #map(%thread_id_x, %thread_id_y)
      %23 = memref.load %arg4[%22] : memref<1024xf32, #gpu.address_space<workgroup>>
      %24 = affine.apply #map(%block_id_x, %thread_id_y)
      %25 = index.cmp slt(%24, %arg3)
      %26 = affine.apply #map(%block_id_y, %thread_id_x)
      %27 = index.cmp slt(%26, %arg2)
      %28 = arith.andi %25, %27 : i1
      scf.if %28 {
        %44 = index.mul %24, %arg2
        %45 = affine.apply #map1(%block_id_y, %thread_id_x, %44)
        memref.store %23, %arg1[%45] : memref<?xf32>
      }
      %29 = affine.apply #map3(%thread_id_x, %thread_id_y)
      %30 = memref.load %arg4[%29] : memref<1024xf32, #gpu.address_space<workgroup>>
      %31 = affine.apply #map3(%block_id_x, %thread_id_y)
      %32 = index.cmp slt(%31, %arg3)
      %33 = arith.andi %32, %27 : i1
      scf.if %33 {
        %44 = index.mul %31, %arg2
        %45 = affine.apply #map1(%block_id_y, %thread_id_x, %44)
        memref.store %30, %arg1[%45] : memref<?xf32>
      }
      %34 = affine.apply #map5(%thread_id_x, %thread_id_y)
      %35 = memref.load %arg4[%34] : memref<1024xf32, #gpu.address_space<workgroup>>
      %36 = affine.apply #map5(%block_id_x, %thread_id_y)
      %37 = index.cmp slt(%36, %arg3)
      %38 = arith.andi %37, %27 : i1
      scf.if %38 {
        %44 = index.mul %36, %arg2
        %45 = affine.apply #map1(%block_id_y, %thread_id_x, %44)
        memref.store %35, %arg1[%45] : memref<?xf32>
      }
      %39 = affine.apply #map7(%thread_id_x, %thread_id_y)
      %40 = memref.load %arg4[%39] : memref<1024xf32, #gpu.address_space<workgroup>>
      %41 = affine.apply #map7(%block_id_x, %thread_id_y)
      %42 = index.cmp slt(%41, %arg3)
      %43 = arith.andi %42, %27 : i1
      scf.if %43 {
        %44 = index.mul %41, %arg2
        %45 = affine.apply #map1(%block_id_y, %thread_id_x, %44)
        memref.store %40, %arg1[%45] : memref<?xf32>
      }
      gpu.return
    }
  }
}
