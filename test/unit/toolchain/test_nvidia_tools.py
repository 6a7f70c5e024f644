"""NVIDIA's tools: PATH first, then cuda-pathfinder, then Triton for the tools that only read machine code."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lego_mlir.toolchain import nvidia_tools


@pytest.fixture(autouse=True)
def _fresh_search():
    nvidia_tools._find_installed.cache_clear()
    yield
    nvidia_tools._find_installed.cache_clear()


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def pathfinder(monkeypatch, found):
    """A stand-in for the library, which finds the tools of a dictionary."""
    library = ModuleType("cuda.pathfinder")
    library.find_nvidia_binary_utility = found.get
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", library)


def triton(monkeypatch, folder):
    spec = SimpleNamespace(submodule_search_locations=[str(folder)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "triton" else None)


def test_path_comes_first(tmp_path, monkeypatch):
    mine = program(tmp_path / "mine" / "ptxas")
    monkeypatch.setenv("PATH", str(mine.parent))
    pathfinder(monkeypatch, {"ptxas": "/elsewhere/ptxas"})
    assert nvidia_tools.find("ptxas") == mine


@pytest.mark.parametrize("tool", ["ptxas", "nvcc", "nvdisasm", "cuobjdump"])
def test_the_library_is_asked_beyond_path(tmp_path, monkeypatch, tool):
    monkeypatch.setenv("PATH", str(tmp_path))
    pathfinder(monkeypatch, {tool: f"/toolkit/bin/{tool}"})
    assert nvidia_tools.find(tool) == Path(f"/toolkit/bin/{tool}")


def test_tritons_listing_tools_come_last_and_its_ptxas_never(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    programs = {name: program(tmp_path / "triton/backends/nvidia/bin" / name) for name in ("ptxas", "cuobjdump")}
    triton(monkeypatch, tmp_path / "triton")
    pathfinder(monkeypatch, {})
    assert nvidia_tools.find("cuobjdump") == programs["cuobjdump"]
    assert nvidia_tools.find("ptxas") is None
    assert nvidia_tools.find("nvdisasm") is None


def test_without_the_library_path_alone_counts(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_tools.find("ptxas") is None
    assert nvidia_tools.find("nvcc") is None


def test_the_library_finds_a_toolkit_by_its_variable(tmp_path):
    pytest.importorskip("cuda.pathfinder", reason="needs cuda-pathfinder")
    (tmp_path / "empty").mkdir()
    for tool in ("ptxas", "nvcc"):
        program(tmp_path / "toolkit" / "bin" / tool)
    code = "from lego_mlir.toolchain import nvidia_tools; print(nvidia_tools.find('ptxas'), nvidia_tools.find('nvcc'))"
    environment = {**os.environ, "PATH": str(tmp_path / "empty"), "CUDA_HOME": str(tmp_path / "toolkit")}
    environment = {name: value for name, value in environment.items() if name not in ("CUDA_PATH", "CONDA_PREFIX")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert [Path(path).name for path in done.stdout.split()] == ["ptxas", "nvcc"]
