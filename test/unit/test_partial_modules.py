"""A module that another thread imports is listed before it has its names: lookups of loaded modules allow for that."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

from lego_mlir import spec
from lego_mlir.expr.index import is_array, is_symbolic
from lego_mlir.toolchain import triton_text
from lego_mlir.tracing.words.functions import where

SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32
@lego.kernel(grid=1, block=32)
def k(x: lego.Tensor(f32, Row(32))):
    x[lego.thread_id[0]] = 1.0
"""


@pytest.mark.parametrize("name", ["lego_mlir.tuning.tunable", "lego_mlir.templates"])
def test_specs_are_loaded_beside_an_import(name, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(SPEC)
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert list(spec.load(tmp_path / "a.py").kernels) == ["k"]


@pytest.mark.parametrize(("name", "ask"), [
    ("sympy", is_symbolic), ("numpy", is_array), ("lego_mlir.tracing.words.scalar", lambda x: bool(where(False, x, 0))),
])  # fmt: skip
def test_numbers_are_numbers_beside_an_import(name, ask, monkeypatch):
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert not ask(3)


def test_threads_share_a_module_of_text_that_has_run(tmp_path, monkeypatch):
    monkeypatch.setattr(triton_text, "require", lambda: None)
    name, started = "text_of_several_threads", threading.Barrier(4)

    def load(_):
        started.wait()
        return triton_text.module_of("import time\ntime.sleep(0.05)\nvalue = 7\n", name, "text", tmp_path).value

    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(load, range(4))) == [7] * 4
    finally:
        sys.modules.pop(name, None)
