"""Instruction descriptors of tcgen05.mma, and matrices as their bytes in shared or tensor memory.

    bits 0-3    sparsity, saturation                    bits 15, 16   A, B are MN-major
    bits 4-5    D: 0 f16, 1 f32, 2 s32                  bits 17-22    N / 8
    bits 7-9    A's type; 10-12 B's                     bit  23       scales: 0 ue4m3, 1 ue8m0
    bits 13, 14 negate A, B                             bits 24-28    M / 16

With scales, bits 4-5 are the byte of B's scales in their words, and bits 29-30 that of A's. An instruction takes 32
bytes along K. Of `kind::f8f6f4` and `kind::mxf8f6f4`, 16 elements take 16 bytes: the 8 first bytes of 4-bit elements,
the 12 first of 6-bit ones; `kind::mxf4` has two elements in a byte. PTX ISA, "Instruction descriptor", "Packing
formats"; CUTLASS, `cute/arch/mma_sm100_desc.hpp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import ml_dtypes
import numpy as np

from lego_mlir.aliases import Array, Dtype
from lego_mlir.interp import rounding
from lego_mlir.interp.ptx.ptx_types import NUMPY

BYTES_ALONG_K: Final = 32
NARROW: Final[dict[str, tuple[Dtype, int]]] = {
    "e2m3": (np.dtype(ml_dtypes.float6_e2m3fn), 6),
    "e3m2": (np.dtype(ml_dtypes.float6_e3m2fn), 6),
    "e2m1": (np.dtype(ml_dtypes.float4_e2m1fn), 4),
}
"""Types of less than 8 bits, which NumPy has in the low bits of a byte."""
SCALES: Final[dict[str, Dtype]] = {
    "ue8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "ue4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
_EIGHT: Final = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
KINDS: Final[dict[str, dict[int, str]]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _EIGHT,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _EIGHT,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""The types of A and B by the number in the descriptor."""
RESULTS: Final[dict[str, dict[int, str]]] = {"f16": {0: "f16", 1: "f32"}, "i8": {2: "s32"}}


@dataclass(frozen=True, slots=True)
class ProductFormat:
    """A decoded instruction descriptor.

    >>> ProductFormat.decoded(0x8200010, "f16")
    ProductFormat(m=128, n=128, left='f16', right='f16', result='f32', left_sign=1, right_sign=1, left_k_major=True, \
right_k_major=True, saturates=False, scales='', left_scale=0, right_scale=0)
    """

    m: int
    n: int
    left: str
    right: str
    result: str
    left_sign: int
    right_sign: int
    left_k_major: bool
    right_k_major: bool
    saturates: bool
    scales: str
    left_scale: int
    right_scale: int

    @staticmethod
    def decoded(bits: int, kind: str) -> ProductFormat | None:
        """The fields of 32 bits, None where they name no types of the kind, or a sparse product."""
        scaled = kind.startswith("mx")
        left, right = (KINDS[kind].get(bits >> at & 7) for at in (7, 10))
        result = "f32" if scaled else RESULTS.get(kind, {1: "f32"}).get(bits >> 4 & 3)
        if left is None or right is None or result is None or bits & 4:
            return None
        return ProductFormat(
            (bits >> 24 & 31) * 16, (bits >> 17 & 63) * 8, left, right, result, 1 - 2 * (bits >> 13 & 1),
            1 - 2 * (bits >> 14 & 1), not bits >> 15 & 1, not bits >> 16 & 1, bool(bits >> 3 & 1),
            ("ue8m0" if bits >> 23 & 1 else "ue4m3") if scaled else "", bits >> 29 & 3 if scaled else 0,
            bits >> 4 & 3 if scaled else 0,
        )  # fmt: skip

    def depth(self, kind: str) -> int:
        """K: what is in 32 bytes."""
        return 64 if kind.startswith("mxf4") else BYTES_ALONG_K // element_bytes(self.left)


def element_bytes(type_: str) -> int:
    """The bytes from an element to the next along M or N; types of less than 8 bits are K-major only."""
    return 1 if type_ in NARROW else NUMPY[type_].itemsize


def row_values(rows: Array, type_: str, *, packed: bool) -> Array:
    """(rows, 32) bytes along K as numbers in f64; `packed`: 4-bit elements without padding."""
    if type_ not in NARROW:
        return numbers(np.ascontiguousarray(rows).view(NUMPY[type_]), type_)
    dtype, bits = NARROW[type_]
    if not packed:
        rows = rows.reshape(len(rows), 2, 16)[:, :, : 2 * bits].reshape(len(rows), -1)
    flat = np.unpackbits(np.ascontiguousarray(rows), axis=1, bitorder="little").reshape(len(rows), -1, bits)
    codes = (flat << np.arange(bits, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    return numbers(codes.view(dtype), type_)


def numbers(values: Array, type_: str) -> Array:
    """Elements of a type as f64, which holds each exactly."""
    if type_ == "tf32":
        values = rounding.tf32(values)
    if values.dtype.kind in "iu":
        return values.astype(np.float64)
    found: Array = values.astype(np.float32).astype(np.float64)
    return found
