"""Operations of our index expressions against hand-written ones: the table docs/results/op-counts.md.

    python bench/op_counts.py            print the table and write docs/results/op-counts.md
    python bench/op_counts.py --check    print it, and fail where ours is dearer or the file is out of date

A division or a remainder counts four operations, anything else one, and a subexpression that occurs twice is computed
once, on both sides. The hand-written form is Python text: it is run on numbers, where it must agree with ours, and on
`Tally` values, which count the distinct operations it performs.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import runner
import sympy

from lego_mlir.expr.cost import operations
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, index_symbol
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.sharing import straight_line
from lego_mlir.expr.simplify import Derivation, simplify_all
from lego_mlir.expr.sizes import size
from lego_mlir.f2 import LinearLayout
from lego_mlir.f2 import encodings as f2
from lego_mlir.layout import Col, OrderBy, RegP, Row, TileOrderBy, gallery

TABLE = Path(__file__).parent.parent / "docs" / "results/op-counts.md"
DEAR = ("//", "%")  # operations that count four
TRIALS = 200


class Tally:
    """A value that records how it was computed; equal computations are one."""

    def __init__(self, key: Any, seen: dict[Any, Tally], cost: int = 0) -> None:
        self.key, self.seen, self.cost = key, seen, cost

    def made(self, op: str, *operands: Any) -> Tally:
        keys = tuple(o.key if isinstance(o, Tally) else o for o in operands)
        if op in ("+", "*", "^", "&", "|"):
            keys = tuple(sorted(keys, key=str))
        key = (op, *keys)
        return self.seen.setdefault(key, Tally(key, self.seen, 4 if op in DEAR else 1))


def _operator(op: str) -> tuple[Callable[..., Tally], Callable[..., Tally]]:
    return (lambda a, b: a.made(op, a, b)), (lambda a, b: a.made(op, b, a))


_NAMES = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "xor": "^", "and": "&", "or": "|",
    "lshift": "<<", "rshift": ">>",
}  # fmt: skip
for _name, _op in _NAMES.items():
    _forward, _backward = _operator(_op)
    setattr(Tally, f"__{_name}__", _forward)
    setattr(Tally, f"__r{_name}__", _backward)
Tally.__neg__ = lambda a: a.made("-", a)
Tally.__pow__ = lambda a, n: a if n == 1 else a.made("*", a ** (n - 1), a)
for _name, _op in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Tally, f"__{_name}__", _operator(_op)[0])


def _on_tallies() -> dict[str, Any]:
    return {
        "min": lambda a, b: a.made("min", a, b),
        "minimum": lambda a, b: a.made("min", a, b),
        "maximum": lambda a, b: a.made("max", a, b),
        "isqrt": lambda a: a.made("isqrt", a),
        "where": lambda c, a, b: c.made("where", c, a, b),
    }


def _on_numbers() -> dict[str, Any]:
    return {"min": min, "isqrt": isqrt, "where": lambda c, a, b: a if c else b}


def tallied(code: str, inputs: Iterable[Any]) -> int:
    """The operations of Python text over these inputs."""
    seen: dict[Any, Tally] = {}
    names = _on_tallies() | {str(s): Tally(str(s), seen) for s in inputs}
    exec(NEGATED_FIRST.sub(r"\2 - \1", code), names)
    return sum(t.cost for t in seen.values())


NEGATED_FIRST = re.compile(r"(?<=\()-(\w+) \+ (\w+)")
"""`(-n + s`, as SymPy orders the terms of the subtraction `s - n`."""


@dataclass(frozen=True)
class Case:
    """What is compared: our expressions under their ranges, and lines of Python that compute the same `results`."""

    name: str
    exprs: tuple[Any, ...]
    ranges: dict[Any, Range]
    by_hand: str
    results: tuple[str, ...]
    note: str = ""
    given: str = ""  # assignments to what a hand-written kernel gets as arguments; not counted

    def symbols(self) -> list[Any]:
        found = set().union(*(e.free_symbols for e in self.exprs), self.ranges)
        ends = [end for r in self.ranges.values() for end in (r.lo, r.hi)]
        return sorted(found.union(*(sympy.sympify(e).free_symbols for e in ends)), key=str)

    def derivations(self) -> tuple[Derivation, ...]:
        return simplify_all(self.exprs, self.ranges)

    def hand_operations(self) -> int:
        names = [line.split(" = ")[0] for line in self.given.splitlines()]
        return tallied(self.by_hand, [*self.symbols(), *names])

    def draw(self, source: random.Random) -> dict[Any, int]:
        """Values for every symbol, within the facts."""
        values: dict[Any, int] = {}
        for s in self.symbols():
            if isinstance(s, Size):
                values[s] = s.least + s.multiple_of * source.randint(0, 5)
        for s, r in self.ranges.items():
            values[s] = source.randrange(int(evaluate(r.lo, values)), int(evaluate(r.hi, values)))
        return values

    def agrees(self) -> bool:
        """Whether the hand-written form computes what ours does, at random points."""
        source = random.Random(7)
        found = [d.expr for d in self.derivations()]
        for _ in range(TRIALS):
            values = self.draw(source)
            names: dict[str, Any] = _on_numbers() | {str(s): v for s, v in values.items()}
            exec(self.given, names)
            exec(self.by_hand, names)
            if [names[r] for r in self.results] != [evaluate(e, values) for e in found]:
                return False
        return True


def symbols(names: str) -> list[Index]:
    return [index_symbol(name) for name in names.split()]


def expressions(*values: Any) -> tuple[Any, ...]:
    return tuple(v.expr if isinstance(v, Index) else sympy.sympify(v) for v in values)


def below(**ends: Any) -> dict[Any, Range]:
    """Ranges from 0 of symbols by name."""
    return {index_symbol(n).expr: Range(0, end.expr if isinstance(end, Index) else end) for n, end in ends.items()}


def program_ids() -> list[Case]:
    (pid,) = symbols("pid")
    cases = []
    tutorial = """\
