"""Kernels of moves, in the interpreter, in PTX and on the processor, write what copies of NumPy do."""

import numpy as np
import pytest
from hypothesis import given, settings
from made_up_fields import made_up
from made_up_moves import moves
from ptx_runs import ptx_of

from lego_mlir import interp
from lego_mlir.errors import LayoutError
from lego_mlir.formats import FORMATS, device_moves
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.device_casts import in_packed_rows
from lego_mlir.formats.device_moves import kernels_of
from lego_mlir.formats.field_arrays import as_bytes, read, write
from lego_mlir.formats.field_moves import Move
from lego_mlir.formats.host_moves import execute
from lego_mlir.formats.move_kernels import build, plan_of
from lego_mlir.formats.move_tiles import MOST_TILE_BITS, conflicts, tile_of
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import stored
from lego_mlir.interp.ptx import emulate


def launches(source, target, seed=0):
    """The kernels of a conversion with their arguments, the buffers that they write, and what these must hold."""
    fields = made_up(target, seed)
    given_, expected = write(source, fields), write(target, fields)
    found = {name: np.zeros(target.bytes_of(name), np.uint8) for name in target.buffers}
    kernels = []
    for kernel, names in kernels_of(Conversion(source, target)):
        arrays = [as_bytes(given_[name]) if side == 0 else found[name] for side, name in names]
        kernels.append((kernel, [a.view(p.dtype.numpy) for a, p in zip(arrays, kernel.params, strict=True)]))
    return kernels, found, {name: as_bytes(array) for name, array in expected.items()}


def same(found, expected):
    return all(array.tobytes() == expected[name].tobytes() for name, array in found.items())


SMALL = {
    "vllm.marlin": {"rows": 64, "columns": 128}, "awq": {"rows": 16, "columns": 128},
    "gguf.q4_0": {"rows": 8, "columns": 64}, "gguf.q6_k": {"rows": 8, "columns": 256},
    "gguf.mxfp4": {"rows": 16, "columns": 32}, "kv.mla": {"tokens": 2},
    "aiter.16x16": {"rows": 32, "columns": 64}, "kv.paged_x": {"blocks": 1, "heads": 2, "tokens": 8, "depth": 16},
    "bitsandbytes.nf4": {"rows": 3, "columns": 8}, "deepgemm.scales": {"rows": 10, "groups": 3},
    "megatron.qkv": {"groups": 2, "heads": 2, "depth": 4, "inputs": 8},
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_the_kernels_are_clean_and_right_in_the_interpreter_there_and_back(name):
    format_ = FORMATS[name](**SMALL[name])
    for source, target in ((in_packed_rows(format_), format_), (format_, in_packed_rows(format_))):
        kernels, found, expected = launches(source, target)
        for kernel, arguments in kernels:
            assert interp.launch(kernel.mlir(), grid=kernel.grid, block=kernel.block, args=arguments).clean
        assert same(found, expected)


@pytest.mark.parametrize("name", ["vllm.marlin", "aiter.16x16", "gguf.q4_0"])
def test_the_kernel_is_right_in_ptx(name):
    format_ = FORMATS[name](**SMALL[name])
    ((kernel, arguments),), found, expected = launches(in_packed_rows(format_), format_)
    text, facts = ptx_of(kernel)
    report = emulate(
        text, kernel.name, args=arguments, grid=kernel.grid, block=kernel.block, names=[p.name for p in kernel.params],
        dynamic_shared=facts.dynamic_shared,
    )  # fmt: skip
    assert report.clean and same(found, expected)
    assert "ld.global.v4" in text and "st.global.v4" in text
    assert name == "gguf.q4_0" or len(kernels_of(Conversion(in_packed_rows(format_), format_))) == 1


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("vllm.marlin_int8", {"rows": 192, "columns": 64}),
        ("gguf.q8_0", {"rows": 40, "columns": 96}),
        ("conv1d.linear", {"rows": 136, "columns": 328}),
        ("awq", {"rows": 256, "columns": 256}),
    ],
)
def test_the_kernel_of_larger_sizes_is_right_on_the_processor(name, sizes):
    format_ = FORMATS[name](**sizes)
    kernels, found, expected = launches(in_packed_rows(format_), format_)
    for kernel, arguments in kernels:
        kernel(*arguments)
    assert same(found, expected)


