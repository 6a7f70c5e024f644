"""Run GPU kernels on a machine without a GPU: execute MLIR in lockstep on NumPy arrays, find races, count traffic."""

from lego_mlir.interp.kernels import run_kernel
from lego_mlir.interp.launch import compile_module, launch
from lego_mlir.interp.report import Fault, Kind, Place, Report, Site, Totals, Writer

__all__ = ["Fault", "Kind", "Place", "Report", "Site", "Totals", "Writer", "compile_module", "launch", "run_kernel"]
