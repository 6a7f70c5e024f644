"""The C of a random program compiles without warnings and computes, bit by bit, what its MLIR does.

Both are compiled without fusing scalar multiplications and additions, which compilers may do or leave. A batch of
programs is one file of C and one module, so that the fixed cost of both compilers is shared.
"""

import ctypes
import random
import shutil
import subprocess

import numpy as np
import pytest
from random_programs import Draw

from lego_mlir.errors import UsageError
from lego_mlir.runtime import cpu
from lego_mlir.structured import build, c_text, reference
from lego_mlir.structured.function import Function
from lego_mlir.structured.syntax import LLError
from lego_mlir.structured.vector.generate import Variant

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
BATCH = 16  # programs
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-shared", "-fPIC")
NEEDED = {"scalar": None, "sse2": "sse2", "avx2": "avx2", "avx512": "avx512f"}


def drawn(target, seeds, count):
    """Sources of random programs in random variants that the target's registers hold."""
    found = []
    for seed in seeds:
        draw, rand = Draw(seed), random.Random(seed)
        dtype = rand.choice(["f8", "f4"])
        widest = build.row_of(target).lanes(build.ELEMENTS[np.dtype(dtype)])
        width = rand.choice([width for width in (1, 2, 4, 8, 16) if width <= widest])
        tiled = Variant(width, rand.randint(1, 8), rand.randint(1, 3), max(draw.sizes) > 9)
        variant = rand.choice([{"variant": "scalar"}, {"variant": tiled}, {}])
        if widest > 1 and max(draw.sizes) <= 8 and rand.random() < 0.5:
            variant = {"by_lanes": True}
        text = draw.text()
        try:
            source = text and build.source_of(text, dtype=dtype, name=f"k{seed}", target=target, **variant)
            found += [source] if source and source.mlir() else []
        except LLError:
            continue
        if len(found) == count:
            return found
    raise AssertionError("the seeds ran out")


def by_gcc(text, row, folder, *flags):
    """A library of C, compiled for an instruction set."""
    (folder / "k.c").write_text(text)
    march = [f"-march={row.cpu}"] if row.cpu else []
    command = ["gcc", *STRICT, *march, *flags, "k.c", "-o", "k.so", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "k.so"))


def compiled(sources, folder, *flags):
    """The functions of both paths: from C by gcc, and from MLIR."""
    row = sources[0].isa
    by_c = by_gcc("\n".join(source.c() for source in sources), row, folder, *flags)
    names = [source.name for source in sources]
    text = "\n".join(source.mlir().replace(" fastmath<contract>", "") for source in sources)
    by_mlir = cpu.load(cpu.assemble(text, names, "", row.cpu, row.features), names)
    for source in sources:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(source.program.operands))
        yield source, kind((source.name, by_c)), kind(by_mlir.address(source.name))


def agree(source, first, second):
    arrays = reference.sample(source.program, build.DTYPES[source.element])
    groups = {name: np.repeat(array.ravel(), source.lanes) for name, array in arrays.items()}
    results = []
    for function in (first, second):
        given = {name: array.copy() for name, array in groups.items()}
        function(*(given[operand.name].ctypes.data for operand in source.program.operands))
        results.append(given)
    for name, array in results[0].items():
        assert np.array_equal(array, results[1][name], equal_nan=True), f"{name} of {source.program}, {source.variant}"


@pytest.fixture(params=NEEDED)
def target(request):
    if NEEDED[request.param] and not cpu.host_features().get(NEEDED[request.param]):
        pytest.skip(f"this machine has no {NEEDED[request.param]}")
    return request.param


def test_c_and_mlir_agree(target, tmp_path):
    for source, by_c, by_mlir in compiled(drawn(target, range(10_000), BATCH), tmp_path, "-O1"):
        agree(source, by_c, by_mlir)


@pytest.mark.long
def test_c_and_mlir_agree_for_long(target, tmp_path):
    start = random.SystemRandom().randrange(10**9)
    for number in range(20):  # a library of one path is loaded only once
        first, folder = start + 10_000 * number, tmp_path / str(number)
        folder.mkdir()
        for source, by_c, by_mlir in compiled(drawn(target, range(first, first + 10_000), 25), folder, "-O2"):
            agree(source, by_c, by_mlir)


