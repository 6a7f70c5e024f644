"""`lego-mlir compile expr.ll` and `run expr.ll`, distinguished from LLVM IR by their content."""

import json
from pathlib import Path

import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli import structured
from lego_mlir.cli.main import main
from lego_mlir.structured import build

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
    math = Path(structured.__file__).parents[1] / "toolchain" / "device_math.ll"
    assert not structured.is_program(str(math))


@pytest.mark.parametrize("command", ["run", "check", "explain", "compile"])
@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ("A = matrix(3, 3);", "k.ll: line 1, column 1: A is not declared"),
        ("A Matrix(3, 3);", "k.ll: line 1, column 3: "),
        ("define = Matrix(3, 3)", "k.ll: line 2, column 1: "),
        ("", "k.ll: "),
    ],
)
def test_a_mistake_in_the_first_declaration_is_one_in_ll(tmp_path, capsys, command, declaration, words):
    path = tmp_path / "k.ll"
    path.write_text(f"{declaration}\n")
    message = refusal_of(capsys, [command, str(path)])
    assert words in message
    assert "syntax error" not in message


@pytest.mark.parametrize("command", ["run", "check", "explain"])
def test_llvm_ir_is_refused_where_it_cannot_be_taken(tmp_path, capsys, command):
    path = tmp_path / "module.ll"
    path.write_text("define void @f() { ret void }\n")
    assert f"{path} is LLVM IR, which only `lego-mlir compile` accepts" in refusal_of(capsys, [command, str(path)])


def test_run_compares_with_numpy(program, capsys, tmp_path):
    out = output_of(capsys, ["run", str(program), "--cache-dir", str(tmp_path / "cache")])
    assert "lusym: A = L * U + S in float64" in out
    assert "ok    A: 81 elements within their bounds, the closest off by " in out
    program.write_text("# dtype: float\n" + PROGRAM)
    assert "in float32" in output_of(capsys, ["run", str(program), "--no-cache"])


LARGE = "A = Matrix(64, 64); L = LowerTriangular(64); S = Symmetric(L, 64, storage=packed); A = L*S + 0.5*A;"


def run_with_an_error(monkeypatch, path, row, column, relative):
    """Run the program at `path`, whose kernel then gets one element of A wrong by a part of the largest one."""
    compiled = build.compile

    def broken(*arguments, **named):
        kernel = compiled(*arguments, **named)

        def call(*arrays):
            kernel(*arrays)
            arrays[0][row, column] += relative * abs(arrays[0]).max()

        call.dtype = kernel.dtype
        return call

    monkeypatch.setattr(build, "compile", broken)
    return main(["run", str(path), "--no-cache"])


@pytest.mark.parametrize(("head", "relative"), [("", 5e-13), ("# dtype: float\n", 5e-5)])
def test_one_wrong_element_is_named(tmp_path, capsys, monkeypatch, head, relative):
    path = tmp_path / "large.ll"
    path.write_text(head + LARGE)
    assert run_with_an_error(monkeypatch, path, 17, 5, relative) == 1
    out = capsys.readouterr().out
    assert "WRONG A: WRONG: 1 of 4096 elements; the first is A[17, 5]: found " in out
    assert " ulps, allowed " in out


def test_what_was_only_moved_must_be_equal(tmp_path, capsys, monkeypatch):
    path = tmp_path / "moved.ll"
    path.write_text("A = Matrix(9, 9); B = Matrix(9, 9); A = -B';")
    assert "ok    A: 81 elements equal" in output_of(capsys, ["run", str(path), "--no-cache"])
    assert run_with_an_error(monkeypatch, path, 8, 8, 3e-16) == 1
    assert "the first is A[8, 8]: " in capsys.readouterr().out


@pytest.mark.parametrize("head", ["", "# dtype: float\n"])
@pytest.mark.parametrize(
    "text",
    [
        LARGE,
        "S = Symmetric(L, 64); L = LowerTriangular(64); B = Matrix(64, 64); L = chol(S); B = lu(B);",
        "L = LowerTriangular(47); x = Vector(47); A = Matrix(47, 47); x = L \\ (A*x); A = inv(L)*A;",
        "A = Matrix(40, 40); B = Matrix(40, 40); A = -0.001*(-0.001*A); B = -0.001*(1000*B);",  # one constant each
        "A = Matrix(33, 33); B = Matrix(33, 33); C = Matrix(33, 33); A = B*C - (B + 1e-6*C)*C;",
        "A = Matrix(24, 24); x = Vector(24); A = lu(A - 0.7*symmetric(A)); x = triu(A) \\ (unit_tril(A) \\ x);",
    ],
)
def test_rounding_is_within_the_bounds(tmp_path, capsys, head, text):
    path = tmp_path / "k.ll"
    path.write_text(head + text)
    assert main(["run", str(path), "--no-cache"]) == 0, capsys.readouterr().out


def test_a_program_that_numpy_cannot_compute_has_no_verdict(tmp_path, capsys):
    path = tmp_path / "k.ll"
    path.write_text("S = Symmetric(L, 4); L = LowerTriangular(4); L = chol(-S);")
    assert main(["run", str(path), "--no-cache"]) == 2
    assert "NumPy cannot compute L = chol(-S) on this random input: Matrix is not positive definite" in (
        capsys.readouterr().err
    )


