"""The conversion of one format into another: moves of fields where the codes are the same, a cast where they are not.

| source and target | what is done |
|---|---|
| the same fields, of the same types and shapes | one move for each: no number is read |
| codings of one family | codes, scales and zero points renamed or shifted, exactly |
| other codings | values decoded to f32, and encoded: rounding to nearest, once |
| neither | refused, with the fields that differ |

>>> from lego_mlir.formats.catalog import FORMATS
>>> sizes = {"rows": 16, "columns": 32}
>>> Conversion(FORMATS["hf.linear"](**sizes, dtype="e4m3"), FORMATS["aiter.16x16"](**sizes)).moves[0][2].digits
((2, 128, 2048), (16, 256, 128))
"""

from __future__ import annotations

from functools import cached_property

from lego_mlir.aliases import Array
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.formats.field_arrays import Arrays, as_bytes, empty_buffers, read, require_buffers, write
from lego_mlir.formats.field_moves import Move, move, refined
from lego_mlir.formats.host_moves import execute_all
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import StoredField
from lego_mlir.layout.values import show


class Conversion(Frozen):
    """A planned conversion. Raises LayoutError where the formats have neither the same fields nor codings."""

    source: StorageFormat
    target: StorageFormat

    def __init__(self, source: StorageFormat, target: StorageFormat) -> None:
        self._set(source=source, target=target)
        if not self.is_move and self._difference():
            raise LayoutError(f"{source.name} cannot be converted to {target.name}: {self._difference()}")

    def _arguments(self) -> tuple[object, ...]:
        return self.source, self.target

    @cached_property
    def is_move(self) -> bool:
        """Whether the fields are the same, so that bits move and no number is read."""
        mine, theirs = ({f.name: (f.dtype, f.shape) for f in one.fields} for one in (self.source, self.target))
        return mine == theirs

    @cached_property
    def is_exact(self) -> bool:
        """Whether nothing is rounded."""
        a, b = self.source.coding, self.target.coding
        return self.is_move or (a is not None and b is not None and a.codes == b.codes)

    def _difference(self) -> str:
        a, b = self.source, self.target
        shapes = [{f.name: show(f.shape) for f in one.fields} for one in (a, b)]
        if a.coding is None or b.coding is None:
            return f"its fields are {shapes[0]}, the other's {shapes[1]}, and no coding gives their values"
        return ""

    @cached_property
    def moves(self) -> tuple[tuple[str, str, Move], ...]:
        """Source buffer, target buffer and move of each field; empty where codes or values change.

        A field whose digits have no common refinement goes through row-major order, and is no single move.
        """
        found = []
        if self.is_move:
            for field in self.source.fields:
                if not _refines(field, self.target[field.name]):
                    return ()
                found.append((field.buffer, self.target[field.name].buffer, move(field, self.target[field.name])))
        return tuple(found)

    def run(self, buffers: Arrays) -> dict[str, Array]:
        """The buffers of the target, from those of the source."""
        if self.moves:
            given, out = require_buffers(self.source, buffers), empty_buffers(self.target)
            views = {name: as_bytes(array) for name, array in out.items()}
            execute_all([(plan, given[there], views[here]) for there, here, plan in self.moves])
            return out
        fields = read(self.source, buffers)
        if not self.is_move:
            a, b = self.source.coding, self.target.coding
            assert a is not None and b is not None, "checked by the constructor"
            fields = b.uncommon(a.common(fields)) if a.codes == b.codes else b.encode(a.decode(fields))
        return write(self.target, fields)

    def in_place(self, most_bytes: int | None = None) -> tuple[int, tuple[Move, ...]]:
        """The bytes of the aligned blocks in which the cycles of the permutation end, and the moves of one block.

        Raises LayoutError for formats of several buffers, and for blocks of more than `most_bytes`.
        """
        plans = tuple(plan for _, _, plan in self.moves)
        whole = self.source.bytes_of(next(iter(self.source.buffers)))
        if not plans or {len(self.source.buffers), len(self.target.buffers)} != {1}:
            raise LayoutError(f"{self.source.name} to {self.target.name} is no permutation of one buffer")
        one, block = plans[0], whole
        if len(plans) == 1 and one.start == (0, 0) and one.block() % 8 == 0 and 8 * whole == one.bits:
            block = one.block() // 8
            plans = (Move(_within(one, 8 * block), one.unit, (0, 0)),)
        if most_bytes is not None and block > most_bytes:
            raise LayoutError(f"the cycles of {self.source.name} to {self.target.name} reach over {block} bytes")
        return block, plans

    def run_in_place(self, buffer: Array, most_bytes: int | None = None) -> int:
        """Convert a contiguous buffer in itself, block by block; return the bytes of other memory that this took.

        Raises LayoutError as `in_place` does, UsageError for an array that is not contiguous.
        """
        import numpy as np

        block, plans = self.in_place(most_bytes)
        if not buffer.flags.c_contiguous:
            raise UsageError("an array that is converted in place is C-contiguous; pass a copy")
        (data,) = require_buffers(self.source, {next(iter(self.source.buffers)): buffer}).values()
        beside = np.empty(block, np.uint8)
        for start in range(0, data.size, block):
            part = data[start : start + block]
            beside[:] = part
            part[:] = 0
            execute_all([(plan, beside, part) for plan in plans])
        return block


def _within(plan: Move, block: int) -> tuple[tuple[int, int, int], ...]:
    """The digits of a move that stay inside a block."""
    return tuple(d for d in plan.digits if d[1] < block or d[2] < block)


def _refines(a: StoredField, b: StoredField) -> bool:
    return all(refined(x, y) is not None for x, y in zip(a.axes, b.axes, strict=True))
