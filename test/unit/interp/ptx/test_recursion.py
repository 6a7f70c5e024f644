"""Recursion gives what Python's gives, and faults in it are at their lines. Needs nvcc."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lego_mlir import sanitize
from lego_mlir.errors import InterpreterError
from lego_mlir.sanitize.cuda_text import compile_to_ptx
from lego_mlir.toolchain import nvidia_tools

pytestmark = [
    pytest.mark.tools,
    pytest.mark.skipif(nvidia_tools.find("nvcc") is None, reason="needs nvcc (pip install nvidia-cuda-nvcc)"),
]
FILE = Path(__file__).with_name("recursion.cu")
THREADS = np.arange(64)


@pytest.fixture(scope="module")
def text():
    return compile_to_ptx(FILE.read_text(), FILE, "sm_90")


def run(text, name, y=None, seed=0):
    y = np.zeros(64, np.int32) if y is None else y
    with sanitize.session(on_fault="collect", seed=seed):
        return sanitize.ptx(text, name)[1, 64](y), y


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@cache
def ackermann(m, n):
    return n + 1 if not m else ackermann(m - 1, 1) if not n else ackermann(m - 1, ackermann(m, n - 1))


def of_each_depth(n):
    return (of_each_depth(n - 1) if n else 0) + n * (n & 3)


WANTED = {
    "fibonacci_numbers": [fibonacci(i % 13) for i in range(64)],
    "parity": [10 if i % 2 else 1 for i in range(64)],
    "local_arrays": [of_each_depth(i % 7) for i in range(64)],
    "ackermann_numbers": [ackermann(i % 3, i % 4) for i in range(64)],
}


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_values_are_those_of_the_recursion(text, name, seed):
    report, y = run(text, name, seed=seed)
    assert report.clean, report
    assert y.tolist() == WANTED[name]


def test_an_array_is_sorted_by_parts(text):
    rows = np.random.default_rng(0).integers(0, 1000, (64, 16)).astype(np.int32)
    wanted = np.sort(rows, axis=1)
    report, found = run(text, "sorted", rows)
    assert report.clean
    assert np.array_equal(found, wanted)


def test_recursion_that_does_not_end_is_a_fault_at_its_call(text):
    report, _ = run(text, "without_end")
    (fault,) = report.faults
    line = FILE.read_text()[: FILE.read_text().index("endless(n + 1)")].count("\n") + 1
    assert fault.place.line == line
    assert "calls are nested deeper than 64" in fault.message


def test_a_fault_of_a_deep_call_is_at_its_line(text):
    report, _ = run(text, "faulty")
    (fault,) = report.faults
    line = FILE.read_text()[: FILE.read_text().index("y[1000]")].count("\n") + 1
    assert (fault.kind.value, fault.place.line) == ("out of bounds", line)


def test_a_barrier_in_such_a_function_is_refused_with_its_line(text):
    with pytest.raises(InterpreterError, match=r"`bar.sync 0` in a function that calls itself"):
        run(text, "barriers")
