"""Functions of vector code as C11: intrinsics of SSE2, AVX2 or AVX-512, plain C for scalars.

The text compiles by itself, without warnings, and has the same operations in the same order as the MLIR of `mlir_text`:

>>> from lego_mlir.structured.function import Function
>>> f = Function("twice", "f64", (("x", 4), ("y", 4)))
>>> value = f.load_vector("x", f.index(0), [True] * 4)
>>> f.store_vector("y", f.index(0), f.add(value, value, 4), [True] * 4)
>>> print(text(f, "avx2", written=("y",)).partition("#endif\\n")[2])
<BLANKLINE>
void twice(const double *x, double *y)
{
    const __m256d v0 = _mm256_loadu_pd(&x[0]);
    const __m256d v1 = _mm256_add_pd(v0, v0);
    _mm256_storeu_pd(&y[0], v1);
}
<BLANKLINE>
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lego_mlir.errors import PrintError, UsageError
from lego_mlir.hardware.isa import ISAS
from lego_mlir.structured.entry_point import KEYWORDS
from lego_mlir.structured.function import (
    SSA,
    CarriedLoop,
    Conditional,
    Function,
    SharedConstant,
    Statement,
    VectorOperation,
)
from lego_mlir.structured.x86_vectors import REQUIRED, Vectors

_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_INDEX: Final = {
    "addi": "{} + {}", "subi": "{} - {}", "muli": "{} * {}", "remsi": "{} % {}",
    "minsi": "{0} < {1} ? {0} : {1}", "maxsi": "{0} > {1} ? {0} : {1}",
    "floordivsi": "{0} / {1} - ({0} % {1} != 0 && ({0} < 0) != ({1} < 0))",
}  # fmt: skip
_COMPARE: Final = {"sle": "<=", "slt": "<", "sge": ">=", "sgt": ">", "eq": "=="}
_LOGIC: Final = {"andi": "&", "ori": "|", "xori": "^"}
# Names of generated values, of the headers' macros, and of what the text uses.
_TAKEN: Final = re.compile(
    r"[vikr]\d+(_\d+)?|row|column|sqrtf?|ptrdiff_t|int32_t|NULL|NAN|INFINITY|unix|linux|_.*|(M|FP|HUGE|MATH|INT\d+)_.*"
)


def text(function: Function, isa: str, written: Collection[str], about: Sequence[str] = ()) -> str:
    """The function and all that it calls, as one file of C. `written` are the buffers that the caller declares as not
    constant; `about` are lines of its first comment. Raises UsageError for vectors that the instruction set lacks."""
    file = _File(function, isa)
    vectors = sorted(_widths(function) - {1})
    if vectors and file.vectors is None:
        raise UsageError(
            f"C with intrinsics is for {', '.join(REQUIRED)}; code for {isa} is plain C, of one number at a time, "
            f"and has no vectors of {vectors[-1]}"
        )
    if vectors and file.vectors is not None and not file.vectors.holds(vectors[-1]):
        raise UsageError(
            f"a register of {isa} holds {ISAS[isa].lanes(function.element)} {function.element}, and the variant has "
            f"vectors of {vectors[-1]}; choose a smaller width or another target"
        )
    functions = list(file.functions(function, frozenset(written)))
    libraries = ["math.h"] * file.needs_math + ["stddef.h"] + ["stdint.h"] * bool(file.tables)
    head = [*(["/* " + "\n * ".join(about) + " */"] if about else []), *(f"#include <{name}>" for name in libraries)]
    if vectors:
        lacking = " || ".join(f"!defined({macro})" for macro in REQUIRED[isa])
        head += ["#include <immintrin.h>", f"#if {lacking}", f'#error "compile with -march={ISAS[isa].cpu}"', "#endif"]
    return "\n".join([*head, "", *file.tables, *functions, ""])


def _functions(function: Function) -> Iterator[Function]:
    yield function
    for helper in function.helpers.values():
        yield from _functions(helper)


def _operations(statements: Iterable[Statement]) -> Iterator[VectorOperation | CarriedLoop]:
    for statement in statements:
        if not isinstance(statement, Conditional):
            yield statement
        if not isinstance(statement, VectorOperation):
            yield from _operations(statement.body)


def _widths(function: Function) -> set[int]:
    """The lengths of all vectors."""
    return {one.width for each in _functions(function) for one in _operations(each.body)}


@dataclass
class _File:
    """What the functions of a file share."""

    root: Function
    isa: str
    tables: list[str] = field(default_factory=list)
    needs_math: bool = False

    def __post_init__(self) -> None:
        self.vectors = Vectors(self.isa, self.root.element) if self.isa in REQUIRED else None
        self.globals = {self.root.name: self.root.name}
        for function in _functions(self.root):
            for name in (function.name, f"{function.name}_core", *function.tables):
                self.globals.setdefault(name, _identifier(name, self.globals.values()))

    def functions(self, function: Function, written: frozenset[str], local: str = "") -> Iterator[str]:
        """The text of the functions that this one calls, and of itself; `local` is "static " for a helper."""
        for helper in function.helpers.values():
            yield from self.functions(helper, _written(helper), "static ")
        printer = _Printer(self, function, written | _written(function))
        scratch = [name for name in function.scratch if f"buffer {name}" in printer.used]
        own = [
            f"    _Alignas(64) {printer.element} {printer.buffers[name]}[{function.scratch[name]}];" for name in scratch
        ]
        body = list(printer.block(function.body, "    "))
        whole = printer.signature(function.name, function.arguments, local)
        if not (function.scratch_as_arguments and own):
            yield from (whole, "{", *printer.unused(function.arguments), *own, *body, "}", "")
            return
        everything = (*function.arguments, *scratch)
        core = f"{function.name}_core"
        signature = printer.signature(core, everything, "static ")
        yield from (signature, "{", *printer.unused(everything), *body, "}", "")
        given = ", ".join(printer.buffers[name] for name in everything)
        yield from (whole, "{", *own, f"    {self.globals[core]}({given});", "}", "")


def _identifier(name: str, taken: Collection[str]) -> str:
    """A C identifier for a name, none of those that are taken."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    while found in taken or found in KEYWORDS or _TAKEN.fullmatch(found):
        found = f"u_{found}"
    return found


