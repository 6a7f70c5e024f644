"""Rules of attention that a user writes: which pairs of a query and a key count, and with which score.

    def nearby(batch, head, i, j, documents):               i: the query's position, j: the key's
        return (i - j < 512) & (documents[batch, i] == documents[batch, j])

    def biased(s, batch, head, i, j, slopes):               s: the product times the scale, f32
        return s - slopes[head] * lego.f32(abs(i - j))

A rule is a function in the kernel language. It is traced into the kernels, for tiles of positions, and runs on NumPy
arrays in the reference. Arrays that it reads are passed by their names; indices outside of them are clamped, since a
kernel computes whole tiles. Rules with one digest are the same rule.
"""

from __future__ import annotations

import dis
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Operand
from lego_mlir.errors import UsageError, brief
from lego_mlir.expr.index import Condition, PerElement

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.dtypes import DType

OF_PAIR: Final = ("batch", "head", "i", "j")
"""What a mask takes before the arrays that it reads; a score takes the score before these."""
OWN: Final = ("q", "k", "v", "o", "lse", "do", "delta", "sums", "dq", "dk", "dv", "tiles", "tiles_of_keys")
"""Parameters of the kernels, and of their names no array can be."""
SUMS_OF, GRADIENT_OF = "sums_of_", "gradient_of_"
"""Begin the names of the gradients of arrays that a score reads, in f32 and rounded; no array's name does."""


@dataclass(frozen=True, slots=True)
class ReadArray:
    """An array that rules read: its name, its type, and its number of dimensions."""

    name: str
    dtype: DType
    rank: int


@dataclass(frozen=True, slots=True)
class PairRule:
    """A function of a pair: `names` are the arrays that it reads, `by` those of batch and head that it takes."""

    digest: str
    names: tuple[str, ...]
    by: tuple[str, ...]
    function: Callable[..., Operand] = field(compare=False, repr=False)

    @classmethod
    def of(cls, word: str, function: Callable[..., Operand], reads: Sequence[str]) -> PairRule:
        """The rule of a function. Raises UsageError for a signature that is not one of a rule's."""
        given = (("s", *OF_PAIR) if word == "score" else OF_PAIR)  # fmt: skip
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        names = tuple(p.name for p in parameters[len(given) :])
        wanted = (
            f"attention: {word} is a function of {', '.join(given)}, and of arrays by the names that they have in reads"
        )
        if len(parameters) < len(given):
            raise UsageError(f"{wanted}, got {function!r}")
        if unknown := [name for name in names if name not in reads]:
            raise UsageError(f"{wanted} ({', '.join(reads) or 'which is empty'}), got {', '.join(unknown)}")
        from lego_mlir.tracing.definition.fingerprint import digest_of

        found = digest_of(function)
        own = [p.name for p in parameters[len(given) - 4 : len(given) - 2]]
        by = tuple(word for word, name in zip(OF_PAIR, own, strict=False) if _takes(function, name))
        return cls(uuid.uuid4().hex if found is None else found.hex(), names, by, function)

    def __call__(self, *of_pair: Operand, reads: Mapping[str, Operand]) -> Operand:
        """What the function gives for a pair."""
        return self.function(*of_pair, **{name: reads[name] for name in self.names})


def _takes(function: Callable[..., Operand], name: str) -> bool:
    """Whether a function's code takes the parameter, as far as its code shows."""
    code = getattr(function, "__code__", None)
    if code is None or name in code.co_cellvars or name not in code.co_varnames[: code.co_argcount]:
        return True  # as of a function that wraps another one, and passes on what it is given
    taken = [step.argval for step in dis.get_instructions(code) if step.opname.startswith("LOAD_FAST")]
    return any(name == one or (isinstance(one, tuple) and name in one) for one in taken)


@dataclass(frozen=True, slots=True)
class PairRules:
    """The rules of a call, and the arrays that they read.

    With `listed`, tiles are found by tables, since no formula tells which have an allowed pair (`rule_tiles`). Kernels
    of gradients also compute those of the arrays named by `learned`, which the score reads (`score_gradients`).
    """

    mask: PairRule | None = None
    score: PairRule | None = None
    reads: tuple[ReadArray, ...] = ()
    listed: bool = False
    learned: tuple[str, ...] = ()

    @property
    def by(self) -> tuple[bool, bool]:
        """Whether the mask differs between batches, and between heads."""
        return tuple(self.mask is not None and word in self.mask.by for word in OF_PAIR[:2])  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class PairsOf:
    """The pairs of a head of queries: its batch, its number there, and the arrays that rules read."""

    rules: PairRules
    batch: Operand
    head: Operand
    reads: Mapping[str, Operand]

    def allowed(self, i: Operand, j: Operand) -> Operand:
        """Whether query i attends to key j. Raises UsageError for a mask that gives anything but a condition."""
        mask = self.rules.mask
        found = True if mask is None else mask(self.batch, self.head, i, j, reads=self.reads)
        dtype = getattr(found, "dtype", None)
        if "bool" not in (getattr(dtype, "family", ""), str(dtype)) and not isinstance(found, bool | Condition):
            raise UsageError(
                f"attention: mask gives a condition, whether a query attends to a key, got "
                f"{brief(repr(found))}; compare it"
            )
        return found

    def with_derivatives(
        self, s: Operand, i: Operand, j: Operand, read: Callable[[], Sequence[tuple[str, Operand]]] = tuple
    ) -> tuple[Operand, Operand, list[Operand]]:
        """The score of a pair, its derivative by the scaled product, and by each value that `read()` then names."""
        from lego_mlir.tracing.spread.derivatives import value_and_derivatives

        return value_and_derivatives(lambda s: self.scored(s, i, j), s, read)

    def scored(self, s: Operand, i: Operand, j: Operand) -> Operand:
        """The score of a pair, of the scaled product. Raises UsageError for one in another type than s."""
        score = self.rules.score
        found = s if score is None else score(s, self.batch, self.head, i, j, reads=self.reads)
        dtype = getattr(found, "dtype", None)
        if not (dtype == s.dtype if isinstance(s, PerElement) else getattr(dtype, "kind", "") == "f"):
            raise UsageError(
                f"attention: score gives f32, the score of each pair, got {brief(repr(found))}; convert it, such as by "
                "lego.f32(..)"
            )
        return found
