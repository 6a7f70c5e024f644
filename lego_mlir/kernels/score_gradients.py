"""Derivatives of a user's score in kernels of gradients: by the scaled product, and by what it reads of arrays.

    score(s, .., biases) = s + biases[head, j - i]
    d biases[x]  =  the sum over all pairs whose score reads x of  p (slope - delta) dscore / dbiases[x]

Each read has a derivative (`value_and_derivatives`), and each pair adds its part to an array in f32 like the one that
was read, by an atomic addition at the index of the read, clamped as it was. So the sums have no fixed order.

A tile is summed before it is added, along the axes on which an index does not depend: the score is traced with one
coordinate that has no other axis, and an index that has none either is the same along it. Warps do not wait for each
other: each adds its own sum. Elsewhere a thread adds up its pairs with equal indices, as those of one diagonal.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import lego_mlir as lego
from lego_mlir import f2, f32
from lego_mlir.aliases import Operand
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.kernels.attention_tiles import Place
from lego_mlir.kernels.pair_rules import GRADIENT_OF, SUMS_OF, PairRules, PairsOf
from lego_mlir.kernels.rule_tiles import ReadInside, pairs_of, read_types
from lego_mlir.tracing.definition.named_parameters import with_parameters
from lego_mlir.tracing.spread.distributed import common_layout, each_element
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.kernels.attention_forms import AttentionForm
    from lego_mlir.tracing.definition.kernel import Kernel

THREADS: Final = 256
"""Of a block that clears or rounds an array."""


@dataclass(frozen=True, slots=True)
class ScoreRead:
    """What a score read of the array `name`: where, the value, whether the index is the same `along` each axis."""

    name: str
    index: tuple[Operand, ...]
    value: Operand
    along: tuple[bool, ...] = ()
    slope: Operand = None


class ScoreSlopes(NamedTuple):
    """What exponents are of, its derivative by the scaled product, None without a score, and what it read."""

    scores: Operand
    slope: Operand | None
    reads: Sequence[ScoreRead] = ()


def score_and_slopes(
    form: AttentionForm, products: Operand, pair: tuple[Operand, Operand], place: Place, reads: Mapping[str, Operand],
    axis_of_query: int | None = None,
) -> ScoreSlopes:  # fmt: skip
    """Products as they are, or the user's score of these; `pair` are the tiles of queries' and of keys' positions.

    With the axis along which queries lie, what the score reads of arrays with gradients is told, too.
    """
    if form.rules.score is None:
        return ScoreSlopes(products, None)
    s = products * form.factor
    learned = form.rules.learned if axis_of_query is not None else ()
    if not learned:
        scores, slope, _ = pairs_of(form, place, reads).with_derivatives(s, *pair)
        return ScoreSlopes(scores, slope)
    log: list[ScoreRead] = []

    def pairs(kind: type[LoggedReads]) -> PairsOf:
        log.clear()
        of = {name: kind(x, name, log) if name in learned else ReadInside(x) for name, x in reads.items()}
        batch, head = place
        return PairsOf(form.rules, batch, head, of)

    same = []
    for axis in (0, 1):
        thin = [_thin(x, axis) if (k == 0) == (axis_of_query != axis) else x for k, x in enumerate(pair)]
        with current("a score").region():  # whose statements nobody takes
            pairs(PlacesOfReads).scored(s, *thin)
            same.append([all(_is_thin(one, axis) for one in read.index) for read in log])
    scores, slope, slopes = pairs(LoggedReads).with_derivatives(
        s, *pair, lambda: [(f"the array {read.name}", read.value) for read in log]
    )
    found = zip(log, slopes, *same, strict=True)
    return ScoreSlopes(scores, slope, [ScoreRead(r.name, r.index, r.value, (a, b), one) for r, one, a, b in found])


def with_slope(p: Operand, slope: Operand | None, column: Operand, keys: Operand) -> Operand:
    """Weights times the derivative of their scores, which is anything where there is no key, or none that counts."""
    return p if slope is None else lego.where((p > 0.0) & (column < keys), p * slope, 0.0)


class LoggedReads(ReadInside):
    """An array that keeps what is read of it."""

    def __init__(self, tensor: Operand, name: str, log: list[ScoreRead]) -> None:
        super().__init__(tensor)
        self.name, self.log = name, log

    def read(self, index: tuple[Operand, ...]) -> Operand:
        """The elements."""
        value = self.value(index)
        self.log.append(ScoreRead(self.name, index, value))
        return value

    def value(self, index: tuple[Operand, ...]) -> Operand:
        """The elements, of which none is kept."""
        return super().read(index)


class PlacesOfReads(LoggedReads):
    """An array of which the places of reads alone are asked: its elements are zeros."""

    def value(self, index: tuple[Operand, ...]) -> Operand:
        """Zeros, placed as the elements."""
        tiles, dtype = [one for one in index if isinstance(one, lego.Spread)], self.tensor.dtype
        return lego.full(dtype, common_layout(tiles), 0) if tiles else dtype(0)


def _thin(x: Operand, axis: int) -> Operand:
    """A tile of indices without an axis along which it is the same."""
    shape = [1 if k == axis else n for k, n in enumerate(x.shape)]
    return lego.Spread(f2.shape_ops.broadcast_backward(x.layout, shape), x.dtype, x.registers)


def _is_thin(index: Operand, axis: int) -> bool:
    """Whether an index of a read is the same along an axis, by its shape."""
    return not isinstance(index, lego.Spread) or index.shape[axis] == 1


def types_of_sums(rules: PairRules) -> dict[str, Operand]:
    """The types of the sums of gradients, by the names of parameters: f32 in rows, of the sizes of what is read."""
    known = read_types(rules)
    return {SUMS_OF + name: lego.Tensor(f32, known[name].layout) for name in rules.learned}


def add_reads(
    sums: Mapping[str, Operand], reads: Sequence[ScoreRead], p: Operand, slopes: Operand, column: Operand, keys: Operand
) -> None:
    """Add the gradients of what a tile's scores read; `slopes` are those of the weights p, less the deltas.

    The rows of the tile are divided among warps, each of which has neighbouring rows.
    """
    if not reads:
        return
    counted, each = (p > 0.0) & (column < keys), p * slopes
    for read in reads:
        one = isinstance(read.slope, float) and read.slope == 1.0
        _add(sums[SUMS_OF + read.name], lego.where(counted, each if one else each * read.slope, 0.0), read)


def _add(target: Operand, part: Operand, read: ScoreRead) -> None:
    """Add a tile at the index of a read."""
    (rows, columns), warps = part.shape, part.layout.in_sizes["warp"]
    if not any(read.along):
        _add_by_registers(target, part, read.index)
        return
    if read.along == (False, True):
        part, kept = part.sum(axis=1)[:, None], 1
    else:
        length = rows // warps * (columns if all(read.along) else 1)
        part, kept = part.reshape(warps, length, rows * columns // warps // length).sum(axis=1), 0
    index = [_thin(one, kept) if isinstance(one, lego.Spread) else one for one in read.index]
    if all(read.along):
        index = [one.registers[0] if isinstance(one, lego.Spread) else one for one in index]
    inside = [_inside(one, n) for one, n in zip(index, target.dims(), strict=True)]
    target.atomic_add(part, *(_spread(one, part) for one in inside), mask=part != 0.0)


def _spread(index: Operand, tile: Operand) -> Operand:
    """An index of a whole tile as one of each element; one of each as it is."""
    return index if isinstance(index, lego.Spread) else each_element(tile.layout, lambda _: index)


def _add_by_registers(target: Operand, part: Operand, index: Sequence[Operand]) -> None:
    """Add the registers of a tile, each at its index; those of a thread that have one index are one addition."""
    groups: dict[tuple[Hashable, ...], list[int]] = {}
    for register in range(len(part.registers)):
        at = [one.registers[register] for one in index if isinstance(one, lego.Spread)]
        groups.setdefault(tuple(x.entry.number for x in at), []).append(register)
    inside = [_inside(one, n) for one, n in zip(index, target.dims(), strict=True)]
    for first, *more in groups.values():
        value = functools.reduce(operator.add, [part.registers[register] for register in (first, *more)])
        at = [one.registers[first] if isinstance(one, lego.Spread) else one for one in inside]
        with lego.when(value != 0.0):
            target.atomic_add(value, *at)


def _inside(index: Operand, size: Operand) -> Operand:
    """The nearest index inside, as a read has it."""
    if isinstance(index, lego.Spread):
        known = {one.entry.number: one for one in index.registers}
        known = {number: _inside(one, size) for number, one in known.items()}
        return index.map(lambda one: known[one.entry.number], index)
    at = lego.index(index) if isinstance(index, Scalar) else Index(as_expr(index))
    return lego.maximum(lego.minimum(at, size - 1), 0)


def build_clear(rules: PairRules, name: str) -> Kernel:
    """The kernel that makes zeros as the sums of an array that the score reads, of which it takes the sizes."""
    of_array, of_sums = read_types(rules)[name], types_of_sums(rules)[SUMS_OF + name]

    def clear(array: Operand, sums: Operand) -> None:
        _each(sums, lambda at: sums.__setitem__(at, lego.f32(0.0)))

    return _by_elements(clear, of_sums, "attention_cleared_sums", {name: of_array, SUMS_OF + name: of_sums})


def build_round(rules: PairRules, name: str) -> Kernel:
    """The kernel that rounds the sums of an array to its type."""
    of_array, of_sums = read_types(rules)[name], types_of_sums(rules)[SUMS_OF + name]

    def rounded(sums: Operand, gradient: Operand) -> None:
        _each(sums, lambda at: gradient.__setitem__(at, sums[at].to(of_array.dtype)))

    return _by_elements(
        rounded, of_sums, "attention_rounded_sums", {SUMS_OF + name: of_sums, GRADIENT_OF + name: of_array}
    )


def _by_elements(function: Callable[..., None], of_sums: Operand, name: str, types: Mapping[str, Operand]) -> Kernel:
    blocks = lego.cdiv(math.prod(of_sums.layout.dims()), THREADS)
    return lego.kernel(grid=blocks, block=THREADS, name=name)(with_parameters(function, types))


def _each(array: Operand, function: Callable[[tuple[Operand, ...]], None]) -> None:
    """A function of the index of each element, one a thread."""
    dims = array.dims()
    number = lego.block_id[0] * THREADS + lego.thread_id[0]
    with lego.when(number < math.prod(dims)):
        at: list[Operand] = []
        for n in reversed(dims[1:]):
            at, number = [number % n, *at], number // n
        function((number, *at))
