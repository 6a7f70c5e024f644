"""The plan of a product by warpgroups: its tile, what is where in shared memory, and its tensor maps.

A block has one or two `consumers`, warpgroups that multiply 64 or 128 rows of the tile each, or all of 192 rows and
half of the columns, or of 128 rows where there are more than 256 columns; and one warpgroup that copies. Shared memory
holds, in this order, a ring of `stages` tiles of A and of B, the buffers through which each consumer stores C, and two
barriers a stage: *full*, on which the consumers wait for the copies, and *empty*, on which the producer waits for the
consumers. The blocks of a cluster compute neighbouring tiles and share operands (`block_clusters`), or they compute
parts of the same sums (`cluster_sums`).

A tile is kept as the unit multiplies it: in columns of 128 bytes, the swizzle's width, of the contiguous dimension. If
that is K, one column holds the whole step; otherwise columns of 64 rows follow each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, Generic, TypeVar

import numpy as np

from lego_mlir.errors import LayoutError
from lego_mlir.f2.matrix_descriptors import Array, OperandTile, derive
from lego_mlir.hardware.consumers import MOST_COLUMNS, MOST_CONSUMERS, ROWS, consumers_across
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.stage_rings import BUFFERS, StageRing
from lego_mlir.hardware.tensor_map_forms import TensorMapForm
from lego_mlir.hardware.tensor_maps import BOX_EXTENT, TensorMap
from lego_mlir.transforms.warpgroups.launch_sizes import LaunchSizes, forms_of
from lego_mlir.transforms.warpgroups.stored_values import AppliedNode, StoredValue, SumNode

OUT_COLUMNS: Final = (128, 64, 32, 16)
"""Columns of C in a buffer: rows as long as a swizzle, of 8, 16 or 32 bits an element."""
LEAST_SWIZZLE: Final = 32
"""Bytes of the narrowest swizzle."""
UNIT_COLUMNS: Final = 8
"""Columns of C that an instruction computes are a multiple. PTX ISA, `wgmma.mma_async`."""
DEPTH_BYTES: Final = 32
"""Bytes of K that one instruction multiplies."""
SWIZZLE: Final = 128
WARPGROUP: Final = 128
BARRIER_BYTES: Final = 8
UNITS: Final = {"f16": "f16", "bf16": "bf16", "f32": "tf32", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "i8": "s8"}
"""Types of A and B in MLIR, and how `wgmma` names them; f32 are multiplied without their last 13 bits."""
ROUNDING: Final = {"f32": "tf32"}
"""The types of tensor maps whose copies round A and B to what the unit reads."""
MEMORY: Final = {"f8E4M3FN": "u8", "f8E5M2": "u8", "i8": "u8"}
"""How tensor maps name the types of A, B and C, where differently."""
ROUNDED: Final = ("f16", "bf16")
"""Types of results of 16 bits, which `stmatrix` stores."""
BYTES: Final = ("f8E4M3FN", "f8E5M2")
"""Types of results of 8 bits, converted two at a time."""
GROUP: Final = 8
"""Rows of 128 bytes after which the swizzle's pattern repeats."""
REGISTERS: Final = 65536
"""Registers of a multiprocessor. CUDA C++ guide, "Technical Specifications per Compute Capability"."""
OTHER_REGISTERS: Final = 48
"""Registers of a consumer's thread for other values than sums."""
MOST_SUMS: Final = 192
"""Accumulators of a thread: the registers of two consumers and one producer leave no room for more."""
ALIGNMENT: Final = 1024
"""Bytes after which the swizzle's pattern repeats: tiles begin at multiples."""


MATRICES: Final = 3
"""Arguments of a kernel that are tensor maps: A, B and C."""
SIDES: Final = (1, 2, 4, 8)
MOST_CLUSTER: Final = 8
"""Blocks along a side of a cluster, and the most of a portable one. CUDA C++ guide, "Thread Block Clusters"."""

