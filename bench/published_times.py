"""Measured times of stencils and products under column orders, to compare a model with.

`THESIS` are tables 5.1 a, 5.1 b and 5.2 of N. Prasetya, "Improving Cache Performance in Structured GPGPU Workloads via
Specialized Thread Schedules" (2022): milliseconds on an RTX 2080 Super; a line holds the width of the columns and one
time for each block of BLOCKS threads. `H200_GAINS` are times of the naive order over times of columns on an H200, from
naive CUDA kernels with a one-dimensional index, one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLOCKS: Final = (32, 64, 128, 256, 512, 1024)

STENCIL_4096: Final = """
naive 2.02 1.42 1.42 1.46 1.51 1.62
    4 7.61 7.55 7.53 7.48 7.47 7.6
    8 4.09 3.91 3.88 3.84 3.84 3.84
   16 2.17 2.05 2.02 1.99 2 2.1
   30 2.27 2.14 2.09 2.05 2.04 2.19
   31 2.28 2.13 2.09 2.06 2.05 2.2
   32 1.48 1.36 1.32 1.29 1.37 1.62
   33 2.23 2.03 2 1.95 1.92 2.08
   34 2.14 1.98 1.95 1.9 1.87 2.04
   48 1.69 1.68 1.66 1.58 1.55 1.81
   64 1.46 1.39 1.38 1.31 1.33 1.59
   96 1.47 1.44 1.44 1.36 1.34 1.61
  128 1.47 1.47 1.47 1.38 1.34 1.6
  256 1.47 1.46 1.47 1.46 1.38 1.6
  512 1.49 1.47 1.46 1.45 1.47 1.61
 1024 1.49 1.46 1.46 1.45 1.47 1.68
 2048 1.49 1.45 1.45 1.44 1.47 1.67
"""
PRODUCT_1024: Final = """
naive 2.36 2.31 2.31 2.31 2.34 2.38
    4 6.55 6.55 6.55 6.57 6.58 6.58
    8 3.67 3.66 3.66 3.66 3.65 3.75
   16 2.35 2.34 2.34 2.32 2.29 2.29
   30 2.43 2.44 2.44 2.43 2.35 2.37
   31 2.51 2.49 2.48 2.53 2.55 2.89
   32 1.83 1.85 1.85 1.85 1.74 1.74
   33 3 3.01 3 3.07 3.07 3.46
   34 2.88 2.89 2.89 2.91 2.8 2.89
   48 2.22 2.23 2.22 2.21 2.1 2.09
   64 1.81 1.81 1.81 1.81 1.72 1.68
   96 2.03 1.97 1.99 1.8 1.75 1.68
  128 2.13 2.15 2.3 1.77 1.71 1.66
  256 2.26 2.24 2.3 2.31 1.74 1.68
  512 2.32 2.28 2.31 2.31 2.34 1.82
 1024 2.35 2.3 2.31 2.31 2.32 2.38
 2048 2.36 2.31 2.3 2.31 2.32 2.38
"""
STENCIL_4037: Final = """
naive 2.04 1.36 1.37 1.41 1.46 1.58
    4 4.71 4.45 4.37 4.29 4.27 4.81
    8 3.71 3.32 3.26 3.17 3.16 3.26
   16 2.45 2.23 2.15 2.09 2.08 2.23
   30 2.43 2.24 2.16 2.07 2.04 2.22
   31 2.42 2.23 2.14 2.07 2.04 2.22
   32 1.46 1.31 1.27 1.25 1.31 1.63
   33 2.3 2.16 2.06 2 1.98 2.17
   34 2.24 2.09 2.02 1.96 1.91 2.13
   48 1.66 1.61 1.6 1.53 1.49 1.8
   64 1.46 1.34 1.33 1.28 1.31 1.62
   96 1.47 1.38 1.38 1.3 1.32 1.63
  128 1.47 1.39 1.4 1.32 1.31 1.61
  256 1.45 1.39 1.38 1.39 1.34 1.62
  512 1.46 1.38 1.38 1.38 1.41 1.63
 1024 1.47 1.38 1.38 1.38 1.41 1.67
 2048 1.51 1.38 1.37 1.37 1.41 1.67
"""


@dataclass(frozen=True, slots=True)
class Gain:
    """What columns of `width` gained over the naive order: naive time / time."""

    workload: str
    size: int
    threads: int
    width: int
    gain: float


H200_GAINS: Final = (
    *(Gain("9x9", 4096, 256, w, g) for w, g in ((32, 1.072), (64, 1.067), (16, 0.72), (48, 0.89), (256, 0.97))),
    *(Gain("9x9", 4096, 1024, w, g) for w, g in ((32, 1.170), (64, 1.14), (192, 1.11))),
    *(Gain("9x9", size, 256, 32, g) for size, g in ((4037, 1.086), (16384, 1.081))),
    Gain("3x3", 16384, 256, 32, 0.87),
    *(Gain("product", 1024, threads, w, g) for threads, w, g in ((64, 96, 1.142), (256, 192, 1.157))),
    *(Gain("product", 2048, 256, w, g) for w, g in ((192, 1.355), (64, 1.30), (512, 1.02), (1024, 0.90))),
    *(Gain("product", 4096, 256, w, g) for w, g in ((192, 1.096), (1024, 0.76))),
    *(Gain("product", 8192, 256, w, g) for w, g in ((1024, 1.075), (512, 0.83))),
)  # fmt: skip


def times(table: str) -> dict[int, dict[str, float]]:
    """Milliseconds by block and by order: "naive", or the width of the columns.

    >>> times(STENCIL_4096)[256]["32"]
    1.29
    """
    found: dict[int, dict[str, float]] = {block: {} for block in BLOCKS}
    for line in table.split("\n"):
        if line:
            width, *cells = line.split()
            for block, cell in zip(BLOCKS, cells, strict=True):
                found[block][width] = float(cell)
    return found


THESIS: Final = {
    "9x9 4096^2": ("9x9", 4096, times(STENCIL_4096)),
    "9x9 4037^2": ("9x9", 4037, times(STENCIL_4037)),
    "product 1024^2": ("product", 1024, times(PRODUCT_1024)),
}
