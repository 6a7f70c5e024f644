"""The shipped product, unchanged, through schedules: layouts of its matrices, epilogues, symbolic sizes, odd sizes."""

import re
from functools import cache

import numpy as np
import pytest
from tiled_products import emulated, interpreted, require

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32
from lego_mlir.errors import ScheduleError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import epilogues, matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.schedule import grouped
from lego_mlir.toolchain import compile_kernel

M, N, K = 136, 264, 192
FAST = "warpgroups, copied_out, pipeline(stages=3), overlay, roles, dependent"


def tiling(n=128, m=128):
    return ProductTile(m=m, n=n, k=64, warps=(2, 2))


def built(a=Row, b=Row, result=f16, **options):
    kernel = matmul.build(
        M, N, K, f16, a=a(M, K), b=b(K, N), result=result, tiling=options.pop("tiling", tiling()), **options
    )
    return kernel, lambda a, b: a @ b


@cache
def scheduled(composition, *orders, **options):
    """A kernel that several tests run, scheduled once, and its reference."""
    kernel, reference = built(*orders, **options)
    return kernel.schedule(composition), reference


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize(("a", "b"), [(Row, Row), (Row, Col), (Col, Row), (Col, Col)])
def test_orders_of_the_matrices(a, b, machine):
    require(*scheduled(FAST, a, b), machine)


@pytest.mark.parametrize("columns", [96, 192, 224])
def test_tiles_of_other_widths(columns):
    kernel, reference = built(Row, Col, tiling=tiling(columns))
    require(kernel.schedule(FAST), reference, emulated)


@pytest.mark.parametrize("narrow", [False, True])
def test_panels_that_do_not_divide_the_columns(narrow):
    kernel, reference = built(Row, Row, tiling=tiling(160))
    text = f"warpgroups, pipeline(stages=2, narrow={narrow}), roles"
    require(kernel.schedule(text), reference, emulated)


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize(("m", "n", "b"), [(48, 128, Col), (96, 256, Row)])
def test_transposed_products_have_any_multiple_of_16_rows(m, n, b, machine):
    warps = (1, n // 32)
    text = "persistent(blocks=2), warpgroups(transposed=True), copied_out(buffers=2), pipeline(stages=2), roles"
    require(*scheduled(text, Row, b, tiling=ProductTile(m=m, n=n, k=64, warps=warps)), machine)


def test_a_transposed_product_with_an_epilogue():
    kernel, _ = built(Row, Col, epilogue=matmul.relu())
    text = "warpgroups(transposed=True), pipeline(stages=2), overlay, roles"
    require(kernel.schedule(text), lambda a, b: np.maximum(a @ b, 0), emulated)


@pytest.mark.parametrize(
    ("order", "tile"), [(grouped(4, 3, rows=2), (128, 96)), (grouped(2, 4, rows=2, columns=2), (128, 96))],
    ids=["share a column", "share a row"],
)  # fmt: skip
@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_clusters_at_an_edge_compute_tiles_outside(order, tile, machine):
    text = "persistent(blocks=2), warpgroups, copied_out, pipeline(stages=2), clusters(blocks=2), roles"
    require(*scheduled(text, Row, Col, tiling=tiling(tile[1], tile[0]), order=order), machine)


def test_columns_of_the_unit_are_stored_as_rows():
    kernel = built(Row, Col, tiling=ProductTile(64, 128, 64, (1, 4)))[0].schedule(
        "warpgroups(transposed=True), copied_out(buffers=1), pipeline(stages=2), overlay, roles"
    )
    assert re.search(r"stmatrix\S*\.trans", compile_kernel(kernel, target="sm_90a").text)


def test_each_group_arrives_once_and_rings_share_a_barrier():
    text = compile_kernel(
        built(Row, Col, tiling=ProductTile(128, 128, 64, (8, 1)))[0].schedule(FAST), target="sm_90a"
    ).text
    counts = re.findall(r"mbarrier\.init\S*\s+\[[^]]+\], (\S+);", text)
    assert len(counts) == 6  # two rings of three
    roles = text.index("setmaxnreg")
    assert len(re.findall(r"bar(?:rier)?\.sync", text[:roles])) == 1
    assert text.index("prefetch.tensormap") < text.index("mbarrier.init")


@pytest.mark.parametrize("out", ["", ", copied_out(buffers=2)"], ids=["through a tile", "in registers"])
def test_an_epilogue_stays_between_the_product_and_its_store(out):
    kernel, _ = built(Row, Col, result=f16, epilogue=matmul.relu())
    scheduled = kernel.schedule(f"warpgroups{out}, pipeline(stages=3), overlay, roles")
    require(scheduled, lambda a, b: np.maximum(a @ b, 0), emulated)


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize(
    ("warpgroups", "c"), [("", Row), ("", Col), ("(transposed=True)", Row)], ids=["rows", "columns", "transposed"]
)
def test_epilogues_are_computed_in_registers_of_tiles_that_reach_outside(warpgroups, c, machine):
    """Scales of rows and columns and a residual: pairs of a row where the layout has them, else single elements."""
    added = epilogues.residual(M, N, f16, layout=c(M, N))
    kernel, _ = built(Row, Col, c=c(M, N), epilogue=epilogues.scales(M, N).then(added))
    scheduled = kernel.schedule(f"warpgroups{warpgroups}, copied_out(buffers=2), pipeline(stages=2), roles")
    assert "copied_out" in {b.name for b in scheduled.trace().shared}
    require(scheduled, lambda a, b, r, s, x: a @ b * r[:, None] * s + x, machine)


def test_sizes_that_are_known_at_launch():
    m, n, k = (lego.size(name, multiple_of=8) for name in "MNK")
    kernel = matmul.build(m, n, k, f16, b=Col(k, n), result=f32, tiling=tiling(), blocks=2)
    scheduled = kernel.schedule("warpgroups, pipeline(stages=3), roles")
    sizes = {"M": 136, "N": 264, "K": 72}
    rng = np.random.default_rng(0)
    a = (rng.integers(-8, 9, (136, 72)) / 16).astype(np.float16)
    b = (rng.integers(-8, 9, (72, 264)) / 16).astype(np.float16)
    given = {"a": a.ravel(), "b": b.ravel(order="F"), "c": np.zeros(136 * 264, np.float32)}
    report = PtxRun(target="sm_90a")(scheduled, given, sizes)
    assert report.clean, report.faults[0]
    np.testing.assert_allclose(given["c"].reshape(136, 264), a.astype("f4") @ b.astype("f4"), atol=1e-5)


def test_results_leave_by_matrices_and_tile_copies():
    text = compile_kernel(scheduled(FAST, Row, Col)[0], target="sm_90a").text
    assert "stmatrix" in text
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in text
    assert text.index("griddepcontrol.launch_dependents") < text.index("mbarrier.init")
    assert text.count("griddepcontrol.wait") == 1  # the role that copies


def test_the_attribute_of_a_dependent_launch():
    (facts,) = compile_kernel(scheduled(FAST, Row, Col)[0], target="sm_90a").kernels
    assert facts.dependent
    plain, _ = built(Row, Col)
    (facts,) = compile_kernel(plain.schedule("warpgroups, pipeline(stages=2), roles"), target="sm_90a").kernels
    assert not facts.dependent


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({}, "copied_out", "is not filled by one accumulator of the block; apply warpgroups before copied_out"),
        ({}, "warpgroups, copied_out, persistent(blocks=2)", "apply persistent before copied_out"),
    ],
)
def test_messages(options, text, message):
    kernel, _ = built(Row, Col, **options)
    with pytest.raises(ScheduleError, match=message):
        kernel.schedule(text)


