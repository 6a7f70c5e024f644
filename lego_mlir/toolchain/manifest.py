"""The manifest of a compiled kernel: what a launch needs to know, as plain data for a JSON file beside the PTX.

A machine that runs kernels has neither the spec nor SymPy: sizes come with their facts, and what depends on them (the
grid, a tensor's element count) as text, which `lego_mlir.runtime` evaluates.

>>> from lego_mlir.expr.index import cdiv
>>> from lego_mlir.expr.sizes import size
>>> portable(cdiv(size("M"), 32))
'((M + 31) // 32)'
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lego_mlir import bindings
from lego_mlir.aliases import Expr, Json, Traced
from lego_mlir.errors import PrintError
from lego_mlir.toolchain import llvm
from lego_mlir.transforms.kernel_facts import KernelArgument, KernelFacts

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.toolchain.compile import Compilation

FORMAT: Final = 1


def portable(value: Expr) -> int | str:
    """An int as it is; an index expression as text over sizes (`expr.text`). PrintError for other nodes."""
    if isinstance(value, int):
        return value
    from lego_mlir.expr import text
    from lego_mlir.expr.index import as_expr

    if (expr := as_expr(value)).is_Integer:
        return int(expr)
    try:
        return text.write(expr)
    except PrintError as error:
        raise PrintError(f"manifest: {error}; a grid and a size are integer arithmetic on sizes") from None


def build(compilation: Compilation) -> Json:
    """The manifest of a compilation: its module's facts, and the layouts and symbolic sizes of kernel objects."""
    objects = {kernel.name: kernel for kernel in compilation.sources}
    source = compilation.stage("mlir").encode()  # without locations: moving a kernel down a line changes nothing
    return {
        "format": FORMAT,
        "target": compilation.settings.target.name,
        "code": compilation.emit,
        "code_sha256": hashlib.sha256(compilation.bytes).hexdigest(),
        "source_sha256": hashlib.sha256(source).hexdigest(),
        "versions": [_own_version(), bindings.load().version, llvm.version()],
        "kernels": [describe(facts, objects.get(facts.name)) for facts in compilation.kernels],
    }


def _own_version() -> str:
    from importlib import metadata

    try:
        return f"lego-mlir {metadata.version('lego-mlir')}"
    except metadata.PackageNotFoundError:
        return "lego-mlir (not installed)"


def describe(facts: KernelFacts, kernel: Traced) -> Json:
    """One kernel of a manifest: the facts of its module, and the layouts and sizes of its object, None for a text."""
    common = {
        "entry": facts.name,
        "static_shared_bytes": facts.static_shared,
        "dynamic_shared_bytes": facts.dynamic_shared,
    }
    if kernel is None:
        return {
            **common,
            "grid": list(facts.grid) if facts.grid else None,
            "block": list(facts.block) if facts.block else None,
            "sizes": [],
            "arguments": [_plain_argument(i, argument) for i, argument in enumerate(facts.arguments)],
        }
    required = kernel.trace().requirements
    along_x = kernel.cluster[1:] in ((), (1,), (1, 1))
    by_warpgroups = any(argument.tensor_map for argument in facts.arguments)  # with threads that only copy
    conditions = [{"condition": portable(r.condition), "text": r.text} for r in required]
    return {
        **common,
        **({"requirements": conditions} if conditions else {}),
        "source": str(kernel.source),
        "grid": [portable(n) for n in kernel.grid],
        **({"cluster": facts.cluster} if facts.cluster > 1 and along_x else {}),
        **({"dependent": True} if facts.dependent else {}),
        "block": list(facts.block) if by_warpgroups and facts.block else [portable(n) for n in kernel.block],
        "sizes": [
            {"name": size.name, "min": size.min, "max": kernel.greatest(size), "multiple_of": size.multiple_of}
            for size in kernel.sizes
        ],
        "arguments": [
            _argument(parameter, kernel.tolerance, argument.alignment) | _map(argument)
            for parameter, argument in zip(kernel.params, facts.arguments, strict=False)
        ],
    }


