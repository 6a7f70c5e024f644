"""Decoding with multi-head latent attention: ours, FlashMLA, and the times of memory and of the tensor cores.

    python bench/latent.py render [WORD ..]    `kernels.latent_attention` by its forms; no GPU
    python bench/latent.py time [WORD ..]      a step of a batch: values against PyTorch, then times
    python bench/latent.py table               the table of docs/results/attention.md

A case is batch, tokens, `even` or `drawn` lengths, heads and queries of a sequence. Drawn lengths are uniform from 1 to
the tokens, by a seed of the case. Caches are [pages, 64, 576] in bf16, pages in random order. FlashMLA
(tokenspeed-flashmla 1.0.0) plans its blocks in its first call and keeps the plan, as an engine does for all layers;
ours plans in each launch. The roof is the larger of the times in which 4.8 TB/s and 989 TFLOP/s, the data sheet's rates
of an H200, move the cache and compute the products.
"""

import itertools
import math
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner
from decoding import compared

NAME, PAGE, TARGET = "latent", "results/attention.md", "sm_90a"
BYTES_A_S, FLOPS, TOLERANCE = 4.8e12, 989e12, 1.5e-2
TOKENS, LATENT, WIDTH = 64, 512, 576
"""Tokens of a page, features of values and of keys."""
CASES: list[harness.Case] = [
    *((batch, n, "even", 128, 1) for batch, n in itertools.product((1, 4, 16, 32, 64, 128), (4096, 8192))),
    *((batch, n, "even", 16, 1) for batch, n in itertools.product((1, 16, 128), (4096, 8192))),
    *((batch, 8192, "drawn", heads, 1) for batch, heads in itertools.product((5, 33, 100), (128, 16))),
    *((batch, 4096, "even", *heads, 2) for batch, heads in itertools.product((4, 64), ((128,), (16,)))),
    (64, 4096, "even", 64, 1),
]


def form_of(heads: int, queries: int) -> Any:
    from lego_mlir.kernels.attention_forms import LatentForm

    return LatentForm(heads, queries)


def label(heads: int, queries: int) -> str:
    return f"{heads}-{queries}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.kernels import latent_attention

    for rest in dict.fromkeys(tuple(rest) for _, _, _, *rest in cases):
        for kernel in latent_attention.build(form_of(*rest)):
            mlir_kernels.keep_code(folder, f"{kernel.name}-{label(*rest)}", mlir_kernels.compiled(kernel, TARGET))
        print(label(*rest), flush=True)


def drawn(generator: random.Random) -> harness.Case:
    """A case with batch, tokens and heads that nothing was fitted to."""
    batch, tokens = (round(math.exp(generator.uniform(0, math.log(most)))) for most in (128, 128))
    return (batch, 128 * tokens, "drawn", generator.choice((16, 64, 128)), 1)


# -- on the GPU machine


