"""Constants arrive: the bits of a kernel are those in LLVM's module, in the object and in the PTX."""

import re
import struct

import ml_dtypes
import numpy as np
import pytest
from assembling import needs_ptxas

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import DependencyError
from lego_mlir.hardware.isa import ISAS
from lego_mlir.runtime import cpu
from lego_mlir.toolchain import compile_kernel, exchange, literals, llvm
from lego_mlir.transforms import modules

SEED = 11
WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
LLVM_NAMES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def classes(kind):
    """Bit patterns of every class: both zeros, denormals, normals at both ends, infinities, NaNs of both kinds with
    the smallest, largest and single-bit payloads."""
    row = literals.TYPES[LLVM_NAMES[kind]]
    sign, infinity, quiet = 1 << (row.bits - 1), row.infinity, row.quiet
    one = ((1 << (row.exponent - 1)) - 1) << row.significand
    least_normal = 1 << row.significand
    positive = [
        0,
        1,
        2,
        least_normal - 1,
        least_normal,
        least_normal + 1,
        one - 1,
        one,
        one + 1,
        infinity - 1,
        infinity,
    ]
    positive += [infinity + 1, infinity + quiet - 1, infinity + quiet, infinity + quiet + 1, sign - 1]
    positive += [infinity + (1 << bit) for bit in range(row.significand)]
    return [number | negative for number in positive for negative in (0, sign)]


def patterns(kind, count=4096):
    width = WIDTHS[kind]
    if width == 16:
        return list(range(1 << 16))
    random = np.random.default_rng(SEED).integers(0, 1 << 64, count, np.uint64, endpoint=False) >> np.uint64(64 - width)
    decimals = [0.1, 0.3, 1 / 3, 2**0.5, np.pi, 1e-3, 65504.0, 1e30, 1.5, 3.0]
    numbers = np.array(decimals, f"float{width}").view(f"uint{width}")
    return [*classes(kind), *map(int, random), *map(int, numbers)]


def kernel(kind, body):
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%p: memref<?x{kind}>) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
        %i = gpu.thread_id x
        {body}
        gpu.return
      }} }} }}"""


def through_llvmlite(kind, bits):
    """The object code that llvmlite makes of a global array with these constants."""
    count, elements = len(bits), ", ".join(f"0x{b:0{WIDTHS[kind] // 4}X}" for b in bits)
    text = f"llvm.mlir.global @each(dense<[{elements}]> : tensor<{count}x{kind}>) : !llvm.array<{count} x {kind}>"
    return cpu.object_code(text, ISAS["sse2"])


@pytest.mark.parametrize("kind", WIDTHS)
def test_every_kind_of_constant_reaches_llvmlite_with_its_bits(kind):
    bits = patterns(kind)
    assert np.array(bits, f"uint{WIDTHS[kind]}").tobytes() in through_llvmlite(kind, bits)


@pytest.mark.parametrize("kind", WIDTHS)
def test_ptx_holds_the_bits_of_constants_and_splats(kind):
    width, bits = WIDTHS[kind], sorted({*classes(kind), *patterns(kind)[-10:]})
    body = [f"%c{i} = arith.constant 0x{b:0{width // 4}X} : {kind}" for i, b in enumerate(bits)]
    body += [f"%j{i} = arith.constant {i} : index" for i in range(len(bits) + 2)]
    body += [f"memref.store %c{i}, %p[%j{i}] : memref<?x{kind}>" for i in range(len(bits))]
    body += [f"%splat = arith.constant dense<0x{bits[-1]:0{width // 4}X}> : vector<2x{kind}>"]
    body += [f"vector.store %splat, %p[%j{len(bits)}] : memref<?x{kind}>, vector<2x{kind}>"]
    ptx = compile_kernel(kernel(kind, "\n".join(body)), emit="ptx").text
    stores = re.findall(rf"st\.global\.b{width} \t?\[%rd\d+(?:\+(\d+))?\], (-?\w+);", ptx)
    found = {int(offset or 0) // (width // 8): int(number, 0) % (1 << width) for offset, number in stores}
    assert [found[i] for i in range(len(bits) + 2)] == [*bits, bits[-1], bits[-1]]


@lego.kernel(grid=1, block=64)
def _scaled(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    t = lego.thread_id[0]
    y[t] = x[t] * 0.1


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_kernel_with_a_tenth_compiles(target):
    assert "0f3DCCCCCD" in compile_kernel(_scaled.mlir(), emit="ptx", target=target).text
    compile_kernel(_scaled.mlir(), emit="cubin", target=target)


@pytest.mark.parametrize("kind", WIDTHS)
def test_constants_in_every_position_of_an_instruction(kind):
    """Operands that stand apart from their type, loops' first values (phi), calls, vectors, conversions."""
    body = f"""%zero = arith.constant 0 : index
        %ten = arith.constant 10 : index
        %one = arith.constant 1 : index
        %tenth = arith.constant 0.1 : {kind}
        %third = arith.constant 0.3333333333333333 : {kind}
        %tenths = arith.constant dense<0.1> : vector<4x{kind}>
        %mixed = arith.constant dense<[0.1, 0.2, 0.3, 1.0]> : vector<4x{kind}>
        %x = memref.load %p[%i] : memref<?x{kind}>
        %a = arith.mulf %x, %tenth : {kind}
        %b = arith.divf %third, %a : {kind}
        %positive = arith.cmpf ogt, %b, %tenth : {kind}
        %c = arith.select %positive, %third, %b : {kind}
        %d = scf.for %j = %zero to %ten step %one iter_args(%s = %tenth) -> ({kind}) {{
          %y = memref.load %p[%j] : memref<?x{kind}>
          %t = math.fma %s, %third, %y : {kind}
          scf.yield %t : {kind}
        }}
        %e = arith.addf %c, %d : {kind}
        memref.store %e, %p[%i] : memref<?x{kind}>
        %v = vector.load %p[%i] : memref<?x{kind}>, vector<4x{kind}>
        %w = arith.mulf %v, %tenths : vector<4x{kind}>
        %u = arith.addf %w, %mixed : vector<4x{kind}>
        vector.store %u, %p[%i] : memref<?x{kind}>, vector<4x{kind}>"""
    compile_kernel(kernel(kind, body), emit="ptx", target="sm_90")


