"""Run a recorded launch again in the emulator: under other seeds, or with an edited text, as mutants have.

>>> import numpy as np
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
>>> report, (after,) = replayed(kept[0])
>>> report.clean, after.view(np.int32)[:4].tolist()
(True, [0, 2, 4, 6])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx.address_spaces import GlobalMemory, RecordedBuffer
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions, PtxArgument, emulate
from lego_mlir.interp.ptx.ptx_reader import read_ptx

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.recorded_launches import BoundValue, RecordedLaunch
    from lego_mlir.interp.report import Report


@dataclass(slots=True)
class PlacedRecording:
    """A bound argument that first places all arrays, in the order of the recording."""

    value: BoundValue
    buffers: Sequence[RecordedBuffer]
    unwritten: Sequence[tuple[int, int]]
    arrays: list[Array]

    def bind(self, memory: GlobalMemory, name: str) -> BoundValue:
        """The value, as it was: equal sizes in equal order have equal addresses."""
        for buffer in self.buffers:
            array = np.frombuffer(bytearray(buffer.contents), np.uint8)
            self.arrays.append(array)
            placed = memory.add(buffer.name, buffer.contents, array, buffer.item)
            if placed.address != buffer.address:
                raise InterpreterError(f"{buffer.name}: the text has other variables than when it was recorded")
        memory.unwritten.extend(self.unwritten)
        return self.value


def replayed(
    launch: RecordedLaunch, *, text: str | None = None, options: EmulatorOptions | None = None
) -> tuple[Report, list[Array]]:
    """The report, and the bytes of each buffer after the launch.

    `text` is instead of the recorded one; `options` have the recorded checks where they are left out.
    """
    arrays: list[Array] = []
    values: list[PtxArgument] = list(launch.values)
    if values:
        values[0] = PlacedRecording(values[0], launch.buffers, launch.unwritten, arrays)
    report = emulate(
        read_ptx(launch.text if text is None else text, launch.source), launch.entry, args=values, grid=launch.grid,
        block=launch.block, cluster=launch.cluster, dynamic_shared=launch.dynamic_shared, names=launch.names,
        options=EmulatorOptions(checks=launch.checks) if options is None else options,
    )  # fmt: skip
    return report, arrays
