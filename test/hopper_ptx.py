"""A small Hopper product, written by hand: C = A B with TMA, mbarriers, wgmma and clusters of two blocks.

C is 64-row tiles by blocks and two 128-column tiles in sequence; A [M, K] is K-major, B [K, N] MN-major, loaded as two
chunks of 64 columns; with a cluster each block loads one chunk for both. Warps 0-3 multiply, warp 4 loads. Everything
is unrolled: `k_steps` of 64 through two stages. Each field of `Plan` after `cluster` plants one fault.
"""

from dataclasses import dataclass

import numpy as np

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.bulk_tensor_maps import TensorMapArgument

STAGES, STAGE, A_BYTES, CHUNK = 2, 24576, 8192, 8192
OUT, FULL, EMPTY = STAGES * STAGE, STAGES * STAGE + 16384, STAGES * STAGE + 16384 + 16
SHARED = EMPTY + 16
TILES = 2


@dataclass(frozen=True)
class Plan:
    """The kernel's parameters, and the faults to plant."""

    k_steps: int = 3
    cluster: int = 1
    early_release: bool = False
    rank_mask: bool = True
    epilogue_wait: str = "cp.async.bulk.wait_group.read 0;"
    epilogue_fence: str = "fence.proxy.async.shared::cta;"
    extra_arrivals: int = 0
    polls: int = 0
    expected_bytes: int = A_BYTES + 2 * CHUNK
    wgmma_fence: str = "wgmma.fence.sync.aligned;"
    cluster_sync: bool = True
    init_fence: str = "fence.mbarrier_init.release.cluster;"
    hold_the_block: bool = True
    final_wait: str = "wgmma.wait_group.sync.aligned 0;"


class Writer:
    """Lines of PTX, with fresh labels."""

    def __init__(self):
        self.lines, self.labels = [], 0

    def __call__(self, *lines):
        self.lines += lines

    def label(self):
        self.labels += 1
        return f"L{self.labels}"

    def wait(self, barrier, parity, polls=0):
        """Wait for a barrier; with `polls`, give up after that many."""
        loop, done = self.label(), self.label()
        if polls:
            for _ in range(polls):
                self(f"mbarrier.test_wait.parity.shared::cta.b64 %p9, [%base+{barrier}], {parity};")
                self(f"@%p9 bra {done};")
            self(f"{done}:")
            return
        self(f"{loop}: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%base+{barrier}], {parity}, 1000;")
        self(f"@%p9 bra {done};", f"bra {loop};", f"{done}:")


def text(plan):
    """The kernel's PTX."""
    w = Writer()
    _setup(w, plan)
    w("@%isproducer bra PRODUCER;")
    _consumer(w, plan)
    w("bra END;", "PRODUCER:")
    _producer(w, plan)
    w("END:")
    if plan.cluster > 1 and plan.hold_the_block:
        w("barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;")
    w("ret;")
    accumulators = ", ".join(f"%acc{i}" for i in range(64))
    head = f"""
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry product(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128])
.maxntid 160, 1, 1
{f".reqnctapercluster {plan.cluster}, 1, 1" if plan.cluster > 1 else ""}
{{
.reg .pred %p<10>, %elected, %isproducer;
.reg .b32 %r<30>, %base, %lane, %warp, %row, %rank;
.reg .b64 %rd<20>, %maps<3>;
.reg .f32 {accumulators};
.reg .b16 %h<4>;
"""
    return head.strip() + "\n" + "\n".join(w.lines) + "\n}\n"


def _setup(w, plan):
    w(
        "mov.u32 %base, dynamic;",
        "mov.u32 %r1, %tid.x;",
        "and.b32 %lane, %r1, 31;",
        "shr.u32 %warp, %r1, 5;",
        "mov.u32 %row, %ctaid.x;",
        "shl.b32 %row, %row, 6;",
        "mov.u32 %rank, %cluster_ctarank;",
        "setp.eq.u32 %isproducer, %warp, 4;",
    )
    for i, name in enumerate("abc"):
        w(f"mov.b64 %rd1, {name};", f"cvta.param.u64 %maps{i}, %rd1;")
    done = w.label()
    w("setp.ne.u32 %p1, %r1, 0;", f"@%p1 bra {done};")
    for stage in range(STAGES):
        w(f"mbarrier.init.shared::cta.b64 [%base+{FULL + 8 * stage}], 1;")
        w(f"mbarrier.init.shared::cta.b64 [%base+{EMPTY + 8 * stage}], {plan.cluster + plan.extra_arrivals};")
    w(plan.init_fence, f"{done}:")
    if plan.cluster > 1 and plan.cluster_sync:
        w("barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;")
    else:
        w("bar.sync 0;")


def _steps(plan):
    """Tile, step, stage and parity of every step."""
    for tile in range(TILES):
        for k in range(plan.k_steps):
            number = tile * plan.k_steps + k
            yield tile, k, number % STAGES, number // STAGES & 1


