"""A traced kernel: a program of a few kinds of statements, as frozen values.

Index arithmetic is symbolic: addresses, loop bounds and index conditions are SymPy expressions over the symbols of the
trace, each with its range. Data is in static single assignment (SSA) form: a `Value` has a number and is the result of
one statement. Only registers are written more than once; emission turns them into the values that loops and branches
carry.

    Load  %0 = a[by, bx, ty, tx]        access: layout, logical index, mask, derivation of the physical position
    Store tile[ty, tx] = %0
    Atomic add counts[v0], %1
    Barrier
    For   k0 in range(0, N, 32): [...]
    If    ty < 4: [...] else: [...]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from lego_mlir.aliases import Expr
from lego_mlir.expr.simplify import Deferred, Derivation
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.launch_bounds import NO_BOUNDS, LaunchBounds
from lego_mlir.tracing.trace.marks import Mark, WarpRole
from lego_mlir.tracing.trace.spec_line import Source

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Range
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.trace.contraction import Contraction
    from lego_mlir.tracing.trace.data_ranges import DataRanges, Distinct
    from lego_mlir.tracing.trace.divisors import Division
    from lego_mlir.tracing.trace.requirements import Requirement
    from lego_mlir.tracing.trace.wgmma_products import WarpgroupProduct

Space = Literal["global", "workgroup"]
Width = int | tuple[int, int] | None
"""The number of elements of a value: one (None), those of a vector, or the rows and columns of a tile."""


@dataclass(frozen=True, slots=True)
class Value:
    """The result of a statement: a number of this element type, a vector of `width` of them, or a tile."""

    number: int
    dtype: DType
    width: Width = None

    @property
    def mlir(self) -> str:
        """The MLIR type."""
        return self._of(self.dtype.mlir)

    @property
    def kind(self) -> str:
        """The type as messages have it: MLIR's integers have no sign."""
        return self._of(str(self.dtype))

    def _of(self, element: str) -> str:
        if self.width is None:
            return element
        shape = self.width if isinstance(self.width, tuple) else (self.width,)
        return f"vector<{'x'.join(map(str, shape))}x{element}>"

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory: a kernel's tensor parameter, or a shared tile. `size` counts physical elements.

    `named` is false for a tile that the tracer numbered. `values` is the declared range of a parameter's elements.
    Conversions, scans and reductions exchange through a `scratch` tile.
    """

    name: str
    dtype: DType
    layout: Layout
    space: Space
    size: Any
    source: Source
    named: bool = True
    values: tuple[Any, Any] | None = None
    scratch: bool = False

    @property
    def is_static(self) -> bool:
        return isinstance(self.size, int)


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """A kernel's parameter that is one number."""

    name: str
    dtype: DType
    value: Value


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """The address of a load or store.

    `layout` takes the logical `index` to the position that `derivation` derives (raw, simplified, trail), from the
    start or when it is first read. The `width` elements from there on are accessed at once; the position is a multiple
    of `width`. In the index they follow one `axis`, or several (None). The element exists only where `mask` holds. Of a
    vector of two axes in a module, each row is accessed by the lanes of a warp together (`by_warp`). With a `block` it
    is in the shared memory of the block of the cluster with this rank, an index expression. `hint` is a modifier of
    `cache_hints`: a load with one of its LEVELS only brings the line into a cache.
    """

    buffer: Buffer
    layout: Layout
    index: tuple[Any, ...]
    mask: Any
    derived: Derivation | Deferred
    width: int
    source: Source
    by_warp: bool = False
    block: Any = None
    hint: str = ""
    axis: int | None = -1

    @property
    def derivation(self) -> Derivation:
        """The derivation of the physical position."""
        return self.derived.derivation if isinstance(self.derived, Deferred) else self.derived

    @property
    def position(self) -> Any:
        """The simplified physical position, in elements."""
        return self.derivation.expr

    @property
    def stated(self) -> Expr:
        """The position as it is known without deriving it, which has the same symbols and tables."""
        return self.derived.raw if isinstance(self.derived, Deferred) else self.derived.expr

    @property
    def is_masked(self) -> bool:
        return bool(self.mask != True)  # noqa: E712  SymPy's true is not Python's


