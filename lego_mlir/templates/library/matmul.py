"""The layouts of `matmul.py.jinja`: C = A * B in NN, NT, TN and TT, any 8- or 16-bit type, by layout alone.

>>> matmul(128, 64, 96, a="T", tile=(32, 32, 32), group=4).names["A"]
Col(128, 96).tile_by([4, 3], [32, 32])
"""

from __future__ import annotations

from typing import Any

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import cdiv
from lego_mlir.layout import Col, Layout, Row
from lego_mlir.templates.grids import grouped
from lego_mlir.templates.template import Template
from lego_mlir.templates.values import indices


def matrix(rows: Any, columns: Any, transposed: str) -> Layout:
    """A matrix in BLAS's words: "N" is row-major, "T" is stored transposed, column-major."""
    if transposed not in ("N", "T"):
        raise TemplateError(f'a matrix is "N" (row-major) or "T" (column-major), got {transposed!r}')
    return (Row if transposed == "N" else Col)(rows, columns)


def matmul(
    m: Any,
    n: Any,
    k: Any,
    *,
    a: str = "N",
    b: str = "N",
    tile: tuple[int, int, int] = (128, 256, 64),
    group: int = 8,
    grid: Layout | None = None,
    descriptors: bool = False,
) -> Template:
    """C[m, n] = A[m, k] * B[k, n]: arguments a_ptr, b_ptr, c_ptr, and the sizes that are `lego.size`.

    `tile` is what a program computes (rows, columns) and the depth it reads at a time; `grid` another order of the
    programs than groups of `group` rows; `descriptors` reads and writes through TMA.
    """
    tm, tn, tk = tile
    tiles_m, tiles_n, tiles_k = cdiv(m, tm), cdiv(n, tn), cdiv(k, tk)
    pid, lpid_m, lpid_n, step = indices("pid lpid_m lpid_n k")
    return Template.shipped(
        "matmul.py.jinja",
        A=matrix(m, k, a).tile_by([tiles_m, tiles_k], [tm, tk]),
        B=matrix(k, n, b).tile_by([tiles_k, tiles_n], [tk, tn]),
        C=Row(m, n).tile_by([tiles_m, tiles_n], [tm, tn]),
        grid=grouped(tiles_m, tiles_n, rows=group) if grid is None else grid,
        pid=pid,
        lpid_m=lpid_m,
        lpid_n=lpid_n,
        k=step,
        descriptors=descriptors,
    )