OPERAND_FORM: Final = re.compile(r"memref<(\d+)x(\w+)>")
"""A tensor argument of known size."""
LARGEST_WORKSPACE: Final = 2**31 - 1
"""Bytes that an i32 counts."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class CornerArithmetic(Generic[V]):
    """What computes coordinates: of numbers, or of values in a kernel."""

    constant: Callable[[int], V]
    plus: Callable[[V, int], V]
    over: Callable[[V, int], V]
    times: Callable[[V, int], V]
    sum: Callable[[V, V], V]


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """A or B: `rows` x `depth` elements, and its tile of `tile` rows by one step. `contiguous` is "k" or "mn".

    `shares` blocks of a cluster need the same tile; each copies one part of it to all of them. Sizes known
    `at_launch` only are here those of one launch. With `rounded`, copies round to the type that the unit reads.
    """

    dtype: str
    rows: int
    depth: int
    tile: int
    step: int
    contiguous: str
    shares: int = 1
    at_launch: bool = False
    rounded: bool = False

    def __post_init__(self) -> None:
        if self.rounded and self.dtype not in ROUNDING:
            raise LayoutError(f"rounded=1 is for {', '.join(ROUNDING)}, which copies round to TF32; the elements are "
                              f"{self.dtype}")  # fmt: skip

    @property
    def column(self) -> int:
        """Elements of the contiguous dimension in one column of the tile."""
        return SWIZZLE // ELEMENT_BYTES[self.dtype]

    @property
    def columns(self) -> int:
        """The number of columns of 128 bytes that hold the tile."""
        return -(-(self.step if self.contiguous == "k" else self.tile) // self.column)

    @property
    def column_bytes(self) -> int:
        return SWIZZLE * (self.shares * self.part_extent if self.contiguous == "k" else self.step)

    @property
    def tile_bytes(self) -> int:
        return self.columns * self.column_bytes

    @property
    def together(self) -> bool:
        """Whether one copy moves all columns, by a third dimension of the array that counts columns.

        The array must be a multiple of a column wide, since its last column would reach past its end otherwise; and
        so must the tile, since the copy's coordinate is a number of columns.
        """
        whole = self.rows % self.column == 0 and self.tile % self.column == 0 and self.columns % self.shares == 0
        return self.contiguous == "mn" and self.columns > 1 and whole

    def corner(self, copy: int, row: V, depth: V, ops: CornerArithmetic[V], part: V | None = None) -> tuple[V, ...]:
        """The first coordinates of a copy for the tile at a row and a place along K, in any arithmetic.

        `part` is the number of the block that copies, where the tile has several shares: it copies rows of the tile,
        whole columns, or a part of K of each column.
        """
        number, box = divmod(copy, self.boxes)
        first = number * self.column
        if self.contiguous == "k":
            inside = row if part is None else ops.sum(row, ops.times(part, self.part_extent))
            return ops.plus(depth, first), ops.plus(inside, box * self.copied) if box else inside
        if self.together:
            column = ops.over(row, self.column)
            return (
                ops.constant(0), depth,
                column if part is None else ops.sum(column, ops.times(part, self.part_extent)),
            )  # fmt: skip
        return ops.plus(row, first), depth if part is None else ops.sum(depth, ops.times(part, self.part_extent))

    @property
    def part_extent(self) -> int:
        """How much of the tile one block copies: rows, or columns copied together, or steps of K.

        Rows are whole groups: the last block copies those behind the tile as well, if there are some.
        """
        if self.contiguous == "k":
            unit = GROUP * self.boxes
            return -(-self.tile // (unit * self.shares)) * unit
        return (self.columns if self.together else self.step) // self.shares

    @property
    def boxes(self) -> int:
        """The boxes of a part's rows in one column: one has BOX_EXTENT rows at most."""
        return -(-self.tile // (self.shares * BOX_EXTENT)) if self.contiguous == "k" else 1

    @property
    def copied(self) -> int:
        """The extent of a copy's box: less than the part where the whole matrix has fewer rows than the tile."""
        few = self.contiguous == "k" and self.shares == self.boxes == 1 and not self.at_launch
        return min(self.part_extent, self.rows) if few else self.part_extent // self.boxes

    def copy_offset(self, copy: int) -> int:
        """The first byte of a copy in the tile, or in the part of a block."""
        column, box = divmod(copy, self.boxes)
        return column * self.column_bytes + box * self.copied * SWIZZLE

    @property
    def part_bytes(self) -> int:
        """Bytes from one block's part to the next one's in shared memory."""
        return self.part_extent * (self.column_bytes if self.together else SWIZZLE)

    @property
    def copies(self) -> int:
        """Copies per step."""
        return 1 if self.together else self.columns * self.boxes

    @property
    def map(self) -> TensorMap:
        """The tensor map of a step's copies."""
        size, dtype = ELEMENT_BYTES[self.dtype], ROUNDING[self.dtype] if self.rounded else self.dtype
        if self.contiguous == "k":
            return TensorMap(dtype, (self.depth, self.rows), (self.depth * size,), (self.column, self.copied), SWIZZLE)
        row = self.rows * size
        if not self.together:
            return TensorMap(dtype, (self.rows, self.depth), (row,), (self.column, self.part_extent), SWIZZLE)
        sizes = (self.column, self.depth, self.rows // self.column)
        return TensorMap(dtype, sizes, (row, SWIZZLE), (self.column, self.step, self.part_extent), SWIZZLE)


@dataclass(frozen=True)
class ProductPlan:
    """C = A B for one kernel. `blocks` persistent blocks share `positions` tiles, which take `steps` along K.

    With `cluster`, a number of blocks along M and one along N, clusters of blocks do: `positions` counts the tiles of
    clusters, `blocks` the clusters, and `a.tile` by `b.tile` is the part of one block. With `depth_parts`, as many
    blocks of a cluster compute the same tile, each a part of K (`cluster_sums`); with `splits`, as many clusters do
    (`grid_sums`), with a workspace in the last two of the kernel's arguments.

    `resident` blocks run on a multiprocessor at the same time; where they are two, all threads keep the registers that
    they begin with, which suffice for narrow tiles. Each consumer has that number of `buffers` for C; what its epilogue
    loads for rows and columns of the first `early` ones is loaded before the products of a tile.

    With `transposed`, `a` is the kernel's right operand and `b` its left one: the rows of `a` are columns of C, and a
    cluster's sides those of `a` and `b`.

    A `dependent` kernel may begin before the previous one on its stream has ended (`dependent_launch`).

    `arguments` are the numbers of the kernel's arguments for A, B and C. With `lockstep`, producers wait for each other
    after that number of steps (`lockstep.py`), and every second tile takes K backwards. `unit` names the type of A and
    B as `wgmma` does, and `exact` is the number of steps after which sums are promoted (`promotion`), 0 for never.
    `stored` is the epilogue, and `operands` are the types of the kernel's other arguments. Raises LayoutError for a
    tile that the units cannot multiply.
    """

    name: str
    a: StagedOperand
    b: StagedOperand
    result: str
    positions: int
    blocks: int
    stages: int
    arguments: tuple[int, int, int] = (0, 1, 2)
    lockstep: int = 0
    cluster: tuple[int, int] = (1, 1)
    dependent: bool = False
    unit: str = "f16"
    exact: int = 0
    stored: StoredValue = (SumNode(),)
    operands: tuple[str, ...] = ()
    launch_sizes: LaunchSizes | None = None
    depth_parts: int = 1
    transposed: bool = False
    resident: int = 1
    buffers: int = BUFFERS
    early: int = 0
    splits: int = 1

    def __post_init__(self) -> None:
        self._check_cluster()
        self._check_splits()
        if self.a.step * ELEMENT_BYTES[self.a.dtype] != SWIZZLE or self.b.step != self.a.step:
            raise LayoutError(
                f"a step of {self.a.step} along K: warpgroups take {SWIZZLE} bytes a step, "
                f"{SWIZZLE // ELEMENT_BYTES[self.a.dtype]} elements of {self.a.dtype}"
            )
        if self.lockstep < 0 or self.lockstep & (self.lockstep - 1):
            raise LayoutError(f"lockstep={self.lockstep} must be 0, or a power of two of steps along K")
        self._check_tile()
        for name, operand in (("A", self.a), ("B", self.b)):
            if operand.contiguous != "k" and self.unit not in ROUNDED:
                raise LayoutError(
                    f"{name} is contiguous along {'M' if name == 'A' else 'N'}: units read {self.unit} along K alone; "
                    f"pass {name} with K contiguous (A in rows, B in columns)"
                )
        if self.parts * self.columns // 2 > MOST_SUMS:
            raise LayoutError(
                f"a tile of {self.a.tile} x {self.b.tile}: a thread has {self.parts * self.columns // 2} accumulators, "
                f"and at most {MOST_SUMS}; take {2 * MOST_SUMS // self.parts * self.across} columns or less"
            )
        self._check_promotion()
        room = REGISTERS // (self.threads * self.resident) - OTHER_REGISTERS
        if self.resident > 1 and self.parts * self.columns // 2 * (2 if self.exact else 1) > room:
            raise LayoutError(
                f"a tile of {self.a.tile} x {self.b.tile}, {self.resident} blocks on a multiprocessor: a thread has "
                f"{self.parts * self.columns // 2} accumulators, and registers for {room}; take a narrower tile"
            )

    def _check_cluster(self) -> None:
        """Raise LayoutError for blocks that make up no cluster."""
        along_m, along_n = self.cluster
        sides = (along_m, along_n, self.depth_parts)
        if not set(sides) <= set(SIDES) or self.cluster_blocks > MOST_CLUSTER:
            along_k = f" x {self.depth_parts}" * (self.depth_parts > 1)
            raise LayoutError(
                f"a cluster of {along_m} x {along_n}{along_k} blocks: it has {', '.join(map(str, SIDES[:-1]))} or "
                f"{SIDES[-1]} along each side, and at most {MOST_CLUSTER} in all"
            )
        if self.depth_parts == 1:
            return
        if self.launch_sizes is not None or self.positions != self.blocks or self.lockstep:
            raise LayoutError(
                f"K in {self.depth_parts} parts: a cluster computes one tile of a product of known sizes, without "
                "lockstep; build the kernel without blocks"
            )
        if self.depth_parts > self.all_steps:
            raise LayoutError(
                f"K in {self.depth_parts} parts: it has {self.all_steps} steps of {self.a.step}; take fewer parts"
            )
        if self.sum_bytes > self.stages * self.ring_stage_bytes:
            raise LayoutError(
                f"K in {self.depth_parts} parts: the sums of a tile of {self.a.tile} x {self.b.tile} take "
                f"{self.sum_bytes} bytes, and its {self.stages} stages {self.stages * self.ring_stage_bytes}; take "
                "more stages"
            )

    def _check_splits(self) -> None:
        """Raise LayoutError for clusters that cannot divide K, or a workspace that does not hold their sums."""
        if self.splits == 1:
            return
        if self.launch_sizes is not None or self.positions != self.blocks or self.lockstep:
            raise LayoutError(
                f"K in parts for {self.splits} clusters: each computes a part of one tile of a product of known sizes, "
                "without lockstep; build the kernel without blocks"
            )
        if self.splits < 1 or self.splits * self.depth_parts > self.all_steps:
            raise LayoutError(
                f"K in {self.depth_parts * self.splits} parts: it has {self.all_steps} steps of {self.a.step}; take "
                "fewer parts"
            )
        sums = self.splits * self.positions * self.sharing_blocks * self.a.tile * self.b.tile
        counters = self.positions * self.sharing_blocks * self.adders * self.consumers
        wanted = (("f32", sums), ("i32", counters))
        given = [OPERAND_FORM.fullmatch(type_) for type_ in self.operands[-2:]]
        if len(given) < 2 or any(
            found is None or found[2] != type_ or int(found[1]) < size
            for found, (type_, size) in zip(given, wanted, strict=True)
        ):
            raise LayoutError(
                f"K in parts for {self.splits} clusters: their sums take a workspace of at least {sums} f32 and "
                f"{counters} i32, the last two arguments of the kernel, which end in "
                f"{', '.join(self.operands[-2:]) or 'matrices'}; build it with kernels.warpgroup_splits.in_tile"
            )
        if sums * ELEMENT_BYTES["f32"] > LARGEST_WORKSPACE:
            raise LayoutError(f"K in parts for {self.splits} clusters: their sums take {sums} f32, more than "
                              f"{LARGEST_WORKSPACE} bytes; take fewer parts")  # fmt: skip

    @property
    def workspace(self) -> tuple[int, int]:
        """The numbers of the arguments that hold the sums of clusters with parts of K, and their counters."""
        last = MATRICES + len(self.operands) - 1
        return last - 1, last

    def _check_tile(self) -> None:
        """Raise LayoutError for a tile that no instructions multiply."""
        name = "columns" if self.transposed else "rows"
        if self.a.tile % ROWS or self.a.tile // ROWS not in (1, 2, 3, 4):
            raise LayoutError(
                f"a tile of {self.a.tile} {name} of C: warpgroups multiply {ROWS}, {2 * ROWS}, {3 * ROWS} or {4 * ROWS}"
            )
        other = "rows" if self.transposed else "columns"
        least, unit = self.least_columns, UNIT_COLUMNS * self.across
        most = MOST_COLUMNS * (self.across if self.a.tile == 2 * ROWS else 1)
        if self.b.tile % unit or not least * self.across <= self.b.tile <= most:
            raise LayoutError(
                f"a tile of {self.b.tile} {other} of C: warpgroups multiply {least * self.across} to {most}, a "
                f"multiple of {unit}"
            )
        if self.transposed and self.result not in ROUNDED:
            raise LayoutError(f"a transposed product with a result of {self.result}: it has 16 bits, "
                              f"{' or '.join(ROUNDED)}")  # fmt: skip
        if self.sums == "i32" and self.columns % 16:
            raise LayoutError(f"a tile of {self.b.tile} columns of C: products of s8 take a multiple of 16")

    def _check_promotion(self) -> None:
        """Raise LayoutError for sums that cannot be promoted."""
        if self.exact < 0 or (self.exact and self.sums != "f32"):
            raise LayoutError(f"exact={self.exact} must be 0, or a number of steps, of products summed in f32; sums of "
                              "integers are exact")  # fmt: skip
        if self.exact and self.parts * self.columns > MOST_SUMS:
            raise LayoutError(
                f"a tile of {self.a.tile} x {self.b.tile} with promoted sums: a thread has {self.parts * self.columns} "
                f"numbers, and at most {MOST_SUMS}; take {MOST_SUMS // self.parts * self.across} columns or less"
            )

    @property
    def cluster_blocks(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.depth_parts

    @property
    def sharing_blocks(self) -> int:
        """Blocks of a cluster that share operands: those of one part of K."""
        return self.cluster[0] * self.cluster[1]

    @property
    def together(self) -> int:
        """Tiles of rounds in which every cluster has one: only there all producers can meet."""
        return self.positions // self.blocks * self.blocks

    @property
    def consumers(self) -> int:
        return min(self.a.tile // ROWS, MOST_CONSUMERS)

    @property
    def parts(self) -> int:
        """Parts of 64 rows that a consumer multiplies."""
        return self.a.tile // ROWS * self.across // self.consumers

    @property
    def across(self) -> int:
        """Consumers that divide the columns of a tile."""
        return consumers_across(self.a.tile, self.b.tile)

    @property
    def columns(self) -> int:
        """Columns of a consumer's sums."""
        return self.b.tile // self.across

    @property
    def result_bytes(self) -> int:
        """Bytes of an element of C."""
        return ELEMENT_BYTES[self.result.lower()]  # MLIR's f8E4M3FN

    @property
    def least_columns(self) -> int:
        """The narrowest part of C that a consumer stores."""
        if self.transposed:
            return UNIT_COLUMNS
        return max(OUT_COLUMNS[-1], LEAST_SWIZZLE // self.result_bytes)

    @property
    def adders(self) -> int:
        """Blocks that add the parts of K, each of some columns of the tile."""
        return max(
            n
            for n in SIDES
            if n <= self.depth_parts
            and self.columns % (n * UNIT_COLUMNS) == 0
            and self.columns >= n * self.least_columns
        )

    @property
    def stored_columns(self) -> int:
        """Columns that a consumer stores."""
        return self.columns // self.adders

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread that copies, and of one that multiplies."""
        return (40, 232) if self.parts == 1 else (24, 240)

    @property
    def threads(self) -> int:
        return WARPGROUP * (self.consumers + 1)

    @property
    def all_steps(self) -> int:
        """Steps of the whole K."""
        return -(-self.a.depth // self.a.step)

    @property
    def steps(self) -> int:
        """Steps of a block: all, or those of its part of K, the last ones of zeros where parts are not equal."""
        return -(-self.all_steps // (self.depth_parts * self.splits))

    @property
    def sum_bytes(self) -> int:
        """Bytes of a block's sums, which it keeps in the ring when all steps are done."""
        return self.a.tile * self.b.tile * ELEMENT_BYTES["f32"]

    @property
    def ring_stage_bytes(self) -> int:
        """Bytes of a stage."""
        return self.a.tile_bytes + self.b.tile_bytes

    @property
    def stage_bytes(self) -> int:
        """Bytes that arrive in a stage, from all blocks of the cluster."""
        return sum(operand.shares * operand.copies * operand.map.box_bytes for operand in (self.a, self.b))

    @property
    def sums(self) -> str:
        """The type of the accumulators."""
        return "i32" if self.unit == "s8" else "f32"

    @property
    def unrounded(self) -> StoredValue:
        """What is stored, without the last rounding of an f32 to a result of 16 or 8 bits."""
        last = self.stored[-1]
        rounded = isinstance(last, AppliedNode) and (last.name, last.types) == ("arith.truncf", ("f32", self.result))
        return self.stored[:-1] if rounded and self.result in (*ROUNDED, *BYTES) else self.stored

    @property
    def ragged(self) -> tuple[bool, bool]:
        """Whether tiles of clusters end beyond C, along its rows and its columns."""
        along_m, along_n = self.cluster
        return self.a.rows % (self.a.tile * along_m) != 0, self.b.rows % (self.b.tile * along_n) != 0

    @property
    def out_columns(self) -> int:
        """Columns of the sums in one buffer: 128 bytes of C, or less of a narrow tile."""
        if self.transposed:
            return min(ROWS, self.stored_columns)
        most = min(SWIZZLE // self.result_bytes, self.stored_columns)
        return next(n for n in OUT_COLUMNS if n <= most)

    @property
    def out_pitch(self) -> int:
        """Bytes of a row of C in a buffer, and of its swizzle."""
        return SWIZZLE if self.transposed else self.out_columns * self.result_bytes

    @property
    def out_bytes(self) -> int:
        """Bytes of a buffer; the swizzle's pattern repeats after 1024."""
        return ROWS * self.out_pitch if not self.transposed else -(-self.out_columns // GROUP) * ALIGNMENT

    @property
    def passes(self) -> tuple[int, ...]:
        """The first columns of the buffers that store a tile; the last one may overlap the one before."""
        last = self.stored_columns - self.out_columns
        return tuple(dict.fromkeys(min(first, last) for first in range(0, self.stored_columns, self.out_columns)))

    @cached_property
    def c_map(self) -> TensorMap:
        size, box = self.result_bytes, (self.out_columns, ROWS)
        rows, columns = (self.b, self.a) if self.transposed else (self.a, self.b)
        return TensorMap(
            MEMORY.get(self.result, self.result), (columns.rows, rows.rows), (columns.rows * size,),
            box[::-1] if self.transposed else box, self.out_pitch,
        )  # fmt: skip

    @property
    def maps(self) -> tuple[tuple[TensorMap | TensorMapForm, bool], ...]:
        """The map of each argument, or its form, and whether the kernel writes through it."""
        found: tuple[TensorMap | TensorMapForm, ...] = (self.a.map, self.b.map, self.c_map)
        if self.launch_sizes is not None:
            found = forms_of(self, self.launch_sizes)
        known = tuple(zip(found, (False, False, True), strict=True))
        return tuple(known[self.arguments.index(number)] for number in range(len(known)))

    @property
    def b_offset(self) -> int:
        return self.stages * self.a.tile_bytes

    @property
    def out_offset(self) -> int:
        return self.b_offset + self.stages * self.b.tile_bytes

    @property
    def out_buffers(self) -> int:
        """Buffers of a consumer for C."""
        return self.ring.buffers(self.stages, self.buffers)

    @property
    def most_stages(self) -> int:
        """The most stages that fit beside the fewest buffers."""
        return self.ring.fitting(self.buffers if self.buffers > BUFFERS else 1)

    @property
    def ring(self) -> StageRing:
        """What a stage takes of shared memory, and a buffer of each consumer."""
        return StageRing(self.ring_stage_bytes, self.consumers * self.out_bytes)

    @property
    def full_offset(self) -> int:
        return self.out_offset + self.consumers * self.out_buffers * self.out_bytes

    @property
    def empty_offset(self) -> int:
        return self.full_offset + self.stages * BARRIER_BYTES

    @property
    def ticket_offset(self) -> int:
        """Where each consumer keeps what it draws from its counter."""
        return self.empty_offset + self.stages * BARRIER_BYTES

    @property
    def shared_bytes(self) -> int:
        return self.ticket_offset + (BARRIER_BYTES if self.splits > 1 else 0)


@cache
def operand_tile(operand: StagedOperand, rows: int) -> OperandTile:
    """The descriptor of an operand's tile, derived from the places where its copies put each element."""
    return derive(operand_offsets(operand), ELEMENT_BYTES[operand.dtype], rows)


def operand_offsets(operand: StagedOperand) -> Array:
    """The byte of each element of an operand's tile in shared memory, `[mn, k]`."""
    mn, k = np.indices((operand.tile, operand.step))
    across, line = (k, mn) if operand.contiguous == "k" else (mn, k)
    column, rest = np.divmod(across, operand.column)
    along, base = (column, 0) if operand.together else (line, column * operand.column_bytes)
    part, along = np.divmod(along, operand.part_extent)
    box, along = np.divmod(along, operand.part_extent // operand.boxes)
    base = base + part * operand.part_bytes + box * operand.copied * SWIZZLE
    index = (rest, line, along) if operand.together else (rest, along)
    return np.asarray(base + operand.map.shared_offset(index))
