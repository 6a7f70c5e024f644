"""The GPU's trials on the stand-in for the driver: checked first, flushed before each launch, timed by events."""

import ctypes
import dataclasses
import pickle

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, bf16, f32
from lego_mlir.errors import KernelFaultError, LaunchError, UsageError
from lego_mlir.kernels import matmul
from lego_mlir.runtime import data, data_files, driver
from lego_mlir.tuning import device_launch, gpu_trials
from lego_mlir.tuning.child import attempt

M = lego.size("M", multiple_of=4)


@lego.kernel(grid=lego.cdiv(M, 64), block=64)
def scaled(x: lego.Tensor(f32, Row(M)), a: f32, y: lego.Tensor(f32, Row(M))):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M):
        y[i] = a * x[i]


@scaled.reference
def _(x, a):
    return a * x


@lego.kernel(grid=1, block=64)
def doubled(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    y[lego.thread_id.x] = 2.0 * x[lego.thread_id.x]


@lego.program
def twice(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    between = lego.empty(f32, Row(64))
    doubled(x, between)
    doubled(between, y)


@twice.reference
def _(x):
    return 4 * x


def counted(machine, name):
    return ctypes.c_int.in_dll(machine.library, f"stand_in_{name}").value


def saved(folder, kernel, **sizes):
    path = folder / f"{kernel.name}{''.join(map(str, sizes.values()))}.npz"
    path.write_bytes(data_files.to_npz(data.check_data(kernel, sizes)))
    return path


@pytest.fixture
def trial(tmp_path):
    checks = [saved(tmp_path, scaled, M=100), saved(tmp_path, scaled, M=1024)]
    return pickle.loads(pickle.dumps(gpu_trials.build_of(scaled, checks, {"M": 1024}, "sm_80")))


def test_a_right_kernel_is_timed_at_its_sizes_with_a_flush_before_each_launch(machine, trial):
    machine.runs(scaled)
    sampler = attempt(trial)
    assert [grid for _, grid, *_ in machine.launches] == [(2, 1, 1), (16, 1, 1)]
    assert sampler.sample(8) == pytest.approx([20e-6] * 8)
    assert len(machine.launches) == 2 + 2 + 8
    assert counted(machine, "flushes") == 8
    assert counted(machine, "events") == 0
    assert {grid for _, grid, *_ in machine.launches[1:]} == {(16, 1, 1)}


def test_a_wrong_result_at_a_small_size_is_told_with_its_size(machine, trial):
    machine.kernels["scaled"] = lambda parameters, grid: None
    kind, reason = attempt(trial)
    assert kind == "wrong"
    assert reason.startswith("y at M=100: WRONG: 100 of 100 elements; first wrong element at position 0")
    assert len(machine.launches) == 1


def test_code_of_another_architecture_is_refused(machine, trial):
    machine.set(major=7, minor=5)
    kind, reason = attempt(trial)
    assert (kind, "the code is for sm_80 and this device is sm_75" in reason) == ("refused", True)


def test_a_launch_that_fails_is_a_reason_and_not_a_time(machine, trial):
    machine.runs(scaled)
    sampler = attempt(trial)
    machine.set(fail_next=700)
    with pytest.raises(LaunchError, match="kernel scaled: the launch on CUDA device 0 failed: CUDA_ERROR_ILLEGAL"):
        sampler.sample(1)


def test_without_data_of_the_timed_sizes_numbers_are_drawn(machine, tmp_path):
    machine.runs(scaled)
    trial = gpu_trials.build_of(scaled, [saved(tmp_path, scaled, M=100)], {"M": 4096}, "sm_80")
    assert attempt(trial).sample(2) == pytest.approx([20e-6] * 2)
    assert machine.launches[-1][1] == (64, 1, 1)


def test_missing_data_and_wrong_sizes_are_refused(machine, tmp_path):
    kind, reason = attempt(gpu_trials.build_of(scaled, [tmp_path / "none.npz"], {"M": 8}, "sm_80"))
    assert (kind, "the data of a check are missing; copy them with the code" in reason) == ("refused", True)
    with pytest.raises(UsageError, match="size M = 7"):
        gpu_trials.build_of(scaled, [], {"M": 7}, "sm_80").open().sample(1)


def test_a_program_is_timed_as_a_whole(machine, tmp_path):
    machine.runs(doubled)
    sampler = attempt(gpu_trials.build_of(twice, [saved(tmp_path, twice)], {}, "sm_80").with_data())
    assert len(machine.launches) == 2
    assert sampler.sample(4) == pytest.approx([40e-6] * 4)


def test_the_identity_of_a_device(machine):
    found = device_launch.identity(driver.driver())
    assert found == device_launch.DeviceIdentity("stand-in", 132, "CUDA 12.8")
    buffers = device_launch.DeviceBuffers(driver.driver(), 0)
    given = np.arange(6, dtype=np.float16).reshape(2, 3)
    assert np.array_equal(buffers.get(buffers.put(given.T), given.T), given.T)


def test_the_workbench_checks_at_a_small_size_and_at_the_timed_one(machine):
    from lego_mlir.tuning import gpu_workbench
    from lego_mlir.tuning.candidates import Candidate, Configuration

    machine.runs(scaled)
    workbench = gpu_workbench.gpu_workbench()
    assert (workbench.device, workbench.multiprocessors, workbench.driver) == ("stand-in", 132, "CUDA 12.8")
    candidate = Candidate(Configuration.of({"tile": 64}), lambda: scaled)
    build = pickle.loads(pickle.dumps(workbench.prepare(candidate, {"M": 4096, "N": 3})))
    assert (build.target, build.sizes) == ("sm_90", {"M": 4096})
    assert attempt(build).sample(1) == pytest.approx([20e-6])
    assert [grid[0] for _, grid, *_ in machine.launches] == [4, 64, 64]
    kind, reason = attempt(dataclasses.replace(build, module=build.module.replace("arith.mulf", "arith.mull")))
    assert (kind, "stage" in reason) == ("refused", True)
    text = Candidate(Configuration.of({"tile": 64}), lambda: "text")
    with pytest.raises(UsageError, match="tile=64: a str is not timed through the driver"):
        workbench.prepare(text, {})


def test_the_build_of_a_kernel_with_a_script_is_that_of_its_parameters():
    kernel = matmul.build(64, 64, 128, lego.f16, tiling=matmul.ProductTile(32, 32, 32, (1, 1)))
    two, three = (
        gpu_trials.build_of(kernel.transformed("matmul_sm80.mlir", stages=n), [], {}, "sm_80") for n in (2, 3)
    )
    assert "nvgpu.device_async_copy" in two.module
    shared = [made.described["kernels"][0]["dynamic_shared_bytes"] for made in (two, three)]
    assert two.module != three.module
    assert shared[0] <= shared[1]
    assert two().described["code_sha256"] != three().described["code_sha256"]


def candidate_of(kernel):
    from lego_mlir.tuning.candidates import Candidate, Configuration

    return Candidate(Configuration.of({"tile": 64}), lambda: kernel)


@lego.kernel(grid=lego.cdiv(M, 64), block=64)
def shifted(x: lego.Tensor(bf16, Row(M)), y: lego.Tensor(bf16, Row(M))):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M):
        y[i] = x[i] + 1.5


@lego.kernel(grid=1, block=64)
def racing(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    y[0] = x[lego.thread_id.x]


@lego.kernel(grid=2**15, block=64)
def endless(x: lego.Tensor(f32, Row(2**21)), y: lego.Tensor(f32, Row(2**21))):
    i = lego.block_id.x * 64 + lego.thread_id.x
    y[i] = x[i]


def test_a_kernel_without_reference_is_compared_with_the_interpreter_at_a_small_size(machine):
    from lego_mlir.tuning.gpu_workbench import Preparing

    preparing = Preparing("sm_80")
    build = preparing.trial(candidate_of(shifted), {"M": 2**24})
    machine.runs(shifted)
    assert not isinstance(attempt(build), tuple)
    assert [grid[0] for _, grid, *_ in machine.launches] == [4]
    machine.kernels["shifted"] = lambda parameters, grid: None
    kind, reason = attempt(build)
    assert kind == "wrong"
    assert reason.startswith("y at M=200: WRONG")


def test_a_kernel_without_reference_that_races_or_is_large_is_refused():
    from lego_mlir.tuning.gpu_workbench import Preparing

    with pytest.raises(KernelFaultError, match="kernel racing: the interpreter found 1 fault"):
        Preparing("sm_80").trial(candidate_of(racing), {})
    with pytest.raises(UsageError, match="kernel endless has no reference, and its 2097152 threads are too many to"):
        Preparing("sm_80").trial(candidate_of(endless), {})


@lego.kernel(grid=1, block=64)
def drawn_input(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    y[lego.thread_id.x] = x[lego.thread_id.x]


@drawn_input.reference
def _(x):
    return x


@drawn_input.inputs
def _(rng):
    return {"x": rng.standard_normal(64)}


def test_what_goes_to_a_worker_holds_its_checks(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    from lego_mlir.tuning.cluster_tuning import WorkerDevice, gpu_build, gpu_device

    machine.runs(scaled)
    where = gpu_device()
    assert where == WorkerDevice("stand-in", 132, "CUDA 12.8", where.toolchain, "sm_90")
    build = pickle.loads(pickle.dumps(gpu_build(candidate_of(scaled), {"M": 1024}, where)))
    assert all(isinstance(check, bytes) for check in build.checks)
    assert len(build.checks[1]) < 2000  # how the data of M=1024 are computed
    for _ in range(2):  # computed, and then read
        machine.launches.clear()
        sampler = attempt(build())
        assert not isinstance(sampler, tuple), sampler
        assert [grid[0] for _, grid, *_ in machine.launches] == [4, 16]
        assert sampler.sample(1) == pytest.approx([20e-6])
    assert len(list((tmp_path / "lego-mlir" / "checks").glob("*.npz"))) == 1
    machine.kernels["scaled"] = lambda parameters, grid: None
    assert attempt(dataclasses.replace(build(), checks=build.checks[1:]))[1].startswith("y at M=1024: WRONG: ")


def test_a_kernel_whose_reference_cannot_travel_goes_to_a_worker_with_data(machine):
    from lego_mlir.tuning.cluster_tuning import gpu_build, gpu_device

    build = gpu_build(candidate_of(drawn_input), {}, gpu_device())
    assert [check[:2] for check in build.checks] == [b"PK"]
