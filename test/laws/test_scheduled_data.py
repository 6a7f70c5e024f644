"""Random products with data in places, steps and branches: a schedule keeps values, or names a line in its way."""

import random
import re

import pytest
from data_programs import drawn, kernel_of, run
from tiled_products import interpreted

from lego_mlir.errors import ScheduleError

FEW, MANY, PART = 14, 600, 50
KEPT_IN_CLUSTERS = (19, 28)
"""Seeds of kernels that clusters take."""
OTHER_TILES = 55
"""A seed whose values are wrong where data of each block is taken for common."""


def judge(seed):
    """What became of a drawn kernel: its schedules, or where one refused it."""
    program = drawn(random.Random(seed))
    kernel = kernel_of(program)
    try:
        kernel = kernel.schedule(program.schedule)
    except ScheduleError as error:
        assert re.match(r".*data_programs\.py:\d+: ", str(error)), error
        return "refused"
    assert run(program, kernel, interpreted, seed) == ([], 0), f"seed {seed}: {program}"
    return kernel.schedules


@pytest.mark.parametrize("seed", [*range(FEW), OTHER_TILES])
def test_a_schedule_keeps_values_or_refuses_by_the_line(seed):
    judge(seed)


@pytest.mark.parametrize("seed", KEPT_IN_CLUSTERS)
def test_clusters_take_data_that_blocks_have_in_common(seed):
    assert any("clusters" in name for name in judge(seed))


@pytest.mark.parametrize("seed", range(4))
def test_a_kernel_without_schedules_is_what_numpy_computes(seed):
    program = drawn(random.Random(seed))
    assert run(program, kernel_of(program), interpreted, seed) == ([], 0)


@pytest.mark.long
@pytest.mark.parametrize("part", range(MANY // PART))
def test_many_schedules_keep_values(part):
    for seed in range(FEW + PART * part, FEW + PART * (part + 1)):
        judge(seed)
