"""The time model of products: its laws, and its choices at all sizes that were recorded."""

import math
from dataclasses import replace

import product_fit as fit
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.choices.product_counts import ProductSize, counts_of, touched
from lego_mlir.choices.product_device import REFERENCE_DEVICE, device_with
from lego_mlir.choices.product_tile import ProductTile, warpgroup_tile
from lego_mlir.choices.product_time import at_least, at_most, joined, product_time, share
from lego_mlir.choices.warp_tiles import CANDIDATES
from lego_mlir.choices.warpgroup_tiles import WHOLE, Wanted, tile_of

SIZES = st.integers(1, 9000)
GOOD = 1.05
SIZES_WITHIN = {
    "product_tuning": (38, 39),
    "tuning_spaces": (18, 20),
    "choice_check 0": (30, 30),
    "small_parts": (30, 30),
    "few_rows": (22, 26),
    "product_choices 2026-11-23": (38, 48),
    "product_sizes 2026-11-30": (159, 196),
}
"""At how many sizes of a recorded run the choice is within 5 % of the best, of how many."""


@given(st.lists(st.just(0.0) | st.floats(1e-6, 1e12), min_size=1, max_size=4).map(tuple), st.floats(1, 20))
def test_joined_times_lie_between_the_largest_and_the_sum(parts, exponent):
    time = joined(parts, exponent)
    assert max(parts) * (1 - 1e-9) <= time <= sum(parts) * (1 + 1e-9)


