"""Kernels as operators of PyTorch: usable in `torch.compile(fullgraph=True)`, exported graphs and autograd.

    axpy = lego.torch.op(kernel)
    z = axpy(x, y, 2.0)

The operator takes the kernel's tensors and numbers in the order of the signature, and its sizes by keyword where the
shapes do not give them. Tensors that the kernel only writes are left out: they are allocated and returned, one or a
tuple. A tensor that it reads and writes is changed in place, as its schema declares. A fake implementation gives the
shapes of the results without running, which is what `torch.compile` traces with.

The name of an operator ends in a digest of what its kernel computes, `lego::axpy_1c5a8e02`: a program that was saved by
`torch.export` finds that kernel where it is loaded, or none. A name that is given is used as it is, and refused if
another kernel has it.

`onnx_translations()` is a table for `torch.onnx.export`: an operator becomes a node of the domain `lego`.

An operator is registered with `torch.library.Library.impl`, whose dispatch costs about a third of
`torch.library.custom_op`'s. Without a backward function a tensor that requires a gradient is refused.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Final

from lego_mlir.aliases import Foreign, Given, Returned, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import CPU, ArrayFacts
from lego_mlir.runtime.binding import MISSING, is_result
from lego_mlir.runtime.manifest import Argument, KernelEntry

__all__ = ["onnx_translations", "op", "schema"]

NAMESPACE: Final = "lego"
_SCALARS: Final = {"f": "float", "b": "float", "i": "int", "u": "int"}
_libraries: list[Any] = []  # an operator lives as long as its library object
Backward = Callable[..., "Tensor | Sequence[Tensor | None] | None"]
ONNX_VERSION: Final = 1
_ONNX_TYPES: Final = (
    *("float16", "float", "double", "bfloat16", "float8e4m3fn", "float8e5m2", "bool"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
DIGITS: Final = 8
"""Of a digest, in the name of an operator."""


@dataclass(frozen=True, slots=True)
class _Registered:
    """An operator that is registered: what its kernel computes, and its backward function."""

    digest: str
    backward: Backward | None
    overload: Callable[..., Returned]
    entry: KernelEntry


_defined: dict[str, _Registered] = {}


def __dir__() -> list[str]:
    return __all__


def op(
    kernel: Given, name: str | None = None, backward: Backward | None = None, *, out: bool = False
) -> Callable[..., Returned]:
    """A kernel, or one through a transform script, as the operator `torch.ops.lego.NAME`.

    By default NAME is that of the kernel and eight digits of a digest of what it computes. The same kernel gives the
    same operator again. With `out=True` results are arguments too, which the operator changes in place: the cheapest
    call.
    `backward(gradients, inputs, results)` returns the gradients of the arguments, None for those without one; each of
    the three is a tuple. Raises UsageError without PyTorch, for a name that another kernel has, and for a kernel with a
    parameter that no schema can state.
    """
    torch = _torch()
    calls: Foreign = getattr(kernel, "calls", kernel)
    entry: KernelEntry = _with_results_given(calls.host_entry) if out else calls.host_entry
    digest = calls.digest + "_out" * out
    unique = _name(entry.entry, digest, backward) if name is None else _identifier(name)
    if unique in _defined:
        return _known(unique, digest, backward)
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(f"{unique}{schema(entry)}", tags=(torch.Tag.pt2_compliant_tag,))
    for device in ("CPU", "CUDA"):
        library.impl(unique, _implementation(entry, calls), device)
    torch.library.register_fake(f"{NAMESPACE}::{unique}", _fake(torch, entry, backward is not None), lib=library)
    if backward is None:  # the call refuses gradients, and in a compiled graph the fake does
        library.impl(unique, torch.library.fallthrough_kernel, "Autograd")
    else:
        _differentiate(torch, library, unique, entry, backward)
    _libraries.append(library)
    overload: Callable[..., Returned] = getattr(getattr(torch.ops, NAMESPACE), unique).default
    _defined[unique] = _Registered(digest, backward, overload, entry)
    return overload


def onnx_translations(*operators: Callable[..., Returned]) -> dict[Callable[..., Returned], Callable[..., Returned]]:
    """How `torch.onnx.export(.., custom_translation_table=)` writes operators of kernels: as the node `lego::NAME`.

    NAME and the attributes, which are the numbers and the sizes, are the operator's own, and the version of the domain
    `lego` is 1; a runtime needs an implementation of that node. By default the table has every operator of this process
    without arguments that change in place. Raises UsageError for one with such, for another function, and without
    onnxscript.
    """
    try:
        from onnxscript import values
    except ImportError:
        raise UsageError("an ONNX graph of operators needs onnxscript: pip install onnx onnxscript") from None
    known = {found.overload: (name, found.entry) for name, found in _defined.items()}
    chosen = operators or [each for each, (_, entry) in known.items() if not _changes(entry)]
    domain = values.Opset(NAMESPACE, ONNX_VERSION)
    table = {}
    for each in chosen:
        if each not in known:
            raise UsageError(f"lego.torch.onnx_translations takes operators that lego.torch.op returned, got {each!r}")
        name, entry = known[each]
        if changed := _changes(entry):
            raise UsageError(
                f"torch.ops.{NAMESPACE}.{name} changes {', '.join(changed)} in place, which no ONNX node does; write a "
                "kernel whose results are tensors that it only writes"
            )
        table[each] = _translation(entry, values.Op(domain, name, _onnx_schema(name, entry)))
    return table


def _changes(entry: KernelEntry) -> list[str]:
    return [a.name for a in entry.arguments if a.kind == "tensor" and a.written and a.read]


def _onnx_schema(name: str, entry: KernelEntry) -> Foreign:
    from onnx.defs import OpSchema

    def tensor(argument: Argument) -> Foreign:
        return OpSchema.FormalParameter(argument.name, f"of_{argument.name}")

    tensors = [a for a in entry.arguments if a.kind == "tensor"]
    kinds = OpSchema.AttrType
    numbers = {a.name: kinds.FLOAT if _type(entry, 0, a) == "float" else kinds.INT
               for a in entry.arguments if a.kind != "tensor"}  # fmt: skip
    sizes = {size.name: kinds.INT for size in entry.sizes}
    types = [f"tensor({name})" for name in _ONNX_TYPES]
    return OpSchema(
        name, NAMESPACE, ONNX_VERSION,
        inputs=[tensor(a) for a in tensors if not is_result(a)], outputs=[tensor(a) for a in tensors if is_result(a)],
        type_constraints=[(f"of_{a.name}", types, a.dtype) for a in tensors],
        attributes=[OpSchema.Attribute(n, kind, "", required=n in numbers) for n, kind in {**numbers, **sizes}.items()],
    )  # fmt: skip


def _translation(entry: KernelEntry, node: Foreign) -> Callable[..., Returned]:
    """The call of an operator as a node: tensors are inputs, numbers and sizes attributes."""
    arguments = [argument for argument in entry.arguments if not is_result(argument)]

    def translate(*given: Given, **named: Given) -> Returned:
        pairs = list(zip(arguments, given, strict=True))
        tensors = [value for argument, value in pairs if argument.kind == "tensor"]
        numbers = {argument.name: value for argument, value in pairs if argument.kind != "tensor"}
        found: Returned = node(*tensors, **numbers, **_sizes(entry, named))
        return found

    return translate


def _with_results_given(entry: KernelEntry) -> KernelEntry:
    """The entry with every written tensor as one that is changed in place."""
    return replace(entry, arguments=tuple(replace(a, read=a.read or a.written) for a in entry.arguments))


def schema(entry: KernelEntry) -> str:
    """The operator's schema: `(Tensor x, Tensor(a1!) y, float alpha, *, SymInt? M=None) -> Tensor`."""
    arguments = [f"{_type(entry, i, a)} {_named(a.name)}" for i, a in enumerate(entry.arguments) if not is_result(a)]
    sizes = [f"SymInt? {_named(size.name)}=None" for size in entry.sizes]
    results = sum(1 for argument in entry.arguments if is_result(argument))
    returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    return f"({', '.join([*arguments, *(['*', *sizes] if sizes else [])])}) -> {returned}"


