"""An emulator of PTX on NumPy arrays: what the NVPTX back end emitted, run without a GPU, its faults reported.

ptx_reader          text -> entries and instructions with operands and lines
decoder             an instruction -> a closure on a gang; one module of `instructions` per family
gangs               warps at one instruction, executed together; splits and merges
gang_scheduler      which gang runs next (random, by seed), deadlocks
ptx_machine         resident blocks, addresses, checked accesses
shared_shadow       races and uninitialised reads, by vector clocks
ptx_launch          `emulate`: arguments, waves of blocks, the report
"""

from lego_mlir.interp.ptx.ptx_launch import emulate

__all__ = ["emulate"]
