"""Products of matrices against cuBLAS and PyTorch: suites of cases, and the kernels that are built for each.

    python bench/products.py SUITE STEP [WORD ..]     the steps of `runner.py`: `hopper time squares NT`

hopper            squares and sizes that no tile divides, in the tile that lego_mlir.matmul chooses among warpgroups
hopper_study      the same at some sizes, with other tiles, clusters and groups
hopper_types      other types, epilogues, and sums that are promoted
divided_products  few rows, and few tiles with long sums: K in parts
small_products    few rows by mma.sync, K whole and in parts, with B from memory
odd_products      rows that are not whole words of 16 bytes: aligned copies, and kernels that read odd rows
class_products    one kernel for all sizes of a class, next to that of each size
product_choices   the model's choice and the leaders of other kinds: is the first one the quickest?
matmul            by mma.sync at the papers' sizes, the best of the model's ranking
product_tuning    every candidate of both families, one launch after a flush: what the time model is fitted to
product_rows      rows from 1 to 300 around the edges of tiles, by four weights, and drawn sizes: what `matmul` runs
product_parts     rows from 72 to 300 by five weights: what `matmul` runs, and K in parts
three_groups_drawn  drawn sizes: the choice with tiles of three groups of warps and, where it differs, without them
product_kinds     few rows of 16 and 8 bits: the leaders of every kind, among them those that the choice leaves out
product_sizes     drawn sizes, and the leading tiles of the time model at each, as kernels of all sizes

SEED draws other sizes of the last two: those of a fit are not those that judge it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product as every
from typing import Any

import harness
import mlir_kernels
import product_cases as cases
import product_runs
import product_tables
import recorded_tiles
import runner
from harness import Protocol
from product_cases import Product, of_types
from product_runs import PLAIN_TARGET, PYTORCH, SMS, TARGET, Suite, Way

SCRIPT, F16_BYTES = "matmul_sm80.mlir", 2


def file_of(product: Product, label: str) -> str:
    return f"{product}-{label}".replace(" ", "-")


# -- squares and other sizes

LARGE = 2048
ALONE, ALONG_M, ALONG_N = (1, 1), (2, 1), (1, 2)
LARGE_TILES = (
    ((128, 256), ALONE, 16), ((128, 256), ALONG_N, 16), ((128, 256), ALONG_M, 8), ((256, 192), ALONE, 11),
    ((256, 192), ALONG_N, 11), ((256, 192), ALONG_M, 6), ((256, 128), ALONG_N, 8), ((128, 192), ALONG_N, 16),
)  # fmt: skip
SMALL_TILES = tuple((tile, way, 16) for tile in ((128, 128), (64, 128), (64, 64)) for way in (ALONE, ALONG_N))


def by_tile(product: Product, label: str, tile: Any) -> Way:
    """The kernel by warpgroups in a tile."""
    facts = {"tile": str(tile), "stages": tile.stages, "division": tile.to_json()}
    return Way(file_of(product, f"{tile}-{tile.stages}s"), lambda: product_runs.compiled(product, tile), facts)


def chosen(product: Product) -> dict[str, Way]:
    return {"chosen": by_tile(product, "chosen", product_runs.tile_for(product))}


def studied(product: Product) -> dict[str, Way]:
    """The chosen kernel, and other tiles, clusters and groups."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.choices.warpgroup_tiles import Wanted, tile_of

    small, found = max(product.size) < LARGE, chosen(product)
    for tile, cluster, group in SMALL_TILES if small else LARGE_TILES:
        for dependent in (False, True)[: 1 + small]:
            wanted = Wanted(*product.size, device_with(SMS), "NN")
            one = tile_of(wanted, tile, cluster, group, dependent=dependent)
            found[str(one)] = by_tile(product, str(one), one)
    return found


