"""What a kernel declares: its launch, its parameters, and names that must not meet."""

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, f32, gallery
from lego_mlir.errors import LayoutError, TraceError


def test_a_launch_of_numpy_s_integers():
    @lego.kernel(grid=np.int64(2), block=(np.int32(4), 2))
    def run(x: lego.Tensor(f32, Row(4))):
        pass

    assert (run.grid, run.block) == ((2,), (4, 2))
    assert all(type(n) is int for n in (*run.grid, *run.block))


def test_a_launch_without_sizes():
    for arguments in ({}, {"grid": 1}, {"grid": lambda x: None}):
        with pytest.raises(TraceError, match=r"write @lego.kernel\(grid=.., block=..\)"):
            lego.kernel(**arguments)


def test_what_is_no_python_function():
    for thing in (print, dict, 3):
        with pytest.raises(TraceError, match=r"@lego\.kernel decorates a Python function, got"):
            lego.kernel(grid=1, block=1)(thing)


def test_a_name_that_ptx_cannot_hold():
    def größe(x): ...

    for function in (größe, lambda x: None):
        with pytest.raises(TraceError, match=r"a kernel cannot be named .*: names in PTX consist of ASCII"):
            lego.kernel(grid=1, block=1)(function)


def test_parameters_that_a_launch_cannot_pass():
    def keyword(*, x): ...

    def star(*x): ...

    def default(x=1.0): ...

    for function in (keyword, star, default):
        function.__annotations__ = {"x": f32}
        with pytest.raises(TraceError, match=r"parameter 'x' of .* must be a plain one"):
            lego.kernel(grid=1, block=1)(function)


def test_a_tensor_that_no_address_reaches():
    with pytest.raises(LayoutError, match=r"Row\(4294967296, 536870912\) takes 9223372036854775808 bytes"):
        lego.Tensor(f32, Row(2**32, 2**29))
    lego.Tensor(f32, Row(2**32, 2**28))


def test_a_parameter_named_as_a_shared_tile_would_be():
    @lego.kernel(grid=1, block=4)
    def run(shared0: lego.Tensor(f32, Row(4)), shared1: lego.Tensor(f32, Row(4))):
        i = lego.thread_id[0]
        tile, other = lego.shared(f32, Row(4)), lego.shared(f32, Row(4))
        tile[3 - i] = shared0[i]
        lego.barrier()
        other[i] = tile[i]
        shared1[i] = other[i]

    assert [p.name for p in run.params if p.read] == ["shared0"]
    _, got = launch(run, np.arange(4), np.zeros(4))
    assert got.tolist() == [3, 2, 1, 0]


def looked_up(name, other=None, entries=(1, 0, 3, 2)):
    """A kernel whose two tensors, and a shared tile, have run-time tables of these names."""
    x = gallery.table([4], [3, 2, 1, 0], name=name, runtime=True)
    y = gallery.table([4], entries, name=other, runtime=True) if other else Row(4)

    @lego.kernel(grid=1, block=4)
    def run(x: lego.Tensor(f32, x), y: lego.Tensor(f32, y)):
        tile = lego.shared(f32, Row(4))
        tile[lego.thread_id[0]] = x[lego.thread_id[0]]
        y[lego.thread_id[0]] = tile[lego.thread_id[0]]

    return run


def test_two_run_time_tables_of_one_name():
    assert [p.name for p in looked_up("t", "u").params] == ["x", "y", "t", "u"]
    assert [p.name for p in looked_up("t", "t", (3, 2, 1, 0)).params] == ["x", "y", "t"]  # the same table twice
    with pytest.raises(TraceError, match="two run-time tables of run are named 't' and differ in their entries"):
        looked_up("t", "t").trace()


@pytest.mark.parametrize("name", ["x", "shared0"])
def test_a_run_time_table_whose_name_is_no_parameter_s(name):
    with pytest.raises(TraceError, match=f"the run-time table '{name}' of run needs another name"):
        looked_up(name).trace()


def test_a_size_named_as_a_run_time_table():
    n = lego.size("t", min=4)

    @lego.kernel(grid=1, block=4)
    def run(x: lego.Tensor(f32, gallery.table([4], [3, 2, 1, 0], name="t", runtime=True)), y: lego.Tensor(f32, Row(n))):
        y[lego.thread_id[0]] = x[lego.thread_id[0]]

    with pytest.raises(TraceError, match="the size t of run needs another name"):
        run.trace()
