"""Threads that store into stages: one does what several of the block did, and copies what it stores as it is."""

import re

import numpy as np
import pytest
from tiled_products import BK, PRODUCTS, Tile, emulated, interpreted, require, run

import lego_mlir as lego
from lego_mlir import Col, Row, f16, i32
from lego_mlir.errors import ScheduleError
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.emit import emit_wgmma
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, words_in
from lego_mlir.tracing.schedules.sides import copies_of, differing
from lego_mlir.tracing.trace.marks import ThreadCopies, WarpRole
from lego_mlir.tracing.trace.trace import AsyncCopy, If, Load, Store, statements_in

WIDE = Tile(128, 256)
ROLES = "warpgroups, pipeline(stages=2), overlay, roles"
STORING = ("doubled", "computed", "gathered", "gathered_copies")


def scheduled(name, schedule, sizes=(128, 256, 192), tile=WIDE):
    kernel, reference = PRODUCTS[name](*sizes, tile)
    return kernel.schedule(schedule), reference


def roles_of(kernel):
    """The first and last warp, and the registers, of each role."""
    marks = (s.mark for s in kernel.trace().statements() if isinstance(s, If))
    return [(m.first, m.end, m.registers) for m in marks if isinstance(m, WarpRole)]


@pytest.mark.parametrize("name", STORING)
@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize("threads", [128, 256])
def test_fewer_threads_store_what_those_of_the_block_did(name, machine, threads):
    kernel, reference = scheduled(name, f"warpgroups, pipeline(stages=2), overlay, roles(threads={threads})")
    assert kernel.block == (256 + threads,)
    require(kernel, reference, machine)


@pytest.mark.parametrize("name", STORING)
@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_threads_store_where_a_cluster_shares_the_other_tile(name, machine):
    kernel, reference = scheduled(
        name, "warpgroups, pipeline(stages=2), clusters(blocks=2), overlay, roles", (256, 256, 128)
    )
    assert kernel.cluster == (2,)
    require(kernel, reference, machine)


@pytest.mark.parametrize(
    ("name", "registers"),
    # 64, and 8, 32 or 64 of what is loaded, but for what is copied
    [("gathered", 72), ("doubled", 96), ("computed", 128), ("gathered_copies", 72)],
)
def test_registers_are_for_all_loads_of_a_thread(name, registers):
    (first, end, copying), (*_, multiplying) = roles_of(scheduled(name, ROLES)[0])
    assert (first, end, copying) == (8, 12, registers)
    assert 128 * copying + 256 * multiplying <= 65536


def test_as_many_threads_as_the_block_has_without_whole_groups():
    kernel, _ = scheduled("doubled", ROLES, (128, 128, 128), Tile(128, 128))
    assert roles_of(kernel)[0][:2] == (4, 8)


@pytest.mark.parametrize("threads", [100, 64])
def test_a_number_of_threads_is_of_whole_groups(threads):
    with pytest.raises(ScheduleError, match=rf"threads={threads} must be 0 or a multiple of 128"):
        scheduled("doubled", f"warpgroups, pipeline(stages=2), roles(threads={threads})")


def test_threads_that_do_not_divide_those_of_the_block():
    with pytest.raises(ScheduleError, match="threads=384 cannot store what the block's do: the block has 256; leave"):
        scheduled("doubled", "warpgroups, pipeline(stages=2), roles(threads=384)")


# -- branches, loops and registers of a thread


