"""Safetensors files: the header read and checked, the data mapped into memory, new files written in place.

A file is the length of its header (8 bytes, little-endian), the header in JSON (for each tensor dtype, shape and
offsets), and the data. Mapped pages are given back to the system as a conversion proceeds (`release`), so the memory of
a process does not grow with the file. Source: the format's description in the safetensors repository.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError
from lego_mlir.formats.stored_fields import BITS
from lego_mlir.store import from_json

TYPES: Final = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "e4m3", "F8_E5M2": "e5m2", "F8_E8M0": "e8m0",
    "I32": "i32", "I16": "i16", "I8": "i8", "U8": "u8",
}  # fmt: skip
"""Element types of files, as formats name them."""
OTHER_BYTES: Final = {"I64": 8, "U64": 8, "U32": 4, "U16": 2, "BOOL": 1}
"""Types that are copied and never converted."""
LENGTH_BYTES: Final = 8
DATA_ALIGNED: Final = 64
"""Bytes at which the data of a new file begins, so that whole vectors can be stored."""
MOST_HEADER: Final = 100 * 2**20  # the limit of the safetensors library


@dataclass(frozen=True, slots=True)
class FileTensor:
    """One tensor of a file: type, shape, and its bytes from `start` of the data on."""

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def bytes(self) -> int:
        """The bytes of the data."""
        size = OTHER_BYTES[self.dtype] if self.dtype in OTHER_BYTES else BITS[TYPES[self.dtype]] // 8
        return size * prod(self.shape)


def file_type(dtype: str) -> str:
    """The file's name of a stored element type; words and codes below a byte are integers."""
    return next(name for name, own in TYPES.items() if own == dtype)


class TensorFile:
    """A mapped safetensors file. Raises UsageError for a file that is none, or whose header does not fit its data."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        self.path = path
        try:
            with path.open("rb+" if writable else "rb") as file:
                self.tensors, self.metadata, self.data_start = _header(path, file.read(LENGTH_BYTES), file.read)
                access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
                self._map = mmap.mmap(file.fileno(), 0, access=access)
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}); name a .safetensors file") from error
        end = self.data_start + max((t.start + t.bytes for t in self.tensors.values()), default=0)
        if end > len(self._map):
            raise UsageError(f"{path} has {len(self._map)} bytes and its header needs {end}; the file is cut short")

    def data(self, name: str) -> Array:
        """The bytes of a tensor, in the mapped file."""
        import numpy as np

        tensor = self.tensors[name]
        return np.frombuffer(self._map, np.uint8, tensor.bytes, self.data_start + tensor.start)

    def release(self) -> None:
        """Give mapped pages back to the system; written ones stay in its cache until it writes them to disk."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        del kind, error, tb  # arrays may still refer to the map, which is unmapped with the last of them


def _header(
    path: Path, length: bytes, more: Callable[[int], bytes]
) -> tuple[dict[str, FileTensor], dict[str, str], int]:
    size = int.from_bytes(length, "little")
    if len(length) < LENGTH_BYTES or not 2 <= size <= MOST_HEADER:
        raise UsageError(f"{path} is no safetensors file: it does not begin with the length of a header")
    try:
        found = from_json(more(size))
        metadata = found.pop("__metadata__", {})
        entries = {name: (e["dtype"], tuple(e["shape"]), *e["data_offsets"]) for name, e in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no safetensors file: its header is not the JSON of one ({error})") from error
    tensors = {}
    for name, (dtype, shape, start, end) in entries.items():
        if dtype not in TYPES and dtype not in OTHER_BYTES:
            raise UsageError(
                f"{path}: tensor {name} has the type {dtype}; known are {', '.join((*TYPES, *OTHER_BYTES))}"
            )
        tensors[name] = FileTensor(dtype, shape, start)
        if tensors[name].bytes != end - start or start < 0:
            raise UsageError(
                f"{path}: tensor {name} is {dtype}{list(shape)}, {tensors[name].bytes} bytes, at {start}..{end}"
            )
    return tensors, metadata, LENGTH_BYTES + size


def create(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]) -> TensorFile:
    """A file of zeros with these tensors (file type and shape), mapped for writing."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for name, (dtype, shape) in tensors.items():
        end = start + FileTensor(dtype, shape, start).bytes
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % DATA_ALIGNED)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        file.truncate(LENGTH_BYTES + len(text) + start)
    return TensorFile(path, writable=True)
