"""Rendered Triton and CUDA: the elements that programs store to, as maps from program ids, rounds and lanes.

The rendered text is read: which names are program or thread ids, how others follow from them, and which stores have a
placeholder in their address. The placeholder has the layout and the logical index, so that two stores touch one element
exactly where the logical indices are equal:

    pid = tl.program_id(0)
    {{ assign("row, column", order.inv(pid)) }}              (row, column) = (row', column')  implies  pid = pid'
    {{ store("y_ptr", Y[row, column, :, :], "value") }}      Y's index: (32*row + s0, 32*column + s1)

A loop such as `for pid in tl.range(tl.program_id(0), tiles, programs)` gives each number to one program. The template
is rendered a second time with names for the maps of layouts (`layout.naming`). A name that the text assigns in a way
that is not read, such as a loaded value, leaves the claim unknown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import sympy

from lego_mlir import syntax_tree
from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import Index, as_condition, as_expr
from lego_mlir.expr.nodes import FloorDiv, FloorMod, Le, Lt, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.layout import Row
from lego_mlir.layout.base import Layout
from lego_mlir.layout.slices import Colon
from lego_mlir.proofs.footprints import own_index, own_layout
from lego_mlir.templates.readback.points import mask_of
from lego_mlir.templates.render.placeholders import Placeholder
from lego_mlir.templates.render.template import Rendered

Known = dict[str, Expr | None]
"""The value of each name of a program; None if it is not read."""
COUNT: Final = " count"
"""The end of the name of a size that is a number of ids, which no layout bounds."""
IDS: Final = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])\b")
_C_NAME: Final = re.compile(r"^\s*(?:const\s+)?(?:unsigned\s+|unsigned\s+int|int|long\s+long|size_t|auto)\s+(.*);\s*$")
_BRANCHES: Final = re.compile(r"\b(if|while|return|continue|break|switch)\b|\?")


@dataclass(frozen=True, slots=True)
class ProgramStore:
    """One store: the tensor's name in the text, its layout, the index there, the mask, and whose numbers it needs.

    Without a layout, of a single position, the index is that position.

    `who` are program ids, rounds of loops around it, and lanes; `defined` are conditions on them. `unread` is the first
    name of the index whose value is not read. `free` if no branch of the text decides whether it is executed. `shown`
    are the ids and rounds.
    """

    tensor: str
    line: int
    layout: Layout | None
    index: tuple[Expr, ...]
    position: Expr
    mask: Cond
    masked: bool
    who: tuple[Symbol, ...]
    defined: tuple[Cond, ...]
    ranges: Mapping[Symbol, Range]
    unread: str | None
    free: bool = False
    shown: frozenset[str] = frozenset()


@dataclass(slots=True)
class ProgramNames:
    """The names of one function while its text is read, and the stores found so far."""

    rendered: Rendered
    known: Known = field(default_factory=dict)
    ranges: dict[Symbol, Range] = field(default_factory=dict)
    ids: dict[Symbol, None] = field(default_factory=dict)
    loops: list[Symbol] = field(default_factory=list)
    branches: bool = False
    stores: list[ProgramStore] = field(default_factory=list)

    def id(self, name: str) -> Symbol:
        """A program or thread id, as many as the launch has."""
        symbol = sympy.Symbol(name, integer=True)
        if symbol not in self.ranges:
            self.ranges[symbol] = Range(0, Size(f"{name}{COUNT}"))
        self.ids[symbol] = None
        return symbol

    def name(self, name: str, value: Expr | None) -> None:
        """Note an assignment; a second one leaves the name unread."""
        raw = next((p.raw for p in self.rendered.placeholders if p.bindings and p.text == name), None)
        if name in self.known:
            self.known[name] = None
        else:
            self.known[name] = value if raw is None else self.resolved(raw)

    def resolved(self, raw: Expr) -> Expr | None:
        """An expression over ids and rounds; None if it has a name that is not read."""
        values = {}
        for symbol in raw.free_symbols:
            if isinstance(symbol, Size) or symbol in self.loops or symbol in self.ids:
                continue
            if str(symbol) in self.known:
                value = self.known[str(symbol)]
                if value is None:
                    return None
                values[symbol] = value
        return raw.xreplace(values)

    def store(self, tensor: str, line: int, masked: bool, placeholder: Placeholder) -> None:
        """Add a store to the positions of a placeholder."""
        layout, places = placeholder.origin or (None, ())
        index = tuple(as_expr(p.at(p.symbol) if isinstance(p, Colon) else p) for p in places)
        mask = True if layout is None else mask_of(placeholder)
        mask = sympy.true if mask is True else as_condition(mask)
        lanes = tuple(as_expr(p.symbol) for p in places if isinstance(p, Colon))
        if layout is None:
            index = (placeholder.raw,)
        used = {s for e in (*index, mask) for s in e.free_symbols if not isinstance(s, Size)} - {*lanes}
        values: dict[Symbol, Expr] = {}
        unread = None
        for symbol in sorted(used, key=str):
            value = symbol if symbol in self.loops or symbol in self.ids else self.known.get(str(symbol))
            if value is None:
                unread = unread or str(symbol)
            else:
                values[symbol] = value
        defined, ranges = [], dict(self.ranges)
        for symbol, within in placeholder.ranges.items():
            if symbol in lanes or symbol not in values:
                ranges[symbol] = within
            elif values[symbol] in self.ids or values[symbol] in self.loops:
                ranges[values[symbol]] = within
            else:
                defined += [Le(within.lo, values[symbol]), Lt(values[symbol], as_expr(within.hi))]
        own = index if layout is None else own_index(layout, index)
        own = tuple(as_expr(i).xreplace(values) for i in own)
        layout = None if layout is None else own_layout(layout)
        position = placeholder.raw.xreplace(values)
        self._add(
            ProgramStore(
                tensor, line, layout, own, position, mask.xreplace(values), masked,
                lanes, tuple(defined), ranges, unread,
            )
        )  # fmt: skip

    def _add(self, store: ProgramStore) -> None:
        """Add a store, with the ids and rounds at this place of the text."""
        ranges = dict(store.ranges)
        for p in self.rendered.placeholders:  # the range of an id where a layout gives it one
            for symbol, within in p.ranges.items():
                value = self.known.get(str(symbol), symbol)
                if value in self.ids and is_open(ranges.get(value)):
                    ranges[value] = within
        numbers = (*self.ids, *self.loops)
        who, shown = (*numbers, *store.who), frozenset(map(str, numbers))
        self.stores.append(replace(store, who=who, ranges=ranges, free=not self.branches, shown=shown))

    def store_block(
        self, tensor: str, line: int, shape: Sequence[Expr], at: Sequence[Expr | None], block: Sequence[int]
    ) -> None:
        """Add a store of a block through a descriptor, which leaves out what is outside of its shape."""
        lanes = tuple(sympy.Symbol(f"lane{axis}", integer=True) for axis in range(len(block)))
        unread = None if all(a is not None for a in at) else "a coordinate"
        index = tuple((0 if a is None else a) + lane for a, lane in zip(at, lanes, strict=True))
        layout = Row(*map(Index, shape))
        mask = sympy.And(*(sympy.And(Le(0, i), Lt(i, n)) for i, n in zip(index, shape, strict=True)))
        ranges = {**self.ranges, **{lane: Range(0, n) for lane, n in zip(lanes, block, strict=True)}}
        position = as_expr(layout.apply(*map(Index, index)))
        self._add(ProgramStore(tensor, line, layout, index, position, mask, True, lanes, (), ranges, unread))


def is_open(within: Range | None) -> bool:
    """Whether the launch alone decides how many ids there are."""
    return within is None or str(within.hi).endswith(COUNT)


def programs_of(rendered: Rendered) -> Iterator[ProgramNames]:
    """The functions of a rendered text that store through placeholders."""
    if rendered.template.language == "triton":
        for node in ast.walk(syntax_tree.parse(rendered.text)):
            if isinstance(node, ast.FunctionDef):
                program = ProgramNames(rendered)
                _TritonReader(program).body(node.body)
                yield program
    else:
        yield from _cuda(rendered)


# ---- Triton


@dataclass(slots=True)
class _TritonReader:
    """Reads the statements of one function."""

    program: ProgramNames
    at: dict[str, Placeholder] = field(default_factory=dict)
    descriptors: dict[str, tuple[str, list[Expr], list[int]]] = field(default_factory=dict)

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        program = self.program
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if (found := self._placeholder(value)) is not None:
                    self.at[name] = found
                self._describe(name, value)
                program.name(name, self._value(value))
            case ast.AugAssign(target=ast.Name(id=name)):
                program.name(name, None)
                program.known[name] = None
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=arguments), body=body):
                self._loop(name, arguments, body)
            case ast.For(body=body) | ast.While(body=body) | ast.If(body=body):
                before, program.branches = program.branches, True
                if not isinstance(node, ast.If):
                    program.loops.append(sympy.Symbol(f"round of line {node.lineno}", integer=True))
                self.body(body)
                self.body(node.orelse)
                program.branches = before
                if not isinstance(node, ast.If):
                    program.loops.pop()
            case ast.Expr(value=ast.Call() as call):
                self._call(call)

    def _loop(self, name: str, arguments: list[ast.expr], body: list[ast.stmt]) -> None:
        program = self.program
        values = [self._value(a) for a in arguments]
        symbol = sympy.Symbol(name, integer=True)
        starts = values[0] if len(values) > 1 else sympy.Integer(0)
        end = values[min(len(values), 2) - 1]
        ids = dict(program.ids)
        shared = len(values) == 3 and starts in program.ids and list(program.ids) == [starts]
        if shared:  # each number is of one program
            program.ids = {symbol: None}
        else:
            program.loops.append(symbol)
        program.known[name] = symbol
        if end is not None and starts is not None and not starts.has(sympy.Integer(-1)):
            program.ranges[symbol] = Range(starts if starts.is_Integer else 0, end)
        before, program.branches = program.branches, program.branches or end is None
        self.body(body)
        program.branches, program.ids = before, ids
        if not shared:
            program.loops.remove(symbol)

    def _call(self, call: ast.Call) -> None:
        match call.func:
            case ast.Attribute(value=ast.Name(id="tl"), attr="store" | "atomic_add"):
                if call.func.attr == "store" and call.args and (found := self._placeholder(call.args[0])) is not None:
                    masked = len(call.args) > 2 or any(k.arg == "mask" for k in call.keywords)
                    pointer = next((n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)), "")
                    self.program.store(pointer, call.lineno, masked, found)

            case ast.Attribute(value=ast.Name(id=name), attr="store") if name in self.descriptors:
                tensor, shape, block = self.descriptors[name]
                if call.args and isinstance(call.args[0], ast.List):
                    at = [self._value(a) for a in call.args[0].elts]
                    self.program.store_block(tensor, call.lineno, shape, at, block)

    def _describe(self, name: str, value: ast.expr) -> None:
        """Note a tensor descriptor: its tensor, its shape, and that of its blocks."""
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="make_tensor_descriptor"), args=arguments):
                given = [*arguments, *(k.value for k in value.keywords)]
                if len(given) == 4 and isinstance(given[0], ast.Name):
                    shape, block = ([self._value(e) for e in getattr(given[k], "elts", ())] for k in (1, 3))
                    if None not in shape and all(n is not None and n.is_Integer for n in block):
                        self.descriptors[name] = (given[0].id, shape, [int(n) for n in block if n is not None])

    def _placeholder(self, value: ast.expr) -> Placeholder | None:
        """The placeholder that a value, or a variable in it, was printed from."""
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id in self.at:
                return self.at[node.id]
            if isinstance(node, ast.expr):
                for p in self.program.rendered.placeholders:
                    if _is_index(p) and not p.text.strip().isdigit() and ast.dump(node) == _dumped(p.text):
                        return p
        return None

    def _value(self, node: ast.expr) -> Expr | None:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="program_id"), args=[axis]):
                axis = ast.literal_eval(axis)
                return self.program.id(f"program_id_{axis}" if axis else "program_id")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="cast"), args=[value, _]):
                return self._value(value)
        return arithmetic(node, self.program.known, self._value)


def _is_index(placeholder: Placeholder) -> bool:
    return not isinstance(placeholder.raw, sympy.logic.boolalg.Boolean) or placeholder.raw.is_Symbol


def _dumped(text: str) -> str:
    try:
        return ast.dump(syntax_tree.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return ""


def arithmetic(
    node: ast.expr, known: Known, read: Callable[[ast.expr], Expr | None], floors: bool = True
) -> Expr | None:
    """A sum, product, quotient or remainder of values; quotients of sums with a minus only where division `floors`."""
    match node:
        case ast.Constant(value=int() as number):
            return sympy.Integer(number)
        case ast.Name(id=name):
            return known.get(name, Size(name) if name not in known else None)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = read(left), read(right)
            build = _OPERATORS.get(type(op))
            if a is None or b is None or build is None:
                return None
            falls = any(isinstance(n, (ast.Sub, ast.USub)) for n in ast.walk(left))
            if isinstance(op, (ast.Div, ast.Mod)) and not floors and falls:
                return None
            return build(a, b)
    return None


_OPERATORS: Final[dict[type[ast.operator], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: FloorDiv,
    ast.Div: FloorDiv,
    ast.Mod: FloorMod,
}


# ---- CUDA


def _cuda(rendered: Rendered) -> Iterator[ProgramNames]:
    """The kernels of a CUDA text, line by line: declarations of ints, and stores whose index is a placeholder."""
    programs, kernel = [ProgramNames(rendered)], False
    for number, line in enumerate(rendered.text.splitlines(), 1):
        if "__global__" in line or "__device__" in line:
            kernel = "__global__" in line
            programs.append(ProgramNames(rendered))
        program = programs[-1]
        bound = re.search(r"__launch_bounds__\((\d+)\)", line)
        if bound:
            program.ranges[sympy.Symbol("threadIdx_x", integer=True)] = Range(0, int(bound[1]))
        plain = IDS.sub(r"\1_\2", line)
        program.branches = program.branches or bool(_BRANCHES.search(plain)) or not kernel
        declared = _C_NAME.match(plain)
        for part in re.split(r",(?![^(\[]*[)\]])", declared[1]) if declared else ():
            name, equals, text = part.partition("=")
            if equals:
                program.name(name.strip(), _c_value(program, text))
        if re.match(r"\s*for\s*\(", plain) and (loop := re.search(r"int\s+(\w+)\s*=\s*0;\s*\w+\s*<\s*(\d+);", plain)):
            symbol = sympy.Symbol(loop[1], integer=True)
            program.known[loop[1]], program.ranges[symbol] = symbol, Range(0, int(loop[2]))
            if symbol not in program.loops:
                program.loops.append(symbol)
        elif re.match(r"\s*(for|while|do)\b", plain):
            program.loops.append(sympy.Symbol(f"round of line {number}", integer=True))
        for p in rendered.placeholders:
            stored = p.written in (0, number) and _is_index(p)
            found = re.search(rf"(\w+)\[{re.escape(p.text)}\]\s*=(?!=)", line) if stored and p.text else None
            if found and not re.search(rf"__shared__ .*\b{found[1]}\[", rendered.text):
                program.store(found[1], number, True, p)
    yield from programs


def _c_value(program: ProgramNames, text: str) -> Expr | None:
    try:
        node = syntax_tree.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None

    def read(node: ast.expr) -> Expr | None:
        if isinstance(node, ast.Name) and node.id.startswith(("threadIdx_", "blockIdx_")):
            return program.id(node.id)
        if isinstance(node, ast.Name) and node.id not in program.known:
            return None
        return arithmetic(node, program.known, read, floors=False)

    return read(node)
