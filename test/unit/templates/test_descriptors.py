"""Tensor descriptors take strides of whole 16 bytes: which layouts are refused, by type and without one."""

import pytest

import lego_mlir as lego
from lego_mlir import Col, Padded, RegP, Row, as_layout
from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template
from lego_mlir.templates.library import matmul
from lego_mlir.templates.words.descriptors import BYTES


def described(layout, dtype=None, tile=(32, 32)):
    """The text of a descriptor of a layout in tiles."""
    tiles = as_layout(layout).tile_by([lego.cdiv(n, t) for n, t in zip(layout.dims(), tile, strict=True)], tile)
    return (
        Template.of('{{ descriptor("a_ptr", A, dtype) }}{{ sizes }}', "t.py.jinja", A=tiles, dtype=dtype).render().text
    )


@pytest.mark.parametrize("stride", [16, 24, 20, 18, 17])
@pytest.mark.parametrize("dtype", BYTES)
def test_a_stride_is_refused_exactly_where_it_is_no_multiple_of_16_bytes(dtype, stride):
    if stride * BYTES[dtype] % 16 == 0:
        assert f"strides=[{stride}, 1]" in described(Row(64, stride), dtype)
        return
    with pytest.raises(
        TemplateError, match=rf"moves by {stride} elements of {8 * BYTES[dtype]} bits \({dtype}\); pad it to"
    ):
        described(Row(64, stride), dtype)


def test_the_widths_are_tritons_own():
    tl = pytest.importorskip("triton.language")
    assert {name: getattr(tl, name).primitive_bitwidth // 8 for name in BYTES} == BYTES


def test_the_message_gives_the_values_and_a_layout_that_is_taken():
    with pytest.raises(TemplateError) as raised:
        described(Row(64, 70), "float16")
    assert str(raised.value) == (
        "t.py.jinja:1: A: a descriptor needs every stride but the contiguous one to be a multiple of 16 bytes; one "
        "step along axis 0 moves by 70 elements of 16 bits (float16); pad it to 72, as Padded(Row(M, 72), [M, 70]) "
        "does, or use offsets, A[..., :, :], instead of a descriptor"
    )
    assert "shape=[64, 70], strides=[72, 1]" in described(Padded(Row(64, 72), [64, 70]), "float16")


def test_without_a_type_a_stride_is_refused_only_where_it_fits_none():
    assert "strides=[70, 1]" in described(Row(64, 70))
    with pytest.raises(TemplateError, match=r"71 elements, and an odd number fits no type; pad it to 80, as Padded"):
        described(Row(64, 71))
    k = lego.size("K", max=4096)
    assert "strides=[K, 1]" in described(Row(64, k))
    with pytest.raises(
        TemplateError, match=r"moves by 2\*K \+ 1 elements, and an odd .* type; pad it to a multiple of 16"
    ):
        described(Padded(Row(64, 2 * k + 1), [64, k]))


def test_a_symbolic_stride_needs_a_divisor_where_the_type_is_known():
    def columns(multiple):
        return lego.size("K", max=4096, multiple_of=multiple)

    assert "strides=[K, 1]" in described(Row(64, columns(8)), "float16")
    with pytest.raises(
        TemplateError, match=r"K elements of 8 bits \(float8e5\); declare .* size\('K', multiple_of=16\)"
    ):
        described(Row(64, columns(8)), "float8e5")
    with pytest.raises(
        TemplateError, match=r"K elements of 16 bits \(float16\); declare .* size\('K', multiple_of=8\)"
    ):
        described(Row(64, columns(1)), "float16")


def test_the_contiguous_axis_is_the_one_that_may_have_any_size():
    assert "shape=[71, 64], strides=[64, 1]" in described(Col(64, 71), "float16")
    with pytest.raises(TemplateError, match="along axis 1 moves by 71 elements"):
        described(Col(71, 64), "float16")
    batches = RegP([3, 40, 24], [2, 1, 3])
    assert "strides=[24, 72, 1]" in described(batches, "float16", tile=(1, 32, 32))


def test_a_type_that_triton_does_not_have_is_refused():
    with pytest.raises(TemplateError, match=r"descriptor: dtype is one of .*float16.*, got 'half'"):
        described(Row(64, 64), "half")


@pytest.mark.parametrize("product", ["matmul", "batched_matmul", "grouped_gemm"])
def test_the_shipped_products_know_their_type(product):
    def render(depth, dtype):
        if product == "grouped_gemm":
            return matmul.grouped_gemm(
                descriptors=True, multiple_of=16, depth_multiple_of=depth & -depth, dtype=dtype
            ).render()
        sizes = (2, 128, 128, depth) if product == "batched_matmul" else (128, 128, depth)
        return getattr(matmul, product)(*sizes, descriptors=True, dtype=dtype).render()

    assert "make_tensor_descriptor" in render(136, "float16").text
    with pytest.raises(TemplateError, match="multiple of 16 bytes"):
        render(136, "float8e5")
    with pytest.raises(TemplateError, match=f"{product}: dtype"):
        render(136, "half")


def test_the_sizes_of_a_block_are_constexprs():
    tile = tuple(lego.size(name, max=256) for name in ("BM", "BN", "BK"))
    text = matmul.matmul(512, 512, 512, tile=tile, descriptors=True).render().text
    assert "def matmul(a_ptr, b_ptr, c_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):" in text
    assert "block_shape=[BM, BK]" in text and "from_m" not in text
    with pytest.raises(TemplateError, match=r"a block of 2\*BM elements: a descriptor needs a number or a constexpr"):
        described(Row(64, 64), tile=(tile[0] * 2, 32))
