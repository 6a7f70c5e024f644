"""Attention with masks and scores of a user, forward, in bf16, beside PyTorch's FlexAttention, compiled.

The same rules as functions of both: causal, a sliding window, documents, ALiBi, a prefix that all see, a soft cap of
scores. Tables of tiles and block masks are made before; that of documents is timed apart (`lego table`). Times are of
16,384 positions and 2,048 features in all batches and heads, as in `attention.py`. Ours is timed with a block for each
part of the result and with as many blocks as the GPU has multiprocessors, which the library takes where a mask's tiles
are found by proof.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import harness
import mlir_kernels
import runner
from attention import BLOCKS, flash_batch
from harness import Contender

NAME, PAGE, TARGET = "attention_rules", "results/attention.md", "sm_90a"
WINDOW, PREFIX, CAP, DOCUMENTS = 1024, 512, 30.0, 6
TOLERANCE = 2e-2
TILES = {64: {"lego": (3, 64, 4, None), "lego 4 groups": (4, 64, 4, None), "lego 132 blocks": (3, 64, 4, BLOCKS)},
         128: {"lego": (2, 128, 2, None), "lego 132 blocks": (2, 128, 2, BLOCKS)}}  # fmt: skip
"""Groups, keys and stages of a tile, and blocks of the launch."""


class Pair(NamedTuple):
    """A mask and a score, as functions of one library, and the names of the arrays that they read."""

    mask: Callable[..., Any] | None
    score: Callable[..., Any] | None = None
    reads: tuple[str, ...] = ()


def causal(batch: Any, head: Any, i: Any, j: Any) -> Any:
    return j <= i


def window(batch: Any, head: Any, i: Any, j: Any) -> Any:
    return (j <= i) & (i - j < WINDOW)


def prefix(batch: Any, head: Any, i: Any, j: Any) -> Any:
    return (j <= i) | (j < PREFIX)


def documents(batch: Any, head: Any, i: Any, j: Any, ids: Any) -> Any:
    return (j <= i) & (ids[batch, i] == ids[batch, j])


def own_rules() -> dict[str, Pair]:
    """The rules in the kernel language."""
    import lego_mlir as lego

    def alibi(s: Any, batch: Any, head: Any, i: Any, j: Any, slopes: Any) -> Any:
        return s + slopes[head] * lego.f32(j - i)

    def capped(s: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
        e = lego.exp2(s * (2 * math.log2(math.e) / CAP), fast=True)
        return CAP - lego.divide(2 * CAP, e + 1.0, fast=True)

    return {
        "causal": Pair(causal), "window": Pair(window), "documents": Pair(documents, reads=("ids",)),
        "alibi": Pair(causal, alibi, ("slopes",)), "prefix": Pair(prefix), "soft-cap": Pair(causal, capped),
    }  # fmt: skip


RULES = ("causal", "window", "documents", "alibi", "prefix", "soft-cap")
CASES = [*product(RULES, (128,), (6100,)), *product(RULES, (64,), (6100,)), *product(RULES, (128, 64), (2048, 16384))]


def form_of(rule: str, features: int) -> Any:
    """The form of attention with a rule."""
    from lego_mlir.kernels.attention_forms import AttentionForm
    from lego_mlir.kernels.pair_rules import PairRule, PairRules, ReadArray
    from lego_mlir.runtime.pair_rule_calls import with_tables
    from lego_mlir.tracing.trace.dtypes import bf16, f32, i32

    pair, arrays = own_rules()[rule], {"ids": ReadArray("ids", i32, 2), "slopes": ReadArray("slopes", f32, 1)}
    made = [
        None if f is None else PairRule.of(word, f, pair.reads)
        for word, f in zip(("mask", "score"), pair, strict=False)
    ]
    return with_tables(AttentionForm(features, bf16, pairs=PairRules(*made, tuple(arrays[n] for n in pair.reads))))


def folder_of(folder: Path, rule: str, features: int, way: str) -> Path:
    return folder / f"{rule}-{features}-{way}".replace(" ", "_")


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The cubins of each rule, one for all lengths, and that of its table."""
    from lego_mlir.kernels import fused_attention, rule_tiles
    from lego_mlir.kernels.attention_forms import AttentionTile

    for rule, features in dict.fromkeys(case[:2] for case in cases):
        form = form_of(rule, features)
        for way, (*sizes, blocks) in TILES[features].items():
            tile, at = AttentionTile(*sizes), folder_of(folder, rule, features, way)
            mlir_kernels.keep_cubin(at, fused_attention.build(form, tile, blocks=blocks), TARGET)
            if form.pairs.listed:
                shape = rule_tiles.TableShape(tile.rows, tile.keys)
                mlir_kernels.keep_cubin(at, rule_tiles.build_table(form, shape), TARGET)


