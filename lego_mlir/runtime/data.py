"""Input and expected output of a kernel, as stored in memory: made where the layouts are known.

A machine that only runs kernels has no layouts to place a matrix with. So the compiler's side draws random logical
arrays (or takes those of `runtime.inputs`), computes the result with the reference, and writes one `.npz`:

    transpose/src           the memory of src before the launch
    transpose/dst           the memory of dst before the launch (a value that no element has, if it is written only)
    transpose/dst/expected  the memory of dst after it, float32 or float64 or the integers themselves
    transpose/dst/allowed   how far each element may be from that; a single 0 where all must be equal
    transpose/dst/where     which positions hold elements (only for a layout with gaps)
    transpose/M             a size
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.index import index_symbol, is_masked
from lego_mlir.runtime import inputs
from lego_mlir.runtime.comparing import STORED, WORDS
from lego_mlir.runtime.data_files import UNWRITTEN
from lego_mlir.runtime.value_ranges import Ends, require_distinct, require_values

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.runtime.inputs import InputFile, Supplied
    from lego_mlir.tracing.definition.kernel_traces import Parameter
    from lego_mlir.tracing.definition.program import Runnable
    from lego_mlir.tracing.words.declared_range import Values

DEFAULT_SIZE: Final = 200  # no multiple of a tile, so that masks are met
MOST_ELEMENTS: Final = 1 << 18  # of an array at default sizes: those of more dimensions get shorter outer ones


def sizes_of_kernel(kernel: Runnable, given: Mapping[str, int]) -> dict[str, int]:
    """Of sizes given for several kernels, those that this one has."""
    own = {size.name for size in kernel.sizes}
    return {name: n for name, n in given.items() if name in own}


def choose_sizes(kernel: Runnable, given: Mapping[str, int]) -> dict[str, int]:
    """A value for each symbolic size: the given one, else one of at most DEFAULT_SIZE that it may have.

    Sizes that were not given are halved, the first ones first, until no array has more than MOST_ELEMENTS elements.
    """
    from lego_mlir.expr.related import in_order

    known = {size.name: size for size in kernel.sizes}
    for name in given:
        if name not in known:
            raise UsageError(f"kernel {kernel.name} has no size {name}; it has: {', '.join(known) or 'none'}")
    wanted = {size.name: default_of(size) for size in in_order(known.values()) if size.name not in given}
    chosen = _accepted(kernel, given, wanted)
    for name in [name for name in known if name in wanted]:
        while _elements(kernel, chosen) > MOST_ELEMENTS:
            wanted[name] = default_of(known[name], chosen[name] // 2)
            smaller = _accepted(kernel, given, wanted)
            if smaller == chosen:
                break
            chosen = smaller
    kernel.refuse_sizes(chosen, UsageError)
    return {name: chosen[name] for name in known}


def _elements(kernel: Runnable, sizes: Mapping[str, int]) -> int:
    """Those of the largest array of a kernel."""
    return max(
        (concrete(parameter.size, sizes) for parameter in kernel.params if parameter.layout is not None), default=0
    )


def _accepted(kernel: Runnable, given: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """The sizes that are given, and the wanted ones as their relations to others allow, with strides."""
    from lego_mlir.expr.related import in_order, settled

    chosen: dict[str, int] = {}
    for size in in_order(kernel.sizes):
        name = size.name
        value = given[name] if name in given else settled(size, wanted[name], chosen)
        if value < size.min or (size.max is not None and value > size.max) or value % size.multiple_of:
            upper = "" if size.max is None else f", at most {size.max}"
            raise UsageError(
                f"{name} = {value}: the kernel needs at least {size.min}{upper}, a multiple of {size.multiple_of}"
            )
        chosen[name] = value
    from lego_mlir.layout.strided import claimed_strides

    return chosen | claimed_strides([parameter.layout for parameter in kernel.params], given, chosen)


def default_of(size: Symbol, near: int = DEFAULT_SIZE) -> int:
    """A value of at most `near`, if it can be, with the facts of a symbolic size."""
    low, step = -(-size.min // size.multiple_of) * size.multiple_of, size.multiple_of
    high = near if size.max is None else min(size.max, near)
    return int(max(low, high // step * step))


def concrete(value: Expr, sizes: Mapping[str, int]) -> int:
    """The value of a dimension for these sizes."""
    if isinstance(value, int):
        return value
    from lego_mlir.expr.evaluate import evaluate

    return int(evaluate(value, sizes))


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Where the elements of a logical array are in memory. An index of a partial tile past the end names none."""

    positions: numpy.ndarray  # of the logical shape; 0 where the index names no element
    named: numpy.ndarray | None  # of the logical shape: which indices name an element; None where all do

    @property
    def at(self) -> numpy.ndarray:
        """The positions of the elements, in the row-major order of their indices."""
        return self.of(self.positions)

    def of(self, array: numpy.ndarray) -> numpy.ndarray:
        """The elements of an array of the logical shape, in row-major order."""
        return array.reshape(-1) if self.named is None else array[self.named]

    def index(self, element: int) -> tuple[int, ...]:
        """The logical index of an element by its number in that order."""
        flat = element if self.named is None else numpy.flatnonzero(self.named)[element]
        return tuple(int(i) for i in numpy.unravel_index(flat, self.positions.shape))


