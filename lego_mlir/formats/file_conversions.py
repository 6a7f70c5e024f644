"""Conversions and comparisons of model files, part by part and in pieces of bounded memory.

The tensors of a part are cut along the rows of its fields; each piece is moved between the two mapped files, or
decoded, encoded and stored where a cast is between them. A new file is renamed into its place when it is whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, lcm, prod
from pathlib import Path
from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.formats.catalog import FORMATS, format_named
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.field_arrays import read_field, write_field
from lego_mlir.formats.field_moves import move
from lego_mlir.formats.host_moves import execute
from lego_mlir.formats.model_formats import MODELS, ModelFormat, ModelPart, model_named, sizes_of
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import PlaceDigit, StoredField
from lego_mlir.formats.tensor_files import TYPES, FileTensor, TensorFile, create, file_type
from lego_mlir.layout.canonical import unflatten
from lego_mlir.layout.values import show
from lego_mlir.store import replaced_whole

PIECE_BYTES: Final = 2**24
"""Bytes of a source that are converted at a time; a cast needs about ten times that, moves only mapped pages."""
Report = Callable[[str, int, int], None]
"""Called with the part, the bytes done and all bytes."""
Buffers = Mapping[str, Array]
Tensors = Mapping[str, list[Array]]
"""The bytes of the tensors of each buffer."""


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One part of one layer: its conversion to one matrix or format, the cast of that matrix, and the tensors.

    Tensors are by buffer, several where each expert has one; `shapes` are those of the target's.
    """

    name: str
    fused: Conversion
    cast: Conversion | None
    sources: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, tuple[str, ...]]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def target(self) -> StorageFormat:
        """The format that is written."""
        return self.fused.target if self.cast is None else self.cast.target


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """All parts of a file, and the tensors that are copied: (name there, name here)."""

    parts: tuple[PartPlan, ...]
    copied: tuple[tuple[str, str], ...]


def plan_model(
    tensors: Mapping[str, FileTensor], source: str, target: str, heads: int | None = None, groups: int | None = None
) -> ModelPlan:
    """The plan for the tensors of a file. Raises LayoutError for parts that are incomplete or do not fit."""
    mine, theirs = model_named(source), model_named(target)
    left, parts = dict(tensors), []
    for name, part in mine.parts.items():
        hits = Counter(hit for tensor in tensors if (hit := part.match(tensor)))
        if hits and name not in theirs.parts:
            raise LayoutError(f"{target} has no {name}, a part of {source}; convert to a format of the same model")
        if part == theirs.parts.get(name) and part.format == "vllm.qkv" and part.inner is None and heads is None:
            continue  # fused alike on both sides: copied, whatever the heads
        for layer in dict.fromkeys(layer for _, layer in hits):
            names = part.tensors(layer, hits[next(iter(part.buffers)), layer])
            missing = [tensor for of_buffer in names.values() for tensor in of_buffer if tensor not in tensors]
            if missing:
                raise LayoutError(f"{source}: layer {layer} has no tensor {missing[0]}, a part of {name}")
            given = {buffer: [tensors[tensor] for tensor in own] for buffer, own in names.items()}
            parts.append(_part_plan(name, mine, theirs, layer, names, given, heads, groups))
            for tensor in (tensor for own in names.values() for tensor in own):
                left.pop(tensor)
    if not parts:
        first = next(iter(next(iter(mine.parts.values())).tensors("0").values()))
        raise LayoutError(f"the file has no tensor of {source}, such as {first[0]}")
    for tensor in left:
        for other in MODELS.values():
            parts_of = [part for part in other.parts.values() if part not in mine.parts.values()]
            if any(part.match(tensor) for part in parts_of):
                raise LayoutError(
                    f"the file has {tensor}, a tensor of {other.name} and not of {source}; name its format"
                )
    return ModelPlan(tuple(parts), tuple((name, theirs.own_name(mine.common_name(name))) for name in left))


