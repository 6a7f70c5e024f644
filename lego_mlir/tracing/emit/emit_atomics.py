"""Atomic updates as MLIR: `memref.atomic_rmw`, and `memref.generic_atomic_rmw` for a load or a compare-and-swap.

    cas     generic_atomic_rmw { (old): yield (bits of old == bits of expected) ? value : old }
    load    generic_atomic_rmw { (old): yield old }

Both are standard MLIR that any lowering may expand into a loop. The attribute `lego.scope` marks them as relaxed and
names their scope, which `transforms/passes/lower_atomics.py` turns into single LLVM instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Value as MlirValue
from lego_mlir.printers.builder import Builder
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import Atomic, Value
from lego_mlir.tracing.words.atomics import KINDS

SCOPE: Final = "lego.scope"
TOGETHER: Final = "lego.together"  # on the first of as many updates of adjacent elements


class AtomicEmitter:
    """Emits atomic updates at the current insertion point; `value_of` gives the MLIR value of a traced one."""

    def __init__(self, build: Builder, value_of: Callable[[Value], MlirValue]) -> None:
        self.build, self.value_of = build, value_of

    def emit(self, atomic: Atomic, memref: MlirValue, indices: Sequence[MlirValue]) -> MlirValue:
        """The old value; each element of a vector is updated for itself, and lowering makes one instruction of all."""
        build, width, kind = self.build, atomic.access.width, atomic.result.dtype.mlir
        given = None if atomic.value is None else self.value_of(atomic.value)
        if width == 1:
            return self._one(atomic, given, memref, indices, {})
        old: list[MlirValue] = []
        for lane in range(width):
            at, value, facts = indices, given, {} if lane else {TOGETHER: f"{width} : i64"}
            if lane:
                at = (*at[:-1], build.value("arith.addi", (at[-1], build.constant(lane, "index")), "index"))
            if given is not None:
                value = build.value("vector.extract", (given,), kind, {"static_position": f"array<i64: {lane}>"})
            old.append(self._one(atomic, value, memref, at, facts))
        if atomic.operation == "store":  # without a result that anyone may use
            return old[0]
        return build.value("vector.from_elements", tuple(old), atomic.result.mlir)

    def _one(
        self, atomic: Atomic, value: MlirValue | None, memref: MlirValue, indices: Sequence[MlirValue],
        facts: dict[str, str],
    ) -> MlirValue:  # fmt: skip
        """The update of one element."""
        if value is None or atomic.operation == "cas":
            return self._generic(atomic, memref, indices, facts)
        dtype, kinds = atomic.result.dtype, bindings.load().dialect("arith").AtomicRMWKind
        kind = int(getattr(kinds, KINDS[atomic.operation][0 if dtype.is_float else 2 if dtype.is_unsigned else 1]))
        attributes = {"kind": f"{kind} : i64", SCOPE: f'"{atomic.scope}"', **facts}
        return self.build.value("memref.atomic_rmw", (value, memref, *indices), dtype.mlir, attributes)

    def _generic(
        self, atomic: Atomic, memref: MlirValue, indices: Sequence[MlirValue], facts: dict[str, str]
    ) -> MlirValue:
        build, dtype, facts = self.build, atomic.result.dtype, {SCOPE: f'"{atomic.scope}"', **facts}
        operation = build.operation("memref.generic_atomic_rmw", (memref, *indices), (dtype.mlir,), facts, regions=1)
        block = operation.regions[0].blocks.append(build.type(dtype.mlir), arg_locs=[operation.location])
        (old,) = block.arguments
        with build.ir.InsertionPoint(block):
            new = old
            if atomic.expected is not None and atomic.value is not None:
                bits = [self._bits(v, dtype) for v in (old, self.value_of(atomic.expected))]
                same = build.value("arith.cmpi", bits, "i1", {"predicate": "0 : i64"})
                new = build.value("arith.select", (same, self.value_of(atomic.value), old), dtype.mlir)
            build.operation("memref.atomic_yield", (new,))
        return operation.results[0]

    def _bits(self, value: MlirValue, dtype: DType) -> MlirValue:
        return self.build.value("arith.bitcast", (value,), f"i{dtype.bits}") if dtype.is_float else value
