"""The integer square root around perfect squares up to 2**63 - 1, in every target: one too much or too few is seen."""

import ctypes
import importlib.util
import math
import shutil
import subprocess

import numpy as np
import pytest
import sympy

from lego_mlir.expr import nodes
from lego_mlir.expr.index import isqrt
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.cuda import CudaPrinter, definitions, function
from lego_mlir.templates import Template
from lego_mlir.templates.render.indices import Bounded
from lego_mlir.templates.run.triton_interpreter import interpret

LAST = math.isqrt(2**63 - 1)
ROOTS = [1, 2, 46340, 46341, 65535, 65536, 2**21, 2**26 - 1, 2**26, 94906265, 94906266, 2**31, LAST - 1, LAST]
VALUES = sorted({x for r in ROOTS for x in (r * r - 1, r * r, r * r + 1, r * r + 2 * r) if x < 2**63} | {0, 2**63 - 1})
X = sympy.Symbol("x", integer=True)
RANGES = {X: Range(0, 2**63)}


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs the package triton")
def test_in_triton():
    text = (
        "import triton\nimport triton.language as tl\n\n\n{{ helpers }}\n\n@triton.jit\ndef f(in_ptr, out_ptr):\n"
        "    x = tl.load(in_ptr + tl.program_id(0))\n    tl.store(out_ptr + tl.program_id(0), {{ root }})\n"
    )
    rendered = Template.of(text, "f.py.jinja", root=isqrt(Bounded(X, RANGES))).render()
    given, out = np.array(VALUES, dtype=np.int64), np.zeros(len(VALUES), dtype=np.int64)
    interpret(rendered, "f", (len(VALUES),), given, out)
    assert out.tolist() == list(map(math.isqrt, VALUES))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
def test_in_c(tmp_path):
    printer = CudaPrinter(RANGES)
    text = function("f", [X], nodes.ISqrt(X), printer)
    source, library = tmp_path / "root.cpp", tmp_path / "root.so"
    source.write_text(
        f'#include <math.h>\n{definitions(printer)}{text}extern "C" long long g(long long x) {{ return f(x); }}'
    )
    sanitized = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    subprocess.run(["g++", "-O1", *sanitized, "-fPIC", "-shared", str(source), "-o", str(library)], check=True)
    root = ctypes.CDLL(str(library)).g
    root.restype, root.argtypes = ctypes.c_longlong, [ctypes.c_longlong]
    assert list(map(root, VALUES)) == list(map(math.isqrt, VALUES))
