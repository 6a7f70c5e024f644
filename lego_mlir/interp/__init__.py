"""Run GPU kernels on a machine without a GPU: execute MLIR in lockstep on NumPy arrays, detect races, count traffic."""

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
