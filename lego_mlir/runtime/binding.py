"""Bind arrays, numbers and sizes to a kernel's parameters: every check of a launch, before anything starts.

    arrange      which value belongs to which parameter; results may be left out
    bind         types, shapes, strides, sizes, device, grid: depends on the facts of the arrays, and so is done once
                 for each combination of them
    at           alignment and overlap, which depend on addresses, and so are checked at each launch

An array is passed in one of two forms. With the dims of its layout, index (i, j) of the array is index (i, j) of the
tensor: its strides must be the layout's (row-major for `Row`, a transposed array for `Col`). Or as one dimension, the
elements in memory order, which every layout allows. A size that follows from the shapes need not be given.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from lego_mlir.aliases import Given
from lego_mlir.errors import UsageError, did_you_mean
from lego_mlir.hardware.limits import refusal
from lego_mlir.runtime.arrays import ArrayFacts, Device, dense_strides, spanned
from lego_mlir.runtime.derived_sizes import Equation, derive, names_in, result_strides
from lego_mlir.runtime.manifest import Argument, Extent, KernelEntry, evaluate

# Names of element types of arrays that hold a kernel's element type: integers may come with either sign, bfloat16 and
# the 8-bit floats as their words.
HELD_BY: Final[dict[str, tuple[str, ...]]] = {
    "f8e4m3fn": ("float8_e4m3fn", "uint8", "int8"), "f8e5m2": ("float8_e5m2", "uint8", "int8"),
    "f16": ("float16",), "bf16": ("bfloat16", "uint16", "int16"), "f32": ("float32",), "f64": ("float64",),
    "i1": ("bool", "uint8"), "i8": ("int8", "uint8"), "i16": ("int16", "uint16"), "i32": ("int32", "uint32"),
    "i64": ("int64", "uint64"), "u8": ("uint8", "int8"), "u16": ("uint16", "int16"), "u32": ("uint32", "int32"),
    "u64": ("uint64", "int64"), "index": ("int64", "uint64"),
}  # fmt: skip


class Missing:
    """The place of a result that is to be allocated."""


MISSING: Final = Missing()


NOTHING: Final = (0, 0, 0)
"""The grid of a launch that has nothing to write."""


@dataclass(frozen=True, slots=True)
class Span:
    """The memory of one tensor argument: its length and the alignment that the kernel's accesses need, in bytes."""

    position: int
    bytes: int
    alignment: int


