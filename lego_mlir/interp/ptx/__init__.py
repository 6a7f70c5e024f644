"""An emulator of PTX on NumPy arrays: what the NVPTX back end emitted, run without a GPU, its faults reported.

Sections:

- text: `ptx_program`, `ptx_reader`, `ptx_types`, `source_places`, `linking`, `decoder`, `instructions/`, `regions/`
- launches: `ptx_launch`, `ptx_machine`, `traced_ptx`, `divided_launches`, `recorded_launches`, `stream_launches`,
  `replays`, `special_registers`
- threads: `gangs`, `gang_scheduler`, `liveness`, `reconvergence`, `warp_convergence`, `call_stack`
- memory: `address_spaces`, `device_heap`, `texture_memory`, `tensor_memory`, `tensor_formats`, `bulk_tensor_maps`,
  `wgmma_descriptors`, `group_queues`
- races: `global_shadow`, `warp_shadow`, `device_order`
- reports: `checks`, `nonfinite`, `address_overflow`, `line_mix`, `request_counts`, `bank_remedies`
"""

from lego_mlir.interp.ptx.bulk_tensor_maps import TensorMapArgument
from lego_mlir.interp.ptx.ptx_launch import emulate
from lego_mlir.interp.ptx.traced_ptx import PtxRun

__all__ = ["PtxRun", "TensorMapArgument", "emulate"]
