"""Epilogues of a product over a mesh, for one rank: fused into local products, or applied to its part of C.

    scale_result * (activation(scale_a * A B * scale_b + bias) + residual)

Numbers for rows and columns are those of the whole C, of which a rank takes the ones of its block, or of its part. What
follows is fused where a local product is a whole sum and what it adds is divided as the blocks are; otherwise it is
applied in f32 when the parts have been added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.mesh.strips import Strip

if TYPE_CHECKING:
    from lego_mlir.mesh.products import MeshProductPlan

ONE: Final = ("amax", "scale_result")
"""Operands of one number."""
Fused = dict[str, "Foreign"]
"""What is fused, by the names of `lego_mlir.matmul`."""


class MeshEpilogue:
    """The epilogue of one rank's block and part of C."""

    def __init__(self, plan: MeshProductPlan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self.held = plan.c.target.capacity(rank)
        """Elements of C in this rank's part."""
        place = dict(zip(plan.grid.order, map(int, plan.c.source.mesh_of(np.asarray(rank))), strict=True))
        block = plan.c.source.local_shape(rank)
        grid = dict(zip("ij", plan.grid.sizes, strict=False))
        starts = [place[axis] * -(-n // grid[axis]) for axis, n in zip("ij", plan.c.shape, strict=True)]
        self.rows, self.columns = (slice(at, at + n) for at, n in zip(starts, block, strict=True))
        """The rows and columns of C in this rank's block."""

    def given(self, **fused: Foreign) -> Fused:
        """The operands that are given. Raises UsageError for a size that does not fit."""
        found = {name: value for name, value in fused.items() if value is not None}
        (m, n), residual = self.plan.c.shape, found.get("residual")
        fits = {"scale_a": (1, m), "scale_b": (1, n), "bias": (n,), "amax": (1,), "scale_result": (1,)}
        for name, sizes in fits.items():
            if name in found and found[name].numel() not in sizes:
                wanted = " or ".join(map(str, dict.fromkeys(sizes)))
                raise UsageError(f"{name} has {found[name].numel()} numbers; C of {m} x {n} takes {wanted}")
        if residual is not None and residual.numel() != self.held:
            raise UsageError(
                f"rank {self.rank} holds {self.held} elements of C, and its part of residual has {residual.numel()}"
            )
        return found

    def follows(self, fused: Fused, strips: Sequence[Strip], moves: bool) -> bool:
        """Whether it is applied to this rank's part, and not to its block."""
        sums = self.plan.sums > 1 or any(strip.sums for strip in strips)
        return bool(fused) and (sums or (moves and "residual" in fused))

    def of_strip(self, fused: Fused, strip: Strip) -> Fused:
        """What is fused into the local product of a strip."""
        first, last = strip.rows
        found = dict(fused)
        for name, part in (("bias", self.columns), ("scale_b", self.columns), ("scale_a", self.rows)):
            if name in found and found[name].numel() > 1:
                found[name] = found[name][part]
        if found.get("scale_a") is not None and found["scale_a"].numel() > 1:
            found["scale_a"] = found["scale_a"][first:last]
        if "residual" in found:
            width = self.columns.stop - self.columns.start
            found["residual"] = found["residual"].view(-1, width)[first:last]
        return found

    def applied(self, fused: Fused, found: Tensor, dtype: Foreign) -> Tensor:
        """What follows the sums of this rank's part, a flat tensor, rounded to a type at the end."""
        import torch

        if not fused or not found.numel():
            return found.to(dtype)
        side = self.plan.c.target
        shape, strides = side.local_shape(self.rank), side.strides(self.rank)
        whole = found.to(torch.promote_types(torch.float32, found.dtype))
        x = whole.as_strided(shape, strides)
        for name, along in (("scale_a", 0), ("scale_b", 1)):
            if (factor := fused.get(name)) is not None:
                x.mul_(factor if factor.numel() == 1 else self._numbers(factor, along))
        if (bias := fused.get("bias")) is not None:
            x.add_(bias if bias.numel() == 1 else self._numbers(bias, 1))
        activations = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
        if (activation := fused.get("activation")) is not None:
            x.copy_(activations[activation](x))
        if (residual := fused.get("residual")) is not None:
            x.add_(residual.view(-1).as_strided(shape, strides))
        if (amax := fused.get("amax")) is not None:
            amax.copy_(torch.maximum(amax, x.abs().max().to(amax.dtype)))
        if (factor := fused.get("scale_result")) is not None:
            x.mul_(factor)
        if dtype.itemsize == 1:
            x.clamp_(torch.finfo(dtype).min, torch.finfo(dtype).max)
        return whole.to(dtype)

    def _numbers(self, whole: Tensor, axis: int) -> Tensor:
        """The numbers of this rank's rows or columns of C, as a column or a row."""
        found = whole[self._part_rows if axis == 0 else self._part_columns]
        return found.view(-1, 1) if axis == 0 else found

    @cached_property
    def _part_rows(self) -> Foreign:
        return self._indices(0)

    @cached_property
    def _part_columns(self) -> Foreign:
        return self._indices(1)

    def _indices(self, axis: int) -> Foreign:
        """The rows or columns of C in this rank's part."""
        import torch

        side = self.plan.c.target
        mesh = dict(zip(side.names, map(int, side.mesh_of(np.asarray(self.rank))), strict=True))
        offsets = np.arange(side.local_shape(self.rank)[axis]) * side.strides(self.rank)[axis]
        return torch.from_numpy(np.asarray(side.distribution.inv(**mesh, offset=offsets)[axis]))
