"""Line plots of results as SVG, with nothing but text: one line a contestant over the sizes.

>>> picture = lines("of the copy", ["1024", "2048"], {"ours": [0.9, 0.97], "torch": [0.8, None]})
>>> picture.count("<polyline"), picture.count("<circle")
(2, 3)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 40, 150, 24, 40
COLOURS = (
    "#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#c77d0a", "#4d4d4d", "#11a0a0", "#a03f11", "#6b8e23", "#b0308f",
    "#000000", "#b8a000",
)  # fmt: skip
ROUND = (1, 2, 2.5, 5, 10)  # what a step between two lines of the grid is, times a power of ten
MOST_STEPS = 6


def lines(label: str, sizes: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """An SVG of each series over the sizes, from 0 to the line of the grid over the largest value; None is left out."""
    largest = max((v for values in series.values() for v in values if v is not None), default=1.0)
    step = step_of(largest)
    count = max(1, math.ceil(largest / step))
    top = count * step
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(place: int) -> float:
        return LEFT + across * (place + 0.5) / len(sizes)

    def y(value: float) -> float:
        return TOP + up * (1 - value / top)

    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    parts += [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', _text(LEFT, TOP - 10, label)]
    for value in (number * step for number in range(count + 1)):
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + across}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:.4g}", "end"))
    parts += [_text(x(i), HEIGHT - BOTTOM + 18, size, "middle") for i, size in enumerate(sizes)]
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(i), y(v)) for i, v in enumerate(values) if v is not None]
        joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        parts.append(_text(LEFT + across + 10, TOP + 14 * (number + 1), name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def step_of(largest: float) -> float:
    """A round number that fits into the largest value at most MOST_STEPS times.

    >>> step_of(1.14), step_of(4.99), step_of(13.0)
    (0.2, 1.0, 2.5)
    """
    power = 10.0 ** math.floor(math.log10(largest / MOST_STEPS))
    return next(power * r for r in ROUND if power * r * MOST_STEPS >= largest)


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#222") -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escaped}</text>'
