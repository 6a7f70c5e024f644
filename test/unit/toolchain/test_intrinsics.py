"""Every intrinsic that needs no trial is selected by LLVM on each target that has it, tried in a subprocess."""

import re

import pytest

from lego_mlir.hardware.targets import TARGETS, target_named
from lego_mlir.toolchain import llvm
from lego_mlir.toolchain.intrinsics import selected
from lego_mlir.toolchain.llvm import LLVMError

DECLARED = """\
i32 @llvm.nvvm.activemask()
void @llvm.nvvm.bar.warp.sync(i32)
void @llvm.nvvm.cp.async.bulk.commit.group()
void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7), ptr addrspace(3), ptr, i32, i32, i16, i64, i1, i1, i32)
void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.3d(ptr addrspace(7), ptr addrspace(3), ptr, i32, i32, i32, i16, i64, i1, i1, i32)
void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.4d(ptr addrspace(7), ptr addrspace(3), ptr, i32, i32, i32, i32, i16, i64, i1, i1, i32)
void @llvm.nvvm.cp.async.bulk.tensor.s2g.tile.2d(ptr addrspace(3), ptr, i32, i32, i64, i1)
void @llvm.nvvm.cp.async.bulk.tensor.s2g.tile.4d(ptr addrspace(3), ptr, i32, i32, i32, i32, i64, i1)
void @llvm.nvvm.cp.async.bulk.wait.group.read(i32)
void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3), ptr addrspace(1), i32)
void @llvm.nvvm.cp.async.commit.group()
void @llvm.nvvm.cp.async.mbarrier.arrive.shared(ptr addrspace(3))
void @llvm.nvvm.cp.async.wait.group(i32)
<2 x half> @llvm.nvvm.e4m3x2.to.f16x2.rn(i16)
<2 x half> @llvm.nvvm.e5m2x2.to.f16x2.rn(i16)
{ i32, i1 } @llvm.nvvm.elect.sync(i32)
i16 @llvm.nvvm.f16x2.to.e4m3x2.rn(<2 x half>)
i16 @llvm.nvvm.f16x2.to.e5m2x2.rn(<2 x half>)
i16 @llvm.nvvm.ff.to.e4m3x2.rn(float, float)
i16 @llvm.nvvm.ff.to.e5m2x2.rn(float, float)
void @llvm.nvvm.fence.mbarrier_init.release.cluster()
void @llvm.nvvm.fence.proxy.async.shared_cta()
<2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float, float)
<2 x half> @llvm.nvvm.ff2f16x2.rn(float, float)
void @llvm.nvvm.griddepcontrol.launch.dependents()
void @llvm.nvvm.griddepcontrol.wait()
{ i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
{ i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3(ptr addrspace(3))
ptr addrspace(7) @llvm.nvvm.mapa.shared.cluster(ptr addrspace(3), i32)
i32 @llvm.nvvm.match.any.sync.i32(i32, i32)
i32 @llvm.nvvm.match.any.sync.i64(i32, i64)
i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3), i32)
void @llvm.nvvm.mbarrier.arrive.scope.cta.space.cluster(ptr addrspace(7), i32)
i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3))
void @llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta(ptr addrspace(3), i32)
void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3), i32)
{ float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, i32, i32, float, float, float, float)
{ float, float, float, float } @llvm.nvvm.mma.m16n8k16.row.col.f32.f32(<2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, <2 x half>, float, float, float, float)
i32 @llvm.nvvm.read.ptx.sreg.cluster.ctarank()
void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32 24)
void @llvm.nvvm.setmaxnreg.inc.sync.aligned.u32(i32 24)
float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
void @llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3), i32, i32, i32, i32)
i1 @llvm.nvvm.vote.any.sync(i32, i1)
void @llvm.nvvm.wgmma.commit_group.sync.aligned()
void @llvm.nvvm.wgmma.fence.sync.aligned()
void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64)
i16 @llvm.nvvm.ff.to.e2m1x2.rn.satfinite(float, float)
i16 @llvm.nvvm.ff.to.e2m3x2.rn.satfinite(float, float)
i16 @llvm.nvvm.ff.to.e3m2x2.rn.satfinite(float, float)
"""  # noqa: E501
LINES = {re.search(r"@(llvm\.nvvm\.[\w.]+)", line)[1]: line for line in DECLARED.splitlines()}


def calling(names):
    """A module with a kernel that calls these intrinsics, each argument 0 or the number of its declaration."""
    calls, declarations = [], []
    for name in sorted(names):
        result, _, types = re.fullmatch(r"(.*) @([\w.]+)\((.*)\)", LINES[name]).groups()
        given = [kind if kind.endswith(" 24") else f"{kind} zeroinitializer" for kind in split(types)]
        kept = "" if result == "void" else f"%v{len(declarations)} = "
        calls.append(f"  {kept}call {result} @{name}({', '.join(given)})")
        if kept:  # LLVM removes a call whose result has no use
            calls.append(f"  store volatile {result} {kept[:-3]}, ptr %out")
        declarations.append(f"declare {result} @{name}({', '.join(kind.removesuffix(' 24') for kind in split(types))})")
    return "\n".join(["define ptx_kernel void @k(ptr %out) {", *calls, "  ret void", "}", *declarations])


def split(types):
    return [kind for kind in types.split(", ") if kind]


def test_the_declarations_here_are_those_of_the_table():
    assert set(LINES) == selected(target_named("sm_90a")) | selected(target_named("sm_100a"))


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "sm_75"])
def test_each_target_selects_its_intrinsics(name):
    target = target_named(name)
    ptx = llvm._emit_apart(calling(selected(target)), target)
    assert "cp.async.wait_group" in ptx
    assert "cvt.rn.bf16x2.f32" in ptx and ("mapa" in ptx) == (target.compute_capability >= (9, 0))
    assert ("wgmma.wait_group" in ptx) == (name == "sm_90a")
    assert ("e2m1x2" in ptx) == (name in ("sm_100a", "sm_103a", "sm_120a", "sm_121a"))


def test_a_target_without_rows_needs_trials():
    assert not selected(target_named("sm_75"))
    with pytest.raises(LLVMError, match="sm_75"):
        llvm.to_ptx(calling({"llvm.nvvm.cp.async.commit.group"}), target_named("sm_75"))


def test_known_intrinsics_start_no_process(monkeypatch):
    monkeypatch.setattr(llvm, "_emit_apart", lambda text, target: pytest.fail("compiled in a subprocess"))
    target = target_named("sm_90a")
    assert "stmatrix" in llvm.to_ptx(calling(selected(target)), target)
