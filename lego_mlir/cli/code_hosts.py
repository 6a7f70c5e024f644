"""`--sarif` and `--annotate`: findings for code hosts, which show them at their lines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lego_mlir.cli import files

if TYPE_CHECKING:
    from lego_mlir.sanitize.findings import SourceFinding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two options."""
    parser.add_argument("--sarif", metavar="FILE", help="write the findings in SARIF, for a code host")
    parser.add_argument("--annotate", action="store_true", help="print the findings as GitHub Actions' annotations")


def report(args: argparse.Namespace, rules: Mapping[str, str], findings: Sequence[SourceFinding]) -> None:
    """Write and print what the options ask for; `rules` has the text of each rule by its name.

    Annotations are lines of standard output, or of standard error beside `--json`.
    """
    import sys

    from lego_mlir.cli.main import version
    from lego_mlir.sanitize.findings import annotation, sarif_document

    if args.annotate:
        for finding in findings:
            print(annotation(finding), file=sys.stderr if args.json else sys.stdout)
    if args.sarif:
        document = sarif_document(f"lego-mlir {args.command}", version(), rules, findings)
        files.write(args.sarif, (json.dumps(document, indent=1) + "\n").encode())
