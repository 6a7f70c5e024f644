"""Layouts of sizes that are not powers of two: a linear part on the low bits, digits of mixed radix above it.

A size n = 2**a * m keeps its low a bits in a linear layout. The rest counts in digits; each digit of an input is one
digit of an output. A 48x96 tensor over 4 warps with the tiles of `mma.sync`: the linear part places a 16x32 tile,
and three times three tiles are digits that registers count.

>>> from lego_mlir.f2.encodings import MmaSync
>>> low = MmaSync((1, 4)).layout((16, 32))
>>> L = MixedLayout(low, (("register", 3, "dim1"), ("register", 3, "dim0")))
>>> L.in_sizes["register"], L.out_sizes
(36, {'dim0': 48, 'dim1': 96})
>>> L.apply(register=35, lane=31, warp=3, block=0)
{'dim0': 47, 'dim1': 95}
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.f2.conversion import ConversionPlan, conversion_plan
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.layout.values import check_range, coerce_indices, restore_kind

Digit = tuple[str, int, str]
"""(input, radix, output): one digit above the linear part, the lowest of its input and output first."""


class MixedLayout(Frozen):
    """A linear layout times digits of any radix. Immutable, compared by value.

    Raises LayoutError for a digit with a name that is not a dimension, or a radix below 2.
    """

    __slots__ = ("digits", "low")
    low: LinearLayout
    digits: tuple[Digit, ...]

    def __init__(self, low: LinearLayout, digits: Sequence[Digit]) -> None:
        for digit in digits:
            source, radix, target = digit
            if source not in low.in_sizes or target not in low.out_sizes or type(radix) is not int or radix < 2:
                raise LayoutError(
                    f"MixedLayout: digit {digit} must be (input, radix >= 2, output) of the inputs "
                    f"{list(low.in_sizes)} and outputs {list(low.out_sizes)}"
                )
        self._set(low=low, digits=tuple(tuple(d) for d in digits))

    def _arguments(self) -> tuple[object, ...]:
        return self.low, self.digits

    @property
    def in_sizes(self) -> dict[str, int]:
        """Input names and sizes."""
        return {n: size * prod(r for s, r, _ in self.digits if s == n) for n, size in self.low.in_sizes.items()}

    @property
    def out_sizes(self) -> dict[str, int]:
        """Output names and sizes."""
        return {n: size * prod(r for _, r, t in self.digits if t == n) for n, size in self.low.out_sizes.items()}

    def apply(self, **values: IndexLike) -> dict[str, IndexLike]:
        """The output coordinates of one value for each input: ints, NumPy arrays or symbols.

        Raises LayoutError for a missing or unknown input, and for a value outside its size.
        """
        if set(values) != set(self.in_sizes):
            raise LayoutError(f"MixedLayout.apply takes the inputs {list(self.in_sizes)}, got {list(values)}")
        given = tuple(values[n] for n in self.in_sizes)
        coerced = coerce_indices(given, 1)
        for value, (name, size) in zip(coerced, self.in_sizes.items(), strict=True):
            check_range(value, size, name)
        rest = dict(zip(self.in_sizes, coerced, strict=True))
        low = {n: rest[n] % size for n, size in self.low.in_sizes.items()}
        rest = {n: value // self.low.in_sizes[n] for n, value in rest.items()}
        found, weight = self.low.apply(**low), self.low.out_sizes
        for k, (source, radix, target) in enumerate(self.digits):
            last = all(later != source for later, _, _ in self.digits[k + 1 :])
            digit = rest[source] if last else rest[source] % radix
            found[target] = found[target] + digit * weight[target]
            rest[source], weight[target] = rest[source] // radix, weight[target] * radix
        return {n: restore_kind(v, given) for n, v in found.items()}

    def inverse(self) -> MixedLayout:
        """The inverse: both parts inverted. Raises LayoutError with a witness if the linear part is not invertible."""
        return MixedLayout(self.low.inverse(), [(target, radix, source) for source, radix, target in self.digits])

    def __matmul__(self, inner: MixedLayout) -> MixedLayout:
        """`A @ B`, B first. Raises LayoutError unless both cut the dimensions between them in the same digits."""
        for name in inner.low.out_sizes:
            given = (inner.low.out_sizes[name], [r for _, r, t in inner.digits if t == name])
            taken = (self.low.in_sizes.get(name), [r for s, r, _ in self.digits if s == name])
            if given != taken:
                raise LayoutError(
                    f"MixedLayout: dimension {name} is {given[0]} times the digits {given[1]} in the inner layout, "
                    f"{taken[0]} times {taken[1]} in the outer one"
                )
        waiting: dict[str, list[str]] = {}
        for source, _, target in self.digits:
            waiting.setdefault(source, []).append(target)
        digits = [(source, radix, waiting[middle].pop(0)) for source, radix, middle in inner.digits]
        return MixedLayout(self.low @ inner.low, self._ordered(digits))

    def _ordered(self, digits: Sequence[Digit]) -> list[Digit]:
        """Digits so that each output keeps the order of this layout."""
        wanted = {name: [r for _, r, t in self.digits if t == name] for name in self.low.out_sizes}
        for name, radices in wanted.items():
            if [r for _, r, t in digits if t == name] != radices:
                raise LayoutError(f"MixedLayout: the digits of {name} would change their order from {radices}")
        return list(digits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MixedLayout) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash(self._arguments())

    def __repr__(self) -> str:
        return f"MixedLayout({self.low!r}, {self.digits!r})"


def mixed_conversion(source: MixedLayout, target: MixedLayout, bits: int) -> tuple[ConversionPlan, int]:
    """The conversion of one linear tile, and how often it is repeated, once for each combination of digits.

    Raises LayoutError unless all digits of both layouts count registers, in the same radices along each dimension.
    """
    for layout in (source, target):
        if others := [d for d in layout.digits if d[0] != "register"]:
            raise LayoutError(f"mixed_conversion: the digits {others} are not of registers; convert by way of memory")
    for name in source.out_sizes:
        radices = [[r for _, r, t in layout.digits if t == name] for layout in (source, target)]
        if radices[0] != radices[1]:
            raise LayoutError(f"mixed_conversion: dimension {name} has the digits {radices[0]} and {radices[1]}")
    return conversion_plan(source.low, target.low, bits), prod(r for _, r, _ in source.digits)
