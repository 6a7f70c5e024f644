#map = affine_map<(d0) -> (d0 * 4096 + 4096)>
#map1 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096)>
#map2 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 128)>
#map3 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 256)>
#map4 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 384)>
#map5 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 1)>
#map6 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 2)>
#map7 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 3)>
#map8 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 129)>
#map9 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 130)>
#map10 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 131)>
#map11 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 257)>
#map12 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 258)>
#map13 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 259)>
#map14 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 385)>
#map15 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 386)>
#map16 = affine_map<(d0, d1) -> ((d1 mod 32) * 4 + (d1 floordiv 32) * 512 + d0 * 4096 + 387)>
#map17 = affine_map<(d0) -> (d0 mod 32)>
#map18 = affine_map<(d0) -> (d0 floordiv 32)>
#map19 = affine_map<(d0) -> (d0 mod 8)>
module attributes {gpu.container_module} {
  gpu.module @scan_blocks_module {
    gpu.func @scan_blocks(%arg0: memref<?xi32>, %arg1: memref<?xi32>, %arg2: memref<?xi64>, %arg3: index) workgroup(%arg4 : memref<1xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg5 : memref<8xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %c0_i32 = arith.constant 0 : i32
      %0 = vector.broadcast %c0_i32 : i32 to vector<4xi32>
      %1 = vector.broadcast %c0_i32 : i32 to vector<4xi32>
      %2 = vector.broadcast %c0_i32 : i32 to vector<4xi32>
      %3 = vector.broadcast %c0_i32 : i32 to vector<4xi32>
      %4 = affine.apply #map(%block_id_x)
      %5 = index.cmp sle(%4, %arg3)
      %6:4 = scf.if %5 -> (vector<4xi32>, vector<4xi32>, vector<4xi32>, vector<4xi32>) {
        %168 = affine.apply #map1(%block_id_x, %thread_id_x)
        %169 = vector.load %arg0[%168] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        %170 = affine.apply #map2(%block_id_x, %thread_id_x)
        %171 = vector.load %arg0[%170] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        %172 = affine.apply #map3(%block_id_x, %thread_id_x)
        %173 = vector.load %arg0[%172] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        %174 = affine.apply #map4(%block_id_x, %thread_id_x)
        %175 = vector.load %arg0[%174] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        scf.yield %169, %171, %173, %175 : vector<4xi32>, vector<4xi32>, vector<4xi32>, vector<4xi32>
      } else {
        %168 = affine.apply #map1(%block_id_x, %thread_id_x)
        %169 = index.cmp slt(%168, %arg3)
        %170 = scf.if %169 -> (i32) {
          %220 = memref.load %arg0[%168] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %171 = affine.apply #map5(%block_id_x, %thread_id_x)
        %172 = index.cmp slt(%171, %arg3)
        %173 = scf.if %172 -> (i32) {
          %220 = memref.load %arg0[%171] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %174 = affine.apply #map6(%block_id_x, %thread_id_x)
        %175 = index.cmp slt(%174, %arg3)
        %176 = scf.if %175 -> (i32) {
          %220 = memref.load %arg0[%174] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %177 = affine.apply #map7(%block_id_x, %thread_id_x)
        %178 = index.cmp slt(%177, %arg3)
        %179 = scf.if %178 -> (i32) {
          %220 = memref.load %arg0[%177] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %180 = vector.from_elements %170, %173, %176, %179 : vector<4xi32>
        %181 = affine.apply #map2(%block_id_x, %thread_id_x)
        %182 = index.cmp slt(%181, %arg3)
        %183 = scf.if %182 -> (i32) {
          %220 = memref.load %arg0[%181] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %184 = affine.apply #map8(%block_id_x, %thread_id_x)
        %185 = index.cmp slt(%184, %arg3)
        %186 = scf.if %185 -> (i32) {
          %220 = memref.load %arg0[%184] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %187 = affine.apply #map9(%block_id_x, %thread_id_x)
        %188 = index.cmp slt(%187, %arg3)
        %189 = scf.if %188 -> (i32) {
          %220 = memref.load %arg0[%187] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %190 = affine.apply #map10(%block_id_x, %thread_id_x)
        %191 = index.cmp slt(%190, %arg3)
        %192 = scf.if %191 -> (i32) {
          %220 = memref.load %arg0[%190] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %193 = vector.from_elements %183, %186, %189, %192 : vector<4xi32>
        %194 = affine.apply #map3(%block_id_x, %thread_id_x)
        %195 = index.cmp slt(%194, %arg3)
        %196 = scf.if %195 -> (i32) {
          %220 = memref.load %arg0[%194] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %197 = affine.apply #map11(%block_id_x, %thread_id_x)
        %198 = index.cmp slt(%197, %arg3)
        %199 = scf.if %198 -> (i32) {
          %220 = memref.load %arg0[%197] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %200 = affine.apply #map12(%block_id_x, %thread_id_x)
        %201 = index.cmp slt(%200, %arg3)
        %202 = scf.if %201 -> (i32) {
          %220 = memref.load %arg0[%200] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %203 = affine.apply #map13(%block_id_x, %thread_id_x)
        %204 = index.cmp slt(%203, %arg3)
        %205 = scf.if %204 -> (i32) {
          %220 = memref.load %arg0[%203] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %206 = vector.from_elements %196, %199, %202, %205 : vector<4xi32>
        %207 = affine.apply #map4(%block_id_x, %thread_id_x)
        %208 = index.cmp slt(%207, %arg3)
        %209 = scf.if %208 -> (i32) {
          %220 = memref.load %arg0[%207] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %210 = affine.apply #map14(%block_id_x, %thread_id_x)
        %211 = index.cmp slt(%210, %arg3)
        %212 = scf.if %211 -> (i32) {
          %220 = memref.load %arg0[%210] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %213 = affine.apply #map15(%block_id_x, %thread_id_x)
        %214 = index.cmp slt(%213, %arg3)
        %215 = scf.if %214 -> (i32) {
          %220 = memref.load %arg0[%213] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %216 = affine.apply #map16(%block_id_x, %thread_id_x)
        %217 = index.cmp slt(%216, %arg3)
        %218 = scf.if %217 -> (i32) {
          %220 = memref.load %arg0[%216] : memref<?xi32>
          scf.yield %220 : i32
        } else {
          scf.yield %c0_i32 : i32
        }
        %219 = vector.from_elements %209, %212, %215, %218 : vector<4xi32>
        scf.yield %180, %193, %206, %219 : vector<4xi32>, vector<4xi32>, vector<4xi32>, vector<4xi32>
      }
      %7 = vector.extract %6#0[0] : i32 from vector<4xi32>
      %8 = vector.extract %6#0[1] : i32 from vector<4xi32>
      %9 = arith.addi %7, %8 : i32
      %10 = vector.extract %6#0[2] : i32 from vector<4xi32>
      %11 = arith.addi %9, %10 : i32
      %12 = vector.extract %6#0[3] : i32 from vector<4xi32>
      %13 = arith.addi %11, %12 : i32
      %c1_i32 = arith.constant 1 : i32
      %c32_i32 = arith.constant 32 : i32
      %shuffleResult, %valid = gpu.shuffle up %13, %c1_i32, %c32_i32 : i32
      %14 = arith.addi %shuffleResult, %13 : i32
      %c1 = arith.constant 1 : index
      %15 = affine.apply #map17(%thread_id_x)
      %16 = index.cmp sle(%c1, %15)
      %17 = arith.select %16, %14, %13 : i32
      %c2_i32 = arith.constant 2 : i32
      %shuffleResult_0, %valid_1 = gpu.shuffle up %17, %c2_i32, %c32_i32 : i32
      %18 = arith.addi %shuffleResult_0, %17 : i32
      %c2 = arith.constant 2 : index
      %19 = index.cmp sle(%c2, %15)
      %20 = arith.select %19, %18, %17 : i32
      %c4_i32 = arith.constant 4 : i32
      %shuffleResult_2, %valid_3 = gpu.shuffle up %20, %c4_i32, %c32_i32 : i32
      %21 = arith.addi %shuffleResult_2, %20 : i32
      %c4 = arith.constant 4 : index
      %22 = index.cmp sle(%c4, %15)
      %23 = arith.select %22, %21, %20 : i32
      %c8_i32 = arith.constant 8 : i32
      %shuffleResult_4, %valid_5 = gpu.shuffle up %23, %c8_i32, %c32_i32 : i32
      %24 = arith.addi %shuffleResult_4, %23 : i32
      %c8 = arith.constant 8 : index
      %25 = index.cmp sle(%c8, %15)
      %26 = arith.select %25, %24, %23 : i32
      %c16_i32 = arith.constant 16 : i32
      %shuffleResult_6, %valid_7 = gpu.shuffle up %26, %c16_i32, %c32_i32 : i32
      %27 = arith.addi %shuffleResult_6, %26 : i32
      %c16 = arith.constant 16 : index
      %28 = index.cmp sle(%c16, %15)
      %29 = arith.select %28, %27, %26 : i32
      %30 = arith.subi %29, %13 : i32
      %31 = arith.addi %c0_i32, %30 : i32
      %32 = arith.addi %31, %7 : i32
      %33 = arith.subi %29, %13 : i32
      %34 = arith.addi %c0_i32, %33 : i32
      %35 = arith.addi %34, %9 : i32
      %36 = arith.subi %29, %13 : i32
      %37 = arith.addi %c0_i32, %36 : i32
      %38 = arith.addi %37, %11 : i32
      %39 = arith.subi %29, %13 : i32
      %40 = arith.addi %c0_i32, %39 : i32
      %41 = arith.addi %40, %13 : i32
      %c31 = arith.constant 31 : index
      %42 = arith.index_cast %c31 : index to i32
      %shuffleResult_8, %valid_9 = gpu.shuffle idx %29, %42, %c32_i32 : i32
      %43 = arith.addi %c0_i32, %shuffleResult_8 : i32
      %44 = vector.extract %6#1[0] : i32 from vector<4xi32>
      %45 = vector.extract %6#1[1] : i32 from vector<4xi32>
      %46 = arith.addi %44, %45 : i32
      %47 = vector.extract %6#1[2] : i32 from vector<4xi32>
      %48 = arith.addi %46, %47 : i32
      %49 = vector.extract %6#1[3] : i32 from vector<4xi32>
      %50 = arith.addi %48, %49 : i32
      %shuffleResult_10, %valid_11 = gpu.shuffle up %50, %c1_i32, %c32_i32 : i32
      %51 = arith.addi %shuffleResult_10, %50 : i32
      %52 = arith.select %16, %51, %50 : i32
      %shuffleResult_12, %valid_13 = gpu.shuffle up %52, %c2_i32, %c32_i32 : i32
      %53 = arith.addi %shuffleResult_12, %52 : i32
      %54 = arith.select %19, %53, %52 : i32
      %shuffleResult_14, %valid_15 = gpu.shuffle up %54, %c4_i32, %c32_i32 : i32
      %55 = arith.addi %shuffleResult_14, %54 : i32
      %56 = arith.select %22, %55, %54 : i32
      %shuffleResult_16, %valid_17 = gpu.shuffle up %56, %c8_i32, %c32_i32 : i32
      %57 = arith.addi %shuffleResult_16, %56 : i32
      %58 = arith.select %25, %57, %56 : i32
      %shuffleResult_18, %valid_19 = gpu.shuffle up %58, %c16_i32, %c32_i32 : i32
      %59 = arith.addi %shuffleResult_18, %58 : i32
      %60 = arith.select %28, %59, %58 : i32
      %61 = arith.subi %60, %50 : i32
      %62 = arith.addi %43, %61 : i32
      %63 = arith.addi %62, %44 : i32
      %64 = arith.subi %60, %50 : i32
      %65 = arith.addi %43, %64 : i32
      %66 = arith.addi %65, %46 : i32
      %67 = arith.subi %60, %50 : i32
      %68 = arith.addi %43, %67 : i32
      %69 = arith.addi %68, %48 : i32
      %70 = arith.subi %60, %50 : i32
      %71 = arith.addi %43, %70 : i32
      %72 = arith.addi %71, %50 : i32
      %shuffleResult_20, %valid_21 = gpu.shuffle idx %60, %42, %c32_i32 : i32
      %73 = arith.addi %43, %shuffleResult_20 : i32
      %74 = vector.extract %6#2[0] : i32 from vector<4xi32>
      %75 = vector.extract %6#2[1] : i32 from vector<4xi32>
      %76 = arith.addi %74, %75 : i32
      %77 = vector.extract %6#2[2] : i32 from vector<4xi32>
      %78 = arith.addi %76, %77 : i32
      %79 = vector.extract %6#2[3] : i32 from vector<4xi32>
      %80 = arith.addi %78, %79 : i32
      %shuffleResult_22, %valid_23 = gpu.shuffle up %80, %c1_i32, %c32_i32 : i32
      %81 = arith.addi %shuffleResult_22, %80 : i32
      %82 = arith.select %16, %81, %80 : i32
      %shuffleResult_24, %valid_25 = gpu.shuffle up %82, %c2_i32, %c32_i32 : i32
      %83 = arith.addi %shuffleResult_24, %82 : i32
      %84 = arith.select %19, %83, %82 : i32
      %shuffleResult_26, %valid_27 = gpu.shuffle up %84, %c4_i32, %c32_i32 : i32
      %85 = arith.addi %shuffleResult_26, %84 : i32
      %86 = arith.select %22, %85, %84 : i32
      %shuffleResult_28, %valid_29 = gpu.shuffle up %86, %c8_i32, %c32_i32 : i32
      %87 = arith.addi %shuffleResult_28, %86 : i32
      %88 = arith.select %25, %87, %86 : i32
      %shuffleResult_30, %valid_31 = gpu.shuffle up %88, %c16_i32, %c32_i32 : i32
      %89 = arith.addi %shuffleResult_30, %88 : i32
      %90 = arith.select %28, %89, %88 : i32
      %91 = arith.subi %90, %80 : i32
      %92 = arith.addi %73, %91 : i32
      %93 = arith.addi %92, %74 : i32
      %94 = arith.subi %90, %80 : i32
      %95 = arith.addi %73, %94 : i32
      %96 = arith.addi %95, %76 : i32
      %97 = arith.subi %90, %80 : i32
      %98 = arith.addi %73, %97 : i32
      %99 = arith.addi %98, %78 : i32
      %100 = arith.subi %90, %80 : i32
      %101 = arith.addi %73, %100 : i32
      %102 = arith.addi %101, %80 : i32
      %shuffleResult_32, %valid_33 = gpu.shuffle idx %90, %42, %c32_i32 : i32
      %103 = arith.addi %73, %shuffleResult_32 : i32
      %104 = vector.extract %6#3[0] : i32 from vector<4xi32>
      %105 = vector.extract %6#3[1] : i32 from vector<4xi32>
      %106 = arith.addi %104, %105 : i32
      %107 = vector.extract %6#3[2] : i32 from vector<4xi32>
      %108 = arith.addi %106, %107 : i32
      %109 = vector.extract %6#3[3] : i32 from vector<4xi32>
      %110 = arith.addi %108, %109 : i32
      %shuffleResult_34, %valid_35 = gpu.shuffle up %110, %c1_i32, %c32_i32 : i32
      %111 = arith.addi %shuffleResult_34, %110 : i32
      %112 = arith.select %16, %111, %110 : i32
      %shuffleResult_36, %valid_37 = gpu.shuffle up %112, %c2_i32, %c32_i32 : i32
      %113 = arith.addi %shuffleResult_36, %112 : i32
      %114 = arith.select %19, %113, %112 : i32
      %shuffleResult_38, %valid_39 = gpu.shuffle up %114, %c4_i32, %c32_i32 : i32
      %115 = arith.addi %shuffleResult_38, %114 : i32
      %116 = arith.select %22, %115, %114 : i32
      %shuffleResult_40, %valid_41 = gpu.shuffle up %116, %c8_i32, %c32_i32 : i32
      %117 = arith.addi %shuffleResult_40, %116 : i32
      %118 = arith.select %25, %117, %116 : i32
      %shuffleResult_42, %valid_43 = gpu.shuffle up %118, %c16_i32, %c32_i32 : i32
      %119 = arith.addi %shuffleResult_42, %118 : i32
      %120 = arith.select %28, %119, %118 : i32
      %121 = arith.subi %120, %110 : i32
      %122 = arith.addi %103, %121 : i32
      %123 = arith.addi %122, %104 : i32
      %124 = arith.subi %120, %110 : i32
      %125 = arith.addi %103, %124 : i32
      %126 = arith.addi %125, %106 : i32
      %127 = arith.subi %120, %110 : i32
      %128 = arith.addi %103, %127 : i32
      %129 = arith.addi %128, %108 : i32
      %130 = arith.subi %120, %110 : i32
      %131 = arith.addi %103, %130 : i32
      %132 = arith.addi %131, %110 : i32
      %shuffleResult_44, %valid_45 = gpu.shuffle idx %120, %42, %c32_i32 : i32
      %133 = arith.addi %103, %shuffleResult_44 : i32
      %134 = index.cmp eq(%15, %c31)
      %135 = arith.select %134, %133, %c0_i32 : i32
      %shuffleResult_46, %valid_47 = gpu.shuffle up %135, %c1_i32, %c32_i32 : i32
      %136 = arith.addi %shuffleResult_46, %135 : i32
      %137 = arith.select %16, %136, %135 : i32
      %shuffleResult_48, %valid_49 = gpu.shuffle up %137, %c2_i32, %c32_i32 : i32
      %138 = arith.addi %shuffleResult_48, %137 : i32
      %139 = arith.select %19, %138, %137 : i32
      %shuffleResult_50, %valid_51 = gpu.shuffle up %139, %c4_i32, %c32_i32 : i32
      %140 = arith.addi %shuffleResult_50, %139 : i32
      %141 = arith.select %22, %140, %139 : i32
      %shuffleResult_52, %valid_53 = gpu.shuffle up %141, %c8_i32, %c32_i32 : i32
      %142 = arith.addi %shuffleResult_52, %141 : i32
      %143 = arith.select %25, %142, %141 : i32
      %shuffleResult_54, %valid_55 = gpu.shuffle up %143, %c16_i32, %c32_i32 : i32
      %144 = arith.addi %shuffleResult_54, %143 : i32
      %145 = arith.select %28, %144, %143 : i32
      %c255 = arith.constant 255 : index
      %146 = index.cmp sle(%c255, %thread_id_x)
      %147 = index.cmp sle(%c31, %15)
      %148 = arith.ori %146, %147 : i1
      scf.if %148 {
        %168 = affine.apply #map18(%thread_id_x)
        memref.store %145, %arg5[%168] : memref<8xi32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %shuffleResult_56, %valid_57 = gpu.shuffle up %145, %c1_i32, %c32_i32 : i32
      %149 = arith.select %16, %shuffleResult_56, %c0_i32 : i32
      %150 = affine.apply #map19(%thread_id_x)
      %151 = memref.load %arg5[%150] : memref<8xi32, #gpu.address_space<workgroup>>
      %shuffleResult_58, %valid_59 = gpu.shuffle up %151, %c1_i32, %c8_i32 : i32
      %152 = arith.addi %shuffleResult_58, %151 : i32
      %153 = index.cmp sle(%c1, %150)
      %154 = arith.select %153, %152, %151 : i32
      %shuffleResult_60, %valid_61 = gpu.shuffle up %154, %c2_i32, %c8_i32 : i32
      %155 = arith.addi %shuffleResult_60, %154 : i32
      %156 = index.cmp sle(%c2, %150)
      %157 = arith.select %156, %155, %154 : i32
      %shuffleResult_62, %valid_63 = gpu.shuffle up %157, %c4_i32, %c8_i32 : i32
      %158 = arith.addi %shuffleResult_62, %157 : i32
      %159 = index.cmp sle(%c4, %150)
      %160 = arith.select %159, %158, %157 : i32
      %shuffleResult_64, %valid_65 = gpu.shuffle up %160, %c1_i32, %c8_i32 : i32
      %161 = arith.select %153, %shuffleResult_64, %c0_i32 : i32
      %162 = affine.apply #map18(%thread_id_x)
      %163 = arith.index_cast %162 : index to i32
      %shuffleResult_66, %valid_67 = gpu.shuffle idx %161, %163, %c8_i32 : i32
      %164 = arith.addi %shuffleResult_66, %149 : i32
      %c7 = arith.constant 7 : index
      %165 = index.cmp eq(%162, %c7)
      scf.if %165 {
        %168 = arith.addi %164, %133 : i32
        %c0_68 = arith.constant 0 : index
        %169 = index.cmp eq(%15, %c0_68)
        scf.if %169 {
          %172 = arith.extui %168 : i32 to i64
          %c4294967296_i64 = arith.constant 4294967296 : i64
          %173 = arith.ori %172, %c4294967296_i64 : i64
          %174 = memref.atomic_rmw assign %173, %arg2[%block_id_x] {lego.scope = "device"} : (i64, memref<?xi64>) -> i64
        }
        %170 = arith.index_cast %block_id_x : index to i32
        %true = arith.constant true
        %171:3 = scf.while (%arg6 = %c0_i32, %arg7 = %170, %arg8 = %true) : (i32, i32, i1) -> (i32, i32, i1) {
          scf.condition(%arg8) %arg6, %arg7, %arg8 : i32, i32, i1
        } do {
        ^bb0(%arg6: i32, %arg7: i32, %arg8: i1):
          %172 = arith.subi %arg7, %c1_i32 : i32
          %173 = arith.index_cast %15 : index to i32
          %174 = arith.subi %172, %173 : i32
          %c8589934592_i64 = arith.constant 8589934592 : i64
          %175 = arith.cmpi sge, %174, %c0_i32 : i32
          %176 = arith.index_castui %175 : i1 to index
          %177 = index.cmp ne(%176, %c0_68)
          %178 = scf.if %177 -> (i64) {
            %184 = arith.index_cast %174 : i32 to index
            %185 = memref.generic_atomic_rmw %arg2[%184] : memref<?xi64> {
            ^bb0(%arg9: i64):
              memref.atomic_yield %arg9 : i64
            } {lego.scope = "device"}
            scf.yield %185 : i64
          } else {
            scf.yield %c8589934592_i64 : i64
          }
          %c0_i64 = arith.constant 0 : i64
          %179 = arith.cmpi ne, %178, %c0_i64 : i64
          %c-1_i32 = arith.constant -1 : i32
          %180 = nvvm.vote.sync all %c-1_i32, %179 -> i1
          %181 = arith.index_castui %180 : i1 to index
          %182 = index.cmp ne(%181, %c0_68)
          %183:3 = scf.if %182 -> (i32, i32, i1) {
            %184 = arith.cmpi uge, %178, %c8589934592_i64 : i64
            %185 = nvvm.vote.sync ballot %c-1_i32, %184 -> i32
            %186 = math.cttz %185 : i32
            %187 = arith.cmpi ule, %173, %186 : i32
            %c4294967295_i64 = arith.constant 4294967295 : i64
            %188 = arith.andi %178, %c4294967295_i64 : i64
            %189 = arith.trunci %188 : i64 to i32
            %190 = arith.select %187, %189, %c0_i32 : i32
            %shuffleResult_69, %valid_70 = gpu.shuffle xor %190, %c1_i32, %c32_i32 : i32
            %191 = arith.addi %190, %shuffleResult_69 : i32
            %shuffleResult_71, %valid_72 = gpu.shuffle xor %191, %c2_i32, %c32_i32 : i32
            %192 = arith.addi %191, %shuffleResult_71 : i32
            %shuffleResult_73, %valid_74 = gpu.shuffle xor %192, %c4_i32, %c32_i32 : i32
            %193 = arith.addi %192, %shuffleResult_73 : i32
            %shuffleResult_75, %valid_76 = gpu.shuffle xor %193, %c8_i32, %c32_i32 : i32
            %194 = arith.addi %193, %shuffleResult_75 : i32
            %shuffleResult_77, %valid_78 = gpu.shuffle xor %194, %c16_i32, %c32_i32 : i32
            %195 = arith.addi %194, %shuffleResult_77 : i32
            %196 = arith.addi %arg6, %195 : i32
            %197 = arith.subi %arg7, %c32_i32 : i32
            %198 = arith.cmpi eq, %185, %c0_i32 : i32
            scf.yield %196, %197, %198 : i32, i32, i1
          } else {
            scf.yield %arg6, %arg7, %arg8 : i32, i32, i1
          }
          scf.yield %183#0, %183#1, %183#2 : i32, i32, i1
        }
        scf.if %169 {
          %172 = arith.addi %171#0, %168 : i32
          %173 = arith.extui %172 : i32 to i64
          %c8589934592_i64 = arith.constant 8589934592 : i64
          %174 = arith.ori %173, %c8589934592_i64 : i64
          %175 = memref.atomic_rmw assign %174, %arg2[%block_id_x] {lego.scope = "device"} : (i64, memref<?xi64>) -> i64
          memref.store %171#0, %arg4[%c0_68] : memref<1xi32, #gpu.address_space<workgroup>>
        }
      }
      gpu.barrier
      %c0 = arith.constant 0 : index
      %166 = memref.load %arg4[%c0] : memref<1xi32, #gpu.address_space<workgroup>>
      %167 = arith.addi %166, %164 : i32
      scf.if %5 {
        %168 = arith.addi %167, %32 : i32
        %169 = arith.addi %167, %35 : i32
        %170 = arith.addi %167, %38 : i32
        %171 = arith.addi %167, %41 : i32
        %172 = vector.from_elements %168, %169, %170, %171 : vector<4xi32>
        %173 = affine.apply #map1(%block_id_x, %thread_id_x)
        vector.store %172, %arg1[%173] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        %174 = arith.addi %167, %63 : i32
        %175 = arith.addi %167, %66 : i32
        %176 = arith.addi %167, %69 : i32
        %177 = arith.addi %167, %72 : i32
        %178 = vector.from_elements %174, %175, %176, %177 : vector<4xi32>
        %179 = affine.apply #map2(%block_id_x, %thread_id_x)
        vector.store %178, %arg1[%179] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        %180 = arith.addi %167, %93 : i32
        %181 = arith.addi %167, %96 : i32
        %182 = arith.addi %167, %99 : i32
        %183 = arith.addi %167, %102 : i32
        %184 = vector.from_elements %180, %181, %182, %183 : vector<4xi32>
        %185 = affine.apply #map3(%block_id_x, %thread_id_x)
        vector.store %184, %arg1[%185] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
        %186 = arith.addi %167, %123 : i32
        %187 = arith.addi %167, %126 : i32
        %188 = arith.addi %167, %129 : i32
        %189 = arith.addi %167, %132 : i32
        %190 = vector.from_elements %186, %187, %188, %189 : vector<4xi32>
        %191 = affine.apply #map4(%block_id_x, %thread_id_x)
        vector.store %190, %arg1[%191] {alignment = 16 : i64} : memref<?xi32>, vector<4xi32>
      } else {
        %168 = arith.addi %167, %32 : i32
        %169 = affine.apply #map1(%block_id_x, %thread_id_x)
        %170 = index.cmp slt(%169, %arg3)
        scf.if %170 {
          memref.store %168, %arg1[%169] : memref<?xi32>
        }
        %171 = arith.addi %167, %35 : i32
        %172 = affine.apply #map5(%block_id_x, %thread_id_x)
        %173 = index.cmp slt(%172, %arg3)
        scf.if %173 {
          memref.store %171, %arg1[%172] : memref<?xi32>
        }
        %174 = arith.addi %167, %38 : i32
        %175 = affine.apply #map6(%block_id_x, %thread_id_x)
        %176 = index.cmp slt(%175, %arg3)
        scf.if %176 {
          memref.store %174, %arg1[%175] : memref<?xi32>
        }
        %177 = arith.addi %167, %41 : i32
        %178 = affine.apply #map7(%block_id_x, %thread_id_x)
        %179 = index.cmp slt(%178, %arg3)
        scf.if %179 {
          memref.store %177, %arg1[%178] : memref<?xi32>
        }
        %180 = arith.addi %167, %63 : i32
        %181 = affine.apply #map2(%block_id_x, %thread_id_x)
        %182 = index.cmp slt(%181, %arg3)
        scf.if %182 {
          memref.store %180, %arg1[%181] : memref<?xi32>
        }
        %183 = arith.addi %167, %66 : i32
        %184 = affine.apply #map8(%block_id_x, %thread_id_x)
        %185 = index.cmp slt(%184, %arg3)
        scf.if %185 {
          memref.store %183, %arg1[%184] : memref<?xi32>
        }
        %186 = arith.addi %167, %69 : i32
        %187 = affine.apply #map9(%block_id_x, %thread_id_x)
        %188 = index.cmp slt(%187, %arg3)
        scf.if %188 {
          memref.store %186, %arg1[%187] : memref<?xi32>
        }
        %189 = arith.addi %167, %72 : i32
        %190 = affine.apply #map10(%block_id_x, %thread_id_x)
        %191 = index.cmp slt(%190, %arg3)
        scf.if %191 {
          memref.store %189, %arg1[%190] : memref<?xi32>
        }
        %192 = arith.addi %167, %93 : i32
        %193 = affine.apply #map3(%block_id_x, %thread_id_x)
        %194 = index.cmp slt(%193, %arg3)
        scf.if %194 {
          memref.store %192, %arg1[%193] : memref<?xi32>
        }
        %195 = arith.addi %167, %96 : i32
        %196 = affine.apply #map11(%block_id_x, %thread_id_x)
        %197 = index.cmp slt(%196, %arg3)
        scf.if %197 {
          memref.store %195, %arg1[%196] : memref<?xi32>
        }
        %198 = arith.addi %167, %99 : i32
        %199 = affine.apply #map12(%block_id_x, %thread_id_x)
        %200 = index.cmp slt(%199, %arg3)
        scf.if %200 {
          memref.store %198, %arg1[%199] : memref<?xi32>
        }
        %201 = arith.addi %167, %102 : i32
        %202 = affine.apply #map13(%block_id_x, %thread_id_x)
        %203 = index.cmp slt(%202, %arg3)
        scf.if %203 {
          memref.store %201, %arg1[%202] : memref<?xi32>
        }
        %204 = arith.addi %167, %123 : i32
        %205 = affine.apply #map4(%block_id_x, %thread_id_x)
        %206 = index.cmp slt(%205, %arg3)
        scf.if %206 {
          memref.store %204, %arg1[%205] : memref<?xi32>
        }
        %207 = arith.addi %167, %126 : i32
        %208 = affine.apply #map14(%block_id_x, %thread_id_x)
        %209 = index.cmp slt(%208, %arg3)
        scf.if %209 {
          memref.store %207, %arg1[%208] : memref<?xi32>
        }
        %210 = arith.addi %167, %129 : i32
        %211 = affine.apply #map15(%block_id_x, %thread_id_x)
        %212 = index.cmp slt(%211, %arg3)
        scf.if %212 {
          memref.store %210, %arg1[%211] : memref<?xi32>
        }
        %213 = arith.addi %167, %132 : i32
        %214 = affine.apply #map16(%block_id_x, %thread_id_x)
        %215 = index.cmp slt(%214, %arg3)
        scf.if %215 {
          memref.store %213, %arg1[%214] : memref<?xi32>
        }
      }
      gpu.return
    }
  }
}
