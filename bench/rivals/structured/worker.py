"""Times one plan in one process: every entry checked first, then all entries of a point in turn, round after round.

The plan (JSON, from bench/structured.py) names shared libraries and symbols; nothing of lego_mlir is imported here, so
that a library which patches the process (MKL made to take its AVX-512 kernels) meets no compiler.

A virtual processor may share a core with somebody else's work, which halves some codes' speed and not others'. So a
timing counts only if the core was seen to be this process's own before and after it; what does not count is repeated.
"""

import ctypes
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROUNDS = 30
WARM_UP = 3
ROUND_NANOSECONDS = 20_000
CALIBRATION_SECONDS = 2.0
QUIET = 1.1  # times what an uncrowded core's probe takes; with a neighbour it is 1.2 and more
PATIENCE_SECONDS = 20.0  # for one point, after which crowded timings count as well
COPIES = 8  # sets of arguments that are rotated, so that an in-place call does not wait for its own last store,
COPIED_BYTES = 24_000  # as long as all of them together stay in the first cache

# case: the arrays in the order of the call, the first of which is written
SHAPES = {
    "dsyrk": {"S": "symmetric upper", "A": "tall"},
    "dtrsv": {"x": "vector", "L": "lower"},
    "dlusmm": {"A": "square", "L": "lower", "U": "upper", "S": "symmetric lower"},
    "dsylmm": {"A": "square", "S": "symmetric upper", "L": "lower"},
    "composite": {"A": "square", "L0": "lower", "L1": "lower", "S": "symmetric lower", "x": "vector"},
}


def make(kind, n, dtype, random):
    """One array; what a structure does not store is zero, which rivals need and we never read."""
    if kind == "vector":
        return random.uniform(-1, 1, n).astype(dtype)
    if kind == "tall":
        return random.uniform(-1, 1, (n, 4)).astype(dtype)
    full = random.uniform(-1, 1, (n, n)) / n
    full[np.arange(n), np.arange(n)] = random.choice([-1.0, 1.0], n)  # solves in place neither grow nor vanish
    if "upper" in kind:
        full = np.triu(full)
    elif "lower" in kind:
        full = np.tril(full)
    return full.astype(dtype)


