"""Triton's notations for a linear layout, in and out.

Two are in use. The attribute of an IR and of Gluon lists the bases of each input as lists of coordinates. The text that
Triton prints has a line for each basis: a value of one input, an arrow, and its coordinates, and ends in the sizes of
the outputs. In both the order of outputs is kept.

>>> L = LinearLayout({"register": [(0, 1)], "lane": [(1, 0), (2, 0)]}, {"dim0": 4, "dim1": 2})
>>> to_bases(L)
([('register', [[0, 1]]), ('lane', [[1, 0], [2, 0]])], ['dim0', 'dim1'], [4, 2])
>>> print(to_text(L))
 - register=1 -> (0, 1)
 - lane=1 -> (1, 0)
   lane=2 -> (2, 0)
where out dims are: [dim0 (size 4), dim1 (size 2)]
>>> from_text(to_text(L)) == L == from_bases(*to_bases(L))
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lego_mlir.errors import LayoutError
from lego_mlir.f2.linear import LinearLayout

Bases = Sequence[tuple[str, Sequence[Sequence[int]]]]
_BASIS = re.compile(r"(\w[\w.]*)\s*=\s*(\d+)\s*->\s*\(([^()]*)\)")
_SIZE = re.compile(r"(\w[\w.]*)\s*\(size (\d+)\)")
_SINGLE = re.compile(r"(\w[\w.]*) is a size 1 dimension")


def to_bases(layout: LinearLayout) -> tuple[list[tuple[str, list[list[int]]]], list[str], list[int]]:
    """The arguments of Triton's `LinearLayout.from_bases`: bases, names and sizes of the outputs."""
    bases = [(name, [list(b) for b in images]) for name, images in layout.bases.items()]
    return bases, list(layout.out_sizes), list(layout.out_sizes.values())


def from_bases(bases: Bases, outs: Sequence[str], sizes: Sequence[int] | None = None) -> LinearLayout:
    """The layout of Triton's bases. Without sizes each output is as large as its bases reach, as in Triton.

    Raises LayoutError for a basis with another number of coordinates than outputs, or outside the sizes.
    """
    if sizes is None:
        reach = [0] * len(outs)
        for name, images in bases:
            for k, basis in enumerate(images):
                if len(basis) != len(outs):
                    raise LayoutError(
                        f"LinearLayout: basis {k} of {name} is {list(basis)}, the outputs are {list(outs)}"
                    )
                reach = [have | value for have, value in zip(reach, basis, strict=True)]
        sizes = [1 << have.bit_length() for have in reach]
    if len(sizes) != len(outs):
        raise LayoutError(f"LinearLayout: {len(sizes)} sizes for the outputs {list(outs)}")
    return LinearLayout(dict(bases), dict(zip(outs, sizes, strict=True)))


def to_text(layout: LinearLayout) -> str:
    """The text that Triton prints for a layout."""
    lines = []
    for name, images in layout.bases.items():
        if not images:
            lines.append(f" - {name} is a size 1 dimension")
        for k, basis in enumerate(images):
            coordinates = ", ".join(map(str, basis))
            lines.append(f"{'   ' if k else ' - '}{name}={1 << k} -> ({coordinates})")
    sizes = ", ".join(f"{name} (size {size})" for name, size in layout.out_sizes.items())
    return "\n".join([*lines, f"where out dims are: [{sizes}]"])


def from_text(text: str) -> LinearLayout:
    """The layout of a text printed by Triton. Raises LayoutError, quoting the line, for anything else."""
    bases: dict[str, list[tuple[int, ...]]] = {}
    body, where, tail = text.partition("where out dims are:")
    sizes = {name: int(size) for name, size in _SIZE.findall(tail)}
    if not where or (not sizes and tail.strip(" []\n")):
        raise LayoutError("LinearLayout: the text must end in `where out dims are: [NAME (size N), ...]`")
    for line in filter(str.strip, body.splitlines()):
        line = line.strip().removeprefix("- ")
        if single := _SINGLE.fullmatch(line):
            bases[single[1]] = []
            continue
        basis = _BASIS.fullmatch(line)
        if basis is None:
            raise LayoutError(f"LinearLayout: cannot read {line!r}; a basis is written `lane=4 -> (0, 2)`")
        images = bases.setdefault(basis[1], [])
        if int(basis[2]) != 1 << len(images):
            raise LayoutError(f"LinearLayout: {line!r} must be the basis of {basis[1]}={1 << len(images)}")
        images.append(tuple(int(v) for v in basis[3].split(",") if v.strip()))
    return LinearLayout(bases, sizes)
