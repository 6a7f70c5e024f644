"""Textures and surfaces against plain arithmetic on their arrays, and accesses outside of surfaces."""

import numpy as np
import pytest
from ptx_kernels import THREAD, entry

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.texture_memory import TextureArgument
from lego_mlir.interp.report import Kind

H, W = 5, 7
IMAGE = np.arange(H * W, dtype=np.float32).reshape(H, W) ** 2
X = np.linspace(-3, 10, 32, dtype=np.float32)
Y = np.linspace(7, -2, 32, dtype=np.float32)
PLACES = f"""{THREAD} add.s64 %rd4, %rd2, %rd51; add.s64 %rd5, %rd3, %rd51; ld.global.f32 %f1, [%rd4];
ld.global.f32 %f2, [%rd5];"""
FETCH = entry(f"""{PLACES} tex.2d.v4.f32.f32 {{%f3, %f4, %f5, %f6}}, [%rd1, {{%f1, %f2}}];
st.global.f32 [%rd4], %f3; st.global.f32 [%rd5], %f4; ret;""", "t x y")  # fmt: skip


def fetched(texture: TextureArgument, x=X, y=Y):
    x, y = x.copy(), y.copy()
    report = emulate(FETCH, args=[texture, x, y], grid=1, block=32)
    assert report.clean, report
    return x, y


def indexed(i: int, n: int, border: str) -> int | None:
    """The index that a coordinate outside means; None for a value of 0."""
    if 0 <= i < n:
        return i
    if border == "border":
        return None
    if border == "wrap":
        return i % n
    if border == "mirror":
        return i % (2 * n) if i % (2 * n) < n else 2 * n - 1 - i % (2 * n)
    return min(max(i, 0), n - 1)


def element(image, i: int, j: int, border: str) -> float:
    row, column = indexed(i, H, border), indexed(j, W, border)
    return 0.0 if row is None or column is None else float(image[row, column])


def wanted(image, x: float, y: float, filter_: str, border: str) -> float:
    if filter_ == "nearest":
        return element(image, int(np.floor(y)), int(np.floor(x)), border)
    j, i = int(np.floor(x - 0.5)), int(np.floor(y - 0.5))
    a, b = (round((v - 0.5 - n) * 256) / 256 for v, n in ((x, j), (y, i)))
    return sum(
        wa * wb * element(image, i + p, j + q, border)
        for p, wb in ((0, 1 - b), (1, b))
        for q, wa in ((0, 1 - a), (1, a))
    )


@pytest.mark.parametrize("border", ["clamp", "border", "wrap", "mirror"])
@pytest.mark.parametrize("filter_", ["nearest", "linear"])
def test_fetches_are_those_of_the_programming_guide(filter_, border):
    normalized = border in ("wrap", "mirror")
    texture = TextureArgument(IMAGE, filter=filter_, border=border, normalized=normalized)
    x, y = (X / np.float32(W), Y / np.float32(H)) if normalized else (X, Y)
    found, _ = fetched(texture, x, y)
    scale = (W, H) if normalized else (1, 1)
    expected = [
        wanted(IMAGE, float(a) * scale[0], float(b) * scale[1], filter_, border) for a, b in zip(x, y, strict=True)
    ]
    assert np.allclose(found, expected, rtol=1e-6)


def test_channels_and_integers_as_fractions():
    colours = np.stack([IMAGE, -IMAGE], axis=-1)
    red, green = fetched(TextureArgument(colours, channels=2))
    assert np.array_equal(green, -red)
    bytes_ = np.arange(H * W, dtype=np.uint8).reshape(H, W)
    found, _ = fetched(
        TextureArgument(bytes_, as_fraction=True), np.full(32, 3, np.float32), np.full(32, 2, np.float32)
    )
    assert np.allclose(found, bytes_[2, 3] / 255)


def test_what_a_kernel_writes_while_it_reads_the_texture_is_a_race():
    text = entry(f"""{THREAD} tex.1d.v4.f32.s32 {{%f3, %f4, %f5, %f6}}, [%rd1, {{%r53}}];
add.s32 %r8, %r53, 40; and.b32 %r8, %r8, 63; mul.wide.u32 %rd6, %r8, 4; add.s64 %rd7, %rd2, %rd6;
st.global.f32 [%rd7], %f3; ret;""", "t x")  # fmt: skip
    data = np.arange(64, dtype=np.float32)
    assert emulate(text, args=[TextureArgument(data), np.zeros(64, np.float32)], grid=2, block=32).clean
    report = emulate(text, args=[TextureArgument(data), data], grid=2, block=32)
    assert {f.kind for f in report.faults} == {Kind.RACE}


SURFACE = """shl.b32 %r8, %r50, 2; suld.b.2d.b32.{mode} {{%r9}}, [%rd1, {{%r8, 1}}]; add.s32 %r9, %r9, 1;
sust.b.2d.b32.{mode} [%rd1, {{%r8, 2}}], {{%r9}}; ret;"""


@pytest.mark.parametrize("mode", ["trap", "clamp", "zero"])
def test_surfaces_are_bytes_along_x(mode):
    image = np.arange(H * 8, dtype=np.int32).reshape(H, 8)
    before = image.copy()
    text = entry(THREAD + SURFACE.format(mode=mode), "s")
    report = emulate(text, args=[TextureArgument(image)], grid=1, block=8)
    assert report.clean
    assert np.array_equal(image[2], before[1] + 1)
    assert np.array_equal(image[[0, 1, 3, 4]], before[[0, 1, 3, 4]])
    outside = emulate(text, args=[TextureArgument(before.copy())], grid=1, block=9)
    assert outside.clean == (mode != "trap") or any(f.kind is Kind.RACE for f in outside.faults)
    if mode == "trap":
        assert "(32, 1) is outside of a surface of (8, 5) elements" in str(outside)


def test_a_number_is_no_texture():
    report = emulate(FETCH, args=[77, X.copy(), Y.copy()], grid=1, block=32)
    assert "0x4d is no texture or surface; pass a TextureArgument" in str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 3}, "1, 2 or 4 channels"), ({"array": IMAGE.T}, "C-contiguous"),
        ({"channels": 2}, "a last axis of 2 channels"),
        ({"array": np.zeros((2, 2), np.int32), "filter": "linear"}, "filtered only where"),
    ],
)  # fmt: skip
def test_what_hardware_refuses_is_refused(options, message):
    with pytest.raises(InterpreterError, match=message):
        TextureArgument(**{"array": IMAGE, **options})