def _written(function: Function) -> frozenset[str]:
    """The buffers that a function or its helpers store to, and its scratch."""
    found = set(function.scratch)
    helpers = {helper.name: helper for helper in function.helpers.values()}
    for operation in _operations(function.body):
        if isinstance(operation, CarriedLoop):
            continue
        if operation.kind in ("store", "masked_store"):
            found.add(operation.buffer)
        elif operation.kind == "call":
            name, buffers = operation.data
            changed = _written(helpers[name])
            found.update(given for given, own in zip(buffers, helpers[name].arguments, strict=True) if own in changed)
    return frozenset(found)


class _Printer:
    """Prints the statements of one function, without those whose results nothing uses."""

    def __init__(self, file: _File, function: Function, written: frozenset[str]) -> None:
        self.file = file
        self.f = function
        self.vectors = file.vectors
        self.element = {"f64": "double", "f32": "float"}[function.element]
        self.written = written
        self.buffers: dict[str, str] = {}
        for name in function.buffers:
            self.buffers[name] = _identifier(name, {*file.globals.values(), *self.buffers.values()})
        self.negated: dict[SSA, SSA] = {
            one.result: one.operands[0]
            for one in _operations(function.body)
            if isinstance(one, VectorOperation) and one.kind == "neg" and one.width > 1
        }
        self.used: set[str] = set()  # values, and buffers
        self._mark(function.body)
        self.tables_printed: set[str] = set()

    def _mark(self, statements: Sequence[Statement]) -> None:
        """Collect what is used, from the last statement to the first."""
        for statement in reversed(statements):
            match statement:
                case CarriedLoop():
                    self.used.update(statement.results)
                    self._mark(statement.body)
                    self.used.update((statement.low, statement.high, statement.step, *statement.initial))
                case Conditional(condition, body):
                    self._mark(body)
                    self.used.add(condition)
                case VectorOperation(kind, result, _, _, buffer, data) if not result or result in self.used:
                    self.used.update(self.needed(statement))
                    self.used.update(
                        (f"buffer {name}" for name in data[1]) if kind == "call" else (f"buffer {buffer}",)
                    )

    def needed(self, op: VectorOperation) -> Iterable[SSA]:
        """The operands that the text of an operation has."""
        match op.kind, op.operands:
            case "fma", (a, b, c):
                return self.negated.get(a, a), b, c
            case "shuffle", (a, b):
                return [x for at, x in enumerate((a, b)) if any(lane // op.width == at for lane in op.data)]
            case "select", (a, b):
                return [x for one, x in ((True, a), (False, b)) if one in op.data]
        return op.operands

    def signature(self, name: str, arguments: Sequence[str], local: str) -> str:
        listed = [
            f"{'' if argument in self.written else 'const '}{self.element} *{self.buffers[argument]}"
            for argument in arguments
        ]
        indices = [f"ptrdiff_t {self.value(f'%{name}')}" for name in self.f.indices]
        return f"{local}void {self.file.globals[name]}({', '.join([*listed, *indices])})"

    def unused(self, arguments: Sequence[str]) -> list[str]:
        """Statements that mark unused arguments."""
        found = [self.buffers[name] for name in arguments if f"buffer {name}" not in self.used]
        found += [name for name in self.f.indices if f"%{name}" not in self.used]
        return [f"    (void){name};" for name in found]

    # values
    def value(self, name: SSA) -> str:
        """A value as a C expression: a variable, or a constant."""
        constant = self.f.constants.get(name)
        if constant is not None:
            return self.constant(constant)
        if made := re.fullmatch(r"%(?:a(\d+)_|r(\d+)#)(\d+)", name):
            return f"r{made[1] or made[2]}_{made[3]}"
        return f"v{name[1:]}" if name[1:].isdigit() else name[1:]

    def constant(self, constant: SharedConstant) -> str:
        value, width = constant.value, constant.width
        match constant.kind:
            case "index":
                return str(value)
            case "true":
                return "1"
            case "splat" if width == 1:
                return self.number(value)
            case "splat":
                positive = value == 0 and math.copysign(1, value) > 0
                return self.made.zero(width) if positive else self.made.splat(self.number(value), width)
            case "lanes":
                return self.made.of([self.number(one) for one in value], width)
        raise PrintError(f"c: no form for a constant {constant.kind}")

    def number(self, value: float) -> str:
        """A literal that keeps every bit of the element type."""
        suffix = "f" if self.f.element == "f32" else ""
        if suffix and math.isfinite(value):
            value = _rounded(value)
        if not math.isfinite(value):
            self.file.needs_math = True
            return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
        return f"{value!r}{suffix}"

    @property
    def made(self) -> Vectors:
        """The vectors of the instruction set."""
        if self.vectors is None:
            raise PrintError(f"c: {self.file.isa} has no intrinsics")
        return self.vectors

    def type(self, width: int) -> str:
        return self.element if width == 1 else self.made.type(width)

    # statements
    def block(self, statements: Sequence[Statement], indent: str) -> Iterator[str]:
        for statement in statements:
            match statement:
                case CarriedLoop():
                    yield from self.loop(statement, indent)
                case Conditional(condition, body):
                    yield f"{indent}if ({self.value(condition)}) {{"
                    yield from self.block(body, indent + "    ")
                    yield indent + "}"
                case VectorOperation(result=""):
                    yield from (f"{indent}{line};" for line in self.effect(statement))
                case VectorOperation(kind, result, width=width) if result in self.used:
                    of = "ptrdiff_t" if kind in ("index", "look_up") else "int" if kind in ("compare", "logic") else (
                        self.type(1 if kind == "lane" else statement.data[1] if kind == "extract" else width)
                    )  # fmt: skip
                    yield f"{indent}const {of} {self.value(result)} = {self.expression(statement)};"

    def loop(self, loop: CarriedLoop, indent: str) -> Iterator[str]:
        """A `for`, with one variable for each carried value."""
        names = [self.value(name) for name in loop.values]
        for name, initial in zip(names, loop.initial, strict=True):
            yield f"{indent}{self.type(loop.width)} {name} = {self.value(initial)};"
        i, low, high, step = map(self.value, (loop.variable, loop.low, loop.high, loop.step))
        yield f"{indent}for (ptrdiff_t {i} = {low}; {i} < {high}; {i} += {step}) {{"
        yield from self.block(loop.body, indent + "    ")
        results = [self.value(name) for name in loop.results]
        changed = [(name, new) for name, new in zip(names, results, strict=True) if name != new]
        if any(new in names for _, new in changed):  # all are read before one is written
            for at, (_, new) in enumerate(changed):
                yield f"{indent}    const {self.type(loop.width)} k{at} = {new};"
            changed = [(name, f"k{at}") for at, (name, _) in enumerate(changed)]
        yield from (f"{indent}    {name} = {new};" for name, new in changed)
        yield indent + "}"

    def effect(self, op: VectorOperation) -> list[str]:
        """A statement without result."""
        match op.kind, op.operands:
            case "call", indices:
                name, buffers = op.data
                given = [*(self.buffers[buffer] for buffer in buffers), *map(self.value, indices)]
                return [f"{self.file.globals[name]}({', '.join(given)})"]
            case "store", (at, value) if op.width == 1:
                return [f"{self.buffers[op.buffer]}[{self.value(at)}] = {self.value(value)}"]
            case "store", (at, value):
                return [self.made.store(self.place(op.buffer, at), self.value(value), op.width)]
            case "masked_store", (at, value):
                return self.made.masked_store(self.places(op, at), op.data, self.value(value), op.width)
        raise PrintError(f"c: no form for {op.kind} of {len(op.operands)} operands")

    def place(self, buffer: str, at: SSA, lane: int = 0) -> str:
        return f"&{self.buffers[buffer]}[{self.value(at)}{f' + {lane}' if lane else ''}]"

    def places(self, op: VectorOperation, at: SSA) -> list[str]:
        return [self.place(op.buffer, at, lane) for lane in range(op.width)]

    def expression(self, op: VectorOperation) -> str:
        data, width = op.data, op.width
        values = [self.value(operand) for operand in op.operands]
        match op.kind:
            case "index":
                return _INDEX[data].format(*values)
            case "compare":
                return f"{values[0]} {_COMPARE[data]} {values[1]}"
            case "logic":
                return f"{values[0]} {_LOGIC[data]} {values[1]}"
            case "look_up":
                return f"{self.table(data)}[{values[0]}]"
            case "load" if width == 1:
                return f"{self.buffers[op.buffer]}[{values[0]}]"
            case "add" | "sub" | "mul" | "div" if width == 1:
                return f"{values[0]} {_SIGNS[op.kind]} {values[1]}"
            case "neg" if width == 1:
                return f"-{values[0]}"
            case "sqrt" if width == 1:
                self.file.needs_math = True
                return f"{'sqrtf' if self.f.element == 'f32' else 'sqrt'}({values[0]})"
        return self.vector(op, values)

    def vector(self, op: VectorOperation, values: Sequence[str]) -> str:
        """An operation on vectors."""
        made, data, width = self.made, op.data, op.width
        match op.kind:
            case "add" | "sub" | "mul" | "div" | "sqrt":
                return made.call(op.kind, width, *values)
            case "neg":
                return made.negated(values[0], width)
            case "fma":
                factor = self.negated.get(op.operands[0])
                first = values[0] if factor is None else self.value(factor)
                return made.multiply_add(first, values[1], values[2], width, factor is not None)
            case "broadcast":
                return made.splat(values[0], width)
            case "from_lanes":
                return made.of(values, width)
            case "shuffle":
                return made.shuffle(values[0], values[1], data, width)
            case "select":
                return made.shuffle(
                    values[0], values[1], [at if one else width + at for at, one in enumerate(data)], width
                )
            case "lane":
                return made.lane(values[0], data, width)
            case "extract":
                return made.extract(values[0], data[0], data[1], width)
            case "insert":
                return made.insert(values[0], values[1], data[0], data[1], width)
            case "load":
                return made.load(self.place(op.buffer, op.operands[0]), width)
            case "masked_load":
                rest = self.f.constants.get(op.operands[1])
                zero = rest == SharedConstant("splat", 0.0, width)
                return made.masked_load(self.places(op, op.operands[0]), data, None if zero else values[1], width)
        raise PrintError(f"c: no form for {op.kind} of width {width}")

    def table(self, name: str) -> str:
        """The name of a table, whose text is added to the file on first use."""
        found = self.file.globals[name]
        if name not in self.tables_printed:
            self.tables_printed.add(name)
            values = self.f.tables[name]
            self.file.tables += [
                f"static const int32_t {found}[{len(values)}] = {{{', '.join(map(str, values))}}};",
                "",
            ]
        return found


def _rounded(value: float) -> float:
    """A number rounded to single precision: infinity if it is too large."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
