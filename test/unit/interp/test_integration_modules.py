"""Host programs like those of MLIR's own GPU integration tests: each runs, or is refused by name.

`test/integration` holds one module for each group of mlir/test/Integration/GPU/CUDA in LLVM 22, written for these
tests; the table in docs/how-to/running.md lists the groups.
"""

import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from command_line import output_of

from lego_mlir import interp
from lego_mlir.cli.main import BAD_INPUT, CHECK_FAILED, DONE, main

MODULES = pathlib.Path(__file__).parents[2] / "integration"
DOCS = pathlib.Path(__file__).parents[3] / "docs" / "how-to/running.md"
REFUSED = {
    "tma": "tma.mlir:9: the interpreter does not support the operation nvgpu.tma.create.descriptor",
    "warpgroup": "warpgroup.mlir:8: the interpreter does not support the operation nvgpu.warpgroup.mma.init.",
}


def run(name, capsys):
    code = main(["run", str(MODULES / f"{name}.mlir")])
    out, err = capsys.readouterr()
    printed = "\n".join(line.removeprefix("  | ") for line in out.splitlines() if line.startswith("  | "))
    return code, printed, out + err


def memrefs(printed):
    """The arrays that were printed."""
    texts = re.findall(r"data =\n(\[.*?\])(?=\nMemref|\Z)", printed, flags=re.S)
    return [np.array(eval(text, {"nan": np.nan})) for text in texts]


def run_clean(name, capsys):
    code, printed, out = run(name, capsys)
    assert code == DONE and "no faults" in out, out
    return printed


def test_reductions_of_a_block(capsys):
    found, real = memrefs(run_clean("all-reduce-kinds", capsys))
    for block in range(2):
        v = np.array([5 * t - 7 * block - 9 for t in range(8)], np.int32)
        u = v.view(np.uint32)
        reduced = [v.sum(), np.bitwise_and.reduce(v), np.bitwise_or.reduce(v), np.bitwise_xor.reduce(v)]
        reduced += [v.min(), v.max(), u.min().view(np.int32), u.max().view(np.int32), u.max().view(np.int32)]
        assert found[block].tolist() == reduced
        np.testing.assert_allclose(real[block], [v.min(), v.astype(np.float64).prod()], rtol=1e-5)


def test_a_shuffle_in_a_partial_warp(capsys):
    """Lanes 10 and 11 read lanes that the warp does not have, which is a fault; the others are right."""
    code, printed, out = run("shuffle-pairs", capsys)
    assert code == CHECK_FAILED
    assert (
        "shuffle-pairs.mlir:15: shuffle from an inactive lane: shuffle down reads lane 12" in out and "(2 times" in out
    )
    assert memrefs(printed)[0][:10].tolist() == [2, 3, 4, 5, 6, 7, -1, -1, 10, 11]


def test_printed_lines(capsys):
    lines = run_clean("printf", capsys).splitlines()
    assert lines == [f"block {b} thread {t}: {t / 2:5.2f}, {t}%" for b in range(2) for t in range(2)]


def test_dynamic_shared_memory(capsys):
    for found in memrefs(run_clean("dynamic-shared-memory", capsys)):
        assert found.tolist() == list(range(63, -1, -1))


def test_reductions_of_a_warp(capsys):
    (found,) = memrefs(run_clean("redux", capsys))
    lane = np.arange(32)
    expected = [0 * lane + lane.sum(), lane | 7, lane.reshape(4, 8).sum(0)[lane % 8], 0 * lane]
    assert found.tolist() == np.array(expected).tolist()


@pytest.mark.parametrize(("types", "shape"), [("f16-f16", 16), ("f16-f32", 16), ("f64-f64", 8)])
def test_a_product_of_a_warp(types, shape, capsys):
    (found,) = memrefs(run_clean(f"wmma-{types}", capsys))
    inner = 4 if types == "f64-f64" else 16
    dtype = {"16": np.float16, "32": np.float32, "64": np.float64}[types[-2:]]
    i = np.arange(shape)
    assert (found.astype(dtype) == (inner * np.outer(i, i) + 1).astype(dtype)).all()


def test_kernels_of_two_modules(capsys):
    assert memrefs(run_clean("two-modules", capsys))[0].tolist() == [i * i for i in range(13)]


def test_regions_of_the_async_dialect(capsys):
    assert memrefs(run_clean("async-dialect", capsys))[0].tolist() == [0, 1, 4, 3, 16, 5, 36, 7]


def test_a_cluster(capsys):
    lines = run_clean("cluster", capsys).splitlines()
    places = {(x // 2, x % 2, y) for x in range(4) for y in range(2)}
    assert sorted(lines) == sorted(f"cluster {c} of blocks ({x}, {y}), 2 wide" for c, x, y in places)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_named(name, capsys):
    code, _, out = run(name, capsys)
    assert code == BAD_INPUT and REFUSED[name] in out


@pytest.mark.parametrize("name", ["all-reduce-kinds", "two-modules"])
def test_a_host_program_is_analyzed(name, capsys):
    assert "sectors" in output_of(capsys, ["analyze", str(MODULES / f"{name}.mlir")])


def test_launches_of_a_program_are_ordered_and_each_of_its_writes_is_kept():
    text = """
func.func @main(%x: memref<8xi32>) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c4, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %i = arith.index_cast %bx : index to i32
    memref.store %i, %x[%bx] : memref<8xi32>
    gpu.terminator
  }
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c4, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %from = affine.apply affine_map<(d0) -> (3 - d0)>(%bx)
    %to = affine.apply affine_map<(d0) -> (d0 + 4)>(%bx)
    %i = memref.load %x[%from] : memref<8xi32>
    memref.store %i, %x[%to] : memref<8xi32>
    gpu.terminator
  }
  return
}"""
    x = np.full(8, -1, np.int32)
    report = interp.launch(text, "main", args=[x])
    assert report.clean, report.faults
    assert x.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]
    within = text.replace("(d0 + 4)", "(d0 + 1)")  # reads what other blocks write in the same launch
    assert interp.launch(within, "main", args=[x]).kinds() == {interp.Kind.RACE}


def test_an_unknown_declared_function_is_named(tmp_path, capsys):
    (tmp_path / "calls.mlir").write_text(
        "func.func private @mystery()\nfunc.func @main() { call @mystery() : () -> ()\n return }"
    )
    assert main(["run", str(tmp_path / "calls.mlir")]) == BAD_INPUT
    assert "@mystery is declared, but has no body to run; known are printMemref*, printI64" in capsys.readouterr().err


def test_numbers_are_printed(tmp_path, capsys):
    (tmp_path / "numbers.mlir").write_text("""
func.func private @printI64(i64)
func.func private @printF32(f32)
func.func private @printComma()
func.func private @printNewline()
func.func @main() {
  %i = arith.constant -7 : i64
  %x = arith.constant 2.5 : f32
  call @printI64(%i) : (i64) -> ()
  call @printComma() : () -> ()
  call @printF32(%x) : (f32) -> ()
  call @printNewline() : () -> ()
  return
}""")
    assert "  | -7, 2.5\n" in output_of(capsys, ["run", str(tmp_path / "numbers.mlir")])


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="needs mlir-opt-22 (apt-get install mlir-22-tools)")
def test_mlir_itself_verifies_the_modules():
    for path in MODULES.glob("*.mlir"):
        subprocess.run(["mlir-opt-22", str(path), "-o", "/dev/null"], check=True)


def test_the_documentation_lists_every_module():
    text = DOCS.read_text()
    for path in MODULES.glob("*.mlir"):
        assert f"`{path.stem}`" in text, path.stem
