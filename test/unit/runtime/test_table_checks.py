"""Run-time tables: a launch takes any permutation for the layout's own, and compares each array once."""

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, f32, gallery
from lego_mlir.errors import UsageError
from lego_mlir.runtime import driver, value_ranges
from lego_mlir.runtime.manifest import kernel_from
from lego_mlir.toolchain import compile_kernel

N = 64


@lego.kernel(grid=1, block=N)
def gather(
    x: lego.Tensor(f32, gallery.table([N], np.arange(N)[::-1], name="order", runtime=True)), y: lego.Tensor(f32, Row(N))
):
    y[lego.thread_id.x] = x[lego.thread_id.x]


def entry_of(kernel):
    """The launch as the manifest of the compiled kernel has it."""
    return kernel_from(compile_kernel(kernel, target="sm_90").manifest["kernels"][0])


def test_the_parameter_is_a_permutation_in_the_manifest():
    assert [(p.name, p.permutation) for p in gather.params] == [("x", False), ("y", False), ("order", True)]
    assert [a.permutation for a in entry_of(gather).arguments] == [False, False, True]


@given(st.permutations(range(N)))
@settings(max_examples=10, deadline=None)
def test_a_launch_takes_any_permutation(order):
    x, y, table = np.arange(N, dtype=np.float32), np.zeros(N, np.float32), np.array(order, np.int32)
    gather(x, y, table)
    assert np.array_equal(y, x[table])


@given(st.lists(st.integers(-2, N + 1), min_size=N, max_size=N))
@settings(max_examples=20, deadline=None)
def test_no_other_array_is_taken(entries):
    table, y = np.array(entries, np.int32), np.full(N, 7, np.float32)
    with pytest.raises(UsageError, match=r"the kernel takes a permutation of 0\.\.63") as caught:
        gather(np.zeros(N, np.float32), y, table)
    outside = [k for k, entry in enumerate(entries) if not 0 <= entry < N]
    assert (f"order[{outside[0]}] = " in str(caught.value)) if outside else ("are both" in str(caught.value))
    assert (y == 7).all()


def test_an_array_is_compared_once(monkeypatch):
    compared = []
    whole = value_ranges.require_permutation
    monkeypatch.setattr(value_ranges, "require_permutation", lambda *args: (compared.append(args[0]), whole(*args)))
    x, y, tables = np.zeros(N, np.float32), np.zeros(N, np.float32), [np.arange(N, dtype=np.int32) for _ in range(2)]
    for table in (tables[0], tables[0], tables[1], tables[0]):
        gather(x, y, table)
    assert compared == ["order", "order"]


def test_a_table_on_a_device_is_compared(monkeypatch):
    machine = Machine().plug_in(monkeypatch)
    OwnLibrary(monkeypatch)
    kernel = lego.kernel(grid=1, block=N)(gather.function)
    machine.runs(kernel, "gather")
    x, turn = np.arange(N, dtype=np.float32), np.roll(np.arange(N, dtype=np.int32), 1)
    try:
        y = kernel(own(x), own(np.zeros(N, np.float32)), own(turn))
        assert np.array_equal(y, x[turn])
        with pytest.raises(UsageError, match="the kernel takes a permutation"):
            kernel(own(x), own(np.zeros(N, np.float32)), own(turn % 5))
    finally:
        driver.driver.cache_clear()
    assert len(machine.launches) == 1


def test_a_table_and_its_inverse_are_compared():
    layout = gallery.table([N], np.arange(N), name="order", runtime=True)

    @lego.kernel(grid=1, block=N)
    def both(x: lego.Tensor(f32, layout), y: lego.Tensor(f32, Row(N))):
        (i,) = layout.inv(lego.thread_id.x)
        y[lego.thread_id.x] = x[lego.thread_id.x] * f32(i)

    tables = value_ranges.CheckedTables(entry_of(both))
    assert list(tables.names.values()) == ["order", "order_inv"]
    turn = np.roll(np.arange(N), 1)
    given = [None] * min(tables.names)
    tables.require([*given, turn, np.argsort(turn)])
    with pytest.raises(UsageError, match=r"order\[0\] = 63, and order_inv\[63\] = 62: the second is not the inverse"):
        tables.require([*given, turn, turn])
