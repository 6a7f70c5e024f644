"""Several f16 products at once: a group of different sizes, and a batch of one size.

The group against a hand-written grouped kernel, a loop of torch.matmul captured in a CUDA graph, and torch.bmm where
all sizes are equal; the batch against a hand-written batched kernel and torch.bmm.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import comparison
import harness
import runner

GROUPS = {f"4 of {n}": [(n, n, n)] * 4 for n in (128, 256, 512, 1024, 2048, 4096)} | {
    "mixed": [(1024, 1024, 1024), (512, 2048, 512), (256, 256, 4096), (128, 3072, 768), (2048, 128, 2048)],
    "16 experts": [(64 * (k % 5 + 1), 2048, 1024) for k in range(16)],
}
BATCHES = [(16, 512, 512, 512), (32, 1024, 1024, 64), (8, 2048, 2048, 2048)]
TILES = [((128, 128, 64), 4, 4), ((128, 256, 64), 8, 3), ((64, 128, 64), 4, 4), ((64, 64, 64), 4, 4)]
PROGRAMS = 132


FORMS = ["pointers", "descriptors"]


def label(tile: tuple[int, int, int], form: str) -> str:
    return f"grouped_{'x'.join(map(str, tile))}_{form}"


def grouped(tile: tuple[int, int, int], form: str) -> Any:
    from lego_mlir.templates.library.matmul import grouped_gemm

    return grouped_gemm(
        tile=tile, programs=PROGRAMS, largest=8192, depth_multiple_of=64, descriptors=form == "descriptors"
    )


def batched(shape: tuple[int, ...], tile: tuple[int, int, int], form: str) -> Any:
    from lego_mlir.templates.library.matmul import batched_matmul

    return batched_matmul(*shape, tile=tile, descriptors=form == "descriptors")


def batch_label(shape: tuple[int, ...], tile: tuple[int, int, int], form: str) -> str:
    return f"batched_{'x'.join(map(str, shape))}_{'x'.join(map(str, tile))}_{form}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for tile, _, _ in TILES:
        for form in FORMS:
            harness.keep(folder, label(tile, form), grouped(tile, form).render())
            for shape in BATCHES:
                harness.keep(folder, batch_label(shape, tile, form), batched(shape, tile, form).render())


def static() -> list[dict[str, Any]]:
    from rivals import triton_matmul as hand

    from lego_mlir.templates.run import triton

    rows = []
    for tile, warps, stages in TILES[:3:2]:
        options = {"num_warps": warps, "num_stages": stages}
        blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        types = dict.fromkeys(("a_addresses", "b_addresses", "c_addresses"), "*i64:16")
        types |= {"sizes_ptr": "*i32:16", "products": "i32"}
        by_hand = triton.compile_for(hand.grouped_gemm, types, blocks | {"PROGRAMS": PROGRAMS}, **options)
        found = {"by hand": by_hand}
        for form in FORMS:
            kernel = triton.load(grouped(tile, form).render(), "grouped_gemm")
            found[f"rendered, {form}"] = triton.compile_for(kernel, types, {}, **options)
        for who, compiled in found.items():
            rows.append(harness.static_row(compiled, "GMMA", kernel=f"grouped {tile} {who}", tile=tile, **options))
        shape = BATCHES[-1]  # deep enough that the loop over it is not unrolled away
        types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16") | dict.fromkeys("MNK", "i32:16")
        types |= {f"stride_{s}": "i32:16" for s in ("ab", "am", "bb", "bk", "cb", "cm")}
        units = {f"stride_{s}": 1 for s in ("ak", "bn", "cn")}
        by_hand = triton.compile_for(hand.batched_matmul, types, blocks | units | {"GROUP_M": 8}, **options)
        found = {"by hand": by_hand}
        for form in FORMS:
            kernel = triton.load(batched(shape, tile, form).render(), "batched_matmul")
            found[f"rendered, {form}"] = triton.compile_for(kernel, types, {}, **options)
        for who, compiled in found.items():
            rows.append(harness.static_row(compiled, "GMMA", kernel=f"batched {tile} {who}", tile=tile, **options))
    return rows


def timed(folder: Path, what: str | tuple[int, ...]) -> list[harness.Contender]:
    harness.descriptors_need_memory()
    return _timed_group(folder, what) if isinstance(what, str) else _timed_batch(folder, what)


def _timed_group(folder: Path, name: str) -> list[harness.Contender]:
    import torch
    from rivals.triton_matmul import grouped_gemm as hand

    sizes = sorted(GROUPS[name], key=lambda size: -size[2])  # the deepest first, so that none is begun last
    a = [torch.randn(m, k, device="cuda", dtype=torch.float16) for m, _, k in sizes]
    b = [torch.randn(k, n, device="cuda", dtype=torch.float16) for _, n, k in sizes]
    c = [torch.empty(m, n, device="cuda", dtype=torch.float16) for m, n, _ in sizes]
    addresses = [torch.tensor([t.data_ptr() for t in ts], device="cuda") for ts in (a, b, c)]
    given = (*addresses, torch.tensor(sizes, device="cuda", dtype=torch.int32), len(sizes))

    def rendered(tile: Any, warps: int, stages: int, form: str) -> Any:
        launch = harness.load(folder, label(tile, form), "grouped_gemm")[(PROGRAMS,)]
        return lambda: launch(*given, num_warps=warps, num_stages=stages)

    def by_hand(tile: Any, warps: int, stages: int) -> Any:
        return lambda: hand[(PROGRAMS,)](*given, PROGRAMS, *tile, num_warps=warps, num_stages=stages)

    runs = {
        "rendered": {(*config, form): rendered(*config, form) for config in TILES for form in FORMS},
        "by hand": {config: by_hand(*config) for config in TILES},
    }
    results = [(z, x.float() @ y.float()) for x, y, z in zip(a, b, c, strict=True)]
    rows = [harness.fastest(f"grouped {who}", choices, results, 0.01, group=name) for who, choices in runs.items()]
    rows.append(harness.contender(_graph(torch, a, b, c).replay, kernel="grouped torch, captured loop", group=name))
    if len(set(sizes)) == 1:
        left, right = torch.stack(a), torch.stack(b)
        rows.append(harness.contender(lambda: torch.bmm(left, right), kernel="grouped torch.bmm", group=name))
    return rows


def _graph(torch: Any, a: Any, b: Any, c: Any) -> Any:
    """The loop of products as one CUDA graph: no time between launches but the GPU's own."""

    def loop() -> None:
        for x, y, z in zip(a, b, c, strict=True):
            torch.matmul(x, y, out=z)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        loop()  # cuBLAS sets itself up outside the capture
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loop()
    return graph


