"""Windows on memory, warp communication, atomic updates and launches."""

# ruff: noqa: E501  (MLIR reads better unbroken)
import numpy as np
import pytest
from lane_texts import LANES, PROLOGUE, T, index_of

from lego_mlir import interp
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import Kind

WINDOWS = {
    "subview with a dynamic offset": (
        "%w = memref.subview %in[%c1, %mod4] [2, 4] [1, 2] : memref<8x16xindex> to memref<2x4xindex, strided<[16, 2], offset: ?>>\n"
        "%r = memref.load %w[%c1, %c2] : memref<2x4xindex, strided<[16, 2], offset: ?>>", lambda a: a[2, T % 4 + 4]),
    "rank-reducing subview": (
        "%w = memref.subview %in[%mod8, 0] [1, 16] [1, 1] : memref<8x16xindex> to memref<16xindex, strided<[1], offset: ?>>\n"
        "%r = memref.load %w[%c4] : memref<16xindex, strided<[1], offset: ?>>", lambda a: a[T % 8, 4]),
    "which unit axis a subview drops shows in its strides": (
        "%e = memref.expand_shape %in [[0, 1], [2]] output_shape [2, 4, 16] : memref<8x16xindex> into memref<2x4x16xindex>\n"
        "%w = memref.subview %e[1, 2, 0] [1, 1, 16] [1, 1, 1] : memref<2x4x16xindex> to memref<1x16xindex, strided<[16, 1], offset: 96>>\n"
        "%base, %o, %s:2, %st:2 = memref.extract_strided_metadata %w : memref<1x16xindex, strided<[16, 1], offset: 96>> -> memref<index>, index, index, index, index, index\n"
        "%r = arith.addi %st#0, %t : index", lambda a: T + 16),
    "reinterpret_cast": (
        "%w = memref.reinterpret_cast %in to offset: [%mod4], sizes: [4, 8], strides: [8, 1] : memref<8x16xindex> to memref<4x8xindex, strided<[8, 1], offset: ?>>\n"
        "%r = memref.load %w[%c2, %c1] : memref<4x8xindex, strided<[8, 1], offset: ?>>", lambda a: a.reshape(-1)[T % 4 + 17]),
    "cast, dim": (
        "%w = memref.cast %in : memref<8x16xindex> to memref<?x?xindex>\n%n = memref.dim %w, %c1 : memref<?x?xindex>\n%v = memref.load %w[%mod8, %mod4] : memref<?x?xindex>\n%r = arith.addi %v, %n : index",
        lambda a: a[T % 8, T % 4] + 16),
    "collapse and expand": (
        "%w = memref.collapse_shape %in [[0, 1]] : memref<8x16xindex> into memref<128xindex>\n%e = memref.expand_shape %w [[0, 1, 2]] output_shape [4, 4, 8] : memref<128xindex> into memref<4x4x8xindex>\n"
        "%r = memref.load %e[%mod4, %c2, %mod8] : memref<4x4x8xindex>", lambda a: a.reshape(4, 4, 8)[T % 4, 2, T % 8]),
    "transpose": (
        "%w = memref.transpose %in (i, j) -> (j, i) : memref<8x16xindex> to memref<16x8xindex, strided<[1, 16]>>\n%r = memref.load %w[%mod8, %mod4] : memref<16x8xindex, strided<[1, 16]>>",
        lambda a: a[T % 4, T % 8]),
    "strided metadata": (
        "%w = memref.subview %in[1, 2] [4, 4] [1, 1] : memref<8x16xindex> to memref<4x4xindex, strided<[16, 1], offset: 18>>\n"
        "%base, %o, %s:2, %st:2 = memref.extract_strided_metadata %w : memref<4x4xindex, strided<[16, 1], offset: 18>> -> memref<index>, index, index, index, index, index\n"
        "%x = arith.addi %o, %s#0 : index\n%r = arith.addi %x, %st#0 : index", lambda a: 0 * T + 18 + 4 + 16),
    "affine.load": (
        "%r = affine.load %in[symbol(%mod4) * 2, symbol(%mod8) + 1] : memref<8x16xindex>", lambda a: a[T % 4 * 2, T % 8 + 1]),
    "a window chosen by lane": (
        "%x = memref.subview %in[0, 0] [4, 16] [1, 1] : memref<8x16xindex> to memref<4x16xindex, strided<[16, 1], offset: ?>>\n"
        "%y = memref.subview %in[4, 0] [4, 16] [1, 1] : memref<8x16xindex> to memref<4x16xindex, strided<[16, 1], offset: ?>>\n"
        "%w = arith.select %is_odd, %x, %y : memref<4x16xindex, strided<[16, 1], offset: ?>>\n%r = memref.load %w[%c1, %c2] : memref<4x16xindex, strided<[16, 1], offset: ?>>",
        lambda a: np.where(T % 2, a[1, 2], a[5, 2])),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_on_memory(name: str):
    body, expected = WINDOWS[name]
    if name == "a window chosen by lane":
        body = body.replace("[0, 0] [4, 16]", "[%c0, 0] [4, 16]").replace("[4, 0] [4, 16]", "[%c4, 0] [4, 16]")
    if name == "affine.load":
        body = body.replace("symbol(%mod4)", "%q").replace("symbol(%mod8)", "%p")
        body = body.replace("%q", "%mod4").replace("%p", "%mod8")
    source = np.random.default_rng(2).integers(0, 1000, (8, 16))
    text = f"""gpu.module @m {{ gpu.func @k(%in: memref<8x16xindex>, %out: memref<{LANES}xindex>) kernel {{
        {PROLOGUE}
        {body}
        memref.store %r, %out[%t] : memref<{LANES}xindex>
        gpu.return }} }}"""
    out = np.zeros(LANES, np.int64)
    report = interp.launch(text, grid=1, block=LANES, args=[source, out])
    assert report.clean, report.faults
    assert np.array_equal(out, expected(source))


def test_two_buffers_in_turns():
    """A choice between buffers that all lanes make alike, and a loop that hands two of them back and forth."""
    shared = f"memref<{LANES}xi32, #gpu.address_space<workgroup>>"
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<{LANES}xi32>) workgroup(%p: {shared}, %q: {shared}) kernel {{
        {PROLOGUE}
        %one = arith.constant 1 : i32
        %i = arith.index_cast %t : index to i32
        memref.store %i, %p[%t] : {shared}
        gpu.barrier
        %r:2 = scf.for %k = %c0 to %c4 step %c1 iter_args(%from = %p, %to = %q) -> ({shared}, {shared}) {{
          %n = affine.apply affine_map<(d0) -> ((d0 + 1) mod {LANES})>(%t)
          %v = memref.load %from[%n] : {shared}
          memref.store %v, %to[%t] : {shared}
          gpu.barrier
          scf.yield %to, %from : {shared}, {shared}
        }}
        %even = arith.cmpi eq, %c4, %c4 : index
        %chosen = arith.select %even, %r#0, %r#1 : {shared}
        %w = memref.load %chosen[%t] : {shared}
        memref.store %w, %out[%t] : memref<{LANES}xi32>
        gpu.return }} }}"""
    out = np.zeros(LANES, np.int32)
    report = interp.launch(text, grid=1, block=LANES, args=[out])
    assert report.clean, report.faults
    assert np.array_equal(out, (T + 4) % LANES)


def test_lanes_that_choose_different_buffers_are_refused():
    shared = f"memref<{LANES}xi32, #gpu.address_space<workgroup>>"
    text = f"""gpu.module @m {{ gpu.func @k() workgroup(%p: {shared}, %q: {shared}) kernel {{
        {PROLOGUE}
        %chosen = arith.select %is_odd, %p, %q : {shared}
        gpu.return }} }}"""
    with pytest.raises(InterpreterError, match="two buffers, shared0 and shared1"):
        interp.launch(text, grid=1, block=LANES)


def test_local_memory_is_each_threads_own():
    body = """%p = memref.alloca() : memref<8xindex, #gpu.address_space<private>>
        memref.store %t, %p[%mod8] : memref<8xindex, #gpu.address_space<private>>
        %r = memref.load %p[%mod8] : memref<8xindex, #gpu.address_space<private>>"""
    assert np.array_equal(index_of(body, grid=2), np.stack([T, T]))


