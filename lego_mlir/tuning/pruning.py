"""Prune a space before anything is compiled; each configuration that goes leaves with its stage and its reason.

    condition      a condition of the space that reads sizes
    layout         a layout is refuted, or does not fit
    build          the builder or the tracer refuses it
    launch         grid or block that no GPU launches
    shared memory, registers    more than a block or a thread of the target has
    sectors, wavefronts, DRAM, instructions, latency, waves    too slow by the model; the stage is what limits it
    same code      another configuration builds the same code
    rank           the model ranks more than `keep` before it

What the counts of a launch say becomes a time by the one model (`model`); a configuration is pruned by it only if it is
predicted to take `SLOW` times as long as the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import LayoutError, LegoError, ToolchainError, UsageError, brief
from lego_mlir.hardware.limits import REGISTERS_PER_SM, refusal
from lego_mlir.hardware.targets import target_named
from lego_mlir.tuning.building import TunedTemplate, kernel_of, text_of
from lego_mlir.tuning.candidates import Candidate, Configuration, PredictedTime, Pruned
from lego_mlir.tuning.launch_counts import LaunchCounts, TimedProduct, counts_of, with_interpreted
from lego_mlir.tuning.model import DeviceModel, predict

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import TracedKernelCalls
    from lego_mlir.tracing.definition.kernel import Kernel

SLOW: Final = 1.6
"""Configurations predicted to be slower than the best by this factor are not measured; see docs/how-to/tuning.md."""
REGISTERS_PER_THREAD: Final = 255
"""CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""
INTERPRETED_ELEMENTS: Final = 1 << 24
"""Elements of all tensors up to which the interpreter runs sampled blocks on real input."""
TAIL: Final = 0.3
"""A launch that is slow and idle for this part of its time is pruned for its waves."""
Counting = Callable[[Mapping[str, object], Mapping[str, int]], LaunchCounts | Sequence[LaunchCounts]]
"""Counts of what has no trace, a template: from the values and sizes to one launch or several."""


@dataclass(frozen=True, slots=True)
class PrunedSpace:
    """What is left, best predicted first, and what is not, in the space's order."""

    kept: tuple[Candidate, ...]
    pruned: tuple[Pruned, ...]

    def require_some(self, name: str) -> None:
        """Raise UsageError with the commonest reason if nothing is left."""
        if self.kept:
            return
        stages = Counter(pruned.stage for pruned in self.pruned)
        if not stages:
            raise UsageError(f"{name}: the conditions exclude every configuration of the space; relax one of them")
        stage, count = stages.most_common(1)[0]
        example = next(pruned for pruned in self.pruned if pruned.stage == stage)
        raise UsageError(
            f"{name}: all {len(self.pruned)} configurations are pruned, {count} of them at stage '{stage}', such as "
            f"{example.configuration}: {example.reason}"
        )


@dataclass(frozen=True, slots=True)
class _Counted:
    """A candidate with its counts and time."""

    candidate: Candidate
    counts: tuple[LaunchCounts, ...]

    @property
    def predicted(self) -> PredictedTime | None:
        return self.candidate.predicted


def prune(
    candidates: Iterable[Candidate],
    sizes: Mapping[str, int],
    device: DeviceModel,
    *,
    keep: int | float | None = None,
    counting: Counting | None = None,
    excluded: Callable[[Configuration], str] = lambda configuration: "",
) -> PrunedSpace:
    """The candidates that are worth measuring, ranked, and the reason for each of the others.

    `keep` is an int, the most candidates left, or a float that replaces SLOW: the largest ratio to the best prediction.
    """
    pruned: dict[Configuration, Pruned] = {}
    counted: list[_Counted] = []
    order: list[Configuration] = []
    for candidate in candidates:
        order.append(candidate.configuration)
        found = _examined(candidate, sizes, device, counting, excluded)
        if isinstance(found, Pruned):
            pruned[found.configuration] = found
        else:
            counted.append(found)
    factor, most = (keep, None) if isinstance(keep, float) else (SLOW, keep)
    kept: list[_Counted] = []
    for entry in _ranked(counted):
        reason = (
            _too_slow(entry, counted, factor) or _same_code(entry, kept) or _beyond(entry, len(kept), most, counted)
        )
        if reason is None:
            kept.append(entry)
        else:
            pruned[reason.configuration] = reason
    return PrunedSpace(tuple(e.candidate for e in kept), tuple(pruned[c] for c in order if c in pruned))


def predicted_of(
    candidate: Candidate, sizes: Mapping[str, int], device: DeviceModel, counting: Counting | None = None
) -> PredictedTime | None:
    """The predicted time of one candidate; None if it cannot run on the device or has no counts."""
    found = _examined(candidate, sizes, device, counting, lambda configuration: "")
    return None if isinstance(found, Pruned) else found.predicted


