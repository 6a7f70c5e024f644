"""Laws of masks: however tiles and padding are stacked, an index names an element where every level's index does.

The other side of each comparison is enumeration: a layout as a dictionary from the indices of its elements to their
positions, made level by level from the definition alone.
"""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, GroupBy, OrderBy, Padded, Row, as_layout, gallery, i32, interp
from lego_mlir.errors import LayoutError, LayoutIndexError, TemplateError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.transposed import Transposed
from lego_mlir.templates import Template, index
from lego_mlir.templates.readback import read_c, read_triton
from lego_mlir.templates.readback.check import check

from strategies import factorizations, permutations

MOST = 400  # indices of a drawn layout


def digits(number, sizes):
    """A number in digits of these sizes, the first one leading, or None where it is too large for them."""
    found = []
    for n in reversed(sizes):
        number, digit = divmod(number, n)
        found.append(digit)
    return None if number else found[::-1]


def elements_of(base):
    """Index -> position of every element of a layout without tiles and padding."""
    return {at: base.apply(*at) for at in product(*map(range, base.dims()))}


def padded(elements, dims):
    return {at: p for at, p in elements.items() if all(i < n for i, n in zip(at, dims, strict=True))}


def tiled(elements, levels):
    found = {}
    for at, position in elements.items():
        axes = [digits(i, [level[axis] for level in levels]) for axis, i in enumerate(at)]
        found[tuple(axis[level] for level in range(len(levels)) for axis in axes)] = position
    return found


