"""Law: a schedule of a random loop over tiles keeps all of memory, without a fault, or refuses by the line."""

import random
import re

import numpy as np
import pytest
from loop_programs import drawn, kernel_of, memories

from lego_mlir.errors import ScheduleError, ToolchainError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel

FEW, MANY, PART = 8, 600, 50
EMULATED = 8  # one seed of so many runs in the emulator, too


def judge(seed):
    """What became of a drawn kernel: the schedule that it took, or None."""
    program = drawn(random.Random(seed))
    kernel, before = kernel_of(program), memories(program, seed)
    if not run_kernel(kernel, before, counts=False).clean:
        return None  # two of the drawn uses store one element
    try:
        scheduled = kernel.schedule(program.schedule)
        scheduled.mlir()
    except ScheduleError as error:
        assert re.match(r".*\.py:\d+: ", str(error)), error
        return None
    target = "sm_80" if "ahead" in program.schedule else "sm_90a"
    emulated = PtxRun(target=target)
    for is_emulated in (False, True) if seed % EMULATED == 0 else (False,):
        after = memories(program, seed)
        try:
            report = emulated(scheduled, after, {}) if is_emulated else run_kernel(scheduled, after, counts=False)
        except ToolchainError as error:
            assert is_emulated and "as two parameters" in str(error)  # of a map and of threads' copies
            continue
        assert report.faults == [], f"seed {seed}: {program}"
        differing = [name for name in before if not np.array_equal(before[name], after[name])]
        assert not differing, f"seed {seed}: {program} has other values of {differing}"
    return program.schedule


@pytest.mark.parametrize("seed", range(FEW))
def test_a_schedule_of_a_loop_keeps_memory(seed):
    judge(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
def test_schedules_of_many_loops_keep_memory(part):
    taken = [judge(seed) for seed in range(FEW + PART * part, FEW + PART * (part + 1))]
    assert sum(one is not None for one in taken) > PART // 3
