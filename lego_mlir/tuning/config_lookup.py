"""The configuration for a size: a measured one, else the model's best, scaled by what was measured at other sizes.

The nearest measured size alone misleads: a grid of 133 blocks on 132 SMs takes two waves, one of 132 takes one. So the
model predicts every candidate at the new size, waves and tail included, and measured times only correct it: a
configuration that took 1.2 times its prediction elsewhere is expected to do so here, the more the nearer that size is.

    exported, measured    the best at exactly this size, loaded from a file or timed by this process
    stored                the best at exactly this size that an earlier process timed on this device, of today's code
    scaled                predicted here * (measured / predicted at other sizes)
    model                 predicted alone
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from lego_mlir.aliases import Json
from lego_mlir.errors import LegoError, SpecError
from lego_mlir.store import from_json
from lego_mlir.tuning.candidates import Configuration, SearchSpace, Timing
from lego_mlir.tuning.stored import fastest, is_current

if TYPE_CHECKING:
    from lego_mlir.tuning.tunable import Tunable

FORMAT: Final = 1
NEAREST: Final = 24
"""Measured rows that are compared with their predictions, the nearest sizes first."""
UNMEASURED: Final = 1.03
"""A configuration without any timing must be predicted to be faster by this factor than one with some."""
Basis = Literal["exported", "measured", "stored", "scaled", "model"]


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """The best configuration at one size: its measured time in microseconds, on a device."""

    sizes: Mapping[str, int]
    configuration: Configuration
    microseconds: float
    device: str

    def distance(self, sizes: Mapping[str, int]) -> float:
        """The sum of |log2| of the ratios of the sizes."""
        return sum(abs(math.log2(n / self.sizes[name])) for name, n in sizes.items() if name in self.sizes)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice, its basis, and its expected time in microseconds."""

    configuration: Configuration
    basis: Basis
    microseconds: float | None


def choose(tunable: Tunable, sizes: Mapping[str, int], stored: Sequence[Timing] = ()) -> Chosen:
    """The configuration for these sizes; `stored` are timings of this device. Raises UsageError if all are pruned."""
    loaded = {id(row) for row in tunable.chosen_rows}
    for row in reversed(tunable.rows()):
        if dict(row.sizes) == dict(sizes):
            return Chosen(row.configuration, "exported" if id(row) in loaded else "measured", row.microseconds)
    if found := fastest([t for t in stored if dict(t.sizes) == dict(sizes)], tunable.objective, tunable):
        return Chosen(found.configuration, "stored", found.median)
    space = tunable.prune(sizes)
    space.require_some(tunable.name)
    ratios = _ratios(tunable, sizes, stored)
    scores: dict[Configuration, float] = {}
    for candidate in space.kept:
        if candidate.predicted is not None:
            scores[candidate.configuration] = candidate.predicted.microseconds * _scale(candidate.configuration, ratios)
    if not scores:
        return Chosen(space.kept[0].configuration, "model", None)
    best = min(scores, key=lambda configuration: scores[configuration])
    return Chosen(best, "scaled" if ratios else "model", scores[best])


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Measured over predicted time of a configuration, at some distance in size."""

    configuration: Configuration
    log2: float
    distance: float

    @property
    def weight(self) -> float:
        return 2.0**-self.distance


def _ratios(tunable: Tunable, sizes: Mapping[str, int], stored: Sequence[Timing]) -> list[_Ratio]:
    """What was measured at the nearest other sizes, relative to the model there."""
    from lego_mlir.tuning.pruning import predicted_of  # late: a choice is exported where no front end is

    current = [(row, None) for row in tunable.chosen_rows]
    timed = [(_row(t), None) for t in tunable.timings if not t.failure]
    earlier = [(_row(t), t) for t in stored]
    found = []
    for row, timing in sorted([*current, *timed, *earlier], key=lambda pair: pair[0].distance(sizes))[:NEAREST]:
        if timing is not None and not is_current(tunable, timing):
            continue
        try:
            candidate = tunable.candidate(row.configuration, row.sizes)
            time = predicted_of(candidate, row.sizes, tunable.device, tunable.counting)
        except LegoError:  # a configuration that the space no longer has
            continue
        if time is not None:
            ratio = math.log2(row.microseconds / time.microseconds)
            found.append(_Ratio(candidate.configuration, ratio, row.distance(sizes)))
    return found


def _row(timing: Timing) -> ChosenRow:
    return ChosenRow(timing.sizes, timing.configuration, timing.median, timing.device)


def _scale(configuration: Configuration, ratios: Sequence[_Ratio]) -> float:
    """The expected ratio of measured to predicted time, a weighted geometric mean."""
    here = [ratio for ratio in ratios if ratio.configuration == configuration]
    used = here or ratios
    if not used:
        return 1.0
    mean = sum(r.log2 * r.weight for r in used) / sum(r.weight for r in used)
    return float(2.0**mean * (1.0 if here else UNMEASURED))


# ---- files


def best_rows(timings: Iterable[Timing], objective: Callable[[Timing], float] | None = None) -> list[ChosenRow]:
    """The best timing of each set of sizes; by its median unless another objective is given."""
    value: Callable[[Timing], float] = objective or (lambda timing: timing.median)
    best: dict[tuple[tuple[str, int], ...], Timing] = {}
    for timing in timings:
        at = tuple(sorted(timing.sizes.items()))
        if not timing.failure and (at not in best or value(timing) < value(best[at])):
            best[at] = timing
    return [_row(timing) for timing in best.values()]


def choices_to_text(name: str, space: str, rows: Iterable[ChosenRow], recipe: str = "") -> str:
    """Choices as JSON: one row a size, for the space with this digest, with the digest of the recipe they follow."""
    data: Json = {
        "format": FORMAT, "tunable": name, "space": space, **({"recipe": recipe} if recipe else {}),
        "choices": [
            {"sizes": dict(row.sizes), "configuration": row.configuration.to_data(), "us": row.microseconds,
             "device": row.device}
            for row in rows
        ],
    }  # fmt: skip
    return json.dumps(data, indent=1) + "\n"


def choices_from_text(text: str, where: str, name: str, space: SearchSpace) -> list[ChosenRow]:
    """Choices from JSON. Raises SpecError for an invalid file, another tunable, or configurations outside the space."""
    try:
        data = from_json(text)
        if data["format"] != FORMAT:
            raise SpecError(f"{where}: the choices have format {data['format']}, not {FORMAT}; export them again")
        if data["tunable"] != name:
            raise SpecError(f"{where}: choices of {data['tunable']}, not of {name}")
        rows = [
            ChosenRow(row["sizes"], Configuration.from_data(row["configuration"]), float(row["us"]), row["device"])
            for row in data["choices"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{where}: not a file of exported choices ({error!r}); make one with lego-mlir tune") from error
    known = {configuration.key: configuration for configuration in space}
    for row in rows:
        if row.configuration.key not in known:
            raise SpecError(
                f"{where}: {row.configuration} is not in the space of {name}, which has changed; tune and export again"
            )
    return [ChosenRow(r.sizes, known[r.configuration.key], r.microseconds, r.device) for r in rows]
