"""How a product of matrices is compiled, checked and compared with cuBLAS, PyTorch's calls and Triton.

A suite says which kernels are built for each of its products, and a row of `BASELINES` which calls they are compared
with. Every kernel runs twice into memory of NaN: it must be close to the product in f64, with its epilogue, give the
same bits again, and leave its counters at 0. Launches are back to back in CUDA graphs, and single. Where `rotated`,
the launches go through copies of B that together exceed L2, as the layers of a model do: B comes from memory.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
from harness import Contender, Protocol
from product_cases import Product

SMS, TARGET, PLAIN_TARGET = 132, "sm_90a", "sm_90"
ROTATED_BYTES = 160 * 2**20  # of B in all, several times the L2 cache of 50 MB
FAST_F8, LONG = 0.02, 8192  # relative to the largest value: units sum products of 8-bit types with about 13 bits
TOLERANCES = {"f16": 2e-3, "bf16": 8e-3, "f32": 2e-3, "i32": 0.0, "f8e4m3fn": 0.07}
CHECKED = (1, 8, 65, 129, 1000, 2047)
"""Values of M, times 64 in classes of whole columns along M, at which a class is checked with its N and K."""


# -- where the compiler is


@dataclass(frozen=True)
class Way:
    """One of our ways to compute a product: `build` compiles its kernel, which is kept under the name `file`.

    `facts` are recorded with its times. `steps` name the kernels before and after the product, as `launches` has them.
    """

    file: str
    build: Callable[[], Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Products, the ways that are built for each, and the baselines that are timed where they apply."""

    products: Sequence[Product]
    ways: Callable[[Product], Mapping[str, Way]]
    baselines: Sequence[str] = ("cuBLAS",)
    protocol: Protocol = field(default_factory=lambda: Protocol("steady", 0.15, 3, graphs=True, patience_ms=600))
    rotated: bool = False


def tile_for(product: Product) -> Any:
    """The tile that lego_mlir.matmul chooses among warpgroups."""
    from lego_mlir.choices import warpgroup_tiles
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.tracing.trace.dtypes import dtype_named

    fused = epilogue_of(product)
    return warpgroup_tiles.choose(
        *product.size, device_with(SMS), "NT" if product.is_turned else product.layouts,
        dtype_named(product.dtype).bytes, exact=product.exact,
        fused=fused is not None or product.result not in ("f16", "bf16"),
        operands=0 if fused is None else len(fused.operands),
    )  # fmt: skip


def compiled(product: Product, tile: Any = None, emit: str = "cubin") -> Any:
    """The kernel of a product by warpgroups, in the tile that is chosen for it or in another one."""
    from lego_mlir.kernels.fused_epilogues import FusedParts
    from lego_mlir.kernels.scheduled_products import ScheduledProduct

    tile, layouts = tile or tile_for(product), "NT" if product.is_turned else product.layouts
    parts = FusedParts(rounded=product.dtype == "f32")
    kernel = ScheduledProduct(tile, layouts, product.dtype, product.result, parts)
    return mlir_kernels.compiled(kernel.kernel(product.size, tile.clusters(SMS), epilogue_of(product)), TARGET, emit)


def epilogue_of(product: Product) -> Any:
    """The epilogue, None for none."""
    from lego_mlir.kernels import epilogues
    from lego_mlir.tracing.trace.dtypes import dtype_named

    m, n, _ = product.size
    made: dict[str, Callable[[], Any]] = {
        "bias_gelu": lambda: epilogues.bias(n).then(epilogues.gelu()),
        "bias_relu": lambda: epilogues.bias(n).then(epilogues.relu()),
        "residual": lambda: epilogues.residual(m, n, dtype_named(product.dtype)),
        "gate": lambda: epilogues.silu_gate(m, n, dtype_named(product.dtype)),
        "scale": epilogues.scale,
        "scales": lambda: epilogues.scales(m, n),
    }
    return made[product.epilogue]() if product.epilogue else None


def rendered(task: tuple[Path, Suite, Product]) -> list[dict[str, Any]]:
    """The entries of a product's kernels, compiled into the folder where they are missing."""
    from lego_mlir.errors import LegoError

    folder, suite, product = task
    entries = []
    for label, way in suite.ways(product).items():
        if not (folder / f"{way.file}.json").is_file():
            try:
                mlir_kernels.keep_code(folder, way.file, way.build())
            except LegoError as error:
                print(f"left out {way.file}: {str(error).splitlines()[0][:200]}", flush=True)
                continue
        entries.append({"case": str(product), "kernel": label, "file": way.file, **way.facts, "steps": way.steps})
    return entries