def test_rows_that_tile_copies_cannot_store():
    kernel = matmul.build(128, 129, 128, f16, b=Col(128, 129), result=f16, tiling=tiling())
    with pytest.raises(
        ScheduleError, match=r"rows of c are not proved to be multiples of 16 bytes, .*; pad them, declare"
    ):
        kernel.schedule("warpgroups, copied_out")


def counted(update):
    """A product whose epilogue keeps a variable of each thread."""

    @lego.kernel(grid=1, block=128)
    def kernel(
        a: lego.Tensor(f16, Row(64, 64)), b: lego.Tensor(f16, Col(64, 64)), c: lego.Tensor(f16, Row(64, 64)),
        found: lego.Tensor(f32, Row(1)),
    ):  # fmt: skip
        ta, tb, out = lego.shared(f16, Row(64, 64)), lego.shared(f16, Col(64, 64)), lego.shared(f32, Row(64, 64))
        total, kept = lego.accumulator(f32, 16, 64), lego.register(f32, 0.0)
        for k in lego.range(1):
            lego.stage(a, (0, k), ta)
            lego.stage(b, (k, 0), tb)
            lego.barrier()
            lego.mma(ta.part((lego.warp_id * 16, 0), (16, 64)), tb.part((0, 0), (64, 64)), total)
            lego.barrier()
        total.store(out, (lego.warp_id * 16, 0))
        lego.barrier()
        lego.store_tile(out, c, (0, 0), by=lambda value, place: update(kept, value, place))
        largest = lego.warp_reduce(kept, "max")
        with lego.when(lego.lane_id < 1):
            found.atomic_max(largest, 0)

    return kernel


def largest(kept, value, place):
    for lane in range(place.width):
        kept.set(lego.maximum(kept, value[lane] if place.width > 1 else value))
    return value


def summed(kept, value, place):
    kept.set(kept + (value[0] if place.width > 1 else value))
    return value


def used(kept, value, place):
    one = value[0] if place.width > 1 else value
    kept.set(lego.maximum(kept, one))
    return value + kept


def test_a_function_may_keep_the_largest_value():
    a, b = (np.random.default_rng(1).integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    arrays = {"a": a.ravel(), "b": np.ravel(b, "F").copy(), "c": np.zeros(4096, np.float16), "found": np.zeros(1, "f4")}
    report = PtxRun("sm_90a")(
        counted(largest).schedule("warpgroups, copied_out, pipeline(stages=2), roles"), arrays, {}
    )
    assert report.clean, report.faults[0]
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(arrays["c"].reshape(64, 64), expected)
    assert arrays["found"][0] == expected.max()


@pytest.mark.parametrize("update", [summed, used])
def test_a_function_that_depends_on_the_order_of_elements_is_refused(update):
    kernel = counted(update)
    with pytest.raises(
        ScheduleError, match="sets a variable, and the order of the elements is open; let it become the"
    ):
        kernel.schedule("warpgroups, copied_out")
    assert kernel.schedule("warpgroups, copied_out(optional=True)").schedules == ("warpgroups",)
