"""The kernels of examples/second_week and examples/ported next to nvcc's: machine code without a GPU, and times.

    python bench/second_week.py code [TARGET]           instructions, fused sums, registers; needs no GPU

`bench/rivals` has the CUDA texts: the same algorithm, grid, block and masks. `code` and `render` need nvcc, ptxas and
nvdisasm. The sizes of SIZES were chosen before anything was timed; `--drawn N --seed S` draws others between them.
"""

import itertools
import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import harness
import mlir_kernels
import runner

NAME: Final = "second_week"
TARGET: Final = "sm_90a"
EXAMPLES: Final = harness.BENCH.parent / "examples"
FOLDERS: Final = (NAME, "ported")
"""Folders of examples; the CUDA texts of one are in a file of its name."""
PADDING: Final = ("NOP", "BRA")  # fill and end a function


class Sizes(dict[str, int]):
    """The sizes of a case, by name."""

    def __str__(self) -> str:
        return ", ".join(f"{name}={n}" for name, n in self.items())


SIZES: Final[dict[str, tuple[dict[str, int], ...]]] = {
    "block_sparse": ({"R": 512, "S": 512, "Z": 8192, "N": 1024}, {"R": 300, "S": 77, "Z": 3001, "N": 520}),
    "cholesky": ({"B": 100_000}, {"B": 7777}),
    "cross_entropy": ({"M": 4096, "N": 50_257}, {"M": 1031, "N": 32_001}),
    "depthwise_conv": ({"H": 224, "W": 224}, {"H": 111, "W": 173}),
    "fft": ({"B": 8192}, {"B": 1001}),
    "fused_classifier": ({"M": 8192, "V": 50_257, "P": 50_304}, {"M": 1001, "V": 32_000, "P": 32_064}),
    "implicit_gemm": ({"H": 112, "W": 112, "C": 128, "F": 128}, {"H": 57, "W": 91, "C": 64, "F": 200}),
    "linear_recurrence": ({"M": 8192, "N": 2048}, {"M": 1001, "N": 4097}),
    "moe_routing": ({"N": 1 << 20}, {"N": 300_001}),
    "paged_decode": ({"B": 512, "P": 4096}, {"B": 77, "P": 616}),
    "philox_dropout": ({"N": 1 << 24}, {"N": 4_000_004}),
    "radix_sort": ({"N": 1 << 22}, {"N": 1_000_003}),
    "rms_norm_f8": ({"M": 8192, "N": 2048}, {"M": 3001, "N": 1096}),
    "segmented_sum": ({"N": 1 << 24, "S": 1 << 20}, {"N": 3_000_001, "S": 70_000}),
    "selective_scan": ({"L": 2048, "C": 1024}, {"L": 1001, "C": 300}),
    "state_update": ({"B": 4096}, {"B": 777}),
    "stencil7": ({"D": 256, "H": 256, "W": 256}, {"D": 100, "H": 301, "W": 515}),
    "top_experts": ({"M": 1 << 17}, {"M": 10_001}),
    "w4a16": ({"M": 16, "N": 8192, "K": 8192}, {"M": 129, "N": 4104, "K": 3584}),
    "adamw": ({"N": 1 << 24}, {"N": 3_000_001}),
    "causal_conv1d": ({"B": 8, "D": 4096, "L": 4096}, {"B": 3, "D": 1000, "L": 2056}),
    "gated_delta_rule": ({"B": 16, "T": 1024}, {"B": 5, "T": 333}),
    "merge_attention": ({"T": 16_384, "H": 32}, {"T": 3001, "H": 20}),
    "awq_dequantise": ({"K": 8192, "N": 8192}, {"K": 3584, "N": 4104}),
    "nf4_dequantise": ({"B": 1 << 19}, {"B": 70_001}),
    "quantize_q8_1": ({"M": 4096, "N": 4096}, {"M": 1001, "N": 11_008}),
    "reshape_and_cache": ({"L": 8192, "P": 8192}, {"L": 1001, "P": 3000}),
    "swiglu_gradients": ({"M": 8192, "N": 8192}, {"M": 1001, "N": 11_008}),
}
TOLERANCE: Final = {
    "rms_norm_f8": 0.08, "fused_classifier": 0.02, "implicit_gemm": 0.01, "w4a16": 0.01, "paged_decode": 0.005,
    "radix_sort": 0.0, "adamw": 0.01, "reshape_and_cache": 0.08, "swiglu_gradients": 0.01,
    "quantize_q8_1": 0.001, "gated_delta_rule": 0.02, "causal_conv1d": 0.01, "merge_attention": 0.01,
}  # fmt: skip
"""Of the largest value; 1e-4 of the others."""


# -- machine code


