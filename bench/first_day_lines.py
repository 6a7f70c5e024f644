"""Lines of the kernels in examples/first_day and of the same in CUDA C++: data of docs/results/first-day.md.

    python bench/first_day_lines.py            print the table and write docs/results/data/first-day-lines.csv
    python bench/first_day_lines.py --check    print it, and fail where ours is too long or the file is out of date

A line counts if it has code on it: blank lines, comments, docstrings and imports do not count. On our side count the
kernels and programs with their decorators, and the functions and constants of the file that they use; not its reference
and inputs. In bench/rivals/first_day.cu count the kernels of the example's namespace, its constants and functions,
the body of its `launch` (our decorators state the launch), and the functions shared between namespaces that it uses;
not the signature of `launch`, and not the lines that open and close a namespace.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

import runner

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "first_day"
RIVALS = ROOT / "bench" / "rivals" / "first_day.cu"
DATA = ROOT / "docs" / "results/data/first-day-lines.csv"
LIMIT = 1.3  # our lines for one of CUDA
LAUNCHED = {"kernel", "program"}  # the decorators of functions that a caller runs
LAYOUT_TOKENS = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Row:
    """The lines of one example; `shared` of the CUDA lines are in functions that several namespaces use."""

    name: str
    ours: int
    cuda: int
    shared: int

    @property
    def ratio(self) -> float:
        return self.ours / self.cuda


def lines_of_python(text: str) -> int:
    """The code lines of the kernels of a spec and of what they use, by name, at the level of the module."""
    statements = {name: node for node in ast.parse(text).body for name in _defined(node)}
    launched = [node for node in statements.values() if isinstance(node, ast.FunctionDef) and _is_launched(node)]
    counted, waiting = set[int](), list[ast.stmt](launched)
    while waiting:
        node = waiting.pop()
        lines = set(range(_first_line(node), (node.end_lineno or node.lineno) + 1)) - _docstring(node)
        if not lines <= counted:
            counted |= lines
            used = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            waiting += [statements[name] for name in used if name in statements]
    return len(counted & _lines_with_code(text))


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return []


def _is_launched(node: ast.FunctionDef) -> bool:
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(isinstance(d, ast.Attribute) and d.attr in LAUNCHED for d in decorators)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def _docstring(node: ast.stmt) -> set[int]:
    if not isinstance(node, ast.FunctionDef) or ast.get_docstring(node) is None:
        return set()
    return set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))


def _lines_with_code(text: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {n for t in tokens if t.type not in LAYOUT_TOKENS for n in range(t.start[0], t.end[0] + 1)}


def lines_of_cuda(text: str, name: str) -> tuple[int, int]:
    """The code lines of one namespace with the shared functions it uses, and those of the shared functions alone."""
    text = re.sub(r"//.*", "", text)
    own = re.search(rf"^namespace {name} \{{$(.*?)^\}} *$(?=\s*(namespace|\Z))", text, re.M | re.S)
    if own is None:
        raise SystemExit(f"{RIVALS.name} has no namespace {name} for examples/first_day/{name}.py")
    body = re.sub(r"^using namespace .*$", "", own[1], flags=re.M)
    before, launch = re.split(r"^void launch\([^{]*\{", body, flags=re.M)
    code = before + launch[: launch.rindex("}")]
    shared = 0
    functions = {
        n: f for f in text.split("namespace ")[0].split("\n\n") for n in re.findall(r"__device__ \w+ (\w+)", f)
    }
    waiting, seen = [code], set[str]()
    while waiting:
        for used in set(re.findall(r"\w+", waiting.pop())) & functions.keys() - seen:
            seen.add(used)
            shared += _count(functions[used])
            waiting.append(functions[used])
    return _count(code) + shared, shared


def _count(code: str) -> int:
    return sum(1 for line in code.splitlines() if line.strip())


def rows() -> list[Row]:
    cuda = RIVALS.read_text()
    examples = sorted(EXAMPLES.glob("*.py"))
    return [Row(p.stem, lines_of_python(p.read_text()), *lines_of_cuda(cuda, p.stem)) for p in examples]


def table(found: list[Row]) -> str:
    """The lines of every example, and of all, as comma-separated values."""
    lines = [f"{r.name},{r.ours},{r.cuda},{r.shared or ''},{r.ratio:.2f}" for r in found]
    ours, cuda = sum(r.ours for r in found), sum(r.cuda for r in found)
    return "\n".join(["example,ours,CUDA,of these shared,ratio", *lines, f"all,{ours},{cuda},,{ours / cuda:.2f}", ""])


def main() -> int:
    found = rows()
    print(table(found))
    long = [f"more than {LIMIT} times the lines of CUDA: {r.name}" for r in found if r.ratio > LIMIT]
    return runner.document({DATA: table(found)}, long)


if __name__ == "__main__":
    sys.exit(main())
