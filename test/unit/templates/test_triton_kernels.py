"""The shipped Triton kernels: translation checked, run in Triton's interpreter against NumPy, compiled for sm_90.

The interpreter and the compiler work without a GPU; where Triton is not installed these tests say so and are skipped.
"""

import importlib.util
import warnings

import ml_dtypes
import numpy as np
import pytest
from triton_values import attended, batched, grouped, norm, product_in_f32, random, reversal, rows_of_softmax

import lego_mlir as lego
from lego_mlir import Padded, RegP, Row, as_layout, gallery
from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template
from lego_mlir.templates.library import rows as rows_templates
from lego_mlir.templates.library.attention import attention
from lego_mlir.templates.library.matmul import batched_matmul, grouped_gemm, matmul, matmul_fp8, relayout
from lego_mlir.templates.library.rows import layer_norm, softmax
from lego_mlir.templates.readback import check
from lego_mlir.templates.run.triton import compile_for, load
from lego_mlir.templates.run.triton_interpreter import interpret

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs the package triton (pip install lego-mlir[triton])"
)
TILE = (32, 32, 32)
FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def rendered(template):
    """The rendered text, its index expressions compared with the layouts first."""
    result = template.render()
    check.require(result, sampled=50_000)
    return result


def stored(matrix, how):
    """A matrix in memory: "T" is stored transposed."""
    return np.ascontiguousarray(matrix.T if how == "T" else matrix)


@pytest.mark.parametrize("descriptors", [False, True], ids=["pointers", "descriptors"])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_matmul_in_four_layouts(layout, descriptors):
    a, b, c = random(64, 96), random(96, 128, seed=1), np.zeros((64, 128), np.float16)
    kernel = rendered(matmul(64, 128, 96, a=layout[0], b=layout[1], tile=TILE, group=2, descriptors=descriptors))
    interpret(kernel, "matmul", (8,), stored(a, layout[0]), stored(b, layout[1]), c)
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


@pytest.mark.parametrize("kind", FP8)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_matmul_of_8_bit_floats(layout, kind):
    a, b = random(32, 64, dtype=FP8[kind]), random(64, 32, dtype=FP8[kind], seed=1)
    c = np.zeros((32, 32), np.float16)
    kernel = rendered(matmul(32, 32, 64, a=layout[0], b=layout[1], tile=TILE))
    interpret(kernel, "matmul", (1,), stored(a, layout[0]), stored(b, layout[1]), c)
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


def test_matmul_whose_tiles_do_not_divide_and_whose_sizes_are_arguments():
    sizes = [lego.size(name, max=4096) for name in "MNK"]
    a, b, c = random(50, 40), random(40, 70, seed=1), np.zeros((50, 70), np.float16)
    kernel = rendered(matmul(*sizes, tile=TILE, group=2))
    interpret(kernel, "matmul", (6,), a, b, c, *({"M": 50, "N": 70, "K": 40}[str(s)] for s in kernel.sizes))
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


def test_tile_sizes_can_be_constexpr_arguments_for_triton_to_tune():
    sizes = [lego.size(name, max=4096) for name in "MNK"]
    blocks = [lego.size(name, min=16, max=256, multiple_of=16) for name in ("BM", "BN", "BK")]
    a, b, c = random(50, 40), random(40, 70, seed=1), np.zeros((50, 70), np.float16)
    kernel = rendered(matmul(*sizes, tile=tuple(blocks), group=2))
    assert "BM: tl.constexpr" in kernel.text and "tl.arange(0, BK)" in kernel.text
    values = {"M": 50, "N": 70, "K": 40, "BM": 32, "BN": 64, "BK": 16}
    interpret(kernel, "matmul", (4,), a, b, c, **{str(s): values[str(s)] for s in kernel.sizes})
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_the_compiler_uses_the_divisors_that_hints_state_of_arguments(target):
    """Rows whose length is a multiple of 16 bytes are copied asynchronously, 16 bytes at a time."""
    types = {f"{name}_ptr": "*fp16:16" for name in "abc"} | dict.fromkeys("MNK", "i32")

    def copies(divisor):
        sizes = [lego.size(name, max=32768, multiple_of=divisor) for name in "MNK"]
        kernel = load(matmul(*sizes, tile=(64, 64, 32)).render(), "matmul")
        return compile_for(kernel, types, {}, target=target, num_warps=4, num_stages=3).ptx.count("cp.async.cg")

    assert copies(8) > 0 and copies(1) == 0


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_hints_of_sizes_beyond_int32_compile_for_arguments_of_both_widths(kind):
    sizes = [lego.size(name, max=2**40, multiple_of=8) for name in "MNK"]
    types = {f"{name}_ptr": "*fp16:16" for name in "abc"} | dict.fromkeys("MNK", kind)
    kernel = load(matmul(*sizes, tile=(64, 64, 32)).render(), "matmul")
    assert "cp.async.cg" in compile_for(kernel, types, {}, target="sm_90", num_warps=4, num_stages=3).ptx


