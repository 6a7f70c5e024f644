"""Everything that lego_mlir raises on purpose.

One class a cause, all under `LegoError`, so that a caller can catch the family and the command line can tell a user's
mistake (exit code 2) from a defect of ours (a traceback). A message names the values that were wrong and the remedy:

>>> raise LayoutError("RegP: sigma must order the 2 axes of (4, 6), got (0, 1); each of 1..2 appears once")
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: RegP: sigma must order the 2 axes of (4, 6), got (0, 1); each of 1..2 appears once
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class LegoError(Exception):
    """The root of the family: what the user gave cannot be done, and the message says why and what to do."""


class LayoutError(LegoError, ValueError):
    """A layout that is not one: sizes that disagree, a sigma that does not order the axes, a refuted bijection."""


class LayoutIndexError(LayoutError, IndexError):
    """A concrete index outside the layout's logical space, or a position outside its physical one."""


class ExpressionError(LegoError, ValueError):
    """An index expression that has no integer meaning here."""


class BudgetError(ExpressionError):
    """An expression that needs more work than its budget allows; the message names the budget (`expr.budgets`)."""


class SymbolicBranchError(ExpressionError, TypeError):
    """Python asked a symbolic condition for its truth: the function works for ints only. Remedy: `lego.where`."""


class PrintError(LegoError):
    """A printer met a node that its target has no form for."""


class TemplateError(LegoError):
    """A template that cannot be rendered, or whose rendered text does not mean what its layout says."""


class TraceError(LegoError):
    """A kernel's Python function did something that cannot be traced, or used a value outside its scope."""


class SpecError(LegoError):
    """A spec file that cannot be loaded, or that does not name what was asked for."""


class UsageError(LegoError):
    """A command line or an argument that makes no sense, such as an unknown target."""


class DependencyError(LegoError, ImportError):
    """A package or program that this operation needs is not installed; the message says how to get it."""


class InterpreterError(LegoError):
    """IR that the interpreter cannot run: an operation it has no meaning for, or arguments that do not fit."""


class CacheError(LegoError):
    """The compilation cache cannot be used as it is."""


class CacheWarning(UserWarning):
    """What was compiled is right and could not be kept for the next time."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """How to see a tool fail again by hand: the stage, its kept input, the command, and what it said."""

    stage: str
    kept_input: Path | None
    command: str
    output: str
    exit_code: int | None = None

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        kept = "" if self.kept_input is None else f"\n  input kept at: {self.kept_input}"
        return f"stage '{self.stage}' failed{code}:\n{self.output.rstrip()}{kept}\n  to see it again: {self.command}"


class ToolchainError(LegoError):
    """A compilation stage failed. `rerun` carries the stage, the kept input and the command that fails again."""

    def __init__(self, rerun: Rerun) -> None:
        super().__init__(str(rerun))
        self.rerun = rerun


def did_you_mean(given: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The end of a message about an unknown name: which one was probably meant, or nothing.

    >>> did_you_mean("--chek", ["--check", "--emit"]), did_you_mean("x", ["--check"])
    ('; did you mean --check?', '')
    """
    from difflib import get_close_matches

    close = get_close_matches(given, list(known), 1, alike)
    return f"; did you mean {close[0]}?" if close else ""


def brief(value: object, columns: int = 110) -> str:
    """A value as a message shows it: the index of a non-linear layout can be pages long.

    >>> brief("i + j"), brief("i + " * 9, 12)
    ('i + j', 'i + i + i ..')
    """
    text = str(value)
    return text if len(text) <= columns else f"{text[: columns - 3].rstrip()} .."
