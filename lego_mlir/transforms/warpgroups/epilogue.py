"""The store of a consumer's rows of C, 64 at a time: rounded, through a swizzled buffer, by the tensor copy engine.

The accumulators of lane l of warp w hold rows 16w + l/4 and 8 more, columns 2 (l mod 4) of every 8. `stmatrix` writes
four 8x8 matrices of 16-bit elements, each row at the address of one lane: lane l writes row 16w + l mod 16, 8 columns
from l/16 * 8 on. Elements of 32 bits are stored where they are, two at once. The buffer has rows of 128 bytes whose
chunks the row's number permutes, as the tensor map says. Elements of 8 bits are converted two at a time, saturating,
and a thread stores both: 8 bytes of 8 rows at once, whose chunks differ.

The sums of a transposed product have columns of C as rows. `stmatrix.trans` stores each matrix transposed: the 8 values
of a column of the sums, 16 bytes, at the address of one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.hardware.consumers import ROWS
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.transforms.warpgroups.fragment_values import GROUP as COLUMNS
from lego_mlir.transforms.warpgroups.fragment_values import LINES, FragmentFrame, FragmentValues
from lego_mlir.transforms.warpgroups.largest_values import LargestOfFragments
from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import BYTES, ROUNDED, SWIZZLE, WARPGROUP, ProductPlan

if TYPE_CHECKING:
    from lego_mlir.transforms.warpgroups.roles import Warp

_COLUMNS: Final = 16
"""Columns that one stmatrix.x4 stores."""


def values_of_tile(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, origin: tuple[str, str], struct: str
) -> list[FragmentValues]:
    """The values of each part of a consumer's rows, without their sums."""
    row, first_column = origin
    if plan.across > 1:
        first_column = t.op("addi", first_column, t.op("muli", warp.group, t.i32(plan.columns)))
    else:
        row = t.op("addi", row, t.op("muli", warp.group, t.i32(ROWS * plan.parts)))
    rows = [row, *(t.op("addi", row, t.i32(ROWS * part)) for part in range(1, plan.parts))]
    return [FragmentValues(t, plan, "", struct, FragmentFrame(thread, first, first_column)) for first in rows]


def load_early(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, origin: tuple[str, str], struct: str
) -> list[FragmentValues]:
    """The values of a tile, after loads of what their first rows and columns need; none where nothing is early."""
    if not plan.early or plan.depth_parts > 1:
        return []
    found = values_of_tile(t, plan, warp, thread, origin, struct)
    for begin in plan.passes[: plan.early]:
        found[0].load_ahead(_groups(plan, begin), whole=False)
    return found