def _part_plan(
    name: str, mine: ModelFormat, theirs: ModelFormat, layer: str, names: Mapping[str, tuple[str, ...]],
    given: Mapping[str, list[FileTensor]], heads: int | None, groups: int | None,
) -> PartPlan:  # fmt: skip
    there, here = mine.parts[name], theirs.parts[name]
    tensors = [own[0] for own in given.values()]
    if there.inner is not None:
        matrix = FORMATS[there.inner](**_packed_sizes(there.inner, tensors))
        if here.inner != there.inner or here.format != there.format:
            raise LayoutError(f"{mine.name}: fused {there.inner} tensors are converted to {mine.name} only")
        same = Conversion(matrix, matrix)
        return PartPlan(name, same, None, names, here.tensors(layer), _shapes(here, matrix))
    dtype = TYPES.get(tensors[0].dtype)
    of_all = [tensor for own in given.values() for tensor in own]
    if dtype is None or any(t.dtype != tensors[0].dtype for t in of_all):
        kinds = list(dict.fromkeys(t.dtype for t in of_all))
        raise LayoutError(f"part {name} of layer {layer}: tensors of {kinds} are not converted")
    shapes = []
    for buffer, own in given.items():
        if any(t.shape != own[0].shape for t in own):
            raise LayoutError(f"part {name} of layer {layer}: experts of shapes {sorted({t.shape for t in own})}")
        shapes.append((len(own), *own[0].shape) if there.is_apart(buffer) else own[0].shape)
    sizes = sizes_of(there.format, shapes, heads, groups)
    fused = Conversion(*(format_named(part.format)(**sizes, dtype=dtype) for part in (there, here)))
    for (buffer, (_, shape)), found in zip(fused.source.buffers.items(), shapes, strict=True):
        if prod(map(int, shape)) != prod(found):
            raise LayoutError(f"{names[buffer][0]} has the shape {list(found)}, and {show(shape)} fits")
    cast = None
    if here.inner is not None:
        (only,) = fused.target.buffers.values()
        rows, columns = map(int, only[1])
        matrix = FORMATS["hf.linear"](rows=rows, columns=columns, dtype=dtype)
        cast = Conversion(matrix, FORMATS[here.inner](rows=rows, columns=columns))
    is_vector = len(shapes[0]) < len(next(iter(fused.source.buffers.values()))[1])
    written = _shapes(here, fused.target if cast is None else cast.target, is_vector)
    return PartPlan(name, fused, cast, names, here.tensors(layer, sizes.get("experts", 1)), written)


