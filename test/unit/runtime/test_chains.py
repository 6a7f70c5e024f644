"""Launches of several kernels as one call, on a stand-in for the driver whose kernels run on the CPU."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from cuda_stand_in import DeviceArray, OwnLibrary, own

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import LaunchError
from lego_mlir.runtime.launches import chain_of

N = lego.size("N", min=1, max=2**20)
VECTOR = lego.Tensor(f32, Row(N))
WIRES = [(("x", "y"), ("t", "u")), (("t", "y", "u"), ("d",)), (("u",), ("e",))]


@pytest.fixture
def library(monkeypatch, machine):
    return OwnLibrary(monkeypatch)


def kernels(machine):
    """t = x + y and u = x; then u += t y and d = t - y; then e = 2 u."""

    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def first(x: VECTOR, y: VECTOR, t: VECTOR, u: VECTOR):
        i = lego.block_id.x * 32 + lego.thread_id.x
        with lego.when(i < N):
            t[i] = x[i] + y[i]
            u[i] = x[i] * 1.0

    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def second(t: VECTOR, y: VECTOR, u: VECTOR, d: VECTOR):
        i = lego.block_id.x * 32 + lego.thread_id.x
        with lego.when(i < N):
            u[i] = u[i] + t[i] * y[i]
            d[i] = t[i] - y[i]

    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def last(u: VECTOR, e: VECTOR):
        i = lego.block_id.x * 32 + lego.thread_id.x
        with lego.when(i < N):
            e[i] = u[i] * 2.0

    for kernel in (first, second, last):
        machine.runs(kernel)
    return first, second, last


def arrays(count=70, shift=0, turn=0):
    draw = np.random.default_rng(turn)
    return [own(draw.integers(-9, 9, count).astype(np.float32), shift=shift) for _ in "xy"]


def bound(machine, count=70):
    x, y = arrays(count)
    first, second, last = kernels(machine)
    t, u = first(x, y)
    plans = [first.calls.plan([x, y], {})[0], second.calls.plan([t, y, u], {})[0], last.calls.plan([u], {})[0]]
    machine.launches.clear()
    return plans


def chained(machine, count=70):
    found = chain_of(bound(machine, count), WIRES, ("x", "y"), ("e", "d"))
    assert found is not None
    return found


def test_a_chain_computes_what_its_launches_do(machine, library):
    chain = chained(machine)
    library.stream = 7
    for turn in range(3):
        x, y = arrays(turn=turn)
        e, d = chain((x, y))
        np.testing.assert_array_equal(e, 2 * (x + (x + y) * y))
        np.testing.assert_array_equal(d, x)
    assert [launch[0] for launch in machine.launches] == ["first", "second", "last"] * 3
    assert {launch[1:] for launch in machine.launches} == {((3, 1, 1), (32, 1, 1), 0, 7)}


def test_the_launches_of_a_chain_follow_the_current_stream(machine, library):
    chain = chained(machine)
    for stream in (3, 3, 0, 5):
        library.stream = stream
        chain(arrays())
    assert [launch[-1] for launch in machine.launches] == [3] * 6 + [0] * 3 + [5] * 3


def test_what_is_passed_on_does_not_overlap(machine, library):
    """70 numbers of t and u are no multiple of a block's alignment."""
    chain = chained(machine)
    assert all(place % 256 == 0 for place in chain.places)
    assert all(after - before >= 70 * 4 for before, after in pairwise(chain.places)) and len(chain.places) == 2


def test_arrays_that_are_not_aligned_launch_nothing(machine, library):
    chain = chained(machine)
    x, y = arrays(shift=2)
    assert chain((x, y)) is None and machine.launches == []


def test_threads_do_not_share_the_addresses_of_a_chain(machine, library):
    chain, wrong = chained(machine), []

    def work(number):
        for turn in range(20):
            x, y = arrays(turn=20 * number + turn)
            e, d = chain((x, y))
            wrong.extend([number] * (not np.array_equal(e, 2 * (x + (x + y) * y)) or not np.array_equal(d, x)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(machine.launches) == 4 * 20 * 3


def test_a_launch_of_a_chain_that_fails_is_named(machine, library):
    chain = chained(machine)
    chain(arrays())
    machine.set(fail_next=700)
    with pytest.raises(LaunchError, match="kernel first: the launch on CUDA device 0 failed"):
        chain(arrays())
    x, y = arrays()
    np.testing.assert_array_equal(chain((x, y))[1], x)


def test_a_launch_that_writes_an_array_of_the_call_is_not_chained(machine, library):
    """Whether it overlaps another one is checked at its own launch."""
    plans = bound(machine)
    assert chain_of(plans[1:], WIRES[1:], ("t", "y", "u"), ("e", "d")) is None


def test_launches_on_arrays_without_results_of_their_own_are_not_chained(machine):
    (first, _, _), (x, y, t, u) = kernels(machine), (DeviceArray(np.zeros(9, np.float32)) for _ in range(4))
    plan = first.calls.plan([x, y, t, u], {})[0]
    assert chain_of([plan], [(("x", "y", "t", "u"), ())], ("x", "y", "t", "u"), ()) is None