def describe_program(program: Traced, alignments: Mapping[str, int]) -> Json:
    """A program as one entry; its kernels need these alignments, in bytes, of its tensors."""
    return {
        "entry": program.name,
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0,
        "source": str(program.source),
        "grid": [1],
        "block": [1],
        "sizes": [
            {"name": size.name, "min": size.min, "max": program.greatest(size), "multiple_of": size.multiple_of}
            for size in program.sizes
        ],
        "arguments": [
            _argument(parameter, program.tolerance, alignments.get(parameter.name, 1)) for parameter in program.params
        ],
    }


def describe_steps(program: Traced, kernels: Sequence[Json]) -> Json:
    """A program of a manifest: its entry, temporaries, and the launch of each step over the program's sizes.

    `kernels` are those of the manifest. An argument is a name of the program, or a number, or an expression of sizes.
    """
    described = {kernel["entry"]: kernel for kernel in kernels}
    alignments: dict[str, int] = {}
    steps = []
    for step in program.steps:
        arguments = []
        for argument, operand in zip(described[step.kernel.name]["arguments"], step.arguments, strict=True):
            name = getattr(operand, "name", None)
            if name is not None and argument["kind"] == "tensor":
                alignments[name] = max(argument["alignment"], alignments.get(name, 1))
            value = operand if isinstance(operand, float) else portable(operand) if name is None else None
            arguments.append({"value": value} if name is None else {"name": name})
        sizes = {name: portable(value) for name, value in step.sizes.items()}
        steps.append({"entry": step.kernel.name, "sizes": sizes, "arguments": arguments})
    temporaries = [
        {"name": tensor.name, "dtype": tensor.dtype.name, "elements": portable(tensor.size)}
        for tensor in program.temporaries
    ]
    return {**describe_program(program, alignments), "temporaries": temporaries, "steps": steps}


def _plain_argument(position: int, argument: KernelArgument) -> Json:
    known = all(n is not None for n in argument.shape)
    described: dict[str, Any] = {"name": f"arg{position}", "kind": argument.kind, "dtype": argument.dtype.lower()}
    if argument.kind == "tensor":
        described |= {"shape": list(argument.shape) if known else None, "elements": _product(argument.shape)}
        described |= {"alignment": argument.alignment, "read": argument.read, "written": argument.written}
    return described | _map(argument)


def _map(argument: KernelArgument) -> Json:
    """The tensor map of an argument that is passed as one."""
    return {} if argument.tensor_map is None else {"tensor_map": argument.tensor_map.to_data()}


def _product(shape: Sequence[int | None]) -> int | None:
    total = 1
    for n in shape:
        if n is None:
            return None
        total *= n
    return total


def _argument(parameter: Traced, tolerance: tuple[float, float] | None, alignment: int) -> Json:
    described = {"name": parameter.name, "dtype": parameter.dtype.name}
    if parameter.layout is None:
        return {**described, "kind": "scalar"}
    if parameter.values is not None and not parameter.dtype.is_float:
        described["values"] = [portable(end) for end in parameter.values]
    if parameter.permutation:
        described["permutation"] = True
    if parameter.written and tolerance is not None:
        described["tolerance"] = tolerance
    return {
        **described,
        "kind": "tensor",
        "shape": [portable(n) for n in parameter.layout.dims()],
        "elements": portable(parameter.size),
        "layout": repr(parameter.layout),
        "strides": _strides(parameter.layout),
        "alignment": alignment,
        "read": parameter.read,
        "written": parameter.written,
    }


def _strides(layout: Layout) -> list[int | str] | None:
    """The strides of a layout whose first element is at position 0 and whose every index names an element."""
    from lego_mlir.expr.index import index_symbol

    dims = layout.dims()
    symbols = [index_symbol(f"i[{axis}]") for axis in range(len(dims))]
    if layout.mask(*symbols) is not True or layout.apply(*[0] * len(dims)) != 0:
        return None
    found = layout.strides()
    return None if found is None else [portable(step) for step in found]
