#map = affine_map<(d0) -> ((d0 + 31) floordiv 32)>
#map1 = affine_map<(d0, d1) -> (d1 * 32 + d0 mod 32)>
#map2 = affine_map<(d0, d1) -> (d1 * 32 + d0 floordiv 32)>
#map3 = affine_map<(d0, d1, d2) -> (d2 * 32 + d1 + d0 mod 32)>
#map4 = affine_map<(d0, d1) -> (d1 * 32 + d0 floordiv 32 + 8)>
#map5 = affine_map<(d0) -> (d0 + 256)>
#map6 = affine_map<(d0, d1) -> (d1 * 32 + d0 floordiv 32 + 16)>
#map7 = affine_map<(d0) -> (d0 + 512)>
#map8 = affine_map<(d0, d1) -> (d1 * 32 + d0 floordiv 32 + 24)>
#map9 = affine_map<(d0) -> (d0 + 768)>
#map10 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32)>
#map11 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32 + 8)>
#map12 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32 + 16)>
#map13 = affine_map<(d0) -> ((d0 mod 32) * 32 + d0 floordiv 32 + 24)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: index, %arg3: index) workgroup(%arg4 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %cst = arith.constant 0.000000e+00 : f32
      %0 = affine.apply #map(%arg2)
      %1 = index.divu %block_id_x, %0
      %2 = affine.apply #map1(%thread_id_x, %1)
      %3 = index.cmp slt(%2, %arg3)
      %4 = index.remu %block_id_x, %0
      %5 = affine.apply #map2(%thread_id_x, %4)
      %6 = index.cmp slt(%5, %arg2)
      %7 = arith.andi %3, %6 : i1
      %8 = scf.if %7 -> (f32) {
        %46 = index.mul %5, %arg3
        %47 = affine.apply #map3(%thread_id_x, %46, %1)
        %48 = memref.load %arg0[%47] : memref<?xf32>
        scf.yield %48 : f32
      } else {
        scf.yield %cst : f32
      }
      memref.store %8, %arg4[%thread_id_x] : memref<1024xf32, #gpu.address_space<workgroup>>
      %9 = affine.apply #map4(%thread_id_x, %4)
      %10 = index.cmp slt(%9, %arg2)
      %11 = arith.andi %3, %10 : i1
      %12 = scf.if %11 -> (f32) {
        %46 = index.mul %9, %arg3
        %47 = affine.apply #map3(%thread_id_x, %46, %1)
        %48 = memref.load %arg0[%47] : memref<?xf32>
        scf.yield %48 : f32
      } else {
        scf.yield %cst : f32
      }
      %13 = affine.apply #map5(%thread_id_x)
      memref.store %12, %arg4[%13] : memref<1024xf32, #gpu.address_space<workgroup>>
      %14 = affine.apply #map6(%thread_id_x, %4)
      %15 = index.cmp slt(%14, %arg2)
      %16 = arith.andi %3, %15 : i1
      %17 = scf.if %16 -> (f32) {
        %46 = index.mul %14, %arg3
        %47 = affine.apply #map3(%thread_id_x, %46, %1)
        %48 = memref.load %arg0[%47] : memref<?xf32>
        scf.yield %48 : f32
      } else {
        scf.yield %cst : f32
      }
      %18 = affine.apply #map7(%thread_id_x)
      memref.store %17, %arg4[%18] : memref<1024xf32, #gpu.address_space<workgroup>>
      %19 = affine.apply #map8(%thread_id_x, %4)
      %20 = index.cmp slt(%19, %arg2)
      %21 = arith.andi %3, %20 : i1
      %22 = scf.if %21 -> (f32) {
        %46 = index.mul %19, %arg3
        %47 = affine.apply #map3(%thread_id_x, %46, %1)
        %48 = memref.load %arg0[%47] : memref<?xf32>
        scf.yield %48 : f32
      } else {
        scf.yield %cst : f32
      }
      %23 = affine.apply #map9(%thread_id_x)
      memref.store %22, %arg4[%23] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %24 = affine.apply #map10(%thread_id_x)
      %25 = memref.load %arg4[%24] : memref<1024xf32, #gpu.address_space<workgroup>>
      %26 = affine.apply #map1(%thread_id_x, %4)
      %27 = index.cmp slt(%26, %arg2)
      %28 = affine.apply #map2(%thread_id_x, %1)
      %29 = index.cmp slt(%28, %arg3)
      %30 = arith.andi %27, %29 : i1
      scf.if %30 {
        %46 = index.mul %28, %arg2
        %47 = affine.apply #map3(%thread_id_x, %46, %4)
        memref.store %25, %arg1[%47] : memref<?xf32>
      }
      %31 = affine.apply #map11(%thread_id_x)
      %32 = memref.load %arg4[%31] : memref<1024xf32, #gpu.address_space<workgroup>>
      %33 = affine.apply #map4(%thread_id_x, %1)
      %34 = index.cmp slt(%33, %arg3)
      %35 = arith.andi %27, %34 : i1
      scf.if %35 {
        %46 = index.mul %33, %arg2
        %47 = affine.apply #map3(%thread_id_x, %46, %4)
        memref.store %32, %arg1[%47] : memref<?xf32>
      }
      %36 = affine.apply #map12(%thread_id_x)
      %37 = memref.load %arg4[%36] : memref<1024xf32, #gpu.address_space<workgroup>>
      %38 = affine.apply #map6(%thread_id_x, %1)
      %39 = index.cmp slt(%38, %arg3)
      %40 = arith.andi %27, %39 : i1
      scf.if %40 {
        %46 = index.mul %38, %arg2
        %47 = affine.apply #map3(%thread_id_x, %46, %4)
        memref.store %37, %arg1[%47] : memref<?xf32>
      }
      %41 = affine.apply #map13(%thread_id_x)
      %42 = memref.load %arg4[%41] : memref<1024xf32, #gpu.address_space<workgroup>>
      %43 = affine.apply #map8(%thread_id_x, %1)
      %44 = index.cmp slt(%43, %arg3)
      %45 = arith.andi %27, %44 : i1
      scf.if %45 {
        %46 = index.mul %43, %arg2
        %47 = affine.apply #map3(%thread_id_x, %46, %4)
        memref.store %42, %arg1[%47] : memref<?xf32>
      }
      gpu.return
    }
  }
}
