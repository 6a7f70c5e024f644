"""Attention of this project by warpgroups against FlashAttention-3 and PyTorch's back ends.

    python bench/attention.py NAME STEP [WORD ..]      the steps of `runner.py`: `flash_attention time 128 causal`

flash_attention    `kernels.fused_attention` forward, bf16, heads first and rows first, against FlashAttention-3 (which
                   reads rows first; `time` needs the package fa3-fwd) and cuDNN; a kernel for all lengths and strides
fused_attention    the same for fixed sizes, f16, and its gradients in one pass, against torch's back ends
narrow_attention   the kernel in f8e4m3fn with a scale for each head, rows first, against FlashAttention-3's of the same
                   arrays; both errors are kept
attention_forms    forms that nothing times: are they right? Heads of 256, windows, shared heads, lengths that no tile
                   divides; gradients in one pass and in two with one order of sums (`check`)

Times are of 16,384 positions and 2,048 features in all batches and heads; those of rows of a table are over ours, above
1.00 ours is faster.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import harness
import mlir_kernels
import runner
from harness import Contender

PAGE, TARGET = "results/attention.md", "sm_90a"
POSITIONS, FEATURES, BLOCKS = 16384, 2048, 132  # of all batches, of all heads, of an H200
LENGTHS, MASKS = (1024, 2048, 4096, 8192, 16384), ("full", "causal")
TOLERANCE = 1e-2
Way = Callable[[], Any]


# -- what all share


def exact(q: Any, k: Any, v: Any, seen: Any = None, slope: Any = None) -> list[Any]:
    """o in f32, and with a slope the gradients; positions where `seen` is false are left out."""
    import torch

    q, k, v = (x.float().requires_grad_(slope is not None) for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    o = torch.softmax(scores if seen is None else scores.masked_fill(~seen, -math.inf), -1) @ v
    if slope is None:
        return [o]
    o.backward(slope.float())
    return [o.detach(), q.grad, k.grad, v.grad]


def seen_by(mask: str, length: int) -> Any:
    """What a mask lets each query see."""
    import torch

    return torch.ones(length, length, dtype=torch.bool, device="cuda").tril() if mask == "causal" else None


def torch_ways(
    given: Sequence[Any], mask: str, backends: Sequence[str] = ("CUDNN", "FLASH"), slope: Any = None
) -> dict[str, Way]:
    """Torch's back ends that take this problem: forward, or with a slope backward."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    given = [x.clone().requires_grad_(slope is not None) for x in given]

    def attend(backend: Any) -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=mask == "causal")

    found: dict[str, Way] = {}
    for name in backends:
        run = partial(attend, getattr(SDPBackend, f"{name}_ATTENTION"))
        try:
            result = run()
        except RuntimeError as error:
            print(f"  no {name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        gradients = partial(torch.autograd.grad, result, given, slope, retain_graph=True)
        found[f"torch {name.lower()}"] = run if slope is None else gradients
    return found


def heads_of(features: int, length: int) -> int:
    """Heads of all batches."""
    return POSITIONS // length * FEATURES // features


def tflops(mask: str, heads: int, features: int, length: int, ms: float, products: int = 4) -> str:
    return f"{products * heads * features * length**2 / (2 if mask == 'causal' else 1) / ms / 1e9:.0f}"


def over(found: Mapping[str, Any], names: Sequence[str], ours: str = "lego") -> list[str]:
    """The times of baselines over ours, empty where one was not measured."""
    return [f"{found[name]['ms'] / found[ours]['ms']:.2f}" if name in found else "" for name in names]


# -- by warpgroups, all lengths and strides: against FlashAttention-3 and cuDNN

FLASH_LENGTHS = (512, 777, 2048, 3001, 6100, 8192, 16384)
FLASH = [*product((64, 96, 128, 192, 256), MASKS, FLASH_LENGTHS)]
FLASH_BASELINES = {"fa3": "FlashAttention-3", "torch cudnn": "cuDNN"}


def flash_kernel(features: int, mask: str, length: int, narrow: bool = False) -> Any:
    """The kernel of a case, which has a name: one for all lengths that have its tile and its blocks."""
    from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes, fastest
    from lego_mlir.runtime.attention_kernels import AttentionKernel
    from lego_mlir.tracing.trace.dtypes import bf16, f8e4m3fn

    types = {"dtype": f8e4m3fn, "result": bf16} if narrow else {"dtype": bf16}
    form = AttentionForm(features, causal=mask == "causal", **types)
    tile, blocks = fastest(form, HeadSizes(*flash_batch(features, length), length, length), BLOCKS)
    return AttentionKernel("attention", form, tile, blocks=blocks)


def flash_batch(features: int, length: int) -> tuple[int, int]:
    """Batches and heads."""
    return max(POSITIONS // length, 1), FEATURES // features


def render_flash(folder: Path, cases: Sequence[harness.Case], narrow: bool = False) -> None:
    """The cubins, one for the cases that take it."""
    for kernel in dict.fromkeys(flash_kernel(*case, narrow) for case in cases):
        mlir_kernels.keep_cubin(folder / kernel.name, kernel.build(), TARGET)


def timed_flash(folder: Path, features: int, mask: str, length: int) -> list[Contender]:
    """The contenders of a case, each compared with the result in f32 for the first and the last head."""
    import torch

    import lego_mlir

    taken = flash_kernel(features, mask, length).name
    kernel = lego_mlir.load_kernels(str(folder / taken))["attention"]
    batch, heads = flash_batch(features, length)
    rows_first = [torch.randn(batch, length, heads, features, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    views, heads_first = zip(*((x.transpose(1, 2), x.transpose(1, 2).contiguous()) for x in rows_first), strict=True)
    strides = dict(zip(("o_batch", "o_head", "o_row"), views[0].stride(), strict=False))
    runs = {"lego": partial(kernel, *heads_first), "lego rows first": partial(kernel, *views, **strides)}
    runs |= {"fa3": flash_3(rows_first, mask), **torch_ways(heads_first, mask, ("CUDNN",))}
    seen = seen_by(mask, length)
    wanted = {at: exact(*(x[at] for x in views), seen)[0] for at in ((0, 0), (batch - 1, heads - 1))}
    facts = {"features": features, "mask": mask, "length": length, "taken": taken}
    return right_contenders(runs, wanted, 2 * TOLERANCE, facts)


def right_contenders(
    runs: Mapping[str, Way], wanted: Mapping[tuple[int, int], Any], tolerance: float, facts: Mapping[str, Any]
) -> list[Contender]:
    """The contenders that take a size, each compared with what is wanted of a batch and a head."""
    found = []
    for name, run in runs.items():
        try:
            result = run()
        except Exception as error:  # a size that a baseline does not take
            print(f"  no {name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        o = result[0] if isinstance(result, tuple) else result
        o = o.transpose(1, 2) if name == "fa3" else o
        error = max(harness.require_close(o[at], e, tolerance, name) for at, e in wanted.items())
        found.append(harness.contender(run, kernel=name, **facts, error=error))
    return found


def flash_3(given: Sequence[Any], mask: str, **scales: Any) -> Way:
    import fa3_fwd_interface

    return partial(fa3_fwd_interface.flash_attn_func, *given, causal=mask == "causal", **scales)


def flash_table() -> None:
    """Teraflops, and times over ours: of rows first for FlashAttention-3, of heads first for cuDNN."""
    rows, ratios = [], {}
    for (features, mask, length), found in mlir_kernels.measured_cases("flash_attention", FLASH, "lego"):
        ours = {"torch cudnn": found["lego"]["ms"], "fa3": found["lego rows first"]["ms"]}
        cells = {name: found[name]["ms"] / ours[name] for name in FLASH_BASELINES if name in found}
        for name, ratio in cells.items():
            ratios.setdefault((features, mask, name), []).append(ratio)
        shown = [f"{cells[name]:.2f}" if name in cells else "" for name in FLASH_BASELINES]
        speed = tflops(mask, math.prod(flash_batch(features, length)), features, length, ours["fa3"])
        first = [str(features), mask, str(length), mlir_kernels.time_cell(found["lego rows first"]), speed]
        rows.append([*first, *shown, f"{ours['torch cudnn'] / ours['fa3']:.2f}"])
    columns = f"head|mask|length|ms (10th to 90th percentile)|Tflop/s|{'|'.join(FLASH_BASELINES.values())}|heads first"
    means = [f"{k[0]} {k[1]} {FLASH_BASELINES[k[2]]} {geometric_mean(r):.3f}, least {min(r):.3f}"
             for k, r in ratios.items()]  # fmt: skip
    note = f"; above 1.00 ours is faster. Geometric means: {'; '.join(means)}"
    made = mlir_kernels.table(columns, rows)
    mlir_kernels.put_results(PAGE, "flash_attention", "flash_attention", made, "torch", note=note)


# -- the same in f8: against FlashAttention-3

NARROW = [*product((64, 128, 256), MASKS, FLASH_LENGTHS)]
LARGEST, NARROW_TOLERANCE = 448, 0.1  # of f8e4m3fn; relative to the largest value of the result


def timed_narrow(folder: Path, features: int, mask: str, length: int) -> list[Contender]:
    """The contenders of a case, each compared with the result in f32 of the same numbers."""
    import torch

    import lego_mlir

    taken = flash_kernel(features, mask, length, narrow=True).name
    kernel = lego_mlir.load_kernels(str(folder / taken))["attention"]
    batch, heads = flash_batch(features, length)
    drawn = [torch.randn(batch, length, heads, features, device="cuda") for _ in range(3)]
    scales = [x.abs().amax((0, 1, 3)) / LARGEST for x in drawn]
    given = [(x / s[:, None]).to(torch.float8_e4m3fn) for x, s in zip(drawn, scales, strict=True)]
    views = [x.transpose(1, 2) for x in given]
    strides = dict(zip(("o_batch", "o_head", "o_row"), views[0].stride(), strict=False))
    theirs = {f"{name}_descale": s.expand(batch, heads).contiguous() for name, s in zip("qkv", scales, strict=True)}
    runs = {"lego": partial(kernel, *views, *scales, **strides), "fa3": flash_3(given, mask, **theirs)}
    seen, ends = seen_by(mask, length), ((0, 0), (batch - 1, heads - 1))
    wanted = {
        at: exact(*(x[at].float() * s[at[1]] for x, s in zip(views, scales, strict=True)), seen)[0] for at in ends
    }
    facts = {"features": features, "mask": mask, "length": length, "taken": taken}
    return right_contenders(runs, wanted, NARROW_TOLERANCE, facts)


def narrow_table() -> None:
    """Teraflops, the time of FlashAttention-3 over ours, and the largest errors of both."""
    rows, ratios = [], {}
    for (features, mask, length), found in mlir_kernels.measured_cases("narrow_attention", NARROW, "lego"):
        ours, theirs = found["lego"], found.get("fa3")
        speed = tflops(mask, math.prod(flash_batch(features, length)), features, length, ours["ms"])
        cells = [str(features), mask, str(length), mlir_kernels.time_cell(ours), speed, *over(found, ["fa3"])]
        rows.append([*cells, f"{ours['error']:.3f}", "" if theirs is None else f"{theirs['error']:.3f}"])
        if theirs is not None:
            ratios.setdefault((features, mask), []).append(theirs["ms"] / ours["ms"])
    columns = "head|mask|length|ms (10th to 90th percentile)|Tflop/s|FlashAttention-3|error|its error"
    means = [f"{k[0]} {k[1]} {geometric_mean(r):.3f}, least {min(r):.3f}" for k, r in ratios.items()]
    note = f"; above 1.00 ours is faster. Geometric means: {'; '.join(means)}"
    made = mlir_kernels.table(columns, rows)
    mlir_kernels.put_results(PAGE, "narrow_attention", "narrow_attention", made, "torch", note=note)


# -- by warpgroups, fixed sizes, and gradients: against torch's back ends

FUSED = [
    *product(("forward",), (128, 64), LENGTHS, MASKS),
    *product(("backward",), (128, 64), (1024, 4096, 16384), MASKS),
]
FUSED_BASELINES = {"torch cudnn": "torch cuDNN", "torch flash": "torch flash"}
GRADIENTS = ("prepared", "added", "rounded")


def render_fused(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The cubins, each in a folder with its manifest; gradients begin with the result forward."""
    from lego_mlir.kernels import added_gradients, fused_attention
    from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes, fastest

    for direction, features, length, mask in cases:
        form = AttentionForm(features, causal=mask == "causal")
        sizes = HeadSizes(1, heads_of(features, length), length, length)
        tile, blocks = fastest(form, sizes, BLOCKS)
        kernel = fused_attention.build(form, tile, sizes, blocks)
        mlir_kernels.keep_cubin(folder / f"{features}-{length}-{mask}", kernel, TARGET)
        if direction == "backward":
            kernels = added_gradients.build(form)
            for kernel in (kernels.prepare, kernels.main, kernels.round):
                mlir_kernels.keep_cubin(folder / f"gradients-{features}-{mask}", kernel, TARGET)


def timed_fused(folder: Path, direction: str, features: int, length: int, mask: str) -> list[Contender]:
    """The contenders of a case, ours right for the first and the last head."""
    import torch

    import lego_mlir

    heads, facts = heads_of(features, length), {"direction": direction, "features": features, "length": length}
    q, k, v, slope = (torch.randn((1, heads, length, features), device="cuda", dtype=torch.float16) for _ in range(4))
    run = partial(lego_mlir.load_kernels(str(folder / f"{features}-{length}-{mask}"))["attention"], q, k, v)
    wanted = slope if direction == "backward" else None
    if direction == "backward":
        kernels = lego_mlir.load_kernels(str(folder / f"gradients-{features}-{mask}"))
        run = gradients([kernels[f"attention_{name}_gradients"] for name in GRADIENTS], (q, k, v, slope), *run())
    results, seen, errors = run(), seen_by(mask, length), []
    for head in (0, heads - 1):
        o, *of_inputs = exact(q[0, head], k[0, head], v[0, head], seen, None if wanted is None else slope[0, head])
        for found, expected in zip(results, of_inputs or [o], strict=False):
            errors.append(harness.require_close(found[0, head], expected, TOLERANCE, f"{direction} head {head}"))
    others = torch_ways((q, k, v), mask, slope=wanted)
    ours = harness.contender(run, kernel="lego", error=max(errors), **facts, mask=mask)
    return [ours, *(harness.contender(run, kernel=name, **facts, mask=mask) for name, run in others.items())]


def gradients(kernels: Sequence[Any], given: Sequence[Any], o: Any, lse: Any) -> Way:
    """The gradients of q, k and v in one pass, from the results of the kernel forward."""
    prepare, main, round_ = kernels

    def run() -> Any:
        delta, sums = prepare(o, given[-1])
        sums, dk, dv = main(*given, lse, delta, sums)
        return round_(sums), dk, dv

    return run


def fused_table() -> None:
    """Milliseconds, teraflops, and times over ours."""
    rows = []
    for (direction, features, length, mask), found in mlir_kernels.measured_cases("fused_attention", FUSED, "lego"):
        products = {"forward": 4, "backward": 10}[direction]
        speed = tflops(mask, heads_of(features, length), features, length, found["lego"]["ms"], products)
        cells = [direction, str(features), str(length), mask, mlir_kernels.time_cell(found["lego"]), speed]
        rows.append([*cells, *over(found, list(FUSED_BASELINES))])
    columns = f"|head|length|mask|ms (10th to 90th percentile)|Tflop/s|{'|'.join(FUSED_BASELINES.values())}"
    made, note = mlir_kernels.table(columns, rows), "; above 1.00 ours is faster"
    mlir_kernels.put_results(PAGE, "fused_attention", "fused_attention", made, "torch", note=note)


# -- forms that nothing times


class Form(NamedTuple):
    """A form, and sizes: `heads` are those of keys, each shared by `group` heads of queries."""

    features: int
    dtype: str
    causal: bool
    window: int | None
    group: int
    batch: int
    heads: int
    queries: int
    keys: int


FORMS = (
    Form(256, "f16", True, None, 1, 2, 4, 300, 300), Form(256, "bf16", False, None, 2, 1, 3, 513, 700),
    Form(256, "bf16", True, 33, 1, 1, 4, 400, 400), Form(128, "bf16", True, 200, 4, 2, 2, 777, 777),
    Form(128, "f16", False, None, 8, 1, 2, 100, 1000), Form(128, "bf16", True, None, 1, 1, 5, 1, 513),
    Form(128, "f16", True, 1, 1, 1, 4, 260, 260), Form(64, "f16", True, 64, 2, 1, 3, 513, 513),
    Form(64, "bf16", True, None, 1, 2, 3, 1000, 777), Form(64, "f16", False, None, 3, 2, 2, 131, 67),
)  # fmt: skip
FORM_TOLERANCES = {"f16": 3e-3, "bf16": 2.5e-2}


def folder_of(form: Form) -> Path:
    return harness.ARTIFACTS / "attention_forms" / "-".join(map(str, form))


def render_forms(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The cubins of each form, each in a folder with its manifest."""
    from lego_mlir.kernels import added_gradients, attention_forms, attention_gradients, fused_attention
    from lego_mlir.tracing.trace.dtypes import dtype_named

    for one in FORMS:
        form = attention_forms.AttentionForm(one.features, dtype_named(one.dtype), one.causal, one.window, one.group)
        sizes = attention_forms.HeadSizes(1, one.batch * one.heads, one.queries, one.keys)
        tile, blocks = attention_forms.fastest(form, sizes, BLOCKS)
        ordered = attention_gradients.build(form)
        kernels = {
            "forward": fused_attention.build(form, tile, sizes, blocks),
            "deltas": ordered.deltas, "of_queries": ordered.of_queries,
            **{f"of_keys{i}": kernel for i, kernel in enumerate(ordered.of_keys)},
        }  # fmt: skip
        if one.features in attention_forms.ADDED_HEADS:
            added = added_gradients.build(form)
            kernels |= {"prepare": added.prepare, "main": added.main, "round": added.round}
        for name, kernel in kernels.items():
            mlir_kernels.keep_cubin(folder_of(one) / name, kernel, TARGET)


def errors_of(form: Form, kernels: Mapping[str, Any]) -> Iterator[tuple[str, list[float]]]:
    """The largest errors of the result, and of both kinds of gradients, against PyTorch in f32."""
    import torch

    type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[form.dtype]
    heads, query, key = (form.batch * form.heads, *(torch.arange(n, device="cuda") for n in (form.queries, form.keys)))
    of_queries, of_keys = (heads, form.group, form.queries, form.features), (heads, 1, form.keys, form.features)
    q, do, k, v = (
        torch.randn(shape, device="cuda", dtype=type_) for shape in (of_queries, of_queries, of_keys, of_keys)
    )
    seen = torch.ones(form.queries, form.keys, dtype=torch.bool, device="cuda")
    if form.causal:
        seen &= key <= query[:, None]
    if form.window is not None:
        seen &= key > query[:, None] - form.window
    wanted = [x.flatten(0, 1)[None] for x in exact(q, k, v, seen, do)]
    q, do, k, v = (x.flatten(0, 1)[None] for x in (q, do, k, v))
    o, lse = kernels["forward"](q, k, v)
    yield "o", [error_of(o, wanted[0])]
    given = q, k, v, do, lse, kernels["deltas"](o, do)
    keys = [kernels[name](*given) for name in sorted(kernels) if name.startswith("of_keys")]
    ordered = kernels["of_queries"](*given), *(keys if len(keys) > 1 else keys[0])
    yield "ordered", [error_of(*pair) for pair in zip(ordered, wanted[1:], strict=True)]
    if "main" in kernels:
        added = gradients([kernels[name] for name in ("prepare", "main", "round")], (q, k, v, do), o, lse)()
        yield "added", [error_of(*pair) for pair in zip(added, wanted[1:], strict=True)]


def error_of(found: Any, expected: Any) -> float:
    """The largest error relative to the largest value; NaN where a value is not finite."""
    return float((found.float() - expected).abs().max() / expected.abs().max().clamp(min=1e-2))


def check(words: Sequence[str]) -> int:
    """Check all forms and keep their errors; 1 where one is wrong."""
    rows = []
    for form in FORMS:
        kernels = {path.name: mlir_kernels.kept_kernel(next(path.glob("*.cubin")))
                   for path in sorted(folder_of(form).iterdir())}  # fmt: skip
        errors = dict(errors_of(form, kernels))
        right = all(error <= FORM_TOLERANCES[form.dtype] for part in errors.values() for error in part)
        print(folder_of(form).name, errors, "right" if right else "WRONG", flush=True)
        rows.append({**form._asdict(), **errors, "right": right})
    harness.save("attention_forms", {**harness.versions(), "rows": rows})
    return int(not all(row["right"] for row in rows))


def forms_table() -> None:
    """The forms and their errors."""
    rows = []
    for row in mlir_kernels.newest("attention_forms")["rows"]:
        window = "" if row["window"] is None else f", window {row['window']}"
        heads = f"{row['batch']} x {row['heads'] * row['group']} to {row['heads']}"
        errors = (f"{max(row[part]):.1e}" if part in row else "" for part in ("o", "ordered", "added"))
        first = [str(row["features"]), row["dtype"], f"{'causal' if row['causal'] else 'full'}{window}", heads]
        rows.append([*first, f"{row['queries']} to {row['keys']}", *errors])
    columns = "head|type|mask|heads of queries to keys|positions|o|gradients, two passes|gradients, one pass"
    mlir_kernels.put_results(PAGE, "attention_forms", "attention_forms", mlir_kernels.table(columns, rows), "torch")


BENCHMARKS = {one.name: one for one in (
    runner.Benchmark("flash_attention", FLASH, timed_flash, flash_table, render_flash, target=TARGET,
                     protocol=harness.Protocol(patience_ms=800)),
    runner.Benchmark("fused_attention", FUSED, timed_fused, fused_table, render_fused, target=TARGET,
                     protocol=harness.Protocol(patience_ms=1200)),
    runner.Benchmark("narrow_attention", NARROW, timed_narrow, narrow_table, partial(render_flash, narrow=True),
                     target=TARGET, protocol=harness.Protocol(patience_ms=800)),
    runner.Benchmark("attention_forms", table=forms_table, render=render_forms, target=TARGET, steps={"check": check}),
)}  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
