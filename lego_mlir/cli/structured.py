"""LL programs on the command line: `compile expr.ll`, `run expr.ll`, `check expr.ll`, `explain expr.ll`.

LLVM IR and LL share the suffix `.ll`. A file is LLVM IR if a line begins as only LLVM IR can, such as `define void`;
every other file is parsed as LL, so that an error in its first declaration is reported as an LL error. Only `compile`
accepts LLVM IR.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.cli import files
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.terminal import show
from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.expr.verdict import Verdict
    from lego_mlir.runtime.comparing import Comparison
    from lego_mlir.structured.build import KernelSource
    from lego_mlir.structured.syntax import Operand, Program

EMITTED: Final = ("mlir", "llvm", "obj", "c", "c-header")
_EMITTED_BY_SUFFIX: Final = {"": "mlir", ".mlir": "mlir", ".ll": "llvm", ".o": "obj", ".c": "c", ".h": "c-header"}
TARGETS: Final = ("host", "scalar", "sse2", "avx2", "avx512", "neon", "sve256")
_LLVM_IR: Final = re.compile(
    r"^(?:; ModuleID|source_filename\s*=\s*\"|target\s+(?:triple|datalayout)|(?:define|declare)\s+[\w%{<\[]"
    r"|module\s+asm|attributes\s+#|[@!$]\S+\s*=|%\S+\s*=\s*type\b)",
    re.MULTILINE,
)
_DTYPE: Final = re.compile(r"^[#%]\s*dtype:\s*(\w+)\s*$", re.MULTILINE)
_DTYPES: Final = {"double": "float64", "float": "float32", "float64": "float64", "float32": "float32"}


def is_program(path: str) -> bool:
    """Whether a file is a program in LL: its suffix is `.ll`, and it is not LLVM IR."""
    if Path(path).suffix != ".ll" or not Path(path).is_file():
        return False
    return _LLVM_IR.search(files.read_bytes(path).decode(errors="replace")) is None


def require_program(path: str) -> bool:
    """The same for commands that do not accept LLVM IR. Raises UsageError for LLVM IR."""
    if is_program(path):
        return True
    if Path(path).suffix == ".ll" and Path(path).is_file():
        raise UsageError(f"{path} is LLVM IR, which only `lego-mlir compile` accepts; here a .ll file is an LL program")
    return False


def _source(args: argparse.Namespace) -> KernelSource:
    """The program of a command line, named after its file, in the type of its `# dtype: float` line."""
    from lego_mlir.structured import build as structured

    text = files.read_text(args.spec)
    given = getattr(args, "target", None)
    target = "host" if given in (None, "sm_80") else given  # sm_80 is the default of GPU kernels
    if target not in TARGETS:
        raise UsageError(f"--target {target}: an LL program is compiled for a CPU; targets are {', '.join(TARGETS)}")
    found = _DTYPE.search(text)
    if found is not None and found[1] not in _DTYPES:
        raise UsageError(f"{args.spec}: unknown dtype: {found[1]}; write double or float")
    dtype = _DTYPES[found[1]] if found else "float64"
    try:
        return structured.source_of(text, dtype=dtype, name=_function_name(args.spec), target=target)
    except structured.LLError as error:
        raise UsageError(f"{args.spec}: {error}") from error


def _function_name(path: str) -> str:
    """The kernel's name: that of its file, made a valid C identifier."""
    from lego_mlir.structured import entry_point

    name = re.sub(r"\W", "_", Path(path).stem, flags=re.ASCII) or "kernel"
    return name if name.isidentifier() and name not in entry_point.KEYWORDS else f"k_{name}"


def _refuse(args: argparse.Namespace, options: Sequence[str], taken: str) -> None:
    """Raise UsageError for an option that does not apply to LL programs."""
    for option in options:
        if getattr(args, option, None):
            name = option.replace("_", "-")
            raise UsageError(f"--{name} is for GPU kernels; an LL program takes {taken}")


def compile_program(args: argparse.Namespace) -> int:
    """Write the program's MLIR, LLVM IR, object code, C or C header."""
    args.emit = args.emit or files.emitted_by_suffix(args.output, _EMITTED_BY_SUFFIX)
    if args.emit not in EMITTED:
        raise UsageError(f"--emit {args.emit}: an LL program compiles to {', '.join(EMITTED)}")
    _refuse(
        args,
        ("transform", "param", "kernel", "pipeline", "size", "with_data", "input", "locations"),
        "--emit and --target",
    )
    files.require_not_an_input(args.output, {"program": args.spec})
    with Progress(f"compiling {Path(args.spec).name}"):
        source = _source(args)
        if args.emit == "obj":
            if args.output in (None, files.STANDARD):
                raise UsageError("an object file is binary; give it a file with -o")
            body: bytes = source.object()
        else:
            make = {"mlir": source.mlir, "llvm": source.llvm, "c": source.c, "c-header": source.header}[args.emit]
            body = make().encode()
    files.write(args.output, body)
    return 0


