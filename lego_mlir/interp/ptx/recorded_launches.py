"""A launch as data: the PTX text, the contents of all buffers and the bound arguments, to run again anywhere.

A recording needs neither the compiler nor the tensors that the launch came from. It is run again by `replays`, or on a
GPU (`on_device`), where pointers are translated.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.address_spaces import GLOBAL_BASE, RecordedBuffer
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.store import replace_file

Dim3 = tuple[int, int, int]
BoundValue = int | float | bytes
"""A number, a pointer as a number, or the bytes of a struct or tensor map."""


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """A launch; `values` are the arguments with the emulator's addresses in the place of pointers."""

    text: str
    source: str
    entry: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared: int
    buffers: tuple[RecordedBuffer, ...]
    values: tuple[BoundValue, ...]
    names: tuple[str, ...]
    unwritten: tuple[tuple[int, int], ...]
    checks: Checks

    def on_device(self, addresses: Sequence[int]) -> list[int | float | bytes]:
        """The arguments for a device where the buffers lie at these addresses.

        Raises InterpreterError where a buffer or a struct holds addresses, which are not translated.
        """
        found: list[int | float | bytes] = []
        for value in self.values:
            if isinstance(value, bytes) or any(_holds_addresses(b.contents) for b in self.buffers):
                raise InterpreterError(f"{self.entry}: a struct, tensor map or table of pointers")
            at = next((i for i, b in enumerate(self.buffers) if 0 <= value - b.address <= len(b.contents)), None)
            found.append(value if at is None else addresses[at] + int(value) - self.buffers[at].address)
        return found

    def save(self, path: Path) -> None:
        """Write the recording as an `.npz`: `launch` is JSON, `buffer0` and so on are the contents."""
        head = {
            "entry": self.entry, "source": self.source, "grid": self.grid, "block": self.block,
            "cluster": self.cluster, "dynamic_shared": self.dynamic_shared, "names": self.names,
            "unwritten": self.unwritten, "checks": asdict(self.checks),
            "values": [{"bytes": v.hex()} if isinstance(v, bytes) else getattr(v, "tolist", lambda v=v: v)() for v in
                       self.values],
            "buffers": [(b.name, b.address, b.item) for b in self.buffers],
        }  # fmt: skip
        arrays = {f"buffer{i}": np.frombuffer(b.contents, np.uint8) for i, b in enumerate(self.buffers)}
        body = io.BytesIO()
        np.savez_compressed(body, launch=json.dumps(head), text=self.text, allow_pickle=False, **arrays)
        replace_file(path, body.getvalue())

    @staticmethod
    def load(path: Path) -> RecordedLaunch:
        """What `save` has written. Raises InterpreterError for another file."""
        try:
            with np.load(path) as data:
                head, text = json.loads(str(data["launch"])), str(data["text"])
                contents = [data[f"buffer{i}"].tobytes() for i in range(len(head["buffers"]))]
        except (ValueError, KeyError, OSError) as error:
            raise InterpreterError(f"{path}: no recorded launch: {error}") from error
        buffers = tuple(
            RecordedBuffer(name, address, held, item)
            for (name, address, item), held in zip(head["buffers"], contents, strict=True)
        )
        values = tuple(bytes.fromhex(v["bytes"]) if isinstance(v, dict) else v for v in head["values"])
        grid, block, cluster = (tuple(head[name]) for name in ("grid", "block", "cluster"))
        return RecordedLaunch(
            text, head["source"], head["entry"], grid, block, cluster, head["dynamic_shared"], buffers, values,
            tuple(head["names"]), tuple((first, end) for first, end in head["unwritten"]), Checks(**head["checks"]),
        )  # fmt: skip


def _holds_addresses(contents: bytes) -> bool:
    words = np.frombuffer(contents[: len(contents) // 8 * 8], np.uint64)
    return bool((words >> np.uint64(40) == np.uint64(GLOBAL_BASE >> 40)).any())
