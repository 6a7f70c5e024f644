"""Lower the shared memory and barriers of other blocks of a cluster to distributed shared memory.

    %there = builtin.unrealized_conversion_cast %tile, %rank {lego.of_block}     the tile in block %rank
    memref.load %there[%i]         ld.shared::cluster of the address that mapa makes of the tile's own
    memref.store %v, %there[%i]    st.shared::cluster
    nvgpu.mbarrier.arrive          mbarrier.arrive.shared::cluster at the barrier there

An arrival releases, and a wait acquires, at the scope of the cluster in kernels that access the memory of other blocks
by these loads and stores. Where only copies by the tensor unit pass data between blocks, the scope of a block suffices,
and is cheaper: the larger one waits for all of the thread's writes. Targets without clusters are refused.

PTX ISA, "mapa", "ld", "st", "mbarrier.arrive", "barrier.cluster".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Type, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import element_bytes, kernels
from lego_mlir.transforms.modules import place, string_attribute, walk
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.operations import create, producer, users

OF_BLOCK: Final = "lego.of_block"
CLUSTER: Final = "known_cluster_size"
CLUSTERS: Final = (9, 0)
"""The first compute capability with clusters."""
_ARRIVE: Final = "nvgpu.mbarrier.arrive"
_LOADS: Final = ("memref.load", "vector.load")
_STORES: Final = ("memref.store", "vector.store")
_LLVM_FLOATS: Final = ("f16", "bf16", "f32", "f64")
_REMOTE_ARRIVAL: Final = (
    "{{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; mbarrier.arrive{}.shared::cluster.b64 _, [there]; }}"
)
_EXPECT: Final = (
    "{{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, {}; "
    "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [there], {}; }}"
)
_EXPECT_IF: Final = (
    "{{ .reg .b32 there, bit; .reg .pred wanted; and.b32 bit, $1, {}; setp.ne.b32 wanted, bit, 0; "
    "mapa.shared::cluster.u32 there, $0, {}; "
    "@wanted mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [there], {}; }}"
)


def has_clusters(text: str, target: Target) -> bool:
    """Whether a module's text has something that this pass lowers or refuses."""
    return OF_BLOCK in text or (CLUSTER in text and target.compute_capability < CLUSTERS)


def shares_data(function: Op) -> bool:
    """Whether threads access the shared memory of other blocks."""
    return any(is_peer(op) and "memref" in str(op.results[0].type) for op in walk(function))


def is_peer(operation: Op) -> bool:
    """Whether an operation is the cast to another block's memory or barriers."""
    return OF_BLOCK in operation.attributes


def own_of(value: Value) -> Value:
    """The block's own tile or barriers, of which another block's may be a cast."""
    source = producer(value)
    return source.operands[0] if source is not None and is_peer(source) else value


def blocks_of_cluster(inside: Op) -> int:
    """The number of blocks in a cluster of the kernel around an operation."""
    function = inside
    while function.name != "gpu.func":
        function = function.parent.operation
    return prod(bindings.load().ir.DenseI32ArrayAttr(function.attributes[CLUSTER]))


def expect_in_blocks(inside: Op, barrier: Value, mask: Value, size: int) -> None:
    """The barrier in each block of the mask expects these bytes; at the insertion point, in a kernel with clusters."""
    ir = bindings.load().ir
    source = producer(mask)
    known = int(ir.IntegerAttr(source.attributes["value"]).value) if source.name == "arith.constant" else None
    for rank in range(blocks_of_cluster(inside)):
        facts = {"asm_string": f'"{_EXPECT.format(rank, size)}"', "has_side_effects": "unit"}
        if known is None:
            word = ir.IntegerType.get_signless(32)
            bits = create("arith.index_cast", [word], [mask]).results[0]
            facts["asm_string"] = f'"{_EXPECT_IF.format(1 << rank, rank, size)}"'
            create("llvm.inline_asm", [], [barrier, bits], {**facts, "constraints": '"r,r,~{memory}"'})
        elif known >> rank & 1:
            create("llvm.inline_asm", [], [barrier], {**facts, "constraints": '"r,~{memory}"'})


@dataclass(frozen=True, slots=True)
class LowerClusters(Pass):
    """Raises PassError for a target without clusters, and for an access that has no form in another block's memory."""

    name = "lego-lower-clusters"

    def run(self, module: Module, target: Target) -> None:
        for function in kernels(module):
            _require_clusters(function, target)
            scoped = shares_data(function)
            for cast in [op for op in walk(function) if is_peer(op)]:
                for user in users(cast.results[0]):
                    _lower(user, cast, scoped)
                cast.erase()