def run_program(args: argparse.Namespace) -> int:
    """Run a program on random input and compare with NumPy; return 1 if a value is wrong."""
    import numpy

    from lego_mlir.cli.options import cache_of
    from lego_mlir.runtime.comparing import compare
    from lego_mlir.structured import build as structured
    from lego_mlir.structured import entry_point, error_bounds, reference

    ours = ("transform", "param", "kernel", "size", "input", "grid", "block", "blocks", "memory", "json")
    _refuse(args, ours, "--seed and --target, and runs on this machine's CPU")
    if args.on == "cuda":
        raise UsageError("--on cuda is for GPU kernels; an LL program runs on this machine's CPU")
    source = _source(args)
    with Progress(f"compiling {Path(args.spec).name}"):
        kernel = structured.compile(
            source.program, dtype=numpy.dtype({"f64": "f8", "f32": "f4"}[source.element]), name=source.name,
            cache=cache_of(args),
        )  # fmt: skip
    arrays = reference.sample(source.program, kernel.dtype, args.seed or 0)
    judged = error_bounds.allowed(source.program, arrays, source.element)
    kernel(*(arrays[operand.name].reshape(entry_point.array_shape(operand)) for operand in source.program.operands))
    right = True
    show(f"{source.name}: {source.program} in {kernel.dtype}, {source.isa.name}, {source.variant}")
    for operand in source.program.operands:
        if operand.name in judged:
            found = compare(reference.dense(operand, arrays[operand.name]), judged[operand.name][0], source.element,
                            judged[operand.name][1])  # fmt: skip
            right &= bool(found)
            show(f"  {'ok   ' if found else 'WRONG'} {operand.name}: {found.summary}{_first_wrong(operand, found)}")
    return 0 if right else 1


def _first_wrong(operand: Operand, found: Comparison) -> str:
    """The row, column and both values of the first wrong element; empty if all are right."""
    if found.first_wrong is None:
        return ""
    row, column = divmod(found.first_wrong.position, operand.structure.columns)
    return f"; the first is {operand.name}[{row}, {column}]: {found.first_wrong}"


def claims(args: argparse.Namespace) -> tuple[str, list[tuple[str, Verdict]]]:
    """A program's title, and its claims with their verdicts, for `check`."""
    from lego_mlir.structured import claims as proved
    from lego_mlir.structured import sets

    program = _program(args)
    with sets.LOCK:
        return f"program {program}", list(proved.claims(program))


def explain_program(args: argparse.Namespace) -> int:
    """Print the steps of a program, their statements on sets, and their loops."""
    from lego_mlir.structured import sets
    from lego_mlir.structured.lower import lower
    from lego_mlir.structured.paper import loops, statements
    from lego_mlir.structured.syntax import LLError

    program = _program(args)
    found: list[dict[str, Any]] = []
    with sets.LOCK:
        try:
            steps = lower(program).steps
        except LLError as error:
            raise UsageError(f"{args.spec}: {error}") from error
        for step in steps:
            made = statements.statements(step)
            listed = [{"name": s.name, "body": str(s.body), "domain": str(s.domain)} for s in made]
            target = {"name": step.target.name, "structure": str(step.target.structure)}
            loop = loops.show(statements.scan(made)) if made else ""
            found.append({"step": str(step), "target": target, "statements": listed, "loops": loop})
    if args.json:
        operands = {o.name: {"structure": str(o.structure), "sinfo": dict(o.structure.sinfo)} for o in program.operands}
        print_json(args.command, {"program": str(program), "operands": operands, "steps": found})
        return 0
    print(f"program {program}")
    for operand in program.operands:
        print(f"  {operand.name}: {operand.structure}, {operand.storage}")
        print("\n".join(f"    {tag}: {region}" for tag, region in operand.structure.sinfo))
    for number, one in enumerate(found):
        print(f"\nstep {number}: {one['step']}, {one['target']['name']} is {one['target']['structure']}")
        print("\n".join(f"  {s['name']}: {s['body']} for {s['domain']}" for s in one["statements"]))
        print("\n".join(f"    {line}" for line in one["loops"].splitlines()))
    return 0


def _program(args: argparse.Namespace) -> Program:
    """The parsed program, for commands that compile nothing. Raises UsageError with the file's name."""
    from lego_mlir.structured.language import parse
    from lego_mlir.structured.syntax import LLError

    _refuse(args, ("kernel",), "the program alone")
    try:
        return parse(files.read_text(args.spec))
    except LLError as error:
        raise UsageError(f"{args.spec}: {error}") from error
