"""Keys and payloads of each block of 1024 in the order of the keys, by a radix sort in shared memory: one bit a pass.

Elements without the bit come first. The place of each is counted by a scan, and it moves there by a tile of indices.

lego-mlir run examples/second_week/radix_sort.py --size N=3000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, i32, u32

T, BITS = 1024, 16  # elements of a block, bits of a key
N = lego.size("N", max=2**30)
VECTOR = lego.Tensor(u32, Row(N))


@lego.kernel(grid=lego.cdiv(N, T), block=128, max_registers=48)
def radix_sort(key: lego.Tensor(u32, Row(N)), payload: VECTOR, keys: VECTOR, payloads: VECTOR):
    first = lego.block_id[0] * T
    moved = lego.shared(u32, Row(2, T), name="moved")
    i = first + lego.arange((T,))
    k, v = key.load(i, mask=i < N, other=2**BITS - 1), payload.load(i, mask=i < N)
    k.store(moved, at=(0, 0))
    v.store(moved, at=(1, 0))
    for bit in lego.range(BITS):
        lego.barrier()
        k, v = lego.load(moved, (T,), at=(0, 0)), lego.load(moved, (T,), at=(1, 0))
        ones = ((k >> u32(bit)) & 1).to(i32)
        through, last = ones.cumsum(axis=0), T - 1 - ones.sum()
        place = lego.where(ones != 0, last + through, ones.index(0).to(i32) - through) & (T - 1)  # which it is
        moved[0, place], moved[1, place] = k, v
    lego.barrier()
    k, v = lego.load(moved, (T,), at=(0, 0)), lego.load(moved, (T,), at=(1, 0))
    k.store(keys, at=(first,))
    v.store(payloads, at=(first,))


@radix_sort.inputs
def inputs(rng, N):
    return {"key": rng.integers(0, 2**BITS, N).astype(np.uint32)}


@radix_sort.reference
def expected(key, payload):
    order = np.concatenate([f + np.argsort(key[f : f + T], kind="stable") for f in range(0, len(key), T)])
    return key[order], payload[order]
