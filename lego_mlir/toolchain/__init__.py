"""The toolchain: mlir -> transformed -> nvvm -> llvm -> ptx -> cubin, from Python packages alone.

`compile_kernel` is the entry, `stages` the road, `targets` the table of GPUs. Nothing heavy is imported until a stage
runs.
"""

from lego_mlir.toolchain.cache import Cache, default_folder
from lego_mlir.toolchain.compile import Compilation, compile_kernel
from lego_mlir.toolchain.pipeline import Pass, Pipeline
from lego_mlir.toolchain.targets import TARGETS, Target, target_named

__all__ = [
    "TARGETS",
    "Cache",
    "Compilation",
    "Pass",
    "Pipeline",
    "Target",
    "compile_kernel",
    "default_folder",
    "target_named",
]