def elements_of(layout: Layout, sizes: Mapping[str, int]) -> Elements:
    """The position of every logical index that names an element."""
    placed = _over_indices(layout, "apply", sizes)
    named = named_indices(layout, sizes)
    return Elements(placed if named is None else numpy.where(named, placed, 0), named)


def named_indices(layout: Layout, sizes: Mapping[str, int]) -> numpy.ndarray | None:
    """Which indices name an element, as an array of the logical shape; None where all do."""
    named = _over_indices(layout, "mask", sizes)
    return None if named.all() else named


def _over_indices(layout: Layout, method: str, sizes: Mapping[str, int]) -> numpy.ndarray:
    """`apply` or `mask` of every logical index."""
    dims = tuple(concrete(n, sizes) for n in layout.dims())
    index = numpy.indices(dims, dtype=numpy.int64, sparse=True)
    function = getattr(layout, method)
    if all(isinstance(n, int) for n in layout.dims()):
        return numpy.broadcast_to(function(*index), dims)
    from lego_mlir.expr.evaluate import evaluate

    symbols = [index_symbol(f"i[{axis}]") for axis in range(len(dims))]  # no identifier, so no size has this name
    found = function(*symbols)
    if not isinstance(found, bool):
        found = evaluate(found.expr, {**sizes, **{s.expr: i for s, i in zip(symbols, index, strict=True)}})
    return numpy.broadcast_to(found, dims)


def positions(layout: Layout, sizes: Mapping[str, int]) -> numpy.ndarray:
    """The physical position of every logical index, as an array of the logical shape.

    Raises LayoutError for partial tiles, some of whose indices name no element.
    """
    found = elements_of(layout, sizes)
    if found.named is not None:
        raise LayoutError(f"{layout!r} has indices that name no element, and so no position; use elements_of")
    return found.positions


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """The arguments of a run: arrays of logical shape and numbers. The rest of the names were drawn at random."""

    sizes: Mapping[str, int]
    logical: Mapping[str, Any]
    supplied: frozenset[str]

    def memory(self, parameter: Parameter, elements: Elements) -> numpy.ndarray:
        """A tensor's memory before the launch: UNWRITTEN where the kernel should write, and in gaps of the layout."""
        value = self.logical[parameter.name]
        memory = numpy.full(concrete(parameter.size, self.sizes), UNWRITTEN).astype(value.dtype)
        if parameter.read or parameter.name in self.supplied:
            memory[elements.at] = elements.of(value)
        return memory


def arguments(kernel: Runnable, given: Mapping[str, int], seed: int, file: InputFile | None = None) -> Arguments:
    """Sizes and input of a run: from a file, else from the spec's `@k.inputs`, else random.

    Raises UsageError for sizes and arrays that the kernel does not take.
    """
    sizes = choose_sizes(kernel, given if file is None else file.sizes(kernel, given))
    supplied = {} if file is None else file.supplied(kernel)
    if any(parameter.name not in supplied for parameter in kernel.params):
        supplied = {**inputs.of_function(kernel, sizes, seed), **supplied}
    _require_tables(kernel, supplied)
    return Arguments(sizes, _filled(kernel, sizes, seed, supplied), frozenset(supplied))


def draw(kernel: Runnable, sizes: Mapping[str, int], seed: int) -> Mapping[str, Any]:
    """Logical input for each parameter at these sizes: from the spec's `@k.inputs`, else random."""
    return arguments(kernel, sizes, seed).logical


