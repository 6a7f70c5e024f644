"""The parts of the launch benchmark that need no GPU: its kernel, and its bare launches against a stand-in."""

import launch
import numpy as np
from cuda_stand_in import Machine

from lego_mlir.runtime import driver


def test_the_kernel_multiplies():
    x, y = np.random.default_rng(0).random((2, 64, 64), np.float32)
    for check in (False, True):
        np.testing.assert_array_equal(launch.multiply(64)(x, y, check=check), x * y)


def test_the_old_launch_passes_the_same(monkeypatch):
    machine = Machine().plug_in(monkeypatch)
    function = driver.driver().load(b".visible .entry mul()", "mul", 0, 0, "a test")
    frame = driver.Frame(driver.driver(), function, (4, 1, 1, 32, 1, 1), 0, 3)
    frame.configuration.stream = 9
    old = launch._old_launch(driver.driver(), function, frame, 4, 32, 9)
    machine.set(needs_context=0)
    assert frame.launch() == old() == 0
    assert machine.launches == [("mul", (4, 1, 1), (32, 1, 1), 0, 9)] * 2
    driver.driver.cache_clear()


def test_the_steps_are_there():
    assert launch.BENCHMARK.known_steps == ["list", "render", "table", "time"]
