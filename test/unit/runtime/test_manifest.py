"""The manifest: written by the compiler, read without it, and evaluated by nothing but integer arithmetic."""

import json
from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import PrintError, SpecError, UsageError
from lego_mlir.kernels import transpose
from lego_mlir.runtime import manifest
from lego_mlir.toolchain import compile_kernel
from lego_mlir.toolchain.manifest import portable

M, N = lego.size("M", min=1, max=5000), lego.size("N", min=4, multiple_of=4)


def test_an_extent_is_written_as_text_and_evaluated():
    assert portable(lego.cdiv(M * N, 32)) == "(((M * N) + 31) // 32)"
    assert manifest.evaluate(portable(lego.cdiv(M * N, 32)), {"M": 7, "N": 8}) == 2
    assert manifest.evaluate(portable(12), {}) == 12


def test_a_table_cannot_be_a_grid():
    p = lego.gallery.table([3], [2, 0, 1])
    with pytest.raises(PrintError, match=r"manifest: no form for Table"):
        portable(p.apply(M % 3))


@pytest.mark.parametrize("text", ["__import__('os')", "M // 0", "K", "M ** 1000", "M, N"])
def test_a_text_that_is_not_integer_arithmetic(text):
    with pytest.raises(UsageError, match=r"manifest: .*; compile the kernel again"):
        manifest.evaluate(text, {"M": 3, "N": 4})


def written(tmp_path, kernel, **options):
    compiled = compile_kernel(kernel, **options)
    (tmp_path / "k.ptx").write_bytes(compiled.bytes)
    (tmp_path / "k.json").write_text(json.dumps(compiled.manifest))
    return manifest.read(tmp_path / "k.ptx")


def test_a_symbolic_kernel_s_manifest(tmp_path):
    read = written(tmp_path, transpose.build("padded", M, N, f32), target="sm_90")
    kernel = read.kernel("transpose")
    assert read.target == "sm_90"
    assert (kernel.block, kernel.dynamic_shared_bytes, kernel.static_shared_bytes) == ((256,), 0, 32 * 33 * 4)
    assert [manifest.evaluate(n, {"M": 100, "N": 64}) for n in kernel.grid] == [8]
    assert kernel.sizes == (manifest.LaunchSize("M", 1, 5000, 1), manifest.LaunchSize("N", 4, None, 4))
    source, target = kernel.arguments
    assert (source.name, source.dtype, source.shape, source.read, source.written) == (
        "src",
        "f32",
        ("M", "N"),
        True,
        False,
    )
    assert (target.name, target.shape, target.read, target.written) == ("dst", ("N", "M"), False, True)
    assert manifest.evaluate(target.elements, {"M": 100, "N": 64}) == 6400
    assert "Row(M, N)" in source.layout
    assert "transpose.py" in kernel.source


def test_a_module_s_own_manifest(tmp_path):
    text = (Path(__file__).parents[1] / "toolchain" / "transpose.mlir").read_text()
    kernel = written(tmp_path, text).kernel(None)
    assert (kernel.entry, kernel.grid, kernel.block) == ("transpose", (2, 2, 1), (32, 8, 1))
    assert [(a.kind, a.dtype, a.elements) for a in kernel.arguments] == [("tensor", "f32", 4096)] * 2


@lego.kernel(grid=4, block=32)
def scaled(x: lego.Tensor(f32, Row(128)), factor: f32):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    x[i] = x[i] * factor


def test_more_shared_memory_than_the_target_has():
    text = """module { gpu.module @m { gpu.func @k(%p: memref<4xf32>) kernel attributes
      {lego.dynamic_shared_bytes = 100000 : i64} { gpu.return } } }"""
    assert compile_kernel(text, target="sm_80").manifest["kernels"][0]["dynamic_shared_bytes"] == 100_000
    with pytest.raises(UsageError, match=r"kernel k needs 100000 bytes .* a block on sm_75 may have 65536"):
        _ = compile_kernel(text, target="sm_75").manifest


def test_a_scalar_is_an_argument_of_its_own(tmp_path):
    tensor, factor = written(tmp_path, scaled).kernel("scaled").arguments
    assert (tensor.read, tensor.written) == (True, True)
    assert (factor.name, factor.kind, factor.dtype, factor.elements) == ("factor", "scalar", "f32", None)


def test_two_kernels_in_one_manifest_are_asked_for_by_name(tmp_path):
    read = written(tmp_path, [scaled, transpose.build("naive", 64, 64, f32)])
    assert list(read.kernels) == ["scaled", "transpose"]
    with pytest.raises(UsageError, match=r"which kernel\? The code has: scaled, transpose"):
        read.kernel(None)


def test_moving_the_kernel_in_its_file_does_not_change_the_digest():
    source = (Path(__file__).parents[1] / "toolchain" / "transpose.mlir").read_text()
    one, other = compile_kernel(source), compile_kernel("\n\n" + source)
    assert one.manifest["source_sha256"] == other.manifest["source_sha256"]
    assert one.manifest["source_sha256"] != compile_kernel(source.replace("64", "65")).manifest["source_sha256"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"M": 5}, r"needs the sizes M, N; N is missing"),
        ({"M": 5, "N": 8, "K": 1}, r"has no size K; it has: M, N"),
        ({"M": 0, "N": 8}, r"size M = 0: the kernel was compiled for at least 1, at most 5000, a multiple of 1"),
        ({"M": 5001, "N": 8}, r"size M = 5001"),
        ({"M": 5, "N": 6}, r"size N = 6: the kernel was compiled for at least 4, a multiple of 4"),
    ],
)
def test_sizes_that_the_kernel_was_not_compiled_for(tmp_path, sizes, message):
    kernel = written(tmp_path, transpose.build("padded", M, N, f32)).kernel(None)
    with pytest.raises(UsageError, match=message):
        kernel.check_sizes(sizes)


def test_a_missing_or_broken_manifest(tmp_path):
    with pytest.raises(SpecError, match=r"k.json: no manifest beside the code; lego-mlir compile SPEC --emit ptx -o"):
        manifest.read(tmp_path / "k.ptx")
    for text, message in [
        ("{", "not a manifest"),
        ("[]", "a manifest of format 1 is read here"),
        ('{"format": 2}', "a manifest of format 1 is read here"),
        ('{"format": 1, "kernels": [{}]}', "the manifest is not complete"),
    ]:
        (tmp_path / "k.json").write_text(text)
        with pytest.raises(SpecError, match=message):
            manifest.read(tmp_path / "k.ptx")


def test_code_of_another_compilation(tmp_path):
    read = written(tmp_path, scaled)
    manifest.check_code(read, (tmp_path / "k.ptx").read_bytes(), tmp_path / "k.ptx")
    with pytest.raises(SpecError, match=r"k.ptx is not the code that its manifest describes"):
        manifest.check_code(read, b"other", tmp_path / "k.ptx")