def measured(name: str, target: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Instructions, FFMA and registers of an example and of its CUDA text."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.toolchain import compile_kernel, ptxas, sass

    text = compile_kernel((kernel_of(name),), target=target).text
    cubin, (ours,) = ptxas.assemble(text, target_named(target))
    by_hand = compiled(name, target)
    (theirs,) = by_hand.resources
    mine, other = (
        Counter(i.name for i in sass.disassemble(code) if i.name not in PADDING) for code in (cubin, by_hand.cubin)
    )
    return (mine.total(), mine["FFMA"], ours.registers), (other.total(), other["FFMA"], theirs.registers)


def kernel_of(name: str) -> Any:
    from lego_mlir import spec

    (path,) = (path for folder in FOLDERS if (path := EXAMPLES / folder / f"{name}.py").is_file())
    (kernel,) = spec.load(path).kernels.values()
    return kernel


def cuda_text(name: str) -> str:
    """The CUDA text of a kernel, without the other kernels of its file."""
    for folder in FOLDERS:
        head, *kernels = (harness.BENCH / "rivals" / f"{folder}.cu").read_text().split('extern "C" ')
        if found := [text for text in kernels if f" {name}(" in text]:
            return "".join([head, *(f'extern "C" {text}' for text in found)])
    raise SystemExit(f"no file of bench/rivals has {name}")


def compiled(name: str, target: str) -> Any:
    """The CUDA text alone, so that its cubin has no other kernel."""
    from lego_mlir.templates.run import nvcc

    return nvcc.compile_text(cuda_text(name), target=target, name=name)


def code(words: Sequence[str]) -> None:
    target = words[0] if words else TARGET
    rows = {name: measured(name, target) for name in SIZES}
    print("| kernel | instructions | nvcc | ratio | FFMA | nvcc | registers | nvcc | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, ((a, fused, r), (b, others, s)) in rows.items():
        print(f"| `{name}` | {a} | {b} | {a / b:.2f} | {fused} | {others} | {r} | {s} | {r / s:.2f} |")
    means = [geometric_mean(x[k] / y[k] for x, y in rows.values()) for k in (0, 2)]
    print(f"| geometric mean | | | {means[0]:.2f} | | | | | {means[1]:.2f} |")


# -- times


def drawing() -> Callable[[random.Random], harness.Case]:
    """Draws cases of one kernel after another, with sizes between those of SIZES, multiples of their common divisor."""
    names = itertools.cycle(SIZES)

    def draw(generator: random.Random) -> harness.Case:
        name, sizes = next(names), Sizes()
        for size, bounds in ((size, [case[size] for case in SIZES[name]]) for size in SIZES[name][0]):
            step, (low, high) = math.gcd(*bounds), sorted(bounds)
            sizes[size] = step * round(math.exp(generator.uniform(math.log(low), math.log(high))) / step)
        if name == "fused_classifier":
            sizes["P"] = -(-sizes["V"] // 64) * 64
        return name, sizes

    return draw


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for name in dict.fromkeys(name for name, _ in cases):
        mlir_kernels.keep_cubin(folder, kernel_of(name), TARGET)
        (folder / f"{name}-nvcc.bin").write_bytes(compiled(name, TARGET).cubin)
        (listed,) = re.findall(rf"\s{name}\(([^)]*)\)", cuda_text(name))
        declared = [one.strip().rpartition(" ") for one in listed.split(",")]
        kinds = [(variable, "*" if "*" in kind else kind.split()[-1]) for kind, _, variable in declared]
        (folder / f"{name}-nvcc.txt").write_text(json.dumps(kinds))


def timed(folder: Path, name: str, sizes: Sizes) -> list[harness.Contender]:
    import torch

    torch.cuda.empty_cache()
    kernel = mlir_kernels.kept_kernel(folder / f"{name}.cubin")
    entry, given = kernel.host_entry, arguments(name, kernel.host_entry, sizes)
    mine, other = ({key: x.clone() if hasattr(x, "clone") else x for key, x in given.items()} for _ in range(2))
    ours, theirs = kernel.prepare(*mine.values(), **sizes), by_nvcc(folder, name, entry, other, sizes)
    ours()
    theirs()
    torch.cuda.synchronize()
    for argument in entry.arguments:
        if argument.written and argument.shape is not None:
            one, what = argument.name, f"{name} {sizes} {argument.name}"
            harness.require_close(mine[one], other[one], TOLERANCE.get(name, 1e-4), what)
    return [harness.contender(ours, kernel="lego_mlir"), harness.contender(theirs, kernel="nvcc")]


def by_nvcc(folder: Path, name: str, entry: Any, given: dict[str, Any], sizes: Sizes) -> Callable[[], None]:
    """The launch of nvcc's kernel on the same grid: its pointers, numbers and sizes by their names."""
    import cupy
    import numpy as np
    import torch

    from lego_mlir.runtime.manifest import evaluate

    function = cupy.RawModule(path=str(harness.rendered(folder / f"{name}-nvcc.bin"))).get_function(name)
    passed: list[Any] = []
    for variable, kind in json.loads((folder / f"{name}-nvcc.txt").read_text()):
        if kind == "*":
            passed.append(np.uint64(given[variable].data_ptr()))
        else:
            passed.append(np.float32(given[variable]) if kind == "float" else np.int32(sizes[variable]))
    grid = tuple(evaluate(n, sizes) for n in entry.grid)

    def launch() -> None:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function(grid, tuple(entry.block), tuple(passed))

    return launch


def arguments(name: str, entry: Any, sizes: Sizes) -> dict[str, Any]:
    """Random arguments of a kernel on the device: numbers of a normal distribution, integers of the declared range."""
    import torch

    from lego_mlir.runtime.manifest import evaluate

    types = {
        "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "u32": torch.int32,
        "u8": torch.uint8, "f8e4m3fn": torch.float8_e4m3fn,
    }  # fmt: skip
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    for argument in entry.arguments:
        if argument.name in sizes:
            continue
        if argument.shape is None:
            found[argument.name] = 0.125
            continue
        shape, dtype = [evaluate(n, sizes) for n in argument.shape], types[argument.dtype]
        if not argument.read:
            found[argument.name] = torch.zeros(shape, device="cuda", dtype=dtype)
        elif dtype in (torch.int32, torch.uint8):
            low, high = (evaluate(n, sizes) for n in argument.values) if argument.values else (0, 256)
            found[argument.name] = torch.randint(low, high, shape, device="cuda", dtype=dtype)
        else:
            found[argument.name] = torch.randn(shape, device="cuda").to(dtype)
    return found | SPECIAL.get(name, lambda given, sizes: {})(found, sizes)


def _roots(given: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    import torch

    angles = torch.arange(1024, device="cuda") * (-2 * math.pi / 1024)
    return {"roots": torch.stack([angles.cos(), angles.sin()], dim=-1)}


def _positive(given: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    import torch

    return {"a": given["a"] @ given["a"].mT + 8 * torch.eye(8, device="cuda")}


def _rows(given: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    first = given["first"].sort().values
    first[0], first[-1] = 0, sizes["Z"]
    return {"first": first}


def _keys(given: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    import torch

    keys = torch.randint(0, 1 << 16, (sizes["N"],), device="cuda", dtype=torch.int32)
    return {"key": keys, "payload": torch.arange(sizes["N"], device="cuda", dtype=torch.int32)}


def _slots(given: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    import torch

    slots = torch.randperm(16 * sizes["P"], device="cuda")[: sizes["L"]].to(torch.int32)
    slots[::16] = -1  # padding
    return {"slots": slots}


SPECIAL: Final[dict[str, Callable[[dict[str, Any], Sizes], dict[str, Any]]]] = {
    "block_sparse": _rows,
    "cholesky": _positive,
    "fft": _roots,
    "linear_recurrence": lambda given, sizes: {"a": given["a"].sigmoid()},
    "philox_dropout": lambda given, sizes: {"keep": 0.75},
    "radix_sort": _keys,
    "segmented_sum": lambda given, sizes: {"segment": given["segment"].sort().values, "y": given["y"] * 0},
    "selective_scan": lambda given, sizes: {"d": given["d"].sigmoid(), "decay": -given["decay"].abs()},
    "w4a16": lambda given, sizes: {"scales": given["scales"].abs() / 100},
    "adamw": lambda given, sizes: {"v": given["v"].abs()},
    "reshape_and_cache": _slots,
    "gated_delta_rule": lambda given, sizes: {"g": -given["g"].abs(), "beta": given["beta"].sigmoid()},
}


def table() -> None:
    results, cells, ratios = mlir_kernels.newest(NAME), [], []
    for (name, sizes), ms in cases_of(results).items():
        ours, theirs = ms["lego_mlir"], ms["nvcc"]
        ratios.append(theirs / ours)
        cells.append([f"`{name}`", sizes, f"{1000 * ours:.1f}", f"{1000 * theirs:.1f}", f"{ratios[-1]:.2f}"])
    cells.append(["geometric mean", "", "", "", f"{geometric_mean(ratios):.2f}"])
    known = mlir_kernels.circumstances(NAME, results, "torch")
    known += f", sizes drawn by seed {results['seed']}" if "seed" in results else ""
    made = mlir_kernels.table("kernel|sizes|us, single|nvcc, us, single|nvcc / ours", cells)
    mlir_kernels.put_into(f"results/{NAME.replace('_', '-')}.md", NAME, f"{known}:\n\n", made)


def cases_of(results: dict[str, Any]) -> dict[tuple[str, str], dict[str, float]]:
    """Milliseconds of a single launch by kernel and sizes.

    Back to back the host is timed as well: CuPy launches nvcc's kernels, and most of these take few microseconds.
    A case once had its sizes as a record, and is words now.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in results["rows"]:
        name, sizes = row["case"]
        text = sizes if isinstance(sizes, str) else str(Sizes(sizes))
        found.setdefault((name, text), {})[row["kernel"]] = row.get("single_ms", row["ms"])
    return found


BENCHMARK = runner.Benchmark(
    NAME, [(name, Sizes(sizes)) for name, found in SIZES.items() for sizes in found], timed, table, render,
    target=TARGET, steps={"code": code}, draw=drawing(), protocol=harness.Protocol("steady", 0.05, 7, patience_ms=500),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
