"""Element types: one row each, with the names in NumPy and MLIR and the size.

>>> f32, f32.bits, f32.bytes, f32.mlir
(f32, 32, 4, 'f32')
>>> u8, u8.mlir, u8.span
(u8, 'i8', (0, 255))
>>> bf16.numpy.itemsize
2

MLIR's integers have no sign: a `u8` is an `i8` there, and the operations on it are the unsigned ones. The f8 types
hold numbers and convert them; arithmetic is done in another type. A truth value takes a byte in memory.

Numbers of the packed types (i4, u4, f4e2m1fn, f6e2m3fn, f6e3m2fn, f8e8m0fnu) are codes in memory of bytes, which
`tracing.words.packed_values` converts: MLIR and NumPy see bytes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from lego_mlir.errors import TraceError

if TYPE_CHECKING:
    import numpy

    from lego_mlir.tracing.words.scalar import Scalar

Family = Literal["float", "int", "bool", "index"]


@dataclass(frozen=True, slots=True, repr=False)
class DType:
    """An element type. Called with a number, an index or a value inside a kernel, it converts: `f32(i)`, `f16(0.5)`."""

    name: str
    bits: int
    family: Family
    numpy_name: str
    mlir_name: str = ""  # where MLIR has another one

    @property
    def mlir(self) -> str:
        """The type as MLIR writes it."""
        return self.mlir_name or self.name

    @property
    def in_memory(self) -> str:
        """The MLIR type of an element in memory."""
        return "i8" if self.family == "bool" else self.mlir

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> numpy.dtype[Any]:
        """NumPy's dtype; those of bf16 and f8 come from ml_dtypes."""
        import numpy

        if self.name == "bf16" or self.is_f8:
            import ml_dtypes

            return numpy.dtype(getattr(ml_dtypes, self.numpy_name))
        return numpy.dtype(self.numpy_name)

    @property
    def is_float(self) -> bool:
        return self.family == "float"

    @property
    def is_f8(self) -> bool:
        """Whether numbers of this type are only stored and converted."""
        return self.is_float and self.bits == 8 and not self.is_packed

    @property
    def is_packed(self) -> bool:
        """Whether memory has the codes of this type in bytes, without gaps between them."""
        return self.name in PACKED

    @property
    def is_unsigned(self) -> bool:
        """Whether no number of this type is negative; of truth values True is the greater one."""
        return self.family == "bool" or self.name.startswith("u")

    @property
    def span(self) -> tuple[int, int]:
        """The least and the greatest number of an integer type."""
        return (0, 2**self.bits - 1) if self.is_unsigned else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    def __call__(self, value: Any, range: Sequence[Any] | None = None) -> Scalar:
        """The value in this type; `lego.index(v, range=(lo, hi))` claims its range, see `tracing.words.claimed`."""
        from lego_mlir.tracing.words.scalar import convert

        return convert(value, self, range)

    def __repr__(self) -> str:
        return self.name


