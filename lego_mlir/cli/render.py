"""`lego-mlir render`: render a Triton or CUDA template with the layouts of a spec."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError, brief

if TYPE_CHECKING:
    from lego_mlir.spec import Spec
    from lego_mlir.templates import Template
    from lego_mlir.templates.render.template import Rendered

HELP: Final = "Render a Triton or CUDA template with the layouts of a spec."
EXAMPLE: Final = "lego-mlir render examples/scale.py.jinja --spec examples/scale_spec.py -o scale.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument(
        "template",
        help="the template, a file such as kernel.py.jinja (Triton) or kernel.cu.jinja (CUDA), or the name of a "
        "Template in the spec",
    )
    parser.add_argument("--spec", required=True, help="the Python file with the layouts, indices and values it names")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the text; default: standard output")
    parser.add_argument("--check", action="store_true", help="also read the text back and compare it with the layouts")


def run(args: argparse.Namespace) -> int:
    """Write the rendered text; return CHECK_FAILED, and write nothing, if --check finds a difference."""
    from lego_mlir import spec
    from lego_mlir.cli import files
    from lego_mlir.cli.main import CHECK_FAILED, DONE

    loaded = spec.load(args.spec)
    template = _template(args.template, loaded)
    files.require_not_an_input(args.output, {"spec": args.spec, "template": template.name})
    with spec.blame(loaded.path):
        rendered = template.render()
    if args.check and not _agrees(rendered):
        return CHECK_FAILED
    files.write(args.output, rendered.text.encode())
    return DONE


def _template(name: str, loaded: Spec) -> Template:
    from lego_mlir.templates import Template

    if name in loaded.templates:
        return loaded.templates[name]
    if not Path(name).is_file():
        named = f"; the templates of {loaded.path} are: {', '.join(loaded.templates)}" if loaded.templates else ""
        raise UsageError(f"{name}: no such template file{named}")
    return Template.read(name, {n: v for n, v in loaded.names.items() if not _is_code(v)})


def _is_code(value: object) -> bool:
    """Whether a spec's variable is a class, module or function: the template receives the other values."""
    return isinstance(value, (type, ModuleType, FunctionType))


def _agrees(rendered: Rendered) -> bool:
    """Whether no claim is refuted; prints refuted claims and unmasked accesses."""
    import sys

    from lego_mlir.expr.verdict import Refuted
    from lego_mlir.templates.readback.check import verdicts
    from lego_mlir.templates.readback.unmasked import REMEDY, unmasked

    wrong = [(claim, v) for claim, v in verdicts(rendered) if isinstance(v, Refuted)]
    for claim, verdict in wrong:
        print(f"REFUTED  {claim}: {verdict.explanation}", file=sys.stderr)
    for line, text in unmasked(rendered):
        print(f"note     {rendered.template.name}:{line}: {brief(text)} {REMEDY}", file=sys.stderr)
    return not wrong
