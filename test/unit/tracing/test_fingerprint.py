"""Fingerprints of users' kernels: one thing is changed at a time, and the digest changes, or there is none."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lego_mlir.tracing.definition.fingerprint import fingerprint

HELPERS = """
SHIFT = 3

def shifted(x):
    return x + SHIFT
"""
SPEC = """
import math
import numpy as np
import lego_mlir as lego
from lego_mlir import Row, f32
import {helpers} as helpers

SCALE = 2.0
TABLE = np.arange(4.0)
WAYS = {{"one": lego.exp, "other": lego.sqrt}}
N = lego.size("N", min=1, max=2**20)

def doubled(x, by=2):
    return x * by

def built(width):
    def inner(x):
        return x * width
    return inner

widened = built(4)

@lego.kernel(grid=lego.cdiv(N, 256), block=256)
def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    i = lego.block_id[0] * 256 + lego.thread_id[0]
    with lego.when(i < N):
        value = WAYS["one"](x[i]) * SCALE + float(TABLE[1]) + math.pi
        y[i] = helpers.shifted(widened(doubled(value)))
"""
CHANGES = {
    "a global number": ("SCALE = 2.0", "SCALE = 3.0"),
    "its type": ("SCALE = 2.0", "SCALE = 2"),
    "the sign of a zero": ("SCALE = 2.0", "SCALE = -0.0"),
    "a global array": ("np.arange(4.0)", "np.arange(5.0)"),
    "the type of an array": ("np.arange(4.0)", "np.arange(4, dtype=np.float32)"),
    "a function of this package in a table": ('"one": lego.exp', '"one": lego.log'),
    "a helper": ("return x * by", "return x + by"),
    "a default": ("by=2", "by=3"),
    "what a closure holds": ("built(4)", "built(5)"),
    "a constant": ("* 256 +", "* 128 +"),
    "the body": ("* SCALE", "- SCALE"),
    "the grid": ("grid=lego.cdiv(N, 256)", "grid=lego.cdiv(N, 128)"),
    "the block": ("block=256", "block=128"),
    "an option": ("block=256", "block=256, contract=False"),
    "another option": ("block=256", "block=256, fast=True"),
    "the limit of a size": ("max=2**20", "max=2**19"),
    "the divisor of a size": ("min=1, max=2**20", "multiple_of=8, min=8, max=2**20"),
    "a layout": ("y: lego.Tensor(f32, Row(N))", "y: lego.Tensor(f32, lego.as_layout(Row(N, 1)))"),
    "a type": ("y: lego.Tensor(f32", "y: lego.Tensor(lego.f16"),
    "the name": ("def kernel(", "def renamed("),
    "its line": ("WAYS =", "\\nWAYS ="),
    "an attribute of a helper": ("widened = built(4)", "widened = built(4)\\ndoubled.factor = 3"),
}
REFUSED = {
    "an import": ("        value =", "        import random\n        value ="),
    "a file": ("        value =", "        open('x')\n        value ="),
    "a name by its text": ("        value =", "        getattr(lego, 'exp')\n        value ="),
    "random numbers": ("float(TABLE[1])", "np.random.rand()"),
    "an object of a user's class": ("SCALE = 2.0", "class Held:\n    pass\nSCALE = Held()"),
    "a module that reads the world": ("float(TABLE[1])", "len(os.name)"),
    "a file behind two names": ("float(TABLE[1])", "np.ctypeslib.np.loadtxt('x')"),
    "a module under another name": ("        value =", "        n = np\n        n.loadtxt('x')\n        value ="),
    "globals of a function": ("float(TABLE[1])", "doubled.__globals__['SCALE']"),
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a spec, and its helpers, from a file of one name each time."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def loaded(spec=SPEC, helpers=HELPERS):
        name, other = "spec_with_a_fingerprint", "helpers_with_a_fingerprint"
        (tmp_path / f"{name}.py").write_text(spec.format(helpers=other))
        (tmp_path / f"{other}.py").write_text(helpers)
        for module in (name, other):
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        return next(value for key, value in vars(module).items() if key in ("kernel", "renamed") and value is not None)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return loaded


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_gives_another_digest(change, load):
    before, after = CHANGES[change]
    assert SPEC.count(before)
    first, again = fingerprint(load()), fingerprint(load())
    assert first is not None and first == again
    changed = fingerprint(load(SPEC.replace(before, after.replace("\\n", "\n"), 1)))
    assert changed is not None and changed != first


@pytest.mark.parametrize(("before", "after"), [("SHIFT = 3", "SHIFT = 4"), ("x + SHIFT", "x - SHIFT")])
def test_a_helper_in_another_module(before, after, load):
    assert fingerprint(load()) != fingerprint(load(helpers=HELPERS.replace(before, after)))


def test_a_global_that_changes_after_the_definition(load):
    kernel = load()
    first = fingerprint(kernel)
    kernel.function.__globals__["SCALE"] = 5.0
    assert fingerprint(kernel) != first
    kernel.function.__globals__["SCALE"] = 4.0 / 2
    assert fingerprint(kernel) == first


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_change_by_itself_has_no_digest(what, load):
    before, after = REFUSED[what]
    spec = SPEC.replace("import math\n", "import math\nimport os\n") if "os." in after else SPEC
    assert fingerprint(load(spec.replace(before, after, 1))) is None


def test_a_helper_that_wraps_a_function_of_the_package(load):
    wrapped = "import functools\n\n@functools.wraps(lego.exp)\ndef doubled(x, by=2):\n    return x * by * {}\n"
    spec = SPEC.replace("def doubled(x, by=2):\n    return x * by\n", wrapped)
    assert fingerprint(load(spec.replace("* {}", "* 2"))) != fingerprint(load(spec.replace("* {}", "* 3")))


@pytest.mark.parametrize("inline", [True, False])
def test_a_device_function(inline, load):
    spec = SPEC.replace("def doubled(x, by=2):", f"@lego.function(inline={inline})\ndef doubled(x, by=2):")
    assert fingerprint(load(spec)) == fingerprint(load(spec)) is not None
    assert fingerprint(load(spec)) != fingerprint(load(spec.replace("x * by", "x + by")))
    assert fingerprint(load(spec)) != fingerprint(load(spec.replace(f"inline={inline}", f"inline={not inline}")))


def test_a_trace_does_not_change_the_digest(load):
    kernel = load()
    first = fingerprint(kernel)
    kernel.trace()
    assert fingerprint(kernel) == first


ANOTHER = """
import sys, {name}
from lego_mlir.tracing.definition.fingerprint import fingerprint

print(fingerprint({name}.kernel).hex())
"""


def test_other_processes_find_the_same_digest(load, tmp_path):
    first = fingerprint(load()).hex()
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        command = [sys.executable, "-c", ANOTHER.format(name="spec_with_a_fingerprint")]
        assert subprocess.check_output(command, env=environment, text=True, cwd=Path.cwd()).strip() == first
