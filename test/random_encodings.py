"""Random encodings of every family, each beside the description of Triton's encoding of the same name.

A family is a function of a `random.Random`; it returns one of ours and the request for `triton_linear.of`.
"""

import random
from collections.abc import Callable
from typing import Any

from lego_mlir.f2 import encodings as f2

Pair = tuple[f2.Encoding, list[Any]]


def power(draw: random.Random, low: int, high: int) -> int:
    """A power of two with an exponent in `low..high`."""
    return 1 << draw.randint(low, high)


def spread(draw: random.Random, bits: int, rank: int) -> list[int]:
    """Some bits spread over the dimensions, as sizes."""
    counts = [0] * rank
    for _ in range(bits):
        counts[draw.randrange(rank)] += 1
    return [1 << n for n in counts]


def blocks(draw: random.Random, rank: int) -> list[list[int]]:
    """The bases of a cluster's blocks: none, or up to two bits, perhaps with a copy."""
    if draw.random() < 0.6:
        return []
    bases = []
    for axis, size in enumerate(spread(draw, draw.randint(1, 2), rank)):
        bases += [[1 << k if d == axis else 0 for d in range(rank)] for k in range(size.bit_length() - 1)]
    if draw.random() < 0.3:
        bases.append([0] * rank)
    draw.shuffle(bases)
    return bases


def order(draw: random.Random, rank: int) -> list[int]:
    """The axes in a random order."""
    return draw.sample(range(rank), rank)


def blocked(draw: random.Random, ranks: tuple[int, ...] = (1, 2, 2, 3, 4)) -> Pair:
    rank = draw.choice(ranks)
    size, threads = [power(draw, 0, 3) for _ in range(rank)], spread(draw, 5, rank)
    warps, axes, cluster = spread(draw, draw.randint(0, 3), rank), order(draw, rank), blocks(draw, rank)
    ours = f2.Blocked(tuple(size), tuple(threads), tuple(warps), tuple(axes), cluster)
    boxes = {"size_per_thread": size, "threads_per_warp": threads, "warps_per_cta": warps}
    return ours, ["BlockedLayout", {**boxes, "order": axes, "cga_layout": cluster}]


def mma_sync(draw: random.Random) -> Pair:
    rank = draw.choice((2, 2, 3))
    warps, cluster = spread(draw, draw.randint(0, 3), rank), blocks(draw, rank)
    theirs = {"version": [2, 0], "warps_per_cta": warps, "instr_shape": [1] * (rank - 2) + [16, 8]}
    return f2.MmaSync(tuple(warps), (16, 8), cluster), ["NVMMADistributedLayout", {**theirs, "cga_layout": cluster}]


def wgmma(draw: random.Random) -> Pair:
    warps, n, cluster = [power(draw, 2, 3), power(draw, 0, 1)], power(draw, 3, 8), blocks(draw, 2)
    theirs = {"version": [3, 0], "warps_per_cta": warps, "instr_shape": [16, n, 16], "cga_layout": cluster}
    return f2.Wgmma(tuple(warps), n, cluster), ["NVMMADistributedLayout", theirs]


def _operand(kind: Any, index: int, parent: Pair, ours: int, theirs: int) -> Pair:
    described = {"operand_index": index, "parent": parent[1], "k_width": theirs}
    return kind(index, parent[0], ours), ["DotOperandLayout", described]


def mma_operand(draw: random.Random) -> Pair:
    width = power(draw, 0, 3)
    return _operand(f2.MmaOperand, draw.randint(0, 1), mma_sync(draw), width, width)


def wgmma_operand(draw: random.Random) -> Pair:
    width = power(draw, 0, 2)
    return _operand(f2.MmaOperand, 0, wgmma(draw), width, width)


def blocked_operand(draw: random.Random) -> Pair:
    return _operand(f2.MmaOperand, draw.randint(0, 1), blocked(draw, (2, 2, 3)), 1, 0)


