"""Matrices over F2, the field of two elements: a vector is an int, a matrix a tuple of its columns.

Bit k of an int is coordinate k of the vector, addition is exclusive or, and a matrix times a vector is the exclusive
or of the columns selected by the vector's bits. Everything else is Gaussian elimination, kept in one place: `Echelon`
stores independent vectors keyed by their lowest set bit, each with the combination of inputs that produced it.

>>> M = BitMatrix((0b01, 0b11), rows=2)
>>> print(M)
1 1
0 1
>>> M @ 0b11, M.rank(), M.inverse()
(2, 2, BitMatrix((1, 3), rows=2))
>>> BitMatrix((0b01, 0b11, 0b10), rows=2).kernel()
(7,)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lego_mlir.errors import LayoutError
from lego_mlir.expr.frozen import Frozen


class Echelon:
    """Independent vectors in echelon form, with the input vectors that each one is the sum of.

    Bit k of a combination represents the k-th vector given to `add`. Dependent vectors are never part of a
    combination, so a solution has its free variables at zero.
    """

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._rows: dict[int, tuple[int, int]] = {}
        self._given = 0
        for vector in vectors:
            self.add(vector)

    @property
    def rank(self) -> int:
        return len(self._rows)

    def reduce(self, vector: int) -> tuple[int, int]:
        """The remainder of a vector after elimination, zero if it is in the span, and the combination subtracted."""
        inputs = 0
        while vector:
            row = self._rows.get(vector & -vector)
            if row is None:
                break
            vector ^= row[0]
            inputs ^= row[1]
        return vector, inputs

    def add(self, vector: int) -> int:
        """Add a vector; zero if it is independent, otherwise the combination of inputs, itself included, that is 0."""
        rest, inputs = self.reduce(vector)
        inputs ^= 1 << self._given
        self._given += 1
        if rest:
            self._rows[rest & -rest] = rest, inputs
            return 0
        return inputs

    def __contains__(self, vector: int) -> bool:
        return self.reduce(vector)[0] == 0


def bits_of(value: int) -> list[int]:
    """The positions of the set bits, lowest first.

    >>> bits_of(0b1011)
    [0, 1, 3]
    """
    return [k for k in range(value.bit_length()) if value >> k & 1]


def combine(columns: Sequence[int], selected: int) -> int:
    """The exclusive or of the selected columns: a matrix times a vector."""
    result = 0
    for k in bits_of(selected):
        result ^= columns[k]
    return result


def units(n: int) -> tuple[int, ...]:
    """The unit vectors of an n-dimensional space."""
    return tuple(1 << k for k in range(n))


def rank(vectors: Iterable[int]) -> int:
    """The dimension of the span."""
    return Echelon(vectors).rank


def independent(vectors: Iterable[int], beside: Iterable[int] = ()) -> tuple[int, ...]:
    """The vectors, in order, that are not in the span of `beside` and the ones before them."""
    echelon = Echelon(beside)
    return tuple(v for v in vectors if echelon.add(v) == 0)


def complement(vectors: Iterable[int], n: int) -> tuple[int, ...]:
    """Unit vectors that complete a span to the n-dimensional space.

    >>> complement([0b011, 0b110], 3)
    (1,)
    """
    return independent(units(n), vectors)


def intersection(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """A basis of the intersection of two spans.

    >>> intersection([0b001, 0b010], [0b011, 0b100])
    (3,)
    """
    a = independent(a)
    kernel = _kernel((*a, *independent(b)))
    return tuple(combine(a, v & ((1 << len(a)) - 1)) for v in kernel)


def solve(columns: Sequence[int], targets: Sequence[int]) -> tuple[int | None, ...]:
    """For each target the solution x of `columns @ x = target`, None if there is none.

    Free variables are zero: a solution uses the leftmost independent columns only.
    """
    echelon = Echelon(columns)
    reduced = (echelon.reduce(target) for target in targets)
    return tuple(None if rest else inputs for rest, inputs in reduced)


def _kernel(columns: Sequence[int]) -> tuple[int, ...]:
    echelon = Echelon()
    return tuple(found for column in columns if (found := echelon.add(column)))


class BitMatrix(Frozen):
    """A matrix over F2 with `rows` rows, given by its columns as ints. Immutable, compared by value.

    Raises LayoutError for a column that has bits beyond the rows.
    """

    __slots__ = ("columns", "rows")
    columns: tuple[int, ...]
    rows: int

    def __init__(self, columns: Sequence[int], rows: int) -> None:
        if type(rows) is not int or rows < 0:
            raise LayoutError(f"BitMatrix: the number of rows must be an int >= 0, got {rows!r}")
        for k, column in enumerate(columns):
            if type(column) is not int or column < 0 or column >> rows:
                raise LayoutError(f"BitMatrix: column {k} must be an int of at most {rows} bits, got {column!r}")
        self._set(columns=tuple(columns), rows=rows)

    @classmethod
    def identity(cls, n: int) -> BitMatrix:
        """The n x n identity."""
        return cls(units(n), n)

    def _arguments(self) -> tuple[object, ...]:
        return self.columns, self.rows

    def __matmul__(self, other: int | BitMatrix) -> int | BitMatrix:
        """This matrix times a vector (an int) or a matrix."""
        if isinstance(other, BitMatrix):
            if other.rows != len(self.columns):
                raise LayoutError(
                    f"BitMatrix: {self.rows}x{len(self.columns)} @ {other.rows}x{len(other.columns)}: the columns of "
                    "the first must be as many as the rows of the second"
                )
            return BitMatrix([combine(self.columns, c) for c in other.columns], self.rows)
        if other < 0 or other >> len(self.columns):
            raise LayoutError(f"BitMatrix: vector {other} does not have {len(self.columns)} bits")
        return combine(self.columns, other)

    def rank(self) -> int:
        """The dimension of the image."""
        return rank(self.columns)

    def kernel(self) -> tuple[int, ...]:
        """A basis of the vectors mapped to zero."""
        return _kernel(self.columns)

    def complement(self) -> tuple[int, ...]:
        """Unit vectors that complete the image to the whole space."""
        return complement(self.columns, self.rows)

    def transpose(self) -> BitMatrix:
        """Rows and columns exchanged."""
        return BitMatrix(
            [sum((c >> row & 1) << k for k, c in enumerate(self.columns)) for row in range(self.rows)],
            len(self.columns),
        )

    def right_inverse(self) -> BitMatrix:
        """X with `self @ X` the identity and free variables at zero (the paper's definition 4.5).

        Raises LayoutError, naming a unit vector outside the image, unless every row is reached.
        """
        found = solve(self.columns, units(self.rows))
        if None in found:
            raise LayoutError(
                f"BitMatrix: unit vector {1 << found.index(None)} is not in the image; rank {self.rank()}"
            )
        return BitMatrix([x for x in found if x is not None], len(self.columns))

    def inverse(self) -> BitMatrix:
        """The inverse of a square matrix. Raises LayoutError with a vector of the kernel if it is singular."""
        if len(self.columns) != self.rows:
            raise LayoutError(f"BitMatrix: {self.rows}x{len(self.columns)} is not square; use right_inverse")
        if kernel := self.kernel():
            raise LayoutError(f"BitMatrix: singular, vector {kernel[0]} is mapped to zero")
        return self.right_inverse()

    def block(self, rows: slice, columns: slice) -> BitMatrix:
        """The block of consecutive rows and columns."""
        low, high, step = rows.indices(self.rows)
        if step != 1:
            raise LayoutError(f"BitMatrix: a block takes consecutive rows, got step {step}")
        mask = (1 << max(0, high - low)) - 1
        return BitMatrix([c >> low & mask for c in self.columns[columns]], max(0, high - low))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BitMatrix) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash(self._arguments())

    def __repr__(self) -> str:
        return f"BitMatrix({self.columns!r}, rows={self.rows})"

    def __str__(self) -> str:
        """One line for each row, coordinate 0 first."""
        return "\n".join(" ".join(str(c >> row & 1) for c in self.columns) for row in range(self.rows))
