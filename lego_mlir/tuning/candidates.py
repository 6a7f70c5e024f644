"""The search space as data: names to values, conditions between them; configurations, candidates and timings.

A space is the product of its values, without the configurations that a condition excludes, in a stable order: the last
name varies fastest. A configuration is one value for each name; its `key` is a text that does not depend on the order
of the names, so that timings stored by another process are found again:

>>> space = SearchSpace({"tile": [16, 32], "order": ["row", "column"]}, where=["tile > 16 or order == 'row'"])
>>> [configuration.key for configuration in space]
['order=row tile=16', 'order=row tile=32', 'order=column tile=32']
>>> space.size, len(space), space.find("tile=32, order=column")
(4, 3, Configuration(order=column tile=32))
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from types import FunctionType
from typing import Final

from lego_mlir.errors import UsageError, brief, did_you_mean
from lego_mlir.tuning.conditions import ConditionLike, SpaceCondition, condition_from

LATENCY: Final = 0.4
"""A launch spends its time waiting if no unit is busy for this part of it."""
PLAIN: Final = (bool, int, float, str)
_WORD: Final = re.compile(r"[A-Za-z_][\w.:-]*")
_NOT_WORDS: Final = ("True", "False", "None")


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value known by its text only: a layout or an order in a stored timing."""

    text: str

    def __repr__(self) -> str:
        return self.text


def shown(value: object) -> str:
    """The stable text of a value: strings that are words without quotes, layouts and types as a spec writes them."""
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and value not in _NOT_WORDS else repr(value)
    if isinstance(value, (type, FunctionType)) and "<" not in value.__name__:
        return value.__name__
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Configuration(Mapping[str, object]):
    """One value for each name of a space; equal to any other with the same `key`."""

    values_by_name: tuple[tuple[str, object], ...]

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Configuration:
        """A configuration from a mapping."""
        return cls(tuple(values.items()))

    @property
    def key(self) -> str:
        """The text that identifies it: `order=row tile=32`, names in alphabetical order."""
        return " ".join(
            f"{name}={shown(value)}" for name, value in sorted(self.values_by_name, key=lambda item: item[0])
        )

    def to_data(self) -> dict[str, object]:
        """Plain values as they are, others as {"text": ..}; for JSON."""
        return {name: _data(value) for name, value in self.values_by_name}

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Configuration:
        """The configuration from what `to_data` returns, or JSON of it; layouts are `ShownValue`."""
        return cls(tuple((name, _from_data(value)) for name, value in data.items()))

    def __getitem__(self, name: str) -> object:
        for known, value in self.values_by_name:
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Configuration({self.key})"

    def __str__(self) -> str:
        return self.key


def _data(value: object) -> object:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (tuple, list)):
        return [_data(part) for part in value]
    return {"text": shown(value)}


def _from_data(value: object) -> object:
    match value:
        case list():
            return tuple(_from_data(part) for part in value)
        case {"text": str(text)}:
            return ShownValue(text)
    return value


class SearchSpace:
    """Names to values, and conditions between them; `sizes` are further names that conditions may read.

    A condition that reads sizes is evaluated once these are known (`excluded`). Raises UsageError for a name without
    values, for two values of one text, and for a condition that reads an unknown name.
    """

    def __init__(
        self,
        values: Mapping[str, Sequence[object]],
        where: Sequence[ConditionLike] | ConditionLike = (),
        sizes: Sequence[str] = (),
    ) -> None:
        if not values:
            raise UsageError("a space needs at least one name with its values, such as space={'tile': [16, 32]}")
        self.values = {name: _values_of(name, given) for name, given in values.items()}
        self.sizes = tuple(sizes)
        given: list[ConditionLike] = list(where) if isinstance(where, list | tuple) else [where]  # type: ignore[list-item]
        self.where: tuple[SpaceCondition, ...] = tuple(map(condition_from, given))
        known = [*self.values, *self.sizes]
        for condition in self.where:
            for name in condition.names:
                if name not in known:
                    raise UsageError(
                        f"the condition '{condition.text}' reads {name}, which is not in the space"
                        f"{did_you_mean(name, known)}; it has: {', '.join(known) or 'nothing'}"
                    )

    def __repr__(self) -> str:
        return f"SearchSpace({', '.join(f'{name}: {len(values)}' for name, values in self.values.items())})"

    @property
    def size(self) -> int:
        """The number of combinations, before conditions."""
        return math.prod(map(len, self.values.values()))

    @property
    def digest(self) -> str:
        """A digest of names, values and conditions."""
        text = [f"{name}: {', '.join(map(shown, values))}" for name, values in self.values.items()]
        return sha256("\n".join([*text, *(c.digest for c in self.where)]).encode()).hexdigest()

    def __iter__(self) -> Iterator[Configuration]:
        """The configurations that meet the conditions on the space's own names, the last name varying fastest."""
        for values in itertools.product(*self.values.values()):
            configuration = Configuration(tuple(zip(self.values, values, strict=True)))
            if not self.excluded(configuration):
                yield configuration

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, configuration: object) -> bool:
        return isinstance(configuration, Configuration) and any(configuration == other for other in self)

    def excluded(self, configuration: Configuration, sizes: Mapping[str, int] | None = None) -> str:
        """Why a condition excludes a configuration, at these sizes if given; empty if none does."""
        given = {**configuration, **(sizes or {})}
        for condition in self.where:
            if all(name in given for name in condition.names) and not condition.holds(given):
                at = ", ".join(f"{name}={shown(given[name])}" for name in condition.names)
                return f"the condition '{condition.text}' fails at {at}"
        return ""

    def find(self, text: str) -> Configuration:
        """The configuration with these values: `tile=32 order=row`, names in any order.

        Raises UsageError for an unknown name or value, a missing name, or an excluded configuration.
        """
        chosen: dict[str, object] = {}
        for name, value in _assignments(text):
            if name not in self.values:
                raise UsageError(
                    f"{brief(text, 60)!r}: no name {name!r} in the space{did_you_mean(name, self.values)}; it has: "
                    f"{', '.join(self.values)}"
                )
            texts = {shown(known): known for known in self.values[name]}
            if value not in texts:
                raise UsageError(f"{name}={value}: not a value of the space; {name} is one of {', '.join(texts)}")
            chosen[name] = texts[value]
        missing = [name for name in self.values if name not in chosen]
        if missing:
            raise UsageError(f"{brief(text, 60)!r} has no value for {', '.join(missing)}")
        configuration = Configuration(tuple((name, chosen[name]) for name in self.values))
        if reason := self.excluded(configuration):
            raise UsageError(f"{configuration}: {reason}")
        return configuration


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """The parts `name=value` of a text, separated by blanks or commas; a value may contain both."""
    starts = [*re.finditer(r"(?:^|[\s,])\s*([A-Za-z_]\w*)=(?!=)", text)]
    if not starts and text.strip():
        raise UsageError(f"{brief(text, 60)!r}: a configuration is written as name=value, separated by blanks")
    for here, after in zip(starts, [*starts[1:], None], strict=True):
        yield here[1], text[here.end() : after.start() if after else len(text)].strip().rstrip(",").rstrip()


