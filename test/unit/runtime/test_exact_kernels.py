"""Exact kernels that are compiled beside a program: after some calls, by one process, and then taken."""

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own
from product_device import forget

import lego_mlir
from lego_mlir.runtime import driver, first_calls
from lego_mlir.runtime.first_calls import KeptKernel
from lego_mlir.runtime.products import backends, exact_kernels, kernels, known
from lego_mlir.runtime.products.exact_kernels import CALLS, LOOKED_AT, SWITCH
from lego_mlir.runtime.products.problem import Problem

CLUSTERS = 66, 33, 16
PROBLEM = Problem(64, 64, 64, "f16", "f16", "NN", "sm_90a", 132, CLUSTERS)


def kept(entry, **facts):
    """A kernel of three matrices of 64 x 64."""
    tensors = [
        {"name": name, "kind": "tensor", "dtype": "f16", "shape": [64, 64], "elements": 4096, "layout": "Row(64, 64)",
         "read": name != "c", "written": name == "c", "strides": [64, 1]}
        for name in "abc"
    ]  # fmt: skip
    described = {"entry": entry, "grid": [1], "block": [32], "dynamic_shared_bytes": 0, "static_shared_bytes": 0,
                 "sizes": [], "arguments": tensors}  # fmt: skip
    return KeptKernel(described, f".entry {entry}".encode(), facts)


@pytest.fixture
def machine(monkeypatch, fresh_cache):
    """A stand-in whose disk has the kernel of a class for the problem."""
    forget()
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(exact_kernels, "_queue", exact_kernels._Queue())
    machine = Machine().plug_in(monkeypatch)
    OwnLibrary(monkeypatch)
    first_calls.write(first_calls.key(backends.call_of(PROBLEM)), kept("of_class", **{backends.OF_CLASS: 1}))
    yield machine
    forget()
    driver.driver.cache_clear()


class Process:
    """A compiling process: it writes the exact kernel when it is let go."""

    returncode = None

    def __init__(self, problem):
        self.problem = problem

    def let_go(self, code=0):
        if code == 0:
            first_calls.write(first_calls.key(backends.call_of(self.problem)), kept("exact"))
        self.returncode = code

    def poll(self):
        return self.returncode


def multiply(times, size=64):
    given = own(np.zeros((size, size), np.float16))
    for _ in range(times):
        lego_mlir.matmul(given, given)


def launched(machine):
    return [launch[0] for launch in machine.launches]


def test_the_exact_kernel_is_taken_when_it_is_ready(machine, monkeypatch):
    processes = []
    monkeypatch.setattr(
        exact_kernels, "_compiling", lambda problem: processes.append(Process(problem)) or processes[-1]
    )
    multiply(CALLS - 1)
    assert not processes
    multiply(1)
    assert [process.problem for process in processes] == [PROBLEM]
    multiply(2 * LOOKED_AT)
    assert len(processes) == 1 and set(launched(machine)) == {"of_class"}
    processes[0].let_go()
    multiply(LOOKED_AT + 1)
    assert launched(machine)[-1] == "exact"
    (bound,) = known.known.values()
    assert bound.exact is None  # nothing is counted any more
    forget()
    multiply(1)  # a process that begins later
    assert launched(machine)[-1] == "exact"


@pytest.mark.parametrize("how", ["off", "failed", "deterministic", "too many"])
def test_the_kernel_of_the_class_stays(how, machine, monkeypatch):
    processes = []
    monkeypatch.setattr(
        exact_kernels, "_compiling", lambda problem: processes.append(Process(problem)) or processes[-1]
    )
    if how == "off":
        monkeypatch.setenv(SWITCH, "0")
    elif how == "deterministic":
        monkeypatch.setattr(exact_kernels, "_is_deterministic", lambda: True)
    elif how == "too many":
        monkeypatch.setattr(exact_kernels, "MOST", 0)
    multiply(CALLS)
    for process in processes:
        process.let_go(code=1)
    multiply(3 * LOOKED_AT)
    assert len(processes) == (how == "failed")
    assert set(launched(machine)) == {"of_class"}


def test_one_process_compiles_at_a_time(monkeypatch):
    queue, processes = exact_kernels._Queue(), []
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(
        exact_kernels, "_compiling", lambda problem: processes.append(Process(problem)) or processes[-1]
    )
    for problem in "abc":
        queue.add(problem)
    assert [process.problem for process in processes] == ["a"]
    processes[0].returncode = 0
    assert queue.has_made("a") and not queue.has_made("b")
    assert [process.problem for process in processes] == ["a", "b"]


def test_the_process_compiles_its_problem(monkeypatch):
    """The process itself, with a small product of mma.sync; it writes what a later process reads."""
    monkeypatch.setenv(SWITCH, "1")
    problem = Problem(64, 64, 64, "f16", "f16", "NN", "sm_80", 108)
    process = exact_kernels._compiling(problem)
    assert process.wait(timeout=300) == 0
    found = first_calls.read(first_calls.key(backends.call_of(problem)))
    assert found.code == kernels.compiled(problem).bytes
    assert not found.facts
