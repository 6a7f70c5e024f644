"""`@lego.tune`: a function from configurations to kernels becomes one kernel that is chosen for its sizes.

>>> import lego_mlir as lego
>>> from lego_mlir import Row, f32
>>> @lego.tune(space={"threads": [64, 128, 2048], "each": [1, 4]}, key=["N"])
... def scale(threads, each, N):
...     @lego.kernel(grid=lego.cdiv(N, threads * each), block=threads)
...     def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
...         for k in lego.unroll(each):
...             i = (lego.block_id.x * each + k) * threads + lego.thread_id.x
...             with lego.when(i < N):
...                 y[i] = 2 * x[i]
...     return kernel
>>> found = scale.prune({"N": 1 << 20})
>>> len(found.kept), found.pruned[0].stage, found.pruned[0].reason  # doctest: +ELLIPSIS
(4, 'launch', '...: block (2048,) has 2048 threads: a block has at most 1024 threads; ...')

`scale(x, y)` runs the configuration that is chosen for the sizes of these arrays (`config_lookup`): a measured one if
there is one, in this process or stored by an earlier one on this device, else the best by the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Given, Returned
from lego_mlir.errors import LegoError, SpecError, UsageError, brief, did_you_mean
from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import CPU, library_of
from lego_mlir.store import replace_file
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tuning.building import CandidateBuilder, builder_of, callable_of, kernel_of
from lego_mlir.tuning.candidates import Candidate, Configuration, SearchSpace, Timing
from lego_mlir.tuning.conditions import ConditionLike
from lego_mlir.tuning.config_lookup import Chosen, ChosenRow, best_rows, choices_from_text, choices_to_text, choose
from lego_mlir.tuning.model import DeviceModel, device_named
from lego_mlir.tuning.pruning import Counting, PrunedSpace, prune
from lego_mlir.tuning.stored import stored_here
from lego_mlir.tuning.time_budget import seconds_of

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import TracedKernelCalls
    from lego_mlir.tuning.workbench import Workbench

Objective = Callable[[Timing], float]
TIME: Final = "time"
DEVICE: Final = "h200"


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What `tune` found: the best timing, all timings of this size, and what was not measured."""

    best: Timing | None
    timings: tuple[Timing, ...]
    space: PrunedSpace