def arrays_of(rule: str, batch: int, heads: int, length: int) -> dict[str, Any]:
    """What the rules read: documents of drawn lengths, and ALiBi's slopes."""
    import torch

    if rule == "documents":
        ends = torch.randint(0, length, (batch, DOCUMENTS - 1), device="cuda").sort().values
        places = torch.arange(length, device="cuda").expand(batch, -1).contiguous()
        return {"ids": torch.searchsorted(ends, places, right=True).int()}
    if rule == "alibi":
        return {"slopes": 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cuda").float() / heads)}
    return {}


def theirs(rule: str, arrays: Mapping[str, Any]) -> Pair:
    """The rules in PyTorch, which close over what they read."""
    import torch

    def alibi(s: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
        return s + arrays["slopes"][head] * (j - i)

    def capped(s: Any, batch: Any, head: Any, i: Any, j: Any) -> Any:
        return CAP * torch.tanh(s / CAP)

    def of_documents(batch: Any, head: Any, i: Any, j: Any) -> Any:
        return documents(batch, head, i, j, arrays["ids"])

    masks = {"window": window, "prefix": prefix, "documents": of_documents}
    return Pair(masks.get(rule, causal), {"alibi": alibi, "soft-cap": capped}.get(rule))


def expected(pair: Pair, q: Any, k: Any, v: Any, batch: int, head: int) -> Any:
    """The result of one head in f32."""
    import torch

    i, j = (torch.arange(q.shape[0], device="cuda").view(shape) for shape in ((-1, 1), (1, -1)))
    s = q.float() @ k.float().mT / math.sqrt(q.shape[-1])
    s = s if pair.score is None else pair.score(s, batch, head, i, j)
    return torch.softmax(s.masked_fill(~pair.mask(batch, head, i, j), -math.inf), -1) @ v.float()


def timed(folder: Path, rule: str, features: int, length: int) -> list[Contender]:
    """The contenders of a case, each compared with the result in f32 for the first and the last head."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batch, heads = flash_batch(features, length)
    q, k, v = (torch.randn(batch, heads, length, features, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    arrays = arrays_of(rule, batch, heads, length)
    pair, runs = theirs(rule, arrays), {}
    for way in TILES[features]:
        at = folder_of(folder, rule, features, way)
        kernel, tables = mlir_kernels.kept_kernel(at / "attention.cubin"), []
        if list(at.glob("attention_tiles*.cubin")):
            table = partial(mlir_kernels.kept_kernel(next(at.glob("attention_tiles*.cubin"))), q, k, *arrays.values())
            rows, keys = TILES[features][way][0] * 64, TILES[features][way][1]
            made = torch.empty(
                batch, 1, -(-length // rows), 2, -(-length // keys) + 1, dtype=torch.int32, device="cuda"
            )
            table(made)
            tables = [made]
            runs |= {"lego table": partial(table, made)} if way == "lego" else {}
        runs[way] = partial(kernel, q, k, v, *arrays.values(), *tables)
    torch._dynamo.reset()
    mask = create_block_mask(pair.mask, batch if rule == "documents" else None, None, length, length, device="cuda")
    runs["flex"] = partial(torch.compile(flex_attention, dynamic=False), q, k, v, score_mod=pair.score, block_mask=mask)
    at_ends = {at: expected(pair, *(x[at] for x in (q, k, v)), *at) for at in ((0, 0), (batch - 1, heads - 1))}
    found = []
    for name, run in runs.items():
        result, error = run(), 0.0
        if name != "lego table":
            o = result[0] if isinstance(result, tuple) else result
            error = max(harness.require_close(o[at], e, TOLERANCE, name) for at, e in at_ends.items())
        found.append(harness.contender(run, kernel=name, rule=rule, features=features, length=length, error=error))
    return found


def table() -> None:
    """Our times, and those of FlexAttention over ours."""
    rows, ratios = [], {}
    for (rule, features, length), found in mlir_kernels.measured_cases(NAME, CASES, "lego"):
        ours = found["lego" if rule == "documents" else "lego 132 blocks"]  # what the library takes
        ratio = found["flex"]["ms"] / ours["ms"]
        ratios.setdefault((rule, features), []).append(ratio)
        apart = [f"{found['lego table']['ms']:.4f}" if "lego table" in found else ""]
        rows.append([rule, str(features), str(length), mlir_kernels.time_cell(ours), f"{ratio:.2f}", *apart])
    means = "; ".join(f"{rule} {n}: {geometric_mean(r):.2f}, least {min(r):.2f}" for (rule, n), r in ratios.items())
    columns = "rule|head|length|ms (10th to 90th percentile)|FlexAttention|table, ms"
    note = f"; above 1.00 ours is faster. Geometric means: {means}"
    mlir_kernels.put_results(PAGE, NAME, NAME, mlir_kernels.table(columns, rows), "torch", note=note)


BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, target=TARGET, protocol=harness.Protocol(patience_ms=200)
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
