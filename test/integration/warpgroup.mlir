// A matrix product of a warp group, which the interpreter refuses.
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<128x128xf32>>
func.func @main() {
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c128, %sy = %c1, %sz = %c1) {
    %zero = nvgpu.warpgroup.mma.init.accumulator -> !acc
    gpu.terminator
  }
  return
}