@st.composite
def covering(draw, n):
    """Sizes of one or two levels that reach the end of an axis of n, often past it."""
    inner = draw(st.integers(1, min(n + 2, 9)))
    return (-(-n // inner), inner)


@st.composite
def stacks(draw):
    """A layout of tiles and padding in any order over a bijection, and the elements that it should have."""
    n = draw(st.sampled_from([1, 2, 3, 5, 7, 12, 13, 30, 36, 64]))
    base = draw(st.sampled_from([Row, Col]).map(lambda kind: as_layout(kind(n))))
    if draw(st.booleans()):
        base = GroupBy(draw(factorizations(n, max_rank=2)), orders=(OrderBy(draw(permutations(n))),))
    layout, elements = base, elements_of(base)
    for _ in range(draw(st.integers(1, 3))):
        dims = layout.dims()
        step = draw(st.sampled_from(["tile", "tile", "pad", "transpose"]))
        if step == "pad":
            limits = [draw(st.integers(max(1, n - 3), n)) for n in dims]
            layout, elements = Padded(layout, limits), padded(elements, limits)
        elif step == "transpose" and len(dims) == 2:
            layout, elements = Transposed(layout), {at[::-1]: p for at, p in elements.items()}
        elif step == "tile":
            levels = list(zip(*(draw(covering(n)) for n in dims), strict=True))
            if prod(n for level in levels for n in level) <= MOST and len(dims) <= 3:
                layout, elements = layout.tile_by(*levels), tiled(elements, levels)
    return layout, elements


def with_elements(*steps):
    layout, elements = as_layout(Row(100)), elements_of(as_layout(Row(100)))
    for kind, *sizes in steps:
        if kind == "tile":
            layout, elements = layout.tile_by(*sizes), tiled(elements, sizes)
        else:
            layout, elements = Padded(layout, sizes[0]), padded(elements, sizes[0])
    return layout, elements


TILES_OF_TILES = with_elements(("tile", [4], [32]), ("tile", [4, 8], [1, 4]))
PADDED_TILES = with_elements(("tile", [4], [32]), ("pad", [4, 31]))
PADDED_TWICE = with_elements(("tile", [4], [32]), ("pad", [4, 31]), ("tile", [2, 5], [2, 7]), ("pad", [2, 5, 2, 6]))


def grid(dims):
    return tuple(np.unravel_index(np.arange(prod(dims)), dims))


def truth(elements, at):
    """For each index of a grid whether it names an element."""
    return np.array([tuple(map(int, i)) in elements for i in zip(*at, strict=True)])


@settings(max_examples=300)
@given(stacks())
@example(TILES_OF_TILES)
@example(PADDED_TILES)
@example(PADDED_TWICE)
def test_masks_positions_and_counts_are_those_of_every_level(stack):
    layout, elements = stack
    assert isinstance(layout.check(), Proved)
    assert layout.numel() == len(elements)
    at = grid(layout.dims())
    expected = truth(elements, at)
    assert np.array_equal(np.broadcast_to(layout.mask(*at), expected.shape), expected)
    inside = tuple(i[expected] for i in at)
    positions = np.array([elements[tuple(map(int, i))] for i in zip(*inside, strict=True)], dtype=int)
    assert np.array_equal(layout.apply(*inside), positions)
    assert len(set(positions.tolist())) == len(elements)
    held = np.isin(np.arange(layout.physical_size()), positions)
    assert np.array_equal(np.broadcast_to(layout.holds(np.arange(layout.physical_size())), held.shape), held)
    assert all(np.array_equal(a, b) for a, b in zip(layout.inv(positions), inside, strict=True))
    if "Padded" not in repr(layout):
        assert np.array_equal(np.sort(positions), np.arange(layout.numel()))


@settings(max_examples=100)
@given(stacks(), st.data())
@example(PADDED_TILES, None)
def test_numbers_and_symbols_have_the_masks_of_arrays(stack, data):
    layout, elements = stack
    at = grid(layout.dims())
    k = -1 if data is None else data.draw(st.integers(0, len(at[0]) - 1))
    one = tuple(int(i[k]) for i in at)
    assert layout.mask(*one) is (one in elements)
    if one in elements:
        assert layout.apply(*one) == elements[one]
        assert layout.inv(elements[one]) == one
    else:
        with pytest.raises(LayoutIndexError, match="is past the end"):
            layout.apply(*one)
    position = layout.physical_size() - 1 if data is None else data.draw(st.integers(0, layout.physical_size() - 1))
    held = position in elements.values()
    assert layout.holds(position) is held
    if not held:
        with pytest.raises(LayoutError, match="is padding"):
            layout.inv(position)
    symbols = [index_symbol(f"i{axis}") for axis in range(len(at))]
    values = {s.expr: i for s, i in zip(symbols, at, strict=True)}
    mask = layout.mask(*symbols)
    found = mask if mask is True else evaluate(mask.expr, values)
    assert np.array_equal(np.broadcast_to(found, at[0].shape), truth(elements, at))
    inside = truth(elements, at)
    found = np.broadcast_to(evaluate(layout.apply(*symbols).expr, values), inside.shape)
    assert np.array_equal(found[inside], layout.apply(*(i[inside] for i in at)))


@settings(max_examples=60)
@given(stacks(), st.data())
def test_slices_have_the_masks_of_their_indices(stack, data):
    layout, _ = stack
    dims = layout.dims()
    whole = np.broadcast_to(layout.mask(*np.indices(dims)), dims)
    index = tuple(
        data.draw(st.one_of(st.integers(0, n - 1), st.slices(n).filter(lambda s, n=n: len(range(*s.indices(n))))))
        for n in dims
    )
    if not any(isinstance(i, slice) for i in index):
        return
    taken = layout[index]
    mask = taken.mask
    if not isinstance(mask, bool):
        values = {c.symbol.expr: i for c, i in zip(taken.colons, np.indices(taken.shape), strict=True)}
        mask = evaluate(mask.expr, values)
    assert np.array_equal(np.broadcast_to(mask, taken.shape), whole[index])


@settings(max_examples=60)
@given(stacks(), st.sampled_from(["t.py.jinja", "t.cu.jinja"]))
@example(TILES_OF_TILES, "t.py.jinja")
@example(PADDED_TILES, "t.cu.jinja")
def test_the_text_of_a_mask_means_the_mask(stack, name):
    layout, elements = stack
    names = [f"i{axis}" for axis in range(len(layout.dims()))]
    rendered = Template.of(
        "{{ L.mask[" + ", ".join(names) + "] }}", name, L=layout, **{n: index(n) for n in names}
    ).render()
    values = {n: i.astype(np.int64) for n, i in zip(names, grid(layout.dims()), strict=True)}
    if name == "t.py.jinja":
        found = read_triton.evaluate(rendered.text, values) if rendered.text not in ("True", "None") else True
    else:
        given = {n: read_c.TypedValue(i, "int") for n, i in values.items()}
        found = read_c.evaluate(rendered.text, given) if rendered.text != "true" else True
    expected = truth(elements, grid(layout.dims()))
    assert np.array_equal(np.broadcast_to(np.asarray(found).astype(bool), expected.shape), expected), rendered.text


@settings(max_examples=25)
@given(stacks(), st.data())
@example(TILES_OF_TILES, None)
@example(PADDED_TILES, None)
def test_a_kernel_touches_the_elements_and_nothing_else(stack, data):
    layout, elements = stack
    dims = layout.dims()
    threads = int(prod(dims))

    @lego.kernel(grid=1, block=threads)
    def double(x: lego.Tensor(i32, layout), y: lego.Tensor(i32, layout), z: lego.Tensor(i32, Row(threads))):
        at, rest = [], lego.thread_id[0]
        for n in reversed(dims):
            at.append(rest % n)
            rest = rest // n
        at = tuple(reversed(at))
        loaded = x.load(*at, other=-5)
        z[lego.thread_id[0]] = loaded
        y[at] = loaded * 2

    size = layout.physical_size()
    x, y, z = (np.array(a, dtype=np.int32) for a in (np.arange(size), np.full(size, -77), np.zeros(threads)))
    report = interp.launch(double.mlir(), grid=[1], block=[threads], args=[x, y, z])
    assert report.clean, [str(fault.message) for fault in report.faults]
    expected = np.full(size, -77)
    for position in elements.values():
        expected[position] = 2 * position
    assert np.array_equal(y, expected)
    loads = [elements.get(tuple(map(int, i)), -5) for i in zip(*grid(dims), strict=True)]
    assert np.array_equal(z, loads)


@settings(max_examples=100)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2), st.integers(1, 4))
def test_masks_and_counts_of_symbolic_sizes(n, tile, less, split):
    size = lego.size("n")
    outer = lego.cdiv(size, tile)
    stack = Padded(Row(size).tile_by([outer], [tile]), [outer, max(1, tile - less)])
    stack = stack.tile_by([outer, lego.cdiv(max(1, tile - less), split)], [1, split])
    concrete = Padded(Row(n).tile_by([-(-n // tile)], [tile]), [-(-n // tile), max(1, tile - less)])
    concrete = concrete.tile_by([-(-n // tile), -(-max(1, tile - less) // split)], [1, split])
    at = grid(concrete.dims())
    symbols = [index_symbol(f"i{axis}") for axis in range(4)]
    values = {"n": n, **{s.expr: i for s, i in zip(symbols, at, strict=True)}}
    mask = stack.mask(*symbols)
    found = mask if isinstance(mask, bool) else evaluate(mask.expr, values)
    expected = np.broadcast_to(concrete.mask(*at), at[0].shape)
    assert np.array_equal(np.broadcast_to(found, at[0].shape), expected)
    assert int(evaluate(as_expr(stack.numel()), values)) == concrete.numel() == expected.sum()


def table_of(n):
    return gallery.table([n], [(7 * k) % n for k in range(n)])  # 7 shares no factor with n


def test_no_table_is_read_past_its_end():
    tiles = as_layout(table_of(100)).tile_by([4], [32])
    at = grid(tiles.dims())
    assert tiles.apply(*at).max() < 100
    i = index("i")
    text = Template.of("{{ A[i, 31] }}", "t.py.jinja", A=tiles, i=i).render().text
    assert "minimum(i * 32 + 31, 99)" in text
    exact = Template.of("{{ A[i, 24] }}", "t.py.jinja", A=as_layout(table_of(100)).tile_by([4], [25]), i=i)
    assert "minimum" not in exact.render().text


def test_a_kernel_through_a_table_under_partial_tiles_runs_clean():
    layout = as_layout(table_of(100)).tile_by([4], [32])

    @lego.kernel(grid=4, block=32)
    def copy(x: lego.Tensor(i32, Row(100)), y: lego.Tensor(i32, table_of(100))):
        b, t = lego.block_id[0], lego.thread_id[0]
        y.tile_by([4], [32])[b, t] = x.tile_by([4], [32])[b, t]

    x, y = np.arange(100, dtype=np.int32), np.full(100, -77, dtype=np.int32)
    report = interp.launch(copy.mlir(), grid=[4], block=[32], args=[x, y])
    assert report.clean, [str(fault.message) for fault in report.faults]
    assert np.array_equal(y[(7 * np.arange(100)) % 100], x)
    assert layout.numel() == 100


def test_the_mask_of_an_index_that_may_leave_the_layout_keeps_it_inside():
    u, v = index("u", 200), index("v", 40, start=-3)
    for layout in (Row(100, 32), Padded(Row(100, 40), [100, 32])):
        for name, both in (("t.py.jinja", "&"), ("t.cu.jinja", "&&")):
            text = Template.of("{{ P.mask[u, v] }}", name, P=layout, u=u, v=v).render().text
            assert text == f"(0 <= v) {both} (u < 100) {both} (v < 32)"
        text = Template.of("{{ P.mask[u, :] }}", "t.py.jinja", P=layout, u=u).render().text
        assert text == "u < 100"
        inside = Template.of("{{ P.mask[u, v] }}", "t.py.jinja", P=layout, u=index("u", 100), v=index("v", 32))
        assert inside.render().text == "True"
    (checked,) = check(Template.of("{{ P.mask[u, v] }}", "t.py.jinja", P=layout, u=u, v=v).render())
    assert checked.error is None
    assert checked.exhaustive


def test_an_index_of_another_number_of_axes_is_refused_by_the_mask():
    with pytest.raises(LayoutError, match=r"mask takes 2 indices for the logical sizes \[4, 32\], got 1"):
        Row(100).tile_by([4], [32]).mask(3)


def test_a_descriptor_cannot_mask_tiles_of_tiles():
    tiles = Row(100).tile_by([4], [32]).tile_by([2, 2], [2, 16])
    with pytest.raises(TemplateError, match=r"the layout under its tiles, Row\(100\).* is masked itself"):
        Template.of('{{ descriptor("x", A) }}', "t.py.jinja", A=tiles).render()
