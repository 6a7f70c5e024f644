"""Moves executed by the processor on two threads: large ones by vector kernels, others by strided copies of NumPy.

NumPy copies elements below a byte bit by bit of a byte, and others one by one where both sides have short runs. For
moves that come often, or are large, a kernel is compiled (`compiled_moves`): in a fraction of a second, once a machine.

>>> import numpy as np
>>> from lego_mlir.formats.stored_fields import stored
>>> from lego_mlir.formats.field_moves import move
>>> digits = {"n": 2, "q": 4, "odd": 2}
>>> words = move(stored("w", "u4", digits, "n q odd", "n q odd"), stored("w", "u4", digits, "n q odd", "n odd q"))
>>> out = np.zeros(8, np.uint8)
>>> execute(words, np.array([0x10, 0x32, 0x54, 0x76] * 2, np.uint8), out)
>>> [hex(int(x)) for x in out[:4]]
['0x20', '0x64', '0x31', '0x75']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from itertools import product as combinations
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.formats.compiled_moves import ALIGNED, THREADS, compiled, planned, workers
from lego_mlir.formats.field_moves import Digit, Move

SPLIT_BYTES: Final = 2**20
"""Bytes from which two threads share a move: below, starting them takes longer than it saves."""
MOST_RUN_BITS: Final = 8 * 4096
"""Runs up to which NumPy copies each as one element; longer ones are copied as fast as arrays of bytes."""
TILE: Final = 128
LINE_BITS: Final = 8 * 64
"""A cache line of a processor."""
COMPILED_BYTES: Final = 2**25
"""Bytes of moves alike from which on they are compiled."""
STREAMED_BYTES: Final = 2**22
"""Bytes that are written past the caches: more than a core's own cache keeps."""
_MOVED: Final[dict[tuple[Move, ...], int]] = {}
_TYPES: Final = {8: "u1", 16: "u2", 32: "u4", 64: "u8", 128: "c16"}
"""NumPy copies 16 bytes at once only as a complex number, whose bits it leaves alone."""
Given = tuple[Move, Array, Array]
"""A move with the bytes of its source and of its target."""


def execute(plan: Move, source: Array, target: Array, threads: int = THREADS) -> None:
    """Write the units of a move from one array of bytes into another, both contiguous.

    Elements below a byte are combined into the target's bits by `or`, so those must be 0 before.
    """
    execute_all([(plan, source, target)], threads)


def execute_all(moves: Sequence[Given], threads: int = THREADS) -> None:
    """Execute moves as `execute` does, by one kernel those whose elements lie between each other's."""
    for group, shared in _groups(moves):
        if not _run_compiled(group, shared, threads):
            for given in group:
                _run_numpy(*given, threads)


def _groups(moves: Sequence[Given]) -> Iterator[tuple[list[Given], int]]:
    """Moves of one target, or else of one source, that a kernel takes together; the others one by one."""
    left = list(moves)
    for side in (2, 1):
        shared: dict[int, list[Given]] = {}
        for given in left:
            shared.setdefault(given[1:][side - 1].ctypes.data, []).append(given)
        left = []
        for group in shared.values():
            large = sum(plan.bits for plan, _, _ in group) >= 8 * SPLIT_BYTES
            if len(group) > 1 and large and planned(_bare(group), side) is not None:
                yield group, side
            else:
                left += group
    yield from (([given], 2) for given in left)


def _bare(group: Sequence[Given]) -> tuple[Move, ...]:
    """Moves with their starts counted from the first byte of any of them in the same array."""
    return tuple(
        Move(plan.digits, plan.unit, (plan.start[0] - 8 * there, plan.start[1] - 8 * here))
        for (plan, _, _), there, here in zip(group, _firsts(group, 1), _firsts(group, 2), strict=True)
    )


