"""A permutation too large, or too symbolic, for its constructor is proved before anything built on it gives an answer.

Every use of every composition is tried on a pair that is not a bijection; and a proof runs once, not once per use.
"""

import numpy as np
import pytest
import sympy

import lego_mlir as lego
from lego_mlir import Col, GenP, OrderBy, Padded, Row, TileOrderBy, as_layout, gallery
from lego_mlir.errors import LayoutError, LegoError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.layout import checking
from lego_mlir.layout.proving import proved
from lego_mlir.layout.transposed import Transposed
from lego_mlir.templates import Template, indices
from lego_mlir.templates.header import header

SIDE = 512
N = lego.size("N", min=4)
K = lego.size("K")
i, j, k, m = lego.symbols("i j k m")


def colliding(n):
    return GenP([n, n], lambda i, j: i + j, lambda p: (p // 2, p % 2))


def transposing(n):
    return GenP([n, n], lambda i, j: j * n + i, lambda p: (p % n, p // n))


def tiled(piece, tile=8):
    count = lego.cdiv(piece.dims()[0], tile)
    return as_layout(piece).tile_by([count, count], [tile, tile])


COMPOSED = {
    "itself": lambda piece: piece,
    "as_layout": as_layout,
    "OrderBy": lambda piece: OrderBy(Row(2, 1), piece),
    "GroupBy": lambda piece: OrderBy(piece).GroupBy([piece.numel()]),
    "a chain": lambda piece: OrderBy(Col(*piece.dims())).OrderBy(piece).GroupBy(piece.dims()),
    "TileOrderBy": lambda piece: TileOrderBy(Row(2, 2), piece).GroupBy([2 * n for n in piece.dims()]),
    "TileBy": lambda piece: OrderBy(piece).TileBy([1, 1], piece.dims()),
    "tile_by": tiled,
    "ragged tile_by": lambda piece: tiled(piece, 7),
    "Padded": lambda piece: Padded(piece, [4, 4]),
    "Padded, tiled": lambda piece: Padded(tiled(piece), [1, 1, 4, 4]),
    "transposed": lambda piece: Transposed(as_layout(piece)),
}


def first(layout):
    return (0,) * len(layout.dims())


def named(layout):
    return lego.symbols(" ".join(f"x{axis}" for axis in range(len(layout.dims()))) + " unused")[:-1]


USES = {
    "apply": lambda layout: layout.apply(*first(layout)),
    "inv": lambda layout: layout.inv(0),
    "arrays": lambda layout: layout.apply(np.arange(1), *first(layout)[1:]),
    "inv of an array": lambda layout: layout.inv(np.arange(2)),
    "symbols": lambda layout: layout.apply(*named(layout)),
    "SymPy": lambda layout: layout.apply(sympy.Symbol("a", integer=True), *first(layout)[1:]),
    "inv of a symbol": lambda layout: layout.inv(i),
    "index": lambda layout: layout[first(layout)],
    "slice": lambda layout: layout[(slice(None, 1), *first(layout)[1:])],
    "mask": lambda layout: layout.mask(*first(layout)),
    "mask of symbols": lambda layout: layout.mask(*named(layout)),
    "derive": lambda layout: layout.derive(),
    "derive_inv": lambda layout: layout.derive_inv(),
    "explain": lambda layout: layout.explain(),
    "require": lambda layout: layout.require(),
    "tensor": lambda layout: lego.Tensor(lego.f32, layout),
}


@pytest.mark.parametrize(
    ("n", "composed", "use"),
    [(n, c, u) for n in (SIDE, N) for c in COMPOSED for u in USES if n is SIDE or "array" not in u],
    ids=str,
)
def test_no_use_answers_for_what_is_no_bijection(n, composed, use):
    layout = COMPOSED[composed](colliding(n))
    for _ in range(2):  # twice: an error does not count as a proof
        with pytest.raises(LayoutError, match=r"is not a bijection: .*apply maps \[0, 1\] and \[1, 0\] both to pos"):
            USES[use](layout)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("composed", COMPOSED)
def test_the_same_uses_of_a_bijection_answer(composed, use):
    USES[use](COMPOSED[composed](transposing(SIDE)))


def test_other_uses_are_refused():
    bad = colliding(SIDE)
    a, b = indices("a b")
    for use in (
        lambda: Padded(bad, [4, 4]).holds(0),
        lambda: gallery.tabulated(bad),
        lambda: header("Bad", bad),
        lambda: Template.of("{{ A[a, b] }}\n", "t.py.jinja", A=as_layout(bad), a=a, b=b).render(),
        lambda: Template.of("{{ A[a, b, :, :] }}\n", "t.py.jinja", A=tiled(bad), a=a, b=b).render(),
        lambda: Template.of("{{ A.inv(a)[0] }}\n", "t.cu.jinja", A=as_layout(bad), a=a).render(),
    ):
        with pytest.raises(LegoError, match="is not a bijection"):
            use()


def test_check_of_a_spec_with_a_template_of_it_fails(tmp_path, capsys):
    from lego_mlir.cli.main import main

    spec = tmp_path / "spec.py"
    spec.write_text(
        "from lego_mlir import GenP, as_layout\n"
        "from lego_mlir.templates import Template\n"
        "bad = GenP([512, 512], lambda i, j: i + j, lambda p: (p // 2, p % 2))\n"
        "t = Template.of('{{ A[3, 4] }}\\n', 't.py.jinja', A=as_layout(bad))\n"
    )
    assert main(["check", str(spec)]) != 0
    assert "apply maps [0, 1] and [1, 0] both to position 1" in "".join(capsys.readouterr())


# ---- once


@pytest.fixture
def checks(monkeypatch):
    """The permutations that are checked from here on, nothing being known of any."""
    made = []
    check = checking.check_permutation
    monkeypatch.setattr(checking, "check_permutation", lambda perm: made.append(perm) or check(perm))
    monkeypatch.setattr(checking, "_verdicts", type(checking._verdicts)())
    return made


def test_a_piece_is_checked_once_whatever_is_built_on_it(checks):
    piece = transposing(SIDE)
    for compose in COMPOSED.values():
        for use in USES.values():
            use(compose(piece))
    assert checks == [piece]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gallery.hilbert(SIDE),
        lambda: gallery.morton(SIDE, 2 * SIDE),
        lambda: gallery.xor_swizzle(SIDE, SIDE, vec=4),
        lambda: gallery.antidiagonal(SIDE),
        lambda: gallery.reverse(N, K),
        lambda: gallery.block_cyclic(2**18, 4, 8),
    ],
    ids=lambda make: repr(make()),
)
def test_an_equal_piece_is_not_checked_again(checks, make):
    assert isinstance(make().check(), Proved)
    for _ in range(2):
        make().inv(0)
    assert len(checks) == 1


def test_pieces_that_differ_in_what_they_were_made_with_are_checked_each(checks):
    pieces = [
        gallery.xor_swizzle(SIDE, SIDE),
        gallery.xor_swizzle(SIDE, SIDE, vec=2),
        gallery.reverse(N, K),
        gallery.reverse(N, lego.size("K", multiple_of=2)),
        gallery.xor_swizzle(N, 8),
        gallery.xor_swizzle(N, 4),
    ]
    for piece in pieces:
        piece.require()
    assert checks == pieces


def test_a_name_is_no_proof():
    """Functions of this package put together by somebody else, under a name that is in use."""
    p, q = gallery.xor_swizzle(SIDE, SIDE), gallery.xor_swizzle(SIDE, SIDE, vec=2)
    GenP([SIDE, SIDE], p.f, p.f_inv, text="mine").require()
    with pytest.raises(LayoutError, match="is not a bijection"):
        GenP([SIDE, SIDE], p.f, q.f_inv, text="mine").apply(0, 0)


def test_functions_of_others_are_checked_again_when_they_are_used_again():
    """A function may depend on a variable that has changed since."""
    variables = {"n": SIDE}
    f, f_inv = (lambda i, j: i * variables["n"] + j), (lambda p: (p // SIDE, p % SIDE))
    GenP([SIDE, SIDE], f, f_inv).apply(0, 0)
    variables["n"] -= 1
    with pytest.raises(LayoutError, match=r"apply maps \[0, 511\] and \[1, 0\] both to position 511"):
        GenP([SIDE, SIDE], f, f_inv).apply(0, 0)


def test_few_verdicts_are_kept(checks, monkeypatch):
    monkeypatch.setattr(checking, "REMEMBERED", 2)
    for rows in (2, 3, 5, 2):
        gallery.reverse(N, rows).require()
    assert len(checks) == 4 and len(checking._verdicts) == 2


# ---- an undecided pair may be used


@pytest.mark.parametrize(
    "piece",
    [
        GenP([2**17], lambda i: i if i % 2 else i + 0, lambda p: (p,)),  # called once an element
        gallery.hilbert(2**13),  # more elements than are enumerated
        gallery.antidiagonal(N),  # true, and beyond the prover
    ],
    ids=repr,
)
def test_unknown_is_let_through(piece):
    assert isinstance(piece.check(), Unknown)
    assert as_layout(piece).inv(0) is not None


# ---- symbolic pieces


@pytest.mark.parametrize(
    "piece",
    [
        gallery.reverse(K // 2),  # no element for K = 1
        gallery.reverse(K - 2, 3),
        GenP([N], lambda i: (i + K) % N, lambda p: ((p - K) % N,)),  # a size that is in the functions alone
        GenP(
            [K], lambda i: lego.where(K > 1, i % K, i // (K - 1)), lambda p: (p,)
        ),  # for K = 1 one choice divides by 0
    ],
    ids=["no element", "less than none", "another size", "a choice not made"],
)
def test_instances_that_say_nothing_are_passed_over(piece):
    assert isinstance(piece.check(), Proved)
    piece.apply(*(i, j)[: len(piece.dims())])


def test_a_size_in_the_functions_alone_may_refute():
    verdict = GenP([N], lambda i: i * K % N, lambda p: (p,)).check()
    assert isinstance(verdict, Refuted) and verdict.counter_example["K"] != 1


def test_a_number_of_tiles_is_proved_under_a_name_of_its_own():
    """Two that are the same number have one name, two that may differ have two."""
    rows, columns = lego.cdiv(K, 128), lego.cdiv(K, 64)
    for n in (rows, columns):
        right = GenP([rows, n], lambda i, j, rows=rows: j * rows + i, lambda p, rows=rows: (p % rows, p // rows))
        assert isinstance(proved(right), Proved)
        wrong = GenP([rows, n], lambda i, j, n=n: j * n + i, lambda p, n=n: (p % n, p // n))
        assert isinstance(proved(wrong), Proved) == (n is rows)


@pytest.mark.parametrize("name", ["i0", "i1", "p", "i"])
def test_sizes_may_have_the_names_of_the_checker_and_of_derivations(name):
    n = lego.size(name, max=64)
    skewed = GenP([n, n], lambda i, j: i * n + j, lambda p: (p // n, p % n))
    assert isinstance(skewed.check(), Proved)
    layout = OrderBy(skewed).GroupBy([n, n])
    derived = layout.derive()
    index = sorted(str(s) for s in derived.expr.free_symbols - {n.expr})
    assert len(index) == 2 and name not in index
    values = {str(n.expr): 5, index[0]: 3, index[1]: 4}
    assert evaluate(derived.expr, values) == 19
    assert isinstance(gallery.antidiagonal(n).check(), Unknown)  # what cannot be proved is not refuted
