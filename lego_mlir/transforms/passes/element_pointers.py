"""The address of an element of a memref as a pointer of LLVM, for instructions that take no memref."""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir import bindings
from lego_mlir.aliases import Value
from lego_mlir.transforms.modules import ModuleError
from lego_mlir.transforms.passes.operations import create, is_shared


def pointer_to(memref: Value, indices: Sequence[Value]) -> Value:
    """The address of an element. A memref of two dimensions has rows of one length, one after the other."""
    ir, type_ = bindings.load().ir, memref.type
    if type_.rank > 2 or (type_.rank == 2 and not type_.has_static_shape):
        raise ModuleError(f"an atomic update or a hinted access of {type_}: use a memref of one dimension")
    index, wide = ir.IndexType.get(), ir.IntegerType.get_signless(64)
    position = indices[-1]
    if type_.rank == 2:
        length = create("arith.constant", [index], [], {"value": f"{type_.shape[1]} : index"}).results[0]
        row = create("arith.muli", [index], [indices[0], length]).results[0]
        position = create("arith.addi", [index], [row, position]).results[0]
    address = create("memref.extract_aligned_pointer_as_index", [index], [memref]).results[0]
    numbers = [create("arith.index_cast", [wide], [number]).results[0] for number in (address, position)]
    kind = ir.Type.parse("!llvm.ptr<3>" if is_shared(type_) else "!llvm.ptr")
    base = create("llvm.inttoptr", [kind], [numbers[0]]).results[0]
    element = {"elem_type": ir.TypeAttr.get(type_.element_type), "rawConstantIndices": "array<i32: -2147483648>"}
    return create("llvm.getelementptr", [kind], [base, numbers[1]], element).results[0]
