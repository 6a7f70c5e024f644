"""The kernels of a second week: right in the interpreter and, bit for bit the same, by their PTX, with ragged sizes.

Where NumPy's functions and those of PTX differ in the last bits (`CLOSE`), the two are compared within them.
"""

from pathlib import Path

import numpy as np
import pytest

from lego_mlir import interp, spec
from lego_mlir.cli.main import main
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.interp.ptx import emulate
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.runtime.data import concrete, positions
from lego_mlir.toolchain import compile_kernel

FOLDER = Path(__file__).parents[1] / "examples" / "second_week"
RAGGED = {
    "block_sparse": [{"R": 1, "S": 1, "Z": 1, "N": 8}, {"R": 5, "S": 3, "Z": 7, "N": 72}],
    "cholesky": [{"B": 1}, {"B": 37}],
    "cross_entropy": [{"M": 3, "N": 1}, {"M": 2, "N": 301}],
    "depthwise_conv": [{"H": 1, "W": 1}, {"H": 3, "W": 67}],
    "fft": [{"B": 1}, {"B": 3}],
    "fused_classifier": [{"M": 1, "V": 1, "P": 8}, {"M": 3, "V": 2051, "P": 2056}],
    "implicit_gemm": [{"H": 1, "W": 1, "C": 32, "F": 8}, {"H": 2, "W": 67, "C": 64, "F": 72}],
    "linear_recurrence": [{"M": 1, "N": 1}, {"M": 5, "N": 77}],
    "moe_routing": [{"N": 1}, {"N": 300}],
    "philox_dropout": [{"N": 4}, {"N": 1028}],
    "paged_decode": [{"B": 1, "P": 8}, {"B": 2, "P": 9}],
    "radix_sort": [{"N": 1}, {"N": 1025}],
    "rms_norm_f8": [{"M": 2, "N": 8}, {"M": 3, "N": 1096}],
    "segmented_sum": [{"N": 1, "S": 1}, {"N": 1500, "S": 40}],
    "selective_scan": [{"L": 1, "C": 1}, {"L": 77, "C": 2}],
    "state_update": [{"B": 1}, {"B": 2}],
    "stencil7": [{"D": 1, "H": 1, "W": 1}, {"D": 3, "H": 5, "W": 33}],
    "top_experts": [{"M": 1}, {"M": 6}],
    "w4a16": [{"M": 1, "N": 8, "K": 128}, {"M": 33, "N": 72, "K": 256}],
}
CLOSE = {
    "block_sparse": 1e-4,
    "fused_classifier": 1e-2,
    "implicit_gemm": 2e-3,
    "w4a16": 2e-3,
    "cross_entropy": 1e-6,
    "paged_decode": 1e-3,
    "selective_scan": 1e-5,
    "top_experts": 1e-6,
    "state_update": 1e-5,
    "rms_norm_f8": 0.13,
}  # log and exp; the rounding of a scaled number to f8 follows rsqrt; tensor cores add in their own order
CASES = [(name, sizes) for name, several in RAGGED.items() for sizes in several]


def test_every_example_has_ragged_sizes():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(RAGGED)


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_it_agrees_with_numpy_without_a_fault(name, sizes, capsys):
    words = [word for size, n in sizes.items() for word in ("--size", f"{size}={n}")]
    assert main(["run", str(FOLDER / f"{name}.py"), *words]) == 0, capsys.readouterr().out


def memories_of(kernel, sizes):
    rng = np.random.default_rng(5)
    known = {"rng": rng, **sizes}
    asked = kernel.supplied.__code__.co_varnames if kernel.supplied else ()
    supplied = kernel.supplied(**{name: known[name] for name in known if name in asked}) if kernel.supplied else {}
    for parameter in kernel.params:
        if parameter.layout is None:
            yield supplied.get(parameter.name, 0.125)
            continue
        shape = [concrete(n, sizes) for n in parameter.layout.dims()]
        high = min(8, sizes.get("N", 2)) if not parameter.dtype.is_float else 0
        drawn = rng.integers(0, high, shape) if high else rng.standard_normal(shape)
        memory = np.full(concrete(parameter.size, sizes), 7).astype(parameter.dtype.numpy)
        memory[positions(parameter.layout, sizes)] = supplied.get(parameter.name, drawn).astype(parameter.dtype.numpy)
        yield memory


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_its_ptx_and_a_cpu_compute_the_same(name, sizes):
    (kernel,) = spec.load(FOLDER / f"{name}.py").kernels.values()
    grid, block = ([int(evaluate(n, sizes)) for n in extents] for extents in (kernel.grid, kernel.block))
    given = list(memories_of(kernel, sizes))
    trailing = [sizes[size.name] for size in kernel.sizes]
    compiled = compile_kernel((kernel,), target="sm_90a")
    runs = []
    for run in ("interpreter", "PTX", "CPU"):
        args = [*(value.copy() if isinstance(value, np.ndarray) else value for value in given), *trailing]
        if run == "PTX":
            shared = compiled.kernels[0].dynamic_shared
            report = emulate(compiled.text, kernel.name, args=args, grid=grid, block=block, dynamic_shared=shared)
        elif run == "CPU":
            compile_kernels(kernel.mlir())[kernel.name](args, grid=tuple(grid))
        else:
            report = interp.launch(kernel.mlir(), grid=grid, block=block, args=args)
        assert report.clean, report.faults
        runs.append([a for a in args if isinstance(a, np.ndarray)])
    for expected, found in [pair for run in runs[1:] for pair in zip(runs[0], run, strict=True)]:
        if name in CLOSE:
            wide = (a.astype(np.float64) for a in (found, expected))
            np.testing.assert_allclose(*wide, rtol=CLOSE[name], atol=0.002 if name == "rms_norm_f8" else 1e-5)
        else:
            np.testing.assert_array_equal(*(a.view(np.uint8) for a in (found, expected)))
