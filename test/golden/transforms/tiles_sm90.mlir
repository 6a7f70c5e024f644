#map = affine_map<(d0) -> ((d0 + 1) mod 2)>
#map1 = affine_map<(d0) -> (d0 * 64)>
#map2 = affine_map<(d0) -> (d0 * 4096)>
#map3 = affine_map<(d0) -> (d0 mod 4)>
#map4 = affine_map<(d0) -> (d0 mod 128)>
#map5 = affine_map<(d0, d1) -> (d0 * 4096 + d1)>
#map6 = affine_map<(d0, d1, d2) -> (d0 * 64 + d2 * 128 + d1)>
#map7 = affine_map<(d0, d1) -> (d0 * 4096 + d1 + 1024)>
#map8 = affine_map<(d0, d1, d2) -> (d0 * 64 + d2 * 128 + d1 + 2048)>
#map9 = affine_map<(d0, d1) -> (d0 * 4096 + d1 + 2048)>
#map10 = affine_map<(d0, d1, d2) -> (d0 * 64 + d2 * 128 + d1 + 4096)>
#map11 = affine_map<(d0, d1) -> (d0 * 4096 + d1 + 3072)>
#map12 = affine_map<(d0, d1, d2) -> (d0 * 64 + d2 * 128 + d1 + 6144)>
#map13 = affine_map<(d0, d1, d2, d3) -> (d1 * 64 + d3 * 128 + d0 * 8192 + d2)>
#map14 = affine_map<(d0, d1, d2, d3) -> (d1 * 64 + d3 * 128 + d0 * 8192 + d2 + 2048)>
#map15 = affine_map<(d0, d1, d2, d3) -> (d1 * 64 + d3 * 128 + d0 * 8192 + d2 + 4096)>
#map16 = affine_map<(d0, d1, d2, d3) -> (d1 * 64 + d3 * 128 + d0 * 8192 + d2 + 6144)>
#map17 = affine_map<(d0, d1) -> (d0 * 72 + d1)>
#map18 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 576)>
#map19 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 8)>
#map20 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 584)>
#map21 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 16)>
#map22 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 592)>
#map23 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 24)>
#map24 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 600)>
#map25 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 32)>
#map26 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 608)>
#map27 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 40)>
#map28 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 616)>
#map29 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 48)>
#map30 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 624)>
#map31 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 56)>
#map32 = affine_map<(d0, d1) -> (d0 * 72 + d1 + 632)>
#map33 = affine_map<(d0) -> ((d0 mod 8) * 8 + (d0 floordiv 8) * 72)>
#map34 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128)>
#map35 = affine_map<(d0) -> ((d0 mod 8) * 8 + (d0 floordiv 8) * 72 + 1152)>
#map36 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 2048)>
#map37 = affine_map<(d0) -> ((d0 mod 8) * 8 + (d0 floordiv 8) * 72 + 2304)>
#map38 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 4096)>
#map39 = affine_map<(d0) -> ((d0 mod 8) * 8 + (d0 floordiv 8) * 72 + 3456)>
#map40 = affine_map<(d0, d1) -> ((d1 mod 8) * 8 + d0 * 64 + (d1 floordiv 8) * 128 + 6144)>
module attributes {gpu.container_module} {
  gpu.module @matmul_module {
    gpu.func @matmul(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: memref<8192xf16>) kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 2, 1, 1>, lego.tensor_maps = [{box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 64>, strides = array<i64: 256>, swizzle = 128 : i64, written = false}, {box = array<i64: 64, 64>, dtype = "f16", sizes = array<i64: 128, 128>, strides = array<i64: 256>, swizzle = 128 : i64, written = false}, unit], nvvm.minctasm = 1 : i32} {
      %0 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %c0 = arith.constant 0 : index
      %view = memref.view %0[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<4608xf16, #gpu.address_space<workgroup>>
      %c9216 = arith.constant 9216 : index
      %view_0 = memref.view %0[%c9216][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<8192xf16, #gpu.address_space<workgroup>>
      %c25600 = arith.constant 25600 : index
      %view_1 = memref.view %0[%c25600][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<8192xf16, #gpu.address_space<workgroup>>
      %thread_id_x = gpu.thread_id x
      %block_id_x = gpu.block_id x
      %1 = nvgpu.mbarrier.create {lego.ring} -> <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
      %c1 = arith.constant 1 : index
      %2 = index.cmp slt(%thread_id_x, %c1)
      scf.if %2 {
        %c0_4 = arith.constant 0 : index
        nvgpu.mbarrier.init %1[%c0_4], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        nvgpu.mbarrier.init %1[%c1], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
        nvvm.fence.mbarrier.init
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      }
      %3 = nvgpu.mbarrier.create {lego.ring} -> <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
      scf.if %2 {
        %c0_4 = arith.constant 0 : index
        nvgpu.mbarrier.init %3[%c0_4], %c1 : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
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
        %c0_i32_4 = arith.constant 0 : i32
        %c0_5 = arith.constant 0 : index
        %c2 = arith.constant 2 : index
        %13:2 = scf.for %arg3 = %c0_5 to %c2 step %c1 iter_args(%arg4 = %c0_i32_4, %arg5 = %c0_i32_4) -> (i32, i32) {
          %14 = arith.index_cast %arg5 : i32 to index
          %15 = index.cmp sle(%c0_5, %14)
          %16 = index.cmp slt(%14, %c2)
          %17 = arith.andi %15, %16 : i1
          llvm.intr.assume %17 : i1 {lego.claim = "0 <= %445 < 2"}
          %18 = arith.index_cast %arg4 : i32 to index
          %19 = index.cmp sle(%c0_5, %18)
          %20 = index.cmp slt(%18, %c2)
          %21 = arith.andi %19, %20 : i1
          llvm.intr.assume %21 : i1 {lego.claim = "0 <= %446 < 2"}
          %22 = affine.apply #map(%18)
          %23 = index.cmp ne(%22, %c0_5)
          %c10000000 = arith.constant 10000000 : index
          %24 = arith.extui %23 : i1 to i32
          %25 = nvgpu.mbarrier.get %3[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
          %26 = llvm.inttoptr %25 : i64 to !llvm.ptr<3>
          llvm.inline_asm has_side_effects "{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [$0], $1; @done bra.uni go; bra.uni again; go: }", "r,r,~{memory}" %26, %24 : (!llvm.ptr<3>, i32) -> ()
          %27 = affine.apply #map1(%arg3)
          %28 = affine.apply #map2(%14)
          %29 = arith.index_cast %6 : i32 to index
          %30 = affine.apply #map3(%29)
          %c56 = arith.constant 56 : index
          %31 = affine.apply #map4(%thread_id_x)
          %32 = index.and %c56, %31
          %c3 = arith.constant 3 : index
          %33 = index.shl %31, %c3
          %34 = index.xor %32, %33
          %35 = affine.apply #map5(%14, %34)
          %c7 = arith.constant 7 : index
          %36 = index.and %c7, %31
          %37 = index.shl %36, %c3
          %38 = index.shrs %31, %c3
          %39 = affine.apply #map6(%arg3, %37, %38)
          %40 = affine.apply #map7(%14, %34)
          %41 = affine.apply #map8(%arg3, %37, %38)
          %42 = affine.apply #map9(%14, %34)
          %43 = affine.apply #map10(%arg3, %37, %38)
          %44 = affine.apply #map11(%14, %34)
          %45 = affine.apply #map12(%arg3, %37, %38)
          %c0_6 = arith.constant 0 : index
          %46 = arith.cmpi eq, %30, %c0_6 : index
          scf.if %46 {
            %71 = nvvm.elect.sync -> i1
            scf.if %71 {
              %intptr = memref.extract_aligned_pointer_as_index %view_0 : memref<8192xf16, #gpu.address_space<workgroup>> -> index
              %c2_12 = arith.constant 2 : index
              %72 = arith.muli %28, %c2_12 : index
              %73 = arith.index_cast %72 : index to i32
              %74 = arith.index_cast %intptr : index to i32
              %75 = arith.addi %74, %73 : i32
              %76 = arith.index_cast %27 : index to i32
              %77 = arith.index_cast %c0_5 : index to i32
              %78 = nvgpu.mbarrier.get %1[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
              %79 = llvm.inttoptr %78 : i64 to !llvm.ptr<3>
              %c8192_i32 = arith.constant 8192 : i32
              nvvm.mbarrier.expect_tx %79, %c8192_i32 : !llvm.ptr<3>, i32
              %80 = llvm.inttoptr %75 : i32 to !llvm.ptr<3>
              %81 = llvm.addrspacecast %80 : !llvm.ptr<3> to !llvm.ptr<7>
              nvvm.cp.async.bulk.tensor.shared.cluster.global %81, %arg0, %79, box[%76, %77] : !llvm.ptr<7>, !llvm.ptr
            }
          }
          %47 = affine.apply #map1(%block_id_x)
          %c56_7 = arith.constant 56 : index
          %48 = affine.apply #map4(%thread_id_x)
          %49 = index.and %c56_7, %48
          %c3_8 = arith.constant 3 : index
          %50 = index.shl %48, %c3_8
          %51 = index.xor %49, %50
          %52 = affine.apply #map5(%14, %51)
          %c7_9 = arith.constant 7 : index
          %53 = index.and %c7_9, %48
          %54 = index.shl %53, %c3_8
          %55 = index.shrs %48, %c3_8
          %56 = affine.apply #map13(%block_id_x, %arg3, %54, %55)
          %57 = affine.apply #map7(%14, %51)
          %58 = affine.apply #map14(%block_id_x, %arg3, %54, %55)
          %59 = affine.apply #map9(%14, %51)
          %60 = affine.apply #map15(%block_id_x, %arg3, %54, %55)
          %61 = affine.apply #map11(%14, %51)
          %62 = affine.apply #map16(%block_id_x, %arg3, %54, %55)
          %c0_10 = arith.constant 0 : index
          %63 = arith.cmpi eq, %30, %c0_10 : index
          scf.if %63 {
            %71 = nvvm.elect.sync -> i1
            scf.if %71 {
              %intptr = memref.extract_aligned_pointer_as_index %view_1 : memref<8192xf16, #gpu.address_space<workgroup>> -> index
              %c2_12 = arith.constant 2 : index
              %72 = arith.muli %28, %c2_12 : index
              %73 = arith.index_cast %72 : index to i32
              %74 = arith.index_cast %intptr : index to i32
              %75 = arith.addi %74, %73 : i32
              %76 = arith.index_cast %27 : index to i32
              %77 = arith.index_cast %47 : index to i32
              %78 = nvgpu.mbarrier.get %1[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
              %79 = llvm.inttoptr %78 : i64 to !llvm.ptr<3>
              %c8192_i32 = arith.constant 8192 : i32
              nvvm.mbarrier.expect_tx %79, %c8192_i32 : !llvm.ptr<3>, i32
              %80 = llvm.inttoptr %75 : i32 to !llvm.ptr<3>
              %81 = llvm.addrspacecast %80 : !llvm.ptr<3> to !llvm.ptr<7>
              nvvm.cp.async.bulk.tensor.shared.cluster.global %81, %arg1, %79, box[%76, %77] : !llvm.ptr<7>, !llvm.ptr
            }
          }
          %c-1_i32_11 = arith.constant -1 : i32
          nvvm.bar.warp.sync %c-1_i32_11 : i32
          %64 = affine.apply #map4(%thread_id_x)
          %65 = index.cmp slt(%64, %c1)
          scf.if %65 {
            %71 = nvgpu.mbarrier.arrive %1[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
          }
          %c1_i32 = arith.constant 1 : i32
          %66 = arith.cmpi eq, %arg5, %c1_i32 : i32
          %67 = arith.subi %c1_i32, %arg4 : i32
          %68 = arith.select %66, %67, %arg4 : i32
          %69 = arith.addi %arg5, %c1_i32 : i32
          %70 = arith.select %66, %c0_i32_4, %69 : i32
          scf.yield %68, %70 : i32, i32
        }
      } {lego.registers = 24 : i32, lego.warps = array<i32: 4, 8>}
      %c0_i32_2 = arith.constant 0 : i32
      %c4_i32_3 = arith.constant 4 : i32
      %10 = arith.cmpi uge, %6, %c0_i32_2 : i32
      %11 = arith.cmpi ult, %6, %c4_i32_3 : i32
      %12 = arith.andi %10, %11 : i1
      scf.if %12 {
        nvvm.setmaxregister decrease 240
        %c0_i32_4 = arith.constant 0 : i32
        %cst = arith.constant 0.000000e+00 : f32
        %c0_5 = arith.constant 0 : index
        %c2 = arith.constant 2 : index
        %13:35 = scf.for %arg3 = %c0_5 to %c2 step %c1 iter_args(%arg4 = %cst, %arg5 = %cst, %arg6 = %cst, %arg7 = %cst, %arg8 = %cst, %arg9 = %cst, %arg10 = %cst, %arg11 = %cst, %arg12 = %cst, %arg13 = %cst, %arg14 = %cst, %arg15 = %cst, %arg16 = %cst, %arg17 = %cst, %arg18 = %cst, %arg19 = %cst, %arg20 = %cst, %arg21 = %cst, %arg22 = %cst, %arg23 = %cst, %arg24 = %cst, %arg25 = %cst, %arg26 = %cst, %arg27 = %cst, %arg28 = %cst, %arg29 = %cst, %arg30 = %cst, %arg31 = %cst, %arg32 = %cst, %arg33 = %cst, %arg34 = %cst, %arg35 = %cst, %arg36 = %c0_i32_4, %arg37 = %c0_i32_4, %arg38 = %c0_i32_4) -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32, i32) {
          %125 = arith.index_cast %arg38 : i32 to index
          %126 = index.cmp sle(%c0_5, %125)
          %127 = index.cmp slt(%125, %c2)
          %128 = arith.andi %126, %127 : i1
          llvm.intr.assume %128 : i1 {lego.claim = "0 <= %445 < 2"}
          %129 = arith.index_cast %arg37 : i32 to index
          %130 = index.cmp sle(%c0_5, %129)
          %131 = index.cmp slt(%129, %c2)
          %132 = arith.andi %130, %131 : i1
          llvm.intr.assume %132 : i1 {lego.claim = "0 <= %446 < 2"}
          %133 = arith.index_cast %arg36 : i32 to index
          %134 = index.cmp sle(%c0_5, %133)
          %135 = index.cmp slt(%133, %c2)
          %136 = arith.andi %134, %135 : i1
          llvm.intr.assume %136 : i1 {lego.claim = "0 <= %447 < 2"}
          %137 = index.cmp ne(%129, %c0_5)
          %c10000000 = arith.constant 10000000 : index
          %138 = arith.extui %137 : i1 to i32
          %139 = nvgpu.mbarrier.get %1[%125] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> i64
          %140 = llvm.inttoptr %139 : i64 to !llvm.ptr<3>
          llvm.inline_asm has_side_effects "{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [$0], $1; @done bra.uni go; bra.uni again; go: }", "r,r,~{memory}" %140, %138 : (!llvm.ptr<3>, i32) -> ()
          %141 = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
          %intptr = memref.extract_aligned_pointer_as_index %141 : memref<?xi8, #gpu.address_space<workgroup>> -> index
          %142 = arith.index_cast %intptr : index to i32
          %c25600_i32 = arith.constant 25600 : i32
          %143 = arith.addi %142, %c25600_i32 : i32
          %c262143_i32 = arith.constant 262143 : i32
          %144 = arith.andi %143, %c262143_i32 : i32
          %c4_i32_7 = arith.constant 4 : i32
          %145 = arith.shrui %144, %c4_i32_7 : i32
          %c0_i32_8 = arith.constant 0 : i32
          %146 = arith.ori %145, %c0_i32_8 : i32
          %147 = affine.apply #map2(%125)
          %148 = arith.index_cast %147 : index to i32
          %c2_i32 = arith.constant 2 : i32
          %149 = arith.muli %148, %c2_i32 : i32
          %c4_i32_9 = arith.constant 4 : i32
          %150 = arith.shrui %149, %c4_i32_9 : i32
          %151 = arith.addi %146, %150 : i32
          %c-1_i32_10 = arith.constant -1 : i32
          %c0_i32_11 = arith.constant 0 : i32
          %c31_i32_12 = arith.constant 31 : i32
          %152 = nvvm.shfl.sync idx %c-1_i32_10, %151, %c0_i32_11, %c31_i32_12 : i32 -> i32
          %c9216_i32 = arith.constant 9216 : i32
          %153 = arith.addi %142, %c9216_i32 : i32
          %c262143_i32_13 = arith.constant 262143 : i32
          %154 = arith.andi %153, %c262143_i32_13 : i32
          %c4_i32_14 = arith.constant 4 : i32
          %155 = arith.shrui %154, %c4_i32_14 : i32
          %c0_i32_15 = arith.constant 0 : i32
          %156 = arith.ori %155, %c0_i32_15 : i32
          %157 = arith.index_cast %147 : index to i32
          %c2_i32_16 = arith.constant 2 : i32
          %158 = arith.muli %157, %c2_i32_16 : i32
          %c4_i32_17 = arith.constant 4 : i32
          %159 = arith.shrui %158, %c4_i32_17 : i32
          %160 = arith.addi %156, %159 : i32
          %c-1_i32_18 = arith.constant -1 : i32
          %c0_i32_19 = arith.constant 0 : i32
          %c31_i32_20 = arith.constant 31 : i32
          %161 = nvvm.shfl.sync idx %c-1_i32_18, %160, %c0_i32_19, %c31_i32_20 : i32 -> i32
          %162 = llvm.inline_asm has_side_effects asm_dialect = att "{\0A\09.reg .pred p;\0A\09.reg .b64 a, b, a0, b0;\0A\09wgmma.fence.sync.aligned;\0A\09mov.b64 b0, {$65, 1073741888};\0A\09add.s64 b, b0, 0;\0A\09mov.b64 a0, {$64, 1073741888};\0A\09add.s64 a, a0, 0;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09add.s64 b, b0, 2;\0A\09add.s64 a, a0, 2;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09add.s64 b, b0, 4;\0A\09add.s64 a, a0, 4;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09add.s64 b, b0, 6;\0A\09add.s64 a, a0, 6;\0A\09setp.ne.b32 p, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31}, a, b, p, 1, 1, 0, 0;\0A\09wgmma.commit_group.sync.aligned;\0A\09}", "=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,r,r" %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %161, %152 : (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
          %163 = llvm.extractvalue %162[0] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %164 = llvm.extractvalue %162[1] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %165 = llvm.extractvalue %162[2] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %166 = llvm.extractvalue %162[3] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %167 = llvm.extractvalue %162[4] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %168 = llvm.extractvalue %162[5] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %169 = llvm.extractvalue %162[6] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %170 = llvm.extractvalue %162[7] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %171 = llvm.extractvalue %162[8] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %172 = llvm.extractvalue %162[9] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %173 = llvm.extractvalue %162[10] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %174 = llvm.extractvalue %162[11] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %175 = llvm.extractvalue %162[12] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %176 = llvm.extractvalue %162[13] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %177 = llvm.extractvalue %162[14] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %178 = llvm.extractvalue %162[15] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %179 = llvm.extractvalue %162[16] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %180 = llvm.extractvalue %162[17] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %181 = llvm.extractvalue %162[18] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %182 = llvm.extractvalue %162[19] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %183 = llvm.extractvalue %162[20] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %184 = llvm.extractvalue %162[21] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %185 = llvm.extractvalue %162[22] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %186 = llvm.extractvalue %162[23] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %187 = llvm.extractvalue %162[24] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %188 = llvm.extractvalue %162[25] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %189 = llvm.extractvalue %162[26] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %190 = llvm.extractvalue %162[27] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %191 = llvm.extractvalue %162[28] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %192 = llvm.extractvalue %162[29] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %193 = llvm.extractvalue %162[30] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          %194 = llvm.extractvalue %162[31] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)> 
          llvm.inline_asm has_side_effects asm_dialect = att "wgmma.wait_group.sync.aligned 1;", "~{memory}"  : () -> ()
          %195 = index.cmp slt(%c0_5, %arg3)
          scf.if %195 {
            %c-1_i32_21 = arith.constant -1 : i32
            nvvm.bar.warp.sync %c-1_i32_21 : i32
            %201 = affine.apply #map4(%thread_id_x)
            %202 = index.cmp slt(%201, %c1)
            scf.if %202 {
              %203 = nvgpu.mbarrier.arrive %3[%133] {lego.products_before, lego.products_go_on} : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
            }
          }
          %c1_i32 = arith.constant 1 : i32
          %196 = arith.cmpi eq, %arg38, %c1_i32 : i32
          %197 = arith.subi %c1_i32, %arg37 : i32
          %198 = arith.select %196, %197, %arg37 : i32
          %199 = arith.addi %arg38, %c1_i32 : i32
          %200 = arith.select %196, %c0_i32_4, %199 : i32
          scf.yield %163, %164, %165, %166, %167, %168, %169, %170, %171, %172, %173, %174, %175, %176, %177, %178, %179, %180, %181, %182, %183, %184, %185, %186, %187, %188, %189, %190, %191, %192, %193, %194, %arg38, %198, %200 : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, i32, i32, i32
        }
        %14 = arith.index_cast %13#32 : i32 to index
        %15 = index.cmp sle(%c0_5, %14)
        %16 = index.cmp slt(%14, %c2)
        %17 = arith.andi %15, %16 : i1
        llvm.intr.assume %17 : i1 {lego.claim = "0 <= %634 < 2"}
        %c-1_i32_6 = arith.constant -1 : i32
        nvvm.bar.warp.sync %c-1_i32_6 : i32
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
          %125 = nvgpu.mbarrier.arrive %3[%14] : <memorySpace = #gpu.address_space<workgroup>, num_barriers = 2> -> !nvgpu.mbarrier.token
        }
        %53 = arith.truncf %19 : f32 to f16
        %54 = arith.truncf %20 : f32 to f16
        %55 = arith.truncf %21 : f32 to f16
        %56 = arith.truncf %22 : f32 to f16
        %57 = arith.truncf %23 : f32 to f16
        %58 = arith.truncf %24 : f32 to f16
        %59 = arith.truncf %25 : f32 to f16
        %60 = arith.truncf %26 : f32 to f16
        %61 = arith.truncf %27 : f32 to f16
        %62 = arith.truncf %28 : f32 to f16
        %63 = arith.truncf %29 : f32 to f16
        %64 = arith.truncf %30 : f32 to f16
        %65 = arith.truncf %31 : f32 to f16
        %66 = arith.truncf %32 : f32 to f16
        %67 = arith.truncf %33 : f32 to f16
        %68 = arith.truncf %34 : f32 to f16
        %69 = arith.truncf %35 : f32 to f16
        %70 = arith.truncf %36 : f32 to f16
        %71 = arith.truncf %37 : f32 to f16
        %72 = arith.truncf %38 : f32 to f16
        %73 = arith.truncf %39 : f32 to f16
        %74 = arith.truncf %40 : f32 to f16
        %75 = arith.truncf %41 : f32 to f16
        %76 = arith.truncf %42 : f32 to f16
        %77 = arith.truncf %43 : f32 to f16
        %78 = arith.truncf %44 : f32 to f16
        %79 = arith.truncf %45 : f32 to f16
        %80 = arith.truncf %46 : f32 to f16
        %81 = arith.truncf %47 : f32 to f16
        %82 = arith.truncf %48 : f32 to f16
        %83 = arith.truncf %49 : f32 to f16
        %84 = arith.truncf %50 : f32 to f16
        %85 = vector.from_elements %53, %54 : vector<2xf16>
        %c28 = arith.constant 28 : index
        %86 = index.and %c28, %thread_id_x
        %87 = index.shrs %86, %c2
        %c96 = arith.constant 96 : index
        %88 = index.and %c96, %thread_id_x
        %89 = index.shrs %88, %c1
        %90 = index.or %87, %89
        %c3 = arith.constant 3 : index
        %91 = index.and %c3, %thread_id_x
        %92 = index.shl %91, %c1
        %93 = affine.apply #map17(%90, %92)
        vector.store %85, %view[%93] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %94 = vector.from_elements %55, %56 : vector<2xf16>
        %95 = affine.apply #map18(%90, %92)
        vector.store %94, %view[%95] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %96 = vector.from_elements %57, %58 : vector<2xf16>
        %97 = affine.apply #map19(%90, %92)
        vector.store %96, %view[%97] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %98 = vector.from_elements %59, %60 : vector<2xf16>
        %99 = affine.apply #map20(%90, %92)
        vector.store %98, %view[%99] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %100 = vector.from_elements %61, %62 : vector<2xf16>
        %101 = affine.apply #map21(%90, %92)
        vector.store %100, %view[%101] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %102 = vector.from_elements %63, %64 : vector<2xf16>
        %103 = affine.apply #map22(%90, %92)
        vector.store %102, %view[%103] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %104 = vector.from_elements %65, %66 : vector<2xf16>
        %105 = affine.apply #map23(%90, %92)
        vector.store %104, %view[%105] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %106 = vector.from_elements %67, %68 : vector<2xf16>
        %107 = affine.apply #map24(%90, %92)
        vector.store %106, %view[%107] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %108 = vector.from_elements %69, %70 : vector<2xf16>
        %109 = affine.apply #map25(%90, %92)
        vector.store %108, %view[%109] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %110 = vector.from_elements %71, %72 : vector<2xf16>
        %111 = affine.apply #map26(%90, %92)
        vector.store %110, %view[%111] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %112 = vector.from_elements %73, %74 : vector<2xf16>
        %113 = affine.apply #map27(%90, %92)
        vector.store %112, %view[%113] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %114 = vector.from_elements %75, %76 : vector<2xf16>
        %115 = affine.apply #map28(%90, %92)
        vector.store %114, %view[%115] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %116 = vector.from_elements %77, %78 : vector<2xf16>
        %117 = affine.apply #map29(%90, %92)
        vector.store %116, %view[%117] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %118 = vector.from_elements %79, %80 : vector<2xf16>
        %119 = affine.apply #map30(%90, %92)
        vector.store %118, %view[%119] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %120 = vector.from_elements %81, %82 : vector<2xf16>
        %121 = affine.apply #map31(%90, %92)
        vector.store %120, %view[%121] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        %122 = vector.from_elements %83, %84 : vector<2xf16>
        %123 = affine.apply #map32(%90, %92)
        vector.store %122, %view[%123] {alignment = 4 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<2xf16>
        nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
        %124 = arith.index_cast %c2 : index to i32
        %c128_i32 = arith.constant 128 : i32
        nvvm.barrier id = %124 number_of_threads = %c128_i32
        %c64 = arith.constant 64 : index
        scf.for %arg3 = %c0_5 to %c64 step %c64 {
          %125 = affine.apply #map33(%thread_id_x)
          %126 = vector.load %view[%125] {alignment = 16 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<8xf16>
          %127 = affine.apply #map34(%block_id_x, %thread_id_x)
          vector.store %126, %arg2[%127] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
          %128 = affine.apply #map35(%thread_id_x)
          %129 = vector.load %view[%128] {alignment = 16 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<8xf16>
          %130 = affine.apply #map36(%block_id_x, %thread_id_x)
          vector.store %129, %arg2[%130] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
          %131 = affine.apply #map37(%thread_id_x)
          %132 = vector.load %view[%131] {alignment = 16 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<8xf16>
          %133 = affine.apply #map38(%block_id_x, %thread_id_x)
          vector.store %132, %arg2[%133] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
          %134 = affine.apply #map39(%thread_id_x)
          %135 = vector.load %view[%134] {alignment = 16 : i64} : memref<4608xf16, #gpu.address_space<workgroup>>, vector<8xf16>
          %136 = affine.apply #map40(%block_id_x, %thread_id_x)
          vector.store %135, %arg2[%136] {alignment = 16 : i64} : memref<8192xf16>, vector<8xf16>
        }
      } {lego.registers = 240 : i32, lego.warps = array<i32: 0, 4>}
      gpu.return
    }
  }
}
