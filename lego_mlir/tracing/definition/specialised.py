"""A kernel for launches whose sizes have facts that its declaration does not state: some are 1, some divisible by 16.

    @lego.kernel(grid=.., block=.., specialise=True)
    def add(x: lego.Tensor(f32, Strided([M, N], [sm, sn], claim=True)), ..):

A call with sn = 1 and sm and N divisible by 16 runs a kernel of its own, in which the stride is the number 1 and the
divisibility is assumed: accesses are as wide as these prove, and masks that they decide are gone. The launch checks
what was assumed, as `lego.require`. Triton specialises integer arguments by the same two facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """The sizes that are 1, and those divisible by DIVISOR, by name; without what their declarations say already."""

    ones: frozenset[str] = frozenset()
    multiples: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ones or self.multiples)

    @classmethod
    def of(cls, sizes: tuple[Size, ...], values: Mapping[str, int]) -> SizeFacts:
        """The facts of a launch. A size that others are related to is not replaced by 1."""
        related = {s.name for size in sizes for other in (size.below, size.equals) if other is not None
                   for s in (size, *other.free_symbols)}  # fmt: skip
        known = {size.name: size for size in sizes if size.name in values}
        ones = (n for n, size in known.items() if values[n] == 1 and size.max != 1 and n not in related)
        multiples = (n for n, size in known.items() if values[n] % DIVISOR == 0 and size.multiple_of % DIVISOR)
        return cls(frozenset(ones), frozenset(multiples))


def specialised(kernel: Kernel, facts: SizeFacts) -> Kernel:
    """The kernel for sizes with these facts, under the same name."""
    sizes = {size.name: size for size in kernel.sizes}
    found: Kernel = object.__new__(type(kernel))
    found.__dict__.update({k: v for k, v in kernel.__dict__.items() if k not in ("_traced", "params", "calls")})
    found._texts, found._choice, found.specialise = {}, None, False
    found.signature = {name: _with_ones(kind, facts.ones) for name, kind in kernel.signature.items()}
    one = {sizes[name]: sympy.Integer(1) for name in facts.ones}
    found.grid = tuple(_replaced(n, one) for n in kernel.grid)
    found.block = tuple(_replaced(n, one) for n in kernel.block)
    found.assumed = tuple(_conditions(kernel, facts, sizes))
    return found


def _with_ones(kind: Any, ones: frozenset[str]) -> Any:
    """A parameter's declaration with 1 for the sizes that its layout has."""
    from lego_mlir.layout.substitute import sizes_of

    if not isinstance(kind, Tensor) or kind.packed is not None:
        return kind
    own = ones & sizes_of(kind.layout).keys()
    if not own:
        return kind
    return kind.with_layout(kind.layout.subs(**dict.fromkeys(own, 1)))


def _replaced(n: Any, by: Mapping[Size, Any]) -> Any:
    if not is_symbolic(n):
        return n
    found = as_expr(n).xreplace(by)
    return int(found) if found.is_Integer else Index(found)


def _conditions(kernel: Kernel, facts: SizeFacts, sizes: Mapping[str, Size]) -> Iterator[Requirement]:
    for name in sorted(facts.ones):
        yield Requirement(Eq(sizes[name], 1), f"{name} == 1", kernel.source)
    for name in sorted(facts.multiples):
        yield Requirement(Eq(FloorMod(sizes[name], DIVISOR), 0), f"{name} % {DIVISOR} == 0", kernel.source)
