"""The plan of `lego-mlir tune`; on a machine without the compiler, how to measure packed candidates."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Json
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.terminal import ResultTable, show
from lego_mlir.errors import DependencyError

if TYPE_CHECKING:
    from lego_mlir.tuning.candidates import Timing
    from lego_mlir.tuning.pruning import PrunedSpace
    from lego_mlir.tuning.tunable import Tunable


def pruned(tunable: Tunable, sizes: Mapping[str, int]) -> PrunedSpace:
    """What is worth measuring. Raises DependencyError without MLIR, with the way to measure on such a machine."""
    try:
        return tunable.prune(sizes)
    except DependencyError as error:
        raise DependencyError(
            f"{error}; a machine without it measures packed candidates: run lego-mlir tune SPEC --pack FOLDER where it "
            "is installed, and lego-mlir tune FOLDER here"
        ) from error


def print_plan(args: argparse.Namespace, plan: Json) -> None:
    """Print a plan, as text or as JSON."""
    if args.json:
        print_json(args.command, plan)
    else:
        show(*_plan_text(plan))


def plan_of(tunable: Tunable, sizes: dict[str, int], space: PrunedSpace) -> Json:
    """What is measured, best predicted first, and what is pruned, as `--json` prints it."""
    return {
        "tunable": tunable.name,
        "sizes": dict(sizes),
        "model": tunable.device.name,
        "configurations": len(space.kept) + len(space.pruned),
        "to_measure": len(space.kept),
        "kept": [
            {
                "configuration": candidate.configuration.to_data(),
                "key": candidate.configuration.key,
                "predicted": candidate.predicted and candidate.predicted.to_data(),
            }
            for candidate in space.kept
        ],
        "pruned": [{**pruned.to_data(), "key": pruned.configuration.key} for pruned in space.pruned],
    }


def timed_devices(timings: Sequence[Timing]) -> list[Json]:
    """The devices that timings were taken on, each once, as `--json` prints them."""
    found = dict.fromkeys((t.device, t.multiprocessors, t.driver) for t in timings)
    return [{"name": name, "multiprocessors": count, "driver": driver} for name, count, driver in found]


def _plan_text(plan: Json) -> list[str | ResultTable]:
    at = "".join(f" {name}={n}" for name, n in plan["sizes"].items())
    head = (
        f"{plan['tunable']}{at}: {plan['to_measure']} of {plan['configurations']} configurations to measure, "
        f"best predicted first by the model of {plan['model']}"
    )
    rows = [
        (row["key"], f"{p['us']:.4g}", p["limit"], f"{p['waves']:.2f}")
        if (p := row["predicted"])
        else (row["key"], "", "", "")
        for row in plan["kept"]
    ]
    parts: list[str | ResultTable] = [head]
    if rows:
        parts.append(ResultTable(("configuration", "predicted us", "limited by", "waves"), rows))
    if plan["pruned"]:
        parts.append(f"pruned: {len(plan['pruned'])}")
        parts += [f"  {row['key']}: {row['stage']}: {row['reason']}" for row in plan["pruned"]]
    return parts
