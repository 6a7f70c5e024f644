#map = affine_map<(d0) -> ((d0 + 1) mod 2)>
#map1 = affine_map<(d0) -> (d0 * 64)>
#map2 = affine_map<(d0) -> (d0 * 4096)>
#map3 = affine_map<(d0) -> (d0 mod 4)>
#map4 = affine_map<(d0) -> (d0 mod 128)>
#map5 = affine_map<(d0) -> ((d0 floordiv 8) mod 8)>
#map6 = affine_map<(d0) -> (d0 mod 8)>
#map7 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8) * 64)>
#map8 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128)>
#map9 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 16) * 64)>
#map10 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 2048)>
#map11 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 32) * 64)>
#map12 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 4096)>
#map13 = affine_map<(d0, d1) -> (d1 * 8 + (d0 floordiv 8 + 48) * 64)>
#map14 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 6144)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, lego.tensor_maps = [{box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 64>, strides = array<i64: 256>, swizzle = 128 : i64, written = false}, {box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 128>, strides = array<i64: 256>, swizzle = 128 : i64, written = false}, {box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 64>, strides = array<i64: 256>, swizzle = 128 : i64, written = true}], nvvm.minctasm = 1 : i32} {
      %0 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %c0 = arith.constant 0 : index
      %view = memref.view %0[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<8192xf16, #gpu.address_space<workgroup>>
      %c0_0 = arith.constant 0 : index
      %view_1 = memref.view %0[%c0_0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<8192xf16, #gpu.address_space<workgroup>>
      %c16384 = arith.constant 16384 : index
      %view_2 = memref.view %0[%c16384][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<8192xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %1 = nvgpu.mbarrier.create {lego.ring} -> <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
      %c1 = arith.constant 1 : index
      %2 = index.cmp slt(%thread_id_x, %c1)
      scf.if %2 {
        %c0_5 = arith.constant 0 : index
        nvgpu.mbarrier.init %1[%c0_5], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        nvgpu.mbarrier.init %1[%c1], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        nvvm.fence.mbarrier.init
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      }
      %3 = nvgpu.mbarrier.create {lego.ring} -> <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
      scf.if %2 {
        %c0_5 = arith.constant 0 : index
        nvgpu.mbarrier.init %3[%c0_5], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        nvgpu.mbarrier.init %3[%c1], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        nvvm.fence.mbarrier.init
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      }
      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      gpu.barrier
      %4 = nvvm.read.ptx.sreg.tid.x : i32
      %c5_i32 = arith.constant 5 : i32
      %5 = arith.shrui %4, %c5_i32 : i32
      %c-1_i32 = arith.constant -1 : i32
      %c0_i32 = arith.constant 0 : i32
      %c31_i32 = arith.constant 31 : i32
      %6 = nvvm.shfl.sync idx %c-1_i32, %5, %c0_i32, %c31_i32 : i32 -> i32
      %c4_i32 = arith.constant 4 : i32
      %c8_i32 = arith.constant 8 : i32
      %7 = arith.cmpi uge, %6, %c4_i32 : i32
      %8 = arith.cmpi ult, %6, %c8_i32 : i32
      %9 = arith.andi %7, %8 : i1
      scf.if %9 {
        nvvm.setmaxregister decrease 24
        %c0_i32_5 = arith.constant 0 : i32
        %c0_6 = arith.constant 0 : index
        %c2 = arith.constant 2 : index
        %13:2 = scf.for %arg3 = %c0_6 to %c2 step %c1 iter_args(%arg4 = %c0_i32_5, %arg5 = %c0_i32_5) -> (i32, i32) {
          %14 = arith.index_cast %arg5 : i32 to index
          %15 = index.cmp sle(%c0_6, %14)
          %16 = index.cmp slt(%14, %c2)
          %17 = arith.andi %15, %16 : i1
          llvm.intr.assume %17 : i1 {lego.claim = "0 <= %529 < 2"}
          %18 = arith.index_cast %arg4 : i32 to index
          %19 = index.cmp sle(%c0_6, %18)
          %20 = index.cmp slt(%18, %c2)
          %21 = arith.andi %19, %20 : i1
          llvm.intr.assume %21 : i1 {lego.claim = "0 <= %530 < 2"}
          %22 = affine.apply #map(%18)
          %23 = index.cmp ne(%22, %c0_6)
          %c10000000 = arith.constant 10000000 : index
          %24 = arith.extui %23 : i1 to i32
          %25 = nvgpu.mbarrier.get %3[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
          %26 = llvm.inttoptr %25 : i64 to !llvm.ptr<3>
          llvm.inline_asm has_side_effects "{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [$0], $1; @done bra.uni go; bra.uni again; go: }", "r,r,~{memory}" %26, %24 : (!llvm.ptr<3>, i32) -> ()
          %27 = affine.apply #map1(%arg3)
          %28 = affine.apply #map2(%14)
          %29 = arith.index_cast %6 : i32 to index
          %30 = affine.apply #map3(%29)
          %c64 = arith.constant 64 : index
          %c16 = arith.constant 16 : index
          %c0_7 = arith.constant 0 : index
          %31 = arith.cmpi eq, %30, %c0_7 : index
          scf.if %31 {
            %41 = nvvm.elect.sync -> i1
            scf.if %41 {
              %intptr = memref.extract_aligned_pointer_as_index %view_1 : memref<8192xf16, #gpu.address_space<workgroup>> -> index
              %c2_12 = arith.constant 2 : index
              %42 = arith.muli %28, %c2_12 : index
              %43 = arith.index_cast %42 : index to i32
              %44 = arith.index_cast %intptr : index to i32
              %45 = arith.addi %44, %43 : i32
              %46 = nvgpu.mbarrier.get %1[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
              %47 = llvm.inttoptr %46 : i64 to !llvm.ptr<3>
              %c8192_i32 = arith.constant 8192 : i32
              nvvm.mbarrier.expect_tx %47, %c8192_i32 : !llvm.ptr<3>, i32
              %48 = arith.index_cast %27 : index to i32
              %49 = arith.index_cast %c0_6 : index to i32
              %50 = llvm.inttoptr %45 : i32 to !llvm.ptr<3>
              %51 = llvm.addrspacecast %50 : !llvm.ptr<3> to !llvm.ptr<7>
              nvvm.cp.async.bulk.tensor.shared.cluster.global %51, %arg0, %47, box[%48, %49] : !llvm.ptr<7>, !llvm.ptr
            }
          }
          %32 = affine.apply #map1(%block_id_x)
          %c64_8 = arith.constant 64 : index
          %c16_9 = arith.constant 16 : index
          %c0_10 = arith.constant 0 : index
          %33 = arith.cmpi eq, %30, %c0_10 : index
          scf.if %33 {
            %41 = nvvm.elect.sync -> i1
            scf.if %41 {
              %intptr = memref.extract_aligned_pointer_as_index %view_2 : memref<8192xf16, #gpu.address_space<workgroup>> -> index
              %c2_12 = arith.constant 2 : index
              %42 = arith.muli %28, %c2_12 : index
              %43 = arith.index_cast %42 : index to i32
              %44 = arith.index_cast %intptr : index to i32
              %45 = arith.addi %44, %43 : i32
              %46 = nvgpu.mbarrier.get %1[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
              %47 = llvm.inttoptr %46 : i64 to !llvm.ptr<3>
              %c8192_i32 = arith.constant 8192 : i32
              nvvm.mbarrier.expect_tx %47, %c8192_i32 : !llvm.ptr<3>, i32
              %48 = arith.index_cast %27 : index to i32
              %49 = arith.index_cast %32 : index to i32
              %50 = llvm.inttoptr %45 : i32 to !llvm.ptr<3>
              %51 = llvm.addrspacecast %50 : !llvm.ptr<3> to !llvm.ptr<7>
              nvvm.cp.async.bulk.tensor.shared.cluster.global %51, %arg1, %47, box[%48, %49] : !llvm.ptr<7>, !llvm.ptr
            }
          }
          %c-1_i32_11 = arith.constant -1 : i32
          nvvm.bar.warp.sync %c-1_i32_11 : i32
          %34 = affine.apply #map4(%thread_id_x)
          %35 = index.cmp slt(%34, %c1)
          scf.if %35 {
            %41 = nvgpu.mbarrier.arrive %1[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
          }
          %c1_i32 = arith.constant 1 : i32
          %36 = arith.cmpi eq, %arg5, %c1_i32 : i32
          %37 = arith.subi %c1_i32, %arg4 : i32
          %38 = arith.select %36, %37, %arg4 : i32
          %39 = arith.addi %arg5, %c1_i32 : i32
          %40 = arith.select %36, %c0_i32_5, %39 : i32
          scf.yield %38, %40 : i32, i32
        }
      } {lego.registers = 24 : i32, lego.warps = array<i32: 4, 8>}
      %c0_i32_3 = arith.constant 0 : i32
      %c4_i32_4 = arith.constant 4 : i32
      %10 = arith.cmpi uge, %6, %c0_i32_3 : i32
      %11 = arith.cmpi ult, %6, %c4_i32_4 : i32
      %12 = arith.andi %10, %11 : i1
      scf.if %12 {
        nvvm.setmaxregister decrease 240
        %c0_i32_5 = arith.constant 0 : i32
        %cst = arith.constant 0.000000e+00 : f32
        %c0_6 = arith.constant 0 : index
        %c2 = arith.constant 2 : index
        %13:35 = scf.for %arg3 = %c0_6 to %c2 step %c1 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst, %arg15 = %cst, %arg16 = %cst, %arg17 = %cst, %arg18 = %cst, %arg19 = %cst, %arg20 = %cst, %arg21 = %cst, %arg22 = %cst, %arg23 = %cst, %arg24 = %cst, %arg25 = %cst, %arg26 = %cst, %arg27 = %cst, %arg28 = %cst, %arg29 = %cst, %arg30 = %cst, %arg31 = %cst, %arg32 = %cst, %arg33 = %cst, %arg34 = %cst, %arg35 = %cst, %arg36 = %c0_i32_5, %arg37 = %c0_i32_5, %arg38 = %c0_i32_5) -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32, i32) {
          %165 = arith.index_cast %arg38 : i32 to index
          %166 = index.cmp sle(%c0_6, %165)
          %167 = index.cmp slt(%165, %c2)
          %168 = arith.andi %166, %167 : i1
          llvm.intr.assume %168 : i1 {lego.claim = "0 <= %529 < 2"}
          %169 = arith.index_cast %arg37 : i32 to index
          %170 = index.cmp sle(%c0_6, %169)
          %171 = index.cmp slt(%169, %c2)
          %172 = arith.andi %170, %171 : i1
          llvm.intr.assume %172 : i1 {lego.claim = "0 <= %530 < 2"}
          %173 = arith.index_cast %arg36 : i32 to index
          %174 = index.cmp sle(%c0_6, %173)
          %175 = index.cmp slt(%173, %c2)
          %176 = arith.andi %174, %175 : i1
          llvm.intr.assume %176 : i1 {lego.claim = "0 <= %531 < 2"}
          %177 = index.cmp ne(%169, %c0_6)
          %c10000000 = arith.constant 10000000 : index
          %178 = arith.extui %177 : i1 to i32
          %179 = nvgpu.mbarrier.get %1[%165] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
          %180 = llvm.inttoptr %179 : i64 to !llvm.ptr<3>
          llvm.inline_asm has_side_effects "{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [$0], $1; @done bra.uni go; bra.uni again; go: }", "r,r,~{memory}" %180, %178 : (!llvm.ptr<3>, i32) -> ()
          %181 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
          %intptr_14 = memref.extract_aligned_pointer_as_index %181 : memref<?xi8, #gpu.address_space<workgroup>> -> index
          %182 = arith.index_cast %intptr_14 : index to i32
          %c16384_i32 = arith.constant 16384 : i32
          %183 = arith.addi %182, %c16384_i32 : i32
          %c262143_i32 = arith.constant 262143 : i32
          %184 = arith.andi %183, %c262143_i32 : i32
          %c4_i32_15 = arith.constant 4 : i32
          %185 = arith.shrui %184, %c4_i32_15 : i32
          %c0_i32_16 = arith.constant 0 : i32
          %186 = arith.ori %185, %c0_i32_16 : i32
          %187 = affine.apply #map2(%165)
          %188 = arith.index_cast %187 : index to i32
          %c2_i32_17 = arith.constant 2 : i32
          %189 = arith.muli %188, %c2_i32_17 : i32
          %c4_i32_18 = arith.constant 4 : i32
          %190 = arith.shrui %189, %c4_i32_18 : i32
          %191 = arith.addi %186, %190 : i32
          %c-1_i32_19 = arith.constant -1 : i32
          %c0_i32_20 = arith.constant 0 : i32
          %c31_i32_21 = arith.constant 31 : i32
          %192 = nvvm.shfl.sync idx %c-1_i32_19, %191, %c0_i32_20, %c31_i32_21 : i32 -> i32
          %c0_i32_22 = arith.constant 0 : i32
          %193 = arith.addi %182, %c0_i32_22 : i32
          %c262143_i32_23 = arith.constant 262143 : i32
          %194 = arith.andi %193, %c262143_i32_23 : i32
          %c4_i32_24 = arith.constant 4 : i32
          %195 = arith.shrui %194, %c4_i32_24 : i32
          %c0_i32_25 = arith.constant 0 : i32
          %196 = arith.ori %195, %c0_i32_25 : i32
          %197 = arith.index_cast %187 : index to i32
          %c2_i32_26 = arith.constant 2 : i32
          %198 = arith.muli %197, %c2_i32_26 : i32
          %c4_i32_27 = arith.constant 4 : i32
          %199 = arith.shrui %198, %c4_i32_27 : i32
          %200 = arith.addi %196, %199 : i32
          %c-1_i32_28 = arith.constant -1 : i32
          %c0_i32_29 = arith.constant 0 : i32
          %c31_i32_30 = arith.constant 31 : i32
          %201 = nvvm.shfl.sync idx %c-1_i32_28, %200, %c0_i32_29, %c31_i32_30 : i32 -> i32
          %202 = llvm.inline_asm has_side_effects asm_dialect = att "{\0A\09.reg .pred p;\0A\09.reg .b64 a, b, a0, b0;\0A\09wgmma.fence.sync.aligned;\0A\09mov.b64 b0, {$65, 1073741888};\0A\09add.s64 b, b0, 0;\0A\09mov.b64 a0, {$64, 1073741888};\0A\09add.s64 a, a0, 0;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09add.s64 b, b0, 2;\0A\09add.s64 a, a0, 2;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09add.s64 b, b0, 4;\0A\09add.s64 a, a0, 4;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09add.s64 b, b0, 6;\0A\09add.s64 a, a0, 6;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09wgmma.commit_group.sync.aligned;\0A\09}", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,r,r" %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %201, %192 : (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          %203 = llvm.extractvalue %202[0] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %204 = llvm.extractvalue %202[1] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %205 = llvm.extractvalue %202[2] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %206 = llvm.extractvalue %202[3] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %207 = llvm.extractvalue %202[4] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %208 = llvm.extractvalue %202[5] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %209 = llvm.extractvalue %202[6] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %210 = llvm.extractvalue %202[7] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %211 = llvm.extractvalue %202[8] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %212 = llvm.extractvalue %202[9] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %213 = llvm.extractvalue %202[10] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %214 = llvm.extractvalue %202[11] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %215 = llvm.extractvalue %202[12] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %216 = llvm.extractvalue %202[13] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %217 = llvm.extractvalue %202[14] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %218 = llvm.extractvalue %202[15] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %219 = llvm.extractvalue %202[16] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %220 = llvm.extractvalue %202[17] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %221 = llvm.extractvalue %202[18] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %222 = llvm.extractvalue %202[19] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %223 = llvm.extractvalue %202[20] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %224 = llvm.extractvalue %202[21] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %225 = llvm.extractvalue %202[22] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %226 = llvm.extractvalue %202[23] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %227 = llvm.extractvalue %202[24] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %228 = llvm.extractvalue %202[25] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %229 = llvm.extractvalue %202[26] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %230 = llvm.extractvalue %202[27] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %231 = llvm.extractvalue %202[28] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %232 = llvm.extractvalue %202[29] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %233 = llvm.extractvalue %202[30] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %234 = llvm.extractvalue %202[31] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          llvm.inline_asm has_side_effects asm_dialect = att "wgmma.wait_group.sync.aligned 1;", "~{memory}"  : () -> ()
          %235 = index.cmp slt(%c0_6, %arg3)
          scf.if %235 {
            %c-1_i32_31 = arith.constant -1 : i32
            nvvm.bar.warp.sync %c-1_i32_31 : i32
            %241 = affine.apply #map4(%thread_id_x)
            %242 = index.cmp slt(%241, %c1)
            scf.if %242 {
              %243 = nvgpu.mbarrier.arrive %3[%173] {lego.products_before, lego.products_go_on} : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
            }
          }
          %c1_i32 = arith.constant 1 : i32
          %236 = arith.cmpi eq, %arg38, %c1_i32 : i32
          %237 = arith.subi %c1_i32, %arg37 : i32
          %238 = arith.select %236, %237, %arg37 : i32
          %239 = arith.addi %arg38, %c1_i32 : i32
          %240 = arith.select %236, %c0_i32_5, %239 : i32
          scf.yield %203, %204, %205, %206, %207, %208, %209, %210, %211, %212, %213, %214, %215, %216, %217, %218, %219, %220, %221, %222, %223, %224, %225, %226, %227, %228, %229, %230, %231, %232, %233, %234, %arg38, %238, %240 : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32, i32
        }
        %14 = arith.index_cast %13#32 : i32 to index
        %15 = index.cmp sle(%c0_6, %14)
        %16 = index.cmp slt(%14, %c2)
        %17 = arith.andi %15, %16 : i1
        llvm.intr.assume %17 : i1 {lego.claim = "0 <= %718 < 2"}
        %c-1_i32_7 = arith.constant -1 : i32
        nvvm.bar.warp.sync %c-1_i32_7 : i32
        %18 = llvm.inline_asm has_side_effects asm_dialect = att "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31" %13#0, %13#1, %13#2, %13#3, %13#4, %13#5, %13#6, %13#7, %13#8, %13#9, %13#10, %13#11, %13#12, %13#13, %13#14, %13#15, %13#16, %13#17, %13#18, %13#19, %13#20, %13#21, %13#22, %13#23, %13#24, %13#25, %13#26, %13#27, %13#28, %13#29, %13#30, %13#31 : (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
        %19 = llvm.extractvalue %18[0] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %20 = llvm.extractvalue %18[1] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %21 = llvm.extractvalue %18[2] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %22 = llvm.extractvalue %18[3] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %23 = llvm.extractvalue %18[4] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %24 = llvm.extractvalue %18[5] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %25 = llvm.extractvalue %18[6] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %26 = llvm.extractvalue %18[7] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %27 = llvm.extractvalue %18[8] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %28 = llvm.extractvalue %18[9] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %29 = llvm.extractvalue %18[10] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %30 = llvm.extractvalue %18[11] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %31 = llvm.extractvalue %18[12] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %32 = llvm.extractvalue %18[13] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %33 = llvm.extractvalue %18[14] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %34 = llvm.extractvalue %18[15] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %35 = llvm.extractvalue %18[16] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %36 = llvm.extractvalue %18[17] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %37 = llvm.extractvalue %18[18] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %38 = llvm.extractvalue %18[19] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %39 = llvm.extractvalue %18[20] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %40 = llvm.extractvalue %18[21] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %41 = llvm.extractvalue %18[22] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %42 = llvm.extractvalue %18[23] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %43 = llvm.extractvalue %18[24] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %44 = llvm.extractvalue %18[25] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %45 = llvm.extractvalue %18[26] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %46 = llvm.extractvalue %18[27] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %47 = llvm.extractvalue %18[28] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %48 = llvm.extractvalue %18[29] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %49 = llvm.extractvalue %18[30] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %50 = llvm.extractvalue %18[31] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
        %51 = affine.apply #map4(%thread_id_x)
        %52 = index.cmp slt(%51, %c1)
        scf.if %52 {
          %165 = nvgpu.mbarrier.arrive %3[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
        }
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
        %53 = arith.index_cast %c2 : index to i32
        %c128_i32 = arith.constant 128 : i32
        nvvm.barrier id = %53 number_of_threads = %c128_i32
        %54 = arith.truncf %19 : f32 to f16
        %55 = arith.truncf %20 : f32 to f16
        %56 = arith.truncf %21 : f32 to f16
        %57 = arith.truncf %22 : f32 to f16
        %58 = arith.truncf %23 : f32 to f16
        %59 = arith.truncf %24 : f32 to f16
        %60 = arith.truncf %25 : f32 to f16
        %61 = arith.truncf %26 : f32 to f16
        %62 = arith.truncf %27 : f32 to f16
        %63 = arith.truncf %28 : f32 to f16
        %64 = arith.truncf %29 : f32 to f16
        %65 = arith.truncf %30 : f32 to f16
        %66 = arith.truncf %31 : f32 to f16
        %67 = arith.truncf %32 : f32 to f16
        %68 = arith.truncf %33 : f32 to f16
        %69 = arith.truncf %34 : f32 to f16
        %70 = arith.truncf %35 : f32 to f16
        %71 = arith.truncf %36 : f32 to f16
        %72 = arith.truncf %37 : f32 to f16
        %73 = arith.truncf %38 : f32 to f16
        %74 = arith.truncf %39 : f32 to f16
        %75 = arith.truncf %40 : f32 to f16
        %76 = arith.truncf %41 : f32 to f16
        %77 = arith.truncf %42 : f32 to f16
        %78 = arith.truncf %43 : f32 to f16
        %79 = arith.truncf %44 : f32 to f16
        %80 = arith.truncf %45 : f32 to f16
        %81 = arith.truncf %46 : f32 to f16
        %82 = arith.truncf %47 : f32 to f16
        %83 = arith.truncf %48 : f32 to f16
        %84 = arith.truncf %49 : f32 to f16
        %85 = arith.truncf %50 : f32 to f16
        %86 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
        %intptr = memref.extract_aligned_pointer_as_index %86 : memref<?xi8, #gpu.address_space<workgroup>> -> index
        %87 = arith.index_cast %intptr : index to i32
        %c0_i32_8 = arith.constant 0 : i32
        %88 = arith.addi %87, %c0_i32_8 : i32
        %c15 = arith.constant 15 : index
        %89 = index.and %c15, %thread_id_x
        %c6 = arith.constant 6 : index
        %90 = index.shl %89, %c6
        %c7 = arith.constant 7 : index
        %91 = index.and %c7, %thread_id_x
        %c3 = arith.constant 3 : index
        %92 = index.shl %91, %c3
        %93 = index.or %90, %92
        %c16 = arith.constant 16 : index
        %94 = index.and %c16, %thread_id_x
        %95 = index.shrs %94, %c1
        %96 = index.xor %93, %95
        %c96 = arith.constant 96 : index
        %97 = index.and %c96, %thread_id_x
        %c5 = arith.constant 5 : index
        %98 = index.shl %97, %c5
        %99 = index.or %96, %98
        %100 = arith.index_cast %99 : index to i32
        %c2_i32 = arith.constant 2 : i32
        %101 = arith.muli %100, %c2_i32 : i32
        %102 = arith.addi %88, %101 : i32
        %103 = llvm.inttoptr %102 : i32 to !llvm.ptr<3>
        %104 = nvvm.convert.f32x2.to.f16x2 %20, %19 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %105 = llvm.bitcast %104 : vector<2xf16> to i32
        %106 = nvvm.convert.f32x2.to.f16x2 %22, %21 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %107 = llvm.bitcast %106 : vector<2xf16> to i32
        %108 = nvvm.convert.f32x2.to.f16x2 %24, %23 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %109 = llvm.bitcast %108 : vector<2xf16> to i32
        %110 = nvvm.convert.f32x2.to.f16x2 %26, %25 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %111 = llvm.bitcast %110 : vector<2xf16> to i32
        nvvm.stmatrix %103, %105, %107, %109, %111 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
        %112 = index.xor %99, %c16
        %113 = arith.index_cast %112 : index to i32
        %c2_i32_9 = arith.constant 2 : i32
        %114 = arith.muli %113, %c2_i32_9 : i32
        %115 = arith.addi %88, %114 : i32
        %116 = llvm.inttoptr %115 : i32 to !llvm.ptr<3>
        %117 = nvvm.convert.f32x2.to.f16x2 %28, %27 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %118 = llvm.bitcast %117 : vector<2xf16> to i32
        %119 = nvvm.convert.f32x2.to.f16x2 %30, %29 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %120 = llvm.bitcast %119 : vector<2xf16> to i32
        %121 = nvvm.convert.f32x2.to.f16x2 %32, %31 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %122 = llvm.bitcast %121 : vector<2xf16> to i32
        %123 = nvvm.convert.f32x2.to.f16x2 %34, %33 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %124 = llvm.bitcast %123 : vector<2xf16> to i32
        nvvm.stmatrix %116, %118, %120, %122, %124 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
        %c32 = arith.constant 32 : index
        %125 = index.xor %99, %c32
        %126 = arith.index_cast %125 : index to i32
        %c2_i32_10 = arith.constant 2 : i32
        %127 = arith.muli %126, %c2_i32_10 : i32
        %128 = arith.addi %88, %127 : i32
        %129 = llvm.inttoptr %128 : i32 to !llvm.ptr<3>
        %130 = nvvm.convert.f32x2.to.f16x2 %36, %35 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %131 = llvm.bitcast %130 : vector<2xf16> to i32
        %132 = nvvm.convert.f32x2.to.f16x2 %38, %37 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %133 = llvm.bitcast %132 : vector<2xf16> to i32
        %134 = nvvm.convert.f32x2.to.f16x2 %40, %39 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %135 = llvm.bitcast %134 : vector<2xf16> to i32
        %136 = nvvm.convert.f32x2.to.f16x2 %42, %41 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %137 = llvm.bitcast %136 : vector<2xf16> to i32
        nvvm.stmatrix %129, %131, %133, %135, %137 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
        %c48 = arith.constant 48 : index
        %138 = index.xor %99, %c48
        %139 = arith.index_cast %138 : index to i32
        %c2_i32_11 = arith.constant 2 : i32
        %140 = arith.muli %139, %c2_i32_11 : i32
        %141 = arith.addi %88, %140 : i32
        %142 = llvm.inttoptr %141 : i32 to !llvm.ptr<3>
        %143 = nvvm.convert.f32x2.to.f16x2 %44, %43 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %144 = llvm.bitcast %143 : vector<2xf16> to i32
        %145 = nvvm.convert.f32x2.to.f16x2 %46, %45 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %146 = llvm.bitcast %145 : vector<2xf16> to i32
        %147 = nvvm.convert.f32x2.to.f16x2 %48, %47 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %148 = llvm.bitcast %147 : vector<2xf16> to i32
        %149 = nvvm.convert.f32x2.to.f16x2 %50, %49 {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>
        %150 = llvm.bitcast %149 : vector<2xf16> to i32
        nvvm.stmatrix %142, %144, %146, %148, %150 {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32, i32, i32
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
        %c128_i32_12 = arith.constant 128 : i32
        nvvm.barrier id = %53 number_of_threads = %c128_i32_12
        %151 = affine.apply #map1(%block_id_x)
        %152 = arith.index_cast %6 : i32 to index
        %153 = affine.apply #map5(%thread_id_x)
        %154 = affine.apply #map6(%thread_id_x)
        %155 = index.xor %153, %154
        %156 = affine.apply #map7(%thread_id_x, %155)
        %157 = affine.apply #map8(%block_id_x, %thread_id_x)
        %158 = affine.apply #map9(%thread_id_x, %155)
        %159 = affine.apply #map10(%block_id_x, %thread_id_x)
        %160 = affine.apply #map11(%thread_id_x, %155)
        %161 = affine.apply #map12(%block_id_x, %thread_id_x)
        %162 = affine.apply #map13(%thread_id_x, %155)
        %163 = affine.apply #map14(%block_id_x, %thread_id_x)
        %c0_13 = arith.constant 0 : index
        %164 = arith.cmpi eq, %152, %c0_13 : index
        scf.if %164 {
          %165 = nvvm.elect.sync -> i1
          scf.if %165 {
            %intptr_14 = memref.extract_aligned_pointer_as_index %view : memref<8192xf16, #gpu.address_space<workgroup>> -> index
            %c2_15 = arith.constant 2 : index
            %166 = arith.muli %c0_6, %c2_15 : index
            %167 = arith.index_cast %166 : index to i32
            %168 = arith.index_cast %intptr_14 : index to i32
            %169 = arith.addi %168, %167 : i32
            %170 = arith.index_cast %151 : index to i32
            %171 = arith.index_cast %c0_6 : index to i32
            %172 = llvm.inttoptr %169 : i32 to !llvm.ptr<3>
            nvvm.cp.async.bulk.tensor.global.shared.cta %arg2, %172, box[%170, %171] : !llvm.ptr, <3>
          }
        }
        nvvm.cp.async.bulk.commit.group
        nvvm.cp.async.commit.group
      } {lego.registers = 240 : i32, lego.warps = array<i32: 0, 4>}
      nvvm.cp.async.bulk.commit.group
      nvvm.cp.async.bulk.wait_group 0 {read}
      gpu.return
    }
  }
}