f16: Final = DType("f16", 16, "float", "float16")
"""IEEE 754 half precision: 11 bits of significand, largest 65504. NumPy: float16."""
bf16: Final = DType("bf16", 16, "float", "bfloat16")
"""The upper half of an f32: 8 bits of significand. NumPy: ml_dtypes.bfloat16."""
f32: Final = DType("f32", 32, "float", "float32")
"""IEEE 754 single precision: 24 bits of significand. NumPy: float32."""
f64: Final = DType("f64", 64, "float", "float64")
"""IEEE 754 double precision: 53 bits of significand. NumPy: float64."""
f8e4m3fn: Final = DType("f8e4m3fn", 8, "float", "float8_e4m3fn", "f8E4M3FN")
"""8-bit floats up to 448, without infinity (OCP 8-bit floating point, E4M3). No arithmetic: convert with .to(f32)."""
f8e5m2: Final = DType("f8e5m2", 8, "float", "float8_e5m2", "f8E5M2")
"""8-bit floats up to 57344 (OCP 8-bit floating point, E5M2). No arithmetic: convert with .to(f32)."""
i1: Final = DType("i1", 1, "bool", "bool")
"""Truth values, one byte each in memory. NumPy: bool."""
i8: Final = DType("i8", 8, "int", "int8")
"""Signed integers of 8 bits; arithmetic modulo 2**8. NumPy: int8."""
i16: Final = DType("i16", 16, "int", "int16")
"""Signed integers of 16 bits; arithmetic modulo 2**16. NumPy: int16."""
i32: Final = DType("i32", 32, "int", "int32")
"""Signed integers of 32 bits; arithmetic modulo 2**32. NumPy: int32."""
i64: Final = DType("i64", 64, "int", "int64")
"""Signed integers of 64 bits; arithmetic modulo 2**64. NumPy: int64."""
u8: Final = DType("u8", 8, "int", "uint8", "i8")
"""Unsigned integers of 8 bits; arithmetic modulo 2**8. NumPy: uint8."""
u16: Final = DType("u16", 16, "int", "uint16", "i16")
"""Unsigned integers of 16 bits; arithmetic modulo 2**16. NumPy: uint16."""
u32: Final = DType("u32", 32, "int", "uint32", "i32")
"""Unsigned integers of 32 bits; arithmetic modulo 2**32. NumPy: uint32."""
u64: Final = DType("u64", 64, "int", "uint64", "i64")
"""Unsigned integers of 64 bits; arithmetic modulo 2**64. NumPy: uint64."""
index: Final = DType("index", 64, "index", "int64")
"""Indices: symbolic integers with a range, 64 bits where they are stored. `lego.index(v)` converts a loaded integer."""

i4: Final = DType("i4", 4, "int", "uint8", "i8")
"""Signed integers of 4 bits, -8 .. 7, two in a byte. NumPy: uint8."""
u4: Final = DType("u4", 4, "int", "uint8", "i8")
"""Unsigned integers of 4 bits, 0 .. 15, two in a byte. NumPy: uint8."""
f4e2m1fn: Final = DType("f4e2m1fn", 4, "float", "uint8", "i8")
"""4-bit floats: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and negatives (OCP Microscaling, E2M1), two in a byte. NumPy: uint8."""
f6e2m3fn: Final = DType("f6e2m3fn", 6, "float", "uint8", "i8")
"""6-bit floats up to 7.5 (OCP Microscaling, E2M3), four in three bytes. NumPy: uint8."""
f6e3m2fn: Final = DType("f6e3m2fn", 6, "float", "uint8", "i8")
"""6-bit floats up to 28 (OCP Microscaling, E3M2), four in three bytes. NumPy: uint8."""
f8e8m0fnu: Final = DType("f8e8m0fnu", 8, "float", "uint8", "i8")
"""Powers of two, 2**-127 .. 2**127, and NaN: the scales of OCP Microscaling (E8M0). NumPy: uint8."""

PACKED: Final = {d.name: d for d in (i4, u4, f4e2m1fn, f6e2m3fn, f6e3m2fn, f8e8m0fnu)}
"""The types whose numbers are only stored, as codes in bytes, and converted."""

DTYPES: Final = {
    d.name: d for d in (f8e4m3fn, f8e5m2, f16, bf16, f32, f64, i1, i8, i16, i32, i64, u8, u16, u32, u64, index)
}


def dtype_named(name: str) -> DType:
    """The element type of that name. Raises TraceError with the known names."""
    known = DTYPES | PACKED
    if name not in known:
        raise TraceError(f"no element type is named {name!r}; there are {', '.join(known)}")
    return known[name]


def element_type(dtype: Any, owner: str) -> DType:
    """A type of elements. Raises TraceError, naming `owner`, for anything else."""
    if not isinstance(dtype, DType) or dtype.family == "index":
        raise TraceError(f"{owner}: the first argument is an element type such as lego.f32, got {dtype!r}")
    return dtype