@pytest.mark.parametrize("element", ["f64", "f32"])
def test_lanes_go_where_they_are_sent(target, element, tmp_path):
    """Shuffles, selections, parts and masks of every width, against their definitions."""
    row, rand, dtype = build.row_of(target), random.Random(1), build.DTYPES[element]
    texts, wanted = [], []
    given = np.arange(1.0, 33.0, dtype=dtype)
    for number in range(60):
        width = rand.choice([2, 4, 8, 16])
        if width > row.lanes(element):
            continue
        a, b, expected = given[:width], given[width : 2 * width], np.zeros(width, dtype)
        f = Function(f"k{number}", element, [("x", 32), ("y", 16)])
        mask = [rand.random() < 0.6 for _ in range(width)]
        first, second = (f.load_vector("x", f.index(at), [True] * width) for at in (0, width))
        length = rand.choice([part for part in (1, 2, 4, 8) if part < width])
        start = rand.randrange(0, width, length)
        match rand.choice(["shuffle", "shuffle", "splat", "select", "load", "store", "parts", "lane"]):
            case "shuffle":
                lanes = [rand.randrange(2 * width) for _ in range(width)]
                made, expected = f.shuffle(first, second, lanes, width), np.concatenate([a, b])[lanes]
            case "splat":
                lanes = [start] * width
                made, expected = f.shuffle(first, first, lanes, width), a[lanes]
            case "select":
                made, expected = f.select(mask, first, second), np.where(mask, a, b)
            case "load":
                others = rand.choice([None, second])
                made = f.load_vector("x", f.index(0), mask, others)
                expected = np.where(mask, a, 0 if others is None else b)
            case "store":
                made, expected = f.constant(7.0, width), np.where(mask, 7, 0)
                f.store_vector("y", f.index(0), made, mask)
                made = f.load_vector("y", f.index(0), [True] * width)
            case "parts":
                part = (
                    f.op("extract", first, width=width, data=(start, length))
                    if length > 1
                    else f.load("x", f.index(start))
                )
                made = f.op("insert", part, second, width=width, data=(width - length, length))
                expected = np.concatenate([b[: width - length], a[start : start + length]])
            case "lane":
                made = f.broadcast(f.neg(f.lane(first, start, width)), width)
                expected = np.full(width, -a[start])
        f.store_vector("y", f.index(0), made, [True] * width)
        texts.append(c_text.text(f, target, ["y"]))
        wanted.append((f.name, width, expected))
    library = by_gcc("\n".join(texts), row, tmp_path)
    assert bool(texts) == (target != "scalar")
    for name, width, expected in wanted:
        found = np.zeros(16, dtype)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)((name, library))(given.ctypes.data, found.ctypes.data)
        assert np.array_equal(found[:width], expected), name
        assert not found[width:].any(), name


NAMES = ["int", "v0", "i3", "r5_0", "M_PI", "_", "sqrt", "row", "k_tile0", "k"]


def test_operands_of_any_name_and_what_is_never_read(tmp_path):
    declared = "".join(f"{name} = Matrix(33, 33); " for name in NAMES)
    text = f"{declared} Z = Zero(33, 33); {NAMES[0]} = {NAMES[1]}*{NAMES[2]} + Z*{NAMES[3]} + 1e300*{NAMES[4]};"
    for dtype in ("f8", "f4"):
        for variant in ("scalar", Variant(4, 4, 2, True)):
            source = build.source_of(text, dtype=dtype, name="k", target="avx2", variant=variant)
            by_gcc(source.c(), source.isa, tmp_path)


def test_targets_without_intrinsics_get_plain_c(tmp_path):
    text = "A = Matrix(9, 9); L = LowerTriangular(9); A = L \\ A;"
    source = build.source_of(text, target="neon", name="k")
    assert "intrin" not in source.c()
    by_gcc(source.c(), build.row_of("scalar"), tmp_path)
    with pytest.raises(
        UsageError, match="C with intrinsics is for sse2, avx2, avx512; code for neon is plain C, of one"
    ):
        build.source_of("x = Vector(2); x = 2*x;", target="neon", by_lanes=True).c()
    with pytest.raises(UsageError, match="a register of avx2 holds 4 f64, and the variant has vectors of 8; choose"):
        build.source_of(text, target="avx2", variant=Variant(8)).c()
