"""The pictures of docs/how-to/pictures.md are what `lego.show` draws; accepted with --update-golden once looked at."""

from pathlib import Path

import golden_files
import pytest

from lego_mlir import Col, GenP, LegoError, OrderBy, RegP, Row, f2, gallery, schedule
from lego_mlir.viz import show

IMAGES = Path(__file__).parents[3] / "docs" / "images"


def refuted():
    try:
        GenP([4, 4], lambda i, j: 4 * i + (i + j) // 2 % 4, lambda p: (p // 4, p % 4))
    except LegoError as error:
        return error


PICTURES = {
    "show-gallery": lambda: show(
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
    "show-paper": lambda: show(
        OrderBy(Col(2, 2), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6]),
        by="order",
    ),
    "show-curves": lambda: show(gallery.morton(8), gallery.hilbert(8), by="order"),
    "show-repair": lambda: show(Row(16, 32), access="lane // 2, lane % 2", by="repair"),
    "show-threads": lambda: show(f2.MmaSync((1, 1)).layout([16, 8])),
    "show-matrix": lambda: show(f2.MmaSync((1, 1)).layout([16, 8]), by="matrix"),
    "show-refuted": lambda: show(refuted()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_docs(name, request):
    golden_files.compare(PICTURES[name]().svg(), IMAGES / f"{name}.svg", request)
    assert f"images/{name}.svg" in (IMAGES.parent / "how-to/pictures.md").read_text()