@dataclass(frozen=True, slots=True)
class ResultArray:
    """A result to allocate: NumPy's name of its type, its shape, and its strides in elements."""

    position: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A launch but for its addresses and numbers: sizes in the manifest's order, extents, memory, results."""

    sizes: tuple[int, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    device: Device
    spans: tuple[Span, ...]
    results: tuple[ResultArray, ...]
    disjoint: tuple[tuple[Span, Span], ...]  # a span that is written, and another
    library: str
    needs_gradient: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is launched, because no tensor that is written has an element."""
        return self.grid == NOTHING


def is_result(argument: Argument) -> bool:
    """Whether a parameter may be left out: the kernel writes it and reads nothing of it."""
    return argument.kind == "tensor" and argument.written and not argument.read


def arrange(
    entry: KernelEntry, given: Sequence[Given], named: Mapping[str, Given]
) -> tuple[list[Given], dict[str, int]]:
    """A value for every parameter, MISSING for results that were left out, and the sizes among the keywords."""
    by_name = {a.name: named[a.name] for a in entry.arguments if a.name in named}
    sizes = {name: value for name, value in named.items() if name not in by_name}
    _require_known(entry, sizes)
    taken = dict(zip((a.name for a in positional(entry, len(given), named)), given, strict=True))
    return [by_name.get(a.name, taken.get(a.name, MISSING)) for a in entry.arguments], sizes


def positional(entry: KernelEntry, count: int, named: Container[str]) -> list[Argument]:
    """The parameters of `count` values without a name. Raises UsageError for another count."""
    open_ = [a for a in entry.arguments if a.name not in named]
    inputs = [a for a in open_ if not is_result(a)]
    if count == len(open_):
        return open_
    if count == len(inputs):
        return inputs
    raise UsageError(_wrong_count(entry, open_, inputs, count))


def _wrong_count(entry: KernelEntry, open_: Sequence[Argument], inputs: Sequence[Argument], count: int) -> str:
    without = ""
    if len(inputs) < len(open_):
        results = ", ".join(a.name for a in open_ if is_result(a))
        without = f", or without {results}, which {'is' if len(open_) - len(inputs) == 1 else 'are'} then allocated"
    named = "" if len(open_) == len(entry.arguments) else " beside those given by name"
    return f"kernel {entry.entry} takes {', '.join(a.name for a in open_)}{named}{without}; got {count} arguments"


def _require_known(entry: KernelEntry, sizes: Mapping[str, Given]) -> None:
    wanted = [size.name for size in entry.sizes]
    for name, value in sizes.items():
        if name not in wanted:
            known = [*(a.name for a in entry.arguments), *wanted]
            raise UsageError(
                f"kernel {entry.entry} has no parameter or size {name}{did_you_mean(name, known)}; it has: "
                f"{', '.join(known)}"
            )
        if not hasattr(value, "__index__") or isinstance(value, bool):
            raise UsageError(f"size {name} of kernel {entry.entry} must be an int, got {value!r}")


def bind(
    entry: KernelEntry, facts: Sequence[ArrayFacts | None], named: Mapping[str, int], like: ArrayFacts | None = None
) -> Bound:
    """Check the facts of all tensors against the manifest, and derive the sizes.

    `facts` has None for a number and for a result that is to be allocated, in the library of the first array. Raises
    UsageError for the first disagreement, with what was declared, what was given, and the remedy.
    """
    pairs = [(i, a, f) for i, (a, f) in enumerate(zip(entry.arguments, facts, strict=True)) if f is not None]
    for _, argument, found in pairs:
        _require_type(entry, argument, found)
    absent = [a for a, f in zip(entry.arguments, facts, strict=True) if f is None and a.kind == "tensor"]
    sizes = _sizes(entry, [(argument, found) for _, argument, found in pairs], absent, named)
    empty = _writes_nothing(entry, facts, sizes)
    for size in entry.sizes:
        if not empty or sizes[size.name]:
            size.require(sizes[size.name])
    for requirement in () if empty else entry.requirements:
        requirement.require(entry.entry, sizes)
    for _, argument, found in pairs:
        _require_shape(entry, argument, found, sizes)
    device = _common_device(entry, [(argument, found) for _, argument, found in pairs])
    for _, argument, found in pairs:
        if argument.written and not found.writable:
            raise UsageError(
                f"kernel {entry.entry} writes {argument.name}, and the {found.library} array is read-only; "
                f"{_writable_remedy(found, argument)}"
            )
    results = tuple(
        _result(entry, i, a, sizes)
        for i, (a, f) in enumerate(zip(entry.arguments, facts, strict=True))
        if a.kind == "tensor" and f is None
    )
    spans = [Span(i, f.bytes, a.alignment) for i, a, f in pairs]
    spans += [Span(r.position, r.bytes, entry.arguments[r.position].alignment) for r in results]
    first = pairs[0][2] if pairs else like
    return Bound(
        tuple(sizes[size.name] for size in entry.sizes),
        NOTHING if empty else _extents(entry, "grid", entry.grid, sizes),
        NOTHING if empty else _extents(entry, "block", entry.block, sizes),
        device,
        tuple(sorted(spans, key=lambda span: span.position)),
        results,
        _disjoint(entry, [span for span in spans if span.bytes]),
        first.library if first is not None else "numpy",
        any(f.needs_gradient for _, _, f in pairs),
    )


def _writes_nothing(entry: KernelEntry, facts: Sequence[ArrayFacts | None], sizes: Mapping[str, int]) -> bool:
    """Whether a size is 0, and with it every tensor that is written: then there is nothing to launch."""
    if 0 not in sizes.values():
        return False
    written = [(a, f) for a, f in zip(entry.arguments, facts, strict=True) if a.kind == "tensor" and a.written]
    extents = [
        (found.size if found is not None else _elements(argument, sizes)) for argument, found in written
    ]  # fmt: skip
    return bool(extents) and not any(extents)


def _elements(argument: Argument, sizes: Mapping[str, int]) -> int:
    """The elements of a tensor; 1 where they are not known."""
    extents = argument.shape if argument.shape is not None else (1 if argument.elements is None else argument.elements,)
    return prod(evaluate(n, sizes) for n in extents)


@dataclass(frozen=True, slots=True)
class DenseShape:
    """The shape of a result, and strides that leave no element of its memory out."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def rows(cls, *shape: int) -> DenseShape:
        """Row-major."""
        return cls(shape, dense_strides(shape))

    @classmethod
    def like(cls, shape: Sequence[int], strides: Sequence[int]) -> DenseShape:
        """With axes in the order of an array's strides.

        >>> DenseShape.like((2, 3, 4), (100, 4, 16)).strides
        (12, 1, 3)
        """
        steps, reach = [0] * len(shape), 1
        for axis in sorted(range(len(shape)), key=lambda axis: (strides[axis], -axis)):
            steps[axis], reach = reach, reach * shape[axis]
        return cls(tuple(shape), tuple(steps))


def with_results_of(bound: Bound, *shapes: DenseShape) -> Bound:
    """The launch with its results, which leave no element of their memory out, in other shapes.

    The caller checks for gradients.
    """
    results = []
    for result, dense in zip(bound.results, shapes, strict=True):
        assert spanned(result.shape, result.strides) == prod(dense.shape) == prod(result.shape), (result, dense)
        results.append(replace(result, shape=dense.shape, strides=dense.strides))
    return replace(bound, results=tuple(results), needs_gradient=False)


def _writable_remedy(found: ArrayFacts, argument: Argument) -> str:
    if found.library == "jax" and is_result(argument):
        return "JAX arrays never change: leave the result out, and it is returned"
    return "pass a copy"


def _require_type(entry: KernelEntry, argument: Argument, found: ArrayFacts) -> None:
    held = HELD_BY.get(argument.dtype, (argument.dtype,))
    if found.dtype not in held:
        raise UsageError(
            f"kernel {entry.entry}: {argument.name} holds {argument.dtype}, and the {found.library} array holds "
            f"{found.dtype}; convert it to {held[0]}, or view it as that where the bits are meant"
        )


def _is_shaped(argument: Argument, found: ArrayFacts) -> bool:
    """Whether an array has the axes of the layout; one of one dimension holds the elements in memory order."""
    return argument.shape is not None and len(found.shape) == len(argument.shape)


def _sizes(
    entry: KernelEntry,
    pairs: Sequence[tuple[Argument, ArrayFacts]],
    absent: Sequence[Argument],
    named: Mapping[str, int],
) -> dict[str, int]:
    equations: list[Equation] = []
    for argument, found in pairs:
        if _is_shaped(argument, found):
            equations += [(n, m, argument.name) for n, m in zip(argument.shape or (), found.shape, strict=True)]
        elif len(found.shape) == 1 and argument.elements is not None:
            equations.append((argument.elements, found.size, argument.name))
    multiples = {size.name: size.multiple_of for size in entry.sizes}
    for name, value in named.items():
        shown = derive([e for e in equations if names_in(str(e[0])) == {name}], {}, multiples)
        if shown.get(name, value) != value:
            raise UsageError(
                f"kernel {entry.entry}: {name} = {value} was given, and the shapes of the arrays give {name} = "
                f"{shown[name]} ({_shapes(pairs)}); leave it out"
            )
    given = {name: int(value) for name, value in named.items()}
    sizes = derive([*equations, *_strides(pairs, multiples)], given, multiples)
    for result in absent:
        if result.shape is not None and result.strides is not None:
            sizes |= result_strides(result.shape, result.strides, sizes, {size.name: size for size in entry.sizes})
    for size in entry.sizes:
        if size.name not in sizes:
            raise UsageError(
                f"kernel {entry.entry}: the size {size.name} does not follow from the shapes of the arrays "
                f"({_shapes(pairs)}); pass it: {size.name}=.."
            )
    return sizes


def _strides(pairs: Sequence[tuple[Argument, ArrayFacts]], multiples: Mapping[str, int]) -> list[Equation]:
    """The strides of the arrays; those of axes of one element last, rounded up: they may have any value.

    Raises UsageError for a stride that is not positive, which no layout has.
    """
    found: list[tuple[int, Equation]] = []
    for argument, array in pairs:
        if _is_shaped(argument, array) and argument.strides is not None:
            if array.size and any(n > 1 and step < 1 for n, step in zip(array.shape, array.strides, strict=True)):
                raise UsageError(
                    f"{argument.name} has the layout {argument.layout}, and the strides of the {array.library} array "
                    f"are {array.strides} elements, not all positive; pass a copy of it"
                )
            axes = zip(argument.strides, array.strides, array.shape, strict=True)
            for stride, steps, n in axes:
                step = multiples.get(str(stride), 1) if n <= 1 else 1
                found.append((n, (stride, max(-(-steps // step), 1) * step, argument.name)))
    return [equation for n, equation in found if n > 1] + [equation for n, equation in found if n <= 1]


def _shapes(pairs: Sequence[tuple[Argument, ArrayFacts]]) -> str:
    return ", ".join(f"{argument.name} {found.shape}" for argument, found in pairs) or "none was given"


def _require_shape(entry: KernelEntry, argument: Argument, found: ArrayFacts, sizes: Mapping[str, int]) -> None:
    elements = None if argument.elements is None else evaluate(argument.elements, sizes)
    shape = None if argument.shape is None else tuple(evaluate(n, sizes) for n in argument.shape)
    if len(found.shape) == 1 and found.shape[0] == elements and (elements <= 1 or found.strides[0] == 1):
        return
    where = f"kernel {entry.entry}: {argument.name}"
    if shape is None or found.shape != shape:
        raise UsageError(_wrong_shape(where, argument, found, shape, elements, sizes))
    strides = layout_strides(argument, sizes)
    if strides is None:
        raise UsageError(
            f"{where} has the layout {argument.layout}, which has no strides, so an array of the shape {shape} does "
            f"not hold it; pass its {elements} elements in memory order as one dimension: "
            "memory[layout[:, :]] = array puts each at its position"
        )
    if found.size and any(n > 1 and a != b for n, a, b in zip(shape, found.strides, strides, strict=True)):
        raise UsageError(
            f"{where} has the layout {argument.layout}, whose strides are {strides}, and those of the {found.library} "
            f"array are {found.strides} elements; {_contiguous_remedy(found.library, strides)}"
        )


def layout_strides(argument: Argument, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """The strides of an argument's layout; a hand-written module's memref is row-major."""
    if argument.strides is not None:
        return tuple(evaluate(n, sizes) for n in argument.strides)
    if argument.layout is None and argument.shape is not None:
        return dense_strides([evaluate(n, sizes) for n in argument.shape])
    return None


def _wrong_shape(
    where: str,
    argument: Argument,
    found: ArrayFacts,
    shape: tuple[int, ...] | None,
    elements: int | None,
    sizes: Mapping[str, int],
) -> str:
    extents: list[Extent] = [n for n in (*(argument.shape or ()), argument.elements) if n is not None]
    used = sorted({name for n in extents if isinstance(n, str) for name in names_in(n)})
    with_sizes = f" for {', '.join(f'{name} = {sizes[name]}' for name in used)}" if used else ""
    forms = [f"the shape {shape}"] if shape is not None else []
    forms += [f"{elements} elements in memory order"] if elements is not None else []
    return (
        f"{where} has {' or '.join(forms)}{with_sizes}, and the {found.library} array has the shape {found.shape}; "
        "pass an array of that shape, and sizes that agree with it"
    )


def _contiguous_remedy(library: str, strides: tuple[int, ...]) -> str:
    if list(strides) == sorted(strides, reverse=True):
        copy = "array.contiguous()" if library == "torch" else f"{library}.ascontiguousarray(array)"
        return f"pass {copy}"
    if list(strides) == sorted(strides):
        copy = "array.T.contiguous().T" if library == "torch" else f"{library}.asfortranarray(array)"
        return f"pass {copy}, which is column-major"
    return "pass the elements in memory order as one dimension"


def _common_device(entry: KernelEntry, pairs: Sequence[tuple[Argument, ArrayFacts]]) -> Device:
    if not pairs:
        return "cpu", 0
    first, found = pairs[0]
    for argument, other in pairs[1:]:
        if other.device != found.device:
            raise UsageError(
                f"kernel {entry.entry}: {first.name} is on {device_name(found.device)}, and {argument.name} on "
                f"{device_name(other.device)}; move one of them"
            )
    return found.device


def device_name(device: Device) -> str:
    """A device for a message."""
    return "the CPU" if device[0] == "cpu" else f"CUDA device {device[1]}"


def _result(entry: KernelEntry, position: int, argument: Argument, sizes: Mapping[str, int]) -> ResultArray:
    from lego_mlir.runtime.comparing import STORED

    dtype = HELD_BY.get(argument.dtype, (argument.dtype,))[0]
    strides = layout_strides(argument, sizes)
    if strides is not None and argument.shape is not None:
        shape = tuple(evaluate(n, sizes) for n in argument.shape)
    elif argument.elements is not None:
        shape, strides = (evaluate(argument.elements, sizes),), (1,)
    else:
        raise UsageError(f"kernel {entry.entry}: the shape of {argument.name} is not known; pass the array")
    import numpy

    item = numpy.dtype(STORED[argument.dtype]).itemsize
    memory = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return ResultArray(position, dtype, shape, strides, memory * item)


def _extents(
    entry: KernelEntry, what: str, declared: tuple[Extent, ...] | None, sizes: Mapping[str, int]
) -> tuple[int, int, int]:
    if declared is None:
        raise UsageError(f"kernel {entry.entry}: its module does not fix the {what}, and so it cannot be called")
    extents = [evaluate(n, sizes) for n in declared]
    if refused := refusal(what, extents):
        raise UsageError(f"kernel {entry.entry}: {refused}")
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z


def _disjoint(entry: KernelEntry, spans: Sequence[Span]) -> tuple[tuple[Span, Span], ...]:
    """Pairs whose memory must not overlap: one of the two is written."""
    written = {i for i, argument in enumerate(entry.arguments) if argument.written}
    found = []
    for number, first in enumerate(spans):
        for second in spans[number + 1 :]:
            if first.position in written:
                found.append((first, second))
            elif second.position in written:
                found.append((second, first))
    return tuple(found)


def require_addresses(entry: KernelEntry, bound: Bound, pointers: Mapping[int, int]) -> None:
    """Raise UsageError for an address that is not aligned as the kernel's accesses need, or memory that overlaps."""
    for span in bound.spans:
        name, remainder = entry.arguments[span.position].name, pointers[span.position] % span.alignment
        if span.bytes and remainder:
            raise UsageError(
                f"kernel {entry.entry}: {name} begins {remainder} bytes after a multiple of {span.alignment}, which "
                "the kernel's accesses need; pass a copy of it"
            )
    for written, other in bound.disjoint:
        here, there = pointers[written.position], pointers[other.position]
        shared = min(here + written.bytes, there + other.bytes) - max(here, there)
        if shared > 0:
            names = [entry.arguments[span.position].name for span in (written, other)]
            raise UsageError(
                f"kernel {entry.entry}: {names[0]}, which it writes, shares {shared} bytes of memory with {names[1]}; "
                "threads run in no order, so the result would depend on chance; pass a copy of one"
            )
