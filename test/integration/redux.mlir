// Reductions of a warp: of all lanes, of clusters of lanes, and by the instruction for integers.
func.func private @printMemrefI32(memref<*xi32>)

func.func @main() {
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %made = memref.alloc() : memref<4x32xi32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {
    %i = arith.index_cast %tx : index to i32
    %all = arith.constant -1 : i32
    %sum = gpu.subgroup_reduce add %i : (i32) -> i32
    %most = gpu.subgroup_reduce maxui %i cluster(size = 8) : (i32) -> i32
    %apart = gpu.subgroup_reduce add %i cluster(size = 4, stride = 8) : (i32) -> i32
    %least = nvvm.redux.sync umin %i, %all : i32 -> i32
    affine.store %sum, %made[0, symbol(%tx)] : memref<4x32xi32>
    affine.store %most, %made[1, symbol(%tx)] : memref<4x32xi32>
    affine.store %apart, %made[2, symbol(%tx)] : memref<4x32xi32>
    affine.store %least, %made[3, symbol(%tx)] : memref<4x32xi32>
    gpu.terminator
  }
  %any = memref.cast %made : memref<4x32xi32> to memref<*xi32>
  call @printMemrefI32(%any) : (memref<*xi32>) -> ()
  return
}