def test_a_literal_takes_the_type_before_it_and_nothing_else_changes():
    tenth = "0x3FB99999A0000000"
    for given, expected in {
        "%2 = phi float [ 1.000000e-01, %bb ], [ %1, %float ]": f"%2 = phi float [ {tenth}, %bb ], [ %1, %float ]",
        "%2 = fcmp ogt half %1, 9.997550e-02": "%2 = fcmp ogt half %1, 0xH2E66",
        "%2 = fadd float %double, f0x3FB504F3": "%2 = fadd float %double, 0x3FF6A09E60000000",
        "store { double, float } { double 1.000000e-01, float +inf }": "store { double, float } "
        "{ double 1.000000e-01, float 0x7FF0000000000000 }",
        "ret double f0x3FF6A09E55C0FCB5 ; half 1.0e-01": "ret double 0x3FF6A09E55C0FCB5 ; half 1.0e-01",
        'call float @"half 1.0e-01"(float -qnan)': 'call float @"half 1.0e-01"(float 0xFFF8000000000000)',
        '@s = constant [9 x i8] c"float 0.1"': '@s = constant [9 x i8] c"float 0.1"',
        "!1 = !{float 2.500000e+00}": "!1 = !{float 2.500000e+00}",
        "ret half f0x3FB504F3": "ret half f0x3FB504F3",
        "ret float 1.000000e-99999": "ret float 1.000000e-99999",
    }.items():
        assert literals.portable(given) == expected
        assert literals.portable(expected) == expected


@pytest.mark.parametrize("kind", WIDTHS)
def test_decimals_are_rounded_once(kind):
    row = literals.TYPES[LLVM_NAMES[kind]]
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[kind]
    bits = np.array(patterns(kind), f"uint{WIDTHS[kind]}")[::17]
    numbers = bits.view(dtype)
    for pattern, number in zip(bits, numbers, strict=True):
        if np.isfinite(float(number)):
            assert row.nearest(f"{float(number):.25e}") == pattern
    # nearer to 1 + 2^-23 than the tie by less than a double holds: rounding to a double first would make it 1
    assert literals.TYPES["float"].nearest("1.00000005960464477539062500000001") == 0x3F800001
    assert literals.TYPES["float"].nearest("1.000000059604644775390625") == 0x3F800000
    assert row.nearest("1.0e9999") == row.infinity
    assert row.nearest("-1.0e-9999") == 1 << (row.bits - 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("0xH7C01", "0xH7E01"), r"half constants .*0xH7C01.* arrive as .*0xH7E01"),
        (lambda text: text.replace("float 0x3FB99999A0000000", "float f0x"), "float constants: .*"),
    ],
)
def test_versions_that_cannot_exchange_constants_are_named_with_the_remedy(monkeypatch, spoil, message):
    exchange._check_constants.cache_clear()
    monkeypatch.setattr(exchange, "_text", lambda operation, text=exchange._text: spoil(text(operation)))
    with pytest.raises(DependencyError, match=f"(?s){message}") as raised:
        compile_kernel(_scaled.mlir(), emit="llvm")
    for part in ("mlir", llvm.version(), llvm.llvm_version(), "pip install --upgrade torch-mlir llvmlite"):
        assert part in str(raised.value)
    exchange._check_constants.cache_clear()


def test_translation_needs_no_llvmlite(monkeypatch):
    monkeypatch.setattr(exchange.importlib.util, "find_spec", lambda name: None)
    with modules.session():
        module = modules.parse(
            "llvm.func @k() -> f32 { %0 = llvm.mlir.constant(0.1 : f32) : f32 llvm.return %0 : f32 }"
        )
        assert "ret float 0x3FB99999A0000000" in exchange.translate(module.operation)


def test_a_structured_kernel_holds_its_constants():
    text = """func.func @k(%x: memref<1xf64>) {
        %c0 = arith.constant 0 : index
        %c = arith.constant 0.1 : f64
        %f = arith.constant 0x7FA00001 : f32
        %v = memref.load %x[%c0] : memref<1xf64>
        %g = arith.truncf %v : f64 to f32
        %h = arith.mulf %g, %f : f32
        %w = arith.extf %h : f32 to f64
        %u = arith.mulf %w, %c : f64
        memref.store %u, %x[%c0] : memref<1xf64>
        return }"""
    read = str(llvm.parse(cpu.llvm_ir(text, ISAS["avx2"])))
    assert "0x7FF4000020000000" in read
    assert struct.pack("<d", 0.1) in cpu.object_code(text.replace("0x7FA00001", "0.3"), ISAS["avx2"])
