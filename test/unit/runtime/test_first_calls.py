"""Kernels on disk by the call that needs them: what the key depends on, one process that compiles, and light starts."""

import gc
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir.choices.role_tiles import role_tile
from lego_mlir.errors import CacheWarning
from lego_mlir.hardware.devices import numbers_of
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile, HeadSizes
from lego_mlir.kernels.fused_epilogues import FusedEpilogue
from lego_mlir.runtime import first_calls
from lego_mlir.runtime.attention_kernels import AttentionKernel
from lego_mlir.runtime.compile_lock import FOLDER, only_one
from lego_mlir.runtime.first_calls import KeptKernel
from lego_mlir.runtime.kept_traces import of_kernels
from lego_mlir.runtime.products.problem import Problem
from lego_mlir.runtime.products.role_kernels import RoleKernel
from lego_mlir.store import default_folder

TEST = Path(__file__).parents[2]
CLUSTERS = 66, 33, 16  # of the stand-in
PROBLEM = Problem(64, 64, 64, "f16", "f16", "NN", "sm_90a", 132, CLUSTERS)
ATTENTION = AttentionKernel("attention", AttentionForm(64), AttentionTile(4, 64, 4))
HEAVY = "sympy", "z3", "torch_mlir", "llvmlite", "mpmath"


def others(value):
    """Values of the type of a field that differ from it."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value + "x"
        case tuple():
            return (*value, 1)
        case _:
            return {
                "epilogue": FusedEpilogue("one"),
                "tile": role_tile(64, 256, 2),
                "numbers": numbers_of("NVIDIA H200"),
            }


@pytest.mark.parametrize("call", [PROBLEM, RoleKernel("grouped_matmul", "f16", "f16", "NN")])
def test_every_field_of_a_call_is_in_its_key(call):
    keys = {first_calls.key(call)}
    for field in fields(call):
        other = others(getattr(call, field.name))
        keys.add(
            first_calls.key(replace(call, **{field.name: other[field.name] if isinstance(other, dict) else other}))
        )
    assert len(keys) == 1 + len(fields(call))
    assert first_calls.key(call) == first_calls.key(replace(call))


def test_every_field_of_attention_is_in_its_key():
    changed = (
        AttentionForm(128), AttentionForm(causal=True), AttentionForm(group=2), AttentionForm(scale=0.5),
        AttentionForm(causal=True, window=5),
    )  # fmt: skip
    tiles = [
        replace(ATTENTION.tile, **{f.name: others(getattr(ATTENTION.tile, f.name))}) for f in fields(AttentionTile)
    ]
    calls = [ATTENTION, *(replace(ATTENTION, form=form) for form in changed)]
    calls += [replace(ATTENTION, tile=tile) for tile in tiles]
    calls += [replace(ATTENTION, part="packed"), replace(ATTENTION, blocks=3), replace(ATTENTION, heads=1)]
    calls += [replace(ATTENTION, sizes=HeadSizes(1, 2, 3, 4))]
    assert len({first_calls.key(call) for call in calls}) == len(calls)
    assert len({call.name for call in calls}) == len(calls)  # files of a folder of packed kernels


def test_the_contents_of_the_package_are_in_the_key(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    file = tmp_path / "inside" / "module.py"
    file.write_text("a = 1")
    before = first_calls.contents(tmp_path)
    times = file.stat()
    file.write_text("a = 2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # same size and time
    assert first_calls.contents(tmp_path) != before
    file.rename(tmp_path / "module.py")
    (tmp_path / "module.py").write_text("a = 1")
    kept = first_calls.contents(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.pyc").write_bytes(b"1")
    assert first_calls.contents(tmp_path) == kept
    (tmp_path / "module.pyc").write_bytes(b"1")  # of a package that is installed without its sources
    compiled = first_calls.contents(tmp_path)
    (tmp_path / "module.pyc").write_bytes(b"2")
    assert len({kept, compiled, first_calls.contents(tmp_path)}) == 3
    assert first_calls.contents(tmp_path) != before
    key = first_calls.key(PROBLEM)
    monkeypatch.setattr(first_calls, "package", lambda: before)
    assert first_calls.key(PROBLEM) != key


@pytest.mark.parametrize("change", ["version", "bindings"])
def test_the_tools_are_in_the_key(change, tmp_path, monkeypatch):
    (tmp_path / "llvmlite-0.1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = first_calls.tools.__wrapped__()
    if change == "version":
        (tmp_path / "llvmlite-0.1.dist-info").rename(tmp_path / "llvmlite-0.2.dist-info")
    else:
        monkeypatch.setenv("LEGO_MLIR_BINDINGS", "torch_mlir")
    assert first_calls.tools.__wrapped__() != before


def test_tools_of_a_source_tree_are_in_the_key(tmp_path, monkeypatch):
    described = tmp_path / "llvmlite.egg-info" / "PKG-INFO"
    described.parent.mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = []
    for version in ("0.1", "0.2"):
        described.write_text(f"Version: {version}")
        found.append(first_calls.tools.__wrapped__())
    described.parent.rename(tmp_path / "llvmlite-0.3-py3.11.egg-info")
    found.append(first_calls.tools.__wrapped__())
    assert len(set(found)) == 3


def made(code=b".entry nothing"):
    return KeptKernel({"entry": "nothing"}, code)


def test_what_was_made_is_found_and_a_broken_entry_is_made_again(fresh_cache):
    makes = []

    def make():
        makes.append(1)
        return made()

    for _ in range(2):
        assert first_calls.kernel_of("call", make).code == b".entry nothing"
    assert len(makes) == 1
    for file in default_folder().rglob("??/*"):
        file.write_bytes(file.read_bytes()[:-3])
    assert first_calls.kernel_of("call", make).described == {"entry": "nothing"}
    assert len(makes) == 2
    assert not list((default_folder() / FOLDER).iterdir())


@pytest.mark.parametrize("is_on", [True, False])
def test_nothing_is_collected_while_a_kernel_is_compiled(is_on, fresh_cache):
    seen = []

    def failing():
        seen.append(gc.isenabled())
        raise ValueError

    if not is_on:
        gc.disable()
    try:
        with pytest.raises(ValueError):
            first_calls.kernel_of("collected", failing)
        assert (seen, gc.isenabled()) == ([False], is_on)
    finally:
        gc.enable()


def test_equal_code_is_kept_once(fresh_cache):
    for call in range(3):
        first_calls.kernel_of(call, made)
    assert len(list(default_folder().glob("??/*"))) == 4


def test_a_folder_that_takes_nothing_is_gone_without(fresh_cache, monkeypatch):
    monkeypatch.setattr(os, "open", _refusing)
    with pytest.warns(CacheWarning, match="cannot be used"):
        assert first_calls.kernel_of("call", made).code == made().code


def _refusing(*given):
    raise PermissionError(13, "refused")


def child(text, *given, **environment):
    """A process that runs a text, with the tests' stand-ins."""
    path = os.pathsep.join([str(TEST), *filter(None, sys.path)])
    command = [sys.executable, "-c", text, *map(str, given)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path, **environment}, stdout=subprocess.PIPE)


