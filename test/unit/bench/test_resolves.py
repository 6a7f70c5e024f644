"""Every module of bench and test/hardware: what it takes from the package and from the others is there.

A benchmark runs on a GPU, long after a merge may have renamed what it calls. So its text is read: each import is done,
each attribute of what was imported is looked up, and each call that spells out its arguments is bound to the
signature. Modules that need PyTorch or Triton at their import are read too, and known to others by the names that they
define.
"""

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench"
PATHS = {
    ".".join(path.relative_to(BENCH).with_suffix("").parts): path
    for path in sorted(BENCH.rglob("*.py"))
    if "recipes" not in path.parts
} | {path.stem: path for path in sorted((ROOT / "test" / "hardware").glob("[!t]*.py"))}
SEARCHED = [
    str(BENCH),
    str(ROOT / "test" / "hardware"),
    str(BENCH / "corpus"),
    str(ROOT / "test"),
    str(ROOT / "examples"),
]
sys.path[:0] = SEARCHED
OURS = ("lego_mlir", *{name.partition(".")[0] for name in PATHS}, *(path.stem for path in BENCH.glob("corpus/*.py")))
UNKNOWN = object()
"""What a name stands for that is not followed."""


class Defined:
    """The names that a module defines which cannot be imported here."""

    def __init__(self, path):
        for node in ast.parse(path.read_text()).body:
            for name in names_of(node):
                setattr(self, name, UNKNOWN)


def names_of(node):
    """The names that a statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def module(name):
    """A module, or what it defines where a library that it needs is not here."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OURS:
            raise
        found = PATHS.get(name) or PATHS.get(f"corpus.{name}")
        return UNKNOWN if found is None else Defined(found)


class Reader(ast.NodeVisitor):
    """Follows what is imported through the scopes of a module; `wrong` says what is not there."""

    def __init__(self):
        self.scopes, self.wrong, self.looked_up = [{}], [], 0

    def known(self, name):
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), UNKNOWN)

    def visit_Import(self, node):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            if top in OURS:
                found = module(alias.name)
                self.scopes[-1][alias.asname or top] = found if alias.asname else module(top)

    def visit_ImportFrom(self, node):
        if node.module is None or node.module.partition(".")[0] not in OURS:
            return
        source = module(node.module)
        for alias in node.names:
            self.looked_up += 1
            if source is UNKNOWN:
                continue
            try:
                found = getattr(source, alias.name) if hasattr(source, alias.name) else module(
                    f"{node.module}.{alias.name}"
                )  # fmt: skip
            except ModuleNotFoundError:
                self.wrong.append(f"{node.lineno}: {node.module} has no {alias.name}")
                found = UNKNOWN
            self.scopes[-1][alias.asname or alias.name] = found

    def value(self, node):
        """What an expression stands for."""
        if isinstance(node, ast.Name):
            return self.known(node.id)
        if not isinstance(node, ast.Attribute):
            return UNKNOWN
        owner = self.value(node.value)
        if not (inspect.ismodule(owner) or inspect.isclass(owner) or isinstance(owner, Defined)):
            return UNKNOWN
        self.looked_up += 1
        if hasattr(owner, node.attr):
            return getattr(owner, node.attr)
        if not (inspect.isclass(owner) and node.attr in getattr(owner, "__annotations__", {})):
            self.wrong.append(f"{node.lineno}: {getattr(owner, '__name__', owner)} has no {node.attr}")
        return UNKNOWN

    def visit_Attribute(self, node):
        self.value(node)
        while isinstance(node, ast.Attribute):
            node = node.value
        self.visit(node)

    def visit_Call(self, node):
        seen = len(self.wrong)
        self.visit(node.func)
        for given in (*node.args, *node.keywords):
            self.visit(given)
        called = self.value(node.func) if len(self.wrong) == seen else UNKNOWN
        plain = not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords)
        if plain and (inspect.isfunction(called) or inspect.isclass(called)):
            try:
                signature = inspect.signature(called)
            except ValueError:
                signature = None
            if signature is not None:
                try:
                    signature.bind(*[None] * len(node.args), **{k.arg: None for k in node.keywords})
                except TypeError as error:
                    self.wrong.append(f"{node.lineno}: {called.__qualname__}: {error}")

    def inside(self, node):
        """A function: its parameters and what it assigns hide names of the module."""
        arguments = node.args
        hidden = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        hidden += [a.arg for a in (arguments.vararg, arguments.kwarg) if a]
        imported = set()
        for n in ast.walk(node):
            if isinstance(n, (ast.Import, ast.ImportFrom)):
                imported |= set(names_of(n))
            elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                hidden.append(n.id)
            elif isinstance(n, ast.FunctionDef) and n is not node:
                hidden.append(n.name)
        self.scopes.append(dict.fromkeys(set(hidden) - imported, UNKNOWN))
        self.generic_visit(node)
        self.scopes.pop()

    visit_FunctionDef = visit_Lambda = inside  # noqa: N815  (names of ast)

    def visit_If(self, node):
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):  # for mypy alone
            self.generic_visit(node)

    def visit_Module(self, node):
        for statement in node.body:  # a function may name what is imported below it
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.visit(statement)
            for name in names_of(statement):
                self.scopes[0].setdefault(name, UNKNOWN)
        for statement in node.body:
            if not isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.visit(statement)


def read(text):
    reader = Reader()
    reader.visit(ast.parse(text))
    return reader


@pytest.mark.parametrize("name", PATHS)
def test_what_a_module_uses_is_there(name):
    own = module(name)
    reader = read(PATHS[name].read_text())
    assert reader.wrong == []
    assert own is not UNKNOWN and (reader.looked_up or isinstance(own, Defined) or "import" not in PATHS[name].name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import harness\nharness.none()", "2: harness has no none"),
        ("from harness import nothing", "1: harness has no nothing"),
        (
            "def f():\n    from lego_mlir.kernels import matmul\n    matmul.built()",
            "3: lego_mlir.kernels.matmul has no",
        ),
        ("from lego_mlir.hardware.targets import target_named\ntarget_named('a', 'b')", "2: target_named: too many"),
        ("import harness\nharness.Protocol(turns=3)", "2: Protocol: got an unexpected"),
        ("from harness import Protocol\nProtocol.first_one", "2: Protocol has no first_one"),
    ],
)
def test_the_reader_finds_what_is_not_there(text, said):
    (wrong,) = read(text).wrong
    assert wrong.startswith(said)


def test_the_reader_follows_scopes():
    hidden = "import harness\ndef f(harness):\n    return harness.none\ndef g():\n    harness = 1\n    return harness.n"
    assert read(hidden).wrong == []
    assert read("import harness\nharness.rendered(p); harness.Case; harness.Protocol(first='steady')").looked_up >= 3
