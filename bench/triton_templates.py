"""Rendered Triton templates against the same kernels by hand and PyTorch: products, rows, attention.

    python bench/triton_templates.py NAME STEP [WORD ..]      the steps of `runner.py`: `triton_softmax time 1000`

triton_matmul      f16 and fp8 products in NN, NT, TN and TT, and cuBLAS through torch
triton_grouped     a group of products of different sizes, against a loop of torch.matmul captured in a CUDA graph, and
                   torch.bmm where all sizes are equal; a batch of one size, against torch.bmm
triton_softmax     row-wise softmax, 4096 rows of 256 to 16384 floats
triton_layer_norm  layer norm forward and backward, 4096 rows
triton_attention   fused attention forward, f16, 64 features, against torch's scaled_dot_product_attention

Rendered and by hand alike are timed in the fastest of the same configurations.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import runner
import template_rows
from harness import Case, Contender
from template_rows import EVERY_PROGRAM, cells, counted, line, searched

Tile = tuple[int, int, int]
PROGRAMS, GROUP = 132, 8  # one program for each multiprocessor of an H100 or H200


# -- products

SIZES, LAYOUTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384), ("NN", "NT", "TN", "TT")
DTYPES = {"f16": "fp16", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}
CONFIGS: dict[str, list[tuple[Tile, int, int]]] = {  # rows, columns and depth of a tile, warps, stages
    "f16": [((128, 256, 64), 8, 3), ((128, 256, 64), 8, 4), ((128, 128, 64), 4, 4), ((64, 128, 64), 4, 4),
            ((64, 64, 64), 4, 5)],
    "fp8": [((128, 256, 128), 8, 3), ((128, 128, 128), 4, 4), ((64, 128, 128), 4, 4), ((64, 64, 128), 4, 4)],
}  # fmt: skip
FORMS = (*EVERY_PROGRAM, "persistent")
PRODUCTS: list[Case] = list(product(DTYPES, SIZES, LAYOUTS))


def configs(kind: str) -> list[tuple[Tile, int, int]]:
    return CONFIGS["f16" if kind == "f16" else "fp8"]


def fits(n: int, tile: Tile) -> bool:
    return not any(n % t for t in tile)


def product_label(n: int, layout: str, tile: Tile, form: str) -> str:
    return f"matmul_{n}_{layout}_{cells(tile)}_{form}"


def product_template(n: int, layout: str, tile: Tile, form: str) -> Any:
    from lego_mlir.templates.library.matmul import matmul

    return matmul(
        n, n, n, a=layout[0], b=layout[1], tile=tile, group=GROUP,
        descriptors=form != "pointers", persistent=PROGRAMS if form == "persistent" else 0,
    )  # fmt: skip


def render_products(folder: Path, cases: Sequence[Case]) -> None:
    from lego_mlir.templates.library.matmul import matmul_fp8

    wanted = {(n, layout, tile) for kind, n, layout in cases for tile, _, _ in configs(kind) if fits(n, tile)}
    for (n, layout, tile), form in product(sorted(wanted), FORMS):
        harness.keep(folder, product_label(n, layout, tile, form), product_template(n, layout, tile, form).render())
    for n in {n for _, n, _ in cases}:
        plan = matmul_fp8(n, n, n, a="T", b="N", tile=(64, 64, 128))
        harness.keep(folder, f"copy_a_{n}", plan.copy_a.render())
        harness.keep(folder, f"copy_b_{n}", plan.copy_b.render())


def static_products() -> list[dict[str, Any]]:
    from rivals import triton_matmul as hand

    import lego_mlir as lego
    from lego_mlir.templates.library.matmul import matmul
    from lego_mlir.templates.run import triton

    rows = []
    for kind, layout in product(("f16", "e4m3"), LAYOUTS):
        tile, warps, stages = configs(kind)[0]
        types = dict.fromkeys(("a_ptr", "b_ptr"), f"*{DTYPES[kind]}:16") | {"c_ptr": "*fp16:16"}
        unit = ("ak" if layout[0] == "N" else "am", "bn" if layout[1] == "N" else "bk", "cn")
        ones = {f"stride_{s}": 1 for s in ("am", "ak", "bk", "bn", "cm", "cn") if s in unit}
        strides = {f"stride_{s}": "i32:16" for s in ("am", "ak", "bk", "bn", "cm", "cn") if s not in unit}
        blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)) | {"GROUP_M": GROUP}
        flags = blocks | {"A_TRANSPOSED": layout[0] == "T", "B_TRANSPOSED": layout[1] == "T"}
        options = {"num_warps": warps, "num_stages": stages}
        sizes, compiled = types | dict.fromkeys("MNK", "i32:16"), partial(triton.compile_for, **options)
        fixed = ones | blocks | dict.fromkeys("MNK", 4096) | dict.fromkeys(strides, 4096)
        found = {
            "by hand, sizes as arguments": compiled(hand.matmul, sizes | strides, ones | blocks),
            "by hand, descriptors": compiled(hand.matmul_descriptors, sizes, flags),
            "by hand, persistent": compiled(hand.matmul_persistent, sizes, flags | {"PROGRAMS": PROGRAMS}),
            "by hand, sizes fixed": compiled(hand.matmul, types, fixed),
        }
        symbols = [lego.size(name, max=SIZES[-1], multiple_of=part) for name, part in zip("MNK", tile, strict=True)]
        texts = {"sizes as arguments": matmul(*symbols, a=layout[0], b=layout[1], tile=tile, group=GROUP).render()}
        for form in FORMS:
            called = "sizes fixed" if form == "pointers" else form
            texts[called] = product_template(4096, layout, tile, form).render()
        for called, text in texts.items():
            given = types | {str(size): "i32:16" for size in text.sizes}
            found[f"rendered, {called}"] = compiled(triton.load(text, "matmul"), given, {})
        named = {f"{kind} {layout} {name}": one for name, one in found.items()}
        rows += counted(named, "GMMA", dtype=kind, layout=layout, tile=tile, **options)
    return rows


def timed_products(folder: Path, kind: str, n: int, layout: str) -> list[Contender]:
    harness.descriptors_need_memory()
    return SquareProduct(folder, kind, n, layout).contenders()


class SquareProduct:
    """One product: its operands as they are stored, and every way to compute it."""

    def __init__(self, folder: Path, kind: str, n: int, layout: str) -> None:
        import torch

        dtype = {"f16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind]
        a, b = (torch.randn(n, n, device="cuda").div(4).to(dtype) for _ in "ab")
        self.folder, self.kind, self.n, self.layout = folder, kind, n, layout
        self.a = a if layout[0] == "N" else a.t().contiguous()
        self.b = b if layout[1] == "N" else b.t().contiguous()
        self.logical = tuple(x if way == "N" else x.t() for x, way in zip((self.a, self.b), layout, strict=True))
        self.c = torch.empty(n, n, dtype=torch.float16, device="cuda")
        self.expected = a.float() @ b.float()

    def contenders(self) -> list[Contender]:
        choices = [config for config in configs(self.kind) if fits(self.n, config[0])]
        every = [(*config, form) for config in choices for form in FORMS]
        runs = {
            "rendered": {c: self.rendered(*c, self.a, self.b, self.layout) for c in every},
            "by hand": {c: self.by_hand(*c) for c in every},
        }
        if self.kind != "f16" and self.layout != "NT":
            runs["rendered, copied first"] = self.copied_first(every)
        facts = {"dtype": self.kind, "layout": self.layout, "n": self.n}
        library = {"torch": run} if (run := self.library()) is not None else {}
        found = searched(runs, [(self.c, self.expected)], 0.05, **facts)
        return [*found, *(harness.contender(run, kernel=name, **facts) for name, run in library.items())]

    def rendered(self, tile: Tile, warps: int, stages: int, form: str, a: Any, b: Any, layout: str) -> Any:
        kernel = harness.load(self.folder, product_label(self.n, layout, tile, form), "matmul")
        programs = (self.n // tile[0]) * (self.n // tile[1])
        grid = (min(PROGRAMS, programs) if form == "persistent" else programs,)
        return partial(kernel[grid], a, b, self.c, num_warps=warps, num_stages=stages)

    def by_hand(self, tile: Tile, warps: int, stages: int, form: str) -> Any:
        from rivals import triton_matmul as hand

        n, (a, b), options = self.n, self.logical, {"num_warps": warps, "num_stages": stages}
        grid = (n // tile[0]) * (n // tile[1])
        if form == "pointers":
            strides = (*a.stride(), *b.stride(), *self.c.stride())
            return partial(hand.matmul[(grid,)], a, b, self.c, n, n, n, *strides, *tile, GROUP, **options)
        numbers = [n, n, n, self.layout[0] == "T", self.layout[1] == "T", *tile, GROUP]
        if form == "persistent":
            launch = hand.matmul_persistent[(min(PROGRAMS, grid),)]
            return partial(launch, self.a, self.b, self.c, *numbers, PROGRAMS, **options)
        return partial(hand.matmul_descriptors[(grid,)], self.a, self.b, self.c, *numbers, **options)

    def copied_first(self, every: Sequence[Any]) -> dict[Any, Any]:
        """fp8 with an operand that is not K-major: copied once, the copy's time included."""
        import torch

        ready, copies = [self.a, self.b], []
        for place, (name, stored) in enumerate((("copy_a", self.a), ("copy_b", self.b))):
            if self.layout[place] != "NT"[place]:
                ready[place] = torch.empty_like(stored)
                kernel = harness.load(self.folder, f"{name}_{self.n}", "relayout")[((self.n // 64) ** 2,)]
                copies.append(partial(kernel, stored, ready[place]))

        def whole(last: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: [run() for run in (*copies, last)]

        return {config: whole(self.rendered(*config, *ready, "NT")) for config in every}

    def library(self) -> Callable[[], Any] | None:
        """cuBLAS: torch.matmul for f16, torch._scaled_mm for fp8, which takes NT only and not e5m2 twice."""
        import torch

        if self.kind == "f16":
            return partial(torch.matmul, *self.logical)
        one = torch.ones((), device="cuda")
        run = partial(torch._scaled_mm, *self.logical, one, one, out_dtype=torch.float16)
        try:
            run()
        except (RuntimeError, ValueError):  # a layout or a pair of types that it has not
            return None
        return run


def product_table() -> None:
    rows, lines, config = comparison.rows_of("triton_matmul"), [], "tile, warps, stages, form"
    for kind, n, layout in PRODUCTS:
        facts = {"dtype": kind, "n": n, "layout": layout}
        ways = {way: comparison.find(rows, kernel=way, **facts) for way in ("rendered", "rendered, copied first")}
        best = min((way for way, row in ways.items() if row), key=lambda way: ways[way]["ms"], default="rendered")
        made = line((kind, str(n), layout), rows, {"by hand": "by hand", "torch": "torch"}, config, best, **facts)
        copied = ", copied first" if best != "rendered" else ""
        lines.append(comparison.Line(made.case, made.ours, made.baselines, {config: made.more[config] + copied}))
    comparison.write("triton_matmul", ["type", "n", "layout"], lines)


# -- groups and batches of products

GROUPS = {f"4 of {n}": [(n, n, n)] * 4 for n in (128, 256, 512, 1024, 2048, 4096)} | {
    "mixed": [(1024, 1024, 1024), (512, 2048, 512), (256, 256, 4096), (128, 3072, 768), (2048, 128, 2048)],
    "16 experts": [(64 * (k % 5 + 1), 2048, 1024) for k in range(16)],
}
BATCHES = [(16, 512, 512, 512), (32, 1024, 1024, 64), (8, 2048, 2048, 2048)]
TILES: list[tuple[Tile, int, int]] = [
    ((128, 128, 64), 4, 4), ((128, 256, 64), 8, 3), ((64, 128, 64), 4, 4), ((64, 64, 64), 4, 4),
]  # fmt: skip


def grouped(tile: Tile, form: str) -> Any:
    from lego_mlir.templates.library.matmul import grouped_gemm

    return grouped_gemm(
        tile=tile, programs=PROGRAMS, largest=8192, depth_multiple_of=64, descriptors=form == "descriptors"
    )


def batched(shape: tuple[int, ...], tile: Tile, form: str) -> Any:
    from lego_mlir.templates.library.matmul import batched_matmul

    return batched_matmul(*shape, tile=tile, descriptors=form == "descriptors")


def render_groups(folder: Path, cases: Sequence[Case]) -> None:
    for (tile, _, _), form in product(TILES, EVERY_PROGRAM):
        harness.keep(folder, f"grouped_{cells(tile)}_{form}", grouped(tile, form).render())
        for shape in BATCHES:
            name = f"batched_{cells(shape)}_{cells(tile)}_{form}"
            harness.keep(folder, name, batched(shape, tile, form).render())


def static_groups() -> list[dict[str, Any]]:
    from rivals import triton_matmul as hand

    from lego_mlir.templates.run import triton

    rows, shape = [], BATCHES[-1]  # deep enough that the loop over it is not unrolled away
    addresses = dict.fromkeys(("a_addresses", "b_addresses", "c_addresses"), "*i64:16")
    addresses |= {"sizes_ptr": "*i32:16", "products": "i32"}
    pointers = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16") | dict.fromkeys("MNK", "i32:16")
    pointers |= {f"stride_{s}": "i32:16" for s in ("ab", "am", "bb", "bk", "cb", "cm")}
    units = {f"stride_{s}": 1 for s in ("ak", "bn", "cn")} | {"GROUP_M": GROUP}
    for tile, warps, stages in TILES[:3:2]:
        options = {"num_warps": warps, "num_stages": stages}
        blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        for kind, kernel, types, more, entry, make in (
            ("grouped", hand.grouped_gemm, addresses, {"PROGRAMS": PROGRAMS}, "grouped_gemm", grouped),
            ("batched", hand.batched_matmul, pointers, units, "batched_matmul", partial(batched, shape)),
        ):
            found = {f"{kind} {tile} by hand": triton.compile_for(kernel, types, blocks | more, **options)}
            for form in EVERY_PROGRAM:
                one = triton.load(make(tile, form).render(), entry)
                found[f"{kind} {tile} rendered, {form}"] = triton.compile_for(one, types, {}, **options)
            rows += counted(found, "GMMA", tile=tile, **options)
    return rows


def timed_groups(folder: Path, what: str | tuple[int, ...]) -> list[Contender]:
    harness.descriptors_need_memory()
    return timed_group(folder, what) if isinstance(what, str) else timed_batch(folder, what)


def configured(rendered: Callable[..., Any], by_hand: Callable[..., Any], kind: str) -> dict[str, dict[Any, Any]]:
    return {
        f"{kind} rendered": {(*config, form): rendered(*config, form) for config in TILES for form in EVERY_PROGRAM},
        f"{kind} by hand": {config: by_hand(*config) for config in TILES},
    }


def timed_group(folder: Path, name: str) -> list[Contender]:
    import torch
    from rivals.triton_matmul import grouped_gemm as hand

    sizes = sorted(GROUPS[name], key=lambda size: -size[2])  # the deepest first, so that none is begun last
    a = [torch.randn(m, k, device="cuda", dtype=torch.float16) for m, _, k in sizes]
    b = [torch.randn(k, n, device="cuda", dtype=torch.float16) for _, n, k in sizes]
    c = [torch.empty(m, n, device="cuda", dtype=torch.float16) for m, n, _ in sizes]
    addresses = [torch.tensor([t.data_ptr() for t in ts], device="cuda") for ts in (a, b, c)]
    given = (*addresses, torch.tensor(sizes, device="cuda", dtype=torch.int32), len(sizes))

    def rendered(tile: Tile, warps: int, stages: int, form: str) -> Any:
        launch = harness.load(folder, f"grouped_{cells(tile)}_{form}", "grouped_gemm")[(PROGRAMS,)]
        return partial(launch, *given, num_warps=warps, num_stages=stages)

    def by_hand(tile: Tile, warps: int, stages: int) -> Any:
        return partial(hand[(PROGRAMS,)], *given, PROGRAMS, *tile, num_warps=warps, num_stages=stages)

    results = [(z, x.float() @ y.float()) for x, y, z in zip(a, b, c, strict=True)]
    rows = searched(configured(rendered, by_hand, "grouped"), results, 0.01, group=name)
    rows.append(harness.contender(recorded_loop(a, b, c), kernel="grouped torch, captured loop", group=name))
    if len(set(sizes)) == 1:
        run = partial(torch.bmm, torch.stack(a), torch.stack(b))
        rows.append(harness.contender(run, kernel="grouped torch.bmm", group=name))
    return rows


def recorded_loop(a: Any, b: Any, c: Any) -> Callable[[], Any]:
    """The loop of products as one CUDA graph: no time between launches but the GPU's own."""
    import torch

    def loop() -> None:
        for x, y, z in zip(a, b, c, strict=True):
            torch.matmul(x, y, out=z)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        loop()  # cuBLAS sets itself up outside the capture
    stream.synchronize()
    return harness.recorded(loop)


def timed_batch(folder: Path, shape: tuple[int, ...]) -> list[Contender]:
    import torch
    from rivals.triton_matmul import batched_matmul as hand

    count, m, n, k = shape
    a = torch.randn(count, m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(count, k, n, device="cuda", dtype=torch.float16)
    c, expected = torch.empty(count, m, n, device="cuda", dtype=torch.float16), torch.bmm(a, b)

    def grid(tile: Tile) -> tuple[int, int]:
        return -(-m // tile[0]) * -(-n // tile[1]), count

    def rendered(tile: Tile, warps: int, stages: int, form: str) -> Any:
        kernel = harness.load(folder, f"batched_{cells(shape)}_{cells(tile)}_{form}", "batched_matmul")
        return partial(kernel[grid(tile)], a, b, c, num_warps=warps, num_stages=stages)

    def by_hand(tile: Tile, warps: int, stages: int) -> Any:
        numbers = (m, n, k, *a.stride(), *b.stride(), *c.stride(), *tile, GROUP)
        return partial(hand[grid(tile)], a, b, c, *numbers, num_warps=warps, num_stages=stages)

    rows = searched(configured(rendered, by_hand, "batched"), [(c, expected)], 0.01, shape=shape)
    return [*rows, harness.contender(partial(torch.bmm, a, b), kernel="batched torch.bmm", shape=shape)]


def group_table() -> None:
    rows, lines = comparison.rows_of("triton_grouped"), []
    named = [("grouped", f"grouped {group}", {"group": group}) for group in GROUPS]
    named += [("batched", f"batched {b[0]} of {cells(b[1:])}", {"shape": [*b]}) for b in BATCHES]
    for kind, called, facts in named:
        baselines = {"by hand": "by hand", "loop of torch.matmul": "torch, captured loop", "torch.bmm": "torch.bmm"}
        kernels = {head: f"{kind} {kernel}" for head, kernel in baselines.items()}
        lines.append(line((called,), rows, kernels, "tile, warps, stages, form", f"{kind} rendered", **facts))
    comparison.write("triton_grouped", ["products"], lines)


BENCHMARKS = {
    one.name: one
    for one in (
        runner.Benchmark("triton_matmul", PRODUCTS, timed_products, product_table, render_products, static_products,
                         counts=True),
        runner.Benchmark("triton_grouped", [(what,) for what in (*GROUPS, *BATCHES)], timed_groups, group_table,
                         render_groups, static_groups, counts=True, together=True),
        *template_rows.OF_ROWS,
    )
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
