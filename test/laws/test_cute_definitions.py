"""Each operation of `cute` on random layouts with swizzles against the definition, evaluated by Python's ints.

The oracle here knows a layout as nested tuples of (size, stride) and bits of a swizzle, and shares no code with `cute`.
"""

import itertools
import random
from math import prod

import pytest

from lego_mlir import LayoutError, cute

Shape = int | tuple["Shape", ...]


def flat(value):
    """The ints of a nested tuple."""
    return [value] if isinstance(value, int) else [leaf for part in value for leaf in flat(part)]


def swizzled(offset, swizzle):
    """The offset with `bits` bits from `base + shift` on exclusive-ored into those from `base` on."""
    if swizzle is None:
        return offset
    bits, base, shift = swizzle
    for bit in range(bits):
        source, target = (base + bit + shift, base + bit) if shift >= 0 else (base + bit, base + bit - shift)
        offset ^= (offset >> source & 1) << target
    return offset


def digits(index, shape, last=True):
    """The coordinate of each leaf of a flat index, the first the fastest and the last one unbounded."""
    found = []
    sizes = flat(shape)
    for k, n in enumerate(sizes):
        unbounded = last and k == len(sizes) - 1
        found.append(index if unbounded else index % n)
        index //= n
    return found


def plain(layout, index):
    """The offset of a flat index before the swizzle."""
    shape, stride, _ = layout
    return sum(c * d for c, d in zip(digits(index, shape), flat(stride), strict=True))


def offset(layout, index):
    return swizzled(plain(layout, index), layout[2])


def size(shape):
    return prod(flat(shape))


def offsets(layout):
    return [offset(layout, i) for i in range(size(layout[0]))]


def of(layout):
    """A layout of `cute` as the oracle's triple, read from its parts."""
    swizzle = layout.swizzle
    return layout.shape, layout.stride, swizzle and (swizzle.bits, swizzle.base, swizzle.shift)


def made(triple):
    shape, stride, swizzle = triple
    return cute.CuteLayout(shape, stride, swizzle and cute.CuteSwizzle(*swizzle))


def drawn_swizzle(draw):
    bits = draw.randint(1, 3)
    return (bits, draw.randint(0, 3), draw.choice([1, 1, -1]) * draw.randint(bits, 4)) if draw.random() < 0.7 else None


def drawn_shape(draw, depth=2):
    if depth == 0 or draw.random() < 0.5:
        return draw.choice([1, 2, 2, 3, 4, 4, 6, 8])
    return tuple(drawn_shape(draw, depth - 1) for _ in range(draw.randint(1, 3)))


def strides(shape, values):
    return next(values) if isinstance(shape, int) else tuple(strides(part, values) for part in shape)


def drawn(draw, largest=128, compact=0.7):
    """A random layout: strides of a permutation of its modes, or any."""
    while size(shape := drawn_shape(draw)) > largest:
        pass
    leaves = flat(shape)
    steps, at = [0] * len(leaves), 1
    for k in draw.sample(range(len(leaves)), len(leaves)):
        steps[k] = at
        at *= leaves[k]
    if draw.random() > compact:
        steps = [draw.choice([0, 1, 2, 3, 4, 6, 8, 16, 24]) for _ in leaves]
    return shape, strides(shape, iter(steps)), drawn_swizzle(draw)


def left_out(triple, extent):
    """The least offsets whose sums with those of a layout count 0 .. extent - 1 once; None if there are none."""
    held = set(offsets(triple))
    seen, found = set(), []
    for start in range(extent):
        if start not in seen:
            shifted = {start + o for o in held}
            if shifted & seen:
                return None
            seen |= shifted
            found.append(start)
    return found


def check_composition(draw):
    outer, inner = drawn(draw), drawn(draw)
    found = cute.composition(made(outer), made(inner))
    assert offsets(of(found)) == [offset(outer, offset(inner, i)) for i in range(size(inner[0]))]
    if isinstance(inner[0], tuple):
        assert [size(part) for part in found.shape] == [size(part) for part in inner[0]]


def check_coalesce(draw):
    layout = drawn(draw, compact=0.4)
    found = cute.coalesce(made(layout))
    assert offsets(of(found)) == offsets(layout) and len(flat(found.shape)) <= len(flat(layout[0]))


def check_complement(draw):
    layout, extent = drawn(draw, 64), draw.randint(1, 200)
    rest = offsets(of(cute.complement(made(layout), extent)))
    together = [a + b for a, b in itertools.product(offsets(layout), rest)]
    assert rest == sorted(rest) and len(set(together)) == len(together) and set(range(extent)) <= set(together)
    expected = left_out(layout, extent)
    assert expected is not None and rest[: len(expected)] == expected