class Tunable:
    """A family of kernels with a choice for each size; made by `lego.tune`."""

    def __init__(
        self,
        builder: CandidateBuilder,
        space: SearchSpace,
        key: Sequence[str],
        keep: int | float | None,
        objective: str | Objective,
        device: DeviceModel,
        counting: Counting | None,
        stored: bool = True,
    ) -> None:
        self.builder, self.space, self.key = builder, space, tuple(key)
        self.name, self.keep, self.device, self.counting = builder.name, keep, device, counting
        self.objective: Objective = _objective(objective)
        self.reads_stored = stored
        self.timings: list[Timing] = []
        self.chosen_rows: list[ChosenRow] = []
        self._candidates: dict[tuple[int, ...], list[Candidate]] = {}
        self._built: dict[Configuration, object] = {}
        self._pruned: dict[tuple[int, ...], PrunedSpace] = {}
        self._choices: dict[tuple[int, tuple[int, ...]], Chosen] = {}
        self._stored: dict[int, list[Timing]] = {}
        self._callables: dict[tuple[Configuration, tuple[int, ...]], Callable[..., Returned]] = {}

    def __repr__(self) -> str:
        return f"<tunable {self.name}, {self.space.size} configurations, key {', '.join(self.key) or 'empty'}>"

    def candidates(self, sizes: Mapping[str, int] | None = None) -> list[Candidate]:
        """A candidate for each configuration that meets the conditions, in the space's order; nothing is built yet."""
        given = self._sizes(sizes or {})
        at = tuple(given.values())
        if at not in self._candidates:
            self._candidates[at] = [Candidate(c, partial(self._build, c, given)) for c in self.space]
        return self._candidates[at]

    def _build(self, configuration: Configuration, sizes: Mapping[str, int]) -> object:
        """What a configuration builds; where no size is a parameter, the same object for all sizes."""
        if self.builder.at_sizes:
            return self.builder.build(configuration, sizes)
        if configuration not in self._built:
            self._built[configuration] = self.builder.build(configuration, sizes)
        return self._built[configuration]

    def candidate(self, configuration: Configuration | str, sizes: Mapping[str, int] | None = None) -> Candidate:
        """The candidate of one configuration, or of its text. Raises UsageError for one outside the space."""
        found = self.space.find(configuration if isinstance(configuration, str) else configuration.key)
        return next(c for c in self.candidates(sizes) if c.configuration == found)

    def prune(self, sizes: Mapping[str, int] | None = None) -> PrunedSpace:
        """What is worth measuring at these sizes, best predicted first, and the reason for each of the others."""
        given = self._sizes(sizes or {})
        at = tuple(given.values())
        if at not in self._pruned:
            self._pruned[at] = prune(
                self.candidates(given), given, self.device, keep=self.keep, counting=self.counting,
                excluded=lambda configuration: self.space.excluded(configuration, given),
            )  # fmt: skip
        return self._pruned[at]

    def tune(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        budget: float | str | None = None,
        workbench: Workbench | None = None,
        known: Sequence[Timing] = (),
        on_timing: Callable[[Timing], None] = lambda timing: None,
    ) -> TuningResult:
        """Measure what pruning leaves, from the best predicted on, and remember it for these sizes.

        `budget` is in seconds, or text such as "10m". `workbench` is where to measure, by default this machine's GPU,
        or its CPU for structured programs. `known` are earlier timings, which are not taken again. Raises UsageError if
        everything is pruned, and DependencyError without a GPU that is needed.
        """
        from lego_mlir.tuning.sampling import LARGEST, halve_sampled
        from lego_mlir.tuning.workbench import halve

        given, seconds = self._sizes(sizes or {}), None if budget is None else seconds_of(budget)
        pruned = self.prune(given)
        pruned.require_some(self.name)
        if workbench is None:
            from lego_mlir.tuning.cpu_workbench import workbench_for

            workbench = workbench_for(pruned.kept[0])
        if len(pruned.kept) > LARGEST:
            timings = halve_sampled(
                workbench, self.name, self.space, pruned.kept, given, seconds=seconds, known=known, on_timing=on_timing
            )  # fmt: skip
        else:
            timings = halve(
                workbench, self.name, pruned.kept, given, seconds=seconds, known=known, on_timing=on_timing
            )  # fmt: skip
        self.remember(timings)
        good = [timing for timing in timings if not timing.failure]
        return TuningResult(min(good, key=self.objective, default=None), tuple(timings), pruned)

    def remember(self, timings: Sequence[Timing]) -> None:
        """Use these timings in later choices; those of other tunables are ignored."""
        self.timings += [timing for timing in timings if timing.tunable == self.name]
        self._choices.clear()

    def choose(self, sizes: Mapping[str, int] | None = None, *, device: int = 0) -> Chosen:
        """The configuration for these sizes and its basis: exported, measured, stored, scaled from those, or model.

        `device` is the GPU whose stored timings count.
        """
        given = self._sizes(sizes or {})
        at = device, tuple(given.values())
        if at not in self._choices:
            self._choices[at] = choose(self, given, self.stored(device))
        return self._choices[at]

    def stored(self, device: int = 0) -> list[Timing]:
        """The timings that earlier processes stored for this GPU, or for this CPU; read once."""
        if device not in self._stored:
            self._stored[device] = stored_here(self, device) if self.reads_stored else []
        return self._stored[device]

    def workbench(self, configuration: Configuration, sizes: Mapping[str, int], device: int = 0) -> Workbench:
        """Where candidates of this kind are measured. DependencyError without a GPU that is needed."""
        from lego_mlir.tuning.cpu_workbench import workbench_for

        return workbench_for(self.candidate(configuration, sizes), device)

    def __call__(self, *arrays: Given, **named: Given) -> Returned:
        """Run the chosen configuration on arrays; sizes of the key that the shapes do not give by name."""
        sizes = self._sizes_of_arrays(arrays, named)
        chosen = self.choose(sizes, device=_gpu_of([*arrays, *named.values()])).configuration
        at = chosen, tuple(sizes.values())
        if at not in self._callables:
            self._callables[at] = callable_of(self.candidate(chosen, sizes).built, self.name)
        passed = {name: value for name, value in named.items() if name not in self.builder.at_sizes}
        return self._callables[at](*arrays, **passed)

    def export(self, path: str | Path) -> None:
        """Write the choices so far (measured or exported) as JSON, for `load` on another machine."""
        rows = self.rows()
        if not rows:
            raise UsageError(f"{self.name}: nothing was measured, so there is no choice to export; run tune(..) first")
        replace_file(Path(path), choices_to_text(self.name, self.space.digest, rows).encode())

    def load(self, path: str | Path) -> None:
        """Use exported choices. Raises SpecError for a file of another tunable, or of another space."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"{path}: the choices cannot be read ({error})") from error
        self.chosen_rows += choices_from_text(text, str(path), self.name, self.space)
        self._choices.clear()

    def rows(self) -> list[ChosenRow]:
        """The best measured configuration of each size, after the rows that were loaded."""
        measured = best_rows(self.timings, self.objective)
        best = {tuple(sorted(row.sizes.items())) for row in measured}
        return [row for row in self.chosen_rows if tuple(sorted(row.sizes.items())) not in best] + measured

    # ---- sizes

    def _sizes(self, given: Mapping[str, int]) -> dict[str, int]:
        """A value for each size of the key, in its order. Raises UsageError for a missing, unknown or bad one."""
        for name in given:
            if name not in self.key:
                raise UsageError(
                    f"{self.name} is keyed by {', '.join(self.key) or 'no size'}, not by {name}"
                    f"{did_you_mean(name, self.key)}"
                )
        missing = [name for name in self.key if name not in given]
        if missing:
            raise UsageError(f"{self.name}: give a value for {', '.join(missing)}, such as {missing[0]}=4096")
        for name, value in given.items():
            if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
                raise UsageError(f"{self.name}: {name}={value!r}: a size is an int of at least 1")
        return {name: int(given[name]) for name in self.key}

    def _sizes_of_arrays(self, arrays: Sequence[Given], named: Mapping[str, Given]) -> dict[str, int]:
        """The sizes of the key for a call: by name, or from the shapes through a kernel with symbolic sizes."""
        if all(name in named for name in self.key):
            return self._sizes({name: named[name] for name in self.key})
        entry = self._probe.host_entry
        values, sizes = binding.arrange(entry, arrays, named)
        facts = [None if (library := library_of(value)) is None else library.facts(value) for value in values]
        bound = binding.bind(entry, facts, sizes, next((f for f in facts if f is not None), None))
        found = dict(zip((size.name for size in entry.sizes), bound.sizes, strict=True))
        return self._sizes({name: value for name, value in {**found, **named}.items() if name in self.key})

    @cached_property
    def _probe(self) -> TracedKernelCalls:
        """A kernel whose sizes are symbols, from which shapes give the sizes of a call."""
        from lego_mlir.expr.sizes import size
        from lego_mlir.runtime.calls import TracedKernelCalls

        symbols = {name: size(name) for name in self.builder.at_sizes}
        reason = "no configuration builds"
        for configuration in self.space:
            try:
                kernel = kernel_of(self.builder.build(configuration, symbols))  # type: ignore[arg-type]
                if isinstance(kernel, Kernel):
                    calls = TracedKernelCalls(kernel)
                    if {entry.name for entry in calls.host_entry.sizes} >= set(self.key):
                        return calls
            except LegoError as error:
                reason = str(error).splitlines()[0]
        names = ", ".join(f"{name}=.." for name in self.key)
        raise UsageError(
            f"{self.name}: the sizes {', '.join(self.key)} cannot be read from the arrays, because no configuration "
            f"has them as symbols ({brief(reason, 120)}); pass them by name: {self.name}(.., {names})"
        )


def _gpu_of(arrays: Sequence[Given]) -> int:
    """The number of the GPU that the first array on one is on; 0 without any."""
    for array in arrays:
        library = library_of(array)
        if library is not None and (device := library.facts(array).device) != CPU:
            return int(device[1])
    return 0


def _objective(given: str | Objective) -> Objective:
    if given == TIME:
        return lambda timing: timing.median
    if isinstance(given, str) or not callable(given):
        raise UsageError(f"lego.tune: the objective is 'time' or a function of a Timing, got {given!r}")
    return given


def tune(
    space: Mapping[str, Sequence[object]],
    *,
    key: Sequence[str] = (),
    where: Sequence[ConditionLike] | ConditionLike = (),
    keep: int | float | None = None,
    objective: str | Objective = TIME,
    device: str = DEVICE,
    counts: Counting | None = None,
    stored: bool = True,
) -> Callable[[object], Tunable]:
    """Decorate what builds a kernel from a configuration: a `Tunable`, called on arrays as a kernel is.

    `space` maps names to the values to try: ints, strings, booleans, layouts, orders. `where` are conditions between
    them, texts or functions. `key` are the sizes that a choice depends on; the function takes those that it names.
    `keep` bounds what is measured: an int is the most configurations, a float the largest predicted ratio to the best.
    `objective` is minimised: "time", or a function of a `Timing`. `device` names the constants of the cost model.
    `counts` gives the `LaunchCounts` of what has no trace, a template, from a configuration and the sizes. With
    `stored=False` the timings that earlier processes stored are not read. Raises UsageError for a bad space and for
    what does not build.
    """
    if isinstance(key, str):
        raise UsageError(f"lego.tune: key is a list of sizes, such as key=[{key!r}]")
    if isinstance(keep, bool) or (keep is not None and not (isinstance(keep, int | float) and keep >= 1)):
        raise UsageError(
            f"lego.tune: keep is a number of candidates, or a factor such as 1.5, at least 1; got {keep!r}"
        )
    made = SearchSpace(space, where, key)
    if clash := [name for name in key if name in made.values]:
        raise UsageError(f"lego.tune: {', '.join(clash)} is in the space and in the key; a name is one or the other")
    model = device_named(device)

    def decorate(given: object) -> Tunable:
        return Tunable(
            builder_of(given, list(made.values), list(key)), made, key, keep, objective, model, counts, stored
        )

    return decorate
