"""Input chosen by the user: arrays by parameter name, from a spec's `@k.inputs` function or from an `.npz` file.

Random numbers are no sorted keys, no permutation and no sparse matrix. The function gets a seeded generator and the
sizes that it names; the file holds the arrays themselves:

    @spmv.inputs                                        numpy.savez("graph.npz", start=start, column=column)
    def ring(rng, rows):                                lego-mlir run spmv.py --input graph.npz
        return {"start": numpy.arange(rows + 1), "column": rng.permutation(rows)}

A parameter that neither gives keeps its random input. An array has the logical shape of its layout; an entry
`KERNEL/NAME` of a file, which `compile --with-data` writes, is in memory order. Numbers are converted to the element
type where that keeps every integer.
"""

from __future__ import annotations

import inspect
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError, brief, did_you_mean
from lego_mlir.expr.index import as_expr, is_masked, is_symbolic
from lego_mlir.expr.nodes import Size
from lego_mlir.runtime.comparing import STORED, WORDS

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel_traces import Parameter
    from lego_mlir.tracing.definition.program import Runnable

GENERATOR: Final = "rng"  # the name by which a function of inputs takes NumPy's generator
NUMBER_KINDS: Final = "biuf"  # NumPy's kinds of dtypes: bool, signed, unsigned, float


@dataclass(frozen=True, slots=True)
class Supplied:
    """An array of a parameter and where it comes from; `in_memory_order`: of the physical elements."""

    value: Array
    origin: str
    in_memory_order: bool = False

    def elements(self, parameter: Parameter, shape: Sequence[int], physical: int) -> numpy.ndarray:
        """The array in the parameter's element type. Raises UsageError for a wrong shape or type."""
        found = _of_type(self, parameter)
        wanted = (physical,) if self.in_memory_order and parameter.layout is not None else tuple(shape)
        if found.shape != wanted:
            what = "memory holds" if self.in_memory_order else "has the logical shape"
            shown = f"a number of {parameter.dtype}" if parameter.layout is None else f"{parameter.layout!r}"
            raise UsageError(
                f"{self.origin}: {parameter.name} has shape {found.shape}; {shown} {what} {wanted}"
                f"{_remedy(found, wanted)}"
            )
        return found


def _remedy(found: numpy.ndarray, wanted: tuple[int, ...]) -> str:
    if found.size and found.size == prod(wanted):
        return f"; give it as .reshape{wanted}"
    return ""


def _of_type(supplied: Supplied, parameter: Parameter) -> numpy.ndarray:
    """The numbers in the element type of the parameter: floats are rounded, integers must fit."""
    dtype = parameter.dtype
    wanted, name = dtype.numpy, f"{supplied.origin}: {parameter.name}"
    if is_masked(supplied.value):
        raise UsageError(f"{name} is a masked array, without elements where its mask is set; pass array.filled(value)")
    value = numpy.asarray(supplied.value)
    if value.dtype == wanted:
        return value
    bits = value.dtype.kind == "V" or (supplied.in_memory_order and value.dtype == STORED[dtype.name])
    if dtype.name in WORDS and bits and value.dtype.itemsize == wanted.itemsize:
        return value.view(wanted)
    if value.dtype.kind not in (NUMBER_KINDS if dtype.is_float else "biu"):
        raise UsageError(
            f"{name} is an array of {value.dtype}, and its elements are {dtype}; convert it: .astype({wanted.name!r})"
        )
    if not dtype.is_float and value.size:
        low, high = (0, 1) if dtype.bits == 1 else (numpy.iinfo(wanted).min, numpy.iinfo(wanted).max)
        for number in (int(value.min()), int(value.max())):
            if not low <= number <= high:
                raise UsageError(f"{name} contains {number}; {dtype} holds {low} .. {high}")
    with numpy.errstate(over="ignore"):  # a float beyond its type is infinite
        return value.astype(wanted)


def of_function(kernel: Runnable, sizes: Mapping[str, int], seed: int) -> dict[str, Supplied]:
    """What the spec's own function returns; nothing where there is none. Raises UsageError for unknown names."""
    function = kernel.supplied
    if function is None:
        return {}
    known = {GENERATOR: numpy.random.default_rng(seed), **sizes}
    origin = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}: the inputs of {kernel.name}"
    returned = function(**{name: known[name] for name in inspect.signature(function).parameters})
    if not isinstance(returned, Mapping) or not all(isinstance(name, str) for name in returned):
        raise UsageError(f"{origin}: return a dict of arrays by parameter name, not {brief(repr(returned), 60)}")
    parameters = [parameter.name for parameter in kernel.params]
    returned = {name: value for name, value in returned.items() if name not in kernel.arguments_fixed}
    for name in returned:
        if name not in parameters:
            raise UsageError(
                f"{origin}: {name!r} is not a parameter of it{did_you_mean(name, parameters)}; "
                f"it has {', '.join(parameters)}"
            )
    return {name: Supplied(value, origin) for name, value in returned.items()}


