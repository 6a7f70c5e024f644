"""Ids, loops, branches, registers and barriers.

| written | runs |
|---|---|
| `lego.thread_id`, `lego.block_id` | x, y, z of the thread in its block, of the block in the grid |
| `for i in lego.range(lo, hi, step):` | a loop of the kernel; `i` is an index, which descends with a negative step |
| `for i in lego.unroll(lo, hi, step):` | the body once for each int, while tracing |
| `with lego.when(condition):` | the body where the condition holds |
| `with lego.otherwise():` | right after it: the body where it does not |
| `acc = lego.register(f32, 0.0)` | a mutable variable; `acc += x`, `acc.set(x)` change it, `acc.value` reads it now |
| `with lego.while_(running):` | the body as long as a register of i1 is true (`while_loops`) |
| `with lego.rounded():` | the body, in which each product and sum rounds by itself (`contraction`) |
| `lego.barrier()` | every thread of the block arrives before any continues |
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

import sympy

from lego_mlir.errors import brief
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Lt
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import Barrier, For, If, Read, Register, Value, Write
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.in_place import SetInPlace
from lego_mlir.tracing.words.packed_values import PackedNumbers, broadcast_number
from lego_mlir.tracing.words.packed_variables import PackedCell
from lego_mlir.tracing.words.scalar import Scalar, as_value

if TYPE_CHECKING:
    from lego_mlir.tracing.spread.distributed import Spread
    from lego_mlir.tracing.spread.variables import SpreadVariable

T = TypeVar("T")


class _Axes(Uncompared, Generic[T]):
    """Values along x, y, z: a tuple in that order, with `.x`, `.y` and `.z`."""

    _instead = "compare its entries, such as lego.thread_id[0] == 0"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"lego.{self._kind}"

    def _all(self) -> tuple[T, ...]:
        raise NotImplementedError  # every subclass defines it

    def _extents(self) -> tuple[Any, ...]:
        tracer = current(f"lego.{self._kind}")
        return tracer.block if self._is_of_block else tracer.grid

    @property
    def _is_of_block(self) -> bool:
        return self._kind in ("thread_id", "block_dim")

    @overload
    def __getitem__(self, axis: int) -> T: ...

    @overload
    def __getitem__(self, axis: slice) -> tuple[T, ...]: ...

    def __getitem__(self, axis: int | slice) -> T | tuple[T, ...]:
        try:
            return self._all()[axis]
        except (IndexError, TypeError):
            raise self._missing(axis) from None

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    @property
    def x(self) -> T:
        return self[0]

    @property
    def y(self) -> T:
        return self[1]

    @property
    def z(self) -> T:
        return self[2]

    def _missing(self, axis: Any) -> Exception:
        tracer = current(f"lego.{self._kind}")
        what = "block" if self._is_of_block else "grid"
        return tracer.error(
            f"lego.{self._kind}[{axis!r}]: the {what} has {len(self._all())} dimensions, in x, y, z order"
        )


class Ids(_Axes[Index]):
    """The ids of one kind: of the thread in its block, or of the block in the grid."""

    def _all(self) -> tuple[Index, ...]:
        tracer = current(f"lego.{self._kind}")
        return tuple(Index(tracer.id_symbol(self._kind, axis)) for axis in builtins.range(len(self._extents())))


class Extents(_Axes[Any]):
    """The sizes of the block or of the grid: ints, or indices where they are symbolic."""

    def _all(self) -> tuple[Any, ...]:
        return self._extents()


thread_id = Ids("thread_id")
"""The index of this thread in its block: x, y, z, below `block_dim`. CUDA: threadIdx."""
block_id = Ids("block_id")
"""The index of this block in the grid: x, y, z, below `grid_dim`. CUDA: blockIdx."""
block_dim = Extents("block_dim")
"""The threads of a block along x, y, z, as `block=` gives them. CUDA: blockDim."""
grid_dim = Extents("grid_dim")
"""The blocks of the launch along x, y, z, as `grid=` gives them. CUDA: gridDim."""


def barrier(*, products: bool = True) -> None:
    """Every thread of the block arrives here before any continues; stores before it are visible after it.

    In a role, `with lego.warps(..)`, every thread of the role, or of its group. Products of warpgroups in flight are
    complete after it; with `products=False` they go on, where the tiles that they read are not written before their
    results are used.
    """
    tracer = current("lego.barrier")
    if tracer.role is None:
        tracer.append(Barrier(tracer.here(), waits=products))
        return
    from lego_mlir.tracing.words.warps import group_of_role

    number = tracer.simplified(tracer.role.number + group_of_role(tracer).expr)
    tracer.append(Barrier(tracer.here(), tracer.role, number, products))


def unroll(*bounds: int) -> builtins.range:
    """`range` over ints while tracing: the body is traced once per int. Raises TraceError for anything but ints."""
    if not all(isinstance(b, int) for b in bounds):
        tracer = current("lego.unroll")
        raise tracer.error(f"lego.unroll takes ints, got {bounds}; lego.range makes a loop of the kernel")
    return builtins.range(*bounds)


class Opened(Uncompared):
    """A branch or loop of the kernel. It must be opened by `with` or `for`, and has no truth value."""

    _instead = "open it with `with` or `for`"

    def __init__(self, written: str) -> None:
        self._written = written
        self._tracer = current(written.partition("(")[0])
        self._tracer.unopened[id(self)] = (self, written, self._tracer.here())

    def _open(self) -> Tracer:
        tracer = current(self._written.partition("(")[0])
        tracer.unopened.pop(id(self), None)
        return tracer

    def __repr__(self) -> str:
        return self._written

    def __bool__(self) -> NoReturn:
        raise self._tracer.error(
            f"{self._written} cannot be used as a Python condition; in a kernel a branch is "
            "`with lego.when(condition):`, and a loop `for i in lego.range(..):`"
        )


class Loop(Opened):
    """The iterable that `lego.range` returns."""

    def __init__(self, low: Any, high: Any, step: Any, descends_from: Any = None) -> None:
        super().__init__("lego.range(..)")
        self._bounds, self._from = (low, high, step), descends_from

    def __iter__(self) -> Iterator[Index]:
        tracer = self._open()
        symbol, facts = tracer.loop_symbol(*self._bounds)
        source = tracer.here()
        tracer.loops.append((symbol, *self._bounds))
        with tracer.region(*facts, variable=symbol) as body:
            try:
                yield Index(symbol) if self._from is None else Index(self._from) - Index(symbol)
            except GeneratorExit:
                tracer.abandoned = source
                raise
        tracer.loops.pop()
        tracer.append(For(symbol, *self._bounds, tuple(body), source))


def loop(*bounds: Any) -> Loop:
    """`for i in lego.range(hi)`, `(lo, hi)` or `(lo, hi, step)`: a loop of the kernel. Bounds are ints or indices.

    The step is positive, or negative for a loop that descends from `lo` and ends before `hi`. A value defined in the
    body is local to it; `lego.register` carries values between iterations.
    """
    tracer = current("lego.range")
    if not 1 <= len(bounds) <= 3:
        raise tracer.error(f"lego.range takes one to three bounds, as range does, got {len(bounds)}")
    lo, hi = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    low, high, step = (tracer.simplified(tracer.index(b)) for b in (lo, hi, bounds[2] if len(bounds) == 3 else 1))
    if tracer.holds(Lt(0, step)):
        return Loop(low, high, step)
    if tracer.holds(Lt(step, 0)):
        return Loop(sympy.Integer(0), tracer.simplified(low - high), tracer.simplified(-step), low)
    raise tracer.error(f"lego.range: the step must be positive or negative for all values, got {step}")


class Branch(Opened):
    """The context manager that `lego.when`, `lego.otherwise` and `lego.rounded` return."""

    def __init__(self, written: str, body: Callable[[Tracer], AbstractContextManager[None]]) -> None:
        super().__init__(written)
        self._body = body
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        region = self._body(self._open())
        region.__enter__()
        self._entered.append(region)

    def __exit__(self, *error: Any) -> bool | None:
        return self._entered.pop().__exit__(*error)


def when(condition: Any) -> Branch:
    """`with lego.when(condition):` runs its body where the condition holds. A condition of indices or an i1."""
    tracer = current("lego.when")
    if isinstance(condition, bool):
        condition = sympy.true if condition else sympy.false
    elif isinstance(condition, Scalar) and condition.dtype.family != "bool":
        raise tracer.error(f"lego.when takes a condition, got {condition!r}; compare it with a number")
    wanted = tracer.condition(condition)
    simplified = sympy.true if tracer.holds(wanted) else tracer.simplified(wanted)
    return Branch("lego.when(..)", lambda tracer: _then(tracer, simplified))


@contextmanager
def _then(tracer: Tracer, condition: Any) -> Iterator[None]:
    source = tracer.here()
    with tracer.region(condition) as body:
        yield
    tracer.append(If(condition, tuple(body), (), source))


def otherwise() -> Branch:
    """`with lego.otherwise():` right after a `with lego.when(..):` runs its body where that condition is false."""
    return Branch("lego.otherwise()", _otherwise)


@contextmanager
def _otherwise(tracer: Tracer) -> Iterator[None]:
    branch = tracer.last()
    if not isinstance(branch, If) or branch.otherwise:
        raise tracer.error("lego.otherwise must directly follow the body of a `with lego.when(..):`")
    with tracer.region(sympy.Not(branch.condition)) as body:
        yield
    tracer.replace_last(If(branch.condition, branch.then, tuple(body), branch.source))


def rounded() -> Branch:
    """`with lego.rounded():` products and sums of its body round each by itself; none is contracted to an fma."""
    return Branch("lego.rounded()", _rounded)


@contextmanager
def _rounded(tracer: Tracer) -> Iterator[None]:
    before, tracer.rounds_each = tracer.rounds_each, True
    try:
        yield
    finally:
        tracer.rounds_each = before


class Cell(SetInPlace, Scalar):
    """A mutable variable of a thread. In an expression it is read at that point."""

    __slots__ = ("_register",)

    def __init__(self, register: Register) -> None:
        self._register = register

    @property
    def entry(self) -> Value:  # type: ignore[override]
        """The current value, as the trace has it: reading it is a statement."""
        tracer = current("a register")
        register = tracer.use_register(self._register)
        result = tracer.value(register.dtype, register.width)
        tracer.append(Read(result, register, tracer.here()))
        return result

    @property
    def register(self) -> Register:
        """The register itself."""
        return self._register

    @property
    def dtype(self) -> DType:
        return self._register.dtype

    @property
    def width(self) -> Any:  # a Width; arithmetic is on vectors and numbers
        return self._register.width

    def __repr__(self) -> str:
        return f"<register {self._register.number} of {self.dtype}>"

    def get(self) -> Scalar:
        """The current value; later changes of the register do not affect it."""
        return Scalar(self.entry)

    @property
    def value(self) -> Scalar:
        """What `get()` returns."""
        return self.get()

    def set(self, value: object) -> None:
        """Replace the value."""
        tracer = current("a register")
        register = tracer.use_register(self._register)
        tracer.append(Write(register, as_value(value, self.dtype, self.width), tracer.here()))


class CellTuple(Uncompared):
    """Several variables whose values are read and replaced together."""

    __slots__ = ("cells",)
    _instead = "compare the values of `get()`, one by one"

    def __init__(self, cells: Sequence[Cell | SpreadVariable]) -> None:
        self.cells = tuple(cells)

    def get(self) -> tuple[Scalar | Spread, ...]:
        """The current values."""
        return tuple(cell.get() for cell in self.cells)

    @property
    def value(self) -> tuple[Scalar | Spread, ...]:
        """What `get()` returns."""
        return self.get()

    def set(self, values: Sequence[object]) -> None:
        """Replace all values, which are read before any is replaced. Raises TraceError for another number of them."""
        tracer = current("a register")
        if not isinstance(values, tuple | list) or len(values) != len(self.cells):
            raise tracer.error(f"a register of {len(self.cells)} values is set to {brief(repr(values))}")
        now = [value.get() if isinstance(value, Cell) else value for value in values]
        for cell, value in zip(self.cells, now, strict=True):
            cell.set(value)


@overload
def register(dtype: DType, initial: Any = None, width: int | None = None) -> Cell: ...


@overload
def register(dtype: Scalar) -> Cell: ...


@overload
def register(dtype: PackedNumbers) -> PackedCell: ...


@overload
def register(dtype: Spread) -> SpreadVariable: ...


@overload
def register(dtype: tuple[Scalar | Spread, ...]) -> CellTuple: ...


def register(
    dtype: DType | Scalar | PackedNumbers | Spread | tuple[Scalar | Spread, ...],
    initial: Any = None,
    width: int | None = None,
) -> Cell | PackedCell | SpreadVariable | CellTuple:
    """A mutable variable of this element type, or a vector of `width`, that loops and branches may change.

    `lego.register(x)` holds data, a vector or a spread value, `lego.register((a, b))` several values.
    """
    tracer = current("lego.register")
    if isinstance(dtype, tuple) and dtype and all(hasattr(v, "dtype") for v in dtype):
        return CellTuple([register(v.dtype, v) if isinstance(v, Scalar) else register(v) for v in dtype])
    if isinstance(dtype, Scalar):
        return register(dtype.dtype, dtype)
    if isinstance(dtype, PackedNumbers):
        return PackedCell(dtype)
    if not isinstance(dtype, DType):
        from lego_mlir.tracing.spread.variables import tile_variable

        return tile_variable(dtype)
    if initial is None:
        raise tracer.error("lego.register needs an initial value: write lego.register(lego.f32, 0.0)")
    if dtype.is_packed:
        return PackedCell(broadcast_number(initial, dtype, width))
    if width is None and isinstance(initial, Scalar):
        width = initial.width
    first = as_value(initial, dtype, width)
    place = tracer.register(dtype, width)
    tracer.append(Write(place, first, tracer.here()))
    return Cell(place)