@pytest.mark.parametrize("facts", [{}, {"min": 16, "max": 256, "multiple_of": 16}], ids=["default", "declared"])
def test_tile_sizes_as_constexprs_cost_no_64_bit_arithmetic(facts):
    sizes = [lego.size(name, max=32768) for name in "MNK"]
    template = matmul(*sizes, tile=tuple(lego.size(name, **facts) for name in ("BM", "BN", "BK")))
    kernel = template.render()
    assert "int64" not in kernel.text
    limit = 256 if facts else 4096
    assert all(f"tl.static_assert({name} <= {limit}" in kernel.text for name in ("BM", "BN", "BK"))


def test_a_tile_size_beyond_what_its_offsets_are_computed_for_does_not_compile():
    sizes = [lego.size(name, max=32768) for name in "MNK"]
    kernel = load(matmul(*sizes, tile=(lego.size("BM", max=64), 32, 32)).render(), "matmul")
    types = {f"{name}_ptr": "*fp16" for name in "abc"} | dict.fromkeys("MNK", "i32")
    with pytest.raises(Exception, match=r"BM <= 64"):
        compile_for(kernel, types, {"BM": 128})
    assert compile_for(kernel, types, {"BM": 64}).code


@pytest.mark.parametrize("order", [gallery.morton(2, 4), gallery.reverse(2, 4)], ids=["morton", "reverse"])
def test_another_order_of_programs_changes_no_result(order):
    a, b, c = random(64, 32), random(32, 128, seed=1), np.zeros((64, 128), np.float16)
    kernel = rendered(matmul(64, 128, 32, tile=TILE, grid=as_layout(order)))
    interpret(kernel, "matmul", (8,), a, b, c)
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


@pytest.mark.parametrize("descriptors", [False, True], ids=["pointers", "descriptors"])
def test_persistent_programs_take_several_tiles_each(descriptors):
    a, b, c = random(64, 32), random(32, 96, seed=1), np.zeros((64, 96), np.float16)
    kernel = rendered(matmul(64, 96, 32, tile=TILE, descriptors=descriptors, persistent=4))
    interpret(kernel, "matmul", (4,), a, b, c)
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


def test_8_bit_operands_are_copied_only_where_the_depth_is_not_contiguous():
    copied = {ab: matmul_fp8(64, 64, 64, a=ab[0], b=ab[1], tile=TILE) for ab in ("NN", "NT", "TN", "TT")}
    assert {ab: (p.copy_a is not None, p.copy_b is not None) for ab, p in copied.items()} == {
        "NN": (False, True), "NT": (False, False), "TN": (True, True), "TT": (True, False)
    }  # fmt: skip
    a, b = (random(64, 64, dtype=FP8["e4m3"], seed=s) for s in (0, 1))
    plan, c, ready = copied["TN"], np.zeros((64, 64), np.float16), [np.zeros((64, 64), FP8["e4m3"]) for _ in "ab"]
    interpret(rendered(plan.copy_a), "relayout", (1,), stored(a, "T"), ready[0])
    interpret(rendered(plan.copy_b), "relayout", (1,), b, ready[1])
    interpret(rendered(plan.product), "matmul", (4,), *ready, c)
    np.testing.assert_allclose(c, product_in_f32(a, b), atol=0.02)


