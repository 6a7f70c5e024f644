"""A derived text depends on the layout alone, not on what was derived before it under the same ranges."""

import subprocess
import sys

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lego_mlir.expr.simplify import forget
from lego_mlir.layout import GroupBy, OrderBy, RegP, gallery

import strategies


@st.composite
def views(draw):
    """A few layouts of one logical view, so that their derivations share a context."""
    n = draw(st.sampled_from([36, 48, 64, 96]))
    rows = draw(st.sampled_from([d for d in range(2, n) if n % d == 0]))
    count = draw(st.integers(2, 4))
    chains = [tuple(draw(strategies.orders(n)) for _ in range(draw(st.integers(1, 2)))) for _ in range(count)]
    return [GroupBy([rows, n // rows], orders=chain) for chain in chains]


SWIZZLED = [  # the first reads i1 % 4 before i1 // 4
    OrderBy(gallery.reverse(12, 4)).OrderBy(RegP([48, 1, 1], [2, 1, 3])).GroupBy([3, 16]),
    OrderBy(gallery.xor_swizzle(12, 4)).GroupBy([3, 16]),
]


def derived(layouts):
    return [str(layout.derive().expr) for layout in layouts]


@settings(max_examples=20)
@given(views())
@example(SWIZZLED)
def test_a_text_does_not_depend_on_what_was_derived_before(layouts):
    alone = []
    for layout in layouts:
        forget()
        alone += derived([layout])
    forget()
    assert derived(layouts) == alone
    forget()
    assert derived(layouts[::-1])[::-1] == alone


def test_a_text_is_the_same_in_another_process():
    program = (
        "from lego_mlir.layout import OrderBy, gallery\n"
        "for perm in (gallery.xor_swizzle(8, 6), gallery.morton(4, 8), gallery.table([12], range(11, -1, -1))):\n"
        "    print(OrderBy(perm).GroupBy([2, perm.numel() // 2]).derive().expr)\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(texts) == 1
