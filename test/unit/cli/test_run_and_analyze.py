"""`run` compares and finds faults; `analyze` counts, names the lanes, and suggests what is verified."""

import json
import re
from pathlib import Path

import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli.main import BAD_INPUT, CHECK_FAILED, DONE, main

TRANSPOSE = """
import lego_mlir as lego
from lego_mlir import Row, f32, gallery
M, N, T = 64, 96, 32

@lego.kernel(grid=(N // T, M // T), block=(T, 8))
def transpose(src: lego.Tensor(f32, Row(M, N)), dst: lego.Tensor(f32, Row(N, M))):
    bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
    tile = lego.shared(f32, TILE)
    a, b = src.tile_by([M // T, N // T], [T, T]), dst.tile_by([N // T, M // T], [T, T])
    for r in lego.unroll(0, T, 8):
        tile[ty + r, tx] = a[by, bx, ty + r, tx]
    BARRIER
    for r in lego.unroll(0, T, 8):
        b[bx, by, ty + r, tx] = tile[tx, ty + r]

@transpose.reference
def expected(src):
    return RESULT

plain = Row(32, 32)
"""
SIZED = """
import lego_mlir as lego
from lego_mlir import Row, f16
M = lego.size("M")

@lego.kernel(grid=lego.cdiv(M, 32), block=32)
def double(src: lego.Tensor(f16, Row(M)), dst: lego.Tensor(f16, Row(M))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    with lego.when(i < M):
        dst[i] = src[i] + src[i]

@double.reference
def expected(src):
    return 2 * src
"""


def spec(folder, tile="gallery.xor_swizzle(T, T)", barrier="lego.barrier()", result="src.T", text=TRANSPOSE):
    path = folder / "spec.py"
    path.write_text(text.replace("TILE", tile).replace("BARRIER", barrier).replace("RESULT", result))
    return str(path)


def line_of(path, needle):
    return next(i for i, line in enumerate(Path(path).read_text().splitlines(), 1) if needle in line)


def test_a_right_kernel(tmp_path, capsys):
    assert main(["run", spec(tmp_path), "--on", "interp"]) == DONE
    out = output_of(capsys, ["run", spec(tmp_path), "--on", "ptx", "--target", "sm_90"])
    assert out.startswith("ok    transpose: 6 blocks of (32, 8, 1)\n  dst: 6144 elements equal\n")
    assert "0 of them bank conflicts" in out


def test_the_ptx_of_a_racing_kernel(tmp_path, capsys):
    assert main(["run", spec(tmp_path, tile="gallery.padded(T, T)", barrier="pass"), "--on", "ptx"]) == CHECK_FAILED
    out = capsys.readouterr().out
    assert "by another warp, with no barrier between" in out
    assert "transpose.ptx:" in out


def test_a_wrong_value_of_ptx_has_no_writer(tmp_path, capsys):
    out = output_of(capsys, ["run", spec(tmp_path, result="src.T + 1"), "--on", "ptx"], CHECK_FAILED)
    assert out.startswith("WRONG transpose")
    assert "never written" not in out
    assert "written by" not in out


def test_a_race_fails_the_run_although_the_values_are_right(tmp_path, capsys):
    path = spec(tmp_path, tile="gallery.padded(T, T)", barrier="pass")
    out = output_of(capsys, ["run", path], CHECK_FAILED)
    assert "; element 33 is shared0[1, 0]\n" in out
    assert out.startswith("FAULT transpose")
    assert "dst: 6144 elements equal" in out
    read, write = line_of(path, "= tile[tx"), line_of(path, "tile[ty + r, tx] =")
    assert f"{path}:{read}: race: read of shared0[" in out
    assert f"written by thread (0, 1, 0) at {path}:{write} with no barrier between" in out