def hopper_static() -> list[dict[str, Any]]:
    """Registers and main loops of the tiles at 4096."""
    from lego_mlir.choices.warpgroup_tiles import Wanted, tile_of

    tiles = (((128, 256), ALONE), ((128, 256), ALONG_M), ((128, 256), ALONG_N), ((256, 192), ALONE),
             ((256, 192), ALONG_N), ((128, 128), ALONE), ((64, 128), ALONE), ((64, 64), ALONE))  # fmt: skip
    rows = []
    for layouts, dtype in (("NT", "f16"), ("NN", "f16"), ("TN", "f16"), ("TT", "f16"), ("NT", "bf16")):
        for tile, cluster in tiles:
            product = of_types((4096,) * 3, layouts, dtype)
            made = product_runs.compiled(product, tile_of(Wanted(*product.size, layouts="NN"), tile, cluster), "ptx")
            code = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
            shared = "" if cluster == ALONE else f" cluster {cluster[0]}x{cluster[1]}"
            name = f"{tile[0]}x{tile[1]}x64{shared} {layouts} {dtype}"
            rows.append(harness.static_row(code, "GMMA", kernel=name, layouts=layouts, dtype=dtype, tile=tile))
    return rows


# -- types, epilogues, K in parts


def lego(product: Product) -> dict[str, Way]:
    """What lego_mlir.matmul launches: copies that make K contiguous, and the product."""
    tile = product_runs.tile_for(product)
    found = by_tile(product, "lego", tile)
    along = {}
    if product.is_turned:
        (m, n, k), wanted = product.size, dict(zip("ab", "NT", strict=True))
        given, rows = dict(zip("ab", product.layouts, strict=True)), {"a": m, "b": n}
        along = {name: _along(k, rows[name]) for name in "ab" if given[name] != wanted[name]}
    return {"lego": replace(found, steps={"along": along} if along else {})}


# -- copies before a product: along K, and to aligned rows


def helpers(folder: Any) -> None:
    """The copies that products of other layouts or odd sizes need, in the same folder."""
    from lego_mlir.kernels import aligned_copies, rows_along_k
    from lego_mlir.tracing.trace.dtypes import dtype_named

    made = {f"along-{width}": rows_along_k.along_k(1, width) for width in (1, 4, 8, 16)}
    for dtype in ("f16", "bf16"):
        type_ = dtype_named(dtype)
        made |= {f"pad-N-{dtype}": aligned_copies.pad(type_), f"pad-T-{dtype}": aligned_copies.pad(type_, True),
                 f"crop-{dtype}": aligned_copies.crop(type_)}  # fmt: skip
    for name, kernel in made.items():
        mlir_kernels.keep_code(folder, name, mlir_kernels.compiled(kernel, PLAIN_TARGET))


def _along(k: int, rows: int) -> str:
    from lego_mlir.kernels import depth_copies

    return f"along-{depth_copies.width_for(k, rows, 1)}"


def odd(product: Product) -> dict[str, Way]:
    """A product on aligned copies, as lego_mlir.matmul computes it, or by kernels that read the odd rows."""
    from lego_mlir.kernels.aligned_products import ALIGNED, widened

    size, layouts, dtype = product.size, product.layouts, product.dtype
    wide = widened(*size, layouts, cases.LINE if size in cases.LINES else ALIGNED)
    assert wide is not None  # every case has rows to pad
    pads = dict(zip("ab", zip(layouts, wide.copied, strict=True), strict=True))
    steps: dict[str, Any] = {
        "wide": wide.sizes, "pad": {name: f"pad-{letter}-{dtype}" for name, (letter, copied) in pads.items() if copied}
    }  # fmt: skip
    steps |= {"crop": f"crop-{dtype}"} if wide.cropped else {}
    plans = [("lines" if size in cases.LINES else "copies", wide.sizes, TARGET, steps)]
    by_mma = [("mma.sync copies", wide.sizes, PLAIN_TARGET, steps), ("direct", size, PLAIN_TARGET, {})]
    if size in cases.ODD_FEW:
        plans = by_mma
    elif size in cases.SYNC and dtype == "f16" and layouts in ("NN", "NT"):
        plans += by_mma
    elif size in cases.LINES:
        plans.append(("as it is", size, TARGET, {}))
    return {label: _exactly(of_types(of, layouts, dtype), target, more) for label, of, target, more in plans}


def _exactly(product: Product, target: str, steps: Mapping[str, Any]) -> Way:
    """The kernel that lego_mlir.matmul takes for a product on a target."""

    def build() -> Any:
        from lego_mlir.runtime.products.kernels import compiled
        from lego_mlir.runtime.products.problem import Problem

        types = product.dtype, product.result
        return compiled(Problem(*product.size, *types, product.layouts, target, SMS), "cubin")

    return Way(file_of(product, target), build, steps=steps)


# -- by mma.sync

PARTS = (1, 3, 8)


