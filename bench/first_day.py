"""The kernels of examples/first_day at realistic sizes, against torch, cuSPARSE and CUB.

A word chooses cases by what their names hold. Rendering replaces sizes that an example fixes as constants. `time` needs
CuPy, torch and lego_mlir.runtime, no MLIR. Where memory limits both, the fastest other's time over ours should be at
least 0.9.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner
from rivals import first_day as first_day_trials

NAME, TARGET = "first_day", "sm_90"
EXAMPLES = harness.BENCH.parent / "examples" / "first_day"
Numbers = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """An example with numbers: constants of its module, which rendering replaces, and sizes of a launch."""

    example: str
    constants: Numbers = field(default_factory=dict)
    sizes: Numbers = field(default_factory=dict)
    memory: bool = True  # bound by memory, ours and the baseline

    @property
    def artifact(self) -> str:
        return "-".join([self.example, *(f"{name}{value}" for name, value in self.constants.items())])

    def __str__(self) -> str:
        return " ".join([self.example, *(f"{k}={v}" for k, v in {**self.constants, **self.sizes}.items())])


def sized(example: str, *sizes: Numbers, memory: bool = True, **constants: int) -> list[Case]:
    return [Case(example, constants, each, memory) for each in sizes]


PER_SM = 132 * 8  # blocks: 8 for each multiprocessor of an H200
PRODUCTS = ({"M": 1024, "N": 1024, "K": 1024}, {"M": 4096, "N": 4096, "K": 4096})
CASES = [
    *sized("vector_add", {"N": 1_000_003}, {"N": 50_000_000}),
    *sized("axpy_f16", {"N": 1_000_000}, {"N": 100_000_000}),
    *sized("stencil", {"H": 1000, "W": 1000}, {"H": 8192, "W": 8192}),
    *sized("grid_sum", {"N": 1_000_003}, {"N": 100_000_000}, BLOCKS=PER_SM),
    *sized("row_softmax", {"M": 4096, "N": 1000}, T=128, KEPT=8),
    *sized("row_softmax", {"M": 8192, "N": 8192}, T=512, KEPT=16),
    *sized("histogram", {"N": 1_000_003}, {"N": 100_000_000}, BLOCKS=PER_SM),
    *sized("three_pass_scan", {"N": 100_000}, {"N": 1_000_000}, T=512),
    *sized("look_back_scan", {"N": 1_000_003}, {"N": 50_000_000}),
    *sized("matvec", {"M": 4096, "K": 4096}, {"M": 20000, "K": 10001}),
    *sized("nchw_to_nhwc", {"C": 64, "P": 112 * 112}, {"C": 256, "P": 56 * 56}, IMAGES=32),
    *[Case("conv2d", {"IMAGES": 8, "C": c, "K": c}, {"H": 56, "W": 56}, memory=False) for c in (16, 64)],
    *[Case("flash_attention", {"HEADS": 16, "S": s}, memory=False) for s in (1024, 4096)],
    *sized("bitonic_sort", {"M": 1000}, {"M": 20000}),
    *sized("csr_matvec", {"M": 100_000, "K": 100_000, "E": 3_000_000}, {"M": 1_000_000, "K": 10**6, "E": 50_000_000}),
    *sized("embedding", {"N": 8192}, {"N": 200_000}, V=32000, D=512),
    *sized("embedding_in_range", {"N": 8192, "V": 32000, "D": 768}, {"N": 100_000, "V": 50000, "D": 1024}),
    *sized("layer_norm", {"M": 4096, "N": 1000}, T=128, KEPT=8),
    *sized("layer_norm", {"M": 8192, "N": 4096}, T=512, KEPT=8),
    *sized("rope", {"S": 4096}, {"S": 65536}),
    *sized("quantise_int8", {"M": 4096, "N": 1000}, {"M": 8192, "N": 8192}),
    *[Case("matmul_gelu", each, memory=False) for each in PRODUCTS],
    *sized("ragged_matmul", {"M": 1000, "N": 1001, "K": 999}, {"M": 4001, "N": 4001, "K": 4001}, memory=False),
    *[Case("persistent_matmul", {**each, "BLOCKS": PER_SM // 2}, memory=False) for each in PRODUCTS],
    *[Case("big_tile", {"M": n, "N": n}) for n in (16, 64)],
    *[Case("morton_matmul", {"N": n}, memory=False) for n in (1024, 4096)],
]
SCRIPTS = dict.fromkeys(("matmul_gelu", "persistent_matmul"), "matmul_sm80.mlir")


# -- on the development machine


def with_constants(source: str, constants: Numbers) -> str:
    """The source of a module with other values for constants that it assigns. Raises LookupError for one it lacks."""
    tree, missing = ast.parse(source), set(constants)
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        target, value = statement.targets[0], statement.value
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value.elts if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else [value]
        for place, name in enumerate(names):
            if isinstance(name, ast.Name) and name.id in missing:
                values[place] = ast.Constant(constants[name.id])
                missing.remove(name.id)
        if not isinstance(target, ast.Tuple):
            (statement.value,) = values
    if missing:
        raise LookupError(f"the module assigns no {', '.join(sorted(missing))}")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir import spec

    specs = folder / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    for case in {case.artifact: case for (case,) in cases}.values():
        path = specs / f"{case.artifact}.py"
        path.write_text(with_constants((EXAMPLES / f"{case.example}.py").read_text(), case.constants))
        kernels, script = spec.load(path).kernels_named(None), SCRIPTS.get(case.example)
        mlir_kernels.keep(folder, case.artifact, mlir_kernels.compiled(kernels, TARGET, "ptx", transform=script))


# -- on the GPU machine


class Kernels:
    """The kernels of a rendered example: `launch` returns a function that launches one on tensors of torch."""

    def __init__(self, case: Case) -> None:
        from lego_mlir.runtime import cuda

        self.case = case
        self.module = cuda.load(harness.rendered(BENCHMARK.folder / f"{case.artifact}.ptx"))

    def launch(self, entry: str, *given: Any, **types: Any) -> Callable[[], None]:
        """A tensor of torch is passed as CuPy's; `types` gives, by position, an unsigned type for its bits."""
        import cupy
        import torch

        passed = [
            cupy.from_dlpack(value).view(types.get(f"_{place}") or cupy.from_dlpack(value).dtype)
            if isinstance(value, torch.Tensor)
            else value
            for place, value in enumerate(given)
        ]
        kernel, sizes = self.module.kernel(entry), dict(self.case.sizes)
        return lambda: kernel(*passed, sizes=sizes)


