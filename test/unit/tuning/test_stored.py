"""Timings that an earlier process stored: read by default, by device, compiler and code."""

from dataclasses import replace

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.templates.library.rows import softmax
from lego_mlir.tuning import cpu_workbench
from lego_mlir.tuning.candidates import Timing
from lego_mlir.tuning.timings import TimingStore
from lego_mlir.tuning.tunable import tune
from lego_mlir.tuning.workbench import made_up_workbench

TEXT = "A = Matrix(4, 4); L = LowerTriangular(4); B = Matrix(4, 4); A = L*B;"
BENCH = made_up_workbench(lambda configuration, sizes: 1e-5)


def doubled(factor=2, **options):
    @tune(space={"threads": [32, 64, 128]}, key=["N"], **options)
    def doubled(threads, N):
        @lego.kernel(grid=lego.cdiv(N, threads), block=threads)
        def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
            i = lego.block_id.x * threads + lego.thread_id.x
            with lego.when(i < N):
                y[i] = factor * x[i]

        return kernel

    return doubled


def timing(builds, threads, microseconds, n=1000, **changed):
    candidate = builds.candidate(f"threads={threads}", {"N": n})
    middle = (microseconds, microseconds)
    made = Timing(
        builds.name, candidate.configuration, {"N": n}, candidate.digest, BENCH.toolchain, BENCH.device,
        BENCH.multiprocessors, BENCH.driver, microseconds, middle, 9, "2026-01-01",
    )  # fmt: skip
    return replace(made, **changed)


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setattr(cpu_workbench, "workbench_for", lambda candidate, device=0: BENCH)


def test_the_fastest_stored_timing_of_this_device_is_the_choice():
    TimingStore().add([timing(doubled(), 32, 5.0), timing(doubled(), 64, 3.0), timing(doubled(), 128, 4.0)])
    found = doubled().choose({"N": 1000})
    assert (found.configuration["threads"], found.basis, found.microseconds) == (64, "stored", 3.0)
    assert doubled().choose({"N": 2000}).basis == "scaled"
    assert doubled(stored=False).choose({"N": 1000}).basis == "model"


@pytest.mark.parametrize(
    "changed",
    [{"device": "another"}, {"multiprocessors": 7}, {"toolchain": "older"}, {"kernel": "other code"},
     {"failure": "wrong: y"}, {"sizes": {"M": 1000}}, {"tunable": "tripled"}],
    ids=str,
)  # fmt: skip
def test_a_timing_of_anything_else_is_not_used(changed):
    TimingStore().add([timing(doubled(), 32, 1.0, **changed), timing(doubled(), 64, 3.0)])
    assert doubled().choose({"N": 1000}).configuration["threads"] == 64


def test_timings_of_code_that_has_changed_are_stale():
    TimingStore().add([timing(doubled(factor=3), 32, 1.0)])
    assert doubled().choose({"N": 1000}).basis == "model"
    assert doubled(factor=3).choose({"N": 1000}).basis == "stored"


def test_a_newer_timing_of_the_same_code_counts():
    TimingStore().add([timing(doubled(), 32, 1.0), timing(doubled(), 64, 3.0)])
    TimingStore().add([timing(doubled(), 32, 9.0, when="2026-02-01")])
    assert doubled().choose({"N": 1000}).configuration["threads"] == 64


def test_without_the_device_nothing_is_stored_here(monkeypatch):
    def none(candidate, device=0):
        raise DependencyError("no GPU")

    TimingStore().add([timing(doubled(), 64, 3.0)])
    monkeypatch.setattr(cpu_workbench, "workbench_for", none)
    assert doubled().choose({"N": 1000}).basis == "model"


def test_what_this_process_measures_counts_more_than_what_was_stored():
    TimingStore().add([timing(doubled(), 64, 3.0)])
    tunable = doubled()
    tunable.remember([timing(tunable, 128, 8.0)])
    found = tunable.choose({"N": 1000})
    assert (found.configuration["threads"], found.basis) == (128, "measured")


@pytest.mark.parametrize("variant", [{"width": [2], "rows": [2], "vectors": [1]}, {"width": [4], "rows": [4]}])
def test_a_tuned_structured_program_is_called_on_arrays(variant):
    product = tune(space=variant)(TEXT)
    random = np.random.default_rng(0)
    a, lower, b = np.zeros((4, 4)), np.tril(random.random((4, 4))), random.random((4, 4))
    product(a, lower, b)
    assert np.allclose(a, lower @ b)
    with pytest.raises(TypeError, match=r"B is Matrix"):
        product(a, lower, np.zeros((3, 3)))


def test_text_without_a_launch_is_not_called():
    text = tune(space={"num_warps": [4]})(lambda num_warps: softmax(64, 64))
    with pytest.raises(UsageError, match="not called on arrays; take its text from"):
        text(np.zeros(3))
