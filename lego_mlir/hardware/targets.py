"""GPU architectures, one table row each.

Target differences are data, not branches: the compiler reads limits from the row, and supporting a new GPU adds a row.

>>> target = target_named("sm_90a")
>>> target.cpu, target.features, target.shared_per_block
('sm_90a', '+ptx86', 232448)
>>> target_named("sm_70")  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
lego_mlir.errors.UsageError: unknown target 'sm_70'; known: sm_75, sm_80, sm_86, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import UsageError

KiB: Final = 1024


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU architecture.

    `ptx` is the PTX ISA version that is emitted, times ten: the oldest that supports the architecture (PTX ISA,
    "Release Notes") and the instructions used here, so that the PTX loads on older drivers. Shared memory is in bytes:
    `shared_per_block` is the dynamic limit of one block, from sm_80 on 1 KiB below that of the SM, which the system
    reserves (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    """

    name: str
    ptx: int
    shared_per_sm: int
    shared_per_block: int

    @property
    def cpu(self) -> str:
        """LLVM's processor name."""
        return self.name

    @property
    def features(self) -> str:
        """LLVM's feature string, which selects the PTX version."""
        return f"+ptx{self.ptx}"

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor version as reported by the driver: (9, 0) for sm_90a."""
        digits = self.name.removeprefix("sm_").rstrip("a")
        return int(digits[:-1]), int(digits[-1])

    @property
    def has_f8_conversions(self) -> bool:
        """Whether `cvt` converts pairs to and from f8 (PTX ISA, "cvt": sm_90 since PTX 7.8, sm_89 since PTX 8.1)."""
        return self.compute_capability >= (8, 9)

    @property
    def has_short_conversions(self) -> bool:
        """Whether `cvt` converts pairs to f6 and f4 (PTX ISA, "cvt": from sm_100 on, of architecture-specific code)."""
        return self.specific and self.compute_capability >= (10, 0)

    @property
    def has_warpgroup_products(self) -> bool:
        """Whether `wgmma` exists (PTX ISA, "wgmma.mma_async": of sm_90a alone)."""
        return self.name == "sm_90a"

    @property
    def specific(self) -> bool:
        """Whether the code runs only on exactly this architecture (`sm_90a`)."""
        return self.name.endswith("a")


TARGETS: Final[dict[str, Target]] = {
    row.name: row
    for row in (
        #      name       PTX  shared per SM  per block
        Target("sm_75", 70, 64 * KiB, 64 * KiB),
        Target("sm_80", 80, 164 * KiB, 163 * KiB),
        Target("sm_86", 80, 100 * KiB, 99 * KiB),
        Target("sm_87", 80, 164 * KiB, 163 * KiB),
        Target("sm_89", 81, 100 * KiB, 99 * KiB),
        Target("sm_90", 80, 228 * KiB, 227 * KiB),
        Target("sm_90a", 86, 228 * KiB, 227 * KiB),
        Target("sm_100", 86, 228 * KiB, 227 * KiB),
        Target("sm_100a", 86, 228 * KiB, 227 * KiB),
        Target("sm_103a", 88, 228 * KiB, 227 * KiB),
        Target("sm_120", 87, 100 * KiB, 99 * KiB),
        Target("sm_120a", 87, 100 * KiB, 99 * KiB),
        Target("sm_121", 88, 100 * KiB, 99 * KiB),
        Target("sm_121a", 88, 100 * KiB, 99 * KiB),
    )
}


def target_named(name: str | Target) -> Target:
    """The row with this name. Raises UsageError, which lists the known ones."""
    if isinstance(name, Target):
        return name
    if name not in TARGETS:
        raise UsageError(f"unknown target {name!r}; known: {', '.join(TARGETS)}")
    return TARGETS[name]
