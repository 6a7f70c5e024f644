// Regions that may run at the same time: two kernels fill halves of a buffer, a third one needs both.
func.func private @printMemrefI32(memref<*xi32>)

func.func @main() {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %x = memref.alloc() : memref<8xi32>
  %first, %offset = async.execute -> !async.value<index> {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {
      %i = arith.index_cast %tx : index to i32
      memref.store %i, %x[%tx] : memref<8xi32>
      gpu.terminator
    }
    async.yield %c4 : index
  }
  %second = async.execute (%offset as %four: !async.value<index>) {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %four, %sy = %c1, %sz = %c1) {
      %at = arith.addi %tx, %four : index
      %i = arith.index_cast %at : index to i32
      memref.store %i, %x[%at] : memref<8xi32>
      gpu.terminator
    }
    async.yield
  }
  %third = async.execute [%first, %second] {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {
      %at = affine.apply affine_map<(d0) -> (2 * d0)>(%tx)
      %i = memref.load %x[%at] : memref<8xi32>
      %j = arith.muli %i, %i : i32
      memref.store %j, %x[%at] : memref<8xi32>
      gpu.terminator
    }
    async.yield
  }
  async.await %third : !async.token
  %any = memref.cast %x : memref<8xi32> to memref<*xi32>
  call @printMemrefI32(%any) : (memref<*xi32>) -> ()
  return
}
