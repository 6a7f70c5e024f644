"""Timing on the GPU: CUDA events, 25 warm-ups, 100 repetitions, the median with its spread, and the clocks.

All contestants of a comparison are timed in one run, in turns, so that a change of clocks meets all of them. Between
repetitions the second-level cache is overwritten where `cold` says so.
"""

from __future__ import annotations

import datetime
import json
import statistics
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

WARM_UP, REPETITIONS = 25, 100
RESULTS = Path(__file__).parent / "results"


def circumstances() -> dict[str, Any]:
    """Device, driver, clocks and library versions."""
    import cupy as cp

    device = cp.cuda.runtime.getDeviceProperties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit", "--format=csv"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    versions = {"cupy": cp.__version__}
    for package in ("torch", "triton"):
        try:
            versions[package] = __import__(package).__version__
        except ImportError:
            versions[package] = None
    return {
        "kind": "measured",
        "device": device["name"].decode(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "clocks": done.stdout.strip() or done.stderr.strip(),
        "versions": versions,
        "warm_up": WARM_UP,
        "repetitions": REPETITIONS,
    }


def compare(
    contestants: Mapping[str, Callable[[], Any]], *, repetitions: int = REPETITIONS, cold: bool = False
) -> dict[str, dict[str, float]]:
    """Milliseconds of each: median, quartiles and least. Contestants take turns within every repetition."""
    import cupy as cp

    scratch = cp.empty(256 * 1024 * 1024, dtype="uint8") if cold else None
    for _ in range(WARM_UP):
        for run in contestants.values():
            run()
    cp.cuda.Device().synchronize()
    events: dict[str, list[Any]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, run in contestants.items():
            if scratch is not None:
                scratch.fill(0)
            start, end = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            run()
            end.record()
            events[name].append((start, end))
    cp.cuda.Device().synchronize()
    return {
        name: summary([cp.cuda.get_elapsed_time(start, end) for start, end in pairs]) for name, pairs in events.items()
    }


def summary(times: list[float]) -> dict[str, float]:
    """The median with quartiles and the least.

    >>> summary([1.0, 2.0, 3.0, 4.0, 5.0])
    {'median': 3.0, 'lower': 1.5, 'upper': 4.5, 'least': 1.0}
    """
    lower, median, upper = statistics.quantiles(times, n=4)
    return {"median": median, "lower": lower, "upper": upper, "least": min(times)}


def write(name: str, rows: list[dict[str, Any]]) -> Path:
    """`results/<gpu>/<date>-<name>.json`: the circumstances, then the rows."""
    head = circumstances()
    folder = RESULTS / head["device"].replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{head['date'][:10]}-{name}.json"
    lines = ",\n  ".join(map(json.dumps, rows))
    path.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n  {lines}\n]}}\n')
    return path


def latest(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The newest measured results of this name, circumstances and rows; None where nothing was measured."""
    found = sorted(RESULTS.glob(f"*/????-??-??-{name}.json"), key=lambda path: path.name)
    if not found:
        return None
    data = json.loads(found[-1].read_text())
    return data, data["rows"]


def put_into(document: Path, marker: str, text: str) -> None:
    """Replace what stands between `<!-- marker -->` and `<!-- end -->` in a document."""
    before, found, rest = document.read_text().partition(f"<!-- {marker} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not found or not end:
        raise SystemExit(f"{document} has no <!-- {marker} --> .. <!-- end -->")
    document.write_text(f"{before}{found}{text}{end}{after}")
