"""The tiles that products of drawn sizes take, kept as one file: types, layouts, few rows, classes and batches."""

import json
import random

import pytest
from golden_files import FOLDER, compare

from lego_mlir.choices import families, role_tiles, warp_tiles, warpgroup_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import device_with
from lego_mlir.choices.product_tile import ProductTile
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.kernels.product_classes import class_for

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


def test_every_kept_tile_reads_back():
    rows = [json.loads(line) for line in (FOLDER / "choices.jsonl").read_text().splitlines()]
    kept = [tile for row in rows for tiles in row.values() for tile in tiles.values() if tile]
    assert len(kept) > COUNT
    for tile in kept:
        assert ProductTile.from_json(tile).to_json() == tile


def test_unknown_fields_are_refused():
    with pytest.raises(Exception, match="a tile has no height, width"):
        ProductTile.from_json({"height": 64, "width": 64})
