"""A launch as data: the PTX text, the contents of all buffers and the bound arguments, to run again anywhere.

A recording needs neither the compiler nor the tensors that the launch came from. It is run again with other orders of
warps, with an edited text (mutants of the synchronisation), or on a GPU (`on_device`), where pointers are translated.

>>> import io
>>> from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions, emulate
>>> ptx = '''.version 8.0
... .target sm_80
... .address_size 64
... .visible .entry double_all(.param .u64 p)
... .maxntid 32, 1, 1
... { .reg .b32 %r<4>; .reg .b64 %rd<4>;
...   ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
...   ld.global.b32 %r2, [%rd3]; add.s32 %r3, %r2, %r2; st.global.b32 [%rd3], %r3; ret; }'''
>>> kept = []
>>> emulate(ptx, args=[np.arange(32, dtype=np.int32)], options=EmulatorOptions(record=kept.append)).clean
True
>>> report, (after,) = kept[0].run()
>>> report.clean, after.view(np.int32)[:4].tolist()
(True, [0, 2, 4, 6])
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.address_spaces import GLOBAL_BASE, RecordedBuffer
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.store import replace_file

if TYPE_CHECKING:
    from lego_mlir.aliases import Array
    from lego_mlir.interp.ptx.address_spaces import GlobalMemory
    from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
    from lego_mlir.interp.report import Report

Dim3 = tuple[int, int, int]


@dataclass(slots=True)
class _Placed:
    """A bound argument that first places all arrays, in the order of the recording."""

    value: Any
    buffers: Sequence[RecordedBuffer]
    unwritten: Sequence[tuple[int, int]]
    arrays: list[Array]

    def bind(self, memory: GlobalMemory, name: str) -> Any:
        """The value, as it was: equal sizes in equal order have equal addresses."""
        for buffer in self.buffers:
            array = np.frombuffer(bytearray(buffer.contents), np.uint8)
            self.arrays.append(array)
            placed = memory.add(buffer.name, buffer.contents, array, buffer.item)
            if placed.address != buffer.address:
                raise InterpreterError(f"{buffer.name}: the text has other variables than when it was recorded")
        memory.unwritten.extend(self.unwritten)
        return self.value


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
    values: tuple[Any, ...]
    names: tuple[str, ...]
    unwritten: tuple[tuple[int, int], ...]
    options: EmulatorOptions

    def run(
        self, *, text: str | None = None, options: EmulatorOptions | None = None, seed: int = 0
    ) -> tuple[Report, list[Array]]:
        """The report, and the bytes of each buffer after the launch; `text` is instead of the recorded one."""
        from lego_mlir.interp.ptx.ptx_launch import emulate

        arrays: list[Array] = []
        values: list[Any] = list(self.values)
        if values:
            values[0] = _Placed(values[0], self.buffers, self.unwritten, arrays)
        chosen = replace(self.options if options is None else options, seed=seed)
        module = read_ptx(self.text if text is None else text, self.source)
        report = emulate(
            module, self.entry, args=values, grid=self.grid, block=self.block, cluster=self.cluster,
            dynamic_shared=self.dynamic_shared, names=self.names, options=chosen,
        )  # fmt: skip
        return report, arrays

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
        """Write the recording, compressed; it is read back with `load`."""
        replace_file(path, zlib.compress(pickle.dumps(self), 6))

    @staticmethod
    def load(path: Path) -> RecordedLaunch:
        """A recording that this program has written. A file of others is not to be trusted: it is a pickle."""
        found: RecordedLaunch = pickle.loads(zlib.decompress(path.read_bytes()))
        return found


def _holds_addresses(contents: bytes) -> bool:
    words = np.frombuffer(contents[: len(contents) // 8 * 8], np.uint64)
    return bool((words >> np.uint64(40) == np.uint64(GLOBAL_BASE >> 40)).any())
