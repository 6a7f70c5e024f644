"""`lego-mlir convert`: a model file from the format of one engine to that of another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from lego_mlir.cli import options
from lego_mlir.errors import UsageError

HELP: Final = "Convert a model file between the formats of engines."
EXAMPLE: Final = "lego-mlir convert model.safetensors --from hf.llama --to vllm.marlin -o out.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `convert`."""
    parser.add_argument("file", metavar="FILE.safetensors", help="the file to convert")
    parser.add_argument("--from", dest="source", metavar="FORMAT", required=True, help="its format, such as hf.llama")
    parser.add_argument(
        "--to", dest="target", metavar="FORMAT", required=True, help="the format to write, such as vllm.marlin"
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write, replaced whole")
    add_heads(parser)


def add_heads(parser: argparse.ArgumentParser) -> None:
    """The facts about a model that shapes of fused tensors do not tell."""
    parser.add_argument("--heads", type=options.at_least(1), metavar="N", help="query heads, for fused projections")
    parser.add_argument(
        "--kv-heads", type=options.at_least(1), metavar="N", help="key and value heads (default: --heads)"
    )


def run(args: argparse.Namespace) -> int:
    """Convert, and print what was done."""
    from lego_mlir.cli.progress import Progress
    from lego_mlir.cli.terminal import show
    from lego_mlir.formats.file_conversions import convert_file, plan_model
    from lego_mlir.formats.tensor_files import TensorFile

    source, output = Path(args.file), Path(args.output)
    if output.exists() and not output.is_file():
        raise UsageError(f"{output} is no file that can be replaced; name another")
    with TensorFile(source) as file:
        plan = plan_model(file.tensors, args.source, args.target, args.heads, args.kv_heads or args.heads)
    with Progress(f"converting {source.name}") as progress:
        written = convert_file(
            source, output, plan, lambda part, done, total: progress.update(part, done=done, total=total)
        )
    cast = sum(part.cast is not None for part in plan.parts)
    rounded = f", {cast} of them rounded to codes" if cast else ", bit by bit"
    show(f"{output}: {written} bytes; {len(plan.parts)} parts converted{rounded}, {len(plan.copied)} tensors copied")
    return 0
