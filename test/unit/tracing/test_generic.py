"""Generic kernels: one definition, a separately named kernel for each set of parameters."""

import re

import numpy as np
import pytest
from command_line import output_of

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, i32, interp, spec
from lego_mlir.cli.main import main
from lego_mlir.errors import SpecError, TraceError
from lego_mlir.toolchain import compile_kernel


def axpy_of():
    @lego.generic
    def axpy(T, N, factor=2):
        @lego.kernel(grid=N // 32, block=32)
        def kernel(x: lego.Tensor(T, Row(N)), y: lego.Tensor(T, Row(N))):
            i = lego.block_id[0] * 32 + lego.thread_id[0]
            y[i] = x[i] * factor

        return kernel

    return axpy


def test_a_kernel_is_made_once_for_equal_parameters():
    axpy = axpy_of()
    half = axpy[f16, 128]
    assert half is axpy[f16, 128] is axpy[f16, 128, 2]
    assert half is not axpy[f16, 128, 3]
    assert [half.name, axpy[f32, 64, 3].name] == ["axpy_f16_128_2", "axpy_f32_64_3"]
    assert list(axpy.made) == ["axpy[f16, 128, 2]", "axpy[f16, 128, 3]", "axpy[f32, 64, 3]"]
    assert str(axpy) == "axpy[T, N, factor]"


@pytest.mark.parametrize("dtype", [f16, f32, i32], ids=str)
def test_each_kernel_runs_with_its_parameters(dtype):
    kernel = axpy_of()[dtype, 64, 3]
    x, y = np.arange(64).astype(dtype.numpy), np.zeros(64, dtype.numpy)
    assert interp.run_kernel(kernel, {"x": x, "y": y}, {}).clean
    assert (y == 3 * x).all()


def test_several_compile_into_one_module():
    axpy = axpy_of()
    compiled = compile_kernel((axpy[f16, 64], axpy[f32, 64]), target="sm_90")
    assert re.findall(r"\.entry (\w+)", compiled.text) == ["axpy_f16_64_2", "axpy_f32_64_2"]
    assert [k["entry"] for k in compiled.manifest["kernels"]] == ["axpy_f16_64_2", "axpy_f32_64_2"]


def relu(x):
    return lego.maximum(x, 0.0)


def test_parameters_may_be_layouts_sizes_functions_and_strings():
    @lego.generic
    def apply(layout, function, how="plain"):
        @lego.kernel(grid=1, block=1)
        def kernel(y: lego.Tensor(f32, layout)):
            y[0, 0] = function(y[0, 0])

        return kernel

    n = lego.size("n")
    names = [apply[Col(4, n), relu].name, apply[Row(4, 8), relu, "fast"].name]
    assert names == ["apply_Col_4_n_relu_plain", "apply_Row_4_8_relu_fast"]
    long = Row(128, 128).tile_by([8, 8], [16, 16]).tile_by([2, 2, 4, 4], [4, 4, 4, 4])
    assert re.fullmatch(r"apply_[\w]{31}_[0-9a-f]{8}_relu_plain", apply[long, relu].name)
    assert apply[long, relu] is apply[Row(128, 128).tile_by([8, 8], [16, 16]).tile_by([2, 2, 4, 4], [4, 4, 4, 4]), relu]


def test_what_cannot_select_a_kernel():
    axpy = axpy_of()
    with pytest.raises(TraceError, match=r"axpy\[f16\]: missing a required argument: 'N'; it is axpy\[T, N, factor\]"):
        axpy[f16]
    with pytest.raises(TraceError, match=r"axpy\[f16, 1, 2, 3\]: too many positional arguments"):
        axpy[f16, 1, 2, 3]
    with pytest.raises(TraceError, match=r"axpy is generic: select a kernel by its parameters, axpy\[..\]"):
        axpy(f16, 128)
    with pytest.raises(TraceError, match=r"is part of the kernel's name, and <.* has no name; pass a type, a number"):
        axpy[f16, 32, lambda x: x]


def test_a_factory_that_returns_no_new_kernel():
    @lego.generic
    def nothing(T):
        return T

    @lego.kernel(grid=1, block=1)
    def fixed(y: lego.Tensor(f32, Row(1))):
        y[0] = 1.0

    @lego.generic
    def same(T):
        return fixed

    with pytest.raises(TraceError, match=r"nothing\[f16\] must return a kernel, a function decorated with .*, got f16"):
        nothing[f16]
    same[f16]
    with pytest.raises(TraceError, match=r"same\[f32\] returns same_f16 again; define the kernel inside same"):
        same[f32]


def test_parameters_whose_names_would_be_equal():
    def factory(n):
        def scale(x):
            return x * n

        return scale

    @lego.generic
    def apply(function):
        @lego.kernel(grid=1, block=1)
        def kernel(y: lego.Tensor(f32, Row(1))):
            y[0] = function(y[0])

        return kernel

    apply[factory(1)]
    with pytest.raises(TraceError, match=r"apply\[scale\] and apply\[scale\] would both be named apply_scale"):
        apply[factory(2)]
    sizes = axpy_of()
    assert sizes[f32, lego.size("n", multiple_of=32)] is sizes[f32, lego.size("n", multiple_of=32)]
    with pytest.raises(TraceError, match=r"axpy\[f32, n, 2\] and axpy\[f32, n, 2\] would both be named axpy_f32_n_2"):
        sizes[f32, lego.size("n", multiple_of=64)]


def test_what_generic_decorates():
    with pytest.raises(TraceError, match=r"@lego.generic decorates a function that returns a kernel, got 3"):
        lego.generic(3)
    with pytest.raises(
        TraceError, match=r"parameter 'rest' of wide must be a plain one: brackets, as in wide\[f16, 12"
    ):

        @lego.generic
        def wide(*rest):
            pass


def test_the_name_of_a_kernel():
    @lego.kernel(grid=1, block=1, name="entry_point")
    def kernel(y: lego.Tensor(f32, Row(1))):
        y[0] = 1.0

    assert ".entry entry_point(" in compile_kernel(kernel).text
    with pytest.raises(TraceError, match=r"a kernel cannot be named 2nd: names in PTX consist of ASCII letters"):
        lego.kernel(grid=1, block=1, name="2nd")(kernel.function)


SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f16, f32

ROWS = Row(64)

@lego.generic
def scale(T, layout, by=3):
    @lego.kernel(grid=2, block=32)
    def kernel(x: lego.Tensor(T, layout), y: lego.Tensor(T, layout)):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        y[i] = x[i] * by

    @kernel.reference
    def expected(x):
        return x * by

    return kernel
"""


@pytest.fixture
def path(tmp_path):
    def write(text):
        file = tmp_path / "spec.py"
        file.write_text(text)
        return str(file)

    return write


def test_a_kernel_is_selected_on_the_command_line(path, capsys):
    file = path(SPEC)
    assert "ok    scale_f16_Row_64_3:" in output_of(capsys, ["run", file, "--kernel", "scale[f16,ROWS]"])
    assert main(["compile", file, "--kernel", "scale[i32, Row(64), 5]", "--emit", "ptx"]) == 0
    assert ".entry scale_i32_Row_64_5(" in capsys.readouterr().out
    for command in ("check", "explain", "analyze"):
        assert "scale_f32_Row_64_3" in output_of(capsys, [command, file, "--kernel", "scale[f32, ROWS]"])


def test_kernels_that_the_spec_selects_belong_to_it(path, capsys):
    loaded = spec.load(path(SPEC + "for T in (f16, f32):\n    scale[T, ROWS]\nhalf = scale[f16, ROWS]\n"))
    assert list(loaded.kernels) == ["half", "scale[f32, Row(64), 3]"]
    assert loaded.kernels_named("scale_f32_Row_64_3") == (loaded.kernels["scale[f32, Row(64), 3]"],)
    assert loaded.kernels_named("scale[f16, ROWS]") == (loaded.kernels["half"],)
    with pytest.raises(
        SpecError, match=r"no kernel named 'x'; it has: half, scale\[f32, Row\(64\), 3\], scale\[T, lay"
    ):
        loaded.kernels_named("x")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, r"all kernels of this spec are generic: scale\[T, layout, by\]; select one with --kernel 'scale\[..\]'"),
        ("other[f16]", r"no generic kernel named 'other'; it has: scale\[T, layout, by\]"),
        (
            "scale[f17]",
            r"cannot evaluate 'scale\[f17\]' \(NameError: name 'f17' is not defined\); parameters are types",
        ),
        ("scale[f16,]]", r"cannot evaluate .*SyntaxError"),
        ("scale[f16]", r"missing a required argument: 'layout'"),
        ("scale[f16, ROWS].source.file[0]", r"'scale\[f16, ROWS\].source.file\[0\]' does not select a kernel"),
    ],
)
def test_expressions_that_select_none(path, name, message):
    with pytest.raises((SpecError, TraceError), match=message):
        spec.load(path(SPEC)).kernels_named(name)
