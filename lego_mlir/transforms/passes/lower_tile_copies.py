"""Lower tile copies, warp roles and rings of barriers to what the target has.

| | sm_80 | sm_90 and later |
|---|---|---|
| tile copy | by the threads, as its region holds it | one elected thread: `cp.async.bulk.tensor` by a tensor map |
| the same, adding | by the threads, atomically | one elected thread: `cp.reduce.async.bulk.tensor` |
| its completion | `cp.async.mbarrier.arrive` | bytes that the barrier expects |
| wait | a loop around `mbarrier.test_wait` | around `mbarrier.try_wait`, which suspends the thread |
| registers of a role | - | `setmaxnreg` (sm_90a) |

A tensor that is copied by its map is passed as the map, 128 bytes by value, in place of its pointer. A copy with an
edge chooses between two maps: the second one, after the first, copies the rows inside of the tensor alone, into a
stage whose other rows hold zeros from an earlier step of the tile. On sm_90 the copy unit is another proxy: what
threads write to shared memory is fenced before the barriers that precede a copy of it, and before arrivals that come
after such writes.

PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "mbarrier.expect_tx", "fence.proxy", "setmaxnreg"; CUDA
driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.hardware.limits import REGISTERS_PER_SM
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.targets import Target
from lego_mlir.hardware.tensor_map_forms import TensorMapForm
from lego_mlir.hardware.tensor_maps import ATOM_BYTES, LINE, MAP_BYTES, STORED_TYPES
from lego_mlir.transforms.kernel_facts import (
    DEPENDENT_ATTRIBUTE,
    TENSOR_MAPS_ATTRIBUTE,
    element_bytes,
    form_of,
    input_types,
    kernels,
    map_attribute,
)
from lego_mlir.transforms.modules import place, string_attribute, walk
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.copy_fences import INIT, ROLE, fence_initialisation, group_stores, root_of
from lego_mlir.transforms.passes.lower_clusters import expect_in_blocks, own_of, shares_data
from lego_mlir.transforms.passes.operations import create, operations, users

TILE_COPY: Final = "lego.tile_copy"
ROLE_REGISTERS: Final = "lego.registers"
RING: Final = "lego.ring"
TENSOR_COPIES: Final = (9, 0)
"""The first compute capability with tensor copies."""
_WAIT: Final = "nvgpu.mbarrier.try_wait.parity"
EDGE_VALUES: Final = 3
"""What a copy with an edge yields besides: the size along the rows, where the tile begins, and the steps since then."""
ROWS_OF_SWIZZLE: Final = ATOM_BYTES // LINE
"""Rows after which the widest swizzle begins anew, and with which a box may begin in a tile."""
_SHARED_POINTER: Final = "!llvm.ptr<3>"
_SPIN: Final = "{{ .reg .pred done; again: mbarrier.{}.b64 done, [$0], $1; @done bra.uni go; bra.uni again; go: }}"


def has_words(text: str) -> bool:
    """Whether a module's text has something that this pass lowers."""
    return any(word in text for word in (TILE_COPY, ROLE, RING))


@dataclass(frozen=True, slots=True)
class LowerTileCopies(Pass):
    """Raises PassError where the tensor copy unit of the target cannot make a copy, with the reason."""

    name = "lego-lower-tile-copies"

    def run(self, module: Module, target: Target) -> None:
        for function in kernels(module):
            if any(mark in op.attributes for op in walk(function) for mark in (TILE_COPY, ROLE, RING)):
                self.run_on_kernel(function, target)

    def run_on_kernel(self, function: Op, target: Target) -> None:
        """Lower one kernel in place."""
        copies = [op for op in walk(function) if TILE_COPY in op.attributes]
        if target.compute_capability >= TENSOR_COPIES:
            _by_tensor_maps(function, copies)
            fence_initialisation(function)
            if target.specific:
                _set_registers(function)
        else:
            for region in copies:
                _inline(region)
        test = "try_wait.parity" if target.compute_capability >= TENSOR_COPIES else "test_wait.parity"
        test += ".acquire.cluster.shared::cta" if shares_data(function) else ".shared"
        for wait in [op for op in walk(function) if op.name == _WAIT]:
            _spin(wait, test)


def _inline(region: Op) -> None:
    """The statements of a copy in place of its region."""
    *statements, _ = operations(region.regions[0].blocks[0])
    for statement in statements:
        statement.move_before(region)
    region.erase()


