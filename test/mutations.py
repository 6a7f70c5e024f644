"""Mutated inputs through the command line: each ends with an exit code and one message, whatever was in the file.

    python test/mutations.py --first 0 --count 100 --keep build/mutations

A case is a number: it chooses a seed file (a spec, a template, a program in LL, MLIR, LLVM IR, a transform script), the
mutations of its text, and a command. Each runs in a process that is forked after the imports, so that an abort or a
hang ends one case and is reported; what failed is kept with the command that fails again.
"""

import argparse
import io
import json
import os
import random
import re
import resource
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60  # for one case; on a machine that does nothing else nearly all take less than two
MEMORY = 12 << 30

TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_@%!][\w.$]*|\d+(?:\.\d+)?(?:e[-+]?\d+)?|[-+*/%<>=!&|^~]+|\s+|.', re.DOTALL)
NUMBERS = ("0", "1", "2", "3", "-1", "7", "31", "33", "100", "1024", "65536", "2147483648", "0.1", "1e400")
CHARACTERS = ("\0", "\t", "é", "\u2028", "\ufeff", *"{}()\"'\\#%@:;", "{{", "}}")


# -- mutations of a text


def _replace(draw: random.Random, tokens: list[str], at: int) -> None:
    tokens[at] = draw.choice([t for t in tokens if not t.isspace()])


def _delete(draw: random.Random, tokens: list[str], at: int) -> None:
    del tokens[at : at + draw.choice((1, 1, 1, 2, 4))]


def _repeat(draw: random.Random, tokens: list[str], at: int) -> None:
    tokens[at:at] = tokens[at : at + draw.choice((1, 2, 4))]


def _swap(draw: random.Random, tokens: list[str], at: int) -> None:
    other = draw.randrange(len(tokens))
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _number(draw: random.Random, tokens: list[str], at: int) -> None:
    places = [i for i, token in enumerate(tokens) if token[:1].isdigit()] or [at]
    tokens[draw.choice(places)] = draw.choice(NUMBERS)


def _character(draw: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(at, draw.choice(CHARACTERS))


def _line(draw: random.Random, tokens: list[str], at: int) -> None:
    """Delete, repeat or move a line."""
    lines = "".join(tokens).splitlines(keepends=True)
    line = draw.randrange(len(lines))
    taken = lines.pop(line)
    for _ in range(draw.choice((0, 1, 2))):
        lines.insert(draw.randrange(len(lines) + 1), taken)
    tokens[:] = TOKEN.findall("".join(lines))


def _cut(draw: random.Random, tokens: list[str], at: int) -> None:
    del tokens[at:]


MUTATIONS: tuple[Callable[[random.Random, list[str], int], None], ...] = (
    *(_replace, _replace, _replace, _delete, _delete, _repeat, _swap, _swap, _number, _number, _number, _line, _line),
    *(_character, _cut),
)


def mutated(draw: random.Random, text: str) -> bytes:
    """A text after one to three mutations; rarely with a byte that is not UTF-8."""
    tokens = TOKEN.findall(text)
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3))):
        if tokens:
            draw.choice(MUTATIONS)(draw, tokens, draw.randrange(len(tokens)))
    body = "".join(tokens).encode(errors="surrogatepass")
    return body.replace(b"a", b"\xff", 1) if draw.random() < 0.01 else body


# -- seeds


@dataclass(frozen=True)
class Seed:
    """A text that is mutated, the files beside it, and the commands that take it; {} is the mutated file."""

    suffix: str
    text: str
    commands: tuple[str, ...]
    beside: tuple[tuple[str, str], ...] = ()


_OF_SPEC = (
    *("check {}", "check {}", "explain {}", "run {}", "analyze {}", "compile {} -o out.mlir"),
    *("compile {} -o out.ptx", "compile {} --emit llvm -o out.ll"),
)
_OF_MODULE = ("compile {} -o out.ptx", "compile {} --emit nvvm", "compile {} -o out.ll", "run {}", "analyze {}")
_OF_SCRIPT = ("compile kernel.mlir --emit transformed --transform {}", "compile kernel.mlir --emit ptx --transform {}")
_OF_TEMPLATE = ("render mine --spec spec.py", "check spec.py", "render mine --spec spec.py --check")
_BUILDERS = {
    "softmax": "rows.softmax(64, 100)",
    "layer_norm": "rows.layer_norm(64, 256)",
    "attention": "attention.attention(2, 4, 128, 64)",
    "matmul": "matmul.matmul(256, 256, 128)",
    "relayout": "matmul.relayout(Row(128, 64), Col(128, 64))",
    "stencil": "stencil.stencil(32, '7-point', stencil.row_major(32))",
    "nw": "nw.nw(64, 16)",
}
_TEMPLATE_SPEC = """import dataclasses
from lego_mlir import Col, Row
from lego_mlir.templates.library import attention, matmul, nw, rows, stencil
shipped = {build}
mine = dataclasses.replace(shipped, text=open("given{suffix}", encoding="utf-8").read())
del shipped
"""
PROGRAMS = (
    "A = Matrix(4, 4); L = LowerTriangular(4); S = Symmetric(L, 4); U = UpperTriangular(4); A = L*U + S;",
    "x = Vector(6); L = LowerTriangular(6); x = L \\ x;",
    "C = Matrix(5, 7); A = Matrix(5, 3); B = Matrix(3, 7); a = Scalar(); C = a*A*B + C;",
)


