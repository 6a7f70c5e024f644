"""Random distributions against an array of holders: for each place the number of its element, -1 for none.

A drawn distribution carries that array, made by NumPy from the definitions of torch.chunk, array_split, block-cyclic
dealing and so on; every operation of the algebra is done twice, on the distribution and on the array.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import Padded, Row, size
from lego_mlir.distributions import (
    Balanced,
    BlockSparse,
    Chunks,
    CopyAxis,
    Cyclic,
    Listed,
    PlacedLayout,
    Replicas,
    Sharded,
    StridedChunks,
    to_linear,
)
from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.index import symbols
from lego_mlir.expr.verdict import Proved, Refuted, Unknown

from strategies import factorizations, permutations


def chunk(items, k, r):
    step = -(-len(items) // k)
    return items[r * step : (r + 1) * step]


def part_of(split, items, r):
    """The elements of a rank, by slices of lists."""
    match split:
        case Chunks(k):
            return chunk(items, k, r)
        case Balanced(k):
            return list(np.array_split(items, k)[r])
        case Cyclic(k, block, source):
            return [x for p, x in enumerate(items) if (p // block + source) % k == r]
        case StridedChunks(k, pieces):
            return [x for j in range(pieces) for x in chunk(chunk(items, pieces, j), k, r)]
        case Listed(_, sizes):
            return items[sum(sizes[:r]) : sum(sizes[: r + 1])]
    raise AssertionError(split)


@st.composite
def splits(draw, n, first=True):
    k = draw(st.integers(1, 4))
    kinds = [Chunks(k), Balanced(k), Cyclic(k, draw(st.integers(1, 3)), draw(st.integers(0, k - 1)))]
    if first:
        kinds.append(StridedChunks(k, draw(st.integers(1, 3))))
        cuts = sorted(draw(st.lists(st.integers(0, n), min_size=k - 1, max_size=k - 1)))
        kinds.append(Listed(k, tuple(b - a for a, b in itertools.pairwise([0, *cuts, n]))))
    return draw(st.sampled_from(kinds))


@st.composite
def sharded(draw, tag):
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=2))
    divided, mesh = [], {}
    for axis, n in enumerate(shape):
        divided.append([])
        for depth in range(draw(st.integers(0, 2 if len(shape) == 1 else 1))):
            name = f"{tag}m{axis}{depth}"
            divided[-1].append((name, draw(splits(n, depth == 0))))
            mesh[name] = divided[-1][-1][1].ranks
    if draw(st.booleans()):
        mesh[f"{tag}r"] = 2
    order = draw(st.sampled_from("CF"))
    found = Sharded(shape, mesh, divided, order=order)
    held = np.full([*mesh.values(), found.axes["offset"]], -1)
    numbers = np.arange(np.prod(shape)).reshape(shape)
    for ranks in itertools.product(*map(range, mesh.values())):
        at = dict(zip(mesh, ranks, strict=True))
        lists = []
        for n, axis in zip(shape, divided, strict=True):
            items = list(range(n))
            for name, split in axis:
                items = part_of(split, items, at[name])
            lists.append(np.array(items, dtype=int))
        local = numbers[np.ix_(*lists)].flatten(order)
        held[ranks][: len(local)] = local
    return found, held


@st.composite
def placed(draw, tag):
    n = draw(st.sampled_from([1, 4, 6, 8, 12, 16]))
    perm = draw(permutations(n))
    table = np.array([perm.apply(*map(int, np.unravel_index(k, perm.dims()))) for k in range(n)])
    copied = len(perm.dims()) > 1 and draw(st.booleans())
    per_copy = n // perm.dims()[0] if copied else n
    held = np.empty(n, int)
    held[table] = np.arange(n) % per_copy
    sizes = draw(factorizations(n, 2))
    names = [f"{tag}a{k}" for k in range(len(sizes))]
    layout, copies = perm, {f"{tag}c": draw(st.sampled_from([None, "sum"]))} if copied else {}
    if not copied and perm.dims()[0] > 1 and draw(st.booleans()):  # one index less along the first axis: holes
        layout = Padded(perm, [perm.dims()[0] - 1, *perm.dims()[1:]])
        held[held >= n - n // perm.dims()[0]] = -1
    return PlacedLayout(layout, dict(zip(names, sizes, strict=True)), copies), held.reshape(sizes)


@st.composite
def block_sparse(draw, tag):
    """Blocks of a matrix in any order, and the matrix of the numbers of their values."""
    grid, block = [(draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(2)]
    cells = list(itertools.product(range(grid[0]), range(grid[1])))
    blocks = draw(st.permutations(cells))[: draw(st.integers(1, len(cells)))]
    matrix = tuple(g * b for g, b in zip(grid, block, strict=True))
    held = np.full(matrix, -1)
    for k, (i, j) in enumerate(blocks):
        numbers = k * block[0] * block[1] + np.arange(block[0] * block[1]).reshape(block)
        held[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]] = numbers
    found = BlockSparse(matrix, block, blocks)
    names = [f"{tag}row", f"{tag}column"]
    return found.join(["row"], names[0]).join(["column"], names[1]), held


@st.composite
def distributions(draw, tag="x", depth=2):
    """A distribution and its array of holders."""
    if depth == 0:
        return draw(st.one_of(sharded(tag), placed(tag), block_sparse(tag)))
    found, held = draw(distributions(tag, depth - 1))
    names = list(found.axes)
    elements = int(np.prod(found.shape)) if found.shape else 1
    what = draw(st.sampled_from(["copies", "product", "refine", "join", "relabel", "view"]))
    if what == "copies":
        n = draw(st.integers(1, 3))
        return Replicas(f"{tag}q{depth}", n) * found, np.stack([held] * n)
    if what == "product" and "offset" not in names:
        other, others = draw(placed(f"{tag}p{depth}"))
        count = int(np.prod(other.shape))
        joined = np.where(
            (np.expand_dims(held, tuple(range(-others.ndim, 0))) < 0) | (others < 0),
            -1, np.expand_dims(held, tuple(range(-others.ndim, 0))) * count + others,
        )  # fmt: skip
        return found * other, joined
    if what == "refine":
        at = draw(st.integers(0, len(names) - 1))
        n = found.axes[names[at]]
        perm = draw(permutations(n))
        table = np.array([perm.apply(*map(int, np.unravel_index(k, perm.dims()))) for k in range(n)])
        inner = PlacedLayout(perm, {f"{tag}f{depth}": n})
        return found.refine(names[at], inner), np.take(held, np.argsort(table), axis=at)
    if what == "join" and len(names) > 1:
        at = draw(st.integers(0, len(names) - 2))
        shape = [*held.shape[:at], held.shape[at] * held.shape[at + 1], *held.shape[at + 2 :]]
        return found.join(names[at : at + 2], f"{tag}j{depth}"), held.reshape(shape)
    if what == "relabel":
        at = draw(st.integers(0, len(names) - 1))
        perm = draw(permutations(found.axes[names[at]])).reshape(found.axes[names[at]])
        table = np.array([perm.apply(k) for k in range(held.shape[at])])
        return found.relabel(names[at], perm), np.take(held, np.argsort(table), axis=at)
    if what == "view" and found.shape:
        perm = draw(permutations(elements))
        table = np.array([perm.apply(*map(int, np.unravel_index(k, perm.dims()))) for k in range(elements)])
        return found @ perm, np.where(held < 0, -1, np.argsort(table)[held])
    return found, held


def agrees(found, held):
    """Every map of the distribution is the one of the array of holders."""
    assert list(found.axes.values()) == list(held.shape)
    places = {}
    for at in np.ndindex(*held.shape):
        place = dict(zip(found.axes, map(int, at), strict=True))
        assert bool(found.holds(**place)) == (held[at] >= 0)
        if held[at] < 0:
            with pytest.raises(LayoutIndexError, match="holds no element"):
                found.inv(**place)
            continue
        assert found.inv(**place) == tuple(map(int, np.unravel_index(held[at], found.shape))) if found.shape else ()
        places.setdefault(int(held[at]), []).append(place)
    for number, expected in places.items():
        index = tuple(map(int, np.unravel_index(number, found.shape))) if found.shape else ()
        applied = found.apply(*index)
        assert sorted(map(str, applied)) == sorted(map(str, expected))
        for place in applied:
            assert found.place(*index, **found.copy_of(**place)) == place
    assert len(places) == (int(np.prod(found.shape)) if found.shape else 1)


@given(distributions())
@settings(max_examples=60)
def test_a_distribution_is_its_array_of_holders(drawn):
    found, held = drawn
    agrees(found, held)
    assert isinstance(found.check(), Proved | Unknown)
    assert found.equivalent(found)


@given(distributions(depth=1), st.data())
@settings(max_examples=30)
def test_arrays_and_symbols_are_placed_as_ints_are(drawn, data):
    found, _held = drawn
    index = [data.draw(st.integers(0, n - 1)) for n in found.shape]
    place = found.place(*index)
    arrays = found.place(*(np.array([i, i]) for i in index))
    assert {name: [v, v] for name, v in place.items()} == {
        name: np.broadcast_to(v, 2).tolist() for name, v in arrays.items()
    }
    names = symbols(" ".join(f"s{k}" for k in range(len(index))))
    symbolic = found.place(*names)
    given_values = {s.expr: i for s, i in zip(names, index, strict=True)}
    for name, value in symbolic.items():
        assert int(value.subs(given_values) if hasattr(value, "subs") else _value(value, given_values)) == place[name]


def _value(value, given_values):
    from lego_mlir.expr.evaluate import evaluate
    from lego_mlir.expr.index import as_expr

    return evaluate(as_expr(value), given_values)


@given(placed("x"), placed("x"))
@settings(max_examples=60)
def test_a_refutation_names_an_element_and_the_two_places_that_disagree(a, b):
    (first, here), (second, there) = a, b
    verdict = first.equivalent(second)
    sums = [{c.combined for c in d.copies} - {None} for d in (first, second)]
    same = first.shape == second.shape and here.shape == there.shape and np.array_equal(here, there)
    assert bool(verdict) == (same and sums[0] == sums[1])
    if isinstance(verdict, Refuted) and "places" in verdict.counter_example:
        index, (one, other) = verdict.counter_example["index"], verdict.counter_example["places"]
        assert one in first.apply(*index) and other in second.apply(*index) and one != other


@pytest.mark.parametrize("split", [Chunks(4), Chunks(size("k")), Balanced(3), Cyclic(4, 64), Cyclic(3, 2, 1)], ids=str)
def test_splits_are_proved_for_all_sizes(split):
    assert isinstance(split.check(None), Proved)


def test_a_split_whose_maps_disagree_is_refuted():
    class Shifted(Chunks):
        def join(self, rank, local, n):
            return Chunks.join(self, rank, local, n) + 1

    assert isinstance(Shifted(2).check(5), Refuted) and isinstance(Shifted(2).check(None), Unknown)
    assert isinstance(Listed(2, (3, 3)).check(5), Refuted)


def test_symbolic_sizes_are_proved():
    n = size("n")
    D = Replicas("dp", 2) * Sharded([n, 64], {"tp": 4}, [[("tp", Chunks(4))], []])
    assert isinstance(D.check(), Proved)
    assert D.axes["tp"] == 4 and D.equivalent(D)


def test_reads_take_the_nearest_copy_and_no_part_of_a_sum():
    D = Replicas("node", 2) * Replicas("gpu", 4) * PlacedLayout(Row(8), {"offset": 8})
    assert D.nearest(3, near={"node": 1, "gpu": 2}) == {"node": 1, "gpu": 2, "offset": 3}
    E = Replicas("node", 2) * Sharded([8], {"gpu": 4}, [[("gpu", Chunks(4))]])
    assert E.nearest(5, near={"node": 1, "gpu": 0}) == {"node": 1, "gpu": 2, "offset": 1}
    with pytest.raises(LayoutError, match="the places along tp hold parts; sum them before a read"):
        (Replicas("tp", 2, "sum") * PlacedLayout(Row(8), {"offset": 8})).nearest(3, near={"tp": 0})


def test_one_expression_places_an_element_from_the_node_to_the_register():
    from lego_mlir.distributions import from_linear
    from lego_mlir.f2.encodings import MmaSync

    tile = from_linear(MmaSync((2, 1)).layout((32, 8)))
    gpus = Sharded([64, 8], {"node": 2}, [[("node", Chunks(2))], []])
    D = gpus.refine("offset", tile.join(["block"], "cta") if "block" in tile.axes else tile)
    assert next(iter(D.axes)) == "node" and {"warp", "lane", "register"} <= D.axes.keys()
    seen = {tuple(place.values()): D.inv(**place) for place in D.places()}
    assert len(set(seen.values())) == 64 * 8
    for i in range(0, 64, 5):
        for place in D.apply(i, 3):
            assert D.inv(**place) == (i, 3)


def test_what_is_no_block_sparse_matrix_is_refused():
    for blocks, match in (([(0, 3)], r"block 0 is \[0, 3\], outside of the \[2, 3\] blocks"),
                          ([(1, 1), (1, 1)], r"blocks 0 and 1 are both \[1, 1\]")):  # fmt: skip
        with pytest.raises(LayoutError, match=match):
            BlockSparse((4, 6), (2, 2), blocks)
    with pytest.raises(LayoutError, match="do not divide"):
        BlockSparse((4, 5), (2, 2), [(0, 0)])
    with pytest.raises(LayoutError, match="pointers must rise from 0 to 2"):
        BlockSparse.from_rows((4, 6), (2, 2), [0, 3, 2], [0, 1])
    one, other = (BlockSparse((4, 6), (2, 2), b) for b in ([(0, 0), (1, 1)], [(1, 1), (0, 0)]))
    assert one.equivalent(other).explanation == (
        "[0, 0, 0] is at row=0 column=0 of the first and at row=2 column=2 of the second"
    )


def test_partial_sums_say_what_adds_them():
    D = Replicas("tp", 2, "sum") * PlacedLayout(Row(4), {"offset": 4})
    assert D.copies == (CopyAxis("tp", 2, "sum"),)
    with pytest.raises(LayoutError, match="no parts of sums"):
        to_linear(D)
    verdict = D.equivalent(Replicas("tp", 2) * PlacedLayout(Row(4), {"offset": 4}))
    assert isinstance(verdict, Refuted) and "parts of a sum" in verdict.explanation
