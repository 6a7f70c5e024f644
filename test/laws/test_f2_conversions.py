"""Conversion plans move every element to its place, in the accesses and wavefronts that they promise.

Random pairs of blocked, mma, operand, sliced and general layouts, 8 to 64 bit, 1 to 8 warps, copies included.
`hardware.banks` counts wavefronts from addresses, independently of the closed form of `f2.banks`.
"""

import dataclasses
import random

import numpy as np
import pytest
from random_encodings import FAMILIES

from lego_mlir.errors import LayoutError
from lego_mlir.f2 import LinearLayout, conversion, encodings, matrix
from lego_mlir.f2.banks import words_of
from lego_mlir.f2.matrices import matrix_accesses
from lego_mlir.f2.shuffles import shuffle_plan
from lego_mlir.f2.swizzle import swizzle
from lego_mlir.hardware.banks import wavefronts as counted

SEEDS = range(6)
PLACES = ("register", "lane", "warp")


def without_blocks(encoding):
    """An encoding and its parents for one block."""
    if hasattr(encoding, "blocks"):
        return dataclasses.replace(encoding, blocks=())
    return dataclasses.replace(encoding, parent=without_blocks(encoding.parent))


def encoded(draw: random.Random, shape: list[int], warps: int) -> LinearLayout:
    """The layout of a random encoding of one tensor and block."""
    while True:
        family = draw.choice(["blocked", "mma_sync", "mma_operand", "sliced", "blocked_operand"])
        encoding = without_blocks(FAMILIES[family](draw)[0])
        if encoding.rank == len(shape):
            layout = encoding.layout(shape)
            if layout.in_sizes["warp"] == warps and layout.in_sizes["register"] <= 64:
                return layout.sublayout(PLACES, list(layout.out_sizes))


def general(draw: random.Random, shape: list[int], warps: int) -> LinearLayout:
    """Random surjective bases of any number of bits."""
    outs = tuple((f"dim{k}", n.bit_length() - 1) for k, n in enumerate(shape))
    d, warp_bits = sum(b for _, b in outs), warps.bit_length() - 1
    registers = max(0, d - 5 - warp_bits) + draw.randint(0, 1)
    while True:
        columns = [draw.randrange(1 << d) for _ in range(registers + 5 + warp_bits)]
        layout = LinearLayout.of((("register", registers), ("lane", 5), ("warp", warp_bits)), outs, columns)
        if layout.is_surjective():
            return layout


def any_layout(draw: random.Random, shape: list[int], warps: int) -> LinearLayout:
    return (general if draw.random() < 0.3 else encoded)(draw, shape, warps)


def mixed(draw: random.Random, layout: LinearLayout) -> LinearLayout:
    """A layout with the same warps and other registers and lanes, perhaps with copies."""
    columns = [*layout.columns_of("register"), *layout.columns_of("lane")]
    if draw.random() < 0.3:
        for _ in range(6):
            i, j = draw.sample(range(len(columns)), 2)
            columns[i] ^= columns[j]
    if draw.random() < 0.4:
        columns.append(0)
    draw.shuffle(columns)
    ins = (("register", len(columns) - 5), ("lane", 5), ("warp", len(layout.columns_of("warp"))))
    return LinearLayout.of(ins, layout.outs, [*columns[5:], *columns[:5], *layout.columns_of("warp")])


def elements(layout: LinearLayout, warp: int) -> np.ndarray:
    """The flat element of each register and lane of a warp."""
    flat = layout.flatten_outs("x")
    register, lane = np.arange(layout.in_sizes["register"])[:, None], np.arange(32)[None]
    return np.broadcast_to(flat.apply(register=register, lane=lane, warp=np.array(warp))["x"], (len(register), 32))