def seeds() -> list[Seed]:
    """Every seed, in an order that does not change."""
    found = [
        Seed(".py", path.read_text(), _OF_SPEC)
        for path in sorted((ROOT / "examples").glob("*.py"))
        if path.stem not in ("bring_your_own_ir", "scale_spec")  # the first calls the bindings by itself
    ]
    found += [Seed(".ll", text, ("compile {} -o out.mlir", "compile {} -o out.o", "run {}")) for text in PROGRAMS]
    modules = {name: _emitted(name) for name in ("transpose", "matmul", "symbolic")}
    found += [Seed(".mlir", text, _OF_MODULE) for text in modules.values()]
    found.append(Seed(".ll", _emitted("transpose", "llvm"), ("compile {} -o out.ptx",)))
    tiles = (("kernel.mlir", modules["matmul"]),)
    scripts = sorted((ROOT / "transform_scripts").glob("*.mlir"))
    found += [Seed(".mlir", path.read_text(), _OF_SCRIPT, tiles) for path in scripts if path.stem != "matmul_sm80"]
    found += list(_templates())
    return found


def _emitted(example: str, stage: str = "mlir") -> str:
    from lego_mlir import spec
    from lego_mlir.toolchain import compile_kernel

    return compile_kernel(spec.load(ROOT / "examples" / f"{example}.py").kernels_named(None), emit=stage).stage(stage)


def _templates() -> Iterator[Seed]:
    for name, build in _BUILDERS.items():
        for path in sorted((ROOT / "lego_mlir" / "templates" / "library").glob(f"{name}.*.jinja")):
            suffix = "".join(path.suffixes)
            spec = _TEMPLATE_SPEC.format(build=build, suffix=suffix)
            yield Seed(suffix, path.read_text(), _OF_TEMPLATE, (("spec.py", spec),))


# -- one case


@dataclass(frozen=True)
class Outcome:
    """How a case ended; `fault` is empty where it ended as it should."""

    number: int
    command: str
    fault: str
    output: str
    seconds: float


def command_of(number: int, choices: list[Seed]) -> tuple[str, Seed, bytes]:
    """The command of a case, its seed, and the mutated text."""
    draw = random.Random(number)
    seed = choices[number % len(choices)]
    return draw.choice(seed.commands).format(f"given{seed.suffix}"), seed, mutated(draw, seed.text)


def run_case(number: int, choices: list[Seed], folder: Path) -> Outcome:
    """Write the files of a case into an empty folder, run its command in a new process, and judge the outcome."""
    command, seed, body = command_of(number, choices)
    folder.mkdir(parents=True)
    (folder / f"given{seed.suffix}").write_bytes(body)
    for name, text in seed.beside:
        (folder / name).write_text(text)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _run_here(command, folder)
    status = _wait(child, start)
    output = (folder / "output.txt").read_text(errors="replace")
    return Outcome(number, command, _fault(status, output), output, time.monotonic() - start)


def _run_here(command: str, folder: Path) -> None:
    code = 70
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        handle = os.open("output.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), encoding="utf-8", line_buffering=True)
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), encoding="utf-8", line_buffering=True)
        from lego_mlir.cli.main import main

        code = main([*shlex.split(command), *(["--no-cache"] if command.startswith(("compile", "run", "ana")) else [])])
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _wait(child: int, start: float) -> int | None:
    """The exit status, None where the case was killed for its time."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() - start > SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.005)


def _fault(status: int | None, output: str) -> str:
    if status is None:
        return "hang"
    if os.WIFSIGNALED(status):
        return f"abort, {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    for what in ("Traceback (most recent", "internal error", "Exception ignored"):
        if what in output:
            return what
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if code and not output.strip():
        return f"exit code {code} without a message"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--count", type=int, default=100, help="how many cases")
    parser.add_argument("--keep", type=Path, required=True, help="a folder for the cases that fail")
    options = parser.parse_args()
    import shutil

    os.environ["XDG_CACHE_HOME"] = str((options.keep / "cache").resolve())
    choices = seeds()
    _warm_up()
    failed = 0
    for number in range(options.first, options.first + options.count):
        folder = options.keep / f"case{number}"
        outcome = run_case(number, choices, folder)
        if outcome.fault:
            failed += 1
            print(json.dumps(vars(outcome) | {"output": outcome.output[-600:], "kept": str(folder)}), flush=True)
        else:
            shutil.rmtree(folder)
    print(f"{options.count} cases, {failed} failed", flush=True)
    return bool(failed)


def _warm_up() -> None:
    """Import what the commands need once, before the forks."""
    import importlib

    for name in ("check", "compile", "explain", "run", "analyze", "render", "structured"):
        importlib.import_module(f"lego_mlir.cli.{name}")
    importlib.import_module("lego_mlir.interp")
    importlib.import_module("lego_mlir.structured.build")


if __name__ == "__main__":
    sys.exit(main())
