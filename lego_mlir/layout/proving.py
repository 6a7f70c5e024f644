"""A pair of functions proved a bijection and its inverse, for all indices and sizes at once.

`0 <= f(i) < N` and `f_inv(f(i)) == i` for all i in range make `f` injective into a set of equal size, hence bijective.

A size that is a quotient, such as a number of tiles (M + 127) // 128, is an arbitrary number to the functions: the
claims are proved first with a symbol in place of each quotient, which is faster and more general.

>>> from lego_mlir.expr.sizes import size
>>> from lego_mlir.layout import GenP
>>> n = size("n")
>>> proved(GenP([n], lambda i: n - 1 - i, lambda p: n - 1 - p))
Proved(by='0 <= f < N and f_inv(f(i)) = i by intervals, arithmetic')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import ExpressionError, LayoutError, brief
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.canonical import product

if TYPE_CHECKING:
    from lego_mlir.layout.permutations import GenP

PROVED_OPERATIONS = 150
"""Operations of `f_inv(f(i))` up to which a proof is tried: dozens of nested bit operations only cost time."""
SUBSTITUTED_OPERATIONS = 10_000
"""Operations, shared ones counted at each use, up to which quotients are replaced by symbols."""


def proved(perm: GenP) -> Verdict:
    """The verdict for all elements at once; Unknown, with the reason, if there is neither a proof nor a refutation."""
    index = proof_index(perm)
    try:
        position = Index(perm.forward(index))
        parts = [position.expr, *(as_expr(b) for b in perm.backward(position))]
        sizes = list(map(as_expr, perm.dims()))
        named = _named_quotients(sizes) if _replaceable(parts) else {}
        if named:
            general = _prove_claims(index, [n.xreplace(named) for n in sizes], [e.xreplace(named) for e in parts])
            if isinstance(general, Proved):
                return general
        return _prove_claims(index, sizes, parts)
    except LayoutError as error:
        return Unknown(f"its functions cannot be read as expressions: {error}")
    except ExpressionError as error:
        return Unknown(str(error))
    except RecursionError:
        return Unknown("its expressions are nested too deeply for a proof")


def proof_index(perm: GenP) -> tuple[Index, ...]:
    """The symbolic index of the claims. No size can have the same name, because size names are identifiers."""
    return tuple(index_symbol(f"i[{axis}]") for axis in range(len(perm.dims())))


def _named_quotients(sizes: Sequence[Expr]) -> dict[Expr, Symbol]:
    """A symbol for each size that is a quotient, with its known minimum and divisor.

    No size can have the same name, because size names are identifiers.
    """
    from lego_mlir.expr.intervals import bounds
    from lego_mlir.expr.nodes import FloorDiv, Size

    quotients = [n for n in dict.fromkeys(sizes) if isinstance(n, FloorDiv)]
    known = {n: bounds(n, {}) for n in quotients}
    return {
        n: Size(f"number of tiles {k}", min=max(known[n].lo or 0, 0), multiple_of=known[n].multiple_of or 1)
        for k, n in enumerate(quotients)
    }


def _replaceable(exprs: Sequence[Expr]) -> bool:
    """Whether the expressions are small enough for SymPy to substitute in: it visits shared parts once per use."""
    from lego_mlir.expr.cost import operations

    return sum(map(operations, exprs)) <= SUBSTITUTED_OPERATIONS


def _prove_claims(index: tuple[Index, ...], sizes: list[Expr], parts: list[Expr]) -> Verdict:
    """Prove the claims about `parts`, the position of an index and its image under `f_inv`, in a box of these sizes."""
    from lego_mlir.expr.cost import operations
    from lego_mlir.expr.nodes import Eq, Le, Lt
    from lego_mlir.expr.prove import prove
    from lego_mlir.expr.simplify import simplify

    position, *back = parts
    cost = max(operations(b, shared=True) for b in back)
    if cost > PROVED_OPERATIONS:
        return Unknown(f"f_inv(f(i)) has {cost} operations, too many for a proof")
    ranges = {i.expr: Range(0, n) for i, n in zip(index, sizes, strict=True)}
    claims = [Le(0, position), Lt(position, product(sizes))]
    claims += [Eq(simplify(b, ranges).expr, i.expr) for b, i in zip(back, index, strict=True)]
    methods: list[str] = []
    for claim in claims:
        match prove(claim, ranges):
            case Proved(by):
                methods.append(by)
            case Refuted() as refuted:
                return Refuted(refuted.counter_example, f"{brief(claim)} fails: {_values(refuted)}")
            case Unknown(reason):
                return Unknown(f"not proved: {brief(claim)} ({brief(reason)})")
    return Proved(f"0 <= f < N and f_inv(f(i)) = i by {', '.join(dict.fromkeys(methods))}")


def _values(refuted: Refuted) -> str:
    return ", ".join(f"{name} = {value}" for name, value in refuted.counter_example.items()) or refuted.explanation
