"""Marks: what a marked branch of a trace is.

The statements of the branch are its meaning on every target. The mark keeps what the user wrote: a warp role, a tile
copy, or a word about tiles. A target with a unit for it replaces the statements, and a schedule calls the word again
with other arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_mlir.tracing.trace.dtypes import DType

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.trace.trace import Buffer, Register, Value


COPIES, PRODUCTS = "copies", "products"
"""The sides of a pipelined kernel."""


@dataclass(frozen=True, slots=True)
class WarpRole:
    """Warps `first` to `end - 1` of a block, in equal `groups`; adjacent branches with roles run concurrently.

    `registers` is the number that each of its threads keeps, where declared; `number` that of the hardware barrier of
    its first group, the next ones are those of the other groups.
    """

    first: int
    end: int
    groups: int
    registers: int | None
    number: int

    @property
    def warps(self) -> int:
        """The warps of a group."""
        return (self.end - self.first) // self.groups


@dataclass(frozen=True, slots=True)
class TileCopy:
    """One asynchronous tile copy: the statements of the branch are those of the threads that share it.

    A tensor copy unit can copy the same box: of the view `layout` of `tensor`, from the index `at` on, `shape` elements
    along its last two dimensions; in `tile` the box begins at the index `into`, and element (0, 0) at `position`.
    Global memory is the origin, or the target if `stores`, to which elements are added if `adds`. `ring` and `slot`
    name the barrier that it completes on, in its `use`. `warp` is the number of the warp among those that share the
    copy. `blocks` is the mask of the blocks of the cluster whose tiles are written, an index expression; None for the
    thread's. If `mutual` is not 0, so many blocks copy as much to each other on the same use: each expects all of it at
    its own barrier, and nothing at others: the tile that they have in common begins at `begin` along its rows. If
    `rounded`, elements of f32 become the nearest TF32, which products read. `since` is the number of steps in which the
    ring has held other columns of the same rows, less its stages: from 0 on, the stage holds the zeros of these rows.
    """

    tensor: Buffer
    layout: Layout
    at: tuple[Any, ...]
    shape: tuple[int, int]
    tile: Buffer
    tile_layout: Layout
    into: tuple[Any, Any]
    position: Any
    warp: Any
    stores: bool
    ring: Value | None
    slot: Value | None
    adds: bool = False
    blocks: Any = None
    use: Any = None
    mutual: int = 0
    rounded: bool = False
    begin: Any = None
    since: Any = None


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A part of a shared tile: `shape` elements from the index `at` on, in this layout of the buffer."""

    buffer: Buffer
    layout: Layout
    at: tuple[Any, Any]
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True)
class StagedTile:
    """`lego.stage`, `lego.copy_async`: a tile of the view `layout` of `tensor`, from the element `at` on.

    It fills a whole shared tile, and spans the last two dimensions of the view.
    """

    tensor: Buffer
    layout: Layout
    at: tuple[Any, ...]
    tile: Rectangle


@dataclass(frozen=True, slots=True)
class TileSums:
    """`lego.accumulator`: the registers of one. Which warp holds which elements is open while only words use it."""

    sums: tuple[Register, ...]
    dtype: DType
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True)
class HeldTile:
    """A tile in the registers of a block, in a linear layout: the value of each register, None outside of a box."""

    layout: Any
    dtype: DType
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class TileProduct:
    """`lego.mma`: `sums += a @ b`. By each warp, where `layout` is None; else by the block, sums in that layout.

    If `transposed`, the block multiplies b' a', and the sums have the layout of that. Else `a` may be in registers.
    """

    a: Rectangle | HeldTile
    b: Rectangle
    sums: tuple[Register, ...]
    layout: Any = None
    transposed: bool = False

    @property
    def tiles(self) -> tuple[Rectangle, ...]:
        """The operands in shared memory."""
        return tuple(x for x in (self.a, self.b) if isinstance(x, Rectangle))


@dataclass(frozen=True, slots=True)
class SumsStored:
    """`acc.store`: the elements of an accumulator into a part of a shared tile; without a `layout` it is open.

    If `transposed`, the layout is that of their transpose.
    """

    sums: tuple[Register, ...]
    target: Rectangle
    layout: Any = None
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class ElementProgram:
    """A function of `width` elements next to each other, of one or more tiles, and of their index in a tensor.

    `body` computes `result` from the values `given`, one of each tile, and the symbols `row` and `column`.
    """

    given: tuple[Value, ...]
    row: Any
    column: Any
    width: int
    body: tuple[Any, ...]
    result: Value


