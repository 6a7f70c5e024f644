"""Products of every type, and with epilogues, by warpgroups (sm_90a), against torch's.

    python bench/hopper_types.py render      the kernels as cubins, in artifacts/hopper_types
    python bench/hopper_types.py time        on the GPU machine: correctness, then times in turns of 0.15 s
    python bench/hopper_types.py table       the table of docs/results/matmul.md

`render` and `time` take parts of names, such as `NN-f8`: only those cases are done.

Each case is checked against the product of its operands in f64, with the epilogue. Rivals: `addmm` with `relu` or
`gelu` after it, `mm`, `_scaled_mm` with and without fast accumulation, `_int_mm`, and f32 products as TF32; for 8-bit
types whose K is not contiguous, a transposing copy before these, torch's or Triton's, and Triton's dot (`f8_rivals`).
Ours are then the launches of `matmul`: copies, and the product. Results come to $OUT/hopper_types.json, or
bench/results.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import harness
import hopper
import mlir_kernels

NAME, PAGE = "hopper_types", "results/matmul.md"
TURN_S, ROUNDS = 0.15, 2


@dataclass(frozen=True)
class Case:
    """A product: its size, the layouts and types of its matrices, and the name of its epilogue.

    Sums are promoted after `exact` steps; with `positive` operands those of the units drift.
    """

    size: hopper.Size
    layouts: str
    dtype: str
    result: str
    epilogue: str = ""
    exact: int = 0
    positive: bool = False

    @property
    def name(self) -> str:
        exact, positive = f"exact{self.exact}" * (self.exact > 0), "positive" * self.positive
        named = ("x".join(map(str, self.size)), self.layouts, self.dtype, self.result, self.epilogue, exact, positive)
        return "-".join(filter(None, named))


SQUARES: tuple[hopper.Size, ...] = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192))
RAGGED: hopper.Size = (1000, 1048, 1040)
FEW: tuple[hopper.Size, ...] = tuple(
    (m, n, k) for n, k in ((4096, 4096), (6144, 4096), (4096, 14336), (28672, 4096)) for m in (16, 64, 128)
)
"""Few rows of the weights of language models."""
TURNED = ("NN", "TN", "TT")
"""Layouts in which an operand is not contiguous along K."""
CASES = [
    *(Case(size, "NT", "bf16", "bf16", "bias_gelu") for size in SQUARES),
    *(Case(size, "NT", "f16", "f16", "bias_relu") for size in SQUARES[1:]),
    *(Case(size, "NT", "bf16", "bf16", "residual") for size in SQUARES[1:]),
    *(Case(size, "NT", "bf16", "bf16", "gate") for size in SQUARES[1:]),
    *(Case(size, "NT", "f16", "f32") for size in SQUARES[1:]),
    *(Case(size, "NT", "f8e4m3fn", "bf16", "scale") for size in SQUARES),
    *(Case(size, "NT", "f8e5m2", "bf16", "scale") for size in SQUARES[1:2]),
    *(Case(size, "NT", "f8e4m3fn", "bf16", "scales") for size in SQUARES[1:]),
    *(Case(size, "NT", "i8", "i32") for size in SQUARES[1:]),
    *(Case(size, "NT", "f32", "f32") for size in SQUARES[1:]),
    *(Case(RAGGED, "NT", dtype, result, epilogue) for dtype, result, epilogue in (
        ("bf16", "bf16", "gate"), ("f16", "f32", "bias_gelu"), ("f8e4m3fn", "bf16", "scales"), ("i8", "i32", ""),
        ("f32", "f32", ""))),
    Case(RAGGED, "TN", "bf16", "f32", "residual"),
    *(Case(size, layouts, "f8e4m3fn", "bf16", "scale") for size in SQUARES[1:] for layouts in TURNED),
    *(Case(size, layouts, "i8", "i32") for size in SQUARES[1:] for layouts in TURNED),
    *(Case(SQUARES[2], "NT", "f8e4m3fn", "bf16", "scale", exact) for exact in (1, 2, 4, 8)),
    *(Case(SQUARES[1], "NT", "bf16", "bf16", "", exact) for exact in (0, 4, 8)),
    *(Case(size, "NT", "f8e4m3fn", "f8e4m3fn", "scale") for size in SQUARES),
    *(Case(size, "NT", "f8e4m3fn", "bf16", "scale") for size in (*FEW, (1, 4096, 4096), (8, 1024, 8192))),
    *(Case(size, "NT", "f8e4m3fn", "bf16", "scales") for size in FEW[1:9:3]),
    *(Case(size, "NT", "i8", "i32") for size in (*FEW[1:9:3], *FEW[2:9:3])),
    *(Case((512, 512, 65536), "NT", *types) for types in (("f8e4m3fn", "bf16", "scale"), ("i8", "i32"))),
    *(Case((512, 512, 65536), "NT", "f16", "f32", "", exact, positive=True) for exact in (0, 4, 8, 32)),
    *(Case((512, 512, 65536), "NT", "f8e4m3fn", "f32", "scale", exact, positive=True) for exact in (0, 1, 2, 4)),
]  # fmt: skip


def epilogue_of(case: Case) -> Any:
    """The epilogue of a case, None for none."""
    from lego_mlir.kernels import epilogues
    from lego_mlir.tracing.dtypes import dtype_named

    m, n, _ = case.size
    made: dict[str, Callable[[], Any]] = {
        "bias_gelu": lambda: epilogues.bias(n).then(epilogues.gelu()),
        "bias_relu": lambda: epilogues.bias(n).then(epilogues.relu()),
        "residual": lambda: epilogues.residual(m, n, dtype_named(case.dtype)),
        "gate": lambda: epilogues.silu_gate(m, n, dtype_named(case.dtype)),
        "scale": epilogues.scale,
        "scales": lambda: epilogues.scales(m, n),
    }
    return made[case.epilogue]() if case.epilogue else None


def chosen(names: list[str]) -> list[Case]:
    """The cases of which a name has one of these parts; all without any."""
    return [case for case in CASES if not names or any(name in case.name for name in names)]


def is_turned(case: Case) -> bool:
    """Whether operands are copied along K before the product."""
    return case.dtype in ("i8", "f8e4m3fn", "f8e5m2") and case.layouts != "NT"


def copies_of(case: Case) -> dict[str, tuple[int, int]]:
    """The width of the loads of each operand's copy and its rows, by the operand's name."""
    from lego_mlir.kernels import rows_along_k

    (m, n, k), wanted = case.size, dict(zip("ab", "NT", strict=True))
    rows = dict(zip("ab", (m, n), strict=True))
    given = dict(zip("ab", case.layouts, strict=True))
    return {
        name: (rows_along_k.width_for(k, rows[name], 1), rows[name]) for name in "ab" if given[name] != wanted[name]
    }


def compiled(case: Case) -> Any:
    """The kernel of a case, in the tile that is chosen for its size."""
    from lego_mlir.kernels import warpgroup_choices
    from lego_mlir.kernels.fused_epilogues import FusedParts
    from lego_mlir.kernels.scheduled_products import ScheduledProduct
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder
    from lego_mlir.tracing.dtypes import dtype_named

    layouts, fused = "NT" if is_turned(case) else case.layouts, epilogue_of(case)
    tile = warpgroup_choices.choose(
        *case.size,
        hopper.SMS,
        layouts,
        dtype_named(case.dtype).bytes,
        exact=case.exact,
        fused=fused is not None or case.result not in ("f16", "bf16"),
        operands=0 if fused is None else len(fused.operands),
    )
    rounded = FusedParts(rounded=case.dtype == "f32")
    product = ScheduledProduct(tile, layouts, case.dtype, case.result, rounded)
    kernel = product.kernel(case.size, tile.clusters(hopper.SMS), fused)
    return compile_kernel(kernel, target=hopper.TARGET, emit="cubin", cache=Cache(default_folder()))


def render(names: list[str]) -> None:
    from lego_mlir.kernels import rows_along_k
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    made = {case.name: compiled(case) for case in chosen(names)}
    for width in {width for case in chosen(names) if is_turned(case) for width, _ in copies_of(case).values()}:
        made[f"along_{width}"] = compile_kernel(
            rows_along_k.along_k(1, width), target="sm_90", emit="cubin", cache=Cache(default_folder())
        )
    for name, kernel in made.items():
        (folder / f"{name}.cubin").write_bytes(kernel.bytes)
        (folder / f"{name}.json").write_text(json.dumps(kernel.manifest))
    print(f"{len(made)} kernels in {folder}")


def time(names: list[str]) -> None:
    """Check and time the cases; exit code 1 where one is wrong."""
    import torch

    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    out = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json"
    failed = 0
    for case in chosen(names):
        try:
            row = measured(case)
        except (harness.WrongResultError, RuntimeError, ValueError) as error:
            print(f"{case.name}: {error}", file=sys.stderr, flush=True)
            failed += 1
            continue
        results["rows"].append(row)
        ours = row["ms"]["lego"]
        shown = ", ".join(f"{name} {ms / ours:.3f}" for name, ms in row["ms"].items() if name != "lego")
        rivals_errors = ", ".join(f"{one:.2g} (mean {mean:.2g})" for one, mean in row["errors"].values())
        print(f"{case.name}: {ours:.4f} ms, error {row['error']:.2g} (mean {row['mean']:.2g}), theirs {rivals_errors}; "
              f"relative to {shown or 'nothing'}", flush=True)  # fmt: skip
        results["clocks"] = harness.clocks()
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


UNFUSED = "mm, 16-bit result"
PLAIN_DASHES = 3  # in the name of a case without an epilogue
FAST_F8 = 0.02  # relative to the largest value: units sum products of 8-bit types with about 13 bits
TOLERANCES = {"f16": 2e-3, "bf16": 8e-3, "f32": 2e-3, "i32": 0.0, "f8e4m3fn": 0.07}


def measured(case: Case) -> dict[str, Any]:
    """The row of one case."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    m, n, k = case.size
    torch.manual_seed(0)
    a, b = (operand(dims, letter, case) for dims, letter in zip(((m, k), (k, n)), case.layouts, strict=True))
    given = operands(case)
    expected = reference(case, a, b, given)
    (kernel,) = load_kernels(harness.ARTIFACTS / NAME / f"{case.name}.cubin").values()
    c = torch.empty((m, n), device="cuda", dtype=type_of(case.result))
    c.view(torch.uint8).zero_()
    copies, (along_a, along_b) = copied_along_k(case, a, b) if is_turned(case) else ([], (a, b))
    for copy in copies:
        copy()
    given_ = [*given, *harness.scratch(kernel)]
    kernel(along_a, along_b, c, *given_)
    tolerance = TOLERANCES[case.result]
    if case.dtype.startswith("f8"):  # what is lost by sums of positive numbers is the result of that case
        tolerance = 1.0 if case.positive else tolerance if case.exact else max(tolerance, FAST_F8 * long_factor(case))
    error = harness.require_close(c, expected, tolerance + 1e-30, case.name)
    mean = mean_error(c, expected)
    last = kernel.prepare(along_a, along_b, c, *given_)
    runs = {"lego": in_sequence([*copies, last])}
    against = turned_rivals if is_turned(case) else rivals
    for name, rival in against(case, a, b, c, given).items():
        try:
            rival()
        except (RuntimeError, ValueError) as refused:
            print(f"{case.name}: {name} refuses: {str(refused).splitlines()[0]}", file=sys.stderr, flush=True)
        else:
            runs[name] = rival
    errors = {name: rival_error(run(), expected) for name, run in runs.items() if name != "lego"}
    times = hopper.in_turns(runs, TURN_S, ROUNDS)
    return {
        "case": case.name,
        "error": error,
        "errors": errors,
        "mean": mean,
        "ms": {name: median(found) for name, found in times.items()},
    }


