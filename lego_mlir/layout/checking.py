"""Is a pair of functions a bijection and its inverse? By enumeration where it can be, by proof where it must.

For concrete sizes every element is visited, in blocks: `f` is scattered into an array of owners, which shows collisions
and holes at once, and `f_inv` is compared with it.
For symbolic sizes there is a proof for all of them at once (`proving`); small instances are enumerated first, because a
counter-example is worth more than a failed proof.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import ExpressionError, LayoutError
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import key_of
from lego_mlir.layout.canonical import flatten, is_static, product, unflatten
from lego_mlir.layout.permutations import RegP
from lego_mlir.layout.proving import own_index, proved
from lego_mlir.layout.values import ARRAY_LIMIT, show, subexpressions

if TYPE_CHECKING:
    from lego_mlir.layout.permutations import GenP
    from lego_mlir.layout.wrapping import Watch

ENUMERATED = 2**24
"""Elements up to which the answer for concrete sizes is exact."""
INT_ONLY_ENUMERATED = 2**16
"""The same where a function handles Python ints only and is called once an element."""
BLOCK = 2**17
"""Elements visited at a time: shorter blocks spend their time in the interpreter, longer ones outside the caches."""
SMALL_INSTANCES = 24
"""Concrete instances of a symbolic layout that are enumerated in search of a counter-example."""
COMPARED = 2**12
"""Elements of a larger permutation whose values in arrays are compared with those of Python's ints."""
REMEMBERED = 512
"""Verdicts kept for permutations that are made again."""

_verdicts: OrderedDict[Hashable, Verdict] = OrderedDict()


def verdict_of(perm: GenP) -> Verdict:
    """The check of a permutation, or what it said of an equal one: same sizes, same functions over the same values.

    Only functions of this package are compared. What others compute may depend on more than what they were made with,
    such as a variable of their module that has changed since; they are checked once an object.
    """
    try:
        key = (key_of(perm.dims()), _made_of(perm.f), _made_of(perm.f_inv))
    except TypeError:
        return check_permutation(perm)
    known = _verdicts.pop(key, None)
    _verdicts[key] = known = check_permutation(perm) if known is None else known
    while len(_verdicts) > REMEMBERED:
        _verdicts.popitem(last=False)
    return known


def _made_of(value: Any) -> Hashable:
    """What tells one value in a function's closure from another. Raises TypeError for what cannot be compared."""
    match value:
        case bool() | int() | None:
            return type(value), value
        case Index():
            return Index, value.expr
        case tuple():
            return tuple, tuple(map(_made_of, value))
        case FunctionType() if value.__module__.startswith("lego_mlir."):
            made_with = tuple(_made_of(cell.cell_contents) for cell in value.__closure__ or ())
            return value.__module__, value.__code__, value.__defaults__, made_with
        case RegP():
            return RegP, value
    raise TypeError(f"{type(value).__name__} is compared by what is in it, which may change")


def check_permutation(perm: GenP) -> Verdict:
    """Whether `perm.f` is a bijection of its tile onto 0..N-1 with inverse `perm.f_inv`."""
    if not is_static(perm.dims()):
        return _check_symbolic(perm)
    dims = tuple(int(n) for n in perm.dims())
    elements = product(dims)
    if elements > ENUMERATED:
        return _check_too_large(perm, elements)
    watch = _watch(perm)
    try:
        _call_arrays(perm, watch, dims, 0, min(dims[0], 2))
        perm.backward(_watched(watch, _arange(min(elements, 2))))
    except LayoutError as error:
        if elements > INT_ONLY_ENUMERATED:
            return Unknown(f"{elements} elements are too many for a function that cannot handle arrays ({error})")
        return _one_by_one(perm, dims)
    verdict = _enumerate(dims, _positions(perm, watch, dims), lambda p: perm.backward(_watched(watch, p)))
    return _check_wrapped(perm, dims) if watch is not None and watch.wrapped else verdict


def _watch(perm: GenP) -> Watch | None:
    """What notices integers that wrap around, for functions that are not this package's."""
    functions = (perm.f, perm.f_inv)
    if all(getattr(f, "__module__", None) and f.__module__.startswith("lego_mlir.") for f in functions):
        return None
    from lego_mlir.layout.wrapping import Watch

    return Watch()