@pytest.mark.examples(2)
@given(moves())
@settings(max_examples=25, deadline=None)
def test_a_tile_moves_each_unit_once(move):
    """The plan alone, executed by loops over its tiles, items, words and chunks, is the move."""
    size = -(-move.bits // 8)
    tile = tile_of(move)
    if tile is None or move.bits % 8 or tile.blocks * tile.bits != move.bits:
        assert plan_of([(0, 0, move)], (size,), (size,)) is None or move.unit >= 8
        return
    assert tile.bits <= MOST_TILE_BITS and conflicts(tile) >= 1
    source = np.random.default_rng(0).integers(0, 2, move.bits, dtype=np.uint8)
    found, expected = np.full(move.bits, 7, np.uint8), np.zeros(size, np.uint8)
    (part,) = tile.parts
    for number in np.ndindex(*(n for n, _ in tile.outer)):
        begin = sum(i * s for i, (_, s, _) in zip(number, part.outer, strict=True))
        stage = np.full(tile.bits, 7, np.uint8)
        for item in np.ndindex(*(n for n, _, _ in part.items)):
            there, here = (sum(i * d[k] for i, d in zip(item, part.items, strict=True)) for k in (1, 2))
            for place, words in zip(part.scatters, part.words, strict=True):
                width = min(32, part.width)
                for at, sources in enumerate(words):
                    for load, word, right, mask in sources:
                        for bit in range(width):
                            if mask >> bit & 1:
                                first = begin + there + part.loads[load] + word * min(32, part.chunk)
                                stage[here + place + at * width + bit] = source[first + bit + right]
        target = sum(i * t for i, (_, t) in zip(number, tile.outer, strict=True))
        for digits in np.ndindex(*(n for n, _, _ in tile.stored)):
            position, place = (sum(i * d[k] for i, d in zip(digits, tile.stored, strict=True)) for k in (1, 2))
            found[target + place : target + place + move.unit] = stage[position : position + move.unit]
    packed = np.packbits(source, bitorder="little")
    execute(move, packed, expected)
    assert np.array_equal(np.packbits(found, bitorder="little"), expected)


@pytest.mark.parametrize("order", ["r c", "c r"])
def test_elements_of_six_bits_are_moved_in_parts(order):
    field = stored("q", "e2m3", {"r": 8, "c": 16}, "r | c", order)
    packed = StorageFormat("six", [field], {"data": ("u8", (96,))})
    codes = np.random.default_rng(0).integers(0, 64, (8, 16)).astype(np.uint8)
    bits = np.unpackbits((codes if order == "r c" else codes.T).reshape(-1, 1), axis=1, bitorder="little")[:, :6]
    written = write(packed, {"q": codes})
    assert written["data"].tobytes() == np.packbits(bits, bitorder="little").tobytes()
    assert np.array_equal(read(packed, written)["q"], codes)
    for source, target in ((in_packed_rows(packed), packed), (packed, in_packed_rows(packed))):
        for kernel, arguments in (made := launches(source, target))[0]:
            kernel(*arguments)
        assert same(*made[1:])


def test_what_shares_bytes_is_a_kernel_of_its_own():
    even = Move(((4, 4, 8),), 4, (0, 4))
    with pytest.raises(LayoutError, match="kernels of their own"):
        build(((0, 0, even),), (2,), (4,))


@pytest.mark.parametrize("beside", [512, 2**20])
def test_kernels_convert_an_array_in_place_block_by_block(monkeypatch, beside):
    """Arrays of the processor take the same path; 6 blocks of 256 bytes, two at a time or all."""
    monkeypatch.setattr(device_moves, "BESIDE_BYTES", beside)
    x = np.arange(6 * 4 * 8 * 2, dtype=np.uint32)
    source, target = (
        StorageFormat(order, [stored("w", "f32", {"a": 6, "b": 4, "c": 8, "d": 2}, "a | b | c | d", order)],
                      {"data": ("f32", (384,))})
        for order in ("a b c d", "a c b d")
    )  # fmt: skip
    expected = x.reshape(6, 4, 8, 2).transpose(0, 2, 1, 3).ravel()
    device_moves.run_in_place_on_device(Conversion(source, target), x)
    assert np.array_equal(x, expected)


@pytest.mark.parametrize("name", ["bitsandbytes.nf4", "deepgemm.scales", "gguf.q4_0"])
def test_only_memory_that_kernels_do_not_fill_is_zeroed(monkeypatch, name):
    """Elements that are added to a byte and padding need zeros; the other memory holds ones before."""
    asked = []

    def memory(like, size, zeroed):
        asked.append(zeroed)
        return np.full(size, 0 if zeroed else 255, np.uint8)

    monkeypatch.setattr(device_moves, "_memory", memory)
    format_ = FORMATS[name](**SMALL[name])
    rows, fields = in_packed_rows(format_), made_up(format_)
    given_ = {buffer: as_bytes(array) for buffer, array in write(rows, fields).items()}
    found = device_moves.run_on_device(Conversion(rows, format_), given_)
    assert same(found, write(format_, fields)) and asked == [name != "gguf.q4_0"]
