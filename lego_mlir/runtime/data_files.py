"""The `.npz` beside compiled code, read where kernels run: the memory before a launch, and what it must be after it.

`runtime.data` writes it and lists the names of its arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import comparing
from lego_mlir.runtime.manifest import Argument, KernelEntry, evaluate

if TYPE_CHECKING:
    from lego_mlir.aliases import Array


def read(path: Path | bytes) -> Mapping[str, Array]:
    """The arrays of the `.npz` beside the code, empty where the file is missing, or of the bytes of such a file.

    Raises SpecError for a broken one.
    """
    import io
    import zipfile

    import numpy

    if isinstance(path, Path) and not path.is_file():
        return {}
    try:
        with io.BytesIO(path) if isinstance(path, bytes) else path.open("rb") as file:
            return dict(numpy.load(file))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        name = "the given bytes" if isinstance(path, bytes) else path
        raise SpecError(f"{name}: not the data of a check ({error}); compile again with --with-data") from error


def compare(found: Array, name: str, data: Mapping[str, Array], argument: Argument) -> comparing.Comparison:
    """The elements of a tensor against the data; of its tolerance those of the manifest count, where it has them."""
    import numpy

    expected = data[f"{name}/expected"]
    allowed = data.get(f"{name}/allowed")
    if argument.tolerance is not None:
        rtol, atol = argument.tolerance
        allowed = atol + rtol * numpy.abs(expected.astype(numpy.float64))
    elif allowed is not None:
        allowed = numpy.broadcast_to(allowed, expected.shape)
    where = data.get(f"{name}/where", slice(None))
    return comparing.compare(found[where], expected[where], argument.dtype, None if allowed is None else allowed[where])


def memory_of(kernel: KernelEntry, argument: Argument, data: Mapping[str, Array], sizes: Mapping[str, int]) -> Any:
    """The data of an argument, otherwise random small integers."""
    import numpy

    name = f"{kernel.entry}/{argument.name}"
    if name in data:
        return data[name]
    dtype = numpy.dtype(comparing.STORED[argument.dtype])
    if argument.kind == "scalar":
        return dtype.type(1)
    if argument.elements is None:
        raise UsageError(f"{argument.name} of {kernel.entry}: the manifest does not give its number of elements")
    return numpy.random.default_rng(0).integers(0, 100, evaluate(argument.elements, sizes)).astype(dtype)
