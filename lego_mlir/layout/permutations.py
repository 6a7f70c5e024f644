"""The two ways to permute the elements of one tile (LEGO, figures 5 and 6).

`RegP` interchanges the tile's axes by a 1-based sigma: the position of logical index `i` is the row-major position of
`sigma(i)` in a box of sizes `sigma(n)`. It is a bijection by construction. `GenP` permutes the elements by any pair of
Python functions and has to be checked: small tiles are enumerated on construction, larger ones on first use, and the
error for a wrong pair names the two indices that collide. Every composition calls `_apply` and `_inv` of its `GenP`
parts, which require the check first, so a refuted pair is never used.

>>> RegP([2, 3], [2, 1]).apply(1, 2), RegP([2, 3], [2, 1]).inv(5)
(5, (1, 2))
>>> GenP([4], lambda i: 3 - i, lambda p: (3 - p,)).check()
Proved(by='enumeration of 4 elements')
>>> half = lambda i: i // 2
>>> GenP([2], half, lambda p: (p,))  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
lego_mlir.errors.RefutedLayoutError: GenP([2], <lambda>, <lambda>) is not a bijection: apply maps [0] and [1] both ...
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from lego_mlir.aliases import Array, IndexLike
from lego_mlir.errors import ExpressionError, LayoutError, LegoError, SymbolicBranchError
from lego_mlir.expr.index import Index, is_array, is_symbolic
from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.layout.base import Layout, key_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, flatten, is_static, unflatten
from lego_mlir.layout.enumeration_limit import ENUMERATED
from lego_mlir.layout.values import show

Constructor: TypeAlias = tuple[Callable[..., Layout], tuple[Any, ...]]
"""The function that made a permutation, and its arguments: pickles and substitutions call it again."""
CHECKED_WHEN_BUILT = 2**16
"""Elements up to which a GenP is enumerated by its constructor (milliseconds); larger ones are checked on first use."""


class RegP(Layout):
    """A regular permutation: the axes of a tile interchanged by `sigma` (1-based, as in the paper).

    `RegP([n1, .., nd], sigma)`: logical sizes n, physical sizes sigma(n); sigma[k] names the logical axis that becomes
    physical axis k. Raises LayoutError if sigma does not order the axes.
    """

    __slots__ = ("_dims", "sigma")
    sigma: tuple[int, ...]
    _dims: tuple[Size, ...]

    def __init__(self, dims: Sequence[SizeLike], sigma: Sequence[int]) -> None:
        sizes = as_sizes("RegP", dims)
        self._set(_dims=sizes, sigma=_as_sigma(sigma, sizes))

    def _arguments(self) -> tuple[object, ...]:
        return self._dims, self.sigma

    def dims(self) -> tuple[Size, ...]:
        return self._dims

    def _permuted(self, values: Sequence[IndexLike]) -> tuple[IndexLike, ...]:
        return tuple(values[axis - 1] for axis in self.sigma)

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        return flatten(self._permuted(index), self._permuted(self._dims))

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        index: list[IndexLike] = [None] * len(self.sigma)
        for axis, value in zip(self.sigma, unflatten(position, self._permuted(self._dims)), strict=True):
            index[axis - 1] = value
        return tuple(index)

    def check(self) -> Verdict:
        return Proved("RegP only interchanges axes")

    def _key(self) -> tuple[Hashable, ...]:
        return ("RegP", key_of(self._dims), self.sigma)

    def __repr__(self) -> str:
        rank = len(self._dims)
        sizes = ", ".join(map(repr, self._dims))
        if self.sigma == tuple(range(1, rank + 1)):
            return f"Row({sizes})"
        if self.sigma == tuple(range(rank, 0, -1)):
            return f"Col({sizes})"
        return f"RegP({show(self._dims)}, {show(self.sigma)})"


def _as_sigma(sigma: Sequence[int], dims: tuple[Size, ...]) -> tuple[int, ...]:
    rank = len(dims)
    try:
        given = tuple(int(axis.__index__()) for axis in sigma)
    except (AttributeError, TypeError):
        raise LayoutError(f"RegP: sigma must be a list of ints such as [2, 1], got {sigma!r}") from None
    if sorted(given) == list(range(rank)):
        one_based = [axis + 1 for axis in given]
        raise LayoutError(
            f"RegP: sigma {show(given)} counts axes from 0; sigma is 1-based, as in the paper: write {show(one_based)}"
        )
    if sorted(given) != list(range(1, rank + 1)):
        raise LayoutError(
            f"RegP: sigma must order the {rank} axes of {show(dims)}, got {show(given)}; each of 1..{rank} appears once"
        )
    return given


def Row(*dims: SizeLike | Sequence[SizeLike]) -> RegP:
    """Row-major order: the axes in their given order."""
    sizes = as_sizes("Row", _unpacked(dims))
    return RegP(sizes, range(1, len(sizes) + 1))


def Col(*dims: SizeLike | Sequence[SizeLike]) -> RegP:
    """Column-major order: the axes reversed, so that the first logical axis is the fastest.

    The paper's printed shorthand reverses the sizes as well; its prose and its authors' code do not, nor does this.
    """
    sizes = as_sizes("Col", _unpacked(dims))
    return RegP(sizes, range(len(sizes), 0, -1))


def _unpacked(dims: tuple[SizeLike | Sequence[SizeLike], ...]) -> Sequence[SizeLike]:
    return dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims


def _place(error: Exception, function: Callable[..., IndexLike]) -> str:
    """The user's function with the line of it that raised an exception, for the end of a message."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == code.co_filename] or [code.co_firstlineno]
    return f", in {function.__name__} ({code.co_filename}:{lines[0]})"


