"""Index values of a module as index expressions: from the operations that compute them, and back to ranges.

A layout simplifies best if its indices are known as expressions, `8*ty + tx` rather than a value. So the operations of
arith, index and affine above an index are read as an expression over the values where the reading ends: ids, loop
variables, arguments, loads. MLIR's unsigned and truncating operations equal the floor operations of expressions only on
non-negative operands; where that is not proved, the reading ends as well.

| value | symbol | range |
|---|---|---|
| `gpu.thread_id x`, `gpu.block_id y` | `tx`, `by` | from the kernel's known_block_size and known_grid_size |
| the variable of an `scf.for` | `loop0` | its bounds and step |
| any other | `v0` | none |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import IndexLike, Op, Symbol, Value
from lego_mlir.expr.index import Index, as_expr, index_symbol, is_symbolic, where
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.affine import affine_function
from lego_mlir.transforms.index_operations import COMPARISONS, DIVISIONS, KIND_OF, OPERATIONS, predicate_of

DEEPEST: Final = 60
"""Operations read one above the other; beyond, a value is a symbol."""
IDS: Final = {"gpu.thread_id": ("t", "known_block_size"), "gpu.block_id": ("b", "known_grid_size")}


def computed(name: str, operands: Sequence[IndexLike]) -> IndexLike:
    """The value of an operation of two integers. Raises KeyError for a name that is not in KIND_OF."""
    value: IndexLike = OPERATIONS[KIND_OF[name]].meaning(*operands)
    return value


def constant_of(operation: Op) -> int | None:
    """The number of an integer constant."""
    if operation.name not in ("arith.constant", "index.constant"):
        return None
    attribute = operation.attributes["value"]
    attribute = attribute.maybe_downcast() if hasattr(attribute, "maybe_downcast") else attribute
    value = getattr(attribute, "value", None)
    return int(value) if isinstance(value, int) else None


def affine_result(operation: Op) -> Callable[[Sequence[IndexLike]], IndexLike]:
    """The function of an affine.apply."""
    affine = bindings.load().ir.AffineMapAttr(operation.attributes["map"]).value
    return affine_function(affine.results[0], affine.n_dims)


def compared(operation: Op) -> Callable[[Sequence[IndexLike]], IndexLike]:
    """The function of an arith.cmpi or index.cmp."""
    compare = COMPARISONS[predicate_of(operation)]
    return lambda operands: compare(*operands)


def is_comparison(operation: Op) -> bool:
    """Whether an operation compares two integers."""
    return operation.name in ("arith.cmpi", "index.cmp")


class IndexExpressions:
    """Reads the index values of one function. `values` has the value of each symbol, `ranges` what is known of it."""

    def __init__(self) -> None:
        self.values: dict[Symbol, Value] = {}
        self.ranges: dict[Symbol, Range] = {}
        self._read: dict[Value, IndexLike] = {}

    def bind(self, value: Value, symbol: Index, over: Range | None = None) -> None:
        """Let a value be this symbol."""
        self._read[value] = symbol
        self.values[as_expr(symbol)] = value
        if over is not None:
            self.ranges[as_expr(symbol)] = over

    def is_opaque(self, value: Value) -> bool:
        """Whether no operation that is read computes a value, and it has no symbol yet."""
        operation = _operation(value)
        if value in self._read:
            return False
        return operation is None or operation.name not in ("arith.constant", "index.constant", *KIND_OF)

    def __call__(self, value: Value, depth: int = 0) -> IndexLike:
        """The expression of an index value."""
        found = self._read.get(value)
        if found is None:
            found = self._computed(value, depth) if depth < DEEPEST else None
            if found is None:
                found = self._opaque(value, depth)
            self._read[value] = found
        return found

    def _computed(self, value: Value, depth: int) -> IndexLike | None:
        """The expression of an operation's result, or None where it is not read."""
        operation = _operation(value)
        if operation is None:
            return None
        if operation.name in ("arith.constant", "index.constant"):
            return constant_of(operation)
        if operation.name == "affine.apply":
            return affine_result(operation)([self(operand, depth + 1) for operand in operation.operands])
        if operation.name not in KIND_OF:
            return None
        operands = [self(operand, depth + 1) for operand in operation.operands]
        kind = KIND_OF[operation.name]
        if OPERATIONS[kind].natural and not all(map(self._is_natural, operands)):
            return None
        if kind in DIVISIONS and not self._is_positive(operands[1]):
            return None
        return computed(operation.name, operands)

    def _is_natural(self, value: IndexLike) -> bool:
        low = bounds(as_expr(value), self.ranges).lo
        return low is not None and low >= 0

    def _is_positive(self, value: IndexLike) -> bool:
        low = bounds(as_expr(value), self.ranges).lo
        return low is not None and low >= 1

    def _opaque(self, value: Value, depth: int) -> Index:
        """A symbol for a value, with its range."""
        operation = _operation(value)
        name, over = f"v{len(self._read)}", None
        if operation is not None and operation.name in IDS:
            prefix, attribute = IDS[operation.name]
            axis = "xyz".index(str(operation.attributes["dimension"]).rstrip(">").split()[-1])
            name, over = prefix + "xyz"[axis], Range(0, _extent(operation, attribute, axis) or 2**31)
        elif operation is None:
            loop = _loop_of(value)
            if loop is not None:
                name, over = f"loop{len(self._read)}", self._loop_range(loop, depth)
        symbol = index_symbol(name)
        if as_expr(symbol) in self.values:  # the same id, read twice
            symbol = index_symbol(f"{name}_{len(self._read)}")
        self.bind(value, symbol, over)
        return symbol

    def _loop_range(self, loop: Op, depth: int) -> Range | None:
        low, high, step = (self(bound, depth + 1) for bound in list(loop.operands)[:3])
        if not isinstance(low, int) or (not isinstance(high, int) and not is_symbolic(high)):
            return None
        return Range(low, high, step if isinstance(step, int) and step > 0 else 1)


def _operation(value: Value) -> Op | None:
    """The operation whose result a value is; None for an argument of a block."""
    owner = value.owner
    return owner if hasattr(owner, "attributes") else None


def _loop_of(value: Value) -> Op | None:
    """The scf.for whose variable a block argument is."""
    block = value.owner
    owner = block.owner
    is_variable = owner is not None and owner.name == "scf.for" and block.arguments[0] == value
    return owner.operation if is_variable else None


def _extent(operation: Op, attribute: str, axis: int) -> int | None:
    """The known size of the block or of the grid along an axis."""
    parent = operation.parent
    while parent is not None and parent.operation.name != "gpu.func":
        parent = parent.operation.parent
    if parent is None or attribute not in parent.operation.attributes:
        return None
    return int(list(parent.operation.attributes[attribute])[axis])


def selected(operands: Sequence[IndexLike]) -> IndexLike:
    """The value of an arith.select."""
    return where(*operands)
