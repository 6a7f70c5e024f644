"""The three answers of a prover.

`Proved` names the method; `Refuted` carries a counter-example that can be checked by hand; `Unknown` gives the reason,
and the caller keeps the general form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass


@dataclass(frozen=True, slots=True)
class Proved:
    """The claim holds. `by` names the method: "intervals", "divisibility", "z3", "enumeration of 36 elements"."""

    by: str

    def __bool__(self) -> bool:
        return True


class Refuted:
    """The claim fails. `counter_example` gives values for which it fails, `explanation` states it in a sentence.

    The explanation may be given as a function, which is called when it is read: the text of a long claim takes
    milliseconds.
    """

    __slots__ = ("_explanation", "counter_example")
    __match_args__ = ("counter_example", "explanation")
    counter_example: Mapping[str, object]
    _explanation: str | Callable[[], str]

    def __init__(self, counter_example: Mapping[str, object], explanation: str | Callable[[], str]) -> None:
        object.__setattr__(self, "counter_example", counter_example)
        object.__setattr__(self, "_explanation", explanation)

    @property
    def explanation(self) -> str:
        """What fails, and for which values."""
        given = self._explanation
        if not isinstance(given, str):
            given = given()
            object.__setattr__(self, "_explanation", given)
        return given

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Refuted):
            return NotImplemented
        return (self.counter_example, self.explanation) == (other.counter_example, other.explanation)

    __hash__ = None  # type: ignore[assignment]  # the values are a dictionary

    def __repr__(self) -> str:
        return f"Refuted(counter_example={self.counter_example!r}, explanation={self.explanation!r})"

    def __reduce__(self) -> tuple[type[Refuted], tuple[Mapping[str, object], str]]:
        return Refuted, (self.counter_example, self.explanation)

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither proved nor refuted, for this reason."""

    reason: str

    def __bool__(self) -> bool:
        return False


Verdict = Proved | Refuted | Unknown
