"""What a schedule cannot take: each message names a line of the user's kernel, and the remedy."""

from pathlib import Path

import pytest
import tiled_products
from tiled_products import BK, PRODUCTS, SQUARE

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, i32
from lego_mlir.errors import ScheduleError

M = N = 128
K = 256


def product(body, *, threads=128, grid=1, cluster=None):
    """A kernel whose body gets the tensors."""

    @lego.kernel(grid=grid, block=threads, cluster=cluster)
    def kernel(
        a: lego.Tensor(f16, Row(M, K)), b: lego.Tensor(f16, Col(K, N)), n: lego.Tensor(i32, Row(4)),
        c: lego.Tensor(f16, Row(M, N)),
    ):  # fmt: skip
        body(a, b, n, c)

    return kernel


def plain(a, b, n, c):
    SQUARE.product(a, b, c, (0, 0), K)


def changed_by_an_epilogue(a, b, n, c):
    out = SQUARE.summed(a, b, (0, 0), K)
    for i in lego.range(128):
        c[i, lego.thread_id.x] = out[i, lego.thread_id.x] * 2.0


def stored_by(function):
    """A product whose tile is stored through a function of its elements: `function(x, place, b, c)`."""

    def body(a, b, n, c):
        out = SQUARE.summed(a, b, (0, 0), K, result=f32)
        lego.store_tile(out, c, (0, 0), by=lambda x, place: function(x, place, b, c))

    return body


def branching(x, place, b, c):
    found = lego.register(f32, 0.0)
    with lego.when(place.row > 3):
        found.set(1.0)
    return x * found.get()


def in_place(x, place, b, c):
    return x + place.of(c).to(lego.f32)


def storing(x, place, b, c):
    c.store((x * 2.0).to(lego.f16), place.row, place.column)
    return x


def of_no_pair(x, place, b, c):
    return lego.vector(*(x[lane] for lane in range(4)))


def framed(loop, part=SQUARE.part_of_warp):
    """A product with a loop of its own, `loop(a, b, n, c, ta, tb, acc)`; warps store their sums at `part()`."""

    def body(a, b, n, c):
        (ta, tb), out, acc = SQUARE.operands(), lego.shared(f16, Row(128, 128)), SQUARE.accumulator()
        loop(a, b, n, c, ta, tb, acc)
        acc.store(out, at=part())
        lego.barrier()
        SQUARE.store(out, c, (0, 0))

    return body