def test_a_wrong_value_is_shown_with_its_writer(tmp_path, capsys):
    path = spec(tmp_path, result="src.T + (np.arange(96)[:, None] == 40) * (np.arange(64) == 3)")
    Path(path).write_text("import numpy as np\n" + Path(path).read_text())
    out = output_of(capsys, ["run", path], CHECK_FAILED)
    assert out.startswith("WRONG transpose")
    assert "dst: WRONG: 1 of 6144 elements; the first is dst[40, 3]: found " in out
    assert ", must be equal; written by" in out
    assert f"written by block (1, 0, 0), thread (3, 0, 0), at {path}:{line_of(path, 'b[bx, by')}" in out


def test_one_negated_element_of_a_large_array_is_wrong(tmp_path, capsys):
    last = "dst[i] = src[i] + src[i]\n        with lego.when(i > M - 2):\n            dst[i] = -src[i]"
    text = SIZED.replace("dst[i] = src[i] + src[i]", last.replace("src[i] + src[i]", "src[i]")).replace(
        "2 * src", "src"
    )
    path = spec(tmp_path, text=text)
    out = output_of(capsys, ["run", path, "--size", "M=100000"], CHECK_FAILED)
    assert "WRONG: 1 of 100000 elements; the first is dst[99999]: found " in out
    assert "must be equal; written by block (3124, 0, 0), thread (31, 0, 0)" in out


def test_a_sample_of_blocks_is_compared_where_it_wrote(tmp_path, capsys):
    assert "2 of 6 blocks" in output_of(capsys, ["run", spec(tmp_path), "--blocks", "2"])


def test_a_wrong_value_in_a_sample_is_found_at_its_index(tmp_path, capsys):
    path = spec(tmp_path, result="src.T + (np.arange(96)[:, None] == 70) * (np.arange(64) == 40)")
    Path(path).write_text("import numpy as np\n" + Path(path).read_text())
    assert "the first is dst[70, 40]: found " in output_of(capsys, ["run", path, "--blocks", "2"], CHECK_FAILED)


def test_sizes(tmp_path, capsys):
    path = spec(tmp_path, text=SIZED)
    assert "double M=1000: 32 blocks" in output_of(capsys, ["run", path, "--size", "M=1000"])
    assert "--size K: no kernel here has that size; sizes: M" in refusal_of(capsys, ["run", path, "--size", "K=3"])


