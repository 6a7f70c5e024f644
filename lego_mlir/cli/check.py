"""`lego-mlir check`: a verdict for every layout of a spec, and for every layout and access of its kernels."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.cli import check_formats, code_hosts, mlir_files, options
from lego_mlir.cli.claim_groups import RULES, Group, Line, Note
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.several import add_specs
from lego_mlir.cli.terminal import show
from lego_mlir.errors import RefutedAccessError, RefutedLayoutError, SpecError, brief
from lego_mlir.expr.verdict import Proved, Refuted, Unknown

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.templates import Template
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import KernelProgram

HELP: Final = "Prove or refute the layouts, kernels and templates of a spec, or the kernels of a module."
EXAMPLE: Final = "lego-mlir check examples/transpose.py"
_TIMEOUT_MS: Final = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    add_specs(
        parser,
        "a spec, a Python file, or - for a spec on standard input; or MLIR (.mlir), whose kernels are read and run on "
        "random input; or an LL program; or with --format a .safetensors file",
    )
    parser.set_defaults(findings=[])
    check_formats.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument("--strict", action="store_true", help="exit with code 3 if a claim is unknown")
    code_hosts.add_arguments(parser)
    parser.add_argument("--kernel", metavar="NAME", help="check this kernel only; default: all layouts and kernels")
    parser.add_argument("--transform", metavar="FILE", help="check the kernels after this transform script as well")
    options.add_parameters(parser)
    mlir_files.add_arguments(parser)
    options.add_cache_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print a verdict for each claim; CHECK_FAILED if one is refuted, by `--strict` NOT_PROVED if one is unknown."""
    from lego_mlir.cli import files, structured

    if args.format is not None:
        return check_formats.run(args)
    check_formats.refuse_others(args)
    options.require_transform(args)
    if args.transform is not None:
        from lego_mlir.transforms import scripts

        scripts.read(args.transform, options.parameters_of(args))  # its faults come before the long proofs
    if mlir_files.is_module(args.spec):
        from lego_mlir.cli.check_modules import module_groups

        return _finish(args, _shown(args, module_groups(args)), summary=True)
    mlir_files.refuse_extents(args)
    if structured.require_program(args.spec):
        return _finish(args, [_program_group(args)], summary=True)
    try:
        loaded = files.load_spec(args.spec)
    except SpecError as error:
        if not isinstance(error.__cause__, RefutedLayoutError):
            raise
        line = Line("every layout of the spec is a bijection", Refuted({}, str(error)))  # raised by its constructor
        if not args.json:
            show(str(line))
        return _finish(args, [Group("spec", args.spec, "the spec", [line])])
    kernels = loaded.kernels_named(args.kernel) if args.kernel else tuple(loaded.kernels.values())
    layouts = {} if args.kernel else loaded.layouts
    templates = {} if args.kernel else loaded.templates
    if not layouts and not kernels and not templates:
        raise SpecError(f"{loaded.path}: this spec has no layout, kernel or template")
    groups = []
    with Progress(f"checking {loaded.path.name}") as progress:
        programs = [entry for entry in loaded.programs.values() if args.kernel in (None, entry.name)]
        checked = _groups(layouts, kernels, templates, loaded.files, progress)
        for group in (*checked, *map(_steps, programs), *_transformed(args, kernels)):
            groups.append(group)
            if not args.json:
                progress.print("\n".join(map(str, [group.title, *group.lines])))
    return _finish(args, groups, summary=True)


def finish(args: argparse.Namespace) -> None:
    """Report the claims of all specs that are not proved to a code host."""
    code_hosts.report(args, RULES, args.findings)


def _shown(args: argparse.Namespace, groups: Iterator[Group]) -> list[Group]:
    """The groups, printed one by one unless they are printed as JSON."""
    found = []
    for group in groups:
        found.append(group)
        if not args.json:
            show(group.title, *map(str, group.lines))
    return found


def _transformed(args: argparse.Namespace, kernels: Sequence[Kernel]) -> Iterator[Group]:
    """The claims about kernels after a transform script."""
    if args.transform is None:
        return
    from lego_mlir.proofs.module_claims import transformed_claims

    for kernel in kernels:
        text = options.transformed(args, (kernel,))
        assert text is not None
        lines = [Line(*found) for found in transformed_claims(kernel, text)]
        yield Group("kernel", kernel.name, f"kernel {kernel.name} after {args.transform}", lines)