num_pid_in_group = GROUP_M * num_pid_n
group_id = pid // num_pid_in_group
first_pid_m = group_id * GROUP_M
group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
pid_m = first_pid_m + (pid % num_pid_in_group) % group_size_m
pid_n = (pid % num_pid_in_group) // group_size_m"""
    expert = """\
num_pid_in_group = GROUP_M * num_pid_n
pid_m = pid // num_pid_in_group * GROUP_M + pid % GROUP_M
pid_n = pid % num_pid_in_group // GROUP_M"""
    expert_constant = """\
pid_m = pid // 128 * 8 + pid % 8
pid_n = pid % 128 // 8"""
    full = "GROUP_M divides num_pid_m, as the paper's layout has it"
    groups, group, columns = size("groups"), size("GROUP_M"), size("num_pid_n")
    layout = TileOrderBy(Row(groups, 1), Col(group, columns)).GroupBy([groups * group, columns])
    exprs, ranges = expressions(*layout.inv(pid)), below(pid=groups * group * columns)
    cases.append(Case("program id, Triton's tutorial, symbolic", exprs, ranges, tutorial, ("pid_m", "pid_n"),
                      "the tutorial's form; its `min` serves a last group that is smaller, which the layout has not",
                      "num_pid_m = groups * GROUP_M"))  # fmt: skip
    cases.append(Case("program id, divisible, symbolic", exprs, ranges, expert, ("pid_m", "pid_n"), full))
    layout = TileOrderBy(Row(4, 1), Col(8, 16)).GroupBy([32, 16])
    exprs, ranges = expressions(*layout.inv(pid)), below(pid=512)
    cases.append(Case("program id, divisible, 32 x 16 by 8", exprs, ranges, expert_constant, ("pid_m", "pid_n"), full))
    return cases


