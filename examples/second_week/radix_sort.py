"""Keys and payloads of each block of 1024 in the order of the keys, by a radix sort in shared memory: one bit a pass.

Elements without the bit come first. The place of each is counted by a scan, and it moves there by a tile of indices.

lego-mlir run examples/second_week/radix_sort.py --size N=3000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f2, i32, u32

T, BITS = 1024, 16  # elements of a block, bits of a key
N = lego.size("N", max=2**30)
VECTOR = lego.Tensor(u32, Row(N))
PAIRS = f2.Blocked((8, 2), (32, 1), (4, 1), order=(1, 0)).layout((T, 2))  # a thread has 8 neighbours
STRIPED = f2.Blocked((1, 2), (32, 1), (4, 1), order=(1, 0)).layout((T, 2))
BY_WARP = f2.LinearLayout(
    {"register": [32, 64, 128], "lane": [1, 2, 4, 8, 16], "warp": [256, 512], "block": []}, {"dim0": T}
)


@lego.kernel(grid=lego.cdiv(N, T), block=128, max_registers=51)
def radix_sort(key: lego.Tensor(u32, Row(N)), payload: VECTOR, keys: VECTOR, payloads: VECTOR):
    first = lego.block_id[0] * T
    moved = lego.shared(u32, Row(T, 2), name="moved")
    k, v = lego.load(key, BY_WARP, at=(first,), other=2**BITS - 1), lego.load(payload, BY_WARP, at=(first,))
    k.join(v).store(moved)
    for bit in lego.range(BITS):
        lego.barrier()
        both = lego.load(moved, PAIRS)
        k, v = both.split()
        ones = ((k >> u32(bit)) & 1).to(i32)
        through, last = ones.cumsum(axis=0), T - 1 - ones.sum(axis=0)
        place = lego.where(ones != 0, last + through, ones.index(0).to(i32) - through) & (T - 1)  # which it is
        lego.barrier()
        moved[place[:, None], both.index(1)] = both
    lego.barrier()
    k, v = lego.load(moved, STRIPED).split()
    k.store(keys, at=(first,))
    v.store(payloads, at=(first,))


@radix_sort.inputs
def inputs(rng, N):
    return {"key": rng.integers(0, 2**BITS, N).astype(np.uint32)}


@radix_sort.reference
def expected(key, payload):
    order = np.concatenate([f + np.argsort(key[f : f + T], kind="stable") for f in range(0, len(key), T)])
    return key[order], payload[order]