def _firsts(group: Sequence[Given], side: int) -> list[int]:
    """For each move the first byte of its array that a move of the group touches."""
    found: dict[int, int] = {}
    starts = [(arrays[side - 1].ctypes.data, plan.start[side - 1] // 8) for plan, *arrays in group]
    for array, byte in starts:
        found[array] = min(found.get(array, byte), byte)
    return [found[array] for array, _ in starts]


def _run_compiled(group: Sequence[Given], shared: int, threads: int) -> bool:
    """Run moves by a kernel; False where they are small or rare, or have none."""
    moves, total = _bare(group), sum(plan.bits // 8 for plan, _, _ in group)
    kernel = planned(moves, shared) if total >= SPLIT_BYTES else None
    if kernel is None:
        return False
    _MOVED[moves] = _MOVED.get(moves, 0) + total
    if _MOVED[moves] < COMPILED_BYTES:
        return False
    for plan, source, target in group:
        for side, array in ((1, source), (2, target)):
            last = plan.start[side - 1] + plan.unit + sum((d[0] - 1) * d[side] for d in plan.digits)
            assert last <= 8 * array.nbytes, "a plan of this format is inside its buffers"
    addresses = [
        (source.ctypes.data + there, target.ctypes.data + here)
        for (_, source, target), there, here in zip(group, _firsts(group, 1), _firsts(group, 2), strict=True)
    ]
    streaming = total >= STREAMED_BYTES and not any(target % ALIGNED for _, target in addresses)
    code = compiled(kernel, streaming)
    if code is None:
        return False
    code(addresses, threads)
    return True


def _run_numpy(plan: Move, source: Array, target: Array, threads: int) -> None:
    parts = _parts(plan, threads if plan.bits >= 8 * SPLIT_BYTES else 1)
    if len(parts) == 1:
        _execute_part(parts[0], source, target)
        return
    for future in [workers(threads).submit(_execute_part, part, source, target) for part in parts]:
        future.result()


def _parts(plan: Move, count: int) -> list[Move]:
    """The move in parts of the outermost digit that is whole bytes in the target, for threads that share no byte."""
    at = next((k for k, (n, _, t) in enumerate(plan.digits) if n >= count and t % 8 == 0), None)
    if count == 1 or at is None or plan.unit < 8:
        return [plan]
    size, source, target = plan.digits[at]
    ends = [size * k // count for k in range(count + 1)]
    return [
        Move(
            (*plan.digits[:at], (last - first, source, target), *plan.digits[at + 1 :]), plan.unit,
            (plan.start[0] + first * source, plan.start[1] + first * target),
        )
        for first, last in pairwise(ends)
    ]  # fmt: skip


def _execute_part(plan: Move, source: Array, target: Array) -> None:
    whole = (
        plan.unit >= 8
        and not any(x % 8 for _, s, t in plan.digits for x in (s, t))
        and not any(x % 8 for x in plan.start)
    )
    if whole:
        unit = plan.unit
        while unit > 8 and any(
            (array.ctypes.data + start // 8) % (unit // 8)
            for array, start in zip((source, target), plan.start, strict=True)
        ):
            unit //= 2  # a view of a file may begin anywhere
        digits = plan.digits if unit == plan.unit else (*plan.digits, (plan.unit // unit, unit, unit))
        if digits and digits[-1][1:] == (unit, unit) and digits[-1][0] * unit <= MOST_RUN_BITS:
            unit, digits = digits[-1][0] * unit, digits[:-1]  # one call of memcpy for a run
        written, read = _view(target, digits, 2, plan.start[1], unit), _view(source, digits, 1, plan.start[0], unit)
        for block in _blocks(digits, unit):
            written[block] = read[block]
        return
    small, large = _cut_at_bytes(plan.digits)
    assert plan.unit < 8, "units of whole bytes are at whole bytes"
    mask = np.uint8((1 << plan.unit) - 1)
    for values in combinations(*(range(n) for n, _, _ in small)):
        there, here = (
            plan.start[side - 1] + sum(v * d[side] for v, d in zip(values, small, strict=True)) for side in (1, 2)
        )
        bits = _view(source, large, 1, there // 8 * 8, 8) >> np.uint8(there % 8)
        bits &= mask
        bits <<= np.uint8(here % 8)
        view = _view(target, large, 2, here // 8 * 8, 8)
        np.bitwise_or(view, bits, out=view)


def _cut_at_bytes(digits: Sequence[Digit]) -> tuple[list[Digit], list[Digit]]:
    """The parts of digits that step by less than a byte on either side, and those that step by whole bytes on both."""
    small, large = list[Digit](), list[Digit]()
    for n, s, t in digits:
        inner = 1
        while (s * inner % 8 or t * inner % 8) and n // inner % 2 == 0:
            inner *= 2
        outer = (n // inner, s * inner, t * inner)
        small.append((inner, s, t))
        (small if outer[1] % 8 or outer[2] % 8 else large).append(outer)
    return [d for d in small if d[0] > 1], large


def _blocks(digits: Sequence[Digit], unit: int) -> Iterator[tuple[slice, ...]]:
    """A transposition in blocks of TILE x TILE, whose lines stay in the cache until all of them is used."""
    whole = [slice(None)] * len(digits)
    inner, across = (min(range(len(digits)), key=lambda k: digits[k][side], default=0) for side in (2, 1))
    if inner == across or unit > LINE_BITS or digits[inner][1] < LINE_BITS or digits[inner][0] <= TILE:
        yield tuple(whole)
        return
    for a in range(0, digits[inner][0], TILE):
        for b in range(0, digits[across][0], TILE):
            whole[inner], whole[across] = slice(a, a + TILE), slice(b, b + TILE)
            yield tuple(whole)


def _view(array: Array, digits: Sequence[Digit], side: int, start: int, unit: int) -> Array:
    """The units of one side as an array with one axis for each digit."""
    flat = array.reshape(-1).view(np.uint8)[start // 8 :]
    shape = [n for n, _, _ in digits]
    last = start // 8 + sum((d[0] - 1) * d[side] // 8 for d in digits) + unit // 8
    assert last <= array.nbytes, "a plan of this format is inside its buffers"
    typed = flat[: (flat.size * 8 // unit) * unit // 8].view(_TYPES.get(unit, f"V{unit // 8}"))
    return np.lib.stride_tricks.as_strided(typed, shape, [d[side] // 8 for d in digits])
