"""Triton's interpreter on arrays: what a launch is refused for, and accesses outside of its arguments."""

import importlib.util

import numpy as np
import pytest

from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template
from lego_mlir.templates.run import triton_interpreter
from lego_mlir.templates.run.triton_interpreter import interpret
from lego_mlir.templates.run.triton_memory import GAP, Memory, OutsideError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs the package triton (pip install lego-mlir[triton])"
)

TEXT = """import triton
import triton.language as tl


@triton.jit
def helper(x):
    return x.nope


@triton.jit
def broken(x_ptr):
    tl.store(x_ptr, helper(tl.load(x_ptr)))


@triton.jit
def double(x_ptr, y_ptr, N, M, SHIFT: tl.constexpr):
    at = tl.program_id(0) * 32 + tl.arange(0, 32)
    x = tl.load(x_ptr + at, mask=at < N)
    tl.store(y_ptr + at + SHIFT, x * 2, mask=at < M)


@triton.jit
def shifted(x_ptr, BY: tl.constexpr = 1):
    tl.store(x_ptr + BY, 0.0)


@triton.jit
def first_of_each(parts_ptr, y_ptr):
    part = tl.load(parts_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + tl.program_id(0), tl.load(part + 3))


@triton.jit
def count(x_ptr, AT: tl.constexpr):
    tl.atomic_add(x_ptr + AT, 1)


@triton.jit
def through_descriptor(x_ptr, y_ptr, ROWS: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, shape=[ROWS, 8], strides=[8, 1], block_shape=[8, 8])
    at = tl.arange(0, 8)
    tl.store(y_ptr + at[:, None] * 8 + at[None, :], d.load([0, 0]))


@triton.jit
def root(x_ptr):
    at = tl.arange(0, 4)
    tl.store(x_ptr + at, tl.sqrt((at - 2).to(tl.float32)), mask=at >= 2)
"""
KERNELS = Template.of(TEXT, "k.py.jinja").render()


def launch(kernel, *arguments, grid=(4,), **constants):
    interpret(KERNELS, kernel, grid, *arguments, **constants)


def refused(kernel, *arguments, **constants):
    """The message of a launch that fails: one line, whose remedy is to be seen."""
    with pytest.raises(TemplateError) as caught:
        launch(kernel, *arguments, **constants)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    return message


@pytest.fixture
def x():
    return np.arange(100, dtype=np.float32)


def test_arrays_are_read_and_written_by_place_and_by_name(x):
    by_place, by_name = np.zeros(100, np.float32), np.zeros(100, np.float32)
    launch("double", x, by_place, 100, 100, 0)
    launch("double", x, y_ptr=by_name, N=100, M=100, SHIFT=0, num_warps=4)
    np.testing.assert_array_equal(by_place, x * 2)
    np.testing.assert_array_equal(by_name, x * 2)


def test_one_array_given_twice_is_one(x):
    expected = x * 2
    launch("double", x, x, 100, 100, 0)
    np.testing.assert_array_equal(x, expected)


def test_an_array_that_is_too_short(x):
    y = np.zeros(100, np.float32)
    said = refused("double", x, y, 300, 100, 0)
    assert "k.py.jinja: double, at line 18 of the rendered text, 'x = tl.load(x_ptr + at, mask=at < N)': " in said
    assert said.endswith(
        "program (3, 0, 0) reads element 100 of x_ptr, which has 100; mask it, or give it larger arrays"
    )
    assert not y.any()
    assert "program (3, 0, 0) writes element 100 of y_ptr, which has 100" in refused("double", x, y, 100, 101, 0)
    assert "program (0, 0, 0) writes element -1 of y_ptr, which has 100" in refused("double", x, y, 100, 100, -1)
    assert "writes element -1 of y_ptr" in refused("double", x, y_ptr=y, N=100, M=100, SHIFT=-1)
    launch("double", x, y, 100, 100, 0)  # and the interpreter goes on
    np.testing.assert_array_equal(y, x * 2)


def test_atomics_descriptors_and_lists_of_arrays(x):
    counts = np.zeros(2, np.int32)
    launch("count", counts, 1)
    assert counts.tolist() == [0, 4]
    assert "updates element 2 of x_ptr, which has 2" in refused("count", counts, 2)

    block = np.zeros((8, 8), np.float32)
    launch("through_descriptor", x, block, 5, grid=(1,))
    assert (block[:5].ravel() == x[:40]).all() and not block[5:].any()
    assert "reads element 40 of x_ptr, which has 40" in refused("through_descriptor", x[:40], block, 8, grid=(1,))

    parts, firsts = [x[k : k + 4] for k in range(4)], np.zeros(4, np.float32)
    launch("first_of_each", parts, firsts)
    assert firsts.tolist() == [3, 4, 5, 6]
    parts[2] = parts[2][:2]
    assert "program (2, 0, 0) reads element 3 of parts_ptr[2], which has 2" in refused("first_of_each", parts, firsts)
    assert "program (2, 0, 0) reads element 2 of parts_ptr, which has 2" in refused("first_of_each", parts[:2], firsts)


