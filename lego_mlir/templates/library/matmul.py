"""Layouts for `matmul.py.jinja`: C = A * B in NN, NT, TN and TT, any 8- or 16-bit type, by layout alone.

>>> matmul(128, 64, 96, a="T", tile=(32, 32, 32), group=4).names["A"]
Col(128, 96).tile_by([4, 3], [32, 32])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import cdiv
from lego_mlir.expr.sizes import size
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.layout import Col, Layout, Row
from lego_mlir.layout.canonical import Size
from lego_mlir.schedule.orders import grouped
from lego_mlir.templates.render.indices import index, indices
from lego_mlir.templates.render.require import require_dims, require_one_of, require_parts, require_positive
from lego_mlir.templates.render.template import Template

TILE: Final = ("rows", "columns", "depth")
DTYPES: Final = ("float16", "bfloat16", "float32", "float8e4nv", "float8e5")  # Triton's names


def matrix(rows: Size, columns: Size, transposed: str) -> Layout:
    """A matrix in BLAS notation: "N" is row-major, "T" is column-major (stored transposed)."""
    if transposed not in ("N", "T"):
        raise TemplateError(f'a matrix is "N" (row-major) or "T" (column-major), got {transposed!r}')
    return (Row if transposed == "N" else Col)(rows, columns)


def _require_dtype(kernel: str, dtype: str | None) -> None:
    if dtype is not None:
        require_one_of(kernel, "dtype", dtype, DTYPES)


def matmul(
    m: Size,
    n: Size,
    k: Size,
    *,
    a: str = "N",
    b: str = "N",
    tile: tuple[int, int, int] = (128, 256, 64),
    group: int = 8,
    grid: Layout | None = None,
    descriptors: bool = False,
    persistent: int = 0,
    dtype: str | None = None,
) -> Template:
    """C[m, n] = A[m, k] * B[k, n]: arguments a_ptr, b_ptr, c_ptr, and every `lego.size` among m, n, k.

    `tile` is (rows, columns, depth): the output tile of a program and the depth of one iteration. `grid` replaces the
    tile order of groups of `group` rows; `descriptors` reads and writes through TMA; `persistent` is the number of
    persistent programs, 0 for one program per tile. With `dtype`, Triton's name of the operand type, descriptors whose
    rows are not 16-byte aligned are rejected.
    """
    _require_dtype("matmul", dtype)
    if persistent < 0:
        raise TemplateError(f"matmul: {persistent=} is the number of programs, or 0 for a program a tile")
    names = _tiled("matmul", m, n, k, a, b, tile, group, grid)
    tiles = names["lpid_m"], names["lpid_n"]
    tm, tn, _ = tile
    begins = isinstance(tm, int) and isinstance(tn, int)
    if begins:
        tiles = index("from_m", cdiv(m, tm) * tm, step=tm) // tm, index("from_n", cdiv(n, tn) * tn, step=tn) // tn
    return Template.shipped(
        "matmul.py.jinja",
        **names,
        pid=index("pid"),
        begins=begins,
        tile_m=tiles[0],
        tile_n=tiles[1],
        descriptors=descriptors,
        persistent=persistent,
        dtype=dtype,
    )


def _tiled(
    kernel: str,
    m: Size,
    n: Size,
    k: Size,
    a: str,
    b: str,
    tile: tuple[Size, ...],
    group: int,
    grid: Layout | None = None,
) -> dict[str, Any]:
    """The names shared by all matrix products: tiled layouts and tile indices."""
    require_parts(kernel, "tile", tile, TILE)
    tm, tn, tk = tile
    tiles_m, tiles_n, tiles_k = cdiv(m, tm), cdiv(n, tn), cdiv(k, tk)
    if grid is not None:
        require_dims(kernel, "grid", grid.dims(), (tiles_m, tiles_n))
    return {
        "C": Row(m, n).tile_by([tiles_m, tiles_n], [tm, tn]),  # first, for the order of the sizes: M, N, K
        "A": matrix(m, k, a).tile_by([tiles_m, tiles_k], [tm, tk]),
        "B": matrix(k, n, b).tile_by([tiles_k, tiles_n], [tk, tn]),
        "grid": grouped(tiles_m, tiles_n, rows=group) if grid is None else grid,
        "lpid_m": index("lpid_m", tiles_m),
        "lpid_n": index("lpid_n", tiles_n),
        "k": index("k"),
    }


def batched_matmul(
    batch: Size,
    m: Size,
    n: Size,
    k: Size,
    *,
    a: Layout | None = None,
    b: Layout | None = None,
    c: Layout | None = None,
    tile: tuple[int, int, int] = (128, 128, 64),
    group: int = 8,
    descriptors: bool = False,
    dtype: str | None = None,
) -> Template:
    """C[i] = A[i] * B[i]: the first grid axis runs over the tiles, the second over the batch.

    `a`, `b` and `c` are layouts of (batch, rows, columns), row-major by default. `Padded(Row(batch, m, lda), [batch, m,
    k])` has a leading dimension lda, `RegP([batch, m, k], [2, 1, 3])` stores the batch inside the rows. `descriptors`
    reads and writes through TMA, which requires contiguous columns. `dtype` as in `matmul`.
    """
    require_parts("batched_matmul", "tile", tile, TILE)
    _require_dtype("batched_matmul", dtype)
    tm, tn, tk = tile
    tiles_m, tiles_n, tiles_k = cdiv(m, tm), cdiv(n, tn), cdiv(k, tk)
    pid, lpid_m, lpid_n, step, place = indices("pid lpid_m lpid_n k batch")
    stored_a, stored_b, stored_c = (
        Row(batch, m, k) if a is None else a,
        Row(batch, k, n) if b is None else b,
        Row(batch, m, n) if c is None else c,
    )
    for name, stored, dims in (
        ("a", stored_a, (batch, m, k)),
        ("b", stored_b, (batch, k, n)),
        ("c", stored_c, (batch, m, n)),
    ):
        require_dims("batched_matmul", name, stored.dims(), dims)
    return Template.shipped(
        "batched_matmul.py.jinja",
        C=stored_c.tile_by([batch, tiles_m, tiles_n], [1, tm, tn]),
        A=stored_a.tile_by([batch, tiles_m, tiles_k], [1, tm, tk]),
        B=stored_b.tile_by([batch, tiles_k, tiles_n], [1, tk, tn]),
        grid=grouped(tiles_m, tiles_n, rows=group),
        pid=pid,
        lpid_m=lpid_m,
        lpid_n=lpid_n,
        k=step,
        batch=place,
        descriptors=descriptors,
        dtype=dtype,
    )


def grouped_gemm(
    *,
    a: str = "N",
    b: str = "N",
    tile: tuple[int, int, int] = (128, 128, 64),
    group: int = 8,
    programs: int = REFERENCE_SMS,
    largest: int = 16384,
    multiple_of: int = 16,
    depth_multiple_of: int | None = None,
    descriptors: bool = False,
    dtype: str = "float16",
    result: str = "float16",
) -> Template:
    """Products of different sizes in one launch of `programs` programs; `descriptors` reads and writes through TMA.

    Arguments: three arrays of addresses (int64), an array of (m, n, k) per product (int32), the number of products.
    `dtype` and `result` are Triton's names of the types. Every size is at most `largest` and a multiple of
    `multiple_of`. Where depths are multiples of the tile's, declare it with `depth_multiple_of` to drop their masks.
    """
    require_positive("grouped_gemm", programs=programs)
    for name, given in (("dtype", dtype), ("result", result)):
        require_one_of("grouped_gemm", name, given, DTYPES)
    divisors = {"M": multiple_of, "N": multiple_of, "K": depth_multiple_of or multiple_of}
    sizes = {name: size(name, max=largest, multiple_of=divisor) for name, divisor in divisors.items()}
    m, n, k = sizes.values()
    return Template.shipped(
        "grouped_gemm.py.jinja",
        **_tiled("grouped_gemm", m, n, k, a, b, tile, group),
        **sizes,
        tile=index("tile"),
        programs=programs,
        descriptors=descriptors,
        dtype=dtype,
        result=result,
    )


def relayout(source: Layout, destination: Layout, *, tile: tuple[int, int] = (64, 64)) -> Template:
    """Copy a matrix from one layout to another: arguments s_ptr, d_ptr; one program per tile."""
    require_parts("relayout", "tile", tile, TILE[:2])
    if len(source.dims()) != 2:
        raise TemplateError(f"relayout: a matrix has two axes, got {source}")
    require_dims("relayout", "destination", destination.dims(), source.dims())
    (rows, columns), (tm, tn) = source.dims(), tile
    tiles = [cdiv(rows, tm), cdiv(columns, tn)]
    pid, tile_m, tile_n = indices("pid tile_m tile_n")
    return Template.shipped(
        "relayout.py.jinja",
        S=source.tile_by(tiles, [tm, tn]),
        D=destination.tile_by(tiles, [tm, tn]),
        grid=Row(*tiles),
        pid=pid,
        tile_m=tile_m,
        tile_n=tile_n,
    )


@dataclass(frozen=True, slots=True)
class Fp8Plan:
    """An fp8 product for tensor cores that require contiguous depth: copies of operands whose depth is not, and the
    product itself."""

    copy_a: Template | None
    copy_b: Template | None
    product: Template


def matmul_fp8(
    m: int, n: int, k: int, *, a: str = "N", b: str = "N", tile: tuple[int, int, int] = (128, 256, 128), group: int = 8
) -> Fp8Plan:
    """C[m, n] = A * B for 8-bit types, on the asynchronous path in all four layouts.

    `wgmma` multiplies 8-bit operands only from shared memory with contiguous depth (PTX ISA). For any other
    layout a kernel transposes every tile through registers, in every program; copying the operand once costs m*k or k*n
    bytes each way.
    """
    return Fp8Plan(
        None if a == "N" else relayout(matrix(m, k, a), matrix(m, k, "N")),
        None if b == "T" else relayout(matrix(k, n, b), matrix(k, n, "T")),
        matmul(m, n, k, a="N", b="T", tile=tile, group=group, descriptors=True, dtype="float8e4nv"),
    )
