"""Answers to the page: a layout as text, an access, and their positions, counts and repair.

The index expression is a question of its own kind, since simplifying it can take longer than drawing the layout. A
question is untrusted text: layouts and accesses are parsed, never evaluated, and sizes are limited before any work.

>>> found = answer({"layout": "Row(4, 32)", "access": "0, lane", "width": 1, "dtype": "f32"})
>>> found["access"]["wavefronts"], found["positions"][1][:3]
(1, [32, 33, 34])
>>> answer({"part": "index", "layout": "Row(4, 32)"})
{'text': '32*i0 + i1', 'operations': 2, 'before': 2}
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from lego_mlir.aliases import Json
from lego_mlir.analysis import layouts as counts
from lego_mlir.analysis.patterns import AccessPattern, parse, positions, require_inside, require_width
from lego_mlir.analysis.repair import TileAccess, repairs
from lego_mlir.errors import LegoError, UsageError, did_you_mean
from lego_mlir.expr.explain import lines_of
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.layout.base import Layout
from lego_mlir.layout.notation_parser import parse_layout
from lego_mlir.viz.views.element_positions import tiles
from lego_mlir.viz.views.subjects import Subject, subject_of
from lego_mlir.viz.views.warp_request import WarpRequest, wavefront_of

LONGEST: Final = 2_000
"""Characters of a layout's or an access's text."""
MOST_ELEMENTS: Final = 1 << 26
MOST_REPAIRED: Final = 1 << 14
"""Elements of a tile for which repairs are searched: shared memory holds no more f32 than about this."""
WIDEST: Final = 16
KEYS: Final = ("part", "layout", "access", "width", "dtype")


def answer(question: Json) -> Json:
    """The drawing, or with `part` "index" the expression; `{"error": message}` for a question with a fault."""
    try:
        text, access, width, dtype = _checked(question)
        layout = parse_layout(text)
        if question.get("part") == "index":
            derived = layout.derive()
            return {"text": "\n".join(lines_of(derived.expr)), "operations": derived.after, "before": derived.before}
        subject = subject_of(layout)
        if (elements := math.prod(subject.dims)) > MOST_ELEMENTS:
            raise UsageError(f"a layout of {elements} indices is too large to explore; at most {MOST_ELEMENTS}")
        found = drawn(layout, subject)
        found["bytes"] = ELEMENT_BYTES[dtype]
        found["access"] = _request(layout, subject, access, width, ELEMENT_BYTES[dtype]) if access else None
    except LegoError as error:
        return {"error": str(error)}
    return found


def _checked(question: Json) -> tuple[str, str, int, str]:
    unknown = sorted(set(question) - set(KEYS))
    if unknown:
        raise UsageError(f"unknown key {unknown[0]!r}{did_you_mean(unknown[0], KEYS)}")
    text, access = question.get("layout", ""), question.get("access", "")
    width, dtype = question.get("width", 1), question.get("dtype", "f32")
    if question.get("part", "drawing") not in ("drawing", "index"):
        raise UsageError("part is 'drawing' or 'index'")
    for name, value in (("layout", text), ("access", access)):
        if not isinstance(value, str) or len(value) > LONGEST:
            raise UsageError(f"{name} must be text of at most {LONGEST} characters")
    if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= WIDEST:
        raise UsageError(f"width must be a number of elements, 1 to {WIDEST}")
    if not isinstance(dtype, str) or dtype not in ELEMENT_BYTES:
        raise UsageError(f"dtype {dtype!r} is unknown{did_you_mean(str(dtype), ELEMENT_BYTES)}")
    if access.strip():
        require_width(width, dtype)
    return text, access.strip(), width, dtype


def drawn(layout: Layout, subject: Subject) -> Json:
    """The drawn positions, the block that each represents, and the borders of contiguous tiles."""
    place, block = subject.sample()
    return {
        "layout": repr(layout),
        "dims": list(subject.dims),
        "block": list(block),
        "positions": place.tolist(),
        "borders": [list(shape) for shape in tiles(place)] if block == (1, 1) else [],
    }


def _request(layout: Layout, subject: Subject, access: str, width: int, element_bytes: int) -> Json:
    """The first warp of the access, and the counts of all; a message where the access does not fit the layout."""
    try:
        pattern = parse(access)
        require_inside(pattern, "the layout", subject.dims, width)
    except LegoError as error:
        return {"error": str(error)}
    place = positions(layout, pattern)[0]
    bytes_ = width * element_bytes
    shared, through = (
        counts.shared(layout, pattern, element_bytes, width),
        counts.through_cache(layout, pattern, element_bytes, width),
    )
    row, column = WarpRequest.of(TileAccess.of(pattern, width), element_bytes).cells(subject.dims)
    return {
        "lanes": [
            {"row": int(r), "column": int(c), "position": int(p), "wavefront": int(w)}
            for r, c, p, w in zip(row, column, place, wavefront_of(place * element_bytes, bytes_), strict=True)
        ],
        "width": width,
        "colliding": list(shared.lanes),
        "wavefronts": shared.wavefronts,
        "ideal": shared.ideal,
        "ways": shared.ways,
        "by": shared.by,
        "sectors": through.sectors,
        "idealSectors": through.ideal,
        "repair": _repair(layout, subject, pattern, element_bytes, width) if shared.conflicts else None,
    }


def _repair(layout: Layout, subject: Subject, pattern: AccessPattern, element_bytes: int, width: int) -> Json | None:
    if int(np.prod(subject.dims)) > MOST_REPAIRED:
        return None
    found = repairs(subject.dims, [TileAccess.of(pattern, width)], element_bytes)
    return found[0].to_dict() if found else None
