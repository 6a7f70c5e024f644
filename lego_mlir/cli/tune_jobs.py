"""`lego-mlir tune` for several sizes: a recipe, a folder of packed candidates, and packing them.

    lego-mlir tune SPEC --size M=4096 --pack candidates --target sm_90      compile here
    lego-mlir tune candidates --gpus 2 --export choices.json                measure there, without a compiler
    lego-mlir tune recipe.json --gpus 2                                     compile and measure all sizes of a recipe

Sizes are measured on as many GPUs of this machine as `--gpus` says, one size a GPU at a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lego_mlir.aliases import Json
from lego_mlir.cli import files, tune_cluster
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.terminal import ResultTable, show
from lego_mlir.cli.tune_plan import pruned
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.store import make_folder, replace_file

if TYPE_CHECKING:
    from lego_mlir.tuning.candidates import SearchSpace, Timing
    from lego_mlir.tuning.recipes import TuningRecipe
    from lego_mlir.tuning.tunable import Tunable
    from lego_mlir.tuning.work_units import SizedProblem
    from lego_mlir.tuning.workbench import Workbench


def run_folder(args: argparse.Namespace) -> int:
    """Measure packed candidates; 1 if a size has no time."""
    from lego_mlir.tuning import packed
    from lego_mlir.tuning.time_budget import seconds_of

    found = packed.read(Path(args.spec))
    if found.python_files and not args.trust:
        raise UsageError(
            f"{args.spec} has Python text that measuring runs with your rights ({found.python_files[0]} and "
            f"{len(found.python_files) - 1} more); read it, and give --trust if you trust who made the folder"
        )
    if args.size or args.kernel or args.pack:
        raise UsageError(
            "a folder of packed candidates has its sizes and its tunable; leave out --size, --kernel, --pack"
        )
    if tune_cluster.wanted(args):
        raise UsageError(
            "packed candidates are measured on the GPUs of this machine, as many as --gpus names; leave out "
            "--scheduler and --local-cluster"
        )
    workbenches = [found.workbench(device) for device in range(args.gpus)]
    budget = args.budget or found.budget
    seconds = seconds_of(budget) if budget else None
    timings = _measured(args, found.tunable, found.problems, workbenches, seconds)
    if args.export:
        _export(Path(args.export), found.tunable, found.space, timings, found.recipe)
    return _shown(args, found.tunable, found.problems, timings)


def run_recipe(args: argparse.Namespace) -> int:
    """Measure the sizes of a recipe, or pack their candidates, and write its choices."""
    from lego_mlir.tuning import recipes
    from lego_mlir.tuning.cpu_workbench import is_structured, workbench_for
    from lego_mlir.tuning.time_budget import seconds_of
    from lego_mlir.tuning.work_units import SizedProblem

    recipe = recipes.read(Path(args.spec))
    files.require_place(args.export or str(recipe.export), "--export")
    if args.size or args.kernel:
        raise UsageError(f"{recipe.path} has the sizes and the tunable; leave out --size and --kernel")
    tunable = _tunable(recipe)
    problems = []
    for sizes in recipe.sizes:
        space = pruned(tunable, sizes)
        space.require_some(tunable.name)
        problems.append(SizedProblem(space.kept, sizes))
    if args.pack:
        return pack(args, tunable, problems, recipe)
    budget = args.budget or recipe.budget
    seconds = None if budget is None else seconds_of(budget)
    if tune_cluster.wanted(args):
        timings = tune_cluster.measured_on_cluster(args, tunable.name, problems, seconds)
    else:
        first = problems[0].candidates[0]
        workbenches = [workbench_for(first, device) for device in range(1 if is_structured(first) else args.gpus)]
        timings = _measured(args, tunable.name, problems, workbenches, seconds, tunable.space)
    _export(Path(args.export or recipe.export), tunable.name, tunable.space.digest, timings, recipe.digest)
    return _shown(args, tunable.name, problems, timings)


def pack(
    args: argparse.Namespace, tunable: Tunable, problems: Sequence[SizedProblem], recipe: TuningRecipe | None = None
) -> int:
    """Compile candidates into a folder for `run_folder`; those of a recipe with its digest and budget."""
    from lego_mlir.tuning import packed
    from lego_mlir.tuning.gpu_workbench import Preparing, is_template, template_toolchain, toolchain

    if not args.target:
        raise UsageError("--pack compiles for the target of another machine; name it, such as --target sm_90")
    digest = (template_toolchain if is_template(problems[0].candidates[0]) else toolchain)(args.target)
    preparing, done = Preparing(args.target, small=True), 0
    total = sum(len(problem.candidates) for problem in problems)
    of = ("", "") if recipe is None else (recipe.digest, recipe.budget or "")

    def another() -> None:
        nonlocal done
        done += 1
        progress.update("compiled", done=done, total=total)

    with Progress(f"packing {tunable.name}") as progress:
        found = packed.write(Path(args.pack), tunable, problems, args.target, digest, preparing.trial, another, *of)
    rows = [row for job in found.rows for row in job["candidates"]]
    failed = [row for row in rows if "failure" in row]
    print(f"{args.pack}: {len(found.rows)} sizes, {len(rows)} candidates, {len(failed)} of them failed to compile")
    for reason in preparing.uncarried.values():
        print(f"its check travels as data, not as code: {reason}")
    return 0 if len(failed) < len(rows) else 1


def _tunable(recipe: TuningRecipe) -> Tunable:
    from lego_mlir import spec

    return spec.load(str(recipe.spec)).tunable_named(recipe.tunable)


def _measured(
    args: argparse.Namespace,
    name: str,
    problems: Sequence[SizedProblem],
    workbenches: Sequence[Workbench],
    seconds: float | None,
    space: SearchSpace | None = None,
) -> list[list[Timing]]:
    """The timings of each size, stored as they come."""
    from lego_mlir.tuning.several_devices import halve_on_devices
    from lego_mlir.tuning.timings import TimingStore

    store, done = TimingStore(args.store), 0
    total = sum(len(problem.candidates) for problem in problems)
    known = store.timings(tunable=name, toolchain=workbenches[0].toolchain) if args.resume else []

    def stored(timing: Timing) -> None:
        nonlocal done
        done += 1
        store.add([timing])
        progress.update("measured", done=done, total=total)

    with Progress(f"tuning {name}") as progress:
        return halve_on_devices(
            workbenches, name, problems, seconds=seconds, known=known, on_timing=stored, space=space
        )  # fmt: skip


def _export(path: Path, name: str, space: str, timings: Sequence[Sequence[Timing]], recipe: str) -> None:
    from lego_mlir.tuning.config_lookup import best_rows, choices_to_text

    rows = best_rows([timing for found in timings for timing in found])
    if not rows:
        raise SpecError(f"{name}: no candidate has a time, so there is no choice to export")
    replace_file(path, choices_to_text(name, space, rows, recipe).encode())


def write_caches(folder: Path, timings: Sequence[Sequence[Timing]]) -> None:
    """A cache file of Kernel Tuner for each size: tunable-N1000.json."""
    from lego_mlir.tuning import kernel_tuner

    make_folder(folder)
    for measured in timings:
        if measured:
            sizes = "".join(f"-{name}{n}" for name, n in measured[0].sizes.items())
            kernel_tuner.write(folder / f"{measured[0].tunable}{sizes}.json", measured)


def _shown(
    args: argparse.Namespace, name: str, problems: Sequence[SizedProblem], timings: Sequence[Sequence[Timing]]
) -> int:
    """Write cache files if wanted, and print the best of each size, or what measuring left; 1 if a size has none."""
    if args.kernel_tuner:
        write_caches(Path(args.kernel_tuner), timings)
    if args.autotune:
        from lego_mlir.tuning.autotune import autotune_text, survivors

        print(autotune_text(survivors(timings), list(problems[0].sizes)))
        return 0 if all(any(not t.failure for t in found) for found in timings) else 1
    rows: list[Json] = []
    for problem, found in zip(problems, timings, strict=True):
        good = [timing for timing in found if not timing.failure]
        best = min(good, key=lambda timing: timing.median, default=None)
        rows.append({
            "sizes": dict(problem.sizes), "measured": len(good), "failed": len(found) - len(good),
            "configuration": best and best.configuration.to_data(), "us": best and best.median,
            "device": best and best.device, "key": best.configuration.key if best else "none has a time",
        })  # fmt: skip
    if args.json:
        print_json(args.command, {"tunable": name, "sizes": rows})
    else:
        cells = [
            (" ".join(f"{size}={n}" for size, n in row["sizes"].items()), row["key"],
             f"{row['us']:.4g}" if row["us"] else "", row["measured"], row["failed"])
            for row in rows
        ]  # fmt: skip
        show(f"{name}: {len(rows)} sizes", ResultTable(("sizes", "fastest", "us", "measured", "failed"), cells))
    return 0 if all(row["us"] for row in rows) else 1
