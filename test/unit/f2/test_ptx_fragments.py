"""Fragments by PTX's name: the formulas of the PTX ISA, the interpreter's `mma.sync` and `ldmatrix`, the messages."""

import re

import numpy as np
import pytest

from lego_mlir import f2
from lego_mlir.errors import LayoutError
from lego_mlir.f2.ptx_fragments import BITS, NAMES, fragment
from lego_mlir.interp.dialects import nvgpu

MMA = [name for name in NAMES if name.startswith("mma.m16")]


def places(layout):
    """(row, column) by (lane, register), of one warp."""
    registers = layout.in_sizes["register"]
    lane, register = np.meshgrid(np.arange(32), np.arange(registers), indexing="ij")
    rest = {name: np.zeros_like(lane) for name in layout.in_sizes if name not in ("lane", "register")}
    found = layout.apply(lane=lane, register=register, **rest)
    return np.stack([found["dim0"], found["dim1"]], axis=-1)


@pytest.mark.parametrize("name", MMA)
def test_mma_fragments_are_those_of_the_interpreter(name):
    m, k, kind, which = re.fullmatch(r"mma.m(\d+)n8k(\d+)[.](\w+) (.)", name).groups()
    rows, columns = {"A": (int(m), int(k)), "B": (int(k), 8)}.get(which, (int(m), 8))
    elements = 2 if which in "CD" else max(1, 32 // BITS[kind])
    found = places(fragment(name))
    expected = nvgpu.fragment(which.lower().replace("d", "c"), rows, columns, found.shape[1] // elements, elements)
    assert np.array_equal(found[..., 0] * columns + found[..., 1], expected)


def test_f64_of_eight_rows():
    """PTX ISA, "Matrix fragments for mma.m8n8k4 with .f64": one element of A and B, two of C."""
    lane = np.arange(32)
    a, b, c = (places(fragment(f"mma.m8n8k4.f64 {which}")) for which in "ABC")
    assert np.array_equal(a[:, 0], np.stack([lane // 4, lane % 4], -1)) and a.shape[1] == 1
    assert np.array_equal(b[:, 0], np.stack([lane % 4, lane // 4], -1)) and b.shape[1] == 1
    assert np.array_equal(c[:, 1], np.stack([lane // 4, lane % 4 * 2 + 1], -1)) and c.shape[1] == 2


@pytest.mark.parametrize(("n", "k", "kind"), [(8, 16, "f16"), (64, 8, "tf32"), (256, 32, "e4m3")])
def test_wgmma_follows_the_formulas_of_ptx(n, k, kind):
    """PTX ISA, "Register fragments for wgmma": warp w has rows 16 w .., registers as in mma.sync."""
    for warp, lane, register in np.ndindex(4, 32, n // 2):
        found = fragment(f"wgmma.m64n{n}k{k}.{kind} D").apply(register=register, lane=lane, warp=warp, block=0)
        row = 16 * warp + lane // 4 + 8 * (register % 4 // 2)
        assert (found["dim0"], found["dim1"]) == (row, 8 * (register // 4) + 2 * (lane % 4) + register % 2)
        if n == 256:
            break
    per = 32 // BITS[kind]
    for warp, lane, register in np.ndindex(4, 32, 4 * per):
        found = fragment(f"wgmma.m64n{n}k{k}.{kind} A").apply(register=register, lane=lane, warp=warp, block=0)
        word, e = divmod(register, per)
        row = 16 * warp + lane // 4 + 8 * (word % 2)
        assert (found["dim0"], found["dim1"]) == (row, 4 * per * (word // 2) + per * (lane % 4) + e)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_moved_as_the_interpreter_does(count, transposed):
    tiles = np.arange(count * 64).reshape(count, 8, 8)
    rows = tiles.swapaxes(-1, -2) if transposed else tiles
    expected = rows.reshape(count, 32, 2).swapaxes(0, 1).reshape(32, 2 * count)
    found = places(fragment(f"ldmatrix.x{count}{'.trans' if transposed else ''}"))
    assert np.array_equal(found[..., 0] * 8 + found[..., 1], expected)
    stored = fragment(f"stmatrix.x{count}{'.trans' if transposed else ''}")
    assert stored == fragment(f"ldmatrix.x{count}{'.trans' if transposed else ''}")


@pytest.mark.parametrize("name", NAMES)
def test_every_fragment_holds_every_element(name):
    layout = fragment(name)
    assert layout.is_surjective()
    if not name.startswith("wgmma"):
        assert layout.is_injective()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mma.m16n8k16.f16", "'mma.m16n8k16.f16' is not a fragment of an instruction; did you mean mma.m16n8k16.f16 "),
        ("mma.m16n8k64.f16 A", "not a fragment of an instruction"),
        ("wgmma.m64n24k16.f16 D", "not a fragment of an instruction"),
        ("wgmma.m64n64k16.f16 B", "wgmma reads B from shared memory; see f2.TensorCopyShared"),
        ("ldmatrix", "names are such as 'mma.m16n8k16.f16 A'"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(LayoutError, match=message):
        f2.fragment(name)