def _spin(wait: Op, test: str) -> None:
    """A wait as a loop, which no access to memory is moved across; upstream's does not say that it orders any."""
    ir = bindings.load().ir
    with wait.location, ir.InsertionPoint(wait):
        group, parity, _, index = wait.operands
        number = create("arith.extui", [ir.IntegerType.get_signless(32)], [parity]).results[0]
        facts = {"asm_string": f'"{_SPIN.format(test)}"', "constraints": '"r,r,~{memory}"', "has_side_effects": "unit"}
        create("llvm.inline_asm", [], [_barrier(group, index), number], facts)
    wait.erase()


def _barrier(group: Value, index: Value) -> Value:
    """The pointer to a barrier of a ring."""
    ir = bindings.load().ir
    address = create("nvgpu.mbarrier.get", [ir.IntegerType.get_signless(64)], [group, index]).results[0]
    return create("llvm.inttoptr", [ir.Type.parse(_SHARED_POINTER)], [address]).results[0]


# -- tensor maps


@dataclass(frozen=True, slots=True)
class _Described:
    """What the attribute of a copy holds."""

    tensor: str
    form: TensorMapForm
    places: tuple[tuple[int, int, int], ...]
    other: int
    stores: bool
    adds: bool
    multicast: bool
    mutual: int


def _by_tensor_maps(function: Op, regions: Sequence[Op]) -> None:
    """Every copy by the tensor copy unit, and the maps as the kernel's arguments."""
    if not regions:
        return
    block, maps = function.regions[0].blocks[0], dict[int, tuple[TensorMapForm, bool]]()
    found = []
    for region in regions:
        described = _described(function, region)
        found.append((region, described, _tensor_of(region, described)))
    stored = {root_of(_tile_and_barrier(region, True)[0]) for region, described, _ in found if described.stores}
    for region, described, argument in _in_common_boxes(found):
        form = replace(described.form, edge=None)
        known = maps.setdefault(argument, (described.form, described.stores))
        if (replace(known[0], edge=None), known[1]) != (form, described.stores):
            raise PassError(
                f"@{string_attribute(function, 'sym_name')} copies {described.tensor} in boxes of two forms, "
                f"{known[0].box} and {described.form.box}, and a tensor has one map; copy tiles of one shape and "
                "in one direction, or pass the tensor as two parameters"
            )
        maps[argument] = known if described.form.edge is None else (described.form, described.stores)
        _issue(region, described, block.arguments[argument])
    if stored:
        group_stores(function, stored)
    _pass_maps(function, maps)
    if DEPENDENT_ATTRIBUTE in function.attributes:
        _prefetch_maps(function, maps)


def _in_common_boxes(found: Sequence[tuple[Op, _Described, int]]) -> Iterator[tuple[Op, _Described, int]]:
    """Copies of one tensor in boxes that differ in their rows alone, in boxes of as many rows as divide all of them."""
    rows = defaultdict[tuple[int, int, TensorMapForm], list[int]](list)
    for _, described, argument in found:
        rows[argument, described.other, _of_rows(described, 0)].append(described.form.box[described.other])
    for region, described, argument in found:
        common = gcd(*rows[argument, described.other, _of_rows(described, 0)])
        divided = described.form.edge is None and common % ROWS_OF_SWIZZLE == 0
        yield region, _divided(described, common) if divided else described, argument


def _of_rows(described: _Described, rows: int) -> TensorMapForm:
    """The form with `rows` rows in a box."""
    box = list(described.form.box)
    box[described.other] = rows
    return replace(described.form, box=tuple(box))


def _divided(described: _Described, rows: int) -> _Described:
    """The same copy in boxes of `rows` rows, which divide its boxes."""
    form = _of_rows(described, rows)
    size = prod(form.box) * ELEMENT_BYTES[STORED_TYPES.get(form.dtype, form.dtype)]
    count = described.form.box[described.other] // rows
    places = tuple((m, n + i * rows, byte + i * size) for m, n, byte in described.places for i in range(count))
    return replace(described, form=form, places=places)


def _prefetch_maps(function: Op, maps: Mapping[int, tuple[TensorMapForm, bool]]) -> None:
    """Load the maps while the kernel before this one ends: parameters of the launch, which no kernel writes.

    The thread that initialises the first barriers does.
    """
    ir, block = bindings.load().ir, function.regions[0].blocks[0]
    first = next((op for op in walk(function) if op.name == INIT), None)
    if first is not None:
        with first.location, ir.InsertionPoint(first):
            for number, (form, _) in maps.items():
                create("nvvm.prefetch", [], [block.arguments[number]], {"tensormap": "unit"})
                if form.edge is not None:
                    create("nvvm.prefetch", [], [_edge_map(block.arguments[number])], {"tensormap": "unit"})


