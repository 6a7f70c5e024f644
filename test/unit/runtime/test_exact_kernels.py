"""Exact kernels that are compiled beside a program: after some calls, by one process, and then taken."""

from dataclasses import replace

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own
from product_device import forget

import lego_mlir
from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes, default_tile
from lego_mlir.runtime import attention_kernels, attention_plans, driver, exact_kernels, first_calls
from lego_mlir.runtime.attention_kernels import AttentionKernel
from lego_mlir.runtime.exact_kernels import CALLS, LOOKED_AT, SWITCH, ExactProblem
from lego_mlir.runtime.first_calls import KeptKernel
from lego_mlir.runtime.products import backends, kernels, known
from lego_mlir.runtime.products.problem import Problem

CLUSTERS = 66, 33, 16
PROBLEM = Problem(64, 64, 64, "f16", "f16", "NN", "sm_90a", 132, CLUSTERS)


ATTENTION = AttentionKernel("attention", AttentionForm(64, causal=True), default_tile(AttentionForm(64)))
CAPABILITY = "80"
SIZES = HeadSizes(1, 1, 64, 64)


def tensor(name, shape, dtype="f16"):
    """An argument in rows; results are o, lse and c."""
    strides, written = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))], name in ("o", "lse", "c")
    return {"name": name, "kind": "tensor", "dtype": dtype, "shape": list(shape), "elements": int(np.prod(shape)),
            "layout": "Row", "read": not written, "written": written, "strides": strides}  # fmt: skip


def described(entry, *tensors, sizes=()):
    free = [{"name": name, "min": 1, "max": None, "multiple_of": 1} for name in sizes]
    return {"entry": entry, "grid": [1], "block": [32], "dynamic_shared_bytes": 0, "static_shared_bytes": 0,
            "sizes": free, "arguments": list(tensors)}  # fmt: skip


class Product:
    """matmul of 64 x 64: its problem, and how its kernels are kept on disk."""

    problem = ExactProblem(backends.compile_exact, PROBLEM)
    general = exact = staticmethod(lambda problem: backends.call_of(problem.problem))
    known = known.known

    @staticmethod
    def kernel(entry):
        facts = {backends.OF_CLASS: 1} if entry == "general" else {}
        return KeptKernel(described(entry, *(tensor(n, (64, 64)) for n in "abc")), f".entry {entry}".encode(), facts)

    @staticmethod
    def call():
        given = own(np.zeros((64, 64), np.float16))
        lego_mlir.matmul(given, given)


class Attention:
    """Causal attention of one head of 64 positions, the same; of exact kernels, strides of one element are numbers."""

    problem = ExactProblem(attention_kernels.compile_exact, (replace(ATTENTION, sizes=SIZES), CAPABILITY))
    general = staticmethod(lambda problem: ("built", ("attention", ATTENTION), CAPABILITY))
    exact = staticmethod(lambda problem: ("built", ("attention", problem.problem[0]), problem.problem[1]))
    known = attention_plans.known

    @staticmethod
    def kernel(entry):
        arguments = [*(tensor(n, (1, 1, 64, 64)) for n in "qkvo"), tensor("lse", (1, 1, 64), "f32")]
        strides = ("o_batch", "o_head", "o_row") if entry == "general" else ("o_row",)
        return KeptKernel(described(entry, *arguments, sizes=strides), f".entry {entry}".encode())

    @staticmethod
    def call():
        given = own(np.zeros((1, 1, 64, 64), np.float16))
        lego_mlir.attention(given, given, given, causal=True)


@pytest.fixture(params=[Product, Attention])
def door(request):
    """What is called."""
    return request.param


def drop_known():
    """Forget what was bound, as a process that begins later."""
    forget()
    attention_plans.known.clear()
    attention_kernels._calls_of.cache_clear()


@pytest.fixture
def machine(door, monkeypatch, fresh_cache):
    """A stand-in whose disk has the general kernel."""
    drop_known()
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(exact_kernels, "_queue", exact_kernels._Queue())
    machine = Machine().plug_in(monkeypatch)
    if door is Attention:
        machine.set(major=8)
    OwnLibrary(monkeypatch)
    first_calls.write(first_calls.key(door.general(door.problem)), door.kernel("general"))
    yield machine
    drop_known()
    driver.driver.cache_clear()


class Process:
    """A compiling process: it writes the exact kernel when it is let go."""

    returncode = None

    def __init__(self, problem):
        self.problem = problem

    def let_go(self, door, code=0):
        if code == 0:
            first_calls.write(first_calls.key(door.exact(self.problem)), door.kernel("exact"))
        self.returncode = code

    def poll(self):
        return self.returncode


def call(door, times):
    for _ in range(times):
        door.call()


def launched(machine):
    return [launch[0] for launch in machine.launches]


def test_the_exact_kernel_is_taken_when_it_is_ready(door, machine, monkeypatch):
    processes = []
    monkeypatch.setattr(
        exact_kernels, "_compiling", lambda problem: processes.append(Process(problem)) or processes[-1]
    )
    call(door, CALLS - 1)
    assert not processes
    call(door, 1)
    assert [process.problem for process in processes] == [door.problem]
    call(door, 2 * LOOKED_AT)
    assert len(processes) == 1 and set(launched(machine)) == {"general"}
    processes[0].let_go(door)
    call(door, LOOKED_AT + 1)
    assert launched(machine)[-1] == "exact"
    (bound,) = door.known.values()
    assert bound.exact is None  # nothing is counted any more
    drop_known()
    call(door, 1)  # a process that begins later
    assert launched(machine)[-1] == "exact"


@pytest.mark.parametrize("how", ["off", "failed", "deterministic", "too many"])
def test_the_general_kernel_stays(how, door, machine, monkeypatch):
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
    call(door, CALLS)
    for process in processes:
        process.let_go(door, code=1)
    call(door, 3 * LOOKED_AT)
    assert len(processes) == (how == "failed")
    assert set(launched(machine)) == {"general"}


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
    process = exact_kernels._compiling(ExactProblem(backends.compile_exact, problem))
    assert process.wait(timeout=300) == 0
    found = first_calls.read(first_calls.key(backends.call_of(problem)))
    assert found.code == kernels.compiled(problem).bytes
    assert not found.facts


def test_the_kernel_of_exact_attention_has_constant_sizes(fresh_cache):
    """What the process compiles is what a call looks for, and has no sizes but strides of axes of several elements."""
    exact = Attention.problem.problem
    assert not attention_kernels.is_compiled(exact)
    attention_kernels.compile_exact(exact)
    assert attention_kernels.is_compiled(exact)
    found = first_calls.read(first_calls.key(Attention.exact(Attention.problem)))
    assert {size.name for size in found.entry.sizes} == {f"{x}_row" for x in "qkvo"}