def by_mma(product: Product, tile: Any, emit: str = "cubin") -> Way:
    """The kernel by mma.sync in a tile, K whole or in parts."""

    def build() -> Any:
        from lego_mlir import Col, Row
        from lego_mlir.kernels import matmul
        from lego_mlir.kernels.split_k import SplitK
        from lego_mlir.tracing.trace.dtypes import dtype_named

        m, n, k = product.size
        order = {"T": Col, "N": Row}
        a, b = (order[letter](*dims) for letter, dims in zip(product.layouts, ((m, k), (k, n)), strict=True))
        dtype, result = map(dtype_named, (product.dtype, product.result))
        blocks = {"order": tile.order, "blocks": tile.blocks(SMS)}
        if tile.parts > 1:
            blocks = {"split": SplitK(tile.parts, tile.blocks(SMS))}
        kernel = matmul.build(m, n, k, dtype, a=a, b=b, result=result, tiling=tile, **blocks)
        given = {"transform": SCRIPT, "parameters": {"stages": tile.stages}}
        return mlir_kernels.compiled(kernel, PLAIN_TARGET, emit, **given)

    blocks = (tile.blocks(SMS) or 0) if tile.parts > 1 else 0
    name = f"{tile.m}x{tile.n}x{tile.k}-{tile.threads}-{tile.stages}s"
    facts = {"parts": tile.parts, "blocks": blocks, "tile": name}
    return Way(file_of(product, f"{name}-{tile.parts}p-{blocks}b"), build, facts)


def small(product: Product) -> dict[str, Way]:
    """As the model chooses among parts of K, and with other numbers of parts."""
    from lego_mlir.choices import warp_tiles
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.choices.product_device import device_with

    size = ProductSize(*product.size, "NT")
    best = warp_tiles.choose_parts(size, device_with(SMS))
    full = next(tile for tile in warp_tiles.PARTED if tile.m == best.m)
    found = {"chosen": best}
    for parts in PARTS:
        if parts <= warp_tiles.most_parts(size.k, best):
            found[f"{parts} parts"] = warp_tiles.with_parts(size, full, parts, SMS)
    distinct = dict({tile: (label, tile) for label, tile in reversed(found.items())}.values())
    return {label: by_mma(product, tile) for label, tile in distinct.items()}


LAYOUTS, ORDERS = ("NN", "NT", "TN", "TT"), ("row", "column", "grouped", "morton")
RANKED, STUDIED_SYNC = 5, Product((4096, 4096, 4096), "NN")
"""Candidates of a product by mma.sync, and the one with every order and several depths of the best."""


def synchronous(product: Product) -> dict[str, Way]:
    """The best of the model's ranking of candidates for mma.sync."""
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.choices.product_time import product_time
    from lego_mlir.choices.warp_tiles import CANDIDATES, fitting
    from lego_mlir.hardware.targets import target_named

    size, room = ProductSize(*product.size, product.layouts, F16_BYTES), target_named(PLAIN_TARGET).shared_per_block
    ranked = sorted(CANDIDATES, key=lambda c: product_time(size, c).microseconds)[:RANKED]
    if product == STUDIED_SYNC:
        ranked += [replace(ranked[0], order=order) for order in ORDERS]
        ranked += [replace(ranked[0], stages=stages) for stages in (2, 3)]
    found = {}
    for choice in dict.fromkeys(fitting(c, product.size[2], room, F16_BYTES) for c in ranked):
        name = f"{'x'.join(map(str, product.size))}-{product.layouts}-{label_of(choice)}"
        found[name] = replace(by_mma(product, choice), file=name, facts=recorded_tiles.as_row(choice))
    return found


def label_of(choice: Any) -> str:
    """The tile, its warps, the stages, the order and the blocks that stay."""
    t, stay = choice, f"-{choice.resident}r" * bool(choice.resident)
    return f"{t.m}x{t.n}x{t.k}-{t.warps[0]}x{t.warps[1]}w-{choice.stages}s-{choice.order}{stay}"


