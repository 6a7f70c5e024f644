"""Packs in the layout of the Hugging Face Hub: loaded without lego_mlir, several versions in one process."""

import base64
import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from cuda_stand_in import DeviceArray, library_file

import lego_mlir
from lego_mlir.cli.main import main
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import driver, hub, packs

SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

M = lego.size("M", multiple_of=4)


@lego.kernel(grid=lego.cdiv(M, 64), block=64)
def scaled(x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M))):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M):
        y[i] = x[i] * FACTOR
"""
LOAD = """
import importlib, importlib.util, sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"lego_mlir", "sympy", "z3", "torch_mlir", "mlir", "llvmlite", "ml_dtypes"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
import ctypes, json
import numpy as np

library = ctypes.CDLL(LIBRARY)


def load(build):
    '''As `kernels` does: under the unique id.'''
    name = json.load(open(f"{build}/metadata.json"))["id"]
    spec = importlib.util.spec_from_file_location(name, f"{build}/__init__.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    importlib.import_module(f"{name}._lego.runtime.driver").open_library = lambda: library
    return module


class DeviceArray:
    '''Memory that says it is a device's.'''

    def __init__(self, values):
        memory = np.zeros(values.nbytes + 256, np.uint8)
        start = -memory.ctypes.data % 256
        self.values = memory[start : start + values.nbytes].view(values.dtype)

    @property
    def __cuda_array_interface__(self):
        return {**self.values.__array_interface__, "version": 3}

    def __dlpack_device__(self):
        return 2, 0


one, two = map(load, FOLDERS)
assert one.__name__ != two.__name__ and one.__all__ == two.__all__ == ["scaled"]
assert one.scaled.__class__ is not two.scaled.__class__  # the launcher of each is its own
x, y = (DeviceArray(np.zeros(96, np.float32)) for _ in range(2))
one.scaled(x, y)
two.scaled(x, y)
print(ctypes.c_int.in_dll(library, "stand_in_launches").value)
for values, error in (((x, DeviceArray(np.zeros(95, np.float32))), "y"), ((np.zeros(96, np.float32),) * 2, "CPU")):
    try:
        one.scaled(*values)
    except Exception as refused:
        assert error in str(refused), refused
        print(type(refused).__name__)
assert not any(name.partition(".")[0] == "lego_mlir" for name in sys.modules)
"""


def packed(folder, *options, factor=2.0):
    spec = folder / "spec.py"
    spec.write_text(SPEC.replace("FACTOR", str(factor)))
    return main(["pack", str(spec), *options])


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    """Two versions of a kernel, the second one for two targets."""
    folder = tmp_path_factory.mktemp("hub")
    for version, target in ((1, "sm_80"), (2, "sm_80"), (2, "sm_90a")):
        options = ["--hub", "my-scale", "--version", str(version), "--target", target]
        assert packed(folder, *options, "-o", str(folder / f"v{version}"), factor=float(version)) == 0
    return [folder / "v1", folder / "v2"]


def test_two_versions_launch_in_one_process_without_lego_mlir(repositories):
    builds = [str(folder / "build/torch-cuda") for folder in repositories]
    done = subprocess.run(
        [sys.executable, "-c", f"LIBRARY = {str(library_file())!r}\nFOLDERS = {builds!r}\n{LOAD}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "UsageError", "UsageError"]


def test_what_the_hub_reads_before_it_imports(repositories):
    described = [json.loads((folder / "build/torch-cuda/metadata.json").read_text()) for folder in repositories]
    assert [(one["name"], one["version"], one["python-depends"]) for one in described] == [
        ("my-scale", 1, []), ("my-scale", 2, []),
    ]  # fmt: skip
    assert [one["backend"] for one in described] == [
        {"type": "cuda", "archs": ["8.0+PTX"]}, {"type": "cuda", "archs": ["8.0+PTX", "9.0a"]},
    ]  # fmt: skip
    assert described[0]["id"] != described[1]["id"]
    assert all(one["id"].isidentifier() and one["id"].startswith("_my_scale_cuda_") for one in described)
    build = tomllib.loads((repositories[1] / "build.toml").read_text())
    assert build["general"]["name"] == "my-scale" and build["general"]["version"] == 2
    assert build["general"]["backends"] == ["cuda"] and "torch-noarch" in build


def test_every_file_has_its_hash(repositories):
    build = repositories[1] / "build/torch-cuda"
    (build / "__pycache__").mkdir(exist_ok=True)
    (build / "__pycache__/x.pyc").write_bytes(b"")
    hashes = json.loads((build / "metadata.json").read_text())["digest"]["files"]
    there = {str(path.relative_to(build)) for path in build.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert set(hashes) == there - {"metadata.json"}
    for name, digest in hashes.items():
        assert base64.b64decode(digest) == hashlib.sha256((build / name).read_bytes()).digest(), name
    assert {"_code/sm_80/scaled.ptx", "_code/sm_90a/scaled.ptx", "_lego/LICENSE", "my_scale/__init__.py"} <= set(hashes)


def test_nothing_that_is_copied_names_the_package(repositories):
    for path in (repositories[0] / "build/torch-cuda/_lego").rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not line.strip().startswith(("import lego_mlir", "from lego_mlir")) or ">>>" in line, path


@pytest.mark.parametrize(("capability", "taken"), [((8, 0), "sm_80"), ((9, 0), "sm_90a"), ((10, 0), "sm_80")])
def test_a_device_takes_the_newest_code_that_it_runs(repositories, machine, monkeypatch, capability, taken):
    machine.set(major=capability[0], minor=capability[1])
    driver.driver.cache_clear()
    loaded = []
    monkeypatch.setattr(packs.PackedKernel, "backend", lambda kernel, device: loaded.append(kernel.target) or 1 / 0)
    kernel = packs.load_targets(repositories[1] / "build/torch-cuda/_code")["scaled"]
    assert "packed kernel scaled, sm_90a, sm_80" in repr(kernel)
    with pytest.raises(ZeroDivisionError):
        kernel(*(DeviceArray(np.zeros(96, np.float32)) for _ in range(2)))
    assert loaded == [taken]


def test_a_device_that_no_code_is_for(repositories, machine):
    machine.set(major=7, minor=5)
    driver.driver.cache_clear()
    kernel = packs.load_targets(repositories[1] / "build/torch-cuda/_code")["scaled"]
    with pytest.raises(UsageError, match=r"scaled is packed for sm_90a, sm_80, and this device is sm_75"):
        kernel(*(DeviceArray(np.zeros(96, np.float32)) for _ in range(2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hub", "My_Scale"], "--hub My_Scale: a name on the Hub has lower-case letters, digits and hyphens"),
        (["--hub", "my-scale", "--version", "3"], "has my-scale version 1; write my-scale version 3 into another"),
        (["--hub", "other", "--version", "1"], "has my-scale version 1; write other version 1 into another folder"),
    ],
)
def test_what_is_refused(repositories, tmp_path, capsys, options, message):
    assert packed(tmp_path, *options, "-o", str(repositories[0])) == 2
    assert message in capsys.readouterr().err


def test_a_kernel_s_name_is_that_of_an_attribute(tmp_path):
    with pytest.raises(UsageError, match="--hub: two words cannot be an attribute of a module; rename the kernel"):
        hub.write(tmp_path, "name", 0, {"two words": None})


def test_a_pack_has_a_version(tmp_path):
    assert packed(tmp_path, "--version", "3", "-o", str(tmp_path / "three")) == 0
    assert packed(tmp_path, "-o", str(tmp_path / "none")) == 0
    assert list(lego_mlir.load_kernels(tmp_path / "three", version=3)) == ["scaled"]
    assert list(lego_mlir.load_kernels(tmp_path / "three")) == ["scaled"]
    with pytest.raises(SpecError, match=r"scaled.ptx is packed as version 3, not 4; lego-mlir pack --version 4 writes"):
        lego_mlir.load_kernels(tmp_path / "three", version=4)
    with pytest.raises(SpecError, match=r"scaled.ptx is packed without a version, not 1"):
        lego_mlir.load_kernels(Path(tmp_path / "none"), version=1)