def timed(folder: Path, case: Case) -> list[harness.Contender]:
    """Ours and each baseline, ours checked against the first."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    trial = first_day_trials.TRIALS[case.example](Kernels(case), {**case.constants, **case.sizes})
    for found in trial.results:
        found.zero_()
    trial.start()
    trial.run()
    error = 0.0
    for found, expected in zip(trial.results, trial.expected(), strict=True):
        error = max(error, harness.require_close(found, expected, trial.tolerance, str(case)))
    facts = {"memory": case.memory}
    ours = harness.contender(trial.run, kernel="lego", error=error, **facts)
    return [ours, *(harness.contender(run, kernel=name, **facts) for name, run in trial.baselines.items())]


def table() -> None:
    """Ours and the fastest of the others, case by case; above 1 ours is faster."""
    results, lines = mlir_kernels.newest(NAME), []
    for case, found in mlir_kernels.by_case(results).items():
        ours = found.pop("lego", None)
        if ours is None or not found:
            continue
        best = min(found, key=lambda name: found[name]["ms"])
        times = [mlir_kernels.time_cell(row) for row in (ours, found[best])]
        name = case if isinstance(case, str) else " ".join(case)
        lines.append([name, *times, best, f"{found[best]['ms'] / ours['ms']:.2f}", "yes" if ours["memory"] else ""])
    made = mlir_kernels.table("case|ours ms|fastest other ms|which|other / ours|limited by memory", lines)
    mlir_kernels.put_results("results/first-day.md", NAME, NAME, made, "torch")


BENCHMARK = runner.Benchmark(NAME, [(case,) for case in CASES], timed, table, render)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
