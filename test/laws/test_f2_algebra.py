"""Laws of linear layouts: definitions 4.2 to 4.5, propositions 4.8 and 4.12, closure under shape operations (4.4)."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_encodings import FAMILIES, shape

from lego_mlir import symbols
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.f2 import BitMatrix, LinearLayout, matrix, notation, queries, shape_ops
from lego_mlir.layout.gallery import xor_swizzle

NAMES = ("a", "b", "c")


@st.composite
def dims(draw, names=NAMES, most=4):
    """Labelled dimensions with their bits."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return {name: draw(st.integers(0, most)) for name in chosen}


@st.composite
def linear_layouts(draw, ins=None, outs=None):
    """A linear layout with random bases."""
    ins, outs = ins or draw(dims()), outs or draw(dims(("x", "y", "z")))
    bases = {
        name: [tuple(draw(st.integers(0, (1 << bits) - 1)) for bits in outs.values()) for _ in range(count)]
        for name, count in ins.items()
    }
    return LinearLayout(bases, {name: 1 << bits for name, bits in outs.items()})


def points(layout: LinearLayout):
    """Every input of a layout, by name."""
    names = list(layout.in_sizes)
    return [dict(zip(names, v, strict=True)) for v in itertools.product(*map(range, layout.in_sizes.values()))][:256]


@given(linear_layouts(), st.data())
def test_application_is_linear(layout, data):
    some = points(layout)
    a, b = data.draw(st.sampled_from(some)), data.draw(st.sampled_from(some))
    both = layout.apply(**{n: a[n] ^ b[n] for n in a})
    first, second = layout.apply(**a), layout.apply(**b)
    assert both == {n: first[n] ^ second[n] for n in both}


@given(linear_layouts())
def test_arrays_ints_and_symbols_agree(layout):
    some = points(layout)
    ints = [layout.apply(**p) for p in some]
    arrays = layout.apply(**{n: np.array([p[n] for p in some]) for n in layout.in_sizes})
    names = dict(zip(layout.in_sizes, symbols(" ".join(layout.in_sizes)), strict=True))
    for out in layout.out_sizes:
        expected = [point[out] for point in ints]
        assert np.broadcast_to(arrays[out], len(some)).tolist() == expected
        expr = as_expr(layout.apply(**names)[out])
        values = {as_expr(names[n]): np.array([p[n] for p in some]) for n in names}
        assert np.broadcast_to(evaluate(expr, values), len(some)).tolist() == expected


@given(st.data(), dims(), dims(("p", "q")), dims(("x", "y")))
def test_composition_applies_one_after_the_other(data, ins, middle, outs):
    inner, outer = data.draw(linear_layouts(ins, middle)), data.draw(linear_layouts(middle, outs))
    whole = outer @ inner
    for point in points(inner):
        assert whole.apply(**point) == outer.apply(**inner.apply(**point))


