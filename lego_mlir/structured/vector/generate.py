"""Vector code for whole programs: the orientation, copies and tiles of every step.

The autotuner selects a `Variant`. Generation is deterministic:

>>> from lego_mlir.structured import mlir_text
>>> from lego_mlir.structured.lower import lower
>>> from lego_mlir.structured.language import parse
>>> program = lower(parse("A = Matrix(4, 4); L = LowerTriangular(4); A = L*A;"))
>>> text = mlir_text.text(emit(program, "trmm", "f64", Variant(4)))
>>> text.count("vector.fma"), text.count("vector.load"), text.count("vector.store")
(6, 8, 8)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from lego_mlir.structured.function import Function
from lego_mlir.structured.lower import Factor, Factorise, Leaf, Lowered, Solve, Step, Term, Update, Within, buffer_name
from lego_mlir.structured.storage import Full, PitchedRows
from lego_mlir.structured.structures import STORED, ZERO
from lego_mlir.structured.vector import register_tiles, tile_code, updates, views
from lego_mlir.structured.vector.register_tiles import Element, Shape, ViewProduct
from lego_mlir.structured.vector.roll import Code
from lego_mlir.structured.vector.views import OperandView

if TYPE_CHECKING:
    from lego_mlir.structured.vector.fused_sums import Parts


@dataclass(frozen=True, slots=True)
class Variant:
    """Code generation parameters: vector width in elements, register tile, rolled or unrolled loops.

    `fused` reads sums as factors of products part by part, in unrolled code: see `fused_sums`.
    """

    width: int
    rows: int = 8
    vectors: int = 2
    rolled: bool = False
    fused: bool = False

    def __str__(self) -> str:
        how = f"{'rolled' if self.rolled else 'flat'}{' fused' if self.fused else ''}"
        return f"nu={self.width} tile={self.rows}x{self.vectors} {how}"


# Unrolled kernels with more vector multiply-adds than this cost more compile time than they save.
FLAT_LIMIT = 5000
# Factorisations of more rows are faster in loops; LLVM's time for an unrolled one is cubic.
FLAT_ROWS = 24
# Up to this size scratch stays visible to LLVM, which promotes it to registers.
REGISTER_SCRATCH = 2048
# Stores of vectors that can wait for their turn in the cache at once. A call in place on a larger buffer begins with
# loads of elements that the call before it stored long ago.
STORE_QUEUE = 64
LINE_BYTES = 64  # L1 cache line of all target processors
LONG_ROW = 32  # longer rows do not all fit in the L1 cache
LEAST_INNER = 4  # a shorter sum along k is not worth transposing
# Up to this length the dependent steps of a vector dominate its multiplications: narrower registers are faster.
SHORT_VECTOR = 64


def work(lowered: Lowered, width: int) -> int:
    """Estimated number of vector operations of the unrolled program."""
    total = 0
    for step in lowered.steps:
        rows, columns = step.target.structure.rows, step.target.structure.columns
        inner = 1
        if isinstance(step, Update):
            inner = sum(
                term.factors[0].leaf.structure.rows
                if term.factors[0].transposed
                else term.factors[0].leaf.structure.columns
                for term in step.terms
                if len(term.factors) == 2
            ) + len(step.terms)
        elif isinstance(step, Solve | Factorise):
            inner = rows
        total += rows * -(-columns // width) * inner if columns > 1 else rows * -(-inner // width)
    return total


def default(lowered: Lowered, width: int, registers: int) -> Variant:
    """The variant used without tuning, for vectors of `width` elements in so many registers.

    A tile's accumulators leave registers for a row of the right factor and one element of the left.
    """
    sizes = [s for step in lowered.steps for s in (step.target.structure.rows, step.target.structure.columns) if s > 1]
    while width > 2 and sizes and max(sizes) <= width // 2:
        width //= 2
    if all(1 in (step.target.structure.rows, step.target.structure.columns) for step in lowered.steps):
        width = min(width, 4) if max(sizes, default=1) <= SHORT_VECTOR else width
    factored = max((step.target.structure.rows for step in lowered.steps if isinstance(step, Factorise)), default=0)
    rolled = work(lowered, width) > FLAT_LIMIT or factored > FLAT_ROWS
    if registers < 32:
        return Variant(width, 4, 3, rolled)
    if not rolled:
        return Variant(width, 4, 4)
    if width > 8 and any(_ragged(step) for step in lowered.steps):
        return Variant(width, width, 1, True)  # square tiles have one diagonal pattern, not four: half the code
    return Variant(width, 8, 2, True)


def _ragged(step: Step) -> bool:
    """Whether the right factor of a product has structural zeros, which need masked vectors."""
    terms = step.terms if isinstance(step, Update) else ()
    return any(len(t.factors) == 2 and bool((t.factors[1].leaf.structure.kinds == ZERO).any()) for t in terms)


def emit(lowered: Lowered, name: str, element: str, variant: Variant, registers: int = 32) -> Function:
    """One function with vector code for all steps, for a target with so many vector registers."""
    function = Function(name, element, [(leaf.name, leaf.size) for leaf in lowered.operands])
    fill(function, lowered, variant, registers)
    return function


def fill(function: Function, lowered: Lowered, variant: Variant, registers: int = 32) -> None:
    """Emit the code of all steps into a function that has the program's operands as buffers."""
    _Generator(function, lowered, variant, registers).run()