def sync_static() -> list[dict[str, Any]]:
    """Every candidate for mma.sync in every layout at 4096, f16 to f16; the largest also as bf16, and into f32."""
    from lego_mlir.choices.warp_tiles import CANDIDATES

    rows = []
    for choice, layouts in every(CANDIDATES, LAYOUTS):
        for dtype, result in [("f16", "f16")] + [("bf16", "bf16"), ("f16", "f32")] * (choice == CANDIDATES[0]):
            product = Product(STUDIED_SYNC.size, layouts, dtype, result)
            made = by_mma(product, choice, "ptx").build()
            code = mlir_kernels.assembled(made.text, PLAIN_TARGET, mlir_kernels.shared_bytes(made))
            facts = {**recorded_tiles.as_row(choice), "layouts": layouts, "dtype": dtype, "result": result}
            name = f"{label_of(choice)} {layouts} {dtype} {result}"
            row = harness.static_row(code, "HMMA", kernel=name, **facts)
            row["blocks_per_sm"] = mlir_kernels.blocks_per_sm(row, choice.threads)
            rows.append(row)
    return rows


# -- classes, and choices of the model


def of_class(product: Product) -> Way:
    """The kernel of all sizes of a class."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.kernels.product_classes import class_of

    found = class_of(product.size, product.layouts, product.dtype, product.result, device_with(SMS))
    step = 1 if product.layouts[0] == "N" else 64 if "whole" in found.name else 8
    facts = {"class_step": step, "tile": str(found.tile)}
    return Way(found.name, lambda: mlir_kernels.compiled(found.kernel(), TARGET), facts)


def classed(product: Product) -> dict[str, Way]:
    return {"fixed": chosen(product)["chosen"], "class": of_class(product)}


COUNT, NEAR = 5, 1.15
"""Kernels of a case, and the predicted time of one relative to the first up to which it is among them."""
ROUNDS_IN_DOUBT = range(2, 5)
"""Rounds of tiles at which kernels with and without lockstep are compared."""
MMA_ROWS, MMA_WORK = 64, 2**28
"""M, or M N K, up to which kernels with mma.sync take part."""


def leaders(product: Product) -> dict[str, Way]:
    """The choice of lego_mlir.matmul, the quickest tiles of other kinds by the model, mma.sync and the class."""
    from lego_mlir.choices import warp_tiles, warpgroup_tiles
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.hardware.targets import target_named

    size, layouts = product.size, product.layouts
    m, n, k = size
    best = product_runs.tile_for(product)
    wanted = warpgroup_tiles.Wanted(m, n, k, device_with(SMS), layouts)
    tiles = [*warpgroup_tiles.candidates(wanted), *warpgroup_tiles.divided_tiles(wanted)]
    times = [wanted.microseconds(tile) for tile in tiles]
    kinds: dict[Any, Any] = {}
    for us, _, tile in sorted(zip(times, range(len(tiles)), tiles, strict=True), key=lambda entry: entry[:2]):
        if us <= NEAR * min(times):
            tile = replace(tile, dependent=us < wanted.device.choice.short and tile.lockstep == 0)
            kinds.setdefault((tile.transposed, tile.m, tile.cluster, tile.parts), tile)
    found = {"model": best}
    rows, columns = best.tiles(m, n)
    if best.parts == 1 and rows * columns // best.clusters(SMS) in ROUNDS_IN_DOUBT:
        other = replace(best, lockstep=0 if best.lockstep else wanted.device.choice.meeting)
        found[str(other)] = other
    found |= {str(tile): tile for tile in kinds.values() if tile != best}
    ways = {label: by_tile(product, label, tile) for label, tile in list(found.items())[:COUNT]}
    if m <= MMA_ROWS or m * n * k < MMA_WORK:
        room = target_named(PLAIN_TARGET).shared_per_block
        one = ProductSize(m, n, k, layouts)
        choice = (
            warp_tiles.choose_parts(replace(one, layouts="NT"), wanted.device)
            if warp_tiles.is_parted(m, k)
            else warp_tiles.choose(one, room, wanted.device)
        )
        way = by_mma(product, choice)
        ways["mma.sync"] = replace(
            way, facts={**way.facts, "choice": recorded_tiles.as_row(replace(choice, resident=0))}
        )
    return ways | ({"class": of_class(product)} if product in cases.CLASS_CHOICES else {})


# -- what the time model is fitted to: half of these sizes, and judged on the other


def tuned(product: Product) -> dict[str, Way]:
    """The tiles of both families."""
    from lego_mlir.choices import families, warp_tiles, warpgroup_tiles
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.kernels import matmul
    from lego_mlir.tracing.trace.dtypes import f16

    size, room = product.size, target_named(PLAIN_TARGET).shared_per_block
    found: dict[str, Way] = {}

    def add(family: str, block: Any, choice: Any, order: str, build: Any) -> None:
        facts = {"family": family, "tile": [block.m, block.n, block.k], "warps": list(block.warps),
                 "stages": choice.stages, "order": order, "resident": block.resident}  # fmt: skip
        tile, warps = ("x".join(map(str, facts[name])) for name in ("tile", "warps"))
        label = f"{family}-{tile}-{warps}w-{choice.stages}s-{block.resident}r"
        found[label] = Way(file_of(product, label), build, facts)

    for choice in warp_tiles.all_fitting(size[2], room, F16_BYTES):
        add("mma.sync", choice, choice, choice.order, lambda choice=choice: mlir_kernels.compiled(
            matmul.build(*size, f16, result=f16, tiling=choice, order=choice.order, blocks=choice.blocks(SMS)),
            PLAIN_TARGET, transform=SCRIPT, parameters={"stages": choice.stages}))  # fmt: skip
    for rows, columns in warpgroup_tiles.WHOLE.shapes if families.can(size, "NN") else ():
        tile = warpgroup_tiles.tile_of(warpgroup_tiles.Wanted(*size, layouts="NN"), (rows, columns))
        add("warpgroups", tile, tile, "grouped", lambda tile=tile: product_runs.compiled(product, tile))
    return found


# -- sizes between those of tables: what `matmul` runs, and the leading tiles of the model as classes

LEADERS, LED, TILES = 8, 1.2, 72
"""Tiles of a size at most, how slow by the model, and the tiles of an order of operands."""


def run_by_matmul(product: Product) -> dict[str, Way]:
    """The kernels that `matmul` runs: by class at first, if there is one, and of exactly these sizes."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.kernels.product_classes import class_for
    from lego_mlir.runtime.products.kernels import kernel_for
    from lego_mlir.runtime.products.problem import Problem

    found = class_for(product.size, product.layouts, product.dtype, product.result, TARGET, device_with(SMS))
    problem = Problem(*product.size, product.dtype, product.result, product.layouts, TARGET, SMS)
    ways = {"exact": by_script(problem.name, None, lambda: kernel_for(problem))}
    return ways if found is None else {**ways, "class": of_all_sizes(found)}


