"""Every layout of the gallery has a text, a proof, a picture, symbolic sizes, MLIR and PTX.

The names are those of `gallery.__all__`, so that a new layout has these laws as soon as it has an example here. The
positions in memory are compared with those of `apply` on ints, element by element.
"""

import itertools
import math

import numpy as np
import pytest
from launching import in_memory, launch, launch_emulated

import lego_mlir as lego
from lego_mlir import GenP, Row, gallery, i32, parse_layout
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.viz import show

M, N = lego.size("M", min=8, max=4096, multiple_of=8), lego.size("N", min=3, max=4096)
SIZES = {"M": 16, "N": 5}
EXAMPLES = {
    "antidiagonal": gallery.antidiagonal(5),
    "block_cyclic": gallery.block_cyclic(12, 2, 3),
    "hilbert": gallery.hilbert(8),
    "morton": gallery.morton(4, 8),
    "padded": gallery.padded(4, 8, pad=2),
    "reverse": gallery.reverse(2, 3),
    "table": gallery.table([2, 2], [3, 1, 0, 2]),
    "tabulated": gallery.tabulated(GenP([2, 3], lambda i, j: i * 3 + 2 - j, lambda p: (p // 3, 2 - p % 3))),
    "xor_swizzle": gallery.xor_swizzle(8, 8, vec=2),
}
SYMBOLIC = {
    "antidiagonal": gallery.antidiagonal(N),
    "block_cyclic": gallery.block_cyclic(M, 4, 2),
    "padded": gallery.padded(N, M, pad=2),
    "reverse": gallery.reverse(M, N + 1),
    "xor_swizzle": gallery.xor_swizzle(M, 16, vec=2, max_phase=4),
}
OF_INTS_ONLY = {"hilbert", "morton", "table", "tabulated"}
"""Those whose sizes are powers of two, or the shape of an array."""
IN_KERNEL = 256


def indices(layout, sizes):
    return list(itertools.product(*(range(as_int(n, sizes)) for n in layout.dims())))


def as_int(n, sizes):
    return n if isinstance(n, int) else int(n.expr.subs({s: sizes[str(s)] for s in n.expr.free_symbols}))


def with_ints(name):
    """A symbolic layout with the sizes of the tests."""
    layout = SYMBOLIC[name]
    names = {str(s) for n in layout.dims() if not isinstance(n, int) for s in n.expr.free_symbols}
    return layout.subs(**{name: SIZES[name] for name in names})


def test_each_name_has_an_example_and_is_symbolic_or_not():
    assert EXAMPLES.keys() == set(gallery.__all__)
    assert SYMBOLIC.keys() | OF_INTS_ONLY == set(gallery.__all__)
    assert SYMBOLIC.keys().isdisjoint(OF_INTS_ONLY)


@pytest.mark.parametrize("name", gallery.__all__)
def test_a_text_in_python_and_in_mlir(name):
    for layout in (EXAMPLES[name], *([SYMBOLIC[name]] if name in SYMBOLIC else [])):
        assert parse_layout(layout.to_mlir()) == layout
    assert parse_layout(str(EXAMPLES[name])) == EXAMPLES[name]


@pytest.mark.parametrize("name", gallery.__all__)
def test_a_proof_and_positions_that_differ(name):
    layout = EXAMPLES[name]
    assert isinstance(layout.check(), Proved)
    found = {layout.apply(*index): index for index in indices(layout, {})}
    assert len(found) == math.prod(layout.dims())
    assert all(0 <= position < layout.physical_size() for position in found)
    assert all(layout.inv(position) == index for position, index in found.items())


@pytest.mark.parametrize("name", gallery.__all__)
def test_a_picture_with_every_position(name):
    layout = EXAMPLES[name]
    text = show(layout, by="order").svg()
    for index in indices(layout, {}):
        assert f">{layout.apply(*index)}<" in text, index


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes_are_not_refuted_and_mean_what_the_ints_do(name):
    layout = SYMBOLIC[name]
    assert not isinstance(layout.check(), Refuted)
    of_ints = with_ints(name)
    for index in indices(layout, SIZES):
        symbolic = layout.apply(*index)
        assert as_int(symbolic, SIZES) == of_ints.apply(*index)


def written_by(layouts):
    """A kernel that writes into each tensor the number of each of its elements, in row-major order."""

    def body(*tensors):
        t = lego.thread_id[0]
        for tensor, layout in zip(tensors, layouts.values(), strict=True):
            rows = Row(*layout.dims())
            with lego.when(t < rows.physical_size()):
                tensor[rows.inv(t)] = i32(t)

    space = {"body": body}
    arguments = ", ".join(layouts)
    exec(f"def numbers({arguments}):\n    body({arguments})\n", space)
    space["numbers"].__annotations__ = {name: lego.Tensor(i32, layout) for name, layout in layouts.items()}
    return lego.kernel(grid=1, block=IN_KERNEL)(space["numbers"])


def numbers(layout):
    return np.arange(math.prod(layout.dims())).reshape(layout.dims())


@pytest.mark.parametrize("form", ["affine", "index", "arith"])
def test_mlir_that_places_each_element(form):
    found = launch(written_by(EXAMPLES), *(np.zeros(layout.dims()) for layout in EXAMPLES.values()), form=form)
    for (name, layout), array in zip(EXAMPLES.items(), found, strict=True):
        assert np.array_equal(array, numbers(layout)), name


def test_ptx_that_places_each_element():
    kernel = written_by(EXAMPLES)
    found = launch_emulated(kernel, *(np.zeros(layout.dims()) for layout in EXAMPLES.values()))
    for (name, layout), array in zip(EXAMPLES.items(), found, strict=True):
        assert np.array_equal(array, numbers(layout)), name


@pytest.mark.parametrize("name", SYMBOLIC)
def test_mlir_for_symbolic_sizes(name):
    layout = with_ints(name)
    assert math.prod(layout.dims()) <= IN_KERNEL
    (found,) = launch(written_by({name: SYMBOLIC[name]}), np.zeros(layout.dims()), sizes=SIZES)
    assert np.array_equal(found, numbers(layout))


@pytest.mark.parametrize("name", gallery.__all__)
def test_the_test_places_elements_where_apply_does(name):
    """The helper that fills memory shares the array path of `apply`; ints take another."""
    layout = EXAMPLES[name]
    ((memory,), _) = in_memory(written_by({name: layout}), [numbers(layout)], {})
    for index in indices(layout, {}):
        assert memory[layout.apply(*index)] == np.ravel_multi_index(index, layout.dims())