def test_mistakes_are_one_message(x):
    said = refused("broken", x)
    assert said.startswith(
        "k.py.jinja: broken failed in Triton's interpreter, at line 7 of the rendered text, 'return x."
    )
    assert said.endswith("AttributeError: 'tensor' object has no attribute 'nope'")
    with pytest.raises(TemplateError) as caught:
        launch("broken", x)
    assert "in __call__" in str(caught.value.__cause__)  # the place in Triton is kept in the cause

    assert refused("doubel", x).startswith("k.py.jinja: it has no kernel 'doubel'; there are: helper, broken, double")
    assert "double(x_ptr, y_ptr, N, M, SHIFT): missing a required argument: 'N'" in refused("double", x, x)
    assert refused("double", x, x, 1, M=1, SHFIT=2).endswith("has no parameter 'SHFIT'; did you mean SHIFT?")
    assert refused("shifted", x, BY_=2).endswith("shifted(x_ptr, BY) has no parameter 'BY_'; did you mean BY?")
    assert "too many positional arguments" in refused("broken", x, x)
    assert "x_ptr is an array of object, for which Triton has no type" in refused("broken", x.astype(object))
    assert "k.py.jinja: broken: an argument cannot be handed to the interpreter" in refused("broken", lambda: 0)


def test_what_masked_lanes_compute_is_not_warned_of(capfd):
    got = np.zeros(4, np.float32)
    launch("root", got, grid=(1,))
    assert got.tolist() == [0, 0, 0, 1]
    assert "Warning" not in capfd.readouterr().err


def test_a_mask_with_a_part_that_is_one_truth_value():
    x = np.zeros(8, dtype=np.int32)
    text = """import triton
import triton.language as tl

@triton.jit
def f(x_ptr, N):
    row, at = tl.program_id(0), tl.arange(0, 4)
    inside = (row < N) & (at < 3)
    old = tl.load(x_ptr + row * 4 + at, mask=inside, other=7)
    tl.store(x_ptr + row * 4 + at, old + 5, mask=inside)
    tl.atomic_add(x_ptr + row * 4 + at, 1, mask=inside)
"""
    interpret(Template.of(text, "m.py.jinja").render(), "f", (2,), x, 1)
    assert x.tolist() == [6, 6, 6, 0, 0, 0, 0, 0]


def test_memory_keeps_arrays_apart_whatever_their_size():
    large, small = np.zeros(3 * GAP, np.int8), np.zeros(0, np.float64)
    memory = Memory({"large": large, "small": small, "again": large})
    first, empty = (memory.copies[n].ctypes.data for n in ("large", "small"))
    assert memory.copies["again"] is memory.copies["large"]
    assert first % 128 == empty % 128 == 0
    assert empty - (first + large.nbytes) >= large.nbytes
    memory.require("reads", np.array([first, first + large.nbytes - 1], np.uint64), True, 1)
    memory.require("reads", np.array([0], np.uint64), np.array([False]), 1)
    for address, size, said in (
        (first + large.nbytes - 1, 2, rf"element {large.nbytes - 1} of large"),
        (first - 1, 1, "element -1 of large"),
        (empty, 8, "element 0 of small, which has 0"),
    ):
        with pytest.raises(OutsideError, match=said):
            memory.require("reads", np.array([address], np.uint64), True, size)
    with pytest.raises(OutsideError, match="none of its arguments is an array"):
        Memory({}).require("writes", np.array([8], np.uint64), True, 1)


def test_the_process_of_the_interpreter_is_waited_for_and_its_pipes_are_closed():
    child = triton_interpreter._child.__wrapped__()
    assert child.poll() is None
    triton_interpreter._end(child)
    assert child.returncode is not None
    assert child.stdin.closed and child.stdout.closed


def test_an_interpreter_that_ended_is_named_with_its_exit_code_and_replaced():
    rendered = Template.of(TEXT, "double.py.jinja").render()
    ended = triton_interpreter._child()
    ended.kill()
    ended.wait()
    arrays = np.zeros(32, np.float32), np.zeros(32, np.float32)
    with pytest.raises(TemplateError, match=r"Triton's interpreter ended \(exit code -9\)"):
        interpret(rendered, "double", (1,), *arrays, 32, 32, SHIFT=0)
    assert ended.stdin.closed and ended.stdout.closed
    interpret(rendered, "double", (1,), arrays[0] + 1, arrays[1], 32, 32, SHIFT=0)
    assert (arrays[1] == 2).all()
