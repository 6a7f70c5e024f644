"""Line plots of results as SVG, with nothing but text: one line a contestant over the sizes.

>>> picture = lines("of the copy", ["1024", "2048"], {"ours": [0.9, 0.97], "torch": [0.8, None]})
>>> picture.count("<polyline"), picture.count("<circle")
(2, 3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 150, 24, 40
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#c77d0a", "#4d4d4d", "#11a0a0", "#a03f11", "#6b8e23", "#b0308f")
STEPS = 5


def lines(label: str, sizes: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """An SVG of each series over the sizes, from 0 to a little over the largest value; None is left out."""
    top = max((v for values in series.values() for v in values if v is not None), default=1.0) * 1.05
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(place: int) -> float:
        return LEFT + across * (place + 0.5) / len(sizes)

    def y(value: float) -> float:
        return TOP + up * (1 - value / top)

    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    parts += [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', _text(LEFT, TOP - 10, label)]
    for step in range(STEPS + 1):
        value = top * step / STEPS
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + across}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:.2f}", "end"))
    parts += [_text(x(i), HEIGHT - BOTTOM + 18, size, "middle") for i, size in enumerate(sizes)]
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(i), y(v)) for i, v in enumerate(values) if v is not None]
        joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        parts.append(_text(LEFT + across + 10, TOP + 14 * (number + 1), name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#222") -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escaped}</text>'