def long_factor(case: Case) -> float:
    """How much larger errors of sums of random numbers become where K is larger than that of the squares."""
    return max(1.0, (case.size[2] / SQUARES[-1][2]) ** 0.5)


def in_sequence(runs: list[Callable[[], Any]]) -> Callable[[], Any]:
    """All of them, one after the other; the result of the last."""
    *before, last = runs
    if not before:
        return last

    def all_() -> Any:
        for run in before:
            run()
        return last()

    return all_


def copied_along_k(case: Case, a: Any, b: Any) -> tuple[list[Callable[[], Any]], tuple[Any, Any]]:
    """The launches of our copies that make K contiguous, and the operands that they leave."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    launches, found, k = [], {"a": a, "b": b}, case.size[2]
    for name, (width, rows) in copies_of(case).items():
        source = (a.t() if name == "a" else b).view(torch.int8)
        target = torch.empty((rows, k), device="cuda", dtype=torch.int8)
        (copy,) = load_kernels(harness.ARTIFACTS / NAME / f"along_{width}.cubin").values()
        launches.append(copy.prepare(source, target))
        copied = target.view(a.dtype)
        found[name] = copied if name == "a" else copied.t()
    return launches, (found["a"], found["b"])


def rival_error(found: Any, expected: Any) -> list[float]:
    """The largest error and the mean one of torch, relative to the largest and the mean value."""
    return [((found.double() - expected).abs().max() / expected.abs().max()).item(), mean_error(found, expected)]


def mean_error(found: Any, expected: Any) -> float:
    """The mean of the errors, with their signs, relative to the mean size of the values: how far sums drift."""
    return ((found.double() - expected).mean() / expected.abs().mean()).item()


def type_of(dtype: str) -> Any:
    import torch

    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8, "i32": torch.int32,
            "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}[dtype]  # fmt: skip


def operand(dims: tuple[int, int], letter: str, case: Case) -> Any:
    """A random matrix, in rows or in columns."""
    import torch

    stored = dims if letter == "N" else dims[::-1]
    if case.dtype == "i8":
        made = torch.randint(-128, 128, stored, device="cuda", dtype=torch.int8)
    else:
        drawn = torch.rand if case.positive else torch.randn
        made = drawn(stored, device="cuda").to(type_of(case.dtype))
    return made if letter == "N" else made.t()


def operands(case: Case) -> list[Any]:
    """What the epilogue takes besides the product."""
    import torch

    m, n, k = case.size
    root = k**-0.5
    match case.epilogue:
        case "bias_gelu" | "bias_relu":
            return [torch.randn(n, device="cuda")]
        case "residual" | "gate":
            return [torch.randn((m, n), device="cuda").to(type_of(case.dtype))]
        case "scale":
            return [root]
        case "scales":
            return [torch.rand(m, device="cuda") * root, torch.rand(n, device="cuda") + 0.5]
    return []


def reference(case: Case, a: Any, b: Any, given: list[Any]) -> Any:
    """The epilogue of the product in f64, of f32 operands in TF32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    x = a.double() @ b.double()
    match case.epilogue:
        case "bias_gelu":
            x = torch.nn.functional.gelu(x + given[0])
        case "bias_relu":
            x = torch.relu(x + given[0])
        case "residual":
            x = x + given[0]
        case "gate":
            x = torch.nn.functional.silu(x) * given[0]
        case "scale":
            x = x * given[0]
        case "scales":
            x = x * given[0][:, None] * given[1]
    return x


