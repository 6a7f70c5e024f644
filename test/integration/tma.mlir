// A bulk copy by a tensor map descriptor, which the interpreter refuses.
!tile = memref<64x8xf32, #gpu.address_space<workgroup>>
!map = !nvgpu.tensormap.descriptor<tensor = !tile, swizzle = none, l2promo = none, oob = zero, interleave = none>
func.func @main() {
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %x = memref.alloc() : memref<64x8xf32>
  %any = memref.cast %x : memref<64x8xf32> to memref<*xf32>
  %d = nvgpu.tma.create.descriptor %any box[%c64, %c8] : memref<*xf32> -> !map
  return
}
