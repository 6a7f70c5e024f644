"""Run a GPU kernel as loops on a CPU: blocks and threads become loops, split at barriers.

    store %v, %tile[%t]                       for each block:
    gpu.barrier                 -->             for each thread: store v[t], tile[t]
    %w = load %tile[%u]                         for each thread: w[t] = load tile[u]

Between two barriers threads do not interact, so each section between barriers, a *run*, becomes a loop over the block's
threads. A value that a later run uses is recomputed if it depends on ids and constants only, and is otherwise stored in
an array with one element per thread. A loop or branch that contains a barrier remains outside the loops over threads:
all threads of a block take it uniformly, or the kernel is wrong on a GPU as well. Loop-carried values are such arrays.
(Stratton, Stone, Hwu, "MCUDA", 2008.)

The function of a kernel `k(a, b)` is `k(a, b, grid x, grid y, first block, last block)`: it runs the blocks of a range,
counted along x, then y, then z, so that several processors can share a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.aliases import Block, Module, Op, Type, Value
from lego_mlir.toolchain import host_divisions, host_functions, host_printing, host_rounding, host_units, host_warps
from lego_mlir.toolchain.lowering import OUTLINE, arguments_as_pointers
from lego_mlir.transforms import called_functions
from lego_mlir.transforms.kernel_facts import KernelFacts, facts_of, gpu_modules, input_types, kernels
from lego_mlir.transforms.modules import ModuleError, parse, place, run, session, string_attribute, to_text, walk
from lego_mlir.transforms.passes.bf16_integers import LowerBf16Integers
from lego_mlir.transforms.passes.copy_fences import ROLE
from lego_mlir.transforms.passes.f8_conversions import LowerF8Conversions
from lego_mlir.transforms.passes.float_to_integer import LowerFloatToInteger
from lego_mlir.transforms.passes.lower_atomics import LowerAtomics
from lego_mlir.transforms.passes.lower_clusters import OF_BLOCK
from lego_mlir.transforms.passes.lower_tile_copies import RING
from lego_mlir.transforms.passes.operations import ancestor_in, clone, is_pure, operations, producer
from lego_mlir.transforms.passes.subgroup_reduce import LowerSubgroupReduce
from lego_mlir.transforms.pipeline import Pipeline, PipelinePass

BARRIER: Final = "gpu.barrier"
CLUSTER_WAIT: Final = "nvvm.cluster.wait"
DYNAMIC: Final = "gpu.dynamic_shared_memory"
_LAUNCH: Final = ("gpu.block_id", "gpu.thread_id", "gpu.block_dim", "gpu.grid_dim")
_AGAIN: Final = (
    *_LAUNCH,
    "memref.get_global",
    "memref.reinterpret_cast",
    "memref.subview",
    "memref.cast",
    "memref.view",
)
_BF16_AS_F32: Final = {"source-types": "bf16", "target-type": "f32"}
_FOREIGN: Final = ("gpu.", "nvgpu.", "nvvm.", "cf.assert")  # an assertion would end the process
_AXES: Final = "xyz"


def to_host(text: str, name: str = "-") -> tuple[str, dict[str, tuple[str, ...]]]:
    """The module with a `func.func` for every kernel, and what each takes: "tensor", or a number's type.

    Raises ModuleError for what only a GPU can do.
    """
    ir = bindings.load().ir
    with session():
        module = parse(text, name)
        run(module, OUTLINE, name)
        called_functions.inline(module)
        host = ir.Module.create()
        for gpu_module in gpu_modules(module):
            _move_tables(gpu_module, host)
        signatures = {}
        for function in list(kernels(module)):
            arguments_as_pointers(function)
            built = HostFunction(function, host)
            built.build()
            signatures[built.facts.name] = tuple(
                a.dtype if a.kind == "scalar" else a.kind for a in built.facts.arguments
            )
        host.operation.verify()
        _compute_bf16_in_f32(host)
        return to_text(host, locations=True), signatures


def _compute_bf16_in_f32(host: Module) -> None:
    """Let every operation on bf16 be one on f32 that is rounded at once, as hardware does.

    Upstream's pass allows omitting the rounding before another operation (`contract`); here it is kept.
    """
    run(host, Pipeline("builtin.module", (PipelinePass("arith-emulate-unsupported-floats", _BF16_AS_F32),)))
    for operation in walk(host.operation):
        if operation.name in ("arith.extf", "arith.truncf") and "fastmath" in operation.attributes:
            operation.attributes["fastmath"] = bindings.load().ir.Attribute.parse("#arith.fastmath<none>")


def _move_tables(gpu_module: Op, host: Module) -> None:
    """Move constant tables to the host's module, under names that include the GPU module's."""
    ir, prefix = bindings.load().ir, string_attribute(gpu_module, "sym_name")
    for operation in walk(gpu_module):
        if operation.name == "memref.get_global":
            table = str(ir.FlatSymbolRefAttr(operation.attributes["name"]).value)
            operation.attributes["name"] = ir.FlatSymbolRefAttr.get(f"{prefix}_{table}")
    for operation in list(gpu_module.regions[0].blocks[0].operations):
        if operation.operation.name == "memref.global":
            name = string_attribute(operation.operation, "sym_name")
            operation.operation.attributes["sym_name"] = ir.StringAttr.get(f"{prefix}_{name}")
            host.body.append(operation)


@dataclass(eq=False)
class Run:
    """One loop over the threads of a block: the block of operations inside, the ids, and the thread's number."""

    body: Block
    ids: dict[str, Any]
    number: Value
    first: Any  # what is computed again, or loaded, goes before this operation
    again: dict[Value, Value] = field(default_factory=dict)  # values of other runs, as this one has them


