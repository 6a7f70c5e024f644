"""`pipeline(joined=True)`: two products of one left tile are one of twice the columns, with the same sums."""

import re

import pytest
from tiled_products import BK, PRODUCTS, Tile, emulated, interpreted, require

import lego_mlir as lego
from lego_mlir import Col, Row, f16
from lego_mlir.errors import ScheduleError
from lego_mlir.toolchain import compile_kernel

T = Tile(64, 64, 16)
ROLES = "warpgroups, pipeline(stages=2, joined=True), overlay, roles"
COPIED = "persistent(blocks=2), warpgroups, copied_out(buffers=2), pipeline(stages=2, joined=True), {}roles"


def sums_of_two(order):
    """A B and A B2, each stored, with B in rows or columns."""

    @lego.kernel(grid=1, block=T.threads)
    def product(
        a: lego.Tensor(f16, Row(64, 128)), b: lego.Tensor(f16, order(128, 64)), b2: lego.Tensor(f16, order(128, 64)),
        c: lego.Tensor(f16, Row(64, 64)), d: lego.Tensor(f16, Row(64, 64)),
    ):  # fmt: skip
        ta, tb, tb2 = lego.shared(f16, Row(64, BK)), lego.shared(f16, order(BK, 64)), lego.shared(f16, order(BK, 64))
        out, other = lego.shared(f16, Row(64, 64)), lego.shared(f16, Row(64, 64))
        first, last, (row, column) = T.accumulator(), T.accumulator(), T.part_of_warp()
        for step in lego.range(2):
            lego.stage(a, (0, step), ta)
            lego.stage(b, (step, 0), tb)
            lego.stage(b2, (step, 0), tb2)
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, BK)), tb.part((0, column), (BK, 16)), first)
            lego.mma(ta.part((row, 0), (64, BK)), tb2.part((0, column), (BK, 16)), last)
            lego.barrier()
        first.store(out, at=(row, column))
        last.store(other, at=(row, column))
        lego.barrier()
        lego.store_tile(out, c, (0, 0))
        lego.store_tile(other, d, (0, 0))

    return product


@pytest.mark.parametrize("order", [Row, Col])
@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_operands_in_rows_and_in_columns(order, machine):
    kernel = sums_of_two(order).schedule(ROLES)
    assert {product.columns for product in kernel.trace().products} == {128}
    require(kernel, lambda a, b, b2: (a @ b, a @ b2), machine)


@pytest.mark.parametrize(
    "clusters", [pytest.param("", marks=pytest.mark.long), "clusters(blocks=2), lockstep(every=2), "]
)
def test_the_gate_is_one_product_with_its_epilogue_in_registers(clusters):
    kernel, reference = PRODUCTS["gated"](256, 64, 192, T)
    found = kernel.schedule(COPIED.format(clusters))
    require(found, reference, emulated)
    wide = set(re.findall(r"wgmma.mma_async\S+?n(\d+)k", compile_kernel(found, target="sm_90a").text))
    assert wide == {"128"}


@pytest.mark.parametrize("how", ["into one sum", "a right tile that is not staged"])
def test_pairs_that_are_not_one_product(how):
    @lego.kernel(grid=1, block=T.threads)
    def product(
        a: lego.Tensor(f16, Row(64, 128)), b: lego.Tensor(f16, Row(128, 64)), b2: lego.Tensor(f16, Row(128, 64)),
        c: lego.Tensor(f16, Row(64, 64)),
    ):  # fmt: skip
        ta, tb, tb2 = (lego.shared(f16, Row(*dims)) for dims in ((64, BK), (BK, 64), (BK, 64)))
        first, (row, column) = T.accumulator(), T.part_of_warp()
        last = first if how == "into one sum" else T.accumulator()
        if how != "into one sum":
            lego.stage(b2, (0, 0), tb2)
        for step in lego.range(2):
            lego.stage(a, (0, step), ta)
            lego.stage(b, (step, 0), tb)
            if how == "into one sum":
                lego.stage(b2, (step, 0), tb2)
            lego.barrier()
            left = ta.part((row, 0), (64, BK))
            lego.mma(left, tb.part((0, column), (BK, 16)), first)
            lego.mma(left, tb2.part((0, column), (BK, 16)), last)
            lego.barrier()
        out = lego.shared(f16, Row(64, 64))
        for total in (first,) if how == "into one sum" else (first, last):
            total.store(out, at=(row, column))
            lego.barrier()
            lego.store_tile(out, c, (0, 0))
            lego.barrier()

    with pytest.raises(ScheduleError, match=r"two lego.mma in a row into different sums, .* staged in the loop"):
        product.schedule("warpgroups, pipeline(stages=2, joined=True)")


@pytest.mark.parametrize("name", ["plain", "two_sums"])
def test_products_that_are_not_beside_each_other(name):
    kernel, _ = PRODUCTS[name](64, 64, 128, T)
    with pytest.raises(ScheduleError, match=r"\.py:\d+: joined=True takes two lego.mma in a row into different sums"):
        kernel.schedule(ROLES)


def test_products_of_more_columns_than_an_instruction_has():
    kernel, _ = PRODUCTS["gated"](64, 192, 128, Tile(64, 192, 48))
    with pytest.raises(ScheduleError, match="with at most 256 columns together"):
        kernel.schedule(ROLES)
