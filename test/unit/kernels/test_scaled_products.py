"""Products with scales of blocks against NumPy: all forms, ragged sizes, and parts of columns that meet two blocks.

Operands are small integers and scales powers of two, so that sums of f32 are exact, in any order.
"""

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import geometric_mean

import ml_dtypes
import numpy as np
import pytest
from assembling import needs_ptxas

import lego_mlir
from lego_mlir import bf16, f32
from lego_mlir.choices import scaled_tiles
from lego_mlir.choices.scaled_tiles import BLOCK, most_blocks, scaled_tile
from lego_mlir.errors import UsageError
from lego_mlir.expr.verdict import Proved
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import scaled_products
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof
from lego_mlir.runtime.products import scaled
from lego_mlir.runtime.products.fused import ProductOptions
from lego_mlir.runtime.products.operands import read
from lego_mlir.toolchain import compile_kernel, ptxas, target_named

RESULTS = Path(__file__).parents[3] / "bench" / "results" / "NVIDIA-H200"
BLOCKS, UNTOUCHED = 4, 7
WIDE, PARTED, PAIRED = scaled_tile(128, 160, 2), scaled_tile(64, 64, 2, parts=4), scaled_tile(64, 96, 2, cluster=2)


def numbers(rng, *shape):
    return rng.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn)


def powers(rng, *shape):
    return (2.0 ** rng.integers(-2, 3, shape)).astype(np.float32)


