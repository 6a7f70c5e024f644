"""JAX's NamedSharding and Shardy's sub-axes as distributions over the axes of a mesh.

A dimension is divided by the mesh axes of its entry, the first outermost; mesh axes that no entry names hold replicas,
and those in `unreduced` parts of a sum. Shardy names part of an axis `"x":(m)k`: k consecutive digits of x, m of them
outside.

>>> D = from_jax([8, 6], {"x": 4, "y": 2}, (("x", "y"), None))
>>> D.place(5, 1), D.copies
({'x': 2, 'y': 1, 'offset': 1}, ())
>>> from_jax([8, 6], {"x": 4, "y": 2}, ("x:(2)2", "y")).apply(5, 1)
({'x': 1, 'y': 0, 'offset': 4}, {'x': 3, 'y': 0, 'offset': 4})
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from lego_mlir.aliases import Foreign
from lego_mlir.distributions.base import Distribution
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
