"""All exceptions that lego_mlir raises deliberately.

One class per cause, all derived from `LegoError`, so that a caller can catch the family and the command line can
distinguish a user's error (exit code 2) from a bug (a traceback). A message gives the offending values and the remedy:

>>> raise LayoutError("RegP: sigma must order the 2 axes of (4, 6), got (0, 1); each of 1..2 appears once")
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: RegP: sigma must order the 2 axes of (4, 6), got (0, 1); each of 1..2 appears once
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


class LegoError(Exception):
    """Base class: the request cannot be carried out; the message gives the reason and the remedy."""


class LayoutError(LegoError, ValueError):
    """An invalid layout: sizes that disagree, a sigma that does not order the axes, a refuted bijection."""


class RefutedLayoutError(LayoutError):
    """A map that is not a bijection: `layout` is the refuted one, `explanation` names two indices that collide."""

    def __init__(self, message: str, layout: object, explanation: str) -> None:
        super().__init__(message)
        self.layout, self.explanation = layout, explanation

    def __reduce__(self) -> tuple[object, ...]:
        return LayoutError, (str(self),)  # the layout's functions may be lambdas, which have no pickled form


class LayoutIndexError(LayoutError, IndexError):
    """A concrete index outside the layout's logical space, or a position outside its physical one."""


class RefutedAccessError(LayoutIndexError):
    """An index of a kernel that leaves its tensor, or a divisor that is 0, with the values for which it does."""


class ExpressionError(LegoError, ValueError):
    """An index expression without an integer value here."""


class BudgetError(ExpressionError):
    """An expression that exceeds a work budget; the message names the budget (`expr.budgets`)."""


class SymbolicBranchError(ExpressionError, TypeError):
    """A symbolic condition was used as a Python bool; the function only works for ints. Remedy: `lego.where`."""


class PrintError(LegoError):
    """An expression node that the target of a printer cannot express."""


class TemplateError(LegoError):
    """A template that cannot be rendered, or whose rendered text disagrees with its layout."""


class TraceError(LegoError):
    """A kernel function that cannot be traced, or that uses a value outside its scope."""


class ScheduleError(LegoError):
    """A schedule that a statement of a kernel does not allow."""


class SpecError(LegoError):
    """A spec file that cannot be loaded, or that lacks the requested kernel, layout or template."""


class UsageError(LegoError):
    """An invalid command line or argument, such as an unknown target."""


class DependencyError(LegoError, ImportError):
    """A required package or program is not installed; the message gives the command that installs it."""


class InterpreterError(LegoError):
    """IR that the interpreter cannot run: an unsupported operation, or arguments that do not match."""


class KernelFaultError(LegoError):
    """A checked run of a kernel found faults, such as a race; `faults` lists them all."""

    def __init__(self, kernel: str, faults: Sequence[str]) -> None:
        shown = "".join(f"\n  {fault}" for fault in faults[:4])
        more = f"\n  and {len(faults) - 4} more" if len(faults) > 4 else ""
        super().__init__(f"kernel {kernel}: the interpreter found {len(faults)} faults{shown}{more}")
        self.faults = tuple(faults)


class LaunchError(LegoError):
    """CUDA's driver refused to load or launch a kernel."""


class CacheError(LegoError):
    """A compilation cache that cannot be used."""


class CacheWarning(UserWarning):
    """A compiled result is valid but could not be cached."""


class ReferenceWarning(UserWarning):
    """A shipped operation got arrays of the host, and is computed by their library instead of by a kernel."""


class KernelFaultWarning(UserWarning):
    """A launch in the sanitizer had faults."""


class RegisterWarning(UserWarning):
    """A register of a kernel has a second name, which changes with it."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """How to reproduce a tool's failure: the stage, its kept input, the command, and its output."""

    stage: str
    kept_input: Path | None
    command: str
    output: str
    exit_code: int | None = None

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        kept = "" if self.kept_input is None else f"\n  input kept at: {self.kept_input}"
        return f"stage '{self.stage}' failed{code}:\n{self.output.rstrip()}{kept}\n  to reproduce: {self.command}"


class ToolchainError(LegoError):
    """A compilation stage failed. `rerun` holds the stage, the kept input and the command that reproduces it."""

    def __init__(self, rerun: Rerun) -> None:
        super().__init__(str(rerun))
        self.rerun = rerun


def did_you_mean(given: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The end of a message about an unknown name: the closest known one, or nothing.

    >>> did_you_mean("--chek", ["--check", "--emit"]), did_you_mean("x", ["--check"])
    ('; did you mean --check?', '')
    """
    from difflib import get_close_matches

    close = get_close_matches(given, list(known), 1, alike)
    return f"; did you mean {close[0]}?" if close else ""


def without(error: ModuleNotFoundError, name: str) -> Exception:
    """The error for a public name whose module needs a package that is not installed; a fault of ours as it is."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "lego_mlir"):
        return error
    return DependencyError(
        f"lego_mlir.{name} needs {package}, which is not installed: without its extra, lego-mlir only launches; run: "
        "pip install '.[compile]' in a checkout of lego-mlir",
        name=package,
    )


def brief(value: object, columns: int = 110) -> str:
    """A value shortened for a message: the index of a non-linear layout can be pages long.

    >>> brief("i + j"), brief("i + " * 9, 12)
    ('i + j', 'i + i + i ..')
    """
    text = str(value)
    return text if len(text) <= columns else f"{text[: columns - 3].rstrip()} .."
