"""Compile a module once into a tree of Python closures.

Reading an attribute through the bindings costs a microsecond or more, so each operation is read once: the function
registered for its name builds a `Step`, a closure over slot numbers and constants. Executing a block calls its steps in
order; an SSA value is `machine.values[slot]`.

The implementation of an operation is in the file of its dialect, registered under the operation's full name:

>>> @implements("example.negate")
... def negate(op: Operation) -> Step:
...     return op.elementwise(lambda a: -a)

An operation without an implementation is an error that names it and its location; nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Module, Op, Region, Type, Value
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import values
from lego_mlir.interp.access import MemoryAccess, Side
from lego_mlir.interp.load_sinking import sunk_loads
from lego_mlir.interp.report import SourceLocation
from lego_mlir.interp.role_scheduler import concurrent
from lego_mlir.transforms import tile_names as names

if TYPE_CHECKING:
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.values import Array, SlotValue

Step = Callable[["Machine"], None]
Implementation = Callable[["Operation"], Step]
BlockCompiler = Callable[["Compiler", "Region"], "CompiledRegion"]
"""Compiles a region of several blocks: `dialects.cf.compile_blocks`."""

ROLE = "lego.warps"
"""The attribute of a branch that is a warp role."""
IMPLEMENTATIONS: dict[str, Implementation] = {}


def implements(*names: str) -> Callable[[Implementation], Implementation]:
    """Register a function as the implementation of one or several operations."""

    def register(function: Implementation) -> Implementation:
        for name in names:
            IMPLEMENTATIONS[name] = function
        return function

    return register


class CompiledRegion(Protocol):
    """A compiled region: a `SingleBlock`, or a `Graph` of several blocks."""

    @property
    def arguments(self) -> tuple[int, ...]: ...

    @property
    def results(self) -> tuple[int, ...]: ...

    def run(self, machine: Machine) -> None: ...

    def results_in(self, machine: Machine) -> list[SlotValue]: ...


@dataclass(frozen=True, slots=True)
class SingleBlock:
    """A compiled single-block region: the slots of its arguments, its steps, and the slots of its results."""

    arguments: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def run(self, machine: Machine) -> None:
        for step in self.steps:
            step(machine)

    def results_in(self, machine: Machine) -> list[SlotValue]:
        return [machine.values[slot] for slot in self.results]


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A compiled `gpu.func` or `func.func`, with the attributes that a launch needs."""

    name: str
    body: CompiledRegion
    argument_types: tuple[Any, ...]
    workgroup: tuple[tuple[int, Any], ...]
    tiles: tuple[str, ...]  # their names in reports
    private: tuple[tuple[int, Any], ...]
    known_block: tuple[int, int, int] | None
    known_grid: tuple[int, int, int] | None
    known_cluster: tuple[int, int, int] | None
    is_kernel: bool
    arguments_read: frozenset[int]
    arguments_written: frozenset[int]


def place_of(location: object, source: str = "-") -> SourceLocation:
    """The first file position in a location, which may be nested in names, call sites and fusions.

    `source` replaces "-", MLIR's file name for text that was not read from a file.
    """
    found = re.search(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)', str(location))
    if found is None:
        return SourceLocation("unknown", 0)
    return SourceLocation(source if found[1] == "-" else found[1], int(found[2]), int(found[3]))


