"""The placements of `torch.distributed.tensor` as distributions, and back.

`Shard` divides an axis as `torch.chunk` does, `_StridedShard` the chunks of another division, in the order of the
mesh's axes; `Replicate` holds copies, `Partial` parts of a sum. A local tensor is row-major.

>>> shard = type("Shard", (), {"dim": 0})()
>>> from_torch([9, 2], {"tp": 4}, [shard]).apply(7, 1)
({'tp': 2, 'offset': 3},)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Foreign
from lego_mlir.distributions.base import Distribution
from lego_mlir.distributions.sharded import Sharded
from lego_mlir.distributions.splits import Chunks, Split, StridedChunks
from lego_mlir.errors import LayoutError
from lego_mlir.layout.values import show

if TYPE_CHECKING:
    from lego_mlir.layout.canonical import SizeLike


def from_torch(shape: Sequence[SizeLike], mesh: Mapping[str, int] | Foreign, placements: Sequence[Foreign]) -> Sharded:
    """The distribution of a DTensor of this shape; `mesh` is a DeviceMesh with names, or names and sizes.

    Raises LayoutError for a placement of another class, and for an axis that the tensor does not have.
    """
    if not isinstance(mesh, Mapping):
        if mesh.mesh_dim_names is None:
            raise LayoutError("from_torch: the axes of the mesh have no names; give mesh_dim_names")
        mesh = dict(zip(mesh.mesh_dim_names, map(int, mesh.shape), strict=True))
    if len(placements) != len(mesh):
        raise LayoutError(f"from_torch: {len(placements)} placements for the mesh {dict(mesh)}")
    splits: list[list[tuple[str, Split]]] = [[] for _ in shape]
    combined = {}
    for (name, ranks), placement in zip(mesh.items(), placements, strict=True):
        match type(placement).__name__:
            case "Replicate":
                continue
            case "Partial":
                combined[name] = str(placement.reduce_op)
                continue
            case "Shard":
                split: Split = Chunks(ranks)
            case "_StridedShard":
                split = StridedChunks(ranks, int(placement.split_factor))
            case other:
                raise LayoutError(f"from_torch: {other} is none of Shard, _StridedShard, Replicate and Partial")
        if not -len(shape) <= placement.dim < len(shape):
            raise LayoutError(f"from_torch: {placement!r} divides an axis that a tensor of {show(shape)} does not have")
        splits[placement.dim].append((name, split))
    return Sharded(shape, mesh, splits, combined)


def to_torch(distribution: Distribution, offset: str = "offset") -> list[Foreign]:
    """The placements that put every element at the same place, for a DTensor on the distribution's mesh.

    All combinations of Shard, Replicate and Partial are compared, and `_StridedShard` for the distribution of one.
    Raises LayoutError, with an element and the two places that disagree with the closest one, if there is none.
    """
    names = [name for name in distribution.axes if name != offset]
    mesh = {name: int(distribution.axes[name]) for name in names}
    best = ""
    for placements in _candidates(distribution, names):
        verdict = from_torch(distribution.shape, mesh, placements).equivalent(distribution)
        if verdict:
            return placements
        best = best or str(getattr(verdict, "explanation", "") or getattr(verdict, "reason", ""))
    raise LayoutError(f"to_torch: no placements give {distribution!r}; of the closest ones, {best}")


def _candidates(distribution: Distribution, names: Sequence[str]) -> Iterator[list[Foreign]]:
    """Lists of placements, those of the distribution's own splits first."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    copies = {c.name: c.combined for c in distribution.copies}
    if isinstance(distribution, Sharded):
        own: dict[str, Foreign] = {}
        for axis, splits in enumerate(distribution.splits):
            for name, split in splits:
                if isinstance(split, StridedChunks):
                    own[name] = _StridedShard(axis, split_factor=split.pieces)
                else:
                    own[name] = Shard(axis)
        for name in names:
            own.setdefault(name, Partial(copies[name]) if copies.get(name) else Replicate())
        yield [own[name] for name in names]
    choices = []
    for name in names:
        summed = copies.get(name)
        choices.append([Partial(summed)] if summed else [Replicate(), *map(Shard, range(len(distribution.shape)))])
    yield from (list(chosen) for chosen in itertools.product(*choices))
