"""Colours: ordered scales whose luminance falls from step to step, and a few categories that the colour-blind can tell.

A scale carries its order in luminance, so it reads the same in greyscale and under any colour deficiency. Categories
are seven colours of Okabe and Ito ("Color Universal Design", 2008) and a dark grey. `deuteranopic` is the simulation of
Machado, Oliveira and Fernandes (IEEE TVCG 15(6), 2009, table 1, severity 1.0).

>>> BLUES.at(0.0), BLUES.at(1.0)
('#f0f5fb', '#0b2c58')
>>> ink("#f0f5fb"), ink("#0b2c58")
('#000000', '#ffffff')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_DEUTERANOPIA: Final = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Colours between anchors, for an ordered quantity in 0 .. 1; light is little."""

    anchors: tuple[str, ...]

    def at(self, fraction: float) -> str:
        """The colour of a fraction of the range."""
        place = min(max(fraction, 0.0), 1.0) * (len(self.anchors) - 1)
        low = min(int(place), len(self.anchors) - 2)
        pairs = zip(rgb(self.anchors[low]), rgb(self.anchors[low + 1]), strict=True)
        return _hex([a + (b - a) * (place - low) for a, b in pairs])

    def steps(self, count: int) -> tuple[str, ...]:
        """`count` colours from light to dark."""
        return tuple(self.at(i / max(1, count - 1)) for i in range(count))


BLUES: Final = Scale(("#f0f5fb", "#9cc3e6", "#3f82c0", "#0b2c58"))
"""Positions, sectors, ranks."""
BANKS_CYCLE: Final = Scale(("#f0f5fb", "#6aa5d8", "#0b2c58", "#8c3a10", "#f0a860", "#f0f5fb"))
"""Banks, of which the last is the first one's neighbour: through blue to dark, and back through orange."""
HEAT: Final = Scale(("#fff6e0", "#fdbb5a", "#d9621c", "#6b1a06"))
"""Costs: wavefronts of a request."""
CATEGORIES: Final = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#444444")
"""Warps, lanes modulo 8, groups of registers."""
EMPTY: Final = "#ffffff"
WRONG: Final = "#d55e00"


def rgb(colour: str) -> tuple[float, float, float]:
    """The sRGB components of `#rrggbb`, each in 0 .. 1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def luminance(colour: str) -> float:
    """Relative luminance in 0 .. 1 (WCAG 2.2)."""
    red, green, blue = map(_linear, rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2.2); text needs 4.5."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def ink(background: str) -> str:
    """The colour of text on a background: black or white, whichever contrasts more."""
    return max(("#000000", "#ffffff"), key=lambda text: contrast(text, background))


def deuteranopic(colour: str) -> str:
    """A colour as it appears without green cones."""
    linear = [_linear(c) for c in rgb(colour)]
    seen = [sum(w * c for w, c in zip(row, linear, strict=True)) for row in _DEUTERANOPIA]
    return _hex([_gamma(min(max(c, 0.0), 1.0)) for c in seen])


def distance(one: str, other: str) -> float:
    """The Euclidean distance of two colours in CIE L*a*b* (D65); 2.3 is just noticeable."""
    return sum((a - b) ** 2 for a, b in zip(_lab(one), _lab(other), strict=True)) ** 0.5


def _linear(component: float) -> float:
    return component / 12.92 if component <= 0.04045 else ((component + 0.055) / 1.055) ** 2.4


def _gamma(component: float) -> float:
    return component * 12.92 if component <= 0.0031308 else 1.055 * component ** (1 / 2.4) - 0.055


def _hex(components: Sequence[float]) -> str:
    return "#" + "".join(f"{round(c * 255):02x}" for c in components)


def _lab(colour: str) -> tuple[float, float, float]:
    red, green, blue = map(_linear, rgb(colour))
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