class Operation:
    """One operation during compilation: slots of its values, accessors of its attributes.

    `mask` is the slot of the mask of an enclosing `vector.mask`, if any.
    """

    def __init__(self, compiler: Compiler, operation: Op, mask: int | None = None) -> None:
        self.compiler = compiler
        self.mask = mask
        self.operation = operation
        self.name: str = operation.name
        self.operands: tuple[int, ...] = tuple(compiler.slot(v) for v in operation.operands)

    @cached_property
    def place(self) -> SourceLocation:
        return self.compiler.place(self.operation)

    @cached_property
    def results(self) -> tuple[int, ...]:
        return tuple(self.compiler.slot(v) for v in self.operation.results)

    @property
    def result(self) -> int:
        return self.results[0]

    def operand_type(self, i: int) -> Type:
        return self.operation.operands[i].type

    def result_type(self, i: int = 0) -> Type:
        return self.operation.results[i].type

    def has(self, attribute: str) -> bool:
        return attribute in self.operation.attributes

    def attribute(self, name: str) -> Attribute:
        return self.operation.attributes[name]

    def integer(self, name: str, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        return int(self.attribute(name).value)

    def flag(self, name: str) -> bool:
        """Whether a unit attribute is present or a boolean one is true."""
        return self.has(name) and str(self.attribute(name)) != "false"

    def integers(self, name: str) -> tuple[int, ...]:
        """An array of integers, in either of MLIR's two spellings."""
        if not self.has(name):
            return ()
        return tuple(int(getattr(item, "value", item)) for item in self.attribute(name))

    def keyword(self, name: str) -> str:
        """The enumerator inside an attribute: `add` of `#vector.kind<add>`, `x` of `#gpu<dim x>`."""
        words = re.findall(r"[A-Za-z_][A-Za-z_0-9]*", str(self.attribute(name)))
        return str(words[-1])

    def segments(self) -> list[tuple[int, ...]]:
        """The operands' slots, grouped by `operandSegmentSizes`."""
        groups, at = [], 0
        for size in self.integers("operandSegmentSizes"):
            groups.append(self.operands[at : at + size])
            at += size
        return groups

    def body(self, region: int = 0) -> CompiledRegion:
        """The compiled block of a region."""
        return self.compiler.body(self.operation.regions[region])

    def has_region(self, region: int) -> bool:
        regions = self.operation.regions
        return region < len(regions) and len(list(regions[region].blocks)) > 0

    def access(self, kind: str) -> MemoryAccess:
        """A new access site of this operation."""
        site = MemoryAccess(
            len(self.compiler.accesses), self.place, self.name, kind, self.compiler.counted_at(self.operation)
        )
        self.compiler.accesses.append(site)
        return site

    def touches(self, i: int, *, read: bool = False, written: bool = False) -> None:
        """Record that memref operand `i` is read or written, for the kernel argument from which it is derived."""
        self.compiler.note_use(self.operation.operands[i], read, written)

    def elementwise(self, compute: Callable[..., object]) -> Step:
        """The step that computes the one result from all operands."""
        result, operands = self.result, self.operands
        if len(operands) == 1:
            (one,) = operands

            def unary(m: Machine) -> None:
                v = m.values
                v[result] = compute(v[one])

            return unary
        if len(operands) == 2:
            left, right = operands

            def binary(m: Machine) -> None:
                v = m.values
                v[result] = compute(v[left], v[right])

            return binary

        def step(m: Machine) -> None:
            v = m.values
            v[result] = compute(*[v[slot] for slot in operands])

        return step

    def constant(self, value: Array) -> Step:
        result = self.result

        def step(m: Machine) -> None:
            m.values[result] = value

        return step

    def fail(self, message: str) -> NoReturn:
        raise InterpreterError(f"{self.place}: {self.name}: {message}")


def copy_slots(sources: Sequence[int], targets: Sequence[int]) -> Step:
    """The step that copies values: into arguments, out of a region, through a cast."""
    pairs = tuple(zip(sources, targets, strict=True))

    def step(m: Machine) -> None:
        v = m.values
        for target, value in [(target, v[source]) for source, target in pairs]:
            v[target] = value

    return step


class Compiler:
    """Assigns slots to SSA values and steps to operations; compiles each function of a module once, on demand."""

    def __init__(self, module: Module, source: str, compile_blocks: BlockCompiler) -> None:
        self.module = module
        self._compile_blocks = compile_blocks
        self.source = source
        self.accesses: list[MemoryAccess] = []
        self.lane_bytes = 0
        self.shared_bytes = 0
        self.dynamic_bytes = 0
        self.synchronises_warps = False  # a kernel has barriers of warps (`warp_order.py`)
        self.concurrent = False  # a kernel has warp roles, or copies that complete on barriers (`happens_before.py`)
        self.clustered = False  # a kernel's blocks meet, or reach each other's memory (`cluster_blocks.py`)
        self.granule: int | None = None  # the smallest element of the views of dynamic shared memory
        self._slots: dict[Any, int] = {}
        self._functions: dict[str, CompiledFunction | None] = {}
        self._symbols = _symbols(module)
        self._used: dict[Any, list[bool]] = {}
        self._branches: dict[Any, int] = {}
        self._sunk: dict[Any, Side] = {}

    def place(self, operation: Op) -> SourceLocation:
        """The source location of an operation."""
        return place_of(operation.location, self.source)

    @property
    def slots(self) -> int:
        return len(self._slots)

    def slot(self, value: Value) -> int:
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = len(self._slots)
            self.lane_bytes += _bytes_per_lane(value.type)
        return found

    def symbol(self, name: str) -> Op:
        """The operation that defines a symbol, by its last name."""
        try:
            return self._symbols[name.rsplit("@", 1)[-1]]
        except KeyError:
            raise InterpreterError(f"the module defines no @{name}; it has: {', '.join(self._symbols)}") from None

    def kernels(self) -> list[str]:
        return [n for n, op in self._symbols.items() if op.name == "gpu.func" and "gpu.kernel" in _flags(op)]

    def functions(self) -> list[str]:
        return [n for n, op in self._symbols.items() if op.name in ("gpu.func", "func.func")]

    def has_body(self, name: str) -> bool:
        """Whether a function is defined in the module, not only declared."""
        return bool(list(self.symbol(name).regions[0].blocks))

    def entry_points(self) -> list[str]:
        """What a run of the module executes: its host program `main`, else its kernels, else its functions."""
        if "main" in self._symbols and self.symbol("main").name == "func.func" and self.has_body("main"):
            return ["main"]
        return self.kernels() or [name for name in self.functions() if self.has_body(name)]

    def fresh_slot(self, type_: Type) -> int:
        """A slot without an SSA value."""
        self.lane_bytes += _bytes_per_lane(type_)
        slot = self._slots[object()] = len(self._slots)
        return slot

    def body(self, region: Region) -> CompiledRegion:
        """A compiled region, of one block or of several."""
        blocks = list(region.blocks)
        if len(blocks) != 1:
            return self._compile_blocks(self, region)
        arguments = tuple(self.slot(a) for a in blocks[0].arguments)
        operations = [o.operation for o in blocks[0].operations]
        self._note_sunk_loads(operations)
        ends = bool(operations) and _is_terminator(operations[-1].name)
        steps = tuple(self._steps(operations[:-1] if ends else operations))
        results = tuple(self.slot(v) for v in operations[-1].operands) if ends else ()
        return SingleBlock(arguments, steps, results)

    def _steps(self, operations: Sequence[Op]) -> Iterator[Step]:
        """The steps of a block's operations; warp roles with only arithmetic between them run together."""
        rest = list(operations)
        while rest:
            count = _adjacent_roles(rest)
            if not count:
                yield self.step(rest.pop(0))
                continue
            self.concurrent = True
            roles = [op for op in rest[:count] if ROLE in op.attributes]
            yield from (self.step(op) for op in rest[:count] if ROLE not in op.attributes)
            yield concurrent([self.step(op) for op in roles])
            del rest[:count]

    def _note_sunk_loads(self, block: Sequence[Op]) -> None:
        for load, (branch, region) in sunk_loads(block).items():
            self._sunk[load] = (self._branches.setdefault(branch, len(self._branches)), region)

    def counted_at(self, load: Op) -> Side | None:
        """The side of a branch into which the compiler sinks a load; None if it is not moved."""
        return self._sunk.get(load)

    def branch_number(self, branch: Op) -> int | None:
        """The number of a branch into which loads are sunk; None for others."""
        return self._branches.get(branch)

    def step(self, operation: Op, mask: int | None = None) -> Step:
        try:
            build = IMPLEMENTATIONS[operation.name]
        except KeyError:
            raise InterpreterError(
                f"{self.place(operation)}: the interpreter does not support the operation {operation.name}; "
                "implement it in lego_mlir/interp/dialects, or lower it first"
            ) from None
        return build(Operation(self, operation, mask))

    def function(self, name: str) -> CompiledFunction:
        if name not in self._functions:
            self._functions[name] = None
            self._functions[name] = self._function(name)
        function = self._functions[name]
        if function is None:
            raise InterpreterError(f"@{name} calls itself; recursion is not supported in a kernel")
        return function

    def _function(self, name: str) -> CompiledFunction:
        operation = self.symbol(name)
        regions = list(operation.regions)
        if operation.name not in ("gpu.func", "func.func"):
            raise InterpreterError(f"{self.place(operation)}: @{name} is a {operation.name}, not a function")
        if not list(regions[0].blocks):
            raise InterpreterError(f"{self.place(operation)}: @{name} is declared, but has no body to run")
        arguments = list(regions[0].blocks[0].arguments)
        types = list(bindings.load().ir.FunctionType(operation.attributes["function_type"].value).inputs)
        shared = _count(operation, "workgroup_attributions")
        body = self.body(regions[0])
        rest = [(self.slot(a), a.type) for a in arguments[len(types) :]]
        uses = [self._used.get(a, [False, False]) for a in arguments[: len(types)]]
        return CompiledFunction(
            name=name,
            body=body,
            argument_types=tuple(types),
            workgroup=tuple(rest[:shared]),
            tiles=tile_names(operation, shared),
            private=tuple(rest[shared:]),
            known_block=_known(operation, "known_block_size"),
            known_grid=_known(operation, "known_grid_size"),
            known_cluster=_known(operation, "known_cluster_size"),
            is_kernel=operation.name == "gpu.func",
            arguments_read=frozenset(i for i, use in enumerate(uses) if use[0]),
            arguments_written=frozenset(i for i, use in enumerate(uses) if use[1]),
        )

    def note_use(self, value: Value, read: bool, written: bool) -> None:
        """Record a use of a memref and of every value of which it may be a view."""
        pending, seen = [value], set()
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            use = self._used.setdefault(at, [False, False])
            use[0], use[1] = use[0] or read, use[1] or written
            owner = getattr(at.owner, "operation", None)
            if owner is not None:
                pending += _memrefs_behind(at, owner)
                continue
            parent = at.owner.owner.operation
            pending += [v for v in parent.operands if values.is_memref(v.type)]
            if at.owner != at.owner.region.blocks[0]:
                ends = [list(block.operations)[-1].operation for block in at.owner.region.blocks]
                pending += [v for end in ends for v in end.operands if values.is_memref(v.type)]


def _memrefs_behind(value: Value, owner: Op) -> list[Value]:
    """The memrefs that a result of `owner` may be a view of: its operands', and those its regions yield."""
    behind = [v for v in owner.operands if values.is_memref(v.type)]
    for region in owner.regions:
        for block in region.blocks:
            last = list(block.operations)[-1].operation
            behind += [v for v in last.operands if values.is_memref(v.type)]
    return behind


def _is_terminator(name: str) -> bool:
    return name.endswith((".yield", ".return", ".condition", ".terminator", "atomic_yield"))


def _symbols(module: Module) -> dict[str, Op]:
    """Every named operation of the module and of the gpu.modules in it."""
    found: dict[str, Any] = {}
    pending = [o.operation for o in module.body.operations]
    while pending:
        operation = pending.pop(0)
        if "sym_name" in operation.attributes:
            found[str(operation.attributes["sym_name"].value)] = operation
        if operation.name in ("gpu.module", "builtin.module"):
            pending += [o.operation for o in operation.regions[0].blocks[0].operations]
    return found


def _flags(operation: Op) -> set[str]:
    kernel = "gpu.kernel" in operation.attributes or "kernel" in operation.attributes
    return {"gpu.kernel"} if kernel else set()


def _count(operation: Op, name: str) -> int:
    return int(operation.attributes[name].value) if name in operation.attributes else 0


def tile_names(operation: Op, count: int) -> tuple[str, ...]:
    """The name of each shared tile in reports: the one that it was given, or its position."""
    return tuple(name or f"shared{number}" for number, name in enumerate(names.declared(operation, count)))


def _known(operation: Op, name: str) -> tuple[int, int, int] | None:
    for spelling in (name, f"gpu.{name}"):
        if spelling in operation.attributes:
            x, y, z = (int(getattr(v, "value", v)) for v in operation.attributes[spelling])
            return x, y, z
    return None


def _adjacent_roles(operations: Sequence[Op]) -> int:
    """The number of operations from a first role to the last one with only arithmetic between; 0 if there is none."""
    count = 0
    for number, operation in enumerate(operations):
        if ROLE in operation.attributes:
            count = number + 1
        elif not operation.name.startswith(("arith.", "index.", "affine.apply")) or not number:
            break
    return count


def _bytes_per_lane(type_: Type) -> int:
    """An upper bound on the bytes of one lane's copy of a value, which limits the blocks of a batch."""
    elements = 1
    for n in values.vector_shape(type_):
        elements *= n
    return elements * 8 if elements == 1 else elements * 4
