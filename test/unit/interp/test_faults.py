"""Planted faults: each is reported with the right kind, and no other fault is."""

import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import Kind

SHARED = "#gpu.address_space<workgroup>"
N = 64


def transpose(*, barrier: str = "gpu.barrier", rows: int = 32, columns: int = 33, shift: int = 0) -> str:
    """Four 32x32 tiles by 32x8 threads; each keyword plants one fault."""
    tile = f"memref<{rows}x{columns}xf32, {SHARED}>"
    load, store = "", ""
    for k in range(4):
        load += f"""
        %r{k} = affine.apply affine_map<(d0) -> (d0 + {8 * k})>(%ty)
        %a{k} = affine.apply affine_map<(d0, d1, d2, d3) -> ((d1 * 32 + d3) * {N} + d0 * 32 + d2)>(%bx, %by, %tx, %r{k})
        %v{k} = memref.load %src[%a{k}] : memref<{N * N}xf32>
        memref.store %v{k}, %tile[%r{k}, %tx] : {tile}"""
        store += f"""
        %w{k} = memref.load %tile[%tx, %r{k}] : {tile}
        %b{k} = affine.apply affine_map<(d0, d1, d2, d3) -> ((d0 * 32 + d3) * {N} + d1 * 32 + d2 + {shift})>
            (%bx, %by, %tx, %r{k})
        memref.store %w{k}, %dst[%b{k}] : memref<{N * N}xf32>"""
    return f"""gpu.module @m {{
      gpu.func @transpose(%src: memref<{N * N}xf32>, %dst: memref<{N * N}xf32>) workgroup(%tile: {tile}) kernel
          attributes {{known_block_size = array<i32: 32, 8, 1>, known_grid_size = array<i32: 2, 2, 1>}} {{
        %bx = gpu.block_id x
        %by = gpu.block_id y
        %tx = gpu.thread_id x
        %ty = gpu.thread_id y
        %c16 = arith.constant 16 : index
        %half = arith.cmpi ult, %tx, %c16 : index
        {load}
        {barrier}
        {store}
        gpu.return
      }} }}"""


def run(text: str) -> tuple[interp.Report, np.ndarray, np.ndarray]:
    source = np.random.default_rng(0).standard_normal((N, N), dtype=np.float32)
    target = np.zeros_like(source)
    return interp.launch(text, args=[source.reshape(-1), target.reshape(-1)], names=["src", "dst"]), source, target


def line_of(text: str, needle: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if needle in line)


def test_the_right_kernel_is_clean_and_right():
    report, source, target = run(transpose())
    assert report.clean, report
    assert np.array_equal(target, source.T)
    assert (report.totals.conflicts, report.totals.wavefronts) == (0, 4 * (32 + 32))
    assert report.totals.sectors == report.totals.ideal_sectors == 2 * N * N // 8
    assert report.totals.moved == report.totals.compulsory == 2 * N * N * 4


def test_dropped_barrier_is_a_race_although_the_values_come_out_right():
    text = transpose(barrier="")
    report, source, target = run(text)
    assert np.array_equal(target, source.T)
    assert report.kinds() == {Kind.RACE}
    first = report.faults[0]
    assert first.place.line == line_of(text, "%w0 = memref.load")
    assert first.other is not None and first.other.line == line_of(text, "memref.store %v0")
    # Of the tile's 1024 elements, thread (tx, ty) wrote and reads back only those with (tx, r) = (r', ty + 8 k').
    assert first.count == 4 * (256 - 8)


def test_barrier_under_a_divergent_branch():
    report, *_ = run(transpose(barrier="scf.if %half { gpu.barrier }"))
    assert report.kinds() == {Kind.BARRIER}
    (fault,) = report.faults
    assert (fault.block, fault.thread, fault.count) == ((0, 0, 0), (16, 0, 0), 4)
    assert "128 of the block's 256 threads" in fault.message


def test_barrier_that_only_some_blocks_reach_is_allowed():
    barrier = "%z = arith.constant 0 : index %e = arith.cmpi eq, %bx, %z : index scf.if %e { gpu.barrier }"
    report, *_ = run(transpose(barrier=barrier))
    assert report.kinds() == {Kind.RACE}
    assert {fault.block[0] for fault in report.faults} == {1}


def test_shared_tile_one_row_short():
    report, *_ = run(transpose(rows=31))
    assert report.kinds() == {Kind.OUT_OF_BOUNDS}
    assert all("(31, 33)" in fault.message for fault in report.faults)
    assert report.faults[0].message.startswith("write of index (31, 0)")
    assert report.faults[0].thread == (0, 7, 0)


def test_off_by_one_store():
    report, *_ = run(transpose(shift=1))
    assert report.kinds() == {Kind.OUT_OF_BOUNDS}
    (fault,) = report.faults
    assert (fault.block, fault.thread, fault.address, fault.count) == ((1, 1, 0), (31, 7, 0), N * N, 1)


