"""The traced program: what it keeps of each access, the ranges of its symbols, and the source lines in the module."""

import re
from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.tracing.trace.trace import Barrier, For, FromIndex, If, Load, Store


@pytest.fixture
def staged():
    M = lego.size("M", min=32, multiple_of=32)

    @lego.kernel(grid=(M // 32, 2), block=(32, 8))
    def staged(src: lego.Tensor(f32, Row(M, 64)), dst: lego.Tensor(f32, Row(64, M)), alpha: f32):
        tx, ty = lego.thread_id
        bx, by = lego.block_id.x, lego.block_id.y
        tile = lego.shared(f32, gallery.xor_swizzle(32, 32))
        for r in lego.range(0, 32, 8):
            tile[ty + r, tx] = src[bx * 32 + ty + r, by * 32 + tx] * alpha
        lego.barrier()
        for r in lego.range(0, 32, 8):
            dst[by * 32 + ty + r, bx * 32 + tx] = tile[tx, ty + r]

    return staged


def test_what_a_kernel_says_of_itself(staged):
    assert [(p.name, str(p.dtype), p.read, p.written) for p in staged.params] == [
        ("src", "f32", True, False),
        ("dst", "f32", False, True),
        ("alpha", "f32", True, False),
    ]
    assert [s.name for s in staged.sizes] == ["M"]
    assert isinstance(staged.sizes[0], Size)
    assert str(staged.params[0].size) == "64*M"
    assert staged.source.file == __file__


def test_the_program(staged):
    kinds = [type(s) for s in staged.trace().body]
    assert [k for k in kinds if k in (For, Barrier)] == [For, Barrier, For]
    (load, from_global), (store, to_shared), *_ = staged.trace().accesses()
    assert isinstance(load, Load) and isinstance(store, Store)
    assert (from_global.buffer.name, to_shared.buffer.name) == ("src", "shared0")
    assert from_global.derivation.raw != from_global.position or not from_global.derivation.steps
    assert to_shared.buffer.space == "workgroup" and to_shared.buffer.size == 1024


def test_every_symbol_has_its_range(staged):
    trace = staged.trace()
    ranges = {str(s): r for s, r in trace.ranges.items()}
    assert ranges["tx"] == Range(0, 32) and ranges["ty"] == Range(0, 8) and ranges["by"] == Range(0, 2)
    assert str(ranges["bx"]) == "Range(0, M // 32)"
    assert ranges["k0"] == Range(0, 32, 8)
    assert {str(s): name for s, name in trace.ids.items()}["bx"] == ("block_id", "x")


def test_every_operation_has_the_line_it_comes_from(staged):
    lines = Path(__file__).read_text().splitlines()
    text = staged.mlir()
    names = dict(re.findall(r"^(#loc\d*) = loc\(\"[^\"]*\":(\d+):\d+\)", text, re.M))
    (barrier,) = re.findall(r"gpu.barrier.* loc\((#loc\d*)\)", text)
    assert "lego.barrier()" in lines[int(names[barrier]) - 1]
    stored = re.findall(r"memref.store .* loc\((#loc\d*)\)", text)
    assert [lines[int(names[s]) - 1].strip().split("[")[0] for s in stored] == ["tile", "dst"]
    assert "loc(" not in staged.mlir(locations=False)


def test_the_signature_of_the_function(staged):
    assert (
        "gpu.func @staged(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: f32, %arg3: index) "
        "workgroup(%arg4 : memref<1024xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel "
        "attributes {known_block_size = array<i32: 32, 8, 1>, lego.apart}" in staged.mlir(locations=False)
    )


def test_sizes_are_arguments_in_order_of_first_use():
    a, b, c, d = (lego.size(name) for name in "dcba")

    @lego.kernel(grid=c, block=4)
    def run(x: lego.Tensor(f32, Row(b, a)), y: lego.Tensor(f32, Row(a))):
        with lego.when(lego.thread_id[0] < d):
            x[0, 0] = 1.0

    assert [s.name for s in run.sizes] == ["c", "d", "b", "a"]


def test_the_widest_access_is_taken_where_it_is_asked_for():
    widths = {}

    @lego.kernel(grid=1, block=8)
    def run(x: lego.Tensor(f16, Row(8, 64)), y: lego.Tensor(f16, Row(64, 12)), z: lego.Tensor(f16, lego.Col(8, 8))):
        i = lego.thread_id[0]
        widths["rows"] = x.load(0, i * 8, width=None).width
        widths["rows of 12"] = y.load(i, 4, width=None).width
        widths["odd start"] = x.widest(0, i * 2 + 1)
        widths["columns"] = z.load(i, 0, width=None).width
        z[i, 0] = 0.0

    run.trace()
    assert widths == {"rows": 8, "rows of 12": 4, "odd start": 1, "columns": None}


def test_a_condition_that_always_holds_is_no_branch():
    @lego.kernel(grid=1, block=8)
    def run(x: lego.Tensor(f32, Row(8))):
        with lego.when(lego.thread_id[0] < 9):
            x[lego.thread_id[0]] = 1.0

    assert "scf.if" not in run.mlir()
    (branch,) = (s for s in run.trace().statements() if isinstance(s, If))
    assert branch.condition == True  # noqa: E712


def test_a_mask_is_dropped_under_a_guard_that_implies_it():
    n = lego.size("n")

    @lego.kernel(grid=lego.cdiv(n, 8), block=8)
    def run(x: lego.Tensor(f32, Row(n))):
        tiled = x.tile_by([lego.cdiv(n, 8)], [8])
        with lego.when(lego.block_id[0] * 8 + lego.thread_id[0] < n):
            tiled[lego.block_id[0], lego.thread_id[0]] = 1.0

    assert run.mlir().count("scf.if") == 1


def test_a_kernel_is_traced_once_and_only_when_asked():
    count = []

    @lego.kernel(grid=1, block=8)
    def run(x: lego.Tensor(f32, Row(8))):
        count.append(1)
        x[0] = 0.0

    @run.reference
    def expected(x):
        return x

    assert not count
    run.trace(), run.mlir(), run.mlir("index"), run.params
    assert len(count) == 1


def test_conditions_bounds_and_numbers_of_indices_are_simplified_too():
    n = lego.size("n", max=32)

    @lego.kernel(grid=4, block=32)
    def run(x: lego.Tensor(f32, Row(32))):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i % 32 < n):
            for k in lego.range(i % 32 // 32, i // 32 + 1):
                x[lego.thread_id[0]] = f32(k + (i - i % 32))

    found = {type(s): s for s in run.trace().statements()}
    assert str(found[If].condition) == "tx < n"
    assert (str(found[For].lo), str(found[For].hi)) == ("0", "bx + 1")
    assert str(found[FromIndex].expr) == "32*bx + k0"


def test_a_range_and_a_branch_may_be_used_twice():
    @lego.kernel(grid=1, block=32)
    def twice(x: lego.Tensor(f32, Row(32))):
        rounds, first = lego.range(4), lego.when(lego.thread_id[0] < 7)
        for i in rounds:
            with first:
                x[lego.thread_id[0]] = f32(i)
        for i in rounds:
            with first:
                x[lego.thread_id[0]] = f32(2 * i)

    one, other = (s for s in twice.trace().body if isinstance(s, For))
    assert one.symbol != other.symbol
    assert all(isinstance(loop.body[0], If) and str(loop.body[0].condition) == "tx < 7" for loop in (one, other))
