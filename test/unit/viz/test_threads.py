"""Threads of a tile: fragments by name, encodings, spread values, and the threads at a line of a kernel."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32
from lego_mlir.f2.conversion import conversion_plan
from lego_mlir.tracing.trace.trace import MatrixLoad
from lego_mlir.tracing.words.staging import thread_chunks
from lego_mlir.viz import show


def holders(panel):
    """(warp, lane, register) of each cell, from its tooltip."""
    found = {}
    for r, row in enumerate(panel.cells):
        for c, cell in enumerate(row):
            if cell.title:
                words = cell.title.split(": ", 1)[1].split("; ")[0].split(", ")
                values = dict(word.split() for word in words)
                found[r, c] = tuple(int(values.get(name, 0)) for name in ("warp", "lane", "register"))
    return found


@pytest.mark.parametrize("name", ["mma.m16n8k16.f16 A", "mma.m16n8k32.s8 B", "wgmma.m64n16k16.f16 D", "ldmatrix.x4"])
def test_a_fragment_is_drawn_by_its_name(name):
    (panel,) = show(name).panels
    layout = f2.fragment(name)
    assert panel.title == name and panel.shape == tuple(layout.out_sizes.values())
    for (row, column), (warp, lane, register) in holders(panel).items():
        values = {"register": register, "lane": lane, "warp": warp, "block": 0}
        found = layout.apply(**{n: values[n] for n in layout.in_sizes})
        assert (found["dim0"], found["dim1"]) == (row, column)
    assert len(holders(panel)) == panel.shape[0] * panel.shape[1]
    assert ("lane r passes the address of row r" in panel.caption) == name.startswith("ldmatrix")


@pytest.mark.parametrize(
    ("encoding", "shape"),
    [
        (f2.MmaSync((2, 4)), (32, 32)),
        (f2.Wgmma((4, 1), 32), (64, 32)),
        (f2.MmaOperand(0, f2.MmaSync((2, 1)), 2), (32, 16)),
        (f2.MmaOperand(1, f2.MmaSync((1, 2)), 4), (32, 16)),
        (f2.Blocked((1, 4), (8, 4), (4, 1), (1, 0)), (32, 16)),
        (f2.Sliced(0, f2.MmaSync((1, 2))), (1, 16)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_encoding_shows_its_own_tile(encoding, shape):
    (panel,) = show(encoding).panels
    assert panel.shape == shape and panel.title == repr(encoding)
    of_shape = encoding.layout(shape[1:] if isinstance(encoding, f2.Sliced) else shape)
    assert panel.cells == show(of_shape).panels[0].cells
    assert show(encoding, by="matrix").panels == show(of_shape, by="matrix").panels


def test_shared_memory_shows_the_offset_of_each_element():
    layout = f2.SwizzledShared(2, 1, 4, (1, 0)).layout((4, 8))
    (panel,) = show(layout).panels
    for offset in range(32):
        at = layout.apply(offset=offset, block=0)
        assert panel.cells[at["dim0"]][at["dim1"]].label == str(offset)


def test_a_spread_value_shows_its_layout_while_a_kernel_is_traced():
    layout = f2.Blocked((1, 4), (8, 4), (2, 1), (1, 0)).layout((16, 16))
    seen = []

    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(f32, Row(16, 16)), y: lego.Tensor(f32, Row(16, 16))):
        value = lego.load(x, layout)
        seen.append(lego.show(value))
        value.store(y)

    kernel.trace()
    assert seen[0].panels[0].cells == show(layout).panels[0].cells and seen[0].title == "threads of f32"


def test_the_threads_that_stage_a_tile():
    @lego.kernel(grid=1, block=(32, 2))
    def staged(x: lego.Tensor(f16, Row(64, 32)), y: lego.Tensor(f16, Row(64, 32))):
        tile = lego.shared(f16, Row(64, 32))
        lego.stage(x, (0, 0), tile)
        lego.barrier()
        for r in lego.range(0, 64, 2):
            y[r + lego.thread_id[1], lego.thread_id[0]] = tile[r + lego.thread_id[1], lego.thread_id[0]]

    line = staged.source.line
    read, write = show(staged, line=line + 3, by="thread").panels
    assert read.title == f"threads of the read of x, line {line + 3}"
    assert write.title == f"threads of the write of shared0, line {line + 3}"
    found = holders(write)
    assert holders(read) == found and len(found) == 64 * 32
    for thread in range(64):
        for turn, (row, column) in enumerate(thread_chunks((64, 32), 8, 64, thread)):
            for step in range(8):
                assert found[row, column + step] == (thread // 32, thread % 32, 8 * turn + step)
    _, copied = show(staged, line=line + 6, by="thread").panels
    assert holders(copied)[5, 7] == (1, 7, 2)  # row 5 in round 2 of the second warp


def test_the_lanes_that_receive_matrices():
    source = f2.Blocked((1, 8), (16, 2), (4, 1), order=(1, 0)).layout((64, 16))
    target = f2.MmaOperand(0, f2.MmaSync((4, 1)), 2).layout((64, 16))
    source, target = (x.sublayout(["register", "lane", "warp"], ["dim0", "dim1"]) for x in (source, target))
    assert conversion_plan(source, target, 16).matrices

    @lego.kernel(grid=1, block=128)
    def kernel(x: lego.Tensor(f16, Row(64, 16)), y: lego.Tensor(f16, Row(64, 16))):
        lego.convert(lego.load(x, source), to=target).store(y)

    line = kernel.source.line + 2
    assert any(isinstance(s, MatrixLoad) for s in kernel.trace().statements())
    panels = {panel.title: holders(panel) for panel in show(kernel, line=line, by="thread").panels}
    stored, received = (panels[f"threads of the {way} of shared0, line {line}"] for way in ("write", "read"))
    assert stored.keys() == received.keys() and len(stored) == 1024
    elements = [{}, {}]
    for layout, by_thread in zip((source, target), elements, strict=True):
        for register, lane, warp in np.ndindex(*layout.in_sizes.values()):
            element = tuple(layout.apply(register=register, lane=lane, warp=warp).values())
            by_thread.setdefault((warp, lane), set()).add(element)
    for place in stored:  # what a thread stored there, the receiving lane holds under the other layout
        assert elements[0][stored[place][:2]] & elements[1][received[place][:2]]


def test_a_layout_of_millions_of_registers_shows_one_holder():
    layout = f2.MmaSync((4, 4)).layout((4096, 4096))
    (panel,) = show(layout).panels
    assert panel.shape == (64, 64)
    for (row, column), (warp, lane, register) in holders(panel).items():
        found = layout.apply(register=register, lane=lane, warp=warp, block=0)
        assert (found["dim0"], found["dim1"]) == (row, column)
    assert "the first 64 x 64 of 4096 x 4096 elements" in panel.caption


@lego.kernel(grid=1, block=32)
def gathered(i: lego.Tensor(lego.i32, Row(32)), y: lego.Tensor(f32, Row(32))):
    tile = lego.shared(f32, Row(32))
    tile[lego.thread_id[0]] = 0.0
    lego.barrier()
    y[lego.thread_id[0]] = tile[lego.index(i[0]) % 32]


N = lego.size("N")


@lego.kernel(grid=1, block=32)
def symbolic(x: lego.Tensor(f32, Row(N, 4)), y: lego.Tensor(f32, Row(N, 4))):
    with lego.when(lego.thread_id[0] < N):
        y[lego.thread_id[0], 0] = x[lego.thread_id[0], 3]


def test_a_tensor_of_symbolic_size_is_drawn_at_a_size():
    read, write = show(symbolic, by="thread", line=symbolic.source.line + 3, sizes={"N": 7}).panels
    assert holders(read) == {(t, 3): (0, t, 0) for t in range(7)} and read.shape == (7, 4)
    assert holders(write) == {(t, 0): (0, t, 0) for t in range(7)}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: show(symbolic, by="thread", line=symbolic.source.line + 3),
            "x has symbolic sizes; give sizes={'N': 64}",
        ),
        (lambda: show("mma A"), "'mma A' is not a fragment of an instruction"),
        (
            lambda: show(f2.SwizzledShared(1, 1, 1, (1, 0))),
            r"is drawn for a shape; call .layout, such as .layout\(\[64, 64",
        ),
        (lambda: show(gathered, by="thread"), "by='thread' needs line=N"),
        (lambda: show(gathered, by="thread", line=1), "kernel gathered: line 1 has no such access"),
        (
            lambda: show(f2.LinearLayout.zeros(1 << 20, "register", "dim0", 4)),
            "too large to draw unless it is linear and every element",
        ),
    ],
)
def test_messages(draw, message):
    with pytest.raises(lego.LegoError, match=message):
        draw()


def test_an_access_that_depends_on_data_is_left_out():
    line = gathered.source.line + 5
    titles = [panel.title for panel in show(gathered, line=line, by="thread").panels]
    assert titles == [f"threads of the {way}, line {line}" for way in ("read of i", "write of y")]