def aligned(array):
    """A copy that starts at a cache line and has one to itself behind it."""
    memory = np.zeros(array.nbytes + 192, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def mirrored(half):
    return half + half.T - np.diag(np.diag(half))


def expected(case, a):
    """The result in double precision; of dsyrk, the upper half."""
    a = {name: array.astype(np.float64) for name, array in a.items()}
    if case == "dsyrk":
        return np.triu(a["A"] @ a["A"].T + a["S"])
    if case == "dtrsv":
        return np.linalg.solve(a["L"], a["x"])
    if case == "dlusmm":
        return a["L"] @ a["U"] + mirrored(a["S"])
    if case == "dsylmm":
        return mirrored(a["S"]) @ a["L"] + a["A"]
    return (a["L0"] + a["L1"]) @ mirrored(a["S"]) + np.outer(a["x"], a["x"])


class Machine:
    """The core that this process runs on: calls timed, and whether it is alone there."""

    def __init__(self, library):
        self.library = library
        for name in ("time_calls", "cycle", "crowding"):
            getattr(library, name).restype = ctypes.c_double
        library.time_calls.argtypes = [
            ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_long,
        ]  # fmt: skip
        probes, end = [], time.perf_counter() + CALIBRATION_SECONDS
        while time.perf_counter() < end:
            probes.append(library.crowding())
        self.alone = QUIET * sorted(probes)[len(probes) // 50]

    def quiet(self):
        return self.library.crowding() <= self.alone


class Point:
    """One case at one size and type, with its entries."""

    def __init__(self, plan, libraries, machine):
        self.case, self.n, self.dtype = plan["case"], plan["n"], np.dtype(plan["dtype"])
        self.machine = machine
        random = np.random.default_rng(self.n)
        first = {name: make(kind, self.n, self.dtype, random) for name, kind in SHAPES[self.case].items()}
        self.copies = max(
            1, min(plan.get("copies", COPIES), COPIED_BYTES // sum(array.nbytes for array in first.values()))
        )
        self.sets = [{name: aligned(array) for name, array in first.items()} for _ in range(self.copies)]
        self.fresh = [{name: array.copy() for name, array in one.items()} for one in self.sets]
        flat = [array.ctypes.data for one in self.sets for array in one.values()]
        self.pointers = (ctypes.c_void_p * len(flat))(*flat)
        self.arity = len(SHAPES[self.case])
        self.entries = []
        for entry in plan["entries"]:
            library = libraries[entry["library"]]
            function = ctypes.cast(getattr(library, entry["symbol"]), ctypes.c_void_p)
            self.entries.append((entry["name"], function, entry.get("blas"), library))

    def select(self, blas, library):
        if blas is not None:
            library.choose_blas(blas, self.n)

    def restore(self):
        for used, fresh in zip(self.sets, self.fresh, strict=True):
            for name, array in used.items():
                array[...] = fresh[name]

    def run(self, function, repeats):
        return self.machine.library.time_calls(function, self.arity, self.pointers, self.copies, repeats)

    def wrong(self, function):
        """The relative error of one call."""
        self.restore()
        self.run(function, 1)
        name = next(iter(self.sets[0]))
        want, got = expected(self.case, self.fresh[0]), self.sets[0][name].astype(np.float64)
        if self.case == "dsyrk":
            got = np.triu(got)
        return float(np.abs(got - want).max() / np.abs(want).max())

    def measure(self):
        tolerance = 1e-12 if self.dtype == np.float64 else 1e-4
        result = {"case": self.case, "n": self.n, "dtype": self.dtype.name, "entries": {}}
        good = []
        for name, function, blas, library in self.entries:
            self.select(blas, library)
            error = self.wrong(function)
            if error > tolerance:
                result["entries"][name] = {"wrong": error}
                continue
            taken = max(min(self.run(function, 20) for _ in range(5)), 1.0)
            good.append((name, function, blas, library, max(int(ROUND_NANOSECONDS / taken), 4)))
        times, cycles, crowded = self.rounds(good)
        result |= {"cycle_ns": statistics.median(cycles), "crowded": crowded}
        for name, values in times.items():
            low, middle, high = statistics.quantiles(values, n=4)
            result["entries"][name] = {"ns": middle, "quartiles": [low, high]}
        return result

    def rounds(self, good):
        """Times of every entry, all entries in turn, and of a cycle; how many had to be taken on a crowded core."""
        times, cycles = {name: [] for name, *_ in good}, []
        crowded, end = 0, time.perf_counter() + PATIENCE_SECONDS
        while len(cycles) < ROUNDS or min(map(len, times.values())) < WARM_UP + ROUNDS:
            patient = time.perf_counter() < end
            before, cycle = self.machine.quiet(), self.machine.library.cycle()
            if not patient or (before and self.machine.quiet()):
                cycles.append(cycle)
            for name, function, blas, library, repeats in good:
                if len(times[name]) == WARM_UP + ROUNDS:
                    continue
                self.select(blas, library)
                self.restore()
                before = self.machine.quiet()
                taken = self.run(function, repeats)
                alone = before and self.machine.quiet()
                if alone or not patient:
                    times[name].append(taken)
                    crowded += not alone
        return {name: taken[WARM_UP:] for name, taken in times.items()}, cycles, crowded


def main():
    plan = json.loads(Path(sys.argv[1]).read_text())
    machine = Machine(ctypes.CDLL(plan["timing"]))
    with tempfile.TemporaryDirectory() as folder:  # a loaded library stays, without its file
        libraries = {name: ctypes.CDLL(shutil.copy(path, folder)) for name, path in plan["libraries"].items()}
    for number, (path, prefix) in enumerate(plan["blas"]):
        code = libraries["blas"].load_blas(number, path.encode(), prefix.encode())
        if code:
            raise SystemExit(f"{path}: could not be loaded as a BLAS ({code})")
    results = []
    for at, point in enumerate(plan["points"]):
        results.append(Point(point, libraries, machine).measure())
        if sys.stderr.isatty():
            print(f"\r{at + 1}/{len(plan['points'])} {time.strftime('%H:%M:%S')}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