def matmul_offsets() -> list[Case]:
    cases = []
    m, n, k = size("M", multiple_of=128), size("N", multiple_of=64), size("K", multiple_of=32)
    sizes: dict[str, tuple[Any, Any, Any]] = {"symbolic": (m, n, k), "1024 x 512 x 256": (1024, 512, 256)}
    for label, (rows, columns, depth) in sizes.items():
        operands = {
            "A": ((rows, depth), (128, 32), "M K", "pid_m k i l"),
            "B": ((depth, columns), (32, 64), "K N", "k pid_n l j"),
            "C": ((rows, columns), (128, 64), "M N", "pid_m pid_n i j"),
        }
        for name, ((r, c), (tr, tc), named, index) in operands.items():
            for order, form in (("row-major", Row), ("column-major", Col)):
                tiles = [r // tr, c // tc]
                layout = form(r, c).tile_by(tiles, [tr, tc])
                x, y, i, j = index.split()
                stride = dict(zip(named.split(), (r, c), strict=True))[named.split()[1 if order == "row-major" else 0]]
                row, column = f"({x} * {tr} + {i})", f"({y} * {tc} + {j})"
                outer, inner = (row, column) if order == "row-major" else (column, row)
                cases.append(Case(
                    f"matmul {name}, {order}, {label}", expressions(layout.apply(*symbols(index))),
                    below(**{x: tiles[0], y: tiles[1], i: tr, j: tc}),
                    f"offset = {outer} * {stride} + {inner}", ("offset",),
                ))  # fmt: skip
    return cases


def matmul_set() -> list[Case]:
    """Program id and all three offsets together, as one kernel computes them."""
    groups, columns, k_tiles = size("groups"), size("num_pid_n"), size("k_tiles")
    pid, k, i, j, kk = symbols("pid k i j l")
    order = TileOrderBy(Row(groups, 1), Col(8, columns)).GroupBy([groups * 8, columns])
    pid_m, pid_n = order.inv(pid)
    m, n, depth = groups * 8 * 128, columns * 64, k_tiles * 32
    a = Row(m, depth).tile_by([groups * 8, k_tiles], [128, 32]).apply(pid_m, k, i, kk)
    b = Row(depth, n).tile_by([k_tiles, columns], [32, 64]).apply(k, pid_n, kk, j)
    c = Row(m, n).tile_by([groups * 8, columns], [128, 64]).apply(pid_m, pid_n, i, j)
    by_hand = """\
group = 8 * num_pid_n
pid_m = pid // group * 8 + pid % 8
pid_n = pid % group // 8
K = k_tiles * 32
N = num_pid_n * 64
row = pid_m * 128 + i
column = pid_n * 64 + j
depth = k * 32 + l
a = row * K + depth
b = depth * N + column
c = row * N + column"""
    ranges = below(pid=groups * 8 * columns, k=k_tiles, i=128, j=64, l=32)
    return [Case("matmul program id, A, B and C", expressions(pid_m, pid_n, a, b, c), ranges, by_hand,
                 ("pid_m", "pid_n", "a", "b", "c"), "one kernel; A, B, C row-major")]  # fmt: skip


def transpose() -> list[Case]:
    m, n = size("M", multiple_of=32), size("N", multiple_of=32)
    bx, by, tx, ty = symbols("bx by tx ty")
    read = Row(m, n).tile_by([m // 32, n // 32], [32, 32]).apply(by, bx, ty, tx)
    write = Row(n, m).tile_by([n // 32, m // 32], [32, 32]).apply(bx, by, ty, tx)
    tile = Row(32, 33)
    by_hand = """\
source = (by * 32 + ty) * N + bx * 32 + tx
target = (bx * 32 + ty) * M + by * 32 + tx
put = ty * 33 + tx
get = tx * 33 + ty"""
    exprs = expressions(read, write, tile.apply(ty, tx), tile.apply(tx, ty))
    ranges = below(bx=n // 32, by=m // 32, tx=32, ty=32)
    return [Case("tiled transpose, symbolic", exprs, ranges, by_hand, ("source", "target", "put", "get"))]


ANTIDIAGONAL = """\
d = i + j + 1
e = 2 * {n} - d
position = where(d <= {n}, i + d * (d - 1) // 2, {n} * {n} - {n} + i - e * (e - 1) // 2)"""

ANTIDIAGONAL_INVERSE = """\
first = p < {n} * ({n} + 1) // 2
x = where(first, p, {n} * {n} - 1 - p)
root = isqrt(2 * x)
d = root + where(x >= root * (root + 1) // 2, 1, 0)
r = x - d * (d - 1) // 2
s = d - r - 1
i = where(first, r, {n} - 1 - r)
j = where(first, s, {n} - 1 - s)"""


def antidiagonal() -> list[Case]:
    cases = []
    i, j, p = symbols("i j p")
    for label, n in (("n x n", size("n")), ("16 x 16", 16)):
        layout = OrderBy(gallery.antidiagonal(n)).GroupBy([n, n])
        apply = ANTIDIAGONAL.format(n="n")
        inverse = ANTIDIAGONAL_INVERSE.format(n="n")
        if label == "16 x 16":  # constants folded, as anybody would
            apply = apply.replace("n * n - n", "240").replace("2 * n", "32").replace("<= n", "<= 16")
            inverse = inverse.replace("n * (n + 1) // 2", "136").replace("n * n - 1", "255").replace("n - 1", "15")
        cases.append(Case(f"anti-diagonal {label}, apply", expressions(layout.apply(i, j)), below(i=n, j=n), apply,
                          ("position",), "figure 8"))  # fmt: skip
        cases.append(Case(f"anti-diagonal {label}, inv", expressions(*layout.inv(p)), below(p=n * n), inverse,
                          ("i", "j"), "figure 8"))  # fmt: skip
    return cases


def figures() -> list[Case]:
    i, j, p = symbols("i j p")
    nine = OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4]))
    layout = nine.GroupBy([6, 6])
    apply = """\
block = j // 3 * 2 + i // 3
y = i % 3
d = y + j % 3 + 1
e = 6 - d
position = block * 9 + where(d <= 3, y + d * (d - 1) // 2, 6 + y - e * (e - 1) // 2)"""
    inverse = """\
block = p // 9
q = p % 9
first = q < 6
x = where(first, q, 8 - q)
root = isqrt(2 * x)
d = root + where(x >= root * (root + 1) // 2, 1, 0)
r = x - d * (d - 1) // 2
s = d - r - 1
i = block % 2 * 3 + where(first, r, 2 - r)
j = block // 2 * 3 + where(first, s, 2 - s)"""
    cases = [
        Case("figure 9, apply", expressions(layout.apply(i, j)), below(i=6, j=6), apply, ("position",)),
        Case("figure 9, inv", expressions(*layout.inv(p)), below(p=36), inverse, ("i", "j")),
    ]
    ten = OrderBy(RegP([2, 2, 2, 2, 2], [5, 2, 4, 3, 1])).GroupBy([2, 2, 2, 2, 2])
    names = ["a", "b", "c", "d", "e"]
    five = [index_symbol(n) for n in names]
    cases.append(Case("figure 10, apply", expressions(ten.apply(*five)), below(**dict.fromkeys(names, 2)),
                      "position = e * 16 + b * 8 + d * 4 + c * 2 + a", ("position",)))  # fmt: skip
    by_hand = "e = p // 16\nb = p // 8 % 2\nd = p // 4 % 2\nc = p // 2 % 2\na = p % 2"
    cases.append(Case("figure 10, inv", expressions(*ten.inv(p)), below(p=32), by_hand, tuple(names)))
    return cases


def bits() -> list[Case]:
    i, j, p = symbols("i j p")
    swizzle, curve = gallery.xor_swizzle(8, 8), gallery.morton(32)
    spread = """\
{0} = ({0} | {0} << 4) & 0x10F
{0} = ({0} | {0} << 2) & 0x133
{0} = ({0} | {0} << 1) & 0x155
"""
    gather = """\
{0} = {0} & 0x155
{0} = ({0} | {0} >> 1) & 0x133
{0} = ({0} | {0} >> 2) & 0x10F
{0} = ({0} | {0} >> 4) & 0x1F
"""
    apply = spread.format("i") + spread.format("j") + "position = i << 1 | j"
    inverse = "i = p >> 1\nj = p\n" + gather.format("i") + gather.format("j")
    return [
        Case("XOR swizzle 8 x 8, apply", expressions(swizzle.apply(i, j)), below(i=8, j=8),
             "position = i * 8 + (i ^ j)", ("position",)),
        Case("XOR swizzle 8 x 8, inv", expressions(*swizzle.inv(p)), below(p=64),
             "i = p // 8\nj = p % 8 ^ i", ("i", "j")),
        Case("Morton 32 x 32, apply", expressions(curve.apply(i, j)), below(i=32, j=32), apply.rstrip(),
             ("position",), "bits spread by masks, three operations a step"),
        Case("Morton 32 x 32, inv", expressions(*curve.inv(p)), below(p=1024), inverse.rstrip(), ("i", "j"),
             "bits gathered by masks"),
    ]  # fmt: skip


def linear_layouts() -> list[Case]:
    """Linear layouts over F2 as fields of bits; by hand as an expert writes them for one thread index."""
    tid, row, col = symbols("tid row col")
    inner_first = ["dim1", "dim0"]

    def of_thread(encoding: f2.Encoding, *shape: int) -> LinearLayout:
        places = encoding.layout(shape).sublayout(["lane", "warp"], ["dim0", "dim1"])
        return places.transpose_outs(inner_first).flatten_outs("offset").flatten_ins("tid")

    blocked = of_thread(f2.Blocked((1, 4), (8, 4), (4, 1), (1, 0)), 64, 64)
    result = of_thread(f2.MmaSync((2, 2)), 64, 64)
    memory = f2.TensorCopyShared(128, 16).layout((64, 64)).sublayout(["offset"], ["dim0", "dim1"]).inverse()
    held = f2.Blocked((1, 8), (4, 8), (2, 1), (1, 0)).layout((8, 64)).sublayout(["lane", "warp"], ["dim0", "dim1"])
    swizzled = f2.TensorCopyShared(128, 16).layout((8, 64)).sublayout(["offset"], ["dim0", "dim1"]).inverse() @ held
    swizzled = swizzled.flatten_ins("tid")
    return [
        Case("blocked 1x4 8x4 4x1 of 64 x 64", expressions(blocked.apply(tid)["offset"]), below(tid=128),
             "offset = (tid & 3) << 2 | (tid & 124) << 4", ("offset",)),
        Case("mma.sync result, warps 2 x 2, of 64 x 64", expressions(result.apply(tid)["offset"]), below(tid=128),
             "offset = (tid & 3) << 1 | (tid & 92) << 4 | (tid & 32) >> 2", ("offset",)),
        Case("128-byte swizzle of f16, row and column", expressions(memory.apply(row, col)["offset"]),
             below(row=64, col=64), "offset = row << 6 | (col ^ (row & 7) << 3)", ("offset",)),
        Case("blocked 1x8 4x8 to the 128-byte swizzle", expressions(swizzled.apply(tid)["offset"]),
             below(tid=64), "offset = (tid & 56) ^ tid << 3", ("offset",)),
    ]  # fmt: skip


def cases() -> list[Case]:
    groups = (program_ids, matmul_offsets, matmul_set, transpose, antidiagonal, figures, bits, linear_layouts)
    return [case for group in groups for case in group()]


def as_code(case: Case) -> list[tuple[Any, Any]]:
    code = straight_line(d.expr for d in case.derivations())
    return [*code.assignments, *zip(case.results, code.results, strict=True)]


def ours(case: Case) -> int:
    return operations(*(d.expr for d in case.derivations()), shared=True)


HEAD = """\
# Operation counts

Operations of the index expressions that lego-mlir derives, beside those of the same expressions written by hand. A
division or a remainder counts four, anything else one; a subexpression that occurs twice counts once on both sides;
constants are folded on both sides. `raw` is the layout's definition before simplification. Both forms are evaluated at
{trials} random points each time this table is made, and agree. Made by `python bench/op_counts.py`.

| expression | raw | ours | by hand | |
|---|---:|---:|---:|---|
"""


def document(rows: list[Case]) -> str:
    lines = [HEAD.format(trials=TRIALS)]
    for case in rows:
        raw = operations(*case.exprs, shared=True)
        lines.append(f"| {case.name} | {raw} | {ours(case)} | {case.hand_operations()} | {case.note} |\n")
    lines.append("\n## The expressions\n")
    for case in rows:
        lines.append(f"\n### {case.name}\n\nOurs:\n\n```python\n")
        lines += [f"{name} = {value}\n" for name, value in as_code(case)]
        lines.append(f"```\n\nBy hand:\n\n```python\n{case.by_hand}\n```\n")
    return "".join(lines)


def main() -> int:
    rows = cases()
    text = document(rows)
    print(text.split("\n## ")[0])
    wrong = [f"differs from the hand-written form: {case.name}" for case in rows if not case.agrees()]
    dearer = [f"dearer than by hand: {case.name}" for case in rows if ours(case) > case.hand_operations()]
    return runner.document({TABLE: text}, wrong + dearer)


if __name__ == "__main__":
    sys.exit(main())
