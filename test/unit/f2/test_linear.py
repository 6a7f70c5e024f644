"""Linear layouts: what their constructors and operations refuse, each with the basis or the witness in the message."""

import operator
import pickle

import numpy as np
import pytest

from lego_mlir import symbols
from lego_mlir.errors import LayoutError
from lego_mlir.f2 import BitMatrix, LinearLayout, notation, queries, shape_ops
from lego_mlir.f2 import encodings as e

A = LinearLayout({"lane": [(0, 1), (1, 0)], "warp": [(2, 0)]}, {"dim0": 4, "dim1": 2})


@pytest.mark.parametrize("operator", [operator.matmul, operator.mul])
def test_a_layout_is_composed_with_layouts_only(operator):
    with pytest.raises(TypeError, match="unsupported operand"):
        operator(A, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LinearLayout({"lane": [(0, 2)]}, {"x": 2, "y": 2}),
            r"basis 0 of lane is \(0, 2\): y = 2 is outside 0..1",
        ),
        (
            lambda: LinearLayout({"lane": [1, (1, 2)]}, {"x": 2}),
            r"basis 1 of lane .* one coordinate for each of \['x'\]",
        ),
        (lambda: LinearLayout({"lane": []}, {"x": 3}), "the size of x must be a power of two, got 3"),
        (lambda: LinearLayout({"lane": [1]}, ["x"]), r"outs must map names, such as \{'row': 16\} .* got \['x'\]"),
        (lambda: LinearLayout([1], {"x": 2}), r"bases must map names, .* got \[1\]"),
        (lambda: e.MmaSync((4, 1)).layout(64), r"MmaSync: shape=64 must be a tuple of ints"),
        (lambda: e.MmaSync(4), r"MmaSync: warps=4 must be a tuple of ints"),
        (lambda: e.Blocked(1, (32,), (4,), (0,)), r"Blocked: size_per_thread=1 must be a tuple of ints"),
        (lambda: e.MmaOperand(2, e.MmaSync((4, 1))), r"MmaOperand: index=2 must be 0"),
        (lambda: LinearLayout({3: []}, {"x": 2}), "an input is named by a string, got 3"),
        (lambda: LinearLayout.of((("a", 1), ("a", 1)), (("x", 1),), [1, 1]), "an input appears twice"),
        (lambda: LinearLayout.of((("a", 2),), (("x", 1),), [1]), "1 columns for the inputs"),
        (lambda: A.apply(1), r"one value for each of the inputs \['lane', 'warp'\], got 1 values"),
        (lambda: A.apply(lane=1, wrap=0), "one value for each of the inputs"),
        (lambda: A.apply(4, 0), "lane is 4, outside 0..3"),
        (lambda: A.apply(np.array([0, 5]), 0), "lane runs over 0..5, outside 0..3"),
        (lambda: A @ A, r"B has the outputs \['dim0', 'dim1'\], A the inputs \['lane', 'warp'\]"),
        (lambda: LinearLayout.identity(2, "a", "b") @ LinearLayout.identity(4, "c", "a"), "output a .* has 4 values"),
        (
            lambda: A.divide_left(LinearLayout.identity(2, "lane", "dim0")),
            r"basis 0 of lane is \(0, 1\), the tile's is \(1, 0\)",
        ),
        (lambda: A.divide_left(LinearLayout.identity(8, "lane", "dim0")), "input lane of the tile has 8 values"),
        (lambda: A.slice("dim7"), r"no output \['dim7'\] to slice"),
        (lambda: LinearLayout.zeros(2, "a", "x", 2).right_inverse(), "x = 1 is the image of no input"),
        (lambda: LinearLayout.zeros(2, "a", "x").inverse(), "a = 1 has the image of 0; not injective"),
        (
            lambda: LinearLayout.identity(4, "a", "x").invert_and_compose(LinearLayout.strided(2, 2, "b", "x")),
            "a = 1 is mapped to x = 1",
        ),
        (lambda: A.transpose_ins(["lane"]), "each to be named once"),
        (lambda: A.reshape_outs({"x": 4}), "cannot reshape the outputs"),
        (lambda: A.rename(line="lane"), r"cannot rename \['line'\]"),
        (lambda: BitMatrix((4,), 2), "column 0 must be an int of at most 2 bits, got 4"),
        (lambda: BitMatrix((1, 1), 2).inverse(), "singular, vector 3 is mapped to zero"),
        (lambda: BitMatrix((1,), 2).right_inverse(), "unit vector 2 is not in the image"),
        (lambda: notation.from_text("lane=1 -> (1)\nwhere out dims are: [x]"), "must end in"),
        (lambda: notation.from_text("lane=2 -> (1)\nwhere out dims are: [x (size 2)]"), "must be the basis of lane=1"),
        (lambda: notation.from_text("lane 1\nwhere out dims are: [x (size 2)]"), "cannot read 'lane 1'"),
        (lambda: shape_ops.trans(A, (1, 1)), "each of the axes 0..1 once"),
        (lambda: shape_ops.trans(A.rename(dim0="m"), (1, 0)), r"the outputs \['dim0', 'dim1'\], got \['m', 'dim1'\]"),
        (lambda: shape_ops.join_backward(A), "be one register bit; its size is 2, and it is reached by .'lane=1'."),
        (lambda: shape_ops.broadcast(A, (8, 2)), "cannot be broadcast to"),
        (lambda: e.Blocked((1, 3), (8, 4), (1, 1), (1, 0)), r"size_per_thread=\[1, 3\] must be powers of two"),
        (lambda: e.Blocked((1, 1), (8, 4), (1, 1), (1, 1)), "must name each of the axes 0..1 once"),
        (lambda: e.Blocked((1, 1), (8, 4), (1, 1), (1, "0")), "must name each of the axes 0..1 once"),
        (lambda: e.Blocked((1, 1), (8,), (1, 1), (1, 0)), r"threads_per_warp=\[8\] must have 2 entries"),
        (lambda: e.Blocked((1, 1), (8, 4), (1, 1), (1, 0)).layout((4,)), r"shape=\[4\] must have 2 entries"),
        (lambda: e.MmaOperand(1, e.Wgmma((4, 1), 8)), "wgmma reads B from shared memory"),
        (lambda: e.MmaSync((1,)), "must have 2 entries, or 3"),
        (lambda: e.Sliced(2, e.MmaSync((1, 1))), "must be one of the 2 dimensions"),
        (lambda: e.TensorCopyShared(48, 16), "must be 0, 32, 64 or 128 bytes"),
        (lambda: e.TensorCopyShared(128, 16).layout((8, 32)), "at least the 64 elements of a 128-byte swizzle"),
        (lambda: e.TensorCopyShared(128, 16).layout((4, 64)), "a box of 4 rows; the swizzle pattern has 8"),
        (lambda: e.Mfma((8, 8, 4), (1, 1)), "must begin with one of"),
        (lambda: e.Wmma(4, ()), "must be 1 .RDNA3., 2 .RDNA4. or 3 .CDNA5."),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(LayoutError, match=message):
        make()


