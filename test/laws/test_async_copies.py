"""Asynchronous copies by their definition, on random sequences of copies, commits, waits, barriers and looks.

All threads run the same steps. A copy is in flight from its issue until a wait of its thread covers its group; any
other access to its destination in between is a fault. From the wait on it is a write of its thread, made at the wait.
"""

import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.interp import Kind

THREADS, SLOTS = 32, 3
CASES, MANY = 80, 2000
SHARED = "#gpu.address_space<workgroup>"
TILE, SOURCE = f"memref<{SLOTS}x{4 * THREADS}xf32, {SHARED}>", f"memref<{4 * THREADS}xf32>"

Steps = list[tuple[str, int, int]]


def draw(seed: int) -> Steps:
    """(what, slot or number of groups, whether the neighbour's place)."""
    rng = np.random.default_rng(seed)
    steps: Steps = []
    for _ in range(int(rng.integers(3, 12))):
        what = str(rng.choice(["copy", "commit", "wait", "barrier", "look"], p=[0.3, 0.2, 0.2, 0.15, 0.15]))
        steps.append((what, int(rng.integers(0, SLOTS)), int(rng.random() < 0.4)))
    return steps


def text(steps: Steps) -> str:
    lines = ["%g0 = nvgpu.device_async_create_group {}"]
    groups, pending = 0, []
    for i, (what, n, neighbour) in enumerate(steps):
        place = "%next" if neighbour else "%own"
        match what:
            case "copy":
                lines.append(f"%c{i} = nvgpu.device_async_copy %x[%own], %s[%slot{n}, {place}], 4 : {SOURCE} to {TILE}")
                pending.append(f"%c{i}")
            case "commit":
                groups += 1
                lines.append(f"%g{groups} = nvgpu.device_async_create_group {', '.join(pending)} {{}}")
                pending = []
            case "wait":
                lines.append(f"nvgpu.device_async_wait %g{groups} {{numGroups = {n} : i32}}")
            case "barrier":
                lines.append("gpu.barrier")
            case _:
                lines.append(f"%v{i} = memref.load %s[%slot{n}, {place}] : {TILE}")
    return f"""gpu.module @m {{ gpu.func @k(%x: {SOURCE}) workgroup(%s: {TILE}) kernel {{
        %t = gpu.thread_id x
        %own = affine.apply affine_map<(d0) -> (d0 * 4)>(%t)
        %next = affine.apply affine_map<(d0) -> ((d0 * 4 + 4) mod {4 * THREADS})>(%t)
        {"".join(f"%slot{n} = arith.constant {n} : index " for n in range(SLOTS))}
        {chr(10).join(lines)}
        gpu.return }} }}"""


def by_definition(steps: Steps) -> set[Kind]:
    """Step by step for thread 0, whose neighbour is 1; every thread is like it, so its places tell of all.

    A place of a slot is known by whose it is: "own" is written by thread 0 (at its own place) or by the thread before
    it (which writes its neighbour's place); by symmetry it is enough to say which of the two.
    """
    found: set[Kind] = set()
    epoch = 0
    flying: list[tuple[int, int, int | None]] = []  # slot, who (0: its owner, 1: the thread before), group
    written: dict[int, tuple[int, int]] = {}  # slot -> who, epoch
    looked: dict[int, set[tuple[int, int]]] = {}  # slot -> who, epoch
    groups = 1
    for what, n, who in steps:
        match what:
            case "commit":
                flying = [(s, w, groups if g is None else g) for s, w, g in flying]
                groups += 1
            case "wait":
                for slot, writer, group in flying:
                    if group is not None and group < groups - n:
                        written[slot] = (writer, epoch)
                flying = [f for f in flying if f[2] is None or f[2] >= groups - n]
            case "barrier":
                epoch += 1
            case _:
                in_flight = any(slot == n for slot, _, _ in flying)
                before = written.get(n)
                racing = before is not None and before[1] == epoch and before[0] != who
                if in_flight:
                    found.add(Kind.PENDING)
                elif what == "look" and before is None:
                    found.add(Kind.UNINITIALISED)
                elif racing:
                    found.add(Kind.RACE)
                if what == "look":
                    looked.setdefault(n, set()).add((who, epoch))
                else:
                    if any(e == epoch and w != who for w, e in looked.get(n, ())):
                        found.add(Kind.RACE)
                    flying.append((n, who, None))
    return found


def check(seed: int) -> set[Kind]:
    steps = draw(seed)
    report = interp.launch(text(steps), grid=1, block=THREADS, args=[np.zeros(4 * THREADS, np.float32)])
    expected = by_definition(steps)
    assert report.kinds() == expected, (seed, steps, report.faults)
    return expected


def test_copies_land_at_their_wait():
    kinds = [check(seed) for seed in range(CASES)]
    for kind in (Kind.PENDING, Kind.UNINITIALISED, Kind.RACE):
        assert any(kind in found for found in kinds)
    assert any(not found for found in kinds)


@pytest.mark.long
def test_many_sequences():
    for seed in range(CASES, MANY):
        check(seed)
