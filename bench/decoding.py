"""Attention of decoding with pages, FlashInfer, FlashAttention-3, and the time in which memory is read.

    python bench/decoding.py render [WORD ..]    `kernels.paged_attention` by its forms; no GPU
    python bench/decoding.py time [WORD ..]      a step of a batch: values against PyTorch, then times
    python bench/decoding.py table               the table of docs/results/attention.md

A case is batch, positions, `even` or `drawn` lengths, query heads, heads of keys, features, positions of a page and
queries of a sequence. Drawn lengths are uniform from 1 to the positions, by a seed of the case. Caches are
[pages, positions, heads, features] in bf16, pages in random order. FlashAttention-3 (fa3-fwd 0.0.3, built without
pages) reads keys and values in one piece. It and FlashInfer have their blocks planned beforehand, as an engine plans
them once for all layers; ours plans in its launch. A rival that is missing, or refuses a case, is left out. The roof is
the time in which 4.8 TB/s, the data sheet's rate of an H200, move the keys and values.
"""

import itertools
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "decoding", "results/attention.md", "sm_90a"
BYTES_A_S, TOLERANCE = 4.8e12, 1.5e-2
RIVALS = {"fa3": "FlashAttention-3", "flashinfer": "FlashInfer"}
HEADS = (32, 8, 128)
"""Query heads, heads of keys, features: of models of 8 billion parameters."""
CASES: list[harness.Case] = [
    *((batch, n, "even", *HEADS, 16, 1) for batch, n in itertools.product((1, 4, 16, 64, 256), (512, 4096))),
    *((batch, n, "even", *HEADS, 16, 1) for batch, n in ((1, 131_072), (4, 32_768), (16, 32_768), (64, 16_384))),
    *((batch, 8192, "drawn", *HEADS, page, 1) for batch, page in itertools.product((5, 33, 100), (1, 16, 64))),
    *(
        (batch, 4096, "even", *heads, 16, 1)
        for batch, heads in itertools.product((4, 64), ((64, 8, 128), (16, 1, 128)))
    ),
    *((batch, 4096, "even", 32, 8, 64, 16, 1) for batch in (4, 64)),
    *((batch, 4096, "drawn", *HEADS, 16, 4) for batch in (4, 64)),
]


