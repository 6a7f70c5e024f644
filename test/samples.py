"""Samples of the cases of slow tests, for a push: as many of a test's cases as fit into BUDGET seconds, at least one.

`seconds.json` holds what a case takes on average, for each parametrised test whose cases take more than that together;
all other tests run whole, and `--long` runs everything. The cases that are chosen have every value of every parameter
between them, as far as the budget goes; they are the same ones each time. Where it is not enough for two, the file
names the case that takes least.

    python -m pytest -q -n auto --long --durations=0 | python test/samples.py

rewrites the file.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

BUDGET = 1.0
FILE = Path(__file__).with_name("seconds.json")
_DURATION = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(\S.*\S)\s*")


def cases_of(items: Iterable) -> dict[str, list]:
    """The collected cases of each parametrised test, by the test's name with its file."""
    found = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            found[item.nodeid.split("[")[0]].append(item)
    return found


def chosen(values: Sequence[frozenset], count: int, seed: str) -> list[int]:
    """The numbers of so many cases; `values` has the parameters of each."""
    left = random.Random(seed).sample(range(len(values)), len(values))
    every = frozenset().union(*values)
    kept, missing = [], every
    for _ in range(min(len(values), count)):
        if not any(missing & values[k] for k in left):
            missing = every
        best = max(left, key=lambda k: len(missing & values[k]))
        left.remove(best)
        kept.append(best)
        missing -= values[best]
    return kept


def left_out(items: Iterable, entries: dict[str, list]) -> dict:
    """The collected cases that a push does not run, with the reason; `entries` is what `recorded` gives."""
    found = {}
    for name, cases in cases_of(items).items():
        if name not in entries:
            continue
        seconds, *least = entries[name]
        kept = [k for k, case in enumerate(cases) if case.nodeid == f"{name}[{''.join(least)}]"] or chosen(
            [frozenset(case.callspec.indices.items()) for case in cases], max(1, int(BUDGET / seconds)), name
        )
        reason = f"{len(kept)} of {len(cases)} cases run; all with --long"
        found.update((case, reason) for k, case in enumerate(cases) if k not in kept)
    return found


def recorded(lines: Iterable[str]) -> dict[str, list]:
    """Of a report of durations, the tests whose cases take more than the budget: the mean of a case's seconds, and
    which case takes least where two are more than the budget."""
    cases = defaultdict(lambda: defaultdict(float))
    for line in lines:
        if (match := _DURATION.fullmatch(line)) and "[" in match[2]:
            name, case = match[2].removesuffix("]").split("[", 1)
            cases[name][case] += float(match[1])
    found = {}
    for name, seconds in sorted(cases.items()):
        mean = sum(seconds.values()) / len(seconds)
        if len(seconds) > 1 and mean * len(seconds) > BUDGET:
            least = [min(seconds, key=seconds.get)] if 2 * mean > BUDGET else []
            found[name] = [round(mean, 2), *least]
    return found


if __name__ == "__main__":
    if not (found := recorded(sys.stdin)):
        sys.exit("no durations were read; see the head of this file")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")