@given(st.integers(1, 40), st.integers(1, 300), st.sampled_from((32, 128)))
def test_units_that_rows_touch_are_the_mean_over_all_alignments(words, pitch, unit):
    size, pitch = words * math.gcd(pitch * 2, unit), pitch * 2
    starts = [row * pitch for row in range(unit)]
    mean = sum((start + size - 1) // unit - start // unit + 1 for start in starts) / len(starts)
    assert touched(size, pitch, unit) == pytest.approx(mean)


@given(SIZES, SIZES, SIZES, st.sampled_from(CANDIDATES))
def test_a_deeper_product_takes_longer_and_all_parts_are_finite(m, n, k, block):
    shallow, deep = (product_time(ProductSize(m, n, depth), block) for depth in (k, 4 * k + 256))
    assert 0 < shallow.microseconds < deep.microseconds < math.inf
    assert shallow.microseconds >= REFERENCE_DEVICE.launches["flushed"].start


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_bounds_without_branches_are_those_of_python(value, bound):
    assert at_least(value, bound) == pytest.approx(max(value, bound))
    assert at_most(value, bound) == pytest.approx(min(value, bound))
    assert share(value) == pytest.approx(min(max(value, 0), 1))


@given(SIZES, SIZES, SIZES, st.sampled_from(CANDIDATES))
def test_a_flushed_launch_takes_longest_and_a_steady_one_least_of_dram(m, n, k, block):
    flushed, steady, rotated = (
        product_time(ProductSize(m, n, k), block, launches=kind) for kind in ("flushed", "steady", "rotated")
    )
    assert steady.dram <= rotated.dram <= flushed.dram
    assert flushed.sm >= steady.sm


def test_waves_that_drift_apart_read_more_than_those_in_lockstep():
    block = warpgroup_tile(128, 256, 4)
    product = ProductSize(16384, 16384, 16384)
    apart, together = (product_time(product, replace(block, lockstep=lockstep)).dram for lockstep in (0, 32))
    assert apart > 2.5 * together > 2.5 * product.moved / REFERENCE_DEVICE.dram
    few = ProductSize(64, 16384, 16384)
    apart, together = (product_time(few, replace(block, lockstep=lockstep)).dram for lockstep in (0, 32))
    assert apart == together  # B is read once, and A stays in L2


def test_parts_shorten_few_tiles_and_cost_sums():
    block, few = ProductTile(16, 64, 128, (1, 4), 5), ProductSize(16, 1024, 8192, "NT")
    times = [product_time(few, replace(block, parts=parts), launches="rotated").microseconds for parts in (1, 4, 8, 64)]
    assert times[0] > times[1] > times[2] < times[3]


def test_the_limit_of_power_depends_on_the_launches():
    block = warpgroup_tile(128, 256, 4)
    times = [product_time(ProductSize(8192, 8192, 8192), block, launches=kind) for kind in ("steady", "flushed")]
    assert times[0].power > times[0].sm
    assert times[1].power < times[0].power


def test_one_tile_more_than_the_device_holds_costs_a_round():
    block = warpgroup_tile(128, 256, 4)
    one, more = (product_time(ProductSize(128 * tiles, 256, 4096), block) for tiles in (132, 133))
    assert one.waves == 1
    assert more.sm > 1.9 * one.sm


def counted(product, block, sms=132):
    return counts_of(product, block, device_with(sms))


def test_rows_that_are_not_whole_lines_and_tiles_within_a_line_touch_more_lines():
    block = warpgroup_tile(128, 256, 4)
    aligned, odd = (counted(ProductSize(4096, n, 4096), block) for n in (4096, 4104))
    assert aligned.split_lines == aligned.split_sectors == 0 < odd.split_sectors < odd.split_lines
    assert odd.lines > 1.4 * aligned.lines
    between = counted(ProductSize(4096, 5120, 4096), replace(block, n=160))  # 320 bytes: lines and a half
    assert between.split_sectors == 0
    assert between.lines == pytest.approx(128 + 3 * 64 * 1.5)
    assert between.rows == 128 + 3 * 64


def test_tiles_that_begin_within_a_sector_are_slower():
    """As measured at 2560: tiles of 200 columns take 1.5 times as long where their rows are along N."""
    block = warpgroup_tile(128, 200, 4)
    along_k, along_n = (product_time(ProductSize(2560, 2560, 2560, layouts), block) for layouts in ("NT", "NN"))
    assert along_n.microseconds > 1.15 * along_k.microseconds
    assert counted(ProductSize(2560, 2560, 2560), block).split_sectors > 0
    assert counted(ProductSize(2560, 2560, 2560), replace(block, n=208)).split_sectors == 0


def test_a_transposed_operand_is_fetched_along_its_rows():
    block = CANDIDATES[0]
    rows = counted(ProductSize(4096, 1000, 4096, "NN"), block).lines
    columns = counted(ProductSize(4096, 1000, 4096, "NT"), block).lines
    assert columns < rows  # rows of K are whole lines, rows of 1000 are not


def test_a_cluster_fetches_what_its_blocks_share_once_and_counts_whole_clusters():
    alone = warpgroup_tile(128, 256, 4)
    for cluster, lines in (((2, 1), 128 + 4 * 32), ((1, 2), 64 + 4 * 64)):
        even, odd = (
            counted(ProductSize(tiles * 128, tiles * 256, 4096), replace(alone, cluster=cluster), 133)
            for tiles in (6, 5)
        )
        assert even.lines == lines
        assert even.rows == 128 + 4 * 64  # what arrives in shared memory is whole
        assert (even.units, odd.units) == (36, 30)  # six along the axis of the cluster
        assert even.waves == 36 / 132


def test_rows_of_odd_words_take_more_copies():
    copies = [counted(ProductSize(1000, n, 1000), CANDIDATES[0]).copies for n in (1000, 1004, 1002, 1001)]
    assert copies == sorted(copies)
    assert copies[3] > 3 * copies[0]


def test_the_choice_is_within_5_percent_of_the_best_at_most_recorded_sizes():
    found = fit.chosen(REFERENCE_DEVICE, fit.Runs(fit.recorded()))
    for run, (good, of) in SIZES_WITHIN.items():
        assert (fit.good(found, run)[0] >= good, fit.good(found, run)[1]) == (True, of)
    days = {"product_choices": 23, "product_sizes": 30, "product_parts": 30, "product_kinds": 30}
    all_kinds = ("few_rows", *(f"{name} 2026-11-{day}" for name, day in days.items()))
    chosen = [choice for (run, *_), (choice, _) in found.items() if run not in all_kinds]
    assert all(choice.ratio < 1.2 for choice in chosen)


def test_arrays_of_runs_have_the_times_of_each():
    rows = fit.recorded()[::50]
    each = [product_time(row.product, row.tile, launches=row.launches).microseconds for row in rows]
    assert fit.Runs(rows).predicted(REFERENCE_DEVICE).tolist() == pytest.approx(each)


def test_the_fit_finds_constants_that_made_the_times():
    rows = [row for row in fit.recorded() if row.run == "tuning_spaces" and row.ratio < 1.5][::4]
    launches = {**REFERENCE_DEVICE.launches, "flushed": replace(REFERENCE_DEVICE.launches["flushed"], start=7.0)}
    true = replace(REFERENCE_DEVICE, launches=launches)
    times = fit.Runs(rows).predicted(true)
    made = fit.compared([replace(row, us=time) for row, time in zip(rows, times, strict=True)])
    found = fit.fitted(fit.Runs(made), REFERENCE_DEVICE, iterations=8)
    assert found.launches["flushed"].start == pytest.approx(7.0, rel=0.05)
    assert fit.error(found, fit.Runs(made)) < 0.25 * fit.error(REFERENCE_DEVICE, fit.Runs(made))


def test_all_warpgroup_tiles_have_a_time():
    times = [
        product_time(ProductSize(1000, 1000, 1000), tile_of(Wanted(1000, 1000, 1000), sides, cluster))
        for *sides, cluster, _ in WHOLE.each()
    ]
    assert all(time.microseconds > REFERENCE_DEVICE.launches["flushed"].start for time in times)
