"""JAX's NamedSharding and Shardy's sub-axes as distributions over the axes of a mesh, and back.

A dimension is divided by the mesh axes of its entry, the first outermost; mesh axes that no entry names hold replicas,
and those in `unreduced` parts of a sum. Shardy names part of an axis `"x":(m)k`: k consecutive digits of x, m of them
outside.

>>> D = from_jax([8, 6], {"x": 4, "y": 2}, (("x", "y"), None))
>>> D.place(5, 1), D.copies
({'x': 2, 'y': 1, 'offset': 1}, ())
>>> E = from_jax([8, 6], {"x": 4, "y": 2}, ("x:(2)2", "y"))
>>> E.apply(5, 1), to_jax(E)
(({'x': 1, 'y': 0, 'offset': 4}, {'x': 3, 'y': 0, 'offset': 4}), (('x:(2)2', 'y'), ()))
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lego_mlir.aliases import Foreign
from lego_mlir.distributions.base import Distribution
from lego_mlir.distributions.combined import Joined
from lego_mlir.distributions.sharded import Sharded
from lego_mlir.distributions.splits import Chunks, Split
from lego_mlir.errors import LayoutError

_SUB_AXIS: Final = re.compile(r"(\w+):\((\d+)\)(\d+)")
Part = tuple[str, int, int]
"""A mesh axis, the ranks outside of the part, and those of the part."""


def from_sharding(sharding: Foreign, shape: Sequence[int]) -> Distribution:
    """The distribution of a `jax.sharding.NamedSharding` for arrays of this shape."""
    return from_jax(shape, dict(sharding.mesh.shape), sharding.spec, getattr(sharding.spec, "unreduced", ()))


def from_jax(
    shape: Sequence[int], mesh: Mapping[str, int], spec: Sequence[object], unreduced: Sequence[str] = ()
) -> Distribution:
    """The distribution of a PartitionSpec: an entry for each dimension, None, a mesh axis, or a tuple of them.

    Raises LayoutError for an unknown axis, one that is used twice, and for a dimension that its axes do not divide.
    """
    entries = [() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in spec]  # type: ignore[arg-type]
    if len(entries) > len(shape):
        raise LayoutError(f"from_jax: {len(entries)} entries for the {len(shape)} dimensions {list(shape)}")
    entries += [()] * (len(shape) - len(entries))
    used = [[_part(name, mesh) for name in entry] for entry in entries]
    for n, parts in zip(shape, used, strict=True):
        for _, _, ranks in parts:
            if n % ranks:
                raise LayoutError(f"from_jax: a dimension of {n} is not divisible by {ranks} ranks of {parts}")
            n //= ranks
    parts_of = {name: _cut(name, n, [p for entry in used for p in entry if p[0] == name]) for name, n in mesh.items()}
    fine = {_name(p): p[2] for parts in parts_of.values() for p in parts}
    splits: list[list[tuple[str, Split]]] = [[(_name(p), Chunks(p[2])) for p in parts] for parts in used]
    summed = {_name(p): "sum" for name in unreduced for p in parts_of[name]}
    found: Distribution = Sharded(shape, fine, splits, summed)
    for name, parts in parts_of.items():
        if [_name(p) for p in parts] != [name]:
            found = found.join([_name(p) for p in parts], name)
    return found


Entry = str | tuple[str, ...] | None
"""What a PartitionSpec has for a dimension; a part of an axis is written as Shardy does."""


def to_sharding(distribution: Distribution, mesh: Foreign) -> Foreign:
    """The `jax.sharding.NamedSharding` on a mesh of these axes. Raises LayoutError as `to_jax` does, and for parts."""
    from jax.sharding import NamedSharding, PartitionSpec

    spec, unreduced = to_jax(distribution)
    names = [name for entry in spec for name in _names(entry)]
    if any(_SUB_AXIS.fullmatch(name) for name in names):
        raise LayoutError(f"to_sharding: {spec} divides parts of mesh axes, which Shardy has and NamedSharding has not")
    return NamedSharding(mesh, PartitionSpec(*spec, unreduced=set(unreduced)) if unreduced else PartitionSpec(*spec))


def to_jax(distribution: Distribution, offset: str = "offset") -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """The entries of a PartitionSpec, and the unreduced mesh axes, that put every element at the same place.

    The distribution's own splits are compared first, then all ways to divide dimensions by whole mesh axes. Raises
    LayoutError, with an element and the two places that disagree with the closest one, if there is none.
    """
    mesh = {name: int(n) for name, n in distribution.axes.items() if name != offset}
    shape = [int(n) for n in distribution.shape]
    parts = _mesh_parts(distribution)
    summed = {parts.get(c.name, c.name).partition(":")[0] for c in distribution.copies if c.combined}
    reasons: list[str] = []
    for entries in _specs(distribution, mesh, len(shape)):
        unreduced = tuple(name for name in mesh if name in summed)
        try:
            verdict = from_jax(shape, mesh, entries, unreduced).equivalent(distribution)
        except LayoutError as error:  # axes that do not divide their dimension
            reasons.append(str(error))
            continue
        if verdict:
            return entries, unreduced
        reasons.append(str(getattr(verdict, "explanation", "") or getattr(verdict, "reason", "")))
    best = next((reason for reason in reasons if "of the second" in reason), reasons[0])
    raise LayoutError(f"to_jax: no PartitionSpec gives {distribution!r}; of the closest one, {best}")


def _specs(distribution: Distribution, mesh: Mapping[str, int], rank: int) -> Iterator[tuple[Entry, ...]]:
    """Entries for each dimension, those of the distribution's own splits first."""
    own = _own(distribution, rank)
    if own is not None:
        yield own
    for order in itertools.permutations(mesh):
        for chosen in itertools.product(range(-1, rank), repeat=len(mesh)):
            yield tuple(_entry([n for n, d in zip(order, chosen, strict=True) if d == axis]) for axis in range(rank))


