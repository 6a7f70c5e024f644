"""Random chains of the algebra's operations, each against an array: a layout is a table of positions, nothing more.

A drawn layout carries the array of its positions, with -1 where an index names no element. Every operation is done
twice, on the layout by its method and on the array by NumPy alone, and after each both must agree.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, GroupBy, OrderBy, RegP, Row, TileBy, TileOrderBy, as_layout, gallery
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.substitute import sizes_of

from strategies import factorizations, orders, permutations

COUNTS = (1, 2, 3, 5, 7, 11, 13, 4, 8, 9, 12, 16, 25, 30, 36, 49, 60, 64, 72)


def table_of(layout):
    """The positions of a layout without partial tiles, by one call of `apply` with ints for each index."""
    dims = layout.dims()
    flat = [layout.apply(*map(int, np.unravel_index(k, dims))) for k in range(int(np.prod(dims)))]
    return np.array(flat, dtype=np.int64).reshape(dims)


def of_permutation(sizes, sigma):
    """The positions of RegP from its definition: the axes are stored in the order of sigma."""
    n = int(np.prod(sizes))
    stored = np.arange(n).reshape([sizes[axis - 1] for axis in sigma])
    return stored.transpose(np.argsort([axis - 1 for axis in sigma]))


def tiled(table, levels):
    """The positions by tiles: -1 for an index past the end of the array's own axes."""
    rank = table.ndim
    index = np.indices([n for level in levels for n in level])
    at = [np.zeros(index.shape[1:], int) for _ in range(rank)]
    for k, level in enumerate(levels):
        for axis in range(rank):
            at[axis] = at[axis] * level[axis] + index[k * rank + axis]
    inside = np.logical_and.reduce([i < n for i, n in zip(at, table.shape, strict=True)])
    return np.where(inside, table[tuple(np.minimum(i, n - 1) for i, n in zip(at, table.shape, strict=True))], -1)


@st.composite
def starts(draw, n):
    """A layout of n elements, and its table."""
    kind = draw(st.sampled_from(["regular", "tile order", "tiles", "chain", "permutation", "inverse"]))
    if kind == "regular":
        sizes = draw(factorizations(n))
        sigma = draw(st.permutations(range(1, len(sizes) + 1)))
        return as_layout(RegP(sizes, sigma)), of_permutation(sizes, sigma)
    if kind == "tile order":
        rank = draw(st.integers(1, 2))
        sizes = draw(factorizations(n, max_rank=2 * rank))
        sizes += [1] * (-len(sizes) % rank)
        levels = [sizes[k : k + rank] for k in range(0, len(sizes), rank)]
        turned = [draw(st.booleans()) for _ in levels]
        layout = TileOrderBy(*((Col if t else Row)(*level) for t, level in zip(turned, levels, strict=True)))
        layout = layout.GroupBy([int(np.prod([level[axis] for level in levels])) for axis in range(rank)])
        return layout, in_tiles(levels, turned)
    if kind == "tiles":
        rank = draw(st.integers(1, 2))
        sizes = draw(factorizations(n, max_rank=2 * rank))
        sizes += [1] * (-len(sizes) % rank)
        levels = [sizes[k : k + rank] for k in range(0, len(sizes), rank)]
        whole = [int(np.prod([level[axis] for level in levels])) for axis in range(rank)]
        return TileBy(*levels), tiled(np.arange(n).reshape(whole), levels)
    if kind == "chain":
        layout = GroupBy(draw(factorizations(n)), orders=tuple(draw(orders(n)) for _ in range(draw(st.integers(0, 2)))))
    else:
        layout = as_layout(draw(permutations(n)))
        if kind == "inverse":
            forward = table_of(layout).reshape(-1)
            return layout.inverse(), np.argsort(forward)
    return layout, table_of(layout)