def _shapes(part: ModelPart, format_: StorageFormat, is_vector: bool = False) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of each buffer: without the columns of a vector, or the experts of single matrices."""
    found = {}
    for buffer, (_, shape) in format_.buffers.items():
        sizes = tuple(map(int, shape))
        if part.last:
            sizes = (*sizes[:-1], sizes[-1] // part.last, part.last)
        found[buffer] = sizes[1 if part.is_apart(buffer) else 0 : -1 if is_vector else len(sizes)]
    return found


def _packed_sizes(inner: str, tensors: list[FileTensor]) -> dict[str, int]:
    """Rows and columns of a packed matrix from its tensors: qweight holds 8 codes a word, scales one a group."""
    del inner
    words, scales = (prod(t.shape) for t in tensors)
    rows = tensors[1].shape[1]
    return {"rows": rows, "columns": 8 * words // rows, "group": 8 * words // scales}


def convert_file(
    source: Path, target: Path, plan: ModelPlan, report: Report | None = None, piece_bytes: int = PIECE_BYTES
) -> int:
    """Write `target` from `source`; return its bytes. The old file stays until the new one is whole."""
    with TensorFile(source) as there, replaced_whole(target) as path:
        wanted = _tensors(there, plan)
        with create(path, wanted, there.metadata) as here:
            done, total = 0, sum(t.bytes for t in there.tensors.values())
            for name, own in plan.copied:
                a, b = there.data(name), here.data(own)
                for start in range(0, a.size, piece_bytes):
                    b[start : start + piece_bytes] = a[start : start + piece_bytes]
                    done += min(piece_bytes, a.size - start)
                    _proceed(there, here, report, name, done, total)
            for part in plan.parts:
                for moved in _run_part(part, there, here, piece_bytes):
                    done += moved
                    _proceed(there, here, report, part.name, done, total)
        return path.stat().st_size


def _proceed(there: TensorFile, here: TensorFile, report: Report | None, name: str, done: int, total: int) -> None:
    there.release()
    here.release()
    if report is not None:
        report(name, done, total)


def _tensors(there: TensorFile, plan: ModelPlan) -> dict[str, tuple[str, tuple[int, ...]]]:
    found = {own: (there.tensors[name].dtype, there.tensors[name].shape) for name, own in plan.copied}
    for part in plan.parts:
        for buffer, (dtype, _) in part.target.buffers.items():
            found |= dict.fromkeys(part.targets[buffer], (file_type(dtype), part.shapes[buffer]))
    return found


def _run_part(part: PartPlan, there: TensorFile, here: TensorFile, piece_bytes: int) -> Iterator[int]:
    """Convert one part; yields the bytes of the source that each piece took."""
    given, out = _data(there, part.sources), _data(here, part.targets)
    if part.cast is None:
        for _, a, b in _field_pieces(part, piece_bytes):
            (x, _, a), (y, _, b) = _located(a, given), _located(b, out)
            execute(move(a, b), x, y)
            yield a.bits * int(prod(a.shape)) // 8
        return
    for values, fields, taken in _encoded(part, given, piece_bytes):
        for field in fields:
            write_field(field, values[field.name], out[field.buffer][0])
        yield taken


def _data(file: TensorFile, tensors: Mapping[str, tuple[str, ...]]) -> dict[str, list[Array]]:
    return {buffer: [file.data(tensor) for tensor in own] for buffer, own in tensors.items()}


def _located(field: StoredField, tensors: Tensors) -> tuple[Array, int, StoredField]:
    """The tensor that a field is in, its number in the buffer, and the field counted from there."""
    own = tensors[field.buffer]
    if len(own) == 1:
        return own[0], 0, field
    number, at = divmod(int(field.at), 8 * own[0].size)
    return own[number], number, replace(field, at=at)


def _field_pieces(part: PartPlan, piece_bytes: int) -> Iterator[tuple[tuple[int, ...], StoredField, StoredField]]:
    """Pieces of all fields on both sides, with the index of the first element; experts one by one."""
    for field in part.fused.source.fields:
        target = part.fused.target[field.name]
        for index, whole, own in _by_expert(field, target):
            row = 0
            for (a,), (b,) in _pieces([whole], [own], piece_bytes):
                yield (*index, row), a, b
                row += int(a.shape[0])


def _by_expert(field: StoredField, target: StoredField) -> Iterator[tuple[tuple[int, ...], StoredField, StoredField]]:
    if len(field.axes) < 3:
        yield (), field, target
        return
    (a,), (b,) = field.axes[0], target.axes[0]
    for expert in range(int(a.size)):
        yield (
            (expert,),
            *(
                replace(one, axes=one.axes[1:], at=int(one.at) + expert * int(digit.stride))
                for one, digit in ((field, a), (target, b))
            ),
        )  # type: ignore[misc]


def _encoded(part: PartPlan, given: Tensors, piece_bytes: int) -> Iterator[tuple[Buffers, list[StoredField], int]]:
    """The codes of each piece of rows, the fields in which they are stored, and the bytes of values that it took."""
    assert part.cast is not None, "parts without a cast are moved"
    values, codes = part.cast.source.coding, part.cast.target.coding
    assert values is not None and codes is not None, "checked by the conversion"
    row_bits = int(part.cast.source["weight"].axes[0][-1].stride)
    for field in part.fused.source.fields:
        first, count = _stacked_rows(part, field.name, row_bits), int(prod(field.shape[:-1]))
        try:
            stored_rows = [_rows_of(one, part.cast.target, first, first + count) for one in part.cast.target.fields]
        except LayoutError as error:
            raise LayoutError(f"{part.name}, rows {first}..{first + count} of {field.name}: {error}") from error
        for (a,), b in _pieces([field], stored_rows, piece_bytes):
            weight = read_field(a, given[a.buffer][0])
            yield codes.encode(values.decode({"weight": weight})), b, weight.nbytes


def _stacked_rows(part: PartPlan, name: str, row_bits: int) -> int:
    """The row of the fused matrix at which a field begins. Raises LayoutError unless its rows follow each other."""
    field, dense = part.fused.target[name], row_bits
    for digit in reversed(field.axes[0]):
        if int(digit.stride) != dense and int(digit.size) > 1:
            raise LayoutError(f"{part.fused.target.name} does not stack the rows of {name}, so they are not cast")
        dense = dense * int(digit.size)
    return int(field.at) // row_bits


def _rows_of(field: StoredField, format_: StorageFormat, first: int, last: int) -> StoredField:
    """The part of a field that belongs to rows of the matrix. Raises LayoutError where they end inside a tile."""
    rows = max(int(f.shape[0]) for f in format_.fields)
    scaled = int(field.shape[0])
    if first * scaled % rows or last * scaled % rows:
        raise LayoutError(f"they are no whole rows of {field!r}")
    return _sliced(field, first * scaled // rows, last * scaled // rows)


def _sliced(field: StoredField, low: int, high: int) -> StoredField:
    """Elements low .. high - 1 along the first axis. Raises LayoutError where they end inside a digit."""
    outer, *inner = field.axes[0]
    step = int(prod(d.size for d in inner))
    if low % step or high % step:
        raise LayoutError(f"tiles of {step} rows end inside {low}..{high}")
    axes = ((PlaceDigit((high - low) // step, outer.stride), *inner), *field.axes[1:])
    return StoredField(field.name, field.dtype, axes, int(field.at) + low // step * int(outer.stride), field.buffer)


def _pieces(
    sources: list[StoredField], targets: list[StoredField], piece_bytes: int
) -> Iterator[tuple[list[StoredField], list[StoredField]]]:
    """The fields in pieces along their first axes, which are divided alike, down to whole digits."""
    rows, every = int(sources[0].shape[0]), (*sources, *targets)
    step = 1
    for field in every:
        whole = rows * int(prod(d.size for d in field.axes[0][1:]))
        step = lcm(step, whole // gcd(whole, int(field.shape[0])))
    bits = sources[0].bits * int(prod(sources[0].shape[1:]))
    each = rows if rows % step else max(step, 8 * piece_bytes // bits // step * step)
    for low in range(0, rows, each):
        high = min(rows, low + each)
        yield tuple(
            [_sliced(f, low * int(f.shape[0]) // rows, high * int(f.shape[0]) // rows) for f in side]
            for side in (sources, targets)
        )  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two files disagree: the tensors, the element of the part, and the two values."""

    part: str
    tensors: tuple[str, str]
    index: tuple[int, ...]
    values: tuple[object, object]

    def __str__(self) -> str:
        (a, b), (there, here) = self.values, self.tensors
        return f"{self.part}{show(self.index)} is {a} in {there} and {b} in {here}"


