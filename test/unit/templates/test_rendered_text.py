"""Rendered text on its way to a kernel: imported, compiled and cached, or refused with the remedy."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest

from lego_mlir.errors import DependencyError, TemplateError
from lego_mlir.layout import Row
from lego_mlir.runtime import source
from lego_mlir.store import Cache
from lego_mlir.templates import Template
from lego_mlir.templates.library.nw import nw
from lego_mlir.templates.run import nvcc, triton
from lego_mlir.toolchain import sass

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs the package triton")
SCALE = """import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, factor):
    block = {{ load("x_ptr", X[0, :]) }}
    {{ store("x_ptr", X[0, :], "block * factor") }}
"""


def rendered(text=SCALE, name="scale.py.jinja"):
    return Template.of(text, name, X=Row(1, 64)).render()


@needs_triton
def test_a_text_becomes_one_module_that_triton_can_read(tmp_path):
    kernel = triton.load(rendered(), "scale", folder=tmp_path)
    assert kernel is triton.load(rendered(), "scale", folder=tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == rendered().text
    assert "tl.arange(0, 64)" in kernel.src


@needs_triton
def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(TemplateError, match=r"scale\.py\.jinja: it has no kernel 'twice'; there are: scale"):
        triton.load(rendered(), "twice", folder=tmp_path)
    with pytest.raises(
        TemplateError, match=r"nw\.cu\.jinja is a CUDA template; lego_mlir\.templates\.run\.nvcc compiles it"
    ):
        triton.load(nw(32, 16).render(), "nw_growing", folder=tmp_path)
    with pytest.raises(TemplateError, match=r"scale\.py\.jinja: the rendered text, .*: 'return' outside function"):
        triton.load(rendered(SCALE + "\nreturn 1\n"), "scale", folder=tmp_path)


def test_without_triton_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(
        DependencyError, match=r"needs the package triton, which is not installed; install it with: pip"
    ):
        triton.load(rendered(), "scale")


@needs_triton
def test_a_kernel_compiles_for_a_gpu_that_is_not_there(tmp_path):
    types = {"x_ptr": "*fp32:16", "factor": "fp32"}
    found = triton.compile_for(triton.load(rendered(), "scale", folder=tmp_path), types, {}, num_warps=2)
    assert ".entry scale" in found.ptx and found.resources.registers > 0 and found.shared_bytes == 0
    assert {"LDG", "STG", "EXIT"} <= sass.mix(found.code).keys()


def test_the_main_loop_is_the_smallest_one_that_does_the_work():
    listing = """
        /*0000*/  @!P0 LDG.E R1, [R2] ;
        /*0010*/  LDG.E R1, [R2] ;
        /*0020*/  HGMMA.64x256x16.F32 R24, gdesc[UR4] ;
        /*0030*/  @P1 BRA 0x20 ;
        /*0040*/  NOP ;
        /*0050*/  @P0 BRA 0x0 ;
        /*0060*/  BRA 0x60 ;
    """
    code = sass.read(listing)
    assert [i.name for i in code] == ["LDG", "LDG", "HGMMA", "BRA", "BRA", "BRA"]
    assert [i.name for i in sass.main_loop(code, "MMA")] == ["HGMMA", "BRA"]
    assert len(sass.main_loop(code, "LDG")) == 5
    assert sass.main_loop(code, "STG") == ()


def test_nvcc_runs_once_for_one_text(tmp_path, monkeypatch):
    calls = []

    def run(command, **options):
        calls.append(command)
        target = command[command.index("-o") + 1]
        Path(target).write_bytes(b"cubin")
        report = (
            "Compiling entry function 'f' for 'sm_90'\n0 bytes stack frame, 0 bytes spill stores, 8 bytes spill loads"
        )
        return types.SimpleNamespace(returncode=0, stdout="", stderr=report + "\nptxas info : Used 30 registers")

    monkeypatch.setattr(nvcc, "version", lambda: "nvcc 13")
    monkeypatch.setattr(nvcc.subprocess, "run", run)
    cache = Cache(tmp_path / "cache")
    first, second = (nvcc.compile_text("void f();", cache=cache) for _ in range(2))
    assert first == second and first.cubin == b"cubin" and first.resources[0].spill_loads == 8
    assert len(calls) == 1
    nvcc.compile_text("void f();", target="sm_100", cache=cache)
    nvcc.compile_text("void g();", cache=cache)
    assert len(calls) == 3


def test_cupy_compiles_one_text_once(monkeypatch):
    made = []

    class RawModule:
        def __init__(self, code, options, backend):
            made.append((code, options, backend))

        def get_function(self, name):
            return name

    monkeypatch.setattr(source, "cupy", lambda: types.SimpleNamespace(RawModule=RawModule))
    source.module.cache_clear()
    assert [source.kernel("text", name) for name in ("nw_growing", "nw_shrinking")] == ["nw_growing", "nw_shrinking"]
    assert made == [("text", ("--std=c++17",), "nvrtc")]
    source.module.cache_clear()
