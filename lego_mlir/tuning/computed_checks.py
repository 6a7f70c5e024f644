"""A check whose data are computed where they are used: the reference travels as code, the input as a seed.

The result of a product of 4096 x 4096 takes 64 MiB; the function that computes it takes a line. A description has, as
text, what the check of `runtime.data_files` is made from, for any sizes:

    entry, sizes            the kernel and the names of its sizes
    reference               the text of the function (`reference_source`), and the names that it takes
    parameters              each with its dtype, extents, number of elements and the position of an index in memory
    tolerance, exact        the spec's tolerance, or which results are only moved and so must be equal

The input follows from a seed (`data_files.drawn`), so that the process which launches makes it as well, and of a large
result a sample is compared. Reading needs NumPy alone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy

from lego_mlir.aliases import Json
from lego_mlir.errors import PrintError, SpecError, UsageError
from lego_mlir.expr import text
from lego_mlir.runtime import data_files
from lego_mlir.runtime.comparing import FLOATS, STORED, WORDS, numbers
from lego_mlir.runtime.data_files import UNWRITTEN, drawn, to_npz
from lego_mlir.store import default_folder, from_json, make_kept, replace_file
from lego_mlir.tuning import reference_source

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel_traces import Parameter
    from lego_mlir.tracing.definition.program import Runnable

FORMAT: Final = 1
SUFFIX: Final = ".json"
"""Of a file with a description; data have .npz."""
REFERENCE: Final = "expected"
SAMPLED: Final = 1 << 14
SMALL: Final = 1 << 16
"""Elements of a result that is compared as a whole."""
TOLERANCES: Final = {"f64": 1e-9, "f32": 1e-4, "f16": 5e-3, "bf16": 3e-2, "f8e4m3fn": 0.15, "f8e5m2": 0.3}
"""Of the largest value: a few roundings to the type, and sums in another order."""


# -- where the compiler is


def describe(built: Runnable, sizes: Mapping[str, int]) -> Json:
    """The description of a kernel's check. Raises UsageError, with the reason, for one that needs data.

    `sizes` decide only which results must be equal.
    """
    if built.expected is None or built.supplied is not None or built.tables():
        raise UsageError(f"{built.name}: its input or its result is not that of a function of NumPy arrays")
    takes = list(inspect.signature(built.expected).parameters)
    parameters = [_parameter(built, parameter) for parameter in built.params]
    if unread := [p["name"] for p in parameters if p["name"] in takes and p["written"] and not p["read"]]:
        raise UsageError(f"{built.name}: its reference takes {', '.join(unread)}, which the kernel does not read")
    chains = {} if built.tolerance is not None else built.roundings(sizes)
    written = [p for p in built.params if p.written]
    return {
        "format": FORMAT, "entry": built.name, "sizes": [size.name for size in built.sizes], "parameters": parameters,
        "reference": reference_source.text_of(built.expected, REFERENCE), "takes": takes,
        "tolerance": None if built.tolerance is None else list(built.tolerance),
        "exact": [p.name for p in written if not p.dtype.is_float or (p.name in chains and chains[p.name].exact)],
    }  # fmt: skip


def _parameter(built: Runnable, parameter: Parameter) -> Json:
    """How a parameter is made: its text of `expr.text` for any sizes."""
    from lego_mlir.expr.index import index_symbol
    from lego_mlir.layout import Row

    name = parameter.name
    if parameter.values is not None or parameter.distinct or parameter.dtype.bits == 1:
        raise UsageError(f"{built.name}: {name} has a range, and its input is not any number")
    found = {"name": name, "dtype": parameter.dtype.name, "read": parameter.read, "written": parameter.written}
    layout = parameter.layout
    if layout is None:
        return {**found, "dims": None}
    dims = layout.dims()
    index = [index_symbol(axis) for axis in _axes(len(dims))]
    if layout.mask(*index) is not True:
        raise UsageError(f"{built.name}: some indices of {name} name no element")
    try:
        position = None if repr(layout) == repr(Row(*dims)) else text.write(layout.apply(*index))
        extents, elements = [text.write(n) for n in dims], text.write(parameter.size)
    except PrintError as error:
        raise UsageError(f"{built.name}: the layout of {name} has no text ({error})") from error
    return {**found, "dims": extents, "elements": elements, "position": position}


def _axes(count: int) -> list[str]:
    return [f"index_{axis}" for axis in range(count)]


# -- where the device is


def arrays_of(described: Json, sizes: Mapping[str, int]) -> dict[str, numpy.ndarray]:
    """The arrays of a check at these sizes, by the names of `runtime.data_files`.

    Raises SpecError for a description of another format and for a reference that fails.
    """
    if described.get("format") != FORMAT:
        raise SpecError(f"the check has format {described.get('format')}, not {FORMAT}; pack the candidates again")
    entry, at = described["entry"], {name: int(sizes[name]) for name in described["sizes"]}
    arrays = {f"{entry}/{name}": numpy.array(n) for name, n in at.items()}
    known: dict[str, Any] = dict(at)
    for seed, parameter in enumerate(described["parameters"]):
        name, dtype = parameter["name"], parameter["dtype"]
        if parameter["dims"] is None:
            stored = drawn(dtype, 1, seed)[0]
            arrays[f"{entry}/{name}"], known[name] = stored, numbers(stored, dtype)
        elif parameter["read"]:
            arrays[f"{entry}/{name}/seed"] = numpy.array(seed)
            if name in described["takes"]:
                known[name] = _logical(parameter, at, seed)
        else:
            arrays[f"{entry}/{name}/fill"] = fill_of(dtype)
    for parameter, result in _results(described, known, at):
        name, dtype = parameter["name"], parameter["dtype"]
        expected = sampled(f"{entry}/{name}", result, dtype, lambda i, p=parameter: _positions(p, at, i))  # type: ignore[misc]
        chosen = expected[f"{entry}/{name}/expected"]
        if described["tolerance"] is not None:
            rtol, atol = described["tolerance"]
            expected[f"{entry}/{name}/allowed"] = atol + rtol * numpy.abs(chosen.astype(numpy.float64))
        elif name in described["exact"]:
            expected[f"{entry}/{name}/allowed"] = numpy.zeros(1)
        arrays |= expected
    return arrays


def fill_of(dtype: str) -> numpy.ndarray:
    """What memory holds that the kernel should overwrite."""
    return numpy.array(0x7F if dtype in WORDS else UNWRITTEN).astype(STORED[dtype])


def sampled(
    name: str,
    result: numpy.ndarray,
    dtype: str,
    positions_of: Callable[[Sequence[numpy.ndarray]], numpy.ndarray],
    tolerance: float | None = None,
) -> dict[str, numpy.ndarray]:
    """The expectation of a result, by names that begin with `name`: all of it, or of a large one ends and a sample.

    `positions_of` gives the positions in memory of indices. `tolerance` is relative to the largest value.
    """
    is_float, size, at = dtype in FLOATS, result.size, numpy.arange(min(result.size, SMALL))
    if size > SMALL:
        among = numpy.random.default_rng(0).integers(0, size, SAMPLED)
        at = numpy.unique([*range(SAMPLED // 8), *range(size - SAMPLED // 8, size), *among])
    index = numpy.unravel_index(at, result.shape)
    chosen = result[index]
    chosen = chosen.astype("float32" if is_float and dtype != "f64" else chosen.dtype)
    relative = TOLERANCES.get(dtype, 0.0) if tolerance is None else tolerance
    largest = float(max(abs(result.max(initial=0)), abs(result.min(initial=0)))) if is_float else 0.0
    allowed = numpy.array([relative * largest])
    return {f"{name}/expected": chosen, f"{name}/at": positions_of(index), f"{name}/allowed": allowed}


def _logical(parameter: Json, sizes: Mapping[str, int], seed: int) -> numpy.ndarray:
    """The input as the reference takes it: of the logical shape, floats in double precision."""
    elements = text.evaluate(parameter["elements"], sizes)
    memory = numbers(drawn(parameter["dtype"], elements, seed), parameter["dtype"])
    memory = memory.astype(numpy.float64) if parameter["dtype"] in FLOATS else memory
    shape = tuple(text.evaluate(n, sizes) for n in parameter["dims"])
    if parameter["position"] is None:
        return memory.reshape(shape)
    return memory[_positions(parameter, sizes, numpy.indices(shape, sparse=True))]


def _positions(parameter: Json, sizes: Mapping[str, int], index: Sequence[numpy.ndarray]) -> numpy.ndarray:
    """The positions in memory of logical indices."""
    if parameter["position"] is None:
        shape = tuple(text.evaluate(n, sizes) for n in parameter["dims"])
        return numpy.ravel_multi_index(tuple(index), shape)
    names = dict(zip(_axes(len(index)), index, strict=True))
    given: dict[str, Any] = {**sizes, **names}
    (found,) = text.parse(parameter["position"], given).fold(given, int, text.ON_ARRAYS)
    return numpy.broadcast_to(found, numpy.broadcast_shapes(*(i.shape for i in index)))


def _results(
    described: Json, known: Mapping[str, object], sizes: Mapping[str, int]
) -> list[tuple[Json, numpy.ndarray]]:
    """What the reference returns for each parameter that is written."""
    entry, function = described["entry"], reference_source.loaded(described["reference"], REFERENCE)
    try:
        returned = function(**{name: known[name] for name in described["takes"]})
    except Exception as error:  # the user's function, on a machine that may have another NumPy
        raise SpecError(f"{entry}: its reference fails here ({type(error).__name__}: {error})") from error
    results = [numpy.asarray(one) for one in (returned if isinstance(returned, tuple) else (returned,))]
    written = [parameter for parameter in described["parameters"] if parameter["written"]]
    shapes = [tuple(text.evaluate(n, sizes) for n in parameter["dims"]) for parameter in written]
    if [result.shape for result in results] != shapes:
        raise SpecError(
            f"{entry}: its reference returns shapes {[r.shape for r in results]}, and the kernel writes {shapes}"
        )
    return list(zip(written, results, strict=True))


def read(check: Path | bytes, sizes: Mapping[str, int]) -> Mapping[str, numpy.ndarray]:
    """The arrays of a check, of data or of a description; the latter are kept in the cache for other processes."""
    if isinstance(check, bytes) and check[:1] == b"{":
        return data_files.read(ComputedChecks(default_folder() / "checks").data(check, sizes))
    return data_files.read(check)


class ComputedChecks:
    """The data of described checks, each made once: files in a folder, or in one that is removed with this object."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lego-checks-")) if folder is None else folder
        self._locks: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        else:
            make_kept(folder)

    def data(self, described: bytes, sizes: Mapping[str, int]) -> Path:
        """The `.npz` of a description at these sizes. Raises SpecError for a broken one."""
        try:
            read = from_json(described)
            used = {name: sizes[name] for name in read["sizes"]}
        except (ValueError, LookupError, TypeError) as error:
            raise SpecError(f"not the description of a check ({error!r}); pack the candidates again") from error
        words = hashlib.sha256(described + json.dumps(used, sort_keys=True).encode()).hexdigest()[:24]
        path = self.folder / f"{words}.npz"
        with self._guard:
            lock = self._locks.setdefault(path, threading.Lock())
        with lock:
            if not path.is_file():
                replace_file(path, to_npz(arrays_of(read, used)))
        return path
