"""`show`: the picture of a layout, an access, a proof or a report, chosen by what it is given.

>>> from lego_mlir import Row, gallery
>>> print(show(Row(2, 4), by="bank", dtype="f64").text())
Row(2, 4)
     0   1   2   3
0    0   2   4   6
1    8  10  12  14
bank of each element of 8 bytes
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from lego_mlir.aliases import Drawable
from lego_mlir.analysis.layouts import GlobalAccess, SharedAccess
from lego_mlir.analysis.patterns import AccessPattern, require_width
from lego_mlir.analysis.patterns import parse as parse_access
from lego_mlir.caches.space_time import SpaceTime
from lego_mlir.errors import RefutedLayoutError, UsageError, did_you_mean
from lego_mlir.expr.simplify import Derivation
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.interp.report import Report
from lego_mlir.layout.base import Layout
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.viz.panels import Panel
from lego_mlir.viz.picture import Picture
from lego_mlir.viz.views import (
    cache_contents,
    counter_examples,
    element_positions,
    kernel_runs,
    repairs,
    thread_maps,
    threads,
    warp_request,
)
from lego_mlir.viz.views.kernel_runs import SampleRun
from lego_mlir.viz.views.subjects import has_positions, subject_of

POSITIONS: Final = ("position", "order", "bank", "sector")
OF_KERNELS: Final = ("access", "request", "time", "thread", "repair", "stage")
VIEWS: Final = (*POSITIONS, "wavefront", "matrix", "derivation", *OF_KERNELS)


def show(
    *subjects: Drawable,
    by: str | None = None,
    access: str | AccessPattern | None = None,
    free: dict[str, int] | None = None,
    width: int = 1,
    dtype: str = "f32",
    line: int | None = None,
    sizes: Mapping[str, int] | None = None,
    script: str | None = None,
) -> Picture:
    """Draw one or several subjects side by side.

    A subject is a layout of any algebra (a bijection with concrete sizes, a `CuteLayout`, an F2 `LinearLayout`), an
    encoding of `f2` (its own tile), a fragment by name, a value spread over threads in a kernel that is traced, a
    derivation, a verdict, the error of a refuted layout, a kernel, a report of the interpreter, the counts of an access
    (`analysis.layouts`), or the contents of caches (`caches.space_time`). `by` chooses what is drawn:

    - "position" (default), "order" (with the path through memory), "bank", "sector": a property of each element;
    - "wavefront" (default with `access`): the lanes of a warp in the tile and in the banks, coloured by wavefront;
    - "repair": the same before and after the cheapest repair, with costs; for a kernel, the tiles that `line` accesses,
      or every tile with bank conflicts;
    - "thread" (default for a layout of registers, lanes and warps), "matrix": for linear layouts, encodings of `f2`,
      and fragments of instructions by PTX's name, such as "mma.m16n8k16.f16 A" (`f2.fragment`); "thread" for a kernel:
      the threads that access each element of a tile at `line`;
    - "derivation": the rules that simplified a layout's index;
    - "request" (default for a kernel with `line`): the worst request of the line, run on drawn input at `sizes`;
      "time": the first requests of one warp there, with the sectors that each fetches; "access" (default for a kernel):
      each access with its derived position; "stage": the stages from its MLIR to PTX, by a transform `script` if given.

    A storage format (`lego.formats`) is drawn by its buffers: the element of each of their first bytes.

    `access` is the logical index of each lane, such as "lane, 0", with `width` elements of `dtype` a lane; `free` gives
    the extent of its other variables. Raises UsageError, with the remedy, for what cannot be drawn.
    """
    if not subjects:
        raise UsageError("show needs something to draw: a layout, a derivation, or the error of a refuted layout")
    if by is not None and by not in VIEWS:
        raise UsageError(
            f"by={by!r} is not a view{did_you_mean(str(by), VIEWS) or '; choose one of ' + ', '.join(VIEWS)}"
        )
    if line is not None and not isinstance(line, int):
        raise UsageError(f"line is the number of a line of the spec, not {line!r}")
    pattern = _pattern(access, free, width, dtype)
    panels: list[Panel] = []
    for subject in subjects:
        if isinstance(subject, Kernel):
            panels += panels_of_kernel(SampleRun(subject, sizes or {}), by, line, script)
        else:
            panels += _panels(subject, by, pattern, width, ELEMENT_BYTES[dtype])
    return Picture(panels[0].title if len(subjects) == 1 else f"{len(subjects)} pictures", tuple(panels))


def _pattern(
    access: str | AccessPattern | None, free: dict[str, int] | None, width: int, dtype: str
) -> AccessPattern | None:
    """The access that `show` is given. Raises UsageError for one that no lane can make."""
    if dtype not in ELEMENT_BYTES:
        raise UsageError(f"dtype {dtype!r} is unknown{did_you_mean(str(dtype), ELEMENT_BYTES)}")
    if not isinstance(width, int) or width < 1:
        raise UsageError(f"width is the number of elements of a lane, at least 1, not {width!r}")
    pattern = parse_access(access, free) if isinstance(access, str) else access
    if pattern is not None and not isinstance(pattern, AccessPattern):
        raise UsageError(f"access is text, such as 'lane, 0', or an AccessPattern, not {access!r}")
    if pattern is not None:
        require_width(width, dtype)
    return pattern


def panels_of_kernel(run: SampleRun, by: str | None, line: int | None, script: str | None = None) -> list[Panel]:
    """The views of a kernel; those of its requests run some blocks."""
    kernel = run.kernel
    chosen = by or ("access" if line is None else "request")
    if chosen not in OF_KERNELS:
        raise UsageError(f"by={by!r} is for layouts; a kernel is drawn by {', '.join(OF_KERNELS)}")
    if chosen == "stage":
        return [kernel_runs.stages_table(kernel, script=script)]
    if chosen == "access":
        return [kernel_runs.accesses_table(kernel)]
    if chosen == "repair":
        return kernel_runs.repairs_of(run, line)
    if line is None:
        raise UsageError(f"by={by!r} needs line=N, a line of the spec that loads or stores")
    if chosen == "thread":
        return list(thread_maps.of_kernel(kernel, run.sizes, line))
    grids = kernel_runs.requests_of(run, line, chosen)
    if not grids:
        raise UsageError(f"line {line} has no such access in kernel {kernel.name}; lego-mlir analyze lists the lines")
    return list(grids)


def _panels(
    drawn: Drawable, by: str | None, pattern: AccessPattern | None, width: int, element_bytes: int
) -> list[Panel]:
    if isinstance(drawn, RefutedLayoutError):
        return list(counter_examples.collision(drawn))
    if isinstance(drawn, Report):
        return [kernel_runs.report_table(drawn)]
    if isinstance(drawn, (SharedAccess, GlobalAccess)):
        return [warp_request.counts_table(drawn)]
    formats = sys.modules.get("lego_mlir.formats.storage_format")
    if formats is not None and isinstance(drawn, formats.StorageFormat):
        from lego_mlir.viz.views.format_buffers import panels

        return list(panels(drawn))
    if isinstance(drawn, SpaceTime):
        return [cache_contents.contents(drawn)]
    if isinstance(drawn, (Proved, Refuted, Unknown)):
        return [counter_examples.verdict_table(drawn)]
    if isinstance(drawn, Derivation):
        return [counter_examples.derivation(f"{drawn.before} -> {drawn.after} operations", drawn)]
    spread = threads.spread_over_threads(drawn)
    if spread is not None and by in (None, "thread", "matrix") and pattern is None:
        if by == "matrix":
            return list(threads.matrix(spread.layout))
        if by == "thread" or "lane" in spread.layout.in_sizes or "register" in spread.layout.in_sizes:
            return list(threads.holders(spread.layout, spread.title, *spread.notes))
        if not has_positions(spread.layout):
            return list(threads.matrix(spread.layout))
    if by in OF_KERNELS and by not in ("repair", "thread"):
        raise UsageError(f"by={by!r} is for kernels; {drawn!r} is none")
    if by in ("thread", "matrix"):
        raise UsageError(f"by={by!r} is for linear layouts; convert with f2.from_layout, or choose by='position'")
    if by == "derivation":
        if not isinstance(drawn, Layout):
            raise UsageError("by='derivation' is for layouts, whose index is simplified")
        return [counter_examples.derivation(repr(drawn), drawn.derive())]
    return _of_positions(drawn, by, pattern, width, element_bytes)


def _of_positions(
    drawn: Drawable, by: str | None, pattern: AccessPattern | None, width: int, element_bytes: int
) -> list[Panel]:
    subject = subject_of(drawn)
    if by in ("wavefront", "repair") or (by is None and pattern is not None):
        if pattern is None:
            raise UsageError(f"by={by!r} needs an access, such as access='lane, 0': the index of each lane of a warp")
        if not isinstance(drawn, Layout):
            raise UsageError("an access is drawn on a bijection; convert with f2.to_layout or cute.to_layout")
        if by == "repair":
            return repairs.before_and_after(drawn, pattern, element_bytes, width)
        return list(warp_request.request(drawn, subject, pattern, element_bytes, width))
    chosen = by or "position"
    return [element_positions.grid(subject, chosen, element_bytes)]  # type: ignore[arg-type]  # one of POSITIONS
