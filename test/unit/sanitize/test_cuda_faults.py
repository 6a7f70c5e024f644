"""Faults planted in CUDA are reported at their line, and kernels without one give no alarm. Needs nvcc."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from lego_mlir import sanitize
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx import gang_scheduler
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.interp.ptx.regions import hot_regions
from lego_mlir.interp.report import Kind
from lego_mlir.sanitize.cuda_text import CLANGS, compile_to_ptx
from lego_mlir.sanitize.sanitized_kernels import SanitizedKernel
from lego_mlir.toolchain import nvidia_tools

pytestmark = [
    pytest.mark.tools,
    pytest.mark.skipif(nvidia_tools.find("nvcc") is None, reason="needs nvcc (pip install nvidia-cuda-nvcc)"),
]
FILE = Path(__file__).with_name("planted_faults.cu")
TEXT = FILE.read_text()
KINDS = {
    "outside": Kind.OUT_OF_BOUNDS, "far": Kind.OUT_OF_BOUNDS, "before": Kind.OUT_OF_BOUNDS, "in": Kind.OUT_OF_BOUNDS,
    "use": Kind.OUT_OF_BOUNDS, "null": Kind.OUT_OF_BOUNDS, "misaligned": Kind.MISALIGNED,
    "unwritten": Kind.UNINITIALISED, "race": Kind.RACE, "lost": Kind.RACE, "unfenced": Kind.RACE,
    "divergent": Kind.BARRIER, "endless": Kind.DEADLOCK, "two": Kind.DEADLOCK, "assertion": Kind.ASSERTION,
    "early": Kind.PENDING, "leak": Kind.LEAK, "missing": Kind.UNFENCED, "mbarrier": Kind.MBARRIER,
}  # fmt: skip
UNSEEN = {
    "race_in_a_warp"
}  # lanes of one warp in the order of their instructions: the divergent halves are ordered here


def planted() -> dict[str, int | None]:
    """The kernels, and the line of each one's fault."""
    found: dict[str, int | None] = {}
    name, of_function = "", {}
    for number, line in enumerate(TEXT.splitlines(), 1):
        function = re.match(r"(?:KERNEL|CLUSTERED|__device__ \w+ \w+) (\w+)", line)
        if function is not None:
            name = function[1]
            found[name] = None
        if line.rstrip().endswith("HERE"):
            found[name] = number
    of_function = {"in_an_inlined_function": found.pop("element"), "in_a_called_function": found.pop("put")}
    return found | of_function


PLANTED = planted()


@pytest.fixture(scope="module")
def module():
    return read_ptx(compile_to_ptx(TEXT, FILE), str(FILE))


CLANG = next(filter(None, map(shutil.which, CLANGS)), None)
SMALL = """
__global__ void reversed(const float *x, float *y, int n) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[i];
  y[i] = expf(tile[63 - threadIdx.x]);  // HERE
}
"""


@pytest.mark.skipif(CLANG is None, reason="needs clang")
@pytest.mark.parametrize("text", [SMALL, SMALL.replace("  y[i]", "  __syncthreads();\n  y[i]")], ids=["race", "clean"])
def test_clang_compiles_with_lines(text):
    x, y = np.linspace(-1, 1, 128, dtype=np.float32), np.zeros(128, np.float32)
    with sanitize.session(on_fault="collect"):
        report = sanitize.cuda(text, "reversed", compiler="clang")[2, 64](x, y, 128)
    if "__syncthreads" in text:
        assert report.clean, report.faults[0]
        np.testing.assert_allclose(y.reshape(2, 64), np.exp(x.reshape(2, 64)[:, ::-1]), rtol=1e-5)
    else:
        here = next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith("HERE"))
        assert {(fault.kind, fault.place.line) for fault in report.faults} == {(Kind.RACE, here)}


def test_an_unknown_compiler_is_refused():
    with pytest.raises(UsageError, match="unknown compiler 'clong'; did you mean clang"):
        sanitize.cuda(SMALL, "reversed", compiler="clong")


