"""The only module that imports isl (package `islpy`): integer sets with named dimensions, scanned into loops.

A `Region` is a union of basic sets in isl syntax. Regions combine with `&`, `|` and `-`, map along relations,
convert to NumPy masks, and are scanned in a given order into the loop trees of `paper/loops.py`:

>>> lower = Region("{ [i, j] : 0 <= i < 3 and 0 <= j <= i }")
>>> lower.mask(3, 3).astype(int).tolist()
[[1, 0, 0], [1, 1, 0], [1, 1, 1]]
>>> (lower & Region("{ [i, j] : i = j }")).count()
3
>>> lower.along("{ [i, j] -> [j, i] }") == Region("{ [i, j] : 0 <= i <= j <= 2 }")
True
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.aliases import IslSet
from lego_mlir.errors import DependencyError
from lego_mlir.structured.paper import loops

if TYPE_CHECKING:
    from numpy.typing import NDArray


try:
    import islpy as isl
except ImportError as error:
    raise DependencyError(f"structured matrices need islpy ({error}); run: pip install islpy") from error

# isl's default context is not thread-safe: compilation holds this lock.
LOCK: Final = threading.RLock()


@dataclass(frozen=True, eq=False)
class Region:
    """An integer set. Equality compares points, not their textual form."""

    text: str

    @cached_property
    def isl(self) -> IslSet:
        return isl.Set(self.text)

    @classmethod
    def of(cls, handle: IslSet) -> Region:
        """The region of a computed isl set."""
        region = cls("")
        region.__dict__["isl"] = handle
        object.__setattr__(region, "text", str(handle))
        return region

    def __str__(self) -> str:
        return str(self.isl)

    def __and__(self, other: Region) -> Region:
        return Region.of(self.isl.intersect(other.isl))

    def __or__(self, other: Region) -> Region:
        return Region.of(self.isl.union(other.isl).coalesce())

    def __sub__(self, other: Region) -> Region:
        return Region.of(self.isl.subtract(other.isl).coalesce())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and bool(self.isl.is_equal(other.isl))

    def __hash__(self) -> int:
        return hash(Region)

    def __le__(self, other: Region) -> bool:
        return bool(self.isl.is_subset(other.isl))

    @property
    def empty(self) -> bool:
        return bool(self.isl.is_empty())

    def along(self, relation: str) -> Region:
        """The image under a relation, such as the expansion `{ [i, j] -> [i, k, j] : 0 <= k < 4 }`."""
        return Region.of(self.isl.apply(isl.Map(relation)).coalesce())

    def first(self, keep: Sequence[int]) -> Region:
        """The lexicographic minimum of each group of points that agree in the dimensions `keep`."""
        rank = int(self.isl.dim(isl.dim_type.set))
        names = [f"d{axis}" for axis in range(rank)]
        kept = ", ".join(names[axis] for axis in keep)
        onto = isl.Map(f"{{ [{', '.join(names)}] -> [{kept}] }}")
        return Region.of(onto.intersect_domain(self.isl).reverse().lexmin().range().coalesce())

    def count(self) -> int:
        """The number of points."""
        return int(self.isl.count_val().to_python())

    def points(self) -> list[tuple[int, ...]]:
        """The points, in lexicographic order."""
        found: list[tuple[int, ...]] = []
        rank = int(self.isl.dim(isl.dim_type.set))

        def keep(point: IslSet) -> None:
            found.append(
                tuple(int(point.get_coordinate_val(isl.dim_type.set, axis).to_python()) for axis in range(rank))
            )

        self.isl.foreach_point(keep)
        return sorted(found)

    def mask(self, *sizes: int) -> NDArray[np.bool_]:
        """True where the point of the box `0..sizes` lies in the region."""
        result = np.zeros(sizes, bool)
        if any(int(basic.dim(isl.dim_type.div)) for basic in self.isl.get_basic_sets()):
            for point in self.points():
                result[point] = True
            return result
        grid = np.ogrid[tuple(slice(0, size) for size in sizes)]
        for basic in self.isl.get_basic_sets():
            inside = np.ones(sizes, bool)
            for constraint in basic.get_constraints():
                total: Any = int(constraint.get_constant_val().to_python())
                for axis, values in enumerate(grid):
                    total = total + int(constraint.get_coefficient_val(isl.dim_type.set, axis).to_python()) * values
                inside &= (total == 0) if constraint.is_equality() else (total >= 0)
            result |= inside
        return result


def gather(relation: str, i: loops.Expr, j: loops.Expr) -> tuple[loops.Expr, loops.Expr]:
    """The image of the index pair (i, j) under an affine gather such as `{ [i, j] -> [j, i + 2] }`."""
    function = isl.MultiAff(relation)
    results = []
    for axis in range(2):
        aff = function.get_aff(axis)
        total: loops.Expr = loops.Const(int(aff.get_constant_val().to_python()))
        for position, index in enumerate((i, j)):
            factor = int(aff.get_coefficient_val(isl.dim_type.in_, position).to_python())
            total = _plus(total, factor, index)
        results.append(total)
    return results[0], results[1]


def gather_arrays(relation: str, rows: int, columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`gather` for all index pairs at once: two arrays of shape (rows, columns)."""
    function = isl.MultiAff(relation)
    grid = np.indices((rows, columns), dtype=np.int64)
    results = []
    for axis in range(2):
        aff = function.get_aff(axis)
        total = np.full((rows, columns), int(aff.get_constant_val().to_python()), np.int64)
        for position in range(2):
            total += int(aff.get_coefficient_val(isl.dim_type.in_, position).to_python()) * grid[position]
        results.append(total)
    return results[0], results[1]


