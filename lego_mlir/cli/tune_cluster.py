"""`lego-mlir tune --scheduler ADDRESS` and `--local-cluster`: the candidates are measured on the workers of Dask."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lego_mlir.cli.progress import Progress

if TYPE_CHECKING:
    from lego_mlir.tuning.candidates import Timing
    from lego_mlir.tuning.cluster import ClusterProgress
    from lego_mlir.tuning.pruning import PrunedSpace
    from lego_mlir.tuning.tunable import Tunable


def measured_on_cluster(
    args: argparse.Namespace, tunable: Tunable, sizes: Mapping[str, int], space: PrunedSpace, budget: float | None
) -> Sequence[Timing]:
    """The timings of what pruning left, stored as they arrive."""
    from lego_mlir.tuning import cluster, cluster_tuning
    from lego_mlir.tuning.sized import SizedProblem
    from lego_mlir.tuning.timings import TimingStore

    store, at = TimingStore(args.store), {name: int(sizes[name]) for name in tunable.key}
    known = store.timings(tunable=tunable.name, sizes=at) if args.resume else []
    started = (
        cluster.connected(args.scheduler)
        if args.scheduler
        else cluster.local_cluster(os.cpu_count() or 1, measuring=args.local_cluster)
    )
    with Progress(f"tuning {tunable.name}") as progress, started as client:

        def shown(state: ClusterProgress) -> None:
            progress.update(str(state))

        (timings,) = cluster_tuning.halve_on(
            client, tunable.name, [SizedProblem(space.kept, at)], seconds=budget, known=known,
            on_timing=lambda timing: store.add([timing]), on_progress=shown, identify=cluster_tuning.gpu_device,
            build=cluster_tuning.gpu_build,
        )  # fmt: skip
    tunable.remember(timings)
    return timings