def rivals(case: Case, a: Any, b: Any, c: Any, given: list[Any]) -> dict[str, Callable[[], Any]]:
    """What torch has for a case."""
    import torch
    from torch.nn import functional

    torch.backends.cuda.matmul.allow_tf32 = True
    type_ = type_of(case.dtype)
    if case.dtype == "i8":
        return {"_int_mm": lambda: torch._int_mm(a, b, out=c)}
    if case.dtype.startswith("f8"):
        each = case.epilogue == "scales"
        factors = (
            [given[0][:, None], given[1][None, :]] if each else [torch.tensor(x, device="cuda") for x in (*given, 1.0)]
        )
        return {
            f"_scaled_mm{' fast' if fast else ''}": lambda fast=fast: torch._scaled_mm(
                a, b, *factors, out_dtype=type_of(case.result), use_fast_accum=fast
            )
            for fast in (True, False)
        }
    if case.positive:
        return {"mm, f32 result": lambda: torch.mm(a, b, out_dtype=torch.float32)}
    if case.dtype != case.result:  # f32 of 16-bit operands
        return {} if case.epilogue else {UNFUSED: lambda: torch.mm(a, b)}
    match case.epilogue:
        case "bias_gelu":
            bias = given[0].to(type_)
            return {"addmm + gelu": lambda: functional.gelu(torch.addmm(bias, a, b)),
                    "_addmm_activation (tanh)": lambda: torch._addmm_activation(bias, a, b, use_gelu=True)}  # fmt: skip
        case "bias_relu":
            bias = given[0].to(type_)
            return {"addmm + relu": lambda: torch.relu_(torch.addmm(bias, a, b)),
                    "_addmm_activation": lambda: torch._addmm_activation(bias, a, b)}  # fmt: skip
        case "residual":
            return {"addmm": lambda: torch.addmm(given[0], a, b, out=c)}
        case "gate":
            return {"mm + silu + mul": lambda: functional.silu(torch.mm(a, b)).mul_(given[0])}
    return {"mm": lambda: torch.mm(a, b, out=c)}