def test_dynamic_shared_memory_seen_as_two_types():
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<{LANES}xf32>) kernel {{
        {PROLOGUE}
        %c128 = arith.constant 128 : index
        %raw = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
        %h = memref.view %raw[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<{LANES}xf16, #gpu.address_space<workgroup>>
        %f = memref.view %raw[%c128][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<{LANES}xf32, #gpu.address_space<workgroup>>
        %i = arith.index_cast %t : index to i32
        %x = arith.sitofp %i : i32 to f32
        %y = arith.truncf %x : f32 to f16
        memref.store %y, %h[%t] : memref<{LANES}xf16, #gpu.address_space<workgroup>>
        memref.store %x, %f[%t] : memref<{LANES}xf32, #gpu.address_space<workgroup>>
        gpu.barrier
        %n = affine.apply affine_map<(d0) -> ({LANES - 1} - d0)>(%t)
        %a = memref.load %h[%n] : memref<{LANES}xf16, #gpu.address_space<workgroup>>
        %w = arith.extf %a : f16 to f32
        %v = memref.load %f[%n] : memref<{LANES}xf32, #gpu.address_space<workgroup>>
        %s = arith.addf %w, %v : f32
        memref.store %s, %out[%t] : memref<{LANES}xf32>
        gpu.return }} }}"""
    out = np.zeros(LANES, np.float32)
    assert interp.launch(text, grid=1, block=LANES, args=[out]).clean
    assert np.array_equal(out, 2.0 * (LANES - 1 - T))
    with pytest.raises(InterpreterError, match="views 384 bytes of dynamic shared memory, the launch gives 64"):
        interp.launch(text, grid=1, block=LANES, args=[out], dynamic_shared=64)


def test_an_offset_counts_from_the_base_that_a_view_makes():
    """A view has offset 0, wherever it begins; what is cast or taken apart from there on counts from there."""
    shared = "#gpu.address_space<workgroup>"
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<{LANES}xi32>, %offsets: memref<2xindex>) kernel {{
        {PROLOGUE}
        %c256 = arith.constant 256 : index
        %raw = gpu.dynamic_shared_memory : memref<?xi8, {shared}>
        %low = memref.view %raw[%c0][] : memref<?xi8, {shared}> to memref<64xi32, {shared}>
        %high = memref.view %raw[%c256][] : memref<?xi8, {shared}> to memref<64xi32, {shared}>
        %i = arith.index_cast %t : index to i32
        %zero = arith.constant 0 : i32
        memref.store %zero, %low[%t] : memref<64xi32, {shared}>
        memref.store %i, %high[%t] : memref<64xi32, {shared}>
        gpu.barrier
        %sub = memref.subview %high[8] [32] [1] : memref<64xi32, {shared}> to memref<32xi32, strided<[1], offset: 8>, {shared}>
        %base, %at, %size, %stride = memref.extract_strided_metadata %sub : memref<32xi32, strided<[1], offset: 8>, {shared}>
            -> memref<i32, {shared}>, index, index, index
        %again = memref.reinterpret_cast %base to offset: [%at], sizes: [32], strides: [1]
            : memref<i32, {shared}> to memref<32xi32, strided<[1], offset: ?>, {shared}>
        %n = affine.apply affine_map<(d0) -> (d0 mod 32)>(%t)
        %v = memref.load %again[%n] : memref<32xi32, strided<[1], offset: ?>, {shared}>
        memref.store %v, %out[%t] : memref<{LANES}xi32>
        %first = arith.cmpi eq, %t, %c0 : index
        scf.if %first {{ memref.store %at, %offsets[%c0] : memref<2xindex> }}
        gpu.return }} }}"""
    out, offsets = np.zeros(LANES, np.int32), np.zeros(2, np.int64)
    report = interp.launch(text, grid=1, block=LANES, args=[out, offsets])
    assert report.clean, report.faults
    assert np.array_equal(out, 8 + T % 32)
    assert offsets[0] == 8


