"""Keys and payloads of each block of 1024 in the order of the keys, by a radix sort in shared memory: one bit a pass.

Elements without the bit come first. The place of each is counted by a scan, and it moves there by a tile of indices.

lego-mlir run examples/second_week/radix_sort.py --size N=3000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, i32, u32

T, BITS = 1024, 16  # elements of a block, bits of a key
N = lego.size("N")
VECTOR = lego.Tensor(u32, Row(N))


@lego.kernel(grid=lego.cdiv(N, T), block=128)
def radix_sort(key: lego.Tensor(u32, Row(N)), payload: VECTOR, keys: VECTOR, payloads: VECTOR):
    first = lego.block_id[0] * T
    k = lego.register(lego.load(key, (T,), at=(first,), other=2**BITS - 1))
    v = lego.register(lego.load(payload, (T,), at=(first,)))
    moved = lego.shared(u32, Row(2, T), name="moved")
    for bit in lego.range(BITS):
        ones = ((k >> u32(bit)) & 1).to(i32)
        through = ones.cumsum(axis=0)
        zeros = lego.arange((T,)).to(i32) - through + ones
        place = lego.where(ones != 0, T - through.max(axis=0) + through - 1, zeros) & (T - 1)  # which it is
        lego.barrier()
        moved[0, place], moved[1, place] = k, v
        lego.barrier()
        k.set(lego.load(moved, (T,), at=(0, 0)))
        v.set(lego.load(moved, (T,), at=(1, 0)))
    k.store(keys, at=(first,))
    v.store(payloads, at=(first,))


@radix_sort.inputs
def inputs(rng, N):
    return {"key": rng.integers(0, 2**BITS, N).astype(np.uint32)}


@radix_sort.reference
def expected(key, payload):
    order = np.concatenate([f + np.argsort(key[f : f + T], kind="stable") for f in range(0, len(key), T)])
    return key[order], payload[order]
