"""Division by reciprocals: the arithmetic, the map, kernels on every path, and the check of a launch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f32, schedule
from lego_mlir.errors import ExpressionError, LayoutError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.nodes import Divisor
from lego_mlir.expr.reciprocal import reciprocal
from lego_mlir.kernels import box_stencil
from lego_mlir.templates import Template, index
from lego_mlir.toolchain import compile_kernel, ptxas, target_named
from lego_mlir.tracing.trace.dtypes import i32

H, W, w = (lego.size(name, max=32768) for name in ("H", "W", "w"))
ORDER = schedule.prepared_columns(H, W, width=w)


@given(st.integers(1, 2**31), st.integers(0, 2**31 - 1), st.integers(-2, 2))
def test_a_quotient_is_a_product(d, n, beside):
    m, s = reciprocal(d)
    assert m < 2**32 and 31 <= s <= 62
    near = n // d * d + beside  # where a wrong quotient shows
    for x in (n, min(max(near, 0), 2**31 - 1)):
        assert x * m >> s == x // d


def test_every_dividend_of_small_words():
    """The same proof with words of 8 bits, all of them."""
    for d in range(1, 129):
        s = 7 + (d - 1).bit_length()
        m = -(-(1 << s) // d)
        assert all(n * m >> s == n // d for n in range(128)) and m < 256


@pytest.mark.parametrize("d", [0, -1, 2**31 + 1, 2.0, True])
def test_other_divisors_are_refused(d):
    with pytest.raises(ExpressionError, match="the divisor must be an int from 1 to 2\\*\\*31"):
        reciprocal(d)


@pytest.mark.parametrize(("h", "wide", "width"), [(5, 13, 4), (1, 1, 1), (3, 12, 4), (7, 5, 9), (4, 33, 32)])
def test_the_map_is_that_of_columns(h, wide, width):
    values = schedule.arguments(ORDER, H=h, W=wide, w=width)
    p = index_symbol("p")
    sizes = {s: values[s.name] for i in ORDER.inv(p) for s in as_expr(i).free_symbols if s.name in values}
    positions = np.arange(h * wide)
    found = [evaluate(as_expr(i), {**sizes, p.expr: positions}) for i in ORDER.inv(p)]
    assert np.array_equal(found, schedule.columns(h, wide, width=width).inv(positions))
    assert schedule.prepared_columns(h, wide, width=width) == schedule.columns(h, wide, width=width)


@pytest.mark.parametrize("form", ["affine", "arith", "index"])
def test_a_kernel_in_a_prepared_order(form):
    kernel = box_stencil.build(H, W, f32, size=3, order=ORDER, threads=32)
    source = np.random.default_rng(0).standard_normal((5, 37), np.float32)
    for width in (8, 37):
        sizes = schedule.arguments(ORDER, H=5, W=37, w=width)
        for run in (launch, launch_on_cpu):
            _, found = run(kernel, source, np.zeros_like(source), sizes=sizes, form=form)
            np.testing.assert_allclose(found, kernel.expected(source), atol=2e-6)


def mapped(order, h, wide):
    """The kernel that writes the number of each task where it works."""

    @lego.kernel(grid=lego.cdiv(h * wide, 256), block=256)
    def numbers(out: lego.Tensor(i32, Row(h, wide))):
        task = lego.block_id.x * 256 + lego.thread_id.x
        with lego.when(task < h * wide):
            y, x = order.inv(task)
            out[y, x] = lego.i32(task)

    return numbers


def test_the_machine_divides_neither_at_run_time_nor_by_a_chosen_constant():
    for kernel in (mapped(ORDER, H, W), mapped(schedule.columns(4037, 4037, width=48), 4037, 4037)):
        ptx = compile_kernel(kernel, target="sm_90").text
        assert "div" not in ptx and "rem" not in ptx
    divided = compile_kernel(mapped(schedule.columns(H, W, width=w), H, W), target="sm_90").text
    assert "div.u32" in divided


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_product_of_words_is_one_instruction(target):
    """LLVM masks the multiplier, an argument of 64 bits, and multiplies by the zeros above it too."""
    ptx = compile_kernel(mapped(ORDER, H, W), target=target).text
    assert ptx.count("mul.wide.u32") == 2 and "and.b64" not in ptx
    ptxas.assemble(ptx, target_named(target))


@pytest.mark.parametrize("wrong_by", [1, 1 << 32])
def test_a_launch_checks_the_reciprocals(wrong_by):
    kernel = mapped(ORDER, H, W)
    sizes = schedule.arguments(ORDER, H=4, W=8, w=3)
    result = np.zeros((4, 8), np.int32)
    kernel(result, **sizes)
    y, x = schedule.columns(4, 8, width=3).inv(np.arange(32))
    assert np.array_equal(result[y, x], np.arange(32))
    wrong = {**sizes, "column_size_reciprocal": sizes["column_size_reciprocal"] + wrong_by}
    with pytest.raises(lego.LegoError, match=r"column_size_reciprocal is that of column_size, as schedule\.arguments"):
        kernel(result, **wrong)


def test_a_missing_size_is_named():
    with pytest.raises(LayoutError, match=r"schedule.arguments: column_last needs the size W; given are \['H', 'w'\]"):
        schedule.arguments(ORDER, H=4, w=3)


def test_cuda_templates_multiply():
    lines = [
        "__global__ void f(int *out{{ sizes }}) {",
        '  {{ assign("y, x", order.inv(i)) }}',
        "  out[y * W + x] = i;",
        "}",
    ]
    source = "\n".join(lines)
    text = Template.of(source, "f.cu.jinja", order=ORDER, i=index("i", 2**30)).render().text
    assert "(unsigned long long)" in text and "column_size_reciprocal" in text and "/" not in text


def test_a_divisor_is_a_size_of_another_kind():
    assert Divisor("d") != as_expr(lego.size("d")) and Divisor("d").reciprocal.name == "d_reciprocal"
