"""Converting a layout by warp shuffles, where no value leaves its warp (section 5.4 of the paper).

C maps a place (register, lane) of the target to the place of its element in the source. In one round every lane reads
one register of one other lane, and all lanes read different ones. The paper pairs lanes of both sides by a basis G;
here the same freedom is a linear map M from lanes to target registers: in round r, lane l takes the element of its
register r ^ M(l), and M is chosen so that the lanes that are read, K = C_lane,lane + C_lane,register M, are different.
Copies in either layout and bases of several bits are covered.

>>> from lego_mlir.f2.linear import LinearLayout
>>> rows = LinearLayout({"register": [1], "lane": [2]}, {"x": 4})
>>> columns = LinearLayout({"register": [2], "lane": [1]}, {"x": 4})
>>> plan = shuffle_plan(rows, columns, bits=32)
>>> [(r.target_register, r.exchanged) for r in plan.rounds]
[(0, False), (1, True)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.f2.dims import split
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import Echelon, combine, complement, independent, rank, solve, units

WORD_BITS = 32
"""The width of one warp shuffle (PTX ISA, shfl.sync.b32)."""


@dataclass(frozen=True)
class Round:
    """One round: lane l receives the word of its register `target_register ^ M(l)`; `exchanged` if lanes differ."""

    target_register: int
    exchanged: bool


@dataclass(frozen=True)
class ShufflePlan:
    """A conversion within warps, of `bits` wide elements.

    `packed`: register vectors whose elements travel in one word. `copies`: target registers that repeat others.
    """

    rounds: tuple[Round, ...]
    lane_to_target: tuple[int, ...]
    lane_to_source_lane: tuple[int, ...]
    register_to_source_lane: tuple[int, ...]
    register_to_source: tuple[int, ...]
    sent: tuple[int, ...]
    packed: tuple[int, ...]
    copies: tuple[int, ...]
    bits: int

    def source_lane(self, step: Round, lane: int) -> int:
        """The lane that a lane reads in a round."""
        return combine(self.lane_to_source_lane, lane) ^ combine(self.register_to_source_lane, step.target_register)

    def source_register(self, step: Round, lane: int, packed: int = 0) -> int:
        """The register that a lane sends in a round; `packed` selects the element of the word."""
        sender = lane ^ combine(self.register_to_source_lane, step.target_register)
        moved = step.target_register ^ combine(self.packed, packed)
        return combine(self.register_to_source, moved) ^ combine(self.sent, sender)

    def target_register(self, step: Round, lane: int, packed: int = 0) -> int:
        """The register where a lane puts what it received in a round."""
        return step.target_register ^ combine(self.lane_to_target, lane) ^ combine(self.packed, packed)

    def shuffles(self) -> int:
        """The number of 32-bit shuffle instructions."""
        return sum(1 for step in self.rounds if step.exchanged) * max(1, self.bits // WORD_BITS)

    def selects(self) -> int:
        """The number of select instructions, before and after the shuffles."""
        words = len(self.rounds) * max(1, self.bits // WORD_BITS)
        return words * (rank(self.sent) + rank(self.lane_to_target))


def shuffle_plan(source: LinearLayout, target: LinearLayout, bits: int) -> ShufflePlan | None:
    """The shuffles that convert `source` to `target`; None if elements change their warp.

    Both map register, lane and warp to the same tensor. Raises LayoutError if the target has an element that the source
    does not hold.
    """
    place = target.invert_and_compose(source)
    if not within_warps(place):
        return None
    return _planned(source, target, place, bits, pack=True) or _planned(source, target, place, bits, pack=False)


def within_warps(place: LinearLayout) -> bool:
    """Whether each warp reads only its registers and lanes."""
    inner = place.sublayout(["register", "lane"], ["warp"]) if "warp" in place.in_sizes else place
    outer = place.sublayout(["warp"], list(place.out_sizes)) if "warp" in place.in_sizes else None
    if outer is None or "warp" not in place.out_sizes:
        return outer is None or not any(outer.columns)
    shift = [split(c, outer.outs) for c in outer.columns]
    names = list(outer.out_sizes)
    wanted = [{"register": 0, "lane": 0, "warp": 1 << k} for k in range(len(shift))]
    own = [dict(zip(names, v, strict=True)) for v in shift] == wanted
    return own and not any(inner.columns)


@dataclass(frozen=True)
class _Blocks:
    """C as blocks of columns: from target registers and lanes to source registers and lanes."""

    register_register: tuple[int, ...]
    register_lane: tuple[int, ...]
    lane_register: tuple[int, ...]
    lane_lane: tuple[int, ...]

    @classmethod
    def of(cls, place: LinearLayout) -> _Blocks:
        both = ("register", "lane")
        return cls(*(place.sublayout([a], [b]).columns for a in both for b in both))


def _planned(
    source: LinearLayout, target: LinearLayout, place: LinearLayout, bits: int, pack: bool
) -> ShufflePlan | None:
    blocks = _Blocks.of(place)
    kernel = _kernel(target)
    copies = independent(register for register, lane in kernel if lane == 0)
    packed = _packed(blocks, copies, bits) if pack else ()
    kept = independent(units(len(blocks.register_lane)), (*packed, *copies))
    repeated = [(register, lane) for register, lane in kernel if lane]
    found = _lane_map(blocks, kept, _kernel(source), repeated)
    if found is None:
        return None
    lane_to_target, reads, moved = found
    sent = _as_function_of_sender(reads, moved)
    if sent is None:
        return None
    steps = []
    same = reads == units(len(reads))
    for k in range(1 << len(kept)):
        register = combine(kept, k)
        steps.append(Round(register, not same or combine(blocks.register_lane, register) != 0))
    return ShufflePlan(
        *(
            tuple(steps),
            lane_to_target,
            reads,
            blocks.register_lane,
            blocks.register_register,
            sent,
            packed,
            copies,
            bits,
        )
    )


def _kernel(layout: LinearLayout) -> list[tuple[int, int]]:
    """A basis of the (register, lane) vectors that a layout maps to zero; those of registers alone first."""
    registers, lanes = layout.columns_of("register"), layout.columns_of("lane")
    echelon, found = Echelon(), []
    for column in (*registers, *lanes):
        if vector := echelon.add(column):
            found.append((vector & ((1 << len(registers)) - 1), vector >> len(registers)))
    return found


def _packed(blocks: _Blocks, copies: Sequence[int], bits: int) -> tuple[int, ...]:
    """Target register vectors whose two elements one lane of the source holds: they share a word."""
    most = max(0, (WORD_BITS // bits).bit_length() - 1)
    echelon, local = Echelon(), []
    for column in blocks.register_lane:
        if vector := echelon.add(column):
            local.append(vector)
    return independent(local, copies)[:most]


def _lane_map(
    blocks: _Blocks, kept: Sequence[int], source_kernel: Sequence[tuple[int, int]], repeated: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """For each lane bit: M, the lane that is read in round 0, and the shift of the source's register.

    First without any movement in round 0 (K the identity), then with the lanes of C's kernel sent to further registers.
    """
    free = [(combine(blocks.register_lane, r), combine(blocks.register_register, r), r) for r in kept]
    free += [(lane, register, 0) for register, lane in source_kernel]
    columns = [lane for lane, _, _ in free]
    n = len(blocks.lane_lane)
    found = solve(columns, [1 << k ^ blocks.lane_lane[k] for k in range(n)])
    if None not in found:
        return _combined(blocks, free, units(n), [x for x in found if x is not None])
    basis, chosen = _basis_of_lanes(blocks, columns, free, repeated)
    if chosen is None:
        return None
    back = solve(basis, units(n))
    parts = _combined(blocks, free, basis, chosen)
    lane_to_target, reads, moved = (tuple(combine(p, x or 0) for x in back) for p in parts)
    return lane_to_target, reads, moved


def _basis_of_lanes(
    blocks: _Blocks, columns: Sequence[int], free: Sequence[tuple[int, int, int]], repeated: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int] | None]:
    """A basis of the lanes, and for each the combination of free vectors that makes the lanes read independent."""
    n = len(blocks.lane_lane)
    echelon, kernel = Echelon(), []
    for column in blocks.lane_lane:
        if vector := echelon.add(column):
            kernel.append(vector)
    injective = independent(units(n), kernel)
    basis, chosen = list(injective), [0] * len(injective)
    reached = Echelon(combine(blocks.lane_lane, v) for v in injective)
    registers = {lane: register for register, lane in repeated}
    copies = independent(registers, injective)
    whole = [_joined(*f, n) for f in free]
    for lane in copies:  # a lane that repeats another reads what that one reads
        place = combine(blocks.lane_lane, lane), combine(blocks.lane_register, lane), registers[lane]
        (found,) = solve(whole, [_joined(*place, n)])
        if found is None:
            return basis, None
        basis.append(lane)
        chosen.append(found)
    for vector in independent(kernel, basis):
        extending = next((k for k, c in enumerate(columns) if c and c not in reached), None)
        if extending is None:
            return basis, None
        reached.add(columns[extending])
        basis.append(vector)
        chosen.append(1 << extending)
    return basis, chosen


def _joined(lane: int, source_register: int, target_register: int, lanes: int) -> int:
    """Three vectors as one; registers of a plan have at most 32 bits."""
    return lane | source_register << lanes | target_register << (lanes + 32)


def _combined(
    blocks: _Blocks, free: Sequence[tuple[int, int, int]], basis: Sequence[int], chosen: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """M, the lanes read and the shifts of source registers, for some lane vectors with their combinations."""
    lanes, registers, targets = ([f[k] for f in free] for k in range(3))
    reads = tuple(combine(blocks.lane_lane, v) ^ combine(lanes, x) for v, x in zip(basis, chosen, strict=True))
    moved = tuple(combine(blocks.lane_register, v) ^ combine(registers, x) for v, x in zip(basis, chosen, strict=True))
    return tuple(combine(targets, x) for x in chosen), reads, moved


def _as_function_of_sender(reads: Sequence[int], moved: Sequence[int]) -> tuple[int, ...] | None:
    """The shift of the source's register by the sender's lane bits; None if two readers of a lane differ in it."""
    n, echelon = len(reads), Echelon()
    lanes, shifts = [], []
    for lane, shift in zip(reads, moved, strict=True):
        vector = echelon.add(lane)
        if not vector:
            lanes.append(lane)
            shifts.append(shift)
        elif combine(moved, vector):
            return None
    rest = complement(lanes, n)  # lanes that nobody reads
    return tuple(combine((*shifts, *[0] * len(rest)), x or 0) for x in solve((*lanes, *rest), units(n)))