def of_half_the_rows(m, n, k):
    """A product whose threads store in branches and loops that differ between them, and count in registers."""
    t = Tile(128, 256)

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n))):
        at, thread, seen = t.at(m, n), lego.thread_id.x, lego.register(i32, 0)

        def fill(ta, step):
            with lego.when(thread < 128):
                for j in lego.range(BK // 8):
                    row = at[0] * t.m + thread
                    factor = lego.where(seen.get() > 0, lego.f16(2.0), 1.0)
                    ta.store(a.load(row, step * BK + j * 8, width=8) * factor, thread, j * 8)
            seen.set(seen.get() + lego.i32(thread % 2))

        t.product(a, b, c, at, k, fill)

    def reference(a, b):
        odd = np.arange(m)[:, None] % 2 * (np.arange(k)[None, :] >= BK)
        return (a * (1 + odd)) @ b

    return product, reference


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize("schedule", ["", "warpgroups, pipeline(stages=2)", ROLES])
def test_branches_loops_and_registers_that_differ_between_threads(machine, schedule):
    kernel, reference = of_half_the_rows(128, 256, 192)
    if not schedule and machine is emulated:
        pytest.skip("the emulator runs products by warpgroups")
    require(kernel.schedule(schedule) if schedule else kernel, reference, machine)


def test_statements_that_differ_between_threads_are_found():
    trace = PRODUCTS["gathered"](128, 256, 128, WIDE)[0].trace()
    threads = {s for s, (kind, _) in trace.ids.items() if kind == "thread_id"}
    apart = differing(trace.body, threads)
    assert all(id(s) in apart for s in trace.statements() if isinstance(s, Load) and s.access.buffer.name == "rows")
    assert not any(id(s) in apart for s in trace.body if isinstance(s, If) and s.mark is not None)
    assert not differing(trace.body, set())


# -- what is stored as it is


def copied(kernel):
    return [(s.origin.buffer.name, s.origin.width) for w, _ in words_in(kernel.trace().body, ThreadCopies)
            for s in w.then if isinstance(s, AsyncCopy)]  # fmt: skip


@pytest.mark.parametrize("name", ["gathered", "gathered_copies"])
def test_elements_stored_as_they_are_copied_past_registers(name):
    kernel, _ = scheduled(name, ROLES)
    assert copied(kernel) == [("a", 8)] * 8
    assert not any(isinstance(s, Store) and s.access.buffer.space == "workgroup" for s in in_copies(kernel))
    text = compile_kernel(kernel, target="sm_90a").text
    steps = text.count("cp.async.mbarrier.arrive")
    assert len(re.findall(r"cp\.async\.cg\.shared\.global .*, 16[,;]", text)) == 8 * steps > 0


def in_copies(kernel):
    role = next(s for s in kernel.trace().body if isinstance(s, If) and isinstance(s.mark, WarpRole))
    return statements_in(role.then)


@pytest.mark.parametrize("name", ["doubled", "computed"])
def test_computed_elements_are_stored(name):
    kernel, _ = scheduled(name, ROLES)
    assert copied(kernel) == []
    assert any(isinstance(s, Store) for s in in_copies(kernel))


def stored_and_used(value_of):
    """A product of A whose threads store `value_of(a, place)`, and count what they saw in a tensor."""
    t = Tile(128, 256)

    @lego.kernel(grid=1, block=t.threads)
    def product(a: lego.Tensor(f16, Row(128, 128)), b: lego.Tensor(f16, Col(128, 256)),
                c: lego.Tensor(f16, Row(128, 256))):  # fmt: skip
        def fill(ta, step):
            for i, j in t.chunks():
                value_of(a, ta, i, j, step)

        t.product(a, b, c, t.at(128, 256), 128, fill)

    return product


def twice(a, ta, i, j, step):
    x = a.load(i, step * BK + j, width=8)
    ta.store(x, i, j)
    ta.store(x * 1.0, i, j)


def of_some_threads(a, ta, i, j, step):
    with lego.when(i < 100):
        ta.store(a.load(i, step * BK + j, width=8), i, j)
    with lego.when(i >= 100):
        ta.store(0.0, i, j, width=8)


def one_by_one(a, ta, i, j, step):
    for n in range(8):
        ta.store(a[i, step * BK + j + n], i, j + n)


@pytest.mark.parametrize("value_of", [twice, of_some_threads, one_by_one])
def test_what_no_copy_can_take_stays_a_store(value_of):
    """A value that is used again, one of some threads, and one of two bytes."""
    kernel = stored_and_used(value_of).schedule("warpgroups, pipeline(stages=2)")
    assert copies_of(kernel.trace()) == {}


def then_zeros(a, ta, i, j, step):
    ta.store(a.load(i, step * BK + j, width=8), i, j)
    with lego.when(i < 64):
        ta.store(0.0, i, j, width=8)


def then_an_element(a, ta, i, j, step):
    ta.store(a.load(i, step * BK + j, width=8), i, j)
    ta[i, j] = 0.0


def two_rows(a, ta, i, j, step):
    ta.store(a.load(i, step * BK + j, width=8), i, j)
    ta.store(a.load(127 - i, step * BK + j, width=8), i, j)


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize(
    ("value_of", "left"),
    [
        (then_zeros, lambda a: np.where(np.arange(128)[:, None] < 64, 0, a)),
        (then_an_element, lambda a: np.where(np.arange(128)[None, :] % 8 == 0, 0, a)),
        (two_rows, lambda a: a[::-1]),
    ],
)
def test_a_store_that_another_follows_stays_in_front_of_it(value_of, left, machine):
    kernel = stored_and_used(value_of).schedule(ROLES)
    assert copied(kernel) == []
    require(kernel, lambda a, b: left(a) @ b, machine)


@lego.function(inline=False)
def put(c, value, i, j):
    c[i, j] = value


@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_a_function_that_is_called_stores_behind_the_products(machine):
    t = Tile(128, 256)

    @lego.kernel(grid=1, block=t.threads)
    def product(a: lego.Tensor(f16, Row(128, 128)), b: lego.Tensor(f16, Col(128, 256)),
                c: lego.Tensor(f16, Row(128, 256))):  # fmt: skip
        out = t.summed(a, b, (0, 0), 128)
        for row in lego.range(128):
            put(c, out[row, lego.thread_id.x], row, lego.thread_id.x)

    require(product.schedule(ROLES), lambda a, b: a @ b, machine)


def of_columns(n, k):
    """A' B of gathered columns of B, which are rows of its transpose, and of parts of A."""
    t = WIDE

    @lego.kernel(grid=t.grid(t.m, n), block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(t.m, k)), columns: lego.Tensor(i32, Row(n), range=(0, n)),
        b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(t.m, n)),
    ):  # fmt: skip
        (ta, tb), out, at = t.operands(), lego.shared(f16, Row(t.m, t.n)), t.at(t.m, n)
        acc, (row, column) = t.accumulator(), t.part_of_warp()
        for step in lego.range(k // BK):
            lego.copy_async(b.T, tb.T, at=lambda r, step=step: (lego.index(columns[at[1] * t.n + r]), step * BK))
            for half in range(2):
                lego.copy_async(a, ta.part((half * t.m // 2, 0), (t.m // 2, BK)), at=(half * t.m // 2, step * BK))
            lego.wait_copies()
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, BK)), tb.part((0, column), (BK, t.columns)), acc)
            lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        t.store(out, c, at)

    return product, lambda a, columns, b: a @ b[:, columns.astype(int)]


@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_columns_are_gathered_and_parts_copied(machine):
    kernel, reference = of_columns(256, 192)
    kernel = kernel.schedule(ROLES)
    assert {name for name, _ in copied(kernel)} == {"a", "b"}
    require(kernel, reference, machine)


# -- faults


class WithoutCompletion(Replay):
    """Copies of threads that no barrier waits for."""

    def run(self):
        self.words = {ThreadCopies: self.copies_alone}
        super().run()

    def copies_alone(self, statement, mark):
        for s in statement.then:
            if isinstance(s, AsyncCopy):
                self.copy(s)


@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_copies_of_threads_that_the_ring_does_not_wait_for_are_reported(machine):
    kernel, reference = scheduled("gathered", ROLES)
    faults, _ = run(Scheduled(kernel, WithoutCompletion(), "without"), reference, machine)
    assert faults


def test_the_emulator_reports_a_wait_without_its_fence(monkeypatch):
    monkeypatch.setattr(emit_wgmma, "fenced_waits", lambda trace, operands: frozenset())
    faults, _ = run(*scheduled("gathered", ROLES), emulated)
    assert {fault.kind for fault in faults} == {Kind.UNFENCED}
