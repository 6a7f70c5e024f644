#map = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 6144)>
#map1 = affine_map<(d0) -> (d0 floordiv 128 - 48)>
#map2 = affine_map<(d0, d1, d2) -> ((d2 mod 8) * 8 + d1 * 64 + (d2 floordiv 8) * 128 + d0 * 8192 + 6144)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    llvm.mlir.global external @lego_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
    gpu.func @matmul(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, lego.dynamic_shared_bytes = 49184 : i64, lego.tensor_maps = [{box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 64>, strides = array<i64: 256>, swizzle = 128 : i64, written = false}, {box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 128>, strides = array<i64: 256>, swizzle = 128 : i64, written = false}, {box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 64>, strides = array<i64: 256>, swizzle = 128 : i64, written = true}], nvvm.minctasm = 1 : i32} {
      %0 = nvvm.read.ptx.sreg.tid.x : i32
      %c-1_i32 = arith.constant -1 : i32
      %c5_i32 = arith.constant 5 : i32
      %1 = arith.shrui %0, %c5_i32 : i32
      %c0_i32 = arith.constant 0 : i32
      %c31_i32 = arith.constant 31 : i32
      %2 = nvvm.shfl.sync idx %c-1_i32, %1, %c0_i32, %c31_i32 : i32 -> i32
      %3 = llvm.mlir.addressof @lego_shared : !llvm.ptr<3>
      %c2_i32 = arith.constant 2 : i32
      %4 = arith.shrui %2, %c2_i32 : i32
      %5 = nvvm.elect.sync -> i1
      %c0_i32_0 = arith.constant 0 : i32
      %6 = arith.cmpi eq, %2, %c0_i32_0 : i32
      %7 = arith.andi %6, %5 : i1
      scf.if %7 {
        %c49152_i32 = arith.constant 49152 : i32
        %9 = llvm.getelementptr %3[%c49152_i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
        %c1_i32_1 = arith.constant 1 : i32
        nvvm.mbarrier.init %9, %c1_i32_1 : !llvm.ptr<3>, i32
        %c49160_i32 = arith.constant 49160 : i32
        %10 = llvm.getelementptr %3[%c49160_i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
        %c1_i32_2 = arith.constant 1 : i32
        nvvm.mbarrier.init %10, %c1_i32_2 : !llvm.ptr<3>, i32
        %c49168_i32 = arith.constant 49168 : i32
        %11 = llvm.getelementptr %3[%c49168_i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
        %c1_i32_3 = arith.constant 1 : i32
        nvvm.mbarrier.init %11, %c1_i32_3 : !llvm.ptr<3>, i32
        %c49176_i32 = arith.constant 49176 : i32
        %12 = llvm.getelementptr %3[%c49176_i32] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
        %c1_i32_4 = arith.constant 1 : i32
        nvvm.mbarrier.init %12, %c1_i32_4 : !llvm.ptr<3>, i32
        nvvm.fence.mbarrier.init
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      }
      nvvm.barrier
      %c1_i32 = arith.constant 1 : i32
      %8 = arith.cmpi eq, %4, %c1_i32 : i32
      scf.if %8 {
        nvvm.setmaxregister decrease 40
        %9 = nvvm.elect.sync -> i1
        %c4_i32 = arith.constant 4 : i32
        %10 = arith.cmpi eq, %2, %c4_i32 : i32
        %11 = arith.andi %10, %9 : i1
        scf.if %11 {
          %c0_i32_1 = arith.constant 0 : i32
          %c1_i32_2 = arith.constant 1 : i32
          %c2_i32_3 = arith.constant 2 : i32
          %block_id_x = gpu.block_id x
          %c2 = arith.constant 2 : index
          %c2_4 = arith.constant 2 : index
          %12:2 = scf.for %arg3 = %block_id_x to %c2 step %c2_4 iter_args(%arg4 = %c0_i32_1, %arg5 = %c1_i32_2) -> (i32, i32) {
            %c0 = arith.constant 0 : index
            %13 = affine.apply #map(%c0, %c0)
            %14 = affine.apply #map1(%13)
            %15 = affine.apply #map2(%arg3, %c0, %c0)
            %16 = affine.apply #map1(%15)
            %17 = arith.index_cast %14 : index to i32
            %18 = arith.index_cast %16 : index to i32
            %19:2 = scf.for %arg6 = %c0_i32_1 to %c2_i32_3 step %c1_i32_2 iter_args(%arg7 = %arg4, %arg8 = %arg5) -> (i32, i32)  : i32 {
              %c8_i32 = arith.constant 8 : i32
              %20 = arith.muli %arg7, %c8_i32 : i32
              %c49168_i32 = arith.constant 49168 : i32
              %21 = arith.addi %20, %c49168_i32 : i32
              %22 = llvm.getelementptr %3[%21] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
              %c10000000_i32 = arith.constant 10000000 : i32
              nvvm.mbarrier.try_wait.parity %22, %arg8, %c10000000_i32 : !llvm.ptr<3>, i32, i32
              %c8_i32_5 = arith.constant 8 : i32
              %23 = arith.muli %arg7, %c8_i32_5 : i32
              %c49152_i32 = arith.constant 49152 : i32
              %24 = arith.addi %23, %c49152_i32 : i32
              %25 = llvm.getelementptr %3[%24] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
              %c16384_i32 = arith.constant 16384 : i32
              nvvm.mbarrier.arrive.expect_tx %25, %c16384_i32 : !llvm.ptr<3>, i32
              %c64_i32 = arith.constant 64 : i32
              %26 = arith.muli %arg6, %c64_i32 : i32
              %c8192_i32 = arith.constant 8192 : i32
              %27 = arith.muli %arg7, %c8192_i32 : i32
              %c0_i32_6 = arith.constant 0 : i32
              %28 = arith.addi %27, %c0_i32_6 : i32
              %c0_i32_7 = arith.constant 0 : i32
              %29 = arith.addi %28, %c0_i32_7 : i32
              %30 = llvm.getelementptr %3[%29] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
              %31 = llvm.addrspacecast %30 : !llvm.ptr<3> to !llvm.ptr<7>
              %c0_i32_8 = arith.constant 0 : i32
              %32 = arith.addi %26, %c0_i32_8 : i32
              nvvm.cp.async.bulk.tensor.shared.cluster.global %31, %arg0, %25, box[%32, %17] : !llvm.ptr<7>, !llvm.ptr
              %c8192_i32_9 = arith.constant 8192 : i32
              %33 = arith.muli %arg7, %c8192_i32_9 : i32
              %c16384_i32_10 = arith.constant 16384 : i32
              %34 = arith.addi %33, %c16384_i32_10 : i32
              %c0_i32_11 = arith.constant 0 : i32
              %35 = arith.addi %34, %c0_i32_11 : i32
              %36 = llvm.getelementptr %3[%35] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
              %37 = llvm.addrspacecast %36 : !llvm.ptr<3> to !llvm.ptr<7>
              %c0_i32_12 = arith.constant 0 : i32
              %38 = arith.addi %26, %c0_i32_12 : i32
              nvvm.cp.async.bulk.tensor.shared.cluster.global %37, %arg1, %25, box[%38, %18] : !llvm.ptr<7>, !llvm.ptr
              %c1_i32_13 = arith.constant 1 : i32
              %39 = arith.addi %arg7, %c1_i32_13 : i32
              %c2_i32_14 = arith.constant 2 : i32
              %40 = arith.cmpi eq, %39, %c2_i32_14 : i32
              %c0_i32_15 = arith.constant 0 : i32
              %41 = arith.select %40, %c0_i32_15, %39 : i32
              %42 = arith.extui %40 : i1 to i32
              %43 = arith.xori %arg8, %42 : i32
              scf.yield %41, %43 : i32, i32
            }
            scf.yield %19#0, %19#1 : i32, i32
          }
        }
      } else {
        nvvm.setmaxregister increase 232
        %c0_i32_1 = arith.constant 0 : i32
        %c3_i32 = arith.constant 3 : i32
        %9 = arith.andi %2, %c3_i32 : i32
        %10 = nvvm.elect.sync -> i1
        %c0_i32_2 = arith.constant 0 : i32
        %11 = arith.cmpi eq, %9, %c0_i32_2 : i32
        %12 = arith.andi %11, %10 : i1
        %13 = llvm.ptrtoint %3 : !llvm.ptr<3> to i32
        %c0_i32_3 = arith.constant 0 : i32
        %14 = arith.muli %4, %c0_i32_3 : i32
        %15 = arith.addi %13, %14 : i32
        %c16384_i32 = arith.constant 16384 : i32
        %16 = arith.addi %13, %c16384_i32 : i32
        %c262143_i32 = arith.constant 262143 : i32
        %17 = arith.andi %15, %c262143_i32 : i32
        %c4_i32 = arith.constant 4 : i32
        %18 = arith.shrui %17, %c4_i32 : i32
        %c4611686293305294848_i64 = arith.constant 4611686293305294848 : i64
        %19 = arith.extui %18 : i32 to i64
        %20 = arith.ori %19, %c4611686293305294848_i64 : i64
        %c262143_i32_4 = arith.constant 262143 : i32
        %21 = arith.andi %16, %c262143_i32_4 : i32
        %c4_i32_5 = arith.constant 4 : i32
        %22 = arith.shrui %21, %c4_i32_5 : i32
        %c4611686293305294848_i64_6 = arith.constant 4611686293305294848 : i64
        %23 = arith.extui %22 : i32 to i64
        %24 = arith.ori %23, %c4611686293305294848_i64_6 : i64
        %block_id_x = gpu.block_id x
        %c2 = arith.constant 2 : index
        %c2_7 = arith.constant 2 : index
        %25:2 = scf.for %arg3 = %block_id_x to %c2 step %c2_7 iter_args(%arg4 = %c0_i32_1, %arg5 = %c0_i32_1) -> (i32, i32) {
          %c0 = arith.constant 0 : index
          %26 = affine.apply #map(%c0, %c0)
          %27 = affine.apply #map1(%26)
          %28 = affine.apply #map2(%arg3, %c0, %c0)
          %29 = affine.apply #map1(%28)
          %30 = arith.index_cast %27 : index to i32
          %31 = arith.index_cast %29 : index to i32
          %32 = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          %c8_i32 = arith.constant 8 : i32
          %33 = arith.muli %arg4, %c8_i32 : i32
          %c49152_i32 = arith.constant 49152 : i32
          %34 = arith.addi %33, %c49152_i32 : i32
          %35 = llvm.getelementptr %3[%34] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          %c10000000_i32 = arith.constant 10000000 : i32
          nvvm.mbarrier.try_wait.parity %35, %arg5, %c10000000_i32 : !llvm.ptr<3>, i32, i32
          %c512_i32 = arith.constant 512 : i32
          %36 = arith.muli %arg4, %c512_i32 : i32
          %37 = arith.extui %36 : i32 to i64
          %38 = arith.addi %20, %37 : i64
          %c512_i32_8 = arith.constant 512 : i32
          %39 = arith.muli %arg4, %c512_i32_8 : i32
          %40 = arith.extui %39 : i32 to i64
          %41 = arith.addi %24, %40 : i64
          nvvm.wgmma.fence.aligned
          %c0_i64 = arith.constant 0 : i64
          %42 = arith.addi %38, %c0_i64 : i64
          %c0_i64_9 = arith.constant 0 : i64
          %43 = arith.addi %41, %c0_i64_9 : i64
          %44 = nvvm.wgmma.mma_async %42, %43, %32, <m = 64, n = 64, k = 16>, D[<f32>, <zero>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          %c2_i64 = arith.constant 2 : i64
          %45 = arith.addi %38, %c2_i64 : i64
          %c2_i64_10 = arith.constant 2 : i64
          %46 = arith.addi %41, %c2_i64_10 : i64
          %47 = nvvm.wgmma.mma_async %45, %46, %44, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          %c4_i64 = arith.constant 4 : i64
          %48 = arith.addi %38, %c4_i64 : i64
          %c4_i64_11 = arith.constant 4 : i64
          %49 = arith.addi %41, %c4_i64_11 : i64
          %50 = nvvm.wgmma.mma_async %48, %49, %47, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          %c6_i64 = arith.constant 6 : i64
          %51 = arith.addi %38, %c6_i64 : i64
          %c6_i64_12 = arith.constant 6 : i64
          %52 = arith.addi %41, %c6_i64_12 : i64
          %53 = nvvm.wgmma.mma_async %51, %52, %50, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          nvvm.wgmma.commit.group.sync.aligned
          %c1_i32_13 = arith.constant 1 : i32
          %54 = arith.addi %arg4, %c1_i32_13 : i32
          %c2_i32_14 = arith.constant 2 : i32
          %55 = arith.cmpi eq, %54, %c2_i32_14 : i32
          %c0_i32_15 = arith.constant 0 : i32
          %56 = arith.select %55, %c0_i32_15, %54 : i32
          %57 = arith.extui %55 : i1 to i32
          %58 = arith.xori %arg5, %57 : i32
          %c1_i32_16 = arith.constant 1 : i32
          %c2_i32_17 = arith.constant 2 : i32
          %59:4 = scf.for %arg6 = %c1_i32_16 to %c2_i32_17 step %c1_i32_16 iter_args(%arg7 = %53, %arg8 = %arg4, %arg9 = %56, %arg10 = %58) -> (!llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>, i32, i32, i32)  : i32 {
            %c8_i32_29 = arith.constant 8 : i32
            %154 = arith.muli %arg9, %c8_i32_29 : i32
            %c49152_i32_30 = arith.constant 49152 : i32
            %155 = arith.addi %154, %c49152_i32_30 : i32
            %156 = llvm.getelementptr %3[%155] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
            %c10000000_i32_31 = arith.constant 10000000 : i32
            nvvm.mbarrier.try_wait.parity %156, %arg10, %c10000000_i32_31 : !llvm.ptr<3>, i32, i32
            %c512_i32_32 = arith.constant 512 : i32
            %157 = arith.muli %arg9, %c512_i32_32 : i32
            %158 = arith.extui %157 : i32 to i64
            %159 = arith.addi %20, %158 : i64
            %c512_i32_33 = arith.constant 512 : i32
            %160 = arith.muli %arg9, %c512_i32_33 : i32
            %161 = arith.extui %160 : i32 to i64
            %162 = arith.addi %24, %161 : i64
            nvvm.wgmma.fence.aligned
            %c0_i64_34 = arith.constant 0 : i64
            %163 = arith.addi %159, %c0_i64_34 : i64
            %c0_i64_35 = arith.constant 0 : i64
            %164 = arith.addi %162, %c0_i64_35 : i64
            %165 = nvvm.wgmma.mma_async %163, %164, %arg7, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
            %c2_i64_36 = arith.constant 2 : i64
            %166 = arith.addi %159, %c2_i64_36 : i64
            %c2_i64_37 = arith.constant 2 : i64
            %167 = arith.addi %162, %c2_i64_37 : i64
            %168 = nvvm.wgmma.mma_async %166, %167, %165, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
            %c4_i64_38 = arith.constant 4 : i64
            %169 = arith.addi %159, %c4_i64_38 : i64
            %c4_i64_39 = arith.constant 4 : i64
            %170 = arith.addi %162, %c4_i64_39 : i64
            %171 = nvvm.wgmma.mma_async %169, %170, %168, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
            %c6_i64_40 = arith.constant 6 : i64
            %172 = arith.addi %159, %c6_i64_40 : i64
            %c6_i64_41 = arith.constant 6 : i64
            %173 = arith.addi %162, %c6_i64_41 : i64
            %174 = nvvm.wgmma.mma_async %172, %173, %171, <m = 64, n = 64, k = 16>, D[<f32>, <one>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
            nvvm.wgmma.commit.group.sync.aligned
            nvvm.wgmma.wait.group.sync.aligned 1
            scf.if %12 {
              %c8_i32_45 = arith.constant 8 : i32
              %180 = arith.muli %arg8, %c8_i32_45 : i32
              %c49168_i32 = arith.constant 49168 : i32
              %181 = arith.addi %180, %c49168_i32 : i32
              %182 = llvm.getelementptr %3[%181] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
              %183 = nvvm.mbarrier.arrive %182 : !llvm.ptr<3> -> i64
            }
            %c1_i32_42 = arith.constant 1 : i32
            %175 = arith.addi %arg9, %c1_i32_42 : i32
            %c2_i32_43 = arith.constant 2 : i32
            %176 = arith.cmpi eq, %175, %c2_i32_43 : i32
            %c0_i32_44 = arith.constant 0 : i32
            %177 = arith.select %176, %c0_i32_44, %175 : i32
            %178 = arith.extui %176 : i1 to i32
            %179 = arith.xori %arg10, %178 : i32
            scf.yield %174, %arg9, %177, %179 : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>, i32, i32, i32
          }
          nvvm.wgmma.wait.group.sync.aligned 0
          scf.if %12 {
            %c8_i32_29 = arith.constant 8 : i32
            %154 = arith.muli %59#1, %c8_i32_29 : i32
            %c49168_i32 = arith.constant 49168 : i32
            %155 = arith.addi %154, %c49168_i32 : i32
            %156 = llvm.getelementptr %3[%155] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
            %157 = nvvm.mbarrier.arrive %156 : !llvm.ptr<3> -> i64
          }
          %c1_i32_18 = arith.constant 1 : i32
          %60 = arith.addi %4, %c1_i32_18 : i32
          %c128_i32 = arith.constant 128 : i32
          %c64_i32 = arith.constant 64 : i32
          %61 = arith.muli %4, %c64_i32 : i32
          %62 = arith.addi %30, %61 : i32
          %c16384_i32_19 = arith.constant 16384 : i32
          %63 = arith.muli %4, %c16384_i32_19 : i32
          %c32768_i32 = arith.constant 32768 : i32
          %64 = arith.addi %63, %c32768_i32 : i32
          %c0_i32_20 = arith.constant 0 : i32
          %65 = arith.addi %64, %c0_i32_20 : i32
          scf.if %12 {
            nvvm.cp.async.bulk.wait_group 0 {read}
          }
          nvvm.barrier id = %60 number_of_threads = %c128_i32
          %c15_i32 = arith.constant 15 : i32
          %66 = arith.andi %0, %c15_i32 : i32
          %c5_i32_21 = arith.constant 5 : i32
          %67 = arith.shrui %0, %c5_i32_21 : i32
          %c3_i32_22 = arith.constant 3 : i32
          %68 = arith.andi %67, %c3_i32_22 : i32
          %c16_i32 = arith.constant 16 : i32
          %69 = arith.muli %68, %c16_i32 : i32
          %70 = arith.addi %69, %66 : i32
          %c4_i32_23 = arith.constant 4 : i32
          %71 = arith.shrui %0, %c4_i32_23 : i32
          %c1_i32_24 = arith.constant 1 : i32
          %72 = arith.andi %71, %c1_i32_24 : i32
          %c7_i32 = arith.constant 7 : i32
          %73 = arith.andi %0, %c7_i32 : i32
          %74 = arith.xori %72, %73 : i32
          %c128_i32_25 = arith.constant 128 : i32
          %75 = arith.muli %70, %c128_i32_25 : i32
          %c16_i32_26 = arith.constant 16 : i32
          %76 = arith.muli %74, %c16_i32_26 : i32
          %77 = arith.addi %75, %76 : i32
          %c0_i32_27 = arith.constant 0 : i32
          %78 = arith.xori %77, %c0_i32_27 : i32
          %79 = arith.addi %65, %78 : i32
          %80 = llvm.getelementptr %3[%79] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          %81 = llvm.extractvalue %59#0[0] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %82 = llvm.extractvalue %59#0[1] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %83 = nvvm.convert.f32x2.to.f16x2 %82, %81 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %84 = llvm.bitcast %83 : vector<2xf16> to i32
          %85 = llvm.extractvalue %59#0[2] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %86 = llvm.extractvalue %59#0[3] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %87 = nvvm.convert.f32x2.to.f16x2 %86, %85 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %88 = llvm.bitcast %87 : vector<2xf16> to i32
          %89 = llvm.extractvalue %59#0[4] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %90 = llvm.extractvalue %59#0[5] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %91 = nvvm.convert.f32x2.to.f16x2 %90, %89 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %92 = llvm.bitcast %91 : vector<2xf16> to i32
          %93 = llvm.extractvalue %59#0[6] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %94 = llvm.extractvalue %59#0[7] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %95 = nvvm.convert.f32x2.to.f16x2 %94, %93 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %96 = llvm.bitcast %95 : vector<2xf16> to i32
          nvvm.stmatrix %80, %84, %88, %92, %96 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
          %c32_i32 = arith.constant 32 : i32
          %97 = arith.xori %77, %c32_i32 : i32
          %98 = arith.addi %65, %97 : i32
          %99 = llvm.getelementptr %3[%98] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          %100 = llvm.extractvalue %59#0[8] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %101 = llvm.extractvalue %59#0[9] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %102 = nvvm.convert.f32x2.to.f16x2 %101, %100 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %103 = llvm.bitcast %102 : vector<2xf16> to i32
          %104 = llvm.extractvalue %59#0[10] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %105 = llvm.extractvalue %59#0[11] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %106 = nvvm.convert.f32x2.to.f16x2 %105, %104 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %107 = llvm.bitcast %106 : vector<2xf16> to i32
          %108 = llvm.extractvalue %59#0[12] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %109 = llvm.extractvalue %59#0[13] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %110 = nvvm.convert.f32x2.to.f16x2 %109, %108 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %111 = llvm.bitcast %110 : vector<2xf16> to i32
          %112 = llvm.extractvalue %59#0[14] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %113 = llvm.extractvalue %59#0[15] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %114 = nvvm.convert.f32x2.to.f16x2 %113, %112 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %115 = llvm.bitcast %114 : vector<2xf16> to i32
          nvvm.stmatrix %99, %103, %107, %111, %115 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
          %c64_i32_28 = arith.constant 64 : i32
          %116 = arith.xori %77, %c64_i32_28 : i32
          %117 = arith.addi %65, %116 : i32
          %118 = llvm.getelementptr %3[%117] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          %119 = llvm.extractvalue %59#0[16] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %120 = llvm.extractvalue %59#0[17] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %121 = nvvm.convert.f32x2.to.f16x2 %120, %119 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %122 = llvm.bitcast %121 : vector<2xf16> to i32
          %123 = llvm.extractvalue %59#0[18] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %124 = llvm.extractvalue %59#0[19] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %125 = nvvm.convert.f32x2.to.f16x2 %124, %123 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %126 = llvm.bitcast %125 : vector<2xf16> to i32
          %127 = llvm.extractvalue %59#0[20] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %128 = llvm.extractvalue %59#0[21] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %129 = nvvm.convert.f32x2.to.f16x2 %128, %127 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %130 = llvm.bitcast %129 : vector<2xf16> to i32
          %131 = llvm.extractvalue %59#0[22] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %132 = llvm.extractvalue %59#0[23] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %133 = nvvm.convert.f32x2.to.f16x2 %132, %131 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %134 = llvm.bitcast %133 : vector<2xf16> to i32
          nvvm.stmatrix %118, %122, %126, %130, %134 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
          %c96_i32 = arith.constant 96 : i32
          %135 = arith.xori %77, %c96_i32 : i32
          %136 = arith.addi %65, %135 : i32
          %137 = llvm.getelementptr %3[%136] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
          %138 = llvm.extractvalue %59#0[24] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %139 = llvm.extractvalue %59#0[25] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %140 = nvvm.convert.f32x2.to.f16x2 %139, %138 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %141 = llvm.bitcast %140 : vector<2xf16> to i32
          %142 = llvm.extractvalue %59#0[26] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %143 = llvm.extractvalue %59#0[27] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %144 = nvvm.convert.f32x2.to.f16x2 %143, %142 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %145 = llvm.bitcast %144 : vector<2xf16> to i32
          %146 = llvm.extractvalue %59#0[28] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %147 = llvm.extractvalue %59#0[29] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %148 = nvvm.convert.f32x2.to.f16x2 %147, %146 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %149 = llvm.bitcast %148 : vector<2xf16> to i32
          %150 = llvm.extractvalue %59#0[30] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %151 = llvm.extractvalue %59#0[31] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %152 = nvvm.convert.f32x2.to.f16x2 %151, %150 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
          %153 = llvm.bitcast %152 : vector<2xf16> to i32
          nvvm.stmatrix %137, %141, %145, %149, %153 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
          nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
          nvvm.barrier id = %60 number_of_threads = %c128_i32
          scf.if %12 {
            %154 = llvm.getelementptr %3[%65] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
            %c0_i32_29 = arith.constant 0 : i32
            %155 = arith.addi %31, %c0_i32_29 : i32
            nvvm.cp.async.bulk.tensor.global.shared.cta %arg2, %154, box[%155, %62] : !llvm.ptr, <3>
            nvvm.cp.async.bulk.commit.group
          }
          scf.yield %59#2, %59#3 : i32, i32
        }
        scf.if %12 {
          nvvm.cp.async.bulk.wait_group 0 {read}
        }
      }
      gpu.return
    }
  }
}
