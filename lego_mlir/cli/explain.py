"""`lego-mlir explain`: how each index expression was derived, what was proved, and what it costs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Json
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.several import add_specs
from lego_mlir.errors import SpecError, brief

if TYPE_CHECKING:
    from lego_mlir.expr.simplify import Derivation
    from lego_mlir.layout.base import Layout
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.trace.trace import Accessing, KernelTrace

HELP: Final = "Show how each index expression of a spec was derived and proved."
EXAMPLE: Final = "lego-mlir explain examples/transpose.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    add_specs(parser, "a spec, a Python file, or - for a spec on standard input; or an LL program")
    parser.add_argument("--json", action="store_true", help="print the derivations as JSON")
    parser.add_argument("--kernel", metavar="NAME", help="explain this kernel only; default: all layouts and kernels")


def run(args: argparse.Namespace) -> int:
    """Print the derivation of every layout and access."""
    from lego_mlir import spec
    from lego_mlir.cli import files, structured

    if structured.require_program(args.spec):
        return structured.explain_program(args)
    loaded = files.load_spec(args.spec)
    kernels = loaded.kernels_named(args.kernel) if args.kernel else tuple(loaded.kernels.values())
    layouts = {} if args.kernel else loaded.layouts
    if not layouts and not kernels:
        raise SpecError(f"{loaded.path}: this spec has no layout and no kernel")
    found: dict[str, list[Json]] = {"layouts": [], "kernels": []}
    with Progress(f"deriving {loaded.path.name}") as progress:
        for name, layout in layouts.items():
            progress.update(name)
            with spec.blame(*loaded.files):
                if args.json:
                    found["layouts"].append(_layout_dict(name, layout))
                    continue
                lines = list(_layout(name, layout))
            progress.print("\n".join(lines))
        for kernel in kernels:
            progress.update(kernel.name)
            with spec.blame(*loaded.files):
                trace = kernel.trace()
            if args.json:
                found["kernels"].append(_kernel_dict(trace) | {"layouts": list(_tile_layouts(kernel))})
            else:
                progress.print("\n".join((*_kernel(trace), *(f"  {line}" for line in _tile_layouts(kernel)))))
    if args.json:
        print_json(args.command, {"spec": args.spec, **found})
    return 0


def _layout_dict(name: str, layout: Layout) -> Json:
    inverse = [derivation_dict(derivation) for derivation in layout.derive_inv()]
    return {"name": name, "layout": repr(layout), "apply": derivation_dict(layout.derive()), "inv": inverse}


def _kernel_dict(trace: KernelTrace) -> Json:
    from lego_mlir.proofs.explained import explanations
    from lego_mlir.proofs.kernel_model import KernelModel

    accesses = [
        {
            "source": str(access.source),
            "kind": _verb(statement),
            "tensor": access.buffer.name,
            "index": [str(index) for index in access.index],
            "mask": str(access.mask) if access.is_masked else None,
            "width": access.width,
            "position": derivation_dict(access.derivation),
        }
        for statement, access in trace.accesses()
    ]
    claims = [{"claim": found.claim, "proof": list(found.lines)} for found in explanations(KernelModel(trace))]
    sums = [
        {
            "source": str(c.total),
            "product": str(c.product),
            "fused": not c.reason,
            "reason": c.reason or None,
            "times": n,
        }
        for c, n in Counter(trace.contractions).items()
    ]
    return {"name": trace.name, "source": str(trace.source), "accesses": accesses, "sums": sums, "claims": claims}


def roundings_of(trace: KernelTrace) -> Iterator[str]:
    """What became of the sums that have a product: one rounding, or two and why."""
    for one, times in Counter(trace.contractions).items():
        where = "" if one.product == one.total else f" in line {one.product.line}"
        how = f"two roundings, {one.reason}" if one.reason else "one rounding, fma"
        yield f"{one.total}: a sum and its product{where}: {how}{f' ({times} times)' if times > 1 else ''}"


def _tile_layouts(kernel: Kernel) -> Iterator[str]:
    """The layouts that the engine chose for tiles without one, and why."""
    from lego_mlir.engine.choice_reasons import reasons

    if kernel.layout_choice is not None:
        yield from reasons(kernel.layout_choice)


def _verb(statement: Accessing) -> str:
    """What a statement does: load, store, copy, or the name of an atomic update."""
    operation = getattr(statement, "operation", None)
    name = type(statement).__name__
    return _VERBS.get(name, name.lower()) if operation is None else f"atomic {operation}"


_VERBS: Final = {"MatrixLoad": "load matrices", "AsyncCopy": "asynchronous copy"}


def derivation_dict(derivation: Derivation) -> Json:
    """A derivation as `--json` prints it; `operations` counts those of the whole expression after each step."""
    steps = [
        {
            "rule": step.rule,
            "before": str(step.before),
            "after": str(step.after),
            "since": [str(condition) for condition in step.condition],
            "proof": step.proof or None,
            "operations": step.operations[1],
        }
        for step in derivation.steps
    ]
    operations = {"before": derivation.before, "after": derivation.after}
    return {"raw": str(derivation.raw), "result": str(derivation.expr), "operations": operations, "steps": steps}


def _layout(name: str, layout: Layout) -> Iterator[str]:
    yield f"layout {name} = {layout!r}"
    yield from (f"  {line}" for line in layout.explain().splitlines())
    yield ""


def _kernel(trace: KernelTrace) -> Iterator[str]:
    from lego_mlir.proofs.explained import digits_of, explanations
    from lego_mlir.proofs.kernel_model import KernelModel

    yield f"kernel {trace.name}, {trace.source}"
    for statement, access in trace.accesses():
        index = brief(", ".join(map(str, access.index)))
        mask = f" where {brief(access.mask)}" if access.is_masked else ""
        width = f", {access.width} elements at once" if access.width > 1 else ""
        title = f"{_verb(statement)} {access.buffer.name}[{index}]{width}{mask}"
        yield from _derivation(f"{access.source}: {title}", access.derivation)
    yield from (f"  {line}" for line in roundings_of(trace))
    model = KernelModel(trace)
    yield from (f"  {line}" for line in digits_of(model))
    for found in explanations(model):
        yield f"  {found.claim}"
        yield from (f"    {line}" for line in found.lines)
    yield ""


def _derivation(title: str, derivation: Derivation) -> Iterator[str]:
    from lego_mlir.expr.explain import explain

    yield f"  {title}"
    yield from (f"    {line}" for line in explain(derivation).splitlines())
