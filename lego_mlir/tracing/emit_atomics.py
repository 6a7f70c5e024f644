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
from lego_mlir.tracing.atomics import KINDS
from lego_mlir.tracing.dtypes import DType
from lego_mlir.tracing.trace import Atomic, Value

SCOPE: Final = "lego.scope"
PAIR: Final = "lego.pair"  # on the first of two updates of adjacent elements


class AtomicEmitter:
    """Emits atomic updates at the current insertion point; `value_of` gives the MLIR value of a traced one."""

    def __init__(self, build: Builder, value_of: Callable[[Value], MlirValue]) -> None:
        self.build, self.value_of = build, value_of

    def emit(self, atomic: Atomic, memref: MlirValue, indices: Sequence[MlirValue]) -> MlirValue:
        """The old value."""
        if atomic.operation in ("cas", "load"):
            return self._generic(atomic, memref, indices)
        assert atomic.value is not None
        value, dtype = self.value_of(atomic.value), atomic.result.dtype
        kinds = bindings.load().dialect("arith").AtomicRMWKind
        kind = int(getattr(kinds, KINDS[atomic.operation][_column(dtype)]))
        attributes = {"kind": f"{kind} : i64", SCOPE: f'"{atomic.scope}"'}
        if atomic.result.width is not None:
            return self._pair(atomic.result, value, memref, indices, attributes)
        return self.build.value("memref.atomic_rmw", (value, memref, *indices), dtype.mlir, attributes)

    def _pair(
        self, result: Value, value: MlirValue, memref: MlirValue, indices: Sequence[MlirValue], facts: dict[str, str]
    ) -> MlirValue:
        """Updates of two elements, one directly after the other, which lowering makes one of."""
        build, kind = self.build, result.dtype.mlir
        parts = [
            build.value("vector.extract", (value,), kind, {"static_position": f"array<i64: {lane}>"}) for lane in (0, 1)
        ]
        following = (*indices[:-1], build.value("arith.addi", (indices[-1], build.constant(1, "index")), "index"))
        first = build.value("memref.atomic_rmw", (parts[0], memref, *indices), kind, {**facts, PAIR: "unit"})
        second = build.value("memref.atomic_rmw", (parts[1], memref, *following), kind, facts)
        return build.value("vector.from_elements", (first, second), result.mlir)

    def _generic(self, atomic: Atomic, memref: MlirValue, indices: Sequence[MlirValue]) -> MlirValue:
        build, dtype = self.build, atomic.result.dtype
        operation = build.operation(
            "memref.generic_atomic_rmw", (memref, *indices), (dtype.mlir,), {SCOPE: f'"{atomic.scope}"'}, regions=1
        )
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


def _column(dtype: DType) -> int:
    return 0 if dtype.is_float else 2 if dtype.is_unsigned else 1