@dataclass(frozen=True, slots=True)
class Constant:
    """A number known while tracing."""

    result: Value
    number: int | float
    source: Source


@dataclass(frozen=True, slots=True)
class Compute:
    """An operation on values of one element type, named as in `operators.OPERATORS`."""

    result: Value
    operation: str
    operands: tuple[Value, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class Convert:
    """The operand in another element type."""

    result: Value
    operand: Value
    source: Source


@dataclass(frozen=True, slots=True)
class FromIndex:
    """An index expression as data."""

    result: Value
    expr: Any
    source: Source


@dataclass(frozen=True, slots=True)
class ToIndex:
    """Data as a symbol of index expressions."""

    symbol: Any
    operand: Value
    source: Source


@dataclass(frozen=True, slots=True)
class Assume:
    """A claim about data as an index condition, and its text: proofs assume it, and the interpreter checks it."""

    condition: Any
    text: str
    source: Source


@dataclass(frozen=True, slots=True)
class FromCondition:
    """An index condition as an i1."""

    result: Value
    condition: Any
    source: Source


@dataclass(frozen=True, slots=True)
class Lane:
    """One element of a vector."""

    result: Value
    operand: Value
    lane: int
    source: Source


@dataclass(frozen=True, slots=True)
class Compose:
    """A vector of scalars, or one scalar broadcast."""

    result: Value
    operands: tuple[Value, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class Load:
    """`result = access`, and `other` where the access is masked off."""

    result: Value
    access: TensorAccess
    other: Value | None
    source: Source


@dataclass(frozen=True, slots=True)
class Store:
    """`access = value`, where the access is not masked off."""

    value: Value
    access: TensorAccess
    source: Source


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic update of one element: `result` is its old value, or `other` where the access is masked off.

    `operation` is a key of `atomics.KINDS`; `expected` is the value that a compare-and-swap compares with. `scope`
    names the threads among which the update is atomic: block or device.
    """

    result: Value
    operation: str
    access: TensorAccess
    value: Value | None
    expected: Value | None
    other: Value | None
    scope: str
    source: Source


@dataclass(frozen=True, slots=True)
class TileLoad:
    """A tile of shared memory, read by a warp: `result[i, j]` is `buffer[row + i, column + j]`, or its transpose.

    `stride` is the length of a memory row; `at` the memory row and column where the tile begins. Where `transposed`,
    the tile's rows run down the memory's columns.
    """

    result: Value
    buffer: Buffer
    at: tuple[Any, Any]
    stride: int
    transposed: bool
    source: Source


@dataclass(frozen=True, slots=True)
class TileStore:
    """A tile into shared memory, written by a warp: `buffer[row + i, column + j] = value[i, j]`."""

    value: Value
    buffer: Buffer
    at: tuple[Any, Any]
    stride: int
    source: Source


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows from `first` of a tile; the result's shape gives their number."""

    result: Value
    operand: Value
    first: int
    source: Source


@dataclass(frozen=True, slots=True)
class Contract:
    """`result[m, n] = c[m, n] + sum over k of a[m, k] b[n, k]`, for a warp."""

    result: Value
    a: Value
    b: Value
    c: Value
    source: Source


@dataclass(frozen=True, slots=True)
class MatrixLoad:
    """`ldmatrix`: 8x8 matrices of shared memory, a 32-bit word of each in every lane; `result` is (matrices, elements).

    `access` is a row of 16 bytes; lane l addresses row l % 8 of matrix l // 8 (PTX ISA, "ldmatrix").
    """

    result: Value
    access: TensorAccess
    transposed: bool
    source: Source


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """`target = origin`, complete after a wait; where the origin is masked off, zeros (PTX ISA, "cp.async").

    `again` if one request for the origin serves this copy and another one, to another block.
    """

    origin: TensorAccess
    target: TensorAccess
    source: Source
    again: bool = False


@dataclass(frozen=True, slots=True)
class Barrier:
    """Every thread of the block, or of a group of a warp role, arrives before any continues.

    `number` is an index expression, the number of the group's hardware barrier. With `waits`, products in flight are
    complete before it.
    """

    source: Source
    role: WarpRole | None = None
    number: Any = None
    waits: bool = True


@dataclass(frozen=True, slots=True)
class MlirOperation:
    """One MLIR operation without regions, by its name; attributes as MLIR text.

    `use` is the number of the use of a ring for which a word of `barrier_rings` waits or arrives.
    """

    results: tuple[Value, ...]
    name: str
    operands: tuple[Value, ...]
    attributes: tuple[tuple[str, str], ...]
    source: Source
    use: Any = None


@dataclass(frozen=True, slots=True)
class Register:
    """A mutable variable of a thread; its type is that of its initial value."""

    number: int
    dtype: DType
    width: Width


@dataclass(frozen=True, slots=True)
class Read:
    """The value that a register holds at this point."""

    result: Value
    register: Register
    source: Source


@dataclass(frozen=True, slots=True)
class Write:
    """The first write of a register is its definition."""

    register: Register
    value: Value
    source: Source


@dataclass(frozen=True, slots=True)
class For:
    """`for symbol in range(lo, hi, step)`, run by each thread independently."""

    symbol: Any
    lo: Any
    hi: Any
    step: Any
    body: tuple[Statement, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class If:
    """`condition` is an index condition. A branch with a `mark` is a warp role, or a word that always runs."""

    condition: Any
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    source: Source
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class While:
    """The body is repeated as long as the register `condition`, an i1, is true before an iteration."""

    condition: Register
    body: tuple[Statement, ...]
    source: Source


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTrace:
    """A function that is called: `parameters` are values, and symbols of indices. The body ends with a Return."""

    name: str
    parameters: tuple[Any, ...]
    body: tuple[Statement, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function, with values and index expressions; `results` are values and symbols."""

    function: FunctionTrace
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class Return:
    """The end of a function: values and index expressions."""

    values: tuple[Any, ...]
    source: Source


Statement = (
    Constant | Compute | Convert | FromIndex | ToIndex | Assume | FromCondition | Lane | Compose | Load | Store | Atomic
    | TileLoad | TileStore | Piece | Contract | MatrixLoad | AsyncCopy | Barrier | MlirOperation | Read | Write
    | For | While | If | FunctionCall | Return
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelTrace:
    """A traced kernel.

    `ids` names the symbols of the hardware's ids: `{tx: ("thread_id", "x"), ..}`; `ranges` holds the range of every
    symbol that is not a size. `parameters` are in the order of the signature, run-time tables after them, then `sizes`.
    `divisions` are the claims that divisors are not 0, except those that are visibly positive. `data` has the ranges of
    the symbols that represent data. `requirements` are conditions on sizes that proofs assume and a launch checks.
    `distinct` are the tensors whose elements are assumed to be distinct. `maps` are the layouts that the kernel
    applies, or inverts, to symbolic indices. `products` are those that `wgmma` can compute. `cluster` has the blocks of
    a cluster along the axes of the grid; it is empty without clusters. `phases` are shared tiles that take the memory
    of those of the phases before. `numbered` counts the values and registers, and the variables of loops, that have a
    number. `contractions` are the sums that have a product, fused or not. `bounds` limit the registers of a thread.
    """

    name: str
    parameters: tuple[Buffer | ScalarParameter, ...]
    sizes: tuple[Any, ...]
    grid: tuple[Any, ...]
    block: tuple[Any, ...]
    shared: tuple[Buffer, ...]
    ids: Mapping[Any, tuple[str, str]]
    ranges: Mapping[Any, Range]
    body: tuple[Statement, ...]
    source: Source
    data: DataRanges = field(repr=False, compare=False)
    divisions: tuple[Division, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    distinct: Mapping[str, Distinct] = field(default_factory=dict)
    maps: tuple[Layout, ...] = field(default=(), repr=False, compare=False)
    products: tuple[WarpgroupProduct, ...] = field(default=(), repr=False, compare=False)
    cluster: tuple[int, ...] = ()
    phases: tuple[frozenset[str], ...] = ()
    numbered: tuple[int, int] = field(default=(0, 0), repr=False, compare=False)
    contractions: tuple[Contraction, ...] = field(default=(), repr=False, compare=False)
    bounds: LaunchBounds = NO_BOUNDS

    def statements(self) -> Iterator[Statement]:
        """Every statement in pre-order: a loop or branch, then its body; then those of functions that are called."""
        yield from statements_in(self.body)
        for function in self.functions():
            yield from statements_in(function.body)

    def functions(self) -> tuple[FunctionTrace, ...]:
        """The functions that are called, each once."""
        found: dict[FunctionTrace, None] = {}
        pending = [self.body]
        while pending:
            for statement in statements_in(pending.pop()):
                if isinstance(statement, FunctionCall) and statement.function not in found:
                    found[statement.function] = None
                    pending.append(statement.function.body)
        return tuple(found)

    def values_used(self) -> set[int]:
        """The numbers of the values that some statement takes as an operand."""
        return {value.number for statement in self.statements() for value in operands_of(statement)}

    def tile_rows(self) -> dict[str, int]:
        """The shared buffers that tile statements access, with the length of their memory rows."""
        return {s.buffer.name: s.stride for s in self.statements() if isinstance(s, (TileLoad, TileStore))}

    def tiles_of_peers(self) -> frozenset[str]:
        """The shared tiles that threads of other blocks of the cluster access."""
        return frozenset(access.buffer.name for _, access in self.accesses() if access.block is not None)

    def accesses(self) -> Iterator[tuple[Accessing, TensorAccess]]:
        """Every statement that accesses elements with its access, in program order; a copy has two."""
        for statement in self.statements():
            for access in accesses_of(statement):
                yield statement, access  # type: ignore[misc]


Accessing = Load | Store | Atomic | MatrixLoad | AsyncCopy


def accesses_of(statement: Statement) -> tuple[TensorAccess, ...]:
    """The accesses of one statement, without those of its body; what is read before what is written."""
    match statement:
        case Load(access=access) | Store(access=access) | Atomic(access=access) | MatrixLoad(access=access):
            return (access,)
        case AsyncCopy(origin=origin, target=target):
            return (origin, target)
        case _:
            return ()


def accesses_in(function: FunctionTrace) -> Iterator[TensorAccess]:
    """The accesses of a function and of those that it calls."""
    for statement in statements_in(function.body):
        yield from accesses_of(statement)
        if isinstance(statement, FunctionCall):
            yield from accesses_in(statement.function)


def statements_in(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of a body in pre-order, without those of functions that are called."""
    pending = [*reversed(body)]
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, (For, While)):
            pending += reversed(statement.body)
        elif isinstance(statement, If):
            pending += reversed(statement.otherwise)
            pending += reversed(statement.then)


def operands_of(statement: Statement) -> Iterator[Value]:
    """The values that a statement takes, without those of its body."""
    kind: Any = type(statement)  # a union of classes is not Hashable to type checkers
    for name in _fields_read(kind):
        held = getattr(statement, name)
        if isinstance(held, Value):
            yield held
        elif isinstance(held, tuple):
            yield from (v for v in held if isinstance(v, Value))


@cache
def _fields_read(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a kind of statement, but for its results."""
    return tuple(entry.name for entry in fields(kind) if entry.name not in ("result", "results"))


def registers_written(body: tuple[Statement, ...]) -> tuple[Register, ...]:
    """The registers that a region writes, in order of their first write."""
    return tuple(dict.fromkeys(s.register for s in statements_in(body) if isinstance(s, Write)))
