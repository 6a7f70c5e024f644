"""Choosing a kernel's variant by timing a bounded number of them, and remembering the choice.

The candidates differ in vector width, register tile, and whether loops are rolled. Each runs on copies of the same
arrays, restored before every round, so that a solve in place does not drift into denormal numbers; the least time of
many rounds counts, because everything that disturbs a timing makes it longer.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir.runtime import structured
from lego_mlir.structured import driver, generate, isa, reference, sets
from lego_mlir.structured.generate import Variant
from lego_mlir.structured.lower import lower
from lego_mlir.structured.syntax import Program
from lego_mlir.toolchain.cache import Cache

# (rows, vectors) of register tiles that leave room for operands among 32 vector registers
TILES: Final = ((4, 4), (8, 2), (6, 4), (8, 3), (8, 1), (4, 2))
NARROW_TILES: Final = ((4, 2), (8, 1), (4, 4))
SECONDS: Final = 6.0
ROUNDS: Final = 40
OUTPUT_BYTES: Final = 8192  # copies of the outputs, so that a round is longer than the call and fits the first cache


@dataclass(frozen=True, slots=True)
class Timing:
    """A candidate and its time for one run, in seconds."""

    variant: Variant
    seconds: float


def candidates(program: Program, element: str, row: isa.ISA) -> list[Variant]:
    """The variants worth timing, the default one first."""
    with sets.LOCK:
        lowered = lower(program)
    first = generate.default(lowered, row.lanes(element))
    found = [first]
    width = row.lanes(element)
    while width >= 1:
        flat = generate.work(lowered, width) <= generate.FLAT_LIMIT
        for rows, vectors in TILES if width == row.lanes(element) else NARROW_TILES:
            for rolled in (False, True) if flat and generate.work(lowered, width) > 200 else (not flat,):
                found.append(Variant(width, rows, vectors, rolled))
        width = width // 2 if width > 2 else width - 1
        if generate.work(lowered, max(width, 1)) > generate.FLAT_LIMIT // 4 and width < row.lanes(element) // 2:
            break
    return list(dict.fromkeys(found))


def measure(kernel: structured.Kernel, arrays: dict[str, Any], rounds: int = ROUNDS) -> float:
    """The least time of one run over many rounds, in seconds. The arrays are not changed."""
    written = kernel.program.written
    size = sum(arrays[name].nbytes for name in written)
    batch = max(OUTPUT_BYTES // max(size, 1), 1)
    given, originals = [], []
    for operand in kernel.program.operands:
        array = arrays[operand.name].reshape(driver.array_shape(operand))
        if operand.name in written:
            originals.append((array, np.empty((batch, *array.shape), array.dtype)))
            array = originals[-1][1]
        given.append(array)
    best = float("inf")
    for _ in range(rounds):
        for original, used in originals:
            used[...] = original
        start = time.perf_counter()
        kernel(*given)
        best = min(best, time.perf_counter() - start)
    return best / batch


def tune(program: Program, dtype: Any, target: str = "host", seconds: float = SECONDS) -> list[Timing]:
    """The candidates' timings, the fastest first; no new candidate is begun after `seconds`."""
    element = structured.ELEMENTS[np.dtype(dtype)]
    row = structured.host() if target == "host" else isa.isa_named(target)
    arrays = reference.sample(program, dtype)
    started = time.perf_counter()
    timings: list[Timing] = []
    for variant in candidates(program, element, row):
        if timings and time.perf_counter() - started > seconds:
            break
        kernel = structured.compile(program, dtype=dtype, target=target, variant=variant, cache=None)
        timings.append(Timing(variant, measure(kernel, arrays)))
    return sorted(timings, key=lambda timing: timing.seconds)


def tuned(program: Program, dtype: Any, target: str, store: Cache | None) -> Variant:
    """The best variant: the remembered one if this program was tuned on this processor before."""
    digest = structured.digest(program, np.dtype(dtype), "", target, "tuned")
    known = store.read(digest) if store is not None else None
    if known is not None:
        return Variant(**json.loads(known))
    best = tune(program, dtype, target)[0].variant
    if store is not None:
        store.write(digest, json.dumps(structured.fields(best)).encode())
    return best