def test_the_example_of_the_paper():
    blocked = e.Blocked((2, 2), (4, 8), (2, 1), order=(1, 0)).layout((16, 16))
    assert blocked.apply(register=0, lane=1, warp=0, block=0) == {"dim0": 0, "dim1": 2}
    assert blocked.apply(register=1, lane=9, warp=0, block=0) == {"dim0": 2, "dim1": 3}
    assert blocked.apply(register=0, lane=10, warp=0, block=0) == {"dim0": 2, "dim1": 4}


def test_the_accumulator_is_the_fragment_of_the_isa():
    """PTX ISA, mma.m16n8k16: c0, c1 in row lane/4 and columns 2 (lane mod 4) + 0, 1; c2, c3 eight rows below."""
    layout = e.MmaSync((1, 1)).layout((16, 8))
    for lane in range(32):
        for register in range(4):
            place = layout.apply(register=register, lane=lane, warp=0, block=0)
            assert place == {"dim0": lane // 4 + 8 * (register // 2), "dim1": 2 * (lane % 4) + register % 2}


def test_quotients_drop_identities_only():
    layout = LinearLayout.identity(4, "block", "block") * LinearLayout.strided(4, 2, "lane", "offset")
    assert layout.quotient("block") == LinearLayout.strided(4, 2, "lane", "offset")
    with pytest.raises(LayoutError, match="not both inputs and outputs"):
        layout.quotient("lane")
    assert LinearLayout({"block": [(1, 1)], "lane": []}, {"block": 2, "offset": 2}).quotient("block") is None


def test_families_are_told_with_a_witness():
    repeated = LinearLayout({"lane": [1, 1]}, {"x": 2})
    assert queries.is_distributed(repeated).counter_example == {"lane": 2}
    assert queries.is_distributed(LinearLayout({"lane": [3, 1]}, {"x": 4})).counter_example == {"lane": 1}
    assert queries.is_distributed(LinearLayout({"lane": [1]}, {"x": 4})).counter_example == {"x": 2}
    assert queries.is_memory(LinearLayout({"offset": [1, 3]}, {"x": 4}))
    assert queries.is_memory(LinearLayout({"offset": [1, 7, 2]}, {"x": 8})).counter_example == {"offset": 2}


def test_values_are_immutable_hashed_and_pickled():
    assert pickle.loads(pickle.dumps(A)) == A and len({A, pickle.loads(pickle.dumps(A))}) == 1
    with pytest.raises(LayoutError, match="immutable"):
        A.columns = ()


def test_contiguity_crosses_dimensions():
    """Table 2 of the paper: of [512, 2] x f8 a thread holds 16 bytes in a row, eight rows of two."""
    layout = e.Blocked((8, 2), (32, 1), (4, 1), order=(1, 0)).layout((512, 2))
    assert queries.contiguous(layout) == 16
    assert queries.copies(e.Sliced(1, e.MmaSync((1, 1))).layout((16,))) == {"lane": 4}


def test_symbols_become_fields_of_bits():
    (tid,) = symbols("tid")
    layout = e.Blocked((1, 4), (8, 4), (4, 1), (1, 0)).layout((64, 64)).sublayout(["lane", "warp"], ["dim1", "dim0"])
    flat = layout.transpose_outs(["dim1", "dim0"]).flatten_outs("offset").flatten_ins("tid")
    assert repr(flat.apply(tid)["offset"]) == "((tid & 3) << 2) | ((tid & 124) << 4)"
    swizzle = e.TensorCopyShared(128, 16).layout((64, 64)).sublayout(["offset"], ["dim0", "dim1"])
    row, col = symbols("row col")
    offset = swizzle.transpose_outs(["dim1", "dim0"]).inverse().apply(dim1=col, dim0=row)["offset"]
    assert repr(offset) == "(col ^ ((row & 7) << 3)) | (row << 6)"