def _require_clusters(function: Op, target: Target) -> None:
    ir = bindings.load().ir
    if CLUSTER not in function.attributes or target.compute_capability >= CLUSTERS:
        return
    blocks = tuple(ir.DenseI32ArrayAttr(function.attributes[CLUSTER]))
    if prod(blocks) > 1:
        where = place(str(function.location), "-")
        raise PassError(
            f"{where}: @{string_attribute(function, 'sym_name')} runs in clusters of {blocks} blocks, and "
            f"{target.name} has no clusters; compile for sm_90 or later, or use cluster=(1, 1)"
        )


def _lower(user: Op, cast: Op, scoped: bool) -> None:
    with user.location, bindings.load().ir.InsertionPoint(user):
        if user.name in _LOADS:
            _load(user, cast)
        elif user.name in _STORES:
            _store(user, cast)
        elif user.name == _ARRIVE:
            _arrive(user, cast, scoped)
        else:
            where = place(str(user.location), "-")
            raise PassError(
                f"{where}: {user.name} of another block's shared memory; only loads, stores and arrivals reach it"
            )
    user.erase()


def _load(load: Op, cast: Op) -> None:
    ir, type_ = bindings.load().ir, load.results[0].type
    stored = _stored_as(type_)
    facts = {"ordering": "0 : i64", "alignment": f"{_alignment(load, type_)} : i64"}
    found = create("llvm.load", [stored], [_remote(load, cast, list(load.operands)[1:])], facts).results[0]
    if stored != type_:
        found = create("arith.bitcast", [type_], [found]).results[0]
    assert isinstance(found, ir.Value)
    load.results[0].replace_all_uses_with(found)


def _store(store: Op, cast: Op) -> None:
    value, _, *indices = store.operands
    stored = _stored_as(value.type)
    if stored != value.type:
        value = create("arith.bitcast", [stored], [value]).results[0]
    facts = {"ordering": "0 : i64", "alignment": f"{_alignment(store, value.type)} : i64"}
    create("llvm.store", [], [value, _remote(store, cast, indices)], facts)


def _arrive(arrival: Op, cast: Op, scoped: bool) -> None:
    """Arrive at the barrier of another block; its token names no phase there, and nothing uses it."""
    ir = bindings.load().ir
    address = create(
        "nvgpu.mbarrier.get", [ir.IntegerType.get_signless(64)], [cast.operands[0], arrival.operands[1]]
    ).results[0]
    own = create("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<3>")], [address]).results[0]
    asm = _REMOTE_ARRIVAL.format(".release.cluster" if scoped else "")
    facts = {"asm_string": f'"{asm}"', "constraints": '"r,r,~{memory}"', "has_side_effects": "unit"}
    create("llvm.inline_asm", [], [own, _rank(cast)], facts)


def _rank(cast: Op) -> Value:
    word = bindings.load().ir.IntegerType.get_signless(32)
    return create("arith.index_cast", [word], [cast.operands[1]]).results[0]


def _remote(user: Op, cast: Op, indices: list[Value]) -> Value:
    """The address, in the cluster, of an element of another block's tile."""
    ir = bindings.load().ir
    index, word = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    own = cast.operands[0]
    position, shape = None, list(own.type.shape)
    for number, at in enumerate(indices):
        step = prod(shape[number + 1 :]) * element_bytes(own.type.element_type)
        part = create("arith.muli", [index], [at, _constant(step)]).results[0]
        position = part if position is None else create("arith.addi", [index], [position, part]).results[0]
    base = create("memref.extract_aligned_pointer_as_index", [index], [own]).results[0]
    start = create("arith.addi", [index], [base, position]).results[0]
    address = create("arith.index_cast", [word], [start]).results[0]
    here = create("llvm.inttoptr", [ir.Type.parse("!llvm.ptr<3>")], [address]).results[0]
    return create("nvvm.mapa", [ir.Type.parse("!llvm.ptr<7>")], [here, _rank(cast)]).results[0]


def _constant(value: int) -> Value:
    return create("arith.constant", [bindings.load().ir.IndexType.get()], (), {"value": f"{value} : index"}).results[0]


def _stored_as(type_: Type) -> Type:
    """The type that LLVM loads and stores: integers for floats of 8 bits."""
    ir = bindings.load().ir
    is_vector = isinstance(type_, ir.VectorType)
    element = type_.element_type if is_vector else type_
    if isinstance(element, ir.IntegerType) or str(element) in _LLVM_FLOATS:
        return type_
    integer = ir.IntegerType.get_signless(8 * element_bytes(element))
    return ir.VectorType.get(list(type_.shape), integer) if is_vector else integer


def _alignment(access: Op, type_: Type) -> int:
    """The bytes that an access is a multiple of."""
    ir = bindings.load().ir
    if "alignment" in access.attributes:
        return int(ir.IntegerAttr(access.attributes["alignment"]).value)
    return element_bytes(type_.element_type if isinstance(type_, ir.VectorType) else type_)
