"""`lego-mlir bench`: one configuration of a kernel against its reference and the rivals that the spec names.

A spec names rivals in a variable `rivals`: a dictionary from names to functions of the kernel's input arrays, or one
such dictionary for each kernel. Each is checked against the kernel's reference before it is timed.

`--counters` names metrics of Nsight Compute. They are counted in launches that are not timed, in a process under ncu.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Json, Returned
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.terminal import ResultTable, show
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime.manifest import sizes_of

if TYPE_CHECKING:
    from lego_mlir.spec import Spec
    from lego_mlir.tracing.definition.program import Runnable
    from lego_mlir.tuning.baselines import RivalTime
    from lego_mlir.tuning.profiler import CountedLaunch

HELP: Final = "Time one configuration against the references and rivals of a spec."
EXAMPLE: Final = "lego-mlir bench examples/tuned_transpose.py --size M=1024 --size N=2048 --on cpu"
RIVALS: Final = "rivals"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("spec", help="the spec, a Python file")
    parser.add_argument("--kernel", metavar="NAME", help="a kernel, a program or a tunable of the spec")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a size, such as M=4096")
    parser.add_argument(
        "--configuration", metavar="NAME=VALUE ..", help="of a tunable, this one instead of the chosen one"
    )
    parser.add_argument("--choices", metavar="FILE", help="of a tunable, choices exported by lego-mlir tune")
    parser.add_argument("--on", choices=("cpu", "cuda"), default="cuda", help="where to run (default: cuda)")
    parser.add_argument("--budget", metavar="TIME", default="2s", help="time for all turns (default: %(default)s)")
    parser.add_argument(
        "--counters", metavar="METRIC,..", help="count these metrics of Nsight Compute, such as dram__bytes_read.sum"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the times; return 1 if the kernel failed or is wrong."""
    from lego_mlir import spec
    from lego_mlir.tuning.baselines import compared
    from lego_mlir.tuning.time_budget import seconds_of

    seconds = seconds_of(args.budget)
    if args.counters and args.on != "cuda":
        raise UsageError("--counters are those of a GPU; omit them, or --on cpu")
    loaded = spec.load(args.spec)
    sizes = sizes_of(args.size)
    with spec.blame(*loaded.files):
        shown, kernel, call = _contender(args, loaded, sizes)
        rivals = rivals_of(loaded, args.kernel or kernel.name)
        with Progress(f"timing {shown}"):
            rows = compared(kernel, call, rivals, sizes, on=args.on, seconds=seconds)
        counted = _counted(args.counters.split(","), call, sizes) if args.counters else []
    if args.json:
        found: Json = {"kernel": shown, "sizes": sizes, "on": args.on, "rows": [row.to_data() for row in rows]}
        if args.counters:
            found["counters"] = [{"kernel": launch.kernel, **launch.counts} for launch in counted]
        print_json(args.command, found)
    else:
        cells = [(launch.kernel, name, f"{n}") for launch in counted for name, n in launch.counts.items()]
        show(*_text(shown, args.on, rows), *([ResultTable(("launch", "metric", "count"), cells)] if cells else []))
    return 1 if rows[0].failure else 0


def _counted(metrics: Sequence[str], built: object, sizes: Mapping[str, int]) -> list[CountedLaunch]:
    """What Nsight Compute counts of a launch at these sizes, with the data of its check."""
    from lego_mlir.runtime.calls import target_for
    from lego_mlir.runtime.driver import driver
    from lego_mlir.tuning import profiler
    from lego_mlir.tuning.candidates import Candidate, Configuration
    from lego_mlir.tuning.gpu_workbench import Preparing

    preparing = Preparing(target_for(driver().capability(0)))  # its folder is removed with it
    trial = preparing.trial(Candidate(Configuration.of({}), lambda: built), sizes)
    with Progress("counting"):
        return profiler.count(trial, {name.strip(): name.strip() for name in metrics})


def _contender(
    args: argparse.Namespace, loaded: Spec, sizes: Mapping[str, int]
) -> tuple[str, Runnable, Callable[..., Returned]]:
    """The name, the kernel and the call of what is timed."""
    from lego_mlir.tracing.definition.program import KernelProgram
    from lego_mlir.tuning.building import kernel_of

    if loaded.tunables and (args.kernel in (None, *loaded.tunables)):
        tunable = loaded.tunable_named(args.kernel)
        if args.choices:
            tunable.load(args.choices)
        at = {name: n for name, n in sizes.items() if name in tunable.key}
        configuration = args.configuration or tunable.choose(at).configuration
        candidate = tunable.candidate(configuration, at)
        built = candidate.built
        kernel = built if isinstance(built, KernelProgram) else kernel_of(built)
        if kernel is None:
            raise UsageError(
                f"{tunable.name}: a {type(built).__name__} is not called on arrays; name a function that launches it "
                "among the rivals of a spec with a kernel"
            )
        return f"{tunable.name}, {candidate.configuration}", kernel, built  # type: ignore[return-value]
    for option in ("configuration", "choices"):
        if getattr(args, option):
            raise UsageError(f"--{option} applies to a tunable, and {args.kernel or loaded.path} is none; omit it")
    runnable = loaded.runnable(args.kernel)
    if len(runnable) > 1:
        raise SpecError(
            f"{loaded.path}: {len(runnable)} kernels; name one with --kernel: {', '.join(r.name for r in runnable)}"
        )
    return runnable[0].name, runnable[0], runnable[0]


def rivals_of(loaded: Spec, name: str) -> Mapping[str, Callable[..., Returned]]:
    """The rivals that the spec names for a kernel. Raises SpecError for anything but functions by name."""
    given = loaded.names.get(RIVALS, {})
    if isinstance(given, Mapping) and isinstance(given.get(name), Mapping):
        given = given[name]
    if not isinstance(given, Mapping) or not all(callable(rival) for rival in given.values()):
        raise SpecError(
            f"{loaded.path}: {RIVALS} maps names to functions of the input arrays, such as "
            "{'NumPy': lambda x: x.T.copy()}, or the name of a kernel to such a dictionary"
        )
    return {str(rival): function for rival, function in given.items()}


def _text(shown: str, on: str, rows: list[RivalTime]) -> list[str | ResultTable]:
    ours = rows[0].median
    cells = [
        (
            row.name, f"{row.median:.4g}", f"{row.quartiles[0]:.4g} to {row.quartiles[1]:.4g}",
            f"{row.median / ours:.2f}" if ours else "", f"{row.error:.2g}",
        )
        for row in rows
        if row.median is not None and row.quartiles is not None and row.error is not None
    ]  # fmt: skip
    header = ("contender", "median us", "quartiles", "of ours", "error")
    table = [ResultTable(header, cells)] if cells else []
    return [f"{shown}, on {on}", *table, *(f"  {row.name}: {row.failure}" for row in rows if row.failure)]