def in_tiles(levels, turned):
    """The positions of a box stored tile by tile, each level in its own order, the outermost leading."""
    rank = len(levels[0])
    box = [int(np.prod([level[axis] for level in levels])) for axis in range(rank)]
    rest, found, weight = list(np.indices(box)), np.zeros(box, int), 1
    for level, columns in reversed(list(zip(levels, turned, strict=True))):
        inner = np.zeros(box, int)
        digits = [i % n for i, n in zip(rest, level, strict=True)]
        rest = [i // n for i, n in zip(rest, level, strict=True)]
        order = range(rank - 1, -1, -1) if columns else range(rank)
        for axis in order:
            inner = inner * level[axis] + digits[axis]
        found, weight = found + weight * inner, weight * int(np.prod(level))
    return found


@st.composite
def programs(draw, most=4):
    """A layout after some operations, its table by NumPy, and the text of what was done."""
    n = draw(st.sampled_from(COUNTS))
    layout, table = draw(starts(n))
    done = [repr(layout)]
    for _ in range(draw(st.integers(1, most))):
        operation = draw(st.sampled_from(["compose", "inverse", "transpose", "reshape", "tile", "slice"]))
        full = bool((table >= 0).all()) and table.size == layout.physical_size()
        if operation == "tile":
            inner = [draw(st.integers(1, n)) for n in table.shape]
            if len(inner) > 3 or 4 * table.size > 600:
                continue
            levels = [[-(-n // t) for n, t in zip(table.shape, inner, strict=True)], inner]
            layout, table = layout.tile_by(*levels), tiled(table, levels)
            done.append(f"tile_by{levels}")
        elif operation == "transpose" and full:
            order = draw(st.permutations(range(1, table.ndim + 1)))
            layout, table = layout.transpose(*order), table.transpose([axis - 1 for axis in order])
            done.append(f"transpose{order}")
        elif operation == "slice" and (table >= 0).all():
            axis, keep = draw(st.integers(0, table.ndim - 1)), slice(None)
            index = tuple(draw(st.integers(0, m - 1)) if k == axis else keep for k, m in enumerate(table.shape))
            part = table[index]
            assert np.array_equal(np.asarray(layout[index] if part.ndim == 0 else layout[index].positions()), part)
            if part.ndim and part.max() - part.min() + 1 == part.size:
                layout, table = layout[index].as_layout(), part - part.min()
                done.append(f"[{index}].as_layout()")
        elif not full:
            continue
        elif operation == "compose":
            other, right = draw(starts(table.size))
            layout, table = layout @ other, table.reshape(-1)[right]
            done.append(f"@ {other!r}")
        elif operation == "inverse":
            layout, table = layout.inverse(), np.argsort(table.reshape(-1))
            done.append("inverse()")
        elif operation == "reshape":
            sizes = draw(factorizations(table.size))
            layout, table = layout.reshape(*sizes), table.reshape(sizes)
            done.append(f"reshape{sizes}")
    return layout, table, " ".join(done)


def require_table(layout, table, symbolic=True):
    """Raise AssertionError where a layout is not this table, by arrays, by symbols and backwards."""
    table = table.reshape(layout.dims()) if table.ndim == 1 and layout.numel() == table.size else table
    assert layout.dims() == table.shape
    named, at = table >= 0, np.indices(table.shape)
    inside = tuple(i[named] for i in at)
    assert layout.numel() == named.sum()
    assert np.array_equal(np.broadcast_to(layout.mask(*at), named.shape), named)
    assert np.array_equal(layout.apply(*inside), table[named])
    assert all(np.array_equal(a, b) for a, b in zip(layout.inv(table[named]), inside, strict=True))
    assert isinstance(layout.check(), Proved)
    if symbolic:
        symbols = [index_symbol(f"i{axis}") for axis in range(table.ndim)]
        values = {str(s): i for s, i in zip(symbols, inside, strict=True)}
        derived = layout.derive(*symbols).expr
        assert np.array_equal(np.broadcast_to(evaluate(derived, values), inside[0].shape), table[named])
        for i, derivation in zip(inside, layout.derive_inv(), strict=True):
            assert np.array_equal(np.broadcast_to(evaluate(derivation.expr, {"p": table[named]}), i.shape), i)


@settings(max_examples=200)
@given(programs())
def test_operations_are_those_of_the_table(program):
    layout, table, _ = program
    require_table(layout, table)


@pytest.mark.long
@settings(max_examples=3000)
@given(programs(most=7))
def test_operations_are_those_of_the_table_at_length(program):
    layout, table, _ = program
    require_table(layout, table)


@st.composite
def sized(draw):
    """A layout of symbolic sizes, what was done to it, and values for the sizes: 1 and primes among them."""
    step = draw(st.sampled_from([1, 1, 2, 3]))
    m = lego.size("M", min=draw(st.sampled_from([1, step])), multiple_of=step)
    n = lego.size("N", max=draw(st.sampled_from([None, 16])))
    values = {
        "M": step * draw(st.sampled_from([1, 2, 3, 5, 7])),
        "N": draw(st.sampled_from([1, 2, 3, 4, 5, 7, 11, 13])),
    }
    layout = draw(
        st.sampled_from(
            [
                Row(m, n),
                Col(m, n),
                RegP([m, 2, n], draw(st.permutations([1, 2, 3]))),
                gallery.antidiagonal(n),
                gallery.reverse(m, n),
                gallery.xor_swizzle(m, 8, vec=draw(st.sampled_from([1, 2, 4]))),
                OrderBy(RegP([m, 2], [2, 1]), Row(n)).GroupBy([2 * m, n]),
                OrderBy(Row(m), gallery.reverse(n)).GroupBy([m, n]),
            ]
        )
    )
    layout = as_layout(layout)
    for _ in range(draw(st.integers(0, 3))):
        operation = draw(st.sampled_from(["transpose", "inverse", "compose", "tile"]))
        if operation == "transpose" and not has_tiles(layout):
            layout = layout.transpose(*draw(st.permutations(range(1, len(layout.dims()) + 1))))
        elif operation == "inverse" and not has_tiles(layout):
            dims = layout.dims()
            layout = layout.inverse().reshape(*dims)
        elif operation == "compose" and not has_tiles(layout):
            layout = layout @ draw(st.sampled_from([Row, Col, gallery.reverse]))(*layout.dims())
        elif operation == "tile" and len(layout.dims()) < 4:
            inner = [draw(st.integers(1, 5)) for _ in layout.dims()]
            outer = [lego.cdiv(n, t) for n, t in zip(layout.dims(), inner, strict=True)]
            layout = layout.tile_by(outer, inner)
    return layout, {name: value for name, value in values.items() if name in sizes_of(layout)}


def has_tiles(layout):
    return "tile_by" in repr(layout)


@settings(max_examples=1500)
@given(sized())
def test_substitution_commutes_with_every_operation(drawn):
    """`subs` gives the layout that the values in the symbolic expressions give."""
    layout, values = drawn
    fixed = layout.subs(**values)
    dims = tuple(int(evaluate(as_expr(n), values)) for n in layout.dims())
    assert fixed.dims() == dims
    at = np.indices(dims)
    named = np.broadcast_to(fixed.mask(*at), dims)
    inside = tuple(i[named] for i in at)
    symbols = [index_symbol(f"i{axis}") for axis in range(len(dims))]
    mask = layout.mask(*symbols)
    given = {**{str(s): i for s, i in zip(symbols, at, strict=True)}, **values}
    found = mask if isinstance(mask, bool) else evaluate(mask.expr, given)
    assert np.array_equal(np.broadcast_to(found, dims), named)
    given = {**{str(s): i for s, i in zip(symbols, inside, strict=True)}, **values}
    position = fixed.apply(*inside)
    assert np.array_equal(np.sort(position), np.arange(named.sum()))
    for expr in (layout.apply(*symbols), layout.derive(*symbols).expr):
        assert np.array_equal(np.broadcast_to(evaluate(as_expr(expr), given), position.shape), position)
    assert int(evaluate(as_expr(layout.numel()), values)) == fixed.numel() == named.sum()
    for i, back in zip(inside, layout.inv(index_symbol("p")), strict=True):
        assert np.array_equal(np.broadcast_to(evaluate(as_expr(back), {"p": position, **values}), i.shape), i)