def form_of(heads: int, shared: int, features: int, page: int, queries: int) -> Any:
    from lego_mlir.kernels.attention_forms import PagedForm
    from lego_mlir.tracing.trace.dtypes import bf16

    return PagedForm(features, bf16, heads // shared, queries, page)


def label(form: Any) -> str:
    return f"{form.features}-{form.group}-{form.queries}-{form.page}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.kernels import paged_attention

    for form in dict.fromkeys(form_of(*rest) for _, _, _, *rest in cases):
        mlir_kernels.keep_code(folder, label(form), mlir_kernels.compiled(paged_attention.build(form), TARGET))
        print(label(form), flush=True)


def drawn(generator: random.Random) -> harness.Case:
    """A case with batch, positions, heads and pages that nothing was fitted to."""
    batch, positions = (round(math.exp(generator.uniform(0, math.log(most)))) for most in (256, 256))
    return (batch, 128 * positions, "drawn", *HEADS, generator.choice((1, 16, 64)), 1)


# -- on the GPU machine


class Problem:
    """Random queries, caches, table and lengths of a case, and the expected result of some sequences."""

    def __init__(self, batch: int, positions: int, lengths: str, heads: int, shared: int, features: int, page: int,
                 queries: int) -> None:  # fmt: skip
        import torch

        generator = random.Random(repr((batch, positions, lengths, heads, shared, features, page, queries)))
        torch.manual_seed(generator.randrange(1 << 30))
        most = -(-positions // page)
        shapes = (batch, queries, heads, features), *[(batch * most, page, shared, features)] * 2
        self.q, self.k, self.v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
        self.table = torch.randperm(batch * most, device="cuda").to(torch.int32).reshape(batch, most)
        known = [positions if lengths == "even" else generator.randint(queries, positions) for _ in range(batch)]
        self.lengths = torch.tensor(known, dtype=torch.int32, device="cuda")
        self.bytes = 4 * sum(known) * shared * features
        self.some = {b: self._expected(b, known[b]) for b in {0, batch - 1, known.index(max(known))}}

    def _expected(self, b: int, length: int) -> Any:
        """The result of a sequence in f32."""
        import torch

        q = self.q[b].float().transpose(0, 1)
        k, v = (x[self.table[b]].flatten(0, 1)[:length].float().transpose(0, 1) for x in (self.k, self.v))
        k, v = (x.repeat_interleave(q.shape[0] // k.shape[0], 0) for x in (k, v))
        s = q @ k.mT / math.sqrt(q.shape[-1])
        last = torch.arange(q.shape[1], device="cuda")[:, None] + length - q.shape[1]
        s = s.masked_fill(torch.arange(length, device="cuda") > last, -math.inf)
        return (torch.softmax(s, -1) @ v).transpose(0, 1)

    def require(self, found: Any, what: str) -> float:
        return harness.require_each(found, self.some, TOLERANCE, what)


def timed(folder: Path, *case: Any) -> list[harness.Contender]:
    import torch

    torch.cuda.empty_cache()
    problem, form = Problem(*case), form_of(*case[3:])
    o, ours = launch_of(folder / f"{label(form)}.cubin", form, problem)
    made = {"lego_mlir": lambda: lambda: (ours(), o)[1], "fa3": partial(flash_3, problem)}
    made["flashinfer"] = partial(flash_infer, problem)
    return compared(made, problem, case, roof_ms=1000 * problem.bytes / BYTES_A_S, bytes=problem.bytes)


def compared(
    made: Mapping[str, Callable[[], Any]], problem: Any, case: harness.Case, **facts: float
) -> list[harness.Contender]:  # fmt: skip
    """The contenders whose results are the problem's; rivals that are missing, or refuse it, are left out."""
    found = []
    for name, make in made.items():
        try:
            way = make()
            for _ in range(2):  # the second launch finds the counters of the first
                error = problem.require(way(), f"{name} {case}")
        except Exception as refusal:  # whatever a rival, or its import, raises
            if name == "lego_mlir":
                raise
            print(f"{name} is left out: {refusal}", file=sys.stderr, flush=True)
            continue
        found.append(harness.contender(way, kernel=name, error=error, **facts))
    return found


def launch_of(path: Path, form: Any, problem: Problem, blocks: int | None = None) -> tuple[Any, Callable[[], Any]]:
    """The result, and the launch into it; the blocks of a head are those of `lego_mlir.attention_paged`."""
    import torch

    from lego_mlir.kernels.attention_forms import blocks_of_heads

    kernel, o = mlir_kernels.kept_kernel(path), torch.empty_like(problem.q)
    batch, shared, group = len(problem.lengths), problem.k.shape[2], form.group
    tiles, rows = -(-form.queries * group // 16), form.rows
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    blocks = blocks_of_heads(form, batch, shared, processors) if blocks is None else blocks
    partial_, sums = (torch.empty((blocks, shared * tiles, rows, *n), device="cuda") for n in ((form.features,), ()))
    counters = torch.zeros((batch, shared * tiles), dtype=torch.int32, device="cuda")
    views = [x.transpose(1, 2) for x in (problem.q, problem.k, problem.v)]
    given = (*views, problem.table, problem.lengths, o.transpose(1, 2), partial_, sums, counters)
    return o, kernel.prepare(*given)


def flash_3(problem: Problem) -> Callable[[], Any]:
    """FlashAttention-3 on keys and values in one piece, its blocks planned beforehand."""
    import fa3_fwd_interface

    q, most = problem.q, problem.table.shape[1] * problem.k.shape[1]
    k, v = (x[problem.table].flatten(1, 2) for x in (problem.k, problem.v))
    metadata = fa3_fwd_interface.get_scheduler_metadata(
        q.shape[0], q.shape[1], most, q.shape[2], k.shape[2], q.shape[3], problem.lengths, q.dtype, causal=True
    )
    return partial(
        fa3_fwd_interface.flash_attn_with_kvcache, q, k, v, cache_seqlens=problem.lengths, causal=True,
        scheduler_metadata=metadata,
    )  # fmt: skip


def flash_infer(problem: Problem) -> Callable[[], Any]:
    """FlashInfer on the same pages, planned beforehand; one query a sequence."""
    import flashinfer
    import torch

    (_, queries, heads, features), (_, page, shared, _) = problem.q.shape, problem.k.shape
    if queries > 1 or features != HEADS[-1]:
        raise ValueError("it has one query a sequence, and compiles a minute for each number of features")
    used = (problem.lengths + page - 1) // page
    ends = torch.cat([used.new_zeros(1), used.cumsum(0)]).to(torch.int32)
    pages = torch.cat([problem.table[b, :n] for b, n in enumerate(used.tolist())])
    workspace = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=heads > shared)
    last = ((problem.lengths - 1) % page + 1).to(torch.int32)
    wrapper.plan(
        ends, pages, last, heads, shared, features, page, q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16
    )
    return lambda: wrapper.run(problem.q[:, 0], (problem.k, problem.v))[:, None]


def table() -> None:
    """The newest times of a launch with an empty cache; those of the rivals over ours, and how near the roof is."""
    results, lines = mlir_kernels.newest(NAME), []
    ratios: dict[str, list[float]] = {"fa3": [], "flashinfer": []}
    for case, rows in mlir_kernels.by_case(results).items():
        ours, cells = rows["lego_mlir"], []
        for name, found in ratios.items():
            cells.append(f"{rows[name]['ms'] / ours['ms']:.2f}" if name in rows else "")
            found += [rows[name]["ms"] / ours["ms"]] if name in rows else []
        roofs = (f"{ours['roof_ms'] / ours[time]:.2f}" for time in ("ms", "steady_ms"))
        lines.append([*case, f"{1000 * ours['ms']:.1f}", *roofs, *cells])
    heads = "batch|positions|lengths|heads|of keys|features|page|queries|us, single|roof, single|roof, back to back"
    shown = ", ".join(
        f"{RIVALS[name]} {geometric_mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"
        for name, found in ratios.items()
    )
    heading = f"{mlir_kernels.circumstances(NAME, results, 'torch')}. Times over ours in geometric mean: {shown}.\n\n"
    made = mlir_kernels.table(f"{heads}|{'|'.join(RIVALS.values())}", lines)
    mlir_kernels.put_into(PAGE, NAME, heading, made)


BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, target=TARGET, draw=drawn, protocol=harness.Protocol(graphs=True)
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
