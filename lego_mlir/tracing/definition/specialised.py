"""A kernel for launches whose sizes have facts that its declaration does not state: values, and divisibility by 16.

    @lego.kernel(grid=.., block=.., specialise=True)
    def add(x: lego.Tensor(f32, Strided([M, N], [sm, sn], claim=True)), ..):

A call with sn = 1 and sm and N divisible by 16 runs a kernel of its own, in which the stride is the number 1 and the
divisibility is assumed: accesses are as wide as these prove, and masks that they decide are gone. The launch checks
what was assumed, as `lego.require`. Triton specialises integer arguments by the same two facts. With
`specialise=("N",)` each value of N has a kernel, in which it is that number, as a `tl.constexpr` is; numbers of the
signature have theirs by `fixed_arguments`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sympy

from lego_mlir.expr.index import Index, as_expr, is_symbolic
from lego_mlir.expr.nodes import Eq, FloorMod, Size
from lego_mlir.tracing.trace.requirements import Requirement
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

DIVISOR: Final = 16


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """The sizes that are numbers, and those divisible by DIVISOR, by name; without what their declarations say."""

    numbers: frozenset[tuple[str, int]] = frozenset()
    multiples: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.multiples)

    @classmethod
    def of(cls, sizes: tuple[Size, ...], values: Mapping[str, int], named: Collection[str] = ()) -> SizeFacts:
        """The facts of a launch: numbers are 1 and those `named`, but for 0, which is no size of a layout.

        A size that others are related to keeps its name.
        """
        related = {s.name for size in sizes for other in (size.below, size.equals) if other is not None
                   for s in (size, *other.free_symbols)}  # fmt: skip
        known = {size.name: size for size in sizes if size.name in values}
        own = {n: size for n, size in known.items() if n not in related and size.max != size.min}
        numbers = {n: values[n] for n in own if values[n] == 1 or (n in named and values[n] > 0)}
        multiples = (n for n, size in known.items() if values[n] % DIVISOR == 0 and size.multiple_of % DIVISOR)
        return cls(frozenset(numbers.items()), frozenset(multiples) - frozenset(numbers))


def specialised(kernel: Kernel, facts: SizeFacts) -> Kernel:
    """The kernel for sizes with these facts, under the same name."""
    sizes = {size.name: size for size in kernel.sizes}
    found: Kernel = object.__new__(type(kernel))
    found.__dict__.update({k: v for k, v in kernel.__dict__.items() if k not in ("_traced", "params", "calls")})
    found._texts, found._choice, found.specialise = {}, None, False
    numbers = dict(facts.numbers)
    found.signature = {name: _with_numbers(kind, numbers) for name, kind in kernel.signature.items()}
    found.known_sizes = {sizes[name]: sympy.Integer(n) for name, n in numbers.items()}
    found.grid = tuple(_replaced(n, found.known_sizes) for n in kernel.grid)
    found.block = tuple(_replaced(n, found.known_sizes) for n in kernel.block)
    found.assumed = tuple(_conditions(kernel, facts, sizes))
    return found


def _with_numbers(kind: Any, numbers: Mapping[str, int]) -> Any:
    """A parameter's declaration with numbers for sizes that its layout has."""
    from lego_mlir.layout.substitute import sizes_of

    if not isinstance(kind, Tensor) or kind.packed is not None:
        return kind
    own = {name: n for name, n in numbers.items() if name in sizes_of(kind.layout)}
    return kind.with_layout(kind.layout.subs(**own)) if own else kind


def _replaced(n: Any, by: Mapping[Size, Any]) -> Any:
    if not is_symbolic(n):
        return n
    found = as_expr(n).xreplace(by)
    return int(found) if found.is_Integer else Index(found)


def _conditions(kernel: Kernel, facts: SizeFacts, sizes: Mapping[str, Size]) -> Iterator[Requirement]:
    for name, n in sorted(facts.numbers):
        yield Requirement(Eq(sizes[name], n), f"{name} == {n}", kernel.source)
    for name in sorted(facts.multiples):
        yield Requirement(Eq(FloorMod(sizes[name], DIVISOR), 0), f"{name} % {DIVISOR} == 0", kernel.source)
