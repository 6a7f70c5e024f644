"""Results are written once and tiles before they are read: proved for all sizes, or refuted by a run."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f32, gallery, i32
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.claims import kernel_claims

M, N, T = lego.size("M"), lego.size("N"), 32
ROWS, COLUMNS = lego.cdiv(M, T), lego.cdiv(N, T)
"""Reads that are proved, that only runs show to be right, and that are wrong."""


def verdicts(kernel):
    found = dict(kernel_claims(kernel))
    return {
        "covered": found["every element of y is written"],
        "once": found["no element of y is written twice"],
        "tile": found.get("every read of tile comes after a write of that element"),
    }


def writing(store, grid=COLUMNS, block=T, shape=(N,)):
    @lego.kernel(grid=grid, block=block)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(*shape))):
        store(y, *(*lego.block_id, *lego.thread_id))

    return verdicts(kernel)


def guarded(y, i):
    with lego.when(i < N):
        y[i] = 1.0


@pytest.mark.parametrize(
    ("store", "options"),
    [
        (lambda y, b, t: guarded(y, b * T + t), {}),
        (lambda y, b, t: guarded(y, T - 1 - t + b * T), {}),
        (lambda y, b, t: y.tile_by([COLUMNS], [T]).__setitem__((b, t), 1.0), {}),
        (lambda y, b, t: y.halo().__setitem__(b * T + t, 1.0), {}),
        (lambda y, b, t: [guarded(y, b * T + 8 * k + t) for k in range(4)], {"block": 8}),
        (lambda y, b, t: [guarded(y, i) for i in lego.range(b * T + t, N, 5 * T)], {"grid": 5}),
        (lambda y, b, t: [guarded(y, b * T + i) for i in lego.range(t, T, 8)], {"block": 8}),
    ],
)
def test_a_result_that_each_thread_writes_a_part_of_is_covered_once(store, options):
    found = writing(store, **options)
    assert isinstance(found["covered"], Proved), found
    assert isinstance(found["once"], Proved), found


@pytest.mark.parametrize(
    ("store", "options", "covered", "once"),
    [
        (lambda y, b, t: guarded(y, b * T + t + 1), {}, Refuted, Proved),
        (lambda y, b, t: guarded(y, 2 * (b * T + t)), {}, Refuted, Proved),
        (lambda y, b, t: guarded(y, b * T + t // 2), {}, Refuted, Refuted),
        (lambda y, b, t: [guarded(y, b * T + 8 * k + t) for k in range(3)], {"block": 8}, Refuted, Proved),
        (lambda y, b, t: [guarded(y, b * T + 4 * k + t) for k in range(8)], {"block": 8}, Proved, Refuted),
        (lambda y, b, t: [guarded(y, b * T + t) for k in lego.range(3)], {}, Proved, Refuted),
        (lambda y, b, t: guarded(y, b * T + t), {"block": T // 2}, Refuted, Proved),
        (lambda y, b, t: guarded(y, b * T + t), {"block": 2 * T}, Proved, Refuted),
    ],
)
def test_what_is_left_out_or_written_twice_is_refuted_by_a_run(store, options, covered, once):
    found = writing(store, **options)
    assert isinstance(found["once"], once), found
    if covered is Refuted or not isinstance(found["covered"], Unknown):
        assert isinstance(found["covered"], covered), found


def test_a_refutation_names_the_first_element_that_is_left_out():
    verdict = writing(lambda y, b, t: guarded(y, b * T + t + 1))["covered"]
    assert verdict.explanation == "for N = 200, 1 elements are not written, y[0] the first"
    assert verdict.counter_example == {"N": 200, "element": "[0]"}


def test_several_writes_cover_a_result_together():
    def halves(y, b, t):
        i = 2 * (b * T + t)
        with lego.when(i + 1 < N):
            y[i + 1] = 1.0
        with lego.when(i < N):
            y[i] = 1.0

    def vectors(y, b, t):
        i = 4 * (b * T + t)
        with lego.when(i + 4 <= N):
            y.store(1.0, i, width=1)
            for k in (1, 2, 3):
                y[i + k] = 1.0
        with lego.otherwise():
            for k in range(4):
                y.halo()[i + k] = 1.0

    for store in (halves, vectors):
        found = writing(store)
        assert isinstance(found["once"], Proved), found
        assert isinstance(found["covered"], Proved), found


def test_rows_of_a_tile_that_are_written_between_barriers_cover_it_together():
    """Each store has a barrier before it, so the copies of the line are separate writes."""
    from lego_mlir.kernels import transpose

    rows, columns = lego.size("M", multiple_of=4), lego.size("N", multiple_of=4)
    found = dict(kernel_claims(transpose.build("vectorised", rows, columns, f32)))
    assert all(isinstance(verdict, Proved) for verdict in found.values()), found
    assert "one of 4 writes reaches it" in found["every element of dst is written"].by


def test_persistent_blocks_cover_the_tiles_that_they_share():
    @lego.kernel(grid=4, block=(T, 8))
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(3 * T, 3 * T))):
        tx, ty = lego.thread_id
        for tile in lego.range(lego.block_id[0], 9, 4):
            for row in lego.range(ty, T, 8):
                y[tile // 3 * T + row, tile % 3 * T + tx] = 1.0

    found = verdicts(kernel)
    assert isinstance(found["covered"], Proved)
    assert isinstance(found["once"], Proved)


def test_blocks_along_a_curve_cover_a_matrix():
    curve = lego.as_layout(gallery.morton(8))

    @lego.kernel(grid=64, block=(T, T))
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(8 * T, 8 * T))):
        (tx, ty), (row, column) = lego.thread_id, curve.inv(lego.block_id[0])
        y[row * T + ty, column * T + tx] = 1.0

    found = verdicts(kernel)
    assert isinstance(found["covered"], Proved)
    assert found["once"].by == "mixed radix"


def staged(write, before=None):
    @lego.kernel(grid=COLUMNS, block=T)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        b, t = lego.block_id[0], lego.thread_id[0]
        tile = lego.shared(f32, Row(T), name="tile")
        write(tile, x, b, t)
        lego.barrier()
        guarded(y, b * T + t) if before else None
        y.halo()[b * T + t] = tile[T - 1 - t]

    return verdicts(kernel)["tile"]


@pytest.mark.parametrize(
    ("write", "verdict"),
    [
        (lambda tile, x, b, t: tile.__setitem__(t, x.halo()[b * T + t]), Proved),
        (lambda tile, x, b, t: [tile.__setitem__(i, 1.0) for i in lego.range(t, T, T)], Proved),
        (lambda tile, x, b, t: _when(b * T + t < N, lambda: tile.__setitem__(t, 1.0)), Refuted),
        (lambda tile, x, b, t: _when(t < T - 1, lambda: tile.__setitem__(t, 1.0)), Refuted),
        (lambda tile, x, b, t: _when(b == 0, lambda: tile.__setitem__(t, 1.0)), Refuted),
        (lambda tile, x, b, t: _when(x[0] > 2.0, lambda: tile.__setitem__(t, 1.0)), (Unknown, Refuted)),
    ],
)
def test_a_tile_is_written_before_it_is_read(write, verdict):
    assert isinstance(staged(write), verdict)


def _when(condition, body):
    with lego.when(condition):
        body()


def test_an_unrolled_read_does_not_see_what_a_later_copy_writes():
    def unrolled(other):
        @lego.kernel(grid=1, block=T)
        def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(T))):
            t, tile, total = lego.thread_id[0], lego.shared(f32, Row(3 * T), name="tile"), lego.register(f32, 0.0)
            tile[t] = 1.0
            for k in range(2):
                tile[t + T * k + T] = x.halo()[t]
                total += tile[t + T * ((k + other) % 3)]
            y[t] = total

        return verdicts(kernel)["tile"]

    assert isinstance(unrolled(2), Refuted)
    assert not isinstance(unrolled(1), Refuted)


def test_a_loop_of_each_thread_may_read_what_a_later_round_writes_or_have_no_round():
    def kernel_of(body):
        @lego.kernel(grid=1, block=T)
        def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(T))):
            t, tile, total = lego.thread_id[0], lego.shared(f32, Row(4 * T), name="tile"), lego.register(f32, 0.0)
            tile[t] = 1.0
            body(t, tile, total, x)
            y[t] = total

        return verdicts(kernel)["tile"]

    def ahead(t, tile, total, x):
        for k in lego.range(3):
            tile[t + T * k] = x.halo()[t]
            total += tile[t + T * lego.minimum(k + 1, 2)]

    def maybe(t, tile, total, x):
        running = lego.register(lego.i1, False)
        with lego.while_(running):
            tile[t + T] = 1.0
            running.set(False)
        total += tile[t + T]

    for body in (ahead, maybe):
        assert isinstance(kernel_of(body), Refuted)


def test_the_first_round_of_a_loop_initialises_the_others():
    def looped(prologue, rounds):
        @lego.kernel(grid=COLUMNS, block=T)
        def kernel(x: lego.Tensor(f32, Row(M, COLUMNS * T)), y: lego.Tensor(f32, Row(COLUMNS * T))):
            b, t, total = lego.block_id[0], lego.thread_id[0], lego.register(f32, 0.0)
            tile = lego.shared(f32, Row(2, T), name="tile")
            if prologue:
                tile[0, t] = x[0, b * T + t]
            for k in lego.range(rounds):
                lego.barrier()
                tile[(k + 1) % 2, t] = x[0, b * T + t]
                total += tile[k % 2, T - 1 - t]
            y[b * T + t] = total

        return verdicts(kernel)["tile"]

    assert isinstance(looped(True, M), Proved)
    assert isinstance(looped(False, M), Refuted)


def test_a_parameter_whose_annotation_is_tiled():
    @lego.kernel(grid=COLUMNS, block=T)
    def kernel(
        x: lego.Tensor(f32, Row(N).tile_by([COLUMNS], [T])),
        y: lego.Tensor(f32, gallery.reverse(N).tile_by([COLUMNS], [T])),
    ):
        y[lego.block_id[0], lego.thread_id[0]] = x[lego.block_id[0], lego.thread_id[0]]

    found = verdicts(kernel)
    assert isinstance(found["covered"], Proved) and isinstance(found["once"], Proved), found


@pytest.mark.parametrize(("rows", "verdict"), [(128, Proved), (64, Refuted)])
def test_the_registers_of_a_spread_value_cover_its_tile(rows, verdict):
    """The copies of a store per register, whose masks are sums in several forms, are one write of the tile."""
    S = lego.size("S")

    @lego.kernel(grid=lego.cdiv(S, 128), block=128)
    def kernel(o: lego.Tensor(f32, Row(S, 64))):
        first = (lego.cdiv(S, 128) - 1 - lego.block_id[0]) * rows
        lego.zeros(f32, f2.MmaSync((4, 1)).layout((128, 64))).store(o, at=(first, 0))

    found = dict(kernel_claims(kernel))
    assert isinstance(found["every element of o is written"], verdict)
    assert isinstance(found["no element of o is written twice"], verdict)


def by_memory(t, expert):
    return expert[t]


def by_digits_of_memory(t, expert):
    return 2 * (lego.index(expert[t]) // 2) + lego.index(expert[t]) % 2


def by_register(t, expert):
    held = lego.register(i32, 0)
    held.set(expert[t])
    return lego.index(held, range=(0, 4))


def by_shuffle(t, expert):
    return lego.index(lego.shuffle_xor(expert[t], 1), range=(0, 4))


def by_shared_tile(t, expert):
    tile = lego.shared(i32, Row(T), name="tile")
    tile[t] = expert[t]
    lego.barrier()
    return lego.index(tile[T - 1 - t], range=(0, 4))


def by_vote(t, expert):
    return lego.index(lego.popcount(lego.warp_ballot(expert[t] > 1)), range=(0, 4))


@pytest.mark.parametrize(
    ("index", "datum"),
    [
        (by_memory, "expert[tx]"),
        (by_digits_of_memory, "expert[tx]"),
        (by_register, "%"),
        (by_shuffle, "%"),
        (by_shared_tile, "tile["),
        (by_vote, "popcount"),
    ],
)
def test_no_write_reaches_every_element_by_data(index, datum):
    """The inverse may choose threads and blocks, but not what memory holds: with zeros, 96 elements are left out."""

    @lego.kernel(grid=1, block=T)
    def kernel(expert: lego.Tensor(i32, Row(T), range=(0, 4)), y: lego.Tensor(f32, Row(4, T))):
        y[index(lego.thread_id[0], expert), lego.thread_id[0]] = 1.0

    found = verdicts(kernel)["covered"]
    assert isinstance(found, Unknown)
    assert datum in found.reason and "which is data" in found.reason


def test_every_value_of_data_in_a_branch_is_covered_or_nothing_is():
    def covered(store):
        @lego.kernel(grid=1, block=T)
        def kernel(expert: lego.Tensor(i32, Row(T), range=(0, 4)), y: lego.Tensor(f32, Row(4, T))):
            store(y, lego.thread_id[0], lego.index(expert[lego.thread_id[0]]))

        return verdicts(kernel)["covered"]

    def zeros_only(y, t, e):
        for k in lego.range(4):
            with lego.when(e == 0):
                y[k, t] = 1.0

    def digits_of_zeros(y, t, e):
        for k in lego.range(4):
            with lego.when((e // 2 == 0) & (e % 2 == 0)):
                y[k, t] = 1.0

    def both_sides(y, t, e):
        for k in lego.range(4):
            with lego.when(e == k):
                y[k, t] = 1.0
            with lego.when(e != k):
                y[k, t] = 0.0

    assert isinstance(covered(zeros_only), Unknown)
    assert isinstance(covered(digits_of_zeros), Unknown)
    assert isinstance(covered(both_sides), Proved)


def test_the_values_of_an_operation_do_not_free_its_operands():
    """`t ^ 5` is 0 .. 7 in some order, but an element has one t, which the other index and the branch see as well."""

    def covered(store):
        @lego.kernel(grid=2, block=8)
        def kernel(y: lego.Tensor(f32, Row(2, 8, 8)), z: lego.Tensor(f32, Row(2, 8))):
            store(y, z, lego.block_id[0], lego.thread_id[0])

        found = dict(kernel_claims(kernel))
        return next(verdict for text, verdict in found.items() if text.startswith("every element of"))

    assert isinstance(covered(lambda y, z, b, t: z.__setitem__((b, t ^ 5), 1.0)), Proved)
    assert isinstance(covered(lambda y, z, b, t: y.__setitem__((b, t ^ 5, t), 1.0)), Refuted)
    assert isinstance(covered(lambda y, z, b, t: _when(t * b < 7, lambda: z.__setitem__((b, t ^ 5), 1.0))), Refuted)


def test_a_while_with_a_barrier_may_have_no_round():
    @lego.kernel(grid=1, block=T)
    def kernel(n: i32, y: lego.Tensor(f32, Row(T))):
        running = lego.register(lego.i1, n > 0)
        with lego.while_(running):
            lego.barrier()
            y[lego.thread_id[0]] = 1.0
            running.set(False)

    assert not isinstance(verdicts(kernel)["covered"], Proved)


@pytest.mark.parametrize(("rounds", "proved"), [(N, True), (N - 1, False)], ids=["as many as elements", "one fewer"])
def test_a_loop_whose_round_is_in_no_index_has_one(rounds, proved):
    found = writing(lambda y, b, t: [guarded(y, b * T + t) for _ in lego.range(rounds)])
    assert isinstance(found["covered"], Proved) == proved


def test_branches_on_a_remainder_that_does_not_divide_the_block_cover_a_result():
    """The digits of `t % 3` go up to 32, and only those of a thread below 32 are launched."""

    def either(y, b, t):
        for rest in (t % 3 < 1, t % 3 >= 1):
            with lego.when((b * T + t < N) & rest):
                y[b * T + t] = 1.0

    assert isinstance(writing(either)["covered"], Proved)


def test_the_complement_of_a_comparison_of_floats_is_its_negation():
    """x > 3 and x <= 3 are both false for a NaN."""

    def covered(second):
        @lego.kernel(grid=1, block=T)
        def kernel(x: lego.Tensor(f32, Row(T)), y: lego.Tensor(f32, Row(T))):
            t = lego.thread_id[0]
            value = x[t]
            above = value > 3.0
            with lego.when(above):
                y[t] = 1.0
            with lego.when(second(value, above)):
                y[t] = 2.0

        return verdicts(kernel)["covered"]

    assert isinstance(covered(lambda _, above: ~above), Proved)
    assert isinstance(covered(lambda value, _: value <= 3.0), Unknown)


@pytest.mark.parametrize(("dtype", "verdict"), [(lego.i32, Proved), (lego.i16, Proved), (lego.i8, Unknown)])
def test_an_index_that_went_through_a_type_which_holds_it_is_no_data(dtype, verdict):
    """i8 holds half of the threads: the others have another row, so that the claimed range does not give theirs."""

    @lego.kernel(grid=1, block=256)
    def kernel(x: lego.Tensor(f32, Row(256)), y: lego.Tensor(f32, Row(256))):
        y[lego.index(dtype(lego.thread_id[0]), range=(0, 256))] = 1.0

    found = dict(kernel_claims(kernel, tried=False))
    assert isinstance(found["every element of y is written"], verdict)


def test_blocks_along_a_curve_through_i32_cover_a_matrix_for_all_sizes():
    """A launch has fewer than 2^31 blocks, and so rows of blocks."""
    order = lego.schedule.grouped(ROWS, COLUMNS, rows=4)

    @lego.kernel(grid=order.physical_size(), block=T)
    def kernel(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
        at = order.inv(lego.block_id[0])
        row, column = (lego.index(i32(i), range=(0, n)) for i, n in zip(at, (ROWS, COLUMNS), strict=True))
        for r in lego.range(T):
            i, j = row * T + r, column * T + lego.thread_id[0]
            with lego.when((i < M) & (j < N)):
                y[i, j] = 1.0

    found = dict(kernel_claims(kernel, tried=False))
    assert isinstance(found["every element of y is written"], Proved)
    assert isinstance(found["no race for y between two blocks"], Proved)


def _written_where_positive(y, t):
    for k in lego.range(256):
        with lego.when((lego.i8(k) >= 0) & (t < 1)):
            y[k] = 1.0


WRAPPED = {
    "an index": lambda y, t: y.__setitem__(lego.index(lego.i8(t), range=(0, 256)), 1.0),
    "a guard": _written_where_positive,
}


@pytest.mark.parametrize("what", WRAPPED)
def test_an_index_that_its_type_does_not_hold_is_not_taken_for_the_index(what):
    """i8(200) is -56. Its text is the index's, and was its symbol too."""

    @lego.kernel(grid=1, block=256)
    def kernel(y: lego.Tensor(f32, Row(256))):
        WRAPPED[what](y, lego.thread_id[0])

    found = dict(kernel_claims(kernel, tried=False))
    assert isinstance(found["every element of y is written"], Unknown)


def test_a_guard_on_a_wrapped_index_does_not_bound_the_index():
    """Thread 256 has i8(256) = 0 as thread 0 has, and writes element 256 of 8."""
    from lego_mlir.tracing.checks.claims import access_verdicts

    @lego.kernel(grid=1, block=512)
    def kernel(y: lego.Tensor(f32, Row(8))):
        t = lego.thread_id[0]
        with lego.when((lego.i8(t) >= 0) & (lego.i8(t) < 8)):
            y[t] = 1.0

    ((_, verdict),) = access_verdicts(kernel.trace(), 2000)
    assert not isinstance(verdict, Proved)
