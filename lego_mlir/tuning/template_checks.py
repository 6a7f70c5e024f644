"""The data of a template's check: its memory before the launch, and what its reference makes of it.

Input is drawn from a seed, so that large arrays are made where they are measured, and of a large result a sample is
compared (`computed_checks.sampled`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from lego_mlir.errors import UsageError
from lego_mlir.runtime.comparing import numbers
from lego_mlir.runtime.data import elements_of
from lego_mlir.runtime.data_files import drawn
from lego_mlir.tracing.words.declared_tensor import Tensor
from lego_mlir.tuning.computed_checks import fill_of, sampled
from lego_mlir.tuning.template_launches import AddressesOf, TemplateLaunch


def flat_tensors(launch: TemplateLaunch) -> dict[str, Tensor]:
    """Every tensor whose memory is made, by a name: of `AddressesOf` the tensors as name.0, name.1, .."""
    found: dict[str, Tensor] = {}
    for name, value in launch.arguments.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, AddressesOf):
            found |= {f"{name}.{i}": tensor for i, tensor in enumerate(value.tensors)}
    return found


def check_arrays(launch: TemplateLaunch, entry: str) -> dict[str, numpy.ndarray]:
    """The arrays of the check, by the names of `runtime.data_files`. UsageError for a reference that does not fit."""
    arrays: dict[str, numpy.ndarray] = {}
    logical: dict[str, numpy.ndarray] = {}
    for seed, (name, tensor) in enumerate(flat_tensors(launch).items()):
        size = _elements(name, tensor)
        if name.partition(".")[0] in launch.read:
            arrays[f"{entry}/{name}/seed"] = numpy.array(seed)
            memory = numbers(drawn(tensor.dtype.name, size, seed), tensor.dtype.name)
            logical[name] = _logical(tensor, memory.astype("float64" if tensor.dtype.is_float else memory.dtype))
        else:
            arrays[f"{entry}/{name}/fill"] = fill_of(tensor.dtype.name)
    for name, value in launch.arguments.items():
        if isinstance(value, numpy.ndarray):
            arrays[f"{entry}/{name}"] = value
    for name, result in _results(launch, logical).items():
        arrays |= _expected(f"{entry}/{name}", flat_tensors(launch)[name], result, launch.tolerance)
    return arrays


def identity(launch: TemplateLaunch) -> str:
    """A digest of what the check depends on: launches that share it differ in how they compute, not in what."""
    code = launch.reference.__code__
    cells = [cell.cell_contents for cell in launch.reference.__closure__ or ()]
    parts: list[Any] = [code.co_code, code.co_consts, code.co_names, launch.reference.__defaults__, cells]
    parts += [launch.writes, launch.tolerance]
    for name, value in launch.arguments.items():
        parts.append((name, value.tobytes() if isinstance(value, numpy.ndarray) else value))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def _elements(name: str, tensor: Tensor) -> int:
    size = tensor.layout.physical_size()
    if not isinstance(size, int):
        raise UsageError(f"{name}: {tensor.layout!r} has symbolic sizes; a launch of a template has numbers")
    return size


def _row_major(tensor: Tensor) -> bool:
    """Whether memory order is the row-major order of the indices."""
    from lego_mlir.layout import Row

    return repr(tensor.layout) == repr(Row(*tensor.layout.dims()))


def _logical(tensor: Tensor, memory: numpy.ndarray) -> numpy.ndarray:
    shape = tuple(int(n) for n in tensor.layout.dims())
    return memory.reshape(shape) if _row_major(tensor) else memory[elements_of(tensor.layout, {}).positions]


def _results(launch: TemplateLaunch, logical: Mapping[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    """What the reference returns for each tensor that is written."""
    given: dict[str, Any] = {}
    for name in launch.read:
        value = launch.arguments[name]
        if isinstance(value, AddressesOf):
            given[name] = [logical[f"{name}.{i}"] for i in range(len(value.tensors))]
        else:
            given[name] = logical.get(name, value)
    returned = launch.reference(**given)
    listed = returned if isinstance(returned, tuple) else (returned,)
    if len(listed) != len(launch.writes):
        raise UsageError(
            f"{launch.template.name}: the reference returns {len(listed)} results, and the kernel writes "
            f"{', '.join(launch.writes)}"
        )
    found: dict[str, numpy.ndarray] = {}
    for name, result in zip(launch.writes, listed, strict=True):
        several = isinstance(launch.arguments[name], AddressesOf)
        found |= {f"{name}.{i}": numpy.asarray(r) for i, r in enumerate(result)} if several else {name: result}
    tensors = flat_tensors(launch)
    for name, result in found.items():
        wanted = tuple(int(n) for n in tensors[name].layout.dims()) if name in tensors else ()
        if numpy.shape(result) != wanted:
            raise UsageError(
                f"{launch.template.name}: the reference returns shape {numpy.shape(result)} for {name}, whose layout "
                f"has {wanted}"
            )
    return found


def _expected(name: str, tensor: Tensor, result: numpy.ndarray, tolerance: float | None) -> dict[str, numpy.ndarray]:
    """The expectation of a result: all of it, or of a large one its ends and a sample."""

    def positions(index: Sequence[numpy.ndarray]) -> numpy.ndarray:
        if _row_major(tensor):
            return numpy.ravel_multi_index(tuple(index), tuple(int(n) for n in tensor.layout.dims()))
        return elements_of(tensor.layout, {}).positions[tuple(index)]

    return sampled(name, numpy.asarray(result), tensor.dtype.name, positions, tolerance)
