"""Selecting a kernel variant by timing a bounded number of candidates; the choice is cached.

Candidates differ in vector width, register tile, and whether loops are rolled. Each runs many times in a machine-code
loop on the same arrays, interleaved with the others in rounds. Disturbances only lengthen a timing and may last a
second, so the minimum over the rounds counts, and interleaving spreads the disturbances over all candidates.
"""

from __future__ import annotations

import ctypes
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware import isa
from lego_mlir.runtime import cpu
from lego_mlir.store import Cache
from lego_mlir.structured import build as structured
from lego_mlir.structured import entry_point, reference, sets
from lego_mlir.structured.lower import lower
from lego_mlir.structured.syntax import Program
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.fused_sums import fused_sums
from lego_mlir.structured.vector.generate import Variant

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


# (rows, vectors) of register tiles
TILES: Final = ((4, 4), (8, 2), (6, 4), (8, 3), (4, 3), (6, 2), (8, 1), (4, 2))
NARROW_TILES: Final = ((4, 2), (8, 1), (4, 4))
SECONDS: Final = 6.0
ROUNDS: Final = 100
WORTH: Final = 0.97  # of the default's time: smaller gains are noise
LINE: Final = 64
COPIED_BYTES: Final = 24_000  # copies of all arrays fit in the L1 cache
ROUND_SECONDS: Final = 5e-5  # fifty times the cost of a call from Python


@dataclass(frozen=True, slots=True)
class VariantTiming:
    """A candidate and its time per run, in seconds."""

    variant: Variant
    seconds: float


def candidates(program: Program, element: str, row: isa.ISA) -> list[Variant]:
    """The variants to time, the default one first."""
    with sets.LOCK:
        lowered = lower(program)
    first = generate.default(lowered, row.lanes(element), row.registers)
    found = [first]
    width = row.lanes(element)
    tiles = [(r, v) for r, v in TILES if (r + 1) * v < row.registers]  # room for the operands
    while width >= 1:
        flat = generate.work(lowered, width) <= generate.FLAT_LIMIT
        for rows, vectors in tiles if width == row.lanes(element) else NARROW_TILES:
            for rolled in (False, True) if flat and generate.work(lowered, width) > 200 else (not flat,):
                found.append(Variant(width, rows, vectors, rolled))
        width = width // 2 if width > 2 else width - 1
        if generate.work(lowered, max(width, 1)) > generate.FLAT_LIMIT // 4 and width < row.lanes(element) // 2:
            break
    fused = [
        replace(one, fused=True)
        for one in found
        if not one.rolled and fused_sums(lowered.steps, one.width, one.width * one.vectors)
    ]
    return list(dict.fromkeys([*found, *fused]))


class Timer:
    """A variant with a machine-code loop around it, which excludes the cost of a Python call."""

    def __init__(
        self, source: structured.KernelSource, arrays: dict[str, Array], restricted: tuple[str, str] = ("", "")
    ) -> None:
        symbol = f"{source.name}_repeat"
        code = cpu.assemble(source.mlir(), (symbol,), entry_point.repeat(source.program, source.name), *restricted)
        self.source = source
        self._library = cpu.load(code, (symbol,))
        kinds = [ctypes.c_void_p, ctypes.c_int64] * len(source.program.operands)
        self._repeat = ctypes.CFUNCTYPE(None, ctypes.c_int64, *kinds)(self._library.address(symbol))
        size = sum(array.nbytes for array in arrays.values())
        copies = entry_point.COPIES if size * entry_point.COPIES <= COPIED_BYTES else 1
        self._held = [_copies(arrays[operand.name], copies) for operand in source.program.operands]
        self._pointers = [
            part for held, stride in self._held for part in (held.ctypes.data, stride if copies > 1 else 0)
        ]
        self._repeats = 1
        while (taken := self._once()) < ROUND_SECONDS:
            self._repeats *= 2 if taken > ROUND_SECONDS / 8 else 8

    def seconds(self) -> float:
        """The time per run, from one round. In-place results drift; the given arrays are not modified."""
        return self._once() / self._repeats

    def _once(self) -> float:
        start = time.perf_counter()
        self._repeat(self._repeats, *self._pointers)
        return time.perf_counter() - start


def _copies(array: Array, count: int) -> tuple[Array, int]:
    """Aligned copies of an array, a cache line apart, so that a store to one does not delay a load from the next."""
    stride = -(-array.nbytes // LINE) * LINE + LINE
    memory = np.zeros(count * stride + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    held = memory[start : start + count * stride]
    for at in range(0, count * stride, stride):
        held[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return held, stride


def tune(program: Program, dtype: DTypeLike, target: str = "host", seconds: float = SECONDS) -> list[VariantTiming]:
    """The timings of the candidates, fastest first; no candidate is compiled after `seconds`."""
    element = structured.ELEMENTS[np.dtype(dtype)]
    row = structured.row_of(target)
    arrays = reference.sample(program, dtype)
    started = time.perf_counter()
    timers: list[tuple[Variant, Timer]] = []
    for variant in candidates(program, element, row):
        if timers and time.perf_counter() - started > seconds:
            break
        source = structured.source_of(program, dtype=dtype, target=target, variant=variant)
        timers.append((variant, Timer(source, arrays, structured.processor(source, target))))
    rounds = [[timer.seconds() for _, timer in timers] for _ in range(ROUNDS)]
    least = np.min(rounds, axis=0).tolist()
    found = [VariantTiming(variant, taken) for (variant, _), taken in zip(timers, least, strict=True)]
    return sorted(found, key=lambda timing: timing.seconds)


def tuned(program: Program, dtype: DTypeLike, target: str, store: Cache | None) -> Variant:
    """The best variant, or the default if none is clearly better; cached per program and processor."""
    digest = structured.digest(program, np.dtype(dtype), "", target, "tuned")
    known = store.read(digest) if store is not None else None
    if known is not None:
        return Variant(**json.loads(known))
    timings = tune(program, dtype, target)
    first = candidates(program, structured.ELEMENTS[np.dtype(dtype)], structured.row_of(target))[0]
    usual = next(timing for timing in timings if timing.variant == first)
    best = first if timings[0].seconds > WORTH * usual.seconds else timings[0].variant
    if store is not None:
        store.write(digest, json.dumps(structured.fields(best)).encode())
    return best