def check_inverses(draw):
    layout = drawn(draw)
    if draw.random() < 0.5:
        inverse = cute.right_inverse(made(layout))
        assert [offset(layout, i) for i in offsets(of(inverse))] == list(range(inverse.size()))
    else:
        inverse = cute.left_inverse(made(layout))
        assert [offset(of(inverse), o) for o in offsets(layout)] == list(range(size(layout[0])))


def drawn_tiler(draw, n):
    """A tiler of an axis: its triple, and what `cute` is given."""
    if draw.random() < 0.6:
        divisor = draw.choice([k for k in range(1, n + 1) if n % k == 0])
        return (divisor, 1, None), divisor
    shape, stride, swizzle = drawn(draw, 8)
    triple = shape, stride, swizzle if draw.random() < 0.1 else None
    return triple, made(triple)


def divided_axis(tiler, n, count):
    """The indices of an axis of n by (tile, rest), for a rest of `count`: all that the tiler leaves out."""
    tile = offsets(tiler)
    rest = left_out(tiler, count * len(tile))
    assert rest is not None and len(rest) == count and count * len(tile) >= n
    return tile, rest


def counted(axes):
    """The tuples of some axes, the first the fastest."""
    return [tuple(reversed(t)) for t in itertools.product(*reversed(axes))]


def check_divisions(draw):
    layout = drawn(draw)
    shape, stride, swizzle = layout
    zipped = draw.random() < 0.5
    divide = cute.zipped_divide if zipped else cute.logical_divide
    if isinstance(shape, int) or draw.random() < 0.3:
        tiler, given = drawn_tiler(draw, size(shape))
        found = of(divide(made(layout), given))
        tile, rest = divided_axis(tiler, size(shape), size(found[0][1]))
        assert offsets(found) == [offset(layout, t + r) for r in rest for t in tile]
        return
    tilers = [drawn_tiler(draw, size(part)) for part in shape[: draw.randint(1, len(shape))]]
    found = of(divide(made(layout), [given for _, given in tilers]))
    counts = [size(found[0][1][k] if zipped else found[0][k][1]) for k in range(len(tilers))]
    axes = [divided_axis(t, size(n), count) for (t, _), n, count in zip(tilers, shape, counts, strict=False)]
    others = [range(size(part)) for part in shape[len(axes) :]]

    def at(indices):
        """The offset where each mode has its index, which may be past its end."""
        return swizzled(sum(plain((s, d, None), i) for s, d, i in zip(shape, stride, indices, strict=True)), swizzle)

    if zipped:
        expected = [
            at([*(t + r for t, r in zip(tiles, rests, strict=False)), *rests[len(axes) :]])
            for rests in counted([*(rest for _, rest in axes), *others])
            for tiles in counted([tile for tile, _ in axes])
        ]
    else:
        expected = [at(i) for i in counted([*([t + r for r in rest for t in tile] for tile, rest in axes), *others])]
    assert offsets(found) == expected


def check_product(draw):
    layout, tiler = drawn(draw, 32), drawn(draw, 12)
    found = of(cute.logical_product(made(layout), made(tiler)))
    held, count = offsets(layout), size(layout[0])
    room = left_out(layout, count * (max(offsets(tiler)) + 1))
    assert offsets(found) == [o + room[k] for k in offsets(tiler) for o in held]


def check_texts_and_modes(draw):
    layout = drawn(draw)
    given = made(layout)
    assert cute.CuteLayout(str(given)) == given and given.offsets().tolist() == offsets(layout)
    assert given.cosize() == max(offsets(layout)) + 1
    if isinstance(layout[0], tuple):
        for mode, shape, stride in zip(given.modes(), *layout[:2], strict=True):
            assert mode.offsets().tolist() == offsets((shape, stride, layout[2]))


def check_conversions(draw):
    layout = drawn(draw)
    ours = cute.to_layout(made(layout))
    sizes = flat(layout[0])
    for index in range(size(layout[0])):
        assert ours.apply(*digits(index, layout[0], last=False)) == offset(layout, index)
    back = of(cute.from_layout(ours))
    assert offsets(back) == offsets(layout) and len(sizes) == len(ours.dims())


CHECKS = [check_composition, check_coalesce, check_complement, check_inverses, check_divisions, check_product,
          check_texts_and_modes, check_conversions]  # fmt: skip


def rounds(check, first, count):
    """Run a check; the number of rounds that gave a result, the others refused by LayoutError."""
    given = 0
    for seed in range(first, first + count):
        try:
            check(random.Random(seed))
        except LayoutError:
            continue
        except Exception as error:
            raise AssertionError(f"{check.__name__}(random.Random({seed}))") from error
        given += 1
    return given


@pytest.mark.parametrize("check", CHECKS)
def test_a_result_is_its_definition(check):
    assert rounds(check, 0, 100) >= 10


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS)
def test_ten_thousand_results_are_their_definitions(check):
    assert rounds(check, 1000, 1250) >= 200
