"""CPU vector instruction sets: registers, and LLVM's names. One row each.

>>> ISAS["avx2"].lanes("f64"), ISAS["neon"].lanes("f32"), ISAS["scalar"].lanes("f32")
(4, 4, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import UsageError, did_you_mean

BYTES_OF: Final = {"f32": 4, "f64": 8}


@dataclass(frozen=True, slots=True)
class ISA:
    """A register's bytes (0: no vectors), LLVM's triple, CPU and features. An empty triple means the host's."""

    name: str
    register_bytes: int
    triple: str
    cpu: str
    features: str
    granules: int = 0  # SVE: minimum register length in units of 128 bits
    registers: int = 32  # vector registers

    def lanes(self, element: str) -> int:
        """nu: elements per register."""
        return max(self.register_bytes // BYTES_OF[element], 1)


_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
ISAS: Final = {
    row.name: row
    for row in (
        ISA("scalar", 0, "", "", "", registers=16),
        ISA("sse2", 16, _X86, "x86-64", "+sse2", registers=16),
        ISA("avx2", 32, _X86, "x86-64-v3", "+avx2,+fma", registers=16),
        ISA("avx512", 64, _X86, "x86-64-v4", "+avx512f,+avx512vl,+avx512dq,+avx512bw,+fma"),
        ISA("neon", 16, _ARM, "generic", "+neon"),
        # fixed-length vectors of 256 bits, for every SVE machine with registers at least that long
        ISA("sve256", 32, _ARM, "generic", "+sve", 2),
    )
}


def isa_named(name: str) -> ISA:
    """The row with this name. Raises UsageError for an unknown one."""
    if name not in ISAS:
        meant = did_you_mean(name, ["host", *ISAS])
        raise UsageError(f"no instruction set is named {name!r}; there are host, {', '.join(ISAS)}{meant}")
    return ISAS[name]


def of_host(features: dict[str, bool]) -> ISA:
    """The widest row that a host with these LLVM features supports."""
    for name, feature in (("avx512", "avx512f"), ("avx2", "avx2"), ("sse2", "sse2"), ("neon", "neon")):
        if features.get(feature):
            return ISAS[name]
    return ISAS["scalar"]
