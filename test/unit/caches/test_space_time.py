"""Spatial-temporal diagrams against a plain LRU cache, their pictures, and the figures in the documentation."""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from bench import schedule_model
from lego_mlir import schedule
from lego_mlir.caches import workloads
from lego_mlir.caches.levels import CacheLevel
from lego_mlir.caches.simulation import rows
from lego_mlir.caches.space_time import space_time
from lego_mlir.errors import UsageError
from lego_mlir.viz import cache_diagram

SMALL = CacheLevel("L1", 2 * 128)
IMAGES = Path(__file__).parents[3] / "docs" / "images"
TINY = CacheLevel("L1", 24 * 16, line=16, sector=16)


def test_each_cell_by_a_plain_cache():
    workload, order = workloads.stencil(12, 8, 3), schedule.columns(8, 12, width=5)
    found = space_time(workload, order, (CacheLevel("L1", 7 * 16, line=16, sector=16),))
    cache = OrderedDict()
    for task in range(96):
        y, x = order.inv(task)
        read = {}
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                line = (min(max(y + dy, 0), 7) * 12 + min(max(x + dx, 0), 11)) // 4
                miss = line not in cache
                cache[line] = None
                cache.move_to_end(line)
                if len(cache) > 7:
                    cache.popitem(last=False)
                read[line] = max(read.get(line, 0), int(miss))
        assert {line: int(s) for line, s in enumerate(found.served[task]) if s >= 0} == read
        assert set(np.flatnonzero(found.held[task] == 0)) == set(cache)
    assert found.fetched[0] >= found.compulsory == 24


def test_two_levels():
    l2 = CacheLevel("L2", 48 * 16, line=16, sector=16, shared=True)
    found = space_time(workloads.stencil(16, 16, 7), rows(16), (TINY, l2))
    assert found.fetched == (316, 64)
    assert set(np.unique(found.served)) == {-1, 0, 1, 2}
    assert set(np.unique(found.held)) == {-1, 0, 1}
    text = cache_diagram.draw(found).svg()
    assert "fetched from memory" in text
    assert "held by L2" in text


def test_a_picture_covers_each_marked_cell_once():
    found = space_time(workloads.stencil(8, 8, 3), rows(8), (TINY,))
    cells = found.served >= 0
    drawn = np.zeros(cells.shape, int)
    for line, begin, end in cache_diagram._runs(cells):
        drawn[begin:end, line] += 1
    assert np.array_equal(drawn, cells)


@pytest.mark.parametrize("figure", schedule_model.FIGURES, ids=lambda f: f.number)
def test_the_figures_of_the_documentation_are_those_of_the_script(figure):
    text = cache_diagram.draw(figure.data(), figure.title).svg()
    assert text == (IMAGES / f"{figure.stem}.svg").read_text(), "run python -m bench.schedule_model figures"


def test_what_the_figures_show():
    fetched = {figure.number: figure.data().fetched[0] for figure in schedule_model.FIGURES}
    assert fetched["3.2a"] == 64  # 28 lines hold 7 rows: nothing is fetched twice
    assert fetched["4.4"] < fetched["3.1"] < fetched["3.2b"]
    assert fetched["4.6"] < fetched["3.3"]


def test_png_and_svg_files(tmp_path):
    picture = cache_diagram.draw(space_time(workloads.stencil(8, 8, 3), rows(8), (TINY,)))
    picture.save(tmp_path / "a.svg")
    picture.save(tmp_path / "a.png")
    assert (tmp_path / "a.svg").read_text() == picture.svg()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_recorded_launch_by_hand():
    """Warps read line 0 in halves, then line 1, then two more that evict it; stores are not drawn."""
    rows_ = [(0, 3, 0, 1), (0, 12, 0, 1), (1, 15, 0, 1), (5, 15, 1, 1), (2, 15, 0, 1), (3, 15, 0, 1), (0, 1, 0, 1)]
    starts = np.array([0, 1, 2, 4, 6, 7])
    kept = workloads.Recorded(starts, np.array(rows_, np.int64), 1)
    found = space_time(workloads.Workload("k", 5 * 32, 1, (), 1024, 4, recorded=kept), rows(160), (SMALL,))
    assert found.served.tolist() == [[1, -1, -1, -1], [1, -1, -1, -1], [-1, 1, -1, -1], [-1, -1, 1, 1], [1, -1, -1, -1]]
    assert found.held.tolist() == [[0, -1, -1, -1], [0, -1, -1, -1], [0, 0, -1, -1], [-1, -1, 0, 0], [0, -1, -1, 0]]
    with pytest.raises(UsageError, match="requests are recorded in lines of 128 bytes; L1 has lines of 16"):
        space_time(workloads.Workload("k", 160, 1, (), 1024, 4, recorded=kept), rows(160), (TINY,))


def test_the_picture_is_wide_enough_for_its_legend():
    tiny = space_time(workloads.stencil(2, 2, 3), rows(2), (TINY, CacheLevel("L2", 64 * 16, line=16, sector=16)))
    width = float(cache_diagram.draw(tiny).svg().partition('width="')[2].partition('"')[0])
    assert width > 6 * len("read from L1 read from L2 fetched from memory held by L1 held by L2")
