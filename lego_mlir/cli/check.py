"""`lego-mlir check`: a verdict on every layout of a spec, and on every layout and access of its kernels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lego_mlir.cli.progress import Progress
from lego_mlir.errors import brief
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict

HELP: Final = "Prove or refute the layouts, kernels and templates of a spec."
EXAMPLE: Final = "lego-mlir check examples/transpose.py"
_TIMEOUT_MS: Final = 1000
_REASON_COLUMNS: Final = 300


@dataclass(frozen=True, slots=True)
class Line:
    """One claim with its verdict."""

    claim: str
    verdict: Verdict

    def __str__(self) -> str:
        match self.verdict:
            case Proved(by):
                return f"  proved   {self.claim}: {by}"
            case Refuted(counter_example, explanation):
                values = _values(counter_example)
                shown = "" if not values or values in explanation else f" ({values})"
                return f"  REFUTED  {self.claim}: {brief(explanation, _REASON_COLUMNS)}{shown}"
            case Unknown(reason):
                return f"  unknown  {self.claim}: {brief(reason, _REASON_COLUMNS)}"


@dataclass(frozen=True, slots=True)
class Note:
    """What may be a mistake, and is no claim."""

    text: str

    def __str__(self) -> str:
        return f"  note     {self.text}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="the spec, a Python file")
    parser.add_argument("--kernel", metavar="NAME", help="check this kernel only; default: all layouts and kernels")


def run(args: argparse.Namespace) -> int:
    """Print a verdict for each claim; CHECK_FAILED where one is refuted."""
    from lego_mlir import spec
    from lego_mlir.cli.main import CHECK_FAILED, DONE
    from lego_mlir.errors import LayoutError, SpecError

    try:
        loaded = spec.load(args.spec)
    except SpecError as error:
        if not isinstance(error.__cause__, LayoutError):
            raise
        print(Line("every layout of the spec is one", Refuted({}, str(error))))  # refused where it is built
        return CHECK_FAILED
    kernels = loaded.kernels_named(args.kernel) if args.kernel else tuple(loaded.kernels.values())
    layouts = {} if args.kernel else loaded.layouts
    templates = {} if args.kernel else loaded.templates
    if not layouts and not kernels and not templates:
        raise SpecError(f"{loaded.path}: no layout and no kernel in this spec, and no template")
    counts = {Proved: 0, Refuted: 0, Unknown: 0}
    with Progress(f"checking {loaded.path.name}") as progress:
        for title, lines in _groups(layouts, kernels, templates, loaded.files, progress):
            progress.say(title)
            for line in lines:
                if isinstance(line, Line):
                    counts[type(line.verdict)] += 1
                progress.say(str(line))
    print(f"{counts[Proved]} proved, {counts[Refuted]} refuted, {counts[Unknown]} unknown")
    return CHECK_FAILED if counts[Refuted] else DONE


def _groups(
    layouts: Any, kernels: Any, templates: Any, files: Sequence[str], progress: Progress
) -> Iterator[tuple[str, list[Line | Note]]]:
    from lego_mlir import spec

    for name, layout in layouts.items():
        progress.update(name)
        with spec.blame(*files):
            verdict = layout.check()
        yield f"layout {name} = {layout!r}", [Line("apply and inv are each other's inverse", verdict)]
    found: list[Line | Note]
    for kernel in kernels:
        progress.update(kernel.name)
        with spec.blame(*files):
            found = list(_kernel_lines(kernel, files))
        yield f"kernel {kernel.name}, {kernel.source}", found
    for name, template in templates.items():
        progress.update(name)
        with spec.blame(*files):
            found = list(_template_lines(template))
        yield f"template {name}, {template.name}", found


def _template_lines(template: Any) -> Iterator[Line | Note]:
    from lego_mlir.templates.check import verdicts
    from lego_mlir.templates.unmasked import REMEDY, unmasked

    rendered = template.render()
    yield from (Line(*found) for found in verdicts(rendered))
    yield from (Note(f"{template.name}:{line}: {brief(text)} {REMEDY}") for line, text in unmasked(rendered))


def _kernel_lines(kernel: Any, files: Sequence[str]) -> Iterator[Line]:
    from lego_mlir import spec
    from lego_mlir.errors import LayoutError, SpecError
    from lego_mlir.kernel.claims import access_verdicts

    try:
        with spec.blame(*files):
            trace = kernel.trace()
    except SpecError as error:
        if not isinstance(error.__cause__, LayoutError):
            raise
        yield Line("every access stays inside its tensor, and no divisor is 0", Refuted({}, str(error)))
        return
    for buffer in (*trace.parameters, *trace.shared):
        if hasattr(buffer, "layout"):
            yield Line(f"layout of {buffer.name}, {buffer.layout!r}", buffer.layout.check())
    for what, verdict in access_verdicts(trace, _TIMEOUT_MS):
        yield Line(what, verdict)
    for division in trace.divisions:
        yield Line(str(division), division.verdict)


def _values(counter_example: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in counter_example.items())