def test_shared_and_constant_globals():
    text = f"""gpu.module @m {{
      memref.global "private" constant @table : memref<4xindex> = dense<[5, 6, 7, 9]>
      memref.global "private" @tile : memref<{LANES}xindex, #gpu.address_space<workgroup>>
      gpu.func @k(%out: memref<2x{LANES}xindex>) kernel {{
        {PROLOGUE}
        %table = memref.get_global @table : memref<4xindex>
        %tile = memref.get_global @tile : memref<{LANES}xindex, #gpu.address_space<workgroup>>
        %v = memref.load %table[%mod4] : memref<4xindex>
        memref.store %v, %tile[%t] : memref<{LANES}xindex, #gpu.address_space<workgroup>>
        gpu.barrier
        %n = affine.apply affine_map<(d0) -> ({LANES - 1} - d0)>(%t)
        %r = memref.load %tile[%n] : memref<{LANES}xindex, #gpu.address_space<workgroup>>
        memref.store %r, %out[%b, %t] : memref<2x{LANES}xindex>
        gpu.return }} }}"""
    out = np.zeros((2, LANES), np.int64)
    report = interp.launch(text, grid=2, block=LANES, args=[out])
    assert report.clean, report.faults
    assert np.array_equal(out[1], np.array([5, 6, 7, 9])[(LANES - 1 - T) % 4])


