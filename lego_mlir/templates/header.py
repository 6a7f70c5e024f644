"""A C++ header from a layout, for existing code (LEGO, section 6.2).

Replace `__shared__ int buff[b+1][b+1];` by

    __shared__ int base[b+1][b+1];
    Arr2D buff(&base[0][0], AntiDiag(b+1));

and keep every `buff[i][j]` unchanged. The constructor takes one argument for each `lego.size` in the layout, those of
its dims first, from left to right; constant sizes are folded into the code. Coordinates are `int`, or `long long` where
the sizes are not proved to fit. The class works on device and host, in CUDA and in plain C++17.

>>> from lego_mlir import Col, size
>>> text = header("Columns", Col(size("m", max=4096), size("n", max=4096)))
>>> print(text[text.index("struct") : text.index("  LEGO_DEVICE void inv")])
struct Columns {
  using index = int;
  int m_;
  int n_;
  LEGO_DEVICE constexpr explicit Columns(int m, int n) : m_(m), n_(n) {}
  LEGO_DEVICE int apply(int i, int j) const {
    return i + j * m_;
  }
<BLANKLINE>
"""

from __future__ import annotations

from lego_mlir.errors import TemplateError
from lego_mlir.layout.chain import as_layout
from lego_mlir.templates.render.names import require_identifier
from lego_mlir.templates.render.template import Rendered, Template
from lego_mlir.templates.words.declarations import LETTERS


def header(name: str, layout: object) -> str:
    """The header text that declares class `name` for a layout of up to four dimensions."""
    return render_header(name, layout).text


def render_header(name: str, layout: object) -> Rendered:
    """The same, with its placeholder records, for the translation check."""
    placed = as_layout(layout)
    rank = len(placed.dims())
    if rank > len(LETTERS):
        raise TemplateError(f"header: a layout of at most {len(LETTERS)} dimensions, got {rank}: {placed!r}")
    require_identifier("header: the class", name, "cuda")
    if name == f"Arr{rank}D":
        raise TemplateError(f"header: the class cannot be called {name!r}, as its array is; rename it")
    letters = LETTERS[:rank]
    return Template.shipped(
        "layout.h.jinja",
        name=name,
        layout=placed,
        rank=rank,
        about=" ".join(repr(placed).split()),
        guard=f"LEGO_LAYOUT_{name.upper()}_H",
        parameters=", ".join(f"index {i}" for i in letters),
        arguments=", ".join(letters),
    ).render()
