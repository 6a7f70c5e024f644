"""What is chosen for drawn sizes, kept as files: tiles of products, and what else a device's constants decide."""

import json
import random

import pytest
from golden_files import FOLDER, compare

from lego_mlir import f2
from lego_mlir.choices import families, role_tiles, warp_tiles, warpgroup_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import device_with
from lego_mlir.choices.product_tile import ProductTile
from lego_mlir.f2.conversion import conversion_plan, memory_slots, shuffle_slots
from lego_mlir.formats.field_moves import Move
from lego_mlir.formats.move_tiles import tile_of
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.kernels import transpose
from lego_mlir.kernels.attention_forms import HEADS, AttentionForm, HeadSizes, fastest
from lego_mlir.kernels.product_classes import class_for
from lego_mlir.tracing.trace.dtypes import dtype_named

TYPES = (("f16", "f16"), ("bf16", "f32"), ("f8e4m3fn", "bf16"), ("i8", "i32"), ("f32", "f32"))
SIDES = (64, 256, 1000, 1176, 2048, 4096, 5000, 8192, 14336)
ROWS = (1, 16, 64, 100, 128, 300)
MULTIPROCESSORS = (132, 132, 114, 108)
COUNT = 32


def product(seed):
    """The choice of a drawn product: what computes it, of exactly its sizes and by class."""
    draw = random.Random(seed)
    (dtype, result), sms = TYPES[draw.choice((0, 0, 1, 2, 3, 4))], draw.choice(MULTIPROCESSORS)
    layouts = draw.choice(("NN", "NT", "TN", "TT")) if ELEMENT_BYTES[dtype] == 2 else "NT"
    m, n, k = draw.choice(ROWS + SIDES), draw.choice(SIDES), draw.choice(SIDES)
    device, size, label = device_with(sms), (m, n, k), f"{m}x{n}x{k} {layouts} {dtype} {result} {sms}"
    if families.warpgroups_compute(size, layouts, dtype, result, device):
        tile = warpgroup_tiles.choose(*size, device, layouts, ELEMENT_BYTES[dtype], fused=dtype[:2] != result[:2])
    elif warp_tiles.is_parted(m, k):
        tile = warp_tiles.choose_parts(ProductSize(m, n, k, "NT"), device)
    else:
        tile = warp_tiles.choose(ProductSize(m, n, k, layouts), LARGEST_SHARED_BYTES, device)
    found = class_for(size, layouts, dtype, result, "sm_90a", device)
    return label, {"exact": tile.to_json(), "class": found and found.tile.to_json()}


def batch(seed):
    """The tile of a drawn batch."""
    draw = random.Random(seed)
    count, rows, n, k = draw.choice((2, 16, 64)), *(draw.choice(SIDES) for _ in range(3))
    lines, clusters, sms = draw.choice((1, 2)), draw.random() < 0.5, draw.choice(MULTIPROCESSORS)
    tile = role_tiles.choose((count * rows, count, n, k), device_with(sms), lines=lines, clusters=clusters)
    return f"{count} of {rows}x{n}x{k} {lines} lines {sms} {clusters}", {"tile": tile.to_json()}


def test_choices(request):
    rows = [json.dumps(dict([pair])) for make in (product, batch) for pair in map(make, range(COUNT))]
    compare("\n".join(rows) + "\n", FOLDER / "choices.jsonl", request)


def transposes():
    """Grids and threads of transposes: even, odd and symbolic widths, few tiles and many."""
    for size in (
        (64, 64),
        (1000, 520),
        (1025, 1025),
        (2500, 2500),
        (3000, 3000),
        (4097, 4097),
        (5003, 6007),
        (8192, 8192),
    ):
        for dtype in ("i8", "f16", "f32"):
            kernel = transpose.build("vectorised", *size, dtype_named(dtype))
            yield f"transpose {size[0]}x{size[1]} {dtype}", [str(kernel.grid), str(kernel.block)]


def layout(draw, registers, rows, total, fixed):
    """The bits of a tile in a drawn order; so many of the first stay in the warp."""
    units = [(1 << k, 0) if k < rows else (0, 1 << k - rows) for k in range(total)]
    inside = draw.sample(units[fixed:], total - fixed)
    places = {"register": inside[:registers], "lane": inside[registers : registers + 5]}
    return f2.LinearLayout(
        {**places, "warp": units[:fixed] or inside[-2:]}, {"dim0": 1 << rows, "dim1": 1 << total - rows}
    )


def conversions():
    """The ways of conversions between drawn layouts, and their issue slots; the first half stay in their warps."""
    for seed in range(COUNT):
        draw = random.Random(seed)
        registers, rows, bits = draw.randint(1, 4), draw.randint(2, 4), draw.choice((8, 16, 32))
        sides = [layout(draw, registers, rows, registers + 7, 2 * (seed < COUNT // 2)) for _ in range(2)]
        plan = conversion_plan(*sides, bits)
        slots = {"ShufflePlan": shuffle_slots, "SwizzlePlan": memory_slots}.get(type(plan).__name__, lambda _: 0)(plan)
        yield f"conversion {seed} of {bits} bits", [type(plan).__name__, slots]


def attentions():
    """The tiles of causal and full attention by features, heads and positions."""
    for features in HEADS:
        for causal in (False, True):
            form = AttentionForm(features, causal=causal)
            taken = [
                fastest(form, HeadSizes(1, heads, n, n), 132) for heads in (8, 64) for n in (300, 777, 1024, 3001, 8192)
            ]
            yield f"attention {features} {causal}", [f"{t.rows}x{t.keys} {t.stages} {blocks}" for t, blocks in taken]


def moves():
    """The tiles of transpositions of elements, whole and in blocks."""
    for unit in (4, 8, 16, 32):
        for rows, columns in ((64, 64), (4096, 16384), (384, 1000)):
            tile = tile_of(Move(((rows, unit, unit * columns), (columns, unit * rows, unit)), unit, (0, 0)))
            yield (
                f"move {rows}x{columns} of {unit} bits",
                None if tile is None else [tile.bits, tile.blocks, tile.store],
            )


def test_what_constants_of_the_device_decide(request):
    rows = [json.dumps(dict([pair])) for make in (transposes, conversions, attentions, moves) for pair in make()]
    compare("\n".join(rows), FOLDER / "device_choices.jsonl", request)


def test_every_kept_tile_reads_back():
    rows = [json.loads(line) for line in (FOLDER / "choices.jsonl").read_text().splitlines()]
    kept = [tile for row in rows for tiles in row.values() for tile in tiles.values() if tile]
    assert len(kept) > COUNT
    for tile in kept:
        assert ProductTile.from_json(tile).to_json() == tile


def test_unknown_fields_are_refused():
    with pytest.raises(Exception, match="a tile has no height, width"):
        ProductTile.from_json({"height": 64, "width": 64})
