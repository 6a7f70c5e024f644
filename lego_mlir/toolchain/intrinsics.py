"""Intrinsics that LLVM selects, by the least target that has them.

LLVM aborts the process for an intrinsic that the target lacks, so `llvm.to_ptx` compiles a module with others in a
subprocess first, which takes longer than the module itself. Those here need no trial:

>>> from lego_mlir.hardware.targets import target_named
>>> stmatrix = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16.p3"
>>> [name for name in ("sm_80", "sm_90", "sm_100") if stmatrix in selected(target_named(name))]
['sm_90', 'sm_100']
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lego_mlir.hardware.targets import Target

_FROM_80: Final = (
    "activemask", "bar.warp.sync",
    "cp.async.cg.shared.global.16", "cp.async.cg.shared.global.16.s", "cp.async.commit.group",
    "cp.async.mbarrier.arrive.shared", "cp.async.wait.group", "ff2bf16x2.rn", "ff2f16x2.rn",
    "ldmatrix.sync.aligned.m8n8.x4.b16.p3", "ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3", "mbarrier.arrive.shared",
    "match.any.sync.i32", "match.any.sync.i64", "mbarrier.init.shared", "mma.m16n8k16.row.col.bf16",
    "mma.m16n8k16.row.col.f32.f32", "shfl.sync.bfly.f32",
    "shfl.sync.idx.i32", "vote.any.sync",
)  # fmt: skip
_OF_F8: Final = tuple(
    name for f8 in ("e4m3x2", "e5m2x2") for name in (f"{f8}.to.f16x2.rn", f"f16x2.to.{f8}.rn", f"ff.to.{f8}.rn")
)
_OF_SHORT: Final = tuple(f"ff.to.{pair}.rn.satfinite" for pair in ("e2m1x2", "e2m3x2", "e3m2x2"))
_FROM_90: Final = (
    "cp.async.bulk.commit.group", "cp.async.bulk.tensor.g2s.tile.2d", "cp.async.bulk.tensor.g2s.tile.3d",
    "cp.async.bulk.tensor.g2s.tile.4d", "cp.async.bulk.tensor.s2g.tile.2d", "cp.async.bulk.tensor.s2g.tile.4d",
    "cp.async.bulk.wait.group.read", "elect.sync",
    "fence.mbarrier_init.release.cluster", "fence.proxy.async.shared_cta", "griddepcontrol.launch.dependents",
    "griddepcontrol.wait", "mapa.shared.cluster", "mbarrier.arrive.expect.tx.scope.cta.space.cta",
    "mbarrier.arrive.scope.cta.space.cluster", "mbarrier.expect.tx.scope.cta.space.cta",
    "read.ptx.sreg.cluster.ctarank", "stmatrix.sync.aligned.m8n8.x4.b16.p3",
)  # fmt: skip
_OF_90A: Final = (
    "setmaxnreg.dec.sync.aligned.u32", "setmaxnreg.inc.sync.aligned.u32", "wgmma.commit_group.sync.aligned",
    "wgmma.fence.sync.aligned", "wgmma.wait_group.sync.aligned",
)  # fmt: skip


@cache
def selected(target: Target) -> frozenset[str]:
    """The names of intrinsics that need no trial on a target."""
    rows: list[tuple[str, ...]] = []
    rows += [_FROM_80] if target.compute_capability >= (8, 0) else []
    rows += [_OF_F8] if target.has_f8_conversions else []
    rows += [_OF_SHORT] if target.has_short_conversions else []
    rows += [_FROM_90] if target.compute_capability >= (9, 0) else []
    rows += [_OF_90A] if target.has_warpgroup_products else []
    return frozenset(f"llvm.nvvm.{name}" for row in rows for name in row)