class GenP(Layout):
    """A general permutation: the elements of a tile moved by `f`, with the inverse `f_inv`.

    `f(i1, .., id)` returns a position in 0..N-1 and `f_inv(position)` the index as a tuple. Both must accept ints and
    NumPy arrays to be checked, and symbols to be compiled: use `lego.where`, `lego.isqrt`, `lego.minimum` and
    `lego.maximum` instead of Python's `if`, `math.isqrt`, `min` and `max`. For a permutation with a dedicated
    constructor, `text` is its repr, `identity` the key of equality if the text is not enough, and `made` the
    constructor with its arguments, for pickling. Raises LayoutError for a pair that is not a bijection with its
    inverse.
    """

    __slots__ = ("_dims", "_identity", "_made", "_text", "_verdict", "f", "f_inv")
    f: Callable[..., IndexLike]
    f_inv: Callable[[IndexLike], IndexLike]
    _dims: tuple[Size, ...]
    _identity: Hashable
    _made: Constructor | None
    _text: str | None
    _verdict: Verdict | None

    def __init__(
        self,
        dims: Sequence[SizeLike],
        f: Callable[..., IndexLike],
        f_inv: Callable[[IndexLike], IndexLike],
        *,
        text: str | None = None,
        identity: Hashable = None,
        made: Constructor | None = None,
    ) -> None:
        self._set(_dims=as_sizes("GenP", dims), f=f, f_inv=f_inv)
        self._set(_text=text, _identity=identity or text or (f, f_inv), _made=made, _verdict=None)
        for what, function in (("f", f), ("f_inv", f_inv)):
            if not callable(function):
                raise LayoutError(f"GenP: {what} must be a function, got {function!r}")
        if is_static(self._dims):
            elements = self.numel()
            if isinstance(elements, int) and elements <= CHECKED_WHEN_BUILT:
                self.require()

    def __reduce__(self) -> tuple[object, ...]:
        if self._made is not None:
            return self._made
        options: dict[str, Any] = {
            "text": self._text,
            "identity": self._identity if self._identity != self._text else None,
        }
        return partial(GenP, **options), (self._dims, self.f, self.f_inv)

    def dims(self) -> tuple[Size, ...]:
        return self._dims

    @property
    def made(self) -> Constructor | None:
        """The constructor and its arguments, for a permutation with a dedicated one, such as those of the gallery."""
        return self._made

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        self.require()
        return self._exactly(index)[0] if self._may_wrap(index) else self.forward(index)

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        self.require()
        return self._exactly(position) if self._may_wrap((position,)) else self.backward(position)

    def _may_wrap(self, given: tuple[IndexLike, ...]) -> bool:
        """Whether arrays may wrap around: the permutation is too large for enumeration to have excluded it."""
        elements = self.numel()
        return isinstance(elements, int) and elements > ENUMERATED and any(map(is_array, given))

    def _exactly(self, given: IndexLike | tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
        """`f` of an index, or `f_inv` of a position, as arrays; recomputed with Python's ints if int64 wraps around."""
        from lego_mlir.layout.wrapping import Watch, one_by_one

        forward = isinstance(given, tuple)
        watch, values = Watch(), given if forward else (given,)
        watched = tuple(watch.over(v) if is_array(v) else v for v in values)

        def found(index: tuple[IndexLike, ...]) -> tuple[IndexLike, ...]:
            return (self.forward(index),) if forward else self.backward(*index)

        try:
            result = found(watched)
        except LayoutError:
            if not watch.wrapped:  # for example the root of a number that wrapped to a negative one
                raise
            return one_by_one(found, values)
        return one_by_one(found, values) if watch.wrapped else result

    def forward(self, index: tuple[IndexLike, ...]) -> IndexLike:
        """The given `f` with an integer result, unchecked. Only for the check itself; other code calls `_apply`."""
        return self._integral(self._call(self.f, "f", index), "f", index)

    def backward(self, position: IndexLike) -> tuple[IndexLike, ...]:
        """The given `f_inv` with one integer per dimension, unchecked. Only for the check itself, like `forward`."""
        index = self._call(self.f_inv, "f_inv", (position,))
        if not isinstance(index, (tuple, list)):
            index = (index,)
        if len(index) != len(self._dims):
            raise LayoutError(
                f"{self!r}: f_inv must return one value for each of the sizes {show(self._dims)}, got {len(index)}"
            )
        return tuple(self._integral(i, "f_inv", (position,)) for i in index)

    def _integral(self, value: IndexLike, what: str, given: tuple[IndexLike, ...]) -> IndexLike:
        """Widen a result to an int, an int64 array or an `Index`: a composition multiplies it, and narrow types wrap.

        Raises LayoutError for a result that is not an integer (a fraction made by `/`, None, a list), and for an array
        whose shape differs from that of the arguments.
        """
        if is_symbolic(value):
            return Index(value)
        kind = value.dtype if hasattr(value, "dtype") else type(value).__name__
        if isinstance(value, float) or (hasattr(value, "dtype") and value.dtype.kind == "f"):
            raise LayoutError(f"{self!r}: {what} gives {kind}, not integers; write integer division as //, not /")
        if is_array(value) and value.dtype.kind in "iub":
            self._require_elementwise(value.shape, what, given)
            return _as_int64(value) if any(map(is_array, given)) else int(value)
        if not hasattr(value, "__index__") or is_array(value):
            raise LayoutError(f"{self!r}: {what} gives {kind}, not integers; got {value!r}")
        return int(value.__index__())

    def _require_elementwise(self, shape: tuple[int, ...], what: str, given: tuple[IndexLike, ...]) -> None:
        """Raise LayoutError for a shape that does not broadcast to that of the arguments."""
        import numpy as np

        wanted = np.broadcast_shapes(*(v.shape for v in given if is_array(v)))
        try:
            fits = np.broadcast_shapes(shape, wanted) == wanted
        except ValueError:
            fits = False
        if not fits:
            values = f"arrays of shape {wanted}" if any(map(is_array, given)) else f"the one value {show(given)}"
            raise LayoutError(
                f"{self!r}: {what} gives an array of shape {shape} for {values}; it must give one integer for each "
                "element, as positions[i] does"
            )

    def _call(self, function: Callable[..., IndexLike], what: str, values: tuple[IndexLike, ...]) -> IndexLike:
        try:
            # A function that changes its argument in place, `i *= 4`, must not change the caller's array.
            return function(*(v.copy() if is_array(v) else v for v in values))
        except SymbolicBranchError as error:
            raise LayoutError(f"{self!r}: {what} can only handle ints: {error}{_place(error, function)}") from error
        except ExpressionError as error:
            raise LayoutError(f"{self!r}: {what} fails: {error}{_place(error, function)}") from error
        except LegoError:
            raise  # from another layout that the function calls
        except Exception as error:  # of any class: the function is the user's
            kinds = {"a symbol" for v in values if is_symbolic(v)} | {"a NumPy array" for v in values if is_array(v)}
            if not kinds:
                raise LayoutError(
                    f"{self!r}: {what} fails for {show(values)}: {type(error).__name__}: {error}"
                    f"{_place(error, function)}"
                ) from error
            raise LayoutError(
                f"{self!r}: {what} cannot handle {' and '.join(sorted(kinds))} ({error}); use lego.where, lego.isqrt, "
                "lego.minimum and lego.maximum instead of if, math, min and max, or turn the permutation into "
                f"a table with lego.gallery.tabulated{_place(error, function)}"
            ) from error

    def _regular(self) -> bool:
        return False

    def check(self) -> Verdict:
        if self._verdict is None:
            from lego_mlir.layout.checking import verdict_of

            self._set(_verdict=verdict_of(self))
        return cast(Verdict, self._verdict)

    def _key(self) -> tuple[Hashable, ...]:
        return ("GenP", key_of(self._dims), self._identity)

    def __repr__(self) -> str:
        if self._text:
            return self._text
        return f"GenP({show(self._dims)}, {_name(self.f)}, {_name(self.f_inv)})"


def _name(function: Callable[..., IndexLike]) -> str:
    return getattr(function, "__name__", None) or repr(function)


def _as_int64(array: Array) -> Array:
    """Integers or bools as int64, or as Python's ints if one is larger."""
    import numpy as np

    wide = array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max
    return array.astype(object if wide else np.int64, copy=False)