@given(linear_layouts(), linear_layouts())
def test_the_product_acts_on_low_and_high_bits_and_is_undone_by_division(low, high):
    whole = low * high
    for point in points(whole)[:64]:
        parts = []
        for layout, shift in ((low, {}), (high, low.in_sizes)):
            bits = layout.in_sizes
            parts.append(layout.apply(**{n: (point[n] // shift.get(n, 1)) % bits[n] for n in bits}))
        expected = {n: parts[0].get(n, 0) + parts[1].get(n, 0) * low.out_sizes.get(n, 1) for n in whole.out_sizes}
        assert whole.apply(**point) == expected
    quotient = whole.divide_left(low)
    assert (low * quotient).equivalent(whole)
    for point in points(high):
        got = quotient.apply(**{n: point.get(n, 0) for n in quotient.in_sizes})
        assert all(got[n] == v for n, v in high.apply(**point).items())


@given(linear_layouts())
def test_a_right_inverse_is_one_and_injectivity_is_counted(layout):
    images = [tuple(layout.apply(**p).values()) for p in points(layout)]
    if layout.in_bits <= 8:
        assert layout.is_injective() == (len(set(images)) == len(images))
        assert layout.is_surjective() == (len(set(images)) == 1 << layout.out_bits)
    assume(layout.is_surjective())
    back = layout.right_inverse()
    for point in points(back):
        assert layout.apply(**back.apply(**point)) == point
    if layout.is_invertible():
        assert all(layout.inverse().apply(**layout.apply(**p)) == p for p in points(layout))


@given(st.data(), dims(), dims(("p", "q")), dims(("x", "y")))
def test_invert_and_compose_finds_each_element(data, ins, others, outs):
    target = data.draw(linear_layouts(others, outs))
    source = target @ data.draw(linear_layouts(ins, others))
    found = source.invert_and_compose(target)
    for point in points(source):
        assert target.apply(**found.apply(**point)) == source.apply(**point)


@given(linear_layouts())
def test_reprs_texts_and_bases_round_trip(layout):
    assert eval(repr(layout)) == layout
    assert notation.from_text(notation.to_text(layout)) == layout
    assert notation.from_bases(*notation.to_bases(layout)) == layout


@given(linear_layouts(), st.data())
def test_reordered_dimensions_are_the_same_function(layout, data):
    moved = layout.transpose_ins(data.draw(st.permutations(list(layout.in_sizes))))
    moved = moved.transpose_outs(data.draw(st.permutations(list(layout.out_sizes))))
    assert layout.equivalent(moved) and all(layout.apply(**p) == moved.apply(**p) for p in points(layout))
    flat = layout.flatten_ins().flatten_outs()
    assert flat.reshape_ins(layout.in_sizes).reshape_outs(layout.out_sizes) == layout


@given(linear_layouts(), linear_layouts())
def test_equivalence_is_equality_of_functions(a, b):
    verdict = a.equivalent(b)
    if a.in_sizes == b.in_sizes and a.out_sizes == b.out_sizes:
        assert bool(verdict) == all(a.apply(**p) == b.apply(**p) for p in points(a) if a.in_bits <= 8)
        if not verdict:
            witness = {n: verdict.counter_example.get(n, 0) for n in a.in_sizes}
            assert a.apply(**witness) != b.apply(**witness)
    else:
        assert not verdict


vectors = st.lists(st.integers(0, 63), max_size=6)


@given(vectors, vectors)
def test_intersections_and_complements_have_their_dimension(a, b):
    spans = [{matrix.combine(v, k) for k in range(1 << len(v))} for v in (a, b)]
    common = matrix.intersection(a, b)
    assert {matrix.combine(common, k) for k in range(1 << len(common))} == spans[0] & spans[1]
    assert 1 << len(common) == len(spans[0] & spans[1])
    rest = matrix.complement(a, 6)
    assert matrix.rank([*a, *rest]) == 6 and matrix.rank(a) + len(rest) == 6


@given(st.lists(st.integers(0, 31), min_size=1, max_size=7))
def test_matrices_obey_rank_and_nullity(columns):
    m = BitMatrix(columns, 5)
    assert m.rank() + len(m.kernel()) == len(columns) and m.rank() == m.transpose().rank()
    assert all(m @ v == 0 for v in m.kernel())
    if m.rank() == 5:
        assert m @ m.right_inverse() == BitMatrix.identity(5)


@pytest.mark.parametrize("family", ["blocked", "mma_sync", "mma_operand", "wgmma", "sliced", "mfma"])
def test_distributed_encodings_are_distributed_and_closed_under_shape_operations(family):
    draw = random.Random(family)
    for _ in range(40):
        encoding, _ = FAMILIES[family](draw)
        layout = encoding.layout(shape(draw, family, encoding))
        assert queries.is_distributed(layout), layout
        rank, size = encoding.rank, shape_ops.shape_of(layout)
        order = draw.sample(range(rank), rank)
        axis = draw.randrange(rank + 1)
        grown = [n if n > 1 else draw.choice((1, 4)) for n in size]
        forward = [
            (shape_ops.trans(layout, order), lambda r, o=order: shape_ops.trans_backward(r, o)),
            (shape_ops.reshape(layout, (int(np.prod(size)),)), lambda r, s=size: shape_ops.reshape(r, s)),
            (shape_ops.expand_dims(layout, axis), lambda r, a=axis: shape_ops.expand_dims_backward(r, a)),
            (shape_ops.join_tensors(layout), shape_ops.join_backward),
        ]
        for result, backward in forward:
            assert queries.is_distributed(result), result
            assert backward(result) == layout
        wide = shape_ops.broadcast(layout, grown)
        assert queries.is_distributed(wide)
        back = shape_ops.broadcast_backward(wide, size)
        kept = {n: [b for b in images if any(b)] for n, images in layout.bases.items()}
        assert {n: [b for b in images if any(b)] for n, images in back.bases.items()} == kept


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(2, 4))
def test_the_swizzle_is_the_gallerys(vec, per_phase, max_phase, rows):
    from lego_mlir.f2.encodings import SwizzledShared

    vec, per_phase, max_phase, rows = 1 << vec, 1 << per_phase, 1 << max_phase, 1 << rows
    columns = 64
    assume(columns // vec % max_phase == 0)
    linear = SwizzledShared(vec, per_phase, max_phase, (1, 0)).layout((rows, columns))
    assert queries.is_memory(linear)
    ours = xor_swizzle(rows, columns, vec=vec, per_phase=per_phase, max_phase=max_phase)
    offsets = np.arange(rows * columns)
    found = linear.apply(offset=offsets, block=0)
    assert (ours.apply(found["dim0"], found["dim1"]) == offsets).all()
