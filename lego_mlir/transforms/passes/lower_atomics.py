"""Lower the atomic updates of the kernel language to single LLVM instructions, relaxed and of their scope.

Upstream lowers `memref.atomic_rmw` as acquire-release of the system's scope, and `memref.generic_atomic_rmw` as a loop
around a compare-and-swap. An operation with the attribute `lego.scope` is relaxed, so it becomes

    memref.atomic_rmw addf %v, %x[%i]                    llvm.atomicrmw fadd %p, %v syncscope("device") monotonic
    two of f16 elements, the first with lego.together    atom.add.noftz.f16x2
    loads or stores, the first with lego.together        llvm.load or llvm.store of a vector, volatile
    memref.atomic_rmw assign, its result unused          llvm.store atomic
    memref.generic_atomic_rmw that yields its argument   llvm.load atomic
    memref.generic_atomic_rmw that compares and selects  llvm.cmpxchg

on a pointer computed from the memref. LLVM expands what a target lacks into a loop. It has no atomic vectors; PTX has
relaxed accesses of vectors in each element, of the system's scope, which are those that it calls volatile (PTX ISA,
"Memory Consistency Model", "Volatile operations", "Vector Data-types").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op, Type, Value
from lego_mlir.transforms.kernel_facts import element_bytes
from lego_mlir.transforms.modules import string_attribute, walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.element_pointers import pointer_to
from lego_mlir.transforms.passes.operations import create, is_pure, is_shared, operations, producer

SCOPE: Final = "lego.scope"
TOGETHER: Final = "lego.together"
_UPDATE: Final = "memref.atomic_rmw"
_REGION: Final = "memref.generic_atomic_rmw"
# LLVM's operations (llvm::AtomicRMWInst::BinOp) by MLIR's kinds.
_OPERATIONS: Final = {
    "assign": 0, "addi": 1, "andi": 3, "ori": 5, "xori": 6, "maxs": 7, "mins": 8, "maxu": 9, "minu": 10,
    "addf": 11, "maxnumf": 13, "minnumf": 14, "maximumf": 19, "minimumf": 20,
}  # fmt: skip
_MONOTONIC: Final = "2 : i64"


@dataclass(frozen=True, slots=True)
class LowerAtomics(FunctionPass):
    """Replaces the marked updates; without scopes, as on a CPU, they are atomic for all threads.

    A region of another form is left to upstream's loop. Raises ModuleError for a memref whose rows are not contiguous.
    """

    scoped: bool = True
    name = "lego-lower-atomics"

    def run_on(self, function: Op) -> None:
        if self.scoped:
            for first in [op for op in walk(function) if TOGETHER in op.attributes]:
                _replace_together(first)
        for operation in [op for op in walk(function) if SCOPE in op.attributes]:
            if operation.name == _UPDATE or (operation.name == _REGION and (_is_load(operation) or _swap(operation))):
                with operation.location, bindings.load().ir.InsertionPoint(operation):
                    _replace(operation, {"syncscope": operation.attributes[SCOPE]} if self.scoped else {})


def _replace_together(first: Op) -> None:
    """Updates of adjacent elements as one; those that no instruction of every target does stay apart."""
    ir = bindings.load().ir
    updates = _updates(first, int(ir.IntegerAttr(first.attributes[TOGETHER]).value))
    if updates is None:
        return
    if first.name == _REGION:
        _load_vector(updates)
    elif _kind(first) == "assign" and not any(list(op.results[0].uses) for op in updates):
        _store_vector(updates)
    elif _kind(first) == "addf" and str(first.results[0].type) == "f16":
        _add_pair(*updates)
    else:
        return
    for operation in updates:
        operation.erase()


def _load_vector(updates: Sequence[Op]) -> None:
    """Loads as one, at the first."""
    ir, (memref, *indices) = bindings.load().ir, updates[0].operands
    element = updates[0].results[0].type
    with updates[0].location, ir.InsertionPoint(updates[0]):
        vector = ir.VectorType.get([len(updates)], element)
        found = create("llvm.load", [vector], [pointer_to(memref, indices)], _vector_access(vector)).results[0]
        for lane, operation in enumerate(updates):
            part = create("vector.extract", [element], [found], {"static_position": f"array<i64: {lane}>"}).results[0]
            operation.results[0].replace_all_uses_with(part)


def _store_vector(updates: Sequence[Op]) -> None:
    """Stores as one, at the last."""
    ir, (value, memref, *indices) = bindings.load().ir, updates[0].operands
    with updates[0].location, ir.InsertionPoint(updates[-1]):
        vector = ir.VectorType.get([len(updates)], value.type)
        made = create("vector.from_elements", [vector], [op.operands[0] for op in updates]).results[0]
        create("llvm.store", [], [made, pointer_to(memref, indices)], _vector_access(vector))


def _vector_access(vector: Type) -> dict[str, Attribute | str]:
    return {"alignment": f"{vector.shape[0] * element_bytes(vector.element_type)} : i64", "volatile_": "unit"}


def _add_pair(first: Op, second: Op) -> None:
    """Two additions of adjacent f16 elements as one; those of bf16, which not every target has, stay apart.

    LLVM would make a loop of an addition of a vector. PTX ISA, "atom": each element of f16x2 is updated atomically.
    """
    ir = bindings.load().ir
    half, word, pair = (ir.Type.parse(text) for text in ("f16", "i32", "vector<2xf16>"))
    scope = {"device": "gpu", "block": "cta"}[string_attribute(first, SCOPE)]
    with first.location, ir.InsertionPoint(second):
        value, memref, *indices = first.operands
        both = create("vector.from_elements", [pair], [value, second.operands[0]]).results[0]
        bits = create("llvm.bitcast", [word], [both]).results[0]
        space = ".shared" if is_shared(memref.type) else ""
        text = f"atom.relaxed.{scope}{space}.add.noftz.f16x2 $0, [$1], $2;"
        facts = {"asm_string": f'"{text}"', "constraints": '"=r,l,r,~{memory}"', "has_side_effects": "unit"}
        found = create("llvm.inline_asm", [word], [pointer_to(memref, indices), bits], facts).results[0]
        old = create("llvm.bitcast", [pair], [found]).results[0]
        for lane, operation in enumerate((first, second)):
            part = create("vector.extract", [half], [old], {"static_position": f"array<i64: {lane}>"}).results[0]
            operation.results[0].replace_all_uses_with(part)


def _updates(first: Op, count: int) -> list[Op] | None:
    """The updates of a vector, with only index arithmetic between them; None if something else came there."""
    block, found = operations(first.block), [first]
    for operation in block[block.index(first) + 1 :]:
        if len(found) == count:
            break
        if operation.name == first.name and SCOPE in operation.attributes:
            found.append(operation)
        elif not is_pure(operation) or any(op.results[0] in list(operation.operands) for op in found):
            return None
    return found if len(found) == count else None


def _replace(operation: Op, scope: dict[str, Attribute]) -> None:
    if operation.name == _REGION:
        memref, *indices = operation.operands
        pointer = pointer_to(memref, indices)
        if _is_load(operation):
            old = _access("llvm.load", [memref.type.element_type], [pointer], scope).results[0]
        else:
            old = _compared(operation, pointer, scope)
    else:
        value, memref, *indices = operation.operands
        pointer, kind = pointer_to(memref, indices), _kind(operation)
        if kind == "assign" and not list(operation.results[0].uses):
            _access("llvm.store", [], [value, pointer], scope)
            operation.erase()
            return
        update = {"bin_op": f"{_OPERATIONS[kind]} : i64", "ordering": _MONOTONIC}
        old = create("llvm.atomicrmw", [value.type], [pointer, value], {**update, **scope}).results[0]
    operation.results[0].replace_all_uses_with(old)
    operation.erase()


def _yielded(operation: Op) -> tuple[Value, Value]:
    """The argument of a region, the old value, and what it yields."""
    block = operation.regions[0].blocks[0]
    *_, end = (op.operation for op in block.operations)
    return block.arguments[0], end.operands[0]


def _is_load(operation: Op) -> bool:
    old, new = _yielded(operation)
    return bool(old == new)


def _swap(operation: Op) -> tuple[Value, Value] | None:
    """The bits to compare with and the new value of `yield select(cmpi eq bits(old), expected), new, old`."""
    old, new = _yielded(operation)
    select = producer(new)
    if select is None or select.name != "arith.select" or select.operands[2] != old:
        return None
    compare = producer(select.operands[0])
    if compare is None or compare.name != "arith.cmpi" or str(compare.attributes["predicate"]) != "0 : i64":
        return None
    bits, expected = compare.operands
    cast = producer(bits)
    if bits != old and (cast is None or cast.name != "arith.bitcast" or cast.operands[0] != old):
        return None
    inside = producer(expected)
    if inside is not None and inside.block == operation.regions[0].blocks[0]:
        expected = inside.operands[0] if inside.name == "arith.bitcast" else None
    return None if expected is None else (expected, select.operands[1])


def _access(name: str, results: Sequence[Type], operands: Sequence[Value], scope: dict[str, Attribute]) -> Op:
    """An atomic load or store."""
    element = results[0] if results else operands[0].type
    return create(
        name, results, operands, {"alignment": f"{element_bytes(element)} : i64", "ordering": _MONOTONIC, **scope}
    )


def _compared(operation: Op, pointer: Value, scope: dict[str, Attribute]) -> Value:
    """The old value of a compare-and-swap, which compares and stores bits."""
    ir, swap = bindings.load().ir, _swap(operation)
    assert swap is not None
    type_ = operation.results[0].type
    bits = ir.IntegerType.get_signless(8 * element_bytes(type_))
    given = [v if v.type == bits else create("arith.bitcast", [bits], [v]).results[0] for v in swap]
    attributes = {"success_ordering": _MONOTONIC, "failure_ordering": _MONOTONIC, **scope}
    pair = ir.Type.parse(f"!llvm.struct<({bits}, i1)>")
    both = create("llvm.cmpxchg", [pair], [pointer, *given], attributes).results[0]
    found = create("llvm.extractvalue", [bits], [both], {"position": "array<i64: 0>"}).results[0]
    return found if bits == type_ else create("arith.bitcast", [type_], [found]).results[0]


def _kind(operation: Op) -> str:
    """The name of the kind: its number differs between versions of MLIR."""
    ir, kinds = bindings.load().ir, bindings.load().dialect("arith").AtomicRMWKind
    number = int(ir.IntegerAttr(operation.attributes["kind"]).value)
    return next(name for name, kind in kinds.__members__.items() if int(kind) == number)
