"""A plan carried out by JAX: packed, exchanged by `all_to_all` and unpacked by one function that can be compiled.

    exchange = JaxExchange(plan, mesh)     a mesh of one axis, a device for each rank
    new = jax.jit(exchange)(parts)         [ranks, elements], divided over the devices along the first axis

Rows are as long as the largest part, and what follows a shorter one is 0. All ranks run one program, in which each
chooses its branch by its number; the places of a box are computed from iotas, and no table of them is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.aliases import Foreign
from lego_mlir.errors import UsageError
from lego_mlir.mesh.rank_messages import RankMessages
from lego_mlir.mesh.redistribution import RedistributionPlan, StridedBox

if TYPE_CHECKING:
    from collections.abc import Callable


class JaxExchange:
    """What all ranks do in a plan, as a function of all parts. Raises UsageError for a mesh of other sizes."""

    def __init__(self, plan: RedistributionPlan, mesh: Foreign) -> None:
        ranks = max(plan.source.count, plan.target.count)
        if len(mesh.axis_names) != 1 or mesh.size != ranks:
            raise UsageError(f"the plan is over a mesh of one axis with {ranks} devices, got {dict(mesh.shape)}")
        self.plan, self.mesh, self.axis = plan, mesh, mesh.axis_names[0]
        self.of_ranks = [RankMessages(plan, rank) for rank in range(ranks)]
        self.held = max(one.extents[0] for one in self.of_ranks)
        self.capacity = max(one.extents[3] for one in self.of_ranks)
        self.largest = max(max(one.send_sizes) for one in self.of_ranks)

    def __call__(self, parts: Foreign) -> Foreign:
        """The new parts, [ranks, capacity], for the old ones, [ranks, held]."""
        import jax

        if tuple(parts.shape) != (len(self.of_ranks), self.held):
            raise UsageError(f"parts are [{len(self.of_ranks)}, {self.held}], got {list(parts.shape)}")
        spec = jax.sharding.PartitionSpec(self.axis)
        each = jax.shard_map(self._of_one, mesh=self.mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return each(parts)

    def _of_one(self, parts: Foreign) -> Foreign:
        """The program of each device, on its row."""
        from jax import lax

        rank = lax.axis_index(self.axis)
        sends = lax.switch(rank, [self._packing(one) for one in self.of_ranks], parts[0])
        receives = lax.all_to_all(sends, self.axis, 0, 0)
        return lax.switch(rank, [self._unpacking(one) for one in self.of_ranks], parts[0], receives)[None]

    def _packing(self, messages: RankMessages) -> Callable[[Foreign], Foreign]:
        """A rank's messages in rows of the largest."""

        def pack(part: Foreign) -> Foreign:
            import jax.numpy as jnp

            rows = [jnp.zeros(self.largest, part.dtype)] * len(self.of_ranks)
            for m in messages.sent:
                found = jnp.concatenate([part[places_of(box)] for box in m.source])
                rows[m.receiver] = jnp.pad(found, (0, self.largest - m.elements))
            return jnp.stack(rows)

        return pack

    def _unpacking(self, messages: RankMessages) -> Callable[[Foreign, Foreign], Foreign]:
        """A rank's new part, out of what it kept and what arrived."""

        def unpack(part: Foreign, receives: Foreign) -> Foreign:
            import jax.numpy as jnp

            found = jnp.zeros(self.capacity, part.dtype)
            for m in (*messages.kept, *messages.received):
                at = 0
                for here, there in zip(m.source, m.target, strict=True):
                    own = m.sender == messages.rank
                    given = part[places_of(here)] if own else receives[m.sender, at : at + here.elements]
                    place = found.at[places_of(there)]
                    found = place.add(given) if m.adds else place.set(given, unique_indices=True)
                    at += here.elements
            return found

        return unpack


def places_of(box: StridedBox) -> Foreign:
    """Where the elements of a box are in a flat part, in their order."""
    import jax.numpy as jnp
    from jax import lax

    place = jnp.full(box.sizes, box.offset, jnp.int32)
    for axis, stride in enumerate(box.strides):
        place += lax.broadcasted_iota(jnp.int32, box.sizes, axis) * stride
    return place.reshape(-1)
