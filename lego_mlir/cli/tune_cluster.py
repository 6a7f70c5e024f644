"""`lego-mlir tune --scheduler ADDRESS` and `--local-cluster`: the candidates are measured on the workers of Dask."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lego_mlir.cli.progress import Progress
from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.tuning.candidates import Timing
    from lego_mlir.tuning.cluster import ClusterProgress
    from lego_mlir.tuning.work_units import SizedProblem


def wanted(args: argparse.Namespace) -> bool:
    """Whether the command line names a cluster."""
    return bool(args.scheduler) or args.local_cluster is not None


def measured_on_cluster(
    args: argparse.Namespace, name: str, problems: Sequence[SizedProblem], budget: float | None
) -> list[list[Timing]]:
    """The timings of what pruning left, for each size, stored as they arrive.

    Raises UsageError for structured programs, which are measured on the CPU of one machine.
    """
    from lego_mlir.tuning import cluster, cluster_tuning
    from lego_mlir.tuning.cpu_workbench import is_structured
    from lego_mlir.tuning.gpu_workbench import is_template
    from lego_mlir.tuning.timings import TimingStore

    first = problems[0].candidates[0]
    if is_structured(first):
        raise UsageError(
            f"{name}: structured programs are measured on the CPU of this machine; leave out --scheduler and "
            "--local-cluster"
        )
    store = TimingStore(args.store)
    known = store.timings(tunable=name) if args.resume else []
    started = (
        cluster.connected(args.scheduler)
        if args.scheduler
        else cluster.local_cluster(os.cpu_count() or 1, measuring=args.local_cluster)
    )
    with Progress(f"tuning {name}") as progress, started as client:

        def shown(state: ClusterProgress) -> None:
            progress.update(str(state))

        return cluster_tuning.halve_on(
            client, name, problems, seconds=budget, known=known, on_timing=lambda timing: store.add([timing]),
            on_progress=shown, build=cluster_tuning.gpu_build,
            identify=cluster_tuning.template_device if is_template(first) else cluster_tuning.gpu_device,
        )  # fmt: skip
