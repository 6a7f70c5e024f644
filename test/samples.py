"""Samples of the cases of slow tests, for a push: as many of a test's cases as fit into BUDGET seconds, at least one.

`seconds.json` holds what a case takes on average, for each parametrised test whose cases take more than that together;
all other tests run whole, and `--all-cases` runs everything, as `--long` does. The cases that are chosen have every
value of every parameter between them, as far as the budget goes; they are the same ones each time. Where it is not
enough for two, the file names the case that takes least.

    python -m pytest -q -n auto --all-cases --durations=0 | python test/samples.py

records anew the tests that this runs; add files to run only these. Entries of tests that no longer exist are dropped.
"""

import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

BUDGET = 1.0
ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "test" / "seconds.json"
_DURATION = re.compile(r"([\d.]+)s (?:call|setup|teardown)\s+(\S.*)")


def cases_of(items: Iterable) -> dict[str, list]:
    """The collected cases of each parametrised test, by the test's name with its file."""
    found = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            found[item.nodeid.split("[")[0]].append(item)
    return found


def chosen(values: Sequence[frozenset], count: int, seed: str) -> list[int]:
    """The indices of `count` cases; `values` has the parameters of each."""
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


def left_out(items: Iterable, entries: dict[str, list]) -> Iterator[tuple]:
    """The collected cases that a push does not run, with the reason; `entries` is what `recorded` gives."""
    for name, cases in cases_of(items).items():
        if name not in entries:
            continue
        seconds, *least = entries[name]
        kept = [k for k, case in enumerate(cases) if case.nodeid == f"{name}[{''.join(least)}]"] or chosen(
            [frozenset(case.callspec.indices.items()) for case in cases], max(1, int(BUDGET / seconds)), name
        )
        reason = f"{len(kept)} of {len(cases)} cases run; all with --all-cases"
        yield from ((case, reason) for k, case in enumerate(cases) if k not in kept)


def recorded(lines: Iterable[str], entries: dict[str, list]) -> dict[str, list]:
    """The entries with what a report of durations says of its tests whose cases take more than the budget: the mean of
    a case's seconds, and which case takes least where two are more than the budget."""
    cases = defaultdict(lambda: defaultdict(float))
    for line in lines:
        if (match := _DURATION.fullmatch(line)) and "[" in match[2]:
            name, case = match[2].removesuffix("]").split("[", 1)
            cases[name][case] += float(match[1])
    found = {name: entry for name, entry in entries.items() if name not in cases and exists(name)}
    for name, seconds in cases.items():
        mean = sum(seconds.values()) / len(seconds)
        if len(seconds) > 1 and mean * len(seconds) > BUDGET:
            least = [min(seconds, key=seconds.get)] if 2 * mean > BUDGET else []
            found[name] = [round(mean, 2), *least]
    return dict(sorted(found.items()))


def exists(name: str) -> bool:
    """Whether a file of this checkout defines a test of this name, and in this class if it is in one."""
    file, *inside = name.split("::")
    path = ROOT / file
    return path.is_file() and all(re.search(rf"^ *(def|class) {part}\b", path.read_text(), re.M) for part in inside)


if __name__ == "__main__":
    lines = [*sys.stdin]
    if not any(map(_DURATION.fullmatch, map(str.rstrip, lines))):
        sys.exit("no durations were read; see the head of this file")
    entries = recorded(map(str.rstrip, lines), json.loads(FILE.read_text()))
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    FILE.write_text(f"{{\n{rows}\n}}\n")
