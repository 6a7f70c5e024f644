"""An emulator of PTX on NumPy arrays: what the NVPTX back end emitted, run without a GPU, its faults reported.

ptx_reader          text -> entries and instructions with operands and lines; source_places: lines of the source
linking             calls -> the bodies of what they call; call_stack: functions that call themselves
decoder             an instruction -> a closure on a gang; one module of `instructions` per family
gangs               warps at one instruction, executed together; splits and merges
gang_scheduler      which gang runs next (random, by seed), deadlocks
ptx_machine         resident blocks, addresses, checked accesses
shared_shadow       races and uninitialised reads, by vector clocks
global_shadow       races on global memory; device_order: what orders blocks; device_heap: malloc and free
request_counts      bank conflicts and sectors by line; line_mix: instructions, lanes and divergence
address_overflow    32-bit overflow in what addresses are made of; nonfinite: where NaN is born
checks              what is checked besides
divided_launches    long launches on several processes; recorded_launches, replays: launches as data, run again
bulk_tensor_maps    the boxes of bulk copies; wgmma_descriptors: the operands of wgmma
regions             hot runs of instructions as machine code, with the checks inside
ptx_launch          `emulate`: arguments, waves of blocks, the report
stream_launches     `emulate_stream`: kernels that begin before the previous one has ended
traced_ptx          `PtxRun`: a traced kernel, compiled and emulated
"""

from lego_mlir.interp.ptx.bulk_tensor_maps import TensorMapArgument
from lego_mlir.interp.ptx.ptx_launch import emulate
from lego_mlir.interp.ptx.traced_ptx import PtxRun

__all__ = ["PtxRun", "TensorMapArgument", "emulate"]
