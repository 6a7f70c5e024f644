"""f16 and fp8 matrix products in NN, NT, TN and TT: rendered, by hand, and cuBLAS through torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import runner

SIZES = [128, 256, 512, 1024, 2048, 4096, 8192, 16384]
LAYOUTS = ["NN", "NT", "TN", "TT"]
DTYPES = {"f16": "fp16", "e4m3": "fp8e4nv", "e5m2": "fp8e5"}
# (rows, columns, depth of a tile), warps, stages: searched for each size, for the rendered and the hand-written alike.
CONFIGS = {
    "f16": [
        ((128, 256, 64), 8, 3),
        ((128, 256, 64), 8, 4),
        ((128, 128, 64), 4, 4),
        ((64, 128, 64), 4, 4),
        ((64, 64, 64), 4, 5),
    ],
    "fp8": [((128, 256, 128), 8, 3), ((128, 128, 128), 4, 4), ((64, 128, 128), 4, 4), ((64, 64, 128), 4, 4)],
}
FORMS = ["pointers", "descriptors", "persistent"]
CASES = list(product(DTYPES, SIZES, LAYOUTS))
GROUP = 8
PROGRAMS = 132  # one for each multiprocessor of an H100 or H200


def configs(kind: str) -> list[Any]:
    return CONFIGS["f16" if kind == "f16" else "fp8"]


def fits(n: int, tile: tuple[int, int, int]) -> bool:
    return all(n % t == 0 for t in tile)


def label(n: int, layout: str, tile: Any, form: str) -> str:
    return f"matmul_{n}_{layout}_{'x'.join(map(str, tile))}_{form}"


def template(n: int, layout: str, tile: Any, form: str) -> Any:
    from lego_mlir.templates.library.matmul import matmul

    return matmul(
        n, n, n, a=layout[0], b=layout[1], tile=tile, group=GROUP,
        descriptors=form != "pointers", persistent=PROGRAMS if form == "persistent" else 0,
    )  # fmt: skip


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.templates.library.matmul import matmul_fp8

    wanted = {(n, layout, tile) for kind, n, layout in CASES for tile, _, _ in configs(kind) if fits(n, tile)}
    for (n, layout, tile), form in product(sorted(wanted), FORMS):
        harness.keep(folder, label(n, layout, tile, form), template(n, layout, tile, form).render())
    for n in SIZES:
        plan = matmul_fp8(n, n, n, a="T", b="N", tile=(64, 64, 128))
        harness.keep(folder, f"copy_a_{n}", plan.copy_a.render())
        harness.keep(folder, f"copy_b_{n}", plan.copy_b.render())


def strides(layout: str) -> dict[str, str]:
    """Which stride of the hand-written kernel is 1: Triton specializes on it."""
    unit = {"a": "ak" if layout[0] == "N" else "am", "b": "bn" if layout[1] == "N" else "bk", "c": "cn"}
    return {f"stride_{s}": ("1" if s in unit.values() else "i32:16") for s in ("am", "ak", "bk", "bn", "cm", "cn")}


def static() -> list[dict[str, Any]]:
    from rivals.triton_matmul import matmul as hand
    from rivals.triton_matmul import matmul_descriptors, matmul_persistent

    from lego_mlir.templates.run import triton

    rows = []
    for kind, pointer in {"f16": "fp16", "e4m3": "fp8e4nv"}.items():
        tile, warps, stages = configs(kind)[0]
        for layout in LAYOUTS:
            types = {"a_ptr": f"*{pointer}:16", "b_ptr": f"*{pointer}:16", "c_ptr": "*fp16:16"}
            given = strides(layout)
            constants = {name: 1 for name, s in given.items() if s == "1"}
            constants |= dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)) | {"GROUP_M": GROUP}
            signature = types | dict.fromkeys("MNK", "i32:16") | {s: t for s, t in given.items() if t != "1"}
            options = {"num_warps": warps, "num_stages": stages}
            facts = {"dtype": kind, "layout": layout, "tile": tile, **options}
            compiled = triton.compile_for(hand, signature, constants, **options)
            name = f"{kind} {layout} by hand"
            rows.append(harness.static_row(compiled, "GMMA", kernel=f"{name}, sizes as arguments", **facts))
            flags = {"A_TRANSPOSED": layout[0] == "T", "B_TRANSPOSED": layout[1] == "T"}
            blocks = {name: value for name, value in constants.items() if name.isupper()}
            signature = types | dict.fromkeys("MNK", "i32:16")
            for form, kernel, more in (
                ("descriptors", matmul_descriptors, {}),
                ("persistent", matmul_persistent, {"PROGRAMS": PROGRAMS}),
            ):
                compiled = triton.compile_for(kernel, signature, blocks | flags | more, **options)
                rows.append(harness.static_row(compiled, "GMMA", kernel=f"{name}, {form}", **facts))
            fixed = constants | dict.fromkeys("MNK", 4096) | {s: 4096 for s, t in given.items() if t != "1"}
            compiled = triton.compile_for(hand, types, fixed, **options)
            rows.append(harness.static_row(compiled, "GMMA", kernel=f"{name}, sizes fixed", **facts))
            rendered = {", sizes as arguments": with_sizes(layout, tile)}
            for form in FORMS:
                said = ", sizes fixed" if form == "pointers" else f", {form}"
                rendered[said] = template(4096, layout, tile, form).render()
            for form, text in rendered.items():
                sizes = {str(size): "i32:16" for size in text.sizes}
                compiled = triton.compile_for(triton.load(text, "matmul"), types | sizes, {}, **options)
                rows.append(harness.static_row(compiled, "GMMA", kernel=f"{kind} {layout} rendered{form}", **facts))
    return rows


def with_sizes(layout: str, tile: Any) -> Any:
    """The kernel in pointers with its sizes as arguments, as the one by hand has them."""
    import lego_mlir as lego
    from lego_mlir.templates.library.matmul import matmul

    sizes = [lego.size(name, max=SIZES[-1], multiple_of=part) for name, part in zip("MNK", tile, strict=True)]
    return matmul(*sizes, a=layout[0], b=layout[1], tile=tile, group=GROUP).render()


def timed(folder: Path, kind: str, n: int, layout: str) -> list[harness.Contender]:
    harness.descriptors_need_memory()
    return Case(folder, kind, n, layout).contenders()


class Case:
    """One product: its operands as they are stored, and every way to compute it."""

    def __init__(self, folder: Path, kind: str, n: int, layout: str) -> None:
        import torch

        dtype = {"f16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind]
        a, b = (torch.randn(n, n, device="cuda").div(4).to(dtype) for _ in "ab")
        self.folder, self.kind, self.n, self.layout = folder, kind, n, layout
        self.a = a if layout[0] == "N" else a.t().contiguous()
        self.b = b if layout[1] == "N" else b.t().contiguous()
        self.c = torch.empty(n, n, dtype=torch.float16, device="cuda")
        self.expected = a.float() @ b.float()
        self.choices = [config for config in configs(kind) if fits(n, config[0])]
        self.facts = {"dtype": kind, "layout": layout, "n": n}

    def contenders(self) -> list[harness.Contender]:
        rendered = {
            (*c, form): self.rendered(*c, form, self.a, self.b, self.layout) for c in self.choices for form in FORMS
        }
        by_hand = {(*c, form): self.by_hand(*c, form) for c in self.choices for form in FORMS}
        rows = [self.fastest("rendered", rendered), self.fastest("by hand", by_hand)]
        if self.kind != "f16" and self.layout != "NT":
            rows.append(self.fastest("rendered, copied first", self.copied_first()))
        return [*rows, *self.library()]

    def fastest(self, who: str, runs: dict[Any, Any]) -> harness.Contender:
        return harness.fastest(who, runs, [(self.c, self.expected)], 0.05, **self.facts)

    def rendered(self, tile: Any, warps: int, stages: int, form: str, a: Any, b: Any, layout: str) -> Any:
        kernel = harness.load(self.folder, label(self.n, layout, tile, form), "matmul")
        programs = (self.n // tile[0]) * (self.n // tile[1])
        grid = (min(PROGRAMS, programs) if form == "persistent" else programs,)
        return lambda: kernel[grid](a, b, self.c, num_warps=warps, num_stages=stages)

    def logical(self) -> tuple[Any, Any]:
        """The operands as matrices, whatever way they are stored."""
        return (
            self.a if self.layout[0] == "N" else self.a.t(),
            self.b if self.layout[1] == "N" else self.b.t(),
        )

    def by_hand(self, tile: Any, warps: int, stages: int, form: str) -> Any:
        from rivals import triton_matmul as hand

        n, (a, b) = self.n, self.logical()
        grid = ((n // tile[0]) * (n // tile[1]),)
        if form != "pointers":
            numbers = [n, n, n, self.layout[0] == "T", self.layout[1] == "T", *tile, GROUP]
            launch = hand.matmul_descriptors[grid]
            if form == "persistent":
                numbers.append(PROGRAMS)
                launch = hand.matmul_persistent[(min(PROGRAMS, grid[0]),)]
            return lambda: launch(self.a, self.b, self.c, *numbers, num_warps=warps, num_stages=stages)
        strides = (*a.stride(), *b.stride(), *self.c.stride())
        launch = hand.matmul[grid]
        return lambda: launch(a, b, self.c, n, n, n, *strides, *tile, GROUP, num_warps=warps, num_stages=stages)

    def copied_first(self) -> dict[Any, Any]:
        """fp8 with an operand that is not K-major: copied once, the copy's time included."""
        import torch

        ready, copies, launch = [self.a, self.b], [], ((self.n // 64) ** 2,)
        for place, (name, stored) in enumerate((("copy_a", self.a), ("copy_b", self.b))):
            if self.layout[place] != "NT"[place]:
                ready[place] = torch.empty_like(stored)
                copies.append((harness.load(self.folder, f"{name}_{self.n}", "relayout"), stored, ready[place]))

        def whole(product_run: Any) -> Any:
            def run() -> None:
                for kernel, source, destination in copies:
                    kernel[launch](source, destination)
                product_run()

            return run

        return {(*c, form): whole(self.rendered(*c, form, *ready, "NT")) for c in self.choices for form in FORMS}

    def library(self) -> list[harness.Contender]:
        """cuBLAS: torch.matmul for f16, torch._scaled_mm for fp8, which takes NT only and not e5m2 twice."""
        import torch

        a, b = self.logical()
        if self.kind == "f16":
            return [harness.contender(lambda: torch.matmul(a, b), kernel="torch", **self.facts)]
        one = torch.ones((), device="cuda")
        run = lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.float16)  # noqa: E731
        try:
            run()
        except (RuntimeError, ValueError):
            return []
        return [harness.contender(run, kernel="torch", **self.facts)]


def table() -> None:
    rows, lines = comparison.rows_of("triton_matmul"), []
    for kind, n, layout in CASES:
        facts = {"dtype": kind, "n": n, "layout": layout}
        direct, copied, hand, torch = (
            comparison.find(rows, kernel=k, **facts) for k in ("rendered", "rendered, copied first", "by hand", "torch")
        )
        ours = min((row for row in (direct, copied) if row), key=lambda row: row["ms"], default=None)
        config = f"{comparison.configuration(ours)}{', copied first' if ours and ours is copied else ''}"
        more = {"tile, warps, stages, form": config}
        lines.append(comparison.Line((kind, str(n), layout), ours, {"by hand": hand, "torch": torch}, more))
    comparison.write("triton_matmul", ["type", "n", "layout"], lines)


BENCHMARK = runner.Benchmark("triton_matmul", CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