def _groups(plan: ProductPlan, begin: int) -> range:
    """The groups of columns in a buffer."""
    return range(begin // COLUMNS, (begin + plan.out_columns) // COLUMNS)


def store_tile(
    t: ModuleText, plan: ProductPlan, warp: Warp, lane: tuple[str, str], sums: Sequence[str], origin: tuple[str, str],
    struct: str, early: Sequence[FragmentValues] = (),
) -> None:  # fmt: skip
    """Store the accumulators `sums` of each part; `lane` is the thread's number, and the flag of the copying one."""
    thread, leads = lane
    barrier = t.op("addi", warp.group, t.i32(1))
    threads = t.i32(WARPGROUP)
    parts = early or values_of_tile(t, plan, warp, thread, origin, struct)
    for values, one in zip(parts, sums, strict=True):
        values.sums = one
    fill = _fill_of(plan)
    own = t.op("muli", warp.group, t.i32(plan.out_buffers * plan.out_bytes))
    first = t.op("addi", own, t.i32(plan.out_offset))
    largest = LargestOfFragments(t, thread)
    passes = [(part, column) for part in range(plan.parts) for column in plan.passes]
    for number, (part, column) in enumerate(passes):
        buffer = t.op("addi", first, t.i32(number % plan.out_buffers * plan.out_bytes))
        for ahead, begin in passes[number : number + 2]:
            parts[ahead].load_ahead(_groups(plan, begin), whole=(ahead, begin) == (part, column))
        # All earlier stores have been read when a tile begins; within one, all but the latest if of the other buffer.
        with t.block(f"scf.if {leads} {{"):
            t.line(f"nvvm.cp.async.bulk.wait_group {0 if number == 0 else plan.out_buffers - 1} {{read}}")
        t.line(f"nvvm.barrier id = {barrier} number_of_threads = {threads}")
        fill(t, plan, warp, thread, parts[part], column, buffer)
        largest.include(parts[part], _groups(plan, column))
        t.line("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}")
        t.line(f"nvvm.barrier id = {barrier} number_of_threads = {threads}")
        with t.block(f"scf.if {leads} {{"):
            address = t.shared(warp.shared, buffer)
            frame = parts[part].frame
            there = t.op("addi", frame.column, t.i32(column))
            box = f"{frame.row}, {there}" if plan.transposed else f"{there}, {frame.row}"
            t.line(f"nvvm.cp.async.bulk.tensor.global.shared.cta %c, {address}, box [{box}] : !llvm.ptr, !llvm.ptr<3>")
            t.line("nvvm.cp.async.bulk.commit.group")
    largest.update()


def _fill_of(plan: ProductPlan) -> Callable[[ModuleText, ProductPlan, Warp, str, FragmentValues, int, str], None]:
    """What writes columns of the sums to a buffer, by the type of the result."""
    if plan.result in BYTES:
        return _fill_bytes
    if plan.result not in ROUNDED:
        return _fill_pairs
    return _fill_transposed if plan.transposed else _fill_words


def _fill_words(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, values: FragmentValues, column: int, buffer: str
) -> None:
    """Round the columns from `column` on to 16 bits, and write them to the buffer."""
    line = t.op("andi", thread, t.i32(15))
    in_group = t.op("andi", t.op("shrui", thread, t.i32(5)), t.i32(3))
    row = t.op("addi", t.op("muli", in_group, t.i32(16)), line)
    half = t.op("andi", t.op("shrui", thread, t.i32(4)), t.i32(1))
    lines = SWIZZLE // plan.out_pitch  # as many rows have the same permutation
    turn = thread if lines == 1 else t.op("shrui", thread, t.i32(lines.bit_length() - 1))
    chunk = t.op("xori", half, t.op("andi", turn, t.i32(plan.out_pitch // CHUNK - 1)))
    offset = t.op("addi", t.op("muli", row, t.i32(plan.out_pitch)), t.op("muli", chunk, t.i32(CHUNK)))
    for part in range(plan.out_columns // _COLUMNS):
        inside = t.op("xori", offset, t.i32(part * 32))
        address = t.shared(warp.shared, t.op("addi", buffer, inside))
        begin = (column + part * _COLUMNS) // COLUMNS
        words = [_rounded(t, plan.result, values, pair % 2, begin + pair // 2) for pair in range(4)]
        t.line(
            f"nvvm.stmatrix {address}, {', '.join(words)} {{layout = #nvvm.mma_layout<row>, shape = "
            "#nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, "
            "i32, i32, i32, i32"
        )


def _fill_transposed(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, values: FragmentValues, column: int, buffer: str
) -> None:
    """Round the columns of the sums from `column` on, which are rows of C, and write them to the buffer's rows.

    Two groups of 8 columns at once, or a last one alone: lane l writes row l mod 8 of group l/16, and the chunk of the
    warp's first or last 8 rows of the sums.
    """
    line = t.op("andi", thread, t.i32(7))
    half = t.op("andi", t.op("shrui", thread, t.i32(3)), t.i32(1))
    in_group = t.op("andi", t.op("shrui", thread, t.i32(5)), t.i32(3))
    chunk = t.op("xori", t.op("addi", t.op("muli", in_group, t.i32(2)), half), line)
    row = t.op("addi", line, t.op("andi", t.op("shrui", thread, t.i32(1)), t.i32(COLUMNS)))
    offset = t.op("addi", t.op("muli", row, t.i32(SWIZZLE)), t.op("muli", chunk, t.i32(CHUNK)))
    groups = plan.out_columns // COLUMNS
    for group in range(0, groups, 2):
        count = min(2, groups - group)
        lanes = offset
        if count == 1:  # lanes 16 to 31 have no row: their addresses are not used
            lanes = t.op("subi", offset, t.op("muli", t.op("andi", row, t.i32(COLUMNS)), t.i32(SWIZZLE)))
        inside = t.op("addi", buffer, t.i32(group * COLUMNS * SWIZZLE))
        address = t.shared(warp.shared, t.op("addi", inside, lanes))
        begin = column // COLUMNS + group
        words = [_rounded(t, plan.result, values, pair % 2, begin + pair // 2) for pair in range(2 * count)]
        t.line(
            f"nvvm.stmatrix {address}, {', '.join(words)} {{layout = #nvvm.mma_layout<col>, shape = "
            "#nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, "
            f"{', '.join(['i32'] * len(words))}"
        )


def _rounded(t: ModuleText, dtype: str, values: FragmentValues, line: int, group: int) -> str:
    """Two values as a word of two elements, the first in the low half."""
    low, high = (values.element(line, group, lane) for lane in range(2))
    if values.type != "f32":
        pair = t.value(f"vector.from_elements {low}, {high} : vector<2x{dtype}>")
    else:
        name = f"convert.f32x2.to.{dtype}x2"
        pair = t.value(f"nvvm.{name} {high}, {low} {{rnd = #nvvm.fp_rnd_mode<rn>}} : vector<2x{dtype}>")
    return t.value(f"llvm.bitcast {pair} : vector<2x{dtype}> to i32")


def _fill_pairs(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, values: FragmentValues, column: int, buffer: str
) -> None:
    """Write the columns from `column` on, of 32 bits each, to the buffer: chunk 2g + (l mod 4)/2 of group g's rows."""
    in_group = t.op("andi", t.op("shrui", thread, t.i32(5)), t.i32(3))
    line = t.op("andi", t.op("shrui", thread, t.i32(2)), t.i32(7))
    row = t.op("addi", t.op("muli", in_group, t.i32(16)), line)
    quarter = t.op("andi", t.op("shrui", thread, t.i32(1)), t.i32(1))
    lines = SWIZZLE // plan.out_pitch  # as many rows have the same permutation
    turn = line if lines == 1 else t.op("shrui", line, t.i32(lines.bit_length() - 1))
    chunk = t.op("muli", t.op("xori", quarter, turn), t.i32(16))
    inside = t.op("addi", chunk, t.op("muli", t.op("andi", thread, t.i32(1)), t.i32(8)))
    offset = t.op("addi", t.op("muli", row, t.i32(plan.out_pitch)), inside)
    vector = f"vector<2x{plan.result}>"
    for part in range(plan.out_columns // COLUMNS):
        place = t.op("addi", buffer, t.op("xori", offset, t.i32(part * 32)))
        for number, below in enumerate(LINES):
            address = t.shared(warp.shared, t.op("addi", place, t.i32(below * plan.out_pitch)))
            low, high = (values.element(number, column // COLUMNS + part, lane) for lane in range(2))
            pair = t.value(f"vector.from_elements {low}, {high} : {vector}")
            t.line(f"llvm.store {pair}, {address} {{alignment = 8 : i64}} : {vector}, !llvm.ptr<3>")


def _fill_bytes(
    t: ModuleText, plan: ProductPlan, warp: Warp, thread: str, values: FragmentValues, column: int, buffer: str
) -> None:
    """Convert the columns from `column` on to 8 bits, and write pairs of them to the buffer.

    Those of group g are bytes 8g + 2 (l mod 4) and the next.
    """
    in_group = t.op("andi", t.op("shrui", thread, t.i32(5)), t.i32(3))
    line = t.op("andi", t.op("shrui", thread, t.i32(2)), t.i32(7))
    row = t.op("addi", t.op("muli", in_group, t.i32(16)), line)
    lines = SWIZZLE // plan.out_pitch  # as many rows have the same permutation
    turn = t.op("andi", t.op("shrui", line, t.i32(lines.bit_length() - 1)), t.i32(plan.out_pitch // CHUNK - 1))
    inside = t.op("addi", t.op("muli", turn, t.i32(CHUNK)), t.op("muli", t.op("andi", thread, t.i32(3)), t.i32(2)))
    offset = t.op("addi", t.op("muli", row, t.i32(plan.out_pitch)), inside)
    for part in range(plan.out_columns // COLUMNS):
        place = t.op("addi", buffer, t.op("xori", offset, t.i32(part * COLUMNS)))
        for number, below in enumerate(LINES):
            address = t.shared(warp.shared, t.op("addi", place, t.i32(below * plan.out_pitch)))
            pair = _converted(t, plan.result, values, number, column // COLUMNS + part)
            t.line(f"llvm.store {pair}, {address} {{alignment = 2 : i64}} : i16, !llvm.ptr<3>")


def _converted(t: ModuleText, dtype: str, values: FragmentValues, line: int, group: int) -> str:
    """Two values as a pair of bytes, the first in the low one; beyond the largest number, the largest."""
    low, high = (values.element(line, group, lane) for lane in range(2))
    if values.type != "f32":
        pair = t.value(f"vector.from_elements {low}, {high} : vector<2x{dtype}>")
        word = t.value(f"vector.bitcast {pair} : vector<2x{dtype}> to vector<1xi16>")
        return t.value(f"vector.extract {word}[0] : i16 from vector<1xi16>")
    rounding = "rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>"
    return t.value(f"nvvm.convert.f32x2.to.f8x2 {high}, {low} {{{rounding}}} : i16 ({dtype})")
