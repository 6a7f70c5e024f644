"""Samples of a large space: all configurations below 500, above it those that Optuna suggests.

Optuna is asked for a batch of configurations and told the time of each (its "ask and tell" interface), so it never
calls a kernel, and the measuring stays with the race. Its journal is a file: a search that is interrupted goes on with
all that it was told. The sampler is TPE, over the position of each value in its list.

`halve_sampled` races the batches. The first one is the best predicted; a later one has what Optuna suggests from all
times so far. The fastest candidate runs again in each, so that it is compared with the new ones in turns. It ends after
500 candidates, or when the seconds are spent.

>>> from lego_mlir.tuning.candidates import SearchSpace
>>> small = search(SearchSpace({"tile": [16, 32], "warps": [2, 4]}))
>>> [str(configuration) for configuration in small.ask(10)], small.ask(10)
(['tile=16 warps=2', 'tile=16 warps=4', 'tile=32 warps=2', 'tile=32 warps=4'], [])

J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", 2011. T. Akiba et al., "Optuna", 2019."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from lego_mlir.aliases import Foreign
from lego_mlir.errors import DependencyError
from lego_mlir.tuning.candidates import Candidate, Configuration, SearchSpace, Timing
from lego_mlir.tuning.workbench import Workbench, halve

LARGEST: Final = 500  # configurations that are all tried
SUGGESTIONS: Final = 4  # for each that is wanted: Optuna knows no conditions, and suggests what it likes again
DRAWS: Final = 500  # random configurations in place of those
FAILED: Final = "failed"  # marks a configuration that was tried, among suggestions that were not taken
Allowed = Callable[[Configuration], bool]


class Search(Protocol):
    """Hands out configurations, each once, and learns their times."""

    def ask(self, count: int) -> list[Configuration]:
        """At most `count` configurations that were not handed out before; none when there is no other."""

    def tell(self, configuration: Configuration, microseconds: float | None) -> None:
        """The time of a configuration; None for one without a time."""


def search(
    space: SearchSpace,
    sizes: Mapping[str, int] | None = None,
    *,
    allowed: Allowed = lambda configuration: True,
    largest: int = LARGEST,
    journal: str | Path | None = None,
    seed: int = 0,
) -> Search:
    """All configurations of a small space in its order, otherwise a search by Optuna.

    `allowed` excludes configurations, as pruning does. `journal` is the file that the search goes on from. Raises
    DependencyError where the space is large and Optuna is not installed.
    """

    def possible(configuration: Configuration) -> bool:
        return not space.excluded(configuration, sizes) and allowed(configuration)

    if space.size <= largest or sum(1 for _ in islice(filter(possible, space), largest + 1)) <= largest:
        return ExhaustiveSearch(filter(possible, space))
    return OptunaSearch(space, possible, journal, seed)


class ExhaustiveSearch:
    """Every configuration in the order of the space."""

    def __init__(self, configurations: Iterator[Configuration]) -> None:
        self.left = configurations

    def ask(self, count: int) -> list[Configuration]:
        """The next ones."""
        return list(islice(self.left, count))

    def tell(self, configuration: Configuration, microseconds: float | None) -> None:
        """Nothing depends on times."""


class OptunaSearch:
    """A study of Optuna over the positions of values. What a journal holds is not handed out again."""

    def __init__(self, space: SearchSpace, possible: Allowed, journal: str | Path | None, seed: int) -> None:
        optuna = _optuna()
        self.space, self.possible, self.optuna = space, possible, optuna
        storage = None
        if journal is not None:
            Path(journal).parent.mkdir(parents=True, exist_ok=True)
            backend = optuna.storages.journal.JournalFileBackend(str(journal))
            storage = optuna.storages.JournalStorage(backend)
        distributions = optuna.distributions.CategoricalDistribution
        self.distributions = {name: distributions(range(len(values))) for name, values in space.values.items()}
        self.study = optuna.create_study(
            storage=storage, study_name=space.digest[:16], load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
        )  # fmt: skip
        self.drawn = random.Random(seed)
        self.asked: dict[Configuration, Foreign | None] = {}
        complete = optuna.trial.TrialState.COMPLETE
        self.known = {
            self._configuration(t.params) for t in self.study.trials if t.state == complete or FAILED in t.user_attrs
        }

    def ask(self, count: int) -> list[Configuration]:
        """Suggestions of Optuna that are possible and new; random ones where it only repeats itself."""
        found: list[Configuration] = []
        for _ in range(SUGGESTIONS * count):
            if len(found) == count:
                return found
            trial = self.study.ask(self.distributions)
            configuration = self._configuration(trial.params)
            if self._take(configuration, trial):
                found.append(configuration)
            else:
                self.study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)
        for _ in range(DRAWS * (count - len(found))):
            if len(found) == count:
                break
            drawn = Configuration(tuple((name, self.drawn.choice(v)) for name, v in self.space.values.items()))
            if self._take(drawn, None):
                found.append(drawn)
        return found

    def _take(self, configuration: Configuration, trial: Foreign | None) -> bool:
        """Hand out a configuration that is possible and new."""
        if configuration in self.known or configuration in self.asked or not self.possible(configuration):
            return False
        self.asked[configuration] = trial
        return True

    def tell(self, configuration: Configuration, microseconds: float | None) -> None:
        """Tell Optuna the time of a configuration that it suggested, or of another one."""
        state = self.optuna.trial.TrialState
        trial = self.asked.pop(configuration, None)
        if trial is not None:
            self.known.add(configuration)
            if microseconds is None:
                trial.set_user_attr(FAILED, True)
            self.study.tell(trial.number, microseconds, state=state.FAIL if microseconds is None else state.COMPLETE)
            return
        new = configuration not in self.known
        self.known.add(configuration)
        if new and microseconds is not None:
            self.study.add_trial(
                self.optuna.trial.create_trial(
                    params=self._positions(configuration), distributions=self.distributions, value=microseconds
                )
            )

    def _configuration(self, positions: Mapping[str, int]) -> Configuration:
        return Configuration(tuple((name, values[positions[name]]) for name, values in self.space.values.items()))

    def _positions(self, configuration: Configuration) -> dict[str, int]:
        return {name: values.index(configuration[name]) for name, values in self.space.values.items()}


def _optuna() -> Foreign:
    try:
        import optuna
    except ImportError as error:
        raise DependencyError(
            f"more than {LARGEST} configurations are sampled by Optuna, which is not installed; run: "
            "pip install optuna, or exclude configurations with conditions"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


BATCH: Final = 50


def halve_sampled(
    workbench: Workbench,
    tunable: str,
    space: SearchSpace,
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    *,
    seconds: float | None = None,
    known: Sequence[Timing] = (),
    on_timing: Callable[[Timing], None] = lambda timing: None,
    digest: Callable[[Candidate], str] = lambda candidate: candidate.digest,
    journal: str | Path | None = None,
    most: int = LARGEST,
) -> list[Timing]:
    """The timings of at most `most` of the candidates, which are those of the space that pruning left, best first."""
    by_configuration = {candidate.configuration: candidate for candidate in candidates}
    digests = {candidate.configuration: digest(candidate) for candidate in candidates}
    searched = search(space, sizes, allowed=by_configuration.__contains__, largest=0, journal=journal)
    found = {t.kernel: t for t in known if dict(t.sizes) == dict(sizes) and t.tunable == tunable}
    earlier = [candidate for candidate in candidates if digests[candidate.configuration] in found]
    for candidate in earlier:
        _tell(searched, candidate, found.get(digests[candidate.configuration]))
    best = min(earlier, key=lambda candidate: _median(found[digests[candidate.configuration]]), default=None)
    batch = [candidate for candidate in candidates if digests[candidate.configuration] not in found][:BATCH]
    began, tried = workbench.bench.seconds(), 0
    while batch and tried < most:
        left = None if seconds is None else seconds - (workbench.bench.seconds() - began)
        if left is not None and left <= 0:
            break
        entering = [*([best] if best is not None and best not in batch else []), *batch]
        timings = halve(
            workbench, tunable, entering, sizes, seconds=left, known=list(found.values()), on_timing=on_timing,
            digest=lambda candidate: digests[candidate.configuration],
        )  # fmt: skip
        times = {timing.kernel: timing for timing in timings}
        found |= times
        for candidate in batch:
            _tell(searched, candidate, times.get(digests[candidate.configuration]))
        best = min(entering, key=lambda candidate: _median(times.get(digests[candidate.configuration])))
        tried += len(batch)
        batch = [by_configuration[configuration] for configuration in searched.ask(min(BATCH, most - tried))]
    return [timing for timing in found.values() if timing.kernel in digests.values()]


def _tell(searched: Search, candidate: Candidate, timing: Timing | None) -> None:
    searched.tell(candidate.configuration, timing.median if timing is not None and not timing.failure else None)


def _median(timing: Timing | None) -> float:
    return math.inf if timing is None else timing.median