def mfma(draw: random.Random) -> Pair:
    rank, transposed = draw.choice((2, 2, 3)), draw.random() < 0.5
    m, n = draw.choice([(32, 32), (16, 16), *([(64, 4), (4, 64)] if transposed else [])])
    bits = draw.choice((32, 32, 64)) if (m, n) == (16, 16) else 32
    warps, cluster, k = spread(draw, draw.randint(0, 3), rank), blocks(draw, rank), power(draw, 2, 5)
    tiles = [1] * (rank - 2) + ([power(draw, 0, 2), power(draw, 0, 2)] if draw.random() < 0.5 else [1, 1])
    ours = f2.Mfma((m, n, k), tuple(warps), transposed, bits, tuple(tiles), cluster)
    theirs = {"version": 3, "instr_shape": [m, n, k], "transposed": transposed, "warps_per_cta": warps}
    return ours, ["AMDMFMALayout", {**theirs, "element_bitwidth": bits, "tiles_per_warp": tiles, "cga_layout": cluster}]


def mfma_operand(draw: random.Random) -> Pair:
    width = power(draw, 0, 4)
    return _operand(f2.MfmaOperand, draw.randint(0, 1), mfma(draw), width, width)


def wmma(draw: random.Random) -> Pair:
    version, transposed = draw.choice((1, 2, 3)), draw.random() < 0.5
    m, k = draw.choice({1: [(16, 16)], 2: [(16, 16), (16, 32)], 3: [(16, 32), (16, 64), (16, 128), (32, 128)]}[version])
    placed = spread(draw, draw.randint(0, 4), 2)
    bases = [
        [1 << k if d == axis else 0 for d in (0, 1)] for axis in (0, 1) for k in range(placed[axis].bit_length() - 1)
    ]
    draw.shuffle(bases)
    warps = bases[: draw.randint(0, min(3, len(bases)))]
    registers, cluster = bases[len(warps) :], blocks(draw, 2)
    ours = f2.Wmma(version, tuple(map(tuple, warps)), tuple(map(tuple, registers)), (m, 16, k), transposed, cluster)
    theirs = {"version": version, "transposed": transposed, "warp_bases": warps, "reg_bases": registers}
    return ours, ["AMDWMMALayout", {**theirs, "instr_shape": [m, 16, k], "cga_layout": cluster, "rank": 2}]


def wmma_operand(draw: random.Random) -> Pair:
    width = power(draw, 2, 4)
    return _operand(f2.WmmaOperand, draw.randint(0, 1), wmma(draw), width, width)


def sliced(draw: random.Random) -> Pair:
    parents: list[Callable[[random.Random], Pair]] = [mma_sync, wgmma, mma_operand, wgmma_operand, blocked_operand]
    ours, theirs = draw.choice([lambda d: blocked(d, (2, 3, 4)), *parents])(draw)
    axis = draw.randrange(ours.rank)
    return f2.Sliced(axis, ours), ["SliceLayout", {"dim": axis, "parent": theirs}]


def swizzled(draw: random.Random) -> Pair:
    rank = draw.choice((2, 2, 3, 4))
    vec, phase, phases = power(draw, 0, 4), power(draw, 0, 3), power(draw, 0, 4)
    axes, cluster = order(draw, rank), blocks(draw, rank)
    theirs = {"vec": vec, "per_phase": phase, "max_phase": phases, "order": axes, "cga_layout": cluster}
    return f2.SwizzledShared(vec, phase, phases, tuple(axes), cluster), ["SwizzledSharedLayout", theirs]


def tensor_copy(draw: random.Random) -> Pair:
    rank, swizzle, padded = draw.choice((2, 2, 2, 3, 4)), draw.choice((0, 32, 64, 128)), draw.random() < 0.2
    bits, transposed, cluster = (
        8 if padded else draw.choice((8, 16, 32)),
        rank == 2 and draw.random() < 0.4,
        blocks(draw, rank),
    )
    theirs = {"swizzle_byte_width": swizzle, "element_bitwidth": bits, "rank": rank, "transposed": transposed}
    return f2.TensorCopyShared(swizzle, bits, rank, transposed, padded, cluster), [
        "NVMMASharedLayout",
        {**theirs, "fp4_padded": padded, "cga_layout": cluster},
    ]


FAMILIES: dict[str, Callable[[random.Random], Pair]] = {
    family.__name__: family
    for family in (
        *(blocked, mma_sync, wgmma, mma_operand, wgmma_operand, blocked_operand, sliced),
        *(mfma, mfma_operand, wmma, wmma_operand, swizzled, tensor_copy),
    )
}


def shape(draw: random.Random, family: str, encoding: f2.Encoding) -> list[int]:
    """A tensor's shape: large enough for a box of the tensor-copy engine in most draws."""
    low, high = (3, 9) if family == "tensor_copy" else (0, 7)
    return [power(draw, low, high) for _ in range(encoding.rank)]