def test_relayout_to_a_layout_that_is_not_strided():
    reversal(rendered(relayout(Row(40, 24), as_layout(gallery.reverse(40, 24)), tile=(16, 8))))


@pytest.mark.parametrize(("rows", "columns", "at_a_time"), [(4, 256, 1), (4, 100, 1), (6, 60, 4)])
def test_softmax(rows, columns, at_a_time):
    kernel = rendered(softmax(rows, columns, at_a_time=at_a_time))
    assert ("mask" in kernel.text) == (columns != 256)
    rows_of_softmax(kernel, rows, columns, at_a_time)


@pytest.mark.parametrize("columns", [64, 50])
@pytest.mark.parametrize("part", [rows_templates.PART, 16], ids=["whole rows", "rows in parts"])
def test_layer_norm_forward_and_backward(columns, part, monkeypatch):
    monkeypatch.setattr(rows_templates, "PART", part)
    norm(rendered(layer_norm(6, columns, groups=2, block=32)), columns)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("order", "positions"), [("bhsd", 64), ("bshd", 50), ("bhsd", 10)])
@pytest.mark.parametrize("descriptors", [False, True], ids=["pointers", "descriptors"])
def test_attention(order, positions, descriptors, causal):
    sizes = (1, 2, positions, 16)
    kernel = rendered(attention(*sizes, order=order, causal=causal, tile=(32, 16), descriptors=descriptors))
    attended(kernel, positions, causal, order)


@pytest.mark.parametrize("descriptors", [False, True], ids=["pointers", "descriptors"])
def test_batched_matmul(descriptors):
    batched(rendered(batched_matmul(3, 40, 64, 32, tile=TILE, descriptors=descriptors)))


@pytest.mark.parametrize("descriptors", [False, True], ids=["pointers", "descriptors"])
def test_strided_matmul_reads_rows_that_lie_apart_and_a_batch_inside_the_rows(descriptors):
    a, b, c = random(3, 32, 40), random(32, 3, 32, seed=1), np.zeros((3, 32, 32), np.float16)
    kernel = rendered(
        batched_matmul(
            3,
            32,
            32,
            32,
            a=Padded(Row(3, 32, 40), [3, 32, 32]),
            b=as_layout(RegP([3, 32, 32], [2, 1, 3])),
            tile=TILE,
            descriptors=descriptors,
        )
    )
    interpret(kernel, "batched_matmul", (1, 3), a, b, c)
    np.testing.assert_allclose(c, product_in_f32(a[:, :, :32], b.transpose(1, 0, 2)), atol=0.02)


@pytest.mark.parametrize("descriptors", [False, True], ids=["pointers", "descriptors"])
def test_grouped_gemm_of_different_sizes(descriptors):
    grouped(rendered(grouped_gemm(tile=TILE, programs=2, group=2, descriptors=descriptors)))


def test_a_kernel_that_fails_in_the_interpreter_says_so():
    broken = Template.of(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef f(x_ptr):\n    tl.store(x_ptr, nothing)\n",
        "broken.py.jinja",
    ).render()
    with pytest.raises(TemplateError, match=r"broken\.py\.jinja: f failed in Triton's interpreter, at line 7 .*noth"):
        interpret(broken, "f", (1,), np.zeros(1, np.float32))
    with pytest.raises(TemplateError, match=r"^broken\.py\.jinja: it has no kernel 'g'; there are: f"):
        interpret(broken, "g", (1,), np.zeros(1, np.float32))


