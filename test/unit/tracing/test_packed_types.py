"""Packed types: codes in bytes against ml_dtypes, by the interpreter, the PTX emulator and the CPU; races on a byte."""

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import (
    Col,
    GenP,
    LayoutError,
    LegoError,
    OrderBy,
    RegP,
    Row,
    bf16,
    f2,
    f4e2m1fn,
    f6e2m3fn,
    f6e3m2fn,
    f8e4m3fn,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    gallery,
    i4,
    i32,
    interp,
    u4,
    u8,
    u32,
)  # fmt: skip
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import emulate
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel, ptxas
from lego_mlir.tracing.trace.trace import Load

HOST = {
    u4: ml_dtypes.uint4, i4: ml_dtypes.int4, f4e2m1fn: ml_dtypes.float4_e2m1fn, f6e2m3fn: ml_dtypes.float6_e2m3fn,
    f6e3m2fn: ml_dtypes.float6_e3m2fn, f8e8m0fnu: ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
TYPES = pytest.mark.parametrize("dtype", HOST, ids=str)


def packed(codes, bits):
    """The codes along the last axis, one after the other, low bits first."""
    each = (codes[..., None] >> np.arange(bits)) & 1
    return np.packbits(each.reshape(*codes.shape[:-1], -1).astype(np.uint8), axis=-1, bitorder="little")


def all_codes(dtype, rows=3, columns=256):
    codes = np.random.default_rng(dtype.bits).integers(0, 1 << dtype.bits, (rows, columns)).astype(np.uint8)
    codes[0] = np.arange(columns) % (1 << dtype.bits)
    return codes


def numbers(dtype, codes):
    with np.errstate(invalid="ignore"):
        return codes.view(HOST[dtype]).astype(np.float64)


RESULTS = (f16, bf16, f32, f8e4m3fn, i32)


def wanted(exact, result):
    with np.errstate(invalid="ignore", over="ignore"):
        if result is i32:
            return np.where(np.isnan(exact), 0, np.clip(np.trunc(exact), *i32.span)).astype(np.int32)
        return (np.clip(exact, -448, 448) if result is f8e4m3fn else exact).astype(result.numpy)


@TYPES
@pytest.mark.parametrize("width", [1, 4, 16])
def test_every_code_has_its_number(dtype, width):
    n = 1 << max(6, dtype.bits)
    y = [lego.Tensor(result, Row(n)) for result in RESULTS]

    @lego.kernel(grid=1, block=n // width)
    def widened(x: lego.Tensor(dtype, Row(n)), a: y[0], b: y[1], c: y[2], d: y[3], e: y[4]):
        j = lego.thread_id[0] * width
        loaded = x.load(j, width=width)
        for to, result in zip((a, b, c, d, e), RESULTS, strict=True):
            numbers = loaded.to(result)
            for k in range(width):
                to[j + k] = numbers if width == 1 else numbers[k]

    codes = (np.arange(n) % (1 << dtype.bits)).astype(np.uint8)
    found = [np.zeros(n, result.numpy) for result in RESULTS]
    assert interp.launch(widened.mlir(), grid=1, block=n // width, args=[packed(codes, dtype.bits), *found]).clean
    for result, values in zip(RESULTS, found, strict=True):
        exact = wanted(numbers(dtype, codes), result)
        np.testing.assert_array_equal(values.astype(np.float64), exact.astype(np.float64))


ODD = (28, 30, -31, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40, -0.0)
MIDWAY = [m * 2.0**e for e in range(-6, 5) for m in (1, 1 + 2**-23, 1.5, 1.25, 1.75, 1.0625, 2 - 2**-23)]
SAMPLES = np.array([*ODD, *MIDWAY, *np.linspace(-9, 9, 145), *np.linspace(-0.4, 0.4, 65)], np.float32)
SAMPLES = SAMPLES[: len(SAMPLES) // 16 * 16]


def narrowed(dtype, source=f32):
    n = len(SAMPLES)

    @lego.kernel(grid=n // 16, block=1)
    def kernel(x: lego.Tensor(source, Row(n)), y: lego.Tensor(dtype, Row(n))):
        i = lego.block_id[0] * 16
        y.store(lego.vector(*(x[i + k] for k in range(16))).to(dtype), i)

    return kernel


def codes_of_samples(dtype, kernel, samples=SAMPLES):
    found = np.zeros(len(samples) * dtype.bits // 8, np.uint8)
    assert interp.launch(kernel.mlir(), grid=len(samples) // 16, block=1, args=[samples, found]).clean
    return found


@TYPES
def test_a_number_is_rounded_to_the_nearest_code(dtype):
    found = codes_of_samples(dtype, narrowed(dtype))
    unknown = np.isnan(SAMPLES)
    with np.errstate(invalid="ignore", divide="ignore"):
        if dtype.family == "int":
            codes = np.clip(np.trunc(np.where(unknown, 0, SAMPLES)), *dtype.span).astype(np.int64) & 15
        elif dtype is f8e8m0fnu:
            down = 2.0 ** np.clip(np.floor(np.log2(np.abs(SAMPLES.astype(np.float64)))), -127, 127)
            codes = down.astype(HOST[dtype]).view(np.uint8)
            codes = np.where(unknown | (SAMPLES < 0), 255, np.where(np.isinf(SAMPLES), 254, codes))
        else:
            codes = np.where(unknown, 2 ** (dtype.bits - 1) - 1, SAMPLES.astype(HOST[dtype]).view(np.uint8))
    np.testing.assert_array_equal(found, packed(codes.astype(np.uint8), dtype.bits))


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_scales_become_bf16_two_at_a_time(lanes):
    """All codes, of one word and of several, in the interpreter, in the emulator and on the CPU, against ml_dtypes."""

    @lego.kernel(grid=256 // lanes, block=1)
    def widened(x: lego.Tensor(f8e8m0fnu, Row(256)), y: lego.Tensor(bf16, Row(256))):
        first = lego.block_id[0] * lanes
        scales = x.load(first, width=lanes) if lanes > 1 else x[first]
        y.store(scales.to(bf16), first)

    codes = np.random.default_rng(0).permutation(256).astype(np.uint8)
    wanted = codes.view(HOST[f8e8m0fnu]).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(widened(codes)).astype(np.float32), wanted)
    found = np.zeros(256, bf16.numpy)
    assert interp.launch(widened.mlir(), grid=256 // lanes, block=1, args=[codes, found]).clean
    np.testing.assert_array_equal(found.astype(np.float32), wanted)
    for target in ("sm_75", "sm_80", "sm_90a"):
        text, found = compile_kernel((widened,), target=target).text, np.zeros(256, bf16.numpy)
        emulate(text, grid=256 // lanes, block=1, args=[codes, found])
        np.testing.assert_array_equal(found.astype(np.float32), wanted)
        assert target != "sm_90a" or text.count("max.NaN.bf16x2") == -(-lanes // 2)


PAIRS = {f4e2m1fn: "e2m1x2", f6e2m3fn: "e2m3x2", f6e3m2fn: "e3m2x2"}


@pytest.mark.parametrize("dtype", PAIRS, ids=str)
@pytest.mark.parametrize("source", [f32, f16, bf16], ids=str)
def test_targets_round_by_their_instructions_or_by_arithmetic(dtype, source, tmp_path):
    kernel = narrowed(dtype, source)
    with np.errstate(over="ignore"):
        samples = SAMPLES.astype(source.numpy)
    exact = np.where(
        np.isnan(SAMPLES), 2 ** (dtype.bits - 1) - 1, samples.astype(f32.numpy).astype(HOST[dtype]).view("u1")
    )
    wanted = packed(exact.astype(np.uint8), dtype.bits)
    np.testing.assert_array_equal(codes_of_samples(dtype, kernel, samples), wanted)
    np.testing.assert_array_equal(np.asarray(kernel(samples)).reshape(-1), wanted)  # on the CPU
    for target in ("sm_80", "sm_100", "sm_100a", "sm_120a", "sm_121a"):
        text, found = compile_kernel((kernel,), target=target).text, np.zeros_like(wanted)
        assert text.count(f"cvt.rn.satfinite.{PAIRS[dtype]}.f32") == (8 if target.endswith("a") else 0)
        emulate(text, grid=len(samples) // 16, block=1, args=[samples, found])
        np.testing.assert_array_equal(found, wanted)
        if ptxas.find() is not None:
            ptxas.assemble(text, target_named(target))


@pytest.mark.parametrize("dtype", PAIRS, ids=str)
def test_a_number_alone_is_rounded_by_the_instruction_too(dtype):
    @lego.kernel(grid=1, block=64)
    def widened(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id[0]
        y[t] = dtype(x[t]).to(f32)

    found = np.zeros(64, np.float32)
    text = compile_kernel((widened,), target="sm_100a").text
    assert text.count(f"cvt.rn.satfinite.{PAIRS[dtype]}.f32") == 1
    emulate(text, grid=1, block=64, args=[SAMPLES[-64:], found])
    np.testing.assert_array_equal(found, SAMPLES[-64:].astype(HOST[dtype]).astype(np.float32))


@pytest.mark.parametrize("source", [f16, bf16], ids=str)
def test_every_number_of_sixteen_bits_is_rounded_as_by_ml_dtypes(source):
    tile, block = 4096, 128
    layout = f2.Blocked((16,), (32,), (4,), order=(0,)).layout((tile,))

    @lego.kernel(grid=(1 << 16) // tile, block=block)
    def rounded(
        x: lego.Tensor(source, Row(1 << 16)),
        y4: lego.Tensor(f4e2m1fn, Row(1 << 16)),
        y6: lego.Tensor(f6e2m3fn, Row(1 << 16)),
        z6: lego.Tensor(f6e3m2fn, Row(1 << 16)),
    ):
        at = (tile * lego.block_id[0],)
        given = lego.load(x, layout, at=at)
        for y, dtype in ((y4, f4e2m1fn), (y6, f6e2m3fn), (z6, f6e3m2fn)):
            given.to(dtype).store(y, at=at)

    samples = np.arange(1 << 16, dtype=np.uint16).view(source.numpy)
    single = samples.astype(np.float32)
    wanted = []
    for dtype in PAIRS:
        with np.errstate(invalid="ignore", over="ignore"):
            codes = single.astype(HOST[dtype]).view(np.uint8)
        wanted.append(packed(np.where(np.isnan(single), (1 << dtype.bits - 1) - 1, codes), dtype.bits))
    texts = {target: compile_kernel((rounded,), target=target).text for target in ("sm_90a", "sm_120a")}
    assert texts["sm_120a"].count("cvt.rn.satfinite.e2m1x2.f32") == tile // block // 2  # two at a time
    for target in (None, *texts):
        found = [np.zeros_like(bytes_) for bytes_ in wanted]
        if target is None:
            compile_kernels(rounded.mlir())[rounded.name]([samples, *found], grid=(16,))
        else:
            assert emulate(texts[target], grid=16, block=block, args=[samples, *found]).clean
        for got, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


@TYPES
def test_a_tile_is_loaded_converted_and_stored(dtype):
    rows, columns = 20, 64
    layout = f2.Blocked((1, 8), (4, 8), (4, 1), order=(1, 0)).layout((16, columns))

    @lego.kernel(grid=2, block=128)
    def tiles(
        x: lego.Tensor(dtype, Row(rows, columns)),
        y: lego.Tensor(f32, Row(rows, columns)),
        z: lego.Tensor(dtype, Row(rows, columns)),
    ):
        at = (16 * lego.block_id[0], 0)
        tile = lego.load(x, layout, at=at)
        turned = f2.Blocked((1, 4), (2, 16), (4, 1), order=(1, 0)).layout((16, columns))
        lego.convert(tile, to=turned).to(f32).store(y, at=at)
        tile.store(z, at=at)

    codes = all_codes(dtype, rows, columns)
    held, y = packed(codes, dtype.bits), np.zeros((rows, columns), np.float32)
    z = np.zeros_like(held)
    given = [held.reshape(-1), y.reshape(-1), z.reshape(-1)]
    assert interp.launch(tiles.mlir(), grid=2, block=128, args=given).clean
    np.testing.assert_array_equal(y, numbers(dtype, codes))
    np.testing.assert_array_equal(z, held)


def test_ptx_and_the_cpu_compute_the_same_as_the_interpreter():
    M, N = lego.size("M", min=1), lego.size("N", min=16, multiple_of=16)

    @lego.kernel(grid=(lego.cdiv(N, 256), M), block=16)
    def requantised(
        x: lego.Tensor(u4, Row(M, N)),
        s: lego.Tensor(f8e8m0fnu, Row(M, N // 16)),
        y: lego.Tensor(f16, Row(M, N)),
        z: lego.Tensor(f4e2m1fn, Row(M, N)),
        w: lego.Tensor(f6e2m3fn, Row(M, N)),
    ):
        i, k = lego.block_id[1], 16 * lego.block_id[0] + lego.thread_id[0]
        with lego.when(k < N // 16):
            x16 = x.load(i, 16 * k, width=16).to(f16)
            scale = s[i, k].to(f32)
            y.store(lego.vector(*(x16[lane] for lane in range(8))), i, 16 * k, cache="streaming")
            y.store(lego.vector(*(x16[lane] for lane in range(8, 16))), i, 16 * k + 8)
            small = lego.vector(*(x16[lane].to(f32) * scale for lane in range(16)))
            z.store(small.to(f4e2m1fn), i, 16 * k)
            w.store(small.to(f6e2m3fn), i, 16 * k)

    rows, columns = 3, 48
    codes = all_codes(u4, rows, columns)
    scales = np.random.default_rng(2).integers(120, 130, (rows, columns // 16)).astype(np.uint8)
    x = packed(codes, 4)

    def memory():
        sizes = (rows * columns * n // 8 for n in (4, 6))
        return [np.zeros(rows * columns, np.float16), *(np.zeros(size, np.uint8) for size in sizes)]

    results = memory(), memory()
    given = [x.reshape(-1), scales.reshape(-1)]
    assert interp.launch(requantised.mlir(), grid=(1, rows), block=16, args=[*given, *results[0], rows, columns]).clean
    text = compile_kernel((requantised,), target="sm_90a").text
    assert "cvt.rn.f16.u" not in text, "codes are converted by patterns"
    emulate(text, grid=(1, rows), block=16, args=[*given, *results[1], rows, columns])
    on_cpu = requantised(x, scales)
    for a, b, c in zip(*results, on_cpu, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, np.asarray(c).reshape(-1))
    exact = (codes * np.repeat(2.0 ** (scales.astype(int) - 127), 16, axis=1)).astype(np.float32)
    wanted = exact.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    np.testing.assert_array_equal(results[0][1], packed(wanted, 4).reshape(-1))


def test_two_threads_on_one_byte_are_a_race():
    @lego.kernel(grid=1, block=64)
    def each(y: lego.Tensor(u4, Row(64))):
        y[lego.thread_id[0]] = lego.u4(3)

    @lego.kernel(grid=1, block=32)
    def pairs(y: lego.Tensor(u4, Row(64))):
        t = lego.thread_id[0]
        y[2 * t], y[2 * t + 1] = lego.u4(t), lego.u4(5)

    verdicts = {k.name: [type(v).__name__ for _, v in kernel_claims(k)] for k in (each, pairs)}
    assert "Refuted" in verdicts["each"]
    assert set(verdicts["pairs"]) == {"Proved"}
    y = np.zeros(32, np.uint8)
    assert not interp.launch(each.mlir(), grid=1, block=64, args=[y]).clean
    assert interp.launch(pairs.mlir(), grid=1, block=32, args=[y]).clean
    np.testing.assert_array_equal(y, packed(np.stack([np.arange(32) % 16, np.full(32, 5)], 1).reshape(-1), 4))


def test_shared_tiles_columns_and_swizzles_of_packed_numbers():
    @lego.kernel(grid=1, block=32)
    def through(x: lego.Tensor(i4, Col(16, 64)), y: lego.Tensor(i4, gallery.xor_swizzle(16, 64, 8))):
        tile, t = lego.shared(i4, Row(16, 64)), lego.thread_id[0]
        left, right = (x.T.load(j, 0, width=16) for j in (2 * t, 2 * t + 1))
        for i in range(16):
            tile.store(lego.vector(left[i], right[i]), i, 2 * t)
        lego.barrier()
        for i in lego.unroll(0, 16, 4):
            y.store(tile.load(i + t // 8, 8 * (t % 8), width=8), i + t // 8, 8 * (t % 8))

    codes = np.random.default_rng(0).integers(0, 16, (16, 64)).astype(np.uint8)
    x, y = packed(codes.T, 4), np.zeros(512, np.uint8)
    assert interp.launch(through.mlir(), grid=1, block=32, args=[x.reshape(-1), y]).clean
    placed = np.zeros(1024, np.uint8)
    index = np.indices((16, 64))
    placed[gallery.xor_swizzle(16, 64, 8).apply(*index)] = codes
    np.testing.assert_array_equal(y, packed(placed, 4))


def high_first(rows, columns):
    """The first number of a byte in its high half, as bitsandbytes has it."""
    pairs = GenP([2], lambda i: 1 - i, lambda p: 1 - p)
    return OrderBy(Row(rows * columns // 2), pairs).GroupBy([rows, columns])


def awq(rows, columns):
    """Columns 0 2 4 6 1 3 5 7 of a word, as AWQ has them."""
    return OrderBy(RegP([rows, columns // 8, 4, 2], [1, 2, 4, 3])).GroupBy([rows, columns])


@pytest.mark.parametrize(("layout", "slots"), [(high_first, (1, 0)), (awq, (0, 4, 1, 5, 2, 6, 3, 7))])
def test_numbers_in_another_order_within_bytes_and_words(layout, slots):
    placed = layout(3, 32)

    @lego.kernel(grid=3, block=4)
    def ordered(x: lego.Tensor(u4, placed), y: lego.Tensor(f16, Row(3, 32)), z: lego.Tensor(u4, placed)):
        i, j = lego.block_id[0], lego.thread_id[0] * 8
        numbers = x.load(i, j, width=8)
        z.store(numbers, i, j)
        for k in range(8):
            y[i, j + k] = numbers[k].to(f16) + 16.0 * x[i, j + k].to(f16)

    assert lego.Tensor(u4, placed).layout.slots == slots
    codes = all_codes(u4, 3, 32)
    memory = np.zeros(96, np.uint8)
    memory[np.asarray(placed.apply(*np.indices((3, 32)))).reshape(-1)] = codes.reshape(-1)
    x, y, z = packed(memory, 4), np.zeros((3, 32), np.float16), np.zeros(48, np.uint8)
    assert interp.launch(ordered.mlir(), grid=3, block=4, args=[x, y.reshape(-1), z]).clean
    np.testing.assert_array_equal(y, 17.0 * codes)
    np.testing.assert_array_equal(z, x)


def test_a_transposed_view_is_loaded_in_words():
    @lego.kernel(grid=1, block=8)
    def turned(x: lego.Tensor(i4, Row(8, 64)), y: lego.Tensor(f16, Row(8, 64))):
        t = lego.thread_id[0]
        for k in range(0, 64, 32):
            numbers = x.T.load(k, t, width=None).to(f16)
            for lane in range(32):
                y[t, k + lane] = numbers[lane]

    loads = [s.access.width for s in turned.trace().statements() if isinstance(s, Load)]
    assert loads == [16, 16]
    codes = all_codes(i4, 8, 64)
    y = np.zeros((8, 64), np.float16)
    assert interp.launch(turned.mlir(), grid=1, block=8, args=[packed(codes, 4).reshape(-1), y.reshape(-1)]).clean
    np.testing.assert_array_equal(y, numbers(i4, codes))


def bits_of(bitcast_to, width, given=u32, count=8):
    @lego.kernel(grid=1, block=count // width)
    def cast(x: lego.Tensor(given, Row(count)), y: lego.Tensor(bitcast_to, Row(count * given.bits // bitcast_to.bits))):
        t = lego.thread_id[0]
        made = lego.bitcast(x.load(width * t, width=width), bitcast_to)
        y.store(made, (made.width or 1) * t)

    return cast


@pytest.mark.parametrize(
    ("dtype", "width"), [(f32, 1), (f32, 4), (f16, 1), (u8, 2), (f64, 2), (u4, 1), (i32, 2)], ids=str
)
def test_bits_are_those_of_memory(dtype, width):
    x = np.random.default_rng(0).integers(0, 1 << 32, 8, dtype=np.uint32)
    y = np.zeros(32, np.uint8).view(dtype.numpy)
    assert interp.launch(bits_of(dtype, width).mlir(), grid=1, block=8 // width, args=[x, y]).clean
    np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))


def test_bits_of_a_tile_and_of_packed_numbers():
    layout = f2.Blocked((1, 4), (1, 32), (4, 1), order=(1, 0)).layout((4, 128))

    @lego.kernel(grid=1, block=128)
    def parts(x: lego.Tensor(f32, Row(4, 128)), y: lego.Tensor(f32, Row(4, 128)), z: lego.Tensor(u8, Row(16))):
        tile = lego.bitcast(lego.load(x, layout), u32)
        lego.bitcast(tile & 0x7FFFFFFF, f32).store(y)
        with lego.when(lego.thread_id[0] < 1):
            z.store(lego.bitcast(lego.vector(*range(-8, 0), *(lego.i32(k) for k in range(8))).to(i4), u8), 0)

    x, y, z = np.linspace(-2, 2, 512, dtype=np.float32), np.zeros(512, np.float32), np.zeros(16, np.uint8)
    assert interp.launch(parts.mlir(), grid=1, block=128, args=[x, y, z]).clean
    np.testing.assert_array_equal(y, np.abs(x))
    np.testing.assert_array_equal(z[:8], packed(np.arange(-8, 8).astype(np.uint8) & 15, 4))


def refused(body, dtype=u4, layout=None, block=32):
    @lego.kernel(grid=1, block=block)
    def wrong(x: lego.Tensor(dtype, layout or Row(4, 256)), y: lego.Tensor(f32, Row(4, 256))):
        body(x, y)

    with pytest.raises(LegoError) as error:
        wrong.trace()
    return str(error.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x, y: x.load(0, lego.thread_id[0], width=2), "begin at a multiple of 2 along axis 1"),
        (lambda x, y: x.load(0, 0, width=3), "do not fill whole bytes; a vector has 2, 4, 8"),
        (lambda x, y: x.store(lego.i4(1), 0, 0), "has numbers of u4"),
        (lambda x, y: x[0, 0][1], "has no element 1"),
        (lambda x, y: lego.bitcast(lego.f64(1.0), lego.i1), "a type with a pattern of bits"),
        (lambda x, y: lego.bitcast(1, u32), "takes data of a kernel"),
        (lambda x, y: lego.bitcast(x.load(0, 0, width=2), f32), "has 8 bits"),
        (lambda x, y: lego.u4(lego.f64(1.0)).to(f32), "an f64 is not converted to u4"),
        (lambda x, y: bool(x[0, 0] == 1), "not known while tracing"),
    ],
)
def test_refusals_name_the_remedy(body, message):
    assert message in refused(body)


def test_six_bits_are_stored_in_fours_and_layouts_must_fill_bytes():
    assert "store vectors of 4" in refused(lambda x, y: x.store(f6e2m3fn(1.0), 0, 0), f6e2m3fn)
    layout = f2.Blocked((1, 1), (1, 32), (4, 1), order=(1, 0)).layout((4, 256))
    assert "hold parts of a byte" in refused(lambda x, y: lego.load(x, layout).store(x), block=128)
    tile = f2.Blocked((1, 4), (1, 32), (4, 1), order=(1, 0)).layout((4, 256))
    assert "keeps its shape" in refused(lambda x, y: lego.bitcast(lego.load(y, tile), f16), block=128)
    for layout in (gallery.antidiagonal(4), Row(4, 3), Row(lego.size("M"), lego.size("N"))):
        with pytest.raises(LayoutError, match="elements fill 1 bytes"):
            lego.Tensor(u4, layout)
    with pytest.raises(LegoError, match="leave out range"):
        lego.Tensor(u4, Row(4, 4), range=(0, 3))
