"""Index values that know their range, and arithmetic on them in the narrowest type that is proved to be exact.

An `IndexNumber` has up to two values: `wide`, of type index, which has 64 bits, and `narrow`, an i32 that equals it
modulo 2^32. If its range fits i32, the two are the same integer. Arithmetic is in i32

  - for every operation, if the operands and the result fit;
  - for additions, products and bitwise operations, if the result fits, whatever the operands: their low 32 bits depend
    only on the low 32 bits of the operands, so wrap-around on the way does no harm.

Everything else is computed in 64 bits, from operands that may be narrow. `index_operations` names the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Block, Type, Value
from lego_mlir.transforms.index_operations import FLOORS, I32, I64, OPERATIONS, Interval, bounds, union, within

T = TypeVar("T")
# Operations whose low bits depend on the low bits of their operands only.
RING: Final = frozenset({"add", "sub", "mul", "and", "or", "xor"})
ARITH: Final = {kind: row.arith for kind, row in OPERATIONS.items() if row.arith and kind not in FLOORS}
_EXACT: Final = ("add", "sub", "mul")  # take overflow flags
_SHIFTS: Final = ("shl", "shrs", "shru")
_SHIFT_AMOUNTS: Final[Interval] = (0, 31)  # of an i32
_UNSIGNED: Final = {"floordivs": "divu", "divs": "divu", "shrs": "shru", "mod": "remu", "rems": "remu"}
# An operation returns its other operand if one is this constant.
_RIGHT_UNITS: Final = {
    **dict.fromkeys(("add", "sub", "or", "xor", *_SHIFTS), 0),
    **dict.fromkeys(("mul", "divu", "divs", "floordivs", "ceildivs", "ceildivu"), 1),
}
_LEFT_UNITS: Final = {"add": 0, "or": 0, "xor": 0, "mul": 1}
_REMAINDERS: Final = ("remu", "rems", "mod")
_SIGNED_LESS: Final = 2  # predicate of arith.cmpi


class IndexNumber:
    """An index value: its range, its values where they exist, and the operation to compute them from otherwise."""

    __slots__ = ("constant", "fits", "kind", "narrow", "operands", "range", "wide")

    def __init__(
        self,
        known: Interval,
        wide: Value = None,
        narrow: Value = None,
        kind: str = "",
        operands: tuple[IndexNumber, ...] = (),
    ) -> None:
        self.range = known
        self.wide, self.narrow, self.kind, self.operands = wide, narrow, kind, operands
        self.fits = within(known, I32)  # every value that it can have is an i32
        self.constant = known[0] if known[0] == known[1] else None


class IndexNumbers:
    """Creates numbers and their operations at the current insertion point.

    What was made for a number or an operation is reused where it dominates: within the region that it was made in.
    """

    def __init__(self, entry: Block) -> None:
        self.ir = bindings.load().ir
        self.entry = entry
        self.i32 = self.ir.IntegerType.get_signless(32)
        self.index = self.ir.IndexType.get()
        self._flags = {flags: self.ir.Attribute.parse(f"#arith.overflow<{flags}>") for flags in ("nsw", "nsw, nuw")}
        self._made: list[dict[Any, Any]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is made inside a region ends with it."""
        self._made.append({})
        try:
            yield
        finally:
            self._made.pop()

    @property
    def is_outermost(self) -> bool:
        """Whether the current place is executed once by every thread: in no loop and no branch."""
        return len(self._made) == 1

    # -- values of a number

    def constant(self, value: int) -> IndexNumber:
        """The number of a constant."""
        key, made = ("number", value), self._made[0]
        if key not in made:
            made[key] = IndexNumber((value, value))
        found: IndexNumber = made[key]
        return found

    def narrow(self, number: IndexNumber) -> Value:
        """The number modulo 2^32, an i32."""
        if number.narrow is not None:
            return number.narrow
        if number.constant is not None:
            return self._constant(_wrapped(number.constant), self.i32)
        return self._once((number, "i32"), lambda: self._narrowed(number))

    def has_narrow(self, number: IndexNumber) -> bool:
        """Whether the number is there as an i32 already, where the current place can use it."""
        return number.narrow is not None or any((number, "i32") in made for made in self._made)

    def wide(self, number: IndexNumber) -> Value:
        """The number as an index."""
        if number.wide is not None:
            return number.wide
        if number.constant is not None:
            return self._constant(number.constant, self.index)
        return self._once((number, "index"), lambda: self._widened(number))

    def extended(self, number: IndexNumber) -> Value:
        """The index that has the number's low 32 bits: the number itself, if it is in the range of i32."""
        return self._once((number, "extended"), lambda: self.cast(self.narrow(number), self.index))

    def sum(self, terms: Mapping[IndexNumber, int], offset: int) -> Value:
        """A sum of products with constants, in 64 bits from narrow terms."""
        total = None
        for term, factor in terms.items():
            value = self.wide(term)
            if factor != 1:
                value = self._create("arith.muli", self.index, value, self._constant(factor, self.index))
            total = value if total is None else self._create("arith.addi", self.index, total, value)
        return self._constant(offset, self.index) if total is None else self.moved(total, offset)

    def moved(self, index: Value, offset: int) -> Value:
        """An index plus a constant, which becomes a part of the instruction that uses it."""
        return self._create("arith.addi", self.index, index, self._constant(offset, self.index)) if offset else index

    def cast(self, value: Value, type_: Type) -> Value:
        """A signed conversion between an index and an i32, unless the same was made before."""
        return self._create("arith.index_cast", type_, value)

    def _narrowed(self, number: IndexNumber) -> Value:
        if number.kind in RING:
            return self._emit(number, self.i32, *map(self.narrow, number.operands))
        return self.cast(self.wide(number), self.i32)

    def _widened(self, number: IndexNumber) -> Value:
        if number.fits and (number.narrow is not None or not number.operands):
            return self.cast(self.narrow(number), self.index)
        return self._emit(number, self.index, *map(self.wide, number.operands))

    # -- arithmetic

    def compute(self, kind: str, a: IndexNumber, b: IndexNumber) -> IndexNumber:
        """The result of an operation. A floor or ceiling division has a positive divisor, and `ceildivu` no negative
        dividend."""
        return self._once((kind, a, b), lambda: self._computed(kind, a, b))

    def _computed(self, kind: str, a: IndexNumber, b: IndexNumber) -> IndexNumber:
        exact = bounds(kind, a.range, b.range)
        known = exact if exact is not None and within(exact, I64) else I64
        if known[0] == known[1]:
            return self.constant(known[0])
        simpler = _operand(kind, a, b) or self._expanded(kind, a, b)
        if simpler is None:
            return self._new(kind, a, b, known)
        if simpler.fits or not within(known, simpler.range) or simpler.kind not in RING:
            return simpler
        left, right = simpler.operands
        return self._new(simpler.kind, left, right, known)  # the same, with the closer range of the original

    def _new(self, kind: str, a: IndexNumber, b: IndexNumber, known: Interval) -> IndexNumber:
        number = IndexNumber(known, kind=kind, operands=(a, b))
        exact = a.fits and b.fits and (kind not in _SHIFTS or within(b.range, _SHIFT_AMOUNTS))
        if number.fits and (kind in RING or exact):
            number.narrow = self._emit(number, self.i32, self.narrow(a), self.narrow(b))
        return number

    def _expanded(self, kind: str, a: IndexNumber, b: IndexNumber) -> IndexNumber | None:
        """The operation by cheaper ones, or by ones that `arith` lowers; None for one that is emitted as it is."""
        power = b.constant is not None and b.constant > 0 and b.constant & (b.constant - 1) == 0
        match kind:
            case "floordivs" | "divs" | "shrs" | "mod" | "rems" if a.range[0] >= 0 and b.range[0] >= 0:
                return self.compute(_UNSIGNED[kind], a, b)
            case "ceildivs" | "ceildivu" if a.range[1] + b.range[1] <= I64[1]:
                return self.compute("floordivs", self.compute("add", a, self.compute("sub", b, self.constant(1))), b)
            case "ceildivs":
                minus = self.compute("floordivs", self.compute("sub", self.constant(0), a), b)
                return self.compute("sub", self.constant(0), minus)
            case "mod" if power:
                return self.compute("and", a, self.constant(b.range[0] - 1))
            case "floordivs" if power:
                return self.compute("shrs", a, self.constant(b.range[0].bit_length() - 1))
            case "mod":
                return self.compute("sub", a, self.compute("mul", self.compute("floordivs", a, b), b))
        return None

    def select(self, condition: Value, a: IndexNumber, b: IndexNumber) -> IndexNumber:
        """`a` or `b`."""
        number = IndexNumber(union(a.range, b.range))
        if number.fits:
            number.narrow = self._create("arith.select", self.i32, condition, self.narrow(a), self.narrow(b))
        else:
            number.wide = self._create("arith.select", self.index, condition, self.wide(a), self.wide(b))
        return number

    def split(self, number: IndexNumber) -> tuple[IndexNumber, int]:
        """The number without the constant that it adds, and the constant."""
        return self._once((number, "split"), lambda: self._split(number))

    def _split(self, number: IndexNumber) -> tuple[IndexNumber, int]:
        if number.constant is not None:
            return self.constant(0), number.constant
        if number.kind not in _EXACT:
            return number, 0
        left, right = number.operands
        (a, c), (b, d) = self.split(left), self.split(right)
        if number.kind == "mul":
            factor = right.constant
            return (self.compute("mul", a, right), c * factor) if c and factor is not None else (number, 0)
        if not c and not d:
            return number, 0
        return self.compute(number.kind, a, b), c + d if number.kind == "add" else c - d

    # -- operations

    def _emit(self, number: IndexNumber, type_: Type, left: Value, right: Value) -> Value:
        if number.kind == "floordivs":
            return self._floor_division(type_, left, right)
        flags = self._overflow(number) if number.kind in _EXACT else None
        return self._create(ARITH[number.kind], type_, left, right, flags=flags)

    def _overflow(self, number: IndexNumber) -> Attribute:
        """The flags of an addition or product whose operands and result fit; without them LLVM cannot move a sign
        extension across it."""
        a, b = number.operands
        if not (number.fits and a.fits and b.fits):
            return None
        unsigned = number.kind != "sub" and a.range[0] >= 0 and b.range[0] >= 0
        return self._flags["nsw, nuw" if unsigned else "nsw"]

    def _floor_division(self, type_: Type, x: Value, d: Value) -> Value:
        """`x < 0 ? -1 - (-1 - x) / d : x / d` for a positive d."""
        minus_one = self._constant(-1, type_)
        negative = self.compare(_SIGNED_LESS, x, self._constant(0, type_))
        mirrored = self._create("arith.subi", type_, minus_one, x)
        dividend = self._create("arith.select", type_, negative, mirrored, x)
        quotient = self._create("arith.divsi", type_, dividend, d)
        back = self._create("arith.subi", type_, minus_one, quotient)
        return self._create("arith.select", type_, negative, back, quotient)

    def compare(self, predicate: int, left: Value, right: Value) -> Value:
        """A comparison by the number of its predicate in `arith.cmpi`."""
        ir = self.ir
        attributes = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)}
        bit = ir.IntegerType.get_signless(1)
        return self._once(
            ("arith.cmpi", predicate, left, right),
            lambda: ir.Operation.create("arith.cmpi", [bit], [left, right], attributes=attributes).results[0],
        )

    def _create(self, name: str, type_: Type, *operands: Value, flags: Attribute = None) -> Value:
        attributes = {} if flags is None else {"overflowFlags": flags}
        return self._once(
            (name, type_, operands, flags),
            lambda: self.ir.Operation.create(name, [type_], operands, attributes=attributes).results[0],
        )

    def _constant(self, value: int, type_: Type) -> Value:
        """A constant at the head of the kernel."""
        made, key = self._made[0], ("constant", value, type_)
        if key not in made:
            attribute = self.ir.IntegerAttr.get(type_, value)
            with self.ir.InsertionPoint.at_block_begin(self.entry):
                made[key] = self.ir.Operation.create(
                    "arith.constant", [type_], attributes={"value": attribute}
                ).results[0]
        return made[key]

    def _once(self, key: object, make: Callable[[], T]) -> T:
        for scope in reversed(self._made):
            found: T | None = scope.get(key)
            if found is not None:
                return found
        made = self._made[-1][key] = make()
        return made


def _operand(kind: str, a: IndexNumber, b: IndexNumber) -> IndexNumber | None:
    """The operand that an operation returns unchanged, if it does."""
    if b.constant is not None and b.constant == _RIGHT_UNITS.get(kind):
        return a
    if a.constant is not None and a.constant == _LEFT_UNITS.get(kind):
        return b
    return a if kind in _REMAINDERS and a.range[0] >= 0 and a.range[1] < b.range[0] else None


def _wrapped(value: int) -> int:
    """The i32 that equals an integer modulo 2^32."""
    return (value + 2**31) % 2**32 - 2**31
