"""The pictures of docs/pictures.md are what `lego.show` draws; accepted with --update-golden once looked at."""

from pathlib import Path

import golden_files
import pytest

from lego_mlir import Col, GenP, LegoError, OrderBy, RegP, Row, f2, gallery
from lego_mlir.viz import show

IMAGES = Path(__file__).parents[3] / "docs" / "images"


def refuted():
    try:
        GenP([4, 4], lambda i, j: 4 * i + (i + j) // 2 % 4, lambda p: (p // 4, p % 4))
    except LegoError as error:
        return error


PICTURES = {
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
    assert f"images/{name}.svg" in (IMAGES.parent / "pictures.md").read_text()
