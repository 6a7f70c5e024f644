"""`lego-mlir new`: begin a spec of your own from one that works, a copy of an example of this project."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

import lego_mlir
from lego_mlir.cli import files
from lego_mlir.cli.terminal import show
from lego_mlir.errors import UsageError

HELP: Final = "Begin a spec from one that works: a layout, a transpose, a product, a reduction."
EXAMPLE: Final = "lego-mlir new product.py --like matmul"
EXAMPLES: Final = {
    "layout": "layout.py",
    "elements": "first_day/vector_add.py",
    "sizes": "symbolic.py",
    "transpose": "transpose.py",
    "softmax": "first_day/row_softmax.py",
    "sum": "first_day/grid_sum.py",
    "matmul": "matmul.py",
    "tuned": "tuned_transpose.py",
}
"""The examples by the name of `--like`; the wheel has them beside the package's modules."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("file", help="the spec to write, a Python file that does not exist yet")
    parser.add_argument("--like", choices=EXAMPLES, default="transpose", help="which example (default: transpose)")


def run(args: argparse.Namespace) -> int:
    """Write the spec. Raises UsageError if the file exists or is no Python file."""
    target = files.require_place(args.file, "another name")
    if target.suffix != ".py":
        raise UsageError(f"{target}: a spec is a Python file; give it the suffix .py")
    if target.exists():
        raise UsageError(f"{target} exists already, and new replaces nothing; choose another name")
    files.write(args.file, written(args.like, args.file).encode())
    show(f"{target}: like {args.like}; lego-mlir check {target} proves it")
    return 0


def written(like: str, name: str) -> str:
    """The text of an example for a file of this name: the commands of its head name that file."""
    example = EXAMPLES[like]
    text = (folder() / example).read_text()
    return re.sub(r'^"""\d+\. ', '"""', text).replace(f"examples/{example}", Path(name).as_posix())


def folder() -> Path:
    """Where the examples are: in the package that is installed, or beside it in a checkout."""
    package = Path(lego_mlir.__file__).parent
    installed = package / "examples"
    return installed if installed.is_dir() else package.parent / "examples"
