"""The three answers of a prover.

`Proved` names the method; `Refuted` carries a counter-example that can be checked by hand; `Unknown` gives the reason,
and the caller keeps the general form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proved:
    """The claim holds. `by` names the method: "intervals", "divisibility", "z3", "enumeration of 36 elements"."""

    by: str

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Refuted:
    """The claim fails. `counter_example` gives values for which it fails, `explanation` states it in a sentence."""

    counter_example: Mapping[str, object]
    explanation: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Refuted):
            return NotImplemented
        return (self.counter_example, self.explanation) == (other.counter_example, other.explanation)

    def __repr__(self) -> str:
        return f"Refuted(counter_example={self.counter_example!r}, explanation={self.explanation!r})"

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither proved nor refuted, for this reason."""

    reason: str

    def __bool__(self) -> bool:
        return False


Verdict = Proved | Refuted | Unknown