def turned_rivals(case: Case, a: Any, b: Any, c: Any, given: list[Any]) -> dict[str, Callable[[], Any]]:
    """Transposing copies before what torch has for operands along K, and Triton's dot."""
    import f8_rivals
    import torch

    quick, slow, operands_along_k = [], [], {"a": a, "b": b}
    for name in copies_of(case):
        source = a.t() if name == "a" else b
        copy, target = f8_rivals.transposing_copy(source, hopper.elapsed)
        quick.append(copy)
        slow.append(lambda source=source, target=target: target.view(torch.int8).copy_(source.view(torch.int8).t()))
        operands_along_k[name] = target if name == "a" else target.t()
    beside = rivals(case, operands_along_k["a"], operands_along_k["b"], c, given)
    name = next(iter(beside))
    found = {f"Triton copy + {name}": in_sequence([*quick, beside[name]]),
             f"torch copy + {name}": in_sequence([*slow, beside[name]])}  # fmt: skip
    if case.dtype == "i8":
        found["_int_mm"] = lambda: torch._int_mm(a, b, out=c)
    alpha = given[0] if given else 1.0
    found["Triton dot"] = f8_rivals.product(a, b, torch.empty_like(c), alpha, hopper.elapsed)
    return found


def table(_: list[str]) -> None:
    """The table of the documentation, from the newest results."""
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    cells = []
    for row in results["rows"]:
        ours, plain = row["ms"]["lego"], row["case"].count("-") == PLAIN_DASHES
        rivals_ = [name for name in row["errors"] if plain or name != UNFUSED]
        beside = ", ".join(f"{name} {row['ms'][name] / ours:.3f}" for name in rivals_)
        theirs = ", ".join(f"{row['errors'][name][0]:.2g}" for name in rivals_)
        cells.append([row["case"].replace("-", " "), f"{ours:.4f}", beside, f"{row['error']:.2g}", theirs])
    path = mlir_kernels.latest_path(NAME)
    circumstances = f"{results['device']}, {path.name[: len('2026-01-02')]}, PyTorch {results['torch']}.\n\n"
    text = mlir_kernels.table("M x N x K, layouts, types, epilogue|ms|time of PyTorch, relative|error|theirs", cells)
    mlir_kernels.put_into(PAGE, "warpgroups-types", circumstances, text)


if __name__ == "__main__":
    mlir_kernels.main(__doc__ or "", {"render": render, "time": time, "table": table}, [], str)