def _torch() -> Foreign:
    try:
        import torch
    except ImportError:
        raise UsageError("lego.torch needs PyTorch: pip install torch") from None
    return torch


def _name(kernel: str, digest: str, backward: Backward | None) -> str:
    """The name of a kernel's operator: `axpy_1c5a8e02`, `axpy_1c5a8e02_out`, `axpy_1c5a8e02_backward`."""
    code, _, out = digest.partition("_")
    parts = (
        "".join(c if c.isalnum() else "_" for c in kernel),
        code[:DIGITS],
        out,
        "backward" * (backward is not None),
    )
    return "_".join(filter(None, parts))


def _identifier(name: str) -> str:
    """A name as it was given. Raises UsageError for one that no operator can have."""
    if not name.isidentifier() or not name.isascii():
        raise UsageError(f"lego.torch.op: name={name!r} is no name of an operator; use letters, digits and _")
    return name


def _known(name: str, digest: str, backward: Backward | None) -> Callable[..., Returned]:
    """The operator of that name. Raises UsageError if it is another kernel's, or has another backward function."""
    found = _defined[name]
    if found.digest != digest:
        raise UsageError(
            f"torch.ops.{NAMESPACE}.{name} is another kernel already; give this one another name, or leave name= out"
        )
    if not _is_same(found.backward, backward):
        raise UsageError(
            f"torch.ops.{NAMESPACE}.{name} has another backward function already; name this operator: name='..'"
        )
    return found.overload