ONE = """
import sys, time
from lego_mlir.runtime import first_calls
def make():
    open(sys.argv[1], "a").write("made ")
    time.sleep(0.5)
    return first_calls.KeptKernel({"entry": "nothing"}, b".entry nothing")
print(first_calls.kernel_of("together", make).code.decode(), end="")
"""


def test_processes_that_start_at_once_compile_once(fresh_cache, tmp_path):
    started = [child(ONE, tmp_path / "log") for _ in range(3)]
    assert [process.communicate()[0] for process in started] == [b".entry nothing"] * 3
    assert (tmp_path / "log").read_text() == "made "


HOLD = """
import sys, time
from pathlib import Path
from lego_mlir.runtime.compile_lock import only_one
with only_one(Path(sys.argv[1]), "name"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    holder = child(HOLD, tmp_path)
    assert holder.stdout.readline() == b"held\n"
    with only_one(tmp_path, "name", patience=0.05) as waited:  # not taken: the block runs without
        assert waited and (tmp_path / FOLDER / "name").exists()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    began = time.monotonic()
    with only_one(tmp_path, "name"):
        assert time.monotonic() - began < 10
    assert not list((tmp_path / FOLDER).iterdir())


START = """
import sys
import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own
monkeypatch = pytest.MonkeyPatch()
machine = Machine().plug_in(monkeypatch)
OwnLibrary(monkeypatch)
import lego_mlir
array = own(np.zeros((1, 64, 64) if sys.argv[1] == "attention" else (64, 64), sys.argv[2]))
given = [array] * 3 if sys.argv[1] == "attention" else [array, array.T]
result = getattr(lego_mlir, sys.argv[1])(*given)
heavy = [name for name in sys.argv[3:] if name in sys.modules]
assert not heavy, heavy
print(*(launch[0] for launch in machine.launches), result.shape, end="")
"""


def tensor(name, shape, written=False, dtype="f16", turned=False):
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return {"name": name, "kind": "tensor", "dtype": dtype, "shape": list(shape), "elements": int(np.prod(shape)),
            "layout": "Row", "read": not written, "written": written,
            "strides": strides[::-1] if turned else strides}  # fmt: skip


def free(name):
    return {"name": name, "min": 1, "max": None, "multiple_of": 1}


def described(entry, *arguments, sizes=()):
    return {"entry": entry, "grid": [1], "block": [32], "dynamic_shared_bytes": 0, "static_shared_bytes": 0,
            "sizes": [free(name) for name in sizes], "arguments": list(arguments)}  # fmt: skip


def of_product(dtype, result):
    """A product with b in columns, and its kernel."""
    problem = replace(PROBLEM, dtype=dtype, result=result, layouts="NT")
    a, b = tensor("a", (64, 64), dtype=dtype), tensor("b", (64, 64), dtype=dtype, turned=True)
    return ("product", problem), described("product", a, b, tensor("c", (64, 64), True, result))


OF_ATTENTION = (
    ("built", ("attention", ATTENTION), "90"),
    described(
        "attention", *(tensor(n, (1, 1, 64, 64), n == "o") for n in "qkvo"), tensor("lse", (1, 1, 64), True, "f32"),
        sizes=("o_batch", "o_head", "o_row"),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("what", "dtype", "known"),
    [
        ("matmul", "float16", of_product("f16", "f16")), ("matmul", "int8", of_product("i8", "i32")),
        ("attention", "float16", OF_ATTENTION),
    ],
)  # fmt: skip
def test_a_known_call_of_a_new_process_imports_no_compiler(what, dtype, known, fresh_cache):
    call, kernel = known
    first_calls.write(first_calls.key(call), KeptKernel(kernel, b".entry x"))
    process = child(START, what, dtype, *HEAVY)
    shape = (1, 64, 64) if what == "attention" else (64, 64)
    assert process.communicate()[0].decode() == f"{kernel['entry']} {shape}"
    assert process.returncode == 0


SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

M, N = lego.size("M", multiple_of=32), lego.size("N", min=1, max=2**20)
FACTOR = 3.0


@lego.kernel(grid=(lego.cdiv(N, 256), M // 32), block=256)
def scaled(x: lego.Tensor(f32, Row(M // 32, N, 32)), a: f32, y: lego.Tensor(f32, Row(M, N))):
    i = lego.block_id[0] * 256 + lego.thread_id[0]
    with lego.when(i < N):
        for r in lego.range(32):
            row = lego.block_id[1] * 32 + r
            y[row, i] = x[row // 32, i, row % 32] * FACTOR + a


@scaled.reference
def expected(x, a, M, N):
    return x.transpose(0, 2, 1).reshape(M, N) * FACTOR + a
"""
OF_A_USER = """
import sys
import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own
from spec_of_a_user import scaled
x = np.random.default_rng(0).random((2, 40, 32), dtype=np.float32)
if sys.argv[1] == "cuda":
    monkeypatch = pytest.MonkeyPatch()
    machine = Machine().plug_in(monkeypatch)
    OwnLibrary(monkeypatch)
    scaled(own(x), 0.5)
    assert [launch[0] for launch in machine.launches] == ["scaled"]
else:
    np.testing.assert_allclose(scaled(x, 0.5), scaled.expected(x, 0.5, 64, 40), rtol=1e-6)
print(*(name for name in sys.argv[2:] if name in sys.modules), end="")
"""


