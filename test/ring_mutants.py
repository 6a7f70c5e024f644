"""A product by roles with persistent blocks, and faults planted in its rings."""

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery, i32

M = N = 128
TILE, STAGES = 64, 3


def product(fault="", stages=STAGES):
    """c = a b for any K; one role copies, the other multiplies two tiles of C, one after the other."""
    k_size = lego.size("K", min=8, max=4096, multiple_of=8)
    swizzled, parent = gallery.xor_swizzle(stages * TILE, TILE, 8), f2.MmaSync((4, 1))
    slots = stages - 1 if fault == "one stage too few" else stages

    @lego.kernel(grid=(2,), block=160)
    def mutant(
        a: lego.Tensor(f16, Row(M, k_size)), b: lego.Tensor(f16, Row(k_size, N)), c: lego.Tensor(f32, Row(M, N))
    ):
        left, right = lego.shared(f16, swizzled, "left"), lego.shared(f16, swizzled, "right")
        full = lego.barriers(stages, arrivals=2 if fault == "two arrivals expected" else 1)
        empty = lego.barriers(stages, arrivals=3 if fault == "three arrivals expected" else 4)
        steps = lego.cdiv(k_size, TILE)
        with lego.warps(4, 5):
            used = lego.register(i32, 0)
            for part in lego.range(2):
                for k in lego.range(steps + 1 if fault == "a step more copied" else steps):
                    use = lego.index(used.get(), range=(0, 2**20)) + k
                    place = 2 * use % stages if fault == "slots skipped" else use % slots
                    if fault != "no wait for empty":
                        empty[use - stages + (stages if fault == "wrong parity of empty" else 0)].wait()
                    barrier = full[use]
                    if fault == "arrival before the copy":
                        barrier.arrive()
                    at = (part * TILE, k * TILE)
                    lego.copy_async(a, left.part((place * TILE, 0), (TILE, TILE)), at=at, barrier=barrier)
                    at = (k * TILE, lego.block_id[0] * TILE)
                    lego.copy_async(b, right.part((place * TILE, 0), (TILE, TILE)), at=at, barrier=barrier)
                    if fault not in ("arrival before the copy", "no arrival at full"):
                        barrier.arrive()
                used.set(used + lego.i32(steps))
        with lego.warps(0, 4):
            used = lego.register(i32, 0)
            for part in lego.range(2):
                total = lego.register(lego.zeros(f32, parent.layout((TILE, TILE))))
                for k in lego.range(steps + 1 if fault == "a step more multiplied" else steps):
                    use = lego.index(used.get(), range=(0, 2**20)) + k
                    place = use % slots
                    if fault != "no wait for full":
                        full[use + (stages if fault == "wrong parity of full" else 0)].wait()
                    if fault == "released before the last read":
                        empty[use].arrive()
                    added = lego.mma(
                        left.part((place * TILE, 0), (TILE, TILE)), right.part((place * TILE, 0), (TILE, TILE)), total
                    )
                    if fault == "in flight at the arrival":
                        empty[use].arrive(products=False)
                    total.set(added)
                    if fault not in (
                        "released before the last read",
                        "in flight at the arrival",
                        "no arrival at empty",
                    ):
                        empty[use].arrive()
                used.set(used + lego.i32(steps))
                total.store(c, at=(part * TILE, lego.block_id[0] * TILE))

    return mutant


FAULTS = (
    "released before the last read",
    "no arrival at empty",
    "no arrival at full",
    "no wait for empty",
    "no wait for full",
    "wrong parity of empty",
    "wrong parity of full",
    "two arrivals expected",
    "three arrivals expected",
    "one stage too few",
    "slots skipped",
    "a step more copied",
    "a step more multiplied",
    "in flight at the arrival",
    "arrival before the copy",
)
