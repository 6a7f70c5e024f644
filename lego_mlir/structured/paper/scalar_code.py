"""Scalar code, the paper's path: from the statements of each step through isl's loops to scf and memref.

Each `Instance` in a loop tree becomes loads, arithmetic and a store. A storage whose positions are not
`row * n + column` is accessed through a constant table of positions:

>>> from lego_mlir.structured import mlir_text
>>> from lego_mlir.structured.lower import lower
>>> from lego_mlir.structured.language import parse
>>> function = emit(lower(parse("x = Vector(3); y = Vector(3); y = x + y;")), "add", "f64")
>>> print("\\n".join(line.strip() for line in mlir_text.text(function).splitlines() if "mem" in line or "scf" in line))
func.func @add(%x: memref<3xf64>, %y: memref<3xf64>) {
scf.for %i0 = %c0 to %c3 step %c1 {
%1 = memref.load %x[%i0] : memref<3xf64>
%2 = memref.load %y[%i0] : memref<3xf64>
memref.store %3, %y[%i0] : memref<3xf64>
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import assert_never

from lego_mlir.errors import ExpressionError
from lego_mlir.structured.function import SSA, Function
from lego_mlir.structured.lower import Leaf, Lowered, Step, Within
from lego_mlir.structured.paper import loops, statements
from lego_mlir.structured.paper.statements import Body, ElementRead, Product
from lego_mlir.structured.storage import Full

_INDEX_OPS = {
    "+": "addi", "-": "subi", "*": "muli", "min": "minsi", "max": "maxsi", "div": "floordivsi", "mod": "remsi",
}  # fmt: skip
_COMPARE = {"<=": "sle", "<": "slt", ">=": "sge", ">": "sgt", "==": "eq"}


def emit(lowered: Lowered, name: str, element: str) -> Function:
    """One function with scalar code for all steps."""
    function = Function(name, element, [(leaf.name, leaf.size) for leaf in lowered.operands])
    for leaf in lowered.temporaries:
        function.allocate(leaf.name, leaf.size)
    for step in lowered.steps:
        emit_step(function, step)
    return function


def emit_step(function: Function, step: Step) -> None:
    """Append the code of one step to a function that has its buffers."""
    found = statements.statements(step)
    if not found:
        return
    _Emitter(function, {s.name: s for s in found}).tree(statements.scan(found), {})


class _Emitter:
    def __init__(self, function: Function, found: Mapping[str, statements.PolyhedralStatement]) -> None:
        self.f = function
        self.found = found

    def tree(self, tree: loops.Tree, env: Mapping[str, SSA]) -> None:
        f = self.f
        match tree:
            case loops.Block(children):
                for child in children:
                    self.tree(child, env)
            case loops.Instance(name, indices):
                statement = self.found[name]
                self.body(
                    statement.body, dict(zip(statement.space, (self.index(x, env) for x in indices), strict=True))
                )
            case loops.Guard(condition, then, otherwise):
                with f.branch(self.condition(condition, env)):
                    self.tree(then, env)
                if otherwise is not None:
                    flipped = f.logic("xori", self.condition(condition, env), f.true())
                    with f.branch(flipped):
                        self.tree(otherwise, env)
            case loops.ForLoop(var, init, _, step, body):
                high = self.index(loops.upper_bound(tree), env)
                with f.loop(self.index(init, env), high, self.index(step, env)) as loop:
                    self.tree(body, {**env, var: loop.variable})
            case _:
                assert_never(tree)

    def index(self, expr: loops.Expr, env: Mapping[str, SSA]) -> SSA:
        match expr:
            case loops.Const(value):
                return self.f.index(value)
            case loops.Var(name):
                return env[name]
            case loops.Op("+", (loops.Const(a), loops.Const(b))):
                return self.f.index(a + b)
            case loops.Op("neg", (argument,)):
                return self.f.index_op("subi", self.f.index(0), self.index(argument, env))
            case loops.Op(op, args) if op in _INDEX_OPS:
                first, *others = (self.index(arg, env) for arg in args)
                for other in others:
                    first = self.f.index_op(_INDEX_OPS[op], first, other)
                return first
        raise ExpressionError(f"no index operation for {loops.text(expr)}")

    def condition(self, expr: loops.Expr, env: Mapping[str, SSA]) -> SSA:
        match expr:
            case loops.Op(("and" | "or") as op, (left, right)):
                a, b = self.condition(left, env), self.condition(right, env)
                return self.f.logic(f"{op}i", a, b)
            case loops.Op(op, (left, right)) if op in _COMPARE:
                a, b = self.index(left, env), self.index(right, env)
                return self.f.compare(_COMPARE[op], a, b)
        raise ExpressionError(f"no condition for {loops.text(expr)}")

    def body(self, body: Body, env: Mapping[str, SSA]) -> None:
        f = self.f
        at = self.address(body.target, env)
        name = body.target.leaf.name if body.target.leaf else ""
        values = [self.product(product, env) for product in body.products]
        match body.op:
            case "=":
                f.store(name, at, self.total(values))
            case "+=":
                sign, value = values[0]
                old = f.load(name, at)
                f.store(name, at, f.add(old, value) if sign > 0 else f.sub(old, value))
            case "/=":
                f.store(name, at, f.mul(f.load(name, at), f.div(f.constant(1.0), values[0][1])))
            case "sqrt":
                f.store(name, at, f.sqrt(f.load(name, at)))

    def total(self, values: list[tuple[int, SSA]]) -> SSA:
        f = self.f
        if not values:
            return f.constant(0.0)
        values = sorted(values, key=lambda item: item[0] < 0)
        sign, result = values[0]
        if sign < 0:
            result = f.neg(result)
        for sign, value in values[1:]:
            result = f.add(result, value) if sign > 0 else f.sub(result, value)
        return result

    def product(self, product: Product, env: Mapping[str, SSA]) -> tuple[int, SSA]:
        f = self.f
        sign = -1 if product.number < 0 else 1
        factors = [] if abs(product.number) == 1 else [f.constant(abs(product.number))]
        factors += [f.load(leaf.name, f.index(0)) for leaf in product.scalars]
        for read in product.reads:
            if read.leaf is not None:
                factors.append(f.load(read.leaf.name, self.address(read, env)))
        if not factors:
            return sign, f.constant(1.0)
        result = factors[0]
        for factor in factors[1:]:
            result = f.mul(result, factor)
        return sign, result

    def address(self, read: ElementRead, env: Mapping[str, SSA]) -> SSA:
        leaf = read.leaf
        if leaf is None:
            raise ExpressionError("the constant one has no address")
        rows, columns = leaf.structure.rows, leaf.structure.columns
        row, column = self.index(read.row, env), self.index(read.column, env)
        if leaf.storage == Full("F"):
            return self.flat(column, row, rows)
        flat = self.flat(row, column, columns)
        if leaf.storage == Full():
            return flat
        return self.f.look_up(self.table(leaf), flat)

    def flat(self, row: SSA, column: SSA, width: int) -> SSA:
        f = self.f
        if width == 1:
            return row
        return f.index_op("addi", f.index_op("muli", row, f.index(width)), column)

    def table(self, leaf: Leaf) -> str:
        """The position table of a leaf; parts of one buffer have different tables."""
        held = [max(int(value), 0) for value in leaf.storage.positions(leaf.structure).ravel()]
        name = f"positions_{self.f.name}_{leaf.name}"
        if isinstance(leaf.storage, Within):
            name += "_" + hashlib.sha256(repr(held).encode()).hexdigest()[:16]
        if name not in self.f.tables:
            self.f.table(name, held)
        return name