def compose(first: str, second: str) -> str:
    """The gather that applies `first`, then `second`."""
    return str(isl.MultiAff(second).pullback_multi_aff(isl.MultiAff(first)))


def _plus(total: loops.Expr, factor: int, index: loops.Expr) -> loops.Expr:
    if factor == 0:
        return total
    match total, factor:
        case loops.Const(0), 1:
            return index
        case _, 1:
            return loops.Op("+", (total, index))
    scaled = loops.Op("*", (loops.Const(factor), index))
    return scaled if total == loops.Const(0) else loops.Op("+", (total, scaled))


def scan(
    statements: Sequence[tuple[str, Region, str]], rank: int, names: Sequence[str], isolate: Region | None = None
) -> loops.Tree:
    """Loops that run every point of every (name, domain, schedule), in the order of the schedules.

    A schedule is the right side of a relation over the domain's names, such as `[k, i, j]`; all have `rank` entries.
    Points scheduled within `isolate` get separate loops, which splits partial from full iterations.
    """
    domains = [_named(name, domain, names) for name, domain, _ in statements if not domain.empty]
    if not domains:
        return loops.Block(())
    space = isl.UnionSet.from_set(domains[0])
    for domain in domains[1:]:
        space = space.union(isl.UnionSet.from_set(domain))
    relation = "; ".join(f"{name}[{', '.join(names)}] -> {time}" for name, _, time in statements)
    times = isl.UnionMap(f"{{ {relation} }}").intersect_domain(space)
    band = isl.Schedule.from_domain(space).insert_partial_schedule(isl.MultiUnionPwAff.from_union_map(times))
    if isolate is not None:
        clocks = ", ".join(f"t{axis}" for axis in range(rank))
        option = isl.Map(f"{{ [{clocks}] -> isolate[[] -> [{clocks}]] }}")
        chosen = isl.UnionSet.from_set(isolate.isl.apply(option))
        band = band.get_root().child(0).band_set_ast_build_options(chosen).get_schedule()
    clock_names = isl.IdList.alloc(isl.DEFAULT_CONTEXT, rank)
    for axis in range(rank):
        clock_names = clock_names.add(isl.Id(f"c{axis}"))
    build = isl.AstBuild.alloc(isl.DEFAULT_CONTEXT).set_iterators(clock_names)
    return _tree(build.node_from_schedule(band))


def _named(name: str, domain: Region, names: Sequence[str]) -> IslSet:
    handle = domain.isl
    for axis, label in enumerate(names):
        handle = handle.set_dim_name(isl.dim_type.set, axis, label)
    return handle.set_tuple_name(name)


def _tree(node: IslSet) -> loops.Tree:
    kind = node.get_type()
    kinds = isl.ast_node_type
    if kind == kinds.block:
        children = node.block_get_children()
        return loops.Block(tuple(_tree(children.get_at(position)) for position in range(children.n_ast_node())))
    if kind == kinds.if_:
        otherwise = _tree(node.if_get_else_node()) if node.if_has_else_node() else None
        return loops.Guard(_expr(node.if_get_cond()), _tree(node.if_get_then_node()), otherwise)
    if kind == kinds.user:
        call = node.user_get_expr()
        args = [call.op_get_arg(position) for position in range(call.op_get_n_arg())]
        return loops.Instance(args[0].id_get_id().get_name(), tuple(map(_expr, args[1:])))
    if kind == kinds.mark:
        return _tree(node.mark_get_node())
    var = node.for_get_iterator().id_get_id().get_name()
    init = _expr(node.for_get_init())
    if node.for_is_degenerate():
        once = loops.Op("<=", (loops.Var(var), init))
        return loops.ForLoop(var, init, once, loops.Const(1), _tree(node.for_get_body()))
    condition = _expr(node.for_get_cond())
    return loops.ForLoop(var, init, condition, _expr(node.for_get_inc()), _tree(node.for_get_body()))


# isl's exact, non-negative and floor divisions all agree with Python's // on their domains.
_OPS: Final = {
    "add": "+", "sub": "-", "mul": "*", "minus": "neg", "min": "min", "max": "max",
    "div": "div", "fdiv_q": "div", "pdiv_q": "div", "pdiv_r": "mod", "zdiv_r": "mod",
    "le": "<=", "lt": "<", "ge": ">=", "gt": ">", "eq": "==",
    "and_": "and", "and_then": "and", "or_": "or", "or_else": "or",
}  # fmt: skip


def _expr(expr: IslSet) -> loops.Expr:
    kind = expr.get_type()
    if kind == isl.ast_expr_type.int:
        return loops.Const(int(expr.int_get_val().to_python()))
    if kind == isl.ast_expr_type.id:
        return loops.Var(expr.id_get_id().get_name())
    op = _OPS[expr.op_get_type().name]
    args = [_expr(expr.op_get_arg(position)) for position in range(expr.op_get_n_arg())]
    result = args[0]
    if len(args) == 1:
        return loops.Op(op, (result,))
    for arg in args[1:]:
        result = loops.Op(op, (result, arg))
    return result
