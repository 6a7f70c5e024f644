"""What the words on spread values say of arguments that do not fit: one message each, with the user's line."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f32, i32
from lego_mlir.errors import LayoutError, LegoError, TraceError

LAYOUT = f2.Blocked((1, 4), (4, 8), (4, 1), order=(1, 0)).layout((32, 64))
OTHER = f2.Blocked((4, 1), (8, 4), (1, 4), order=(0, 1)).layout((32, 64))
LANES = {"lane": [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16)]}


def traced(body):
    @lego.kernel(grid=1, block=128)
    def k(a: lego.Tensor(f32, Row(32, 64)), b: lego.Tensor(i32, Row(8, 32, 64))):
        body(a, b)

    k.trace()


def two_warps():
    return f2.Blocked((1, 4), (4, 8), (2, 1), order=(1, 0)).layout((32, 64))


CASES = [
    (lambda a, b: lego.load(a, f2.MmaSync((2, 2))), r"is an f2.LinearLayout, got MmaSync\(.*\.layout\(\(64, 64\)\)"),
    (lambda a, b: lego.arange(64), r"got 64; .*; a tuple of sizes, such as .*, leaves the layout to the engine"),
    (lambda a, b: lego.load(a, two_warps()), r"2 warps of 32 lanes, and the block of k has 128 threads; use block=64"),
    (
        lambda a, b: lego.load(a, f2.LinearLayout({"thread": [(0, 1)]}, {"dim0": 1, "dim1": 2})),
        r"has the inputs register, lane and warp, got \{'thread': 2\}; rename",
    ),
    (
        lambda a, b: lego.load(a, LAYOUT.rename(dim0="row")),
        r"has the outputs \['dim0', 'dim1'\], got \['row', 'dim1'\]; use rename",
    ),
    (
        lambda a, b: lego.load(a, f2.LinearLayout({**LANES, "warp": [(0, 0), (0, 0)]}, {"dim0": 2, "dim1": 32})),
        r"must place every element, and .* is not surjective",
    ),
    (lambda a, b: lego.load(a, LAYOUT, at=(0,)), r"a has 2 dimensions, `at` has 1 indices and the layout 2"),
    (lambda a, b: lego.load(f32(1.0), LAYOUT), r"lego.load takes a tensor, a shared tile or a part of one, got"),
    (lambda a, b: lego.load(a, LAYOUT).store(b, at=(0, 0, 0)), r"of f32 is stored into b of i32; .* \.to\(lego.i32\)"),
    (
        lambda a, b: lego.load(a, LAYOUT) + lego.load(a, OTHER),
        r"different layouts are combined: .* lego.convert\(y, to=x.layout\)",
    ),
    (lambda a, b: lego.load(a, LAYOUT) + lego.load(a, LAYOUT).sum(1), r"\[32, 64\] and \[32\] .* such as x\[:, None\]"),
    (
        lambda a, b: lego.load(a, LAYOUT) + lego.load(a, LAYOUT).T,
        r"shapes \[32, 64\] and \[64, 32\] cannot be combined",
    ),
    (
        lambda a, b: lego.load(a, LAYOUT).sum(1)[:, None] + lego.load(a, LAYOUT).sum(0)[None, :],
        r"combined to \[32, 64\], and none has this shape.*broadcast_to",
    ),
    (
        lambda a, b: lego.load(a, LAYOUT) + lego.load(a, OTHER).sum(1)[:, None],
        r"its lanes hold other elements .* to=f2.shape_ops.broadcast_backward\(layout, \(32, 1\)\)\)",
    ),
    (lambda a, b: lego.load(a, LAYOUT).sum(2), r"sum: a tile of shape \[32, 64\] has the axes 0..1, got 2"),
    (lambda a, b: lego.load(a, LAYOUT).any(1), r"any of a tile of f32; compare it first, such as \(x > 0\)"),
    (lambda a, b: lego.arange(LAYOUT, 1).max(1), r"max of a tile of indices; convert it, for example"),
    (lambda a, b: lego.load(a, LAYOUT)[0, :], r"one colon for each and None for new axes, such as x\[:, :, None\]"),
    (lambda a, b: lego.load(a, LAYOUT).reshape(3, 5), r"cannot reshape the outputs|must be a power of two"),
    (lambda a, b: lego.load(a, LAYOUT).split(), r"split: the last dimension must have size 2"),
    (lambda a, b: lego.load(a, LAYOUT).join(lego.load(a, OTHER)), r"join takes two spread values of one layout"),
    (lambda a, b: lego.load(a, LAYOUT).transpose((0, 0)), r"the order must name each of the axes 0..1 once"),
    (lambda a, b: lego.register(lego.arange(LAYOUT)), r"lego.register takes a tile of data, got one of indices"),
    (
        lambda a, b: lego.register(lego.load(a, LAYOUT)).set(lego.load(a, OTHER)),
        r"of shape \[32, 64\] is needed in another layout: its lanes hold other .* lego.convert\(x, to=y.layout\)",
    ),
    (lambda a, b: lego.register(3), r"lego.register takes an element type and a value, .* or a spread value, got 3"),
    (lambda a, b: lego.Spread(LAYOUT, f32, [f32(0.0)]), r"one value for each of the 16 registers .* got 1"),
    (
        lambda a, b: lego.Spread(LAYOUT, f32, [i32(0)] * 16),
        r"register 0 of a spread value of f32 is .*lego.f32\(\.\.\)",
    ),
    (lambda a, b: 1 if lego.load(a, LAYOUT) > 0 else 2, r"the truth of a spread value .* lego.where"),
    (lambda a, b: b.store(lego.load(a, LAYOUT), 0, 0, 0), r"cannot be a value of type i32"),
]


@pytest.mark.parametrize(("body", "message"), CASES, ids=range(len(CASES)))
def test_messages(body, message):
    with pytest.raises(LegoError, match=message) as found:
        traced(body)
    assert isinstance(found.value, (LayoutError, TraceError))
    assert "test_spread_messages.py:" in str(found.value)


def test_a_line_of_another_file_is_named_once():
    space = {"lego": lego, "LAYOUT": LAYOUT}
    exec(compile("def load(a):\n    return lego.load(a, LAYOUT, at=(0,))", "helper.py", "exec"), space)
    with pytest.raises(LayoutError, match=r"^helper.py:2: lego.load: a has 2 dimensions"):
        traced(lambda a, b: space["load"](a))


def test_outside_a_kernel():
    with pytest.raises(TraceError, match=r"lego.load can be used only inside a function decorated with @lego.kernel"):
        lego.load(None, LAYOUT)
    with pytest.raises(TraceError, match="can be used only inside"):
        lego.zeros(f32, LAYOUT)


def test_the_line_of_a_layout_that_is_made_in_a_kernel_is_the_user_s():
    words = r"test_spread_messages.py:\d+: a tile of 36 along axis 1 ends inside what lanes hold, which reaches to 4"
    with pytest.raises(LayoutError, match=words):
        traced(lambda a, b: lego.load(a, f2.MmaOperand(0, f2.MmaSync((2, 2))).layout((32, 36))))
