"""Facts about a kernel that a launch needs, read from its module: arguments, block, grid and shared memory.

The kernel's Python object knows more (its layouts, its symbolic grid), but a module written by hand or changed by a
transform script is the only source for these facts.

Of each argument's memory: whether the kernel reads or writes it, and how widely at once. A vector access and an
asynchronous copy fault where their address is not a multiple of their size. Positions are proved to be multiples of the
width, so the array itself must begin at one. Views of an argument count as the argument. An unknown operation may do
anything to it, at the widest access.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Module, Op, Type, Value
from lego_mlir.hardware.tensor_map_forms import MapExtent, SizeTerm, TensorMapForm
from lego_mlir.hardware.tensor_maps import CHUNK, STORED_TYPES, TensorMap
from lego_mlir.transforms.modules import ModuleError, parse, session, string_attribute, walk

# The size of dynamic shared memory, for a kernel that does not use it through constant views.
DYNAMIC_SHARED_ATTRIBUTE: Final = "lego.dynamic_shared_bytes"
# Of an index argument: its least and its greatest value. Of a tensor: its largest number of elements in memory. Of a
# kernel: the largest extents of its grid.
RANGE_ATTRIBUTE: Final = "lego.range"
LARGEST_TENSOR_ATTRIBUTE: Final = "lego.largest"
LARGEST_GRID_ATTRIBUTE: Final = "lego.largest_grid"
# Of a kernel some of whose arguments are tensor maps: one dictionary each, with the fields of `TensorMap`, the
# tensor's number of elements, and whether it is read and written; `unit` for the other arguments before the last map.
TENSOR_MAPS_ATTRIBUTE: Final = "lego.tensor_maps"
# Of a kernel that may begin before the previous one on its stream has ended.
DEPENDENT_ATTRIBUTE: Final = "lego.dependent_launch"
# Of a kernel: none of its tensors shares memory with one that it writes.
APART_ATTRIBUTE: Final = "lego.apart"
_KERNEL_MARKS: Final = ("kernel", "gpu.kernel")  # by version of MLIR
_INDEX_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One kernel argument: `kind` is "tensor" (one pointer) or "scalar"; a size is None where it is not static.

    A tensor must begin at a multiple of `alignment` bytes; `read` and `written` tell how the kernel uses it. With a
    `tensor_map` the kernel takes that instead of a pointer.
    """

    kind: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    alignment: int = 1
    read: bool = True
    written: bool = False
    tensor_map: TensorMap | TensorMapForm | None = None


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One `gpu.func`: `block` and `grid` are None where the module does not fix them. Shared memory in bytes.

    `cluster` is the number of blocks of a cluster along x. A `dependent` kernel waits itself for the previous one on
    its stream.
    """

    name: str
    arguments: tuple[KernelArgument, ...]
    block: tuple[int, ...] | None
    grid: tuple[int, ...] | None
    static_shared: int
    dynamic_shared: int
    cluster: int = 1
    dependent: bool = False


def kernel_facts(text: str, name: str = "-") -> tuple[KernelFacts, ...]:
    """The facts of every kernel of a module, in order."""
    with session():
        return tuple(map(facts_of, kernels(parse(text, name))))


def gpu_modules(module: Module) -> list[Op]:
    """The `gpu.module` operations of a module."""
    return [op.operation for op in module.body.operations if op.operation.name == "gpu.module"]


def kernels(module: Module) -> Iterator[Op]:
    """The `gpu.func` operations that are kernels, in order."""
    for gpu_module in gpu_modules(module):
        for op in gpu_module.regions[0].blocks[0].operations:
            if op.operation.name == "gpu.func" and any(mark in op.operation.attributes for mark in _KERNEL_MARKS):
                yield op.operation


def input_types(function: Op) -> list[Type]:
    """The types of a `gpu.func`'s arguments, its shared and private memory not among them."""
    ir = bindings.load().ir
    return list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)


def facts_of(function: Op) -> KernelFacts:
    """The facts of one `gpu.func`."""
    inputs = input_types(function)
    values = list(function.regions[0].blocks[0].arguments)
    attributions = values[len(inputs) :]
    memrefs = [isinstance(type_, bindings.load().ir.MemRefType) for type_ in inputs]
    sizes = [
        element_bytes(type_.element_type) if is_memref else 1 for type_, is_memref in zip(inputs, memrefs, strict=True)
    ]
    used = uses(function, values[: len(inputs)], sizes)
    shared = (
        int(function.attributes["workgroup_attributions"]) if "workgroup_attributions" in function.attributes else 0
    )
    return KernelFacts(
        name=string_attribute(function, "sym_name"),
        arguments=_mapped(function, tuple(map(_argument, inputs, used))),
        block=_triple(function, "known_block_size"),
        grid=_triple(function, "known_grid_size"),
        static_shared=sum(memref_bytes(value.type) for value in attributions[:shared]),
        dynamic_shared=_dynamic_shared(function),
        cluster=(_triple(function, "known_cluster_size") or (1,))[0],
        dependent=DEPENDENT_ATTRIBUTE in function.attributes,
    )


