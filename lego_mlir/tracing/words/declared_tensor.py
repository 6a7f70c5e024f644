"""The declaration of a kernel's tensor parameter: its element type, its layout and what its elements are known to be.

A file of kernels is read for its declarations before any kernel is traced, so that nothing here needs SymPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.layout import as_layout
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.trace.dtypes import DType, element_type, u8
from lego_mlir.tracing.words.declared_range import Values, as_exprs, require_range

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.trace import Buffer
    from lego_mlir.tracing.trace.tracer import Tracer
    from lego_mlir.tracing.words.packed_views import PackedView, Packing
    from lego_mlir.tracing.words.tensor import View

ADDRESSES: Final = 2**63  # bytes that a signed 64-bit index can address


@dataclass(frozen=True, slots=True, init=False)
class Tensor:
    """The declaration of a kernel's tensor parameter: `src: lego.Tensor(lego.f32, Row(M, N))`.

    Its memory starts at a multiple of 16 bytes. `range=(lo, hi)` states that lo <= element < hi: proofs use it for
    integers, which are indices of another tensor, and input is drawn from it. A tensor of a packed type is one of the
    bytes that hold its elements: see `tracing.words.packed_views`. `lego.Tensor(..) | None` may be None in a call: see
    `tracing.definition.fixed_arguments`. Raises LayoutError for a refuted layout.
    """

    dtype: DType
    layout: Layout
    ends: Values | None
    """The range of the elements, as it was given."""
    packed: Packing | None
    """The elements, where the tensor is one of their bytes."""
    optional: bool
    """Whether a call may pass None."""

    def __init__(self, dtype: DType, layout: Any, range: Sequence[Any] | None = None) -> None:
        element, packed = element_type(dtype, "Tensor"), None
        if element.is_packed:
            from lego_mlir.tracing.words.packed_views import Packing

            packed = Packing.of(element, as_layout(layout))
            element, layout = u8, packed.bytes
        object.__setattr__(self, "packed", packed)
        object.__setattr__(self, "optional", False)
        object.__setattr__(self, "dtype", element)
        object.__setattr__(self, "layout", as_layout(layout))
        size = self.layout.physical_size()
        if isinstance(size, int) and size * self.dtype.bytes >= ADDRESSES:
            raise LayoutError(
                f"Tensor: {self.layout!r} takes {size * self.dtype.bytes} bytes, more than 64-bit addresses reach"
            )
        self.layout.require()
        if range is not None and packed is not None:
            raise TraceError(f"Tensor: the numbers of {packed.dtype} have the range of their type; leave out range")
        object.__setattr__(self, "ends", None if range is None else require_range("Tensor", element, range))

    @property
    def values(self) -> Values | None:
        """The range of the elements: numbers for floats, otherwise SymPy expressions."""
        return as_exprs(self.ends)

    def __or__(self, other: object) -> Tensor:
        """`lego.Tensor(..) | None`: the same, which may be None in a call."""
        return self._replaced(self.layout, optional=True) if other is None else NotImplemented

    __ror__ = __or__

    def with_layout(self, layout: Layout) -> Tensor:
        """The declaration with another layout of the same dims."""
        return self._replaced(layout, self.optional)

    def _replaced(self, layout: Layout, optional: bool) -> Tensor:
        found = object.__new__(Tensor)
        values = {"dtype": self.dtype, "ends": self.ends, "packed": self.packed}
        for name, value in {**values, "layout": layout, "optional": optional}.items():
            object.__setattr__(found, name, value)
        return found

    def view(self, tracer: Tracer, buffer: Buffer) -> View | PackedView:
        """The argument of the kernel's function: the memory indexed by elements."""
        from lego_mlir.tracing.words.tensor import View

        return View(tracer, buffer, self.layout) if self.packed is None else self.packed.view(tracer, buffer)
