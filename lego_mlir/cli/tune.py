"""`lego-mlir tune`: prune the space of a tunable, measure what is left on this machine, and export the choices.

What would be measured and what was pruned, with the reason for each, is printed with `--dry-run`, and also on a machine
without a GPU, before the error that there is none. Timings are stored as they come, so a run that was interrupted
continues with `--resume`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Json
from lego_mlir.cli import files, options
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.terminal import ResultTable, show
from lego_mlir.cli.tune_plan import plan_of, print_plan, pruned, timed_devices
from lego_mlir.errors import DependencyError
from lego_mlir.runtime.manifest import sizes_of

if TYPE_CHECKING:
    from lego_mlir.tuning.candidates import Timing
    from lego_mlir.tuning.tunable import Tunable

HELP: Final = "Measure the configurations of a tunable kernel that no model rules out."
EXAMPLE: Final = "lego-mlir tune examples/tuned_transpose.py --size M=4096 --size N=4096 --dry-run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument(
        "spec", help="a Python file with a function decorated by @lego.tune, a recipe (.json), or a folder of --pack"
    )
    parser.add_argument("--kernel", metavar="NAME", help="tune this tunable only")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a size of the key: M=4096")
    parser.add_argument("--budget", metavar="TIME", help="stop after this time, such as 90s, 10m or 1h")
    parser.add_argument("--dry-run", action="store_true", help="print what would be measured, and what is pruned")
    parser.add_argument("--resume", action="store_true", help="keep stored timings instead of measuring again")
    parser.add_argument("--store", metavar="FILE", help="where timings are stored (default: the user's cache)")
    parser.add_argument("--export", metavar="FILE", help="write the choices as JSON, for Tunable.load")
    parser.add_argument(
        "--autotune", action="store_true",
        help="print what pruning leaves, or of a recipe or folder what measuring leaves, as configs of triton.autotune",
    )  # fmt: skip
    parser.add_argument("--kernel-tuner", metavar="FOLDER", help="write the timings as cache files of Kernel Tuner")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--pack", metavar="FOLDER", help="compile the candidates into a folder, and measure nothing")
    parser.add_argument("--trust", action="store_true", help="run the Python text in a folder of packed candidates")
    parser.add_argument("--target", metavar="NAME", help="what --pack compiles for, such as sm_90")
    parser.add_argument(
        "--gpus",
        metavar="N",
        type=options.at_least(1),
        default=1,
        help="measure a recipe or a folder on this many GPUs",
    )
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--scheduler", metavar="ADDRESS", help="compile and measure on the workers of a Dask scheduler"
    )
    cluster.add_argument(
        "--local-cluster", metavar="GPUS", type=options.at_least(0), nargs="?", const=1,
        help="compile on all cores of this machine, measure on this many of its GPUs (default: 1)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the plan, measure it, and return 1 if no configuration has a time."""
    from lego_mlir import spec
    from lego_mlir.cli import tune_cluster
    from lego_mlir.tuning.time_budget import seconds_of
    from lego_mlir.tuning.work_units import SizedProblem

    given = Path(args.spec)
    if args.export is not None:
        files.require_place(args.export, "--export")  # before hours of measuring
    if given.is_dir() or given.suffix == ".json":
        from lego_mlir.cli import tune_jobs

        return tune_jobs.run_folder(args) if given.is_dir() else tune_jobs.run_recipe(args)
    budget = None if args.budget is None else seconds_of(args.budget)
    loaded = spec.load(args.spec)
    tunable = loaded.tunable_named(args.kernel)
    sizes = sizes_of(args.size)
    with Progress(f"pruning {tunable.name}") as progress, spec.blame(*loaded.files):
        progress.update(f"{tunable.space.size} configurations")
        space = pruned(tunable, sizes)
    if args.autotune:
        from lego_mlir.tuning.autotune import autotune_text

        space.require_some(tunable.name)
        print(autotune_text([candidate.configuration for candidate in space.kept], tunable.key))
        return 0
    plan = plan_of(tunable, sizes, space)
    if args.dry_run:
        print_plan(args, plan)
        return 0
    space.require_some(tunable.name)
    problem = SizedProblem(space.kept, {name: int(sizes[name]) for name in tunable.key})
    if args.pack:
        from lego_mlir.cli import tune_jobs

        return tune_jobs.pack(args, tunable, [problem])
    if tune_cluster.wanted(args):
        (timings,) = tune_cluster.measured_on_cluster(args, tunable.name, [problem], budget)
        tunable.remember(timings)
    else:
        timings = list(_measured(args, tunable, sizes, plan, budget))
    if args.export:
        tunable.export(args.export)
    if args.kernel_tuner:
        from lego_mlir.cli.tune_jobs import write_caches

        write_caches(Path(args.kernel_tuner), [timings])
    good = [timing for timing in timings if not timing.failure]
    if args.json:
        measured = {"devices": timed_devices(timings), "timings": [_timing(timing) for timing in timings]}
        print_json(args.command, {**plan, **measured})
    else:
        show(*_timings_text(tunable, timings))
    return 0 if good else 1


def _measured(
    args: argparse.Namespace, tunable: Tunable, sizes: dict[str, int], plan: Json, budget: float | None
) -> Sequence[Timing]:
    """The timings, stored as they come. Where a GPU is needed and missing, prints the plan; DependencyError."""
    from lego_mlir.tuning.cpu_workbench import workbench_for
    from lego_mlir.tuning.timings import TimingStore

    try:
        workbench = workbench_for(tunable.prune(sizes).kept[0])
    except DependencyError as error:
        print_plan(args, plan)
        raise DependencyError(
            f"nothing was measured: {error}; --dry-run prints the plan alone, and --export of another machine's run "
            "brings its choices here"
        ) from error
    store = TimingStore(args.store)
    at = {name: int(sizes[name]) for name in tunable.key}
    known = store.timings(tunable=tunable.name, toolchain=workbench.toolchain, sizes=at) if args.resume else []
    done = 0

    def stored(timing: Timing) -> None:
        nonlocal done
        done += 1
        store.add([timing])
        progress.update("measured", done=done, total=plan["to_measure"])

    with Progress(f"tuning {tunable.name}") as progress:
        return tunable.tune(sizes, budget=budget, workbench=workbench, known=known, on_timing=stored).timings


def _timing(timing: Timing) -> Json:
    measured = math.isfinite(timing.median)
    return {
        "key": timing.configuration.key,
        "configuration": timing.configuration.to_data(),
        "us": timing.median if measured else None,
        "quartiles": list(timing.quartiles) if measured else None,
        "repetitions": timing.repetitions,
        "failure": timing.failure,
    }


def _timings_text(tunable: Tunable, timings: Sequence[Timing]) -> list[str | ResultTable]:
    ordered = sorted(timings, key=lambda timing: timing.median)
    rows = [
        (t.configuration.key, f"{t.median:.4g}", f"{t.quartiles[0]:.4g} to {t.quartiles[1]:.4g}", t.repetitions)
        for t in ordered
        if not t.failure
    ]
    failed = [f"  {t.configuration.key}: {t.failure}" for t in ordered if t.failure]
    where = ", ".join(device["name"] for device in timed_devices(timings))
    head = f"{tunable.name}: {len(rows)} measured on {where}, fastest first"
    parts: list[str | ResultTable] = [head]
    if rows:
        parts.append(ResultTable(("configuration", "median us", "quartiles", "runs"), rows))
    return [*parts, *([f"failed: {len(failed)}", *failed] if failed else [])]
