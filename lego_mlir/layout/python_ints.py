"""Comparison of a permutation's functions on arrays with the same functions on Python's ints.

Python's ints are unbounded; arrays and generated code compute in 64 bits and wrap around silently. Functions from
outside of this package are therefore evaluated on watched arrays (`wrapping`). Where an intermediate value wraps, the
permutation is checked with Python's ints, and its array results must be the same.

>>> from lego_mlir.layout import GenP
>>> wraps = GenP([2**17], lambda i: i * 2**61 // 2**61, lambda p: (p,))  # i * 2**61 does not fit into 64 bits
>>> compare_with_arrays(wraps, (2**17,), [4]).counter_example
{'index': (4,)}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import Array
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Refuted, Unknown, Verdict
from lego_mlir.layout.canonical import product, unflatten
from lego_mlir.layout.enumeration import InverseMap, enumerate_elements
from lego_mlir.layout.values import ARRAY_LIMIT, show

if TYPE_CHECKING:
    from lego_mlir.layout.permutations import GenP
    from lego_mlir.layout.wrapping import Watch

INT_ONLY_ENUMERATED = 2**16
"""Elements up to which a function that handles Python's ints only, and is called once per element, is enumerated."""
COMPARED = 2**12
"""Elements of a larger permutation for which array results are compared with Python's ints."""


def overflow_watch(perm: GenP) -> Watch | None:
    """Detects integers that wrap around, for functions from outside of this package; None for the package's own."""
    functions = (perm.f, perm.f_inv)
    if all(getattr(f, "__module__", None) and f.__module__.startswith("lego_mlir.") for f in functions):
        return None
    from lego_mlir.layout.wrapping import Watch

    return Watch()


def check_with_ints(perm: GenP, dims: tuple[int, ...]) -> Verdict:
    """Exact verdict, computed one element at a time with Python's ints."""
    positions = _integers([int(perm.forward(index)) for index in itertools.product(*map(range, dims))])
    return enumerate_elements(dims, iter([(0, lambda: positions)]), _inverse_with_ints(perm))


def _inverse_with_ints(perm: GenP) -> InverseMap:
    def inverse(positions: Array) -> tuple[Array, ...]:
        rows = [perm.backward(int(p)) for p in positions]
        return tuple(_integers(column) for column in zip(*rows, strict=True))

    return inverse


def _integers(values: Sequence[int]) -> Array:
    """An array of int64, or of Python's ints where one of them is larger."""
    import numpy as np

    fits = min(values) >= -ARRAY_LIMIT and max(values) < ARRAY_LIMIT
    return np.array(values, dtype=np.int64 if fits else object)


def check_wrapped(perm: GenP, dims: tuple[int, ...]) -> Verdict:
    """The verdict on a permutation whose functions wrap in int64: with Python's ints, then against the arrays."""
    elements = product(dims)
    few = elements <= INT_ONLY_ENUMERATED
    verdict = check_with_ints(perm, dims) if few else Unknown("its functions compute values beyond int64")
    if isinstance(verdict, Refuted):
        return verdict
    wrapped = compare_with_arrays(perm, dims, range(elements) if few else _spread(elements))
    return verdict if wrapped is None else wrapped


def _spread(elements: int) -> list[int]:
    """A few elements from the first to the last."""
    return [*range(0, elements, -(-elements // COMPARED)), elements - 1]


def compare_with_arrays(perm: GenP, dims: tuple[int, ...], sampled: Iterable[int]) -> Refuted | None:
    """The first index, or position, for which arrays give a different value than Python's ints."""
    import numpy as np

    flat = np.array(sampled)
    index = unflatten(flat, dims)
    positions = np.broadcast_to(perm.forward(index), flat.shape)
    back = [np.broadcast_to(b, flat.shape) for b in perm.backward(flat)]
    for k, number in enumerate(map(int, flat)):
        at = unflatten(number, dims)
        pairs: list[tuple[str, Any, Any, Any]] = [("f", at, int(perm.forward(at)), int(positions[k]))]
        pairs.append(("f_inv", number, perm.backward(number), tuple(int(b[k]) for b in back)))
        for what, given, exact, wrapped in pairs:
            if exact != wrapped:
                return Refuted(
                    {"index": at},
                    f"in 64 bits, as arrays and generated code compute, {what} maps {_shown(given)} to "
                    f"{_shown(wrapped)} instead of {_shown(exact)}; keep intermediate values below 2**63",
                )
    return None


def _shown(value: int | tuple[int, ...]) -> str:
    return show(value) if isinstance(value, tuple) else str(value)


def find_wrapped(perm: GenP, elements: int) -> Refuted | None:
    """An index for which int64 wraps around, among a few elements from the first to the last."""
    if elements > ARRAY_LIMIT or overflow_watch(perm) is None:
        return None
    try:
        return compare_with_arrays(perm, tuple(int(n) for n in perm.dims()), _spread(elements))
    except LayoutError:
        return None  # a function that cannot handle arrays: nothing to compare