def _argument(type_: Type, use: Use) -> KernelArgument:
    if not isinstance(type_, bindings.load().ir.MemRefType):
        return KernelArgument("scalar", str(type_))
    shape = tuple(None if type_.is_dynamic_dim(axis) else type_.shape[axis] for axis in range(type_.rank))
    return KernelArgument("tensor", str(type_.element_type), shape, use.alignment, use.read, use.written)


def _mapped(function: Op, plain: tuple[KernelArgument, ...]) -> tuple[KernelArgument, ...]:
    """The arguments, with the tensor maps that the kernel takes for some of them."""
    ir = bindings.load().ir
    if TENSOR_MAPS_ATTRIBUTE not in function.attributes:
        return plain
    found = list(plain)
    for number, described in enumerate(function.attributes[TENSOR_MAPS_ATTRIBUTE]):
        if isinstance(described, ir.UnitAttr):
            continue
        form, written = form_of(described), bool(ir.BoolAttr(described["written"]).value)
        tensor_map = form.at(()) if form.is_fixed else form
        shape = tuple(size if isinstance(size, int) else None for size in form.sizes[::-1])
        found[number] = KernelArgument(
            "tensor", STORED_TYPES.get(form.dtype, form.dtype), shape, CHUNK, not written, written, tensor_map
        )
    return tuple(found)


def map_attribute(tensor_map: TensorMap | TensorMapForm, written: bool, more: str = "") -> str:
    """A tensor map, or its form, as an attribute; whether its tensor is written; `more` has further entries."""
    extents = ", ".join(
        f"{name} = {_listed(values)}"
        for name, values in (("sizes", tensor_map.sizes), ("strides", tensor_map.strides), ("box", tensor_map.box))
    )
    flags = f"swizzle = {tensor_map.swizzle} : i64, written = {str(written).lower()}"
    flags += "" if tensor_map.edge is None else f", edge = {tensor_map.edge} : i64"
    return f'{{dtype = "{tensor_map.dtype}", {extents}, {flags}{more}}}'


def form_of(described: Attribute) -> TensorMapForm:
    """The form of a tensor map that an attribute describes."""
    ir = bindings.load().ir
    sizes, strides = _extents_of(described["sizes"]), _extents_of(described["strides"])
    swizzle = int(ir.IntegerAttr(described["swizzle"]).value)
    box = tuple(ir.DenseI64ArrayAttr(described["box"]))
    edge = int(ir.IntegerAttr(described["edge"]).value) if "edge" in described else None
    return TensorMapForm(str(ir.StringAttr(described["dtype"]).value), sizes, strides, box, swizzle, edge)


def _listed(values: Sequence[MapExtent]) -> str:
    """Numbers as an array of integers; with terms of sizes as a list, of arrays of their numbers."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values):
        return f"array<i64{':' if values else ''} {', '.join(map(str, values))}>"
    listed = (f"{v} : i64" if isinstance(v, int) else f"array<i64: {', '.join(map(str, v.numbers))}>" for v in values)
    return f"[{', '.join(listed)}]"


def _extents_of(described: Attribute) -> tuple[MapExtent, ...]:
    """The numbers of an array of integers, or the numbers and terms of a list."""
    ir = bindings.load().ir
    if not isinstance(described, ir.ArrayAttr):
        return tuple(ir.DenseI64ArrayAttr(described))
    return tuple(
        int(ir.IntegerAttr(one).value) if isinstance(one, ir.IntegerAttr) else SizeTerm(*ir.DenseI64ArrayAttr(one))
        for one in described
    )


def _triple(function: Op, attribute: str) -> tuple[int, ...] | None:
    ir = bindings.load().ir
    if attribute not in function.attributes:
        return None
    return tuple(ir.DenseI32ArrayAttr(function.attributes[attribute]))


def memref_bytes(type_: Type) -> int:
    """The size of a memref of static shape."""
    return prod(type_.shape) * element_bytes(type_.element_type)


def element_bytes(type_: Type) -> int:
    """Bytes of one element: of a float, an integer, an index, or a vector of them."""
    ir = bindings.load().ir
    if isinstance(type_, ir.VectorType):
        return prod(type_.shape) * element_bytes(type_.element_type)
    if isinstance(type_, ir.IndexType):
        return _INDEX_BYTES
    if hasattr(type_, "width"):
        return max(1, int(type_.width) // 8)
    raise ModuleError(f"a shared buffer of {type_}: only numbers, indices and vectors of them can be stored there")


def _dynamic_shared(function: Op) -> int:
    """The end of the furthest constant view of the dynamic shared memory, or the kernel's attribute."""
    ir = bindings.load().ir
    if DYNAMIC_SHARED_ATTRIBUTE in function.attributes:
        return int(ir.IntegerAttr(function.attributes[DYNAMIC_SHARED_ATTRIBUTE]).value)
    end = 0
    for operation in walk(function):
        if operation.name != "memref.view" or _producer(operation.operands[0]) != "gpu.dynamic_shared_memory":
            continue
        shift = operation.operands[1].owner
        type_ = operation.results[0].type
        if getattr(shift, "name", "") != "arith.constant" or not type_.has_static_shape:
            raise ModuleError(
                f"{operation.location}: the size of this view of dynamic shared memory is not constant; give it "
                f"on the gpu.func: attributes {{{DYNAMIC_SHARED_ATTRIBUTE} = <bytes> : i64}}"
            )
        end = max(end, int(ir.IntegerAttr(shift.attributes["value"]).value) + memref_bytes(type_))
    return end


