"""Layouts for `nw.cu.jinja`: a shared-memory buffer that is row-major, anti-diagonal or padded, by layout alone.

The threads of a block work along anti-diagonals of a (b+1) x (b+1) buffer. In row-major order two neighbours on an
anti-diagonal are b words apart: in the same bank where b is a multiple of 32. The anti-diagonal layout makes them
adjacent (LEGO, section 6.2); one column of padding puts them b + 1 words apart, which avoids conflicts as well:

>>> [buffer(kind, 32).apply(3, 5) - buffer(kind, 32).apply(4, 4) for kind in BUFFERS]
[-32, -1, -33]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lego_mlir.errors import TemplateError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, STATIC_SHARED_BYTES, WARP
from lego_mlir.layout import Layout, Padded, Row, as_layout, gallery
from lego_mlir.templates.render.indices import index
from lego_mlir.templates.render.require import require_one_of, require_positive, require_threads
from lego_mlir.templates.render.template import Template

BUFFERS: Final[dict[str, Callable[[int], Layout]]] = {
    "row-major": lambda n: as_layout(Row(n, n)),
    "anti-diagonal": lambda n: as_layout(gallery.antidiagonal(n)),
    "padded": lambda n: Padded(Row(n, n + 1), [n, n]),
}


def buffer(kind: str, b: int) -> Layout:
    """The layout of the (b+1) x (b+1) buffer: one of BUFFERS."""
    require_one_of("nw", "the buffer", kind, tuple(BUFFERS))
    return BUFFERS[kind](b + 1)


WORD: Final = 4
TURN: Final = 4
"""Steps between barriers. More steps mean fewer barriers, but a larger lag of each warp after its left neighbour."""


def shared_bytes(buffer: Layout) -> int:
    """The shared memory of a block: one buffer, for the substitution scores and then the scores."""
    return WORD * int(buffer.physical_size())


@dataclass(frozen=True, slots=True)
class Sweep:
    """How the threads of a block move down its columns: at a step thread c computes row `step - delay(c)`.

    >>> sweep = Sweep.of(64)
    >>> sweep, [sweep.delay(c) for c in (0, 1, 31, 32)]
    (Sweep(b=64, lag=36, steps=132), [0, 1, 31, 36])
    """

    b: int
    lag: int
    steps: int

    @classmethod
    def of(cls, b: int) -> Sweep:
        """The sweep of a b x b block. Raises TemplateError unless the block consists of whole warps."""
        if b > WARP and b % WARP:
            raise TemplateError(f"nw: a block of more than {WARP} columns must be whole warps of {WARP}, got {b=}")
        lag = WARP + TURN  # a warp's first lane reads one row ahead, from the previous warp's last lane, one TURN later
        steps = b - 1 + min(b, WARP) + (b - 1) // WARP * lag
        return cls(b, lag, -(-steps // TURN) * TURN)

    def delay(self, c: int) -> int:
        """The number of steps by which a column starts after the first one."""
        return c % WARP + c // WARP * self.lag


BufferUse = tuple[str, tuple[Any, ...], int, Any]  # name, row and column of each lane, elements per lane, active lanes


def accesses(b: int) -> Iterator[BufferUse]:
    """The accesses of a block to the buffer as (warps, 32) arrays: arguments of `analysis.repair.Use`.

    >>> from lego_mlir.analysis.choosing import ranked
    >>> from lego_mlir.analysis.repair import TileAccess
    >>> uses = [TileAccess(*access) for access in accesses(64)]
    >>> for candidate in ranked({kind: buffer(kind, 64) for kind in BUFFERS}, uses, WORD):
    ...     print(candidate)
    padded: 762 wavefronts, 2 operations an index, 17160 bytes
    anti-diagonal: 1130 wavefronts, 14 operations an index, 16900 bytes
    row-major: 8574 wavefronts, 2 operations an index, 16900 bytes
    """
    import numpy as np

    sweep, c = Sweep.of(b), np.arange(-(-b // WARP) * WARP)
    down = np.arange(b)[:, None]  # one row at a time, as the block fills the buffer and reads it out
    r = np.arange(sweep.steps)[:, None] - [sweep.delay(int(column)) for column in c]
    ahead, below = (r > -2) & (r < b - 1), (r >= 0) & (r < b)
    for name, row, column, active in (
        ("filling", down + 1, c + 1, down >= 0),
        ("scores left of a warp", r + 2, c, ahead & (c % WARP == 0)),
        ("substitution scores", r + 2, c + 1, ahead),
        ("scores", r + 1, c + 1, below),
        ("reading out", down + 1, c + 1, down >= 0),
    ):
        taking_part = active & (c < b)
        index = (np.where(taking_part, place, 0).reshape(-1, WARP) for place in (row, column))
        yield name, tuple(index), 1, taking_part.reshape(-1, WARP)


def nw(n: int, b: int, kind: str | Layout = "padded") -> Template:
    """Scores of two sequences of n letters, n a multiple of b: kernels nw_growing and nw_shrinking, b threads a block.

    Arguments of both: the scores, (n+1) x (n+1) int32 with the first row and column initialised; the substitution
    scores, of the same shape; the penalty; the anti-diagonal of blocks. `kind` is one of BUFFERS, or a layout of the
    buffer; the default has the fewest wavefronts for every b, see `accesses`. Above 48 KiB shared memory is dynamic:
    pass `shared_bytes` at the launch.
    """
    require_positive("nw", n=n, b=b)
    if n % b:
        raise TemplateError(f"nw: {n=} must be a multiple of {b=}")
    require_threads("nw", [b])
    blocks, sweep = n // b, Sweep.of(b)
    block_row, block_column = (index(name, blocks) for name in ("block_row", "block_column"))
    scores = kind if isinstance(kind, Layout) else buffer(kind, b)
    if (needed := shared_bytes(scores)) > LARGEST_SHARED_BYTES:
        raise TemplateError(
            f"nw: the buffer of a block of {b=} takes {needed} bytes of shared memory, and a block has "
            f"{LARGEST_SHARED_BYTES} at most; take a smaller one"
        )
    return Template.shipped(
        "nw.cu.jinja",
        buffer=scores,
        barrier="__syncwarp()" if b <= WARP else "__syncthreads()",
        dynamic=shared_bytes(scores) > STATIC_SHARED_BYTES,
        matrix=as_layout(Row(n + 1, n + 1)),
        b=b,
        blocks=blocks,
        block_row=block_row,
        block_column=block_column,
        warp=WARP,
        lanes=hex((1 << min(b, WARP)) - 1),
        turn=TURN,
        lag=sweep.lag,
        steps=sweep.steps,
        **{name: index(name, b) for name in ("r", "below", "c")},
        **{name: index(name, b + 1, start=1) for name in ("row", "column")},
    )
