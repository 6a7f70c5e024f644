"""The API reference is complete: an entry for every public name, a docstring for each, and its errors."""

import ast
import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path

import pytest

import lego_mlir

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "docs" / "reference" / name for name in ("api.md", "api-kernels.md", "api-modules.md")]
TEXT = "\n".join(page.read_text() for page in PAGES)
ENTRY = re.compile(r'^::: (?P<path>[\w.]+)\n    options: \{heading: "(?P<name>[\w.]+)"', re.MULTILINE)
ENTRIES = {found["name"]: found["path"] for found in ENTRY.finditer(TEXT)}
MODULES = [name for name in lego_mlir._NAMES if inspect.ismodule(getattr(lego_mlir, name))]


def public(module):
    """The classes and functions of a module of ours that it exports."""
    for name in dir(module):
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        if (inspect.isclass(value) or inspect.isroutine(value)) and (value.__module__ or "").startswith("lego_mlir"):
            yield name, value


def found_at(path):
    """The object of a dotted path."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            value = getattr(value, part)
        return value
    raise AssertionError(path)


def docstring(path):
    """Of a class, a function or a module, or the text below an assignment, as mkdocstrings shows it."""
    value = found_at(path)
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        return inspect.getdoc(value)
    module, _, name = path.rpartition(".")
    body = ast.parse(Path(importlib.import_module(module).__file__).read_text()).body
    for statement, following in pairwise(body):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets) and isinstance(following, ast.Expr):
            return following.value.value
    return None


@pytest.mark.parametrize("name", sorted(lego_mlir._NAMES))
def test_every_public_name_has_an_entry_and_a_docstring(name):
    if name in MODULES:
        assert f"## lego.{name}\n" in TEXT
        return
    path = ENTRIES[f"lego.{name}"]
    assert found_at(path) is getattr(lego_mlir, name)
    text = docstring(path)
    assert text and len(text) > 15, f"{path} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_module_has_an_entry_and_a_docstring(module):
    for name, value in public(getattr(lego_mlir, module)):
        listed = f"lego.{module}.{name}" in ENTRIES or f"`lego.{module}.{name}(" in TEXT
        assert listed, f"lego.{module}.{name} has no entry in docs/reference/api-modules.md"
        assert inspect.getdoc(value), f"lego.{module}.{name} has no docstring"


def test_entries_name_what_is_public():
    for name, path in ENTRIES.items():
        value = lego_mlir
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        assert found_at(path) is value, name


def test_each_group_states_its_errors():
    sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    without = [section.partition("\n")[0] for section in sections if "raise" not in section and "Error" not in section]
    assert without == []
