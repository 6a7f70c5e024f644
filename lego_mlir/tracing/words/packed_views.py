"""Memory of packed numbers: elements of 4, 6 or 8 bits, indexed one by one, in a tensor or a shared tile of bytes.

    w: lego.Tensor(u4, Row(K, N))              an array of bytes, K x N/2
    w[i, j].to(f16)                            its byte, shifted by 4 (j % 2)
    w.load(i, j, width=8).to(f16)              4 bytes at once, 8 numbers
    w.store(x.to(u4), i, j)                    whole bytes; of one number the byte is read, changed and written

`layout.packed_bytes` takes the layout of the elements to that of their bytes. All accesses are those of bytes, so that
bounds, masks and races are decided for these: two threads that store the two numbers of a byte have a race, which is
refuted as any other. A masked load gives codes of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import Boundary
from lego_mlir.layout.named_maps import formulas
from lego_mlir.layout.packed_bytes import BYTE, PackedBytes
from lego_mlir.layout.transposed import Transposed
from lego_mlir.tracing.trace.dtypes import DType, u8, u32
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.packed_values import PackedNumbers, codes_in, packed_words
from lego_mlir.tracing.words.repeated_views import RepeatedView
from lego_mlir.tracing.words.scalar import Scalar, convert, reinterpreted, vector
from lego_mlir.tracing.words.tensor import View

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.trace import Buffer
    from lego_mlir.tracing.words.cache_hints import Cache, Evict

WORD = u32.bytes


@dataclass(frozen=True, slots=True)
class Packing:
    """Elements of a packed type, where `elements` places them, and their bytes."""

    dtype: DType
    elements: Layout
    bytes: PackedBytes

    @classmethod
    def of(cls, dtype: DType, elements: Layout) -> Packing:
        """Raises LayoutError where the elements that fill whole bytes are not proved to be neighbours."""
        return cls(dtype, elements, _packed_bytes(elements, dtype.bits))

    def view(self, tracer: Tracer, buffer: Buffer, boundary: Boundary | None = None) -> PackedView:
        """The elements in a buffer of bytes."""
        return PackedView(tracer, buffer, self, boundary)


@lru_cache(maxsize=256)
def _packed_bytes(elements: Layout, bits: int) -> PackedBytes:
    return PackedBytes(elements, bits)


class PackedView(Uncompared):
    """Elements of a packed type inside a kernel. `bytes` is the view of their bytes, for copies."""

    __slots__ = ("_tracer", "boundary", "buffer", "bytes", "packing")
    _instead = "compare elements, such as x[i].to(lego.i32) == y[i].to(lego.i32)"

    def __init__(self, tracer: Tracer, buffer: Buffer, packing: Packing, boundary: Boundary | None = None) -> None:
        self._tracer, self.buffer, self.packing, self.boundary = tracer, buffer, packing, boundary
        self.bytes = View(tracer, buffer, packing.bytes, boundary)

    @property
    def dtype(self) -> DType:
        return self.packing.dtype

    @property
    def layout(self) -> Layout:
        """The layout of the elements."""
        return self.packing.elements

    def dims(self) -> tuple[Any, ...]:
        """The logical sizes, in elements."""
        return self.layout.dims()

    def __repr__(self) -> str:
        return f"<{self.buffer.name}: {self.dtype}, {self.layout!r}>"

    def tile_by(self, *levels: Sequence[Any]) -> PackedView:
        """The same memory under a tiled index: see `View.tile_by`."""
        return self._seen(self.layout.tile_by(*levels))

    @property
    def T(self) -> PackedView:
        """The same memory with the two indices interchanged."""
        own = self.layout
        return self._seen(own.inner if isinstance(own, Transposed) else Transposed(own))

    def halo(self) -> PackedView:
        """The same memory, where indices outside are masked."""
        return self.packing.view(self._tracer, self.buffer, "zero")

    def repeat(self, *counts: int) -> RepeatedView:
        """Each element for a block of `counts` indices: see `View.repeat`."""
        return RepeatedView(self, counts)

    def _seen(self, elements: Layout) -> PackedView:
        return Packing.of(self.dtype, elements).view(self._tracer, self.buffer, self.boundary)

    def __getitem__(self, index: IndexLike) -> PackedNumbers:
        return self.load(*(index if isinstance(index, tuple) else (index,)))

    def __setitem__(self, index: IndexLike, value: Operand) -> None:
        self.store(value, *(index if isinstance(index, tuple) else (index,)))

    def load(
        self, *index: IndexLike, width: int | None = 1, cache: Cache | None = None, evict: Evict | None = None
    ) -> PackedNumbers:
        """The number at a logical index, or a vector of `width` along the axis in which the elements are packed.

        A vector fills whole bytes; `width=None` takes the widest that is proved. Raises LayoutError for others.
        """
        if width is None:
            width = self.widest(*index)
        if width == 1 and self.packing.bytes.unit > 1:
            return self._one(index, cache, evict)
        at, size = self._whole(index, width)
        loaded = []
        for first, n in self._pieces(size):
            view, place = self._along(self._moved(at, first))
            loaded.append(cast(Scalar, view.load(*place, width=n, cache=cache, evict=evict)))
        held = _as_words(loaded)
        codes = codes_in(self.dtype, held, width)
        return PackedNumbers(self.dtype, [codes[k] for k in self._order(width)], None if width == 1 else width)

    def store(self, value: Operand, *index: IndexLike, cache: Cache | None = None, evict: Evict | None = None) -> None:
        """Store a number of this type, or a vector of them, at a logical index.

        Raises TraceError for another type, LayoutError for a vector that does not fill whole bytes.
        """
        tracer = current(self.buffer.name)
        if not isinstance(value, PackedNumbers) or value.dtype != self.dtype:
            raise tracer.error(
                f"{self.buffer.name} has numbers of {self.dtype}, got {value!r}; convert it with .to(lego.{self.dtype})"
            )
        if value.width is None and self.packing.bytes.unit > 1:
            self._change(value, index)
            return
        at, size = self._whole(index, value.width or 1)
        order = self._order(len(value.codes))
        places = sorted(range(len(order)), key=order.__getitem__)
        words = packed_words(PackedNumbers(value.dtype, [value.codes[k] for k in places], value.width))
        for first, n in self._pieces(size):
            view, place = self._along(self._moved(at, first))
            if n < WORD:
                shift = first % WORD * BYTE
                word = words[first // WORD]
                whole = [cast(Scalar, (word >> (shift + BYTE * k)).to(u8)) for k in range(n)]
                held = whole[0] if n == 1 else vector(*whole)
            else:
                part = words[first // WORD : (first + n) // WORD]
                held = reinterpreted(part[0] if len(part) == 1 else vector(*part), u8, n)
            view.store(held, *place, cache=cache, evict=evict)

    def widest(self, *index: IndexLike) -> int:
        """The largest width that is proved for an access at this index; 1 where it does not begin a byte."""
        bytes_, width = self.packing.bytes, 1
        if not self._begins_unit(index, bytes_.unit):
            return 1
        view, at = self._along(self._byte_index(index))
        place = view.place(*at)
        for size in (1, 2, 4, 8, 16):
            if not place.fits(size):
                break
            width = size * bytes_.unit if bytes_.unit_bytes == 1 or size >= WORD or size == 1 else width
        return width

    def _begins_unit(self, index: Sequence[IndexLike], width: int) -> bool:
        last = self._tracer.index(index[self.packing.bytes.axis])
        return isinstance(self._tracer.prove(Eq(FloorMod(last, width), 0)), Proved)

    def _whole(self, index: Sequence[IndexLike], width: int) -> tuple[tuple[IndexLike, ...], int]:
        """The index of the first byte of a vector, and its bytes."""
        bytes_ = self.packing.bytes
        if width < 1 or width % bytes_.unit or width & (width - 1):
            raise self._tracer.error(
                f"{self.buffer.name}: {width} elements of {self.dtype} do not fill whole bytes; a vector has "
                f"{bytes_.unit}, {2 * bytes_.unit}, {4 * bytes_.unit}, .. of them",
                LayoutError,
            )
        if len(index) != len(self.dims()) or not self._begins_unit(index, bytes_.unit):
            raise self._tracer.error(
                f"{self.buffer.name}{list(index)!r}: {width} elements of {self.dtype} begin at a multiple of "
                f"{bytes_.unit} along axis {bytes_.axis}, which is not proved of this index; load single elements",
                LayoutError,
            )
        return self._byte_index(index), width * self.dtype.bits // BYTE

    def _order(self, width: int) -> list[int]:
        """The places in memory of the elements of a vector, in numbers from its first one."""
        slots = self.packing.bytes.slots
        return [k // len(slots) * len(slots) + slots[k % len(slots)] for k in range(width)]

    def _byte_index(self, index: Sequence[IndexLike]) -> tuple[IndexLike, ...]:
        bytes_ = self.packing.bytes

        def byte(i: IndexLike) -> IndexLike:
            return (
                Index(self._tracer.simplified(as_expr(Index(self._tracer.index(i)) // bytes_.unit))) * bytes_.unit_bytes
            )

        return tuple(byte(i) if axis == bytes_.axis else i for axis, i in enumerate(index))

    def _moved(self, at: Sequence[IndexLike], by: IndexLike) -> tuple[IndexLike, ...]:
        axis = self.packing.bytes.axis
        return tuple(i + by if k == axis else i for k, i in enumerate(at))

    def _along(self, at: Sequence[IndexLike]) -> tuple[View, Sequence[IndexLike]]:
        """The bytes and an index with the packed axis last, along which vectors run."""
        if not self._is_turned():
            return self.bytes, at
        return View(self._tracer, self.buffer, Transposed(self.bytes.layout), self.boundary), at[::-1]

    def _is_turned(self) -> bool:
        return self.packing.bytes.axis == 0 and len(self.dims()) == 2

    def _pieces(self, size: int) -> list[tuple[int, int]]:
        """The first byte and the number of bytes of each access: powers of two, which whole units align."""
        bytes_, width = self.packing.bytes, min(size & -size, WIDEST_ACCESS)
        along = self._is_turned() or bytes_.axis == len(self.dims()) - 1
        if not along or (width < WORD and size != width):
            width = 1
        return [(first, width) for first in range(0, size, width)]

    def _bits(self, index: Sequence[IndexLike]) -> tuple[tuple[IndexLike, ...], IndexLike, IndexLike]:
        """The index of an element's first byte, the bytes to its last one, and the shift of its first bit."""
        bytes_, size = self.packing.bytes, self.dtype.bits
        element = [Index(self._tracer.index(i)) for i in index]
        number = element[bytes_.axis] % bytes_.unit
        inside = (number if bytes_.slots == tuple(range(bytes_.unit)) else self._slot(element)) * size
        if bytes_.unit_bytes == 1:
            return self._byte_index(index), 0, inside
        first = inside // BYTE
        at = self._moved(self._byte_index(index), first)
        return at, (inside + (size - 1)) // BYTE - first, inside % BYTE

    def _slot(self, index: Sequence[Index]) -> Index:
        """The place of an element in its unit: the last digits of its position."""
        with formulas():
            return Index(as_expr(self.layout.apply(*index))) % self.packing.bytes.unit

    def _one(self, index: Sequence[IndexLike], cache: Cache | None, evict: Evict | None) -> PackedNumbers:
        at, further, shift = self._bits(index)
        word = cast(Scalar, self.bytes.load(*at, cache=cache, evict=evict).to(u32))
        if self.packing.bytes.unit_bytes > 1:
            word = word | self.bytes.load(*self._moved(at, further), cache=cache, evict=evict).to(u32) << BYTE
        by = as_expr(self._tracer.simplified(as_expr(shift)))
        if by != 0:
            word = word >> (int(by) if by.is_Integer else cast(Scalar, convert(Index(by), u32)))
        return PackedNumbers(self.dtype, [(word, 0)], None)

    def _change(self, value: PackedNumbers, index: Sequence[IndexLike]) -> None:
        """Store one number of 4 bits: its byte is read, changed and written."""
        if self.packing.bytes.unit_bytes > 1:
            raise self._tracer.error(
                f"{self.buffer.name}: one number of {self.dtype} fills no byte, and may lie in two; store vectors of "
                f"{self.packing.bytes.unit}",
                LayoutError,
            )
        at, _, shift = self._bits(index)
        by = cast(Scalar, convert(shift, u32))
        (code,) = packed_words(value)
        old = cast(Scalar, self.bytes.load(*at).to(u32))
        mask = convert((1 << self.dtype.bits) - 1, u32)
        self.bytes.store((old & ~(mask << by) | code << by).to(u8), *at)


def _as_words(loaded: Sequence[Scalar]) -> list[Scalar]:
    """The words of bytes that were loaded one after the other, low bits first."""
    found: list[Scalar] = []
    narrow: list[Scalar] = []
    for one in loaded:
        if one.width is None or one.width < WORD:
            narrow += [one] if one.width is None else list(one)
            continue
        whole = reinterpreted(one, u32, one.width // WORD if one.width > WORD else None)
        found += [whole] if whole.width is None else list(whole)
    for first in range(0, len(narrow), WORD):
        word = cast(Scalar, narrow[first].to(u32))
        for k, byte in enumerate(narrow[first + 1 : first + WORD], 1):
            word = word | byte.to(u32) << (BYTE * k)
        found.append(word)
    return found