SHUFFLES = {
    "xor": ("%o = arith.constant 5 : i32", (T // 32 * 32) + (T % 32 ^ 5)),
    "down": ("%o = arith.constant 3 : i32", np.where(T % 32 + 3 < 32, T + 3, T)),
    "up": ("%o = arith.constant 3 : i32", np.where(T % 32 >= 3, T - 3, T)),
    "idx": ("%o = arith.constant 7 : i32", T // 32 * 32 + 7),
}


@pytest.mark.parametrize("mode", SHUFFLES)
def test_shuffle(mode: str):
    offset, expected = SHUFFLES[mode]
    body = f"""{offset}
        %w = arith.constant 32 : i32
        %x = arith.index_cast %t : index to i32
        %y, %valid = gpu.shuffle {mode} %x, %o, %w : i32
        %r = arith.index_cast %y : i32 to index"""
    assert np.array_equal(index_of(body), expected)


def test_rotate():
    body = """%x = arith.index_cast %t : index to i32
        %y, %valid = gpu.rotate %x, 3, 16 : i32
        %r = arith.index_cast %y : i32 to index"""
    assert np.array_equal(index_of(body), T // 16 * 16 + (T + 3) % 16)


def test_atomic_updates_give_each_lane_what_came_before():
    text = f"""gpu.module @m {{ gpu.func @k(%count: memref<4xi32>, %out: memref<2x{LANES}xi32>) kernel {{
        {PROLOGUE}
        %one = arith.constant 1 : i32
        %old = memref.atomic_rmw addi %one, %count[%mod4] : (i32, memref<4xi32>) -> i32
        memref.store %old, %out[%b, %t] : memref<2x{LANES}xi32>
        gpu.return }} }}"""
    count, out = np.zeros(4, np.int32), np.zeros((2, LANES), np.int32)
    assert interp.launch(text, grid=2, block=LANES, args=[count, out]).clean
    assert count.tolist() == [2 * LANES // 4] * 4
    for k in range(4):
        assert sorted(out[:, k::4].reshape(-1).tolist()) == list(range(2 * LANES // 4))


@pytest.mark.parametrize(("kind", "type_", "expected"), [("maxs", "i32", 63), ("maxu", "i32", -1), ("mins", "i32", -1)])
def test_kinds_of_atomic_updates(kind: str, type_: str, expected: int):
    text = f"""gpu.module @m {{ gpu.func @k(%x: memref<1x{type_}>) kernel {{
        {PROLOGUE}
        %i = arith.index_cast %t : index to {type_}
        %minus = arith.constant -1 : {type_}
        %v = arith.select %is_odd, %i, %minus : {type_}
        %old = memref.atomic_rmw {kind} %v, %x[%c0] : ({type_}, memref<1x{type_}>) -> {type_}
        gpu.return }} }}"""
    x = np.zeros(1, np.int32)
    assert interp.launch(text, grid=1, block=LANES, args=[x]).clean
    assert x[0] == expected


def test_an_atomic_update_of_any_kind():
    text = f"""gpu.module @m {{ gpu.func @k(%x: memref<4xf32>) kernel {{
        {PROLOGUE}
        %r = memref.generic_atomic_rmw %x[%mod4] : memref<4xf32> {{
        ^bb0(%old: f32):
          %two = arith.addf %f1, %f1 : f32
          %new = arith.addf %old, %two : f32
          memref.atomic_yield %new : f32
        }}
        gpu.return }} }}"""
    x = np.zeros(4, np.float32)
    assert interp.launch(text, grid=3, block=LANES, args=[x]).clean
    assert x.tolist() == [2.0 * 3 * LANES // 4] * 4


def test_copy_between_windows():
    text = f"""gpu.module @m {{ gpu.func @k(%x: memref<8x16xf32>, %y: memref<4x4xf32>) kernel {{
        {PROLOGUE}
        %w = memref.subview %x[2, 4] [4, 4] [1, 2] : memref<8x16xf32> to memref<4x4xf32, strided<[16, 2], offset: 36>>
        memref.copy %w, %y : memref<4x4xf32, strided<[16, 2], offset: 36>> to memref<4x4xf32>
        gpu.return }} }}"""
    x, y = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32), np.zeros((4, 4), np.float32)
    assert interp.launch(text, grid=1, block=1, args=[x, y]).clean
    assert np.array_equal(y, x[2:6, 4:12:2])


def test_shuffle_from_a_lane_that_is_not_there():
    text = f"""gpu.module @m {{ gpu.func @k() kernel {{
        {PROLOGUE}
        %o = arith.constant 1 : i32
        %w = arith.constant 32 : i32
        scf.if %is_odd {{ %y, %valid = gpu.shuffle xor %o, %o, %w : i32 }}
        gpu.return }} }}"""
    report = interp.launch(text, grid=1, block=LANES)
    assert report.kinds() == {Kind.SHUFFLE}
    assert report.faults[0].count == 32


def test_reductions_over_warps_clusters_and_blocks():
    cast = "%x = arith.index_cast %t : index to i32\n"
    warp = index_of(cast + "%y = gpu.subgroup_reduce add %x : (i32) -> i32\n%r = arith.index_cast %y : i32 to index")
    assert np.array_equal(warp, np.repeat(T.reshape(2, 32).sum(axis=1), 32))
    cluster = index_of(
        cast
        + "%y = gpu.subgroup_reduce maxsi %x cluster(size = 4, stride = 2) : (i32) -> i32\n%r = arith.index_cast %y : i32 to index"
    )
    expected = np.repeat(T.reshape(8, 4, 2).max(axis=1)[:, None], 4, axis=1).reshape(-1)
    assert np.array_equal(cluster, expected)
    block = index_of(
        cast + "%y = gpu.all_reduce add %x uniform {} : (i32) -> i32\n%r = arith.index_cast %y : i32 to index"
    )
    assert np.array_equal(block, np.full(LANES, T.sum()))


def test_ids_of_three_axes():
    text = """gpu.module @m { gpu.func @k(%out: memref<2x3x4x2x4x8xindex>) kernel {
        %tx = gpu.thread_id x
        %ty = gpu.thread_id y
        %tz = gpu.thread_id z
        %bx = gpu.block_id x
        %by = gpu.block_id y
        %bz = gpu.block_id z
        %gx = gpu.global_id x
        %dx = gpu.block_dim x
        %lane = gpu.lane_id
        %warp = gpu.subgroup_id : index
        %s = affine.apply affine_map<(d0, d1, d2, d3) -> (d0 * 1000000 + d1 * 10000 + d2 * 100 + d3)>(%gx, %dx, %lane, %warp)
        memref.store %s, %out[%bz, %by, %bx, %tz, %ty, %tx] : memref<2x3x4x2x4x8xindex>
        gpu.return } }"""
    out = np.zeros((2, 3, 4, 2, 4, 8), np.int64)
    assert interp.launch(text, grid=(4, 3, 2), block=(8, 4, 2), args=[out]).clean
    tz, ty, tx = np.indices((2, 4, 8))
    linear = tx + 8 * ty + 32 * tz
    bx = np.arange(4).reshape(1, 1, 4, 1, 1, 1)
    assert np.array_equal(
        out, np.broadcast_to((bx * 8 + tx) * 1000000 + 80000 + linear % 32 * 100 + linear // 32, out.shape)
    )


def test_host_function_launches_a_kernel():
    text = """module attributes {gpu.container_module} {
      gpu.module @m { gpu.func @k(%out: memref<64xf32>, %v: f32) kernel {
        %t = gpu.thread_id x
        %b = gpu.block_id x
        %i = affine.apply affine_map<(d0, d1) -> (d1 * 32 + d0)>(%t, %b)
        memref.store %v, %out[%i] : memref<64xf32>
        gpu.return } }
      func.func @main(%out: memref<64xf32>) {
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c32 = arith.constant 32 : index
        %v = arith.constant 3.0 : f32
        gpu.launch_func @m::@k blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%out : memref<64xf32>, %v : f32)
        return } }"""
    out = np.zeros(64, np.float32)
    report = interp.launch(text, "main", args=[out])
    assert report.clean
    assert report.blocks_run == 2
    assert (out == 3).all()


def test_a_launch_written_in_place():
    text = """func.func @main(%out: memref<64xf32>) {
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c32 = arith.constant 32 : index
        %v = arith.constant 3.0 : f32
        gpu.launch blocks(%bx, %by, %bz) in (%gx = %c2, %gy = %c1, %gz = %c1) threads(%tx, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {
          %i = affine.apply affine_map<(d0, d1) -> (d1 * 32 + d0)>(%tx, %bx)
          memref.store %v, %out[%i] : memref<64xf32>
          gpu.terminator
        }
        return }"""
    out = np.zeros(64, np.float32)
    assert interp.launch(text, args=[out]).clean
    assert (out == 3).all()


def test_dynamic_sizes_come_from_the_array():
    text = """gpu.module @m { gpu.func @k(%x: memref<?xf32>, %n: index) kernel {
        %t = gpu.thread_id x
        %in = arith.cmpi ult, %t, %n : index
        scf.if %in {
          %v = memref.load %x[%t] : memref<?xf32>
          %w = arith.addf %v, %v : f32
          memref.store %w, %x[%t] : memref<?xf32>
        }
        gpu.return } }"""
    x = np.arange(40, dtype=np.float32)
    assert interp.launch(text, grid=1, block=64, args=[x, 40]).clean
    assert np.array_equal(x, 2 * np.arange(40))
    assert interp.launch(text, grid=1, block=64, args=[x, 41]).kinds() == {Kind.OUT_OF_BOUNDS}


def test_a_sample_of_blocks_and_a_memory_limit():
    text = f"""gpu.module @m {{ gpu.func @k(%out: memref<100x{LANES}xf32>) kernel {{
        {PROLOGUE}
        memref.store %f1, %out[%b, %t] : memref<100x{LANES}xf32>
        gpu.return }} }}"""
    out, seen = np.zeros((100, LANES), np.float32), []
    report = interp.launch(
        text, grid=100, block=LANES, args=[out], blocks=5, progress=lambda done, of: seen.append((done, of))
    )
    assert report.blocks_run == 5
    assert np.flatnonzero(out.all(axis=1)).tolist() == [0, 25, 50, 74, 99]
    assert seen[-1] == (5, 5)
    interp.launch(
        text, grid=100, block=LANES, args=[out], memory_limit=1, progress=lambda done, of: seen.append((done, of))
    )
    assert seen[-3:] == [(98, 100), (99, 100), (100, 100)]
    assert report.writer(0, 25 * LANES + 3) is not None
    assert report.writer(0, 25 * LANES + 3).block == (25, 0, 0)
    assert report.writer(0, 25 * LANES + 3).thread == (3, 0, 0)
    assert report.writer(0, LANES) is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([np.zeros(3, np.float32)], "takes 2 arguments, got 1"),
        ([np.zeros(4), 1], "pass a C-contiguous array of float32, got float64"),
        ([np.zeros(8, np.float32)[::2], 1], "C-contiguous"),
        ([np.zeros(5, np.float32), 1], r"memref<4xf32>; \(5,\) does not fit"),
        ([[1, 2, 3, 4], 1], "pass a NumPy array, not list"),
    ],
)
def test_arguments_that_do_not_fit(args: list, message: str):
    text = "gpu.module @m { gpu.func @k(%x: memref<4xf32>, %n: index) kernel { gpu.return } }"
    with pytest.raises(InterpreterError, match=message):
        interp.launch(text, grid=1, block=1, args=args)


def test_messages_about_the_launch_itself():
    text = "gpu.module @m { gpu.func @k() kernel { gpu.return } gpu.func @l() kernel { gpu.return } }"
    for options, message in (
        ({}, r"2 kernels \(k, l\); name the one to run"),
        ({"kernel_name": "x"}, "defines no @x; it has: m, k, l"),
        ({"kernel_name": "k"}, "does not fix its grid size"),
        ({"kernel_name": "k", "grid": 1, "block": 2048}, "at most 1024 threads"),
        ({"kernel_name": "k", "grid": 0, "block": 1}, "grid must be 1 to 3 positive sizes"),
        ({"kernel_name": "k", "grid": 4, "block": 1, "blocks": [4]}, r"ids within 0\.\.3"),
        ({"kernel_name": "k", "grid": 4, "block": 1, "blocks": 0}, "at least 1 block"),
    ):
        with pytest.raises(InterpreterError, match=message):
            interp.launch(text, **options)
    with pytest.raises(InterpreterError, match="not a valid MLIR module"):
        interp.launch("gpu.module {")
    known = text.replace("@k() kernel", "@k() kernel attributes {known_block_size = array<i32: 32, 1, 1>}")
    with pytest.raises(InterpreterError, match=r"@k is compiled for the block \(32, 1, 1\), not \(64, 1, 1\)"):
        interp.launch(known, "k", grid=1, block=64)


def test_partly_overlapping_arguments_are_refused_and_equal_ones_shared():
    text = """gpu.module @m { gpu.func @k(%x: memref<32xf32>, %y: memref<32xf32>) kernel {
        %t = gpu.thread_id x
        %n = affine.apply affine_map<(d0) -> (31 - d0)>(%t)
        %v = memref.load %x[%t] : memref<32xf32>
        memref.store %v, %y[%n] : memref<32xf32>
        gpu.return } }"""
    whole = np.zeros(48, np.float32)
    with pytest.raises(InterpreterError, match="overlaps argument 0 in part"):
        interp.launch(text, grid=1, block=32, args=[whole[:32], whole[16:]])
    assert interp.launch(text, grid=1, block=32, args=[whole[:32], whole[:32]]).kinds() == {Kind.RACE}
