"""The spaces from which the defaults of structured programs are judged: width, register tile, rolled or not.

    lego-mlir tune bench/recipes/structured-dsylmm.json --store bench/recipes/structured_timings.jsonl

`structured.vector.generate.default` chooses without tuning. `test/unit/tuning/test_shipped_recipes.py` reads the
timings of these recipes: the default of each size is among them, and not much slower than the fastest.
"""

import lego_mlir as lego
from lego_mlir.structured import source_of
from lego_mlir.structured.vector.generate import Variant

PROGRAMS = {
    "dsyrk": "S = Symmetric(U, {n}); A = Matrix({n}, 4); S = A*A' + S;",
    "dtrsv": "x = Vector({n}); L = LowerTriangular({n}); x = L \\ x;",
    "dsylmm": "A = Matrix({n}, {n}); S = Symmetric(U, {n}); L = LowerTriangular({n}); A = S*L + A;",
    "dlusmm": "A = Matrix({n}, {n}); L = LowerTriangular({n}); U = UpperTriangular({n}); S = Symmetric(L, {n}); "
    "A = L*U + S;",
    "composite": "A = Matrix({n}, {n}); L0 = LowerTriangular({n}); L1 = LowerTriangular({n}); S = Symmetric(L, {n}); "
    "x = Vector({n}); A = (L0 + L1)*S + x*x';",
}
"""The cases of bench/structured.py."""
SPACE = {"width": [2, 4, 8], "tile": [(4, 4), (8, 2), (8, 1), (4, 2)], "rolled": [False, True]}


def tunable(name: str) -> lego.Tunable:
    """The variants of a program for any size."""

    def build(width: int, tile: tuple[int, int], rolled: bool, n: int) -> object:
        return source_of(PROGRAMS[name].format(n=n), variant=Variant(width, *tile, rolled))

    build.__name__ = name
    return lego.tune(space=SPACE, key=["n"])(build)


dsyrk, dtrsv, dsylmm, dlusmm, composite = (tunable(name) for name in PROGRAMS)
