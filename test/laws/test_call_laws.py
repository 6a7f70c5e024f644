"""Laws of calls: sizes derived from shapes are the true ones, and an array with a layout's strides is its tensor."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f32
from lego_mlir.runtime.arrays import dense_strides, spanned
from lego_mlir.runtime.derived_sizes import derive
from lego_mlir.runtime.manifest import evaluate

EXTENTS = ("M", "N", "K", "(2 * M)", "(N + 3)", "(M * N)", "(M + (-1 * K))", "((M + 31) // 32)", "(M ** 2)", "64")
SIZES = st.fixed_dictionaries({name: st.integers(1, 200) for name in "MNK"})


@given(SIZES, st.lists(st.sampled_from(EXTENTS), max_size=6), st.sets(st.sampled_from("MNK")))
def test_derived_sizes_are_the_true_ones(sizes, extents, given_names):
    equations = [(extent, evaluate(extent, sizes), "x") for extent in extents]
    found = derive(equations, {name: sizes[name] for name in given_names})
    assert found.items() <= sizes.items()
    for name in "MNK":
        if name in extents or name in given_names:
            assert found[name] == sizes[name]


@given(SIZES, st.permutations(["(M + N)", "(N * K)", "K"]))
def test_equations_are_used_in_any_order(sizes, extents):
    assert derive([(extent, evaluate(extent, sizes), "x") for extent in extents], {}) == sizes


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_an_array_with_the_strides_of_a_layout_is_its_tensor(dims, data):
    order = data.draw(st.permutations(range(len(dims))))
    layout = OrderBy(RegP(dims, [axis + 1 for axis in order])).GroupBy(dims)
    count = int(np.prod(dims))

    @lego.kernel(grid=1, block=count)
    def copy(x: lego.Tensor(f32, layout), y: lego.Tensor(f32, Row(*dims)), z: lego.Tensor(f32, layout)):
        index = Row(*dims).inv(lego.thread_id.x)
        y[index] = x[index]
        z[index] = x[index] + 1

    x = np.arange(count, dtype=np.float32).reshape(dims)
    strided = np.empty(count, np.float32)
    strided[np.asarray([layout.apply(*index) for index in np.ndindex(*dims)])] = x.reshape(-1)
    strides = [0 if n == 1 else 4 * int(s) for n, s in zip(dims, layout.strides(), strict=True)]
    memory = np.lib.stride_tricks.as_strided(strided, dims, strides)
    y, z = copy(memory)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, x + 1)
    np.testing.assert_array_equal(copy(strided)[0], x)
    np.testing.assert_array_equal(copy(z, check=True)[0], x + 1)


@given(st.lists(st.integers(0, 6), max_size=4))
def test_a_dense_array_spans_its_elements(shape):
    assert spanned(shape, dense_strides(shape)) == int(np.prod(shape, dtype=np.int64))
