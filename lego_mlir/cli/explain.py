"""`lego-mlir explain`: how each index expression was derived, what was proved on the way, and what it costs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from lego_mlir.cli.progress import Progress
from lego_mlir.errors import SpecError, brief

HELP: Final = "Show how each index expression of a spec was derived and proved."
EXAMPLE: Final = "lego-mlir explain examples/transpose.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="the spec, a Python file")
    parser.add_argument("--kernel", metavar="NAME", help="explain this kernel only; default: all layouts and kernels")


def run(args: argparse.Namespace) -> int:
    """Print the derivation of every layout and access."""
    from lego_mlir import spec

    loaded = spec.load(args.spec)
    kernels = loaded.kernels_named(args.kernel) if args.kernel else tuple(loaded.kernels.values())
    layouts = {} if args.kernel else loaded.layouts
    if not layouts and not kernels:
        raise SpecError(f"{loaded.path}: no layout and no kernel in this spec")
    with Progress(f"deriving {loaded.path.name}") as progress:
        for name, layout in layouts.items():
            progress.update(name)
            with spec.blame(*loaded.files):
                lines = list(_layout(name, layout))
            progress.say("\n".join(lines))
        for kernel in kernels:
            progress.update(kernel.name)
            with spec.blame(*loaded.files):
                trace = kernel.trace()
            progress.say("\n".join(_kernel(trace)))
    return 0


def _layout(name: str, layout: Any) -> Iterator[str]:
    yield f"layout {name} = {layout!r}"
    yield from (f"  {line}" for line in layout.explain().splitlines())
    yield ""


def _kernel(trace: Any) -> Iterator[str]:
    yield f"kernel {trace.name}, {trace.source}"
    for statement, access in trace.accesses():
        index = brief(", ".join(map(str, access.index)))
        mask = f" where {brief(access.mask)}" if access.is_masked else ""
        width = f", {access.width} elements at once" if access.width > 1 else ""
        title = f"{type(statement).__name__.lower()} {access.buffer.name}[{index}]{width}{mask}"
        yield from _derivation(f"{access.source}: {title}", access.derivation)
    yield ""


def _derivation(title: str, derivation: Any) -> Iterator[str]:
    from lego_mlir.expr.explain import explain

    yield f"  {title}"
    yield from (f"    {line}" for line in explain(derivation).splitlines())