def test_everything_that_a_users_kernel_depends_on_is_in_its_key(monkeypatch):
    """One thing is changed at a time; what the fingerprint has of the kernel itself is in `test_fingerprint`."""
    scale, keys = 3.0, []

    def kernel():
        @lego.kernel(grid=2, block=32)
        def scaled(x: lego.Tensor(lego.f32, lego.Row(64))):
            i = lego.block_id[0] * 32 + lego.thread_id[0]
            x[i] = x[i] * scale

        return scaled

    def key_of(form, script=None, **parameters):
        of_kernels([kernel()], form, made, script, parameters)
        return keys[-1]

    key = first_calls.key
    monkeypatch.setattr(first_calls, "kernel_of", lambda call, make, folder: keys.append(key(call)) or make())
    first = key_of("90")
    assert key_of("90") == first
    others = [key_of("80"), key_of("cpu avx2"), key_of("90", "ldmatrix_mma.mlir"), key_of("90", "matmul_sm80.mlir")]
    others.append(key_of("90", "matmul_sm80.mlir", stages=3))
    scale = 4.0
    others.append(key_of("90"))
    scale = 3.0
    for part in ("package", "tools"):
        with monkeypatch.context() as patched:
            patched.setattr(first_calls, part, lambda: b"another")
            others.append(key_of("90"))
    assert len({first, *others}) == 1 + len(others)
    assert key_of("90") == first


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_kernel_of_a_user_runs_in_a_new_process_without_a_compiler(device, fresh_cache, tmp_path):
    (tmp_path / "spec_of_a_user.py").write_text(SPEC)
    path = os.pathsep.join([str(tmp_path), str(TEST), *filter(None, sys.path)])
    loaded = [child(OF_A_USER, device, *HEAVY, PYTHONPATH=path).communicate()[0].decode() for _ in range(2)]
    assert "sympy" in loaded[0] and loaded[1] == ""
    (tmp_path / "spec_of_a_user.py").write_text(SPEC.replace("FACTOR = 3.0", "FACTOR = 5.0"))
    changed = child(OF_A_USER, device, *HEAVY, PYTHONPATH=path)
    assert "sympy" in changed.communicate()[0].decode() and changed.returncode == 0