def compare_files(
    source: Path, target: Path, plan: ModelPlan, report: Report | None = None, piece_bytes: int = PIECE_BYTES
) -> FirstDifference | None:
    """The first element in which `target` is not the conversion of `source`; None if it is.

    Raises UsageError for a tensor that the target lacks, or that has another type or shape.
    """
    with TensorFile(source) as there, TensorFile(target) as here:
        for name, (dtype, shape) in _tensors(there, plan).items():
            found = here.tensors.get(name)
            if found is None or (found.dtype, found.shape) != (dtype, shape):
                has = "no such tensor" if found is None else f"{found.dtype}{list(found.shape)}"
                raise UsageError(f"{target} needs the tensor {name}, {dtype}{list(shape)}, and has {has}")
        done, total = 0, sum(t.bytes for t in there.tensors.values())
        for name, own in plan.copied:
            for difference, compared in _compare_bytes(name, own, there, here, piece_bytes):
                if difference is not None:
                    return difference
                done += compared
                _proceed(there, here, report, name, done, total)
        for part in plan.parts:
            for difference, compared in _compare_part(part, there, here, piece_bytes):
                if difference is not None:
                    return difference
                done += compared
                _proceed(there, here, report, part.name, done, total)
    return None


def _compare_bytes(
    name: str, own: str, there: TensorFile, here: TensorFile, piece_bytes: int
) -> Iterator[tuple[FirstDifference | None, int]]:
    a, b = there.data(name), here.data(own)
    for start in range(0, a.size, piece_bytes):
        wrong = np.flatnonzero(a[start : start + piece_bytes] != b[start : start + piece_bytes])
        if wrong.size:
            byte, tensor = start + int(wrong[0]), there.tensors[name]
            index = tuple(map(int, unflatten(byte // (tensor.bytes // prod(tensor.shape)), tensor.shape or (1,))))
            yield FirstDifference(name, (name, own), index, (f"byte {int(a[byte])}", f"byte {int(b[byte])}")), 0
        yield None, min(piece_bytes, a.size - start)


def _compare_part(
    part: PartPlan, there: TensorFile, here: TensorFile, piece_bytes: int
) -> Iterator[tuple[FirstDifference | None, int]]:
    given, out = _data(there, part.sources), _data(here, part.targets)
    if part.cast is not None:
        row = 0
        for values, fields, taken in _encoded(part, given, piece_bytes):
            for field in fields:
                tensors = (next(iter(part.sources.values()))[0], part.targets[field.buffer][0])
                found = read_field(field, out[field.buffer][0])
                yield _first(f"{part.name}.{field.name}", tensors, values[field.name], found, (row,)), 0
            row += int(fields[0].shape[0])
            yield None, taken
        return
    for index, a, b in _field_pieces(part, piece_bytes):
        (x, first, a), (y, second, b) = _located(a, given), _located(b, out)
        tensors, mine = (part.sources[a.buffer][first], part.targets[b.buffer][second]), read_field(a, x)
        yield _first(a.name, tensors, mine, read_field(b, y), index), mine.nbytes


def _first(name: str, tensors: tuple[str, str], a: Array, b: Array, index: tuple[int, ...]) -> FirstDifference | None:
    """The first difference of two pieces, whose first element has this index."""
    bits = f"u{a.itemsize}"
    wrong = np.flatnonzero(np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits))
    if not wrong.size:
        return None
    at = tuple(map(int, np.unravel_index(int(wrong[0]), a.shape)))
    return FirstDifference(name, tensors, (*index[:-1], at[0] + index[-1], *at[1:]), (a[at], b[at]))
