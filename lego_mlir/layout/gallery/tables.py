"""A permutation given as an array: positions and their inverse are looked up.

The paper's run-time permutations (section 8). The array is checked like any other permutation; in generated code it is
a constant table, or with `runtime=True` a kernel argument.

>>> table([2, 2], [3, 1, 0, 2]).apply(1, 0), table([2, 2], [3, 1, 0, 2]).inv(3)
(0, (0, 0))
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import IndexLike, IntArray
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, is_array, is_masked, is_symbolic
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import as_sizes, flatten, is_static, product, unflatten
from lego_mlir.layout.permutations import GenP
from lego_mlir.layout.values import show

if TYPE_CHECKING:
    import numpy.typing as npt

SHOWN = 64
"""Entries up to which `repr` prints the whole table; a larger one shows its digest."""


def table(dims: Sequence[int], positions: npt.ArrayLike, name: str | None = None, runtime: bool = False) -> GenP:
    """`positions[k]` is the physical position of the k-th element in row-major order; N ints, each of 0..N-1 once.

    `name` is the table's name in generated code. Raises LayoutError for an array that is not a permutation.
    """
    import numpy as np

    sizes = as_sizes("table", dims)
    if not is_static(sizes):
        raise LayoutError(f"table: sizes must be known, got {list(sizes)}")
    if is_masked(positions):
        raise LayoutError("table: the positions must not be masked; pass array.filled(position)")
    try:
        forward = np.asarray(positions).reshape(-1)
    except ValueError as error:
        raise LayoutError(f"table: the positions are not an array of integers: {error}") from error
    elements = product(sizes)
    if forward.dtype.kind not in "iu" or forward.size != elements:
        raise LayoutError(
            f"table: {elements} integers are needed for the sizes {list(sizes)}, got {forward.size} of {forward.dtype}"
        )
    outside = (forward < 0) | (forward >= elements)
    if outside.any():
        k = int(np.argmax(outside))
        raise LayoutError(f"table: entry {k} is {int(forward[k])}, outside 0..{elements - 1}")
    forward = forward.astype(np.int64)
    backward = np.full(elements, -1)
    backward[forward] = np.arange(elements)
    for entries in (forward, backward):  # copies: checked once, here
        entries.flags.writeable = False
    if int(backward.min()) < 0:
        k = int(np.argmax(backward[forward] != np.arange(elements)))
        first, second = sorted((k, int(backward[forward[k]])))
        raise LayoutError(
            f"table: entries {first} and {second} are both {int(forward[k])}; each of 0..{elements - 1} appears once"
        )
    if name is not None and not (name.isidentifier() and name.isascii()):
        raise LayoutError(f"table: the name {name!r} must be an ASCII identifier; it is a symbol of generated code")
    digest = hashlib.sha256(forward.tobytes()).hexdigest()
    label = name or f"table_{digest[:8]}"
    shown = repr(forward.tolist()) if elements <= SHOWN else f"<{elements} entries, sha256 {digest[:8]}>"
    options = (f", name={name!r}" if name else "") + (", runtime=True" if runtime else "")
    return GenP(
        sizes,
        lambda *index: _look_up(label, forward, flatten(index, sizes), runtime),
        lambda p: unflatten(_look_up(f"{label}_inv", backward, p, runtime), sizes),
        text=f"gallery.table({show(sizes)}, {shown}{options})",
        identity=("table", digest, label, runtime),
        made=(table, (sizes, forward, name, runtime)),
    )


def runtime_tables(layout: Layout) -> Iterator[tuple[str, str]]:
    """Name and digest of each table of a layout whose entries are a kernel argument."""
    parts: list[Hashable] = [layout]
    while parts:
        part = parts.pop()
        match part._key() if isinstance(part, Layout) else part:
            case ("table", str(digest), str(label), True):
                yield label, digest
            case tuple(inner):
                parts.extend(inner)


def _look_up(name: str, entries: IntArray, index: IndexLike, runtime: bool) -> IndexLike:
    if is_symbolic(index):
        from lego_mlir.expr.nodes import Table

        n = len(entries)
        return Index(Table(name, Index(index).expr, n, n, () if runtime else tuple(entries.tolist())))
    return entries[index] if is_array(index) else int(entries[index])


def tabulated(perm: GenP, name: str | None = None) -> GenP:
    """A permutation whose functions accept only ints, as a table, which accepts arrays and symbols as well."""
    import itertools

    dims = perm.dims()
    if not is_static(dims):
        raise LayoutError(f"tabulated: sizes must be known, got {list(dims)}")
    return table(
        [int(n) for n in dims],
        [int(perm.apply(*index)) for index in itertools.product(*(range(int(n)) for n in dims))],
        name,
    )
