"""Linear layouts: maps between labelled bit spaces that are linear over F2 (Linear Layouts, definitions 4.1 to 4.5).

A linear layout sends hardware places to elements of a tensor, or memory offsets to elements. Its inputs and outputs are
labelled dimensions of power-of-two sizes; the value of an input is a vector of bits, and the map is fixed by the images
of the single bits, the *bases*: every other image is the exclusive or of some bases. Layout A of the paper's figure 1
distributes a 16x16 tensor over 2x2 registers, 4x8 lanes and 2x1 warps:

>>> A = LinearLayout(
...     {"register": [(0, 1), (1, 0)], "lane": [(0, 2), (0, 4), (0, 8), (2, 0), (4, 0)], "warp": [(8, 0)]},
...     {"row": 16, "col": 16},
... )
>>> A.apply(register=1, lane=9, warp=0)
{'row': 2, 'col': 3}

Register 1 contributes (0, 1), lane 9 = 0b01001 contributes (0, 2) ^ (2, 0). Why this direction, from places to elements
and not back? Several places may hold one element (a zero basis is a broadcast), but a place holds one element only: the
map is always a function, and its inverse may not be.

The algebra: `A @ B` composes, B first; `A * B` is the product (block diagonal, A in the low bits); `A.divide_left(B)`
undoes the product; `A.inverse()` and `A.right_inverse()` go back from elements to places. Where outputs are flattened
to one number, the first output holds the low bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError, brief
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.f2.dims import Dims, bits_of_size, join, name_of, offsets, reordered, resized, split, summed
from lego_mlir.f2.matrix import BitMatrix, Echelon, combine, solve, units
from lego_mlir.layout.canonical import require_bits

Basis: TypeAlias = int | Sequence[int]
"""The image of one bit: a coordinate for each output, or a plain int for a single output."""


class LinearLayout(Frozen):
    """A linear map from labelled input bits to labelled output bits. Immutable, compared by value.

    `bases` maps each input to the images of its bits, lowest bit first; an image has one coordinate per output, in
    the order of `outs` (a plain int for a single output). `outs` maps each output to its size, a power of two. Raises
    LayoutError, naming the basis, for a coordinate outside its output.
    """

    __slots__ = ("_hash", "columns", "ins", "outs")
    ins: Dims
    outs: Dims
    columns: tuple[int, ...]
    _hash: int  # once it was asked for

    def __init__(self, bases: Mapping[str, Sequence[Basis]], outs: Mapping[str, int]) -> None:
        for what, given in (("bases", bases), ("outs", outs)):
            if not isinstance(given, Mapping):
                raise LayoutError(
                    f"LinearLayout: {what} must map names, such as {{'row': 16}} for outputs, got {brief(repr(given))}"
                )
        sizes = tuple((name_of(name, "output"), bits_of_size(name, size)) for name, size in outs.items())
        columns = [_flat(name, k, basis, sizes) for name, images in bases.items() for k, basis in enumerate(images)]
        ins = tuple((name_of(name, "input"), len(images)) for name, images in bases.items())
        self._set(ins=ins, outs=sizes, columns=tuple(columns))

    @classmethod
    def of(cls, ins: Dims, outs: Dims, columns: Sequence[int]) -> LinearLayout:
        """The layout of flat columns, one int per input bit. Raises LayoutError if they do not fit the dimensions."""
        for what, dims in (("input", ins), ("output", outs)):
            names = [name for name, _ in dims]
            if len(set(names)) < len(names):
                raise LayoutError(f"LinearLayout: an {what} appears twice in {names}")
        matrix = BitMatrix(columns, sum(bits for _, bits in outs))
        if len(matrix.columns) != sum(bits for _, bits in ins):
            raise LayoutError(f"LinearLayout: {len(matrix.columns)} columns for the inputs {dict(ins)} (name: bits)")
        layout = cls.__new__(cls)
        layout._set(ins=tuple(ins), outs=tuple(outs), columns=matrix.columns)
        return layout

    @classmethod
    def identity(cls, size: int, source: str, target: str) -> LinearLayout:
        """The identity from one input to one output of the same size."""
        bits = bits_of_size(source, size)
        return cls.of(((source, bits),), ((target, bits),), units(bits))

    @classmethod
    def strided(cls, size: int, stride: int, source: str, target: str) -> LinearLayout:
        """Index i to i * stride, both powers of two; the output has size * stride values."""
        bits, shift = bits_of_size(source, size), bits_of_size(f"the stride of {source}", stride)
        return cls.of(((source, bits),), ((target, bits + shift),), [1 << (k + shift) for k in range(bits)])

    @classmethod
    def zeros(cls, size: int, source: str, target: str, target_size: int = 1) -> LinearLayout:
        """Every index to 0: the input holds copies of one element."""
        bits = bits_of_size(source, size)
        return cls.of(((source, bits),), ((target, bits_of_size(target, target_size)),), [0] * bits)

    @classmethod
    def empty(cls) -> LinearLayout:
        """The layout without inputs and outputs, the unit of the product."""
        return cls.of((), (), ())

    def _arguments(self) -> tuple[object, ...]:
        return self.bases, self.out_sizes

    # -- its parts

    @property
    def in_sizes(self) -> dict[str, int]:
        """Input names and sizes."""
        return {name: 1 << bits for name, bits in self.ins}

    @property
    def out_sizes(self) -> dict[str, int]:
        """Output names and sizes."""
        return {name: 1 << bits for name, bits in self.outs}

    @property
    def bases(self) -> dict[str, list[tuple[int, ...]]]:
        """The image of each input bit, one coordinate per output."""
        return {name: [split(c, self.outs) for c in self.columns_of(name)] for name, _ in self.ins}

    @property
    def matrix(self) -> BitMatrix:
        """The matrix of all bits: inputs and outputs in order, the first in the low bits."""
        return BitMatrix(self.columns, self.out_bits)

    @property
    def in_bits(self) -> int:
        """The number of input bits."""
        return len(self.columns)

    @property
    def out_bits(self) -> int:
        """The number of output bits."""
        return sum(bits for _, bits in self.outs)

    def columns_of(self, *names: str) -> tuple[int, ...]:
        """The flat columns of some inputs, in the order of the names given; none for an input that is absent."""
        found, start = {}, 0
        for name, bits in self.ins:
            found[name] = self.columns[start : start + bits]
            start += bits
        return tuple(c for n in names for c in found.get(n, ()))

    def _starts(self) -> dict[str, int]:
        """The first column of each input."""
        return dict(zip((name for name, _ in self.ins), offsets(self.ins), strict=True))

    # -- application

    def apply(self, *values: IndexLike, **named: IndexLike) -> dict[str, IndexLike]:
        """The output coordinates of some input values, given in order or by name.

        Ints, NumPy integer arrays, `Index` or SymPy expressions in, the same kind out. Raises LayoutError for a missing
        or unknown input, and for a value outside its size.
        """
        from lego_mlir.f2.application import apply

        names = [name for name, _ in self.ins]
        given = dict(zip(names, values, strict=False)) | named
        if len(values) > len(names) or len(given) < len(values) + len(named) or set(given) != set(names):
            got = f"{len(values)} values" + (f" and {list(named)}" if named else "")
            raise LayoutError(f"LinearLayout.apply takes one value for each of the inputs {names}, got {got}")
        return apply(self, {name: given[name] for name in names})

    # -- the algebra

    def __matmul__(self, inner: LinearLayout) -> LinearLayout:
        """`A @ B`, the composition, B first (definition 4.2). B's outputs are A's inputs, in any order.

        An output of B may be smaller than A's input of that name. Raises LayoutError for other names, or a larger one.
        """
        if not isinstance(inner, LinearLayout):
            return NotImplemented
        _require_same_names(self, inner)
        sizes, position = dict(self.ins), self._starts()
        for name, bits in inner.outs:
            if bits > sizes[name]:
                raise LayoutError(
                    f"LinearLayout: output {name} of the inner layout has {1 << bits} values, the outer layout takes "
                    f"{1 << sizes[name]}"
                )
        rows = [position[name] + k for name, bits in inner.outs for k in range(bits)]
        moved = [self.columns[row] for row in rows]
        return LinearLayout.of(inner.ins, self.outs, [combine(moved, c) for c in inner.columns])

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """The product, block diagonal for each label: `self` acts on the low bits (definition 4.3)."""
        if not isinstance(other, LinearLayout):
            return NotImplemented
        ins, outs = summed(self.ins, other.ins), summed(self.outs, other.outs)
        low, high = dict(self.outs), dict(zip((n for n, _ in outs), offsets(outs), strict=True))

        def placed(layout: LinearLayout, shift: Mapping[str, int]) -> dict[str, list[int]]:
            bases = layout.bases
            names = [name for name, _ in layout.outs]
            return {
                name: [
                    sum(v << (high[n] + shift.get(n, 0)) for n, v in zip(names, b, strict=True)) for b in bases[name]
                ]
                for name in bases
            }

        first, second = placed(self, {}), placed(other, low)
        columns = [c for name, _ in ins for c in (*first.get(name, ()), *second.get(name, ()))]
        return LinearLayout.of(ins, outs, columns)

    def left_quotient(self, tile: LinearLayout) -> LinearLayout | None:
        """The layout Q with `tile * Q == self` but for the order of dimensions, or None (definition 4.4)."""
        return None if self._obstacle(tile) else self._divided(tile)

    def divide_left(self, tile: LinearLayout) -> LinearLayout:
        """Like `left_quotient`. Raises LayoutError with the basis that prevents the division."""
        if obstacle := self._obstacle(tile):
            raise LayoutError(f"LinearLayout: not divisible on the left: {obstacle}")
        return self._divided(tile)

    def _obstacle(self, tile: LinearLayout) -> str:
        """Why the tile is not the upper left block for some label; empty if it is."""
        for what, mine, theirs in (("input", dict(self.ins), tile.ins), ("output", dict(self.outs), tile.outs)):
            for name, bits in theirs:
                if bits > mine.get(name, -1):
                    return f"{what} {name} of the tile has {1 << bits} values, the layout {1 << mine.get(name, 0)}"
        low = self._low_bits(dict(tile.outs))
        moved = tile.with_outs(self.outs)
        for name, _ in self.ins:
            first = moved.columns_of(name)
            for k, column in enumerate(self.columns_of(name)):
                wanted = first[k] if k < len(first) else 0
                if k < len(first) and column != wanted:
                    return (
                        f"basis {k} of {name} is {split(column, self.outs)}, the tile's is {split(wanted, self.outs)}"
                    )
                if k >= len(first) and column & low:
                    return f"basis {k} of {name}, {split(column, self.outs)}, reaches into the outputs of the tile"
        return ""

    def _low_bits(self, bits: Mapping[str, int]) -> int:
        """The flat mask of the lowest bits of some outputs."""
        return sum(
            ((1 << bits.get(name, 0)) - 1) << start
            for (name, _), start in zip(self.outs, offsets(self.outs), strict=True)
        )

    def _divided(self, tile: LinearLayout) -> LinearLayout:
        taken_in, taken_out = dict(tile.ins), dict(tile.outs)
        outs = tuple((name, bits - taken_out.get(name, 0)) for name, bits in self.outs)
        rest = [
            join([v >> taken_out.get(n, 0) for v, (n, _) in zip(split(c, self.outs), self.outs, strict=True)], outs)
            for name, _ in self.ins
            for c in self.columns_of(name)[taken_in.get(name, 0) :]
        ]
        return LinearLayout.of(tuple((name, bits - taken_in.get(name, 0)) for name, bits in self.ins), outs, rest)

    def with_outs(self, outs: Dims) -> LinearLayout:
        """The same map with its outputs reordered, widened or added to match `outs` (name, bits)."""
        missing = [name for name, bits in self.outs if bits > dict(outs).get(name, -1)]
        if missing:
            raise LayoutError(f"LinearLayout: outputs {missing} are larger than, or missing in, {dict(outs)} (bits)")
        if outs == self.outs:
            return LinearLayout.of(self.ins, outs, self.columns)
        at = [name for name, _ in self.outs]
        columns = []
        for column in self.columns:
            values = dict(zip(at, split(column, self.outs), strict=True))
            columns.append(join([values.get(name, 0) for name, _ in outs], outs))
        return LinearLayout.of(self.ins, outs, columns)

    def with_ins(self, ins: Dims) -> LinearLayout:
        """The same map with its inputs reordered, or with new ones that are mapped to zero."""
        mine = dict(self.ins)
        if any(bits > dict(ins).get(name, -1) for name, bits in self.ins):
            raise LayoutError(f"LinearLayout: inputs {mine} (bits) do not fit into {dict(ins)}")
        columns = [c for name, bits in ins for c in (*self.columns_of(name), *([0] * (bits - mine.get(name, 0))))]
        return LinearLayout.of(ins, self.outs, columns)

    def transpose_ins(self, names: Sequence[str]) -> LinearLayout:
        """The inputs in another order. Raises LayoutError unless every input is named once."""
        return self.with_ins(reordered("inputs", self.ins, names))

    def transpose_outs(self, names: Sequence[str]) -> LinearLayout:
        """The outputs in another order. Raises LayoutError unless every output is named once."""
        return self.with_outs(reordered("outputs", self.outs, names))

    def reshape_ins(self, sizes: Mapping[str, int]) -> LinearLayout:
        """The flat input split anew, the first name in the low bits. Raises LayoutError for another number of bits."""
        return LinearLayout.of(resized("inputs", self.ins, sizes), self.outs, self.columns)

    def reshape_outs(self, sizes: Mapping[str, int]) -> LinearLayout:
        """The flat output split anew, the first name in the low bits. Raises LayoutError for another number of bits."""
        return LinearLayout.of(self.ins, resized("outputs", self.outs, sizes), self.columns)

    def flatten_ins(self, name: str = "in") -> LinearLayout:
        """All inputs as one, the first in the low bits."""
        return LinearLayout.of(((name, self.in_bits),), self.outs, self.columns)

    def flatten_outs(self, name: str = "out") -> LinearLayout:
        """All outputs as one, the first in the low bits."""
        return LinearLayout.of(self.ins, ((name, self.out_bits),), self.columns)

    def rename(self, **names: str) -> LinearLayout:
        """The same map with inputs and outputs renamed: `L.rename(lane="thread")`."""
        if unknown := [n for n in names if n not in self.in_sizes and n not in self.out_sizes]:
            raise LayoutError(
                f"LinearLayout: cannot rename {unknown}; the inputs are {list(self.in_sizes)}, the outputs "
                f"{list(self.out_sizes)}"
            )
        ins, outs = (tuple((names.get(n, n), bits) for n, bits in dims) for dims in (self.ins, self.outs))
        return LinearLayout.of(ins, outs, self.columns)

    def sublayout(self, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
        """The block of some inputs and outputs: other inputs at zero, other outputs dropped."""
        for what, names, known in (("input", ins, self.in_sizes), ("output", outs, self.out_sizes)):
            if unknown := [n for n in names if n not in known]:
                raise LayoutError(f"LinearLayout: no {what} {unknown}; there are {list(known)}")
        kept = tuple((n, b) for n, b in self.outs if n in outs)
        picked = [k for k, (n, _) in enumerate(self.outs) if n in outs]
        rows = [split(c, self.outs) for n, _ in self.ins if n in ins for c in self.columns_of(n)]
        return LinearLayout.of(
            tuple((n, b) for n, b in self.ins if n in ins), kept, [join([row[k] for k in picked], kept) for row in rows]
        )

    def slice(self, *dropped: str) -> LinearLayout:
        """The layout without some outputs (proposition 4.8): surjective if this one is, with copies as zero bases."""
        if unknown := [n for n in dropped if n not in self.out_sizes]:
            raise LayoutError(f"LinearLayout: no output {unknown} to slice; there are {list(self.out_sizes)}")
        return self.sublayout(list(self.in_sizes), [n for n, _ in self.outs if n not in dropped])

    def quotient(self, *dims: str) -> LinearLayout | None:
        """The layout without some dimensions; None unless it is the identity there and they do not mix with others."""
        if unknown := [n for n in dims if n not in self.in_sizes or n not in self.out_sizes]:
            raise LayoutError(f"LinearLayout: a quotient by {unknown}, which are not both inputs and outputs")
        others_in = [n for n, _ in self.ins if n not in dims]
        others_out = [n for n, _ in self.outs if n not in dims]
        mixed = [*self.sublayout(others_in, dims).columns, *self.sublayout(dims, others_out).columns]
        inner = self.sublayout(dims, dims)
        same = inner.in_sizes == inner.out_sizes and inner.with_outs(inner.ins).columns == units(inner.in_bits)
        return self.sublayout(others_in, others_out) if same and not any(mixed) else None

    # -- inverses

    def is_surjective(self) -> bool:
        """Whether every output value is reached."""
        return self.matrix.rank() == self.out_bits

    def is_injective(self) -> bool:
        """Whether no two input values share their image."""
        return self.matrix.rank() == self.in_bits

    def is_invertible(self) -> bool:
        """Whether the map is a bijection."""
        return self.in_bits == self.out_bits and self.is_injective()

    def right_inverse(self) -> LinearLayout:
        """R with `self @ R` the identity (definition 4.5); an element held twice is found at its first copy.

        Free variables are zero. Raises LayoutError, naming an output value that is not reached.
        """
        found = solve(self.columns, units(self.out_bits))
        if None in found:
            unreached = split(1 << found.index(None), self.outs)
            raise LayoutError(f"LinearLayout: {self._coordinates(unreached)} is the image of no input; not surjective")
        return LinearLayout.of(self.outs, self.ins, [x for x in found if x is not None])

    def inverse(self) -> LinearLayout:
        """The inverse of an invertible layout. Raises LayoutError with two inputs that share their image."""
        if not self.is_injective():
            vector = self.matrix.kernel()[0]
            values = self._coordinates(split(vector, self.ins), self.ins)
            raise LayoutError(f"LinearLayout: {values} has the image of 0; not injective, use right_inverse")
        return self.right_inverse()

    def invert_and_compose(self, other: LinearLayout) -> LinearLayout:
        """C with `self(x) == other(C(x))`: where an element of `self` is found in `other`.

        An input that both map alike becomes the identity, the rest has its free variables at zero. Raises LayoutError,
        naming a basis of `self`, if its image is not an image of `other`.
        """
        here = self.with_outs(_in_order(self.outs, other.outs, self))
        shared = [
            name
            for name, _ in here.ins
            if here.columns_of(name) == other.columns_of(name) and (name, len(here.columns_of(name))) in other.ins
        ]
        return _solved(here, other, shared) or _solved(here, other, []) or _no_image(here, other)

    # -- comparison

    def equivalent(self, other: LinearLayout) -> Verdict:
        """Whether both are the same function of labelled coordinates, whatever the order of their dimensions."""
        for what, mine, theirs in (
            ("inputs", self.in_sizes, other.in_sizes),
            ("outputs", self.out_sizes, other.out_sizes),
        ):
            if mine != theirs:
                return Refuted({what: theirs}, f"the {what} are {mine} and {theirs}")
        same = other.with_outs(self.outs)
        for name, _ in self.ins:
            for k, (a, b) in enumerate(zip(self.columns_of(name), same.columns_of(name), strict=True)):
                if a != b:
                    images = f"{split(a, self.outs)} and {split(b, self.outs)}"
                    return Refuted({name: 1 << k}, f"{name} = {1 << k} is mapped to {images}")
        return Proved("equal bases")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, LinearLayout) and self._key() == other._key())

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._set(_hash=hash(self._key()))
            return self._hash

    def _key(self) -> tuple[object, ...]:
        return self.ins, self.outs, self.columns

    def _coordinates(self, values: Sequence[int], dims: Dims | None = None) -> str:
        return ", ".join(
            f"{name} = {v}" for (name, _), v in zip(self.outs if dims is None else dims, values, strict=True)
        )

    def __repr__(self) -> str:
        bases = {n: [b[0] for b in images] if len(self.outs) == 1 else images for n, images in self.bases.items()}
        return f"LinearLayout({bases}, {self.out_sizes})"


def _in_order(mine: Dims, wanted: Dims, layout: LinearLayout) -> Dims:
    """`wanted`, if it has the names of `mine` and no smaller sizes."""
    if {n for n, _ in mine} != {n for n, _ in wanted} or any(b > dict(wanted)[n] for n, b in mine):
        raise LayoutError(
            f"LinearLayout: the outputs {layout.out_sizes} do not fit {wanted} (name, bits); both layouts "
            "must map to the same dimensions"
        )
    return wanted


def _require_same_names(outer: LinearLayout, inner: LinearLayout) -> None:
    if set(outer.in_sizes) != set(inner.out_sizes):
        raise LayoutError(
            f"LinearLayout: A @ B needs the outputs of B to be the inputs of A; B has the outputs "
            f"{list(inner.out_sizes)}, A the inputs {list(outer.in_sizes)}"
        )


def _solved(here: LinearLayout, other: LinearLayout, shared: Sequence[str]) -> LinearLayout | None:
    """`invert_and_compose` with the identity for the shared inputs; None if the rest has no solution."""
    free = [name for name, _ in other.ins if name not in shared]
    found = solve(other.columns_of(*free), [c for n, _ in here.ins if n not in shared for c in here.columns_of(n)])
    if None in found:
        return None
    place, sizes = other._starts(), dict(other.ins)
    at = [place[name] + k for name in free for k in range(sizes[name])]
    solutions = iter([sum(1 << at[k] for k in range(len(at)) if x >> k & 1) for x in found if x is not None])
    columns = [
        1 << (place[name] + k) if name in shared else next(solutions) for name, bits in here.ins for k in range(bits)
    ]
    return LinearLayout.of(here.ins, other.ins, columns)


def _no_image(here: LinearLayout, other: LinearLayout) -> LinearLayout:
    """Raise LayoutError with a basis whose image `other` does not reach."""
    echelon = Echelon(other.columns)
    for name, _ in here.ins:
        for k, column in enumerate(here.columns_of(name)):
            if column not in echelon:
                image = here._coordinates(split(column, here.outs))
                raise LayoutError(
                    f"LinearLayout: {name} = {1 << k} is mapped to {image}, which the other never reaches"
                )
    raise AssertionError("every basis has a solution")  # solve and Echelon agree


def _flat(name: str, k: int, basis: Basis, outs: Dims) -> int:
    """The flat column of a basis. Raises LayoutError, naming it, for a wrong length or a coordinate out of range."""
    values = (basis,) if isinstance(basis, int) else tuple(basis)
    if len(values) != len(outs):
        raise LayoutError(
            f"LinearLayout: basis {k} of {name} is {basis}; it needs one coordinate for each of {[n for n, _ in outs]}"
        )
    for value, (out, bits) in zip(values, outs, strict=True):
        if type(value) is not int or not 0 <= value < 1 << bits:
            require_bits(f"LinearLayout: a coordinate of basis {k} of {name}", value)
            raise LayoutError(
                f"LinearLayout: basis {k} of {name} is {basis}: {out} = {value!r} is outside 0..{(1 << bits) - 1}"
            )
    return join(values, outs)
