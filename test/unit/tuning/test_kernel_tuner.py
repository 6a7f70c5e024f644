"""Cache files of Kernel Tuner: what is written has the required form, and what it writes is read."""

import json
import math
from dataclasses import replace

import pytest

import lego_mlir as lego
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.tuning import kernel_tuner
from lego_mlir.tuning.candidates import Configuration, Timing


def timing(us, failure="", **values):
    return Timing(
        "convolution", Configuration.of(values), {"M": 4096, "N": 512}, "k1", "t1", "NVIDIA H200", 132, "CUDA 13.0", us,
        (us, us), 32, "2026-11-22T14:00:00+00:00", failure,
    )  # fmt: skip


TIMINGS = [
    timing(3875.25, x=16, y=1), timing(4594.0, x=16, y=2), timing(math.inf, "refused: registers", x=32, y=1),
    timing(math.inf, "timed out: no answer within 60 s", x=32, y=2),
]  # fmt: skip
# As Kernel Tuner writes it while it runs: no end of the objects, and a comma after the last entry.
OPEN = """{
"device_name": "Testing",
"kernel_name": "convolution_kernel",
"problem_size": [4096, 4096],
"tune_params_keys": ["block_size_x", "layout"],
"tune_params": {"block_size_x": [16, 32], "layout": ["row"]},
"objective": "time",
"cache": {
"16,row": {"block_size_x": 16, "layout": "row", "time": 3.5, "times": [3.25, 3.5, 3.5, 4.5], "GFLOP/s": 1948.1},
"32,row": {"block_size_x": 32, "layout": "row", "time": "CompilationFailedConfig", "times": []},
"""


def test_the_object_has_what_the_schema_requires():
    data = json.loads(kernel_tuner.to_text(TIMINGS))
    assert {name: data[name] for name in data if name != "cache"} == {
        "schema_version": "1.1.0", "device_name": "NVIDIA H200", "kernel_name": "convolution",
        "problem_size": [4096, 512], "tune_params_keys": ["x", "y"], "tune_params": {"x": [16, 32], "y": [1, 2]},
        "objective": "time",
    }  # fmt: skip
    assert data["cache"]["16,1"] == {
        "x": 16, "y": 1, "time": 3.87525, "compile_time": 0, "verification_time": 0, "benchmark_time": 0,
        "strategy_time": 0, "framework_time": 0, "timestamp": "2026-11-22T14:00:00+00:00",
    }  # fmt: skip
    assert data["cache"]["32,1"]["time"] == "InvalidConfig"
    assert data["cache"]["32,2"]["time"] == "RuntimeFailedConfig"


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "cache.json"
    kernel_tuner.write(path, TIMINGS)
    found = kernel_tuner.read(path)
    assert [t.configuration for t in found] == [t.configuration for t in TIMINGS]
    assert [t.median for t in found] == pytest.approx([t.median for t in TIMINGS])
    assert [bool(t.failure) for t in found] == [False, False, True, True]
    assert dict(found[0].sizes) == {"size_0": 4096, "size_1": 512}


def test_a_file_that_is_being_written_is_read():
    right, failed = kernel_tuner.from_text(OPEN)
    assert str(right.configuration) == "block_size_x=16 layout=row"
    assert (right.median, right.quartiles, right.repetitions) == (3500.0, (3500.0, 4500.0), 4)
    assert failed.failure == "refused: Kernel Tuner could not compile it"
    assert kernel_tuner.from_text(OPEN.rstrip().rstrip(",")) == [right, failed]


def test_layouts_are_written_by_their_text():
    data = json.loads(kernel_tuner.to_text([timing(1.0, layout=lego.Row(2, 3), tile=(8, 4), fast=True)]))
    assert list(data["cache"]) == ["Row(2, 3),(8, 4),True"]
    assert data["tune_params"]["fast"] == [True]


def test_messages(tmp_path):
    with pytest.raises(UsageError, match="no timings to write as a cache file of Kernel Tuner; tune the kernel first"):
        kernel_tuner.to_text([])
    with pytest.raises(UsageError, match="these timings are of 2; select those of one, and write a file for each"):
        kernel_tuner.to_text([TIMINGS[0], replace(TIMINGS[1], sizes={"M": 1})])
    with pytest.raises(SpecError, match="not a cache file of Kernel Tuner: it is not JSON"):
        kernel_tuner.from_text("[1")
    with pytest.raises(SpecError, match=r"of version 1.0.0, 1.0.1, 1.1.0 is read, got 2.0.0"):
        kernel_tuner.from_text('{"schema_version": "2.0.0"}')
    with pytest.raises(SpecError, match=r"not a cache file of Kernel Tuner \(KeyError\('tune_params_keys'\)\)"):
        kernel_tuner.from_text("{}")
    with pytest.raises(SpecError, match=r"the cache file cannot be read"):
        kernel_tuner.read(tmp_path / "none.json")
