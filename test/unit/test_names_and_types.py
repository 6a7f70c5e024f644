"""What holds of the whole package's source: class names are defined once, and few signatures contain `Any`."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import lego_mlir

PACKAGE = Path(lego_mlir.__file__).parent
DEFINED_TWICE = {"Kernel"}  # public in lego_mlir.structured too: what its user compiles, as `lego.kernel` does
MOST_WITH_ANY = 300
# Modules of one name: the parallel parts of several rooms, so that the name tells which parts correspond.
PARALLEL = {
    "a command and what it runs": {"check", "compile", "explain"},
    "a dialect in the interpreter and in the printers or the kernel language": (
        {"affine", "atomics", "index", "llvm", "printing"}
    ),
    "a target in printers, templates and runtime": {"cuda", "triton"},
    "written by the toolchain or a kernel, read by the runtime": {"manifest"},
    "kernels and structured programs": {"claims", "reference"},
    "a kernel shipped in both forms": {"matmul"},
    "the same idea in cute, f2, the gallery, the passes or the hardware's table": (
        {"banks", "conversion", "mma", "notation", "swizzle"}
    ),
    "a room's base class, values, memory or program": {"base", "memory", "program", "values"},
}


@pytest.fixture(scope="module")
def trees():
    """The syntax trees of the package by path."""
    return {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def annotations(function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [a.annotation for a in every if a is not None and a.annotation is not None] + [function.returns]


def has_any(annotation):
    names = ast.walk(annotation) if annotation is not None else ()
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in names)


def test_a_class_name_is_defined_once(trees):
    names = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1 and not name.startswith("_")} <= DEFINED_TWICE


def test_a_module_name_is_repeated_only_for_parallel_parts(trees):
    names = Counter(path.stem for path in trees)
    repeated = {name for name, count in names.items() if count > 1 and not name.startswith("__")}
    assert repeated <= set().union(*PARALLEL.values())


def test_the_head_of_a_module_begins_with_its_thing(trees):
    heads = {path.name: ast.get_docstring(tree) or "" for path, tree in trees.items()}
    asking = {"What", "Which", "How", "Whether", "Where", "When"}
    assert {name for name, head in heads.items() if head.split(" ")[0] in asking} == set()


def test_few_signatures_contain_any(trees):
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert len(functions) > 1000
    assert sum(any(map(has_any, annotations(f))) for f in functions) <= MOST_WITH_ANY