class HostFunction:
    """Builds the function of one kernel; the operations of the kernel move into it."""

    def __init__(self, function: Op, host: Module) -> None:
        self.ir = bindings.load().ir
        self.function, self.host = function, host
        self.facts: KernelFacts = facts_of(function)
        if self.facts.block is None:
            raise ModuleError(f"@{self.facts.name} does not fix its block; give the gpu.func a known_block_size")
        self.threads = prod(self.facts.block)
        _refuse_roles(function)
        LowerSubgroupReduce().run_on(function)
        host_units.expand(function, self.facts.block)
        host_warps.expand(function, self.facts.block)
        self.runs: list[Run] = []
        self.slots: dict[Value, Value] = {}  # a value -> the array that keeps it, an element a thread
        self.marks: list[Any] = []  # placeholders of loop-carried values, until their loads are placed
        self.origins: dict[Value, Value] = {}  # a run's copy or load of a value of another run -> that value
        self.arrays: list[Any] = []
        self.constants: dict[int, Any] = {}

    # -- the frame: the function, its memory, the loop over blocks

    def build(self) -> None:
        """Move the kernel's operations into the function of the host."""
        ir, entry = self.ir, self.function.regions[0].blocks[0]
        inputs = input_types(self.function)
        # C passes a float of 16 or 8 bits as an integer
        passed = [ir.IntegerType.get_signless(given.width) if _is_narrow_float(given) else given for given in inputs]
        type_ = ir.FunctionType.get([*passed, *[ir.IndexType.get()] * 4], [])
        attributes = {"sym_name": ir.StringAttr.get(self.facts.name), "function_type": ir.TypeAttr.get(type_)}
        with self.function.location:
            with ir.InsertionPoint(self.host.body):
                made = ir.Operation.create("func.func", attributes=attributes, regions=1)
            locations = [self.function.location] * len(type_.inputs)
            self.entry = made.regions[0].blocks.append(*type_.inputs, arg_locs=locations)
            with ir.InsertionPoint(self.entry):
                self.end = ir.Operation.create("func.return")
            *arguments, self.grid_x, self.grid_y, first, last = self.entry.arguments
            old = list(entry.arguments)
            for before, after in zip(old[: len(inputs)], arguments, strict=True):
                if before.type != after.type:
                    with ir.InsertionPoint(self.end):
                        after = ir.Operation.create("arith.bitcast", [before.type], [after]).results[0]
                before.replace_all_uses_with(after)
            self._shared_memory(old[len(inputs) :])
            with ir.InsertionPoint(self.end):
                body, number = self._loop(first, last)
            with ir.InsertionPoint.at_block_terminator(body):
                self._block_ids(number)
                self._place([op.operation for op in entry.operations][:-1])
        self._connect()
        with self.function.location, ir.InsertionPoint(self.end):
            for array in self.arrays:
                ir.Operation.create("memref.dealloc", operands=[array])
        self._replace_ids(made)
        LowerBf16Integers().run_on(made)
        LowerF8Conversions().run_on(made)
        LowerFloatToInteger().run_on(made)
        host_divisions.replace_in(made)
        host_rounding.replace_in(made)
        host_functions.replace_in(made, self.host)
        host_printing.replace_in(made, self.host)
        LowerAtomics(scoped=False).run_on(made)
        for operation in list(walk(made)):
            if operation.name.startswith(_FOREIGN):
                raise ModuleError(
                    f"{operation.location}: {operation.name} has no form on a CPU; the interpreter runs it, by "
                    "check=True or lego-mlir run"
                )

    def _shared_memory(self, attributions: Sequence[Value]) -> None:
        count = "workgroup_attributions"
        shared = int(self.function.attributes[count]) if count in self.function.attributes else 0
        if len(attributions) > shared:
            raise ModuleError(f"@{self.facts.name} declares private memory, which has no form on a CPU yet")
        for attribution in attributions:
            tile = self._array(list(attribution.type.shape), attribution.type.element_type)
            attribution.replace_all_uses_with(tile)
        self._dynamic_memory()

    def _dynamic_memory(self) -> None:
        """One array of bytes for the block's dynamic memory, and the same views of it."""
        blocks = [op for op in walk(self.function) if op.name == DYNAMIC]
        if not blocks:
            return
        memory = self._array([self.facts.dynamic_shared], self.ir.IntegerType.get_signless(8))
        for view in [op for op in walk(self.function) if op.name == "memref.view"]:
            type_ = view.results[0].type
            if producer(view.operands[0]) not in blocks:
                continue
            offset = int(self.ir.IntegerAttr(producer(view.operands[1]).attributes["value"]).value)
            plain = self.ir.MemRefType.get(list(type_.shape), type_.element_type)
            start = self._constant(offset)
            with self.ir.InsertionPoint(self.end), view.location:
                made = self.ir.Operation.create("memref.view", [plain], [memory, start]).results[0]
            view.results[0].replace_all_uses_with(made)
            view.erase()
        for block in blocks:
            if list(block.results[0].uses):
                raise ModuleError(
                    f"{block.location}: dynamic shared memory without constant views has no form on a CPU"
                )
            block.erase()

    def _block_ids(self, number: Value) -> None:
        row = self._value("arith.divui", number, self.grid_x)
        self.block = {
            "x": self._value("arith.remui", number, self.grid_x),
            "y": self._value("arith.remui", row, self.grid_y),
            "z": self._value("arith.divui", row, self.grid_y),
        }

    # -- building blocks

    def _value(self, name: str, *operands: Value) -> Value:
        return self.ir.Operation.create(name, [operands[0].type], operands).results[0]

    def _constant(self, number: int) -> Value:
        """A constant at the head of the function, made once."""
        if number not in self.constants:
            index = self.ir.IndexType.get()
            with self.ir.InsertionPoint.at_block_begin(self.entry), self.function.location:
                self.constants[number] = self.ir.Operation.create(
                    "arith.constant", [index], attributes={"value": self.ir.IntegerAttr.get(index, number)}
                ).results[0]
        return self.constants[number]

    def _array(self, shape: list[int], element: Type) -> Value:
        """Memory that lives as long as the call."""
        segments = {"operandSegmentSizes": self.ir.DenseI32ArrayAttr.get([0, 0])}
        with self.function.location:
            type_ = self.ir.MemRefType.get(shape, element)
            with self.ir.InsertionPoint.at_block_begin(self.entry):
                self.arrays.append(self.ir.Operation.create("memref.alloc", [type_], attributes=segments).results[0])
        return self.arrays[-1]

    def _loop(self, low: Value, high: Value, step: Value | None = None) -> tuple[Block, Value]:
        """A loop at the insertion point: its body, and its variable."""
        step = self._constant(1) if step is None else step
        loop = self.ir.Operation.create("scf.for", operands=[low, high, step], regions=1)
        body = loop.regions[0].blocks.append(low.type, arg_locs=[loop.location])
        with self.ir.InsertionPoint(body):
            self.ir.Operation.create("scf.yield")
        return body, body.arguments[0]

    def _new_run(self) -> Run:
        """An empty loop over the threads at the insertion point."""
        ids: dict[str, Any] = {}
        with _nested(self.ir) as enter:
            assert self.facts.block is not None
            for axis in reversed(range(len(self.facts.block))):
                body, ids[_AXES[axis]] = self._loop(self._constant(0), self._constant(self.facts.block[axis]))
                enter(body)
            number = ids[_AXES[len(self.facts.block) - 1]]
            for axis in reversed(range(len(self.facts.block) - 1)):
                row = self._value("arith.muli", number, self._constant(self.facts.block[axis]))
                number = self._value("arith.addi", row, ids[_AXES[axis]])
            first = self.ir.Operation.create("scf.execute_region", regions=1)  # a mark; erased when all is placed
            first.regions[0].blocks.append()
        self.runs.append(Run(body, ids, number, first))
        return self.runs[-1]

    # -- runs, and what remains outside of them

    def _place(self, operations: Sequence[Op]) -> None:
        """Place operations at the insertion point: runs, and between them barriers, loops and branches around one."""
        together: list[Any] = []
        for operation in operations:
            if not _waits(operation):
                together.append(operation)
                continue
            self._place_run(together)
            together = []
            match operation.name:
                case "gpu.barrier":
                    operation.erase()
                case "scf.for":
                    self._place_loop(operation)
                case "scf.if":
                    self._place_branch(operation)
                case "scf.while":
                    self._place_while(operation)
                case _:
                    raise ModuleError(f"{operation.location}: a barrier inside {operation.name} has no form on a CPU")
        self._place_run(together)

    def _place_run(self, operations: Sequence[Op]) -> None:
        if operations:
            run_ = self._new_run()
            for operation in operations:
                operation.move_before(run_.body.operations[len(list(run_.body.operations)) - 1])

    def _keep(self, marks: Sequence[Value], values: Sequence[Value]) -> None:
        """A run that stores these values in the arrays of the marks."""
        if values:
            run_ = self._new_run()
            with self.ir.InsertionPoint.at_block_terminator(run_.body):
                for mark, value in zip(marks, values, strict=True):
                    self.ir.Operation.create("memref.store", operands=[value, self.slots[mark], run_.number])

    def _marks(self, values: Sequence[Value]) -> list[Value]:
        """A mark for each value that a loop or branch carries out, and its array."""
        marks = []
        for value in values:
            with self.ir.InsertionPoint.at_block_begin(self.entry), self.function.location:
                marks.append(self.ir.Operation.create("ub.poison", [value.type], attributes={}).results[0])
            self.slots[marks[-1]] = self._array([self.threads], value.type)
        self.marks += marks
        return marks

    def _place_loop(self, loop: Op) -> None:
        low, high, step, *initial = loop.operands
        old = loop.regions[0].blocks[0]
        marks = self._marks(loop.results)
        self._keep(marks, initial)
        body, variable = self._loop(*(self._uniform(bound, loop) for bound in (low, high, step)))
        for before, after in zip(old.arguments, (variable, *marks), strict=True):
            before.replace_all_uses_with(after)
        for before, after in zip(loop.results, marks, strict=True):
            before.replace_all_uses_with(after)
        with self.ir.InsertionPoint.at_block_terminator(body):
            self._place_region(old, marks)
        loop.erase()

    def _place_branch(self, branch: Op) -> None:
        condition = self._uniform(branch.operands[0], branch)
        marks = self._marks(branch.results)
        for before, after in zip(branch.results, marks, strict=True):
            before.replace_all_uses_with(after)
        made = self.ir.Operation.create("scf.if", operands=[condition], regions=2)
        for region, old in zip(made.regions, branch.regions, strict=True):
            if len(list(old.blocks)):
                block = region.blocks.append()
                with self.ir.InsertionPoint(block):
                    self.ir.Operation.create("scf.yield")
                with self.ir.InsertionPoint.at_block_terminator(block):
                    self._place_region(old.blocks[0], marks)
        branch.erase()

    def _place_while(self, loop: Op) -> None:
        """The first thread's condition decides: without a deadlock on a GPU it is that of all."""
        before, after = (region.blocks[0] for region in loop.regions)
        carried, marks = self._marks(before.arguments), self._marks(loop.results)
        self._keep(carried, list(loop.operands))
        for old, new in zip(
            (*before.arguments, *after.arguments, *loop.results), (*carried, *marks, *marks), strict=True
        ):
            old.replace_all_uses_with(new)
        made = self.ir.Operation.create("scf.while", regions=2)
        first, body = (region.blocks.append() for region in made.regions)
        with self.ir.InsertionPoint(first):
            (again,) = self._place_region(before, marks)
            if again not in self.slots:
                self._store_where_computed(again)
            self.ir.Operation.create("scf.condition", operands=[self._of_first_thread(again)])
        with self.ir.InsertionPoint(body):
            self.ir.Operation.create("scf.yield")
        with self.ir.InsertionPoint.at_block_terminator(body):
            self._place_region(after, carried)
        loop.erase()

    def _place_region(self, old: Block, marks: Sequence[Value]) -> list[Value]:
        """Place a region and keep what it yields; what its terminator takes before that."""
        *operations, terminator = [op.operation for op in old.operations]
        self._place(operations)
        yielded = list(terminator.operands)  # after placing: results of loops and branches inside became marks
        others = len(yielded) - len(marks)
        kept = [(mark, value) for mark, value in zip(marks, yielded[others:], strict=True) if mark != value]
        # a swap of two carried values: all are read before one is written, since loads go to the head of a run
        self._keep([mark for mark, _ in kept], [value for _, value in kept])
        terminator.erase()
        return yielded[:others]

    def _uniform(self, value: Value, around: Op) -> Value:
        """A value that all threads of a block have in common, at the insertion point, outside of the runs."""
        source = producer(value)
        if source is None or self._is_outside(source):
            if value in self.slots:
                raise ModuleError(f"{around.location}: a barrier under a {around.name} whose bounds threads compute")
            return value
        if source.name == "memref.load":
            return self._loaded_alike(value, source, around)
        if source.name == "gpu.thread_id" or not (is_pure(source) or source.name in _LAUNCH):
            raise ModuleError(
                f"{around.location}: a barrier inside {around.name} that not all threads of the block need take alike: "
                f"it depends on {source.name}"
            )
        operands = [self._uniform(operand, around) for operand in source.operands]
        copy = clone(source, dict(zip(source.operands, operands, strict=True)))
        return copy.results[list(source.results).index(value)]

    def _loaded_alike(self, value: Value, load: Op, around: Op) -> Value:
        """What all threads load from one place: without a race that is one value, which the first thread keeps."""
        for operand in load.operands[1:]:
            self._uniform(operand, around)
        self._store_where_computed(value)
        return self._of_first_thread(value)

    def _store_where_computed(self, value: Value) -> None:
        source = producer(value)
        self._store_after(source, value, next(r for r in self.runs if ancestor_in(source, r.body) is not None))

    def _of_first_thread(self, value: Value) -> Value:
        return self.ir.Operation.create("memref.load", [value.type], [self.slots[value], self._constant(0)]).results[0]

    def _store_after(self, source: Op, value: Value, home: Run) -> None:
        """Store a value in an array, an element a thread, where the run computes it; once."""
        if value not in self.slots:
            self.slots[value] = self._array([self.threads], value.type)
            with _after(self.ir, source), source.location:
                self.ir.Operation.create("memref.store", operands=[value, self.slots[value], home.number])

    def _is_outside(self, operation: Op) -> bool:
        return not any(ancestor_in(operation, run_.body) is not None for run_ in self.runs)

    # -- values that pass from run to run

    def _connect(self) -> None:
        """Give every run its own loads, or copies, of what other runs computed."""
        homes = {value: run_ for run_ in self.runs for op in operations(run_.body) for value in op.results}
        for run_ in self.runs:
            for operation in operations(run_.body):
                for inner in (operation, *walk(operation)):
                    for number, operand in enumerate(inner.operands):
                        found = self._here(operand, run_, homes)
                        if found is not operand:
                            inner.operands[number] = found
        for run_ in self.runs:
            run_.first.erase()
        for mark in self.marks:
            mark.owner.operation.erase()

    def _here(self, value: Value, run_: Run, homes: dict[Value, Run]) -> Value:
        """A value inside a run."""
        if value in self.origins and homes[value] is not run_:
            value = self.origins[value]
        if value in self.slots and value in self.marks:
            return self._loaded(value, run_, homes)
        if homes.get(value, run_) is run_ or value in run_.again:
            return run_.again.get(value, value)
        source = producer(value)
        if self._is_repeatable(source, homes):
            operands = [self._here(operand, run_, homes) for operand in source.operands]
            with self.ir.InsertionPoint(run_.first), source.location:
                copy = clone(source, dict(zip(source.operands, operands, strict=True)))
            for old, new in zip(source.results, copy.results, strict=True):
                run_.again[old], self.origins[new], homes[new] = new, old, run_
            return run_.again[value]
        if isinstance(value.type, self.ir.MemRefType):
            raise ModuleError(f"{source.location}: {source.name} is used after a barrier and has no form on a CPU")
        self._store_after(source, value, homes[value])
        return self._loaded(value, run_, homes)

    def _loaded(self, value: Value, run_: Run, homes: dict[Value, Run]) -> Value:
        if value not in run_.again:
            with self.ir.InsertionPoint(run_.first), run_.first.location:
                run_.again[value] = self.ir.Operation.create(
                    "memref.load", [value.type], [self.slots[value], run_.number]
                ).results[0]
            self.origins[run_.again[value]], homes[run_.again[value]] = value, run_
        return run_.again[value]

    def _is_repeatable(self, source: Op, homes: dict[Value, Run]) -> bool:
        """Whether an operation takes only ids and constants, or makes a view, which no array can hold."""
        if source.name in _AGAIN:
            return True
        if not is_pure(source):
            return False
        originals = [self.origins.get(operand, operand) for operand in source.operands]
        return all(
            operand not in self.slots and (operand not in homes or self._is_repeatable(producer(operand), homes))
            for operand in originals
        )

    def _replace_ids(self, made: Op) -> None:
        for operation in [op for op in walk(made) if op.name in _LAUNCH]:
            axis = str(operation.attributes["dimension"]).removeprefix("#gpu<dim ").removesuffix(">")
            operation.results[0].replace_all_uses_with(self._id(operation, axis))
            operation.erase()

    def _id(self, operation: Op, axis: str) -> Value:
        assert self.facts.block is not None
        match operation.name:
            case "gpu.block_id":
                return self.block[axis]
            case "gpu.block_dim":
                return self._constant(self.facts.block[_AXES.index(axis)])
            case "gpu.thread_id":
                inside = next(run_ for run_ in self.runs if ancestor_in(operation, run_.body) is not None)
                return inside.ids[axis]
            case _ if axis in "xy":
                return self.grid_x if axis == "x" else self.grid_y
        raise ModuleError(f"{operation.location}: the grid's extent along z is not known on a CPU")


