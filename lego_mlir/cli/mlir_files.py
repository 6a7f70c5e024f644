"""MLIR files on the command line: run their kernels on random input and report faults; there is no reference.

Any module that the bindings parse can be run, including the output of a transform script or of another compiler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Array
from lego_mlir.cli import files, options
from lego_mlir.cli.progress import Progress
from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.interp.program import CompiledFunction

SUFFIX: Final = ".mlir"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--grid` and `--block`, for kernels whose module does not fix them."""
    for what in ("grid", "block"):
        parser.add_argument(f"--{what}", metavar="X[,Y[,Z]]", help=f"the {what} size, for a {SUFFIX} file's kernels")


def is_module(path: str) -> bool:
    """Whether an input is the text of a module."""
    return Path(path).suffix == SUFFIX


def refuse_extents(args: argparse.Namespace) -> None:
    """Raise UsageError for `--grid` and `--block` if the input is a spec, whose kernels fix both."""
    for what in ("grid", "block"):
        given = getattr(args, what)
        if given is not None:
            meant = f"; to run a sample of {given} blocks, use --blocks {given}" if what == "block" else ""
            raise UsageError(
                f"--{what} {given}: the {what} size applies to the kernels of a {SUFFIX} file; a spec fixes it in "
                f"@lego.kernel{meant}"
            )


def reports(
    args: argparse.Namespace, seed: int = 0, observer: Callable[[], Any] | None = None
) -> list[tuple[Any, Any]]:
    """Run the file's kernels, or the selected one; return a report and an observer per kernel."""
    from lego_mlir import interp

    options.require_transform(args)
    text = module_text(args)
    compiler = interp.compile_module(text, source=args.spec)
    names = [args.kernel] if args.kernel else compiler.entry_points()
    if not names:
        raise UsageError(f"{args.spec}: nothing to run: this module has no kernel and no function")
    found = []
    with Progress(f"running {Path(args.spec).name}") as progress:
        for name in names:
            progress.update(name)
            function = compiler.function(name)
            observed = None if observer is None else observer()
            report = interp.launch(
                compiler,
                name,
                grid=extents_of("grid", args.grid),
                block=extents_of("block", args.block),
                args=random_arguments(function, seed),
                blocks=args.blocks,
                progress=lambda done, total: progress.update("blocks", done=done, total=total),
                observe=observed,
            )
            found.append((report, observed))
    return found


def random_arguments(function: CompiledFunction, seed: int) -> list[Array]:
    """Normally distributed numbers or small integers for every memref. Raises UsageError for dynamic sizes."""
    import numpy

    from lego_mlir.interp import values

    generator = numpy.random.default_rng(seed)
    drawn: list[Array] = []
    for i, type_ in enumerate(function.argument_types):
        dtype = values.element_dtype(type_)
        if not values.is_memref(type_) or not type_.has_static_shape:
            raise UsageError(
                f"argument {i} of @{function.name} is a {type_}, whose value or size cannot be chosen at random; "
                "call lego_mlir.interp.launch with arrays and numbers, or run a spec"
            )
        shape = tuple(type_.shape)
        numbers = generator.standard_normal(shape) if values.is_float(dtype) else generator.integers(0, 2, shape)
        drawn.append(numpy.asarray(numbers).astype(dtype))
    return drawn


def extents_of(what: str, text: str | None) -> Sequence[int] | None:
    """The value of `--grid` or `--block`. Raises UsageError for anything but one to three sizes."""
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.isdigit() for part in parts):
        raise UsageError(f"--{what} takes one to three sizes such as 32,8, not {text!r}")
    return [int(part) for part in parts]


def module_text(args: argparse.Namespace) -> str:
    """The text of the module, after the transform script if there is one."""
    text = files.read_text(args.spec)
    return options.transformed(args, text, name=args.spec) or text