class _Generator:
    def __init__(self, function: Function, lowered: Lowered, variant: Variant, registers: int) -> None:
        self.lowered = lowered
        self.variant = variant
        self.registers = registers
        self.f = function
        self.moved: dict[str, Leaf] = {}
        self.temporaries: dict[str, Leaf] = {}
        panel = variant.width * variant.vectors
        self.sums: dict[str, Parts] = {}
        if variant.fused and not variant.rolled:
            from lego_mlir.structured.vector.fused_sums import fused_sums

            self.sums = fused_sums(lowered.steps, variant.width, panel)
        for leaf in lowered.temporaries:
            if leaf.name in self.sums:
                continue
            stride = self.stride(leaf.structure.columns) if leaf.structure.columns > 1 else 1
            self.temporaries[leaf.name] = replace(leaf, storage=PitchedRows(stride))
            self.f.allocate(leaf.name, self.temporaries[leaf.name].size)
        if variant.rolled:
            for leaf in lowered.operands:
                if not _affine(leaf):
                    self.moved[leaf.name] = replace(leaf, name=f"{leaf.name}_full", storage=Full())
                    self.f.allocate(f"{leaf.name}_full", self.moved[leaf.name].size)
        else:
            small = {leaf.name for leaf in lowered.operands if leaf.size <= STORE_QUEUE * variant.width}
            function.forwarded = frozenset(small & _read_and_written(lowered))
        self.copies = 0
        self.known: dict[object, OperandView] = {}  # copies made by the current step, by source

    def run(self) -> None:
        originals = {leaf.name: leaf for leaf in self.lowered.operands}
        for name, leaf in self.moved.items():
            self.copy_by_table(originals[name], leaf)
        for step in self.lowered.steps:
            if step.target.name not in self.sums:
                self.step(self.place(step))
        for name in map(buffer_name, self.lowered.program.written):
            if name in self.moved:
                self.copy_by_table(self.moved[name], originals[name])
        bytes_each = 8 if self.f.element == "f64" else 4
        self.f.scratch_as_arguments = (
            self.variant.rolled or sum(self.f.scratch.values()) * bytes_each > REGISTER_SCRATCH
        )

    def place(self, step: Step) -> Step:
        """The step with moved operands replaced by their full copies."""

        leaf, factor = self.placed_leaf, self.placed
        match step:
            case Update(target, terms):
                new = tuple(Term(t.number, tuple(map(leaf, t.scalars)), tuple(map(factor, t.factors))) for t in terms)
                return Update(leaf(target), new)
            case Solve(target, triangle, kind):
                return Solve(leaf(target), factor(triangle), kind)
            case Factorise(target):
                return replace(step, target=leaf(target))
            case _:
                assert_never(step)

    def placed_leaf(self, old: Leaf) -> Leaf:
        """The leaf, or the full copy in its place."""
        if isinstance(old.storage, Within):
            whole = self.placed(old.storage.whole)
            return replace(old, name=whole.leaf.name, storage=Within(whole))
        return self.moved.get(old.name) or self.temporaries.get(old.name, old)

    def placed(self, old: Factor) -> Factor:
        """The factor of the leaf in its place."""
        return replace(old, leaf=self.placed_leaf(old.leaf))

    def parts(self, factor: Factor) -> list[tuple[float, OperandView]]:
        """The views whose sum is a factor, with their numbers; one, unless its sum is fused."""
        parts = self.sums.get(factor.leaf.name)
        if parts is None:
            return [(1.0, views.of(factor))]
        placed = [(number, self.placed(part)) for number, part in parts]
        return [(number, views.of(part.T if factor.transposed else part)) for number, part in placed]

    def copy_by_table(self, source: Leaf, target: Leaf) -> None:
        """Copy the stored elements one by one, with positions from two constant tables."""
        f = self.f
        froms, tos = source.storage.positions(source.structure), target.storage.positions(target.structure)
        there = froms >= 0
        names = [f"{f.name}_{source.name}_to_{target.name}_{side}" for side in ("from", "to")]
        f.table(names[0], froms[there].tolist())
        f.table(names[1], tos[there].tolist())
        with f.loop(f.index(0), f.index(int(there.sum())), f.index(1)) as loop:
            value = f.load(source.name, f.look_up(names[0], loop.variable))
            f.store(target.name, f.look_up(names[1], loop.variable), value)

    def step(self, step: Step) -> None:
        match step:
            case Update():
                self.update(step)
            case Solve():
                self.solve(step)
            case Factorise():
                self.factorise(step)
            case _:
                assert_never(step)

    def factorise(self, step: Factorise) -> None:
        """chol works on the transpose, because vectors run along the rows of the upper factor."""
        width = self.variant.width
        target, stored = views.of(Factor(step.target)), views.stored_in_place(Factor(step.target))
        if step.function == "chol":
            target, stored = target.T, stored.T
        through = target.masked(stored)
        if not through.contiguous_rows:
            through = self.copied(through)
        grid = updates.grid(through, through.kinds == STORED, Shape(width, width, 1))
        make = updates.cholesky if step.function == "chol" else updates.eliminate
        self.write(make(grid, self.variant.rolled))
        if through.buffer != target.buffer:
            self.assign(target.masked(stored), through)

    def shape(self, rows: int, columns: int) -> Shape:
        """The variant's register tile clipped to the result, with balanced panels; narrow tiles are taller."""
        width = self.variant.width
        total = -(-columns // width)
        vectors = -(-total // -(-total // self.variant.vectors))
        budget = max(self.variant.rows * self.variant.vectors, 8)
        height = min(max(self.variant.rows, min(8, budget // vectors)), rows)
        return Shape(width, height, vectors)

    def stride(self, columns: int) -> int:
        """Row stride of scratch in elements: whole vectors, and an odd number of cache lines: otherwise the rows of
        a panel map to few cache sets."""
        size = 4 if self.f.element == "f32" else 8
        stride = -(-columns // self.variant.width) * self.variant.width
        if columns > LONG_ROW and stride * size % (2 * LINE_BYTES) == 0:
            stride += LINE_BYTES // size
        return stride

    def copying(self, rows: int) -> Shape:
        """The tile for sums without products: square, to fit a transposed block."""
        return Shape(self.variant.width, min(max(self.variant.width, 4), rows), 1)

    def write(self, codes: Sequence[Code]) -> None:
        tile_code.emit(self.f, codes, self.variant.width)

    def update(self, step: Update) -> None:
        chosen = self.oriented(step)
        if not chosen.fused and not _fixed(step) and chosen.T.score > chosen.score:
            chosen = chosen.T
        rows, columns = chosen.out.rows, chosen.out.columns
        self.known.clear()
        ready = replace(chosen, terms=tuple(self.prepared(term, rows) for term in chosen.terms))
        if not chosen.single_last_column(self.variant.width):
            self.sum(ready)
            return
        self.sum(ready.columns(slice(0, columns - 1)))
        last = chosen.columns(slice(columns - 1, columns)).T
        self.sum(replace(last, terms=tuple(self.prepared(term, 1) for term in last.terms)))

    def oriented(self, step: Update) -> _Oriented:
        """The sum as it is written, or transposed if a fused sum is a right factor.

        Temporaries use whole vectors: a masked store would stall the loads after it.
        """
        leaf = step.target
        read = [(term, [self.parts(factor) for factor in term.factors]) for term in step.terms]
        turned = any(len(parts) > 1 for _, factors in read for parts in factors[1:])
        terms: list[ViewProduct | Element] = []
        for term, factors in read:
            scale = (term.number, tuple(leaf.name for leaf in term.scalars))
            if turned:
                factors = [[(number, view.T) for number, view in parts] for parts in reversed(factors)]
            ((_, first), *others), *right = factors
            terms.append(ViewProduct(scale, first, right[0][0][1], tuple(others)) if right else Element(scale, first))
        out, stored = views.of(Factor(leaf)), views.stored_in_place(Factor(leaf))
        if isinstance(leaf.storage, PitchedRows) and leaf.structure.columns > 1:
            stored = _whole_vectors(stored, self.variant.width)  # all lanes of every vector that has an element
            out = _in_rows(leaf.name, stored, leaf.storage.stride)
        return _Oriented(out.T, stored.T, tuple(terms)) if turned else _Oriented(out, stored, tuple(terms))

    def sum(self, chosen: _Oriented) -> None:
        """Emit a sum whose terms are readable as vectors."""
        rows, columns = chosen.out.rows, chosen.out.columns
        pure = all(isinstance(term, Element) for term in chosen.terms)
        shape = self.copying(rows) if pure else self.shape(rows, columns)
        if rows == 1:
            shape = replace(shape, vectors=1)
        grid = updates.grid(chosen.out, chosen.stored, shape, 0 if pure else self.registers)
        self.write(updates.update(grid, chosen.terms, self.variant.rolled))

    def prepared(self, term: ViewProduct | Element, rows: int) -> ViewProduct | Element:
        """The term, with operands that cannot be read as vectors copied."""
        width = self.variant.width
        if isinstance(term, Element) or width == 1:
            return term
        right = self.known.get(_key(term.right), term.right)
        if rows > 1:
            return replace(term, right=right if right.contiguous_rows else self.copied(right, True))
        wide = right.padded(-(-right.columns // width) * width)
        if term.left.contiguous_rows or register_tiles.split_line(wide, width).all():
            return replace(term, right=right)
        copy = self.copied(term.left, True)
        return replace(term, left=copy.part(slice(None), slice(0, term.left.columns)), right=right)

    def copied(self, view: OperandView, filled: bool = False) -> OperandView:
        """A row-major copy in scratch with aligned rows; `filled` pads to whole vectors with zeros."""
        width = self.variant.width
        stride = self.stride(view.columns)
        name = self.f.allocate(f"copy{self.copies}", view.rows * stride)
        self.copies += 1
        wide = view.padded(-(-view.columns // width) * width)
        there = wide.kinds != ZERO
        if filled:
            there = _whole_vectors(there, width)
        copy = _in_rows(name, there, stride)
        self.assign(copy, wide)
        if not filled:
            return copy.part(slice(None), slice(0, view.columns))
        self.known[_key(view)] = copy
        return copy

    def assign(self, target: OperandView, source: OperandView) -> None:
        """target = source, for nonzero elements, along the contiguous axis of the target.

        Loading a transposed block takes only shuffles; storing one takes a masked store per element."""
        if target.T.contiguous_pairs > target.contiguous_pairs:
            target, source = target.T, source.T
        grid = updates.grid(target, target.kinds == STORED, self.copying(target.rows))
        self.write(updates.update(grid, [Element(register_tiles.UNSCALED, source)], self.variant.rolled))

    def solve(self, step: Solve) -> None:
        target, triangle = views.of(Factor(step.target)), views.of(step.triangle)
        stored = views.stored_in_place(Factor(step.target))
        line = target.columns == 1 and self.variant.width > 1
        through = target.T if line else target
        if not through.masked(stored.T if line else stored).contiguous_rows:
            through = self.copied(through.masked(stored.T if line else stored))
        held = through.kinds == STORED
        if line:
            grid = updates.grid(through, held, Shape(self.variant.width, 1, 1))
            self.write(updates.solve_lanes(grid, triangle, step.kind, self.variant.rolled))
        else:
            grid = updates.grid(through, held, self.shape(*through.kinds.shape))
            self.write(updates.solve_rows(grid, triangle, step.kind, self.variant.rolled))
        if through.buffer != target.buffer:
            self.assign((target.T if line else target).masked(stored.T if line else stored), through)


@dataclass(frozen=True, eq=False)
class _Oriented:
    """A sum, or its transpose: the orientation with more contiguous elements along its rows is faster."""

    out: OperandView
    stored: NDArray[np.bool_]
    terms: tuple[ViewProduct | Element, ...]

    def columns(self, which: slice) -> _Oriented:
        """Some of the columns."""
        every = slice(None)
        terms = tuple(
            replace(t, right=t.right.part(every, which))
            if isinstance(t, ViewProduct)
            else replace(t, view=t.view.part(every, which))
            for t in self.terms
        )
        return _Oriented(self.out.part(every, which), self.stored[:, which], terms)

    @property
    def fused(self) -> bool:
        """Whether a left factor is a sum, which cannot be a right one."""
        return any(isinstance(term, ViewProduct) and term.others for term in self.terms)

    def single_last_column(self, width: int) -> bool:
        """Whether the last column has a vector alone, at full cost, and is a sum along k that is cheaper as a row."""
        columns = self.out.columns
        inner = [int((t.right.kinds[:, -1] != ZERO).sum()) for t in self.terms if isinstance(t, ViewProduct)]
        worth = self.out.rows >= width and max(inner, default=0) >= LEAST_INNER
        return width > 2 and columns > width and columns % width == 1 and worth and not self.fused

    @property
    def T(self) -> _Oriented:
        transposed = tuple(
            ViewProduct(t.scale, t.right.T, t.left.T) if isinstance(t, ViewProduct) else Element(t.scale, t.view.T)
            for t in self.terms
        )
        return _Oriented(self.out.T, self.stored.T, transposed)

    @cached_property
    def score(self) -> float:
        if self.out.columns == 1 and self.out.rows > 1:
            return -1.0
        if self.out.rows == 1 and self.out.columns > 1:
            return 10.0
        total = 2.0 * _share(self.out.masked(self.stored))
        for term in self.terms:
            total += _share(term.right) if isinstance(term, ViewProduct) else 0.5 * _share(term.view)
        return total


def _whole_vectors(there: NDArray[np.bool_], width: int) -> NDArray[np.bool_]:
    """True for all lanes of every vector with a set lane, including the padded last vector of a row."""
    extra = -there.shape[1] % width
    vectors = np.pad(there, ((0, 0), (0, extra))).reshape(there.shape[0], -1, width)
    return np.repeat(vectors.any(axis=2), width, axis=1)


def _in_rows(buffer: str, there: NDArray[np.bool_], stride: int) -> OperandView:
    """A row-major view of these elements in scratch."""
    i, j = np.indices(there.shape)
    return OperandView(buffer, np.where(there, STORED, ZERO).astype(np.int8), np.where(there, i * stride + j, -1))


def _key(view: OperandView) -> tuple[str, bytes, bytes, tuple[int, ...]]:
    """Equal for views of the same elements."""
    return view.buffer, view.kinds.tobytes(), view.at.tobytes(), view.kinds.shape


def _fixed(step: Update) -> bool:
    """Whether vectors must run along the target's rows: temporaries are laid out for that."""
    return step.target.temporary and min(step.target.structure.rows, step.target.structure.columns) > 1


def _share(view: OperandView) -> float:
    """The fraction of elements whose right neighbour is contiguous in memory."""
    return view.contiguous_pairs / max(int((view.kinds == STORED).sum()), 1)


def _read_and_written(lowered: Lowered) -> set[str]:
    """The names of the leaves that the steps read and write: kernels run in place on them."""
    read: set[str] = set()
    for step in lowered.steps:
        if isinstance(step, Update):
            read.update(factor.leaf.name for term in step.terms for factor in term.factors)
        else:
            read.add(step.target.name)
    return read & {step.target.name for step in lowered.steps}


def _affine(leaf: Leaf) -> bool:
    """Whether the positions of the stored elements are an affine function of row and column."""
    held = leaf.storage.positions(leaf.structure)
    i, j = np.nonzero(held >= 0)
    if len(i) < 2:
        return True
    system = np.stack([i, j, np.ones_like(i)], axis=1)
    solution, *_ = np.linalg.lstsq(system, held[i, j], rcond=None)
    return bool(np.array_equal(system @ np.rint(solution).astype(np.int64), held[i, j]))
