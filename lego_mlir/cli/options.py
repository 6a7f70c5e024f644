"""Options shared by several commands: a script's parameters, a file of input, the cache."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.runtime.inputs import InputFile
    from lego_mlir.store import Cache
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import Runnable


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """`--param`, for every command that takes `--transform`."""
    parser.add_argument(
        "--param", metavar="NAME=VALUE", action="append", default=[], help="a parameter of the script, such as stages=3"
    )


def require_transform(args: argparse.Namespace) -> None:
    """Raise UsageError for a script parameter without a script."""
    if args.param and args.transform is None:
        raise UsageError(f"--param {args.param[0]} sets a parameter of a script; name the script with --transform FILE")


def parameters_of(args: argparse.Namespace) -> dict[str, int | bool]:
    """The script parameters set on the command line."""
    from lego_mlir.transforms import scripts

    return scripts.parse_parameters(args.param)


def transformed(args: argparse.Namespace, given: Sequence[Kernel] | str, name: str | None = None) -> str | None:
    """The module after `--transform`, with the locations of its kernels or of its text; None without a script."""
    if args.transform is None:
        return None
    from lego_mlir.toolchain import compile_kernel

    compilation = compile_kernel(
        given, emit="transformed", transform=args.transform, parameters=parameters_of(args), cache=cache_of(args),
        name=name,
    )  # fmt: skip
    return compilation.stage("transformed", locations=True)


def add_input(parser: argparse.ArgumentParser) -> None:
    """`--input`, for every command that makes data for kernels."""
    parser.add_argument(
        "--input", metavar="FILE.npz", help="arrays by parameter name, and sizes; the rest is from @k.inputs, or random"
    )


def input_of(args: argparse.Namespace, kernels: Sequence[Runnable]) -> InputFile | None:
    """The file of `--input`, each array of which belongs to one of the kernels."""
    from lego_mlir.runtime import inputs

    if args.input is None:
        return None
    file = inputs.read(args.input)
    file.require_used(kernels)
    return file


def add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    """`--cache-dir` and `--no-cache`, for every command that compiles."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--cache-dir", metavar="DIR", help="where to store compiled stages (default: the user's cache)")
    group.add_argument("--no-cache", action="store_true", help="compute every stage and store none")


def cache_of(args: argparse.Namespace) -> Cache | None:
    """The cache selected on the command line; None with `--no-cache`."""
    from lego_mlir.toolchain import Cache, default_folder

    if args.no_cache:
        return None
    return Cache(Path(args.cache_dir) if args.cache_dir else default_folder())


def at_least(least: int) -> Callable[[str], int]:
    """The argparse type of an option that is an integer of at least `least`."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, not {text!r}")
        return int(text)

    return number