class Problem:
    """Random queries, cache, table and lengths of a case, and the expected result of some sequences."""

    def __init__(self, batch: int, tokens: int, lengths: str, heads: int, queries: int) -> None:
        import torch

        generator = random.Random(repr((batch, tokens, lengths, heads, queries)))
        torch.manual_seed(generator.randrange(1 << 30))
        most = -(-tokens // TOKENS)
        shapes = (batch, queries, heads, WIDTH), (batch * most, TOKENS, WIDTH)
        self.q, self.cache = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
        self.table = torch.randperm(batch * most, device="cuda").to(torch.int32).reshape(batch, most)
        known = [tokens if lengths == "even" else generator.randint(queries, tokens) for _ in range(batch)]
        self.lengths = torch.tensor(known, dtype=torch.int32, device="cuda")
        self.scale = (128 + 64) ** -0.5
        self.bytes = 2 * sum(known) * WIDTH
        self.operations = 2 * sum(known) * heads * queries * (WIDTH + LATENT)
        self.some = {b: self._expected(b, known[b]) for b in {0, batch - 1, known.index(max(known))}}

    def _expected(self, b: int, length: int) -> Any:
        """The result of a sequence in f32."""
        import torch

        keys = self.cache[self.table[b].long()].flatten(0, 1)[:length].float()
        s = self.q[b].float() @ keys.T * self.scale
        last = torch.arange(len(s), device="cuda")[:, None, None] + length - len(s)
        s = s.masked_fill(torch.arange(length, device="cuda") > last, -math.inf)
        return torch.softmax(s, -1) @ keys[:, :LATENT]

    def require(self, found: Any, what: str) -> float:
        return harness.require_each(found, self.some, TOLERANCE, what)


def timed(folder: Path, *case: Any) -> list[harness.Contender]:
    import torch

    torch.cuda.empty_cache()
    problem = Problem(*case)
    o, ours = launch_of(folder, problem)
    made = {"lego_mlir": lambda: lambda: (ours(), o)[1], "flash_mla": lambda: flash_mla(problem)}
    roof = max(problem.bytes / BYTES_A_S, problem.operations / FLOPS)
    facts = {"roof_ms": 1000 * roof, "bytes": problem.bytes, "operations": problem.operations}
    return compared(made, problem, case, **facts)


def launch_of(folder: Path, problem: Problem, groups: int | None = None) -> tuple[Any, Callable[[], Any]]:
    """The result, and the launches into it; `groups` are the blocks of a sequence that combine, if not the default."""
    import torch

    from lego_mlir.kernels.attention_forms import parts_of_rows

    batch, queries, heads, _ = problem.q.shape
    rows, processors = queries * heads, torch.cuda.get_device_properties(0).multi_processor_count
    tiles, o = -(-rows // TOKENS), torch.empty((batch, queries, heads, LATENT), device="cuda", dtype=torch.bfloat16)
    parts, usual = parts_of_rows(form_of(heads, queries), batch, processors)
    partial, sums = (torch.empty((parts, tiles, TOKENS, *n), device="cuda") for n in ((LATENT,), ()))
    spans = torch.empty((batch, 2), dtype=torch.int32, device="cuda")
    q, result = problem.q.view(batch, rows, WIDTH), o.view(batch, rows, LATENT)
    names = ("latent_attention", "latent_parts")
    attend, combine = (mlir_kernels.kept_kernel(folder / f"{name}-{label(heads, queries)}.cubin") for name in names)
    first = attend.prepare(q, problem.cache, problem.table, problem.lengths, result, partial, sums, spans)
    then = combine.prepare(partial, sums, spans, result, G=groups or usual)
    return o, lambda: (first(), then())


def flash_mla(problem: Problem) -> Callable[[], Any]:
    """FlashMLA on the same pages; its first call plans."""
    import flash_mla as library

    plan, _ = library.get_mla_metadata()
    cache = problem.cache[:, :, None]

    def way() -> Any:
        return library.flash_mla_with_kvcache(
            problem.q, cache, problem.table, problem.lengths, LATENT, plan, None, softmax_scale=problem.scale,
            causal=problem.q.shape[1] > 1,
        )[0]  # fmt: skip

    return way


def table() -> None:
    """The newest times of a launch with an empty cache; that of FlashMLA over ours, and how near the roof is."""
    results, lines, ratios = mlir_kernels.newest(NAME), [], []
    for case, rows in mlir_kernels.by_case(results).items():
        ours, other = rows["lego_mlir"], rows.get("flash_mla")
        ratios += [other["ms"] / ours["ms"]] if other else []
        shown = [f"{1000 * other['ms']:.1f}", f"{ratios[-1]:.2f}"] if other else ["", ""]
        roofs = (f"{ours['roof_ms'] / ours[time]:.2f}" for time in ("ms", "steady_ms"))
        lines.append([*case, f"{1000 * ours['ms']:.1f}", *roofs, *shown])
    heads = "batch|tokens|lengths|heads|queries|us, single|roof, single|roof, back to back|us, FlashMLA|FlashMLA"
    mean = f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "not timed"
    heading = f"{mlir_kernels.circumstances(NAME, results, 'torch')}. FlashMLA's time over ours: {mean}.\n\n"
    mlir_kernels.put_into(PAGE, NAME, heading, mlir_kernels.table(heads, lines))


BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, target=TARGET, draw=drawn, protocol=harness.Protocol(graphs=True)
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
