"""A staged product read off a kernel: what its loops copy, multiply and store, proved for every thread, tile and step.

The kernel says for each thread which elements it copies. Evaluated for all of them (`axis_sums`), the copies of a
shared tile are a box of a matrix: element (r, c) of the tile comes from `origin + r * pitch + c`, where the origin
depends on the tile and moves along K with each step, and elements outside of the matrix are zeros. The products must
multiply every row of the left tile with every row of the right one, all of K once, and the stores must write each sum
to its place in C, through an elementwise epilogue or none (`stored_values`). Anything else is refused, with the
operation that differs: the kernel that replaces this one computes just that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import Block, Op, Value
from lego_mlir.transforms.kernel_facts import input_types
from lego_mlir.transforms.modules import ModuleError, walk
from lego_mlir.transforms.passes.base import UnreadError
from lego_mlir.transforms.passes.operations import is_shared, named, operations, producer, users
from lego_mlir.transforms.warpgroups.axis_sums import Array, Axis, AxisSum, IndexValues
from lego_mlir.transforms.warpgroups.largest_values import UPDATE, LargestReader
from lego_mlir.transforms.warpgroups.stored_values import STORES, StoredValue, StoredValueReader, StorePlace

THREAD, TILE, STEP, ROW = "thread", "tile", "step", "row"
_FRAGMENT_DEPTH: Final = 16
_COLUMNS: Final = 8
# What a staged product consists of; anything else has an effect that would be lost.
_ALLOWED: Final = (
    "arith.", "math.", "index.", "affine.apply", "vector.", "scf.for", "scf.if", "scf.yield", "gpu.thread_id",
    "gpu.block_id", "gpu.barrier", "gpu.return", "ub.poison", "memref.load", "llvm.intr.assume", "gpu.shuffle", UPDATE,
)  # fmt: skip


class NotStagedError(UnreadError):
    """The kernel is not a staged product that warpgroups can compute."""


@dataclass(frozen=True, slots=True)
class Box:
    """A tile of a matrix: `shape` elements of an argument, element (r, c) at `origin + r * pitch + c`.

    `origins` are those of all tiles at the first step; `stride` is how far a step moves them. The kernel's value `at`
    is the origin plus `shift` where the numbers of thread and step are 0.
    """

    argument: int
    dtype: str
    elements: int
    shape: tuple[int, int]
    pitch: int
    origins: Array
    stride: int
    at: Value
    shift: int

    @property
    def lines(self) -> int:
        """Rows of the matrix, of `pitch` elements each."""
        return self.elements // self.pitch


@dataclass(frozen=True, slots=True)
class StagedProduct:
    """What a kernel computes: the left and right tiles of a step, C's tile, and the loops around.

    `position` is the value that numbers the tiles, None for one tile; `contiguous` names the contiguous dimension of
    each operand.
    """

    left: Box
    right: Box
    out: Box
    contiguous: tuple[str, str]
    positions: int
    blocks: int
    steps: int
    position: Value | None
    stored: StoredValue


def read(function: Op) -> StagedProduct:
    """The product that a kernel computes. Raises NotStagedError, with the reason, for any other kernel."""
    try:
        return ProductReader(function).read()
    except ModuleError as error:
        raise error if isinstance(error, NotStagedError) else NotStagedError(str(error)) from error


class ProductReader:
    """One kernel. For one that takes sizes, `sizes` are their values, and `elements` those of its matrices."""

    def __init__(
        self, function: Op, sizes: Mapping[Value, int] | None = None, elements: Sequence[int] | None = None
    ) -> None:
        self.ir = bindings.load().ir
        self.sizes = {size: AxisSum.constant(value) for size, value in (sizes or {}).items()}
        self.elements = elements
        self.function = function
        self.arguments = list(function.regions[0].blocks[0].arguments)[: len(input_types(function))]
        for operation in walk(function):
            if not operation.name.startswith(_ALLOWED):
                raise NotStagedError(f"{operation.location}: {operation.name} is not part of a staged product")
        self.threads = self._extent("known_block_size")
        self.blocks = 0 if self.sizes else self._extent("known_grid_size")
        self.inner = self._loop_of_products()
        self.position, self.positions, self.body = self._tiles()
        self.values = self._values()

    # -- the frame: loops and ids

    def _extent(self, name: str) -> int:
        if name not in self.function.attributes:
            raise NotStagedError(f"the kernel has no {name}; warpgroups are planned for a known number of blocks")
        extents = tuple(self.ir.DenseI32ArrayAttr(self.function.attributes[name]))
        if extents[1:] != (1, 1):
            raise NotStagedError(f"{name} is {extents}; blocks and threads must be numbered along x")
        return int(extents[0])

    def _loop_of_products(self) -> Op:
        found = {
            op.parent.operation for op in walk(self.function) if op.name == "vector.contract" and op.parent is not None
        }
        if len(found) != 1 or (loop := found.pop()).name != "scf.for":
            raise NotStagedError("the products must be in one loop along K")
        return loop

    def _tiles(self) -> tuple[Value | None, int, Block]:
        """The value that numbers tiles, their number, and the block of operations for one tile."""
        block = self.inner.block
        if block == self.function.regions[0].blocks[0]:
            if self.sizes:
                raise NotStagedError("a kernel of symbolic sizes needs persistent blocks: matmul.build(.., blocks=..)")
            return self._block_id(), self.blocks, block
        outer = self.inner.parent.operation
        if outer.name != "scf.for" or outer.block != self.function.regions[0].blocks[0]:
            raise NotStagedError(
                f"{outer.location}: {outer.name} around the loop along K: tiles must be numbered without gaps; an "
                "order that pads the grid has some, one like schedule.grouped has none"
            )
        first, end, step = list(outer.operands)[:3]
        plain = IndexValues(self.sizes)
        if self.sizes:
            self.blocks = plain.of(step).fixed or 0
        alone = (
            self.blocks == 1 and getattr(producer(first), "name", "") == "arith.constant" and not plain.of(first).fixed
        )
        numbered = alone or getattr(producer(first), "name", "") == "gpu.block_id"
        if not numbered or plain.of(step).fixed != self.blocks:
            raise NotStagedError(
                f"{outer.location}: the tiles of a block must be its number and every {self.blocks}th after"
            )
        total = plain.of(end).fixed
        if total is None:
            raise NotStagedError(f"{outer.location}: the number of tiles is not a constant")
        self.tile_count = end
        return block.arguments[0], total, block

    def _block_id(self) -> Value | None:
        """The block's number; None in a kernel of one block, which has no use for it."""
        return next((op.results[0] for op in walk(self.function) if op.name == "gpu.block_id"), None)

    def _values(self) -> IndexValues:
        """Evaluation of this kernel's indices."""
        plain = IndexValues(self.sizes)
        self.step_count = self.inner.operands[1]
        first, end, step = (plain.of(value).fixed for value in list(self.inner.operands)[:3])
        if first != 0 or step != 1 or end is None:
            raise NotStagedError(f"{self.inner.location}: the loop along K must count from 0 by 1 to a constant")
        self.steps = end
        known = {**self.sizes, self.inner.regions[0].blocks[0].arguments[0]: AxisSum.along(Axis(STEP, range(end)))}
        if self.position is not None:
            known[self.position] = AxisSum.along(Axis(TILE, range(self.positions)))
        for operation in walk(self.function):
            if operation.name == "gpu.thread_id":
                known[operation.results[0]] = AxisSum.along(Axis(THREAD, range(self.threads)))
        for loop in named(self.body, "scf.for"):
            if loop != self.inner:
                found = [plain.of(value).fixed for value in list(loop.operands)[:3]]
                bounds = [bound for bound in found if bound is not None]
                if len(bounds) < len(found):
                    raise NotStagedError(f"{loop.location}: a loop whose bounds are not constants")
                known[loop.regions[0].blocks[0].arguments[0]] = AxisSum.along(Axis(ROW, range(*bounds)))
        return IndexValues(known)

    # -- the whole

    def read(self) -> StagedProduct:
        reads, sums = self._products()
        boxes = {tile: self._copied(tile) for tile in reads.values()}
        left, right = boxes[reads["left"]], boxes[reads["right"]]
        contiguous = tuple(self._along_k(box, reads[side]) for side, box in (("left", left), ("right", right)))
        out, value = self._stored(sums, (left, right), contiguous)
        return StagedProduct(
            left, right, out, (contiguous[0], contiguous[1]), self.positions, self.blocks, self.steps, self.position,
            value,
        )  # fmt: skip

    def _along_k(self, box: Box, tile: Value) -> str:
        """Whether K is the contiguous dimension of a matrix: a step then moves the box by its width."""
        if box.stride == box.shape[1]:
            return "k"
        if box.stride == box.shape[0] * box.pitch:
            return "mn"
        raise NotStagedError(f"argument {box.argument}: a step along K moves its tile by {box.stride} elements; its "
                        f"{box.shape[0]} x {box.shape[1]} tiles must follow each other along K")  # fmt: skip

    # -- copies

    def _copied(self, tile: Value) -> Box:
        """The box of a matrix that the loop copies to a shared tile."""
        body = self.inner.regions[0].blocks[0]
        moves = []
        for use in tile.uses:
            store = use.owner.operation
            if store.name == "vector.store":
                if store.block != body:
                    raise NotStagedError(f"{store.location}: a store to the tile must be in every step")
                moves.append(self._loaded(store))
            elif store.name != "vector.transfer_read":
                raise NotStagedError(f"{store.location}: {store.name} of a staged tile")
        return self._box(tile, moves, (STEP,))

    def _loaded(self, store: Op) -> StagedMove:
        """What a store to a tile copies: a load, or a load in bounds and zeros outside."""
        value, buffer, *indices = list(store.operands)
        load, masks = producer(value), []
        if load is not None and load.name == "scf.if":
            masks = self._conjuncts(load.operands[0])
            results = [operations(region.blocks[0])[-1].operands[list(load.results).index(value)]
                       for region in load.regions]  # fmt: skip
            if not self._is_zero(results[1]):
                raise NotStagedError(f"{load.location}: elements outside of a matrix must be zeros")
            load = producer(results[0])
        if load is None or load.name != "vector.load":
            raise NotStagedError(f"{store.location}: a tile must be copied from a matrix")
        memory, position = load.operands
        return StagedMove(store, buffer, tuple(map(self.values.of, indices)), memory, position, masks, _width(value))

    def _is_zero(self, value: Value) -> bool:
        source = producer(value)
        if source is not None and source.name == "vector.broadcast":
            source = producer(source.operands[0])
        if source is None or source.name != "arith.constant":
            return False
        attribute = source.attributes["value"]
        if isinstance(attribute, self.ir.DenseElementsAttr):
            if not attribute.is_splat:
                return False
            attribute = attribute.get_splat_value()
        return bool(attribute.value == 0)

    def _conjuncts(self, condition: Value) -> list[AxisSum]:
        source = producer(condition)
        if source is not None and source.name == "arith.andi":
            return [part for operand in source.operands for part in self._conjuncts(operand)]
        return [self.values.of(condition)]

    def _box(
        self, tile: Value, moves: Iterable[StagedMove], along: tuple[str, ...], shape: tuple[int, int] | None = None
    ) -> Box:
        """The box that moves between a tile and a matrix make up, each element once."""
        moves = list(moves)
        height, width = shape or tuple(tile.type.shape)
        memories = {move.memory for move in moves}
        if len(memories) != 1 or (memory := memories.pop()) not in self.arguments:
            raise NotStagedError(f"a tile of {height} x {width} elements must be moved from or to one argument")
        places = np.full((height, width), -1, np.int64)
        first, at, inside = None, None, (THREAD, ROW)
        for move in moves:
            offset = self.values.of(move.position)
            if first is None:
                first, at = offset, move.position
            self._require_apart(move, offset, first, along)
            local = offset.among(*inside)
            rows, columns, base = np.broadcast_arrays(*(v.over(inside) for v in (*move.indices, local)))
            for lane in range(move.width):
                r, c = rows.ravel(), columns.ravel() + lane
                if r.min() < 0 or r.max() >= height or c.max() >= width or (places[r, c] != -1).any():
                    raise NotStagedError(
                        f"{move.operation.location}: an element of the tile is moved twice, or is outside"
                    )
                places[r, c] = base.ravel() + lane
        if first is None or at is None or (places == -1).any():
            raise NotStagedError(f"a tile of {height} x {width} elements is not moved whole")
        pitch = int(places[1, 0] - places[0, 0]) if height > 1 else width
        r, c = np.indices((height, width))
        wrong = np.argwhere(places != places[0, 0] + r * pitch + c)
        if len(wrong) or pitch < 1:
            raise NotStagedError(f"the tile of argument {self.arguments.index(memory)} is not a box of rows: element "
                            f"{tuple(wrong[0]) if len(wrong) else (1, 0)}")  # fmt: skip
        argument = self.arguments.index(memory)
        elements = int(memory.type.shape[0]) if self.elements is None else self.elements[argument]
        if elements % pitch:
            raise NotStagedError(f"argument {self.arguments.index(memory)} has {elements} elements, in rows of {pitch}")
        steps = first.part(STEP)
        stride = int(steps[1] - steps[0]) if len(steps) > 1 else 0
        if (steps != steps[0] + stride * np.arange(len(steps))).any():
            raise NotStagedError("a step along K must move a tile by the same distance every time")
        origins = first.part(TILE) + places[0, 0] + steps[0]
        box = Box(self.arguments.index(memory), str(memory.type.element_type), elements, (height, width), pitch,
                  np.broadcast_to(origins, (self.positions,)), stride, at,
                  int(first.among(*inside).over(inside).flat[0] - places[0, 0]))  # fmt: skip
        for move in moves:
            self._check_mask(move, box)
        return box

    def _require_apart(self, move: StagedMove, offset: AxisSum, first: AxisSum, along: tuple[str, ...]) -> None:
        """Tile and step must move all threads' elements alike."""
        for names in offset.parts:
            if len(names) > 1 and set(names) & {TILE, *along}:
                raise NotStagedError(f"{move.operation.location}: its place depends on {' and '.join(names)} together")
        for name in (TILE, *along):
            if (offset.part(name) != first.part(name)).any():
                raise NotStagedError(f"{move.operation.location}: the tile's elements move differently along {name}")

    def line_and_column(self, box: Box, origins: Array) -> tuple[AxisSum, AxisSum]:
        """The first row and column of tiles that begin at some origins, in every step."""
        down = 0 if box.stride == box.shape[1] else box.stride // box.pitch
        moved = np.arange(self.steps)
        row = _summed({TILE: origins // box.pitch, STEP: moved * down})
        return row, _summed({TILE: origins % box.pitch, STEP: moved * (box.stride - down * box.pitch)})

    def _check_mask(self, move: StagedMove, box: Box) -> None:
        """Elements inside of the matrix must be moved, and those outside must not."""
        tiles, chosen = np.unique(box.origins, return_index=True)
        row, column = self.line_and_column(box, tiles)
        inside = [(row + move.indices[0], box.lines), (column + move.indices[1], box.pitch)]
        conditions = [_less(value, end) for value, end in inside if value.largest >= end]
        given = [AxisSum({n: _taken(n, a, chosen) for n, a in mask.parts.items()}) for mask in move.masks]
        if not _same(conditions, given):
            raise NotStagedError(
                f"{move.operation.location}: the condition of this copy is not that its element is inside of the "
                f"{box.lines} x {box.pitch} matrix of argument {box.argument}"
            )

    # -- products

    def _products(self) -> tuple[dict[str, Value], dict[Value, tuple[AxisSum, AxisSum]]]:
        """The tiles that are multiplied, and the first row and column of each result of the loop."""
        body = self.inner.regions[0].blocks[0]
        yielded = list(operations(body)[-1].operands)
        tiles: dict[str, Value] = {}
        sums: dict[Value, tuple[AxisSum, AxisSum]] = {}
        wanted = list(range(0, self._depth(), _FRAGMENT_DEPTH))
        for number, value in enumerate(yielded):
            self._require_zero(number)
            rows, column, depths = None, None, []
            while value != body.arguments[number + 1]:
                contract = producer(value)
                if contract is None or contract.name != "vector.contract" or contract.block != body:
                    raise NotStagedError(f"{self.inner.location}: sum {number} is not one of products alone")
                _require_maps(contract)
                a, b, value = contract.operands
                (tile_a, row, k_a), (tile_b, columns, k_b) = self._fragment(a), self._fragment(b)
                if tiles.setdefault("left", tile_a) != tile_a or tiles.setdefault("right", tile_b) != tile_b:
                    raise NotStagedError(f"{contract.location}: products of more than two tiles")
                if k_a != k_b:
                    raise NotStagedError(
                        f"{contract.location}: the operands of a product must be at the same place along K"
                    )
                if rows is not None and column is not None and not (_agree(rows, row) and _agree(column, columns)):
                    raise NotStagedError(f"{contract.location}: a sum of products of different rows")
                rows, column = row, columns
                depths.append(k_a)
            if sorted(depths) != wanted or rows is None or column is None:
                raise NotStagedError(f"{self.inner.location}: sum {number} must multiply all of a step's K once")
            sums[self.inner.results[number]] = (rows, column)
        return tiles, sums

    def _depth(self) -> int:
        """The extent of the tiles along K."""
        found = {
            read_.operands[0].type.shape[0 if _transposed(read_) else 1]
            for read_ in named(self.inner.regions[0].blocks[0], "vector.transfer_read")
        }
        if len(found) != 1:
            raise NotStagedError(
                f"{self.inner.location}: the tiles must have the same extent along K, got {sorted(found)}"
            )
        return int(found.pop())

    def _require_zero(self, number: int) -> None:
        if not self._is_zero(self.inner.operands[3 + number]):
            raise NotStagedError(f"{self.inner.location}: the sums must begin at zero")

    def _fragment(self, value: Value) -> tuple[Value, AxisSum, int]:
        """The tile that a fragment is read from, its first line, and its place along K."""
        operation, shift = producer(value), 0
        if operation is not None and operation.name == "vector.extract_strided_slice":
            offsets = [int(self.ir.IntegerAttr(x).value) for x in operation.attributes["offsets"]]
            if offsets[1]:
                raise NotStagedError(f"{operation.location}: a fragment's slice along K")
            shift, operation = offsets[0], producer(operation.operands[0])
        if operation is None or operation.name != "vector.transfer_read" or not is_shared(operation.operands[0].type):
            raise NotStagedError(f"{self.inner.location}: an operand of a product must be read from a shared tile")
        lines = list(map(self.values.of, list(operation.operands)[1:3]))
        if _transposed(operation):
            lines.reverse()
        depth = lines[1].fixed
        if depth is None:
            raise NotStagedError(f"{operation.location}: a fragment's place along K is not a constant")
        return operation.operands[0], lines[0] + AxisSum.constant(shift), depth

    # -- the result

    def _stored(
        self, sums: dict[Value, tuple[AxisSum, AxisSum]], operands: tuple[Box, Box], contiguous: tuple[str, ...]
    ) -> tuple[Box, StoredValue]:
        """C's box: each sum is written to its place in a shared tile, and each element of that to its place in C."""
        m, n = (box.shape[0 if side == "k" else 1] for box, side in zip(operands, contiguous, strict=True))
        out = self._written(sums, m, n)
        loads = [use.owner.operation for use in out.uses if use.owner.operation.name != "vector.transfer_write"]
        moves = list(map(self._store, loads))
        box = self._box(out, moves, (), (m, n))
        self.place = _origin(operands[0], contiguous[0]), _origin(operands[1], contiguous[1])
        expected = self.place[0] * box.pitch + self.place[1]
        if (box.origins != expected).any():
            raise NotStagedError(
                f"tile {int(np.argmax(box.origins != expected))} of C is not that of its operands' tiles"
            )
        stores = {load: move.operation for load, move in zip(loads, moves, strict=True)}
        largest = LargestReader(self.arguments, self.values, THREAD, self.threads, stores)
        counted = [largest.read(update) for update in walk(self.function) if update.name == UPDATE]
        values = {
            self._value(load, move, box, [(argument, found[load]) for argument, found in counted]): load
            for load, move in zip(loads, moves, strict=True)
        }
        if len(values) > 1:
            raise NotStagedError(f"{loads[0].location}: the stores of C have different epilogues")
        return box, next(iter(values))

    def _value(self, load: Op, move: StagedMove, box: Box, largest: Sequence[tuple[int, Value]]) -> StoredValue:
        """What is stored for the sums that were loaded from C's tile, and counted in the `largest` of arguments."""
        place = StorePlace(move.width, move.indices[0], move.indices[1], box.origins // box.pitch,
                           box.origins % box.pitch, TILE)  # fmt: skip
        kind = str(load.operands[0].type.element_type)
        reader = StoredValueReader(self.arguments, {load.results[0]: kind}, self.values.of, place)
        return reader.read(move.operation.operands[0], largest)

    def _written(self, sums: dict[Value, tuple[AxisSum, AxisSum]], m: int, n: int) -> Value:
        """The shared tile that holds the sums, each once and at its place."""
        covered = np.zeros((m, n), np.int64)
        tiles = set()
        for value, (rows, column) in sums.items():
            (use,) = value.uses if len(list(value.uses)) == 1 else (None,)
            write = None if use is None else use.owner.operation
            if write is not None and write.name == "arith.truncf":
                (use,) = write.results[0].uses
                write = use.owner.operation
            if write is None or write.name != "vector.transfer_write":
                raise NotStagedError(f"{self.inner.location}: a sum must be written to a shared tile")
            tile, place, across = write.operands[1], *map(self.values.of, list(write.operands)[2:4])
            if not (_agree(across, column) and _agree(place, rows)):
                raise NotStagedError(f"{write.location}: a sum is written to another place than that of its product")
            tiles.add(tile)
            corners = np.broadcast_arrays(rows.over((THREAD,)), column.over((THREAD,)))
            for row, first in np.unique(np.stack(corners), axis=1).T:
                covered[row : row + _FRAGMENT_DEPTH, first : first + _COLUMNS] += 1
        if len(tiles) != 1 or (covered != 1).any():
            raise NotStagedError("each sum of the tile must be written once, to one shared tile")
        return tiles.pop()

    def _store(self, load: Op) -> StagedMove:
        """The one store to C that a vector of its tile goes to, possibly in a branch."""
        if load.name != "vector.load":
            raise NotStagedError(f"{load.location}: the tile of C must be loaded to be stored")
        buffer, *indices = list(load.operands)
        store, masks = _only_store(load), []
        if store.block != load.block:
            branch = store.parent.operation
            if branch.name != "scf.if" or branch.block != load.block:
                raise NotStagedError(f"{store.location}: C must be stored where its tile is loaded")
            masks = self._conjuncts(branch.operands[0])
        _, memory, position = store.operands
        return StagedMove(
            store, buffer, tuple(map(self.values.of, indices)), memory, position, masks, _width(load.results[0])
        )


@dataclass(frozen=True, slots=True)
class StagedMove:
    """A vector between a shared tile and a matrix, where all the conditions hold."""

    operation: Op
    buffer: Value
    indices: tuple[AxisSum, ...]
    memory: Value
    position: Value
    masks: list[AxisSum]
    width: int


def _only_store(load: Op) -> Op:
    """The store that everything computed from a load ends in."""
    stores, open_, seen = set(), [load], {load}
    while open_:
        operation = open_.pop()
        for following in (user for result in operation.results for user in users(result)):
            if following.name in STORES:
                stores.add(following)
            elif following not in seen:
                seen.add(following)
                open_.append(following)
    if len(stores) != 1:
        raise NotStagedError(f"{load.location}: each element of C's tile must go to one store, and goes to "
                             f"{len(stores)}")  # fmt: skip
    return stores.pop()


def _agree(one: AxisSum, other: AxisSum) -> bool:
    """Whether two indices are the same for every thread."""
    return bool((one.over((THREAD,)) == other.over((THREAD,))).all())


def _origin(box: Box, contiguous: str) -> Array:
    """The first row, or column, of C of every tile. Raises NotStagedError where a tile begins elsewhere along K."""
    row, column = box.origins // box.pitch, box.origins % box.pitch
    along, first = (column, row) if contiguous == "k" else (row, column)
    if along.any():
        raise NotStagedError(f"argument {box.argument}: the first step of tile {int(np.argmax(along != 0))} begins at "
                        f"{int(along.max())} along K")  # fmt: skip
    return first


def _summed(parts: dict[str, Array]) -> AxisSum:
    """The sum of arrays along one axis each, without those that are zero."""
    return AxisSum({(): np.asarray(0, np.int64)} | {(name,): array for name, array in parts.items() if array.any()})


def _less(value: AxisSum, end: int) -> AxisSum:
    """value < end, in its own axes."""
    names = tuple(sorted(value.axes))
    return AxisSum({names: value.over(names) < end})


def _taken(names: tuple[str, ...], array: Array, tiles: Array) -> Array:
    """The array at some tiles only."""
    return np.take(array, tiles, axis=names.index(TILE)) if TILE in names else array


def _same(conditions: list[AxisSum], given: list[AxisSum]) -> bool:
    """Whether two conjunctions agree everywhere: those with the step's axis, and the others, apart if they can be."""
    along = [[c for c in part if STEP in c.axes] for part in (conditions, given)]
    others = [[c for c in part if STEP not in c.axes] for part in (conditions, given)]
    return _equal(*along) and _equal(*others)


def _equal(conditions: list[AxisSum], given: list[AxisSum]) -> bool:
    names = tuple(sorted(frozenset().union(*(c.axes for c in (*conditions, *given)))))
    both = [_all(part, names) for part in (conditions, given)]
    return bool((both[0] == both[1]).all())


def _all(conditions: list[AxisSum], names: tuple[str, ...]) -> Array:
    result = np.ones((1,) * len(names), bool)
    for condition in conditions:
        result = result & condition.over(names).astype(bool)
    return result


def _width(vector: Value) -> int:
    """Elements of a vector of one dimension."""
    (width,) = vector.type.shape
    return int(width)


def _transposed(read_: Op) -> bool:
    """Whether a fragment's first dimension is the tile's second."""
    ir = bindings.load().ir
    affine = ir.AffineMapAttr(read_.attributes["permutation_map"]).value
    return bool(str(affine.results[0]) == "d1")


def _require_maps(contract: Op) -> None:
    """The product of rows with rows: (m, k), (n, k) -> (m, n), added."""
    maps = [str(m) for m in contract.attributes["indexing_maps"]]
    wanted = [f"affine_map<(d0, d1, d2) -> ({r})>" for r in ("d0, d2", "d1, d2", "d0, d1")]
    if maps != wanted or "add" not in str(contract.attributes["kind"]):
        raise NotStagedError(f"{contract.location}: a product with the maps {', '.join(maps)}")
