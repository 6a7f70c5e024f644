"""3-D stencils of 7, 13 and 27 points: in bricks and row-major by layout, against a hand-written row-major kernel."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import harness
from rivals import stencil as by_hand

SIZES = [128, 256, 512, 1024]
NAMES = ["7-point", "13-point", "27-point"]
THREADS = {"cube": (8, 8, 8), "row": (4, 4, 32)}  # threads of a block: z, y, x
ORDERS = ["row-major", "bricks", "bricks 4x4x32"]


def layout(order: str, n: int) -> Any:
    from lego_mlir.layout import Row, TileOrderBy
    from lego_mlir.templates.library.stencil import bricks, row_major

    if order == "bricks 4x4x32":
        return TileOrderBy(Row(n // 4, n // 4, n // 32), Row(4, 4, 32)).GroupBy([n, n, n])
    return bricks(n) if order == "bricks" else row_major(n)


def label(name: str, n: int, order: str, threads: str) -> str:
    return f"{name}_{n}_{order.replace(' ', '_')}_{threads}"


def template(name: str, n: int, order: str, threads: str) -> Any:
    from lego_mlir.templates.library.stencil import stencil

    return stencil(n, name, layout(order, n), block=THREADS[threads])


def render(folder: Path) -> None:
    from lego_mlir.templates.library.stencil import STENCILS

    for name, n, order, threads in product(NAMES, SIZES, ORDERS, THREADS):
        harness.keep(folder, label(name, n, order, threads), template(name, n, order, threads).render())
    for name, n, threads in product(NAMES, SIZES, THREADS):
        text = by_hand.source(n, list(STENCILS[name]), THREADS[threads])
        (folder / f"{label(name, n, 'by hand', threads)}.cu").write_text(text)


def static() -> list[dict[str, Any]]:
    from lego_mlir.templates.library.stencil import STENCILS
    from lego_mlir.toolchain import nvcc, sass, triton

    rows = []
    for name, threads in product(NAMES, THREADS):
        texts = {order: template(name, 512, order, threads).render().text for order in ORDERS}
        texts["by hand"] = by_hand.source(512, list(STENCILS[name]), THREADS[threads])
        for who, text in texts.items():
            compiled = nvcc.compile_text(text)
            code = sass.read(triton.listing(compiled.cubin))
            (found,) = compiled.resources
            rows.append({
                "kernel": f"{name}, {threads}, {who}", "registers": found.registers,
                "spill_bytes": found.spill_stores + found.spill_loads, "shared_bytes": 0,
                "instructions": len(code), "loop_instructions": None, "all": dict(sass.mix(code)),
            })  # fmt: skip
    return rows


def timed(folder: Path, name: str, n: int) -> list[harness.Contender]:
    import cupy

    field = cupy.random.standard_normal((n, n, n), dtype=cupy.float32)
    expected, rows = None, []
    for order, threads in product(["by hand", *ORDERS], THREADS):
        text = (folder / f"{label(name, n, order, threads)}.cu").read_text()
        kernel = cupy.RawModule(code=text, options=("--std=c++17",)).get_function("stencil")
        given, out = _stored(cupy, field, order), cupy.zeros(n**3, cupy.float32)
        z, y, x = THREADS[threads]
        grid, block = (n // x, n // y, n // z), (x, y, z)
        run = _launcher(kernel, grid, block, (given, out))
        run()
        found = _stored(cupy, out.reshape(n, n, n), order, back=True)
        expected = found if expected is None else expected
        if not cupy.allclose(found, expected, rtol=1e-4, atol=1e-5):
            raise harness.WrongResultError(f"{name} {n} {order} {threads}: wrong values; nothing is timed")
        rows.append(harness.contender(run, kernel=order, stencil=name, n=n, threads=threads))
    return rows


def _launcher(kernel: Any, grid: Any, block: Any, given: Any) -> Any:
    return lambda: kernel(grid, block, given)


def _stored(cupy: Any, field: Any, order: str, back: bool = False) -> Any:
    """The field in the order of a layout, and back, by reshaping."""
    n = field.shape[0]
    sides = {"bricks": (8, 8, 8), "bricks 4x4x32": (4, 4, 32)}.get(order)
    if sides is None:
        return cupy.ascontiguousarray(field)
    (a, b, c), swap = sides, (0, 3, 1, 4, 2, 5) if back else (0, 2, 4, 1, 3, 5)
    cut = (n // a, n // b, n // c, a, b, c) if back else (n // a, a, n // b, b, n // c, c)
    return cupy.ascontiguousarray(field.reshape(cut).transpose(swap)).reshape(n, n, n)


if __name__ == "__main__":
    sys.exit(harness.main("bricks", render, static, list(product(NAMES, SIZES)), timed))
