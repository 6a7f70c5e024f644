"""The benchmark of the first day's kernels: its cases, its constants, and its trials, small ones, without a GPU."""

import json
import sys
from types import SimpleNamespace

import first_day  # bench/ is a folder of scripts, not a package
import numpy as np
import pytest
from rivals import first_day as first_day_trials

from lego_mlir import interp, spec
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.toolchain import compile_kernel

SMALL = {
    "conv2d": {"IMAGES": 2, "C": 3, "K": 2, "H": 5, "W": 33},
    "csr_matvec": {"M": 30, "K": 20, "E": 100},
    "embedding": {"V": 40, "D": 256, "N": 9},
    "embedding_in_range": {"V": 40, "D": 8, "N": 9},
    "flash_attention": {"HEADS": 1, "S": 64},
    "grid_sum": {"BLOCKS": 2, "N": 1000},
    "histogram": {"BLOCKS": 2, "N": 1000},
    "matmul_gelu": {"M": 64, "N": 64, "K": 128},
    "persistent_matmul": {"M": 128, "N": 64, "K": 128, "BLOCKS": 1},
    "big_tile": {"M": 1, "N": 1},
    "morton_matmul": {"N": 32},
    "bitonic_sort": {"M": 2},
    "ragged_matmul": {"M": 17, "N": 20, "K": 5},
    "three_pass_scan": {"T": 64, "N": 200},
    "rope": {"S": 3},
    "layer_norm": {"T": 32, "KEPT": 5, "M": 3, "N": 130},
    "row_softmax": {"T": 32, "KEPT": 5, "M": 3, "N": 130},
    "nchw_to_nhwc": {"IMAGES": 2, "C": 9, "P": 40},
    "axpy_f16": {"N": 64},
    "vector_add": {"N": 300},
    "look_back_scan": {"N": 5000},
    "stencil": {"H": 9, "W": 40},
}
MATRIX = {"M": 3, "N": 130, "K": 130}


def test_every_example_is_measured_at_two_sizes_or_more():
    counted = [case.example for case in first_day.CASES]
    assert set(counted) == {path.stem for path in first_day.EXAMPLES.glob("*.py")} == set(first_day_trials.TRIALS)
    assert min(map(counted.count, counted)) >= 2
    assert len({str(case) for case in first_day.CASES}) == len(first_day.CASES)


def test_every_constant_of_a_case_is_in_its_example():
    for case in first_day.CASES:
        text = (first_day.EXAMPLES / f"{case.example}.py").read_text()
        first_day.with_constants(text, case.constants)


def test_constants_are_replaced():
    text = "import x\nM, N = 1, 2\nK = 3\nL = f(K)\n"
    assert first_day.with_constants(text, {"N": 7, "K": 8}) == "import x\nM, N = (1, 7)\nK = 8\nL = f(K)\n"
    with pytest.raises(LookupError, match="no P, Q"):
        first_day.with_constants(text, {"Q": 1, "P": 2, "M": 3})


def test_words_choose_cases_by_what_their_names_hold():
    chosen = first_day.BENCHMARK.chosen(["layer_norm", "M=8192"])
    assert [str(case) for (case,) in chosen] == ["layer_norm T=512 KEPT=8 M=8192 N=4096"]


class Interpreted:
    """The kernels of an example in the interpreter, on tensors in the host's memory."""

    def __init__(self, example, numbers, folder):
        text = (first_day.EXAMPLES / f"{example}.py").read_text()
        path = folder / f"{example}.py"
        constants = {case.example: case.constants for case in first_day.CASES}[example]
        path.write_text(first_day.with_constants(text, {name: numbers[name] for name in constants}))
        self.kernels = {kernel.name: kernel for kernel in spec.load(path).kernels_named(None)}
        self.script, self.numbers = first_day.SCRIPTS.get(example), numbers

    def launch(self, entry, *given, **types):
        kernel = self.kernels[entry]
        text = compile_kernel(kernel, transform=self.script, emit="transformed").text if self.script else kernel.mlir()
        sizes = {size.name: self.numbers[size.name] for size in kernel.sizes}
        arrays = [
            value.numpy().reshape(-1).view(types.get(f"_{place}") or value.numpy().dtype)
            if hasattr(value, "numpy")
            else value
            for place, value in enumerate(given)
        ]
        grid = [int(evaluate(n, sizes)) for n in kernel.grid]
        block = [int(evaluate(n, sizes)) for n in kernel.block]

        def run():
            report = interp.launch(text, grid=grid, block=block, args=[*arrays, *(sizes[s.name] for s in kernel.sizes)])
            assert report.clean, report.faults

        return run


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("example", sorted(first_day_trials.TRIALS))
def test_a_trial_agrees_with_its_baselines(example, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the baselines are torch's")
    sparse = SimpleNamespace(csr_matrix=lambda *given, **shape: SimpleNamespace())
    numpy = SimpleNamespace(
        from_dlpack=lambda tensor: tensor.numpy(), empty_like=np.empty_like, bincount=np.bincount, sort=np.sort,
        cumsum=lambda x, dtype, out: np.cumsum(x, dtype=dtype, out=out),
        _core=SimpleNamespace(set_routine_accelerators=lambda names: None),
    )  # fmt: skip
    for name, module in (("cupy", numpy), ("cupyx", sparse), ("cupyx.scipy", SimpleNamespace(sparse=sparse))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(first_day_trials, "DEVICE", "cpu")
    torch.manual_seed(0)
    numbers = SMALL.get(example, MATRIX)
    trial = first_day_trials.TRIALS[example](Interpreted(example, numbers, tmp_path), numbers)
    for result in trial.results:
        result.zero_()
    trial.start()
    trial.run()
    for found, expected in zip(trial.results, trial.expected(), strict=True):
        assert found.shape == expected.shape
        first_day.harness.require_close(found, expected, trial.tolerance, example)
    for name, baseline in trial.baselines.items():
        if (example, name) != ("csr_matvec", "CuPy"):
            baseline()


def test_results_are_data():
    json.dumps([{"case": str(case), "memory": case.memory} for case in first_day.CASES])
