"""Stride, contiguity and alignment of positions: when can one instruction access several elements?

w elements form a vector if their positions are consecutive and the first is a multiple of w. The question has two
forms: for positions that are known, over arrays; for positions that are expressions, as claims for the prover.

>>> import numpy as np
>>> rows = np.arange(24).reshape(2, 3, 4)
>>> stride(rows), is_vector(rows), is_vector(rows + 1), stride(rows.swapaxes(1, 2))
(1, True, False, 4)
"""

from __future__ import annotations

import sympy

from lego_mlir.aliases import Cond, Expr, IntArray
from lego_mlir.expr.nodes import Eq, FloorMod


def stride(positions: IntArray) -> int | None:
    """The distance between consecutive positions along the last axis, if it is the same everywhere."""
    steps = positions[..., 1:] - positions[..., :-1]
    first = int(steps.flat[0])
    return first if (steps == first).all() else None


def is_vector(positions: IntArray) -> bool:
    """Whether the w positions along the last axis are consecutive from a multiple of w, for all other axes."""
    import numpy as np  # tracing loads this module, and numpy only for arrays

    width = positions.shape[-1]
    first = positions[..., :1]
    return bool((first % width == 0).all() and (positions == first + np.arange(width)).all())


def aligned(position: Expr, width: int) -> Cond:
    """The claim that a position is a multiple of `width`."""
    return Eq(FloorMod(position, width), 0)


def contiguous(first: Expr, there: Expr, offset: Expr) -> Cond:
    """The claim that position `there` is `offset` elements after `first`."""
    return sympy.true if sympy.expand(there - first - offset) == 0 else Eq(there, first + offset)
