"""The kernels of examples/second_week next to nvcc's: machine code without a GPU, and times.

    python bench/second_week.py code [TARGET]           instructions, fused sums, registers; needs no GPU
    python bench/second_week.py render [NAME ..]        cubins of both into artifacts/second_week
    python bench/second_week.py time [NAME ..]          on the GPU machine: equal results, then times in turns
    python bench/second_week.py table                   the table of times of docs/results/second-week.md

`bench/rivals/second_week.cu` has the CUDA texts: the same algorithm, grid, block and masks. `code` and `render` need
nvcc, ptxas and nvdisasm. The sizes of SIZES were chosen before anything was timed.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Final

import harness
import mlir_kernels
import product_runs

NAME: Final = "second_week"
EXAMPLES: Final = harness.BENCH.parent / "examples" / NAME
CUDA: Final = harness.BENCH / "rivals" / f"{NAME}.cu"
TURN_S, ROUNDS = 0.05, 7
PADDING: Final = ("NOP", "BRA")  # fill and end a function
Sizes = dict[str, int]
SIZES: Final[dict[str, tuple[Sizes, ...]]] = {
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
}
TOLERANCE: Final = {
    "rms_norm_f8": 0.08, "fused_classifier": 0.02, "implicit_gemm": 0.01, "w4a16": 0.01, "paged_decode": 0.005,
    "radix_sort": 0.0,
}  # fmt: skip
"""Of the largest value; 1e-4 of the others."""


# -- machine code


def measured(name: str, target: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Instructions, FFMA and registers of an example and of its CUDA text."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.toolchain import compile_kernel, ptxas, sass

    text = compile_kernel((kernel_of(name),), target=target).text
    cubin, (ours,) = ptxas.assemble(text, target_named(target))
    rival = compiled(name, target)
    (theirs,) = rival.resources
    mine, other = (
        Counter(i.name for i in sass.disassemble(code) if i.name not in PADDING) for code in (cubin, rival.cubin)
    )
    return (mine.total(), mine["FFMA"], ours.registers), (other.total(), other["FFMA"], theirs.registers)


def kernel_of(name: str) -> Any:
    from lego_mlir import spec

    (kernel,) = spec.load(EXAMPLES / f"{name}.py").kernels.values()
    return kernel


def compiled(name: str, target: str) -> Any:
    """The CUDA text alone, so that its cubin has no other kernel."""
    from lego_mlir.templates.run import nvcc

    head, *kernels = CUDA.read_text().split('extern "C" ')
    text = head + "".join(f'extern "C" {text}' for text in kernels if f" {name}(" in text)
    return nvcc.compile_text(text, target=target, name=name)


def code() -> int:
    target = sys.argv[2] if len(sys.argv) > 2 else "sm_90a"
    rows = {name: measured(name, target) for name in SIZES}
    print("| kernel | instructions | nvcc | ratio | FFMA | nvcc | registers | nvcc | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, ((a, fused, r), (b, others, s)) in rows.items():
        print(f"| `{name}` | {a} | {b} | {a / b:.2f} | {fused} | {others} | {r} | {s} | {r / s:.2f} |")
    means = [math.exp(sum(math.log(x[k] / y[k]) for x, y in rows.values()) / len(rows)) for k in (0, 2)]
    print(f"| geometric mean | | | {means[0]:.2f} | | | | | {means[1]:.2f} |")
    return 0


# -- times


def chosen() -> Iterator[str]:
    yield from (name for name in SIZES if name in sys.argv[2:] or not sys.argv[2:])


def render() -> int:
    folder = harness.ARTIFACTS / NAME
    for name in chosen():
        (folder / f"{name}.cubin").unlink(missing_ok=True)  # of an example that has changed
        mlir_kernels.keep_cubin(folder, kernel_of(name), product_runs.TARGET)
        (folder / f"{name}-nvcc.bin").write_bytes(compiled(name, product_runs.TARGET).cubin)
        (listed,) = re.findall(rf"\s{name}\(([^)]*)\)", CUDA.read_text())
        declared = [one.strip().rpartition(" ") for one in listed.split(",")]
        kinds = [(variable, "*" if "*" in kind else kind.split()[-1]) for kind, _, variable in declared]
        (folder / f"{name}-nvcc.txt").write_text(json.dumps(kinds))
    return 0


def time() -> int:
    import torch

    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "turn_s": TURN_S, "rows": [],
    }  # fmt: skip
    out, wrong = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json", 0
    for name in chosen():
        for sizes in SIZES[name]:
            try:
                results["rows"] += timed(name, sizes)
            except harness.WrongResultError as error:
                print(error, file=sys.stderr, flush=True)
                wrong += 1
            results["clocks"] = harness.clocks()
            out.write_text(json.dumps(results, indent=1) + "\n")
            torch.cuda.empty_cache()
    return 1 if wrong else 0


def timed(name: str, sizes: Sizes) -> list[dict[str, Any]]:
    import torch

    from lego_mlir.runtime.packs import load_kernels

    (kernel,) = load_kernels(harness.rendered(harness.ARTIFACTS / NAME / f"{name}.cubin")).values()
    entry, given = kernel.host_entry, arguments(name, kernel.host_entry, sizes)
    mine, other = ({key: x.clone() if hasattr(x, "clone") else x for key, x in given.items()} for _ in range(2))
    ours, theirs = kernel.prepare(*mine.values(), **sizes), rival(name, entry, other, sizes)
    ours()
    theirs()
    torch.cuda.synchronize()
    for argument in entry.arguments:
        if argument.written and argument.shape is not None:
            tolerance = TOLERANCE.get(name, 1e-4)
            harness.require_close(
                mine[argument.name], other[argument.name], tolerance, f"{name} {sizes} {argument.name}"
            )
    times = harness.steady_ms({"lego_mlir": ours, "nvcc": theirs}, TURN_S, ROUNDS)
    print(name, sizes, {key: round(1000 * median(found), 2) for key, found in times.items()}, flush=True)
    return [{"case": [name, sizes], "kernel": k, "ms": median(found), "rounds": found} for k, found in times.items()]


def rival(name: str, entry: Any, given: dict[str, Any], sizes: Sizes) -> Callable[[], None]:
    """The launch of nvcc's kernel on the same grid: its pointers, numbers and sizes by their names."""
    import cupy
    import numpy as np
    import torch

    from lego_mlir.runtime.manifest import evaluate

    folder = harness.ARTIFACTS / NAME
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
}


def table() -> int:
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in results["rows"]:
        name, sizes = row["case"]
        case = name, ", ".join(f"{size}={n}" for size, n in sizes.items())
        found.setdefault(case, {})[row["kernel"]] = row["ms"]
    cells = [
        [f"`{name}`", sizes, f"{1000 * ms['lego_mlir']:.1f}", f"{1000 * ms['nvcc']:.1f}", f"{ratio(ms):.2f}"]
        for (name, sizes), ms in found.items()
    ]
    cells.append(["geometric mean", "", "", "", f"{geometric_mean(map(ratio, found.values())):.2f}"])
    known = mlir_kernels.circumstances(NAME, results, "torch")
    mlir_kernels.put_into(
        f"results/{NAME.replace('_', '-')}.md", NAME, f"{known}:\n\n",
        mlir_kernels.table("kernel|sizes|us|nvcc, us|nvcc / ours", cells),
    )  # fmt: skip
    return 0


def ratio(ms: dict[str, float]) -> float:
    return ms["nvcc"] / ms["lego_mlir"]


if __name__ == "__main__":
    sys.exit({"code": code, "render": render, "time": time, "table": table}[sys.argv[1]]())
