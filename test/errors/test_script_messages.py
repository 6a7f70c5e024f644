"""Transform scripts: their parameters, and every message that says what a script looked for and what it found."""

import re
from pathlib import Path

import pytest
from gemm import SMALL, build, composed, transformed

import lego_mlir
from lego_mlir import f16, f32, gallery
from lego_mlir.cli.main import main
from lego_mlir.errors import ScheduleError, SpecError, ToolchainError, UsageError
from lego_mlir.kernels import copy, matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.toolchain import Cache, compile_kernel
from lego_mlir.transforms import scripts

ROOT = Path(__file__).parents[2]


def test_parameters_are_filled_in():
    text = transformed(build((32, 64, 256)), "matmul_sm80.mlir", stages=6)
    assert "memref<6x32x32xf16" in text
    assert "numGroups = 4" in text


def failure(kernel, script, **parameters):
    with pytest.raises(ToolchainError) as caught:
        transformed(kernel, script, **parameters)
    return str(caught.value)


PADDED = gallery.padded(32, 32, 8), gallery.padded(32, 64, 8)
COPIES = "async_copies.mlir"
FAILURES = [  # the kernel, the script or the parts of one, its parameters, what the message says
    (lambda: copy.build(64, 64, f32), "ldmatrix_mma.mlir", {},
     ['looked for ops ["vector.contract"], and found memref.load (4), memref.store (4); if']),
    (build, "pipeline.mlir", {},
     ["lego-check-pipeline matched nothing: it looked for an scf.for with nvgpu.device_async_copy",
      "and found vector.contract"]),
    (lambda: build((32, 64, 64)), "matmul_sm80.mlir", {"stages": 5},
     ["matmul_sm80.mlir: lego-check-pipeline: 5 stages need a loop of at least 4 iterations",
      "this one has 2 iterations; take fewer stages"]),
    (build, [COPIES, "ldmatrix_mma.mlir", "lego-rotate-fragments"], {},
     ["1 nvgpu.device_async_wait, 2 gpu.barrier", "pipeline.mlir"]),
    (build, [COPIES, "lego-load-ahead"], {},
     ["lego-load-ahead matched nothing: it looked for an scf.for with nvgpu.mma.sync, and found vector."]),
    (build, [COPIES, "lego-spread-copies"], {},
     ["looked for an scf.for with nvgpu.device_async_copy and nvgpu.mma.sync, and found vector.contract ("]),
    (lambda: build(tiles=PADDED), "matmul_sm80.mlir", {"stages": 2},
     ["lego-swizzle matched nothing: it looked for memref.alloc of shared tiles of 16-bit numbers in lines",
      "padded tiles need no swizzle: use the script's other parts without swizzle.mlir"]),
    (build, ["lego-make-faster"], {},
     ["names 'lego-make-faster', which is not a pass; there are lego-shared-to-alloc"]),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "script", "parameters", "words"), FAILURES)
def test_what_a_script_looked_for(tmp_path, kernel, script, parameters, words):
    given = script if isinstance(script, str) else composed(tmp_path, *script)
    said = failure(kernel(), given, **parameters)
    assert [word for word in words if word not in said] == [], said


def declared(folder, parameters):
    """A script that declares its parameters so."""
    (folder / "declaring.mlir").write_text(
        f"module attributes {{transform.with_named_sequence, lego.parameters = {parameters}}} {{}}"
    )
    return str(folder / "declaring.mlir")


