"""Arrays divided over a mesh: each axis is split by axes of the mesh, unevenly where they do not divide it.

The array is the sum over the ranks of boxes of their local shapes. An element lies on the ranks that the splits give,
at the row-major (or column-major) offset of its local index in the local shape of that rank:

>>> from lego_mlir.distributions.splits import Chunks, Cyclic
>>> D = Sharded([5, 4], {"p": 2, "q": 2}, [[("p", Chunks(2))], [("q", Cyclic(2, 1))]])
>>> D.place(4, 3), D.local_shape(p=1, q=1), D.axes
({'p': 1, 'q': 1, 'offset': 3}, (2, 2), {'p': 2, 'q': 2, 'offset': 6})
>>> D.check()
Proved(by='z3; arithmetic; intervals; local offsets in the order of a box')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.distributions.base import CopyAxis, Distribution, Index, sizes_of
from lego_mlir.distributions.splits import Split
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import maximum
from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.layout.base import all_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, flatten, product, unflatten
from lego_mlir.layout.padded import at_most, conjunction

Splits = tuple[tuple[str, Split], ...]
"""The mesh axes that divide one axis of an array, the first outermost, each with its split."""


class Sharded(Distribution):
    """An array of `shape` over `mesh`: `splits` lists for each axis the mesh axes that divide it, outermost first.

    A mesh axis that divides nothing holds copies: replicas, or parts where `combined` names what adds them. `order` is
    "C" for row-major offsets on a rank, "F" for column-major ones, and `pitch` the leading dimension of the latter.
    Raises LayoutError for a mesh axis that is used twice, or that has another size than its split.
    """

    __slots__ = ("_mesh", "_shape", "combined", "order", "pitch", "splits")
    splits: tuple[Splits, ...]
    combined: tuple[tuple[str, str], ...]
    order: str
    pitch: Size | None
    _shape: tuple[Size, ...]
    _mesh: dict[str, Size]

    def __init__(
        self,
        shape: Sequence[SizeLike],
        mesh: Mapping[str, SizeLike],
        splits: Sequence[Iterable[tuple[str, Split]]],
        combined: Mapping[str, str] | None = None,
        order: str = "C",
        pitch: SizeLike | None = None,
    ) -> None:
        self._set(
            _shape=as_sizes("Sharded", shape), _mesh=sizes_of("Sharded", mesh), splits=tuple(map(tuple, splits)),
            combined=tuple((combined or {}).items()), order=order, pitch=pitch,
        )  # fmt: skip
        if len(self.splits) != len(self._shape):
            raise LayoutError(f"Sharded: {len(self._shape)} lists of splits are needed, got {len(self.splits)}")
        if order not in ("C", "F") or (pitch is not None and (order != "F" or len(self._shape) != 2)):
            raise LayoutError(f"Sharded: order is 'C' or 'F', and a pitch is of two axes in order 'F', got {order!r}")
        used = [name for axis in self.splits for name, _ in axis]
        for name in used:
            if name not in self._mesh or used.count(name) > 1:
                raise LayoutError(f"Sharded: {name} divides {used.count(name)} axes; the mesh has {list(self._mesh)}")
        for name, split in (pair for axis in self.splits for pair in axis):
            if split.ranks != self._mesh[name]:
                raise LayoutError(f"Sharded: {split} on mesh axis {name}, which has {self._mesh[name]!r} ranks")
        for name, _ in self.combined:
            if name not in self._mesh or name in used:
                raise LayoutError(
                    f"Sharded: {name} cannot hold parts of a sum; it divides an axis or is not of the mesh"
                )

    def _arguments(self) -> tuple[object, ...]:
        return self._shape, self._mesh, self.splits, dict(self.combined), self.order, self.pitch

    @property
    def shape(self) -> tuple[Size, ...]:
        return self._shape

    @property
    def mesh(self) -> dict[str, Size]:
        """The axes of ranks, without `offset`."""
        return dict(self._mesh)

    @property
    def axes(self) -> dict[str, Size]:
        most = [
            reduce(lambda n, pair: pair[1].most(n), axis, n) for n, axis in zip(self._shape, self.splits, strict=True)
        ]
        capacity = self.pitch * most[1] if self.pitch is not None else product(most)
        return {**self._mesh, "offset": capacity}

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        used, how = {name for axis in self.splits for name, _ in axis}, dict(self.combined)
        return tuple(CopyAxis(name, n, how.get(name)) for name, n in self._mesh.items() if name not in used)

    def local_shape(self, **ranks: IndexLike) -> tuple[IndexLike, ...]:
        """The sizes of what a rank holds; a 0 for a rank without elements."""
        return tuple(
            reduce(lambda n, pair: pair[1].size(ranks[pair[0]], n), axis, n)
            for n, axis in zip(self._shape, self.splits, strict=True)
        )

    def _flat(self, local: Index, sizes: Index) -> IndexLike:
        if self.pitch is not None:
            return local[1] * self.pitch + local[0]
        step = 1 if self.order == "C" else -1
        return flatten(local[::step], sizes[::step])

    def _local(self, offset: IndexLike, sizes: Index) -> Index:
        if self.pitch is not None:
            return offset % self.pitch, offset // self.pitch
        step = 1 if self.order == "C" else -1
        return unflatten(offset, [maximum(n, 1) for n in sizes[::step]])[::step]

    def _place(self, index: Index, copy: Index) -> Index:
        ranks = dict(zip((c.name for c in self.copies), copy, strict=True))
        local: list[IndexLike] = []
        for i, n, axis in zip(index, self._shape, self.splits, strict=True):
            for name, split in axis:
                ranks[name], inner = split.split(i, n)
                n, i = split.size(ranks[name], n), inner
            local.append(i)
        sizes = self.local_shape(**ranks)
        return *(ranks[name] for name in self._mesh), self._flat(tuple(local), sizes)

    def _element(self, place: Index) -> tuple[Index, Index]:
        ranks = dict(zip(self._mesh, place[:-1], strict=True))
        index = []
        local = self._local(place[-1], self.local_shape(**ranks))
        for i, n, axis in zip(local, self._shape, self.splits, strict=True):
            outer = [n]
            for name, split in axis:
                outer.append(split.size(ranks[name], outer[-1]))
            for (name, split), within in reversed([*zip(axis, outer[:-1], strict=True)]):
                i = split.join(ranks[name], i, within)
            index.append(i)
        return tuple(index), tuple(ranks[c.name] for c in self.copies)

    def _holds(self, place: Index) -> Cond:
        sizes = self.local_shape(**dict(zip(self._mesh, place[:-1], strict=True)))
        if self.pitch is None:
            held: Cond = place[-1] < product(sizes)
            return held
        local = self._local(place[-1], sizes)
        return conjunction(local[0] < sizes[0], local[1] < sizes[1])

    def check(self) -> Verdict:
        verdicts: list[Verdict] = []
        for n, axis in zip(self._shape, self.splits, strict=True):
            for depth, (_, split) in enumerate(axis):  # what an outer split leaves has several sizes
                verdicts.append(split.check(None if depth else n))
        if self.pitch is not None:
            rows = reduce(lambda n, pair: pair[1].most(n), self.splits[0], self._shape[0])
            verdicts.append(at_most(rows, self.pitch))
        return all_of([*verdicts, Proved("local offsets in the order of a box")])
