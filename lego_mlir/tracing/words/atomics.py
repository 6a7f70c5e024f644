"""Atomic updates of tensors and shared tiles: `counts.atomic_add(1, bin)`.

    old = y.atomic_add(v, i, j)        the element becomes old + v; other threads see one of the two, never a part
    old = y.atomic_cas(a, b, i)        b where the element is a (bit for bit), unchanged elsewhere

A tile of indices updates each of its elements: `tracing.spread.indexed_accesses`, where `mask` is a tile of conditions.
Every method returns the old value and takes the logical index last, as `store` does. The updates are relaxed: they
order no other access, so data that one block hands to another is also written and read atomically (`atomic_store`,
`atomic_load`). `scope` names the threads that may update the element at the same time: those of the "block" or of the
"device", the default. Atomic accesses do not race with each other; one that is unordered with a plain access of another
thread does. (PTX ISA, "Memory Consistency Model" and "atom".)

| elements | updates |
|---|---|
| integers of 32 and 64 bits | all |
| f16, bf16, f32, f64 | add, min, max, exchange, cas, load, store |

Hardware has instructions for integers and for the addition of f32, f64 and f16; bf16 has one from sm_90 on. The others
become loops around a compare-and-swap. `atomic_add` also takes two f16 or bf16 at once, a vector of width 2; each of
the two is updated atomically, f16 by one instruction. `atomic_store` takes a vector of up to 16 bytes of 32- or 64-bit
elements, and `atomic_load` gives one of `width=`: one instruction, in which each element is accessed atomically.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import did_you_mean
from lego_mlir.expr.index import PerElement
from lego_mlir.tracing.trace.trace import Atomic, Buffer, TensorAccess, Value
from lego_mlir.tracing.words.scalar import Scalar, as_value

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.trace.tracer import Tracer
    from lego_mlir.tracing.words.places import Place
    from lego_mlir.tracing.words.tensor import ElementAccess

KINDS: Final[dict[str, tuple[str, str, str]]] = {
    # MLIR's atomic kind for floats, signed and unsigned integers; empty where undefined
    "add": ("addf", "addi", "addi"),
    "min": ("minimumf", "mins", "minu"),
    "max": ("maximumf", "maxs", "maxu"),
    "and": ("", "andi", "andi"),
    "or": ("", "ori", "ori"),
    "xor": ("", "xori", "xori"),
    "exchange": ("assign", "assign", "assign"),
    "store": ("assign", "assign", "assign"),
    "cas": ("assign", "assign", "assign"),
    "load": ("assign", "assign", "assign"),
}
SCOPES: Final = ("block", "device")


class AtomicAccess:
    """The atomic methods of a view of memory."""

    __slots__ = ()

    if TYPE_CHECKING:
        buffer: Buffer
        layout: Layout

        def _inside_kernel(self) -> Tracer: ...

        def place(self, *index: IndexLike, stored: bool = False) -> Place: ...

    def atomic_add(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Add to an element; returns its old value. Integers wrap around."""
        return self._atomic("add", value, index, scope, mask=mask)

    def atomic_min(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Replace an element by the smaller of the two, NaN if one is NaN; returns its old value."""
        return self._atomic("min", value, index, scope, mask=mask)

    def atomic_max(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Replace an element by the larger of the two, NaN if one is NaN; returns its old value."""
        return self._atomic("max", value, index, scope, mask=mask)

    def atomic_and(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Clear the bits of an integer that are not in `value`; returns its old value."""
        return self._atomic("and", value, index, scope, mask=mask)

    def atomic_or(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Set the bits of `value` in an integer; returns its old value."""
        return self._atomic("or", value, index, scope, mask=mask)

    def atomic_xor(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Flip the bits of `value` in an integer; returns its old value."""
        return self._atomic("xor", value, index, scope, mask=mask)

    def atomic_exchange(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> Scalar:
        """Replace an element; returns its old value."""
        return self._atomic("exchange", value, index, scope, mask=mask)

    def atomic_cas(
        self, expected: Operand, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None
    ) -> Scalar:
        """Replace an element whose bits are those of `expected`; returns its old value. Never fails spuriously."""
        return self._atomic("cas", value, index, scope, expected, mask)

    def atomic_load(
        self, *index: IndexLike, scope: str = "device", mask: Operand = None, width: int | None = None
    ) -> Scalar:
        """The element as other threads' atomic updates leave it; each call reads memory again.

        With `width` it is a vector of so many elements along the last dimension, each of them read atomically.
        """
        return self._atomic("load", None, index, scope, mask=mask, width=width)

    def atomic_store(self, value: Operand, *index: IndexLike, scope: str = "device", mask: Operand = None) -> None:
        """Replace an element, or each element of a vector, for threads that read it with `atomic_load`."""
        self._atomic("store", value, index, scope, mask=mask)

    def _atomic(
        self,
        name: str,
        value: Operand,
        index: tuple[IndexLike, ...],
        scope: str,
        expected: Operand = None,
        mask: Operand = None,
        width: int | None = None,
    ) -> Scalar:
        tracer = self._inside_kernel()
        self._require_known(tracer, name, value, scope, width)
        if any(isinstance(one, PerElement) for one in index):
            from lego_mlir.tracing.spread.indexed_accesses import update_each

            def update(access: TensorAccess, new: Operand, old: Operand) -> Scalar:
                return self._updated(name, access, new, old, scope)

            return cast(Scalar, update_each(cast("ElementAccess", self), (value, expected), index, mask, update))
        if mask is not None:
            raise tracer.error(f"{self.buffer.name}: mask is of a tile of indices; write `with lego.when(condition):`")
        width = value.width if isinstance(value, Scalar) else width
        access = self.place(*index, stored=name != "load").access(width or 1)
        return self._updated(name, access, value, expected, scope)

    def _updated(self, name: str, access: TensorAccess, value: Operand, expected: Operand, scope: str) -> Scalar:
        """The update of an element, or of two."""
        tracer, dtype = self._inside_kernel(), self.buffer.dtype
        width = None if access.width == 1 else access.width

        def given(number: Operand) -> Value | None:
            return None if number is None else as_value(number, dtype, width)

        other = as_value(0, dtype, width) if access.is_masked else None
        result = tracer.value(dtype, width)
        tracer.append(Atomic(result, name, access, given(value), given(expected), other, scope, access.source))
        return Scalar(result)

    def _require_known(self, tracer: Tracer, name: str, value: Operand, scope: str, width: int | None = None) -> None:
        dtype, called = self.buffer.dtype, f"{self.buffer.name}.atomic_{name}"
        if scope not in SCOPES:
            raise tracer.error(
                f"{called}: the scope {scope!r} must be {' or '.join(SCOPES)}{did_you_mean(str(scope), SCOPES)}"
            )
        if dtype.bits < 32 and not (dtype.is_float and dtype.bits == 16):
            raise tracer.error(
                f"{called}: GPUs update no {dtype} atomically; use elements of i32, i64, f16, bf16, f32 or f64"
            )
        if not KINDS[name][0 if dtype.is_float else 1]:
            raise tracer.error(f"{called} is not defined for {dtype}; integers have and, or and xor")
        width = value.width if isinstance(value, Scalar) else width
        is_pair = name == "add" and dtype.bits == 16 and width == 2
        if width is not None and not is_pair and not (name in ("load", "store") and dtype.bits >= 32):
            raise tracer.error(
                f"{called} updates one element, got {f'{width=}' if value is None else repr(value)}; update each "
                "element of the vector, `for k in range(len(v)): y.atomic_add(v[k], i + k)`; only additions of f16 and "
                "bf16 take two, loads and stores of 32- and 64-bit elements 16 bytes"
            )
