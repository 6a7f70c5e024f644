"""3-D stencils of 7, 13 and 27 points: row-major and in bricks by layout, against kernels by hand.

By hand is row-major with one output a thread, as stencils are usually written; `by hand, blocks` has four planes of a
float4 a thread, as the rendered kernels have. Each contender is timed in the best of its block shapes.
"""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import runner
from rivals import stencil as by_hand

SIZES = [128, 256, 512, 1024]
NAMES = ["7-point", "13-point", "27-point"]
SIDES = {"bricks": (8, 8, 8), "bricks 4x4x32": (4, 4, 32)}
ORDERS = ["row-major", *SIDES]
ONE, FOUR = (1, 1), (4, 4)  # outputs of a thread: planes, side by side
# The threads of a block (z, y, x), and what each computes. A warp of them covers whole lines of 128 bytes.
SHAPES = {
    "by hand": [((4, 4, 32), ONE)],
    "by hand, blocks": [((1, 8, 16), FOUR), ((1, 8, 32), FOUR)],
    "row-major": [((1, 8, 16), FOUR), ((1, 8, 32), FOUR)],
    "bricks": [((2, 8, 4), FOUR), ((2, 8, 4), (2, 4))],
    "bricks 4x4x32": [((1, 8, 8), FOUR), ((1, 4, 32), FOUR), ((1, 8, 32), (8, 4))],
}
Shape = tuple[tuple[int, int, int], tuple[int, int]]


def layout(order: str, n: int) -> Any:
    from lego_mlir.layout import Row, TileOrderBy
    from lego_mlir.templates.library.stencil import row_major

    if order == "row-major":
        return row_major(n)
    sides = SIDES[order]
    return TileOrderBy(Row(*(n // side for side in sides)), Row(*sides)).GroupBy([n, n, n])


def shapes(who: str, n: int) -> list[Shape]:
    """The shapes of blocks that divide this cube."""
    return [(block, each) for block, each in SHAPES[who] if all(n % side == 0 for side in outputs(block, each))]


def outputs(block: tuple[int, int, int], each: tuple[int, int]) -> tuple[int, int, int]:
    return block[0] * each[0], block[1], block[2] * each[1]


def label(name: str, n: int, who: str, shape: Shape) -> str:
    sides = "_".join("x".join(map(str, part)) for part in shape)
    return f"{name}_{n}_{who.replace(', ', '_').replace(' ', '_')}_{sides}"


def text(name: str, n: int, who: str, shape: Shape) -> str:
    from lego_mlir.templates.library.stencil import STENCILS, stencil

    block, each = shape
    if who in ORDERS:
        return stencil(n, name, layout(who, n), block=block, each=each).render().text
    write = by_hand.source if each == ONE else by_hand.source_of_blocks
    return write(n, list(STENCILS[name]), block)


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for name, n, who in product(NAMES, SIZES, SHAPES):
        for shape in shapes(who, n):
            (folder / f"{label(name, n, who, shape)}.cu").write_text(text(name, n, who, shape))


def static() -> list[dict[str, Any]]:
    from lego_mlir.templates.run import nvcc, triton
    from lego_mlir.toolchain import sass

    rows = []
    for name, who in product(NAMES, SHAPES):
        block, each = SHAPES[who][0]
        compiled = nvcc.compile_text(text(name, 512, who, (block, each)))
        code = sass.read(triton.listing(compiled.cubin))
        (found,) = compiled.resources
        rows.append({
            "kernel": f"{name}, {who}", "stencil": name, "who": who, "registers": found.registers,
            "spill_bytes": found.spill_stores + found.spill_loads, "shared_bytes": 0, "instructions": len(code),
            "loop_instructions": None, "outputs": each[0] * each[1], "all": dict(sass.mix(code)),
        })  # fmt: skip
    return rows


def timed(folder: Path, name: str, n: int) -> list[harness.Contender]:
    import cupy

    field = cupy.random.standard_normal((n, n, n), dtype=cupy.float32)
    expected, rows, out = None, [], cupy.zeros(n**3, cupy.float32)
    for who in SHAPES:
        given, runs = _stored(cupy, field, who), {}
        for shape in shapes(who, n):
            source = (folder / f"{label(name, n, who, shape)}.cu").read_text()
            kernel = cupy.RawModule(code=source, options=("--std=c++17",)).get_function("stencil")
            grid = tuple(n // side for side in reversed(outputs(*shape)))
            runs[shape] = _launcher(kernel, grid, tuple(reversed(shape[0])), (given, out))
        best = harness.best(runs)
        out.fill(0)
        runs[best]()
        found = _stored(cupy, out.reshape(n, n, n), who, back=True)
        expected = found.copy() if expected is None else expected
        if not cupy.allclose(found, expected, rtol=1e-4, atol=1e-5):
            raise harness.WrongResultError(f"{name} {n} {who}: wrong values; nothing is timed")
        rows.append(harness.contender(runs[best], kernel=who, stencil=name, n=n, config=best))
    return rows


def _launcher(kernel: Any, grid: Any, block: Any, given: Any) -> Any:
    return lambda: kernel(grid, block, given)


def _stored(cupy: Any, field: Any, order: str, back: bool = False) -> Any:
    """The field in the order of a layout, and back, by reshaping."""
    n = field.shape[0]
    if order not in SIDES:
        return cupy.ascontiguousarray(field)
    (a, b, c), swap = SIDES[order], (0, 3, 1, 4, 2, 5) if back else (0, 2, 4, 1, 3, 5)
    cut = (n // a, n // b, n // c, a, b, c) if back else (n // a, a, n // b, b, n // c, c)
    return cupy.ascontiguousarray(field.reshape(cut).transpose(swap)).reshape(n, n, n)


def table() -> None:
    rows, lines = comparison.rows_of("bricks"), []
    for name, n in product(NAMES, SIZES):
        found = {who: comparison.find(rows, kernel=who, stencil=name, n=n) for who in SHAPES}
        ours = found.pop("bricks 4x4x32")
        more = {"threads, outputs each": comparison.configuration(ours)}
        lines.append(comparison.Line((name, str(n)), ours, found, more))
    comparison.write("bricks", ["stencil", "n"], lines, ours="bricks 4x4x32")


BENCHMARK = runner.Benchmark(
    "bricks", list(product(NAMES, SIZES)), timed, table, render, static, counts=True, together=True
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
