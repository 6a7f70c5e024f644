"""Products by warpgroups: what is read off a kernel, what is refused, and the code that ptxas makes of the result."""

import operator
import re
import subprocess
from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e4m3fn, f16, f32, i8, i32, schedule
from lego_mlir.errors import LayoutError, ToolchainError, UsageError
from lego_mlir.kernels import epilogues, matmul, warpgroup_choices
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.toolchain import compile_kernel, ptxas, sass
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import parse, session
from lego_mlir.transforms.warpgroups.axis_sums import Axis, AxisSum, combined
from lego_mlir.transforms.warpgroups.plan import (
    CornerArithmetic,
    ProductPlan,
    StagedOperand,
    operand_offsets,
    operand_tile,
)
from lego_mlir.transforms.warpgroups.reading import NotStagedError, read
from lego_mlir.transforms.warpgroups.stored_values import LoadNode

SCRIPT = "matmul_sm90.mlir"
LAYOUTS = {"N": Row, "T": Col}
WIDE = Tiling(128, 256, 64, (8, 1))
needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason=f"needs ptxas; {ptxas.REMEDY}")


def build(sizes=(256, 512, 192), layouts="NN", dtype=f16, tiling=WIDE, **given_):
    m, n, k = sizes
    a, b = (LAYOUTS[letter](*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    return matmul.build(m, n, k, dtype, **{"a": a, "b": b, "result": dtype, "tiling": tiling, **given_})


def read_off(kernel, text=None):
    with session():
        module = parse(text or kernel.mlir())
        (function,) = kernels(module)
        return read(function)


def compiled(kernel, emit="transformed", **parameters):
    return compile_kernel(kernel, target="sm_90a", transform=SCRIPT, emit=emit, parameters=parameters)


# -- sums along axes


@given(st.lists(st.integers(-9, 9), min_size=6, max_size=6), st.integers(1, 7))
def test_sums_of_axes_are_what_loops_would_compute(c, divisor):
    x, y = (AxisSum.along(Axis(name, range(n))) for name, n in (("x", 5), ("y", 4)))
    one = AxisSum.constant(1)
    total = x.scaled(c[0]) + y.scaled(c[1]) + one.scaled(c[2])
    value = total + combined(lambda a, b: a // b, x.scaled(c[3]) + y.scaled(c[4]), AxisSum.constant(divisor))
    expected = [[c[0] * i + c[1] * j + c[2] + (c[3] * i + c[4] * j) // divisor for j in range(4)] for i in range(5)]
    np.testing.assert_array_equal(np.broadcast_to(value.over(("x", "y")), (5, 4)), expected)
    assert value.largest >= np.max(expected)


# -- reading


def loading(index):
    """An epilogue that adds an element from this place."""
    return matmul.Epilogue(
        lambda value, place, extra: value + extra[index(place)], None, {"extra": lego.Tensor(f32, Row(4096))}
    )


@pytest.mark.parametrize(
    ("layouts", "sizes", "order", "blocks"),
    [
        ("NN", (256, 512, 192), "row", None), ("TT", (256, 512, 192), "column", 3),
        ("NT", (200, 520, 72), schedule.grouped(2, 3, rows=2), 4), ("TN", (200, 520, 72), "row", 6),
    ],
)  # fmt: skip
def test_the_boxes_of_a_kernel(layouts, sizes, order, blocks):
    m, n, k = sizes
    found = read_off(build(sizes, layouts, order=order, blocks=blocks))
    grid = (-(-m // 128), -(-n // 256))
    assert found.contiguous == ("k" if layouts[0] == "N" else "mn", "k" if layouts[1] == "T" else "mn")
    assert (found.positions, found.blocks, found.steps) == (grid[0] * grid[1], blocks or found.positions, -(-k // 64))
    from lego_mlir.schedule.named import tile_order

    places = [tile_order("test", order, grid).inv(p) for p in range(found.positions)]
    np.testing.assert_array_equal(found.out.origins, [128 * i * n + 256 * j for i, j in places])
    assert (found.out.shape, found.out.pitch, found.out.argument) == ((128, 256), n, 2)
    assert (found.left.pitch, found.left.lines) == ((k, m) if layouts[0] == "N" else (m, k))
    assert (found.right.pitch, found.right.lines) == ((n, k) if layouts[1] == "N" else (k, n))


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(8, 8, 8, "NT", (64, 64), 1)  # one tile
@given(
    st.integers(8, 40), st.integers(8, 40), st.integers(8, 30), st.sampled_from(["NN", "NT", "TN", "TT"]),
    st.sampled_from([(64, 64), (128, 64)]), st.integers(1, 4),
)  # fmt: skip
def test_products_of_any_aligned_size_are_read(m, n, k, layouts, tile, rows):
    m, n, k = 8 * m, 8 * n, 8 * k
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    order = schedule.grouped(*grid, rows=min(rows, grid[0]))
    tiling = Tiling(*tile, 64, (tile[0] // 16, 1))
    found = read_off(build((m, n, k), layouts, tiling=tiling, order=order, blocks=5))
    assert found.out.origins.tolist() == [
        tile[0] * i * n + tile[1] * j for i, j in map(order.inv, range(grid[0] * grid[1]))
    ]


def test_columns_of_c_are_the_transposed_product():
    found = read_off(build((256, 512, 192), "NN", c=Col(256, 512), tiling=Tiling(128, 128, 64, (2, 4))))
    assert (found.left.argument, found.right.argument, found.out.argument) == (1, 0, 2)
    assert found.contiguous == ("mn", "k")


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"order": "morton", "sizes": (384, 768, 192)}, "an order that pads the grid has some, one like schedule"),
        ({"epilogue": loading(lambda place: place.column * 3 // 2)}, "a multiple of its column, plus a constant"),
        ({"epilogue": loading(lambda place: place.column)}, "1 elements are loaded for 4 columns of C, at distance 1"),
    ],
)
def test_kernels_that_are_not_plain_products(given_, message):
    with pytest.raises(NotStagedError, match=message):
        read_off(build(**given_))


@pytest.mark.parametrize(
    ("row", "column", "constant", "blocks", "c"),
    [(0, 1, 8, None, Row), (192, 1, 0, 3, Row), (1, 0, 0, 3, Row), (7, 0, 3, None, Col), (256, 1, 4, 3, Col)],
)
def test_places_of_an_epilogue_s_loads_are_read(row, column, constant, blocks, c):
    """`row * i + column * j + constant`, of a vector of 4 columns, or one number for all of them."""

    def added(value, place, extra):
        down, across = (place.row, place.column) if place.axis == 1 else (place.column, place.row)
        return value + extra.load(row * down + column * across + constant, width=4 if column else 1)

    epilogue = matmul.Epilogue(added, None, {"extra": lego.Tensor(f32, Row(2**16))})
    tiling = Tiling(64, 64, 64, (4, 1))
    found = read_off(build((256, 192, 64), tiling=tiling, blocks=blocks, c=c(256, 192), epilogue=epilogue))
    (load,) = [node for node in found.stored if isinstance(node, LoadNode)]
    assert (load.argument, load.row, load.column, load.constant) == (3, row, column, constant)


def test_a_number_of_each_row_where_a_thread_begins_in_the_first_row():
    """A row of the tile is longer than what all threads store at once: the first place depends on the tile alone."""
    kernel = build((128, 608, 64), "NT", tiling=Tiling(64, 608, 64, (4, 1)), epilogue=matmul.scales(128, 608))
    loads = [node for node in read_off(kernel).stored if isinstance(node, LoadNode)]
    assert [(load.row, load.column, load.constant) for load in loads] == [(1, 0, 0), (0, 1, 0)]


def test_stores_with_different_epilogues():
    text = build((200, 520, 264), "NT", epilogue=matmul.scale()).mlir()
    made = re.sub(r"arith.mulf (%\S+), (%\S+) : vector<4xf32>", r"arith.addf \1, \2 : vector<4xf32>", text, count=1)
    with pytest.raises(NotStagedError, match="the stores of C have different epilogues"):
        read_off(None, made)


def changed(pattern, replacement, count=1, **given_):
    """A kernel's text with one thing changed, as a mistake would."""
    text = build((200, 520, 264), "NT", **given_).mlir()
    made, number = re.subn(pattern, replacement, text, count=count)
    assert number == count, "the text has changed; change this test"
    return made


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        # an element from another row, a step of another depth, one masked too early, zeros that are ones
        (r"\(d2 floordiv 8\) \* 264", "(d2 floordiv 8) * 272", "is not a box of rows"),
        (r"d1 \* 64 \+ \(d2 floordiv 8\) \* 264", "d1 * 128 + (d2 floordiv 8) * 264", "move differently along step"),
        (r"%c264 = arith.constant 264", "%c264 = arith.constant 256", "is not that its element is inside"),
        (r"arith.constant 0.0+e\+00 : f16", "arith.constant 1.000000e+00 : f16", "must be zeros"),
        (r"arith.constant dense<0.0+e\+00> : vector<16x8xf32>", "arith.constant dense<2.0> : vector<16x8xf32>",
         "must begin at zero"),
        (r"offsets = \[8, 0\]", "offsets = [0, 0]", "a sum of products of different rows"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_kernel_is_not_mended(pattern, replacement, message):
    with pytest.raises(NotStagedError, match=message):
        read_off(None, changed(pattern, replacement))


# -- planning


def test_a_tile_and_its_copies():
    a, b = StagedOperand("f16", 512, 192, 128, 64, "k"), StagedOperand("f16", 520, 192, 192, 64, "mn")
    assert (a.map.box, a.copies, a.tile_bytes) == ((64, 128), 1, 16384)
    assert (b.map.box, b.copies, b.tile_bytes) == ((64, 64), 3, 3 * 8192)  # 520 is not a multiple of 64
    assert operand_tile(b, 192).descriptor.leading == 8192
    plan = ProductPlan("p", a, b, "f16", 12, 4, 4)
    assert (plan.consumers, plan.threads, plan.steps, plan.passes) == (2, 384, 3, (0, 64, 128))
    wide = ProductPlan("p", a, StagedOperand("f16", 512, 192, 256, 64, "k"), "f16", 12, 4, 4)
    assert wide.shared_bytes == 229440
    assert ProductPlan("p", a, StagedOperand("f16", 520, 192, 88, 64, "k"), "f16", 12, 4, 4).passes == (0, 24)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(8, 100), st.integers(8, 40), st.sampled_from([16, 64, 88, 128, 160, 224, 256, 320]),
    st.sampled_from(["k", "mn"]), st.sampled_from([1, 2, 4, 8]), st.data(),
)  # fmt: skip
@example(320, 8, 224, "mn", 1, None)  # columns of 64, and tiles that begin within one
@example(320, 8, 192, "mn", 2, None)  # an odd number of columns for two blocks
@example(320, 8, 256, "mn", 2, None)
@example(320, 8, 304, "k", 1, None)  # two boxes of 152 rows
@example(320, 8, 152, "k", 2, None)  # 80 rows of each block, 8 of them behind the tile
def test_copies_fetch_the_tile_and_nothing_but_zeros_beside_the_matrix(rows, depth, tile, contiguous, shares, data):
    operand = StagedOperand("f16", 8 * rows, 8 * depth, tile, 64, contiguous, shares)
    count = -(-operand.rows // tile)
    row = tile * (1 if data is None else data.draw(st.integers(0, count - 1)))
    at = 64 * (0 if data is None else data.draw(st.integers(0, (operand.depth - 1) // 64)))
    ops = CornerArithmetic(int, operator.add, operator.floordiv, operator.mul, operator.add)
    inside, size = operand.map, 2
    strides = (size, *inside.strides)
    offsets = operand_offsets(operand) // size
    shared = np.full(operand.tile_bytes // size, -1, np.int64)
    for copy, part in product(range(operand.copies), range(shares)):
        corner = operand.corner(copy, row, at, ops, part)
        base = operand.copy_offset(copy) + part * operand.part_bytes
        index = np.indices(inside.box[::-1])[::-1].reshape(len(inside.box), -1)
        place = [inside.shared_offset(one) for one in index.T]
        far = [c + i for c, i in zip(corner, index, strict=True)]
        valid = np.all([f < n for f, n in zip(far, inside.sizes, strict=True)], axis=0)
        found = sum(f * stride for f, stride in zip(far, strides, strict=True)) // size
        shared[(np.array(place) + base) // size] = np.where(valid, found, -2)
    if operand.copied == operand.rows:
        shared[shared == -1] = -2  # rows that no box has are set to zero once
    r, k = np.indices((tile, 64))
    pitch = operand.depth if contiguous == "k" else operand.rows
    wanted = (row + r) * pitch + at + k if contiguous == "k" else (at + k) * pitch + row + r
    wanted = np.where((row + r < operand.rows) & (at + k < operand.depth), wanted, -2)
    np.testing.assert_array_equal(shared[offsets], wanted)


@pytest.mark.parametrize(
    ("m", "n", "step", "message"),
    [
        (96, 128, 64, "a tile of 96 rows of C: warpgroups multiply 64, 128, 192 or 256"),
        (128, 8, 64, "a tile of 8 columns of C: warpgroups multiply 16 to 256, a multiple of 8"),
        (192, 24, 64, "a tile of 24 columns of C: warpgroups multiply 32 to 256, a multiple of 16"),
        (192, 272, 64, "a tile of 272 columns of C: warpgroups multiply 32 to 256, a multiple of 16"),
        (128, 264, 64, "a tile of 264 columns of C: warpgroups multiply 32 to 512, a multiple of 16"),
        (128, 528, 64, "a tile of 528 columns of C: warpgroups multiply 32 to 512, a multiple of 16"),
        (128, 400, 64, "a thread has 200 accumulators, and at most 192; take 384 columns or less"),
        (256, 200, 64, "a thread has 200 accumulators, and at most 192; take 192 columns or less"),
        (128, 128, 32, "a step of 32 along K: warpgroups take 128 bytes a step, 64 elements of f16"),
    ],
)
def test_tiles_that_warpgroups_cannot_multiply(m, n, step, message):
    with pytest.raises(LayoutError, match=message):
        ProductPlan(
            "p",
            StagedOperand("f16", 512, 192, m, step, "k"),
            StagedOperand("f16", 512, 192, n, step, "k"),
            "f16",
            4,
            4,
            4,
        )


@pytest.mark.parametrize(
    ("given_", "parameters", "message"),
    [
        (
            {"dtype": f8e4m3fn, "result": bf16, "tiling": Tiling(64, 64, 128, (4, 1))},
            {},
            "B is contiguous along N: units read e4m3 along K alone; pass B with K contiguous",
        ),
        ({}, {"exact": 4}, "a thread has 256 numbers, and at most 192; take 192 columns or less"),
        (
            {"dtype": i8, "result": i32, "layouts": "NT", "tiling": Tiling(64, 64, 128, (4, 1))},
            {"exact": 4},
            "exact=4 must be 0, or a number of steps, of products summed in f32; sums of integers are exact",
        ),
        ({"sizes": (256, 516, 192)}, {}, "strides must be multiples of 16 bytes.*pad the rows to a multiple of 8"),
        ({"tiling": Tiling(128, 128, 32, (4, 2))}, {}, "a step of 32 along K"),
        (
            {},
            {"cluster_m": 2, "cluster_n": 8},
            "a cluster of 2 x 8 blocks: it has 1, 2, 4 or 8 along each side, and at most 8 in all",
        ),
        ({}, {"cluster_n": 4, "cluster_k": 4}, "a cluster of 1 x 4 x 4 blocks"),
        ({}, {"cluster_k": 3}, "a cluster of 1 x 1 x 3 blocks"),
        (
            {"blocks": 1},
            {"cluster_k": 2},
            "K in 2 parts: a cluster computes one tile of a product of known sizes, "
            "without lockstep; build the kernel without blocks",
        ),
        (
            {"blocks": 1},
            {"splits": 2},
            "K in parts for 2 clusters: each computes a part of one tile of a product",
        ),
        ({}, {"splits": 4}, "K in 4 parts: it has 3 steps of 64; take fewer parts"),
        (
            {},
            {"splits": 2},
            "their sums take a workspace of at least .* f32 and .* i32, the last two arguments of the "
            "kernel, which end in matrices; build it with kernels.warpgroup_splits.in_tile",
        ),
        ({}, {"cluster_k": 2, "lockstep": 2}, "K in 2 parts: a cluster computes one tile"),
        ({}, {"cluster_k": 4}, "K in 4 parts: it has 3 steps of 64; take fewer parts"),
        (
            {},
            {"cluster_k": 2, "stages": 2},
            "the sums of a tile of 128 x 256 take 131072 bytes, and its 2 stages 98304; take more stages",
        ),
        (
            {"tiling": Tiling(128, 128, 64, (8, 2))},
            {"resident": 2},
            "2 blocks on a multiprocessor: a thread has 64 accumulators, and registers for 37; take a narrower tile",
        ),
        (
            {"tiling": Tiling(64, 128, 64, (4, 1))},
            {"resident": 2, "stages": 6},
            "2 blocks of 163936 bytes of shared "
            "memory, and 1024 more each, on a multiprocessor with 233472; take fewer stages",
        ),
        ({"result": f32}, {"transposed": 1}, "a transposed product with a result of f32: it has 16 bits, f16 or bf16"),
        ({"layouts": "NN", "tiling": Tiling(192, 208, 64, (4, 1))}, {}, "no wgmma descriptor describes this tile"),
        ({}, {"stages": 4, "buffers": 4}, "take 262208 bytes .*; take at most 3 stages, or fewer buffers"),
        ({}, {"stages": 5}, "take 262224 bytes of shared memory, and a block may have 232448; take at most 4 stages"),
    ],
)
def test_what_the_script_refuses(given_, parameters, message):
    with pytest.raises(ToolchainError, match=message):
        compiled(build(**given_), **parameters)


def test_an_epilogue_of_a_place_is_scheduled():
    """The pass refuses it: warpgroups apply operations on numbers, element by element."""
    kernel = build(
        epilogue=matmul.Epilogue(lambda value, place: value + lego.f32(place.row), None),
        tiling=Tiling(64, 64, 64, (4, 1)),
    )
    with pytest.raises(
        NotStagedError, match=r"arith\.index_cast in an epilogue; warpgroups apply operations on number"
    ):
        read_off(kernel)
    assert "roles" in compiled(kernel).sources[0].schedules


def test_the_target_must_have_the_units():
    with pytest.raises(ToolchainError, match="are those of sm_90a, not sm_90; take --target sm_90a, or the script"):
        compile_kernel(build(), target="sm_90", transform=SCRIPT, emit="transformed")
    with pytest.raises(UsageError, match=r"stages is 2 \.\. 24, got 1"):
        compiled(build(), stages=1)


# -- the code


def test_the_manifest_has_the_tensor_maps():
    made = compiled(build((200, 520, 72), "NT", order="row"), "ptx")
    (entry,) = made.manifest["kernels"]
    assert (entry["grid"], entry["block"], entry["dynamic_shared_bytes"]) == ([6], [384, 1, 1], 229440)
    assert [a["tensor_map"]["box"] for a in entry["arguments"]] == [[64, 128], [64, 256], [64, 64]]
    assert [(a["name"], a["alignment"], a["read"], a["written"]) for a in entry["arguments"]] == [
        ("a", 16, True, False), ("b", 16, True, False), ("c", 16, False, True),
    ]  # fmt: skip
    assert ".param .align 64 .b8 matmul_param_0[128]" in made.text
    assert ".maxntid 384" in made.text


@needs_ptxas
@pytest.mark.parametrize(
    ("layouts", "dtype", "tile", "n", "result", "epilogue"),
    [
        ("NT", f16, (128, 256), 4096, f16, None), ("NN", bf16, (128, 256), 4096, bf16, None),
        ("TT", f16, (64, 64), 4104, f16, None), ("NT", f16, (128, 256), 4096, f32, None),
        ("NT", bf16, (128, 256), 4104, bf16,
         matmul.scales(4096, 4104).then(matmul.silu_gate(4096, 4104, bf16))),
        ("NT", f8e4m3fn, (128, 256), 4096, bf16, matmul.scale()), ("NT", i8, (128, 256), 4096, i32, None),
        ("NN", f16, (128, 256), 4104, f32, matmul.bias(4104).then(matmul.residual(4096, 4104, f32))),
    ],
)  # fmt: skip
def test_ptxas_keeps_the_products_asynchronous_and_the_loop_short(layouts, dtype, tile, n, result, epilogue, tmp_path):
    tiling = Tiling(*tile, 128 // dtype.bytes, (tile[0] // 16, 1))
    grid = (-(-4096 // tile[0]), -(-n // tile[1]))
    order = schedule.grouped(*grid, rows=16)
    kernel = build((4096, n, 4096), layouts, dtype, tiling, order=order, blocks=132, result=result, epilogue=epilogue)
    loop = main_loop(compiled(kernel, "ptx").text, tmp_path)
    if loop is not None:
        assert 0 < len(loop) <= 42
        assert sum(count for name, count in sass.mix(loop).items() if name.endswith("GMMA")) == 4


@needs_ptxas
@pytest.mark.parametrize(
    ("layouts", "tile", "cluster", "stages", "multiplications", "most"),
    [
        # CTA tiles of 128x256 and 256x128 in clusters of two, of 256x192 alone and in clusters, and of an odd width
        ("NN", (128, 256), (1, 2), 4, 4, 42), ("NT", (256, 128), (1, 2), 4, 8, 54),
        ("TN", (128, 256), (2, 1), 4, 4, 42), ("NT", (256, 192), (1, 1), 3, 8, 54),
        ("NN", (256, 192), (1, 2), 3, 8, 54), ("TT", (256, 152), (1, 2), 3, 8, 54),
        # consumers that divide the columns of 192 rows, many stages, and clusters that share both operands
        ("NT", (192, 208), (2, 1), 4, 12, 62), ("NT", (64, 32), (1, 4), 16, 4, 42),
        # .. and of 128 rows, in whole columns of 128 bytes where N is contiguous
        ("NT", (128, 320), (2, 1), 3, 8, 54), ("NN", (128, 384), (2, 1), 3, 8, 54),
        ("TT", (128, 272), (1, 1), 4, 8, 54),
        ("NT", (128, 128), (2, 2), 6, 4, 42),
    ],
)  # fmt: skip
def test_ptxas_keeps_clusters_and_high_tiles_as_short(layouts, tile, cluster, stages, multiplications, most, tmp_path):
    choice = warpgroup_choices.WarpgroupTile(*tile, stages, cluster, lockstep=32, dependent=True)
    order, clusters = choice.order(4096, 4096), choice.clusters(132)
    kernel = build((4096, 4096, 4096), layouts, tiling=choice.tiling, order=order, blocks=clusters)
    loop = main_loop(compiled(kernel, "ptx", **choice.parameters).text, tmp_path)
    if loop is not None:
        mix = sass.mix(loop)
        assert len(loop) <= most
        assert mix["HGMMA"] == multiplications
        assert not {"R2UR", "MEMBAR", "ERRBAR", "CCTL"} & mix.keys()


@needs_ptxas
@pytest.mark.parametrize(
    ("dtype", "cluster", "result", "epilogue"),
    [
        (f16, (1, 2), f32, None), (i8, (1, 1), i32, None),
        (f16, (1, 1), f16, matmul.bias(4096, f16).then(matmul.relu())),
        (bf16, (1, 1), bf16, matmul.bias(4096, bf16).then(matmul.gelu()).then(matmul.residual(4096, 4096, bf16))),
        (bf16, (1, 1), bf16, matmul.bias(4096, bf16).then(matmul.gelu()).then(epilogues.amax())),
    ],
)  # fmt: skip
def test_high_tiles_with_an_epilogue_or_a_wide_result_spill_nothing(dtype, cluster, result, epilogue, tmp_path):
    columns = (192, 160, 128)[len(epilogue.operands) if epilogue else 0]
    choice = warpgroup_choices.WarpgroupTile(256, columns, 3, cluster, step=128 // dtype.bytes)
    kernel = build(
        (4096, 4096, 4096), "NT", dtype, choice.tiling, order=choice.order(4096, 4096), blocks=choice.clusters(132),
        result=result, epilogue=epilogue,
    )  # fmt: skip
    loop = main_loop(compiled(kernel, "ptx", **choice.parameters).text, tmp_path)
    if loop is not None:
        assert 0 < len(loop) <= 54


def main_loop(text, folder):
    """The instructions of a kernel's loop along K, None without the tool; ptxas must serialise and spill nothing."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    output = folder / "kernel.cubin"
    done = subprocess.run(
        [ptxas.required(), "-arch=sm_90a", "-v", source, "-o", output], capture_output=True, text=True, check=True
    )
    report = done.stdout + done.stderr
    assert not re.search(r"C7\d\d\d", report), report  # serialised products, or registers that do not suffice
    (resources,) = ptxas.parse_report(report)
    assert (resources.spill_stores, resources.spill_loads, resources.stack) == (0, 0, 0)
    return None if sass.find_lister() is None else sass.main_loop(sass.disassemble(output.read_bytes()), "GMMA")


def test_producers_meet_only_in_rounds_that_all_blocks_take_part_in():
    kernel = build((640, 1024, 512), "NT", order="row", blocks=6)  # 20 tiles: three whole rounds and two tiles
    text = compiled(kernel, "ptx", lockstep=4).text
    assert ".global .align 8 .u64 matmul_arrivals;" in text
    assert len(re.findall(r"atom\S*\.add\.u64 .*matmul_arrivals\], 1;", text)) == text.count("atom")
    assert "ld.relaxed.gpu.global.b64" in text
    module = compiled(kernel, lockstep=4).text
    assert "%c18 = arith.constant 18 : index" in module
    assert "arrivals" not in compiled(kernel).text
    with pytest.raises(ToolchainError, match="lockstep=12 must be 0, or a power of two of steps along K"):
        compiled(kernel, lockstep=12)


def test_early_operands_are_loaded_before_the_products():
    kernel = build((256, 512, 192), "NT", epilogue=matmul.scales(256, 512))
    for early, before in ((0, 0), (1, 10), (4, 34)):  # a number for each of 2 rows, a pair for each 8 columns
        text = compiled(kernel, stages=3, early=early).text
        first = text.index("wgmma.mma_async")
        loads = re.findall(r"(?:memref|vector).load %", text[:first])
        assert len(loads) == before
