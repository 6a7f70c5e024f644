// A host program launches kernels of two modules on one buffer, in shared host memory.
module attributes {gpu.container_module} {
  gpu.module @first {
    gpu.func @fill(%x: memref<13xi32>) kernel {
      %t = gpu.thread_id x
      %i = arith.index_cast %t : index to i32
      memref.store %i, %x[%t] : memref<13xi32>
      gpu.return
    }
  }
  gpu.module @second {
    gpu.func @square(%x: memref<13xi32>) kernel {
      %t = gpu.thread_id x
      %i = memref.load %x[%t] : memref<13xi32>
      %zero = arith.constant 0 : i32
      %valid = arith.cmpi sge, %i, %zero : i32
      cf.assert %valid, "the number is negative"
      %j = arith.muli %i, %i : i32
      memref.store %j, %x[%t] : memref<13xi32>
      gpu.return
    }
  }
  func.func private @printMemrefI32(memref<*xi32>)
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c13 = arith.constant 13 : index
    %x = gpu.alloc host_shared () : memref<13xi32>
    %seven = arith.constant 7 : i32
    gpu.launch_func @first::@fill blocks in (%c1, %c1, %c1) threads in (%c13, %c1, %c1) args(%x : memref<13xi32>)
    gpu.launch_func @second::@square blocks in (%c1, %c1, %c1) threads in (%c13, %c1, %c1) args(%x : memref<13xi32>)
    %any = memref.cast %x : memref<13xi32> to memref<*xi32>
    call @printMemrefI32(%any) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<13xi32>
    return
  }
}
