"""Each scalar operation against NumPy, on random and on extreme operands, all lanes at once."""

import math

import ml_dtypes
import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import Kind

LANES = 128
TYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def operands(type_: str, count: int, seed: int = 0) -> list[np.ndarray]:
    """Random values, the extremes among them."""
    rng, dtype = np.random.default_rng(seed), np.dtype(TYPES[type_])
    found = []
    for _ in range(count):
        if dtype.kind in "i":
            info = np.iinfo(dtype)
            array = rng.integers(info.min, info.max, LANES, dtype=dtype, endpoint=True)
            array[:6] = rng.permutation(np.array([0, 1, -1, info.min, info.max, 7], dtype))
        elif dtype.kind == "b":
            array = rng.integers(0, 2, LANES).astype(bool)
        else:
            array = (rng.standard_normal(LANES) * 8).astype(dtype)
            if type_ != "f8E4M3FN":
                array[:6] = rng.permutation(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0])).astype(dtype)
        found.append(array)
    return found


def run(expression: str, inputs: dict[str, np.ndarray], types: dict[str, str], result: str) -> tuple[np.ndarray, set]:
    """`%r = expression` for each lane, with %name the lane's element of the input of that name."""
    arguments = ", ".join(f"%m{n}: memref<{LANES}x{types[n]}>" for n in inputs)
    loads = "\n".join(f"%{n} = memref.load %m{n}[%t] : memref<{LANES}x{types[n]}>" for n in inputs)
    text = f"""gpu.module @m {{ gpu.func @k({arguments}, %out: memref<{LANES}x{result}>) kernel {{
        %t = gpu.thread_id x
        {loads}
        %r = {expression}
        memref.store %r, %out[%t] : memref<{LANES}x{result}>
        gpu.return }} }}"""
    out = np.zeros(LANES, TYPES[result])
    report = interp.launch(text, grid=1, block=LANES, args=[*inputs.values(), out])
    return out, report.kinds()


def assert_same(found: np.ndarray, expected: np.ndarray, where: np.ndarray | None = None) -> None:
    where = np.ones(found.shape, bool) if where is None else where
    wide = np.float64 if found.dtype.kind not in "iub" else found.dtype
    np.testing.assert_array_equal(
        found[where].astype(wide), np.asarray(expected).astype(found.dtype)[where].astype(wide)
    )


def binary(operation: str, type_: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, set]:
    a, b = operands(type_, 2, seed)
    found, kinds = run(f"{operation} %a, %b : {type_}", {"a": a, "b": b}, {"a": type_, "b": type_}, type_)
    return a, b, found, kinds


INTEGER = {
    "arith.addi": lambda a, b, bits: a + b,
    "arith.subi": lambda a, b, bits: a - b,
    "arith.muli": lambda a, b, bits: a * b,
    "arith.andi": lambda a, b, bits: a & b,
    "arith.ori": lambda a, b, bits: a | b,
    "arith.xori": lambda a, b, bits: a ^ b,
    "arith.maxsi": lambda a, b, bits: max(a, b),
    "arith.minsi": lambda a, b, bits: min(a, b),
    "arith.maxui": lambda a, b, bits: max(a % 2**bits, b % 2**bits),
    "arith.minui": lambda a, b, bits: min(a % 2**bits, b % 2**bits),
}


def wrap(value: int, bits: int) -> int:
    value %= 2**bits
    return value - 2**bits if value >= 2 ** (bits - 1) else value


