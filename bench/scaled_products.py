"""Products of f8 with scales of blocks next to DeepGEMM, on an H200.

    python bench/scaled_products.py STEP     the steps of `runner.py`: render, prepare, time, table
    python bench/scaled_products.py every    times of all tiles, which `product_fit.py scaled` reads

A case is a form of `lego_mlir.kernels.scaled_products`, the number of matrices, and the sizes of a product: rows of
each matrix are drawn around M, multiples of 128 for `tiles`. `time` takes ours in the tile of the choice. DeepGEMM is
the package `tokenspeed-deepgemm`; scales of a are laid out as it wants them before its times begin.
"""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner

NAME, DRAWN, TILES, TALL = "scaled_products", "scaled_drawn", "scaled_tiles", "scaled_tall"
TARGET, BLOCKS, TOLERANCE = "sm_90a", 132, 1e-2
BLOCK, MOST_ROWS = 128, 4096
WEIGHTS = ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
DENSE = [("dense", 1, m, n, k) for m in (64, 128, 4096) for n, k in WEIGHTS]
GROUPED = [
    (form, g, m, n, k)
    for form, shares in (("tiles", ((4, 8192), (8, 4096), (32, 256))), ("masked", ((6, 1024), (6, 512), (32, 192))))
    for g, m in shares
    for n, k in ((6144, 7168), (7168, 3072), (4096, 4096))
]
THEIRS = "DeepGEMM"


def label(form: str, tile: Any) -> str:
    return f"{form}-{tile.m}x{tile.n}x{tile.stages}-cluster{tile.sharing}-parts{tile.parts}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.choices import scaled_tiles
    from lego_mlir.kernels import scaled_products

    for form in dict.fromkeys(form for form, *_ in cases):
        for tile in scaled_tiles.shapes(form):
            kernel = scaled_products.build(form, tile, BLOCKS)
            mlir_kernels.keep_cubin(folder / label(form, tile), kernel, TARGET)


def draw(source: random.Random) -> harness.Case:
    m = source.choice((source.randrange(1, 129), source.randrange(129, 8193)))
    return "dense", 1, m, 8 * source.randrange(64, 3073), BLOCK * source.randrange(4, 129)


@dataclass(frozen=True)
class Problem:
    """Operands on the GPU: `rows` of each matrix of b, the table that has them, and the result."""

    form: str
    rows: list[int]
    a: Any
    b: Any
    sa: Any
    sb: Any
    table: list[Any]
    c: Any

    def given(self) -> list[Any]:
        """What our kernel is called with."""
        return [self.a, self.b, self.sa.mT, self.sb, *self.table, self.c]

    def parts(self) -> list[tuple[Any, Any]]:
        """Pairs of what is computed, and what that must be, in f32."""
        if self.form == "dense":
            return [(self.c, product(self.a, self.sa, self.b, self.sb))]
        if self.form == "masked":
            at = [(g, slice(n)) for g, n in enumerate(self.rows)]
        else:
            at = [slice(sum(self.rows[:g]), sum(self.rows[: g + 1])) for g in range(len(self.rows))]
        return [
            (self.c[i], product(self.a[i], self.sa[i], b, sb)) for i, b, sb in zip(at, self.b, self.sb, strict=True)
        ]


def product(a: Any, sa: Any, b: Any, sb: Any) -> Any:
    left = a.float() * sa.repeat_interleave(BLOCK, 1)
    right = b.float() * sb.repeat_interleave(BLOCK, 0)[: len(b)].repeat_interleave(BLOCK, 1)
    return left @ right.T


