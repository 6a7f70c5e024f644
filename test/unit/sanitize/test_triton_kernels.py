"""Triton's kernels run unchanged on CPU tensors: right values and no alarm, and planted faults at their lines.

Needs Triton and PyTorch. In a process of its own, since the driver is Triton's for all that follows.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = HERE / "triton_kernels.py"
needs = [name for name in ("triton", "torch") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(needs), reason=f"needs {' and '.join(needs)} (pip install {' '.join(needs)})")
PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from lego_mlir import sanitize
sanitize.triton(int(sys.argv[1]))
import torch
import triton_kernels as k
found = {}
for run in k.CORRECT:
    with sanitize.session(on_fault="collect") as session:
        value, wanted = run()
    right = bool((value - wanted).abs().max() <= 1e-2 * wanted.abs().max())
    faults = [str(f) for r in session.reports for f in r.faults]
    found[run.__name__] = {"right": right, "launches": len(session.reports), "faults": faults}
for name in k.FAULTS:
    x, y = torch.randn(1000), torch.empty(1000) if name == "unwritten" else torch.zeros(1000)
    with sanitize.session(on_fault="collect") as session:
        getattr(k, name)[(8,)](x, y, 1000, BLOCK=128, debug=True)
    found[name] = [f.to_dict() for r in session.reports for f in r.faults]
print(json.dumps(found))
"""


def lines() -> dict[str, int]:
    found, name = {}, ""
    for number, line in enumerate(KERNELS.read_text().splitlines(), 1):
        function = re.match(r"def (\w+)", line)
        name = function[1] if function else name
        if line.endswith("# HERE"):
            found[name] = number
    found["in_a_function"] = found.pop("fetched")
    return found


def run(folder: Path, *arguments: object):
    """The JSON that a program prints last."""
    places = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": places, "TRITON_CACHE_DIR": str(folder)}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=[80, 90, 100])
def found(request, tmp_path_factory):
    return run(tmp_path_factory.mktemp("triton"), "-c", PROGRAM, request.param)


CUDA = """
import json
from lego_mlir import sanitize
sanitize.triton(90, cuda=True)
import torch, triton
import torch._dynamo  # its table of functions refuses one object under two names
import triton_kernels as k
x = torch.arange(100.0, device="cuda")
y = x.cuda()
k.add[(1,)](x, y, y, 100, BLOCK=128)
event = torch.cuda.Event(enable_timing=True)
with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.Stream()):
    event.record()
    torch.cuda.synchronize()
print(json.dumps({
    "device": str(x.device), "is_cuda": x.is_cuda, "x": x[3].item(), "y": y[3].item(), "to": x.to("cuda:0")[3].item(),
    "made": [x.new_zeros(2).numpy().tolist(), torch.zeros_like(x, device=torch.device("cuda")).cpu().sum().item()],
    "name": torch.cuda.get_device_name(), "capability": torch.cuda.get_device_capability(),
    "timed": triton.testing.do_bench(lambda: None),
}))
"""
REFUSED = {
    80: {"block_scaled_matmul_mxfp8", "fp8_matmul", "num_ctas_2"},
    90: set(),
    100: set(),
}  # by Triton, for the target


@pytest.mark.long
@pytest.mark.parametrize("arch", REFUSED)
def test_kernels_of_tutorials_are_right_and_give_no_alarm(arch, tmp_path):
    found = run(tmp_path, HERE / "triton_tutorials.py", arch)
    assert len(found) == 31
    assert {name for name, result in found.items() if result["said"] != "ok"} == REFUSED[arch]
    assert all(result["launches"] for name, result in found.items() if name not in REFUSED[arch])


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        (90, ["persistent_matmul_host_descriptors", "matmul_device_descriptors", "num_ctas_2"]),
        (100, ["persistent_matmul_warp_specialized", "block_scaled_matmul_mxfp8"]),
    ],
)
def test_descriptors_scratch_clusters_and_tensor_memory(arch, names, tmp_path):
    found = run(tmp_path, HERE / "triton_tutorials.py", arch, *names)
    assert {name: result["said"] for name, result in found.items()} == dict.fromkeys(names, "ok")


DOORS = """
import json
import numpy as np
from lego_mlir import sanitize
sanitize.triton(90, autotune="first")
import triton, triton.language as tl
from lego_mlir.sanitize.triton_driver import ArrayTensor

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def scale(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)

x, y = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
with sanitize.session(on_fault="collect") as session:
    scale[lambda meta: (triton.cdiv(200, meta["BLOCK"]),)](ArrayTensor(x), ArrayTensor(y), 200, FACTOR=3)
reports = [r.to_dict() for r in session.reports]
print(json.dumps({"right": bool((y == 3 * x).all()), "clean": session.clean, "grids": [r["grid"] for r in reports]}))
"""


def test_numpy_arrays_constants_and_the_first_configuration(tmp_path):
    program = tmp_path / "doors.py"
    program.write_text(DOORS)
    assert run(tmp_path, program) == {"right": True, "clean": True, "grids": [[4, 1, 1]]}


PROJECT = """
import torch, triton
import triton_kernels as k

def test_right():
    x = torch.arange(100.0, device="cuda")
    y = torch.empty_like(x)
    k.add[(1,)](x, x, y, 100, BLOCK=128)
    assert torch.equal(y, x + x)

def test_wrong():
    x, y = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    k.no_mask_of_load[(8,)](x, y, 1000, BLOCK=128)
"""


def test_the_tests_of_a_project_run_unchanged(tmp_path):
    (tmp_path / "test_project.py").write_text(PROJECT)
    places = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": places, "LEGO_SANITIZE": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
               f"--rootdir={tmp_path}", "--sanitize-sarif", "found.sarif", "test_project.py"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    line = lines()["no_mask_of_load"]
    assert f"triton_kernels.py:{line}: out of bounds" in done.stdout
    (result,) = json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == line


def test_correct_kernels_are_right_and_give_no_alarm(found):
    runs = {name: result for name, result in found.items() if name.startswith("run_")}
    assert len(runs) == 8
    assert {name: (r["right"], r["faults"]) for name, r in runs.items()} == dict.fromkeys(runs, (True, []))
    assert runs["run_product"]["launches"] == 3  # both configurations, then the chosen one


def test_the_device_cuda_is_the_cpu(tmp_path):
    found = run(tmp_path, "-c", CUDA)
    assert found == {
        "device": "cuda:0", "is_cuda": True, "x": 3.0, "y": 6.0, "to": 3.0, "made": [[0.0, 0.0], 0.0],
        "name": "NVIDIA H100", "capability": [9, 0], "timed": 1.0,
    }  # fmt: skip


def test_planted_faults_are_reported_at_their_line(found):
    from lego_mlir.interp.report import Kind

    kinds = dict(re.findall(r'"(\w+)": "([A-Z_]+)"', KERNELS.read_text()))
    planted = lines()
    assert set(planted) == set(kinds)
    for name, line in planted.items():
        seen = {(fault["kind"], fault["line"], Path(fault["file"]).name) for fault in found[name]}
        assert (Kind[kinds[name]].value, line, KERNELS.name) in seen, (name, found[name])


def test_messages_name_the_tensor_and_the_frame(found):
    (fault,) = found["in_a_function"]
    assert re.match(
        r"\d+ bytes at x\[\d+\] is outside of all buffers: \d+ bytes past the end of its 1000", fault["message"]
    )
    assert "inlined at triton_kernels.py:" in fault["message"]
