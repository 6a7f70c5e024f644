#map = affine_map<(d0, d1) -> (d1 + d0 * 256)>
#map1 = affine_map<(d0) -> (d0 mod 32)>
#map2 = affine_map<(d0) -> (d0 floordiv 32)>
#map3 = affine_map<(d0) -> (d0 mod 8)>
module attributes {gpu.container_module} {
  gpu.module @scan_blocks_module {
    gpu.func @scan_blocks(%arg0: memref<?xi32>, %arg1: memref<?xi32>, %arg2: memref<?xi64>, %arg3: index) workgroup(%arg4 : memref<1xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %arg5 : memref<8xi32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %c0_i32 = arith.constant 0 : i32
      %0 = affine.apply #map(%block_id_x, %thread_id_x)
      %1 = index.cmp slt(%0, %arg3)
      %2 = scf.if %1 -> (i32) {
        %40 = memref.load %arg0[%0] : memref<?xi32>
        scf.yield %40 : i32
      } else {
        scf.yield %c0_i32 : i32
      }
      %c1_i32 = arith.constant 1 : i32
      %c32_i32 = arith.constant 32 : i32
      %shuffleResult, %valid = gpu.shuffle up %2, %c1_i32, %c32_i32 : i32
      %3 = arith.addi %shuffleResult, %2 : i32
      %c1 = arith.constant 1 : index
      %4 = affine.apply #map1(%thread_id_x)
      %5 = index.cmp sle(%c1, %4)
      %6 = arith.select %5, %3, %2 : i32
      %c2_i32 = arith.constant 2 : i32
      %shuffleResult_0, %valid_1 = gpu.shuffle up %6, %c2_i32, %c32_i32 : i32
      %7 = arith.addi %shuffleResult_0, %6 : i32
      %c2 = arith.constant 2 : index
      %8 = index.cmp sle(%c2, %4)
      %9 = arith.select %8, %7, %6 : i32
      %c4_i32 = arith.constant 4 : i32
      %shuffleResult_2, %valid_3 = gpu.shuffle up %9, %c4_i32, %c32_i32 : i32
      %10 = arith.addi %shuffleResult_2, %9 : i32
      %c4 = arith.constant 4 : index
      %11 = index.cmp sle(%c4, %4)
      %12 = arith.select %11, %10, %9 : i32
      %c8_i32 = arith.constant 8 : i32
      %shuffleResult_4, %valid_5 = gpu.shuffle up %12, %c8_i32, %c32_i32 : i32
      %13 = arith.addi %shuffleResult_4, %12 : i32
      %c8 = arith.constant 8 : index
      %14 = index.cmp sle(%c8, %4)
      %15 = arith.select %14, %13, %12 : i32
      %c16_i32 = arith.constant 16 : i32
      %shuffleResult_6, %valid_7 = gpu.shuffle up %15, %c16_i32, %c32_i32 : i32
      %16 = arith.addi %shuffleResult_6, %15 : i32
      %c16 = arith.constant 16 : index
      %17 = index.cmp sle(%c16, %4)
      %18 = arith.select %17, %16, %15 : i32
      %c255 = arith.constant 255 : index
      %19 = index.cmp sle(%c255, %thread_id_x)
      %c31 = arith.constant 31 : index
      %20 = index.cmp sle(%c31, %4)
      %21 = arith.ori %19, %20 : i1
      scf.if %21 {
        %40 = affine.apply #map2(%thread_id_x)
        memref.store %18, %arg5[%40] : memref<8xi32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %22 = affine.apply #map3(%thread_id_x)
      %23 = memref.load %arg5[%22] : memref<8xi32, #gpu.address_space<workgroup>>
      %shuffleResult_8, %valid_9 = gpu.shuffle up %23, %c1_i32, %c8_i32 : i32
      %24 = arith.addi %shuffleResult_8, %23 : i32
      %25 = index.cmp sle(%c1, %22)
      %26 = arith.select %25, %24, %23 : i32
      %shuffleResult_10, %valid_11 = gpu.shuffle up %26, %c2_i32, %c8_i32 : i32
      %27 = arith.addi %shuffleResult_10, %26 : i32
      %28 = index.cmp sle(%c2, %22)
      %29 = arith.select %28, %27, %26 : i32
      %shuffleResult_12, %valid_13 = gpu.shuffle up %29, %c4_i32, %c8_i32 : i32
      %30 = arith.addi %shuffleResult_12, %29 : i32
      %31 = index.cmp sle(%c4, %22)
      %32 = arith.select %31, %30, %29 : i32
      %shuffleResult_14, %valid_15 = gpu.shuffle up %32, %c1_i32, %c8_i32 : i32
      %33 = arith.select %25, %shuffleResult_14, %c0_i32 : i32
      %34 = affine.apply #map2(%thread_id_x)
      %35 = arith.index_cast %34 : index to i32
      %shuffleResult_16, %valid_17 = gpu.shuffle idx %33, %35, %c8_i32 : i32
      %36 = arith.addi %shuffleResult_16, %18 : i32
      %37 = index.cmp eq(%thread_id_x, %c255)
      scf.if %37 {
        %c8589934592_i64 = arith.constant 8589934592 : i64
        %c0_18 = arith.constant 0 : index
        %40 = index.cmp eq(%block_id_x, %c0_18)
        %c4294967296_i64 = arith.constant 4294967296 : i64
        %41 = arith.select %40, %c8589934592_i64, %c4294967296_i64 : i64
        %42 = arith.extui %36 : i32 to i64
        %43 = arith.ori %41, %42 : i64
        %44 = memref.atomic_rmw assign %43, %arg2[%block_id_x] {lego.scope = "device"} : (i64, memref<?xi64>) -> i64
        %45 = arith.index_cast %block_id_x : index to i32
        %46 = arith.subi %45, %c1_i32 : i32
        %47 = index.cmp slt(%c0_18, %block_id_x)
        %48:3 = scf.while (%arg6 = %c0_i32, %arg7 = %46, %arg8 = %47) : (i32, i32, i1) -> (i32, i32, i1) {
          scf.condition(%arg8) %arg6, %arg7, %arg8 : i32, i32, i1
        } do {
        ^bb0(%arg6: i32, %arg7: i32, %arg8: i1):
          %53 = arith.index_cast %arg7 : i32 to index
          %54 = memref.generic_atomic_rmw %arg2[%53] : memref<?xi64> {
          ^bb0(%arg9: i64):
            memref.atomic_yield %arg9 : i64
          } {lego.scope = "device"}
          %c4294967295_i64 = arith.constant 4294967295 : i64
          %55 = arith.andi %54, %c4294967295_i64 : i64
          %56 = arith.trunci %55 : i64 to i32
          %57 = arith.addi %arg6, %56 : i32
          %c0_i64 = arith.constant 0 : i64
          %58 = arith.cmpi eq, %54, %c0_i64 : i64
          %59 = arith.select %58, %c0_i32, %c1_i32 : i32
          %60 = arith.subi %arg7, %59 : i32
          %61 = arith.cmpi ult, %54, %c8589934592_i64 : i64
          scf.yield %57, %60, %61 : i32, i32, i1
        }
        %49 = arith.addi %48#0, %36 : i32
        %50 = arith.extui %49 : i32 to i64
        %51 = arith.ori %50, %c8589934592_i64 : i64
        %52 = memref.atomic_rmw assign %51, %arg2[%block_id_x] {lego.scope = "device"} : (i64, memref<?xi64>) -> i64
        memref.store %48#0, %arg4[%c0_18] : memref<1xi32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %c0 = arith.constant 0 : index
      %38 = memref.load %arg4[%c0] : memref<1xi32, #gpu.address_space<workgroup>>
      %39 = arith.addi %38, %36 : i32
      scf.if %1 {
        memref.store %39, %arg1[%0] : memref<?xi32>
      }
      gpu.return
    }
  }
}
