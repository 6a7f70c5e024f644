"""Element types: one row each, with the names in NumPy and MLIR and the size.

>>> f32, f32.bits, f32.bytes, f32.mlir
(f32, 32, 4, 'f32')
>>> bf16.numpy.itemsize
2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from lego_mlir.errors import TraceError

if TYPE_CHECKING:
    import numpy

    from lego_mlir.tracing.scalar import Scalar

Family = Literal["float", "int", "bool", "index"]


@dataclass(frozen=True, slots=True, repr=False)
class DType:
    """An element type. Called with a number, an index or a value inside a kernel, it converts: `f32(i)`, `f16(0.5)`."""

    name: str
    bits: int
    family: Family
    numpy_name: str

    @property
    def mlir(self) -> str:
        """The type as MLIR writes it."""
        return self.name

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> numpy.dtype[Any]:
        """NumPy's dtype; bf16's comes from ml_dtypes."""
        import numpy

        if self.name == "bf16":
            import ml_dtypes

            return numpy.dtype(ml_dtypes.bfloat16)
        return numpy.dtype(self.numpy_name)

    @property
    def is_float(self) -> bool:
        return self.family == "float"

    def __call__(self, value: Any) -> Scalar:
        from lego_mlir.tracing.scalar import convert

        return convert(value, self)

    def __repr__(self) -> str:
        return self.name


f16: Final = DType("f16", 16, "float", "float16")
bf16: Final = DType("bf16", 16, "float", "bfloat16")
f32: Final = DType("f32", 32, "float", "float32")
f64: Final = DType("f64", 64, "float", "float64")
i1: Final = DType("i1", 1, "bool", "bool")
i8: Final = DType("i8", 8, "int", "int8")
i16: Final = DType("i16", 16, "int", "int16")
i32: Final = DType("i32", 32, "int", "int32")
i64: Final = DType("i64", 64, "int", "int64")
index: Final = DType("index", 64, "index", "int64")

DTYPES: Final = {d.name: d for d in (f16, bf16, f32, f64, i1, i8, i16, i32, i64, index)}


def dtype_named(name: str) -> DType:
    """The element type of that name. Raises TraceError with the known names."""
    if name not in DTYPES:
        raise TraceError(f"no element type is named {name!r}; there are {', '.join(DTYPES)}")
    return DTYPES[name]
