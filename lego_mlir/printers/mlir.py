"""Index expressions as MLIR operations. Usable without the rest of the compiler.

Given an `ir.Value` for each symbol, the printer emits an expression at the current insertion point and returns its
value:

>>> from lego_mlir import bindings
>>> from lego_mlir.expr.index import index_symbol
>>> from lego_mlir.expr.ranges import Range
>>> i = index_symbol("i")
>>> ir = bindings.load().ir
>>> with ir.Context(), ir.Location.unknown():
...     module = ir.Module.parse("func.func @f(%i: index) -> index { return %i : index }")
...     entry = module.body.operations[0].regions[0].blocks[0]
...     with ir.InsertionPoint.at_block_begin(entry):
...         printer = MlirPrinter({i: entry.arguments[0]}, {i: Range(0, 64)}, form="affine")
...         value = printer.value(i // 8 + i % 8 * 8)
...     print(value.owner)
%0 = affine.apply affine_map<(d0) -> ((d0 mod 8) * 8 + d0 floordiv 8)>(%arg0)

Three forms. "arith" computes in a type the caller names, or, with `integer="smallest"`, in i32 if the bounds of a node
and of its operands fit and otherwise in i64. "index" uses the dialect of that name. "affine" emits one `affine.apply`
per affine expression; its non-affine operands are emitted in the index dialect. A value of type index has 64 bits.

Division follows the proved sign: unsigned hardware division if both operands are proved non-negative, otherwise floor
division. An expression is emitted once per region: an inner region reuses the values of the enclosing ones, and its own
values end with it, so that a value always dominates its uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import sympy

from lego_mlir.aliases import Cond, Expr, IndexLike, Value
from lego_mlir.errors import PrintError, brief
from lego_mlir.expr import nodes
from lego_mlir.expr.budgets import within_recursion_limit
from lego_mlir.expr.context import PlainRanges
from lego_mlir.expr.index import as_condition, as_expr
from lego_mlir.expr.intervals import bounds, value_beyond
from lego_mlir.expr.nodes import NodeType
from lego_mlir.expr.prefix import COMPARED, PrefixPrinter
from lego_mlir.expr.prove import holds
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.reciprocal import DIVIDENDS, reciprocal
from lego_mlir.printers.affine import AffineMap, affine_map
from lego_mlir.printers.builder import Builder
from lego_mlir.printers.constant_tables import constant_table
from lego_mlir.printers.isqrt import emit_isqrt
from lego_mlir.printers.mlir_names import (
    BINARY,
    COMPARISONS,
    FORMS,
    INTEGERS,
    LARGEST,
    OPERATIONS,
    Form,
    Integer,
    Names,
    fitting,
)
from lego_mlir.printers.target_functions import CALLS


class MlirPrinter:
    """Prints integer expressions and conditions over symbols whose values are given.

    `values` maps symbols (SymPy's or `lego.Index`) to integer `ir.Value`s of any width, `ranges` maps them to their
    ranges, `tables` maps the names of run-time tables to memrefs. Raises PrintError for an unsupported node.
    """

    def __init__(
        self,
        values: Mapping[IndexLike, Value],
        ranges: Mapping[IndexLike, Range] | None = None,
        *,
        form: Form = "index",
        integer: Integer = "index",
        tables: Mapping[str, Value] | None = None,
    ) -> None:
        if form not in FORMS:
            raise PrintError(f"mlir: the form is one of {', '.join(FORMS)}, got {form!r}")
        if integer not in INTEGERS or (integer != "index" and form != "arith"):
            raise PrintError(
                f"mlir: integer={integer!r} with form={form!r}; i32, i64 and smallest belong to the form arith"
            )
        self.form, self.integer = form, integer
        self.build = Builder()
        self.ranges = PlainRanges(ranges or {})
        self.tables = dict(tables or {})
        self._beginning = PrefixPrinter(COMPARED).text
        self._checked: set[Any] = set()
        self._memo: list[dict[Any, Any]] = [{as_expr(s): v for s, v in values.items()}]

    def bind(self, symbol: IndexLike, value: Value, over: Range | None = None) -> None:
        """Bind a symbol, such as a loop variable, until the end of the current scope."""
        self._memo[-1][as_expr(symbol)] = value
        if over is not None:
            self.ranges[as_expr(symbol)] = over

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Scope of a nested region: values emitted inside are not reused after it."""
        self._memo.append({})
        try:
            yield
        finally:
            self._memo.pop()

    @within_recursion_limit("printed")
    def value(self, expr: IndexLike, kind: str | None = None) -> Value:
        """The value of an integer expression, cast to the integer type `kind` if given."""
        self._require_64_bits(as_expr(expr))
        emitted = self._emit(as_expr(expr))
        return emitted if kind is None else self._cast(emitted, kind)

    @within_recursion_limit("printed")
    def condition(self, expr: Cond) -> Value:
        """The value (i1) of a condition."""
        self._require_64_bits(as_condition(expr))
        return self.remember(as_condition(expr), "i1", self._emit_condition)

    def _require_64_bits(self, expr: Expr) -> None:
        """Reject operands beyond 64 bits, except of sums, products and bit operations, which may wrap around."""
        if expr in self._checked:
            return
        for node in nodes.every_node(expr):
            if node in self._checked or not isinstance(node, _EXACT):
                continue
            self._checked.add(node)
            for operand in node.args:
                known = bounds(operand, self.ranges) if isinstance(operand, sympy.Expr) else None
                if known is None or ((known.lo or 0) >= -(2**63) and (known.hi or 0) < 2**63):
                    continue
                value = value_beyond(operand, self.ranges, -(2**63), 2**63 - 1)
                if value is not None:
                    shown = f"{brief(self._beginning(operand))} is {value} for values in its ranges"
                    raise PrintError(f"mlir: {shown}, which no integer type holds")
        self._checked.add(expr)

    # -- the memo

    def remember(self, expr: Expr, kind: str, emit: Callable[[Any], Any]) -> Any:
        """The value emitted for this key in this scope or an enclosing one; otherwise emit it now."""
        key = expr if kind == "" else (expr, kind)
        for scope in reversed(self._memo):
            found = scope.get(key)
            if found is not None:
                return found
        made = self._memo[-1][key] = emit(expr)
        return made

    def _emit(self, expr: Expr) -> Value:
        return self.remember(expr, "", self._emit_new)

    def _cast(self, value: Value, kind: str) -> Value:
        if str(value.type) == kind:
            return value
        return self.remember(value, kind, lambda v: self.build.cast_integer(v, kind))

    def _constant(self, number: int, kind: str) -> Value:
        return self.remember(fitting(number, kind), f"constant {kind}", lambda n: self.build.constant(n, kind))

    # -- types

    def _kind(self, *exprs: Expr) -> str:
        """The type to compute in, given the result and the operands."""
        if self.integer in ("index", "i64"):
            return self.integer
        limits = [bounds(e, self.ranges) for e in exprs]
        narrow = all(
            b.lo is not None and b.hi is not None and -LARGEST["i32"] - 1 <= b.lo and b.hi <= LARGEST["i32"]
            for b in limits
        )
        if not narrow and self.integer == "i32":
            shown = ", ".join(f"{e} in [{b.lo}, {b.hi}]" for e, b in zip(exprs, limits, strict=True))
            raise PrintError(f"mlir: not shown to fit i32: {shown}; use integer='smallest' or 'i64', or give ranges")
        return "i32" if narrow else "i64"

    def _operation(self, name: str, kind: str, *operands: Value) -> Value:
        return self._named(OPERATIONS[name], kind, *operands)

    def _named(self, names: Names, kind: str, *operands: Value) -> Value:
        operands = tuple(self._cast(o, kind) for o in operands)
        return self.build.value(names.arith if self.form == "arith" else names.index, operands, kind)

    def _not_negative(self, expr: Expr) -> bool:
        low = bounds(expr, self.ranges).lo
        return low is not None and low >= 0

    def _divides_unsigned(self, dividend: Expr, divisor: Expr) -> bool:
        """Whether a dividend is not negative, by a proof where its divisor is no constant.

        LLVM divides such numbers in 32 bits where they turn out to be short; with a sign to restore, it does not.
        """
        if self._not_negative(dividend) or divisor.is_Integer:
            return self._not_negative(dividend)
        return holds(nodes.Le(0, dividend), self._ranges_of(dividend))

    def _ranges_of(self, expr: Expr) -> dict[Expr, Range]:
        return {s: self.ranges[s] for s in expr.free_symbols if s in self.ranges}

    def _divisor(self, divisor: Expr) -> tuple[Expr, bool]:
        """A divisor, and whether it is known to be positive.

        Where that takes a proof, which later passes do not have, it becomes the larger of itself and 1.
        """
        if self._not_negative(divisor) or not isinstance(divisor, nodes.Smaller):
            return divisor, self._not_negative(divisor)
        proved = holds(nodes.Le(1, divisor), self._ranges_of(divisor))
        return (nodes.Larger(divisor, 1), True) if proved else (divisor, False)

    # -- expressions

    def _emit_new(self, expr: Expr) -> Value:
        if expr.is_Integer:
            return self._constant(int(expr), self._kind(expr))
        if expr.is_Symbol:
            raise PrintError(f"mlir: no value was given for the symbol {expr}; have {self._known()}")
        if self.form == "affine":
            split = affine_map(expr)
            if split is not None:
                return self._emit_affine(split)
        if expr.is_Add:
            return self._emit_add(expr)
        if expr.is_Mul:
            return self._emit_mul(expr)
        if expr.is_Pow:
            return self._emit_pow(expr)
        name = BINARY.get(type(expr))
        if name is not None:
            commutes = type(expr).operation.commutes
            ordered = type(expr)(*sorted(expr.args, key=self._beginning)) if commutes else expr
            if ordered != expr:
                return self._emit(ordered)
            return self._operation(name, self._kind(expr, *expr.args), *map(self._emit, expr.args))
        emit = _EXCEPTIONS.get(type(expr))
        if emit is not None:
            return emit(self, expr)
        call = CALLS.get(type(expr).__name__)
        if call is None or call.mlir is None:
            raise PrintError(f"mlir: no form for {type(expr).__name__} in {expr}")
        return self._named(call.mlir, self._kind(expr, *expr.args), *map(self._emit, expr.args))

    def _known(self) -> str:
        return ", ".join(str(k) for scope in self._memo for k in scope if getattr(k, "is_Symbol", False)) or "none"

    def _emit_affine(self, split: AffineMap) -> Value:
        operands = [self._cast(self._emit(o), "index") for o in split.operands]
        ir = self.build.ir
        attribute = ir.AffineMapAttr.get(split.build(ir))
        create = ir.Operation.create
        return create(
            "affine.apply", results=[self.build.type("index")], operands=operands, attributes={"map": attribute}
        ).results[0]

    def _emit_add(self, expr: Expr) -> Value:
        """Added terms, then subtracted ones. Partial sums may wrap around: the total fits."""
        kind = self._kind(expr, *expr.args)
        total = None
        for term in sorted(expr.args, key=lambda t: (_subtracted(t), t.is_Integer)):
            if total is None:
                total = self._emit(term)
            elif _subtracted(term):
                total = self._operation("sub", kind, total, self._emit(-term))
            else:
                total = self._operation("add", kind, total, self._emit(term))
        return self._cast(total, kind)

    def _emit_mul(self, expr: Expr) -> Value:
        kind = self._kind(expr, *expr.args)
        factors = [f for f in expr.args if not f.is_Integer]
        number = int(expr.args[0]) if expr.args[0].is_Integer else 1
        product = self._emit(factors[0])
        for factor in factors[1:]:
            product = self._operation("mul", kind, product, self._emit(factor))
        if number == -1:
            return self._operation("sub", kind, self._constant(0, kind), product)
        return (
            self._cast(product, kind)
            if number == 1
            else self._operation("mul", kind, product, self._constant(number, kind))
        )

    def _emit_pow(self, expr: Expr) -> Value:
        base, exponent = expr.args
        if not (exponent.is_Integer and int(exponent) > 0):
            raise PrintError(f"mlir: no form for the power {expr}; the exponent must be a positive int")
        half, rest = divmod(int(exponent), 2)
        kind = self._kind(expr, base)
        if rest:
            return self._operation("mul", kind, self._emit(base ** (2 * half)), self._emit(base))
        root = self._emit(base**half)
        return self._operation("mul", kind, root, root)

    def _emit_floor_div(self, expr: Expr) -> Value:
        x, d = expr.args
        if self._multiplies(x, d):
            return self._emit_scaled(expr, x, *self._unpacked(self._emit(d.reciprocal)))
        d, positive = self._divisor(d)
        name = "divu" if positive and self._divides_unsigned(x, d) else "floordiv"
        return self._operation(name, self._kind(expr, x, d), self._emit(x), self._emit(d))

    def _multiplies(self, x: Expr, d: Expr) -> bool:
        """Whether a quotient is a product with the reciprocal of a `Divisor`: x in 0 .. 2**31 - 1."""
        return isinstance(d, nodes.Divisor) and self._is_word(x)

    def _is_word(self, x: Expr) -> bool:
        """Whether a dividend is in 0 .. 2**31 - 1, in a form with integers of several widths."""
        known = bounds(x, self.ranges)
        inside = known.lo is not None and known.lo >= 0 and known.hi is not None and known.hi < DIVIDENDS
        return inside and self.form != "index"

    def _chosen_reciprocal(self, chosen: Value, d: int, e: int) -> tuple[Value, Value]:
        """The multiplier and the shift of one of two constants. LLVM would divide by the chosen one of them."""
        (m, s), (n, t) = reciprocal(d), reciprocal(e)
        words = [self._constant(number - (number >> 31 << 32), "i32") for number in (m, n)]  # as a word with a sign
        shifts = [self._constant(number, "i64") for number in (s, t)]
        return (
            self.build.value("arith.select", (chosen, *words), "i32"),
            self.build.value("arith.select", (chosen, *shifts), "i64"),
        )

    def _unpacked(self, packed: Value) -> tuple[Value, Value]:
        """The multiplier and the shift of a reciprocal, which are its low and its high word."""
        wide = self.build.cast_integer(packed, "i64")
        multiplier = self.build.value("arith.trunci", (wide,), "i32")
        return multiplier, self.build.value("arith.shrui", (wide, self._constant(32, "i64")), "i64")

    def _emit_scaled(self, expr: Expr, x: Expr, multiplier: Value, shift: Value) -> Value:
        """x * multiplier >> shift, of words without sign."""
        word, wide = (partial(self.build.cast_integer, kind="i32"), partial(self.build.cast_unsigned, kind="i64"))
        product = self.build.value("arith.muli", (wide(word(self._emit(x))), wide(word(multiplier))), "i64")
        scaled = self.build.value("arith.shrui", (product, self.build.cast_integer(shift, "i64")), "i64")
        return self._cast(word(scaled), self._kind(expr))

    def _emit_floor_mod(self, expr: Expr) -> Value:
        """Python's `%`. The hardware's remainder has the sign of x; if that may differ from d's, d is added."""
        x, d = expr.args
        kind = self._kind(expr, x, d)
        if self._multiplies(x, d):
            whole = self._operation("mul", kind, self._emit(nodes.FloorDiv(x, d)), self._emit(d))
            return self._operation("sub", kind, self._emit(x), whole)
        d, positive = self._divisor(d)
        left, right = self._emit(x), self._emit(d)
        if positive and self._divides_unsigned(x, d):
            return self._operation("remu", kind, left, right)
        remainder = self._operation("rems", kind, left, right)
        zero, divisor = self._constant(0, kind), self._cast(right, kind)
        if self._not_negative(d):
            wrong = self._compare(nodes.Lt, kind, remainder, zero)
        else:
            opposite = self._compare(nodes.Lt, kind, self._operation("xor", kind, remainder, divisor), zero)
            wrong = self._logical("arith.andi", opposite, self._compare(nodes.Ne, kind, remainder, zero))
        moved = self._operation("add", kind, remainder, divisor)
        return self.build.value("arith.select", (wrong, moved, remainder), kind)

    def _emit_select(self, expr: Expr) -> Value:
        condition, a, b = expr.args
        kind = self._kind(expr, a, b)
        chosen = self.condition(condition)
        if isinstance(a, nodes.FloorDiv) and isinstance(b, nodes.FloorDiv) and a.args[0] == b.args[0]:
            x, d, e = a.args[0], a.args[1], b.args[1]
            if self._multiplies(x, d) and self._multiplies(x, e):  # one product with the reciprocal that is chosen
                packed = self._emit(nodes.Select(condition, d.reciprocal, e.reciprocal))
                return self._emit_scaled(expr, x, *self._unpacked(packed))
            if self._is_word(x) and not any(_is_cheap(divisor) for divisor in (d, e)):
                return self._emit_scaled(expr, x, *self._chosen_reciprocal(chosen, int(d), int(e)))
        operands = (chosen, self._cast(self._emit(a), kind), self._cast(self._emit(b), kind))
        return self.build.value("arith.select", operands, kind)

    def _emit_isqrt(self, expr: Expr) -> Value:
        (x,) = expr.args
        kind = self._kind(expr, x)
        return emit_isqrt(self.build, self._cast(self._emit(x), kind), kind, bounds(x, self.ranges).hi)

    def _emit_table(self, expr: Expr) -> Value:
        index = self._cast(self._emit(expr.index), "index")
        if expr.entries:
            memref = self.remember((expr.name, expr.entries), "table", lambda _: constant_table(self.build, expr))
        elif expr.name in self.tables:
            memref = self.tables[expr.name]
        else:
            raise PrintError(
                f"mlir: {expr} reads the run-time table '{expr.name}', for which no memref was given; "
                f"have {', '.join(self.tables) or 'none'}"
            )
        element = str(self.build.ir.MemRefType(memref.type).element_type)
        loaded = self.build.value("memref.load", (memref, index), element)
        kind = self._kind(expr)
        return self.build.cast_unsigned(loaded, kind) if expr.entries else self._cast(loaded, kind)

    # -- conditions

    def _emit_condition(self, expr: Cond) -> Value:
        if expr == sympy.true or expr == sympy.false:
            return self.build.value("arith.constant", (), "i1", {"value": "true" if expr == sympy.true else "false"})
        if type(expr) in COMPARISONS:
            a, b = expr.args
            return self._compare(type(expr), self._kind(a, b), self._emit(a), self._emit(b))
        if isinstance(expr, (sympy.And, sympy.Or)):
            name = "arith.andi" if isinstance(expr, sympy.And) else "arith.ori"
            first, *rest = (self.condition(a) for a in sorted(expr.args, key=self._beginning))
            for operand in rest:
                first = self._logical(name, first, operand)
            return first
        if isinstance(expr, sympy.Not):
            return self._logical("arith.xori", self.condition(expr.args[0]), self.condition(sympy.true))
        raise PrintError(f"mlir: no form for the condition {type(expr).__name__} in {expr}")

    def _compare(self, node: NodeType, kind: str, a: Value, b: Value) -> Value:
        a, b, predicate = self._cast(a, kind), self._cast(b, kind), COMPARISONS[node]
        if self.form == "arith":
            return self.build.value("arith.cmpi", (a, b), "i1", {"predicate": f"{predicate.arith} : i64"})
        return self.build.value("index.cmp", (a, b), "i1", {"pred": predicate.index})

    def _logical(self, name: str, a: Value, b: Value) -> Value:
        return self.build.value(name, (a, b), "i1")


_EXCEPTIONS: dict[type[Any], Callable[[MlirPrinter, Any], Any]] = {
    nodes.FloorDiv: MlirPrinter._emit_floor_div,
    nodes.FloorMod: MlirPrinter._emit_floor_mod,
    nodes.Select: MlirPrinter._emit_select,
    nodes.ISqrt: MlirPrinter._emit_isqrt,
    nodes.Table: MlirPrinter._emit_table,
}


_EXACT: tuple[type[Any], ...] = (
    *(node for node in nodes.OPERATION_NODES if not node.operation.modular),
    *nodes.COMPARISONS,
)
"""Operations whose result is wrong if an operand has wrapped around."""


def _is_cheap(divisor: Expr) -> bool:
    """Whether LLVM keeps a division apart from that by another constant: by a power of two, or by no constant."""
    return not divisor.is_Integer or int(divisor) < 1 or int(divisor) & (int(divisor) - 1) == 0


def _subtracted(term: Expr) -> bool:
    """Whether a term of a sum prints as a subtraction: a negative number, or a product with one."""
    number = term if term.is_Integer else term.args[0] if term.is_Mul else None
    return number is not None and number.is_Integer and int(number) < 0


def emit(
    expr: IndexLike,
    values: Mapping[IndexLike, Value],
    ranges: Mapping[IndexLike, Range] | None = None,
    *,
    form: Form = "index",
    integer: Integer = "index",
    tables: Mapping[str, Value] | None = None,
) -> Value:
    """The value of one expression at the current insertion point; `MlirPrinter` shares work among several."""
    return MlirPrinter(values, ranges, form=form, integer=integer, tables=tables).value(expr)