def _described(function: Op, region: Op) -> _Described:
    ir = bindings.load().ir
    found = region.attributes[TILE_COPY]
    name = string_attribute(function, "sym_name")
    if "refused" in found:
        where, reason = place(str(region.location), name), ir.StringAttr(found["refused"]).value
        raise PassError(
            f"{where}: @{name}: {reason}. A copy on a barrier is made by the tensor copy unit on this target: change "
            "the tile's layout, or copy without barrier="
        )
    flat = tuple(ir.DenseI64ArrayAttr(found["places"]))
    places = tuple((flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3))
    other, stores = int(ir.IntegerAttr(found["other"]).value), bool(ir.BoolAttr(found["written"]).value)
    tensor = str(ir.StringAttr(found["tensor"]).value)
    mutual = int(ir.IntegerAttr(found["mutual"]).value) if "mutual" in found else 0
    return _Described(tensor, form_of(found), places, other, stores, "adds" in found, "multicast" in found, mutual)


def _tensor_of(region: Op, described: _Described) -> int:
    """The number of the kernel's argument that is copied. Raises PassError if something else accesses it too."""
    memrefs = {
        operand
        for op in walk(region)
        for operand in op.operands
        if "memref" in str(operand.type) and "workgroup" not in str(operand.type)
    }
    (tensor,) = memrefs
    for user in users(tensor):
        around = user
        while around is not None and TILE_COPY not in around.attributes:
            around = around.parent.operation if around.parent is not None else None
        if around is None:
            where = place(str(user.location), "-")
            raise PassError(
                f"{where}: {described.tensor} is copied by a tensor map and accessed by {user.name} as well; pass it "
                "as two parameters, one for tile copies and one for other accesses"
            )
    return int(tensor.arg_number)


def _issue(region: Op, described: _Described, tensor: Value) -> None:
    """One elected thread hands the boxes to the copy unit."""
    ir = bindings.load().ir
    block = region.regions[0].blocks[0]
    yielded = list(operations(block)[-1].operands)
    edge = tuple(yielded.pop() for _ in range(EDGE_VALUES))[::-1] if described.form.edge is not None else ()
    mask = yielded.pop() if described.multicast else None
    *coordinates, position, warp = yielded
    tile, barrier = _tile_and_barrier(region, described.stores)
    for operation in operations(block)[:-1]:
        if operation.name.startswith(("arith.", "index.", "affine.")):
            operation.move_before(region)
    with region.location, ir.InsertionPoint(region), _elected(warp):
        first = _address(tile, position)
        pointer = None if barrier is None else _barrier(*barrier)
        boxes = _Boxes(region, described, coordinates, first, mask, pointer)
        if edge:
            _copy_inside(boxes, tensor, *edge)
        else:
            boxes.expect(boxes.bytes)
            boxes.hand_over(_map(tensor))
        create("scf.yield", [])
    region.erase()


@dataclass(frozen=True, slots=True)
class _Boxes:
    """The boxes of a copy to or from the shared address `first`: what an elected thread does with them."""

    region: Op
    described: _Described
    coordinates: list[Value]
    first: Value
    mask: Value | None
    barrier: Value | None

    @property
    def bytes(self) -> int:
        """Bytes of all boxes, of all blocks that divide the tile."""
        form = self.described.form
        element = ELEMENT_BYTES[STORED_TYPES.get(form.dtype, form.dtype)]
        return prod(form.box) * element * len(self.described.places) * max(self.described.mutual, 1)

    def expect(self, size: int | Value) -> None:
        """The barrier expects these bytes, here or in the blocks of the mask."""
        if self.barrier is None:
            return
        if self.mask is not None and not self.described.mutual:
            assert isinstance(size, int)
            expect_in_blocks(self.region, self.barrier, self.mask, size)
            return
        nvvm = bindings.load().dialect("nvvm")
        nvvm.MBarrierExpectTxOp(self.barrier, _number(size) if isinstance(size, int) else size)

    def hand_over(self, tensor_map: Value) -> None:
        """Copy each box by a map."""
        ir, nvvm, described, mask = bindings.load().ir, bindings.load().dialect("nvvm"), self.described, self.mask
        word = ir.IntegerType.get_signless(32)
        box = [create("arith.index_cast", [word], [c]).results[0] for c in self.coordinates]
        if mask is not None:
            mask = create("arith.index_cast", [ir.IntegerType.get_signless(16)], [mask]).results[0]
        for along, across, byte in described.places:
            there = _shared(_sum(self.first, byte))
            at = [_sum(c, along if k == 0 else across if k == described.other else 0) for k, c in enumerate(box)]
            if described.adds:
                _add_box(tensor_map, there, at)
            elif described.stores:
                nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(tensor_map, there, at)
            else:
                cluster = create("llvm.addrspacecast", [ir.Type.parse("!llvm.ptr<7>")], [there]).results[0]
                nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
                    cluster, tensor_map, at, self.barrier, [], multicastMask=mask
                )


