"""What warp roles, rings of barriers and tile copies refuse, with the remedy."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32
from lego_mlir.errors import LegoError


def message(function, block=96):
    with pytest.raises(LegoError) as error:
        lego.kernel(grid=(1,), block=block)(function).trace()
    return str(error.value)


def test_misplaced_roles_and_rings_are_refused():
    vector = lego.Tensor(f32, Row(96))

    def beyond(y: vector):
        with lego.warps(2, 4):
            y[0] = 1.0

    def nested(y: vector):
        with lego.warps(0, 2), lego.warps(0, 1):
            y[0] = 1.0

    def registers(y: vector):
        with lego.warps(0, 2, registers=40):
            y[0] = 1.0

    def odd_registers(y: vector):
        with lego.warps(0, 2, registers=41):
            y[0] = 1.0

    def groups(y: vector):
        with lego.warps(0, 3, groups=2):
            y[0] = 1.0

    def shared_register(y: vector):
        total = lego.register(f32, 0.0)
        with lego.warps(0, 1):
            total += 1.0
        y[0] = total

    def ring_in_role(y: vector):
        with lego.warps(0, 1):
            lego.barriers(2)
        y[0] = 1.0

    def arrivals(y: vector):
        lego.barriers(2, arrivals=64)
        y[0] = 1.0

    def partial(y: vector):
        with lego.warps(0, 1):
            y[0] = 1.0

    assert "0 <= first < end <= 3, the warps of a block of beyond; got 2, 4" in message(beyond)
    assert "divide the warps at the kernel's top level" in message(nested)
    assert "begin and end the role at multiples of 4" in message(registers)
    assert "registers must be a multiple of 8 from 24 to 240, got 41" in message(odd_registers)
    assert "groups divide the 3 warps of the role evenly" in message(groups)
    assert "define it in the role with lego.register(..)" in message(shared_register)
    assert "make the ring at the kernel's top level" in message(ring_in_role)
    assert "arrivals must be an int from 1 to 32, got 64" in message(arrivals)
    assert "must have a multiple of 32 threads" in message(partial, block=40)


def test_misplaced_tile_copies_are_refused():
    tensor = lego.Tensor(f16, Row(64, 64))

    def divergent(y: tensor):
        tile, full = lego.shared(f16, Row(64, 64)), lego.barriers(1)
        with lego.when(lego.lane_id < 1):
            lego.copy_async(y, tile, at=(0, 0), barrier=full[0])

    def ring(y: tensor):
        tile, full = lego.shared(f16, Row(64, 64)), lego.barriers(1)
        lego.copy_async(y, tile, at=(0, 0), barrier=full)

    def store(y: tensor):
        tile, full = lego.shared(f16, Row(64, 64)), lego.barriers(1)
        lego.copy_async(tile, y, at=(0, 0), barrier=full[0])

    def both_shared(y: tensor):
        tile, other = lego.shared(f16, Row(64, 64)), lego.shared(f16, Row(64, 64))
        lego.copy_async(tile, other)

    assert "lego.copy_async under the condition" in message(divergent)
    assert "completes on a use of a ring, barrier=full[k]" in message(ring)
    assert "to global memory completes on no barrier" in message(store)
    assert "copies between a tensor and a shared tile" in message(both_shared)


def test_only_tiles_of_f32_are_added():
    matrix = lego.Tensor(f16, Row(64, 64))

    def halves(y: matrix):
        lego.copy_async(lego.shared(f16, Row(64, 64)), y, add=True)

    def inwards(y: lego.Tensor(f32, Row(64, 64))):
        lego.copy_async(y, lego.shared(f32, Row(64, 64)), add=True)

    for function in (halves, inwards):
        assert "add=True) adds a shared tile of f32 to global memory" in message(function)
        assert "update each element by atomic_add" in message(function)


def test_a_tile_in_a_role_is_refused_with_the_remedy():
    def tile(y: lego.Tensor(f32, Row(96))):
        with lego.warps(0, 1):
            y[0] = lego.shared(f32, Row(1))[0]

    assert "lego.shared inside a role: allocate the tile before it, since every thread shares it" in message(tile)
