"""Line plots of results as SVG: one line a contender over the sizes, its name at the end of its line.

Altair writes the Vega-Lite specification and vl-convert renders it; both come with `lego-mlir[docs]`. Names that would
overlap are moved apart, which Vega-Lite does not do.

>>> [round(y, 2) for y in apart([0.50, 0.51, 0.9], 0.1)]
[0.45, 0.56, 0.9]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, FONT = 560, 320, 11  # pixels; the names stand to the right of the width
COLOURS = (
    "#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#c77d0a", "#4d4d4d", "#11a0a0", "#a03f11", "#6b8e23", "#b0308f",
    "#000000", "#b8a000",
)  # fmt: skip
Series = Mapping[str, Sequence[float | None]]


def lines(label: str, sizes: Sequence[str], series: Series) -> str:
    """An SVG of each series over the sizes, from 0 up; None is left out. `label` names the vertical axis."""
    import vl_convert

    return vl_convert.vegalite_to_svg(specification(label, sizes, series))


def specification(label: str, sizes: Sequence[str], series: Series) -> dict[str, Any]:
    """The Vega-Lite specification of `lines`: points joined by lines, and a name beside the last point of each."""
    import altair as alt

    rows = [
        {"size": size, "value": value, "name": name}
        for name, values in series.items()
        for size, value in zip(sizes, values, strict=True)
        if value is not None
    ]
    top = max((row["value"] for row in rows), default=1.0) * 1.05
    order = alt.X("size:N", sort=list(sizes), title=None, axis=alt.Axis(labelAngle=0))
    value = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, top], nice=True))
    colour = alt.Color("name:N", legend=None, scale=alt.Scale(domain=list(series), range=list(COLOURS[: len(series)])))
    drawn = alt.Chart(alt.Data(values=rows)).mark_line(point=True).encode(x=order, y=value, color=colour)
    names = (
        alt.Chart(alt.Data(values=_names(series, top)))
        .mark_text(align="left", fontSize=FONT)
        .encode(x=alt.value(WIDTH + 8), y=alt.Y("value:Q"), text="name:N", color=colour)
    )
    return (drawn + names).properties(width=WIDTH, height=HEIGHT, title=alt.Title(label, fontSize=FONT + 1)).to_dict()


def _names(series: Series, top: float) -> list[dict[str, Any]]:
    """Where the name of each series is written: at its last value, one line of text from the next at least."""
    last = {name: [v for v in values if v is not None][-1] for name, values in series.items() if any(values)}
    heights = apart(list(last.values()), top * (FONT + 2) / HEIGHT)
    return [{"name": name, "value": height} for name, height in zip(last, heights, strict=True)]


def apart(values: Sequence[float], least: float) -> list[float]:
    """The values moved as little as needed for a distance of `least` between neighbours, in their order."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[list[float]] = []  # centre and count of values that touch
    members: list[list[int]] = []
    for i in order:
        groups.append([values[i], 1])
        members.append([i])
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < least * (groups[-1][1] + groups[-2][1]) / 2:
            (centre, count), (before, earlier) = groups.pop(), groups.pop()
            groups.append([(centre * count + before * earlier) / (count + earlier), count + earlier])
            members[-2:] = [members[-2] + members[-1]]
    found = [0.0] * len(values)
    for (centre, count), which in zip(groups, members, strict=True):
        for place, i in enumerate(which):
            found[i] = centre + (place - (count - 1) / 2) * least
    return found
