"""The claims about the kernels of a module: of another compiler, or of a spec after a transform script.

They are those about a traced kernel (`claims`), read from the operations (`module_reader`). What is not proved is
refuted by a run of the module itself in the interpreter, on random input or on that of the spec. A script that drops a
barrier, or reads a tile before its copies are complete, is refuted so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lego_mlir import interp
from lego_mlir.aliases import Array
from lego_mlir.errors import LegoError, UsageError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.interp.element_history import RunWatch
from lego_mlir.interp.program import CompiledFunction, Compiler
from lego_mlir.interp.report import Fault, Report
from lego_mlir.proofs.barriers import barrier_claims
from lego_mlir.proofs.confirm import (
    TRIED,
    Launch,
    chosen_sizes,
    is_divergent,
    is_race,
    is_unwritten,
    launched,
    written_twice,
)
from lego_mlir.proofs.covering import WriteClaim, write_claims
from lego_mlir.proofs.initialised import tile_claims
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.module_reader import ModuleKernel
from lego_mlir.proofs.races import race_claims
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.transforms import modules

Extents = Sequence[int] | None
Arguments = Callable[[CompiledFunction], Sequence[Array]]


def compiled(text: str, source: str) -> Compiler:
    """A module ready to be read and run; its linalg operations as loops."""
    with modules.session():
        module = modules.parse(text, source)
        if "linalg." in text:
            modules.run(module, "builtin.module(convert-linalg-to-loops)", source)
        return interp.compile_module(modules.to_text(module, locations=True), source=source)


def module_claims(
    compiler: Compiler, name: str, grid: Extents, block: Extents, arguments: Arguments
) -> Iterator[tuple[str, Verdict]]:
    """Each claim about a kernel of a module; `arguments` makes its input for a run.

    `grid` and `block` are for a module that does not fix them. Raises UsageError without a block size.
    """
    function = compiler.function(name)
    block = function.known_block or block
    grid = function.known_grid or grid
    if block is None:
        raise UsageError(f"@{name}: the module does not fix the block size; give --block X[,Y[,Z]]")
    names = [f"argument {i}" for i in range(len(function.argument_types))]
    kernel = ModuleKernel(compiler, name, _three(grid), _three(block) or (), names)

    def runs() -> Iterator[Launch]:
        def run(watch: RunWatch | None = None) -> Report:
            assert grid is not None
            return interp.launch(compiler, name, grid, block, arguments(function), watch=watch)

        if grid is not None:
            yield Launch({}, run(), True, run)

    yield from _claims(kernel, ModuleRuns(runs, names))


def transformed_claims(kernel: Kernel, text: str) -> Iterator[tuple[str, Verdict]]:
    """Each claim about a kernel of a spec after a transform script: `text` is the module that it left."""
    trace = kernel.trace()
    names = [parameter.name for parameter in kernel.params] + [size.name for size in kernel.sizes]
    read = ModuleKernel(
        compiled(text, kernel.source.file), kernel.name, _three([as_expr(n) for n in kernel.grid]),
        _three([as_expr(n) for n in kernel.block]) or (), names,
    )  # fmt: skip
    read.sizes |= {size.name: size for size in kernel.sizes}
    read.elements |= {p.name: as_expr(p.size) for p in kernel.params if p.layout is not None}
    read.required = trace.requirements
    padded = [p.name for p in kernel.params if p.layout is not None and as_expr(p.layout.numel()) != as_expr(p.size)]

    def runs() -> Iterator[Launch]:
        for value in TRIED:
            sizes = chosen_sizes(kernel, value)
            launch = None if sizes is None else launched(kernel, sizes, module=text)
            if launch is not None:
                yield launch

    for claim, verdict in _claims(read, ModuleRuns(runs, names)):
        if not any(claim == f"every element of {name} is written" for name in padded):
            yield claim, verdict


def _three(extents: Sequence[int] | None) -> Sequence[int] | None:
    return None if extents is None else (*extents, 1, 1, 1)[:3]


@dataclass(slots=True)
class ModuleRuns:
    """Runs of a module, made when they are needed; `names` are those of its arguments."""

    runs: Callable[[], Iterator[Launch]]
    names: Sequence[str]
    _made: list[Launch] | None = field(default=None)

    def made(self) -> list[Launch]:
        """The runs; none where the interpreter refuses the module."""
        if self._made is None:
            self._made = []
            try:
                for launch in self.runs():
                    self._made.append(launch)
            except LegoError:
                pass
        return self._made

    def tried(self, verdict: Verdict, matches: Callable[[Fault], bool]) -> Verdict:
        """The verdict on a claim: if it is not proved, refuted by the first fault of a run that matches."""
        if isinstance(verdict, Proved):
            return verdict
        for launch in self.made():
            for fault in launch.report.faults:
                if matches(fault):
                    return _of_fault(launch.sizes, fault)
        return verdict

    def tried_writes(self, claim: WriteClaim, verdict: Verdict) -> Verdict:
        """The verdict on the writes of a tensor: refuted by elements that a run leaves out, or writes twice."""
        if isinstance(verdict, Proved) or claim.by_data:
            return verdict
        for launch in self.made():
            written = launch.report.written(self.names.index(claim.buffer.name)) if launch.whole else None
            if written is None:
                continue
            if claim.once:
                found = written_twice(launch, claim, int(written.sum()), lambda at: [at])
                if found is not None:
                    return found
            elif not written.all():
                left = [k for k, done in enumerate(written) if not done]
                text = f"{len(left)} elements are not written, {claim.buffer.name}[{left[0]}] the first"
                return Refuted({**launch.sizes, "element": left[0]}, text)
        return verdict


def _of_fault(sizes: Mapping[str, int], fault: Fault) -> Refuted:
    example: dict[str, object] = {**sizes, "block": fault.block, "thread": fault.thread}
    if fault.address is not None:
        example["element"] = fault.address
    values = ", ".join(f"{name} = {value}" for name, value in example.items())
    return Refuted(example, f"for {values}: {fault.message}, in {fault.place}")


def _claims(kernel: ModuleKernel, runs: ModuleRuns) -> Iterator[tuple[str, Verdict]]:
    model = KernelModel(kernel.trace())

    def read(buffer: str, verdict: Verdict) -> Verdict:
        reason = kernel.opaque or kernel.unread.get(buffer)
        return verdict if reason is None else Unknown(reason)

    reached = True
    for barrier in barrier_claims(model):
        source = barrier.sync.source
        verdict = barrier.verdict if kernel.opaque is None else Unknown(kernel.opaque)
        reached = reached and isinstance(verdict, Proved)
        yield barrier.text, runs.tried(verdict, is_divergent(source.file, source.line))
    claimed = set()
    for race in race_claims(model):
        verdict = read(race.buffer.name, race.verdict)
        if isinstance(verdict, Proved) and not reached and not race.across:
            verdict = Unknown("not every thread is proved to reach the barriers that it relies on")
        if race.pair is None or not model.by_data(race.pair):
            verdict = runs.tried(verdict, is_race(race.buffer.name, race.across))
        claimed.add(race.buffer.name)
        yield race.text, verdict
    for buffer in kernel.unread.keys() - claimed:
        yield f"no race for {buffer}", runs.tried(read(buffer, Unknown("")), is_race(buffer, False))
    for tile in tile_claims(model):
        yield tile.text, runs.tried(read(tile.buffer.name, tile.verdict), is_unwritten(tile.buffer.name))
    for write in write_claims(model):
        yield write.text, runs.tried_writes(write, read(write.buffer.name, write.verdict))