def _require_tables(kernel: Runnable, supplied: Mapping[str, Supplied]) -> None:
    """Raise UsageError for a run-time table that is not supplied."""
    for name in kernel.tables():
        if name not in supplied:
            raise UsageError(
                f"kernel {kernel.name} takes the run-time table {name}, whose entries only its caller has: random ones "
                f"would lead outside its tensors; return '{name}' from a function decorated with "
                f"@{kernel.name}.inputs, or leave out runtime=True to try the layout"
            )


def _filled(
    kernel: Runnable, sizes: Mapping[str, int], seed: int, supplied: Mapping[str, Supplied]
) -> dict[str, numpy.ndarray]:
    """The supplied arrays; for the rest normal numbers or small integers.

    An index that names no element has 0, as a masked load gives there.
    """
    generator = numpy.random.default_rng(seed)
    filled: dict[str, Any] = {}
    for parameter in kernel.params:
        shape = () if parameter.layout is None else tuple(concrete(n, sizes) for n in parameter.layout.dims())
        value = numpy.asarray(_random(parameter, generator, shape, sizes)).astype(parameter.dtype.numpy)
        if parameter.name in supplied:
            value = _supplied(supplied[parameter.name], parameter, shape, sizes)
            require_values(parameter.name, value, _ends(parameter, sizes))
            if parameter.distinct is not None:
                require_distinct(parameter.name, value, distinct_ends(parameter, sizes))
        if parameter.layout is not None:
            named = named_indices(parameter.layout, sizes)
            value = value if named is None else numpy.where(named, value, value.dtype.type(0))
        filled[parameter.name] = value
    return filled


