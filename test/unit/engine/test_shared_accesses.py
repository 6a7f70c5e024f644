"""Counts of accesses to shared tiles, by enumeration of the banks that the lanes of a warp touch."""

import random

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery
from lego_mlir.engine.tile_graph import LoadTile
from lego_mlir.engine.tile_memory import TileMemory
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.queries import canonical


def offsets_of(table):
    """The offset of each bit of an element of a table of offsets, axis by axis."""
    rows = [int(table[1 << k, 0]) for k in range(table.shape[0].bit_length() - 1)]
    return (*rows, *(int(table[0, 1 << k]) for k in range(table.shape[1].bit_length() - 1)))


def enumerated(table, layout, bits, vector):
    """The wavefronts of the first access: in each phase of lanes the most words of one bank."""
    places = []
    for lane in range(32):
        row, column = layout.apply(register=0, lane=lane, warp=0).values()
        first = int(table[row, column]) * bits // 32
        places.append({first + k for k in range(max(1, vector * bits // 32))})
    phases = max(1, vector * bits // 32)
    total = 0
    for phase in range(phases):
        words = set().union(*places[phase * 32 // phases : (phase + 1) * 32 // phases])
        total += max(np.bincount([word % 32 for word in words]))
    return total


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_wavefronts_are_those_of_the_banks(bits):
    draw = random.Random(bits)
    for _ in range(60):
        shape = draw.choice([(32, 64), (64, 64), (16, 128)])
        swizzle = draw.choice([Row(*shape), gallery.xor_swizzle(*shape, draw.choice([8, 16, 32]))])
        table = np.asarray(swizzle.apply(*np.indices(shape)))
        units = [(1 << k, 0) for k in range(shape[0].bit_length() - 1)]
        units += [(0, 1 << k) for k in range(shape[1].bit_length() - 1)]
        vector = draw.choice([1, 2, 4])
        low = [(0, 1 << k) for k in range(vector.bit_length() - 1)]
        rest = [unit for unit in units if unit not in low]
        draw.shuffle(rest)
        bases = {"register": [*low, *rest[7:]], "lane": rest[:5], "warp": rest[5:7]}
        layout = canonical(LinearLayout(bases, {"dim0": shape[0], "dim1": shape[1]}))
        memory = TileMemory(shape, bits, (0, 0), 16, "workgroup", (), offsets_of(table))
        found = memory.accesses(layout, stored=False)
        assert found.vector >= vector or vector * bits > 128
        if found.vector * bits <= 128:
            assert memory.wavefronts(layout, found.vector) == enumerated(table, layout, bits, found.vector)


def test_the_order_of_a_swizzled_tile_is_that_of_its_offsets():
    table = np.asarray(gallery.xor_swizzle(8, 64, 16).apply(*np.indices((8, 64))))
    memory = TileMemory((8, 64), 16, (0, 0), 16, "workgroup", (), offsets_of(table))
    places = [int(table[unit]) for unit in memory.order]
    assert places == sorted(places) and memory.order[0] == (0, 1)


def test_rows_at_unknown_places_count_the_least_wavefronts():
    memory = TileMemory((64, 64), 32, (0, 1), 16, "workgroup")
    rows = canonical(f2.Blocked((1, 4), (2, 16), (4, 1), (1, 0)).layout((64, 64)))
    assert memory.wavefronts(rows, 4) == 4  # 512 bytes
    shared_by_lanes = canonical(f2.Blocked((1, 1), (1, 1), (4, 1), (1, 0)).layout((64, 64)))
    assert memory.wavefronts(shared_by_lanes, 1) == 1


def test_a_swizzled_tile_is_loaded_by_wide_vectors_without_a_pin():
    layout = gallery.xor_swizzle(64, 64, 32)

    @lego.kernel(grid=1, block=128)
    def doubled(x: lego.Tensor(f16, Row(64, 64)), y: lego.Tensor(f32, Row(64, 64))):
        tile = lego.shared(f16, layout, name="tile")
        lego.load(x, (64, 64)).store(tile)
        lego.barrier()
        (lego.load(tile, (64, 64)).to(f32) * 2).store(y)

    nodes = [n for n in doubled.layout_choice.values if isinstance(n.operation, LoadTile)]
    (shared,) = (n for n in nodes if n.operation.memory.space == "workgroup")
    memory, (state, _) = shared.operation.memory, doubled.layout_choice.values[shared].computed[0]
    table = np.asarray(layout.apply(*np.indices((64, 64))))
    assert memory.offsets == offsets_of(table)
    assert memory.accesses(state, stored=False).vector >= 4
    x, y = np.arange(64 * 64).astype(np.float16) % 64, np.zeros(64 * 64, np.float32)
    assert lego.interp.launch(doubled.mlir(), grid=1, block=128, args=[x, y]).clean
    np.testing.assert_array_equal(y, 2 * x.astype(np.float32))


@pytest.mark.parametrize("dims", [(200, 128), (96, 96), (100, 50), (64, 48), (33, 8)])
@pytest.mark.parametrize("part", [(64, 32), (96, 48), (33, 5)])
def test_parts_of_shared_tiles_of_any_size(dims, part):
    rows, columns = (min(n, d) for n, d in zip(part, dims, strict=True))

    @lego.kernel(grid=1, block=128)
    def copied(x: lego.Tensor(f32, Row(*dims)), y: lego.Tensor(f32, Row(rows, columns))):
        tile = lego.shared(f32, Row(*dims))
        for k in lego.range(lego.thread_id[0], dims[0] * dims[1], 128):
            tile[k // dims[1], k % dims[1]] = x[k // dims[1], k % dims[1]]
        lego.barrier()
        lego.load(tile, (rows, columns), at=(0, 0)).store(y)

    x = np.arange(dims[0] * dims[1], dtype=np.float32).reshape(dims)
    np.testing.assert_array_equal(copied(x, check=True), x[:rows, :columns])