def test_run_as_json(tmp_path, capsys):
    main(["run", spec(tmp_path, barrier="pass"), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["kernels"]
    assert found["right"] is False
    assert found["tensors"] == [
        {"name": "dst", "elements": 6144, "wrong": 0, "error": 0.0, "allowed": 0.0, "unit": "ulps", "first_wrong": None}
    ]
    assert {fault["kind"] for fault in found["faults"]} == {"race"}


def test_a_mistake_in_a_kernel_is_the_spec_s_and_has_its_line(tmp_path, capsys):
    path = spec(tmp_path, text=SIZED.replace("src[i] + src[i]", "twice * src[i]"))
    for command in ("run", "analyze"):
        said = refusal_of(capsys, [command, path])
        assert "internal error" not in said
        assert re.search(r"\.py:\d+: NameError: name 'twice' is not defined\n  .*twice \*", said), said


def test_run_needs_a_reference(tmp_path, capsys):
    path = spec(tmp_path, text=SIZED.split("@double.reference", maxsplit=1)[0])
    said = refusal_of(capsys, ["run", path])
    assert "has no reference to compare with" in said
    assert f"For its faults alone: lego-mlir analyze {path}" in said


GATHER = """
import lego_mlir as lego
import numpy as np
from lego_mlir import Row, f32, i32

@lego.kernel(grid=1, block=64)
def gather(order: lego.Tensor(i32, Row(64)), x: lego.Tensor(f32, Row(SIZE)), y: lego.Tensor(f32, Row(64))):
    i = lego.thread_id[0]
    y[i] = x[order[i]]

@gather.reference
def expected(order, x):
    return RESULT
"""


def test_a_reference_that_fails_hides_no_fault_of_the_kernel(tmp_path, capsys):
    text = GATHER.replace("SIZE", "64")
    path = spec(tmp_path, text=text, result="x[order]")
    out = output_of(capsys, ["run", path], CHECK_FAILED)
    assert out.startswith("FAULT gather: ")
    failed, read = line_of(path, "return x[order]"), line_of(path, "y[i] =")
    assert f"not compared, because the reference fails: {path}:{failed}: IndexError: index " in out
    assert f"{path}:{read}: out of bounds: read of index (" in out
    assert main(["run", path, "--json"]) == CHECK_FAILED
    (found,) = json.loads(capsys.readouterr().out)["kernels"]
    assert "IndexError" in found["reference_error"]
    assert found["tensors"] == []
    assert [fault["kind"] for fault in found["faults"]] == ["out of bounds"]


def test_a_reference_that_fails_beside_a_clean_kernel_is_bad_input(tmp_path, capsys):
    path = spec(tmp_path, text=GATHER.replace("SIZE", "100"), result="x[order + 100]")
    assert f"{path}:{line_of(path, 'return')}: IndexError" in refusal_of(capsys, ["run", path])


def test_flags_of_the_interpreter_are_refused_on_cuda(tmp_path, capsys):
    assert main(["run", spec(tmp_path), "--on", "cuda", "--blocks", "2"]) == BAD_INPUT
    assert "--blocks requires --on interp" in capsys.readouterr().err


MODULE = """gpu.module @m {
  gpu.func @shift(%x: memref<64xf32>, %y: memref<64xf32>) kernel attributes {KNOWN} {
    %t = gpu.thread_id x
    %c1 = arith.constant 1 : index
    %n = arith.addi %t, %c1 : index
    %v = memref.load %x[%n] : memref<64xf32>
    memref.store %v, %y[%t] : memref<64xf32>
    gpu.return
  }
}
"""
KNOWN = "known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>"


def test_an_mlir_file_is_run_for_its_faults(tmp_path, capsys):
    path = tmp_path / "kernel.mlir"
    path.write_text(MODULE.replace("KNOWN", KNOWN))
    assert main(["run", str(path)]) == CHECK_FAILED
    assert f"{path}:6: out of bounds: read of index (64,) outside argument 0 of sizes (64,)" in capsys.readouterr().out
    said = output_of(capsys, ["analyze", str(path)])
    assert "kernel.mlir:6 read of argument 0" in said
    assert "FAULT kernel.mlir:6: out of bounds: read of index (64,) outside argument 0 of sizes (64,), block " in said
    assert "accesses 4 bytes per lane where the addresses of this run allow 16" in said
    assert "--layout: " in refusal_of(capsys, ["analyze", str(path), "--layout", "tile"])
    path.write_text(MODULE.replace(" attributes {KNOWN}", ""))
    assert "does not fix its grid size" in refusal_of(capsys, ["run", str(path)])
    assert main(["run", str(path), "--grid", "1", "--block", "32", "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["kernels"][0]["faults"] == []
    assert main(["run", str(path), "--grid", "1", "--block", "a"]) == BAD_INPUT
    assert "--block takes one to three sizes such as 32,8, not 'a'" in capsys.readouterr().err
    path.write_text(MODULE.replace("memref<64xf32>", "memref<?xf32>"))
    assert "argument 0 of @shift is a memref<?xf32>, whose value or size" in refusal_of(capsys, ["run", str(path)])
    path.write_text("gpu.module {")
    assert "not a valid MLIR module" in refusal_of(capsys, ["run", str(path)])


def test_analyze_names_the_conflict_and_the_swizzle(tmp_path, capsys):
    path = spec(tmp_path, tile="Row(T, T)")
    out = output_of(capsys, ["analyze", path])
    line = line_of(path, "= tile[tx")
    assert (
        f"line {line}: read of shared0 has a 32-way bank conflict: lanes 0, 1, 2, 3, .. access 32 words of bank" in out
    )
    tile = line_of(path, "lego.shared")
    assert f"remedy at line {tile}: gallery.xor_swizzle(32, 32): no conflict, no extra memory" in out
    assert "or: Padded(Row(32, 33), [32, 32]): no conflict, 128 bytes more" in out
    assert "layout plain = Row(32, 32) of f32" in out
    assert "0 of them bank conflicts" in output_of(capsys, ["run", spec(tmp_path, tile="gallery.xor_swizzle(32, 32)")])


SHIFTED = """
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.kernel(grid=2, block=32)
def shifted(src: lego.Tensor(f32, Row(65)), dst: lego.Tensor(f32, Row(64))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    dst[i] = src[i + 1]

@shifted.reference
def expected(src):
    return src[1:]
"""


def test_a_request_that_begins_inside_a_sector_is_not_called_scattered(tmp_path, capsys):
    assert main(["analyze", spec(tmp_path, text=SHIFTED)]) == DONE
    assert (
        "moves 10 sectors of 32 bytes where 8 would hold the requested bytes; some begin or end inside a sector"
        in capsys.readouterr().out
    )
    scattered = SHIFTED.replace("src[i + 1]", "src[lego.thread_id[0] * 2]").replace(
        "src[1:]", "src[[*range(0, 64, 2)] * 2]"
    )
    assert main(["analyze", spec(tmp_path, text=scattered)]) == DONE
    assert "; let adjacent lanes access adjacent elements" in capsys.readouterr().out


def test_lanes_that_take_neighbours_are_not_told_to(tmp_path, capsys):
    narrow = SHIFTED.replace("f32", "f16").replace("grid=2, block=32", "grid=1, block=12")
    narrow = narrow.replace("Row(64)", "Row(12)").replace("src[i + 1]", "src[i + 10]")
    assert main(["analyze", spec(tmp_path, text=narrow)]) == DONE
    assert (
        "moves 2 sectors of 32 bytes where 1 would hold the requested bytes; some begin or end inside a sector"
        in capsys.readouterr().out
    )
    pairs = SHIFTED.replace("src[i + 1]", "src[lego.thread_id[0] // 2 * 4 + lego.thread_id[0] % 2]")
    said = output_of(capsys, ["analyze", spec(tmp_path, text=pairs)])
    assert (
        "; a warp accesses contiguous segments of 8 bytes on average: make them whole sectors, starting at multiples "
        "of 32 bytes" in said
    )


COPY = """
import lego_mlir as lego
from lego_mlir import Col, Row, f32
M, K = lego.size("M"FACTS), lego.size("K")

@lego.kernel(grid=K, block=128)
def copy(x: lego.Tensor(f32, LAYOUT), y: lego.Tensor(f32, LAYOUT)):
    i = lego.thread_id.x
    with lego.when(i < M):
        y[INDEX] = x[INDEX]
"""


def advice(folder, capsys, layout, index, facts=""):
    text = COPY.replace("LAYOUT", layout).replace("INDEX", index).replace("FACTS", facts)
    assert main(["analyze", spec(folder, text=text), "--size", "M=64"]) == DONE
    return next(line for line in capsys.readouterr().out.splitlines() if "read of x accesses 4 bytes per lane" in line)


def test_a_wider_access_is_advised_as_the_compiler_would_take_it(tmp_path, capsys):
    rows = ("Row(K, M)", "lego.block_id.x, i")
    assert advice(tmp_path, capsys, *rows).endswith(
        'where its addresses at these sizes allow 16: declare lego.size("M", multiple_of=4), and let a lane access '
        "4 times as many elements at once"
    )
    assert advice(tmp_path, capsys, *rows, facts=", multiple_of=4").endswith(
        "where layout and alignment allow 16: let a lane access 4 times as many elements at once"
    )
    columns = advice(tmp_path, capsys, "Col(M, K)", "i, lego.block_id.x")
    assert "but as indexed here x is contiguous along dimension 0, and a vector extends along the last one" in columns


def test_the_advice_of_a_declared_size_is_one_that_compiles(tmp_path, capsys):
    text = COPY.replace("LAYOUT", "Row(K, M)").replace("i = lego.thread_id.x", "i = lego.thread_id.x * 4")
    wide = text.replace("y[INDEX] = x[INDEX]", "y.store(x.load(lego.block_id.x, i, width=4), lego.block_id.x, i)")
    assert main(["check", spec(tmp_path, text=wide.replace("FACTS", ", multiple_of=4"))]) == DONE
    assert main(["check", spec(tmp_path, text=wide.replace("FACTS", ""))]) != DONE
    capsys.readouterr()


HISTOGRAM = """
import lego_mlir as lego
from lego_mlir import Row, i32

@lego.kernel(grid=1, block=32)
def histogram(src: lego.Tensor(i32, Row(32, 8)), dst: lego.Tensor(i32, Row(32))):
    t = lego.thread_id[0]
    counts = lego.shared(i32, Row(32, 32))
    for b in lego.range(BOUND):
        counts[t, b] = 0
    for k in lego.range(8):
        counts[t, lego.index(src[t, k]) % 32] += 1
    dst[t] = counts[t, 0]
"""


@pytest.mark.parametrize("bound", ["32", "lego.index(src[0, 0]) % 16 + 16"])
def test_analyze_repairs_a_tile_whose_places_are_data_and_says_whose(bound, tmp_path, capsys):
    path = spec(tmp_path, text=HISTOGRAM.replace("BOUND", bound))
    assert main(["analyze", path, "--json"]) == DONE
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    tile = kernel["tiles"]["shared0"]
    assert tile["line"] == line_of(path, "lego.shared")
    assert re.fullmatch(
        r"on this run's data, since the position at line \d+ depends on data, read at line \d+", tile["note"]
    )
    assert kernel["repairs"]["shared0"][0]["wavefronts"] < sum(s["wavefronts"] for s in kernel["sites"])
    assert f"remedy at line {tile['line']}, {tile['note']}: " in output_of(capsys, ["analyze", path])


def test_a_conflict_without_a_remedy_says_why(tmp_path, capsys):
    path = spec(tmp_path, text=HISTOGRAM.replace("Row(32, 32)", "Row(1024)").replace("BOUND", "32")
        .replace("counts[t, b]", "counts[t * 32 + b]").replace("counts[t, ", "counts[t * 32 + "))  # fmt: skip
    assert main(["analyze", path]) == DONE
    line = line_of(path, "lego.shared")
    assert f"give it rows and columns (the tile of line {line})" in capsys.readouterr().out


def test_analyze_as_json_counts_exactly_31_extra_wavefronts_a_request(tmp_path, capsys):
    assert (
        main(["analyze", spec(tmp_path, tile="Row(T, T)"), "--kernel", "transpose", "--blocks", "1", "--json"]) == DONE
    )
    found = json.loads(capsys.readouterr().out)
    assert found["layouts"] == []
    (kernel,) = found["kernels"]
    (read,) = [s for s in kernel["sites"] if s["buffer"] == "shared0" and s["kind"] == "read"]
    assert (read["ways"], read["requests"], read["conflicts"]) == (32, 32, 31 * 32)
    assert kernel["repairs"]["shared0"][0]["layout"] == "gallery.xor_swizzle(32, 32)"
    assert kernel["buffers"] == [
        {"name": "src", "moved": 4096, "compulsory": 4096},
        {"name": "dst", "moved": 4096, "compulsory": 4096},
    ]


def test_analyze_a_layout_by_an_access(tmp_path, capsys):
    path = spec(tmp_path)
    command = [
        "analyze",
        path,
        "--layout",
        "plain",
        "--access",
        "lane, 4 * k",
        "--free",
        "k=8",
        "--width",
        "4",
        "--json",
    ]
    assert main(command) == DONE
    (found,) = json.loads(capsys.readouterr().out)["layouts"]
    (access,) = found["accesses"]
    assert access["shared"]["ways"] == 8
    assert found["repairs"][0]["layout"] == "gallery.xor_swizzle(32, 32, vec=4)"
    assert "no layout named 'nothing'; it has: plain" in refusal_of(capsys, ["analyze", path, "--layout", "nothing"])


def test_a_layout_too_big_for_shared_memory_has_sectors_only(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text("from lego_mlir import Col\nmatrix = Col(512, 512)\n")
    out = output_of(capsys, ["analyze", str(path)])
    assert "remedy" not in out
    assert main(["analyze", str(path), "--json"]) == DONE
    (found,) = json.loads(capsys.readouterr().out)["layouts"]
    assert [(a["shared"], a["global"]["coalescing"]) for a in found["accesses"]] == [(None, 0.125), (None, 1.0)]


SYMBOLIC = (
    SIZED
    + """
B = lego.size("B", multiple_of=2)
rows = Row(M, B)
"""
)


def test_a_layout_of_symbolic_sizes_is_analyzed_at_given_ones(tmp_path, capsys):
    path = spec(tmp_path, text=SYMBOLIC)
    assert main(["analyze", path, "--layout", "rows", "--size", "M=32", "--size", "B=64"]) == DONE
    assert "layout rows = Row(M, B) at M=32, B=64 of f32" in capsys.readouterr().out.replace("B=64, M=32", "M=32, B=64")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run SPEC --block 32", "applies to the kernels of a .mlir file; a spec fixes it .*use --blocks 32"),
        ("run SPEC --grid 5", "--grid 5: the grid size applies to the kernels of a .mlir file"),
        ("run SPEC --param a=1", "--param a=1 sets a parameter of a script; name the script with --transform FILE"),
        ("run SPEC --target sm_90", "--target sm_90: the interpreter has no target architecture; add --on cuda or ptx"),
        ("run SPEC --on cuda --seed 3", "--seed requires --on interp"),
        ("run SPEC --on cuda --memory 3", "--memory requires --on interp"),
        ("run SPEC --on ptx --memory 3", "--memory requires --on interp"),
        ("run SPEC --on ptx --blocks 3", "--blocks requires --on interp"),
        ("analyze SPEC --block 32", "to run a sample of 32 blocks, use --blocks 32"),
        ("analyze SPEC --width 4", "--width applies to a layout, with --layout NAME, .*; name one: rows"),
        ("analyze SPEC --kernel double --dtype f16", "--dtype applies to a layout"),
        ("analyze SPEC --kernel double --access lane", "--access applies to a layout"),
        ("analyze SPEC --kernel double --layout rows", "are analyzed one at a time; leave one out"),
        ("analyze SPEC --free k=3", "--free k=3 names a variable of --access; give both, or neither"),
        ("analyze SPEC --access lane,0", "rows has symbolic sizes; name a layout and give .*without --access,"),
        ("analyze SPEC --layout rows --size M=32", "has symbolic sizes; give a value for B: --size B=N"),
        ("analyze SPEC --layout rows --size M=32 --size B=5", "--size B=5: B is at least 1, a multiple of 2"),
        ("analyze SPEC --layout rows --size M=32 --size B=64 --blocks 3", "--blocks applies to kernels"),
        ("analyze SPEC --layout rows --size M=32 --size B=64 --size Q=1", "--size Q: no kernel here has that size"),
        ("analyze SPEC --layout rows --size M=32 --size B=64 --access lane", "has 1 of the 2 indices of rows"),
        ("analyze SPEC --layout rows --size M=32 --size B=64 --width 3", "1, 2, 4, 8 or 16 bytes at once, not 12"),
        ("analyze SPEC --layout rows --size M=32 --size B=64 --width 16 --dtype f16", "for f16, --width 1, 2, 4, 8"),
        ("analyze SPEC --layout rows --size M=32 --size B=64 --width 0", "--width 0: a lane accesses"),
        ("compile SPEC --size M=3", "--size M=3 sets a size of the test data; add --with-data"),
        ("compile SPEC --param a=1", "--param a=1 sets a parameter of a script"),
        ("compile SPEC --emit ptx --locations", "--locations keeps the locations of emitted MLIR; with --emit ptx"),
        ("compile SPEC --pipeline builtin.module(cse)", "--pipeline sets the passes of the nvvm stage"),
        ("compile SPEC --emit ptx -o OUT.mlir", "the suffix implies mlir, but --emit is ptx; omit --emit"),
        ("compile SPEC --emit mlir -o OUT.ptx", "the suffix implies ptx, but --emit is mlir"),
    ],
)  # fmt: skip
def test_an_option_that_would_do_nothing_is_refused_with_the_way_out(command, message, tmp_path, capsys):
    words = command.replace("SPEC", spec(tmp_path, text=SYMBOLIC)).replace("OUT", str(tmp_path / "out")).split()
    assert main(words) == BAD_INPUT
    captured = capsys.readouterr()
    assert re.search(message, captured.err), captured.err
    assert captured.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["spec.py"]


@pytest.mark.parametrize("command", ["run", "analyze"])
def test_help(command, capsys):
    assert f"example: lego-mlir {command} examples/transpose.py" in output_of(capsys, [command, "--help"])


PARTIAL = """
import lego_mlir as lego
from lego_mlir import Row, f32, gallery
N = lego.size("N")

@lego.kernel(grid=lego.cdiv(N, 32), block=32)
def copy(
    src: lego.Tensor(f32, Row(N).tile_by([lego.cdiv(N, 32)], [32])),
    dst: lego.Tensor(f32, gallery.reverse(N).tile_by([lego.cdiv(N, 32)], [32])),
):
    b, t = lego.block_id[0], lego.thread_id[0]
    dst[b, t] = src[b, t]

@copy.reference
def expected(src):
    wrong = src.copy()
    WRONG
    return wrong
"""


@pytest.mark.parametrize("sampled", [[], ["--blocks", "4"]])
def test_partial_tiles_of_a_parameter_are_compared_where_they_name_an_element(tmp_path, capsys, sampled):
    right = spec(tmp_path, text=PARTIAL.replace("WRONG", "wrong[3, 4:] = 9"))
    assert "dst: 100 elements equal" in output_of(capsys, ["run", right, "--size", "N=100", *sampled])
    assert main(["analyze", right, "--size", "N=100"]) == DONE
    capsys.readouterr()
    wrong = spec(tmp_path, text=PARTIAL.replace("WRONG", "wrong[3, 3] = 9"))
    out = output_of(capsys, ["run", wrong, "--size", "N=100", *sampled], CHECK_FAILED)
    assert "WRONG: 1 of 100 elements; the first is dst[3, 3]" in out
    assert "written by block (3, 0, 0), thread (3, 0, 0)" in out


def test_a_small_layout_leaves_the_rest_of_the_spec_analyzed(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text("from lego_mlir import Row\nsmall = Row(4, 4)\nlarge = Row(32, 32)\n")
    out = output_of(capsys, ["analyze", str(path)])
    assert "layout small = Row(4, 4): 16 elements, fewer than a warp's 32 lanes: not analyzed" in out
    assert "layout large = Row(32, 32) of f32" in out
    assert main(["analyze", str(path), "--layout", "small"]) == BAD_INPUT
    assert "name the index of each lane with --access" in capsys.readouterr().err


def test_a_remedy_that_leaves_conflicts_says_in_how_many_blocks(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text("""import lego_mlir as lego
from lego_mlir import Row, f32


@lego.kernel(grid=2, block=32)
def columns(x: lego.Tensor(f32, Row(2, 32, 32)), y: lego.Tensor(f32, Row(2, 32))):
    t = lego.thread_id[0]
    tile = lego.shared(f32, Row(32, 32))
    for r in lego.unroll(32):
        tile[r, t] = x[lego.block_id[0], r, t]
    lego.barrier()
    y[lego.block_id[0], t] = tile[t, 0] + tile[t // 2 * 2, t % 2] + tile[t % 8 * 4, t // 8 * 8]
""")
    out = output_of(capsys, ["analyze", str(path), "--blocks", "2"])
    assert ("conflicts left" in out) == (", counted in one block: " in out)
    assert "remedy at line" in out
