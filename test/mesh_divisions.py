"""Random divisions of arrays over meshes, and what each rank holds of an array, by `apply`."""

import itertools
from math import prod

import numpy as np
from hypothesis import strategies as st

from lego_mlir.distributions import Balanced, Chunks, Cyclic, Sharded, StridedChunks


@st.composite
def splits(draw, ranks):
    block, first = draw(st.integers(1, 4)), draw(st.integers(0, ranks - 1))
    kinds = [Chunks(ranks), Balanced(ranks), Cyclic(ranks, block, first), StridedChunks(ranks, block)]
    return draw(st.sampled_from(kinds))


@st.composite
def divisions(draw, shape, parts):
    """A division of an array over up to three axes of a mesh; without `parts` no axis holds parts of sums."""
    mesh = {name: draw(st.integers(1, 3)) for name in "abc"[: draw(st.integers(0, 3))]}
    axes, combined = [[] for _ in shape], {}
    for name in draw(st.permutations(list(mesh))):
        use = draw(st.sampled_from(("split", "split", "copies", "parts")))
        if use == "split":
            axes[draw(st.integers(0, len(shape) - 1))].append((name, draw(splits(mesh[name]))))
        elif use == "parts" and parts:
            combined[name] = "sum"
    return Sharded(shape, mesh, axes, combined, draw(st.sampled_from("CF")))


@st.composite
def moves(draw):
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    return draw(divisions(shape, parts=True)), draw(divisions(shape, parts=False))


def held(division, array):
    """The flat part of each rank: from `apply`, element by element; parts of a sum are 7 but for the first."""
    sizes = list(division.mesh.values())
    found = [np.zeros(int(division.axes["offset"]), np.int64) for _ in range(prod(sizes))]
    parts = [c for c in division.copies if c.combined]
    for index in itertools.product(*map(range, array.shape)):
        for place in division.apply(*index):
            rank = int(np.ravel_multi_index([place[name] for name in division.mesh], sizes)) if sizes else 0
            copy = division.copy_of(**place)
            first = all(copy[c.name] == 0 for c in parts)
            value = array[index] - 7 * (prod(c.size for c in parts) - 1) if first else 7
            found[rank][place["offset"]] = value
    return [part[: prod(map(int, division.local_shape(**_mesh(division, r))))] for r, part in enumerate(found)]


def _mesh(division, rank):
    sizes = list(division.mesh.values())
    return dict(zip(division.mesh, map(int, np.unravel_index(rank, sizes)), strict=True)) if sizes else {}
