"""What products of 8-bit types with K not contiguous are compared with: Triton's dot, and copies that transpose.

Triton's product takes strides of both operands, and the compiler brings K to where the units want it. Its copy
transposes 8-bit elements in tiles, for `_scaled_mm` and `_int_mm`, which multiply along K. Each is timed in every
configuration here, and the quickest is kept.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

PRODUCTS = [(128, 256, 128, 8, 3), (128, 128, 128, 4, 4), (128, 128, 128, 8, 3), (128, 256, 64, 8, 4)]
"""Rows, columns and depth of a tile, warps, stages."""
COPIES = [(64, 64, 4), (128, 64, 4), (128, 128, 8), (64, 128, 4)]
"""Rows and columns of a tile, warps."""
GROUP = 8


@triton.jit
def product_kernel(
    a, b, c, alpha, m, n, k, a_row, a_depth, b_depth, b_column, c_row, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, HIGH: tl.constexpr, INTEGERS: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    down, across = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    first = number // (HIGH * across) * HIGH
    high = tl.minimum(down - first, HIGH)
    i = first + number % (HIGH * across) % high
    j = number % (HIGH * across) // high
    rows = (i * ROWS + tl.arange(0, ROWS)) % m
    columns = (j * COLUMNS + tl.arange(0, COLUMNS)) % n
    depth = tl.arange(0, DEPTH)
    left = a + rows[:, None] * a_row + depth[None, :] * a_depth
    right = b + depth[:, None] * b_depth + columns[None, :] * b_column
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.int32 if INTEGERS else tl.float32)
    for step in range(tl.cdiv(k, DEPTH)):
        inside = depth < k - step * DEPTH
        x = tl.load(left, mask=inside[None, :], other=0.0)
        y = tl.load(right, mask=inside[:, None], other=0.0)
        sums = tl.dot(x, y, sums, out_dtype=tl.int32 if INTEGERS else tl.float32)
        left += DEPTH * a_depth
        right += DEPTH * b_depth
    found = sums if INTEGERS else (sums * alpha).to(c.dtype.element_ty)
    rows = i * ROWS + tl.arange(0, ROWS)
    columns = j * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(c + rows[:, None] * c_row + columns[None, :], found, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def transposing_kernel(source, target, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows[:, None] < height) & (columns[None, :] < width)
    tile = tl.load(source + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)
    turned = tl.trans(tile)
    tl.store(target + columns[:, None] * height + rows[None, :], turned, mask=tl.trans(inside))


def quickest(runs: list[Callable[[], Any]], elapsed: Callable[[Callable[[], Any], int], float]) -> Callable[[], Any]:
    """The quickest of several; those that the compiler refuses are left out."""
    times = {}
    for number, run in enumerate(runs):
        try:
            run()
            times[number] = elapsed(run, 10)
        except Exception as refused:  # a configuration that needs more shared memory or registers than there are
            print(f"a configuration of Triton is left out: {str(refused).splitlines()[0]}", flush=True)
    if not times:
        raise RuntimeError("Triton refuses every configuration")
    return runs[min(times, key=times.__getitem__)]


def product(a: Any, b: Any, c: Any, alpha: float, elapsed: Callable[..., float]) -> Callable[[], Any]:
    """alpha a b into c by Triton's dot, from operands of any strides."""
    (m, k), n = a.shape, b.shape[1]

    def run(rows: int, columns: int, depth: int, warps: int, stages: int) -> Any:
        grid = (triton.cdiv(m, rows) * triton.cdiv(n, columns),)
        product_kernel[grid](
            a, b, c, alpha, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), rows, columns,
            depth, GROUP, a.dtype == torch.int8, num_warps=warps, num_stages=stages,
        )  # fmt: skip
        return c

    return quickest([lambda given=given: run(*given) for given in PRODUCTS], elapsed)


def transposing_copy(source: Any, elapsed: Callable[..., float]) -> tuple[Callable[[], Any], Any]:
    """A copy of a matrix in rows as its transpose in rows by Triton, and the copy."""
    height, width = source.shape
    target = torch.empty((width, height), device=source.device, dtype=source.dtype)
    given, made = source.view(torch.int8), target.view(torch.int8)

    def run(rows: int, columns: int, warps: int) -> Any:
        grid = (triton.cdiv(height, rows), triton.cdiv(width, columns))
        transposing_kernel[grid](given, made, height, width, rows, columns, num_warps=warps)
        return target

    return quickest([lambda given=given: run(*given) for given in COPIES], elapsed), target