def product(a, b, sa, sb):
    """Each product of two elements times its scales, in f64."""
    of_b = sb[np.arange(len(b)) // BLOCK]
    parts = [x.astype(float).reshape(len(x), x.shape[1] // BLOCK, BLOCK) for x in (a, b)]
    return np.einsum("mks,nks,mk,nk->mn", *parts, sa.astype(float), of_b.astype(float), optimize=True)


@cache
def kernel(form, tile, result=f32, multiple=8):
    return scaled_products.build(form, tile, BLOCKS, result, multiple)


def multiply(form, tile, rows, n, k, on, *, total=0, result=f32, multiple=8):
    """The rows of the result that are defined, and what they must be; `rows` are those of each matrix of b."""
    rng, groups, height = np.random.default_rng(n), len(rows), total or sum(rows)
    masked, several = [groups] * (form == "masked"), [groups] * (form != "dense")
    a, b = numbers(rng, *masked, height, k), numbers(rng, *several, n, k)
    sa, sb = powers(rng, *masked, height, k // BLOCK), powers(rng, *several, -(-n // BLOCK), k // BLOCK)
    table = {"dense": [], "masked": rows, "grouped": np.cumsum(rows), "tiles": np.repeat(np.arange(groups)[::-1], 1)}
    c = np.full((*masked, height, n), UNTOUCHED, result.numpy)
    lines = np.zeros((*masked, k // BLOCK, -(-height // 4) * 4), np.float32)  # the copy unit takes rows of 16 bytes
    lines[..., :height] = sa.swapaxes(-1, -2)
    memory = {"a": a, "b": b, "sa": lines, "sb": sb, "c": c}
    if form != "dense":
        memory["experts" if form == "tiles" else "rows"] = np.array(table[form], np.int32)
    memory = {name: np.ascontiguousarray(x).reshape(-1) for name, x in memory.items()}
    run, steps = kernel(form, tile, result, multiple), k // BLOCK
    sizes = {"M": height, "N": n, "S": steps, "G": groups, "CA": lines.shape[-1], "GA": steps * lines.shape[-1]}
    sizes = {s.name: sizes[s.name] for s in run.sizes}
    report = run_kernel(run, memory, sizes, counts=False) if on == "interp" else PtxRun(target=on)(run, memory, sizes)
    assert report.clean, report.faults[0]
    found, ends = memory["c"].reshape(c.shape), np.cumsum(rows)
    if form == "dense":
        return found, product(a, b, sa, sb).astype(result.numpy)
    if form == "masked":
        pairs = [(found[g, :r], product(a[g, :r], b[g], sa[g, :r], sb[g])) for g, r in enumerate(rows)]
    else:
        chosen = table["tiles"] if form == "tiles" else range(groups)
        slices = [slice(end - r, end) for r, end in zip(rows, ends, strict=True)]
        pairs = [(found[i], product(a[i], b[g], sa[i], sb[g])) for i, g in zip(slices, chosen, strict=True)]
        assert (found[ends[-1] :] == UNTOUCHED).all() or form == "tiles"
    return (np.concatenate([pair[side] for pair in pairs]).astype(result.numpy) for side in (0, 1))


@pytest.mark.parametrize(("form", "tile", "rows", "n", "k", "on"), [
    ("dense", WIDE, [70], 264, 256, "interp"),
    ("dense", WIDE, [130], 264, 256, "sm_90a"),
    ("dense", PARTED, [20], 72, 640, "interp"),  # the last block of the cluster has one step of two
    ("dense", PARTED, [70], 72, 384, "sm_90a"),  # and here none
    ("dense", PAIRED, [70], 200, 256, "sm_90a"),
    ("dense", scaled_tile(256, 112, 2), [300], 264, 256, "sm_90a"),  # a group multiplies its rows in two parts
    ("tiles", scaled_tile(128, 112, 2), [128, 20], 232, 128, "interp"),
    ("tiles", scaled_tile(64, 160, 2), [128, 20], 168, 256, "sm_90a"),
    ("grouped", scaled_tile(64, 128, 2), [70, 0, 58], 136, 128, "sm_90a"),
    ("masked", scaled_tile(64, 112, 2), [70, 0, 3], 136, 128, "sm_90a"),
])  # fmt: skip
def test_values_of_every_form(form, tile, rows, n, k, on):
    found, wanted = multiply(form, tile, rows, n, k, on, total=90 if form == "masked" else 0)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("tile", [scaled_tile(64, 128, 2), PARTED])
def test_columns_of_any_number_in_bf16(tile):
    found, wanted = multiply("dense", tile, [5], 67, 256, "interp", result=bf16, multiple=1)
    np.testing.assert_array_equal(found, wanted)


def test_most_blocks_by_counting():
    for columns in range(8, 257, 8):
        starts = range(0, columns * BLOCK, columns)
        assert most_blocks(columns) == max((s + columns - 1) // BLOCK - s // BLOCK + 1 for s in starts)


@pytest.mark.parametrize(("form", "tile"), [
    ("dense", WIDE), ("dense", PAIRED), ("tiles", WIDE), ("grouped", scaled_tile(128, 128)), ("masked", WIDE),
])  # fmt: skip
def test_rings_are_proved_for_all_sizes(form, tile):
    trace = kernel(form, tile).trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    assert isinstance(claim.verdict, Proved)


@needs_ptxas
@pytest.mark.parametrize(
    "tile", [scaled_tile(128, 176), scaled_tile(128, 128, cluster=2), scaled_tile(64, 128, parts=8)]
)
def test_code_has_four_products_of_a_step_and_no_spills(tile):
    text = compile_kernel(scaled_products.build("dense", tile), target="sm_90a").text
    _, (resources,) = ptxas.assemble(text, target_named("sm_90a"))
    assert resources.spill_stores == resources.spill_loads == 0
    assert len(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k32\.f32\.e4m3\.e4m3", text)) == 4
    assert "mma.sync" not in text
    loop = text[text.rindex("wgmma.mma_async") : text.index("bra", text.rindex("fma.rn.f32"))]
    assert "fence.proxy" not in loop  # the other role's threads store scales of blocks, and fence them


def test_the_choice_fills_the_device():
    for n, k in ((2112, 7168), (4096, 7168), (7168, 2048)):
        tile = scaled_tiles.choose("dense", (64, 1, n, k))
        assert -(-n // tile.n) * tile.parts <= 132
    assert all(tile.parts == tile.sharing == 1 for tile in scaled_tiles.shapes("masked"))


def test_the_choice_is_near_the_best_of_the_tiles_that_were_timed():
    """Times of all tiles of 18 products but those of 256 rows, and of a few with these; the model has seven numbers."""
    times = defaultdict(dict)
    for run in ("tiles", "tall"):
        for row in json.loads((RESULTS / f"2026-11-29-scaled_{run}.json").read_text())["rows"]:
            if row["case"][0] == "dense":
                times[run, *map(int, row["case"][2:])][row["tile"]] = row["ms"]
    slower = {}
    for (run, m, n, k), of_tile in times.items():
        t = scaled_tiles.choose("dense", (m, 1, n, k))
        chosen = f"dense-{t.m}x{t.n}x{t.stages}-cluster{t.sharing}-parts{t.parts}"
        if chosen in of_tile:
            slower[run, m, n, k] = of_tile[chosen] / min(ms for name, ms in of_tile.items() if name != "DeepGEMM")
    assert len({key[1:] for key in slower}) == 18
    assert max(slower.values()) < 1.16
    assert geometric_mean(slower.values()) < 1.02


@pytest.mark.parametrize(("form", "tile", "more", "words"), [
    ("masked", PARTED, {}, "compute whole tiles of one matrix"),
    ("tiles", scaled_tile(128, 128, 2, cluster=2), {}, "compute whole tiles of one matrix"),
    ("dense", scaled_tile(128, 112, 2), {"multiple": 1}, "take parts of whole lines"),
])  # fmt: skip
def test_tiles_that_a_form_cannot_have(form, tile, more, words):
    with pytest.raises(UsageError, match=words):
        scaled_products.build(form, tile, **more)


def operands(m=70, n=200, k=256):
    rng = np.random.default_rng(m)
    a, b = numbers(rng, m, k), numbers(rng, n, k)
    return a, b, powers(rng, m, k // BLOCK), powers(rng, -(-n // BLOCK), k // BLOCK)


@pytest.mark.parametrize("n", [200, 33])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_the_door_takes_scales_of_blocks(n):
    a, b, sa, sb = operands(n=n)
    wanted = product(a, b, sa, sb).astype(bf16.numpy)
    on_host = lego_mlir.matmul(a, b.T, scale_a=sa, scale_b=sb.T)
    np.testing.assert_array_equal(on_host, wanted)
    turned = np.asfortranarray(sa), np.ascontiguousarray(sb.T)  # other strides
    for left, scales in ((a, (sa, sb.T)), (np.asfortranarray(a), turned)):
        options = ProductOptions("bfloat16")
        found = scaled.scaled_product(read("a", left), read("b", b.T), [*scales, *[None] * 4], options, check=True)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("change", "words"), [
    ({"scale_b": None}, "both scale_a and scale_b"),
    ({"a": np.zeros((70, 256), np.float16), "b": np.zeros((256, 200), np.float16)}, "of float8_e4m3fn"),
    ({"scale_b": np.ones((2, 2), np.float16)}, "scale_b is float16"),
    ({"scale_a": np.ones((2, 70), np.float32)}, r"scale_a is float32 of shape \(2, 70\); .* of \(70, 2\)"),
    ({"activation": "relu"}, "fuses nothing else"),
    ({"result": "float8_e4m3fn"}, "the result is one of"),
])  # fmt: skip
def test_what_the_door_refuses(change, words):
    a, b, sa, sb = operands()
    given = {"a": a, "b": b.T, "scale_a": sa, "scale_b": sb.T, **change}
    with pytest.raises(UsageError, match=words):
        lego_mlir.matmul(given.pop("a"), given.pop("b"), **given)


def test_a_depth_of_parts_of_blocks_is_refused():
    a, b = (np.zeros((8, 192), ml_dtypes.float8_e4m3fn) for _ in "ab")
    ones = np.ones((8, 2), np.float32), np.ones((2, 1), np.float32)
    with pytest.raises(UsageError, match="K is a multiple of 128, got 192; pad a and b with zeros"):
        lego_mlir.matmul(a, b.T, scale_a=ones[0], scale_b=ones[1])


@pytest.mark.parametrize("n", [200, 33])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_the_door_of_groups_takes_scales_of_blocks(n):
    rng, ends = np.random.default_rng(n), np.array([3, 3, 17], np.int32)
    a, b = numbers(rng, 17, 256), numbers(rng, 3, n, 256)
    sa, sb = powers(rng, 17, 2), powers(rng, 3, -(-n // BLOCK), 2)
    parts = [product(a[s:e], b[g], sa[s:e], sb[g]) for g, (s, e) in enumerate(((0, 3), (3, 3), (3, 17)))]
    wanted = np.concatenate(parts).astype(bf16.numpy)
    given = {"scale_a": sa, "scale_b": sb.swapaxes(1, 2)}
    for check in (False, True):
        found = lego_mlir.grouped_matmul(a, b.swapaxes(1, 2), ends, **given, check=check)
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(UsageError, match=r"grouped_matmul with scales of a .* K a multiple of 128"):
        lego_mlir.grouped_matmul(a[:, :130], b[..., :130].swapaxes(1, 2), ends, **given)
    with pytest.raises(UsageError, match=r"scale_a is float32 of shape \(2, 17\)"):
        lego_mlir.grouped_matmul(a, b.swapaxes(1, 2), ends, scale_a=sa.T, scale_b=given["scale_b"])
    with pytest.raises(UsageError, match="grouped_matmul takes both scale_a and scale_b"):
        lego_mlir.grouped_matmul(a, b.swapaxes(1, 2), ends, scale_b=given["scale_b"])
