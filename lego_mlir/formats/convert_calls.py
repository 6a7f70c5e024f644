"""`lego.convert`: an array of one format or layout as one of another; a spread value of a kernel in another layout.

    y = lego.convert(x, source=Row(2, F, K), to=OrderBy(RegP([2, F, K], [2, 1, 3])).GroupBy([2, F, K]))
    y = lego.convert(x, source="hf.linear", to="aiter.16x16", rows=N, columns=K)
    buffers = lego.convert({"qweight": .., "scales": .., "qzeros": ..}, source="awq", to="vllm.marlin", rows=N,
    columns=K)

>>> import numpy as np
>>> from lego_mlir import Col, Row
>>> convert(np.arange(6, dtype=np.float32), source=Row(2, 3), to=Col(2, 3)).tolist()
[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
"""

from __future__ import annotations

from collections.abc import Mapping

from lego_mlir.aliases import AnyArray, Array
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.formats.catalog import format_named
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.regular import field_of
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import BITS
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import SizeLike, unflatten
from lego_mlir.layout.chain import as_layout
from lego_mlir.layout.enumeration_limit import BLOCK

Given = str | StorageFormat | Layout
"""What names a format: an entry of the catalogue, a format, or a layout of one array."""


def convert(
    value: AnyArray, to: AnyArray = None, source: Given | None = None, in_place: bool = False, **sizes: SizeLike
) -> AnyArray:
    """`value`, an array or the buffers of a format by name, of the format `source`, in the format `to`.

    Formats are names of `lego.formats.FORMATS` with their sizes as keywords, formats, or layouts. One buffer is an
    array, several are a dictionary. NumPy arrays are converted by the processor, arrays on a CUDA device by one
    kernel, or three for a cast. `in_place` writes a single contiguous array over itself. Inside a kernel, `convert(x,
    layout)` moves a spread value. Raises LayoutError for formats that cannot be converted, UsageError for buffers that
    do not fit.
    """
    if source is None:
        from lego_mlir.tracing.spread.conversion import convert as convert_spread

        return convert_spread(value, to)
    if isinstance(source, Layout) and isinstance(to, Layout):
        irregular = _irregular(value, source, to)
        if irregular is not None:
            return irregular
    plan = Conversion(format_of(source, sizes, value), format_of(to, sizes, value))
    buffers = value if isinstance(value, Mapping) else {next(iter(plan.source.buffers)): value}
    on_device = _on_device(next(iter(buffers.values())))
    if in_place and on_device:
        from lego_mlir.formats.device_moves import run_in_place_on_device

        run_in_place_on_device(plan, value)
        return value
    if in_place:
        plan.run_in_place(value)
        return value
    if on_device:
        from lego_mlir.formats.device_moves import run_on_device

        found = run_on_device(plan, buffers)
    else:
        found = plan.run(buffers)
    if len(found) > 1:
        return found
    (only,) = found.values()
    return only.view(value.dtype) if isinstance(to, Layout) else only


def format_of(given: object, sizes: Mapping[str, SizeLike], like: AnyArray = None) -> StorageFormat:
    """The format of a name with its sizes, or of a layout; `like` is an array of the layout's element type."""
    if isinstance(given, str):
        entry = format_named(given)
        return entry(**{name: n for name, n in sizes.items() if name in entry.parameters})
    if isinstance(given, StorageFormat):
        return given
    layout = as_layout(given)
    width = 8 * like.dtype.itemsize if like is not None else 0
    dtype = next((name for name, bits in BITS.items() if bits == width), "")
    field = field_of(layout, dtype) if dtype else None
    if field is None:
        raise LayoutError(f"{layout!r} is no chain of regular permutations; convert it to and from another layout")
    return StorageFormat(repr(layout), [field], {"data": (dtype, (layout.physical_size(),))})


def _irregular(value: AnyArray, source: Layout, target: Layout) -> Array | None:
    """The array by positions, block by block, where a layout is not regular; None where both are."""
    import numpy as np

    source, target = as_layout(source), as_layout(target)
    if field_of(source, "u8") is not None and field_of(target, "u8") is not None:
        return None
    if not isinstance(value, np.ndarray):
        raise UsageError("a layout with a general permutation is converted on the processor; pass a NumPy array")
    if source.dims() != target.dims():
        raise LayoutError(f"{source!r} and {target!r} have other logical sizes")
    dims = [int(n) for n in source.dims()]
    given, elements = value.reshape(-1), int(np.prod(dims))
    if given.size != source.physical_size():
        raise UsageError(f"{source!r} has {source.physical_size()} positions, and the array {given.size} elements")
    found = np.zeros(int(target.physical_size()), value.dtype)
    for start in range(0, elements, BLOCK):
        index = unflatten(np.arange(start, min(start + BLOCK, elements)), dims)
        inside = np.broadcast_to(target.mask(*index), index[0].shape) & np.broadcast_to(
            source.mask(*index), index[0].shape
        )
        index = tuple(i[inside] for i in index)
        found[target.apply(*index)] = given[source.apply(*index)]
    return found


def _on_device(array: AnyArray) -> bool:
    from lego_mlir.runtime.arrays import CPU, library_of

    library = library_of(array)
    if library is None:
        raise UsageError(f"lego.convert takes arrays of NumPy, PyTorch, CuPy or JAX, not {type(array).__name__}")
    return bool(library.facts(array).device != CPU)