def _own(distribution: Distribution, rank: int) -> tuple[Entry, ...] | None:
    """The entries of a `Sharded`, some of whose axes may be joined to mesh axes."""
    parts = _mesh_parts(distribution)
    while isinstance(distribution, Joined):
        distribution = distribution.distribution
    if not isinstance(distribution, Sharded):
        return None
    return tuple(_entry([parts.get(name, name) for name, _ in distribution.splits[axis]]) for axis in range(rank))


def _mesh_parts(distribution: Distribution) -> dict[str, str]:
    """The mesh axis, or the part of one, that each axis joined to others is."""
    parts: dict[str, str] = {}
    while isinstance(distribution, Joined):
        outside = 1
        for name, n in zip(distribution.names, distribution._sizes(), strict=True):
            whole = len(distribution.names) == 1
            parts[name] = distribution.name if whole else f"{distribution.name}:({outside}){n}"
            outside *= int(n)
        distribution = distribution.distribution
    return parts


def _entry(names: Sequence[str]) -> Entry:
    return None if not names else names[0] if len(names) == 1 else tuple(names)


def _names(entry: Entry) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def _part(entry: object, mesh: Mapping[str, int]) -> Part:
    text = str(entry).replace('"', "")
    match = _SUB_AXIS.fullmatch(text)
    name, outside, ranks = (match[1], int(match[2]), int(match[3])) if match else (text, 1, mesh.get(text, 0))
    if name not in mesh or mesh[name] % (outside * ranks or mesh[name] + 1):
        raise LayoutError(f"from_jax: {text} is neither an axis of the mesh {dict(mesh)} nor a part of one")
    return name, outside, ranks


def _cut(name: str, size: int, used: Sequence[Part]) -> list[Part]:
    """All parts of a mesh axis: those used, and those between, which hold replicas."""
    parts: list[Part] = []
    outside = 1
    for part in sorted(used, key=lambda p: p[1]):
        if part[1] % outside:
            raise LayoutError(f"from_jax: the parts {sorted(used)} of mesh axis {name} overlap")
        if part[1] > outside:
            parts.append((name, outside, part[1] // outside))
        parts.append(part)
        outside = part[1] * part[2]
    if size > outside or not parts:
        parts.append((name, outside, size // outside))
    if [p for p in parts if p in used] != sorted(used, key=lambda p: p[1]) or len(set(used)) < len(used):
        raise LayoutError(f"from_jax: the parts {list(used)} of mesh axis {name} overlap")
    return parts


def _name(part: Part) -> str:
    name, outside, ranks = part
    return f"{name}_{outside}_{ranks}"