def test_compiling_needs_each_argument():
    text = "import triton\n\n\n@triton.jit\ndef f(x_ptr, N):\n    pass\n"
    kernel = load(Template.of(text, "f.py.jinja").render(), "f")
    for signature, missing in (({"x_ptr": "*fp32"}, "N"), ({"n": "i32"}, "x_ptr, N")):
        with pytest.raises(TemplateError, match=rf"^f\(x_ptr, N\): {missing} needs a type in the signature, such as"):
            compile_for(kernel, signature, {"M": 3})
    with pytest.raises(TemplateError, match=r"^compile_for: Triton has no option 'num_warp'; did you mean num_warps\?"):
        compile_for(kernel, {"x_ptr": "*fp32", "N": "i32"}, {}, num_warp=8)


POINTER = {"fp16": "*fp16:16", "fp8": "*fp8e4nv:16"}


def compiled(kernel, name, signature, constants=None, **options):
    from lego_mlir.templates.run import triton

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Triton's own code generator uses ast.Num
        return triton.compile_for(triton.load(kernel, name), signature, constants or {}, **options)


@pytest.mark.parametrize(("kind", "layout", "instruction"), [("fp16", "NN", "HGMMA"), ("fp8", "NT", "QGMMA")])
def test_matmul_compiles_for_hopper_without_a_gpu(kind, layout, instruction):
    from lego_mlir.toolchain import sass

    kernel = matmul(1024, 1024, 1024, a=layout[0], b=layout[1], tile=(64, 64, 64), descriptors=True).render()
    types = dict.fromkeys(("a_ptr", "b_ptr"), POINTER[kind]) | {"c_ptr": "*fp16:16"}
    found = compiled(kernel, "matmul", types, num_warps=4, num_stages=2)
    assert found.resources.spill_loads == found.resources.spill_stores == 0
    loop = sass.main_loop(found.code, "GMMA")
    assert instruction in sass.mix(loop) and "UTMALDG" in sass.mix(found.code)
    assert not sass.mix(loop).keys() & {"STS", "LDG"}  # the asynchronous path: nothing goes through registers


HALF, FULL, BYTE = ("*fp16:16", "*fp32:16", "*fp8e5:16")
SMALL = (64, 64, 64)
ADDRESSES = dict.fromkeys(("a_addresses", "b_addresses", "c_addresses"), "*i64:16")
ROWS = dict.fromkeys(("x_ptr", "y_ptr", "w_ptr", "b_ptr", "dy_ptr", "dx_ptr", "out_ptr"), HALF) | dict.fromkeys(
    ("mean_ptr", "rstd_ptr", "dw_ptr", "db_ptr", "part_ptr"), FULL
)
SHIPPED = {
    "softmax": (lambda: softmax(4096, 1000), ROWS),
    "layer_norm_forward": (lambda: layer_norm(512, 1000), ROWS),
    "layer_norm_backward": (lambda: layer_norm(512, 1000), ROWS),
    "sum_groups": (lambda: layer_norm(512, 1000), ROWS),
    "attention": (
        lambda: attention(2, 4, 1000, 64, causal=True, tile=(64, 64)),
        dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), HALF) | {"lse_ptr": FULL},
    ),
    "batched_matmul": (
        lambda: batched_matmul(4, 1000, 512, 512, tile=SMALL),
        dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), HALF),
    ),
    "grouped_gemm": (
        lambda: grouped_gemm(tile=SMALL, depth_multiple_of=64, descriptors=True),
        ADDRESSES | {"sizes_ptr": "*i32:16", "products": "i32"},
    ),
    "relayout": (lambda: matmul_fp8(512, 512, 512).copy_b, {"s_ptr": BYTE, "d_ptr": BYTE}),
    "matmul": (lambda: matmul(*(lego.size(n, max=8192, multiple_of=16) for n in "MNK"), tile=SMALL), {}),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_kernel_compiles_for_hopper_without_spills(name):
    make, types = SHIPPED[name]
    kernel = make().render()
    types = types or dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), HALF) | {str(s): "i32:16" for s in kernel.sizes}
    found = compiled(kernel, name, types)
    assert found.resources.spill_loads == found.resources.spill_stores == 0