def _timed_batch(folder: Path, shape: tuple[int, ...]) -> list[harness.Contender]:
    import torch
    from rivals.triton_matmul import batched_matmul as hand

    count, m, n, k = shape
    a = torch.randn(count, m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(count, k, n, device="cuda", dtype=torch.float16)
    c, expected = torch.empty(count, m, n, device="cuda", dtype=torch.float16), torch.bmm(a, b)

    def rendered(tile: Any, warps: int, stages: int, form: str) -> Any:
        kernel = harness.load(folder, batch_label(shape, tile, form), "batched_matmul")
        launch = kernel[(-(-m // tile[0]) * -(-n // tile[1]), count)]
        return lambda: launch(a, b, c, num_warps=warps, num_stages=stages)

    def by_hand(tile: Any, warps: int, stages: int) -> Any:
        launch = hand[(-(-m // tile[0]) * -(-n // tile[1]), count)]
        numbers = (m, n, k, *a.stride(), *b.stride(), *c.stride(), *tile, 8)
        return lambda: launch(a, b, c, *numbers, num_warps=warps, num_stages=stages)

    runs = {
        "rendered": {(*config, form): rendered(*config, form) for config in TILES for form in FORMS},
        "by hand": {config: by_hand(*config) for config in TILES},
    }
    results = [(c, expected)]
    rows = [harness.fastest(f"batched {who}", choices, results, 0.01, shape=shape) for who, choices in runs.items()]
    return [*rows, harness.contender(lambda: torch.bmm(a, b), kernel="batched torch.bmm", shape=shape)]


def table() -> None:
    rows, lines = comparison.rows_of("triton_grouped"), []
    for what, case in [
        *((f"grouped {g}", {"group": g}) for g in GROUPS),
        *((_name(b), {"shape": [*b]}) for b in BATCHES),
    ]:
        kind = what.split()[0]
        ours, hand = (comparison.find(rows, kernel=f"{kind} {k}", **case) for k in ("rendered", "by hand"))
        loop, bmm = (comparison.find(rows, kernel=f"{kind} {k}", **case) for k in ("torch, captured loop", "torch.bmm"))
        baselines = {"by hand": hand, "loop of torch.matmul": loop, "torch.bmm": bmm}
        config = {"tile, warps, stages, form": comparison.configuration(ours)}
        lines.append(comparison.Line((what,), ours, baselines, config))
    comparison.write("triton_grouped", ["products"], lines)


def _name(shape: tuple[int, ...]) -> str:
    return f"batched {shape[0]} of {'x'.join(map(str, shape[1:]))}"


CASES = [(what,) for what in (*GROUPS, *BATCHES)]
BENCHMARK = runner.Benchmark("triton_grouped", CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