DECLARED = "lego.parameters must be a dictionary such as"
TOO_MUCH = "bytes at once, and a block has 166912 on sm_80; take fewer"
REFUSED = [
    (lambda _: transformed(build(), "matmul_sm80.mlir", depth=2), UsageError,
     "matmul_sm80.mlir has no parameter depth; it has bypass_l1, stages"),
    (lambda _: transformed(build(), "matmul_sm80.mlir", stages=1), UsageError,
     r"matmul_sm80.mlir: the parameter stages is 2 .. 8, got 1"),
    (lambda _: transformed(build(), "matmul_sm80.mlir", stages=True), UsageError,
     "the parameter stages is an int, got True"),
    (lambda _: transformed(build(), "matmul_sm80.mlir", bypass_l1=1), UsageError,
     "the parameter bypass_l1 is true or false, got 1"),
    (lambda _: compile_kernel(build(), parameters={"stages": 3}), UsageError,
     "the parameters stages belong to a transform script"),
    (lambda _: scripts.parse_parameters(["stages"]), UsageError, "NAME=VALUE"),
    (lambda _: scripts.parse_parameters(["stages="]), UsageError, "NAME=VALUE"),
    (lambda _: scripts.parse_parameters(["stages=four"]), UsageError, "NAME=VALUE"),
    (lambda _: scripts.parse_parameters(["=3x"]), UsageError, "NAME=VALUE"),
    (lambda _: compile_kernel(build()), ToolchainError,
     r"@matmul multiplies tiles .*; compile with --transform ldmatrix_mma"),
    (lambda _: compile_kernel(build((512, 512, 512), tiling=ProductTile(128, 256, 64, (2, 4))),
                              transform="matmul_sm80.mlir", target="sm_80"),
     ToolchainError, f"take 196608 {TOO_MUCH}"),
    (lambda _: compile_kernel(build((256, 320, 640), result=f32, tiling=ProductTile(256, 320, 64, (8, 2))),
                              transform="matmul_sm80.mlir", target="sm_80"),
     ToolchainError, f"take 335872 {TOO_MUCH}"),  # the sums, which only warpgroups leave out
    (lambda _: compile_kernel(build((128, 256, 128), tiling=ProductTile(128, 256, 64, (8, 1))),
                              transform="matmul_sm90.mlir", target="sm_90a", parameters={"rounded": True}),
     ScheduleError, r"rounded=True rounds f32 to TF32, and a has f16; leave it out"),
    (lambda _: transformed(build(), "fast.mlir"), SpecError,
     r"cannot be read .*those that come along are async_copies.mlir, ldmatrix_mma"),
    (lambda folder: transformed(build(), composed(folder, "missing.mlir")), SpecError, r"missing.mlir"),
    (lambda folder: transformed(build(), composed(folder, "mine.mlir")), SpecError,
     r"calls itself, by way of mine.mlir"),
    (lambda folder: transformed(build(), declared(folder, "{stages = {where = 2 : i64}}")), ToolchainError, DECLARED),
    (lambda folder: transformed(build(), declared(folder, "{stages = 3 : i64}")), ToolchainError, DECLARED),
    (lambda folder: transformed(build(), declared(folder, "{stages = {min = 2 : i64}}")), ToolchainError, DECLARED),
    (lambda folder: transformed(build(), declared(folder, "3 : i64")), ToolchainError, DECLARED),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_a_call_that_is_refused(tmp_path, call, error, message):
    with pytest.raises(error, match=message):
        call(tmp_path)


def test_parameters_are_read_from_the_command_line():
    assert scripts.parse_parameters(["stages=3", "bypass_l1=false"]) == {"stages": 3, "bypass_l1": False}


def test_a_parameter_changes_the_key_of_the_cache(tmp_path):
    cache = Cache(tmp_path)
    for stages, hit in ((3, False), (4, False), (3, True)):
        compiled = compile_kernel(
            build(), transform="matmul_sm80.mlir", parameters={"stages": stages}, emit="transformed", cache=cache
        )
        assert ("transformed" in compiled.cached) == hit


def test_a_part_changes_the_key_of_the_cache(tmp_path):
    cache = Cache(tmp_path / "cache")
    script = composed(tmp_path, "async_copies.mlir")
    for number in range(2):
        compiled = compile_kernel(build(), transform=script, emit="transformed", cache=cache)
        assert "transformed" not in compiled.cached
        (tmp_path / "async_copies.mlir").write_text((tmp_path / "async_copies.mlir").read_text() + f"// {number}\n")


def test_scripts_say_what_they_looked_for_and_what_they_found():
    plain = matmul.build(64, 64, 64, f16, tiling=SMALL)
    text = transformed(plain, "async_copies.mlir")
    with pytest.raises(ToolchainError, match=r"looked for ops \[\"nvgpu.device_async_copy\"\], and found .*scf.for"):
        compile_kernel(
            "gpu.module @m { gpu.func @k() kernel { %c = arith.constant 1 : index\n"
            "scf.for %i = %c to %c step %c { gpu.barrier } gpu.return } }",
            transform="async_copies.mlir",
        )
    assert "vector.contract" in text
    said = failure(plain, "swizzle.mlir")
    assert 'looked for ops ["nvgpu.device_async_copy"], and found ' in said
    assert "vector.contract (" in said
    assert "swizzle.mlir:" in said


def test_a_formula_of_an_unknown_parameter(tmp_path):
    script = composed(tmp_path, "pipeline.mlir")
    part = tmp_path / "pipeline.mlir"
    part.write_text(part.read_text().replace('"stages - 1"', '"levels / 2"'))
    said = failure(build(), script)
    assert "lego.fill must be a parameter, or integer arithmetic on parameters: 'levels / 2' is not" in said


def test_a_formula_is_integer_arithmetic(tmp_path):
    composed(tmp_path, "pipeline.mlir")
    part = tmp_path / "pipeline.mlir"
    part.write_text(part.read_text().replace('factor = "stages"', 'factor = "stages // 2 + 4"'))
    assert "memref<6x32x32xf16" in transformed(build((32, 64, 256)), tmp_path / "matmul_sm80.mlir", stages=4)


# -- tiles without a script

BY_HAND = """
import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32

@lego.kernel(grid=1, block=32)
def product(a: lego.Tensor(f16, Row(16, 16)), b: lego.Tensor(f16, Col(16, 16)), c: lego.Tensor(f32, Row(16, 16))):
    lane = lego.thread_id[0]
    left, right = lego.shared(f16, Row(16, 16)), lego.shared(f16, Col(16, 16))
    out = lego.shared(f32, Row(16, 16))
    for i in lego.unroll(8):
        row, column = (32 * i + lane) // 16, lane % 16
        left[row, column] = a[row, column]
        right[column, row] = b[column, row]
    lego.barrier()
    total = lego.accumulator(f32, 16, 16)
    lego.mma(left.part((0, 0), (16, 16)), right.part((0, 0), (16, 16)), total)
    total.store(out, (0, 0))
    lego.barrier()
    for i in lego.unroll(8):
        row, column = (32 * i + lane) // 16, lane % 16
        c[row, column] = out[row, column]

@product.reference
def expected(a, b):
    return a.astype("float32") @ b.astype("float32")
"""


@pytest.mark.parametrize("tiles", ["copied by hand", "staged"])
def test_tiles_without_a_script_are_told_scripts_that_work(tmp_path, tiles, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = tmp_path / "spec.py"
    spec.write_text(BY_HAND if tiles == "copied by hand" else (ROOT / "examples" / "matmul.py").read_text())
    assert main(["compile", str(spec), "--emit", "ptx", "-o", str(tmp_path / "k.ptx")]) == 2
    said = capsys.readouterr().err
    first, staged = re.findall(r"--transform (\w+\.mlir)", said)[:2]
    assert "for tiles that lego.stage copies, --transform" in said
    for script in [first] if tiles == "copied by hand" else [first, staged]:
        out = ["--emit", "ptx", "--target", "sm_80", "-o", str(tmp_path / "k.ptx")]
        assert main(["compile", str(spec), "--transform", script, *out]) == 0, capsys.readouterr().err
        assert "mma.sync" in (tmp_path / "k.ptx").read_text()
        assert main(["run", str(spec), "--transform", script]) == 0


@pytest.mark.parametrize("dtype", ["i8", "f8e4m3fn", "f32"])
@pytest.mark.parametrize("script", ["matmul_sm80.mlir", "ldmatrix_mma.mlir"])
def test_types_that_mma_sync_does_not_multiply_here(dtype, script):
    result = lego_mlir.i32 if dtype == "i8" else lego_mlir.f32
    kernel = matmul.build(64, 64, 128, getattr(lego_mlir, dtype), result=result, b=lego_mlir.Col(128, 64),
                          tiling=matmul.ProductTile(32, 32, 32, (2, 1)))  # fmt: skip
    with pytest.raises(ToolchainError, match="here multiplies f16 and bf16; the warpgroups of sm_90a multiply other"):
        compile_kernel(kernel, target="sm_80", transform=script, emit="transformed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("left.part((0, 0), (16, 16))", "left"), r"spec.py:16: lego.mma multiplies parts of shared tiles, such as"),
        (("right.part((0, 0), (16, 16))", "3"), r"spec.py:16: lego.mma multiplies .*, got 3"),
        (
            ("total = lego.accumulator(f32", "total = lego.accumulator(lego.i32"),
            r"spec.py:16: lego.mma multiplies f16, bf16, f32, .*got f16 with f16 into i32",
        ),
        (("(16, 16)), total)", "(16, 16)), out)"), r"spec.py:16: lego.mma adds into an accumulator, lego.accumulator"),
    ],
)
def test_operands_of_mma_that_are_none(tmp_path, capsys, change, message):
    spec = tmp_path / "spec.py"
    spec.write_text(BY_HAND.replace(*change))
    assert main(["check", str(spec)]) == 2
    assert re.search(message, capsys.readouterr().err)