def leading(product: Product) -> dict[str, Way]:
    """The kernels of all sizes in the tiles that lead at a size."""
    from lego_mlir.choices.product_counts import reached_by
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.kernels.product_classes import ProductClass

    ways = []
    for tile in leading_tiles()[product]:
        clusters = reached_by(tile.sharing, device_with(SMS)) // tile.sharing
        ways.append(of_all_sizes(ProductClass(product.dtype, product.result, product.layouts, tile, clusters)))
    return {way.file: way for way in ways}


def of_all_sizes(found: Any) -> Way:
    """The kernel of a class, whose name does not tell its stages."""
    return by_script(
        f"{found.name}_{found.tile.stages}", found.tile, lambda: (found.kernel(), found.script, found.parameters)
    )


def by_script(name: str, tile: Any, made: Callable[[], Any]) -> Way:
    """A kernel under its name, by its script if it has one."""

    def build() -> Any:
        kernel, script, parameters = made()
        given = {"transform": script, "parameters": parameters} if script else {}
        return mlir_kernels.compiled(kernel, TARGET.rstrip("a") if script else TARGET, **given)

    stages = {"stages": tile.stages} if getattr(tile, "stages", None) else {}
    return Way(name.replace("/", "_"), build, {"tile": str(tile), **stages})


