"""References of a kernel, to check it: the expected result in NumPy, and input where random is invalid.

    @copy.reference                     @copy.inputs
    def expected(src):                  def permutation(rng, N):
        return src                          return {"order": rng.permutation(N)}

`Referenced` is the part that kernels and programs share. Both functions take their arguments by name; a name that will
not be passed is an error where the function is defined.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from math import inf
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import TraceError

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.dtypes import DType
    from lego_mlir.tracing.trace.spec_line import Source
    from lego_mlir.tracing.words.declared_tensor import Tensor

Fixed = float | int | bool | None
"""The value of an argument that a kernel is traced for, None for a tensor."""


class Referenced:
    """A kernel or program with `@k.reference` and `@k.inputs`, kept as `k.expected` and `k.supplied`."""

    name: str
    source: Source
    signature: dict[str, Tensor | DType]
    arguments_fixed: Mapping[str, Fixed] = MappingProxyType({})
    """Arguments that it is traced for, which it has no parameters for: `definition.fixed_arguments`."""

    def __init__(self) -> None:
        self.expected: Callable[..., Any] | None = None
        self.tolerance: tuple[float, float] | None = None
        self.supplied: Callable[..., object] | None = None

    def _size_names(self) -> list[str]:
        """The names of the sizes that the signature declares."""
        raise NotImplementedError  # both kinds define it

    def reference(
        self, function: Callable[..., Any] | None = None, *, rtol: float | None = None, atol: float | None = None
    ) -> Callable[..., Any]:
        """`@k.reference`: what the kernel computes, in NumPy; kept as `k.expected`.

        The function takes any of the kernel's parameters and sizes, by name. Tensors are arrays of their logical
        shape; it returns the array of the one tensor that is written, or a tuple in the order of the signature.

        `@k.reference(rtol=1e-3, atol=1e-6)` accepts an element that differs by at most `atol + rtol * |expected|`; an
        omitted one is 0. Without either, the bound follows from the roundings of the kernel.
        """
        tolerance = _tolerance(self, rtol, atol)
        if function is None:
            return lambda function: self.reference(function, rtol=rtol, atol=atol)
        if not inspect.isfunction(function):
            raise TraceError(
                f"{self.source}: the reference of {self.name} must be a function, got {function!r}; write a tolerance "
                f"as @{self.name}.reference(rtol=1e-3)"
            )
        known = [*self.signature, *self._size_names()]
        _require_known(self, "reference", function, known, "a parameter or size of it; it has")
        self.expected, self.tolerance = function, tolerance
        return function

    def inputs(self, function: Callable[..., object]) -> Callable[..., object]:
        """`@k.inputs`: the input of a run, where random numbers are not valid; kept as `k.supplied`.

        The function takes `rng` (a seeded numpy.random.Generator) and any of the kernel's sizes, by name. It returns a
        dict of arrays of the logical shapes, by parameter name; the other parameters remain random. Used by
        `lego-mlir run`, `analyze` and `compile --with-data`, which raise UsageError for a wrong name, shape or type.
        """
        if not inspect.isfunction(function):
            raise TraceError(
                f"{self.source}: the inputs of {self.name} must be a function that returns arrays by name, got "
                f"{function!r}"
            )
        _require_known(self, "inputs function", function, ["rng", *self._size_names()], "rng or a size of it; there is")
        self.supplied = function
        return function


def _require_known(
    defined: Referenced, what: str, function: Callable[..., object], known: Collection[str], offered: str
) -> None:
    """Raise TraceError where a function takes a name that it would not be given."""
    for name in inspect.signature(function).parameters:
        if name not in known:
            raise TraceError(
                f"{defined.source}: the {what} of {defined.name} takes '{name}', which is not {offered} "
                f"{', '.join(sorted(known))}"
            )


def _tolerance(defined: Referenced, rtol: float | None, atol: float | None) -> tuple[float, float] | None:
    """The tolerances of a reference; None where neither was given."""
    given: dict[str, Any] = {"rtol": rtol, "atol": atol}
    for name, value in given.items():
        number = isinstance(value, (int, float, Real)) and type(value) is not bool and 0 <= float(value) < inf
        if value is not None and not number:
            raise TraceError(
                f"{defined.source}: {name}={value!r} of the reference of {defined.name} must be a number of at least "
                "0, such as 1e-3"
            )
    return None if rtol is None and atol is None else (float(rtol or 0), float(atol or 0))
