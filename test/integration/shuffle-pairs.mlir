// Two groups of a partial warp trade values; the second result tells which lanes had a partner.
func.func private @printMemrefF32(memref<*xf32>)

func.func @main() {
  %c1 = arith.constant 1 : index
  %c12 = arith.constant 12 : index
  %made = memref.alloc() : memref<12xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c12, %sy = %c1, %sz = %c1) {
    %i = arith.index_cast %tx : index to i32
    %x = arith.sitofp %i : i32 to f32
    %width = arith.constant 8 : i32
    %two = arith.constant 2 : i32
    %none = arith.constant -1.0 : f32
    %given, %valid = gpu.shuffle down %x, %two, %width : f32
    %shown = arith.select %valid, %given, %none : f32
    memref.store %shown, %made[%tx] : memref<12xf32>
    gpu.terminator
  }
  %any = memref.cast %made : memref<12xf32> to memref<*xf32>
  call @printMemrefF32(%any) : (memref<*xf32>) -> ()
  return
}