def check_memory(plan, bits: int) -> None:
    """Every element once, at one offset for both sides, each access in as many wavefronts as its words."""
    assert plan.memory.is_invertible()
    offsets: dict[int, int] = {}
    for layout, side in ((plan.source, plan.store()), (plan.target, plan.load())):
        seen = set()
        for warp in range(layout.in_sizes["warp"]):
            held = elements(layout, warp)
            for access in side.each:
                first = np.array([side.offset(access, lane, warp) for lane in range(32)])
                wanted = words_of(side.vector, bits)
                assert counted(first * bits // 8, max(1, side.vector * bits // 8)) == wanted == side.wavefronts()
                for k, registers in enumerate(access.registers):
                    for register in registers:
                        seen.add((register, warp))
                        for lane in range(32):
                            place = int(first[lane]) + k
                            assert offsets.setdefault(place, int(held[register, lane])) == held[register, lane]
        assert len(seen) == layout.in_sizes["register"] * layout.in_sizes["warp"]


@pytest.mark.parametrize("seed", SEEDS)
def test_memory_plans_are_right_and_free_of_conflicts(seed):
    draw = random.Random(seed)
    for _ in range(20):
        shape = [1 << draw.randint(2, 5) for _ in range(draw.choice([1, 2, 2]))]
        warps, bits = 1 << draw.randint(0, 3), draw.choice([8, 16, 32, 64])
        source, target = any_layout(draw, shape, warps), any_layout(draw, shape, warps)
        check_memory(swizzle(source, target, bits), bits)


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffle_plans_are_right(seed):
    draw, planned = random.Random(seed), 0
    for _ in range(25):
        shape = [1 << draw.randint(1, 4) for _ in range(draw.choice([1, 2, 2]))]
        bits, source = draw.choice([8, 16, 32, 64]), any_layout(draw, shape, 1 << draw.randint(0, 2))
        target = mixed(draw, source) if draw.random() < 0.8 else any_layout(draw, shape, source.in_sizes["warp"])
        plan = shuffle_plan(source, target, bits)
        if plan is None:
            continue
        planned += 1
        have, want, got = elements(source, 0), elements(target, 0), set()
        for step in plan.rounds:
            for lane in range(32):
                sender = plan.source_lane(step, lane)
                assert step.exchanged or sender == lane
                for packed in range(1 << len(plan.packed)):
                    register = plan.source_register(step, sender, packed)
                    first = plan.target_register(step, lane, packed)
                    for k in range(1 << len(plan.copies)):
                        copy = first ^ matrix.combine(plan.copies, k)
                        assert have[register, sender] == want[copy, lane]
                        got.add((copy, lane))
        assert len(got) == want.size
    assert planned >= 15


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_matrix_accesses_are_those_of_the_isa(bits):
    draw, forms = random.Random(bits), set()
    for _ in range(30):
        order, swizzling = draw.choice([(1, 0), (0, 1)]), draw.choice([0, 32, 64, 128])
        result = encodings.MmaSync(draw.choice([(1, 1), (2, 2), (4, 1)]))
        operand = encodings.MmaOperand(draw.randint(0, 1), result, 32 // bits)
        shape = [1 << draw.randint(5, 7) for _ in range(2)]
        try:
            memory = (
                encodings.TensorCopyShared(swizzling, bits, 2, order == (0, 1))
                if swizzling
                else encodings.SwizzledShared(1, 1, 1, order)
            ).layout(shape)
        except LayoutError:
            continue
        value = (operand if draw.random() < 0.8 else result).layout(shape)
        found = matrix_accesses(value, memory, bits)
        if found is None:
            assert bits != 16 or value.in_sizes == result.layout(shape).in_sizes
            continue
        forms.add((found.transposed, found.count))
        assert found.wavefronts() == 1 or not swizzling
        check_matrices(value, memory, found)
    assert {transposed for transposed, _ in forms} == ({False, True} if bits == 16 else {False})


def check_matrices(value: LinearLayout, memory: LinearLayout, found) -> None:
    """PTX's definition: lane t gets neighbours of row t/4, or column t/4 of rows 2 (t mod 4) and + 1."""
    content = memory.sublayout(["offset"], list(memory.out_sizes)).flatten_outs("x").transpose_outs(["x"])
    places = value.sublayout(PLACES, list(memory.out_sizes)).with_outs(memory.outs)
    word, seen = 32 // found.bits, set()
    group = 16 // found.bits
    for warp in range(value.in_sizes["warp"]):
        held = elements(places, warp)
        for access in found.each:
            for matrix_number in range(found.count):
                rows = [found.row_offset(access, 8 * matrix_number + i, warp) for i in range(8)]
                assert all(row * found.bits % 128 == 0 for row in rows)
                for lane in range(32):
                    offsets = [rows[lane // 4] + lane % 4 * word + k for k in range(word)]
                    if found.transposed:
                        across = [rows[2 * (lane % 4) + h] for h in range(2)]
                        offsets = [row + lane // 4 * group + k for row in across for k in range(group)]
                    for offset, registers in zip(offsets, access.registers[matrix_number], strict=True):
                        element = content.apply(offset=offset)["x"]
                        for register in registers:
                            assert held[register, lane] == element
                            seen.add((register, warp))
    assert len(seen) == value.in_sizes["register"] * value.in_sizes["warp"]


def test_the_cheapest_way_is_chosen():
    result = encodings.MmaSync((4, 1)).layout((64, 16)).sublayout(PLACES, ["dim0", "dim1"])
    operand = encodings.MmaOperand(0, encodings.MmaSync((4, 1)), 2).layout((64, 16)).sublayout(PLACES, ["dim0", "dim1"])
    assert conversion.conversion_plan(result, operand, 16) == conversion.Unchanged()
    renamed = LinearLayout({**result.bases, "register": result.bases["register"][::-1]}, result.out_sizes)
    plan = conversion.conversion_plan(result, renamed, 16)
    assert plan == conversion.Renamed((0, 4, 2, 6, 1, 5, 3, 7))
    narrow = encodings.MmaOperand(0, encodings.MmaSync((4, 1)), 4).layout((64, 32)).sublayout(PLACES, ["dim0", "dim1"])
    wide = encodings.MmaSync((4, 1)).layout((64, 32)).sublayout(PLACES, ["dim0", "dim1"])
    by_shuffles = conversion.conversion_plan(wide, narrow, 16)
    assert by_shuffles.shuffles() > 0
    blocked = encodings.Blocked((1, 8), (8, 4), (4, 1), (1, 0)).layout((64, 64)).sublayout(PLACES, ["dim0", "dim1"])
    other = encodings.Blocked((8, 1), (4, 8), (1, 4), (0, 1)).layout((64, 64)).sublayout(PLACES, ["dim0", "dim1"])
    through_memory = conversion.conversion_plan(blocked, other, 16)
    assert through_memory.store().wavefronts() == words_of(through_memory.store_vector, 16)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b: swizzle(a, b, 24), "bits=24 of an element must be one of"),
        (lambda a, b: swizzle(a, b.slice("dim1"), 16), "not to one tensor"),
        (lambda a, b: swizzle(a.rename(warp="block"), b, 16), "blocks do not share memory"),
        (
            lambda a, b: swizzle(
                LinearLayout({"register": [], "lane": [0], "warp": []}, {"x": 2}),
                LinearLayout({"register": [], "lane": [1], "warp": []}, {"x": 2}),
                16,
            ),
            "x = 1 is the image of no input",
        ),
    ],
)
def test_bad_conversions_are_refused(make, message):
    layout = encodings.MmaSync((2, 1)).layout((32, 8)).sublayout(PLACES, ["dim0", "dim1"])
    with pytest.raises(LayoutError, match=message):
        make(layout, layout)
