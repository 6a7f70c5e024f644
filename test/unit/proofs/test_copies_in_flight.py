"""Copies in flight: the pairs of each buffer, and no more of them than a claim needs."""

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery
from lego_mlir.expr.verdict import Unknown
from lego_mlir.proofs.copies_in_flight import Flights
from lego_mlir.proofs.images import named_trace
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.races import PairsInside, race_claims


@lego.kernel(grid=1, block=32)
def nested(x: lego.Tensor(f32, Row(96, 32)), y: lego.Tensor(f32, Row(32))):
    tiles = {name: lego.shared(f32, Row(96, 32), name) for name in ("left", "right")}
    lane = lego.thread_id.x
    for _ in lego.range(2):
        for k in lego.range(3):
            for tile in tiles.values():
                lego.copy_async(x, tile.part((k * 32, 0), (32, 32)), at=(k * 32, 0))
            lego.commit_copies()
            y[lane] = tiles["left"][lane, 0]


def test_flights_are_those_of_one_buffer():
    model = KernelModel(nested.trace())
    found = {}
    for name in ("left", "right", "y"):
        flights = Flights(frozenset(), name)
        flights.collect(model.nodes)
        found[name] = list(flights.pairs)
        assert all(pair.one.buffer.name == pair.other.buffer.name == name for pair in found[name])
    assert found["y"] == []
    assert {pair.other.kind for pair in found["left"]} == {"read", "write"}
    assert {pair.other.kind for pair in found["right"]} == {"write"}
    assert {pair.ahead for pair in found["left"] if pair.step is not None} >= {1, 2}


def test_a_race_beside_copies_is_reported_before_copies_are_followed(monkeypatch):
    model = KernelModel(nested.trace())
    monkeypatch.setattr(Flights, "collect", lambda *_: 1 / 0)
    claims = race_claims(model, PairsInside(model))
    assert isinstance(next(claims).verdict, Unknown)


@lego.kernel(grid=1, block=64)
def ringed(x: lego.Tensor(f16, Row(256, 64)), y: lego.Tensor(f16, Row(4, 64))):
    ring, full = lego.shared(f16, gallery.xor_swizzle(128, 64, 8), "ring"), lego.barriers(2)
    with lego.warps(0, 1):
        for _ in lego.range(2):
            for _ in lego.range(3):
                for k in lego.range(4):
                    lego.copy_async(x, ring.part((k % 2 * 64, 0), (64, 64)), at=(k * 64, 0), barrier=full[k])
                    full[k].arrive()
    with lego.warps(1, 2):
        for _ in lego.range(2):
            for _ in lego.range(3):
                for k in lego.range(4):
                    full[k].wait()
                    y[k, lego.lane_id] = ring[k % 2 * 64, lego.lane_id]


def test_copies_that_complete_on_a_ring_are_not_followed_round_by_round():
    """Their rounds in nested loops are thousands of flights, and none of them lands by a wait of its group."""
    flights = Flights(frozenset(), "ring")
    flights.collect(KernelModel(ringed.trace()).nodes)
    assert {pair.other.kind for pair in flights.pairs} == {"read", "write"}
    assert len(flights.pairs) <= 4


@lego.kernel(grid=1, block=64)
def swizzled(x: lego.Tensor(f32, Row(96, 64)), y: lego.Tensor(f32, Row(96))):
    swizzle = lego.gallery.xor_swizzle(96, 64, 4)
    tile = lego.shared(f32, lego.OrderBy(swizzle).OrderBy(lego.RegP([3, 32, 64], [1, 2, 3])).GroupBy([96, 64]))
    for k in lego.range(3):
        lego.copy_async(x, tile.part((k % 3 * 32, 0), (32, 64)), at=(k * 32, 0))
    lego.commit_copies()
    lego.wait_copies()
    lego.barrier()
    row = lego.gallery.morton(8, 8).apply(lego.thread_id.x // 8, lego.thread_id.x % 8)
    y[row] = tile[row, 0]


def test_copies_have_the_same_width_with_names_for_the_maps_of_layouts():
    """The map of a tile in memory is a formula in both traces; that of the order of the rows has a name in one."""
    trace, maps = named_trace(swizzled)
    assert len(maps) == 1
    widths = [[access.width for _, access in one.accesses()] for one in (trace, swizzled.trace())]
    assert widths[0] == widths[1] and max(widths[0]) == 4
