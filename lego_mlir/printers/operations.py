"""What a node of an index expression is called in MLIR: one row an operation, one column a form.

The names stay apart from the code that decides between them (`mlir.py`), so that reading the table answers what a
printer can emit at all:

>>> OPERATIONS["floordiv"]
Names(arith='arith.floordivsi', index='index.floordivs')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from lego_mlir.expr import nodes

Form = Literal["arith", "index", "affine"]
Integer = Literal["index", "i32", "i64", "smallest"]

FORMS: Final[tuple[Form, ...]] = ("arith", "index", "affine")
INTEGERS: Final[tuple[Integer, ...]] = ("index", "i32", "i64", "smallest")


@dataclass(frozen=True, slots=True)
class Names:
    """One operation in the dialect `arith` and in the dialect `index`; the affine form falls back to the latter."""

    arith: str
    index: str


OPERATIONS: Final = {
    "add": Names("arith.addi", "index.add"),
    "sub": Names("arith.subi", "index.sub"),
    "mul": Names("arith.muli", "index.mul"),
    "divu": Names("arith.divui", "index.divu"),
    "remu": Names("arith.remui", "index.remu"),
    "floordiv": Names("arith.floordivsi", "index.floordivs"),
    "rems": Names("arith.remsi", "index.rems"),
    "and": Names("arith.andi", "index.and"),
    "or": Names("arith.ori", "index.or"),
    "xor": Names("arith.xori", "index.xor"),
    "shl": Names("arith.shli", "index.shl"),
    "shrs": Names("arith.shrsi", "index.shrs"),
    "min": Names("arith.minsi", "index.mins"),
    "max": Names("arith.maxsi", "index.maxs"),
}

# Nodes of two operands that print as one operation whatever the operands' ranges are.
BINARY: Final[dict[type[Any], str]] = {
    nodes.BitXor: "xor",
    nodes.BitAnd: "and",
    nodes.BitOr: "or",
    nodes.ShiftLeft: "shl",
    nodes.ShiftRight: "shrs",
    nodes.Smaller: "min",
    nodes.Larger: "max",
}
COMMUTATIVE: Final = frozenset({"and", "or", "xor", "min", "max"})


@dataclass(frozen=True, slots=True)
class Predicate:
    """A signed comparison: the number that `arith.cmpi` takes and the attribute that `index.cmp` takes."""

    arith: int
    index: str


COMPARISONS: Final[dict[type[Any], Predicate]] = {
    nodes.Eq: Predicate(0, "#index<cmp_predicate eq>"),
    nodes.Ne: Predicate(1, "#index<cmp_predicate ne>"),
    nodes.Lt: Predicate(2, "#index<cmp_predicate slt>"),
    nodes.Le: Predicate(3, "#index<cmp_predicate sle>"),
}