@cache
def leading_tiles() -> dict[Product, list[Any]]:
    """The tiles that lead at each size by the model, of those that lead at most sizes.

    Those that differ in stages and groups alone are one kernel, as in a class.
    """
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.choices.warpgroup_tiles import Wanted, candidates

    def kind(tile: Any) -> Any:
        return tile.m, tile.n, tile.cluster, tile.transposed, tile.lockstep > 0

    near: dict[Product, list[Any]] = {}
    for one in cases.CANDIDATES:
        wanted = Wanted(*one.size, device_with(SMS), one.layouts)
        timed = [(wanted.microseconds(tile), tile) for tile in candidates(wanted)]
        least, kinds = min(us for us, _ in timed), {}
        for us, tile in sorted(timed, key=lambda entry: entry[0]):
            if us <= LED * least:
                kinds.setdefault((tile.m, tile.n, tile.cluster, tile.transposed), tile)
        near[one] = list(kinds.values())
    found = {}
    for layouts in {one.layouts for one in near}:
        mine = {one: tiles for one, tiles in near.items() if one.layouts == layouts}
        first: dict[Any, Any] = {}
        counts: Counter[Any] = Counter()
        for tiles in mine.values():
            for place, tile in enumerate(tiles):
                first.setdefault(kind(tile), tile)
                counts[kind(tile)] += 1 / (1 + place)
        kept = {key for key, _ in counts.most_common(TILES if layouts == "NT" else TILES // 2)}
        for one, tiles in mine.items():
            keys = dict.fromkeys(key for key in map(kind, tiles) if key in kept)
            found[one] = [first[key] for key in list(keys)[:LEADERS]]
    return found


LED_OF_KIND = {(True, True): 3, (False, True): 3, (False, False): 1, (True, False): 1}
"""How many tiles lead, by whether they are transposed and whether a cluster divides K."""


def in_parts(product: Product) -> dict[str, Way]:
    """What `matmul` runs, and the leading tiles of each kind whose blocks divide K."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.choices.warpgroup_tiles import Wanted, divided_tiles

    found, wanted = run_by_matmul(product), Wanted(*product.size, device_with(SMS), product.layouts)
    kinds: Counter[Any] = Counter()
    for tile in sorted(divided_tiles(wanted), key=wanted.microseconds):
        kinds[kind := (tile.transposed, tile.parts > 1)] += 1
        if kinds[kind] <= LED_OF_KIND[kind]:
            tile = replace(tile, dependent=True)
            found[str(tile)] = by_tile(product, str(tile), tile)
    return found


KIND_UNITS, KIND_SIDES = (64, 128, 256), range(24, 257, 8)
KIND_CLUSTERS, MORE_CLUSTERS = ((1, 1), (2, 1), (1, 2), (3, 1)), ((4, 1), (1, 4))
KIND_PARTS = (2, 3, 4)
LED_KINDS, OF_KIND, KIND_NEAR = 16, 2, 1.7
"""Tiles of a size, and of a kind, and how slow by the model. More clusters are for rows that are not whole lines."""


def with_three_groups(product: Product) -> dict[str, Way]:
    """The choice, and where it has three groups of warps the choice without them."""
    from unittest import mock

    from lego_mlir.choices.warpgroup_tiles import Wanted, choose

    ways = {"new": product_runs.tile_for(product)}
    with mock.patch.object(Wanted, "has_rounds", False):
        choose.cache_clear()
        before = product_runs.tile_for(product)
    choose.cache_clear()
    if before != ways["new"]:
        ways["old"] = before
    return {label: by_tile(product, label, tile) for label, tile in ways.items()}


def of_every_kind(product: Product) -> dict[str, Way]:
    """The choice, and the leaders of each order of operands, cluster and division of K, whatever rules leave out."""
    from lego_mlir.choices.product_device import device_with
    from lego_mlir.choices.product_tile import warpgroup_tile
    from lego_mlir.choices.warpgroup_tiles import Wanted, keeps_sums, ringed, shares_rows, split_tiles, tile_of
    from lego_mlir.hardware.memory import ELEMENT_BYTES

    (m, n, k), bytes_ = product.size, ELEMENT_BYTES[product.dtype]
    wanted = Wanted(m, n, k * bytes_ // F16_BYTES, device_with(SMS), product.layouts, bytes_)
    clusters = [
        cluster for cluster in KIND_CLUSTERS + MORE_CLUSTERS * wanted.shares_lines
        if product.layouts == "NT" or 3 not in cluster  # which divide no 64 rows along K
    ]  # fmt: skip
    tiles: list[Any] = split_tiles(wanted)
    for turned, unit, side in every((False, True)[: 1 + wanted.plain], KIND_UNITS, KIND_SIDES):
        rows, columns = (side, unit) if turned else (unit, side)
        if rows % 16 or columns % wanted.unit or unit * side > 256 * 192:
            continue
        tiles += [tile_of(wanted, (rows, columns), cluster, transposed=turned) for cluster in clusters]
        for parts in KIND_PARTS:
            tile = warpgroup_tile(rows, columns, 1, group=max(1, 2048 // rows), parts=parts, transposed=turned)
            if -(-m // rows) * -(-n // columns) * parts <= SMS:
                tiles.append(ringed(wanted, tile))
    timed = [
        (wanted.microseconds(tile), number, tile)
        for number, tile in enumerate(tiles)
        if shares_rows(tile, m, n) and keeps_sums(tile, m, product.layouts) and tile.stages > 2
    ]
    least, kinds = min(timed)[0], Counter[Any]()
    chosen = product_runs.tile_for(product)
    found = {"model": chosen}
    for us, _, tile in sorted(timed):
        kinds[kind := (tile.transposed, tile.cluster, tile.parts, tile.splits > 1)] += 1
        if kinds[kind] <= OF_KIND and us <= KIND_NEAR * least and len(found) < LED_KINDS:
            found[str(tile)] = replace(wanted.finished(tile, us), dependent=tile.lockstep == 0)
    return {label: by_tile(product, label, tile) for label, tile in found.items()}


# -- the suites

QUICK = Protocol("steady", 0.03, 2, graphs=True, patience_ms=100)
SHORT = Protocol("steady", 0.04, 3, graphs=True, patience_ms=300)
LARGEST = Protocol("steady", 0.2, 3, graphs=True, patience_ms=750)
SUITES: dict[str, Suite] = {
    "hopper": Suite(cases.HOPPER, chosen, ("cuBLAS", "cuBLAS, exact reductions"), LARGEST),
    "hopper_study": Suite([of_types(*case) for case in every(cases.STUDIED, ("NT", "NN"), ("f16",))], studied),
    "hopper_types": Suite(cases.TYPES, lego, PYTORCH), "divided_products": Suite(cases.DIVIDED, lego, PYTORCH, SHORT),
    "small_products": Suite(cases.SMALL, small, protocol=SHORT, rotated=True),
    "odd_products": Suite(cases.ODD, odd),
    "class_products": Suite(cases.CLASSED, classed, protocol=LARGEST),
    "product_choices": Suite(cases.CHOICES, leaders, protocol=SHORT),
    "product_tuning": Suite([Product(size, "NN") for size in cases.TUNED], tuned, protocol=Protocol(graphs=True)),
    "product_rows": Suite(cases.ROWS, run_by_matmul, protocol=QUICK),
    "product_sizes": Suite(cases.CANDIDATES, leading, protocol=QUICK),
    "product_kinds": Suite(cases.KINDS, of_every_kind, (*PYTORCH[:1], "_scaled_mm fast", "_int_mm"), QUICK),
    "three_groups_drawn": Suite(cases.THREE_GROUPS, with_three_groups, protocol=QUICK),
    "product_parts": Suite(cases.FEW_TILES, in_parts, protocol=QUICK),
    "matmul": Suite([Product(*case) for case in every(cases.SYNC_SIZES, LAYOUTS)], synchronous, ("cuBLAS", "Triton"),
                    Protocol(graphs=True)),
}  # fmt: skip
GROUPS = {"squares": cases.SQUARES, "others": cases.OTHERS, "random": cases.RANDOM, "models": cases.MODELS}


def timed(name: str, folder: Any, product: Product) -> Any:
    """The contenders of a product of a suite."""
    suite, entries = SUITES[name], product_runs.entries_of(folder, product)
    return product_runs.contenders(product, folder, entries, suite.baselines, suite.rotated)


def benchmark(name: str) -> runner.Benchmark:
    """The steps of a suite."""
    suite = SUITES[name]

    def render(folder: Any, chosen: Any) -> None:
        if name in ("hopper_types", "odd_products"):
            helpers(folder)
        product_runs.render(suite, folder, chosen)

    groups = {key: [(p,) for p in suite.products if p.size in sizes] for key, sizes in GROUPS.items()}
    return runner.Benchmark(
        name, [(p,) for p in suite.products], partial(timed, name), product_tables.TABLES.get(name), render,
        {"hopper": hopper_static, "matmul": sync_static}.get(name), PLAIN_TARGET if name == "matmul" else TARGET,
        suite.protocol, groups if name == "hopper" else {},
        draw=lambda generator: (Product((8 * generator.randint(64, 1024),) * 3),), together=True,
    )  # fmt: skip


BENCHMARKS = {name: benchmark(name) for name in SUITES}

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
