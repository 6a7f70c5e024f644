"""Plots of ratios as SVG for light and dark pages: a row a group, a column a device, a mark for its mean and its range.

Altair writes the Vega-Lite specification and vl-convert renders it; both come with `lego-mlir[docs]`. Text and axes
take the colour of the page's theme by a style inside the SVG, which browsers apply to pictures too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headlines import Summary

WIDTH, EMPTY, LINE, FONT = 320, 96, 17, 11  # pixels: all columns with results, one without, a line, the letters
PADDING = {"left": 36, "right": 12, "top": 5, "bottom": 5}  # a browser's letters are wider than those measured here
COLOURS = ("#3b82d6", "#d97a1e")  # legible on white and on black
INK = "#010203"
"""Stands for the colour of the theme's text."""
THEME = (
    "<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#d5d9e0}}text{font-family:sans-serif}</style>"
)
Columns = Mapping[str, Sequence["Summary"]]


def ranges(label: str, columns: Columns) -> str:
    """An SVG of the groups' ratios, geometric mean and least to greatest, by device; `label` says of what."""
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(specification(label, columns))
    head, _, rest = drawn.partition(">")
    return f"{head}>{THEME}{rest}".replace(INK, "currentColor") + "\n"


def specification(label: str, columns: Columns) -> dict[str, Any]:
    """The Vega-Lite specification of `ranges`: on a logarithmic axis, with a line at 1."""
    import altair as alt

    rows = [row for found in columns.values() for row in found]
    protocols = list(dict.fromkeys(row.protocol for row in rows))
    groups = list(dict.fromkeys(row.group for row in rows))
    least, most = min(row.least for row in rows), max(row.most for row in rows)
    domain = [min(0.9, least) * 0.98, max(1.1, most) * 1.02]
    values = ticks(*domain)
    colour = alt.Color(
        "protocol:N",
        scale=alt.Scale(domain=protocols, range=list(COLOURS[: len(protocols)])),
        legend=alt.Legend(title=None, orient="bottom", symbolType="circle", symbolOpacity=1),
    )
    width = max(160, WIDTH // sum(bool(found) for found in columns.values()))
    shown = [_column(alt, device, columns[device], groups, protocols, domain, values, colour, width, not i)
             for i, device in enumerate(columns)]  # fmt: skip
    title = alt.Title(label, anchor="start", fontSize=FONT + 2)
    chart = alt.hconcat(*shown, spacing=14).properties(title=title, padding=PADDING)
    ink = {"labelColor": INK, "titleColor": INK}
    lines = {"domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.12, "domainOpacity": 0.4}
    return (
        chart.configure(background="transparent", font="sans-serif", aria=False)
        .configure_axis(labelFontSize=FONT, labelLimit=260, **ink, **lines)
        .configure_legend(labelFontSize=FONT, **ink)
        .configure_title(color=INK)
        .configure_view(stroke=None)
        .to_dict()
    )


def _column(
    alt: Any,
    device: str,
    found: Sequence[Summary],
    groups: Sequence[str],
    protocols: Sequence[str],
    domain: Sequence[float],
    values: Sequence[float],
    colour: Any,
    width: int,
    first: bool,
) -> Any:
    """The column of one device; the first has the names of the groups."""
    height = LINE * len(protocols) * len(groups) + 6 * len(groups)
    y = alt.Y(
        "group:N", sort=list(groups), title=None, scale=alt.Scale(domain=list(groups), paddingInner=0.2),
        axis=alt.Axis(labels=first, ticks=False, domain=False, labelPadding=8),
    )  # fmt: skip
    title = alt.Title(device, fontSize=FONT + 1, fontWeight="normal", color=INK)
    if not found:
        note = alt.Chart(alt.Data(values=[{"text": "not measured"}])).mark_text(fontSize=FONT, color=INK, opacity=0.6)
        return note.encode(text="text:N").properties(width=EMPTY, height=height, title=title)
    rows = [
        {"group": row.group, "protocol": row.protocol, "text": row.text, "mean": round(row.mean, 4),
         "least": round(row.least, 4), "most": round(row.most, 4)}
        for row in found
    ]  # fmt: skip
    offset = alt.YOffset("protocol:N", sort=list(protocols), scale=alt.Scale(domain=list(protocols)))
    scale = alt.Scale(type="log", domain=list(domain), nice=False)
    axis = alt.Axis(values=list(values), format="~g", title=None)
    base = alt.Chart(alt.Data(values=rows)).encode(y=y, yOffset=offset, color=colour)
    span = base.mark_rule(strokeWidth=2, opacity=0.55).encode(x=alt.X("least:Q", scale=scale, axis=axis), x2="most:Q")
    mean = base.mark_point(filled=True, size=48, opacity=1).encode(x=alt.X("mean:Q", scale=scale))
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(color=INK, opacity=0.7)
    level = one.encode(x=alt.X("one:Q", scale=scale))
    text = base.mark_text(align="left", fontSize=FONT - 1).encode(
        x=alt.value(width + 6), text="text:N", color=alt.value(INK)
    )
    return (level + span + mean + text).properties(width=width, height=height, title=title)


def ticks(least: float, most: float) -> list[float]:
    """Values of a logarithmic axis: of 1, 2 and 5 times powers of ten, and finer ones where few of them are in range.

    >>> ticks(0.9, 1.3), ticks(0.5, 60)
    ([0.9, 1.0, 1.1, 1.2, 1.3], [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0])
    """
    if most / least < 2:
        step = 0.1 if most / least > 1.25 else 0.05
        return [round(step * i, 2) for i in range(math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9) + 1)]
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    found = [round(m * 10.0**p, 6) for p in powers for m in ((1, 2, 5) if most / least > 6 else (1, 1.5, 2, 3, 5, 7))]
    return [value for value in found if least <= value <= most]