def stepped(step, *, after=None, before=None, part=SQUARE.part_of_warp):
    """A staged loop with its own steps: `step(k, a, b, ta, tb, acc)`."""

    def loop(a, b, n, c, ta, tb, acc):
        if before is not None:
            before(a, b, ta, tb, acc)
        for k in lego.range(K // BK):
            step(k, a, b, ta, tb, acc)
        if after is not None:
            after(a, b, ta, tb, acc, c)

    return framed(loop, part)


def multiply(ta, tb, acc, part=SQUARE.part_of_warp):
    row, column = part()
    lego.mma(ta.part((row, 0), (64, BK)), tb.part((0, column), (BK, 64)), acc)


def stage(k, a, b, ta, tb):
    lego.stage(a, (0, k), ta)
    lego.stage(b, (k, 0), tb)


def late_copy(k, a, b, ta, tb, acc):
    lego.stage(a, (0, k), ta)
    lego.barrier()
    multiply(ta, tb, acc)
    lego.stage(b, (k, 0), tb)
    lego.barrier()


def no_barrier(k, a, b, ta, tb, acc):
    stage(k, a, b, ta, tb)
    multiply(ta, tb, acc)
    lego.barrier()


def filled_in_a_branch(k, a, b, ta, tb, acc):
    lego.stage(b, (k, 0), tb)
    with lego.when(k < 2):
        lego.stage(a, (0, k), ta)
    lego.barrier()
    multiply(ta, tb, acc)
    lego.barrier()


def in_a_branch(k, a, b, ta, tb, acc):
    stage(k, a, b, ta, tb)
    lego.barrier()
    with lego.when(k > 0):
        multiply(ta, tb, acc)
    lego.barrier()


def element_of_a_view(k, a, b, ta, tb, acc):
    stage(k, a, b, ta, tb)
    lego.barrier()
    multiply(ta, tb, acc)
    lego.printf("%f", ta.flat()[lego.thread_id.x])
    lego.barrier()


def gathered(k, a, b, ta, tb, acc):
    lego.stage(b, (k, 0), tb)
    with lego.when(lego.thread_id.x < 128):
        lego.copy_async(a, ta, at=lambda r: (r, k * BK))
    lego.barrier()
    multiply(ta, tb, acc)
    lego.barrier()


def gathered_in_part(k, a, b, ta, tb, acc):
    lego.stage(b, (k, 0), tb)
    lego.copy_async(a, ta.part((64, 0), (64, BK)), at=lambda r: (r, k * BK))
    lego.barrier()
    multiply(ta, tb, acc)
    lego.barrier()


def gathered_from_the_result(a, b, n, c):
    (ta, tb), acc = SQUARE.operands(), lego.accumulator(f32, 64, 64)
    out = lego.shared(f16, Row(128, 128))
    for k in lego.range(2):
        lego.copy_async(c, ta, at=lambda r, k=k: (r, k * BK))
        lego.stage(b, (k, 0), tb)
        lego.barrier()
        multiply(ta, tb, acc)
        lego.barrier()
    acc.store(out, at=SQUARE.part_of_warp())
    lego.barrier()
    SQUARE.store(out, c, (0, 0))


def gathered_through_a_view(k, a, b, ta, tb, acc):
    lego.stage(b, (k, 0), tb)
    lego.copy_async(a, ta.tile_by([128, BK]), at=lambda r: (r, k * BK))
    lego.barrier()
    multiply(ta, tb, acc)
    lego.barrier()


def usual(k, a, b, ta, tb, acc):
    stage(k, a, b, ta, tb)
    lego.barrier()
    multiply(ta, tb, acc)
    lego.barrier()


def used_after(a, b, ta, tb, acc, c):
    c[0, lego.thread_id.x % 64] = ta[0, lego.thread_id.x % 64]


def staged_alone(a, b, ta, tb, acc):
    other = lego.shared(f16, Row(128, BK))
    lego.stage(a, (0, 0), other)
    lego.barrier()


def written_operand(a, b, n, c, ta, tb, acc):
    for k in lego.range(2):
        stage(k, c, b, ta, tb)
        lego.barrier()
        multiply(ta, tb, acc)
        lego.barrier()


def unrolled(a, b, n, c, ta, tb, acc):
    for k in lego.unroll(2):
        usual(k, a, b, ta, tb, acc)


def along_k(a, b, n, c):
    (ta, tb), acc = SQUARE.operands(), lego.accumulator(f32, 128, 128)
    out = lego.shared(f16, Row(128, 128))
    part = lego.warp_id * 16
    for k in lego.range(K // BK):
        stage(k, a, b, ta, tb)
        lego.barrier()
        lego.mma(ta.part((0, part), (128, 16)), tb.part((part, 0), (16, 128)), acc)
        lego.barrier()
    acc.store(out, at=(0, 0))
    lego.barrier()
    SQUARE.store(out, c, (0, 0))


def divided(part):
    """A product whose warps have the parts at `part()`."""

    def step(k, a, b, ta, tb, acc):
        stage(k, a, b, ta, tb)
        lego.barrier()
        multiply(ta, tb, acc, part)
        lego.barrier()

    return stepped(step, part=part)


def turned():
    return SQUARE.part_of_warp()[::-1]


def two_divisions(k, a, b, ta, tb, acc):
    stage(k, a, b, ta, tb)
    lego.barrier()
    multiply(ta, tb, acc)
    multiply(ta, tb, acc, turned)
    lego.barrier()


def few_rows(a, b, n, c):
    ta, tb = lego.shared(f16, Row(32, BK)), lego.shared(f16, Col(BK, 128))
    acc, out = lego.accumulator(f32, 16, 64), lego.shared(f16, Row(32, 128))
    row, column = lego.warp_id // 2 * 16, lego.warp_id % 2 * 64
    for k in lego.range(K // BK):
        lego.stage(a, (0, k), ta)
        lego.stage(b, (k, 0), tb)
        lego.barrier()
        lego.mma(ta.part((row, 0), (16, BK)), tb.part((0, column), (BK, 64)), acc)
        lego.barrier()
    acc.store(out, at=(row, column))
    lego.barrier()
    c[lego.thread_id.x // 4, lego.thread_id.x % 4] = out[lego.thread_id.x // 4, lego.thread_id.x % 4]


def without_a_product(a, b, n, c):
    lego.accumulator(f32, 64, 64)
    plain(a, b, n, c)


def column_stores(k, a, b, ta, tb, acc):
    lego.stage(a, (0, k), ta)
    for j in lego.unroll(BK):
        tb[j, lego.thread_id.x] = b[k + j, lego.thread_id.x]
    lego.barrier()
    multiply(ta, tb, acc)
    lego.barrier()


def place_from_shared(a, b, n, c, ta, tb, acc):
    own = lego.shared(i32, Row(4))
    with lego.when(lego.thread_id.x < 4):
        own[lego.thread_id.x] = n[lego.thread_id.x]
    lego.barrier()
    for k in lego.range(K // BK):
        stage(lego.index(own[k], range=(0, K // BK)), a, b, ta, tb)
        lego.barrier()
        multiply(ta, tb, acc)
        lego.barrier()


def place_that_is_written(a, b, n, c, ta, tb, acc):
    for k in lego.range(K // BK):
        column = lego.index(n[k], range=(0, K))
        for j in lego.unroll(BK):
            ta[lego.thread_id.x, j] = a[lego.thread_id.x, column]
        lego.stage(b, (k, 0), tb)
        lego.barrier()
        multiply(ta, tb, acc)
        lego.barrier()
    n[lego.thread_id.x % 4] = 0


def wide_elements(a, b, n, c):
    """f32 operands, of which b has N contiguous."""
    ta, tb = lego.shared(f32, Row(128, 32)), lego.shared(f32, Row(32, 128))
    acc, out = lego.accumulator(f32, 64, 64), lego.shared(f16, Row(128, 128))
    row, column = SQUARE.part_of_warp()
    for k in lego.range(4):
        for i in lego.unroll(32):
            ta[lego.thread_id.x, i] = a[lego.thread_id.x, k * 32 + i].to(f32)
        lego.barrier()
        lego.mma(ta.part((row, 0), (64, 32)), tb.part((0, column), (32, 64)), acc)
        lego.barrier()
    acc.store(out, at=(row, column))
    lego.barrier()
    SQUARE.store(out, c, (0, 0))


PIPELINE = "warpgroups, pipeline(stages=3)"
REFUSALS = {
    "parts overlap": (divided(lambda: (lego.warp_id // 2 * 64, 0)),
                      "warpgroups", "the warps' parts of 64 x 64 do not tile a rectangle once"),
    "parts of lanes": (divided(lambda: (lego.thread_id.x // 16 % 2 * 64, lego.warp_id % 2 * 64)), "warpgroups",
                       "is not proved to be the same for all lanes of warp 0"),
    "K divided": (along_k, "warpgroups", "the warps divide K of a product; write the sum over them"),
    "rows": (few_rows, "warpgroups", "a product of 32 x 128 by 4 warps: wgmma has 64 rows for each 4 warps; use a mul"),
    "two divisions": (stepped(two_divisions),
                      "warpgroups", "another product of this accumulator gives its parts to other warp"),
    "stored elsewhere": (stepped(usual, part=turned),
                         "warpgroups", "stored in another order than they are multiplied; store eac"),
    "no product": (without_a_product, "warpgroups", "this accumulator has no product; give it a lego.mma, or leave it"),
    "late copy": (stepped(late_copy), PIPELINE, "filled after it is used in this step; move lego.stage in front of"),
    "no barrier": (stepped(no_barrier), PIPELINE, r"no lego.barrier\(\) is between the copies and the first use; add"),
    "written operand": (framed(written_operand),
                        PIPELINE, r"c is written by this kernel \(.*\), and copies run ahead of it"),
    "another view": (stepped(element_of_a_view), PIPELINE, "elements of .* are loaded through another view of it "),
    "gathered": (stepped(gathered), PIPELINE, "threads copy parts of .* in a branch or a loop, as those of a block do"),
    "gathered in part": (stepped(gathered_in_part), PIPELINE, r"not shown that each step stores .*\[0, 0\], and a"),
    "gathered into a view": (stepped(gathered_through_a_view), PIPELINE, "threads copy into .* through another view"),
    "gathered result": (gathered_from_the_result, PIPELINE, r"c is written by this kernel \(.*\), and copies run"),
    "used outside": (stepped(usual, after=used_after), PIPELINE, "is used outside of the loop that stages it; use ano"),
    "unrolled": (framed(unrolled),
                 PIPELINE, "no loop copies a tile and uses it in its body; write lego.stage or lego.copy_a"),
    "in a branch": (stepped(in_a_branch), PIPELINE, "no loop copies a tile and uses it in its body"),
    "filled in a branch": (stepped(filled_in_a_branch), PIPELINE, "lego.stage is in a branch or a loop in the loop th"),
    "staged alone": (stepped(usual, before=staged_alone), PIPELINE, "lego.stage of a is outside of a loop that multip"),
    "columns": (stepped(column_stores), PIPELINE, "threads store into a staged tile of columns; use a tile of rows, o"),
    "open layout": (plain, "pipeline(stages=3)", "the accumulator's layout is open; apply warpgroups before pipeline"),
    "no ring": (plain, "warpgroups, roles", r"no copy .* completes on a ring; apply pipeline\(stages\) before roles"),
    "no ring to overlay": (plain, "warpgroups, overlay", r"no tile is in a ring; apply pipeline\(stages\) before over"),
    "no ring to share": (plain, "warpgroups, clusters(blocks=2)", r"apply pipeline\(stages\) before clusters"),
    "shared places": (framed(place_from_shared), PIPELINE + ", roles", "the copies need "),
    "written places": (framed(place_that_is_written),
                       PIPELINE + ", roles", r"the copies need this element of n, which the ke"),
    "type": (wide_elements, PIPELINE + ", roles", "wgmma cannot compute this product of f32 tiles; use tiles that pi"),
    "a branch in a function": (stored_by(branching), "warpgroups, copied_out", "the function of this store sets a var"),
    "a function that reads the result": (stored_by(in_place), "warpgroups, copied_out", "reads c, which the kernel"),
    "a function of four elements": (stored_by(of_no_pair), "warpgroups, copied_out", "takes no pair of a row"),
    "a function that stores": (stored_by(storing), "warpgroups, copied_out", "function of this store stores"),
    "not copied out": (changed_by_an_epilogue, "warpgroups, copied_out", "no shared tile is stored as it is"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_a_line_and_the_remedy(name):
    body, text, message = REFUSALS[name]
    kernel = product(body)
    with pytest.raises(ScheduleError, match=message) as found:
        kernel.schedule(text)
    line = str(found.value).split(": ")[0]
    file, number = line.rsplit(":", 1)
    assert file in (__file__, tiled_products.__file__)
    source = Path(file).read_text().splitlines()[int(number) - 1]
    assert "lego." in source or "def kernel" in source or "@lego" in source or "acc" in source or "tb[" in source, (
        source
    )


def test_blocks_that_skip_what_others_of_their_cluster_wait_for():
    kernel, _ = PRODUCTS["symmetric"](256, 256, 128)
    with pytest.raises(ScheduleError, match=r"the condition may differ between the 4 blocks of a cluster, .*tiles so"):
        kernel.schedule("warpgroups, pipeline(stages=2), clusters(blocks=4)")


@pytest.mark.parametrize("schedule", ["persistent(blocks=2)", "warpgroups, pipeline(stages=2), clusters(blocks=2)"])
def test_a_grid_of_two_dimensions(schedule):
    with pytest.raises(ScheduleError, match=r"takes a grid of one dimension, got \(2, 2\); number the tiles by lego"):
        product(plain, grid=(2, 2)).schedule(schedule)


def test_unequal_numbers_of_tiles():
    kernel, _ = PRODUCTS["plain"](384, 128, 128)
    with pytest.raises(ScheduleError, match="a cluster of 2 need equal numbers of tiles: 3 by steps of 2; use numbers"):
        kernel.schedule("persistent(blocks=2), warpgroups, pipeline(stages=2), clusters(blocks=2)")


def test_a_block_of_two_warps():
    with pytest.raises(ScheduleError, match=r"a block of 32 x 2 threads: use whole groups of 4 warps"):
        product(lambda a, b, n, c: plain(a, b, n, c), threads=(32, 2)).schedule("warpgroups")


def test_tiles_in_use_while_the_rings_are():
    kernel, _ = PRODUCTS["plain"](256, 128, 128)
    resident = "persistent(blocks=2), warpgroups, pipeline(stages=2), overlay"
    assert kernel.schedule(f"{resident}(optional=True)").trace().phases == ()
    with pytest.raises(ScheduleError, match="is used while the rings are, and keeps its own memory; leave out overlay"):
        kernel.schedule("persistent(blocks=2), warpgroups, pipeline(stages=2), overlay")


def meeting(when):
    """A product whose blocks meet in clusters of two: in a loop of its own, or with a value used on both sides."""

    def body(a, b, n, c):
        SQUARE.summed(a, b, (0, 0), K)
        number = n[0]
        if when == "loop":
            for _ in lego.range(2):
                lego.cluster_barrier()
        else:
            lego.cluster_barrier()
        with lego.when(lego.thread_id.x == 0):
            n[1] = number if when == "value" else 0

    return product(body, grid=2, cluster=(2,))


@pytest.mark.parametrize(
    ("when", "message"),
    [("loop", "lego.cluster_barrier in a loop or a branch: the warps that copy meet there too.*top level"),
     ("value", r"a value of before lego.cluster_barrier \(.*\) is used after it.*compute it again after the barrier")],
)  # fmt: skip
def test_phases_between_barriers_of_the_cluster(when, message):
    with pytest.raises(ScheduleError, match=message):
        meeting(when).schedule("warpgroups, pipeline(stages=2), roles")
    assert meeting("").schedule("warpgroups, pipeline(stages=2), roles").cluster == (2,)


def test_clusters_of_a_kernel_that_has_some():
    with pytest.raises(ScheduleError, match="the kernel has clusters of 2 blocks for a purpose of its own; leave out"):
        meeting("").schedule("warpgroups, pipeline(stages=2), clusters(blocks=2)")


def stored_where(condition, otherwise=None):
    """A product whose threads store into the tile of A where a condition of the row and the step holds."""
    t = SQUARE

    @lego.kernel(grid=1, block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(128, 256)), b: lego.Tensor(f16, Col(256, 128)), c: lego.Tensor(f16, Row(128, 128))
    ):
        (ta, tb), out, at = t.operands(), lego.shared(f16, Row(t.m, t.n)), t.at(128, 128)
        acc = t.accumulator()
        row, column = t.part_of_warp()
        for step in lego.range(4):
            for chunk in lego.unroll(8):
                position = chunk * t.threads + lego.thread_id.x
                i, j = position // 8, position % 8 * 8
                with lego.when(condition(i, step)):
                    ta.store(a.load(i, step * 64 + j, width=8), i, j)
                if otherwise is not None:
                    with lego.otherwise():
                        ta.store(otherwise, i, j, width=8)
            lego.stage(b, (step, at[1]), tb)
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, t.columns)), acc)
            lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        t.store(out, c, at)

    return product


@pytest.mark.parametrize(
    "condition",
    [
        lambda row, step: (row // 64 == step % 2) | (step == 0),  # half of the rows are of the step before
        lambda row, step: step == 0,
        lambda row, step: row != 77,
    ],
)
def test_a_tile_of_which_a_step_stores_a_part(condition):
    kernel = stored_where(condition)
    with pytest.raises(
        ScheduleError, match=r"not shown that each step stores shared0\[\d+, \d+\], and a stage has noth"
    ):
        kernel.schedule("warpgroups, pipeline(stages=2)")


@pytest.mark.parametrize(
    ("condition", "otherwise"), [(lambda row, step: row < 128, None), (lambda row, step: row < 32 * step, 0)]
)
def test_a_tile_that_each_step_stores_whole(condition, otherwise):
    kernel = stored_where(condition, otherwise).schedule("warpgroups, pipeline(stages=2), roles")
    assert kernel.block == (256,)


@lego.function(inline=False)
def put(x, value, i, j):
    x[i, j] = value


def test_copies_of_a_tensor_that_a_called_function_writes():
    t = SQUARE

    @lego.kernel(grid=1, block=t.threads)
    def product(a: lego.Tensor(f16, Row(128, 128)), b: lego.Tensor(f16, Col(128, 128))):
        out = t.summed(a, b, (0, 0), 128)
        for row in lego.range(128):
            put(a, out[row, lego.thread_id.x], row, lego.thread_id.x)

    with pytest.raises(ScheduleError, match=r"a is written by this kernel \(.*\), and copies run ahead of it"):
        product.schedule("warpgroups, pipeline(stages=2)")
