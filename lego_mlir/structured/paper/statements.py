"""From steps to polyhedral statements: algorithms 1 and 2 of the LGen paper, and its init/accumulate split.

A step becomes statements <domain, schedule, body>. All domains share one index space: `i` and `j` of the target and one
`k` per product. Zero regions are excluded, and each AInfo region gets a separate body:

>>> from lego_mlir.structured.lower import lower
>>> from lego_mlir.structured.language import parse
>>> step = lower(parse('''A = Matrix(4, 4); L = LowerTriangular(4); S = Symmetric(L, 4); U = UpperTriangular(4);
...     A = L*U + S;''')).steps[0]
>>> for statement in statements(step):
...     print(statement.body, "at", statement.domain.count(), "points")
A[i, j] = L[i, k] * U[k, j] + S[i, j] at 10 points
A[i, j] = L[i, k] * U[k, j] + S[j, i] at 6 points
A[i, j] += L[i, k] * U[k, j] at 14 points
>>> print(loops.show(scan(statements(step))))
for (c1 = 0; c1 <= 3; c1 += 1)
  for (c2 = 0; c2 <= c1; c2 += 1)
    S0(c1, 0, c2);
  for (c2 = c1 + 1; c2 <= 3; c2 += 1)
    S1(c1, 0, c2);
for (c0 = 1; c0 <= 3; c0 += 1)
  for (c1 = c0; c1 <= 3; c1 += 1)
    for (c2 = c0; c2 <= 3; c2 += 1)
      S2(c1, c0, c2);
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import assert_never

from lego_mlir.structured import sets
from lego_mlir.structured.lower import Factor, Factorise, Leaf, Solve, Step, Term, Update
from lego_mlir.structured.paper import loops
from lego_mlir.structured.sets import Region
from lego_mlir.structured.structures import Structure

ROW, COLUMN = loops.Var("i"), loops.Var("j")


@dataclass(frozen=True)
class ElementRead:
    """One element of a leaf, at the place that AInfo gives; `leaf` None is the constant one."""

    leaf: Leaf | None
    row: loops.Expr
    column: loops.Expr

    def __str__(self) -> str:
        if self.leaf is None:
            return "1"
        return f"{self.leaf}[{loops.text(self.row)}, {loops.text(self.column)}]"


@dataclass(frozen=True)
class Product:
    """number * scalars * elements."""

    number: float
    scalars: tuple[Leaf, ...]
    reads: tuple[ElementRead, ...]

    def __str__(self) -> str:
        head = ["-" if self.number == -1 else str(self.number)] if self.number != 1 else []
        return " * ".join([*head, *map(str, self.scalars), *map(str, self.reads)])


@dataclass(frozen=True)
class Body:
    """`target op sum of products`; op is `=`, `+=`, `/=`, or `sqrt` (without products)."""

    target: ElementRead
    op: str
    products: tuple[Product, ...]

    def __str__(self) -> str:
        return f"{self.target} {self.op} {' + '.join(map(str, self.products)) or '0'}"

    @property
    def flops(self) -> int:
        """Additions, multiplications, divisions and roots of one instance; `/=` multiplies by a reciprocal."""
        inside = sum(max(len(p.reads) + len(p.scalars) - 1, 0) + (p.number not in (1.0, -1.0)) for p in self.products)
        sums = max(len(self.products) - 1, 0)
        return inside + sums + {"=": 0, "/=": 2}.get(self.op, 1)


@dataclass(frozen=True)
class PolyhedralStatement:
    """A body, its iteration domain and its schedule: the right side of a relation, such as `[k, i, j]`."""

    name: str
    domain: Region
    schedule: str
    body: Body
    space: tuple[str, ...]


@dataclass(frozen=True)
class _Piece:
    domain: Region
    product: Product


def iteration_space(first: dict[str, Region], second: dict[str, Region]) -> Region:
    """Algorithm 1: where the product of two matrices with these (expanded) SInfo dictionaries is nonzero."""
    pairs = [a & b for m0, a in first.items() if m0 != "Z" for m1, b in second.items() if m1 != "Z"]
    return reduce(Region.__or__, pairs) if pairs else Region("{ [i, k, j] : false }")


def split(space: Region) -> tuple[Region, Region]:
    """The initialization (first k of each (i, j)) and the accumulation (the rest)."""
    init = space.first((0, 2))
    return init, space - init


def product_pieces(
    space: Region, first: Sequence[tuple[Region, ElementRead]], second: Sequence[tuple[Region, ElementRead]], term: Term
) -> list[_Piece]:
    """Algorithm 2: one piece per combination of access regions that intersects the iteration space."""
    pieces = []
    for region0, read0 in first:
        for region1, read1 in second:
            domain = region0 & region1 & space
            if not domain.empty:
                pieces.append(_Piece(domain, Product(*term.scale, (read0, read1))))
    return pieces


def _expand(region: Region, transposed: bool, names: tuple[str, str], space: str, bounds: str) -> Region:
    pair = f"[{names[1]}, {names[0]}]" if transposed else f"[{names[0]}, {names[1]}]"
    return region.along(f"{{ {pair} -> {space} : {bounds} }}")


@dataclass(frozen=True)
class _Expanded:
    """The two dictionaries of a factor, expanded into an index space."""

    sinfo: dict[str, Region]
    reads: tuple[tuple[Region, ElementRead], ...]


def _expanded(factor: Factor, names: tuple[str, str], space: str, bounds: str) -> _Expanded:
    structure = factor.leaf.structure
    sinfo = {tag: _expand(region, factor.transposed, names, space, bounds) for tag, region in structure.regions.items()}
    row, column = (loops.Var(name) for name in (reversed(names) if factor.transposed else names))
    reads: list[tuple[Region, ElementRead]] = []
    for region, access in structure.accesses:
        where = _expand(region, factor.transposed, names, space, bounds)
        for tag, tagged in sinfo.items():
            both = where & tagged
            if tag not in ("Z", "I") and not both.empty:
                reads.append((both, ElementRead(factor.leaf, *sets.gather(access.gather, row, column))))
    if "I" in sinfo:
        reads.append((sinfo["I"], ElementRead(None, row, column)))
    return _Expanded(sinfo, tuple(reads))


def own_elements(structure: Structure) -> Region:
    """The elements that a structure stores in place: those that a statement writing it computes."""
    parts = [region & _fixed(access.gather) for region, access in structure.accesses]
    kept = reduce(Region.__or__, parts) if parts else Region("{ [i, j] : false }")
    stored = [region for tag, region in structure.regions.items() if tag not in ("Z", "I")]
    return kept & reduce(Region.__or__, stored) if stored else kept


def _fixed(gather: str) -> Region:
    row, column = sets.gather(gather, ROW, COLUMN)
    return Region(f"{{ [i, j] : {loops.text(row)} = i and {loops.text(column)} = j }}")


def _update(step: Update, order: Sequence[str] | None) -> list[PolyhedralStatement]:
    target = step.target.structure
    products = [term for term in step.terms if len(term.factors) == 2]
    ks = ("k",) if len(products) == 1 else tuple(f"k{index}" for index in range(len(products)))
    space = ("i", *ks, "j")
    written = f"[{', '.join(space)}]"
    inits: list[tuple[Region, tuple[Product, ...]]] = [(own_elements(target).along(f"{{ [i, j] -> {written} }}"), ())]
    fixed = dict.fromkeys(ks, Region(f"{{ {written} : false }}"))
    accumulate: list[tuple[str, _Piece]] = []
    at = 0
    for term in step.terms:
        if len(term.factors) == 2:
            first, later, pinned = _product(term, ks[at], step, written)
            fixed[ks[at]] = pinned
            accumulate += [(ks[at], piece) for piece in later]
            pieces, absent = first, f"{ks[at]} = 0"
            at += 1
        else:
            expanded = _expanded(term.factors[0], ("i", "j"), written, "true")
            nonzero = [region for tag, region in expanded.sinfo.items() if tag != "Z"]
            there = reduce(Region.__or__, nonzero) if nonzero else Region(f"{{ {written} : false }}")
            pieces = [_Piece(where & there, Product(*term.scale, (read,))) for where, read in expanded.reads]
            absent = "true"
        inits = _add(inits, pieces, Region(f"{{ {written} : {absent} }}"), written)
    if not inits:  # the target stores no element
        return []
    whole = reduce(Region.__or__, [domain for domain, _ in inits])
    result = ElementRead(step.target, ROW, COLUMN)
    bodies = [(domain, Body(result, "=", terms)) for domain, terms in inits]
    for name, piece in accumulate:
        domain = reduce(Region.__and__, [fixed[other] for other in ks if other != name], piece.domain)
        shadow = _shadow(whole, written)
        bodies.append((domain & shadow, Body(result, "+=", (piece.product,))))
    times = f"[{', '.join(order or (*ks, 'i', 'j'))}]"
    kept = [(domain, body) for domain, body in bodies if not domain.empty]
    return [PolyhedralStatement(f"S{n}", domain, times, body, space) for n, (domain, body) in enumerate(kept)]


def _shadow(region: Region, written: str) -> Region:
    """All points that share (i, j) with a point of the region."""
    return region.along(f"{{ {written} -> [i, j] }}").along(f"{{ [i, j] -> {written} }}")


def _product(term: Term, k: str, step: Update, written: str) -> tuple[list[_Piece], list[_Piece], Region]:
    """Init pieces, accumulating pieces, and the points where k is fixed: at its first value, or 0 if there is none."""
    first, second = term.factors
    sizes = step.target.structure
    left = _expanded(first, ("i", "k"), "[i, k, j]", f"0 <= j < {sizes.columns}")
    right = _expanded(second, ("k", "j"), "[i, k, j]", f"0 <= i < {sizes.rows}")
    space = iteration_space(left.sinfo, right.sinfo)
    into = f"{{ [i, {k}, j] -> {written} }}"
    if space.empty:
        return [], [], Region(f"{{ {written} : {k} = 0 }}")
    rename = {"k": loops.Var(k)}
    renamed = [
        tuple(
            (where, replace(read, row=_renamed(read.row, rename), column=_renamed(read.column, rename)))
            for where, read in found
        )
        for found in (left.reads, right.reads)
    ]
    init, later = (
        [_Piece(p.domain.along(into), p.product) for p in product_pieces(part, renamed[0], renamed[1], term)]
        for part in split(space)
    )
    start = split(space)[0].along(into)
    nowhere = Region(f"{{ {written} : {k} = 0 }}") - _shadow(start, written)
    return init, later, start | nowhere


def _renamed(expr: loops.Expr, names: dict[str, loops.Var]) -> loops.Expr:
    match expr:
        case loops.Var(name):
            return names.get(name, expr)
        case loops.Op(op, args):
            return loops.Op(op, tuple(_renamed(arg, names) for arg in args))
    return expr


def _add(
    inits: list[tuple[Region, tuple[Product, ...]]], pieces: list[_Piece], absent: Region, written: str
) -> list[tuple[Region, tuple[Product, ...]]]:
    """Add one term to the statements so far: each domain intersected with each piece, and the remainder."""
    result = []
    for domain, terms in inits:
        rest = domain
        for piece in pieces:
            both = domain & piece.domain
            if not both.empty:
                result.append((both, (*terms, piece.product)))
                rest = rest - _shadow(both, written)
        rest = rest & absent
        if not rest.empty:
            result.append((rest, terms))
    return result


def _solve(step: Solve) -> list[PolyhedralStatement]:
    """Forward or backward substitution: subtract the known terms, then divide by a non-unit diagonal."""
    target, triangle = step.target, step.triangle
    written = "[i, k, j]"
    factor = _expanded(triangle, ("i", "k"), written, f"0 <= j < {target.structure.columns}")
    mine = own_elements(target.structure).along(f"{{ [i, j] -> {written} }}")
    source = own_elements(target.structure).along(f"{{ [k, j] -> {written} }}")
    stored = reduce(Region.__or__, [r for t, r in factor.sinfo.items() if t != "Z"], Region(f"{{ {written} : false }}"))
    known = "k < i" if step.kind == "L" else "k > i"
    times = "[i, k, j]" if step.kind == "L" else "[-i, -k, j]"
    bodies = []
    for where, read in factor.reads:
        earlier = where & stored & mine & source & Region(f"{{ {written} : {known} }}")
        product = Product(-1.0, (), (read, ElementRead(target, loops.Var("k"), COLUMN)))
        bodies.append((earlier, Body(ElementRead(target, ROW, COLUMN), "+=", (product,))))
        if read.leaf is not None:
            here = where & stored & mine & Region(f"{{ {written} : i = k }}")
            bodies.append((here, Body(ElementRead(target, ROW, COLUMN), "/=", (Product(1.0, (), (read,)),))))
    return _numbered(bodies, times, ("i", "k", "j"))


def _numbered(bodies: list[tuple[Region, Body]], times: str, space: tuple[str, ...]) -> list[PolyhedralStatement]:
    kept = [(domain, body) for domain, body in bodies if not domain.empty]
    return [PolyhedralStatement(f"S{n}", domain, times, body, space) for n, (domain, body) in enumerate(kept)]


def _factorise(step: Factorise) -> list[PolyhedralStatement]:
    """Right-looking chol and lu, in place. The target's region excludes the zeros of a band."""
    leaf = step.target
    k = loops.Var("k")

    def at(row: loops.Expr, column: loops.Expr) -> ElementRead:
        return ElementRead(leaf, row, column)

    def inside(first: str, second: str) -> Region:
        return own_elements(leaf.structure).along(f"{{ [{first}, {second}] -> [i, k, j] }}")

    def where(condition: str) -> Region:
        return Region(f"{{ [i, k, j] : 0 <= i, k, j < {leaf.structure.rows} and {condition} }}")

    column, row, here = inside("i", "k"), inside("k", "j"), inside("i", "j")
    divided = Body(at(ROW, COLUMN), "/=", (Product(1.0, (), (at(k, k),)),))
    divide = _timed("d", where("i > k and j = k") & column, "[k, 1, i, j]", divided)
    if step.function == "chol":
        # in round k: the root, then its column, then the rest
        root = _timed("r", where("i = k and j = k"), "[k, 0, i, j]", Body(at(ROW, COLUMN), "sqrt", ()))
        rest = where("k < j <= i") & column & here & inside("j", "k")
        subtracted = (at(ROW, k), at(COLUMN, k))
    else:
        root = []
        rest = where("k < i and k < j") & column & row & here
        subtracted = (at(ROW, k), at(k, COLUMN))
    update = Body(at(ROW, COLUMN), "+=", (Product(-1.0, (), subtracted),))
    return [*root, *divide, *_timed("u", rest, "[k, 2, i, j]", update)]


