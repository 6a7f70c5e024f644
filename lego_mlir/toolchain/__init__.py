"""The toolchain: mlir -> transformed -> nvvm -> llvm -> ptx -> cubin, from Python packages alone.

`compile.compile_kernel` is the entry, `stages` the pipeline, `lowering` the passes of MLIR, `llvm` and `ptxas` what
turns LLVM IR into PTX and machine code. It knows no front end.

Each name below is loaded from its module when it is first used, and nothing heavy before a stage runs.

Sections:

- stages: `compile`, `stages`, `lowering`, `exchange`, `llvm`, `llvm_options`, `ptxas`, `kept`, `manifest`
- code for GPUs: `intrinsics`, `literals`, `mathlib`, `tensor_scopes`, `block_text`, `early_loads`, `eager_uses`,
  `late_sums`, `loaded_words`, `masked_words`, `scaled_sums`, `short_reversals`, `wide_extremes`, `sass`, `triton_text`,
  `nvidia_tools`
- code for CPUs: `host_loops`, `host_warps`, `host_units`, `host_functions`, `host_divisions`, `host_rounding`,
  `host_printing`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.late_names import attached as _attached

if TYPE_CHECKING:
    from lego_mlir.hardware.targets import TARGETS as TARGETS
    from lego_mlir.hardware.targets import Target as Target
    from lego_mlir.hardware.targets import target_named as target_named
    from lego_mlir.store import Cache as Cache
    from lego_mlir.store import default_folder as default_folder
    from lego_mlir.toolchain.compile import Compilation as Compilation
    from lego_mlir.toolchain.compile import compile_kernel as compile_kernel
    from lego_mlir.transforms.pipeline import Pipeline as Pipeline
    from lego_mlir.transforms.pipeline import PipelinePass as PipelinePass

__getattr__, __dir__, __all__ = _attached(__name__)
