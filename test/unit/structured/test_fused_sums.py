"""Sums as factors of products: values as NumPy has them, no temporary, and each sum added once."""

import random

import numpy as np
import pytest

from lego_mlir import structured
from lego_mlir.structured import entry_point, error_bounds, mlir_text, reference
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.fused_sums import fused_sums
from lego_mlir.structured.vector.generate import Variant

LOWER = ("LowerTriangular({n})", "Diagonal({n})", "LowerTriangular({n})")
UPPER = ("UpperTriangular({n})", "Diagonal({n})", "Identity({n})", "UpperTriangular({n})")
SQUARE = (*LOWER, *UPPER, "Symmetric(L, {n})", "Symmetric(U, {n})", "Matrix({n}, {n})")
COMPOSITE = (
    "A = Matrix({n}, {n}); L0 = LowerTriangular({n}); L1 = LowerTriangular({n}); S = Symmetric(L, {n}); "
    "x = Vector({n}); A = (L0 + L1)*S + x*x';"
)
FORMS = (
    "({sum})*S",
    "({sum})'*S",
    "S*({sum})",
    "({sum})*S + x*x'",
    "2.5*({sum})*S - S",
    "S*({sum})' + A",
    "-({sum})*S",
)


def drawn(seed):
    """A program whose product has a sum of two to four matrices as a factor."""
    choose = random.Random(seed)
    n, kinds, mark = choose.randint(5, 9), choose.choice((LOWER, UPPER, SQUARE)), choose.choice(["", "'"])
    names = [f"P{k}" for k in range(choose.randint(2, 4))]
    declared = [f"{name} = {choose.choice(kinds).format(n=n)};" for name in names]
    terms = [name + (mark if kinds != SQUARE else choose.choice(["", "'"])) for name in names]
    signs = ["" if k == 0 else choose.choice([" + ", " - "]) for k in range(len(names))]
    summed = "".join(sign + term for sign, term in zip(signs, terms, strict=True))
    declared.append(f"S = {choose.choice(SQUARE).format(n=n)}; A = Matrix({n}, {n}); x = Vector({n});")
    return f"{' '.join(declared)} A = {choose.choice(FORMS).format(sum=summed)};"


@pytest.mark.parametrize(
    "variant",
    [
        Variant(4, 4, 4, fused=True),
        Variant(4, 8, 3, fused=True),
        Variant(2, 4, 5, fused=True),
        Variant(1, 8, 9, fused=True),
    ],
    ids=str,
)
def test_sums_as_factors_are_those_of_numpy(variant):
    fused = 0
    for seed in range(15):
        text = drawn(seed)
        try:
            kernel = structured.compile(text, cache=None, variant=variant)
        except structured.LLError:
            continue
        fused += bool(fused_sums(lower(kernel.program).steps, variant.width, variant.width * variant.vectors))
        arrays = reference.sample(kernel.program, kernel.dtype, seed)
        allowed = error_bounds.allowed(kernel.program, arrays, "f64")
        kernel(*(arrays[o.name].reshape(entry_point.array_shape(o)) for o in kernel.program.operands))
        (expected, bound) = allowed["A"]
        assert (np.abs(arrays["A"].reshape(expected.shape) - expected) <= bound).all(), text
    assert fused >= 3


def emitted(text, variant):
    return generate.emit(lower(parse(text)), "k", "f64", variant)


@pytest.mark.parametrize("n", [8, 12])
def test_the_composite_has_no_temporary_and_no_more_operations_than_the_paper_counts(n):
    """n^3 + 5/2 (n^2 + n), table 4; additions of vectors only join the two halves of rows of S."""
    function = emitted(COMPOSITE.format(n=n), Variant(4, 4, 3, fused=True))
    assert "t0" not in function.scratch
    lines = mlir_text.text(function).splitlines()
    assert not any("t0" in line for line in lines)
    worth = {"vector.fma": 8, "arith.mulf": 4, "arith.addf": 1}
    done = [
        name
        for line in lines
        for name in worth
        if f" {name} " in line and (name != "arith.addf" or "vector" not in line)
    ]
    assert done.count("arith.addf") == n * (n + 1) // 2
    assert sum(map(worth.__getitem__, done)) <= n**3 + 2.5 * (n * n + n)


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        (COMPOSITE.format(n=14), Variant(4, 4, 3, fused=True)),  # several panels would add it again
        (COMPOSITE.format(n=4), Variant(4, 4, 3, fused=True)),  # rows of one vector
        (COMPOSITE.format(n=12), Variant(4, 4, 3, True, True)),  # rolled
        (
            "A = Matrix(8, 8); B = Matrix(8, 8); C = Matrix(8, 8); A = (B + C)*A;",
            Variant(4, 4, 3, fused=True),
        ),  # no zeros
        (
            "L = LowerTriangular(8); M = LowerTriangular(8); L = (L + M)*M;",
            Variant(4, 4, 3, fused=True),
        ),  # overwritten meanwhile
        (
            "A = Matrix(8, 8); L = LowerTriangular(8); M = LowerTriangular(8); A = (L + M)*(L + M);",
            Variant(4, 4, 3, fused=True),
        ),
        ("x = Vector(8); L = LowerTriangular(8); M = LowerTriangular(8); x = (L + M)*x;", Variant(4, 4, 3, fused=True)),
    ],
)
def test_other_sums_keep_their_temporary(text, variant):
    assert "t0" in emitted(text, variant).scratch


def test_without_fused_every_sum_keeps_its_temporary():
    assert "t0" in emitted(COMPOSITE.format(n=12), Variant(4, 4, 3)).scratch
