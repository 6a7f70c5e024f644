"""Attention forward and its gradients in the forms that no benchmark times: are they right on the GPU?

    python bench/attention_forms.py render   the kernels as cubins for sm_90a, no GPU
    python bench/attention_forms.py check    on the GPU machine: the largest errors, against PyTorch in f32
    python bench/attention_forms.py table    the table of docs/results/attention.md, from the newest check

Heads of 256 features, bf16, sliding windows, heads that share keys, and lengths that no tile divides. Both kinds of
gradients are computed: one pass that adds those of queries, and two passes with one order of sums.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import harness
import mlir_kernels
import runner

NAME, TARGET, FOLDER = "attention_forms", "sm_90a", harness.ARTIFACTS / "attention_forms"
BLOCKS = 132  # of an H200
TOLERANCES = {"f16": 3e-3, "bf16": 2.5e-2}


class Case(NamedTuple):
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


CASES = (
    Case(256, "f16", True, None, 1, 2, 4, 300, 300), Case(256, "bf16", False, None, 2, 1, 3, 513, 700),
    Case(256, "bf16", True, 33, 1, 1, 4, 400, 400), Case(128, "bf16", True, 200, 4, 2, 2, 777, 777),
    Case(128, "f16", False, None, 8, 1, 2, 100, 1000), Case(128, "bf16", True, None, 1, 1, 5, 1, 513),
    Case(128, "f16", True, 1, 1, 1, 4, 260, 260), Case(64, "f16", True, 64, 2, 1, 3, 513, 513),
    Case(64, "bf16", True, None, 1, 2, 3, 1000, 777), Case(64, "f16", False, None, 3, 2, 2, 131, 67),
)  # fmt: skip


def folder_of(case: Case) -> Path:
    return FOLDER / "-".join(map(str, case))


def render() -> None:
    """The cubins of each case, each in a folder with its manifest."""
    from lego_mlir.kernels import added_gradients, attention_forms, attention_gradients, fused_attention
    from lego_mlir.tracing.dtypes import dtype_named

    for case in CASES:
        form = attention_forms.AttentionForm(
            case.features, dtype_named(case.dtype), case.causal, case.window, case.group
        )
        sizes = attention_forms.HeadSizes(1, case.batch * case.heads, case.queries, case.keys)
        tile, blocks = attention_forms.fastest(form, sizes, BLOCKS)
        ordered = attention_gradients.build(form)
        kernels = {
            "forward": fused_attention.build(form, tile, sizes, blocks),
            "deltas": ordered.deltas, "of_queries": ordered.of_queries,
            **{f"of_keys{i}": kernel for i, kernel in enumerate(ordered.of_keys)},
        }  # fmt: skip
        if case.features in attention_forms.ADDED_HEADS:
            added = added_gradients.build(form)
            kernels |= {"prepare": added.prepare, "main": added.main, "round": added.round}
        for name, kernel in kernels.items():
            mlir_kernels.keep_cubin(folder_of(case) / name, kernel, TARGET)


class Problem:
    """Operands of a case on the GPU, and what PyTorch finds in f32: the result, and the gradients of q, k and v."""

    def __init__(self, case: Case) -> None:
        import torch

        type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[case.dtype]
        of_queries = (case.batch * case.heads, case.group, case.queries, case.features)
        of_keys = (case.batch * case.heads, 1, case.keys, case.features)
        q, do = (torch.randn(of_queries, device="cuda", dtype=type_) for _ in range(2))
        k, v = (torch.randn(of_keys, device="cuda", dtype=type_) for _ in range(2))
        exact = [x.float().requires_grad_() for x in (q, k, v)]
        query, key = (torch.arange(n, device="cuda") for n in (case.queries, case.keys))
        seen = torch.ones(case.queries, case.keys, dtype=torch.bool, device="cuda")
        if case.causal:
            seen &= key <= query[:, None]
        if case.window is not None:
            seen &= key > query[:, None] - case.window
        scores = exact[0] @ exact[1].mT / math.sqrt(case.features)
        o = torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ exact[2]
        o.backward(do.float())
        self.q, self.k, self.v, self.do = (x.flatten(0, 1)[None] for x in (q, k, v, do))
        self.o, *self.gradients = (x.flatten(0, 1)[None] for x in (o.detach(), *(x.grad for x in exact)))


def error_of(found: Any, expected: Any) -> float:
    """The largest error relative to the largest value; NaN where a value is not finite."""
    return float((found.float() - expected).abs().max() / expected.abs().max().clamp(min=1e-2))


def errors_of(case: Case, kernels: Mapping[str, Any]) -> dict[str, list[float]]:
    """The errors of the result, and of both kinds of gradients."""
    p = Problem(case)
    o, lse = kernels["forward"](p.q, p.k, p.v)
    delta = kernels["deltas"](o, p.do)
    given = p.q, p.k, p.v, p.do, lse
    of_keys = [kernels[name](*given, delta) for name in sorted(kernels) if name.startswith("of_keys")]
    ordered = kernels["of_queries"](*given, delta), *(of_keys if len(of_keys) > 1 else of_keys[0])
    found = {"o": [error_of(o, p.o)], "ordered": [error_of(*pair) for pair in zip(ordered, p.gradients, strict=True)]}
    if "main" in kernels:
        delta, sums = kernels["prepare"](o, p.do)
        sums, dk, dv = kernels["main"](*given, delta, sums)
        added = kernels["round"](sums), dk, dv
        found["added"] = [error_of(*pair) for pair in zip(added, p.gradients, strict=True)]
    return found


def check(words: Any) -> int:
    """Check all cases and keep their errors; 1 where a case is wrong."""
    rows = []
    for case in CASES:
        kernels = {path.name: mlir_kernels.kept_kernel(next(path.glob("*.cubin")))
                   for path in sorted(folder_of(case).iterdir())}  # fmt: skip
        errors = errors_of(case, kernels)
        right = all(error <= TOLERANCES[case.dtype] for part in errors.values() for error in part)
        print(folder_of(case).name, errors, "right" if right else "WRONG", flush=True)
        rows.append({**case._asdict(), **errors, "right": right})
    harness.save(NAME, {**harness.versions(), "rows": rows})
    return int(not all(row["right"] for row in rows))


def table() -> None:
    """The forms and their errors."""
    rows = []
    for row in mlir_kernels.newest(NAME)["rows"]:
        mask = "causal" if row["causal"] else "full"
        if row["window"] is not None:
            mask += f", window {row['window']}"
        heads = f"{row['batch']} x {row['heads'] * row['group']} to {row['heads']}"
        errors = (f"{max(row[part]):.1e}" if part in row else "" for part in ("o", "ordered", "added"))
        rows.append([str(row["features"]), row["dtype"], mask, heads, f"{row['queries']} to {row['keys']}", *errors])
    columns = "head|type|mask|heads of queries to keys|positions|o|gradients, two passes|gradients, one pass"
    mlir_kernels.put_results("results/attention.md", NAME, NAME, mlir_kernels.table(columns, rows), "torch")


BENCHMARK = runner.Benchmark(NAME, table=table, render=lambda folder, cases: render(), steps={"check": check})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
