"""Run GPU kernels on a machine without a GPU: execute MLIR in lockstep on NumPy arrays, detect races, count traffic.

Sections:

- launches: `launch`, `traced_kernels`, `program`, `machine`, `geometry`, `values`, `dialects/`, `ptx/`
- memory: `memory`, `access`, `counters`, `repeats`, `load_sinking`
- order of threads: `graph`, `role_scheduler`, `cluster_blocks`, `warp_order`, `happens_before`, `shadow`,
  `shared_shadow`, `barrier_phases`
- numbers: `rounding`, `directed_rounding`, `extremes`, `mma_fragments`, `warp_shuffles`
- reports: `report`, `faults`, `element_history`, `printed`
"""

from lego_mlir.interp.launch import compile_module, launch
from lego_mlir.interp.report import Fault, Kind, LastWrite, Report, Site, SourceLocation, Totals
from lego_mlir.interp.traced_kernels import run_kernel

__all__ = [
    "Fault",
    "Kind",
    "LastWrite",
    "Report",
    "Site",
    "SourceLocation",
    "Totals",
    "compile_module",
    "launch",
    "run_kernel",
]
