"""Programs of agents: the waits, arrivals and accesses of stages that a group of warps runs, with loops and branches.

    for k in 0 .. n:  wait empty[k - 3];  copy rows of stage k % 3, completing on full[k];  arrive at full[k]

is `RingLoop(k, 0, n, 1, (RingWord(WAIT, "empty", k - 3), StageAccess("copy", ..), RingWord(ARRIVE, "full", k)))`.
A use of a ring counts from 0 and means stage `use % stages` in phase `use // stages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import LegoError

WAIT: Final = "wait"
ARRIVE: Final = "arrive"
Counter = tuple[str, str, int | None]
"""What is counted: a wait or an arrival, its ring, and the block of the cluster of an arrival, None for the own."""


class NotFollowedError(LegoError):
    """A program that these proofs do not understand; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RingWord:
    """A wait for a use of a ring, or an arrival at it."""

    kind: str
    ring: str
    use: Expr
    place: str = ""
    block: int | None = None

    @property
    def counter(self) -> Counter:
        return self.kind, self.ring, self.block


@dataclass(frozen=True, slots=True)
class StageAccess:
    """An access of a tile of stages: of the rows `row` to `row + rows - 1`, or of positions.

    A "copy" goes on until it completes on `use` of the ring `on`; it fills `whole_rows`, or parts of them. `shared` are
    the blocks of a cluster, by rank, that copy their parts for each other. A read that is `late` may go on at this
    place, as those of a product in flight do. One that is not `is_flat` may reach rows below these. `columns` are the
    first one and their number, None for all; proofs take all, so that accesses that differ in them alone are one.
    """

    kind: str
    buffer: str
    row: Expr
    rows: int
    place: str = ""
    on: str | None = None
    use: Expr | None = None
    late: bool = False
    by_position: bool = False
    whole_rows: bool = False
    shared: tuple[tuple[int, ...], ...] = ()
    is_flat: bool = True
    columns: tuple[Expr, int] | None = field(default=None, compare=False)

    @property
    def begun(self) -> StageAccess:
        """The access where it begins."""
        return replace(self, late=False)


@dataclass(frozen=True, slots=True)
class FromRoundBefore:
    """An access that the round before of the loop over `loop` began, and that goes on here.

    After the loop, the round before is its last.
    """

    access: StageAccess
    loop: Symbol


@dataclass(frozen=True, slots=True)
class Let:
    """A symbol denotes a value from here on; the symbol of a register may be given again.

    A register that is read in the line `counts` has to be shown to be about how often the agent has waited or arrived.
    """

    symbol: Symbol
    value: Expr
    counts: str = ""


@dataclass(frozen=True, slots=True)
class RingLoop:
    """A loop over `symbol` from `lo` to `hi`, exclusive."""

    symbol: Symbol
    lo: Expr
    hi: Expr
    step: Expr
    body: tuple[ProgramPart, ...]
    place: str = ""


@dataclass(frozen=True, slots=True)
class RingBranch:
    """Two programs, of which a condition chooses one."""

    condition: Cond
    then: tuple[ProgramPart, ...]
    otherwise: tuple[ProgramPart, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A statement that these proofs do not follow, with the reason; if it only writes `registers`, they are unknown."""

    reason: str
    registers: frozenset[Symbol] = frozenset()


ProgramPart = RingWord | StageAccess | FromRoundBefore | Let | RingLoop | RingBranch | Unfollowed


@dataclass(frozen=True, slots=True)
class Agent:
    """`warps` warps that run the same program, not in step with each other."""

    name: str
    warps: int
    program: tuple[ProgramPart, ...]
    role: int = 0


@dataclass(frozen=True, slots=True)
class RingShape:
    """`stages` barriers, each of which completes a phase after `expected` arrivals."""

    name: str
    stages: int
    expected: int


def events_in(parts: Sequence[ProgramPart]) -> Iterator[RingWord | StageAccess | FromRoundBefore | Unfollowed]:
    """The events of a program, those of loops and branches included, in the order of the text."""
    for part in parts:
        match part:
            case RingLoop(body=body):
                yield from events_in(body)
            case RingBranch(then=then, otherwise=otherwise):
                yield from events_in((*then, *otherwise))
            case Let():
                pass
            case _:
                yield part


def has_words(parts: Sequence[ProgramPart]) -> bool:
    """Whether a program waits or arrives."""
    return any(isinstance(event, RingWord) for event in events_in(parts))


def symbols_given(parts: Sequence[ProgramPart]) -> Iterator[Symbol]:
    """The symbols to which a program gives values."""
    for part in parts:
        match part:
            case Let(symbol=symbol):
                yield symbol
            case Unfollowed(registers=registers):
                yield from registers
            case RingLoop(body=body):
                yield from symbols_given(body)
            case RingBranch(then=then, otherwise=otherwise):
                yield from symbols_given((*then, *otherwise))
            case _:
                pass
