"""Triton kernels of the tests: correct ones with their references, and one planted fault each, at the line `# HERE`."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * columns + i, value / tl.sum(value, 0), mask=i < columns)


@triton.autotune([triton.Config({"BM": bm, "BN": 32, "BK": 32}, num_warps=4, num_stages=2) for bm in (32, 64)], ["m"])
@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, s = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, k, BK):
        left = tl.load(a + i[:, None] * k + at + s[None, :], mask=(i[:, None] < m) & (at + s[None, :] < k), other=0.0)
        right = tl.load(
            b + (at + s[:, None]) * n + j[None, :], mask=(at + s[:, None] < k) & (j[None, :] < n), other=0.0
        )
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * n + j[None, :], total.to(tl.float16), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def sum_of_blocks(x, partial, count, out, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    tl.store(partial + block, tl.sum(tl.load(x + block * BLOCK + tl.arange(0, BLOCK)), 0))
    if tl.atomic_add(count, 1) == tl.num_programs(0) - 1:
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, 4), volatile=True), 0))


@triton.jit
def histogram(x, out, BLOCK: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(out + tl.arange(0, 16), tl.histogram(value, 16))


@triton.jit
def through_pointers(table, out, BLOCK: tl.constexpr):
    i, which = tl.arange(0, BLOCK), tl.program_id(0)
    p = tl.load(table + which).to(tl.pointer_type(tl.float32))
    tl.store(out + which * BLOCK + i, tl.load(p + i))


def run_add():
    x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    add[(8,)](x, y, out, 1000, BLOCK=128)
    return out, x + y


def run_softmax():
    x, out = torch.randn(6, 100), torch.empty(6, 100)
    softmax[(6,)](x, out, 100, BLOCK=128)
    return out, torch.softmax(x, 1)


def run_product():
    a, b, c = torch.randn(70, 40).half(), torch.randn(40, 50).half(), torch.empty(70, 50).half()
    product[lambda meta: (triton.cdiv(70, meta["BM"]), triton.cdiv(50, meta["BN"]))](a, b, c, 70, 50, 40)
    return c.float(), a.float() @ b.float()


def run_sum_of_blocks():
    x, partial, count, out = torch.randn(512), torch.zeros(4), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    sum_of_blocks[(4,)](x, partial, count, out, BLOCK=128)
    return out[0], x.sum()


def run_histogram():
    x, out = torch.randint(0, 16, (512,), dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    histogram[(4,)](x, out, BLOCK=128)
    return out.float(), torch.bincount(x, minlength=16).float()


@triton.jit
def largest(x, place, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    tl.store(place + row, tl.argmax(value, 0).to(tl.int64))


@triton.jit
def symmetric_sum(x, out, BLOCK: tl.constexpr):
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(value * value, 0))  # fma(x, x, x' * x') is not symmetric in x and x'


def run_largest():
    x, place = torch.randn(5, 100), torch.empty(5, dtype=torch.int64)
    largest[(5,)](x, place, 100, BLOCK=128)
    return place.float(), x.argmax(1).float()


def run_symmetric_sum():
    x, out = torch.randn(4, 128), torch.empty(4)
    symmetric_sum[(4,)](x, out, BLOCK=128)
    return out, x.pow(2).sum(1)


def run_through_pointers():
    parts, out = [torch.randn(64) for _ in range(3)], torch.empty(192)
    through_pointers[(3,)](torch.tensor([p.data_ptr() for p in parts]), out, BLOCK=64)
    return out, torch.cat(parts)


CORRECT = (
    run_add, run_softmax, run_product, run_sum_of_blocks, run_histogram, run_through_pointers, run_largest,
    run_symmetric_sum,
)  # fmt: skip


@triton.jit
def no_mask_of_load(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(
        y + i,
        tl.load(x + i),  # HERE
        mask=i < n,
    )


@triton.jit
def no_mask_of_store(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v)  # HERE


@triton.jit
def fetched(p, i):
    return tl.load(p + 2 * i)  # HERE


@triton.jit
def in_a_function(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, fetched(x, i), mask=i < n)


@triton.jit
def one_tile_of_all(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + i, mask=i < n)
    tl.store(y + i, v)  # HERE


@triton.jit
def lost_update(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i) + 1)  # HERE


@triton.jit
def half_stride(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i // 2, v, mask=i < n)  # HERE


@triton.jit
def unwritten(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(y + i)  # HERE
    tl.store(x + i, v)


@triton.jit
def assertion(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x + i) < -100.0, "too large")  # HERE


@triton.jit
def endless(x, y, n, BLOCK: tl.constexpr):
    while tl.atomic_add(y, 0.0) == 0.0:  # HERE
        pass


FAULTS = {
    "no_mask_of_load": "OUT_OF_BOUNDS", "no_mask_of_store": "OUT_OF_BOUNDS", "in_a_function": "OUT_OF_BOUNDS",
    "one_tile_of_all": "RACE", "lost_update": "RACE", "half_stride": "RACE", "unwritten": "UNINITIALISED",
    "assertion": "ASSERTION", "endless": "DEADLOCK",
}  # fmt: skip
