"""Random layouts of the families whose conversions the paper lists in table 3."""

from lego_mlir import f2

PLACES = ("register", "lane", "warp")


def blocked(draw, shape, warps, bits):
    order = draw.choice([(0, 1), (1, 0)])
    size, threads = [1, 1], draw.choice([(8, 4), (4, 8), (2, 16), (16, 2), (32, 1)])
    size[order[0]] = draw.choice([1, 2, 4, 8])
    return f2.Blocked(tuple(size), threads, draw.choice([(warps, 1), (1, warps)]), order)


def mma(draw, shape, warps, bits):
    return f2.MmaSync(draw.choice([(warps, 1), (1, warps)]))


def operand(draw, shape, warps, bits):
    return f2.MmaOperand(draw.choice([0, 1]), mma(draw, shape, warps, bits), max(1, 32 // bits))


def of_one_block(layout):
    return layout.sublayout([n for n in PLACES if n in layout.in_sizes], list(layout.out_sizes))


def custom(draw, shape, warps):
    """Random bases of several bits, perhaps with copies; every element has a place."""
    outs = tuple((f"dim{k}", n.bit_length() - 1) for k, n in enumerate(shape))
    total, warp_bits = sum(bits for _, bits in outs), warps.bit_length() - 1
    registers = max(0, total - 5 - warp_bits) + draw.randint(0, 1)
    columns = [1 << k for k in range(total)] + [0] * (registers + 5 + warp_bits - total)
    draw.shuffle(columns)
    for _ in range(draw.randint(0, 4)):
        first, second = draw.sample(range(len(columns)), 2)
        columns[first] ^= columns[second]
    return f2.LinearLayout.of((("register", registers), ("lane", 5), ("warp", warp_bits)), outs, columns)