def _random(
    parameter: Parameter, generator: numpy.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> numpy.ndarray | float:
    """Numbers of the declared range; without one normal numbers, or small integers."""
    within = _ends(parameter, sizes)
    if parameter.distinct is not None:
        return _distinct(parameter, generator, shape, within, distinct_ends(parameter, sizes))
    integers = generator.integers(0, 2 if parameter.dtype.bits == 1 else 100, shape)
    if within is None:
        return generator.standard_normal(shape) if parameter.dtype.is_float else integers
    if parameter.dtype.is_float:
        return generator.uniform(*within, shape)
    lo, end = map(int, within)
    return generator.integers(lo, end, shape)


def _distinct(
    parameter: Parameter,
    generator: numpy.random.Generator,
    shape: tuple[int, ...],
    within: Ends | None,
    among: Ends | None,
) -> numpy.ndarray:
    """Integers of the declared range, or from 0 on, none of them twice.

    What is outside `among` is drawn in many places: without a declared range -1, or its end in types without a sign.
    """
    count = math.prod(shape)
    lo, end = (0, count) if within is None else map(int, within)
    if among is not None:
        least, last = map(int, among)
        if within is None:
            lo, end = (least - 1, last) if not parameter.dtype.is_unsigned or least else (least, last + 1)
        numbers = generator.permutation(numpy.arange(max(lo, least), min(end, last)))
        outside = numpy.concatenate([numpy.arange(lo, min(least, end)), numpy.arange(max(last, lo), end)])
        if outside.size:
            kept = numbers[: count - count // 4]
            rest = generator.choice(outside, count - kept.size)
            return generator.permutation(numpy.concatenate([kept, rest])).reshape(shape)
        lo, end = max(lo, least), min(end, last)
    if count > end - lo:
        raise UsageError(
            f"{parameter.name}: its {count} elements are assumed to be distinct, and its range has {end - lo} numbers"
        )
    return lo + generator.choice(end - lo, count, replace=False).reshape(shape)


def _ends(parameter: Parameter, sizes: Mapping[str, int]) -> Ends | None:
    """The declared range of a parameter's elements, for these sizes."""
    return parameter.values if parameter.dtype.is_float else _evaluated(parameter, parameter.values, sizes)


def distinct_ends(parameter: Parameter, sizes: Mapping[str, int]) -> Ends | None:
    """The range in which a parameter's elements are distinct, if they are not in all."""
    return None if parameter.distinct is None else _evaluated(parameter, parameter.distinct.among, sizes)


def _evaluated(parameter: Parameter, values: Values | None, sizes: Mapping[str, int]) -> Ends | None:
    if values is None:
        return None
    from lego_mlir.expr.evaluate import evaluate

    lo, hi = (int(evaluate(end, sizes)) for end in values)
    if lo >= hi:
        raise UsageError(f"{parameter.name}: its range {values} is empty for {dict(sizes)}")
    return lo, hi


def _supplied(given: Supplied, parameter: Parameter, shape: tuple[int, ...], sizes: Mapping[str, int]) -> numpy.ndarray:
    """A supplied array in logical shape."""
    if parameter.layout is None:
        return given.elements(parameter, shape, 1)
    value = given.elements(parameter, shape, concrete(parameter.size, sizes))
    return value[elements_of(parameter.layout, sizes).positions] if given.in_memory_order else value


def expected(
    kernel: Runnable, arguments: Mapping[str, Any], sizes: Mapping[str, int], precision: str = "float64"
) -> dict[str, numpy.ndarray]:
    """The kernel's reference for each tensor that the kernel writes, its float arguments in `precision`."""
    if kernel.expected is None:
        raise UsageError(
            f"kernel {kernel.name} has no reference to compare with; give it one: @{kernel.name}.reference above a "
            "NumPy function of its parameters"
        )
    known = {**sizes, **kernel.arguments_fixed, **{name: _exact(value, precision) for name, value in arguments.items()}}
    result = kernel.expected(**{name: known[name] for name in inspect.signature(kernel.expected).parameters})
    written = [parameter for parameter in kernel.params if parameter.written]
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(written):
        raise UsageError(
            f"the reference of {kernel.name} returns {len(results)} arrays, and the kernel writes {len(written)}: "
            f"{', '.join(parameter.name for parameter in written)}"
        )
    placed: dict[str, numpy.ndarray] = {}
    for parameter, value in zip(written, results, strict=True):
        if is_masked(value):
            raise UsageError(
                f"the reference of {kernel.name} returns a masked array for {parameter.name}; return "
                "array.filled(value)"
            )
        shape = tuple(concrete(n, sizes) for n in parameter.layout.dims())
        placed[parameter.name] = numpy.asarray(value)
        if placed[parameter.name].shape != shape:
            raise UsageError(
                f"the reference of {kernel.name} returns shape {placed[parameter.name].shape} for {parameter.name}, "
                f"whose layout has {shape}"
            )
    return placed


def _exact(value: numpy.ndarray, precision: str) -> numpy.ndarray:
    """A copy, which a reference may change: floats in the given precision, integers as they are."""
    return value.astype(value.dtype if value.dtype.kind in "iub" else precision)


def check_data(
    kernel: Runnable, given: Mapping[str, int], seed: int = 0, file: InputFile | None = None
) -> dict[str, numpy.ndarray]:
    """The arrays of one kernel's check, by the names above."""
    from lego_mlir.runtime import tolerance

    made = arguments(kernel, given, seed, file)
    sizes, logical = made.sizes, made.logical
    results = expected(kernel, logical, sizes)
    bounds = tolerance.allowed(kernel, logical, sizes, results)
    arrays: dict[str, numpy.ndarray] = {f"{kernel.name}/{name}": numpy.asarray(n) for name, n in sizes.items()}
    for parameter in kernel.params:
        name, stored = f"{kernel.name}/{parameter.name}", numpy.dtype(STORED[parameter.dtype.name])
        if parameter.layout is None:
            value = logical[parameter.name]
            arrays[name] = value.view(stored) if parameter.dtype.name in WORDS else value.astype(stored)
            continue
        elements = elements_of(parameter.layout, sizes)
        memory = made.memory(parameter, elements)
        arrays[name] = memory.view(stored) if memory.dtype.itemsize == stored.itemsize else memory.astype(stored)
        if parameter.name in results:
            arrays |= _expectation(name, results[parameter.name], bounds[parameter.name], elements, memory.size)
    return arrays


def _expectation(
    name: str, result: numpy.ndarray, bound: numpy.ndarray, elements: Elements, size: int
) -> dict[str, numpy.ndarray]:
    after, allowed = numpy.zeros(size, result.dtype), numpy.zeros(size, numpy.float64)
    at = elements.at
    after[at], allowed[at] = elements.of(result), elements.of(numpy.broadcast_to(bound, result.shape))
    arrays = {f"{name}/expected": after, f"{name}/allowed": allowed if allowed.any() else numpy.zeros(1)}
    if at.size != size:
        where = numpy.zeros(size, bool)
        where[at] = True
        arrays[f"{name}/where"] = where
    return arrays
