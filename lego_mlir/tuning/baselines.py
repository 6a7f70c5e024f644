"""One kernel against its rivals on the same arrays: results compared first, then all timed in turns.

A rival is a function of the kernel's input arrays that returns the results, named in a spec:

    rivals = {"NumPy": lambda x: x.T.copy(), "torch": lambda x: x.t().contiguous()}

On the CPU all get NumPy arrays. On a GPU they get PyTorch tensors, or CuPy arrays where PyTorch is not installed, and
times are those between events of the current stream. The kernel's own reference is a rival on the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array, Foreign, Json, Returned
from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.runtime import data

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.program import Runnable

Run = Callable[[], object]
SECONDS: Final = 2.0
ROUNDS: Final = 200
"""Turns at most; each contender has one run in a turn."""
FEWEST: Final = 5
FLUSHED_BYTES: Final = 2**30
TOLERANCE: Final = 1e-2
"""The largest error of a result, relative to the largest value, with which a rival is timed."""


@dataclass(frozen=True, slots=True)
class RivalTime:
    """A contender's time in microseconds, its error relative to the largest value, or why it has no time."""

    name: str
    median: float | None
    quartiles: tuple[float, float] | None
    repetitions: int
    error: float | None
    failure: str = ""

    def to_data(self) -> Json:
        """What `--json` prints."""
        quartiles = None if self.quartiles is None else list(self.quartiles)
        return {
            "name": self.name, "us": self.median, "quartiles": quartiles, "repetitions": self.repetitions,
            "error": self.error, "failure": self.failure,
        }  # fmt: skip


def compared(
    kernel: Runnable,
    run: Callable[..., Returned],
    rivals: Mapping[str, Callable[..., Returned]],
    sizes: Mapping[str, int],
    *,
    on: str = "cpu",
    seconds: float = SECONDS,
) -> list[RivalTime]:
    """The kernel, called as `run`, and its rivals. Raises UsageError for a kernel without a reference and no rival."""
    made = data.arguments(kernel, data.sizes_of_kernel(kernel, sizes), 0)
    inputs = [made.logical[p.name] for p in kernel.params if p.layout is None or p.read]
    contenders: dict[str, Callable[..., Returned]] = {kernel.name: run, **rivals}
    if kernel.name in rivals:
        raise UsageError(f"a rival has the kernel's name, {kernel.name}; give it another")
    expected: tuple[Array, ...] | None = None
    if kernel.expected is not None:
        results = data.expected(kernel, made.logical, made.sizes)
        expected = tuple(results.values())
        if on == "cpu":
            reference = kernel.expected
            taken = [p.name for p in kernel.params if p.layout is None or p.read]
            contenders.setdefault(
                "reference", lambda *arrays: reference(**_named(reference, taken, arrays, made.sizes))
            )
    if len(contenders) == 1:
        missing = (
            "give it a reference, or name some"
            if kernel.expected is None
            else "its reference runs on the CPU; name some"
        )
        raise UsageError(
            f"{kernel.name} has no rival: {missing} in the spec, such as rivals = {{'NumPy': lambda x: x.T.copy()}}"
        )
    device = _Host() if on == "cpu" else _Cuda()
    arrays = [device.put(value) if isinstance(value, np.ndarray) and value.ndim else value for value in inputs]
    runs: dict[str, Run] = {name: partial(f, *arrays) for name, f in contenders.items()}
    return _timed(runs, expected, device, seconds)


def _named(
    function: Callable[..., object], names: list[str], arrays: tuple[object, ...], sizes: Mapping[str, int]
) -> dict[str, object]:
    """The arguments that a reference takes."""
    import inspect

    known = {**sizes, **dict(zip(names, arrays, strict=True))}
    return {name: known[name] for name in inspect.signature(function).parameters if name in known}


