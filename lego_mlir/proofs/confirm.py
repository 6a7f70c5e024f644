"""Counter-examples from runs: a claim that is not proved is refuted by a launch that the interpreter reports.

The kernel runs on small launches, with sizes that tiles do not divide and with some that they do, on the input of the
spec or random input. What the interpreter reports is a fault of the kernel beyond doubt: it names the sizes, both
threads and both lines, and the rounds of their loops. A fault that no run shows leaves the claim unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Array
from lego_mlir.errors import LegoError
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.interp.report import Fault, Kind, LoopRound, Report

if TYPE_CHECKING:
    from lego_mlir.interp.element_history import RunWatch, WatchedAccess
    from lego_mlir.proofs.covering import WriteClaim
    from lego_mlir.tracing.definition.kernel import Kernel

TRIED: Final = (None, 33, 64, 7, 1300, 20000)
"""Sizes of the runs; None is for those that `run` chooses. At the large ones, persistent blocks repeat their loop."""
MOST_ELEMENTS: Final = 1 << 22
"""Elements of a kernel's tensors beyond which it does not run."""
MOST_LANES: Final = 1 << 13
"""Threads of a run; of a larger grid, the first and the last blocks run."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A run of a kernel at these sizes; `again` repeats it under a watch."""

    sizes: Mapping[str, int]
    report: Report
    whole: bool
    again: Callable[[RunWatch], object]


@dataclass(slots=True)
class Runs:
    """The runs of one kernel, each made when it is needed; none without a kernel."""

    kernel: Kernel | None
    _made: list[Launch] = field(default_factory=list)
    _pending: Iterator[Launch] | None = None

    def launches(self) -> Iterator[Launch]:
        """The runs, the first ones again if they have been made."""
        if self._pending is None:
            self._pending = self._new()
        number = 0
        while True:
            if number == len(self._made):
                following = next(self._pending, None)
                if following is None:
                    return
                self._made.append(following)
            yield self._made[number]
            number += 1

    def _new(self) -> Iterator[Launch]:
        seen: set[tuple[tuple[str, int], ...]] = set()
        for value in TRIED if self.kernel is not None else ():
            assert self.kernel is not None
            sizes = chosen_sizes(self.kernel, value)
            if sizes is None or tuple(sizes.items()) in seen:
                continue
            seen.add(tuple(sizes.items()))
            launch = launched(self.kernel, sizes)
            if launch is not None:
                yield launch

    def tried(self, verdict: Verdict, matches: Callable[[Fault], bool]) -> Verdict:
        """The verdict on a claim: if it is not proved, refuted by the first fault of a run that matches."""
        if isinstance(verdict, Proved):
            return verdict
        for launch in self.launches():
            for fault in launch.report.faults:
                if matches(fault):
                    return _of_fault(launch, fault)
        return verdict

    def tried_writes(self, claim: WriteClaim) -> Verdict:
        """The verdict on the writes of a tensor: refuted by elements that a run leaves out, or writes twice."""
        if isinstance(claim.verdict, Unknown) and claim.by_data:
            remedy = (
                "if no two elements of the tensor that an index is loaded from are equal, state it with "
                "lego.assume_distinct"
                if claim.once
                else f"pass {claim.buffer.name} in the call, whose other elements stay as they are"
            )
            return Unknown(f"{claim.verdict.reason}: they depend on the contents of memory; {remedy}")
        if isinstance(claim.verdict, Proved):
            return claim.verdict
        for launch in self.launches():
            found = self._writes_refuted(launch, claim) if launch.whole else None
            if found is not None:
                return found
        return claim.verdict

    def _writes_refuted(self, launch: Launch, claim: WriteClaim) -> Refuted | None:
        from lego_mlir.runtime import data

        assert self.kernel is not None
        name = claim.buffer.name
        number = next(k for k, parameter in enumerate(self.kernel.params) if parameter.name == name)
        written, example = launch.report.written(number), dict(launch.sizes)
        if written is None:
            return None
        sizes = ", ".join(f"{size} = {n}" for size, n in launch.sizes.items())
        start = f"for {sizes}, " if sizes else ""
        elements = data.elements_of(claim.buffer.layout, launch.sizes)
        if claim.once:
            return written_twice(
                launch, claim, int(written.sum()), lambda at: elements.index(_first(elements.at == at))
            )
        left = [k for k, at in enumerate(elements.at) if not written[at]]
        if not left:
            return None
        index = list(elements.index(left[0]))
        return Refuted(
            {**example, "element": str(index)}, f"{start}{len(left)} elements are not written, {name}{index} the first"
        )


def _first(holds: Array) -> int:
    return int(holds.reshape(-1).argmax())


def written_twice(
    launch: Launch, claim: WriteClaim, elements: int, index: Callable[[int], Sequence[int]]
) -> Refuted | None:
    """The first element that a run writes twice, from a second run if it has more writes than `elements`."""
    from lego_mlir.interp.element_history import WriterWatch

    name, example = claim.buffer.name, dict[str, object](launch.sizes)
    sites = [s for s in launch.report.sites if s.buffer == name and s.kind != "read"]
    if sum(s.lane_bytes for s in sites) // claim.buffer.dtype.bytes <= elements:
        return None
    watch = WriterWatch(name)
    launch.again(watch)
    if watch.twice is None:
        return None
    position, one, other = watch.twice
    for prefix, who in (("", other), ("other ", one)):
        example |= {f"{prefix}block": who.block, f"{prefix}thread": who.thread, f"{prefix}line": who.place.line}
    sizes = "".join(f"{size} = {n}, " for size, n in launch.sizes.items())
    text = f"{name}{[int(i) for i in index(position)]} is written by {one}, and by {other}"
    return Refuted({**example, "element": position}, f"for {sizes}{text}" if sizes else text)


