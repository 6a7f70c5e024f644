"""`lego-mlir check --format`: whether the tensors of a file are those of a format, and whether two files agree."""

from __future__ import annotations

import argparse
from pathlib import Path

from lego_mlir.cli.convert import add_heads
from lego_mlir.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options about files of tensors."""
    parser.add_argument(
        "--format", metavar="FORMAT", help="check a .safetensors file of this model format, such as hf.llama"
    )
    parser.add_argument("--against", metavar="FILE", help="with --format: a second file, which must be its conversion")
    parser.add_argument("--against-format", metavar="FORMAT", help="the format of the second file (default: --format)")
    add_heads(parser)


def refuse_others(args: argparse.Namespace) -> None:
    """Raise UsageError for options that need --format."""
    for name in ("against", "against_format", "heads", "kv_heads"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} needs --format, the format of the file")


def run(args: argparse.Namespace) -> int:
    """Print whether the file is of the format, or the first element in which two files disagree."""
    from lego_mlir.cli.main import CHECK_FAILED, DONE
    from lego_mlir.cli.progress import Progress
    from lego_mlir.cli.terminal import show
    from lego_mlir.formats.file_conversions import compare_files, plan_model
    from lego_mlir.formats.tensor_files import TensorFile

    source, target = Path(args.spec), args.against_format or args.format
    if args.against is None and args.against_format is not None:
        raise UsageError("--against-format needs --against, the second file")
    with TensorFile(source) as file:
        plan = plan_model(file.tensors, args.format, target, args.heads, args.kv_heads or args.heads)
    formats = {str((one.name, one.buffers)): one for part in plan.parts for one in (part.fused.source, part.target)}
    failed = [verdict for verdict in (one.check() for one in formats.values()) if not verdict]
    show(f"{source}: {len(plan.parts)} parts of {args.format}, {len(plan.copied)} other tensors")
    show(f"not proved: {failed[0]}" if failed else f"the {len(formats)} formats of their tensors are proved")
    if args.against is None:
        return CHECK_FAILED if failed else DONE
    with Progress(f"comparing {source.name}") as progress:
        difference = compare_files(
            source, Path(args.against), plan, lambda part, done, total: progress.update(part, done=done, total=total)
        )
    if difference is None:
        show(f"{args.against} agrees, as {target}")
        return CHECK_FAILED if failed else DONE
    show(f"{args.against} differs, as {target}: {difference}")
    return CHECK_FAILED
