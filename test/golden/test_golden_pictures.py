"""Pictures as SVG text, and the one that the README opens with; accepted with --update-golden once looked at."""

from pathlib import Path

import golden_files
import pytest

from lego_mlir import Col, GenP, LegoError, OrderBy, RegP, Row, f2, gallery, schedule
from lego_mlir.viz import show

FOLDER = golden_files.FOLDER / "pictures"
ROOT = Path(__file__).parents[2]


def refuted():
    try:
        GenP([4, 4], lambda i, j: 4 * i + (i + j) // 2 % 4, lambda p: (p // 4, p % 4))
    except LegoError as error:
        return error


PICTURES = {
    "gallery": lambda: show(
        gallery.antidiagonal(6),
        gallery.morton(8),
        gallery.hilbert(8),
        gallery.reverse(4, 4),
        OrderBy(gallery.block_cyclic(16, 2, 4)).GroupBy([4, 4]),
        gallery.xor_swizzle(8, 8),
        schedule.columns(6, 8, width=3),
        schedule.columns(6, 8, width=3, zigzag=True),
        schedule.grouped(6, 4, rows=4),
        schedule.tiles(6, 8, tile=(4, 4)),
        schedule.generalised_hilbert(5, 7),
        by="order",
    ),
    "paper": lambda: show(
        OrderBy(Col(2, 2), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6]),
        by="order",
    ),
    "curves": lambda: show(gallery.morton(8), gallery.hilbert(8), by="order"),
    "threads": lambda: show(f2.MmaSync((1, 1)).layout([16, 8])),
    "matrix": lambda: show(f2.MmaSync((1, 1)).layout([16, 8]), by="matrix"),
    "refuted": lambda: show(refuted()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture(name, request):
    golden_files.compare(PICTURES[name]().svg(), FOLDER / f"{name}.svg", request)


def test_the_readme_opens_with_what_its_code_draws(request):
    readme = (ROOT / "README.md").read_text()
    picture = readme.index("](docs/images/repair.svg)")
    assert picture < readme.index("```")
    assert '`lego.show(Row(16, 32), access="lane // 2, lane % 2", by="repair")`' in readme
    drawn = show(Row(16, 32), access="lane // 2, lane % 2", by="repair")
    golden_files.compare(drawn.svg(), ROOT / "docs/images/repair.svg", request)
