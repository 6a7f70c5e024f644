"""What a user meets who gives the command line something wrong: exit code 2 and one message with its remedy."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lego_mlir.cli.main import BAD_INPUT, DONE, main
from lego_mlir.errors import UsageError
from lego_mlir.store import make_folder

ROOT = Path(__file__).parents[2]
TRANSPOSE = str(ROOT / "examples" / "transpose.py")

SPECS = {
    "syntax": ("def f(:\n", r"spec.py:1: syntax error: invalid syntax"),
    "not Python": ("\0\n", r"spec.py:?1?: (syntax error: )?.*null bytes"),
    "exception": ("a = 1\nb = a / 0\n", r"spec.py:2: ZeroDivisionError: division by zero\n  b = a / 0"),
    "in a function": ("def f():\n    return [][1]\n\nx = f()\n", r"spec.py:2: IndexError.*\n  return \[\]\[1\]"),
    "import": (
        "import no_such_package_here.sub\n",
        r"(?s)spec.py:1: ModuleNotFoundError.*pip install no_such_package_here",
    ),
    "exit": ("import sys\nsys.exit(3)\n", r"the spec exited the program \(exit code 3\); a spec must only define"),
    "exit in a kernel": (
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=4)\ndef k(x: lego.Tensor(f32, Row(4))):\n    exit('enough')\n",
        r"spec.py:5: the spec exited the program \(exit code enough\); a spec must only define\n  exit\('enough'\)",
    ),
    "an exception beside Exception": (
        "class Stop(BaseException): pass\nraise Stop('here')\n",
        r"spec.py:2: .*Stop: here\n  raise Stop",
    ),
    "async": (
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=4)\nasync def k(x: lego.Tensor(f32, Row(4))):\n    x[0] = 1.0\n",
        r"spec.py:3: the kernel k is async, and its body would not run while it is traced; write `def`: a kernel is",
    ),
    "async generator": (
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=4)\nasync def k(x: lego.Tensor(f32, Row(4))):\n    yield x\n",
        r"spec.py:3: the kernel k is async",
    ),
    "generator": (
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=4)\ndef k(x: lego.Tensor(f32, Row(4))):\n    x[0] = 1.0\n    yield\n",
        r"spec.py:3: the kernel k is a generator, and its body would not run while it is traced; remove `yield`",
    ),
    "a kernel replaced": (
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=4)\ndef k(x: lego.Tensor(f32, Row(4))):\n    x[0] = 1.0\n"
        "@lego.kernel(grid=1, block=4)\ndef k(x: lego.Tensor(f32, Row(8))):\n    x[0] = 2.0\n",
        r"spec.py:6: a second kernel named k replaces the one at .*spec.py:3; give one of them another name",
    ),
    "no kernel": ("x = 1\n", r"this spec has no kernel; decorate a function with @lego.kernel\(grid=..., block=...\)"),
    "sigma": ("from lego_mlir import RegP\nr = RegP([4, 6], [0, 1])\n", r"spec.py:2: .*1-based"),
    "refuted": (
        "import lego_mlir as lego\n"
        "from lego_mlir import GenP, f32\n"
        "bad = GenP([4, 4], lambda i, j: i + j, lambda p: (p // 4, p % 4))\n"
        "@lego.kernel(grid=1, block=16)\n"
        "def k(dst: lego.Tensor(f32, bad)):\n"
        "    dst[0, 0] = 1.0\n",
        r"spec.py:3: .*not a bijection",
    ),
    "in the kernel": (
        "import lego_mlir as lego\n"
        "from lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=64)\n"
        "def k(dst: lego.Tensor(f32, Row(32))):\n"
        "    dst[lego.thread_id[0]] = 1.0\n",
        r"spec.py:5: dst\[tx\]: index 0 of \[32\] leaves 0 .. 31",
    ),
    "two of one name": (
        "from lego_mlir import f32\nfrom lego_mlir.kernels import copy\n"
        "a = copy.build(64, 64, f32)\nb = copy.build(32, 32, f32)\n",
        r"two kernels are named copy, and one module cannot hold both; compile one of them",
    ),
}


def refused(capsys, *arguments):
    assert main(list(arguments)) == BAD_INPUT
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "internal error" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("x.mlir", "modules are read by the commands analyze, check"), ("m.safetensors", "lego-mlir check --format and")],
)
def test_a_file_that_is_no_spec_names_what_reads_it(name, remedy, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    assert main(["explain", str(path)]) == BAD_INPUT
    assert f"{path}: a spec is a Python file; " in (message := capsys.readouterr().err) and remedy in message


@pytest.mark.parametrize("why", SPECS)
def test_a_spec_that_is_wrong(tmp_path, capsys, why):
    text, message = SPECS[why]
    path = tmp_path / "spec.py"
    path.write_text(text)
    out = tmp_path / "out.mlir"
    out.write_text("as it was")
    error = refused(capsys, "compile", str(path), "-o", str(out))
    assert re.search(message, error), error
    assert out.read_text() == "as it was"


TALKATIVE = """
import sys
import lego_mlir as lego
from lego_mlir import GenP, Row, f32
from lego_mlir.templates import Template
print("loading")
def swap(i, j):
    print("in a layout")
    return j * 8 + i
