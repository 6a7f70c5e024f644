"""A second name of a register changes with it: a warning names the line and the snapshot."""

import ast
import inspect
import warnings

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import Row, f2, i32
from lego_mlir.errors import RegisterWarning, TraceError
from lego_mlir.tracing.checks import register_names


def test_a_second_name_of_a_register_that_changes_is_warned_of():
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(32))):
        best = lego.register(i32, 1)
        old = best
        best.set(2)
        y[lego.thread_id[0]] = old.get()

    with pytest.warns(
        RegisterWarning,
        match=r"test_register_names.py:\d+: old is a second name of the register best.*old = best\.value",
    ):
        k.trace()


def test_one_in_a_loop_is_warned_of_too():
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(32))):
        best = lego.register(i32, 1)
        for _ in lego.range(3):
            best += 1
            last = best
        y[lego.thread_id[0]] = last.get()

    with pytest.warns(RegisterWarning, match="last is a second name"):
        k.trace()


def in_a_tuple(best):
    old, _ = best, 3  # noqa: F841


def of_a_second_name(best):
    other = best
    old = other  # noqa: F841


def with_an_annotation(best):
    old: object = best  # noqa: F841


def in_an_expression(best):
    if (old := best) is not None:  # noqa: F841
        pass


@pytest.mark.parametrize("binds", [in_a_tuple, of_a_second_name, with_an_annotation, in_an_expression])
def test_every_binding_gives_a_second_name(binds):
    lines = inspect.getsource(binds).splitlines()[1:]
    text = "\n".join(["def k():", "    best = register(i32, 1)", *lines, "    best.set(2)"])
    (*_, (name, _, line)) = register_names._second_names(ast.parse(text))
    assert (name, line) == ("old", 2 + next(n for n, line in enumerate(lines, 1) if "old" in line))


@pytest.mark.parametrize(
    "held", ["[register(i32, 1)]", "(register(i32, 1), 3)", "{0: register(i32, 1)}", "[register(i32) for _ in a]"]
)
@pytest.mark.parametrize(("bind", "warned"), [("cells[0]", True), ("cells[0].get()", False), ("cells[1]", False)])
def test_an_entry_of_registers_gives_a_second_name(held, bind, warned):
    text = f"def k():\n cells = {held}\n old = {bind}\n cells[0].set(2)"
    found = [(name, register) for name, register, _ in register_names._second_names(ast.parse(text))]
    assert found == ([("old", "cells[0]")] if warned else [])


def read_directly(best, again):
    old = best.get()
    again()
    return old


def computed(best, again):
    old = best + 0
    again()
    return old


def in_a_list(best, again):
    (old,) = [best.get()]
    again()
    return old


def in_a_dict(best, again):
    old = {"best": best.get()}
    again()
    return old["best"]


def in_another_register(best, again):
    old = lego.register(i32, best)
    again()
    return old


def chosen(best, again):
    old = lego.where(lego.thread_id.x >= 0, best, 0)
    again()
    return old


@pytest.mark.parametrize(
    "snapshot", [read_directly, computed, in_a_list, in_a_dict, in_another_register, chosen], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("rounds", [0, 3])
def test_a_snapshot_keeps_the_value_of_its_time(snapshot, rounds):
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(2, 32))):
        best, last = lego.register(i32, 1), lego.register(i32, -1)
        if rounds:
            for _ in lego.range(rounds):
                last.set(snapshot(best, lambda: best.set(best + 1)))
        else:
            last.set(snapshot(best, lambda: best.set(best + 1)))
        y[0, lego.thread_id.x], y[1, lego.thread_id.x] = last, best

    (y,) = launch(k, np.zeros((2, 32)))
    assert y.tolist() == [[max(rounds, 1)] * 32, [max(rounds, 1) + 1] * 32]


@pytest.mark.parametrize("held", [lambda best: best, lambda best: [best][0], lambda best: {"best": best}["best"]])
def test_a_register_in_a_container_is_the_register(held):
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(32))):
        best = lego.register(i32, 1)
        same = held(best)
        best.set(2)
        y[lego.thread_id.x] = same

    (y,) = launch(k, np.zeros(32))
    assert y.tolist() == [2] * 32


def test_the_value_of_a_register_is_a_snapshot():
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(4, 32))):
        t, layout = lego.thread_id.x, f2.Blocked((1,), (32,), (1,), order=(0,)).layout((32,))
        best, pair = lego.register(i32, 1), lego.register((i32(3), i32(4)))
        tile = lego.register(lego.full(i32, layout, 5))
        old, (first, second), row = best.value, pair.value, tile.value
        best.set(best.value + 1)
        pair.set((second, first))
        tile += 1
        y[0, t] = 10 * old + best.value
        y[1, t] = 10 * first + pair.value[0]
        (row * 10 + tile.value).store(y, at=(2, 0))
        y[3, t] = lego.where(best.value == 2, 1, 0)

    (y,) = launch(k, np.zeros((4, 32)))
    assert y.tolist() == [[12] * 32, [34] * 32, [56] * 32, [1] * 32]


def test_an_entry_of_the_trace_is_refused_with_the_snapshot():
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(32))):
        best = lego.register(i32, 1)
        y[lego.thread_id.x] = best.entry

    with pytest.raises(TraceError, match=r"test_register_names.py:\d+: .* write \.value for the value of a register"):
        k.trace()


def test_exchanged_registers_are_no_reason_to_warn():
    text = "def k():\n a = register(i32)\n b = register(i32)\n a, b = b, a\n a.set(1)\n c, d = register(i32), 1"
    assert not list(register_names._second_names(ast.parse(text)))


def test_snapshots_and_registers_that_stay_are_no_reason_to_warn():
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(2, 32))):
        best = lego.register(i32, 1)
        old = best.get()
        best.set(2)
        final = best
        y[0, lego.thread_id[0]], y[1, lego.thread_id[0]] = old, final

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (y,) = launch(k, np.zeros((2, 32)))
    assert y.tolist() == [[1] * 32, [2] * 32]
