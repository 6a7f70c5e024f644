"""The margins of newer kinds of tiles choose well among the recorded ones."""

import json
import sys
from pathlib import Path
from statistics import geometric_mean

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))

import tile_kinds  # noqa: E402  (bench/ is a folder of scripts, not a package)

from lego_mlir.kernels import warpgroup_choices  # noqa: E402

RECORD = ROOT / "bench" / "results" / "NVIDIA-H200" / "2026-11-23-tile_kinds.json"


def recorded():
    """Tiles and milliseconds by case, without clusters that are not candidates at that size."""
    cases = {}
    for row in json.loads(RECORD.read_text())["rows"]:
        size, layouts = tuple(row["size"]), row["layouts"]
        if row["kernel"] == "cuBLAS" or row["dtype"] != "f16":
            continue
        tile = warpgroup_choices.tile_from(size, row["tile"], row["stages"], 132)
        m, n, k = size
        larger = tile.cluster not in warpgroup_choices.CLUSTERS
        square = tile.cluster == (2, 2)
        if not square and (not larger or m * n * k in warpgroup_choices.SHARED_WORK):
            cases.setdefault((row["run"], size, layouts), []).append((tile, row["ms"]))
    return {case: found for case, found in cases.items() if len(found) > 1}


def test_the_margins_choose_tiles_close_to_the_quickest_recorded():
    lost, before = [], []
    for (_, size, layouts), found in recorded().items():

        def rank(entry, size=size, layouts=layouts):
            return warpgroup_choices.microseconds(size, entry[0], 132, layouts) / entry[0].gain

        others = [entry for entry in found if tile_kinds.kind_of(entry[0]) == "others"]
        best = min(ms for _, ms in found)
        lost.append(min(found, key=rank)[1] / best)
        before.append(min(others or found, key=rank)[1] / best)
    assert len(lost) > 120
    assert geometric_mean(lost) < 1.015 < geometric_mean(before)
    assert max(lost) < 1.1


def test_the_quickest_of_each_kind_are_candidates():
    found = tile_kinds.quickest((1528, 1528, 1528), "NN")
    assert set(found) == {"others", "transposed", "wide", "larger clusters"}
    assert found["transposed"].transposed and found["wide"].n > 256
    assert all(tile_kinds.kind_of(tile) == kind for kind, tile in found.items())