def _examined(
    candidate: Candidate,
    sizes: Mapping[str, int],
    device: DeviceModel,
    counting: Counting | None,
    excluded: Callable[[Configuration], str],
) -> _Counted | Pruned:
    """A candidate with its counts, or why it cannot run on this device."""
    configuration = candidate.configuration
    if reason := excluded(configuration):
        return Pruned(configuration, "condition", reason)
    try:
        counts = _counts(candidate, sizes, counting, device.target)
    except LegoError as error:
        return Pruned(configuration, _stage_of(error), _reason_of(error))
    for one in counts:
        if refused := _refused(one, device):
            return Pruned(configuration, *refused)
    if not counts:
        return _Counted(candidate, counts)
    times = [predict(one, device) for one in counts]
    predicted = replace(candidate, predicted=_sum(times))
    predicted.__dict__.update({n: v for n, v in candidate.__dict__.items() if n in ("built", "digest")})
    return _Counted(predicted, counts)


_REFUSALS: Final = {
    "a block has at most": "launch", "a launch takes": "launch", "shared memory": "shared memory",
    "the shared tiles": "shared memory",
}  # fmt: skip
"""Phrases of refusals by the tracer, and their stages."""


def _stage_of(error: LegoError) -> str:
    """The stage of an error while a candidate is built."""
    stage = next((stage for phrase, stage in _REFUSALS.items() if phrase in str(error)), None)
    return stage or ("layout" if isinstance(error, LayoutError) else "build")


def _reason_of(error: LegoError) -> str:
    """The error in one line: of a stage that failed, the first line of its output."""
    text = error.rerun.output if isinstance(error, ToolchainError) else str(error)
    lines = [line for line in text.splitlines() if line.strip()] or [str(error)]
    return brief(lines[0].strip(), 300)


def _counts(
    candidate: Candidate, sizes: Mapping[str, int], counting: Counting | None, target: str
) -> tuple[LaunchCounts, ...]:
    """The counts of each launch; none for a kind that has neither a trace nor a `counting` function."""
    from lego_mlir.tracing.definition.program import KernelProgram
    from lego_mlir.tuning.template_launches import TemplateLaunch

    built = candidate.built
    if counting is not None:
        given = counting(candidate.configuration, sizes)
        return (given,) if isinstance(given, LaunchCounts) else tuple(given)
    if isinstance(built, KernelProgram):
        return tuple(_kernel_counts(step.kernel, step.size_values(sizes)) for step in built.steps)
    kernel = kernel_of(built)
    if kernel is not None:
        return (_staged(_kernel_counts(kernel, sizes), built, target),)  # type: ignore[arg-type]
    if not isinstance(built, TunedTemplate | TemplateLaunch):
        text_of(built)
    return ()


def _kernel_counts(kernel: Kernel, sizes: Mapping[str, int]) -> LaunchCounts:
    """The counts of a kernel; by the interpreter where its addresses depend on data and its tensors are small."""
    counts = counts_of(kernel, sizes)
    if any("data" in note or "while" in note for note in counts.notes) and counts.touched < INTERPRETED_ELEMENTS:
        return with_interpreted(counts, kernel, sizes)
    return counts


def _staged(counts: LaunchCounts, built: object, target: str) -> LaunchCounts:
    """The counts of a kernel after its transform script: shared memory of the transformed module, loads in flight."""
    from lego_mlir.runtime.calls import TracedKernelCalls

    if not isinstance(built, TracedKernelCalls) or built.script is None:
        return counts
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    made = compile_kernel(
        built.kernel, emit="transformed", transform=built.script, parameters=built.parameters,
        target=target, cache=Cache(default_folder()),
    )  # fmt: skip
    (facts,) = made.kernels
    stages = int((built.parameters or {}).get("stages", 1))
    shared = facts.static_shared + facts.dynamic_shared
    product = timed_product(built, shared)
    return replace(counts, shared_bytes=shared, rounds=counts.rounds / max(stages - 1, 1), product=product)


def timed_product(built: TracedKernelCalls, shared: int) -> TimedProduct | None:
    """A pipelined product of `kernels.matmul` as its time model takes it; None for any other kernel."""
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.choices.product_device import REFERENCE_DEVICE
    from lego_mlir.choices.product_time import FAMILIES
    from lego_mlir.kernels.built_products import BUILT

    made, family = BUILT.get(built.kernel), FAMILIES.get(Path(str(built.script)).name)
    if made is None or family is None:
        return None
    given = {name: int(value) for name, value in (built.parameters or {}).items()}
    blocks = made.blocks or given.get("blocks", 0)
    persistent = made.blocks is not None or family == "warpgroups"
    resident = max(round(blocks / REFERENCE_DEVICE.sms), given.get("resident", 1))
    transposed, cluster = given.get("transposed", 0) > 0, (given.get("cluster", 1), 1)
    tile = replace(
        made.tiling, family=family, stages=given.get("stages", 1), resident=resident if persistent else 0,
        cluster=cluster, lockstep=given.get("lockstep", 0), dependent=given.get("dependent", 0) > 0,
        transposed=transposed,
    )  # fmt: skip
    return TimedProduct(ProductSize(made.m, made.n, made.k, made.layouts), tile, shared)