def _producer(w, plan):
    w("elect.sync %r2|%elected, -1;", "@!%elected bra END;")
    for tile, k, stage, parity in _steps(plan):
        at, full = stage * STAGE, FULL + 8 * stage
        w.wait(EMPTY + 8 * stage, parity ^ 1)
        w(f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%base+{full}], {plan.expected_bytes};")
        w(f"add.u32 %r3, %base, {full};", f"add.u32 %r4, %base, {at};", f"mov.u32 %r5, {64 * k};")
        load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        w(f"{load} [%r4], [%maps0, {{%r5, %row}}], [%r3];")
        if plan.cluster == 1:
            for chunk in range(2):
                w(f"add.u32 %r4, %base, {at + A_BYTES + chunk * CHUNK};", f"mov.u32 %r6, {128 * tile + 64 * chunk};")
                w(f"{load} [%r4], [%maps1, {{%r6, %r5}}], [%r3];")
        else:
            w(f"mad.lo.u32 %r6, %rank, 64, {128 * tile};", f"mad.lo.u32 %r7, %rank, {CHUNK}, {at + A_BYTES};")
            w("add.u32 %r4, %base, %r7;", "mov.u16 %h1, 3;")
            w(f"{load}.multicast::cluster [%r4], [%maps1, {{%r6, %r5}}], [%r3], %h1;")


def _release(w, plan, stage):
    """One thread tells every block of the cluster that this one has read the stage."""
    skip = w.label()
    w("setp.ne.u32 %p2, %r1, 0;", f"@%p2 bra {skip};", f"add.u32 %r8, %base, {EMPTY + 8 * stage};")
    for rank in range(plan.cluster):
        w(f"mapa.shared::cluster.u32 %r9, %r8, {rank};")
        w("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];")
    w(f"{skip}:")


def _descriptor(w, register, offset, bits, plan):
    w(f"add.u32 %r10, %base, {offset};")
    if plan.rank_mask:
        w("and.b32 %r10, %r10, 0x3FFFF;")
    w("shr.u32 %r10, %r10, 4;", f"cvt.u64.u32 {register}, %r10;", f"or.b64 {register}, {register}, {bits};")


def _consumer(w, plan):
    accumulators = "{" + ", ".join(f"%acc{i}" for i in range(64)) + "}"
    for tile, k, stage, parity in _steps(plan):
        w.wait(FULL + 8 * stage, parity, plan.polls)
        if plan.early_release:
            _release(w, plan, stage)
        if k == 0:
            w(*(f"mov.f32 %acc{i}, 0f00000000;" for i in range(64)))
        w(plan.wgmma_fence)
        for part in range(4):
            left, right = stage * STAGE + 32 * part, stage * STAGE + A_BYTES + 2048 * part
            _descriptor(w, "%rd2", left, hex(1 << 62 | 64 << 32 | 1 << 16), plan)
            _descriptor(w, "%rd3", right, hex(1 << 62 | 64 << 32 | 512 << 16), plan)
            w(f"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {accumulators}, %rd2, %rd3, 1, 1, 1, 0, 1;")
        w("wgmma.commit_group.sync.aligned;", plan.final_wait)
        if not plan.early_release:
            _release(w, plan, stage)
        if k == plan.k_steps - 1:
            _epilogue(w, plan, tile)
    w("cp.async.bulk.wait_group 0;")


def _epilogue(w, plan, tile):
    """Accumulators to a swizzled tile in shared memory, and from there to C."""
    skip, end = w.label(), w.label()
    w("setp.ne.u32 %p3, %r1, 0;", f"@%p3 bra {skip};", plan.epilogue_wait, f"{skip}:", "bar.sync 1, 128;")
    w("shr.u32 %r11, %lane, 2;", "and.b32 %r12, %lane, 3;", "shl.b32 %r12, %r12, 2;", "shl.b32 %r13, %warp, 4;")
    w("add.u32 %r13, %r13, %r11;", "shl.b32 %r13, %r13, 7;", "add.u32 %r13, %r13, %base;", "add.u32 %r13, %r13, %r12;")
    for pair in range(32):
        column, low = 8 * (pair // 2), pair % 2
        w(f"xor.b32 %r14, %r11, {column // 8 % 8};", "shl.b32 %r14, %r14, 4;", "add.u32 %r14, %r14, %r13;")
        w(f"cvt.rn.f16x2.f32 %r15, %acc{2 * pair + 1}, %acc{2 * pair};")
        w(f"st.shared.b32 [%r14+{OUT + column // 64 * 8192 + 8 * 128 * low}], %r15;")
    w(plan.epilogue_fence, "bar.sync 1, 128;", f"@%p3 bra {end};")
    for half in range(2):
        w(f"add.u32 %r16, %base, {OUT + 8192 * half};", f"mov.u32 %r17, {128 * tile + 64 * half};")
        w("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%maps2, {%r17, %row}], [%r16];")
    w("cp.async.bulk.commit_group;", f"{end}:")


def run(plan, rows=128, depth=None, columns=256, seed=0):
    """Emulate; returns the report, the result and A B."""
    depth = 64 * plan.k_steps if depth is None else depth
    random = np.random.default_rng(1)
    a = random.integers(-3, 4, (rows, depth)).astype(np.float16)
    b = random.integers(-3, 4, (depth, columns)).astype(np.float16)
    c = np.zeros((rows, columns), np.float16)
    blocks = -(-rows // (64 * plan.cluster)) * plan.cluster
    maps = [
        TensorMapArgument(a, "f16", (depth, rows), (2 * depth,), (64, 64), 128),
        TensorMapArgument(b, "f16", (columns, depth), (2 * columns,), (64, 64), 128),
        TensorMapArgument(c, "f16", (columns, rows), (2 * columns,), (64, 64), 128),
    ]
    report = emulate(
        text(plan), args=maps, grid=(blocks, 1, 1), block=(160, 1, 1), dynamic_shared=SHARED, seed=seed, names="abc"
    )
    return report, c, a.astype(np.float64) @ b.astype(np.float64)