def _copy_inside(boxes: _Boxes, tensor: Value, size: Value, begin: Value, since: Value) -> None:
    """Copy whole boxes in the first steps of a tile, and where they are inside; else the rows at the edge.

    The rows are those of a tensor of this `size`; the tile of all blocks that divide it begins at `begin`. `since` is
    negative in the first steps. A box that is outside as a whole copies as many rows as one at the edge, zeros again:
    without a branch, the two copies of a step are handed over in half of the clocks.
    """
    word, described = bindings.load().ir.IntegerType.get_signless(32), boxes.described
    rows, parts = described.form.box[described.other], max(described.mutual, 1)
    first, rest = _compared("slt", since, _index(0)), _of_two("arith.remsi", size, _index(rows))
    rest = _chosen(_compared("eq", rest, _index(0)), _index(rows), rest)
    inside = _of_two("arith.divsi", _of_two("arith.subi", size, begin), _index(rows))
    inside = _of_two("arith.maxsi", _of_two("arith.minsi", inside, _index(parts)), _index(0))
    at_edge = _of_two("arith.muli", _of_two("arith.subi", _index(parts), inside), rest)
    copied = _of_two("arith.addi", _of_two("arith.muli", inside, _index(rows)), at_edge)
    later = create("arith.index_cast", [word], [_scaled(copied, boxes.bytes // (rows * parts))]).results[0]
    boxes.expect(_chosen(first, _number(boxes.bytes), later))
    own = _of_two("arith.subi", size, boxes.coordinates[described.other])
    whole = _of_two("arith.ori", first, _compared("sge", own, _index(rows)))
    boxes.hand_over(_chosen(whole, _map(tensor), _edge_map(_map(tensor))))


def _edge_map(tensor_map: Value) -> Value:
    """The address of the map after a map."""
    facts = {"rawConstantIndices": f"array<i32: {MAP_BYTES}>", "elem_type": "i8"}
    return create("llvm.getelementptr", [bindings.load().ir.Type.parse("!llvm.ptr")], [tensor_map], facts).results[0]


def _chosen(condition: Value, one: Value, other: Value) -> Value:
    return create("arith.select", [one.type], [condition, one, other]).results[0]


def _of_two(name: str, left: Value, right: Value) -> Value:
    return create(name, [left.type], [left, right]).results[0]


def _compared(predicate: str, left: Value, right: Value) -> Value:
    number = ("eq", "ne", "slt", "sle", "sgt", "sge").index(predicate)
    flag = bindings.load().ir.IntegerType.get_signless(1)
    return create("arith.cmpi", [flag], [left, right], {"predicate": f"{number} : i64"}).results[0]


def _index(value: int) -> Value:
    index = bindings.load().ir.IndexType.get()
    return create("arith.constant", [index], attributes={"value": f"{value} : index"}).results[0]


def _add_box(tensor: Value, tile: Value, at: Sequence[Value]) -> None:
    """Add a box in shared memory to the tensor, in the current bulk group."""
    axes = ", ".join(f"${k + 1}" for k in range(len(at)))
    name = f"cp.reduce.async.bulk.tensor.{len(at)}d.global.shared::cta.add.tile.bulk_group"
    constraints = ",".join(["l", *["r"] * (len(at) + 1), "~{memory}"])
    facts = {
        "asm_string": f'"{name} [$0, {{{axes}}}], [${len(at) + 1}];"',
        "constraints": f'"{constraints}"',
        "has_side_effects": "unit",
    }
    create("llvm.inline_asm", [], [tensor, *at, tile], facts)


def _address(tile: Value, position: Value) -> Value:
    """The shared address of an element of a tile, in 32 bits."""
    ir = bindings.load().ir
    index, word = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    base = create("memref.extract_aligned_pointer_as_index", [index], [tile]).results[0]
    start = create("arith.index_cast", [word], [_scaled(position, element_bytes(tile.type.element_type))]).results[0]
    return create("arith.addi", [word], [create("arith.index_cast", [word], [base]).results[0], start]).results[0]


def _tile_and_barrier(region: Op, stores: bool) -> tuple[Value, tuple[Value, Value] | None]:
    """The shared tile's memref, and the ring and number of the barrier that the copy completes on."""
    tile, barrier = None, None
    for operation in walk(region):
        if operation.name == "nvgpu.device_async_copy" or (
            stores and tile is None and operation.name in ("memref.load", "vector.load")
        ):
            tile = operation.operands[0]
        elif operation.name == "nvgpu.mbarrier.get":
            barrier = own_of(operation.operands[0]), operation.operands[1]
    assert tile is not None
    return own_of(tile), barrier


class _elected:  # noqa: N801  a context, used as a statement
    """`with _elected(warp):` around what one thread of the first warp does."""

    def __init__(self, warp: Value) -> None:
        ir, nvvm = bindings.load().ir, bindings.load().dialect("nvvm")
        zero = create("arith.constant", [ir.IndexType.get()], attributes={"value": "0 : index"}).results[0]
        flag = ir.IntegerType.get_signless(1)
        first = create("arith.cmpi", [flag], [warp, zero], {"predicate": "0 : i64"}).results[0]
        outer = ir.Operation.create("scf.if", [], [first], regions=2)
        inside = outer.regions[0].blocks.append()
        with ir.InsertionPoint(inside):
            leads = nvvm.ElectSyncOp().results[0]
            inner = ir.Operation.create("scf.if", [], [leads], regions=2)
            create("scf.yield", [])
        self._point = ir.InsertionPoint(inner.regions[0].blocks.append())

    def __enter__(self) -> None:
        self._point.__enter__()

    def __exit__(self, *error: object) -> None:
        self._point.__exit__(*error)


def _map(tensor: Value) -> Value:
    """A place holder for the map of a tensor: the argument becomes a pointer when all its copies are lowered."""
    ir = bindings.load().ir
    pointer = ir.Type.parse("!llvm.ptr")
    return create("builtin.unrealized_conversion_cast", [pointer], [tensor]).results[0]


def _pass_maps(function: Op, maps: dict[int, tuple[TensorMapForm, bool]]) -> None:
    """Make the copied tensors arguments that are maps, and describe these to the launcher."""
    ir = bindings.load().ir
    pointer, types = ir.Type.parse("!llvm.ptr"), input_types(function)
    block = function.regions[0].blocks[0]
    for number in maps:
        types[number] = pointer
        casts = users(block.arguments[number])
        block.arguments[number].set_type(pointer)
        for cast in casts:
            cast.results[0].replace_all_uses_with(block.arguments[number])
            cast.erase()
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    listed = [
        ir.Attribute.parse(map_attribute(*maps[n])) if n in maps else ir.UnitAttr.get() for n in range(len(types))
    ]
    function.attributes[TENSOR_MAPS_ATTRIBUTE] = ir.ArrayAttr.get(listed)


def _number(value: int) -> Value:
    word = bindings.load().ir.IntegerType.get_signless(32)
    return create("arith.constant", [word], attributes={"value": f"{value} : i32"}).results[0]


def _sum(value: Value, number: int) -> Value:
    return create("arith.addi", [value.type], [value, _number(number)]).results[0] if number else value


def _scaled(position: Value, size: int) -> Value:
    index = bindings.load().ir.IndexType.get()
    factor = create("arith.constant", [index], attributes={"value": f"{size} : index"}).results[0]
    return create("arith.muli", [index], [position, factor]).results[0]


def _shared(address: Value) -> Value:
    return create("llvm.inttoptr", [bindings.load().ir.Type.parse(_SHARED_POINTER)], [address]).results[0]


# -- registers


def _set_registers(function: Op) -> None:
    """`setmaxnreg` at the beginning of each role with a number of registers."""
    ir = bindings.load().ir
    roles = list(_roles(function))
    if not roles:
        return
    extents = list(ir.DenseI32ArrayAttr(function.attributes["known_block_size"]))
    threads = extents[0] * extents[1] * extents[2]
    given = min(REGISTERS_PER_SM // threads // 8 * 8, 248)
    for role in roles:
        wanted = int(ir.IntegerAttr(role.attributes[ROLE_REGISTERS]).value)
        action = "increase" if wanted > given else "decrease"
        with role.location, ir.InsertionPoint.at_block_begin(role.regions[0].blocks[0]):
            facts = {"regCount": f"{wanted} : i32", "action": f"#nvvm<action {action}>"}
            create("nvvm.setmaxregister", [], attributes=facts)
    function.attributes["nvvm.minctasm"] = ir.Attribute.parse("1 : i32")


def _roles(function: Op) -> Iterator[Op]:
    for operation in walk(function):
        if ROLE_REGISTERS in operation.attributes:
            yield operation