def test_tile_without_padding_is_counted_as_a_32_way_conflict():
    report, *_ = run(transpose(columns=32))
    assert report.clean, report
    reads = [s for s in report.sites if s.space == "shared" and s.kind == "read"]
    assert len(reads) == 4
    for site in reads:
        assert site.ways == 32
        assert site.conflicts == 31 * site.requests
        assert site.worst_lanes == tuple(range(32))
    assert all(s.conflicts == 0 for s in report.sites if s.space == "shared" and s.kind == "write")


def kernel(body: str, arguments: str = "%x: memref<1024xf32>", attributions: str = "", threads: int = 64) -> str:
    return f"""gpu.module @m {{
      gpu.func @k({arguments}) {attributions} kernel attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
        %t = gpu.thread_id x
        %b = gpu.block_id x
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %one = arith.constant 1.0 : f32
        {body}
        gpu.return
      }} }}"""


def launch(text: str, *args: np.ndarray, grid: int = 1, **options: object) -> interp.Report:
    return interp.launch(text, grid=grid, args=args or [np.zeros(1024, np.float32)], **options)  # type: ignore[arg-type]


def test_two_threads_storing_one_address():
    body = """%half = arith.shrui %t, %c1 : index
        memref.store %one, %x[%half] : memref<1024xf32>"""
    report = launch(kernel(body))
    assert report.kinds() == {Kind.RACE}
    (fault,) = report.faults
    assert fault.count == 32
    assert "also written by thread (1, 0, 0)" in fault.message


def test_two_blocks_storing_one_address():
    report = launch(kernel("memref.store %one, %x[%t] : memref<1024xf32>"), grid=3)
    assert report.kinds() == {Kind.RACE}
    assert "of block" in report.faults[0].message
    assert launch(kernel("memref.store %one, %x[%t] : memref<1024xf32>")).clean


def test_blocks_of_different_batches_still_race():
    report = launch(kernel("memref.store %one, %x[%t] : memref<1024xf32>"), grid=3, memory_limit=1)
    assert report.kinds() == {Kind.RACE}
    assert report.faults[0].count == 2 * 64


def test_read_then_write_by_another_thread_races():
    body = """%n = affine.apply affine_map<(d0) -> ((d0 + 1) mod 64)>(%t)
        %v = memref.load %x[%n] : memref<1024xf32>
        {barrier}
        memref.store %v, %x[%t] : memref<1024xf32>"""
    assert launch(kernel(body.format(barrier="gpu.barrier"))).clean
    report = launch(kernel(body.format(barrier="")))
    assert report.kinds() == {Kind.RACE}
    assert "read by thread" in report.faults[0].message


@pytest.mark.parametrize("writer", [0, 5, 63])
@pytest.mark.parametrize("blocks", [1, 2])
def test_one_of_many_readers_writes(writer: int, blocks: int):
    """All threads read one element in one operation; whichever of them writes it then, the others were reading it."""
    body = f"""%v = memref.load %x[%c0] : memref<1024xf32>
        %w = arith.constant {writer} : index
        %me = arith.cmpi eq, %t, %w : index
        scf.if %me {{ memref.store %v, %x[%c0] : memref<1024xf32> }}"""
    report = launch(kernel(body), grid=blocks)
    assert report.kinds() == {Kind.RACE}
    assert any("read by several threads" in fault.message for fault in report.faults)


def test_blocks_that_read_what_another_block_writes():
    body = """%v = memref.load %x[%t] : memref<1024xf32>
        %w = arith.constant 2 : index
        %me = arith.cmpi eq, %b, %w : index
        scf.if %me { memref.store %v, %x[%t] : memref<1024xf32> }"""
    assert launch(kernel(body), grid=2).clean
    for limit in (1 << 30, 1):
        report = launch(kernel(body), grid=3, memory_limit=limit)
        assert report.kinds() == {Kind.RACE}
        assert "of other blocks" in report.faults[0].message


FENCES = {
    "": set(),
    "memfence [#gpu.address_space<global>]": set(),
    "memfence [#gpu.address_space<workgroup>, #gpu.address_space<global>]": set(),
    "memfence [#gpu.address_space<workgroup>]": {Kind.RACE},
    "memfence []": {Kind.RACE},
}


@pytest.mark.parametrize("fence", FENCES)
def test_a_barrier_orders_the_memory_that_it_fences(fence: str):
    body = f"""memref.store %one, %x[%t] : memref<1024xf32>
        gpu.barrier {fence}
        %n = affine.apply affine_map<(d0) -> ((d0 + 1) mod 64)>(%t)
        %v = memref.load %x[%n] : memref<1024xf32>"""
    assert launch(kernel(body)).kinds() == FENCES[fence]
    shared = kernel(body.replace("%x", "%s").replace("1024xf32", f"64xf32, {SHARED}"),
                    attributions=f"workgroup(%s: memref<64xf32, {SHARED}>)")  # fmt: skip
    swapped = {"memfence [#gpu.address_space<global>]": {Kind.RACE}, "memfence [#gpu.address_space<workgroup>]": set()}
    assert launch(shared).kinds() == swapped.get(fence, FENCES[fence])


