"""The `.npz` beside compiled code, read where kernels run: the memory before a launch, and what it must be after it.

`runtime.data` writes it and lists the names of its arrays. Data of large arrays need not travel: `drawn` makes the
same input on both sides, and a sample of the result is compared.

    softmax/x/seed          in place of the memory of x: the seed from which `drawn` makes it
    softmax/y/fill          in place of the memory of y: the number that all of it holds before the launch
    softmax/y/at            the positions of y that `softmax/y/expected` is of
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy

from lego_mlir.aliases import Array
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import comparing
from lego_mlir.runtime.manifest import Argument, KernelEntry, evaluate

UNWRITTEN: Final = -77  # what memory holds that the kernel should overwrite


def to_npz(arrays: Mapping[str, Array]) -> bytes:
    """The bytes of a compressed `.npz` file."""
    import io

    buffer = io.BytesIO()
    numpy.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read(path: Path | bytes) -> Mapping[str, Array]:
    """The arrays of the `.npz` beside the code, empty where the file is missing, or of the bytes of such a file.

    Raises SpecError for a broken one.
    """
    import io
    import zipfile

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
    expected = data[f"{name}/expected"]
    allowed = data.get(f"{name}/allowed")
    if argument.tolerance is not None:
        rtol, atol = argument.tolerance
        allowed = atol + rtol * numpy.abs(expected.astype(numpy.float64))
    elif allowed is not None:
        allowed = numpy.broadcast_to(allowed, expected.shape)
    if f"{name}/at" in data:
        positions = data[f"{name}/at"]
        compared = comparing.compare(found[positions], expected, argument.dtype, allowed)
        wrong = compared.first_wrong
        return compared if wrong is None else replace(
            compared, first_wrong=replace(wrong, position=int(positions[wrong.position]))
        )  # fmt: skip
    where = data.get(f"{name}/where", slice(None))
    return comparing.compare(found[where], expected[where], argument.dtype, None if allowed is None else allowed[where])


def memory_of(kernel: KernelEntry, argument: Argument, data: Mapping[str, Array], sizes: Mapping[str, int]) -> Any:
    """The data of an argument, otherwise random small integers."""
    name = f"{kernel.entry}/{argument.name}"
    if name in data:
        return data[name]
    dtype = numpy.dtype(comparing.STORED[argument.dtype])
    if argument.kind == "scalar":
        return dtype.type(1)
    if argument.elements is None:
        raise UsageError(f"{argument.name} of {kernel.entry}: the manifest does not give its number of elements")
    if f"{name}/seed" in data:
        return drawn(argument.dtype, evaluate(argument.elements, sizes), int(data[f"{name}/seed"]))
    if f"{name}/fill" in data:
        return numpy.full(evaluate(argument.elements, sizes), data[f"{name}/fill"], dtype)
    return numpy.random.default_rng(0).integers(0, 100, evaluate(argument.elements, sizes)).astype(dtype)


def drawn(dtype: str, elements: int, seed: int) -> Array:
    """Random numbers as memory holds them: the bits follow from the seed alone, whatever the version of NumPy.

    Integers are 0 to 15; floats are eighths from -1 to 7/8, which every float type of 16 bits or more holds exactly.

    >>> drawn("f32", 4, 1), drawn("bf16", 4, 1)
    (array([-1.   ,  0.125, -1.   , -1.   ], dtype=float32), array([49024, 15872, 49024, 49024], dtype=uint16))
    """
    stored = numpy.dtype(comparing.STORED[dtype])
    words = numpy.arange(elements, dtype=numpy.uint32)
    words += numpy.uint32((seed * 0x9E3779B9) % 2**32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):  # C. Wellons, "lowbias32", a bijection of words
        words ^= words >> numpy.uint32(shift)
        words *= numpy.uint32(factor)
    digits = (words >> numpy.uint32(28)).astype(numpy.int8)
    if dtype not in comparing.FLOATS:
        return digits.astype(stored)
    eighths = (digits - 8).astype(numpy.float32) / 8
    if dtype == "bf16":
        return (eighths.view(numpy.uint32) >> numpy.uint32(16)).astype(stored)
    if comparing.is_f8(dtype):
        from lego_mlir.runtime import f8

        table = numpy.array([f8.encode(float(n - 8) / 8, dtype) for n in range(16)], stored)
        return table[digits]
    return eighths.astype(stored)