tile = GenP([8, 8], swap, lambda p: (p % 8, p // 8))
text = Template.of("x = {{ f() }}\\n", "t.py.jinja", f=lambda: print("rendering") or 1)
@lego.kernel(grid=1, block=4)
def k(x: lego.Tensor(f32, Row(4)), y: lego.Tensor(f32, Row(4))):
    print("tracing")
    y[lego.thread_id[0]] = x[lego.thread_id[0]]
@k.reference
def computed(x):
    print("computing")
    return x
"""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("compile {} -o -", {"loading", "in a layout", "tracing"}),
        ("run {} --json", {"loading", "tracing", "computing"}),
        ("run {}", {"loading", "tracing", "computing"}),
        ("check {}", {"loading", "in a layout", "tracing", "rendering"}),
        ("explain {}", {"loading", "in a layout", "tracing"}),
        ("analyze {} --json", {"loading", "tracing"}),
        ("render text --spec {}", {"loading", "rendering"}),
    ],
)
def test_what_a_spec_prints_does_not_mix_with_results(tmp_path, capfd, command, said):
    path = tmp_path / "spec.py"
    path.write_text(TALKATIVE)
    assert main(command.format(path).split()) == DONE
    captured = capfd.readouterr()
    assert said <= set(captured.err.splitlines())
    assert not set(captured.out.splitlines()) & {"loading", "in a layout", "tracing", "computing", "rendering"}
    if "--json" in command:
        json.loads(captured.out)


def test_both_kernels_of_one_name_are_found_where_each_has_a_variable(tmp_path, capsys):
    kernel = "@lego.kernel(grid=1, block=4)\ndef k(x: lego.Tensor(f32, Row(4))):\n    x[lego.thread_id[0]] = 1.0\n"
    path = tmp_path / "spec.py"
    path.write_text(f"import lego_mlir as lego\nfrom lego_mlir import Row, f32\n{kernel}a = k\n{kernel}")
    assert main(["check", str(path)]) == DONE
    assert capsys.readouterr().out.count("kernel k, ") == 2


SYMBOLIC = str(ROOT / "examples" / "symbolic.py")
SMALL = "pack matmul --sizes 64 --target sm_90 -o"
NO_STAGE = "the transform script would not run: it makes the stage transformed, which is not on the way"
REFUSED = [
    ("compile none.py", "none.py: no such file; give the path of a spec"),
    ("check .", "is a folder; give the path of a spec"),
    ("compile none.mlir", "none.mlir: no such file"),
    ("compile fails.py --target sm_42", "unknown target 'sm_42'; known: sm_75, sm_80"),
    (f"compile {TRANSPOSE} --kernel nope", "no kernel named 'nope'; it has: transpose"),
    (f"compile {TRANSPOSE} --emit ptx -o k.ptx --with-data --size K=3", "--size K: no kernel here has that size"),
    (f"compile {TRANSPOSE} --emit ptx -o k.ptx --with-data --size K", "--size takes NAME=N, such as M=4096, not 'K'"),
    (f"compile {SYMBOLIC} --emit ptx -o k.ptx --with-data --size N=6",
     "N = 6: the kernel needs at least 4, a multiple of 4\n"),
    (f"compile {TRANSPOSE} --with-data", "--with-data requires a spec"),
    ("compile empty.mlir --kernel k", "--kernel selects a kernel of a spec"),
    ("compile wrong.mlir --emit ptx", "wrong.mlir:3:5: error:"),
    ("compile wrong.mlir --emit ptx", "to reproduce: lego-mlir compile"),
    (f"run {TRANSPOSE} --seed=-1", "argument --seed: must be an integer of at least 0, not '-1'"),
    (f"run {TRANSPOSE} --memory 0", "argument --memory: must be an integer of at least 1, not '0'"),
    (f"run {SYMBOLIC} --size M=99999999999999999999", "--size M=99999999999999999999: a size is at most"),
    ("run nothing.mlir", "nothing to run: this module has no kernel and no function"),
    (f"compile {TRANSPOSE} -o none/k.mlir", "the folder none does not exist; create it"),
    (f"compile {TRANSPOSE} -o .", "is a folder; give the output file a name"),
    (f"compile {TRANSPOSE} -o /proc/k.mlir", "/proc/k.mlir: cannot be written"),  # root cannot write there either
    (f"compile {TRANSPOSE} -o /proc/k.mlir", "choose another folder with -o"),
    (f"compile {TRANSPOSE} --emit ptx --cache-dir fails.py", "the cache folder fails.py cannot be used"),
    (f"compile {TRANSPOSE} --emit ptx --cache-dir fails.py", "--no-cache"),
    (f"compile {TRANSPOSE} --transform none.mlir", "none.mlir: the transform script cannot be read"),
    (f"compile {TRANSPOSE} --emit mlir --transform matmul_sm80.mlir", NO_STAGE),
    ("compile k.ll --emit ptx --transform matmul_sm80.mlir", NO_STAGE),
    (f"compile {TRANSPOSE} --transform ldmatrix_mma.mlir",
     'looked for ops ["vector.contract"], and found memref.load'),
    (f"compile {TRANSPOSE} --emit nvvm --pipeline builtin.module(cse,)",
     "'' does not refer to a registered pass or pass pipeline at column 20"),
    (f"{SMALL} {TRANSPOSE}", "transpose.py is a file and no folder; choose another folder than"),
    (f"{SMALL} {TRANSPOSE}/kernels", "transpose.py is a file and no folder; choose another folder than"),
    (f"{SMALL} kernels --multiprocessors 0", "--multiprocessors: must be an integer of at least 1, not '0'"),
    (f"tune {TRANSPOSE} --gpus x", "--gpus: must be an integer of at least 1, not 'x'"),
    (f"tune {TRANSPOSE} --local-cluster -1", "--local-cluster: must be an integer of at least 0, not '-1'"),
    (f"check {TRANSPOSE} --transform nope.mlir", "nope.mlir: the transform script cannot be read"),
    (f"bench {TRANSPOSE}", "transpose has no rival: its reference runs on the CPU; name some in the spec"),
]  # fmt: skip
FILES = {
    "fails.py": "raise SystemError('it was run')\n",
    "empty.mlir": "module {}",
    "wrong.mlir": "module {\n  gpu.module @m {\n    nonsense\n  }\n}\n",
    "nothing.mlir": "",
    "k.ll": 'source_filename = "k"\n',
}


@pytest.mark.parametrize(("command", "words"), REFUSED)
def test_a_command_that_is_refused(tmp_path, monkeypatch, capsys, command, words):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    assert main(command.split()) == BAD_INPUT
    captured = capsys.readouterr()
    assert words in captured.err and "claim" not in captured.out
    assert "Traceback" not in captured.err and "internal error" not in captured.err
    assert {path.name for path in tmp_path.iterdir()} == FILES.keys()


@pytest.mark.parametrize(
    "command", ["run k.mlir", "analyze k.mlir", "compile k.mlir --emit ptx", "run k.ll", "compile k.ll"]
)
def test_a_text_that_is_not_utf_8(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    Path("k.mlir").write_bytes(b"modul\xff {}")
    Path("k.ll").write_bytes(b"A = Matrix(4, 4);\xff")
    assert re.search(r"k.\w+: not (UTF-8|a) text.*0xff", refused(capsys, *command.split()))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_output_folder(tmp_path, capsys):
    folder = tmp_path / "locked"
    folder.mkdir()
    (folder / "k.mlir").write_text("as it was")
    folder.chmod(0o500)
    error = refused(capsys, "compile", TRANSPOSE, "-o", str(folder / "k.mlir"))
    assert "cannot be written (Permission denied" in error
    assert (folder / "k.mlir").read_text() == "as it was"


def _other_names(path):
    """A file's own path, a relative one, one through another folder, and two kinds of link."""
    soft, hard = path.with_name("soft"), path.with_name("hard")
    soft.symlink_to(path)
    hard.hardlink_to(path)
    (path.parent / "folder").mkdir(exist_ok=True)
    return map(str, (path, os.path.relpath(path), path.parent / "folder" / ".." / path.name, soft, hard))


@pytest.mark.parametrize(
    ("command", "what", "victim"),
    [
        ("compile spec.py --emit mlir", "spec", "spec.py"),
        ("compile k.mlir --emit ptx", "input", "k.mlir"),
        ("compile spec.py --emit mlir --transform t.mlir", "transform script", "t.mlir"),
        ("compile program.ll --emit mlir", "program", "program.ll"),
        ("render t.py.jinja --spec spec.py", "template", "t.py.jinja"),
        ("render t.py.jinja --spec spec.py", "spec", "spec.py"),
        ("render mine --spec spec.py", "template", "t.py.jinja"),
    ],
)
def test_an_output_over_an_input(tmp_path, capsys, monkeypatch, command, what, victim):
    monkeypatch.chdir(tmp_path)
    texts = {
        "spec.py": f"{Path(TRANSPOSE).read_text()}\nfrom lego_mlir.templates import Template\n"
        "mine = Template.read('t.py.jinja')\n",
        "t.py.jinja": "x = 1\n",
        "k.mlir": "module {}\n",
        "t.mlir": "module {}\n",
        "program.ll": "A = Matrix(4, 4);\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    for output in _other_names(tmp_path / victim):
        error = refused(capsys, *command.split(), "-o", output)
        assert f"-o {output} is the {what} itself; choose another output file" in error
    assert {name: Path(name).read_text() for name in texts} == texts


def test_a_manifest_over_an_input(tmp_path, capsys):
    given = tmp_path / "k.json"
    given.write_text("module {}")
    error = refused(capsys, "compile", str(given), "--from", "mlir", "--emit", "ptx", "-o", str(tmp_path / "k.ptx"))
    assert "k.json is the input itself" in error
    assert given.read_text() == "module {}"


@pytest.mark.parametrize("name", ["k.foo", "k.o", "k.py", "k.ptx.bak"])
def test_an_output_whose_suffix_says_nothing(tmp_path, capsys, name):
    error = refused(capsys, "compile", TRANSPOSE, "-o", str(tmp_path / name))
    assert f"no stage has the suffix {Path(name).suffix}; the suffixes are .mlir, .ll, .ptx, .cubin, or add" in error
    program = tmp_path / "p.ll"
    program.write_text("A = Matrix(4, 4);\n")
    error = refused(capsys, "compile", str(program), "-o", str(tmp_path / "k.ptx"))
    assert "no stage has the suffix .ptx; the suffixes are .mlir, .ll, .o, .c, .h, or add --emit STAGE" in error
    assert [p.name for p in tmp_path.iterdir()] == ["p.ll"]


def test_an_option_that_no_command_has(capsys):
    error = refused(capsys, "render", "t.py.jinja", "--spec", "s.py", "--chek")
    assert "lego-mlir render: unrecognized arguments: --chek; did you mean --check?; see: lego-mlir render" in error
    assert "did you mean --emit?; see: lego-mlir compile" in refused(capsys, "compile", TRANSPOSE, "--emt=ptx")
    assert "--debug; give --debug after the command; see:" in refused(capsys, "--debug", "check", TRANSPOSE)
    assert "lego-mlir compile: unrecognized arguments: more; see:" in refused(capsys, "compile", TRANSPOSE, "more")


def test_an_output_where_the_manifest_or_the_data_will_lie(tmp_path, capsys):
    error = refused(capsys, "compile", TRANSPOSE, "--emit", "ptx", "-o", str(tmp_path / "k.json"))
    assert f"the manifest beside the code has that name; write, for example, -o {tmp_path / 'k.ptx'}" in error
    error = refused(capsys, "compile", TRANSPOSE, "--emit", "ptx", "--with-data", "-o", str(tmp_path / "k.npz"))
    assert "the data beside the code has that name" in error
    assert list(tmp_path.iterdir()) == []


def test_nothing_lies_beside_a_device():
    assert main(["compile", TRANSPOSE, "--emit", "ptx", "-o", "/dev/null"]) == DONE
    assert not Path("/dev/null.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(capsys):
    assert "/dev/full: cannot be written (No space left" in refused(capsys, "compile", TRANSPOSE, "-o", "/dev/full")
    with Path("/dev/full").open("w") as full:
        done = _started("compile", TRANSPOSE, stdout=full)
    message = [line for line in done.stderr.splitlines() if line.startswith("lego-mlir")]  # progress lines come first
    assert (done.returncode, len(message)) == (BAD_INPUT, 1)
    assert "cannot be written: No space left on device" in done.stderr


def test_closed_standard_streams():
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&- <&-', "sh", sys.executable, "-m", "lego_mlir.cli.main", "compile", TRANSPOSE],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        BAD_INPUT,
        "lego-mlir compile: standard output is closed; give an output file with -o",
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "lego_mlir.cli.main", "compile", "-"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert "standard input is closed; give the name of a file" in done.stderr
    assert done.returncode == BAD_INPUT


def test_a_mistake_in_a_kernel_that_lies_beside_the_spec(tmp_path, capsys):
    (tmp_path / "kernels_beside_it.py").write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "@lego.kernel(grid=1, block=4)\ndef k(x: lego.Tensor(f32, Row(4))):\n    x[0] = undefined\n"
    )
    (tmp_path / "spec.py").write_text("from kernels_beside_it import k\n")
    for command in ("compile", "check", "explain"):
        error = refused(capsys, command, str(tmp_path / "spec.py"))
        assert "kernels_beside_it.py:5: NameError: name 'undefined' is not defined" in error


def _started(*arguments, stdout):
    return subprocess.run(
        [sys.executable, "-m", "lego_mlir.cli.main", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


SMALL = ["pack", "matmul", "--sizes", "64", "--target", "sm_90", "-o"]


def test_a_folder_that_the_system_refuses(tmp_path, monkeypatch):
    def refused(self, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(UsageError, match=r"kernels: the folder cannot be made \(No space left on device\); choose"):
        make_folder(tmp_path / "kernels")
