"""`lego-mlir compile expr.ll` and `run expr.ll`, told apart from LLVM IR by their content."""

import pytest

from lego_mlir.cli import structured
from lego_mlir.cli.main import main

PROGRAM = """# a comment first
A = Matrix(9, 9);    L = LowerTriangular(9);
S = Symmetric(L, 9, storage=packed); U = UpperTriangular(9);
A = L*U + S;
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "lusym.ll"
    path.write_text(PROGRAM)
    return path


def test_ll_is_told_from_llvm_ir(tmp_path, program):
    assert structured.is_program(str(program))
    ir = tmp_path / "module.ll"
    ir.write_text("; ModuleID = 'x'\ntarget triple = \"nvptx64-nvidia-cuda\"\ndefine void @f() { ret void }\n")
    assert not structured.is_program(str(ir))
    assert not structured.is_program(str(tmp_path / "missing.ll"))


def test_run_compares_with_numpy(program, capsys, tmp_path):
    assert main(["run", str(program), "--cache-dir", str(tmp_path / "cache")]) == 0
    out = capsys.readouterr().out
    assert "lusym: A = L * U + S in float64" in out
    assert "ok    A: relative error" in out
    program.write_text("# dtype: float\n" + PROGRAM)
    assert main(["run", str(program), "--no-cache"]) == 0
    assert "in float32" in capsys.readouterr().out


def test_what_is_emitted(program, capsys, tmp_path):
    assert main(["compile", str(program), "-o", str(tmp_path / "k.mlir")]) == 0
    assert "func.func @lusym(" in (tmp_path / "k.mlir").read_text()
    assert main(["compile", str(program), "--emit", "llvm"]) == 0
    assert "define void @lusym" in capsys.readouterr().out
    assert main(["compile", str(program), "-o", str(tmp_path / "k.h")]) == 0
    assert "void lusym(double *A, const double *L, const double *S, const double *U);" in (tmp_path / "k.h").read_text()
    assert main(["compile", str(program), "--target", "neon", "-o", str(tmp_path / "k.o")]) == 0
    assert (tmp_path / "k.o").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--emit", "ptx"], "--emit ptx: an LL program becomes mlir, llvm, obj, c-header"),
        (["--emit", "obj"], "an object file is binary; give it a file with -o"),
        (["--target", "sm_90"], "--target sm_90: an LL program is compiled for a CPU"),
        (["--kernel", "k"], "--kernel belongs to GPU kernels"),
        (["--size", "M=3"], "--size belongs to GPU kernels; an LL program takes --emit and --target"),
        (["--with-data"], "--with-data belongs to GPU kernels"),
    ],
)
def test_usage_messages(program, capsys, arguments, words):
    assert main(["compile", str(program), *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--size M=3", "--block 32", "--blocks 2", "--memory 3", "--json", "--on cuda"])
def test_options_of_kernels_are_refused_where_a_program_runs(program, capsys, option):
    assert main(["run", str(program), *option.split()]) == 2
    assert f"{option.split()[0]}{' cuda' if 'cuda' in option else ''} belongs to GPU kernels" in capsys.readouterr().err


def test_a_mistake_names_file_line_and_column(program, capsys):
    program.write_text(PROGRAM.replace("L*U", "L*B"))
    assert main(["run", str(program)]) == 2
    message = capsys.readouterr().err
    assert f"{program}: line 4, column 7: B is not declared" in message
    assert "^" in message
    program.write_text(PROGRAM.replace("# a comment first", "# dtype: half"))
    assert main(["run", str(program)]) == 2
    assert "dtype: half is not known" in capsys.readouterr().err


def test_stages_of_other_inputs_are_refused(tmp_path, capsys):
    (tmp_path / "k.mlir").write_text("module {}")
    assert main(["compile", str(tmp_path / "k.mlir"), "--emit", "obj"]) == 2
    assert "belongs to LL programs" in capsys.readouterr().err