@dataclass(frozen=True, slots=True)
class StoredTile:
    """The threads of the block store whole shared tiles at the element `at` of the view `layout` of `tensor`.

    It is one tile as it is, without `programs`, or a function of the elements of all, as a program for each width that
    the function takes.
    """

    tensor: Buffer
    layout: Layout
    at: tuple[Any, Any]
    tiles: tuple[Rectangle, ...]
    programs: tuple[ElementProgram, ...] | None = None


@dataclass(frozen=True, slots=True)
class CopyOut:
    """`x.copy_out`: a spread value leaves through these buffers, whose accesses it orders itself."""

    buffers: Buffer


@dataclass(frozen=True, slots=True)
class Dependent:
    """Let the next kernel of the stream begin, or wait for the previous one to end. Without statements."""

    action: str


@dataclass(frozen=True, slots=True)
class ResidentBlocks:
    """So many blocks share a multiprocessor. Without statements."""

    count: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """The copies of all `blocks` of the grid meet, for a bounded time: nothing depends on it. Without statements.

    One lane of the warp of this number does so for its block, and in a cluster for all blocks.
    """

    blocks: int
    warp: int = 0


@dataclass(frozen=True, slots=True)
class MatrixStores:
    """A spread value into a shared tile, as `stmatrix` does it: matrices of 8 rows of 16 bytes.

    `each` has, for each instruction, the position of the row that this thread addresses, and the numbers of the two
    values of each matrix' word.
    """

    buffer: Buffer
    dtype: DType
    each: tuple[tuple[Any, tuple[tuple[int, ...], ...]], ...]
    transposed: bool


@dataclass(frozen=True, slots=True)
class RingMade:
    """`lego.barriers` by a schedule: those who arrive are the copies' threads, or the products'."""

    ring: Value
    count: int
    side: str
    blocks: int = 1
    together: bool = False

    @property
    def mutual(self) -> bool:
        """Whether each block of a cluster arrives for itself alone, and expects what all blocks copy to it."""
        return self.together and self.side == COPIES and self.blocks > 1


@dataclass(frozen=True, slots=True)
class RingPass:
    """A use of a ring: "wait" or "arrive", by the threads of a side, in this number of blocks of the cluster.

    `products` as in `BarrierUse.arrive`. `together` as in `RingMade`.
    """

    kind: str
    ring: Value
    use: Any
    side: str
    products: Any = True
    blocks: int = 1
    together: bool = False

    @property
    def mutual(self) -> bool:
        """As in `RingMade`."""
        return self.together and self.side == COPIES and self.blocks > 1


@dataclass(frozen=True, slots=True)
class RingCopy:
    """A tile copy that completes on a use of a ring, in the blocks of the cluster that share the tile.

    So many blocks of the mask `blocks` each copy a part of it; None for a tile of the block alone. `together` as in
    `RingMade`, `rounded`, `begin` and `since` as in `TileCopy`. So many rows `below` the tile may be filled as well.
    """

    tensor: Buffer
    layout: Layout
    at: tuple[Any, ...]
    tile: Rectangle
    ring: Value
    use: Any
    sharing: int = 1
    blocks: Any = None
    together: bool = False
    rounded: bool = False
    below: int = 0
    begin: Any = None
    since: Any = None

    @property
    def mutual(self) -> int:
        """As in `TileCopy`."""
        return self.sharing if self.together and self.sharing > 1 else 0


@dataclass(frozen=True, slots=True)
class ThreadCopies:
    """Copies of single threads (`cp.async`) into a stage, which complete on a use of a ring before its next arrival."""

    ring: Value
    use: Any


@dataclass(frozen=True, slots=True)
class OnSide:
    """Statements that run where the copies do ("copies"), or that all threads of the block run ("block")."""

    name: str


@dataclass(frozen=True, slots=True)
class KeptTile:
    """A tile operation that a run for the `lego` dialect keeps whole, by its number among these.

    Of the statements only writes to a variable of the tile's elements are left, which tell that loops carry it.
    """

    number: int


Word = (
    StagedTile | TileSums | TileProduct | SumsStored | StoredTile | CopyOut | MatrixStores | Dependent | Meeting
    | ResidentBlocks | KeptTile | RingMade | RingPass | RingCopy | ThreadCopies | OnSide
)  # fmt: skip
"""A word of the language: its branch always runs, and emitters print the statements of the branch in place."""
Mark = WarpRole | TileCopy | Word