def _timed(name: str, domain: Region, schedule: str, body: Body) -> list[PolyhedralStatement]:
    return [] if domain.empty else [PolyhedralStatement(name, domain, schedule, body, ("i", "k", "j"))]


def statements(step: Step, order: Sequence[str] | None = None) -> list[PolyhedralStatement]:
    """The statements of a step. `order` is the global loop order; the default is the paper's (k, i, j)."""
    match step:
        case Update():
            return _update(step, order)
        case Solve():
            return _solve(step)
        case Factorise():
            return _factorise(step)
        case _:
            assert_never(step)


def scan(found: Sequence[PolyhedralStatement], separate: bool = False) -> loops.Tree:
    """The loop tree of the statements. `separate` isolates the times at which all init statements run, as CLooG does,
    which splits full from partial iterations."""
    if not found:
        return loops.Block(())
    space = found[0].space
    rank = found[0].schedule.count(",") + 1
    isolate = None
    if separate:
        written = f"[{', '.join(space)}]"
        inits = [s for s in found if s.body.op == "="]
        clocks = [f"t{axis}" for axis in range(rank)]
        spread = f"{{ [{', '.join(clocks)}] -> [{', '.join([*clocks[:-1], 'z'])}] }}"
        times = [s.domain.along(f"{{ {written} -> {s.schedule} }}").along(spread) for s in inits]
        isolate = reduce(Region.__and__, times) if times else None
    return sets.scan([(s.name, s.domain, s.schedule) for s in found], rank, space, isolate)


def flops(step: Step) -> int:
    """Floating-point operations of the step's statements."""
    return sum(statement.domain.count() * statement.body.flops for statement in statements(step))


def instances(step: Step, order: Sequence[str] | None = None, separate: bool = False) -> list[Body]:
    """The bodies executed by the step's loops, in order, with concrete indices."""
    found = statements(step, order)
    named = {statement.name: statement for statement in found}
    return [
        placed(named[name].body, dict(zip(named[name].space, point, strict=True)))
        for name, point in loops.instances(scan(found, separate))
    ]


def placed(body: Body, point: dict[str, int]) -> Body:
    """The body at one index point."""

    def at(read: ElementRead) -> ElementRead:
        row, column = (loops.Const(loops.value(expr, point)) for expr in (read.row, read.column))
        return replace(read, row=row, column=column)

    products = tuple(replace(product, reads=tuple(map(at, product.reads))) for product in body.products)
    return replace(body, target=at(body.target), products=products)
