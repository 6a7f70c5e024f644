// Eight threads of each of two blocks reduce their numbers to one, in every way that gpu.all_reduce has.
func.func private @printMemrefI32(memref<*xi32>) attributes {llvm.emit_c_interface}
func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}

func.func @main() {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %numbers = memref.alloc() : memref<2x8xi32>
  %found = memref.alloc() : memref<2x9xi32>
  %real = memref.alloc() : memref<2x2xf32>
  %any = memref.cast %numbers : memref<2x8xi32> to memref<*xi32>
  gpu.host_register %any : memref<*xi32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c2, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c8, %sy = %c1, %sz = %c1) {
    %n = affine.apply affine_map<(b, t) -> (5 * t - 7 * b - 9)>(%bx, %tx)
    %i = arith.index_cast %n : index to i32
    memref.store %i, %numbers[%bx, %tx] : memref<2x8xi32>
    gpu.terminator
  }
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c2, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c8, %sy = %c1, %sz = %c1) {
    %v = memref.load %numbers[%bx, %tx] : memref<2x8xi32>
    %first = arith.constant 0 : index
    %x = arith.sitofp %v : i32 to f32
    %add = gpu.all_reduce add %v uniform {} : (i32) -> (i32)
    %and = gpu.all_reduce and %v uniform {} : (i32) -> (i32)
    %or = gpu.all_reduce or %v uniform {} : (i32) -> (i32)
    %xor = gpu.all_reduce xor %v uniform {} : (i32) -> (i32)
    %minsi = gpu.all_reduce minsi %v uniform {} : (i32) -> (i32)
    %maxsi = gpu.all_reduce maxsi %v uniform {} : (i32) -> (i32)
    %minui = gpu.all_reduce minui %v uniform {} : (i32) -> (i32)
    %maxui = gpu.all_reduce maxui %v uniform {} : (i32) -> (i32)
    %largest = gpu.all_reduce %v uniform {
    ^bb(%a : i32, %b : i32):
      %more = arith.cmpi ugt, %a, %b : i32
      %most = arith.select %more, %a, %b : i32
      gpu.yield %most : i32
    } : (i32) -> (i32)
    %smallest = gpu.all_reduce minimumf %x uniform {} : (f32) -> (f32)
    %product = gpu.all_reduce mul %x uniform {} : (f32) -> (f32)
    %leader = arith.cmpi eq, %tx, %first : index
    scf.if %leader {
      affine.store %add, %found[symbol(%bx), 0] : memref<2x9xi32>
      affine.store %and, %found[symbol(%bx), 1] : memref<2x9xi32>
      affine.store %or, %found[symbol(%bx), 2] : memref<2x9xi32>
      affine.store %xor, %found[symbol(%bx), 3] : memref<2x9xi32>
      affine.store %minsi, %found[symbol(%bx), 4] : memref<2x9xi32>
      affine.store %maxsi, %found[symbol(%bx), 5] : memref<2x9xi32>
      affine.store %minui, %found[symbol(%bx), 6] : memref<2x9xi32>
      affine.store %maxui, %found[symbol(%bx), 7] : memref<2x9xi32>
      affine.store %largest, %found[symbol(%bx), 8] : memref<2x9xi32>
      affine.store %smallest, %real[symbol(%bx), 0] : memref<2x2xf32>
      affine.store %product, %real[symbol(%bx), 1] : memref<2x2xf32>
    }
    gpu.terminator
  }
  %shown = memref.cast %found : memref<2x9xi32> to memref<*xi32>
  call @printMemrefI32(%shown) : (memref<*xi32>) -> ()
  %reals = memref.cast %real : memref<2x2xf32> to memref<*xf32>
  call @printMemrefF32(%reals) : (memref<*xf32>) -> ()
  return
}