def chosen_sizes(kernel: Kernel, value: int | None) -> dict[str, int] | None:
    """Sizes near a value that the kernel may have; None if it has none such."""
    from lego_mlir.runtime import data

    given = {}
    if value is not None:
        for size in kernel.sizes:
            near = -(-value // size.multiple_of) * size.multiple_of
            given[size.name] = max(size.least, near if size.max is None else min(near, size.max))
    related = [s.name for s in kernel.sizes if s.below is not None or s.equals is not None]
    try:
        return data.choose_sizes(kernel, {name: n for name, n in given.items() if name not in related})
    except LegoError:
        return None


def launched(
    kernel: Kernel, sizes: Mapping[str, int], seed: int = 0, watch: RunWatch | None = None, module: str | None = None
) -> Launch | None:
    """A run in the interpreter; None if the kernel does not run at these sizes. `module` replaces the emitted one."""
    from lego_mlir import interp
    from lego_mlir.runtime import data

    try:
        if sum(data.concrete(p.size, sizes) for p in kernel.params if p.layout is not None) > MOST_ELEMENTS:
            return None
        made = data.arguments(kernel, sizes, seed)
        memories = {
            p.name: made.logical[p.name] if p.layout is None else made.memory(p, data.elements_of(p.layout, made.sizes))
            for p in kernel.params
        }
        blocks = _blocks(kernel, made.sizes)
        report = interp.run_kernel(kernel, memories, made.sizes, blocks=blocks, watch=watch, module=module)
    except LegoError:
        return None
    if any(fault.kind is Kind.ASSERTION for fault in report.faults):
        return None  # the input breaks what the kernel claims of it
    return Launch(made.sizes, report, blocks is None, lambda watch: launched(kernel, sizes, seed, watch, module))


def _blocks(kernel: Kernel, sizes: Mapping[str, int]) -> list[int] | None:
    """The first and last blocks of a large grid; None for all."""
    from lego_mlir.runtime.data import concrete

    grid, threads = 1, 1
    for n in kernel.grid:
        grid *= concrete(n, sizes)
    for n in kernel.block:
        threads *= concrete(n, sizes)
    most = max(2, MOST_LANES // max(1, threads))
    if grid <= most:
        return None
    return [*range(most // 2), *range(grid - most // 2, grid)]


def _of_fault(launch: Launch, fault: Fault) -> Refuted:
    example: dict[str, object] = dict(launch.sizes)
    example |= {"block": fault.block, "thread": fault.thread}
    if fault.address is not None:
        example["element"] = fault.address
    values = ", ".join(f"{name} = {value}" for name, value in example.items())
    text = f"for {values}: {fault.message}, in {fault.place}"
    if fault.rounds:
        text += f", {_joined(fault.rounds)}"
    example |= {"line": fault.place.line, **_by_loop(fault.rounds)}
    other = _other_side(launch, fault)
    if other is not None:
        example |= {"other block": other.block, "other thread": other.thread, "other line": other.place.line}
        example |= {f"other {name}": number for name, number in _by_loop(other.rounds).items()}
        if other.rounds:
            text += f"; thread {other.thread} in {_joined(other.rounds)}"
        elif f"thread {other.thread}" not in fault.message:
            text += f"; one of them is thread {other.thread} of block {other.block}"
            text += "" if fault.other is not None else f" in {other.place}"
    return Refuted(example, text)


def _other_side(launch: Launch, fault: Fault) -> WatchedAccess | None:
    """Who touched the element before, and in which rounds, from a second run."""
    from lego_mlir.interp.element_history import ElementWatch

    reads = fault.kind is Kind.RACE and "read by several threads" in fault.message  # at several places
    if fault.address is None or (fault.other is None and not reads):
        return None
    watch = ElementWatch(fault)
    launch.again(watch)
    return watch.other()


def _joined(rounds: Sequence[LoopRound]) -> str:
    return ", ".join(map(str, rounds))


def _by_loop(rounds: Sequence[LoopRound]) -> dict[str, object]:
    return {f"round of line {r.loop.line}": r.number for r in rounds}


def is_race(buffer: str, across: bool) -> Callable[[Fault], bool]:
    """Whether a fault is a race for a buffer, between threads of one block or of two."""

    def matches(fault: Fault) -> bool:
        return fault.kind in (Kind.RACE, Kind.PENDING) and fault.buffer == buffer and fault.across_blocks == across

    return matches


def is_divergent(file: str, line: int) -> Callable[[Fault], bool]:
    """Whether a fault is a barrier of this line that not every thread reaches."""
    return lambda fault: fault.kind is Kind.BARRIER and (fault.place.file, fault.place.line) == (file, line)


def is_partial(file: str, line: int) -> Callable[[Fault], bool]:
    """Whether a fault is a shuffle, vote or operation on matrices that only some lanes of a warp reach."""
    return lambda fault: fault.kind is Kind.SHUFFLE and (fault.place.file, fault.place.line) == (file, line)


def is_unwritten(buffer: str) -> Callable[[Fault], bool]:
    """Whether a fault is a read of an element of this tile that nothing has written."""
    return lambda fault: fault.kind is Kind.UNINITIALISED and fault.buffer == buffer