@dataclass(frozen=True, slots=True)
class InputFile:
    """The arrays of an `.npz` file: `NAME` for every kernel that has the parameter or size, `KERNEL/NAME` for one."""

    path: str
    arrays: Mapping[str, Array]

    def require_used(self, kernels: Sequence[Runnable]) -> None:
        """Raise UsageError for an array that belongs to none of the kernels."""
        known = {kernel.name: _names(kernel) for kernel in kernels}
        for entry in self.arrays:
            parts = entry.split("/")
            name, owners = (parts[0], list(known)) if len(parts) == 1 else (parts[1], [parts[0]])
            if not any(name in known.get(owner, ()) for owner in owners):
                listed = "; ".join(f"{owner} has {', '.join(names)}" for owner, names in known.items())
                every = [n for names in known.values() for n in names]
                raise UsageError(
                    f"{self.path}: '{entry}' is not a parameter or size{did_you_mean(name, every)}; {listed}"
                )

    def sizes(self, kernel: Runnable, given: Mapping[str, int]) -> dict[str, int]:
        """The sizes of a kernel: `given` ones, entries of the file, and extents of its arrays.

        Raises UsageError where two of these differ.
        """
        found = dict(given)
        source = {name: f"--size {name}={n}" for name, n in given.items()}
        for name, number, origin in (*self._size_entries(kernel), *self._extents(kernel)):
            if found.setdefault(name, number) != number:
                raise UsageError(
                    f"{self.path}: {origin} makes {name} = {number}, and {source[name]} makes it {found[name]}"
                )
            source.setdefault(name, origin)
        return found

    def _size_entries(self, kernel: Runnable) -> list[tuple[str, int, str]]:
        found = []
        for size in kernel.sizes:
            entry, value = self._entry(kernel, size.name)
            if value is None:
                continue
            if value.shape or value.dtype.kind not in "iu":
                raise UsageError(f"{self.path}: the size {entry} must be one integer, not {value.dtype} {value.shape}")
            found.append((size.name, int(value), f"the entry {entry}"))
        return found

    def _extents(self, kernel: Runnable) -> list[tuple[str, int, str]]:
        """The sizes that are extents of an array in logical shape."""
        found = []
        for parameter in kernel.params:
            value = self.arrays.get(parameter.name)
            if value is None or parameter.layout is None or value.ndim != len(parameter.layout.dims()):
                continue
            for extent, number in zip(parameter.layout.dims(), value.shape, strict=True):
                if is_symbolic(extent) and isinstance(symbol := as_expr(extent), Size):
                    found.append((symbol.name, number, f"{parameter.name} of shape {value.shape}"))
        return found

    def _entry(self, kernel: Runnable, name: str) -> tuple[str, numpy.ndarray | None]:
        own = f"{kernel.name}/{name}"
        return (own, self.arrays[own]) if own in self.arrays else (name, self.arrays.get(name))

    def supplied(self, kernel: Runnable) -> dict[str, Supplied]:
        """The arrays of a kernel's parameters."""
        found: dict[str, Supplied] = {}
        for parameter in kernel.params:
            entry, value = self._entry(kernel, parameter.name)
            if value is not None:
                found[parameter.name] = Supplied(value, self.path, in_memory_order="/" in entry)
        return found


def _names(kernel: Runnable) -> list[str]:
    return [*(parameter.name for parameter in kernel.params), *(size.name for size in kernel.sizes)]


def read(path: str) -> InputFile:
    """The arrays of an `.npz` file. Raises UsageError for a missing file and for any other content."""
    try:
        with Path(path).open("rb") as file:
            loaded = numpy.load(file)
            if not isinstance(loaded, numpy.lib.npyio.NpzFile):
                raise UsageError(
                    f"--input {path}: a single array; write an .npz file of arrays by parameter name: "
                    "numpy.savez('input.npz', x=x, y=y)"
                )
            return InputFile(path, dict(loaded))
    except FileNotFoundError as error:
        raise UsageError(f"--input {path}: no such file; write one: numpy.savez('input.npz', x=x, y=y)") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"--input {path}: not an .npz file of numbers ({error}); write one: numpy.savez('input.npz', x=x, y=y)"
        ) from error