def test_a_barrier_of_another_scope_is_refused():
    with pytest.raises(InterpreterError, match="barriers of scope subgroup are not supported"):
        launch(kernel("gpu.barrier scope <subgroup>"))


def test_atomic_updates_do_not_race_and_add_up():
    body = "%r = memref.atomic_rmw addf %one, %x[%c0] : (f32, memref<1024xf32>) -> f32"
    x = np.zeros(1024, np.float32)
    assert launch(kernel(body), x, grid=4).clean
    assert x[0] == 4 * 64
    mixed = launch(kernel(body + "\n memref.store %one, %x[%c0] : memref<1024xf32>"))
    assert mixed.kinds() == {Kind.RACE}


@pytest.mark.parametrize(("space", "where"), [("workgroup", SHARED), ("private", "#gpu.address_space<private>")])
def test_uninitialised_read(space: str, where: str):
    body = f"""memref.store %one, %s[%t] : memref<65xf32, {where}>
        gpu.barrier
        %n = arith.addi %t, %c1 : index
        %v = memref.load %s[{"%n" if space == "workgroup" else "%c1"}] : memref<65xf32, {where}>
        memref.store %v, %x[%t] : memref<1024xf32>"""
    report = launch(kernel(body, attributions=f"{space}(%s: memref<65xf32, {where}>)"))
    assert report.kinds() == {Kind.UNINITIALISED}
    assert report.faults[0].count == (1 if space == "workgroup" else 63)
    assert report.faults[0].thread == ((63, 0, 0) if space == "workgroup" else (0, 0, 0))


def test_stride_2_global_read_wastes_half_the_sectors():
    body = """%i = arith.muli %t, %c2 : index
        %v = memref.load %x[%i] : memref<1024xf32>
        memref.store %v, %y[%t] : memref<1024xf32>"""
    arrays = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    report = launch(kernel(body, "%x: memref<1024xf32>, %y: memref<1024xf32>"), *arrays)
    assert report.clean
    read, write = report.sites
    assert (read.sectors, read.ideal_sectors, read.coalescing) == (16, 8, 0.5)
    assert (write.sectors, write.ideal_sectors) == (8, 8)
    assert (read.widest, write.widest) == (4, 16)


def test_the_worst_warp_is_named_whichever_it_is():
    tile = f"memref<1024xf32, {SHARED}>"
    apart = """%lane = affine.apply affine_map<(d0) -> (d0 mod 32)>(%t)
        %w = arith.constant 32 : index
        %second = arith.cmpi uge, %t, %w : index
        %far = affine.apply affine_map<(d0) -> (d0 * 32)>(%lane)
        %i = arith.select %second, %far, %lane : index
        memref.store %one, %s[%i] : TILE""".replace("TILE", tile)
    (site,) = launch(kernel(apart, attributions=f"workgroup(%s: {tile})")).sites
    assert (site.ways, site.conflicts, site.worst_lanes, site.worst_bank) == (32, 31, tuple(range(32)), 0)


def test_without_checks_and_counts_only_values_remain():
    body = """%half = arith.shrui %t, %c1 : index
        memref.store %one, %x[%half] : memref<1024xf32>"""
    x = np.zeros(1024, np.float32)
    report = launch(kernel(body), x, checks=False, counts=False)
    assert (report.faults, report.sites, report.buffers) == ([], [], [])
    assert x.sum() == 32


def test_misaligned_16_byte_load():
    body = """%i = affine.apply affine_map<(d0) -> (d0 * 4 + {shift})>(%t)
        %v = vector.load %x[%i] : memref<1024xf32>, vector<4xf32>
        vector.store %v, %x[%i] : memref<1024xf32>, vector<4xf32>"""
    assert launch(kernel(body.format(shift=0))).clean
    report = launch(kernel(body.format(shift=2)))
    assert report.kinds() == {Kind.MISALIGNED}
    assert [fault.count for fault in report.faults] == [64, 64]
    assert "at byte 8, which is not a multiple of 16" in report.faults[0].message


def test_division_by_zero_is_a_fault_of_active_lanes_only():
    body = """%c = arith.cmpi ne, %t, %c0 : index
        scf.if %c {
          %q = arith.divui %c1, %t : index
          memref.store %one, %x[%q] : memref<1024xf32>
        }"""
    assert launch(kernel(body), threads := np.zeros(1024, np.float32)).kinds() == {Kind.RACE}
    assert threads[1] == 1.0
    assert Kind.UNDEFINED in launch(kernel("%q = arith.divui %c1, %t : index")).kinds()
