"""A product by everything that its kernel depends on, one or many, whatever is fused into it.

m, n, k, types, orders      of one product; of `groups`, m counts all rows, and of `batch`, those of all matrices
epilogue, exact, rounded    what is fused, steps after which sums are promoted, rounding to TF32
target, multiprocessors     the device
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.kernels import aligned_products
from lego_mlir.kernels.aligned_products import WideProduct
from lego_mlir.runtime.calls import target_for

if TYPE_CHECKING:
    from lego_mlir.choices.product_device import ProductDevice
    from lego_mlir.hardware.device_numbers import DeviceNumbers
    from lego_mlir.kernels.fused_epilogues import FusedEpilogue, FusedParts
    from lego_mlir.runtime.arrays import Device

WARPGROUP_TARGET: Final = "sm_90a"
LEAST: Final = 80
"""The compute capability from which cp.async, ldmatrix and mma.sync m16n8k16 are there."""
INPUTS: Final = {"float16": "f16", "bfloat16": "bf16"}
F8: Final = {"float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}
OTHER_INPUTS: Final = {**F8, "int8": "i8", "float32": "f32"}
RESULTS: Final = {**INPUTS, "float32": "f32"}
LINE: Final = 64
"""Elements of 16 bits of a line of the L2 cache, 128 bytes."""
FOLDER: Final = "LEGO_MLIR_KERNELS"
"""The environment variable that names a folder of packed kernels."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A product; `layouts` is NN, NT, TN or TT, T for columns.

    `multiprocessors` of the device count where the blocks of a kernel are persistent; so do `clusters`, those of 2, 4
    and 8 blocks that it runs at the same time, and its `numbers`, where they are known. Of a `batch` or of `groups`,
    `whole_lines` tells whether rows in memory begin at lines of the L2 cache. Groups of TN divide K, those of other
    orders M.
    """

    m: int
    n: int
    k: int
    dtype: str
    result: str
    layouts: str
    target: str
    multiprocessors: int
    clusters: tuple[int, ...] = ()
    epilogue: FusedEpilogue | None = None
    exact: int = 0
    rounded: bool = False
    batch: int = 0
    groups: int = 0
    whole_lines: bool = True
    numbers: DeviceNumbers | None = None

    @property
    def name(self) -> str:
        """The name of its kernel in a folder of packed ones; the number of multiprocessors only tunes it."""
        return f"matmul_{self.m}x{self.n}x{self.k}_{self.dtype}_{self.result}_{self.layouts}{self.parts}"

    @property
    def parts(self) -> FusedParts:
        """What differs from a plain product."""
        from lego_mlir.kernels.fused_epilogues import FusedParts

        return FusedParts(self.epilogue, self.exact, self.rounded)

    @property
    def result_bytes(self) -> int:
        """Bytes of an element of the result."""
        return {"f16": 2, "bf16": 2, "f32": 4, "i32": 4}.get(self.result, 1)

    @property
    def size(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.m, self.n, self.k

    @property
    def place(self) -> ProductDevice:
        """The device as the choice of tiles has it."""
        from lego_mlir.choices.product_device import device_for, device_with

        return device_with(self.multiprocessors) if self.numbers is None else device_for(self.numbers)

    def of_size(self, m: int, n: int, k: int) -> Problem:
        """The same product of other sizes."""
        return replace(self, m=m, n=n, k=k)

    def wide(self) -> WideProduct | None:
        """The product on aligned copies that is computed instead, None where there are none or they do not pay.

        Only warpgroups promote sums, so that odd products with such sums are always computed on copies.
        """
        if self.exact:
            return aligned_products.widened(*self.size, self.layouts)
        wide = aligned_products.widened(*self.size, self.layouts, results=self.target == WARPGROUP_TARGET)
        return wide if wide is not None and aligned_products.pays(*self.size, wide) else None


def kernels_folder(given: str | Path | None) -> Path | None:
    """The folder of packed kernels, None where none is named."""
    named = os.environ.get(FOLDER) if given is None else given
    return Path(named) if named else None


def place_of(device: Device) -> tuple[str, int]:
    """The target to compile for on a device, and its number of multiprocessors; of the host, none."""
    if device[0] != "cuda":
        return "", 0
    from lego_mlir.runtime.driver import MULTIPROCESSORS, driver

    return target_of(driver().capability(device[1])), driver().attribute(device[1], MULTIPROCESSORS)


def numbers_of(device: Device) -> DeviceNumbers | None:
    """The numbers of a device, where its driver tells them."""
    if device[0] != "cuda":
        return None
    from lego_mlir.runtime.driver import driver

    return driver().numbers(device[1])


def clusters_of(device: Device) -> tuple[int, ...]:
    """The clusters of 2, 4 and 8 blocks that a device runs at the same time; none without clusters."""
    if device[0] != "cuda":
        return ()
    from lego_mlir.runtime.driver import driver

    return driver().clusters_at_once(device[1])


def has_whole_lines(*pitches: int) -> bool:
    """Whether rows of 16-bit elements at these distances begin at lines of the L2 cache."""
    return all(pitch % LINE == 0 for pitch in pitches)


def target_of(capability: str) -> str:
    """The target to compile for on a device of this compute capability: its own, or the newest one before it."""
    if capability == WARPGROUP_TARGET.removeprefix("sm_").rstrip("a"):
        return WARPGROUP_TARGET
    if int(capability) < LEAST:
        raise UsageError(f"matmul needs a device of compute capability {LEAST} or later, and this one is {capability}")
    return target_for(capability)