def _values_of(name: str, given: Sequence[object]) -> tuple[object, ...]:
    """The values of one name. Raises UsageError unless they are some, each with its own stable text."""
    if not name.isidentifier():
        raise UsageError(f"a name of the space is an identifier, got {name!r}")
    if isinstance(given, str) or not isinstance(given, Sequence | range):
        raise UsageError(f"{name}: the values of a space are a list, got {brief(given, 60)}; write {name}=[{given!r}]")
    if not given:
        raise UsageError(f"{name} has no values; a space needs at least one for each name")
    texts: dict[str, object] = {}
    for value in given:
        text = shown(value)
        if " at 0x" in text or "<lambda>" in text:
            raise UsageError(
                f"{name}: {brief(text, 60)} has no stable text; use a number, a string, a layout or a named function"
            )
        if text in texts:
            raise UsageError(f"{name}: the value {text} is listed twice")
        texts[text] = value
    return tuple(given)


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """What the cost model expects of a launch: the time and the parts that limit it, all in microseconds.

    `waves` is the number of rounds of blocks over all SMs, `tail` the part of the time in which some SMs are idle.
    """

    microseconds: float
    dram: float
    l2: float
    shared: float
    instructions: float
    waves: float
    tail: float

    @property
    def limit(self) -> str:
        """The part that takes longest; "latency" if all of them together leave most of the time unexplained."""
        parts = {"DRAM": self.dram, "L2": self.l2, "shared memory": self.shared, "instructions": self.instructions}
        longest = max(parts, key=lambda name: parts[name])
        return longest if parts[longest] > LATENCY * self.microseconds else "latency"

    def to_data(self) -> dict[str, float | str]:
        """What `--json` prints."""
        return {
            "us": self.microseconds, "dram_us": self.dram, "l2_us": self.l2, "shared_us": self.shared,
            "instructions_us": self.instructions, "waves": self.waves, "tail_us": self.tail, "limit": self.limit,
        }  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A configuration and what it builds: a kernel, a program of kernels, a rendered template, a structured kernel.

    `make` builds it on first use of `built`; `digest` identifies the built code, whatever configuration it came from.
    """

    configuration: Configuration
    make: Callable[[], object] = field(repr=False, compare=False)
    predicted: PredictedTime | None = None

    @cached_property
    def built(self) -> object:
        """What the configuration builds. Raises the builder's error."""
        return self.make()

    @cached_property
    def digest(self) -> str:
        """The digest of what is built: equal for equal code."""
        from lego_mlir.tuning.building import digest_of

        return digest_of(self.built)


@dataclass(frozen=True, slots=True)
class Pruned:
    """A configuration that is not measured: the stage that excluded it, and the reason with its numbers."""

    configuration: Configuration
    stage: str
    reason: str

    def __str__(self) -> str:
        return f"{self.configuration}: {self.stage}: {self.reason}"

    def to_data(self) -> dict[str, object]:
        """What `--json` prints."""
        return {"configuration": self.configuration.to_data(), "stage": self.stage, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Timing:
    """One measurement. `kernel` is the candidate's digest, `toolchain` that of compilers and their versions.

    Times are in microseconds. `failure` is empty, or why there is no time: a crash, a time-out, a wrong result; then
    `median` and the quartiles are infinite.
    """

    tunable: str
    configuration: Configuration
    sizes: Mapping[str, int]
    kernel: str
    toolchain: str
    device: str
    multiprocessors: int
    driver: str
    median: float
    quartiles: tuple[float, float]
    repetitions: int
    when: str
    failure: str = ""

    @property
    def spread(self) -> float:
        """The distance of the quartiles relative to the median."""
        low, high = self.quartiles
        return (high - low) / self.median if math.isfinite(self.median) and self.median else math.inf