def _is_same(first: Backward | None, second: Backward | None) -> bool:
    """Whether two functions are one, or have the same code and refer to the same things."""
    if first is second:
        return True
    parts = ("__code__", "__closure__", "__defaults__", "__kwdefaults__", "__globals__")
    if not all(isinstance(function, FunctionType) for function in (first, second)):
        return False
    codes, closures, *others = ([getattr(function, part) for function in (first, second)] for part in parts)
    cells = [[cell.cell_contents for cell in closure or ()] for closure in closures]
    alike = len(cells[0]) == len(cells[1]) and all(map(operator.is_, *cells))
    same_code = codes[0].co_code == codes[1].co_code and codes[0].co_consts == codes[1].co_consts
    return alike and same_code and codes[0].co_names == codes[1].co_names and all(a == b for a, b in others)


def _named(name: str) -> str:
    """A parameter's name in a schema, where Python's keywords are not allowed."""
    return f"{name}_" if keyword.iskeyword(name) or name == "self" else name


def _type(entry: KernelEntry, position: int, argument: Argument) -> str:
    if argument.kind == "tensor":
        return f"Tensor(a{position}!)" if argument.written else "Tensor"
    if argument.dtype == "i1":
        return "bool"
    found = _SCALARS.get(argument.dtype[0])
    if found is None:
        raise UsageError(f"lego.torch.op: {argument.name} of kernel {entry.entry} is a number of {argument.dtype}")
    return found


def _sizes(entry: KernelEntry, named: dict[str, Given]) -> dict[str, Given]:
    """The sizes that were given, by their own names."""
    return {s.name: named[_named(s.name)] for s in entry.sizes if named.get(_named(s.name)) is not None}


def _implementation(entry: KernelEntry, calls: Given) -> Callable[..., Returned]:
    """The operator on tensors: the kernel's call, and its results without the tensors changed in place."""
    written = [argument for argument in entry.arguments if argument.written and argument.kind == "tensor"]
    kept = [k for k, argument in enumerate(written) if is_result(argument)]
    plain = len(kept) == len(written) and not entry.sizes
    if plain:
        call: Callable[..., Returned] = calls.__call__
        return call
    if not kept and not entry.sizes:

        def change(*given: Given) -> None:
            calls(*given)

        return change

    def run(*given: Given, **named: Given) -> Returned:
        found = calls(*given, **_sizes(entry, named))
        results = found if isinstance(found, tuple) else (found,)
        chosen = tuple(results[k] for k in kept)
        return chosen[0] if len(chosen) == 1 else chosen if chosen else None

    return run


def _fake(torch: Foreign, entry: KernelEntry, differentiable: bool) -> Callable[..., Returned]:
    """The shapes, strides and types of the results, from those of the arguments; also for symbolic shapes."""

    def run(*given: Given, **named: Given) -> Returned:
        values, sizes = binding.arrange(entry, given, _sizes(entry, named))
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if not differentiable and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise UsageError(
                f"kernel {entry.entry} has no derivative, and a tensor requires a gradient; pass tensor.detach(), call "
                "it under torch.no_grad(), or give lego.torch.op a backward function"
            )
        facts = [
            _facts(value) if argument.kind == "tensor" and value is not MISSING else None
            for argument, value in zip(entry.arguments, values, strict=True)
        ]
        bound = binding.bind(entry, facts, sizes, next((f for f in facts if f is not None), None))
        where = tensors[0].device if tensors else "cpu"
        results = tuple(
            torch.empty_strided(r.shape, r.strides, dtype=getattr(torch, r.dtype), device=where) for r in bound.results
        )
        return results[0] if len(results) == 1 else results if results else None

    return run


def _facts(tensor: Tensor) -> ArrayFacts:
    """What a tensor without memory tells; the device is that of the real ones, which the call compares."""
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    dtype = str(tensor.dtype).rpartition(".")[2]
    return ArrayFacts("torch", dtype, shape, strides, 0, CPU, tensor.element_size())


def _differentiate(torch: Foreign, library: Foreign, name: str, entry: KernelEntry, backward: Backward) -> None:
    """Register a backward function. Raises UsageError for a kernel that changes its inputs."""
    inputs = [argument for argument in entry.arguments if not is_result(argument)]
    if any(a.kind == "tensor" and a.written for a in inputs):
        raise UsageError(f"lego.torch.op: kernel {entry.entry} changes an input in place, which has no derivative")

    def remember(ctx: Foreign, inputs: Sequence[Given], output: Given, **keywords: Given) -> None:
        results = output if isinstance(output, tuple) else (output,)
        saved = [*inputs, *results]
        ctx.save_for_backward(*(v for v in saved if isinstance(v, torch.Tensor)))
        ctx.others = [None if isinstance(v, torch.Tensor) else (v,) for v in saved]

    def derive(ctx: Foreign, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if other is None else other[0] for other in ctx.others]
        given, results = tuple(values[: len(inputs)]), tuple(values[len(inputs) :])
        found = backward(gradients, given, results)
        answers = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(answers) != len(inputs):
            raise UsageError(
                f"the backward function of lego::{name} must return {len(inputs)} gradients, one for each of "
                f"{', '.join(a.name for a in inputs)} (None where there is none); it returned {len(answers)}"
            )
        return answers

    torch.library.register_autograd(f"{NAMESPACE}::{name}", derive, setup_context=remember, lib=library)
