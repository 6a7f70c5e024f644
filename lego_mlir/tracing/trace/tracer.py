"""Recording a kernel while its Python function runs.

The function runs once. Operations on traced values are appended to the innermost open region; operations on ordinary
Python values run while tracing and record nothing. The tracer has the range of every index symbol and the
conditions of the current region, so that a claim about an index can be proved where it is made.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sympy
from sympy.logic.boolalg import Boolean

from lego_mlir.aliases import Cond, Expr, IndexLike, Symbol
from lego_mlir.errors import LegoError, RefutedAccessError, TraceError
from lego_mlir.expr.context import PlainRanges
from lego_mlir.expr.index import Index, as_condition, as_expr, in_kernel
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Le, Lt, Ne, Size
from lego_mlir.expr.prove import holds, prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.related import SizeRanges, involved
from lego_mlir.expr.simplify import Deferred, Derivation, simplify
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.tracing.trace.contraction import Contraction, contracted
from lego_mlir.tracing.trace.data_ranges import DataRanges, Distinct
from lego_mlir.tracing.trace.divergence import CommonIndex
from lego_mlir.tracing.trace.divisors import Division, open_divisors, remedy, some_value
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.endless import PATIENCE, EndlessError, stopped_if_endless
from lego_mlir.tracing.trace.marks import WarpRole, Word
from lego_mlir.tracing.trace.spec_line import Source, line_in, user_line
from lego_mlir.tracing.trace.trace import (
    Barrier,
    Buffer,
    FromCondition,
    If,
    KernelTrace,
    Register,
    Statement,
    ToIndex,
    Value,
    Width,
)

if TYPE_CHECKING:
    from lego_mlir.tracing.spread.open_layouts import OpenLayouts
    from lego_mlir.tracing.trace.requirements import Requirement
    from lego_mlir.tracing.trace.wgmma_products import WarpgroupProduct

ID_PREFIX = {"thread_id": "t", "block_id": "b"}
AXES = "xyz"
MOST_STATEMENTS = 100_000  # of a traced kernel; compilers handle thousands

_current: ContextVar[Tracer | None] = ContextVar("lego kernel being traced", default=None)


@lru_cache(maxsize=4096)
def negation(condition: Cond) -> Cond:
    """The negation of a condition; a region's are negated for each claim in it."""
    return sympy.Not(condition)


@lru_cache(maxsize=4096)
def is_within(index: Expr, size: Expr) -> Cond:
    """The claim that an index is inside 0 .. size - 1."""
    return sympy.And(Le(0, index), Lt(index, size))


