"""Cache files of Kernel Tuner, read and written: timings of CUDA templates for its dashboard and its simulations.

A cache file is one JSON object for one kernel, problem size and device. `cache` has an entry for each configuration,
under its values separated by commas; times are in milliseconds, and a configuration that failed has the name of an
error in place of a time. Kernel Tuner appends entries while it runs, so a file that is not closed is read as well:

>>> found = from_text('{"device_name": "A100", "kernel_name": "f", "problem_size": [64], "tune_params_keys": ["x"],'
...     '"tune_params": {"x": [1, 2]}, "objective": "time", "cache": {"1": {"x": 1, "time": 0.5},')
>>> [(str(timing.configuration), timing.median) for timing in found]
[('x=1', 500.0)]

The format is that of `kernel_tuner/schema/cache` (JSON schema), versions 1.0.0 and 1.1.0. What it requires and a timing
does not have, the times of compilation, verification and strategy, is written as 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.store import from_json, replace_file
from lego_mlir.tuning.candidates import Configuration, Timing

WRITTEN: Final = "1.1.0"
READ: Final = ("1.0.0", "1.0.1", "1.1.0")
INVALID: Final = "InvalidConfig"
FAILED: Final = "RuntimeFailedConfig"
FAILURES: Final = {
    INVALID: "refused: Kernel Tuner found the configuration invalid",
    "CompilationFailedConfig": "refused: Kernel Tuner could not compile it",
    FAILED: "crashed: Kernel Tuner could not run it",
}
UNKNOWN_TIMES: Final = ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time")


def write(path: str | Path, timings: Sequence[Timing]) -> None:
    """Write timings of one tunable, device and size as a cache file. Raises UsageError for timings of several."""
    replace_file(Path(path), (to_text(timings) + "\n").encode())


def to_text(timings: Sequence[Timing]) -> str:
    """The cache file of timings; of two of one configuration the later one counts."""
    if not timings:
        raise UsageError("no timings to write as a cache file of Kernel Tuner; tune the kernel first")
    several = {(t.tunable, t.device, tuple(sorted(t.sizes.items())), tuple(t.configuration)) for t in timings}
    if len(several) > 1:
        raise UsageError(
            "a cache file of Kernel Tuner is for one kernel, device, problem size and list of parameters, and these "
            f"timings are of {len(several)}; select those of one, and write a file for each"
        )
    first = timings[0]
    rows = [(_plain(timing.configuration), timing) for timing in timings]
    values: dict[str, list[object]] = {name: [] for name in first.configuration}
    for plain, _ in rows:
        for name, value in plain.items():
            if value not in values[name]:
                values[name].append(value)
    data = {
        "schema_version": WRITTEN, "device_name": first.device, "kernel_name": first.tunable,
        "problem_size": list(first.sizes.values()), "tune_params_keys": list(values), "tune_params": values,
        "objective": "time", "cache": {",".join(map(str, plain.values())): _entry(plain, t) for plain, t in rows},
    }  # fmt: skip
    return json.dumps(data, indent=1)


def _plain(configuration: Configuration) -> dict[str, object]:
    """Values that JSON and a key have: tuples, layouts and orders by their text."""
    return {
        name: value if isinstance(value, int | float | str) else str(value) for name, value in configuration.items()
    }  # fmt: skip


def _entry(plain: dict[str, object], timing: Timing) -> Json:
    failed = INVALID if timing.failure.startswith("refused") else FAILED
    return {
        **plain, "time": timing.median / 1000 if math.isfinite(timing.median) else failed,
        **dict.fromkeys(UNKNOWN_TIMES, 0), "timestamp": timing.when,
    }  # fmt: skip


def read(path: str | Path) -> list[Timing]:
    """The timings of a cache file. Raises SpecError for a file of another kind or version."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: the cache file cannot be read ({error})") from error
    return from_text(text, str(path))


def from_text(text: str, origin: str = "the cache file") -> list[Timing]:
    """The timings of a cache file's text. They have no digests, so they are stale for any kernel here.

    The sizes are named size_0, size_1, ..; entries without a time in milliseconds are failures.
    """
    data = _data(text, origin)
    try:
        names, sizes = data["tune_params_keys"], data["problem_size"]
        sized = sizes if isinstance(sizes, list) else [sizes]
        named = {f"size_{axis}": n for axis, n in enumerate(sized) if isinstance(n, int)}
        return [_timing(data, {name: entry[name] for name in names}, named, entry) for entry in data["cache"].values()]
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{origin}: not a cache file of Kernel Tuner ({error!r})") from error


def _data(text: str, origin: str) -> Json:
    """The object of a file, closed if Kernel Tuner was still writing."""
    stripped = text.rstrip().rstrip(",")
    for closed in (stripped, stripped + "}}"):
        try:
            data = from_json(closed)
            break
        except ValueError:
            continue
    else:
        raise SpecError(f"{origin}: not a cache file of Kernel Tuner: it is not JSON")
    version = data.get("schema_version", READ[0]) if isinstance(data, dict) else None
    if version not in READ:
        raise SpecError(f"{origin}: a cache file of Kernel Tuner of version {', '.join(READ)} is read, got {version}")
    return dict(data)


def _timing(data: Json, values: dict[str, object], sizes: dict[str, int], entry: Json) -> Timing:
    milliseconds = entry["time"]
    failure = FAILURES.get(milliseconds, f"crashed: {milliseconds}") if isinstance(milliseconds, str) else ""
    times = sorted(1000 * t for t in entry.get("times", ()))
    middle = math.inf if failure else 1000 * milliseconds
    quartiles = (times[len(times) // 4], times[3 * len(times) // 4]) if times else (middle, middle)
    return Timing(
        data["kernel_name"], Configuration.from_data(values), sizes, "", "", data["device_name"], 0, "", middle,
        quartiles, len(times), entry.get("timestamp", ""), failure,
    )  # fmt: skip