def _is_narrow_float(type_: Type) -> bool:
    return str(type_) in ("f16", "bf16", "f8E4M3FN", "f8E5M2")


def _waits(operation: Op) -> bool:
    return operation.name == BARRIER or any(inner.name == BARRIER for inner in walk(operation))


def _after(ir: Any, operation: Op) -> Any:
    following = operations(operation.block)
    return ir.InsertionPoint(following[following.index(operation) + 1])


@contextmanager
def _nested(ir: Any) -> Iterator[Callable[[Block], object]]:
    """Insertion points that go into block after block, all left at the end."""
    with ExitStack() as stack:
        yield lambda block: stack.enter_context(ir.InsertionPoint.at_block_terminator(block))


def _refuse_roles(function: Op) -> None:
    """Raise ModuleError for a kernel whose warps wait for each other: a loop over threads runs one after the other."""
    for operation in walk(function):
        if operation.name == CLUSTER_WAIT or OF_BLOCK in operation.attributes:
            raise ModuleError(
                f"{place(str(operation.location), '-')}: the blocks of a cluster run together, and a CPU runs them one "
                "after the other"
            )
        if ROLE in operation.attributes or RING in operation.attributes:
            raise ModuleError(
                f"{place(str(operation.location), '-')}: warp roles and barriers in memory have no form on a CPU, "
                "whose threads run one after the other"
            )