def _refused(counts: LaunchCounts, device: DeviceModel) -> tuple[str, str] | None:
    """The stage and the reason if no launch of these counts is possible."""
    target = target_named(device.target)
    if counts.blocks < 1 or (reason := refusal("block", (counts.threads,))):
        return "launch", reason if counts.blocks else "the grid has no block"
    if counts.shared_bytes > target.shared_per_block:
        return "shared memory", (
            f"a block takes {counts.shared_bytes} bytes of shared memory, and {target.name} has "
            f"{target.shared_per_block}"
        )
    if counts.held > REGISTERS_PER_THREAD:
        return "registers", f"loops carry {counts.held} registers of a thread, and it has {REGISTERS_PER_THREAD}"
    if counts.held * counts.threads > REGISTERS_PER_SM:
        return "registers", (
            f"loops carry {counts.held} registers of each of {counts.threads} threads, "
            f"{counts.held * counts.threads} of a block's {REGISTERS_PER_SM}"
        )
    return None


def _sum(times: Sequence[PredictedTime]) -> PredictedTime:
    """The time of several launches, one after the other; waves are those of the longest."""
    longest = max(times, key=lambda time: time.microseconds)
    total = {
        name: sum(getattr(time, name) for time in times)
        for name in ("microseconds", "dram", "l2", "shared", "instructions", "tail")
    }
    return PredictedTime(**total, waves=longest.waves)


def _ranked(counted: Sequence[_Counted]) -> list[_Counted]:
    """Best predicted first; those without a prediction keep their order, at the end."""
    return sorted(counted, key=lambda e: e.predicted.microseconds if e.predicted else float("inf"))


def _too_slow(entry: _Counted, counted: Sequence[_Counted], factor: float) -> Pruned | None:
    """Pruned by the model: the stage is what limits it, and the reason compares with the best."""
    best = _ranked(counted)[0]
    if entry.predicted is None or best.predicted is None:
        return None
    time, least = entry.predicted, best.predicted
    if time.microseconds <= factor * least.microseconds:
        return None
    text = (
        f"predicted {time.microseconds:.3g} us, {time.microseconds / least.microseconds:.1f} times the best "
        f"({least.microseconds:.3g} us)"
    )
    stage, why = _limit(entry, best)
    return Pruned(entry.candidate.configuration, stage, f"{text}: {why}")


def _limit(entry: _Counted, best: _Counted) -> tuple[str, str]:
    """The stage of a slow candidate, and its count against that of the best."""
    assert entry.predicted is not None
    time = entry.predicted

    def both(name: str) -> str:
        here, there = (sum(getattr(c, name) * c.blocks * c.launches for c in e.counts) for e in (entry, best))
        return f"{here:.4g}, and {there:.4g} in the best"

    if time.tail > TAIL * time.microseconds:
        return "waves", f"{time.waves:.2f} waves of blocks, SMs idle for {time.tail:.3g} us"
    match time.limit:
        case "L2":
            return "sectors", f"sectors of global memory {both('sectors')}"
        case "shared memory":
            return "wavefronts", f"wavefronts of shared memory {both('wavefronts')}"
        case "latency":
            rounds = (max((c.rounds for c in e.counts), default=0.0) for e in (entry, best))
            return "latency", "rounds of loads that wait for each other {:.3g}, and {:.3g} in the best".format(*rounds)
        case "DRAM":
            return "DRAM", f"{sum(c.touched for c in entry.counts):.4g} bytes of memory"
    return "instructions", f"instructions of warps {both('instructions')}"


def _same_code(entry: _Counted, kept: Sequence[_Counted]) -> Pruned | None:
    """Pruned because a candidate that is kept, with the same prediction, builds the same code."""
    alike = [other for other in kept if other.counts == entry.counts and other.predicted == entry.predicted]
    for other in alike:
        if other.candidate.digest == entry.candidate.digest:
            why = f"builds the same code as {other.candidate.configuration}"
            return Pruned(entry.candidate.configuration, "same code", why)
    return None


def _beyond(entry: _Counted, number: int, most: int | None, counted: Sequence[_Counted]) -> Pruned | None:
    """Pruned because `keep` are ranked before it."""
    if most is None or number < most:
        return None
    time = f", {entry.predicted.microseconds:.3g} us" if entry.predicted else ""
    return Pruned(
        entry.candidate.configuration, "rank", f"ranked {number + 1} of {len(counted)} by the model{time}; keep={most}"
    )
