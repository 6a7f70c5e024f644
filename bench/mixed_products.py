"""Products of two types by one `lego.mma` with no layout: the cases of table 4 of the Linear Layouts paper.

    python bench/mixed_products.py      run all cases in the interpreter against NumPy, and keep how many are right

A pair of the paper stands for all types of its kinds: f8 for e4m3 and e5m2, f16 for f16 and bf16. Its cases are not
listed; ours are tiles of SHAPES, of sizes that are powers of two and others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import harness
import numpy as np

import lego_mlir as lego
from lego_mlir import LegoError, Row, bf16, f8e4m3fn, f8e5m2, f16, f32, i8, i16, i32, i64, interp

KINDS: Final = {
    "i8": (i8,), "i16": (i16,), "i32": (i32,), "i64": (i64,), "f8": (f8e4m3fn, f8e5m2), "f16": (f16, bf16),
    "f32": (f32,), "f64": (lego.f64,),
}  # fmt: skip
PAIRS: Final = (
    "i16/f16", "i16/f32", "i16/f64", "i16/f8", "i32/f16", "i32/f64", "i32/f8", "i64/f16", "i64/f32", "i64/f8", "i8/f16",
    "i8/f32", "i8/f64", "i8/f8",
)  # fmt: skip
SHAPES: Final = (*product((16, 64), (16, 64), (32, 64)), (48, 80, 32), (80, 48, 64), (96, 16, 32), (112, 32, 64))
"""M, N and K."""
PATH = harness.BENCH / "results" / "static" / "mixed-products.json"


def multiplying(a_type: Any, b_type: Any, m: int, n: int, k: int) -> Any:
    """The kernel c = a b^T of two types."""

    @lego.kernel(grid=1, block=128)
    def mixed(
        a: lego.Tensor(a_type, Row(m, k)), b: lego.Tensor(b_type, Row(n, k)), c: lego.Tensor(f32, Row(m, n))
    ):  # fmt: skip
        lego.mma(lego.load(a, (m, k)), lego.load(b, (n, k)).T, lego.zeros(f32, (m, n))).store(c)

    return mixed


def is_right(a_type: Any, b_type: Any, m: int, n: int, k: int) -> bool:
    """Whether the interpreter finds NumPy's product and no fault; the numbers are exact in all types."""
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-4, 5, (rows, k)) for rows in (m, n))
    c = np.zeros(m * n, np.float32)
    arrays = [a.astype(a_type.numpy).ravel(), b.astype(b_type.numpy).ravel(), c]
    report = interp.launch(multiplying(a_type, b_type, m, n, k).mlir(), grid=1, block=128, args=arrays)
    return bool(report.clean and np.array_equal(c.reshape(m, n), a @ b.T))


def cases(pair: str) -> Iterator[tuple[Any, Any]]:
    """The types of a pair, either of them on the left."""
    first, second = (KINDS[kind] for kind in pair.split("/"))
    for number, (x, y) in enumerate(product(first, second)):
        yield (y, x) if number % 2 else (x, y)


def main() -> None:
    found = {}
    for pair in PAIRS:
        right = total = 0
        refused = ""
        for (x, y), shape in product(cases(pair), SHAPES):
            total += 1
            try:
                right += is_right(x, y, *shape)
            except LegoError as error:
                refused = refused or str(error)
        found[pair] = {"right": right, "cases": total}
        print(pair, found[pair], refused[:200], flush=True)
    PATH.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
