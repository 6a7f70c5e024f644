#map = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096)>
#map1 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 64)>
#map2 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 128)>
#map3 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 192)>
#map4 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 256)>
#map5 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 320)>
#map6 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 384)>
#map7 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + (d1 floordiv 8) * 512 + d0 * 4096 + 448)>
#map8 = affine_map<(d0) -> (d0 mod 8)>
#map9 = affine_map<(d0) -> (d0 floordiv 8)>
#map10 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512)>
#map11 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 64)>
#map12 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 128)>
#map13 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 192)>
#map14 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 256)>
#map15 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 320)>
#map16 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 384)>
#map17 = affine_map<(d0, d1) -> (d1 * 8 + (d0 mod 8) * 512 + 448)>
#map18 = affine_map<(d0) -> (d0 * 8)>
#map19 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128)>
#map20 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 8) * 64)>
#map21 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 1024)>
#map22 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 16) * 64)>
#map23 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 2048)>
#map24 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 24) * 64)>
#map25 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 3072)>
#map26 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 32) * 64)>
#map27 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 4096)>
#map28 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 40) * 64)>
#map29 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 5120)>
#map30 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 48) * 64)>
#map31 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 6144)>
#map32 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 56) * 64)>
#map33 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 7168)>
module attributes {gpu.container_module} {
  gpu.module @transpose_module {
    gpu.func @transpose(%arg0: memref<8192xf16>, %arg1: memref<8192xf16>) workgroup(%arg2 : memref<4096xf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, lego.apart} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = vector.load %arg0[%0] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %2 = affine.apply #map1(%block_id_x, %thread_id_x)
      %3 = vector.load %arg0[%2] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %4 = affine.apply #map2(%block_id_x, %thread_id_x)
      %5 = vector.load %arg0[%4] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %6 = affine.apply #map3(%block_id_x, %thread_id_x)
      %7 = vector.load %arg0[%6] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %8 = affine.apply #map4(%block_id_x, %thread_id_x)
      %9 = vector.load %arg0[%8] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %10 = affine.apply #map5(%block_id_x, %thread_id_x)
      %11 = vector.load %arg0[%10] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %12 = affine.apply #map6(%block_id_x, %thread_id_x)
      %13 = vector.load %arg0[%12] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %14 = affine.apply #map7(%block_id_x, %thread_id_x)
      %15 = vector.load %arg0[%14] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      %16 = vector.extract %1[0] : f16 from vector<8xf16>
      %17 = vector.extract %3[0] : f16 from vector<8xf16>
      %18 = vector.extract %5[0] : f16 from vector<8xf16>
      %19 = vector.extract %7[0] : f16 from vector<8xf16>
      %20 = vector.extract %9[0] : f16 from vector<8xf16>
      %21 = vector.extract %11[0] : f16 from vector<8xf16>
      %22 = vector.extract %13[0] : f16 from vector<8xf16>
      %23 = vector.extract %15[0] : f16 from vector<8xf16>
      %24 = vector.from_elements %16, %17, %18, %19, %20, %21, %22, %23 : vector<8xf16>
      %25 = affine.apply #map8(%thread_id_x)
      %26 = affine.apply #map9(%thread_id_x)
      %27 = index.xor %25, %26
      %28 = affine.apply #map10(%thread_id_x, %27)
      vector.store %24, %arg2[%28] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %29 = vector.extract %1[1] : f16 from vector<8xf16>
      %30 = vector.extract %3[1] : f16 from vector<8xf16>
      %31 = vector.extract %5[1] : f16 from vector<8xf16>
      %32 = vector.extract %7[1] : f16 from vector<8xf16>
      %33 = vector.extract %9[1] : f16 from vector<8xf16>
      %34 = vector.extract %11[1] : f16 from vector<8xf16>
      %35 = vector.extract %13[1] : f16 from vector<8xf16>
      %36 = vector.extract %15[1] : f16 from vector<8xf16>
      %37 = vector.from_elements %29, %30, %31, %32, %33, %34, %35, %36 : vector<8xf16>
      %38 = affine.apply #map11(%thread_id_x, %27)
      vector.store %37, %arg2[%38] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %39 = vector.extract %1[2] : f16 from vector<8xf16>
      %40 = vector.extract %3[2] : f16 from vector<8xf16>
      %41 = vector.extract %5[2] : f16 from vector<8xf16>
      %42 = vector.extract %7[2] : f16 from vector<8xf16>
      %43 = vector.extract %9[2] : f16 from vector<8xf16>
      %44 = vector.extract %11[2] : f16 from vector<8xf16>
      %45 = vector.extract %13[2] : f16 from vector<8xf16>
      %46 = vector.extract %15[2] : f16 from vector<8xf16>
      %47 = vector.from_elements %39, %40, %41, %42, %43, %44, %45, %46 : vector<8xf16>
      %48 = affine.apply #map12(%thread_id_x, %27)
      vector.store %47, %arg2[%48] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %49 = vector.extract %1[3] : f16 from vector<8xf16>
      %50 = vector.extract %3[3] : f16 from vector<8xf16>
      %51 = vector.extract %5[3] : f16 from vector<8xf16>
      %52 = vector.extract %7[3] : f16 from vector<8xf16>
      %53 = vector.extract %9[3] : f16 from vector<8xf16>
      %54 = vector.extract %11[3] : f16 from vector<8xf16>
      %55 = vector.extract %13[3] : f16 from vector<8xf16>
      %56 = vector.extract %15[3] : f16 from vector<8xf16>
      %57 = vector.from_elements %49, %50, %51, %52, %53, %54, %55, %56 : vector<8xf16>
      %58 = affine.apply #map13(%thread_id_x, %27)
      vector.store %57, %arg2[%58] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %59 = vector.extract %1[4] : f16 from vector<8xf16>
      %60 = vector.extract %3[4] : f16 from vector<8xf16>
      %61 = vector.extract %5[4] : f16 from vector<8xf16>
      %62 = vector.extract %7[4] : f16 from vector<8xf16>
      %63 = vector.extract %9[4] : f16 from vector<8xf16>
      %64 = vector.extract %11[4] : f16 from vector<8xf16>
      %65 = vector.extract %13[4] : f16 from vector<8xf16>
      %66 = vector.extract %15[4] : f16 from vector<8xf16>
      %67 = vector.from_elements %59, %60, %61, %62, %63, %64, %65, %66 : vector<8xf16>
      %68 = affine.apply #map14(%thread_id_x, %27)
      vector.store %67, %arg2[%68] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %69 = vector.extract %1[5] : f16 from vector<8xf16>
      %70 = vector.extract %3[5] : f16 from vector<8xf16>
      %71 = vector.extract %5[5] : f16 from vector<8xf16>
      %72 = vector.extract %7[5] : f16 from vector<8xf16>
      %73 = vector.extract %9[5] : f16 from vector<8xf16>
      %74 = vector.extract %11[5] : f16 from vector<8xf16>
      %75 = vector.extract %13[5] : f16 from vector<8xf16>
      %76 = vector.extract %15[5] : f16 from vector<8xf16>
      %77 = vector.from_elements %69, %70, %71, %72, %73, %74, %75, %76 : vector<8xf16>
      %78 = affine.apply #map15(%thread_id_x, %27)
      vector.store %77, %arg2[%78] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %79 = vector.extract %1[6] : f16 from vector<8xf16>
      %80 = vector.extract %3[6] : f16 from vector<8xf16>
      %81 = vector.extract %5[6] : f16 from vector<8xf16>
      %82 = vector.extract %7[6] : f16 from vector<8xf16>
      %83 = vector.extract %9[6] : f16 from vector<8xf16>
      %84 = vector.extract %11[6] : f16 from vector<8xf16>
      %85 = vector.extract %13[6] : f16 from vector<8xf16>
      %86 = vector.extract %15[6] : f16 from vector<8xf16>
      %87 = vector.from_elements %79, %80, %81, %82, %83, %84, %85, %86 : vector<8xf16>
      %88 = affine.apply #map16(%thread_id_x, %27)
      vector.store %87, %arg2[%88] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %89 = vector.extract %1[7] : f16 from vector<8xf16>
      %90 = vector.extract %3[7] : f16 from vector<8xf16>
      %91 = vector.extract %5[7] : f16 from vector<8xf16>
      %92 = vector.extract %7[7] : f16 from vector<8xf16>
      %93 = vector.extract %9[7] : f16 from vector<8xf16>
      %94 = vector.extract %11[7] : f16 from vector<8xf16>
      %95 = vector.extract %13[7] : f16 from vector<8xf16>
      %96 = vector.extract %15[7] : f16 from vector<8xf16>
      %97 = vector.from_elements %89, %90, %91, %92, %93, %94, %95, %96 : vector<8xf16>
      %98 = affine.apply #map17(%thread_id_x, %27)
      vector.store %97, %arg2[%98] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      gpu.barrier
      %99 = affine.apply #map18(%thread_id_x)
      %100 = vector.load %arg2[%99] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %101 = affine.apply #map19(%block_id_x, %thread_id_x)
      vector.store %100, %arg1[%101] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c1 = arith.constant 1 : index
      %102 = index.xor %c1, %25
      %103 = affine.apply #map20(%thread_id_x, %102)
      %104 = vector.load %arg2[%103] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %105 = affine.apply #map21(%block_id_x, %thread_id_x)
      vector.store %104, %arg1[%105] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c2 = arith.constant 2 : index
      %106 = index.xor %c2, %25
      %107 = affine.apply #map22(%thread_id_x, %106)
      %108 = vector.load %arg2[%107] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %109 = affine.apply #map23(%block_id_x, %thread_id_x)
      vector.store %108, %arg1[%109] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c3 = arith.constant 3 : index
      %110 = index.xor %c3, %25
      %111 = affine.apply #map24(%thread_id_x, %110)
      %112 = vector.load %arg2[%111] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %113 = affine.apply #map25(%block_id_x, %thread_id_x)
      vector.store %112, %arg1[%113] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c4 = arith.constant 4 : index
      %114 = index.xor %c4, %25
      %115 = affine.apply #map26(%thread_id_x, %114)
      %116 = vector.load %arg2[%115] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %117 = affine.apply #map27(%block_id_x, %thread_id_x)
      vector.store %116, %arg1[%117] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c5 = arith.constant 5 : index
      %118 = index.xor %c5, %25
      %119 = affine.apply #map28(%thread_id_x, %118)
      %120 = vector.load %arg2[%119] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %121 = affine.apply #map29(%block_id_x, %thread_id_x)
      vector.store %120, %arg1[%121] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c6 = arith.constant 6 : index
      %122 = index.xor %c6, %25
      %123 = affine.apply #map30(%thread_id_x, %122)
      %124 = vector.load %arg2[%123] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %125 = affine.apply #map31(%block_id_x, %thread_id_x)
      vector.store %124, %arg1[%125] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.barrier
      %c7 = arith.constant 7 : index
      %126 = index.xor %c7, %25
      %127 = affine.apply #map32(%thread_id_x, %126)
      %128 = vector.load %arg2[%127] {alignment = 16 : i64} : memref<4096xf16, #gpu.address_space<workgroup>>, vector<8xf16>
      %129 = affine.apply #map33(%block_id_x, %thread_id_x)
      vector.store %128, %arg1[%129] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
      gpu.return
    }
  }
}
