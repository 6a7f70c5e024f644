"""The doors of the sanitizer that need no compiler: PTX from Python and the command line, launch files, reports."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_kernels import THREAD, entry

from lego_mlir import sanitize
from lego_mlir.cli.main import main
from lego_mlir.errors import UsageError
from lego_mlir.interp.report import Fault, Kind, Report, SourceLocation
from lego_mlir.sanitize import cuda_text
from lego_mlir.sanitize.drawn_arguments import DTYPES, FILLS, drawn
from lego_mlir.sanitize.fault_page import fault_page
from lego_mlir.sanitize.findings import rule_id, sarif
from lego_mlir.sanitize.launch_files import read_launches
from lego_mlir.sanitize.storages import TensorStorage

COPY = entry(
    f"{THREAD} add.s64 %rd4, %rd1, %rd50; add.s64 %rd5, %rd2, %rd50; setp.ge.s32 %p1, %r53, %r3; @%p1 bra END;\n"
    "ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\nEND: ret;", "x y n:u32", "copy")  # fmt: skip
LINE = 1 + COPY.splitlines().index("ld.global.f32 %f1, [%rd4];")


@pytest.fixture
def ptx_file(tmp_path):
    path = tmp_path / "copy.ptx"
    path.write_text(COPY)
    return path


def test_a_kernel_is_subscripted_and_called():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert sanitize.ptx(COPY)[2, 32](x, y, 64).clean
    assert np.array_equal(x, y)
    (fault,) = sanitize.ptx(COPY, "copy")[(2,), (32, 1, 1)](x[:48].copy(), y, 64).faults
    assert (fault.kind, fault.place.line, fault.buffer) == (Kind.OUT_OF_BOUNDS, LINE, "x")
    assert "x[48] is outside of all buffers: 0 bytes past the end of its 48 elements" in fault.message


def test_views_of_one_array_are_pointers_into_one_buffer():
    x = np.arange(64, dtype=np.float32)
    assert sanitize.ptx(COPY)[1, 32](x[:32], x[32:], 32).clean
    assert np.array_equal(x[32:], np.arange(32))


def test_memory_that_nobody_wrote():
    x, y = sanitize.empty(32), sanitize.empty(32)
    x[:30] = 1
    (fault,) = sanitize.ptx(COPY)[1, 32](x, y, 32).faults
    assert fault.kind is Kind.UNINITIALISED
    assert (fault.message, fault.count) == ("x[30] was never written", 2)
    assert sanitize.ptx(COPY)[1, 30](x, y, 30).clean


def test_a_struct_holds_pointers():
    body = """ld.param.u64 %rd1, [box]; ld.param.u32 %r1, [box+8]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret;"""
    text = entry(body, "").replace("k()", "k(.param .align 8 .b8 box[16])")
    record = np.zeros((), np.dtype([("p", "u8"), ("n", "u4"), ("pad", "u4")]))
    record["n"] = 7
    out = np.zeros(8, np.uint32)
    assert sanitize.ptx(text)[1, 8]((record, {"p": out})).clean
    assert (out == 7).all()


def test_a_wrong_launch_is_refused_in_words():
    with pytest.raises(UsageError, match=r"kernel\[grid, block\]"):
        sanitize.ptx(COPY)[1]
    with pytest.raises(UsageError, match="no kernel copi; did you mean copy"):
        sanitize.ptx(COPY, "copi")
    with pytest.raises(UsageError, match="No such file"):
        sanitize.ptx("missing.ptx")


def test_a_session_keeps_reports_and_decides_about_faults(recwarn):
    x, y = np.zeros(8, np.float32), np.zeros(32, np.float32)
    with sanitize.session(on_fault="collect") as found:
        sanitize.ptx(COPY)[1, 32](x, y, 32)
    assert [len(report.faults) for report in found.reports] == [1]
    assert not found.clean
    with sanitize.session() as strict, pytest.raises(sanitize.LaunchFaultError, match=r"x\[8\] is outside"):
        strict.add(found.reports[0])
    with sanitize.session(on_fault="warn") as warned, pytest.warns(UserWarning, match=r"x\[8\] is outside"):
        warned.add(found.reports[0])


@given(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(1, 5), max_size=3), st.sampled_from(sorted(FILLS)))
def test_arguments_have_the_type_shape_and_fill_of_their_text(dtype, shape, fill):
    value = drawn(f"{dtype}[{','.join(map(str, shape))}]:{fill}", np.random.default_rng(0))
    assert value.dtype == np.dtype(DTYPES[dtype])
    assert value.shape == tuple(shape)
    if fill in ("zeros", "ones"):
        assert (value.astype(float) == float(fill == "ones")).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [("f33[2]", "no type f33"), ("f32[2]:wild", "no fill wild"), ("many", "is no argument"), ("a.npz:x", "No such")],
)
def test_a_wrong_argument_is_refused_in_words(text, message):
    with pytest.raises(UsageError, match=message):
        drawn(text, np.random.default_rng(0))


def test_numbers_and_arrays_of_files(tmp_path):
    random = np.random.default_rng(0)
    assert [drawn(text, random) for text in ("512", "-3", "0x10", "2.5")] == [512, -3, 16, 2.5]
    np.savez(tmp_path / "input.npz", x=np.arange(3))
    assert drawn(f"{tmp_path}/input.npz:x", random).tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match="no array y; it has: x"):
        drawn(f"{tmp_path}/input.npz:y", random)


def command(*words) -> int:
    return main(["sanitize", *map(str, words)])


ARGUMENTS = ("--grid", 2, "--block", 32, "--arg", "x=f32[64]:arange", "--arg", "y=f32[64]:empty", "--arg")


def test_the_command_line(ptx_file, tmp_path, capsys):
    assert command(ptx_file, *ARGUMENTS, "n=64", "--output", tmp_path / "out.npz", "--counts") == 0
    assert "no faults" in (said := capsys.readouterr().out)
    assert "read of x: 8 sectors, 100% needed" in said
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["y"], np.arange(64))


MODULE = """module attributes {gpu.container_module} { gpu.module @m {
  gpu.func @put(%x: memref<64xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %b = gpu.block_id x
    %t = gpu.thread_id x
    %i = affine.apply affine_map<(b, t) -> (32 * b + t)>(%b, %t)
    %one = arith.constant 1.0 : f32
    memref.store %one, %x[%i] : memref<64xf32>
    gpu.return
  } } }"""


def test_a_module_is_compiled_and_checked(tmp_path, capsys):
    path = tmp_path / "put.mlir"
    path.write_text(MODULE)
    assert command(path, "--grid", 2, "--arg", "x=f32[64]") == 0
    assert command(path, "--grid", 2, "--arg", "x=f32[60]") == 1
    assert re.search(r"put.ptx:\d+: out of bounds: 4 bytes at x\[60\] is outside", capsys.readouterr().out)


def test_a_traced_kernel_is_checked():
    import lego_mlir as lego

    @lego.kernel(grid=2, block=32)
    def copy(x: lego.Tensor(lego.f32, lego.Row(64)), y: lego.Tensor(lego.f32, lego.Row(64))):
        i = 32 * lego.block_id[0] + lego.thread_id[0]
        y[i] = x[i]

    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert sanitize.traced(copy)(x=x, y=y).clean
    assert np.array_equal(x, y)


def test_a_fault_gives_exit_code_1_json_sarif_and_a_page(ptx_file, tmp_path, capsys):
    words = (*ARGUMENTS[:4], "--arg", "x=f32[48]", *ARGUMENTS[6:], "n=64")
    files = ("--sarif", tmp_path / "found.sarif", "--html", tmp_path / "page.html", "--json")
    assert command(ptx_file, *words, *files) == 1
    (report,) = json.loads(capsys.readouterr().out)["launches"]
    assert [(fault["kind"], fault["line"]) for fault in report["faults"]] == [("out of bounds", LINE)]
    (run,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == LINE
    page = (tmp_path / "page.html").read_text()
    assert f'class="costly" id="L{LINE}"' in page
    assert "x[48] is outside of all buffers" in page


def test_a_launch_file_hands_arrays_on(ptx_file, tmp_path, capsys):
    path = tmp_path / "launches.toml"
    launch = '[[launch]]\nfile = "copy.ptx"\ngrid = 2\nblock = [32, 1]\n'
    path.write_text(
        launch + 'args = { x = "f32[64]:arange", y = "f32[64]:zeros", n = 64 }\n'
        + launch + 'args = { x = "@y", z = "f32[64]:zeros", n = 64 }\n'
    )  # fmt: skip
    assert [request.arguments["x"] for request in read_launches(path)] == ["f32[64]:arange", "@y"]
    assert command(path, "--output", tmp_path / "out.npz") == 0
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["z"], np.arange(64))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.ptx", "--grid", 1), "missing.ptx: no such file"),
        (("copy.cpp",), "a kernel is a .cu, .ptx or .mlir file"),
        (("copy.ptx",), "--grid X.* is missing"),
        (("copy.ptx", "--grid", 1, "--block", 32, "--arg", "n=4"), r"copy has 3 parameters \(x, y, n\), got 1"),
        (("copy.ptx", "--grid", 1, "--arg", "n"), "give NAME=VALUE"),
    ],
)
def test_a_wrong_command_is_refused_in_words(ptx_file, words, message, capsys, monkeypatch):
    monkeypatch.chdir(ptx_file.parent)
    assert command(*words) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no .*launch"), ("[[launch]]\ngrid = 1", "file is missing"), ("[[launch]]\nfil = 1", "no key fil"),
     ("[", "nvalid")],
)  # fmt: skip
def test_a_wrong_launch_file_is_refused_in_words(tmp_path, text, message):
    (tmp_path / "l.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_launches(tmp_path / "l.toml")


def test_every_kind_of_fault_has_a_rule():
    faults = [Fault(kind, "m", SourceLocation("k.cu", 3, 2), (0, 0, 0), (1, 0, 0), other=SourceLocation("k.cu", 9))
              for kind in Kind]  # fmt: skip
    (run,) = sarif([Report("k", (1, 1, 1), (1, 1, 1), 1, faults, [], [])], "1")["runs"]
    assert {r["ruleId"] for r in run["results"]} == {rule_id(kind) for kind in Kind}
    assert len({rule["id"] for rule in run["tool"]["driver"]["rules"]}) == len(Kind)
    assert run["results"][0]["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 9}


def test_a_page_of_no_source_has_the_faults_as_notes():
    fault = Fault(Kind.RACE, "two < writes", SourceLocation("gone.cu", 3), (0, 0, 0), (1, 0, 0))
    assert "two &lt; writes" in fault_page([Report("k", (1, 1, 1), (1, 1, 1), 1, [fault], [], [])])


def test_names_of_parameters_and_mangled_kernels():
    text = "template <int N>\n__global__ void __launch_bounds__(64) f(const float (*x)[4], int n, T* y) {\n f(a); }"
    assert cuda_text.parameter_names(text, "g") == []
    assert cuda_text.parameter_names("void f(float* x, const int n[3])", "f") == ["x", "n"]
    assert cuda_text.plain_name("_ZN3foo3barIfEEvPT_") == "bar"


def test_storage_of_a_view():
    x = np.zeros((4, 6), np.int16)
    assert TensorStorage.of(x[2, 1:]) == TensorStorage(x.ctypes.data, 48, 26, 2, x)


def test_a_file_that_is_missing_is_named_first(tmp_path, capsys):
    assert main(["sanitize", str(tmp_path / "none.cu")]) == 2
    assert "none.cu: no such file" in capsys.readouterr().err