def _timed(
    runs: Mapping[str, Run], expected: tuple[Array, ...] | None, device: _Host | _Cuda, seconds: float
) -> list[RivalTime]:
    """Check each contender against what is expected, else against the first; then time them in turns."""
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    for name, run in runs.items():
        try:
            results = device.get(run())
            expected = results if expected is None else expected
            errors[name] = _error(results, expected)
            if not errors[name] <= TOLERANCE:
                failures[name] = f"wrong by {errors[name]:.3g} of the largest value"
        except Exception as error:  # a rival is the user's code
            failures[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    samples: dict[str, list[float]] = {name: [] for name in runs if name not in failures}
    end = time.perf_counter() + seconds
    for turn in range(ROUNDS):
        if turn >= FEWEST and time.perf_counter() > end:
            break
        for name in samples:
            samples[name].append(device.seconds(runs[name]))
    return [_row(name, samples.get(name, []), errors.get(name), failures.get(name, "")) for name in runs]


def _row(name: str, samples: list[float], error: float | None, failure: str) -> RivalTime:
    if failure or not samples:
        return RivalTime(name, None, None, 0, error, failure)
    low, middle, high = quantiles([1e6 * s for s in samples], n=4)
    assert low <= middle <= high
    return RivalTime(name, 1e6 * median(samples), (low, high), len(samples), error)


def _error(results: tuple[Array, ...], expected: tuple[Array, ...]) -> float:
    """The largest error relative to the largest value. Raises UsageError for other shapes or another number."""
    if [r.shape for r in results] != [e.shape for e in expected]:
        shapes = ", ".join(str(r.shape) for r in results)
        raise UsageError(f"returned the shapes {shapes}, not {', '.join(str(e.shape) for e in expected)}")
    errors = [0.0]
    for result, wanted in zip(results, expected, strict=True):
        a, b = np.asarray(result, np.float64), np.asarray(wanted, np.float64)
        largest = float(np.abs(b).max(initial=0)) or 1.0
        errors.append(float(np.abs(a - b).max(initial=0)) / largest)
    return max(errors)


class _Host:
    """NumPy arrays, and the host's clock."""

    def put(self, value: Array) -> Foreign:
        return value

    def get(self, result: Returned) -> tuple[Array, ...]:
        return tuple(np.asarray(r) for r in (result if isinstance(result, tuple) else (result,)))

    def seconds(self, run: Run) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start


class _Cuda:
    """PyTorch tensors, or CuPy arrays, and events of the current stream.

    The L2 cache is flushed before each run. Writing that much takes longer than the host takes to enqueue a run, so the
    time between the events has no part of the host's.
    """

    def __init__(self) -> None:
        self.torch, self.cupy = _cuda_library()
        if self.torch is None:
            self.flushed = self.cupy.empty(FLUSHED_BYTES, "int8")
        else:
            self.flushed = self.torch.empty(FLUSHED_BYTES, dtype=self.torch.int8, device="cuda")

    def put(self, value: Array) -> Foreign:
        if value.dtype.name != "bfloat16":
            return self.cupy.asarray(value) if self.torch is None else self.torch.from_numpy(value).cuda()
        if self.torch is None:
            raise DependencyError("CuPy has no bfloat16; install PyTorch to time a kernel that takes it")
        return self.torch.from_numpy(value.view("int16")).cuda().view(self.torch.bfloat16)

    def get(self, result: Returned) -> tuple[Array, ...]:
        results = result if isinstance(result, tuple) else (result,)
        if self.torch is None:
            return tuple(r.get() for r in results)
        host = (r.detach().cpu() for r in results)
        return tuple((r.float() if r.dtype == self.torch.bfloat16 else r).numpy() for r in host)

    def seconds(self, run: Run) -> float:
        if self.torch is None:
            begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            self.flushed.fill(0)
        else:
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flushed.zero_()
        begin.record()
        run()
        end.record()
        end.synchronize()
        if self.torch is None:
            return float(self.cupy.cuda.get_elapsed_time(begin, end)) / 1e3
        return float(begin.elapsed_time(end)) / 1e3


def _cuda_library() -> tuple[Foreign, Foreign]:
    """PyTorch with a device, else CuPy. Raises DependencyError with the remedy."""
    from importlib.util import find_spec

    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return torch, None
    from lego_mlir.runtime import cuda

    try:
        return None, cuda.cupy()
    except DependencyError as error:
        raise DependencyError(f"nothing was timed: {error}; without a GPU, --on cpu times NumPy and the CPU") from error
