"""A device as the model of time of products has it: constants that were fitted to runs, from the device's file.

`bench/product_fit.py fit` writes them (`hardware.devices`), with their run, date and sources.

>>> REFERENCE_DEVICE.sms, device_with(108).sms, device_with(108) is device_with(108)
(132, 108, True)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from lego_mlir.aliases import Json
from lego_mlir.choices.product_tile import Family
from lego_mlir.hardware import devices
from lego_mlir.hardware.device_numbers import DeviceNumbers
from lego_mlir.hardware.devices import REFERENCE, constants_of, numbers_of

LOG: Final = logging.getLogger(__name__)

Launches = Literal["flushed", "steady", "rotated"]


@dataclass(frozen=True, slots=True)
class MatrixPath:
    """Constants of one family, in clocks of an SM.

    `matrix` of an m16n8k16, `issue` of a warp's copy, `shared` of a wavefront, `row` of 128 bytes that arrives, `line`
    and `sector` of a further one that an unaligned row touches; `wait` of a step and `chain` of each 16 of its depth
    for a block that is alone; `fill` before its first step, `drain` after its last, `store` of a sector of C. Of parts
    of K, in microseconds: `arrival` of another part, and `sum` of 1024 elements; `publish` of a cluster's sums for
    others, and `gather` of 1024 of theirs. `held` are the stages that products occupy. `matrix_power`, `line_power` and
    `shared_power` are clocks at the power limit. `units` joins the units of a step, `waits` the step and its latency,
    `limits` SMs, power, DRAM and L2. The copies of an SM fetch `reach` bytes a microsecond from DRAM, at most.
    """

    matrix: float
    issue: float
    shared: float
    row: float
    line: float
    sector: float
    wait: float
    chain: float
    fill: float
    drain: float
    store: float
    arrival: float
    sum: float
    held: float
    matrix_power: float
    line_power: float
    shared_power: float
    units: float
    waits: float
    limits: float
    publish: float = 0.0
    gather: float = 0.0
    reach: float = 1e9


@dataclass(frozen=True, slots=True)
class LaunchKind:
    """How a product is launched: microseconds to start, and to start a dependent kernel.

    `power` scales the time at the power limit. `cold_a` and `cold_b` are the least shares of A and B that come from
    DRAM, and `dirty` the bytes of L2 that are written back to make room for them.
    """

    start: float
    early: float
    power: float
    cold_a: float
    cold_b: float
    dirty: float


@dataclass(frozen=True, slots=True)
class ChoiceRules:
    """Rules of the choice for what the model does not explain; docs/results/product-choices.md has the runs.

    Shares of multiprocessors that blocks use at least: `least_filled` of parts of K, `transposed_filled` of
    transposed products of few rows. Predicted times of more than 64 rows are scaled by `parted_row` where one row of
    tiles has K in 2 parts, by `parted_rows` with other parts; of `few_rows`, that many at most, and that many
    elements of B at least, by `few_shared` for each doubling of a cluster along M, and along N, where blocks fill
    `few_filled` of the multiprocessors; and by `shared_gain` in clusters of 4 and 8 blocks, considered where M N K is
    in `shared_work`, and of 8-bit types in those of 2.
    Relative to others, tiles are taken from `parted_gain` with parts of K, `newer_gain` if transposed or unevenly
    shared, and `shallow_gain` with few stages. `beside` microseconds less takes an 8-bit product that leaves room for
    the next launch, whose clusters begin with more than `most_sharing` rows of tiles. From `large` elements of C for
    each multiprocessor, power alone limits a product of whole lines. `tall_columns` are the most of a tile of 256
    rows, without operands of an epilogue and with. K is split among `least_splits` clusters. Producers meet every
    `meeting` steps from `least_rounds` tiles of a block, where rows are whole lines and otherwise; groups of other
    heights are taken if they read `clearly` less. Products that take less than `short` microseconds begin while the
    kernel before them runs.
    """

    least_filled: float
    transposed_filled: float
    parted_row: float
    parted_rows: float
    few_rows: tuple[int, int]
    few_shared: tuple[float, float]
    few_filled: float
    shared_gain: Mapping[int, float]
    shared_work: tuple[int, int]
    parted_gain: float
    newer_gain: float
    shallow_gain: float
    beside: float
    most_sharing: int
    large: int
    tall_columns: tuple[int, int]
    least_splits: int
    meeting: int
    least_rounds: tuple[int, int]
    clearly: float
    short: float


@dataclass(frozen=True, slots=True)
class RolePath:
    """Clocks of an SM for batched and grouped products.

    It multiplies `products` pairs of 16-bit numbers in a clock, `slower` in the tiles that are named; `line` of 128
    bytes from the L2 cache, and `wait` of a tile before its first products and after its last, while none runs.
    Batches that take less than `short` clocks begin while the kernel before them runs.
    """

    products: int
    slower: Mapping[str, float]
    line: float
    wait: float
    short: float


@dataclass(frozen=True, slots=True)
class ScaledPath:
    """What products with scales of blocks take besides those of `RolePath`, 8-bit products at twice the rate.

    `products` and `line` are factors on its clocks; a step takes `step` clocks more, `total` for each total that a
    thread adds to, and `select` where the scale of a column is chosen among those of several blocks. `wait` and `parts`
    are factors on the clocks around a tile, and on the microseconds that parts of K take.
    """

    products: float
    line: float
    step: float
    total: float
    select: float
    wait: float
    parts: float


@dataclass(frozen=True, slots=True, eq=False)
class ProductDevice:
    """A device: its SMs, clocks a microsecond, bytes a microsecond of DRAM, lines a microsecond of L2 and its bytes.

    `latency` of memory for a step, in L2, and `cold` more in DRAM, in microseconds; `cluster` what a launch in clusters
    takes besides. `dram_power` are microseconds of a byte at the power limit; `drift` how often a wave reads its bytes
    again without lockstep, as far as they do not fit L2: blocks begin together, and drift apart from tile to tile.
    `rounds` is the exponent that joins resident blocks. Clusters of 4 and 8 blocks, whose blocks are neighbours, reach
    the share `reached` of the SMs. Devices are equal if they are the same one: `device_with` keeps them.
    """

    sms: int
    frequency: float
    dram: float
    l2: float
    l2_bytes: float
    latency: float
    cold: float
    cluster: float
    dram_power: float
    drift: float
    rounds: float
    launches: Mapping[Launches, LaunchKind]
    paths: Mapping[Family, MatrixPath]
    reached: Mapping[int, float]
    choice: ChoiceRules
    roles: RolePath
    scaled: ScaledPath


def device_from(constants: Json) -> ProductDevice:
    """The device from JSON data, whose names of numbers are text."""
    launches = {name: LaunchKind(**values) for name, values in constants["launches"].items()}
    paths = {name: MatrixPath(**values) for name, values in constants["paths"].items()}
    rules: Json = {name: _value(value) for name, value in constants["choice"].items()}
    given: Json = {"launches": launches, "paths": paths, "reached": _value(constants["reached"])}
    return ProductDevice(
        **{
            **constants,
            **given,
            "choice": ChoiceRules(**rules),
            "roles": RolePath(**constants["roles"]),
            "scaled": ScaledPath(**constants["scaled"]),
        }
    )


def _value(value: object) -> object:
    """A list as a tuple, and the keys of a table as numbers."""
    if isinstance(value, dict):
        return {int(key): one for key, one in value.items()}
    return tuple(value) if isinstance(value, list) else value


REFERENCE_DEVICE: Final = device_from(devices.reference("products"))
"""That of a choice where no device is given."""


@cache
def device_with(multiprocessors: int) -> ProductDevice:
    """The reference with this many multiprocessors, of which nothing else is known."""
    of = REFERENCE_DEVICE
    return of if multiprocessors == of.sms else replace(of, sms=multiprocessors)


@cache
def device_for(numbers: DeviceNumbers) -> ProductDevice:
    """A device by its numbers: the constants of its file, or the reference's, scaled to its clocks, DRAM and L2.

    >>> other = device_for(DeviceNumbers("another device", 132, 1980.0, 3.36e6, 50_000_000))
    >>> other.frequency == REFERENCE_DEVICE.frequency, round(other.dram / REFERENCE_DEVICE.dram, 3)
    (True, 0.7)
    """
    if "products" in devices.file_of(numbers.name):
        fitted = REFERENCE_DEVICE if numbers.name == REFERENCE else device_from(constants_of(numbers.name, "products"))
        return fitted if numbers.multiprocessors == fitted.sms else replace(fitted, sms=numbers.multiprocessors)
    LOG.info("%s: no constants were fitted to it; tiles are chosen by the model with its own numbers", numbers.name)
    of, fitted = numbers_of(REFERENCE), REFERENCE_DEVICE
    return replace(
        fitted, sms=numbers.multiprocessors, frequency=fitted.frequency * numbers.mhz / of.mhz,
        dram=fitted.dram * numbers.bandwidth / of.bandwidth, l2_bytes=fitted.l2_bytes * numbers.l2_bytes / of.l2_bytes,
    )  # fmt: skip