def _producer(value: Value) -> str:
    return str(getattr(value.owner, "name", ""))


WIDEST: Final = 16  # bytes: ld.global.v4.b32, cp.async; PTX ISA

_VIEWS: Final = frozenset(
    f"memref.{name}"
    for name in ("cast", "memory_space_cast", "subview", "reinterpret_cast", "view", "collapse_shape", "expand_shape")
) | {"memref.assume_alignment"}
_HARMLESS: Final = frozenset({"memref.dim", "memref.extract_strided_metadata", "memref.prefetch"})
_READS: Final = frozenset(
    {"memref.load", "affine.load", "affine.vector_load", "vector.load", "vector.transfer_read", "vector.maskedload"}
)
_WRITES: Final = frozenset(
    {"memref.store", "affine.store", "affine.vector_store", "vector.store", "vector.transfer_write",
     "vector.maskedstore"}
)  # fmt: skip
_ATOMIC: Final = frozenset({"memref.atomic_rmw"})
_CALL: Final = "func.call"
_COPY: Final = "nvgpu.device_async_copy"


@dataclass(slots=True)
class Use:
    """`alignment` in bytes: the widest access, at least one element."""

    alignment: int
    read: bool = False
    written: bool = False


def uses(function: Op, arguments: Sequence[Value], element_bytes: Sequence[int]) -> list[Use]:
    """The use of each of the leading arguments of a `gpu.func`; of a scalar, as if it were an element."""
    found = [Use(max(1, size)) for size in element_bytes]
    roots: dict[Any, int] = {value: number for number, value in enumerate(arguments)}
    for operation in walk(function):
        touched = {roots[operand]: k for k, operand in enumerate(operation.operands) if operand in roots}
        for number, position in touched.items():
            if not isinstance(operation.operands[position].type, bindings.load().ir.MemRefType):
                continue
            if operation.name in _VIEWS:
                roots[operation.results[0]] = number
            elif operation.name == _CALL:
                _record_call(found[number], operation, position, element_bytes[number])
            elif operation.name not in _HARMLESS:
                _record(found[number], operation, element_bytes[number])
    return found


def _record_call(use: Use, call: Op, position: int, size: int) -> None:
    """What the called function does with one of its arguments."""
    name = str(bindings.load().ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
    parent = call.parent
    while parent.name not in ("gpu.module", "builtin.module"):
        parent = parent.parent
    for operation in parent.regions[0].blocks[0].operations:
        if "sym_name" in operation.attributes and string_attribute(operation, "sym_name") == name:
            (inner,) = uses(operation.operation, [operation.regions[0].blocks[0].arguments[position]], [size])
            use.alignment = max(use.alignment, inner.alignment)
            use.read, use.written = use.read or inner.read, use.written or inner.written
            return
    use.alignment, use.read, use.written = WIDEST, True, True


def _record(use: Use, operation: Op, size: int) -> None:
    name = operation.name
    if name in _READS | _WRITES | _ATOMIC:
        value = operation.results[0] if name in _READS else operation.operands[0]
        use.alignment = max(use.alignment, _power(_elements(value.type) * size))
        use.read |= name not in _WRITES
        use.written |= name not in _READS
    elif name == _COPY:
        ir = bindings.load().ir
        elements = int(ir.IntegerAttr(operation.attributes["dstElements"]).value)
        use.alignment = max(use.alignment, _power(elements * size))
        use.read = True
    else:
        use.alignment, use.read, use.written = WIDEST, True, True


def _elements(type_: Type) -> int:
    return prod(type_.shape) if isinstance(type_, bindings.load().ir.VectorType) else 1


def _power(size: int) -> int:
    """The power of two from `size` on, up to the widest access."""
    return min(WIDEST, 1 << max(0, size - 1).bit_length())
