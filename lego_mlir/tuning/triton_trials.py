"""The trial of a Triton text, compiled where it is measured: nothing but Triton, NumPy and the driver is needed.

Triton's code has parameters after those of the source: memory for its descriptors, and for its profiler. They become
temporaries of the program that launches the kernel.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir.store import default_folder
from lego_mlir.toolchain import triton_text

if TYPE_CHECKING:
    from lego_mlir.tuning.gpu_trials import GpuTrial

SCRATCH: Final = "triton_scratch"


def compiled(trial: GpuTrial, architecture: int) -> GpuTrial:
    """A trial of Triton's text with its code for this device. Raises DependencyError without Triton."""
    given, text = trial.described["triton"], trial.code.decode()
    name = f"lego_tuned_{hashlib.sha256(trial.code).hexdigest()[:20]}"
    module = triton_text.module_of(text, name, given["kernel"], default_folder() / "rendered")
    function = getattr(module, given["kernel"])
    made = triton_text.compiled(function, given["signature"], given["constants"], architecture, given["options"])
    described = {
        **trial.described, "target": f"sm_{architecture}", "code": "cubin",
        "code_sha256": hashlib.sha256(made.cubin).hexdigest(),
    }  # fmt: skip
    (kernel,), (program,) = described["kernels"], described["programs"]
    extra = [f"{SCRATCH}_{i}" for i in range(made.parameters - len(kernel["arguments"]))]
    memory = {"dtype": "i8", "elements": max(made.scratch_bytes * math.prod(kernel["grid"]), 1)}
    described["kernels"] = [{
        **kernel, "block": [made.threads], "dynamic_shared_bytes": made.shared_bytes,
        "arguments": [*kernel["arguments"], *({"name": name, "kind": "tensor", "dtype": "i8"} for name in extra)],
    }]  # fmt: skip
    (step,) = program["steps"]
    described["programs"] = [{
        **program, "temporaries": [{"name": name, **memory} for name in extra],
        "steps": [{**step, "arguments": [*step["arguments"], *({"name": name} for name in extra)]}],
    }]  # fmt: skip
    return replace(trial, code=made.cubin, described=described)