def _watched(watch: Watch | None, array: Any) -> Any:
    return array if watch is None else watch.over(array)


def _arange(*ends: int) -> Any:
    import numpy as np

    return np.arange(*ends)


def _call_arrays(perm: GenP, watch: Watch | None, dims: tuple[int, ...], start: int, stop: int) -> Any:
    """`f` over rows start..stop of the outermost axis, each axis an array that broadcasts against the others."""
    import numpy as np

    axes = [np.arange(start, stop), *(np.arange(n) for n in dims[1:])]
    index = [a.reshape([-1 if k == axis else 1 for k in range(len(dims))]) for axis, a in enumerate(axes)]
    position = perm.forward(tuple(_watched(watch, a) for a in index))
    return np.broadcast_to(position, [stop - start, *dims[1:]]).reshape(-1)


def _positions(perm: GenP, watch: Watch | None, dims: tuple[int, ...]) -> Iterator[tuple[int, Callable[[], Any]]]:
    """Blocks of consecutive indices: where each starts, and how to compute its positions."""
    row = product(dims[1:])
    rows = max(1, BLOCK // row)
    for start in range(0, dims[0], rows):
        yield start * row, partial(_call_arrays, perm, watch, dims, start, min(start + rows, dims[0]))


def _one_by_one(perm: GenP, dims: tuple[int, ...]) -> Verdict:
    """Exact, with Python's ints."""
    positions = _positions_one_by_one(perm, dims)
    return _enumerate(dims, iter([(0, lambda: positions)]), _inverse_one_by_one(perm))


def _check_wrapped(perm: GenP, dims: tuple[int, ...]) -> Verdict:
    """A permutation in whose functions int64 wraps around: right with Python's ints, and the same in arrays?"""
    elements = product(dims)
    few = elements <= INT_ONLY_ENUMERATED
    verdict = _one_by_one(perm, dims) if few else Unknown("its functions compute values beyond int64")
    if isinstance(verdict, Refuted):
        return verdict
    sampled = range(elements) if few else [*range(0, elements, -(-elements // COMPARED)), elements - 1]
    wrapped = _compare_with_arrays(perm, dims, sampled)
    return verdict if wrapped is None else wrapped


def _compare_with_arrays(perm: GenP, dims: tuple[int, ...], sampled: Iterable[int]) -> Refuted | None:
    """The first index, or position, for which arrays give another value than Python's ints."""
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
                    f"{_shown(wrapped)} in place of {_shown(exact)}; keep what it computes in between below 2**63",
                )
    return None


def _shown(value: Any) -> str:
    return show(value) if isinstance(value, tuple) else str(value)


def _positions_one_by_one(perm: GenP, dims: tuple[int, ...]) -> Any:
    return _integers([int(perm.forward(index)) for index in itertools.product(*map(range, dims))])


def _inverse_one_by_one(perm: GenP) -> Any:
    def inverse(positions: Any) -> tuple[Any, ...]:
        rows = [perm.backward(int(p)) for p in positions]
        return tuple(_integers(column) for column in zip(*rows, strict=True))

    return inverse


def _integers(values: Sequence[int]) -> Any:
    """An array of int64, or of Python's ints where one is larger."""
    import numpy as np

    fits = min(values) >= -ARRAY_LIMIT and max(values) < ARRAY_LIMIT
    return np.array(values, dtype=np.int64 if fits else object)


def _enumerate(dims: tuple[int, ...], blocks: Iterator[tuple[int, Callable[[], Any]]], inverse: Any) -> Verdict:
    """Exact: every index's position (blocks in flat order), then every position's index."""
    import numpy as np

    elements = product(dims)
    owner = np.full(elements, -1, dtype=np.int32)

    def own(block: tuple[int, Callable[[], Any]]) -> Refuted | None:
        start, positions = block[0], block[1]()
        outside = int(positions.min()) < 0 or int(positions.max()) >= elements
        if outside:
            k = int(np.argmax((positions < 0) | (positions >= elements)))
            return _outside(unflatten(start + k, dims), int(positions[k]), elements)
        owner[positions] = np.arange(start, start + len(positions), dtype=np.int32)
        return None

    def invert(first: int) -> Refuted | None:
        position = np.arange(first, min(first + BLOCK, elements))
        index = [np.asarray(i) for i in inverse(position)]
        wrong = flatten(index, dims) != owner[first : first + len(position)]
        # A coordinate out of its range may still flatten to the right number: [0, 7] in [4, 4] is 7, as [1, 3] is.
        for i, n in zip(index[1:], dims[1:], strict=True):
            if int(i.min()) < 0 or int(i.max()) >= n:
                wrong = wrong | (i < 0) | (i >= n)
        if not np.any(wrong):
            return None
        k = int(np.argmax(np.broadcast_to(wrong, position.shape)))
        given = tuple(int(np.broadcast_to(i, position.shape)[k]) for i in index)
        return _wrong_inverse(unflatten(int(owner[first + k]), dims), first + k, given)

    work = list(blocks)
    refuted = _first(own, work)
    if refuted is None and int(owner.min()) < 0:
        refuted = _collision(dims, owner, work)
    if refuted is None:
        refuted = _first(invert, range(0, elements, BLOCK))
    return Proved(f"enumeration of {elements} elements") if refuted is None else refuted


def _first(search: Callable[[Any], Refuted | None], work: Sequence[Any]) -> Refuted | None:
    """The first refutation in the order of the work; two threads, because NumPy computes without Python's lock."""
    if len(work) == 1:
        return search(work[0])
    with ThreadPoolExecutor(2) as threads:
        return next((found for found in threads.map(search, work) if found is not None), None)


def _outside(index: tuple[int, ...], position: int, elements: int) -> Refuted:
    return Refuted(
        {"index": index, "position": position},
        f"apply maps {show(index)} to {position}, outside 0..{elements - 1}",
    )


def _collision(dims: tuple[int, ...], owner: Any, blocks: list[tuple[int, Callable[[], Any]]]) -> Refuted:
    """The first index whose position another index owns, where some position has no owner."""
    import numpy as np

    for start, compute in blocks:
        positions = compute()
        lost = owner[positions] != np.arange(start, start + len(positions))
        if np.any(lost):
            k = int(np.argmax(lost))
            position = int(positions[k])
            if owner[position] < 0:
                break
            a, b = (unflatten(flat, dims) for flat in sorted((start + k, int(owner[position]))))
            return Refuted(
                {"index": a, "other": b, "position": position},
                f"apply maps {show(a)} and {show(b)} both to position {position}",
            )
    return Refuted({}, "f gives other positions when it is asked again; it must depend on its arguments alone")


def _wrong_inverse(index: tuple[int, ...], position: int, given: tuple[int, ...]) -> Refuted:
    return Refuted(
        {"index": index, "position": position, "inverse": given},
        f"apply maps {show(index)} to position {position}, but f_inv maps {position} to {show(given)}",
    )


def _check_too_large(perm: GenP, elements: int) -> Verdict:
    """Beyond the exact bound: by proof, else by a sample that can only refute."""
    verdict = proved(perm)
    wrapped = None if isinstance(verdict, Refuted) else _wraps_somewhere(perm, elements)
    if wrapped is not None:
        return wrapped
    if not isinstance(verdict, Unknown):
        return verdict
    tried = "10^6 sampled ones agree"
    if elements > ARRAY_LIMIT:
        tried = "none was sampled, they are too many for int64 arrays"
    else:
        try:
            sampled = _sample(perm, elements)
        except LayoutError as error:
            sampled, tried = None, f"none was sampled ({error})"
        if sampled is not None:
            return sampled
    return Unknown(f"{elements} elements are beyond the exact check of {ENUMERATED}; {tried}; {verdict.reason}")


def _wraps_somewhere(perm: GenP, elements: int) -> Refuted | None:
    """An index for which int64 wraps around, among a few elements from the first to the last."""
    if elements > ARRAY_LIMIT or _watch(perm) is None:
        return None
    try:
        sampled = [*range(0, elements, -(-elements // COMPARED)), elements - 1]
        return _compare_with_arrays(perm, tuple(int(n) for n in perm.dims()), sampled)
    except LayoutError:
        return None  # for a function that cannot handle arrays there is nothing to compare


def _sample(perm: GenP, elements: int) -> Refuted | None:
    import numpy as np

    dims = tuple(int(n) for n in perm.dims())
    flat = np.random.default_rng(0).integers(0, elements, 10**6)
    index = unflatten(flat, dims)
    position = np.asarray(perm.forward(index))
    outside = (position < 0) | (position >= elements)
    if np.any(outside):
        k = int(np.argmax(outside))
        return _outside(tuple(int(i[k]) for i in index), int(position[k]), elements)
    wrong = np.zeros(flat.shape, bool)
    for i, back in zip(index, perm.backward(position), strict=True):
        wrong |= i != back
    if not np.any(wrong):
        return None
    k = int(np.argmax(wrong))
    at = tuple(int(i[k]) for i in index)
    return Refuted(
        {"index": at, "position": int(position[k])},
        f"f_inv does not map position {int(position[k])} back to {show(at)}",
    )


def _check_symbolic(perm: GenP) -> Verdict:
    """Small instances first, each exact; then the proof for all sizes."""
    instances = 0
    for values, verdict in _instances(perm):
        if isinstance(verdict, Refuted):
            where = ", ".join(f"{name} = {value}" for name, value in values.items())
            return Refuted(
                {**{str(s): v for s, v in values.items()}, **verdict.counter_example},
                f"for {where}, {verdict.explanation}",
            )
        instances += isinstance(verdict, Proved)
    verdict = proved(perm)
    if isinstance(verdict, Unknown):
        return Unknown(f"{verdict.reason}; {instances} small instances are bijections")
    return verdict


def _instances(perm: GenP) -> Iterator[tuple[dict[Any, int], Verdict]]:
    """Small values of all sizes in a permutation, with the verdict on it for them; none where it cannot be read."""
    from lego_mlir.expr.nodes import Size

    index, p = own_index(perm), index_symbol("p[]")
    try:
        forward, backward = as_expr(perm.forward(index)), [as_expr(i) for i in perm.backward(p)]
    except (LayoutError, ExpressionError):
        return  # which the proof will say
    symbols = set[Any]().union(*(as_expr(n).free_symbols for n in perm.dims()))
    symbols |= {s for s in subexpressions([forward, *backward]) if isinstance(s, Size)}
    for values in _small_sizes(sorted(symbols, key=str)):
        try:
            yield values, _check_instance(perm, values, (index, forward), (p, backward))
        except (ZeroDivisionError, ExpressionError) as error:
            yield values, Unknown(str(error))


def _small_sizes(sizes: list[Any]) -> Iterator[dict[Any, int]]:
    """The smallest values that each size's facts allow, a few of each, in all combinations."""
    choices = []
    for s in sizes:
        step = getattr(s, "multiple_of", 1)
        low = max(getattr(s, "min", 1), 1)
        first = -(-low // step) * step
        high = getattr(s, "max", None)
        each = max(2, int(SMALL_INSTANCES ** (1 / len(sizes))))
        choices.append([v for v in range(first, first + each * step, step) if high is None or v <= high])
    for values in itertools.product(*choices):
        yield dict(zip(sizes, values, strict=True))


def _check_instance(
    perm: GenP, values: dict[Any, int], forward: tuple[tuple[Index, ...], Any], backward: tuple[Index, list[Any]]
) -> Verdict:
    """The layout for these values of its sizes, enumerated through its expressions, each with its symbols."""
    from lego_mlir.expr.evaluate import evaluate

    dims = tuple(int(as_expr(n).xreplace({s: as_expr(v) for s, v in values.items()})) for n in perm.dims())
    elements = product(dims)
    if min(dims) < 1:
        return Unknown("an instance without elements")
    if elements > INT_ONLY_ENUMERATED:
        return Unknown("too large an instance")
    import numpy as np

    index = unflatten(np.arange(elements), dims)
    given: dict[Any, Any] = {**values, **{s.expr: i for s, i in zip(forward[0], index, strict=True)}}
    positions = np.broadcast_to(evaluate(forward[1], given), (elements,))

    def inverse(position: Any) -> tuple[Any, ...]:
        at = {**values, backward[0].expr: position}
        return tuple(np.broadcast_to(evaluate(b, at), position.shape) for b in backward[1])

    return _enumerate(dims, iter([(0, lambda: positions)]), inverse)