@pytest.mark.parametrize("type_", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("operation", INTEGER)
def test_integers_wrap(operation: str, type_: str):
    bits = int(type_[1:])
    a, b, found, kinds = binary(operation, type_)
    assert not kinds
    assert found.tolist() == [wrap(INTEGER[operation](int(x), int(y), bits), bits) for x, y in zip(a, b, strict=True)]


DIVISION = {
    "divs": lambda a, b, n: int(math.copysign(abs(a) // abs(b), a) * math.copysign(1, b)) if a else 0,
    "rems": lambda a, b, n: int(math.copysign(abs(a) % abs(b), a)) if a else 0,
    "floordivs": lambda a, b, n: a // b,
    "ceildivs": lambda a, b, n: -(-a // b),
    "divu": lambda a, b, n: (a % 2**n) // (b % 2**n),
    "remu": lambda a, b, n: (a % 2**n) % (b % 2**n),
    "ceildivu": lambda a, b, n: -(-(a % 2**n) // (b % 2**n)),
}


@pytest.mark.parametrize("dialect", ["arith", "index"])
@pytest.mark.parametrize("operation", DIVISION)
def test_division_is_rounded_as_it_is_named(operation: str, dialect: str):
    type_, bits = ("i32", 32) if dialect == "arith" else ("index", 64)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-100, 100, LANES), rng.integers(-9, 9, LANES)
    b[b == 0] = 5
    a, b = a.astype(TYPES[type_]), b.astype(TYPES[type_])
    suffix = "i" if dialect == "arith" else ""
    text = f"{dialect}.{operation}{suffix} %a, %b" + (f" : {type_}" if dialect == "arith" else "")
    found, kinds = run(text, {"a": a, "b": b}, {"a": type_, "b": type_}, type_)
    assert not kinds
    expected = [wrap(DIVISION[operation](int(x), int(y), bits), bits) for x, y in zip(a, b, strict=True)]
    assert found.tolist() == expected


@pytest.mark.parametrize("operation", ["arith.shli", "arith.shrsi", "arith.shrui"])
def test_shifts(operation: str):
    (a,) = operands("i32", 1)
    b = np.arange(LANES, dtype=np.int32) % 32
    found, _ = run(f"{operation} %a, %b : i32", {"a": a, "b": b}, {"a": "i32", "b": "i32"}, "i32")
    shift = {
        "arith.shli": lambda x, n: x << n,
        "arith.shrsi": lambda x, n: x >> n,
        "arith.shrui": lambda x, n: (x % 2**32) >> n,
    }[operation]
    assert found.tolist() == [wrap(shift(int(x), int(n)), 32) for x, n in zip(a, b, strict=True)]


@pytest.mark.parametrize("type_", ["i1", "i8", "i32"])
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_compare_integers(predicate: str, type_: str):
    a, b = operands(type_, 2)
    b[::3] = a[::3]
    found, _ = run(f"arith.cmpi {predicate}, %a, %b : {type_}", {"a": a, "b": b}, {"a": type_, "b": type_}, "i1")
    bits = int(type_[1:])
    view = (lambda x: int(x) % 2**bits) if predicate[0] == "u" else (lambda x: wrap(int(x), bits))
    compare = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
    method = compare[predicate if predicate in compare else predicate[1:]]
    assert found.tolist() == [getattr(view(x), method)(view(y)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(
    "predicate", ["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"]
)
def test_compare_floats_knows_unordered(predicate: str):
    a, b = operands("f32", 2)
    b[::3] = a[::3]
    found, _ = run(f"arith.cmpf {predicate}, %a, %b : f32", {"a": a, "b": b}, {"a": "f32", "b": "f32"}, "i1")
    unordered = np.isnan(a) | np.isnan(b)
    plain = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": (a != b) & ~unordered}
    special = {"ord": ~unordered, "uno": unordered}
    expected = special.get(predicate)
    if expected is None:
        expected = plain[predicate[1:]] if predicate[0] == "o" else plain[predicate[1:]] | unordered
    assert_same(found, expected)


FLOATING = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("operation", FLOATING)
def test_floats_round_once(operation: str, type_: str):
    a, b, found, _ = binary(operation, type_)
    wide = FLOATING[operation](a.astype(np.float64), b.astype(np.float64))
    if type_ == "bf16":
        wide = wide.astype(np.float32)
    assert_same(found, wide.astype(TYPES[type_]))


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("operation", ["minimumf", "minnumf", "maximumf", "maxnumf"])
def test_minimum_and_maximum_order_the_zeros(operation: str, type_: str):
    """Many lanes at once: NumPy's own choice depends on the instructions that it uses."""
    a = np.resize([0.0, -0.0, 0.0, -0.0], LANES).astype(TYPES[type_])
    b = np.resize([-0.0, 0.0, 0.0, -0.0], LANES).astype(TYPES[type_])
    text = f"arith.{operation} %a, %b : {type_}"
    found, _ = run(text, {"a": a, "b": b}, {"a": type_, "b": type_}, type_)
    negative = [True, True, False, True] if operation.startswith("min") else [False, False, False, True]
    assert np.signbit(found).tolist() == np.resize(negative, LANES).tolist()


def exact_fma(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    return float(Fraction(a) * Fraction(b) + Fraction(c))


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_fma_rounds_once_where_two_roundings_differ(type_: str):
    rng, dtype = np.random.default_rng(3), np.dtype(TYPES[type_])
    a, b = (rng.standard_normal(LANES).astype(dtype) for _ in range(2))
    c = -(a.astype(np.float64) * b.astype(np.float64)).astype(dtype) + (rng.standard_normal(LANES) * 1e-3).astype(dtype)
    found, _ = run("math.fma %a, %b, %c : " + type_, {"a": a, "b": b, "c": c}, dict.fromkeys("abc", type_), type_)
    # Python rounds the exact rational to f64 once; from there to a narrower type nothing here is near a tie.
    expected = [exact_fma(float(x), float(y), float(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert_same(found, np.array(expected).astype(dtype))
    twice = (a * b + c).astype(dtype)
    assert (twice != found).any()


def test_fma_next_to_a_tie():
    """(1 + 2^-23) + 2^-24 (1 - 2^-46) is just below a tie of f32; rounded to f64 first it would be the tie."""
    x = np.float32(2.0**-23)
    a = np.full(LANES, np.float32(2.0**-12) * (1 + x), np.float32)
    b = np.full(LANES, np.float32(2.0**-12) * (1 - x), np.float32)
    c = np.full(LANES, 1 + x, np.float32)
    found, _ = run("math.fma %a, %b, %c : f32", {"a": a, "b": b, "c": c}, dict.fromkeys("abc", "f32"), "f32")
    assert (found == 1 + x).all()
    assert np.float32(float(a[0]) * float(b[0]) + float(c[0])) == 1 + 2 * x


INDEX = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "maxs": np.maximum,
    "mins": np.minimum,
    "maxu": lambda a, b: np.maximum(a.view(np.uint64), b.view(np.uint64)).view(np.int64),
    "minu": lambda a, b: np.minimum(a.view(np.uint64), b.view(np.uint64)).view(np.int64),
    "shl": lambda a, b: a << b,
    "shrs": lambda a, b: a >> b,
    "shru": lambda a, b: (a.view(np.uint64) >> b.view(np.uint64)).view(np.int64),
}


@pytest.mark.parametrize("operation", INDEX)
def test_index_arithmetic(operation: str):
    a, b = operands("index", 2)
    if operation.startswith("sh"):
        b = np.abs(b) % 64
    found, _ = run(f"index.{operation} %a, %b", {"a": a, "b": b}, {"a": "index", "b": "index"}, "index")
    assert_same(found, INDEX[operation](a, b))


@pytest.mark.parametrize("predicate", ["eq", "slt", "uge"])
def test_index_compare(predicate: str):
    a, b = operands("index", 2)
    b[::3] = a[::3]
    found, _ = run(f"index.cmp {predicate}(%a, %b)", {"a": a, "b": b}, {"a": "index", "b": "index"}, "i1")
    expected = {"eq": a == b, "slt": a < b, "uge": a.view(np.uint64) >= b.view(np.uint64)}[predicate]
    assert_same(found, expected)


def test_f8_saturates_and_keeps_nan():
    a = np.zeros(LANES, np.float32)
    a[:8] = [1000.0, -1000.0, np.inf, np.nan, 0.3, 464.0, 1e-9, 448.0]
    for type_, limit in (("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)):
        a[0], a[1] = 10 * limit, -10 * limit
        found, _ = run(f"arith.truncf %a : f32 to {type_}", {"a": a}, {"a": "f32"}, type_)
        back = found.astype(np.float32)
        assert (back[0], back[1], back[2]) == (limit, -limit, limit)
        assert np.isnan(back[3])
        assert back[4] == np.float32(0.3).astype(TYPES[type_]).astype(np.float32)


def test_truncation_from_f64_rounds_once():
    # 1 + 2^-8 + 2^-40 rounds up in bf16; through f32, which drops the last term, it would tie and round down.
    a = np.full(LANES, 1 + 2.0**-8 + 2.0**-40)
    found, _ = run("arith.truncf %a : f64 to bf16", {"a": a}, {"a": "f64"}, "bf16")
    assert float(found[0]) == 1 + 2.0**-7


CASTS = [
    ("arith.extsi %a : i8 to i32", "i8", "i32", lambda a: a.astype(np.int32)),
    ("arith.extui %a : i8 to i32", "i8", "i32", lambda a: a.view(np.uint8).astype(np.int32)),
    ("arith.extsi %a : i1 to i32", "i1", "i32", lambda a: -a.astype(np.int32)),
    ("arith.extui %a : i1 to i32", "i1", "i32", lambda a: a.astype(np.int32)),
    ("arith.trunci %a : i32 to i8", "i32", "i8", lambda a: a.astype(np.int8)),
    ("arith.trunci %a : i32 to i1", "i32", "i1", lambda a: (a & 1).astype(bool)),
    ("arith.index_cast %a : i32 to index", "i32", "index", lambda a: a.astype(np.int64)),
    ("arith.index_castui %a : i32 to index", "i32", "index", lambda a: a.view(np.uint32).astype(np.int64)),
    ("arith.index_cast %a : index to i32", "index", "i32", lambda a: a.astype(np.int32)),
    ("arith.sitofp %a : i32 to f32", "i32", "f32", lambda a: a.astype(np.float32)),
    ("arith.uitofp %a : i32 to f32", "i32", "f32", lambda a: a.view(np.uint32).astype(np.float32)),
    ("arith.sitofp %a : i1 to f32", "i1", "f32", lambda a: -a.astype(np.float32)),
    ("arith.extf %a : f16 to f32", "f16", "f32", lambda a: a.astype(np.float32)),
    ("arith.truncf %a : f32 to f16", "f32", "f16", lambda a: a.astype(np.float16)),
    ("arith.truncf %a : f32 to bf16", "f32", "bf16", lambda a: a.astype(ml_dtypes.bfloat16)),
    ("arith.bitcast %a : f32 to i32", "f32", "i32", lambda a: a.view(np.int32)),
    ("arith.negf %a : f32", "f32", "f32", lambda a: -a),
    ("math.absf %a : f32", "f32", "f32", np.abs),
    ("math.sqrt %a : f32", "f32", "f32", np.sqrt),
    ("math.exp2 %a : f32", "f32", "f32", np.exp2),
    ("math.tanh %a : f32", "f32", "f32", np.tanh),
    ("math.floor %a : f32", "f32", "f32", np.floor),
    ("math.roundeven %a : f32", "f32", "f32", np.rint),
    ("math.rsqrt %a : f32", "f32", "f32", lambda a: (1 / np.sqrt(a.astype(np.float64))).astype(np.float32)),
    ("math.erf %a : f32", "f32", "f32", lambda a: np.array([math.erf(x) for x in a], np.float32)),
    ("math.absi %a : i32", "i32", "i32", np.abs),
    ("math.ctpop %a : i32", "i32", "i32", lambda a: np.bitwise_count(a.view(np.uint32)).astype(np.int32)),
    ("math.ctlz %a : i32", "i32", "i32", lambda a: np.array([32 - int(x).bit_length() for x in a.view(np.uint32)])),
    ("math.cttz %a : i32", "i32", "i32",
     lambda a: np.array([32 if x == 0 else (int(x) & -int(x)).bit_length() - 1 for x in a.view(np.uint32)])),
    ("index.casts %a : i32 to index", "i32", "index", lambda a: a.astype(np.int64)),
    ("index.castu %a : i32 to index", "i32", "index", lambda a: a.view(np.uint32).astype(np.int64)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("text", "source", "target", "expected"), CASTS, ids=[c[0].split(" : ")[0] for c in CASTS])
def test_unary(text: str, source: str, target: str, expected):
    (a,) = operands(source, 1)
    found, kinds = run(text, {"a": a}, {"a": source}, target)
    assert not kinds
    assert_same(found, expected(a))


def test_float_to_integer_truncates_and_saturates():
    a = np.zeros(LANES, np.float32)
    a[:6] = [2.9, -2.9, 1e20, -1e20, np.nan, np.inf]
    found, _ = run("arith.fptosi %a : f32 to i32", {"a": a}, {"a": "f32"}, "i32")
    assert found[:6].tolist() == [2, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    found, _ = run("arith.fptoui %a : f32 to i8", {"a": a}, {"a": "f32"}, "i8")
    assert found[:3].view(np.uint8).tolist() == [2, 0, 255]


def test_select():
    a, b = operands("i32", 2)
    (c,) = operands("i1", 1)
    names = {"a": "i32", "b": "i32", "c": "i1"}
    found, _ = run("arith.select %c, %a, %b : i32", {"a": a, "b": b, "c": c}, names, "i32")
    assert_same(found, np.where(c, a, b))


def test_mulsi_extended():
    a, b = operands("i32", 2)
    text = f"""gpu.module @m {{ gpu.func @k(%ma: memref<{LANES}xi32>, %mb: memref<{LANES}xi32>) kernel {{
        %t = gpu.thread_id x
        %a = memref.load %ma[%t] : memref<{LANES}xi32>
        %b = memref.load %mb[%t] : memref<{LANES}xi32>
        %low, %high = arith.mulsi_extended %a, %b : i32
        memref.store %low, %ma[%t] : memref<{LANES}xi32>
        memref.store %high, %mb[%t] : memref<{LANES}xi32>
        gpu.return }} }}"""
    low, high = a.copy(), b.copy()
    interp.launch(text, grid=1, block=LANES, args=[low, high])
    exact = a.astype(np.int64) * b.astype(np.int64)
    assert np.array_equal(low, exact.astype(np.int32))
    assert np.array_equal(high, (exact >> 32).astype(np.int32))


def test_an_unsupported_operation_is_named_with_its_location():
    text = """gpu.module @m { gpu.func @k(%x: f32) kernel {
      %c = complex.create %x, %x : complex<f32>
      gpu.return } }"""
    with pytest.raises(InterpreterError, match=r"-:2: the interpreter does not support the operation complex.create"):
        interp.launch(text, grid=1, block=1, args=[1.0])


def test_division_by_zero_is_reported():
    a = np.ones(LANES, np.int32)
    b = np.ones(LANES, np.int32)
    b[5] = 0
    _, kinds = run("arith.divsi %a, %b : i32", {"a": a, "b": b}, {"a": "i32", "b": "i32"}, "i32")
    assert kinds == {Kind.UNDEFINED}
