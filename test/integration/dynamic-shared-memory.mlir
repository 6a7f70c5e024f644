// A block reverses its numbers through dynamic shared memory that two views divide.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @reverse(%x: memref<64xf32>, %y: memref<64xi32>) kernel {
      %t = gpu.thread_id x
      %raw = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %zero = arith.constant 0 : index
      %half = arith.constant 256 : index
      %a = memref.view %raw[%zero][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<64xf32, #gpu.address_space<workgroup>>
      %b = memref.view %raw[%half][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<64xi32, #gpu.address_space<workgroup>>
      %v = memref.load %x[%t] : memref<64xf32>
      %w = memref.load %y[%t] : memref<64xi32>
      memref.store %v, %a[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      memref.store %w, %b[%t] : memref<64xi32, #gpu.address_space<workgroup>>
      gpu.barrier
      %other = affine.apply affine_map<(d0) -> (63 - d0)>(%t)
      %p = memref.load %a[%other] : memref<64xf32, #gpu.address_space<workgroup>>
      %q = memref.load %b[%other] : memref<64xi32, #gpu.address_space<workgroup>>
      memref.store %p, %x[%t] : memref<64xf32>
      memref.store %q, %y[%t] : memref<64xi32>
      gpu.return
    }
  }
  func.func private @printMemrefF32(memref<*xf32>)
  func.func private @printMemrefI32(memref<*xi32>)
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %bytes = arith.constant 512 : i32
    %hx = memref.alloc() : memref<64xf32>
    %hy = memref.alloc() : memref<64xi32>
    scf.for %i = %c0 to %c64 step %c1 {
      %n = arith.index_cast %i : index to i32
      %f = arith.sitofp %n : i32 to f32
      memref.store %f, %hx[%i] : memref<64xf32>
      memref.store %n, %hy[%i] : memref<64xi32>
    }
    %t0 = gpu.wait async
    %x, %t1 = gpu.alloc async [%t0] () : memref<64xf32>
    %y, %t2 = gpu.alloc async [%t1] () : memref<64xi32>
    %t3 = gpu.memcpy async [%t2] %x, %hx : memref<64xf32>, memref<64xf32>
    %t4 = gpu.memcpy async [%t3] %y, %hy : memref<64xi32>, memref<64xi32>
    %t5 = gpu.launch_func async [%t4] @kernels::@reverse blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1)
        dynamic_shared_memory_size %bytes args(%x : memref<64xf32>, %y : memref<64xi32>)
    %t6 = gpu.memcpy async [%t5] %hx, %x : memref<64xf32>, memref<64xf32>
    %t7 = gpu.memcpy async [%t6] %hy, %y : memref<64xi32>, memref<64xi32>
    %t8 = gpu.dealloc async [%t7] %x : memref<64xf32>
    gpu.wait [%t8]
    %fx = memref.cast %hx : memref<64xf32> to memref<*xf32>
    call @printMemrefF32(%fx) : (memref<*xf32>) -> ()
    %fy = memref.cast %hy : memref<64xi32> to memref<*xi32>
    call @printMemrefI32(%fy) : (memref<*xi32>) -> ()
    return
  }
}
