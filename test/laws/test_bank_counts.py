"""The counting models agree with a model that looks at every lane, on random layouts, widths and masks."""

import numpy as np
import pytest

from lego_mlir import Col, Row, gallery
from lego_mlir.hardware import banks
from lego_mlir.hardware import sectors as coalescing
from lego_mlir.layout import GenP, OrderBy, RegP

LAYOUTS = 1000


def brute_force_wavefronts(address: list[int], width: int, active: list[bool]) -> tuple[int, int]:
    """(wavefronts, fewest) of one warp, by sets of words a bank, pass by pass."""
    lanes = 32 if width <= 4 else 16 if width == 8 else 8
    total = fewest = 0
    for start in range(0, 32, lanes):
        wanted: dict[int, set[int]] = {}
        for lane in range(start, start + lanes):
            if active[lane]:
                for word in range(address[lane] // 4, (address[lane] + width - 1) // 4 + 1):
                    wanted.setdefault(word % 32, set()).add(word)
        total += max((len(words) for words in wanted.values()), default=0)
        fewest += bool(wanted)
    return total, fewest


def brute_force_sectors(address: list[int], width: int, active: list[bool]) -> tuple[int, int]:
    """(sectors, fewest) of one warp, byte by byte."""
    touched = {a + b for a, on in zip(address, active, strict=True) if on for b in range(width)}
    return len({byte // 32 for byte in touched}), -(-len(touched) // 32)


def random_layout(rng: np.random.Generator):
    """A tile of a random kind, with a last axis that can be walked in vectors."""
    rows, columns = int(rng.choice([8, 16, 32, 64])), int(rng.choice([8, 16, 32, 64]))
    match rng.integers(0, 8):
        case 0:
            return Row(rows, columns)
        case 1:
            return Col(rows, columns)
        case 2:
            return gallery.padded(rows, columns, int(rng.integers(1, 9)))
        case 3:
            vec = int(rng.choice([1, 2, 4]))
            return gallery.xor_swizzle(rows, columns, vec, int(rng.choice([1, 2])))
        case 4:
            return gallery.antidiagonal(rows)
        case 5:
            return OrderBy(RegP([rows // 4, 4, columns // 4, 4], [1, 3, 2, 4])).GroupBy([rows, columns])
        case 6:
            order = rng.permutation(rows * columns)
            return _shuffled(rows, columns, order)
        case _:
            return gallery.morton(16)


def _shuffled(rows: int, columns: int, order: np.ndarray) -> GenP:
    back = np.argsort(order)
    return GenP(
        [rows, columns],
        lambda i, j: order[i * columns + j],
        lambda p: (back[p] // columns, back[p] % columns),
        text=f"shuffled({rows}, {columns})",
    )


def cases(count: int, seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        layout = random_layout(rng)
        rows, columns = layout.dims()
        element = int(rng.choice([1, 2, 4, 8]))
        width = int(rng.choice([w for w in (1, 2, 4, 8, 16) if w >= element]))
        flat = rng.integers(0, rows * columns, 32) if rng.random() < 0.3 else None
        step = int(rng.choice([1, 2, 3, columns, columns + 1]))
        walk = (rng.integers(0, rows * columns) + step * np.arange(32)) % (rows * columns) if flat is None else flat
        place = np.asarray(layout.apply(walk // columns, walk % columns), np.int64)
        address = place * element // width * width
        active = rng.random(32) < rng.choice([0.3, 0.9, 1.0])
        yield layout, address, width, active


def test_wavefronts_and_sectors_agree_with_brute_force():
    worst = 0
    for layout, address, width, active in cases(LAYOUTS, seed=7):
        lanes, on = address.tolist(), active.tolist()
        wavefronts, fewest = brute_force_wavefronts(lanes, width, on)
        assert int(banks.wavefronts(address, width, active)) == wavefronts, (layout, lanes, width, on)
        assert int(banks.ideal_wavefronts(width, active)) == fewest
        if any(on):
            collision = banks.worst_collision(address, width, active)
            assert collision.ways == int(banks.wavefronts_per_pass(address, width, active).max())
            words = {address[lane] // 4 for lane in collision.lanes}
            assert len(collision.lanes) == collision.ways or len(words) <= collision.ways
            assert all(on[lane] for lane in collision.lanes)
            found = coalescing.requests(address, width, active)
            sectors, needed = brute_force_sectors(lanes, width, on)
            assert (int(found.sectors), int(found.ideal)) == (sectors, needed), (layout, lanes, width, on)
        worst = max(worst, wavefronts)
    assert worst >= 16  # the cases are not all easy ones


def test_many_warps_at_once_are_counted_like_one_by_one():
    rng = np.random.default_rng(1)
    address = rng.integers(0, 500, (5, 7, 32)) * 8
    active = rng.random((5, 7, 32)) < 0.8
    whole = banks.wavefronts(address, 8, active)
    sectors = coalescing.requests(address, 8, active).sectors
    for i in range(5):
        for j in range(7):
            assert whole[i, j] == brute_force_wavefronts(address[i, j].tolist(), 8, active[i, j].tolist())[0]
            assert sectors[i, j] == brute_force_sectors(address[i, j].tolist(), 8, active[i, j].tolist())[0]


@pytest.mark.parametrize("shift", [0, 4, 12, 20, 28])
def test_accesses_that_straddle_sectors(shift: int):
    """A lane's own bytes may lie in two sectors where its access is not aligned."""
    rng = np.random.default_rng(shift)
    for _ in range(200):
        address = np.sort(rng.integers(0, 40, 32)) * 16 + shift
        found = coalescing.requests(address, 16)
        assert int(found.sectors) == brute_force_sectors(address.tolist(), 16, [True] * 32)[0]


def brute_force_widest(address: list[int], width: int) -> int:
    touched = {a + b for a in address for b in range(width)}
    for chunk in (16, 8, 4, 2):
        if chunk <= width:
            break
        if all(byte // chunk * chunk + b in touched for byte in touched for b in range(chunk)):
            return chunk
    return width


def test_the_widest_possible_access():
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        width = int(rng.choice([1, 2, 4, 8]))
        step = int(rng.choice([1, 2, 4, 8]))
        start = int(rng.integers(0, 8))
        address = (np.arange(32) // step * 2 * step + np.arange(32) % step + start) * width
        if rng.random() < 0.4:
            address = (np.arange(32) + start // 4 * 4) * width
        found = coalescing.requests(address, width).widest
        assert found == brute_force_widest(address.tolist(), width), address
        seen.add(found)
    assert seen >= {1, 2, 4, 8, 16}