def rows_of(form: str, g: int, m: int) -> list[int]:
    """The rows of each matrix."""
    drawn = random.Random(0)
    rows = [m if form == "dense" else max(1, int(m * drawn.uniform(0.7, 1.3))) for _ in range(g)]
    return [-(-each // BLOCK) * BLOCK for each in rows] if form == "tiles" else rows


def problem(form: str, g: int, m: int, n: int, k: int) -> Problem:
    import torch

    torch.manual_seed(0)
    rows, groups = rows_of(form, g, m), [g] * (form != "dense")
    shape = (g, MOST_ROWS, k) if form == "masked" else (sum(rows), k)
    a, b = (torch.randn(s, device="cuda").to(torch.float8_e4m3fn) for s in (shape, (*groups, n, k)))
    along = torch.rand((*shape[:-2], k // BLOCK, -(-shape[-2] // 4) * 4), device="cuda") + 0.5
    sb = torch.rand((*groups, -(-n // BLOCK), k // BLOCK), device="cuda") + 0.5
    table = {"dense": [], "masked": [rows], "tiles": [[e for e, r in enumerate(rows) for _ in range(r // BLOCK)]]}[form]
    tables = [torch.tensor(x, device="cuda", dtype=torch.int32) for x in table]
    c = torch.empty((*shape[:-1], n), device="cuda", dtype=torch.bfloat16)
    return Problem(form, rows, a, b, along[..., : shape[-2]].mT, sb, tables, c)


def rival(p: Problem, m: int) -> dict[str, Callable[[], Any]]:
    """DeepGEMM, where it is installed."""
    try:
        import deep_gemm
    except ImportError as error:
        print(f"without DeepGEMM: {error}", file=sys.stderr)
        return {}
    a, b = (p.a, deep_gemm.get_mn_major_tma_aligned_tensor(p.sa.contiguous())), (p.b, p.sb)
    if p.form == "dense":
        return {THEIRS: partial(deep_gemm.fp8_gemm_nt, a, b, p.c)}
    if p.form == "masked":
        return {THEIRS: partial(deep_gemm.m_grouped_fp8_gemm_nt_masked, a, b, p.c, *p.table, m)}
    by_row = p.table[0].repeat_interleave(BLOCK)
    return {THEIRS: partial(deep_gemm.m_grouped_fp8_gemm_nt_contiguous, a, b, p.c, by_row)}


def timed(folder: Path, form: str, g: int, m: int, n: int, k: int, *, every: bool = False) -> list[harness.Contender]:
    p, found = problem(form, g, m, n, k), []
    runs = rival(p, m)
    for tile in tiles(form, sum(p.rows), g, n, k, every):
        path = folder / label(form, tile) / "scaled_product.cubin"
        runs[label(form, tile)] = mlir_kernels.kept_kernel(path).prepare(*p.given())
    for name, run in runs.items():
        p.c.zero_()
        run()
        errors = [harness.require_close(*pair, TOLERANCE, f"{name} {form} {m} x {n} x {k}") for pair in p.parts()]
        kernel = name if every or name == THEIRS else "ours"
        facts = {"form": form, "groups": g, "m": m, "n": n, "k": k, "tile": name, "error": max(errors)}
        found.append(harness.contender(run, kernel=kernel, **facts))
    return found


def tiles(form: str, rows: int, groups: int, n: int, k: int, every: bool) -> list[Any]:
    """The tile of the choice, or `every` one that is not much too large."""
    from lego_mlir.choices import scaled_tiles

    if not every:
        return [scaled_tiles.choose(form, (rows, groups, n, k))]
    most = 2 * max(64, rows // groups)
    few = (t for t in scaled_tiles.shapes(form) if t.m <= most)
    return [t for t in few if t.parts == 1 or -(-rows // t.m) * -(-n // t.n) * t.parts < 600]


def table() -> None:
    """The times of each case back to back, listed and drawn, next to DeepGEMM's, and the tile that the choice took."""
    for name, about in ((NAME, ""), (DRAWN, "sizes drawn by seed {seed}, "), (TALL, "")):
        results = mlir_kernels.latest(name)
        if results is None:
            continue
        times: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
        for row in results["rows"]:
            times.setdefault(tuple(row["case"]), {})[row["kernel"]] = row
        cells = []
        for (form, groups, *size), found in times.items():
            theirs, ours = found.get(THEIRS), found.get("ours") or found.get(_chosen(form, groups, *size))
            if ours is None:  # the tile of the choice is not among those of this run
                continue
            both = [f"{theirs['ms'] * 1000:.1f}", f"{theirs['ms'] / ours['ms']:.2f}"] if theirs else ["", ""]
            tile = ours["tile"].removeprefix(f"{form}-")
            cells.append([form, groups, " x ".join(size), f"{ours['ms'] * 1000:.1f}", *both, tile])
        made = mlir_kernels.table(f"form|matrices|M x N x K|us|{THEIRS}, us|{THEIRS} / ours|tile", cells)
        known = about.format(**results) + mlir_kernels.circumstances(NAME, results, "torch")
        mlir_kernels.put_into("results/scaled-products.md", name, f"{known}:\n\n", made)


def _chosen(form: str, *size: str) -> str:
    """The label of the tile that the choice takes for a case."""
    g, m, n, k = map(int, size)
    (tile,) = tiles(form, sum(rows_of(form, g, m)), g, n, k, every=False)
    return label(form, tile)


def time_every(words: Sequence[str]) -> int:
    """Time all tiles."""
    timed_all = partial(timed, every=True)
    return harness.time_cases(TILES, BENCHMARK.folder, BENCHMARK.chosen(words), timed_all, PROTOCOL)


PROTOCOL = harness.Protocol("steady", turn_s=0.02, graphs=True, patience_ms=1500)
BENCHMARK = runner.Benchmark(
    NAME, DENSE + GROUPED, timed, table, render, target=TARGET, protocol=PROTOCOL, draw=draw,
    groups={"dense": DENSE, "grouped": GROUPED}, steps={"every": time_every},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
