"""Vector kernels of moves on the processor: each tile is the move, and the compiled ones write what NumPy does."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from made_up_fields import made_up
from made_up_moves import moves

from lego_mlir.errors import DependencyError
from lego_mlir.formats import FORMATS, compiled_moves, host_moves
from lego_mlir.formats.compiled_moves import planned
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.device_casts import in_packed_rows
from lego_mlir.formats.exchange_tiles import BYTE, MOST_BITS, DigitExchange, register_tile
from lego_mlir.formats.field_arrays import as_bytes, empty_buffers, read, write
from lego_mlir.formats.field_moves import Move
from lego_mlir.formats.host_kernels import kernel_text
from lego_mlir.formats.host_moves import execute


def offset(digits, number, side):
    return sum((number >> k & 1) * digit[side] for k, digit in enumerate(digits))


def stored_bits(tile):
    """Where each bit of a tile is stored: (bit of the target, bit of the source), one by one through its steps."""
    lanes = np.arange(tile.width)
    registers = []
    for number in range(1 << len(tile.numbers)):
        pieces = [offset(tile.pieces, piece, 1) for piece in range(1 << len(tile.pieces))]
        starts = np.repeat(pieces, tile.load_bits)
        registers.append(offset(tile.numbers, number, 1) + starts + lanes % tile.load_bits)
    for step in tile.steps:
        before = [r.copy() for r in registers]
        for number, lane in np.ndindex(len(registers), tile.width):
            if isinstance(step, DigitExchange):
                up, in_lane = number >> step.number & 1, lane >> step.position & 1
                other = number & ~(1 << step.number) | in_lane << step.number
                registers[number][lane] = before[other][lane & ~(1 << step.position) | up << step.position]
            else:
                moved = sum((lane >> BYTE + k & 1) << p for k, p in enumerate(step.order))
                registers[number][lane] = before[number][lane % 8 + moved]
    for number, register in enumerate(registers):
        for lane in lanes:
            piece, bit = divmod(int(lane), tile.store_bits)
            yield offset(tile.stored_numbers, number, 2) + offset(tile.stored_pieces, piece, 2) + bit, register[lane]


@given(moves())
@settings(max_examples=40, deadline=None)
def test_the_steps_of_a_tile_are_the_move(move):
    assume(move.bits >= 8)
    tile = register_tile(move)
    if tile is None:
        assert move.unit < 8 and any(n % 2 for n, _, _ in move.digits)
        return
    assert tile.width << len(tile.numbers) <= MOST_BITS
    expected = np.full(move.bits, -1)
    for values in np.ndindex(*(n for n, _, _ in move.digits)):
        there, here = (sum(v * d[k] for v, d in zip(values, move.digits, strict=True)) for k in (1, 2))
        expected[here : here + move.unit] = there + np.arange(move.unit)
    inside, found = list(stored_bits(tile)), np.full(move.bits, -1)
    for values in np.ndindex(*(n for n, _, _ in tile.outer)):
        there, here = (sum(v * d[k] for v, d in zip(values, tile.outer, strict=True)) for k in (1, 2))
        for target, source in inside:
            assert found[here + target] == -1
            found[here + target] = there + source
    assert np.array_equal(found, expected)


@pytest.fixture
def at_once(monkeypatch):
    """All moves compiled, whatever their size, and stored past the caches where their target is aligned."""
    for name in ("SPLIT_BYTES", "COMPILED_BYTES", "STREAMED_BYTES"):
        monkeypatch.setattr(host_moves, name, 0)


SIZES = {
    "gptq": {"rows": 64, "columns": 256}, "vllm.marlin": {"rows": 64, "columns": 128},
    "gguf.q6_k": {"rows": 32, "columns": 512}, "gguf.q5_0": {"rows": 3, "columns": 96}, "kv.mla": {"tokens": 24},
    "deepgemm.scales": {"rows": 130, "groups": 6}, "bitsandbytes.nf4": {"rows": 8, "columns": 64},
    "gptoss.gate_up": {"rows": 8, "columns": 64}, "conv1d.linear": {"rows": 24, "columns": 40},
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_compiled_moves_write_what_numpy_does(at_once, name):
    """There and back, from packed rows and from logical arrays; NumPy's own moves are compared with the engines'."""
    format_ = FORMATS[name](**SIZES[name])
    rows, fields = in_packed_rows(format_), made_up(format_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_moves, "SPLIT_BYTES", 2**60)
        packed, stored = write(rows, fields), write(format_, fields)
    before = compiled_moves.compiled.cache_info().currsize
    for source, target, given_, expected in ((rows, format_, packed, stored), (format_, rows, stored, packed)):
        found = Conversion(source, target).run(given_)
        assert all(found[buffer].tobytes() == array.tobytes() for buffer, array in expected.items())
    assert compiled_moves.compiled.cache_info().currsize > before
    assert all(array.tobytes() == stored[buffer].tobytes() for buffer, array in write(format_, fields).items())
    assert all(array.tobytes() == fields[field].tobytes() for field, array in read(format_, stored).items())


@pytest.mark.parametrize("skipped", [0, 3, 64])
def test_nothing_is_written_before_or_after_a_move(at_once, skipped):
    move = Move(((8, 32, 256), (8, 256, 32)), 32, (8 * skipped, 8 * skipped))
    x, y = np.arange(400, dtype=np.uint8), np.full(400, 255, np.uint8)
    execute(move, x, y)
    moved = x[skipped : skipped + 256].reshape(8, 8, 4).transpose(1, 0, 2).ravel()
    assert np.array_equal(y[skipped : skipped + 256], moved)
    assert (y[:skipped] == 255).all() and (y[skipped + 256 :] == 255).all()


def test_fields_of_records_are_one_kernel_put_together_in_a_block():
    plan = Conversion(in_packed_rows(format_ := FORMATS["gguf.q4_0"](rows=8, columns=1024)), format_)
    kernel = planned(tuple(move for _, _, move in plan.moves))
    assert len(kernel.moves) == 2 and kernel.count * kernel.staged == format_.bytes_of("data")
    text = kernel_text(kernel, streaming=True)
    assert text.count("nontemporal") == 1 and "memref.alloca" in text and "llvm.fence" in text
    apart = planned(tuple(move.inverse() for _, _, move in plan.moves), 1)
    assert apart.staged == 0 and len(apart.moves) == 2


def test_buffers_begin_at_a_line_so_that_whole_lines_are_stored():
    for array in empty_buffers(FORMATS["vllm.marlin"].example()).values():
        assert array.ctypes.data % compiled_moves.ALIGNED == 0 and not as_bytes(array).any()


def test_without_mlir_numpy_moves_all(monkeypatch, at_once):
    def lacking(text):
        raise DependencyError("no MLIR Python bindings found")

    format_ = FORMATS["conv1d.linear"](rows=28, columns=44)
    rows, values = in_packed_rows(format_), made_up(format_)
    monkeypatch.setattr(compiled_moves, "_library", lacking)
    found = Conversion(rows, format_).run(write(rows, values))["data"]
    assert np.array_equal(found.view(np.uint16), values["weight"].view(np.uint16).T)