def render(suite: Suite, folder: Path, cases: Sequence[harness.Case]) -> None:
    """Compile the kernels of these products on all cores; the index grows with each."""
    listed = folder / "index.json"
    index = json.loads(listed.read_text()) if listed.is_file() else []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for entries in pool.map(rendered, [(folder, suite, product) for (product,) in cases]):
            index = [entry for entry in index if entry["case"] != entries[0]["case"]] + entries if entries else index
            listed.write_text("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n")


# -- on the GPU machine


class Problem:
    """The matrices of a product on the device, what its epilogue takes, and its result in f64."""

    def __init__(self, product: Product, rotated: bool = False) -> None:
        import torch

        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        m, n, k = product.size
        self.product = product
        self.a, self.b = (operand(d, way, product) for d, way in zip(((m, k), (k, n)), product.layouts, strict=True))
        self.given = operands(product)
        self.expected = reference(product, self.a.double() @ self.b.double(), self.given)
        self.c = torch.empty((m, n), device="cuda", dtype=type_of(product.result))
        copies = max(2, -(-ROTATED_BYTES // (2 * n * k))) - 1 if rotated else 0
        self.weights = [self.b, *(self.b.t().clone().t() for _ in range(copies))]
        torch.backends.cuda.matmul.allow_tf32 = True

    def rotating(self, make: Callable[[Any], Callable[[], Any]]) -> Callable[[], Any]:
        """Launches on one copy of B after the other."""
        made = [make(b) for b in self.weights]
        turns = cycle(made)
        return made[0] if len(made) == 1 else lambda: next(turns)()


def type_of(dtype: str) -> Any:
    import torch

    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8, "i32": torch.int32,
            "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}[dtype]  # fmt: skip


def operand(dims: tuple[int, int], letter: str, product: Product) -> Any:
    """A random matrix, in rows or in columns."""
    import torch

    stored = dims if letter == "N" else dims[::-1]
    if product.dtype == "i8":
        made = torch.randint(-128, 128, stored, device="cuda", dtype=torch.int8)
    else:
        drawn = torch.rand if product.positive else torch.randn
        made = drawn(stored, device="cuda").to(type_of(product.dtype))
    return made if letter == "N" else made.t()


def operands(product: Product) -> list[Any]:
    """What the epilogue takes besides the product."""
    import torch

    m, n, k = product.size
    match product.epilogue:
        case "bias_gelu" | "bias_relu":
            return [torch.randn(n, device="cuda")]
        case "residual" | "gate":
            return [torch.randn((m, n), device="cuda").to(type_of(product.dtype))]
        case "scale":
            return [k**-0.5]
        case "scales":
            return [torch.rand(m, device="cuda") * k**-0.5, torch.rand(n, device="cuda") + 0.5]
    return []


def reference(product: Product, x: Any, given: list[Any]) -> Any:
    """The epilogue of a product in f64."""
    from torch.nn import functional

    match product.epilogue:
        case "bias_gelu":
            return functional.gelu(x + given[0])
        case "bias_relu":
            return functional.relu(x + given[0])
        case "residual":
            return x + given[0]
        case "gate":
            return functional.silu(x) * given[0]
        case "scale":
            return x * given[0]
        case "scales":
            return x * given[0][:, None] * given[1]
    return x


def tolerance_of(product: Product) -> float:
    """The error relative to the largest value; what sums of positive numbers lose is the result of those products."""
    found = TOLERANCES[product.result]
    if product.dtype.startswith("f8") and not product.exact:
        found = max(found, FAST_F8 * max(1.0, (product.size[2] / LONG) ** 0.5))
    return 1.0 if product.positive and product.dtype.startswith("f8") else found + 1e-30


def launches(folder: Path, entry: Mapping[str, Any], problem: Problem, b: Any) -> Callable[[], Any]:
    """The launches of one way: copies of the operands, the product, and a copy of its result, on memory bound once.

    Of the steps, `along` has the copies that make K contiguous by the operand's name, `wide` the size of a product on
    aligned copies, `pad` those copies by the operand's name and `crop` that of the result.
    """
    import torch

    steps, before, (m, n, k) = entry["steps"], [], problem.product.size
    found, c = {"a": problem.a, "b": b}, problem.c

    def prepared(file: str, *arrays: Any) -> Callable[[], Any]:
        kernel = mlir_kernels.kept_kernel(folder / f"{file}.cubin")
        return kernel.prepare(*arrays, *harness.scratch(kernel))

    for name, file in steps.get("along", {}).items():
        source = (found[name].t() if name == "a" else found[name]).view(torch.int8)
        target = torch.empty((m if name == "a" else n, k), device="cuda", dtype=torch.int8)
        before.append(prepared(file, source, target))
        copied = target.view(found[name].dtype)
        found[name] = copied if name == "a" else copied.t()
    wide_m, wide_n, wide_k = steps.get("wide", (m, n, k))
    for name, file in steps.get("pad", {}).items():
        dims, letter = {"a": ((wide_m, wide_k), 0), "b": ((wide_k, wide_n), 1)}[name]
        turned = problem.product.layouts[letter] == "T"
        wide = torch.full(dims[::-1] if turned else dims, float("nan"), device="cuda", dtype=c.dtype)
        wide = wide.t() if turned else wide
        before.append(prepared(file, found[name], wide))
        found[name] = wide
    result = torch.empty((wide_m, wide_n), device="cuda", dtype=c.dtype) if "crop" in steps else c
    run = prepared(entry["file"], found["a"], found["b"], result, *problem.given)
    after = [prepared(steps["crop"], result, c)] if "crop" in steps else []
    return in_sequence([*before, run, *after])


def in_sequence(runs: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """All of them, one after the other; the result of the last."""
    *before, last = runs
    if not before:
        return last

    def all_() -> Any:
        for run in before:
            run()
        return last()

    return all_


def checked(run: Callable[[], Any], problem: Problem, what: str) -> dict[str, float]:
    """The errors of a way that ran twice. Raises WrongResultError where it is not close, or not the same twice."""
    import torch

    found = []
    for _ in range(2):
        problem.c.view(torch.uint8).fill_(0xFF)  # NaN in every type of floats
        run()
        found.append(problem.c.clone())
    error = harness.require_close(found[0], problem.expected, tolerance_of(problem.product), what)
    if not torch.equal(*(one.view(torch.uint8) for one in found)):
        raise harness.WrongResultError(f"{what}: two launches differ")
    return {"error": error, "mean": mean_error(found[0], problem.expected)}


def mean_error(found: Any, expected: Any) -> float:
    """The mean of the errors, with their signs, relative to the mean size of the values: how far sums drift."""
    return ((found.double() - expected).mean() / expected.abs().mean()).item()


def check_class(path: Path, product: Product, step: int) -> None:
    """Products of small integers by the kernel of a class for several M, exact as cuBLAS has them."""
    import torch

    kernel, (_, n, k) = mlir_kernels.kept_kernel(path), product.size
    for m in (step * m for m in CHECKED):
        a, b = (
            torch.randint(-4, 5, dims if letter == "N" else dims[::-1], device="cuda").half()
            for letter, dims in zip(product.layouts, ((m, k), (k, n)), strict=True)
        )
        a, b = (x if letter == "N" else x.t() for letter, x in zip(product.layouts, (a, b), strict=True))
        c = torch.full((m, n), float("nan"), device="cuda").half()
        kernel(a, b, c)
        if not torch.equal(c, torch.mm(a, b)):
            raise harness.WrongResultError(f"{path.stem} is wrong at M = {m}")


def entries_of(folder: Path, product: Product) -> list[dict[str, Any]]:
    """What `render` left for a product. Raises LookupError for nothing."""
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    found = [entry for entry in index if entry["case"] == str(product)]
    if not found:
        raise LookupError("not rendered")
    return found


def contenders(
    product: Product, folder: Path, entries: Sequence[Mapping[str, Any]], names: Sequence[str], rotated: bool = False
) -> list[Contender]:
    """The baselines of a product, then our ways, each checked."""
    problem, found = Problem(product, rotated), []
    common = {"size": product.size, "layouts": product.layouts, "dtype": product.dtype}
    for name, run in baselines(problem, names).items():
        error = ((run().double() - problem.expected).abs().max() / problem.expected.abs().max()).item()
        found.append(harness.contender(run, kernel=name, **common, error=error))
    for entry in entries:
        if "class_step" in entry:
            check_class(folder / f"{entry['file']}.cubin", product, entry["class_step"])
        run = problem.rotating(lambda b, entry=entry: launches(folder, entry, problem, b))
        errors = checked(run, problem, f"{product} {entry['kernel']}")
        facts = {name: value for name, value in entry.items() if name not in ("case", "file", "steps", "class_step")}
        found.append(harness.contender(run, **facts, **common, **errors))
    return found


# -- baselines


@dataclass(frozen=True)
class Baseline:
    """A call of a library: the products that it computes, and its launch on a copy of B."""

    name: str
    applies: Callable[[Product], bool]
    launch: Callable[[Problem, Any], Callable[[], Any]]


def _plain(product: Product) -> bool:
    return product.dtype == product.result and product.dtype in ("f16", "bf16", "f32") and not product.epilogue


def _mm(problem: Problem, b: Any) -> Callable[[], Any]:
    import torch

    return lambda: torch.mm(problem.a, b, out=problem.c)


def _exactly(problem: Problem, b: Any) -> Callable[[], Any]:
    """cuBLAS summing partial products in f32."""
    import torch

    flags, run = torch.backends.cuda.matmul, _mm(problem, b)

    def exact() -> Any:
        kept = flags.allow_fp16_reduced_precision_reduction, flags.allow_bf16_reduced_precision_reduction
        flags.allow_fp16_reduced_precision_reduction = flags.allow_bf16_reduced_precision_reduction = False
        try:
            return run()
        finally:
            flags.allow_fp16_reduced_precision_reduction, flags.allow_bf16_reduced_precision_reduction = kept

    return exact


def _scaled(fast: bool) -> Callable[[Problem, Any], Callable[[], Any]]:
    def launch(problem: Problem, b: Any) -> Callable[[], Any]:
        import torch

        given, result = problem.given, type_of(problem.product.result)
        if problem.product.epilogue == "scales":
            factors = [given[0][:, None], given[1][None, :]]
        else:
            factors = [torch.tensor(x, device="cuda") for x in (*given, 1.0)]
        return lambda: torch._scaled_mm(problem.a, b, *factors, out_dtype=result, use_fast_accum=fast)

    return launch


def _activated(fused: bool) -> Callable[[Problem, Any], Callable[[], Any]]:
    """`addmm` with a bias of the operands' type, and an activation after it or in it."""

    def launch(problem: Problem, b: Any) -> Callable[[], Any]:
        import torch

        a, bias, gelu = problem.a, problem.given[0].to(problem.a.dtype), problem.product.epilogue == "bias_gelu"
        if fused:
            return lambda: torch._addmm_activation(bias, a, b, use_gelu=gelu)
        after = torch.nn.functional.gelu if gelu else torch.relu_
        return lambda: after(torch.addmm(bias, a, b))

    return launch


def _of_torch(make: Callable[[Any, Problem, Any], Any]) -> Callable[[Problem, Any], Callable[[], Any]]:
    """A launch that is one expression of torch."""

    def launch(problem: Problem, b: Any) -> Callable[[], Any]:
        import torch

        return lambda: make(torch, problem, b)

    return launch


def _copied(by_triton: bool) -> Callable[[Problem, Any], Callable[[], Any]]:
    """Transposing copies, by Triton or PyTorch, before what PyTorch has for operands along K."""

    def launch(problem: Problem, b: Any) -> Callable[[], Any]:
        import torch
        from rivals import triton_f8

        copies, found = [], {"a": problem.a, "b": b}
        for name, letter in zip("ab", problem.product.layouts, strict=True):
            if letter == {"a": "N", "b": "T"}[name]:
                continue
            source = found[name].t() if name == "a" else found[name]
            copy, target = triton_f8.transposing_copy(source, harness.elapsed)
            if not by_triton:
                copy = _copy(target.view(torch.int8), source.view(torch.int8))
            copies.append(copy)
            found[name] = target if name == "a" else target.t()
        turned = Problem.__new__(Problem)
        turned.__dict__ = {**problem.__dict__, "a": found["a"]}
        last = _scaled(True) if problem.product.dtype != "i8" else _INT_MM
        return in_sequence([*copies, last(turned, found["b"])])

    return launch


def _copy(target: Any, source: Any) -> Callable[[], Any]:
    return lambda: target.copy_(source.t())


def _triton_dot(problem: Problem, b: Any) -> Callable[[], Any]:
    import torch
    from rivals import triton_f8

    alpha = problem.given[0] if problem.given else 1.0
    return triton_f8.product(problem.a, b, torch.empty_like(problem.c), alpha, harness.elapsed)


def _triton_matmul(problem: Problem, b: Any) -> Callable[[], Any]:
    """The kernel by hand in the fastest of a few tiles. Raises ValueError where none divides the product."""
    from rivals import triton_matmul

    (m, n, k), runs = problem.product.size, {}
    strides = (*problem.a.stride(), *b.stride(), *problem.c.stride())
    for tile, warps, stages in (
        ((128, 256, 64), 8, 3), ((128, 128, 64), 4, 3), ((64, 128, 64), 4, 4), ((64, 64, 64), 4, 4),
        ((32, 64, 128), 4, 4),
    ):  # fmt: skip
        if not (m % tile[0] or n % tile[1] or k % tile[2]):
            launch = triton_matmul.matmul[((m // tile[0]) * (n // tile[1]),)]
            given = (problem.a, b, problem.c, m, n, k, *strides, *tile, 8)
            runs[tile] = partial(launch, *given, num_warps=warps, num_stages=stages)
    if not runs:
        raise ValueError("no tile divides it")
    run = runs[harness.best(runs)]
    return in_sequence([run, lambda: problem.c])


_INT_MM = _of_torch(lambda torch, p, b: torch._int_mm(p.a, b, out=p.c))
UNFUSED = "mm, 16-bit result"
BASELINES = (
    Baseline("cuBLAS", _plain, _mm),
    Baseline("cuBLAS, exact reductions", lambda p: _plain(p) and p.dtype != "f32", _exactly),
    Baseline("mm, f32 result", lambda p: (p.dtype, p.result, p.epilogue) in (("f16", "f32", ""), ("bf16", "f32", "")),
             _of_torch(lambda torch, p, b: torch.mm(p.a, b, out_dtype=torch.float32))),
    Baseline(UNFUSED, lambda p: (p.dtype, p.result, p.epilogue) == ("f16", "f32", "") and not p.positive,
             _of_torch(lambda torch, p, b: torch.mm(p.a, b))),
    Baseline("addmm + activation", lambda p: p.epilogue.startswith("bias") and p.dtype == p.result,
             _activated(fused=False)),
    Baseline("_addmm_activation (gelu by tanh)", lambda p: p.epilogue.startswith("bias") and p.dtype == p.result,
             _activated(fused=True)),
    Baseline("addmm", lambda p: p.epilogue == "residual" and p.dtype == p.result,
             _of_torch(lambda torch, p, b: torch.addmm(p.given[0], p.a, b, out=p.c))),
    Baseline("mm + silu + mul", lambda p: p.epilogue == "gate" and p.dtype == p.result,
             _of_torch(lambda torch, p, b: torch.nn.functional.silu(torch.mm(p.a, b)).mul_(p.given[0]))),
    Baseline("_scaled_mm fast", lambda p: p.dtype.startswith("f8") and not p.is_turned, _scaled(True)),
    Baseline("_scaled_mm", lambda p: p.dtype.startswith("f8") and not p.is_turned, _scaled(False)),
    Baseline("_int_mm", lambda p: p.dtype == "i8", _INT_MM),
    Baseline("Triton copy + PyTorch", lambda p: p.is_turned, _copied(True)),
    Baseline("torch copy + PyTorch", lambda p: p.is_turned, _copied(False)),
    Baseline("Triton", lambda p: _plain(p) and p.dtype == "f16", _triton_matmul),
    Baseline("Triton dot", lambda p: p.is_turned, _triton_dot),
)  # fmt: skip


PYTORCH = tuple(baseline.name for baseline in BASELINES if baseline.name != "Triton")


def baselines(problem: Problem, names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """The baselines of these names that take the sizes and types of a product."""
    found = {}
    for baseline in BASELINES:
        if baseline.applies(problem.product) and baseline.name in names:
            try:
                run = problem.rotating(lambda b, baseline=baseline: baseline.launch(problem, b))
                run()
            except (RuntimeError, ValueError) as refused:  # sizes or types that a call does not take
                print(f"{problem.product}: {baseline.name} refuses: {str(refused).splitlines()[0]}", flush=True)
            else:
                found[baseline.name] = run
    return found
