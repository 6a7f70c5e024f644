"""`lego.philox` against known words, in the interpreter, on a CPU and by its PTX; registers of several values."""

import numpy as np
import pytest
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f2, f32, i32, u32
from lego_mlir.errors import TraceError

KNOWN = {  # Random123's kat_vectors, philox4x32 10
    ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)): (
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ),
}


@pytest.mark.parametrize("run", [launch, launch_on_cpu, launch_emulated])
@pytest.mark.parametrize("given", KNOWN, ids=range(3))
def test_known_words(given, run):
    counter, key = given

    @lego.kernel(grid=1, block=32)
    def words(x: lego.Tensor(u32, Row(6)), y: lego.Tensor(u32, Row(32, 4))):
        for n, word in enumerate(lego.philox(*(x[k] for k in range(4)), key=(x[4], x[5]))):
            y[lego.thread_id[0], n] = word

    found = run(words, np.array([*counter, *key], np.uint32), np.zeros((32, 4), np.uint32))[1]
    np.testing.assert_array_equal(found, np.tile(np.array(KNOWN[given], np.uint32), (32, 1)))


@pytest.mark.parametrize("columns", [2048, 2046, 2045])  # of rows whose accesses take 4, 2 or 1 words
def test_a_tile_of_counters_gives_tiles_of_words(columns):
    @lego.kernel(grid=1, block=128)
    def words(y: lego.Tensor(u32, Row(2, columns))):
        a, b, c, d = lego.philox(lego.arange((512,)).to(u32), 7, key=(3, 0))
        a.join(c).join(b.join(d)).reshape(2048).store(y, at=(1, 0))

    @lego.kernel(grid=1, block=128)
    def one_by_one(y: lego.Tensor(u32, Row(512, 4))):
        for number in lego.range(lego.thread_id[0], 512, 128):
            for k, word in enumerate(lego.philox(number, 7, key=(3, 0))):
                y[number, k] = word

    found = words(np.zeros((2, columns), np.uint32), check=True)
    expected = one_by_one(np.zeros((512, 4), np.uint32), check=True)
    np.testing.assert_array_equal(found[1], expected.reshape(-1)[:columns])


def test_a_short_counter_is_filled_with_zeros_and_takes_indices():
    @lego.kernel(grid=1, block=32)
    def words(y: lego.Tensor(u32, Row(32))):
        t = lego.thread_id[0]
        y[t] = lego.philox(t, key=(7, 0))[0] ^ lego.philox(u32(t), 0, 0, 0, key=(u32(7), 0))[0]

    assert not launch(words, np.ones(32, np.uint32))[0].any()


@pytest.mark.parametrize(("counter", "key"), [((), (0, 0)), ((1,), (0,)), ((1,) * 5, (0, 0))])
def test_refusals(counter, key):
    @lego.kernel(grid=1, block=32)
    def words(y: lego.Tensor(u32, Row(32))):
        y[lego.thread_id[0]] = lego.philox(*counter, key=key)[0]

    with pytest.raises(TraceError, match="one to four words of a counter and a key of two"):
        words.trace()


def test_words_have_their_type():
    @lego.kernel(grid=1, block=32)
    def words(y: lego.Tensor(u32, Row(32))):
        y[lego.thread_id[0]] = lego.philox(i32(1))[0]

    with pytest.raises(TraceError, match="takes words of u32, got i32"):
        words.trace()


def test_a_register_of_several_values():
    """Fibonacci numbers: both are read before one is replaced; a tile beside a number."""
    layout = f2.Blocked((1,), (32,), (1,), order=(0,)).layout((32,))

    @lego.kernel(grid=1, block=32)
    def pairs(y: lego.Tensor(i32, Row(2)), z: lego.Tensor(f32, Row(32))):
        both, mixed = lego.register((i32(0), i32(1))), lego.register((f32(1), lego.zeros(f32, layout)))
        for _ in lego.range(10):
            a, b = both.get()
            both.set((b, a + b))
            number, tile = mixed.get()
            mixed.set((number * 2.0, tile + number))
        mixed.get()[1].store(z)
        with lego.when(lego.thread_id[0] == 0):
            y[0], y[1] = both.get()

    y, z = launch(pairs, np.zeros(2), np.zeros(32))
    assert y.tolist() == [55, 89]
    assert (z == 1023).all()


def test_as_many_values_are_set():
    @lego.kernel(grid=1, block=32)
    def pairs(y: lego.Tensor(i32, Row(32))):
        lego.register((i32(0), i32(1))).set((i32(0),))

    with pytest.raises(TraceError, match="a register of 2 values is set to"):
        pairs.trace()
