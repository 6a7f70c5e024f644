"""MLIR's names for the nodes of an index expression: one row per operation, one column per form.

The names are separate from the code that chooses between them (`mlir.py`), so that the table lists everything the
printer can emit:

>>> OPERATIONS["floordiv"]
Names(arith='arith.floordivsi', index='index.floordivs')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from lego_mlir.errors import PrintError
from lego_mlir.expr import nodes

Form = Literal["arith", "index", "affine"]
Integer = Literal["index", "i32", "i64", "smallest"]

FORMS: Final[tuple[Form, ...]] = ("arith", "index", "affine")
INTEGERS: Final[tuple[Integer, ...]] = ("index", "i32", "i64", "smallest")


@dataclass(frozen=True, slots=True)
class Names:
    """One operation in the dialects `arith` and `index`; the affine form falls back to `index`."""

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

# Binary nodes that print as one operation for all operand ranges.
BINARY: Final[dict[type[Any], str]] = {
    nodes.BitXor: "xor",
    nodes.BitAnd: "and",
    nodes.BitOr: "or",
    nodes.ShiftLeft: "shl",
    nodes.ShiftRight: "shrs",
    nodes.Smaller: "min",
    nodes.Larger: "max",
}


@dataclass(frozen=True, slots=True)
class ComparePredicate:
    """A signed comparison: the predicate number of `arith.cmpi` and the attribute of `index.cmp`."""

    arith: int
    index: str


COMPARISONS: Final[dict[type[Any], ComparePredicate]] = {
    nodes.Eq: ComparePredicate(0, "#index<cmp_predicate eq>"),
    nodes.Ne: ComparePredicate(1, "#index<cmp_predicate ne>"),
    nodes.Lt: ComparePredicate(2, "#index<cmp_predicate slt>"),
    nodes.Le: ComparePredicate(3, "#index<cmp_predicate sle>"),
}

LARGEST = {"i32": 2**31 - 1, "i64": 2**63 - 1, "index": 2**63 - 1}
"""The greatest constant of each type."""


def fitting(number: int, kind: str) -> int:
    """A constant of a type. Raises PrintError for one that the type does not hold."""
    if not -LARGEST[kind] - 1 <= number <= LARGEST[kind]:
        raise PrintError(f"mlir: the constant {number} does not fit {kind}")
    return number
