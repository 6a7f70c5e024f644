"""MLIR text in, MLIR text out: parsing, passes and printing, with the diagnostics of MLIR turned into one report.

Every stage that works on MLIR opens a `session`, parses, does its work and prints. MLIR's diagnostics
are raised as `ModuleError`, whose text names file, line and column as a compiler does:

>>> with session():
...     parse("module { func.func @f() { arith.constant } }", "kernel.mlir")
Traceback (most recent call last):
    ...
lego_mlir.transforms.modules.ModuleError: kernel.mlir:1:41: error: expected attribute value
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lego_mlir import bindings
from lego_mlir.errors import LegoError, UsageError
from lego_mlir.transforms.pipeline import Pipeline

if TYPE_CHECKING:
    from lego_mlir.aliases import Context, Module, Op

# MLIR calls a text that came from no file "-".
_NAMELESS: Final = re.compile(r'loc\("-":(\d+):(\d+)\)')
_FILE_LOCATION: Final = re.compile(r'loc\("([^"]*)":(\d+):(\d+)\)')

_PLACED: Final = re.compile(r"MLIR Textual PassPipeline Parser:1:(\d+): error: (.*)")

_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|->|[<>]=|[{(\[<]|[})\]>]')
DEEPEST: Final = 128
"""Levels of brackets in a text: MLIR's parser and the passes here recurse once a level, and its stack may overflow."""

_NOTE_LINES: Final = 12
_NOTE_COLUMNS: Final = 300


class ModuleError(LegoError):
    """MLIR rejected a module or failed in a pass. The calling stage turns it into a report."""


@contextmanager
def session() -> Iterator[Context]:
    """A context with every dialect, one thread, and an unknown location to build at."""
    with bindings.context() as context, bindings.load().ir.Location.unknown():
        yield context


def parse(text: str, name: str = "-") -> Module:
    """The verified module of this text; `name` is the file that a message points to."""
    ir = bindings.load().ir
    require_depth(text, name)
    try:
        module = ir.Module.parse(text)
        module.operation.verify()
    except ir.MLIRError as error:
        raise ModuleError(report(error, name)) from error
    return module


def require_depth(text: str, name: str) -> None:
    """Raise ModuleError, with the line, for a text whose brackets nest too deeply to be parsed."""
    depth = 0
    for match in _BRACKET.finditer(text):
        token = match.group()
        if token in "{([<":
            depth += 1
        elif token in "})]>":
            depth = max(0, depth - 1)
        if depth > DEEPEST:
            line = text.count("\n", 0, match.start()) + 1
            raise ModuleError(
                f"{name}:{line}: more than {DEEPEST} levels of brackets; move the inner regions into functions"
            )


def require_pipeline(text: str) -> None:
    """Raise UsageError, with MLIR's reason and the column, for a text that is not a pass pipeline."""
    with session():
        try:
            bindings.load().passmanager.PassManager.parse(text)
        except ValueError as error:
            reason = [line.strip() for line in str(error).splitlines() if line.strip()][:2]
            placed = _PLACED.match(reason[0]) if reason else None
            if placed is not None:  # MLIR counts the columns inside the parentheses of the outermost operation
                reason = [f"{placed.group(2)} at column {text.index('(') + 1 + int(placed.group(1))}"]
            raise UsageError(f"pipeline {text!r}: {'; '.join(reason) or 'MLIR cannot parse it'}") from None


def run(module: Module, pipeline: Pipeline | str, name: str = "-") -> None:
    """Run the passes on a module, in place."""
    mlir = bindings.load()
    try:
        manager = mlir.passmanager.PassManager.parse(str(pipeline))
    except ValueError as error:
        raise ModuleError(str(error)) from error
    try:
        manager.run(module.operation)
    except mlir.ir.MLIRError as error:
        raise ModuleError(report(error, name)) from error


def to_text(module: Module, *, locations: bool) -> str:
    """The module in custom form, the only one that another version of MLIR reads reliably."""
    text: str = module.operation.get_asm(enable_debug_info=locations)
    return text if text.endswith("\n") else text + "\n"


def merge(texts: Sequence[str], name: str = "-", *, unregistered: bool = False) -> str:
    """One module that holds what each of these modules holds. Raises ModuleError where two define the same name.

    `unregistered` accepts operations of dialects that the bindings lack, in generic form.
    """
    if len(texts) == 1:
        return texts[0]
    with session() as context:
        context.allow_unregistered_dialects = unregistered
        first, *others = [parse(text, name) for text in texts]
        for other in others:
            for operation in list(other.body.operations):
                first.body.append(operation)
        try:
            first.operation.verify()
        except bindings.load().ir.MLIRError as error:
            raise ModuleError(report(error, name)) from error
        return to_text(first, locations=True)


def name_locations(text: str, name: str) -> str:
    """The module with `name` as the file of every operation that came from a text without one."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace('loc("-":', f'loc("{escaped}":')


def strip_locations(text: str) -> str:
    """The same module without `loc(...)`, for people to read."""
    if "loc(" not in text:
        return text
    with session():
        return to_text(parse(text), locations=False)


def report(error: Exception, name: str = "-") -> str:
    """MLIR's diagnostics, one per line, as `file:line:column: error: message`."""
    diagnostics = getattr(error, "error_diagnostics", None)
    if not diagnostics:
        return place(str(error), name)
    lines: list[str] = []
    for diagnostic in diagnostics:
        lines.append(f"{_where(diagnostic.location, name)}error: {diagnostic.message.strip()}")
        lines += [f"  {_where(note.location, name)}note: {note.message.strip()}" for note in diagnostic.notes]
    return "\n".join(map(_shortened, lines))


def _shortened(text: str) -> str:
    """MLIR notes the operation as it saw it, which can be a whole module: its first lines place it."""
    lines = text.split("\n")
    kept = [*lines[:_NOTE_LINES], "  ..."] if len(lines) > _NOTE_LINES else lines
    return "\n".join(line if len(line) <= _NOTE_COLUMNS else line[:_NOTE_COLUMNS] + " ..." for line in kept)


def place(text: str, name: str) -> str:
    """Write MLIR's `loc("-":3:5)` as `name:3:5`."""
    named = _NAMELESS.sub(lambda found: f"{name}:{found.group(1)}:{found.group(2)}", text)
    return _FILE_LOCATION.sub(r"\1:\2:\3", named)


def _where(location: Any, name: str) -> str:
    text = str(location)
    return "" if text == "loc(unknown)" else f"{place(text, name)}: "


def walk(operation: Op) -> Iterator[Op]:
    """Every operation inside, outer before inner, as views that remain valid while attributes change."""
    open_blocks = [iter(block.operations) for region in operation.regions for block in region.blocks][::-1]
    while open_blocks:
        inner = next(open_blocks[-1], None)
        if inner is None:
            open_blocks.pop()
            continue
        found = inner.operation
        yield found
        if len(regions := found.regions):
            open_blocks += reversed([iter(block.operations) for region in regions for block in region.blocks])


def string_attribute(operation: Op, name: str) -> str:
    """The plain text of a string attribute such as `sym_name`."""
    return str(bindings.load().ir.StringAttr(operation.attributes[name]).value)
