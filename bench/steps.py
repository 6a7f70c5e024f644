"""The command line of a GPU benchmark: one step of `harness` or `instructions`, on all cases or on those chosen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import harness
import instructions


def main(
    name: str,
    render: Callable[[Path], None],
    static: Callable[[], Any],
    cases: Sequence[harness.Case],
    timed: harness.Timed,
    table: Callable[[], None],
) -> int:
    """The command line of one benchmark."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n")[0])
    parser.add_argument("step", choices=["render", "static", "prepare", "time", "count", "launch", "table"])
    parser.add_argument("words", nargs="*", help="prepare, time or count only the cases that have all these words")
    options = parser.parse_args()
    folder = harness.ARTIFACTS / name
    chosen = [case for case in cases if set(options.words) <= set(harness.words_of(case))]
    if options.step == "render":
        folder.mkdir(parents=True, exist_ok=True)
        render(folder)
        print(f"{len(list(folder.iterdir()))} files in {folder}")
    elif options.step == "static":
        harness.write_static(name, static())
    elif options.step == "table":
        table()
    elif options.step == "prepare":
        harness.prepare(folder, chosen, timed)
    elif options.step == "time":
        return harness.time_cases(name, folder, chosen, timed)
    elif options.step == "count":
        return instructions.count(name, folder, options.words)
    else:
        return instructions.launch(name, folder, chosen, timed)
    return 0
