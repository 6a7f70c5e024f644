"""The race check agrees with the definition, on random sequences of accesses.

A kernel of a few loads, stores, atomic updates and barriers takes its addresses, and which lanes take part, from
tables. Brute force looks at every pair of accesses to an element: a race if one writes, not both are atomic, and they
are by two blocks, or by two threads of one block with no barrier between.
"""

from itertools import combinations

import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.interp import Kind

THREADS = 40
ELEMENTS = 64
CASES, MANY = 60, 1500


def kernel(steps: list[str], blocks: int, shared: bool) -> str:
    memory = f"memref<{ELEMENTS}xi32, #gpu.address_space<workgroup>>" if shared else f"memref<{ELEMENTS}xi32>"
    table = f"memref<{len(steps)}x{blocks}x{THREADS}xindex>"
    flags = f"memref<{len(steps)}x{blocks}x{THREADS}xi1>"
    lines = []
    for i, step in enumerate(steps):
        access = {
            "read": f"%v{i} = memref.load %m[%a{i}] : {memory}",
            "write": f"memref.store %one, %m[%a{i}] : {memory}",
            "atomic": f"%v{i} = memref.atomic_rmw addi %one, %m[%a{i}] : (i32, {memory}) -> i32",
        }.get(step)
        if access is None:
            lines.append("gpu.barrier")
            continue
        lines.append(f"""%s{i} = arith.constant {i} : index
            %a{i} = memref.load %table[%s{i}, %b, %t] : {table}
            %f{i} = memref.load %flags[%s{i}, %b, %t] : {flags}
            scf.if %f{i} {{ {access} }}""")
    where = f"workgroup(%m: {memory})" if shared else ""
    argument = "" if shared else f", %m: {memory}"
    return f"""gpu.module @m {{ gpu.func @k(%table: {table}, %flags: {flags}{argument}) {where} kernel {{
        %t = gpu.thread_id x
        %b = gpu.block_id x
        %one = arith.constant 1 : i32
        {chr(10).join(lines)}
        gpu.return }} }}"""


def has_race(steps: list[str], table: np.ndarray, flags: np.ndarray, shared: bool) -> bool:
    """By the definition, over all pairs of accesses to each element."""
    accesses: dict[tuple, list[tuple[int, int, int, str]]] = {}
    epoch = 0
    for i, step in enumerate(steps):
        if step == "barrier":
            epoch += 1
            continue
        for block, thread in np.argwhere(flags[i]):
            element = (int(block) if shared else 0, int(table[i, block, thread]))
            accesses.setdefault(element, []).append((int(block), epoch, int(thread), step))
    for found in accesses.values():
        for (block, epoch, thread, step), (other_block, other_epoch, other_thread, other) in combinations(found, 2):
            harmless = step == other and step in ("read", "atomic")
            ordered = block == other_block and (epoch != other_epoch or thread == other_thread)
            if not harmless and not ordered:
                return True
    return False


def check(seed: int) -> bool:
    rng = np.random.default_rng(seed)
    blocks, shared = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    steps = [str(s) for s in rng.choice(["read", "write", "atomic", "barrier"], int(rng.integers(2, 7)))]
    shape = (len(steps), blocks, THREADS)
    own = np.broadcast_to(np.arange(THREADS), shape)
    style = rng.integers(0, 4)
    table = rng.integers(0, ELEMENTS, shape) if style == 0 else own.copy()
    if style >= 2:  # each thread its own element, but for a few
        some = rng.random(shape) < 0.02
        table = np.where(some, rng.integers(0, ELEMENTS, shape), table)
    if style == 3 and shared:  # the same in all blocks
        table = np.repeat(table[:, :1], blocks, axis=1)
    flags = rng.random(shape) < rng.choice([0.05, 0.5, 1.0])
    if not shared and rng.random() < 0.5:  # blocks apart, as far as the elements go
        table = table % (ELEMENTS // blocks) + (ELEMENTS // blocks) * np.arange(blocks).reshape(1, -1, 1)
    arguments = [table, flags, *([] if shared else [np.zeros(ELEMENTS, np.int32)])]
    limit = 1 << 30 if rng.random() < 0.5 else 1
    report = interp.launch(
        kernel(steps, blocks, shared), grid=blocks, block=THREADS, args=arguments, memory_limit=limit
    )
    assert report.kinds() <= {Kind.RACE, Kind.UNINITIALISED}
    expected = has_race(steps, table, flags, shared)
    assert (Kind.RACE in report.kinds()) == expected, (seed, steps, report.faults)
    return expected


@pytest.mark.parametrize("start", range(0, CASES, 20))
def test_races_are_found_where_they_are_and_nowhere_else(start: int):
    racing = [check(seed) for seed in range(start, start + 20)]
    assert any(racing)
    assert not all(racing)


@pytest.mark.long
def test_races_in_many_sequences():
    assert 0.2 < np.mean([check(seed) for seed in range(CASES, MANY)]) < 0.8
