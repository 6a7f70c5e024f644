"""Per-element error bounds of a result against its reference: what rounding explains, and no more.

A spec may set it, `@k.reference(rtol=1e-3, atol=1e-6)`: then it is `atol + rtol * |expected|`. Otherwise two things
determine the bound of an element. The trace tells how often a value was rounded, and to what type
(`kernel.roundings`). The reference tells how much that matters: run again on inputs changed by random relative amounts,
it shows how far its result moves, which for a sum is the root of the sum of the squared terms, however they cancel.

    allowed = half an ulp             the last rounding
            + share * |expected|      the n before it, of u each, in results of which nothing cancels
            + walk * sensitivity      4 sqrt(n) u of the terms: errors of either sign add up like a random walk
            + 4 * noise               what the reference itself loses in f32, where its formula cancels inside

A value that was only moved, and an integer, must be equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy

from lego_mlir.errors import LegoError
from lego_mlir.runtime.comparing import ulp

if TYPE_CHECKING:
    from lego_mlir.tracing.checks.roundings import Roundings
    from lego_mlir.tracing.definition.program import Runnable
    from lego_mlir.tracing.trace.dtypes import DType

PROBES: Final = 4
CHANGE: Final = 2.0**-12  # of an input: far above the rounding of a reference in f32, small enough to be linear
SLACK: Final = 1.01  # errors of errors
NOISE: Final = 4.0
LEAST: Final = {
    "f8e4m3fn": 2.0**-9,
    "f8e5m2": 2.0**-16,
    "f16": 2.0**-24,
    "bf16": 2.0**-126,
    "f32": 2.0**-126,
    "f64": 2.0**-1074,
}
"""The absolute error of a rounding: the least number, or the least normal one where fast instructions flush to 0."""


def allowed(
    kernel: Runnable, arguments: Mapping[str, Any], sizes: Mapping[str, int], results: Mapping[str, numpy.ndarray]
) -> dict[str, numpy.ndarray]:
    """For each tensor in `results` the largest right error of each element, in double precision; 0 means equal."""
    if kernel.tolerance is not None:
        rtol, atol = kernel.tolerance
        return {name: _finite(atol + rtol * numpy.abs(_double(value))) for name, value in results.items()}
    chains = kernel.roundings(sizes)
    types = {p.name: p.dtype for p in kernel.params}
    rounded = {name for name in results if types[name].is_float and not chains[name].exact}
    moved = sensitivity(kernel, arguments, sizes, {name: results[name] for name in rounded}) if rounded else {}
    lost = noise(kernel, arguments, sizes, {n: results[n] for n in rounded if chains[n].count("f32")})
    found = {}
    for name, value in results.items():
        if name not in rounded:
            found[name] = numpy.zeros(value.shape)
            continue
        bound = bound_of(chains[name], _double(value), moved[name], lost.get(name, 0.0))
        found[name] = bound + _rounding_of_reference(value, types[name])
    return found


def bound_of(
    chain: Roundings, value: numpy.ndarray, moved: numpy.ndarray, lost: numpy.ndarray | float = 0.0
) -> numpy.ndarray:
    """The formula at the head of this module, for results, their sensitivity, and the noise of the reference."""
    error = chain.share * numpy.abs(value) + chain.walk * moved + NOISE * lost
    error += sum(n * ulp(value, dtype) / 2 for dtype, n in chain.final.items() if n)
    return _finite(SLACK * error) + sum(chain.count(dtype) * least for dtype, least in LEAST.items())


def _rounding_of_reference(value: numpy.ndarray, dtype: DType) -> numpy.ndarray:
    """Half an ulp where all of the reference's results are numbers of the element type: it rounds as well."""
    exact = _double(value)
    with numpy.errstate(all="ignore"):
        rounds = numpy.array_equal(exact.astype(dtype.numpy).astype(numpy.float64), exact, equal_nan=True)
    return ulp(exact, dtype.name) / 2 if rounds else numpy.zeros(exact.shape)


def sensitivity(
    kernel: Runnable, arguments: Mapping[str, Any], sizes: Mapping[str, int], results: Mapping[str, numpy.ndarray]
) -> dict[str, numpy.ndarray]:
    """How far each element moves for random relative changes of all inputs, divided by their size.

    A few probes may miss an element by chance, so none is taken to be less than half of the median over all elements
    (indices of partial tiles that name no element do not count). A reference that rounds its inputs, so that nothing
    moves, counts as one whose terms are as large as its results.
    """
    select = _selector(kernel, sizes)
    generator = numpy.random.default_rng(1)
    squares = {name: numpy.zeros(value.shape) for name, value in results.items()}
    for _ in range(PROBES):
        changed = {name: _changed(value, generator) for name, value in arguments.items()}
        probed = _probe(kernel, changed, sizes, "float64")
        for name in squares:
            if name in probed:
                squares[name] += _finite((_double(probed[name]) - _double(results[name])) / CHANGE) ** 2
    found = {}
    for name, square in squares.items():
        moved = numpy.sqrt(square / PROBES)
        size = _finite(numpy.abs(_double(results[name])))
        elements = select(name, moved)
        if elements.size:
            least = numpy.median(elements) / 2 if elements.any() else numpy.sqrt(numpy.mean(select(name, size) ** 2))
            moved = numpy.maximum(moved, least)
        found[name] = moved
    return found


def noise(
    kernel: Runnable, arguments: Mapping[str, Any], sizes: Mapping[str, int], results: Mapping[str, numpy.ndarray]
) -> dict[str, numpy.ndarray]:
    """What the reference itself loses when it computes in f32; at least the median of all elements."""
    select = _selector(kernel, sizes)
    probed = _probe(kernel, arguments, sizes, "float32") if results else {}
    found = {}
    for name, value in results.items():
        if name in probed and value.size:
            lost = _finite(numpy.abs(_double(probed[name]) - _double(value)))
            elements = select(name, lost)
            found[name] = numpy.maximum(lost, numpy.median(elements)) if elements.size else lost
    return found


def _selector(kernel: Runnable, sizes: Mapping[str, int]) -> Callable[[str, numpy.ndarray], numpy.ndarray]:
    """A function that selects the values at indices that name an element, given a parameter and a logical array."""
    from lego_mlir.runtime import data

    layouts = {p.name: p.layout for p in kernel.params}

    def select(name: str, values: numpy.ndarray) -> numpy.ndarray:
        named = data.named_indices(layouts[name], sizes)
        return values.reshape(-1) if named is None else values[named]

    return select


def _probe(
    kernel: Runnable, arguments: Mapping[str, Any], sizes: Mapping[str, int], precision: str
) -> Mapping[str, numpy.ndarray]:
    """The reference once more, with nothing printed; nothing where it cannot take these inputs."""
    from lego_mlir.runtime import data

    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return data.expected(kernel, arguments, sizes, precision)
        except (LegoError, ArithmeticError, LookupError, TypeError, ValueError):
            return {}


def _changed(value: numpy.ndarray, generator: numpy.random.Generator) -> numpy.ndarray:
    if value.dtype.kind in "iub":
        return value
    exact = value.astype(numpy.float64)
    return exact * (1 + CHANGE * generator.standard_normal(exact.shape))


def _double(value: numpy.ndarray) -> numpy.ndarray:
    return numpy.asarray(value, dtype=numpy.float64)


def _finite(value: numpy.ndarray) -> numpy.ndarray:
    """With 0 in place of NaN and infinity: those elements must match exactly."""
    return numpy.where(numpy.isfinite(value), value, 0.0)