def test_what_is_emitted(program, capsys, tmp_path):
    assert main(["compile", str(program), "-o", str(tmp_path / "k.mlir")]) == 0
    assert "func.func @lusym(" in (tmp_path / "k.mlir").read_text()
    assert "define void @lusym" in output_of(capsys, ["compile", str(program), "--emit", "llvm"])
    assert main(["compile", str(program), "-o", str(tmp_path / "k.h")]) == 0
    assert "void lusym(double *A, const double *L, const double *S, const double *U);" in (tmp_path / "k.h").read_text()
    assert main(["compile", str(program), "--target", "avx2", "-o", str(tmp_path / "k.c")]) == 0
    text = (tmp_path / "k.c").read_text()
    assert text.startswith(
        "/* A = L * U + S\n * float64, avx2, nu=4 tile=4x3 flat; compile with -O3 -march=x86-64-v3 */"
    )
    assert "void lusym(double *A, const double *L, const double *S, const double *U)\n{" in text
    assert main(["compile", str(program), "--target", "neon", "-o", str(tmp_path / "k.o")]) == 0
    assert (tmp_path / "k.o").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--emit", "ptx"], "--emit ptx: an LL program compiles to mlir, llvm, obj, c, c-header"),
        (["--emit", "obj"], "an object file is binary; give it a file with -o"),
        (["--target", "sm_90"], "--target sm_90: an LL program is compiled for a CPU"),
        (["--kernel", "k"], "--kernel is for GPU kernels"),
        (["--size", "M=3"], "--size is for GPU kernels; an LL program takes --emit and --target"),
        (["--with-data"], "--with-data is for GPU kernels"),
    ],
)
def test_usage_messages(program, capsys, arguments, words):
    assert words in refusal_of(capsys, ["compile", str(program), *arguments])


@pytest.mark.parametrize("option", ["--size M=3", "--block 32", "--blocks 2", "--memory 3", "--json", "--on cuda"])
def test_options_of_kernels_are_refused_where_a_program_runs(program, capsys, option):
    assert main(["run", str(program), *option.split()]) == 2
    assert f"{option.split()[0]}{' cuda' if 'cuda' in option else ''} is for GPU kernels" in capsys.readouterr().err


def test_a_mistake_names_file_line_and_column(program, capsys):
    program.write_text(PROGRAM.replace("L*U", "L*B"))
    message = refusal_of(capsys, ["run", str(program)])
    assert f"{program}: line 4, column 7: B is not declared" in message
    assert "^" in message
    program.write_text(PROGRAM.replace("# a comment first", "# dtype: half"))
    assert "unknown dtype: half" in refusal_of(capsys, ["run", str(program)])


def test_stages_of_other_inputs_are_refused(tmp_path, capsys):
    (tmp_path / "k.mlir").write_text("module {}")
    assert "is for LL programs" in refusal_of(capsys, ["compile", str(tmp_path / "k.mlir"), "--emit", "obj"])


def test_check_says_what_is_proved(program, capsys, tmp_path):
    out = output_of(capsys, ["check", str(program)])
    assert "program A = L * U + S\n  proved   A = L * U + S: A can hold the value: " in out
    assert "each stored element is computed once: 2 disjoint regions make up the 81 elements" in out
    assert out.endswith("3 proved, 0 refuted, 0 unknown\n")
    claimed = tmp_path / "claimed.ll"
    claimed.write_text("A = Matrix(3, 3); S = Symmetric(L, 3); S = symmetric(A*A) + symmetric(A*A');")
    out = output_of(capsys, ["check", str(claimed)])
    assert "unknown  S = symmetric(A * A) + symmetric(A * A'): A * A is symmetric: asserted by the program" in out
    assert "proved   S = symmetric(A * A) + symmetric(A * A'): A * A' is symmetric: by its form" in out
    wrong = tmp_path / "wrong.ll"
    wrong.write_text("A = Matrix(3, 3); L = LowerTriangular(3); L = A;")
    assert main(["check", str(wrong), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["refuted"] == 1
    assert found["groups"][0]["kind"] == "program"


def test_explain_shows_sets_statements_and_loops(program, capsys):
    out = output_of(capsys, ["explain", str(program)])
    assert "  S: Symmetric(L, 9), " in out
    assert "step 0: A = L * U + S, A is Matrix(9, 9)" in out
    assert "S2: A[i, j] += L[i, k] * U[k, j] for {" in out
    assert "    for (" in out
    assert main(["explain", str(program), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["statements"][0]["name"] == "S0"


@pytest.mark.parametrize("command", ["check", "explain"])
def test_check_and_explain_refuse_what_they_cannot_read(command, tmp_path, capsys):
    path = tmp_path / "k.ll"
    path.write_text("A = Matrix(3, 3); A = B;")
    assert "k.ll: line 1, column 23: B is not declared" in refusal_of(capsys, [command, str(path)])
    path.write_text("A = Matrix(3, 3); L = LowerTriangular(3); L = A;")
    assert main([command, str(path)]) == (1 if command == "check" else 2)  # a refuted claim, or an error with the file
    assert command == "check" or "k.ll: line 1, column 43: L is LowerTriangular(3)" in capsys.readouterr().err
    path.write_text("A = Matrix(3, 3); A = A;")
    assert "--kernel is for GPU kernels" in refusal_of(capsys, [command, str(path), "--kernel", "k"])


def test_a_file_named_like_a_keyword(tmp_path, capsys):
    path = tmp_path / "for.ll"
    path.write_text(PROGRAM)
    assert "void k_for(double *A" in output_of(capsys, ["compile", str(path), "--emit", "c-header"])