def report(module, name: str, seed: int = 0):
    n = 128
    x, y = np.linspace(-1, 1, n, dtype=np.float32), np.zeros(n, np.float32)
    if name == "unwritten_global":
        y = sanitize.empty(n)
    if name == "outside_write":
        n += 10
    kernel = SanitizedKernel(module, name, TEXT.replace("ARGUMENTS", "(const float *x, float *y, int n)"))
    with sanitize.session(seed=seed, on_fault="collect"):
        return kernel[2, 64](x, y, 64 if name == "null_pointer" else n)


@pytest.mark.parametrize("name", [name for name, line in PLANTED.items() if line is not None])
def test_a_planted_fault_is_reported_at_its_line(module, name):
    found = report(module, name)
    kind = KINDS[name.split("_")[0]]
    assert any(f.kind is kind and f.place.line == PLANTED[name] for f in found.faults), found
    assert {f.place.file for f in found.faults} == {str(FILE)}


@pytest.mark.parametrize("name", [name for name, line in PLANTED.items() if line is None and name not in UNSEEN])
def test_a_correct_kernel_gives_no_alarm(module, name):
    for seed in range(3):
        assert report(module, name, seed).clean


@pytest.mark.parametrize("name", PLANTED)
def test_compiled_regions_give_the_same_reports(module, monkeypatch, name):
    plain = sorted(map(str, report(module, name).faults))
    monkeypatch.setattr(gang_scheduler, "HOT_STEPS", 0)
    monkeypatch.setattr(hot_regions, "HOT", 0)
    assert sorted(map(str, report(module, name).faults)) == plain


def test_a_deadlock_says_who_waits_where(module):
    (fault,) = report(module, "two_locks").faults
    assert re.search(r"warp 0 of block \(\d, 0, 0\) .*at line \d+: a loop that reads", fault.message)


def test_inlined_frames_and_names_of_arguments(module):
    (fault,) = report(module, "in_an_inlined_function").faults
    assert fault.message.startswith("4 bytes at x[129] is outside of all buffers: 4 bytes past the end of its 128")
    call = TEXT[: TEXT.index("in_an_inlined_function")].count("\n") + 1
    assert f"inlined at planted_faults.cu:{call}" in fault.message


def test_the_door_takes_text_and_says_what_nvcc_says(tmp_path):
    x = np.zeros(32, np.float32)
    kernel = sanitize.cuda("template <class T>\n__global__ void twice(T* x) { x[threadIdx.x] += 1; }\n"
                           "template __global__ void twice<float>(float*);", "twice")  # fmt: skip
    assert kernel[1, 32](x).clean
    assert (x == 1).all()
    from lego_mlir.errors import ToolchainError

    with pytest.raises(ToolchainError, match="undefined"):
        sanitize.cuda("__global__ void k(float* x) {\n x[0] = nothing; }")


ASKED_FOR = """extern "C" __global__ void k(float *y, const float *x, int pitch) {
  int i = threadIdx.x * pitch;
  if (i >= 0 && i < 32) y[i] = 1;
  y[threadIdx.x] = x[threadIdx.x] / x[0];
}"""


@pytest.mark.parametrize(("check", "kind", "line"), [("overflow", Kind.OVERFLOW, 2), ("nonfinite", Kind.NONFINITE, 4)])
def test_faults_that_are_asked_for_are_at_their_line(check, kind, line):
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    with sanitize.session(on_fault="collect", checks=Checks(**{check: True})):
        report = sanitize.cuda(ASKED_FOR)[1, 32](y, x, 1 << 28)
    assert {(f.kind, f.place.line) for f in report.faults if f.kind is not Kind.RACE} == {(kind, line)}
    with sanitize.session(on_fault="collect"):
        report = sanitize.cuda(ASKED_FOR)[1, 32](y, x, 1 << 28)
    assert not any(f.kind is kind for f in report.faults)
