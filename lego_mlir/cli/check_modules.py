"""`lego-mlir check module.mlir`: the claims about every kernel of a module, before and after a transform script."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from lego_mlir.cli import files, mlir_files
from lego_mlir.cli.claim_groups import Group, Line
from lego_mlir.errors import UsageError


def module_groups(args: argparse.Namespace) -> Iterator[Group]:
    """The claims about each kernel of the file, then those after `--transform`. Raises UsageError without a kernel."""
    yield from _groups(args, files.read_text(args.spec), "")
    if args.transform is not None:
        yield from _groups(args, mlir_files.module_text(args), f" after {args.transform}")


def _groups(args: argparse.Namespace, text: str, when: str) -> Iterator[Group]:
    from lego_mlir.proofs.module_claims import compiled, module_claims

    grid, block = (mlir_files.extents_of(what, getattr(args, what)) for what in ("grid", "block"))
    compiler = compiled(text, args.spec)
    names = [args.kernel] if args.kernel else compiler.kernels()
    if not names:
        raise UsageError(f"{args.spec}: nothing to check: this module has no gpu.func that is a kernel")
    for name in names:
        found = module_claims(compiler, name, grid, block, lambda f: mlir_files.random_arguments(f, 0))
        lines = [Line(*one) for one in found]
        yield Group("kernel", name, f"kernel {name}, {args.spec}{when}", lines)