class Tracer:
    """The kernel being traced: its open regions, its symbols and their ranges."""

    def __init__(
        self,
        name: str,
        grid: Sequence[Any],
        block: Sequence[Any],
        source: Source,
        parameters: Collection[str] = (),
        cluster: Sequence[int] = (),
    ) -> None:
        self.name, self.source, self.parameters = name, source, parameters
        self.grid, self.block, self.cluster = tuple(grid), tuple(block), tuple(cluster)
        self.shared: list[Buffer] = []
        self.ranges: dict[Any, Range] = {}
        self.granted: dict[tuple[int, int, tuple[Any, ...]], Any] = {}  # layouts, by their id, a width and an index
        self.ids: dict[Any, tuple[str, str]] = {}
        self.data = DataRanges(lambda expr: bounds(expr, self.known(expr.free_symbols)))
        self.from_data = self.data.symbols.keys()  # symbols whose values come from memory
        self.path: list[Any] = []  # index conditions that hold in the innermost region
        self.distinct: dict[str, Distinct] = {}  # tensors whose elements are assumed to be distinct
        self.requirements: list[Requirement] = []  # conditions on sizes that hold at every launch
        self.products: list[WarpgroupProduct] = []  # those that wgmma can compute
        self._regions: list[list[Statement]] = [[]]
        self._live: list[set[int]] = [set()]  # numbers of the values defined in each open region
        self._registers: list[set[int]] = [set()]
        self._symbols: list[set[Any]] = [set()]  # index symbols defined in each open region
        self._values = self._loops = self.statements = 0
        self._divided: dict[Any, Division] = {}
        self.entered = False  # the kernel's function runs, so every id has a value
        self.unopened: dict[int, tuple[object, str, Source]] = {}  # branches and loops without their `with` or `for`
        self.abandoned: Source | None = None  # a loop left by break or return
        self.calling: list[Any] = []  # the device functions that run
        self.functions: dict[Hashable, Any] = {}  # those that are called, by their kinds of arguments
        self.called: str | None = None  # the function that is traced to be called
        self.contracts = False  # products are fused with sums, in the whole kernel
        self.rounds_each = False  # .. but not inside lego.rounded
        self.fast = False  # functions of f32 and narrower floats are approximate unless a call says otherwise
        self.kept: set[int] = set()  # the numbers of the results there
        self.contractions: list[Contraction] = []
        self.role: WarpRole | None = None  # the warps that run the innermost region, if it is a role
        self.path_of_role = 0  # the length of the path where the role begins, whose barriers all its threads reach
        self.common: list[CommonIndex] = []  # indices that have to be the same for all threads that run a word
        self.phases: tuple[frozenset[str], ...] = ()  # shared tiles that are used one after the other
        self.at: Source | None = None  # the line of the statement that a schedule rewrites
        self.known_sizes: Mapping[Symbol, Expr] = {}  # sizes that are numbers, for which the kernel is specialised
        self.loops: list[tuple[Symbol, Expr, Expr, Expr]] = []  # variables of the open loops: first, end, step
        self.open_layouts: OpenLayouts | None = None  # those of tiles without one
        self.unit: str | None = None  # the matrix unit for whose operands tiles without a layout may be staged
        self.roles: dict[tuple[int, int, int], int] = {}  # the numbers of the barriers of roles, by their warps
        for kind, extents in (("thread_id", self.block), ("block_id", self.grid)):
            for axis, extent in zip(AXES, extents, strict=False):
                symbol = sympy.Symbol(ID_PREFIX[kind] + axis, integer=True)
                self.ids[symbol] = (kind, axis)
                self._symbols[0].add(symbol)
                self.ranges[symbol] = Range(0, as_expr(extent) if isinstance(extent, Index) else extent)

    # -- statements and regions

    def append(self, statement: Statement) -> None:
        """Add a statement to the innermost region. Raises TraceError beyond MOST_STATEMENTS."""
        self.statements += 1
        if self.statements > MOST_STATEMENTS:
            raise self.error(
                f"tracing stopped: {self.name} has more than {MOST_STATEMENTS} statements, because a loop of Python "
                "(range, while, lego.unroll) is traced once per iteration; lego.range makes one loop of it"
            )
        self.data.define(statement)
        self._regions[-1].append(statement)

    def value(self, dtype: DType, width: Width = None) -> Value:
        """A new value, alive until the innermost region ends."""
        value = Value(self._values, dtype, width)
        self._values += 1
        self._live[-1].add(value.number)
        return value

    def contracted(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """The recorded statements of a kernel or function with products fused into sums, where it has this."""
        if not self.contracts:
            return tuple(body)
        fused, decided = contracted(body, lambda like: self.value(like.dtype, like.width), self.kept)
        self.contractions += decided
        return fused

    def register(self, dtype: DType, width: Width) -> Register:
        """A new register, alive until the innermost region ends."""
        register = Register(self._values, dtype, width)
        self._values += 1
        self._registers[-1].add(register.number)
        return register

    def continue_from(self, old: KernelTrace) -> None:
        """Take over what is known about another trace whose statements are copied, and number after it."""
        self.ranges |= {s: r for s, r in old.ranges.items() if s not in self.ids or s not in old.ids}
        for symbol, (kind, axis) in old.ids.items():
            self.rename_id(kind, axis, symbol, old.ranges[symbol])
        self.data.symbols.update(old.data.symbols)
        self.data.names.update(old.data.names)
        self.data.claimed.update(old.data.claimed)
        self.distinct.update(old.distinct)
        self.contractions += old.contractions
        self._divided |= {(old.name, n): division for n, division in enumerate(old.divisions)}  # never looked up
        self._values, self._loops = old.numbered

    @property
    def numbered(self) -> tuple[int, int]:
        """How many values and registers, and how many variables of loops, have a number."""
        return self._values, self._loops

    def rename_id(self, kind: str, axis: str, symbol: Symbol, range_: Range) -> None:
        """Another symbol for an id, where a schedule makes its former one the variable of a loop."""
        (known,) = [s for s, named in self.ids.items() if named == (kind, axis)]
        if known != symbol:
            del self.ids[known]
            self._symbols[0].discard(known)
            self.ids[symbol], self.ranges[symbol] = (kind, axis), range_
            self._symbols[0].add(symbol)

    def define_values(self, numbers: Iterable[int]) -> None:
        """Values of copied statements are alive in the innermost region."""
        self._live[-1].update(numbers)

    def define_register(self, register: Register) -> None:
        """A register that a copied statement writes, if no open region defined it."""
        if not self.is_register_open(register):
            self._registers[-1].add(register.number)

    def define_symbol(self, symbol: Symbol) -> None:
        """An index symbol that a copied statement defines."""
        self._symbols[-1].add(symbol)

    def use(self, value: Value) -> Value:
        """The value. Raises TraceError outside the region that defined it."""
        if not any(value.number in region for region in self._live):
            self._require_own("a value")
            raise self.error(
                f"a value made in a loop or branch is used after its end; keep it in lego.register({value.dtype}, ..)"
            )
        return value

    def use_register(self, register: Register) -> Register:
        """The register. Raises TraceError outside the region that defined it."""
        if not any(register.number in region for region in self._registers):
            self._require_own("a register")
            raise self.error("a register is used after the end of the loop or branch that defined it")
        return register

    def is_register_open(self, register: Register) -> bool:
        """Whether an open region defined the register."""
        return any(register.number in region for region in self._registers)

    def _require_own(self, what: str) -> None:
        """Raise TraceError in a function that is called, which sees only its arguments."""
        if self.called is not None:
            raise self.error(
                f"{what} of the caller is used in {self.called}, which is called and sees its arguments only: pass it, "
                "or leave out inline=False"
            )

    def index(self, value: Any) -> Any:
        """The expression of an index. Raises where one of its symbols is out of scope, or a divisor is 0."""
        return self._defined(as_expr(value))

    def condition(self, value: Any) -> Any:
        """The expression of an index condition, checked like an index."""
        return self._defined(as_condition(value))

    def _defined(self, expr: Expr) -> Any:
        for symbol in expr.free_symbols:
            if not isinstance(symbol, Size) and not self._in_scope(symbol):
                self._require_own(f"the variable {symbol}")
                known = symbol in self.ranges
                what = "of a loop or branch that has ended" if known else "of no loop, id or size of this kernel"
                raise self.error(f"{symbol} in the index {expr} is the variable {what}")
        self.require_divisors(expr)
        return expr.xreplace(self.known_sizes) if self.known_sizes else expr

    def _in_scope(self, symbol: Symbol) -> bool:
        return any(symbol in region for region in self._symbols)

    @contextmanager
    def region(self, *conditions: Expr, variable: Symbol = None) -> Iterator[list[Statement]]:
        """Around the statements of a nested region, which runs only where the conditions hold.

        `variable` is the symbol that a loop defines for its body.
        """
        statements: list[Statement] = []
        self._regions.append(statements)
        self._live.append(set())
        self._registers.append(set())
        self._symbols.append(set())
        self.path.extend(conditions)
        if variable is not None:
            self._symbols[-1].add(variable)
        try:
            yield statements
        finally:
            del self.path[len(self.path) - len(conditions) :]
            self._regions.pop()
            self._live.pop()
            self._registers.pop()
            self._symbols.pop()

    @contextmanager
    def supposed(self, *conditions: Expr) -> Iterator[None]:
        """Around statements of the innermost region whose results matter only where the conditions hold."""
        self.path.extend(conditions)
        try:
            yield
        finally:
            del self.path[len(self.path) - len(conditions) :]

    def assume(self, condition: Cond) -> None:
        """Add a condition on sizes to those that hold in the whole kernel."""
        self.path.insert(0, condition)  # a region removes its own conditions from the end

    @contextmanager
    def function(self, name: str) -> Iterator[list[Statement]]:
        """Around the statements of a function that is called, which sees ids and sizes, and nothing of its caller."""
        outer = (self.path, self._regions, self._live, self._registers, self._symbols, self.called)
        statements: list[Statement] = []
        self.path, self._regions, self.called = [], [statements], name
        self._live, self._registers, self._symbols = [set()], [set()], [set(self.ids)]
        try:
            yield statements
        finally:
            self.path, self._regions, self._live, self._registers, self._symbols, self.called = outer

    def function_name(self, name: str) -> str:
        """The name of a called function in the module: that of the kernel and its own, with a number if taken."""
        taken = {traced.function.name for traced in self.functions.values()}
        numbered = itertools.chain([""], itertools.count(2))
        return next(found for n in numbered if (found := f"{self.name}_{name}{n}") not in taken)

    def parameter_symbol(self, name: str, range_: Range) -> Any:
        """A new index symbol of this range, for a parameter or result of a function."""
        self._loops += 1
        symbol = sympy.Symbol(f"{name}{self._loops}", integer=True)
        self.ranges[symbol] = range_
        self._symbols[-1].add(symbol)
        return symbol

    @contextmanager
    def recorded(self) -> Iterator[list[Statement]]:
        """Around statements of the innermost region that are taken out of it, to be added again in another order."""
        body = self._regions[-1]
        start, part = len(body), list[Statement]()
        yield part
        part.extend(body[start:])
        del body[start:]

    @contextmanager
    def word(self, mark: Word | Callable[[], Word]) -> Iterator[None]:
        """Around the statements of a word about tiles, which keeps its meaning in the trace as `mark`."""
        source = self.here()
        with self.recorded() as part:
            yield
        self.append(If(sympy.true, tuple(part), (), source, mark() if callable(mark) else mark))

    def extend(self, statements: Iterable[Statement]) -> None:
        """Add statements that were taken out to the innermost region."""
        self._regions[-1].extend(statements)

    def last(self) -> Statement | None:
        """The latest statement of the innermost region."""
        return self._regions[-1][-1] if self._regions[-1] else None

    def has_barrier(self) -> bool:
        """Whether a statement of the innermost region so far is a barrier of the block."""
        return any(isinstance(statement, Barrier) for statement in self._regions[-1])

    def replace_last(self, statement: If) -> None:
        """Replace a branch by the same branch with its `otherwise`."""
        self._regions[-1][-1] = statement

    @property
    def innermost(self) -> list[Statement]:
        """The statements so far of the innermost region; the same list until it ends."""
        return self._regions[-1]

    @property
    def depth(self) -> int:
        """The number of open loops and branches."""
        return len(self._regions) - 1

    @property
    def body(self) -> tuple[Statement, ...]:
        return tuple(self._regions[0])

    def shared_name(self, given: str | None = None) -> str:
        """A name for the next shared tile, distinct from the parameters' and other tiles': `part`, `part2`, .."""
        if self.called is not None:
            raise self.error(
                f"lego.shared in {self.called}, which is called: shared tiles belong to a kernel; pass the tile as an "
                "argument, or leave out inline=False"
            )
        taken = {*self.parameters, *(tile.name for tile in self.shared)}
        if given is None:
            name = f"shared{len(self.shared)}"
            while name in taken:
                name += "_"
            return name
        if not isinstance(given, str) or not given.isidentifier():
            raise self.error(f"lego.shared: the name of a tile is an identifier, such as 'As', got {given!r}")
        if given in self.parameters:
            raise self.error(f"lego.shared: the name {given!r} is a parameter of {self.name}; give the tile another")
        numbered = (f"{given}{count}" for count in itertools.count(2))
        return given if given not in taken else next(name for name in numbered if name not in taken)

    # -- symbols

    def id_symbol(self, kind: str, axis: int) -> Any:
        """The symbol of `thread_id` or `block_id` along an axis."""
        named = next((s for s, id_ in self.ids.items() if id_ == (kind, AXES[axis])), None)
        return sympy.Symbol(ID_PREFIX[kind] + AXES[axis], integer=True) if named is None else named

    def loop_symbol(self, lo: Expr, hi: Expr, step: Expr) -> tuple[Any, list[Any]]:
        """A loop's variable with its range, and further facts about it inside the loop.

        A range's ends are constants or sizes. Bounds that contain a thread's index are widened to constants
        for the range, and become conditions of the body in full. The range's step is a common divisor of the values:
        8 for `range(8 * tx, n, 256)`.
        """
        symbol = sympy.Symbol(f"k{self._loops}", integer=True)
        self._loops += 1
        facts = []
        low, high = lo, hi
        if not _over_sizes(lo):
            low = bounds(lo, self.ranges).lo
            low = -(2**63) if low is None else low
            facts.append(Le(lo, symbol))
        if not _over_sizes(hi):
            limit = bounds(hi, self.ranges).hi
            high = 2**63 - 1 if limit is None else limit
            facts.append(Lt(symbol, hi))
        start = 0 if _over_sizes(lo) else bounds(lo - low, self.ranges).multiple_of
        stride = math.gcd(start, bounds(step, self.ranges).multiple_of)
        self.ranges[symbol] = Range(_plain(low), _plain(high), max(1, stride))
        return symbol, facts

    def data_symbol(self, value: Value) -> Any:
        """Data as an index: a symbol whose range follows from its type and the operations on it."""
        symbol = sympy.Symbol(f"v{value.number}", integer=True)
        if not self._in_scope(symbol):
            self.define_data(symbol, value, self.data.range_of(value))
            self.append(ToIndex(symbol, self.use(value), self.here()))
        return symbol

    def define_data(self, symbol: Symbol, value: Value, within: Range) -> None:
        """Define a symbol that represents data, until the innermost region ends."""
        self.ranges[symbol] = within
        self.data.symbols[symbol] = value
        self._symbols[-1].add(symbol)

    def condition_value(self, condition: Expr, dtype: DType) -> Value:
        """An index condition as an i1."""
        result = self.value(dtype)
        self.append(FromCondition(result, self.simplified(self.condition(condition)), self.here()))
        return result

    # -- proofs

    def prove(self, claim: Expr, also: Mapping[Symbol, Range] | None = None) -> Verdict:
        """The verdict on a claim about indices in the innermost region; `also` gives ranges of further symbols.

        Proved without the region's conditions where that suffices. Unknown instead of Refuted where a symbol's value
        comes from memory, since its values are unknown.
        """
        if claim == True or claim == False:  # noqa: E712  SymPy's true is not Python's
            return Proved("it is constant") if claim == True else Refuted({}, "it never holds")  # noqa: E712
        ranges = self.known(claim.free_symbols, also)
        plain = prove(claim, ranges)
        if isinstance(plain, Proved) or not self.path:
            return self._unless_from_data(plain, claim)
        implied = sympy.Or(claim, *map(negation, self.path))
        return self._unless_from_data(prove(implied, self.known(implied.free_symbols, also)), implied)

    def holds(self, claim: Expr, also: Mapping[Symbol, Range] | None = None) -> bool:
        """Whether `prove` proves a claim, where no reason is told otherwise."""
        if claim == True or claim == False:  # noqa: E712  SymPy's true is not Python's
            return bool(claim)
        if holds(claim, self.known(claim.free_symbols, also)):
            return True
        return any(holds(part, self.known(part.free_symbols, also)) for part in self._implications(claim, also))

    def _implications(self, claim: Expr, also: Mapping[Symbol, Range] | None) -> Iterator[Expr]:
        """Claims without a common symbol, one of which holds if and only if the region's conditions imply the claim.

        The first has the claim and the conditions that bear on it; another holds where conditions contradict each
        other, whatever is claimed there, so that it is decided once.
        """
        if not self.path:
            return
        named = set().union(claim.free_symbols, *(c.free_symbols for c in self.path))
        ranges = SizeRanges(PlainRanges(self.known(named, also)))
        groups: list[tuple[set[Any], list[Expr]]] = []
        for part in (claim, *map(negation, self.path)):
            symbols, parts = involved(part, ranges), [part]
            for group in [group for group in groups if group[0] & symbols]:
                groups.remove(group)
                symbols |= group[0]
                parts = [*group[1], *parts]
            groups.append((symbols, parts))
        groups.sort(key=lambda group: claim not in group[1])
        yield from (sympy.Or(*parts) for _, parts in groups)

    def require_divisors(self, expr: Expr, source: Source | None = None) -> None:
        """Claim that each divisor in an expression is not 0 here. Raises RefutedAccessError where one is refuted."""
        for divisor in open_divisors(expr):
            loops = frozenset(symbol for region in self._symbols[1:] for symbol in region)
            key = (divisor, loops, *self.path)
            if key not in self._divided:
                self._divided[key] = self._division(divisor, loops, source or self.here())

    def _division(self, divisor: Expr, loops: Collection[Symbol], source: Source) -> Division:
        claim = Ne(divisor, 0)
        verdict = prove(claim, self.known(claim.free_symbols))
        given = [*self.path, *some_value({*self.ids, *loops} if self.entered else set(), self.ranges)]
        if given and not isinstance(verdict, Proved):
            claim = sympy.Or(claim, *map(sympy.Not, given))
            verdict = prove(claim, self.known(claim.free_symbols))
        if isinstance(verdict, Refuted):
            if divisor.free_symbols & self.from_data:
                verdict = Unknown(f"it depends on the contents of memory; {remedy(divisor)}")
            elif not claim.free_symbols & self.from_data:
                values = ", ".join(f"{name} = {value}" for name, value in verdict.counter_example.items())
                raise RefutedAccessError(f"{source}: the divisor {divisor} is 0 for {values}; {remedy(divisor)}")
        return Division(divisor, verdict, source)

    @property
    def divisions(self) -> tuple[Division, ...]:
        """The claims about divisors, each claim of a line once."""
        return tuple({(d.divisor, d.source, type(d.verdict)): d for d in self._divided.values()}.values())

    def derive(self, expr: Expr, also: Mapping[Symbol, Range] | None = None) -> Derivation:
        """The simplified form of an index expression, with its trail."""
        return simplify(expr, self.known(expr.free_symbols, also))

    def deferred(self, expr: Expr) -> Deferred:
        """The same when it is first read, where often nothing reads it."""
        return Deferred(expr, self.known(expr.free_symbols))

    def simplified(self, expr: Expr, also: Mapping[Symbol, Range] | None = None) -> Any:
        """An index expression in its simplified form; a condition with its sides in theirs."""
        if not isinstance(expr, Boolean) or expr.is_Symbol:
            return self.derive(expr, also).expr
        return expr.func(*(self.simplified(side, also) for side in expr.args)) if expr.args else expr

    def known(self, symbols: set[Symbol], also: Mapping[Symbol, Range] | None = None) -> dict[Any, Range]:
        """The ranges of these symbols alone, so that equal claims have equal cache keys."""
        ranges = {**self.ranges, **also} if also else self.ranges
        return {s: ranges[s] for s in symbols if s in ranges}

    def _unless_from_data(self, verdict: Verdict, about: Any) -> Verdict:
        if isinstance(verdict, Refuted) and about.free_symbols & self.from_data:
            return Unknown("the index comes from memory")
        return verdict

    # -- source lines and errors

    def require_common(self, word: str, indices: Iterable[IndexLike]) -> None:
        """These indices have to be the same for all threads of the block, or of the role's group."""
        source = self.here()
        self.common += [CommonIndex(source, word, sympy.sympify(self.index(i)), self.role) for i in indices]

    def here(self) -> Source:
        """The line of the user's spec that is being traced."""
        return self.at or user_line() or self.source

    def error(self, message: str, kind: type[LegoError] = TraceError) -> LegoError:
        """An error that names the user's line."""
        return kind(f"{self.here()}: {message}")


def active() -> Tracer | None:
    """The kernel being traced, if there is one."""
    return _current.get()


def current(what: str) -> Tracer:
    """The kernel being traced. Raises TraceError outside one."""
    tracer = _current.get()
    if tracer is None:
        raise TraceError(f"{what} can be used only inside a function decorated with @lego.kernel")
    return tracer


def record(tracer: Tracer, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Run the kernel's function with the tracer current."""
    token, inside = _current.set(tracer), in_kernel.set(True)
    tracer.entered = True
    try:
        with stopped_if_endless(lambda: tracer.statements, function.__code__):
            returned = function(*arguments)
    except EndlessError as error:
        raise TraceError(
            f"{line_in(error) or tracer.source}: tracing stopped: Python code has run for {PATIENCE} seconds without "
            "a statement of the kernel, and may never end; a loop of the kernel is `for i in lego.range(..):`"
        ) from None
    finally:
        _current.reset(token)
        in_kernel.reset(inside)
    if tracer.abandoned is not None:
        raise TraceError(
            f"{tracer.abandoned}: the body of lego.range was left by break or return; a traced loop runs to its end, "
            "use `with lego.when(condition):` inside it"
        )
    for _, written, source in tracer.unopened.values():
        keyword = "for i in" if "range" in written else "with"
        raise TraceError(f"{source}: {written} alone has no effect; write `{keyword} {written}:` and a body")
    if returned is not None:
        raise TraceError(f"{tracer.source}: a kernel returns nothing; it stores into its tensors, got {returned!r}")


def _over_sizes(expr: Expr) -> bool:
    return all(isinstance(s, Size) for s in expr.free_symbols)


def _plain(expr: Expr) -> Any:
    return int(expr) if getattr(expr, "is_Integer", True) else expr
