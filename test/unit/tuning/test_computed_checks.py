"""Checks that are computed where they are used: a right kernel passes, a wrong one does not, whatever the layout."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f16, f32, gallery, i32, interp
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import data, data_files
from lego_mlir.runtime.comparing import STORED
from lego_mlir.templates.library import stencil
from lego_mlir.tuning.computed_checks import ComputedChecks, arrays_of, describe


def scaled(layout, dtype=f32, factor=2, count=None, **tolerance):
    """y = factor x + y, both in this layout, a thread for each element of the first axis."""
    dims = layout.dims()
    first = dims[0] if count is None else count

    @lego.kernel(grid=lego.cdiv(first, 32), block=32)
    def scale(x: lego.Tensor(dtype, layout), y: lego.Tensor(dtype, layout), z: lego.Tensor(dtype, layout)):
        i = lego.block_id.x * 32 + lego.thread_id.x
        with lego.when(i < first):
            for rest in itertools.product(*map(range, dims[1:])):
                z[i, *rest] = factor * x[i, *rest] + y[i, *rest]

    @scale.reference(**tolerance)
    def expected(x, y):
        return 2 * x + y

    return scale


def memories(kernel, arrays, sizes):
    """The memory before a launch, as the process of a candidate makes it from the arrays."""
    found = {}
    for parameter in kernel.params:
        name, dtype = f"{kernel.name}/{parameter.name}", parameter.dtype.name
        size = parameter.size if isinstance(parameter.size, int) else data.concrete(parameter.size, sizes)
        if f"{name}/seed" in arrays:
            memory = data_files.drawn(dtype, size, int(arrays[f"{name}/seed"]))
        else:
            memory = np.full(size, arrays[f"{name}/fill"], STORED[dtype])
        found[parameter.name] = memory.view(parameter.dtype.numpy)
    return found


def verdict(kernel, arrays, sizes=None, change=lambda memory: None):
    """The comparison after the interpreter ran the kernel on that memory."""
    made = memories(kernel, arrays, sizes or {})
    interp.run_kernel(kernel, made, sizes or {})
    change(made["z"])
    argument = data_files.Argument("z", "tensor", kernel.params[-1].dtype.name)
    return data_files.compare(made["z"].view(STORED[argument.dtype]), f"{kernel.name}/z", arrays, argument)


LAYOUTS = {
    "row": Row(40, 6), "column": Col(40, 6), "swizzled": gallery.xor_swizzle(32, 32), "vector": Row(100),
    "padded": gallery.padded(32, 8), "bricks": stencil.bricks(8),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_right_kernel_passes_and_another_does_not(name):
    layout = LAYOUTS[name]
    for factor, right in ((2, True), (3, False)):
        kernel = scaled(layout, factor=factor)
        arrays = arrays_of(json.loads(json.dumps(describe(kernel, {}))), {})
        assert bool(verdict(kernel, arrays)) is right


@pytest.mark.parametrize("dtype", [f16, bf16, i32])
def test_types_that_numpy_does_not_have_are_compared_as_numbers(dtype):
    kernel = scaled(Row(100), dtype)
    arrays = arrays_of(describe(kernel, {}), {})
    assert verdict(kernel, arrays)
    assert not verdict(kernel, arrays, change=lambda memory: memory.__setitem__(99, 77))


def test_a_symbolic_size_is_described_once_and_made_at_any_size():
    N = lego.size("N")
    kernel = scaled(Row(N), count=N)
    described = describe(kernel, {"N": 300})
    for n in (40, 1000):
        arrays = arrays_of(described, {"N": n})
        assert int(arrays["scale/N"]) == n
        assert verdict(kernel, arrays, {"N": n}).elements == n


def test_a_tolerance_of_the_spec_is_used_and_moved_values_are_equal():
    arrays = arrays_of(describe(scaled(Row(50), rtol=0.5, atol=1.0), {}), {})
    np.testing.assert_allclose(arrays["scale/z/allowed"], 1 + 0.5 * np.abs(arrays["scale/z/expected"]))

    @lego.kernel(grid=1, block=32)
    def moved(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        y[lego.thread_id.x] = x[31 - lego.thread_id.x]

    @moved.reference
    def expected(x):
        return x[::-1]

    assert arrays_of(describe(moved, {}), {})["moved/y/allowed"].tolist() == [0]


def test_of_a_large_result_the_ends_and_a_sample_are_compared():
    kernel = scaled(Row(1 << 10, 1 << 10))
    arrays = arrays_of(describe(kernel, {}), {})
    at = arrays["scale/z/at"]
    assert (at[0], at[-1], len(at) < 1 << 15) == (0, (1 << 20) - 1, True)
    x, y = (np.float64(data_files.drawn("f32", 1 << 20, seed)) for seed in (0, 1))
    np.testing.assert_array_equal(arrays["scale/z/expected"], (2 * x + y)[at])


def ranged():
    @lego.kernel(grid=1, block=32)
    def gathered(x: lego.Tensor(f32, Row(32)), at: lego.Tensor(i32, Row(32)), y: lego.Tensor(f32, Row(32))):
        y[lego.thread_id.x] = x[lego.assume(at[lego.thread_id.x], 0, 32)]

    @gathered.reference
    def expected(x, at):
        return x[at]

    @gathered.inputs
    def some(rng):
        return {"at": rng.integers(0, 32, 32)}

    return gathered


def foreign():
    kernel = scaled(Row(32))
    layout = f32

    @kernel.reference
    def expected(x, y):
        return 2 * x + y * layout.bits

    return kernel


def unread():
    kernel = scaled(Row(32))

    @kernel.reference
    def expected(x, y, z):
        return 2 * x + y

    return kernel


FRONT_END = "sympy", "jinja2", "z3", "islpy", "torch", "ml_dtypes"
REFUSED = {
    "its own input": (ranged, "its input or its result is not that of a function of NumPy arrays"),
    "another class": (foreign, "it uses layout, .*; numbers, texts, small arrays and functions can travel"),
    "an unread result": (unread, "its reference takes z, which the kernel does not read"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_data_is_refused_with_the_reason(name):
    make, reason = REFUSED[name]
    with pytest.raises(UsageError, match=reason):
        describe(make(), {})


def test_a_description_that_cannot_be_used_is_refused(tmp_path):
    described = describe(scaled(Row(32)), {})
    with pytest.raises(SpecError, match="the check has format 7, not 1; pack the candidates again"):
        arrays_of({**described, "format": 7}, {})
    fails = {**described, "reference": "def expected(x, y):\n    return x @ y[:3]\n"}
    with pytest.raises(SpecError, match=r"scale: its reference fails here \(ValueError"):
        arrays_of(fails, {})
    short = {**described, "reference": "def expected(x, y):\n    return x[1:]\n"}
    with pytest.raises(SpecError, match=r"its reference returns shapes \[\(31,\)\], and the kernel writes \[\(32,\)\]"):
        arrays_of(short, {})
    for text in (b"[]", b"{", b'{"sizes": ["N"]}'):
        with pytest.raises(SpecError, match="not the description of a check"):
            ComputedChecks().data(text, {})


def test_data_are_made_once_and_removed_with_their_maker():
    N = lego.size("N")
    described = json.dumps(describe(scaled(Row(N), count=N), {"N": 64})).encode()
    checks = ComputedChecks()
    first = checks.data(described, {"N": 64, "M": 5})
    written = first.stat().st_mtime_ns
    assert (checks.data(described, {"N": 64}), first.stat().st_mtime_ns) == (first, written)
    assert checks.data(described, {"N": 65}) != first
    del checks
    assert not first.exists()


def test_a_check_is_computed_without_the_front_end(tmp_path):
    (tmp_path / "check.json").write_text(json.dumps(describe(scaled(Col(33, 3)), {})))
    code = (
        f"import sys, json; sys.modules.update(dict.fromkeys({FRONT_END}))\n"
        "from lego_mlir.tuning.computed_checks import arrays_of\n"
        f"print(len(arrays_of(json.load(open({str(tmp_path / 'check.json')!r})), {{}})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 6