def _finish(args: argparse.Namespace, groups: Sequence[Group], summary: bool = False) -> int:
    """Print the number of verdicts of each kind, or everything as JSON; return the exit code."""
    from lego_mlir.cli.main import CHECK_FAILED, DONE, NOT_PROVED

    args.findings += (found for group in groups for found in group.findings(args.spec))
    verdicts = [type(line.verdict) for group in groups for line in group.lines if isinstance(line, Line)]
    counts = {name.__name__.lower(): verdicts.count(name) for name in (Proved, Refuted, Unknown)}
    if args.json:
        print_json(args.command, {"spec": args.spec, **counts, "groups": [group.to_dict() for group in groups]})
    elif summary:
        show(", ".join(f"{count} {name}" for name, count in counts.items()))
    if counts["refuted"]:
        return CHECK_FAILED
    return NOT_PROVED if args.strict and counts["unknown"] else DONE


def _program_group(args: argparse.Namespace) -> Group:
    """The claims about a program in LL."""
    from lego_mlir.cli import structured

    title, found = structured.claims(args)
    group = Group("program", args.spec, title, [Line(*one) for one in found])
    if not args.json:
        show(group.title, *map(str, group.lines))
    return group


def _groups(
    layouts: Mapping[str, Layout],
    kernels: Sequence[Kernel],
    templates: Mapping[str, Template],
    files: Sequence[str],
    progress: Progress,
) -> Iterator[Group]:
    from lego_mlir import spec

    lines: list[Line | Note]
    for name, layout in layouts.items():
        progress.update(name)
        with spec.blame(*files):
            lines = [Line("apply and inv are each other's inverse", layout.check())]
        yield Group("layout", name, f"layout {name} = {layout!r}", lines)
    for kernel in kernels:
        progress.update(kernel.name)
        with spec.blame(*files):
            lines = list(_kernel_lines(kernel, files))
        yield Group("kernel", kernel.name, f"kernel {kernel.name}, {kernel.source}", lines)
    for name, template in templates.items():
        progress.update(name)
        with spec.blame(*files):
            lines = list(_template_lines(template))
        yield Group("template", name, f"template {name}, {template.name}", lines)


def _steps(program: KernelProgram) -> Group:
    """The claims of a program: the memory that it passes to a kernel is what that expects."""
    lines: list[Line | Note] = [Line(f"{step.source}: {text}", v) for step in program.steps for text, v in step.claims]
    return Group("program", program.name, f"program {program.name}, {program.source}", lines)


def _template_lines(template: Template) -> Iterator[Line | Note]:
    from lego_mlir.proofs.single_writer import once_claims
    from lego_mlir.templates.readback.check import verdicts
    from lego_mlir.templates.readback.unmasked import REMEDY, unmasked

    rendered = template.render()
    yield from (Line(*found) for found in verdicts(rendered))
    yield from (Line(*found) for found in once_claims(template))
    yield from (Note(f"{template.name}:{line}: {brief(text)} {REMEDY}") for line, text in unmasked(rendered))


def _kernel_lines(kernel: Kernel, files: Sequence[str]) -> Iterator[Line | Note]:
    from lego_mlir import spec
    from lego_mlir.proofs.claims import bounds_claims, kernel_claims
    from lego_mlir.proofs.models import Models
    from lego_mlir.tracing.trace.trace import Assume

    try:
        with spec.blame(*files):
            trace = kernel.trace()
    except SpecError as error:
        if not isinstance(error.__cause__, RefutedAccessError):
            raise
        yield Line("every access stays inside its tensor, and no divisor is 0", Refuted({}, str(error)))
        return
    for buffer in (*trace.parameters, *trace.shared):
        if hasattr(buffer, "layout"):
            yield Line(f"layout of {buffer.name}, {buffer.layout!r}", buffer.layout.check())
    models = Models(kernel)
    for what, verdict in bounds_claims(models, _TIMEOUT_MS):
        yield Line(what, verdict)
    for statement in trace.statements():
        if isinstance(statement, Assume):
            yield Note(f"{statement.source}: claimed, and checked by the interpreter: {statement.text}")
    for name, distinct in trace.distinct.items():
        yield Note(f"{distinct.source}: assumed, and checked by run: the elements of {name}{distinct} are distinct")
    for division in trace.divisions:
        yield Line(str(division), division.verdict)
    for what, verdict in kernel_claims(kernel, models=models):
        yield Line(what, verdict)
