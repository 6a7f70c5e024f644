"""The functions of kernels on a real GPU: the largest error of each in ulps, against NumPy in double precision.

    python test/hardware/functions.py render   where lego_mlir is: one PTX file, a kernel for each function and type
    python test/hardware/functions.py run      on the GPU machine, which needs NumPy and CuPy

`pytest --long` runs the same kernels on the processor. Inputs are random bit patterns, so that every magnitude occurs,
numbers around 1, and zeros, infinities and NaN. Results go to bench/results/<device>/<date>-functions.json. Exit code 1
if a function exceeds the bound of docs/reference/kernels.md, or an infinity, a NaN or a conversion differs.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import harness
import mlir_kernels
import runner

from lego_mlir.runtime import f8
from lego_mlir.runtime.comparing import FLOATS as TYPES
from lego_mlir.runtime.comparing import STORED, is_f8, numbers, ulp

NAME, TARGET, N, T = "functions", "sm_80", 1 << 20, 256
FLOATS: Final = ("f16", "bf16", "f32")
EDGE: Final = 2.0**-8  # around the largest number of a type: there infinity is right as well
LIBRARY: Final = 0.5  # ulps by which the C library may exceed the bounds of the GPU
RANGE: Final = {"tan": 2.0**30, "sin": 2.0**30, "cos": 2.0**30}  # the arguments that a bound holds for
Numpy = Callable[..., Any]
# The reference, and the bound in ulps of f32; a 16-bit result is rounded once more.
FUNCTIONS: Final[dict[str, tuple[Numpy, float]]] = {
    "floor": (np.floor, 0), "ceil": (np.ceil, 0), "round": (np.rint, 0), "trunc": (np.trunc, 0), "sign": (np.sign, 0),
    "exp": (np.exp, 2), "exp2": (np.exp2, 2), "expm1": (np.expm1, 2), "log": (np.log, 1), "log2": (np.log2, 2),
    "log1p": (np.log1p, 1), "sqrt": (np.sqrt, 0.5), "rsqrt": (lambda x: 1 / np.sqrt(x), 2), "tanh": (np.tanh, 2),
    "sinh": (np.sinh, 3), "cosh": (np.cosh, 3), "sin": (np.sin, 2), "cos": (np.cos, 2), "tan": (np.tan, 3),
    "asin": (np.arcsin, 2), "acos": (np.arccos, 2), "atan": (np.arctan, 2),
    "erf": (lambda x: np.array([math.erf(v) for v in x]), 3),
}  # fmt: skip
OF_TWO: Final[dict[str, tuple[Numpy, float]]] = {
    "pow": (np.power, 2), "atan2": (np.arctan2, 2), "copysign": (np.copysign, 0), "minimum": (np.minimum, 0),
}  # fmt: skip
CONVERSIONS: Final = [(a, b) for a in (*FLOATS, "f8e4m3fn", "f8e5m2") for b in ("f8e4m3fn", "f8e5m2", "f32") if a != b]


def kernel_of(name: str, types: tuple[str, ...], function: Callable[..., Any]) -> Any:
    """`y[i] = function(x[i], ..)`: the last type is that of y."""
    import lego_mlir as lego

    tensors = [lego.Tensor(getattr(lego, dtype), lego.Row(N)) for dtype in types]

    def body(*views: Any) -> None:
        i = lego.block_id[0] * T + lego.thread_id[0]
        views[-1][i] = function(*(view[i] for view in views[:-1]))

    parameters = [f"x{k}" for k in range(len(types) - 1)] + ["y"]
    space: dict[str, Any] = {"body": body}
    exec(f"def {name}({', '.join(parameters)}):\n    body({', '.join(parameters)})\n", space)
    space[name].__annotations__ = dict(zip(parameters, tensors, strict=True))
    return lego.kernel(grid=N // T, block=T)(space[name])


def kernels() -> Iterator[Any]:
    import lego_mlir as lego

    for dtype in FLOATS:
        for name in FUNCTIONS:
            yield kernel_of(f"{name}_{dtype}", (dtype, dtype), getattr(lego, name))
        for name in OF_TWO:
            yield kernel_of(f"{name}_{dtype}", (dtype, dtype, dtype), getattr(lego, name))
        yield kernel_of(f"fma_{dtype}", (dtype,) * 4, lego.fma)
    for source, target in CONVERSIONS:
        yield kernel_of(f"convert_{source}_{target}", (source, target), lambda x, t=target: x.to(getattr(lego, t)))


def render(folder: Path, cases: Any) -> None:
    """Compile all kernels into one file, with a manifest."""
    from lego_mlir.toolchain import compile_kernel

    mlir_kernels.keep(folder, NAME, compile_kernel(tuple(kernels()), target=TARGET, emit="ptx", cache=None))


# -- inputs, references and the comparison


def drawn(dtype: str, seed: int) -> np.ndarray:
    """Words of a type: half of any bits, half numbers around 1, and special values in front."""
    random = np.random.default_rng(seed)
    stored = np.dtype(STORED[dtype])
    bits = random.integers(0, 2 ** (8 * stored.itemsize), N, np.uint64).astype(f"u{stored.itemsize}")
    near = words(random.standard_normal(N), dtype)
    found = np.where(random.random(N) < 0.5, bits, near)
    special = words(np.array([0.0, -0.0, 1.0, -1.0, 2.5, -0.5, np.inf, -np.inf, np.nan]), dtype)
    found[:81] = np.tile(special, 9) if seed % 2 else np.repeat(special, 9)
    with np.errstate(invalid="ignore"):
        signalling = np.isnan(numbers(found.view(stored), dtype).astype(np.float64))  # pow(1, such a NaN) is NaN
    found[signalling] = words(np.array([np.nan]), dtype)[0]
    return found.view(stored)


def words(values: np.ndarray, dtype: str) -> np.ndarray:
    """The words of numbers of a type."""
    if dtype == "bf16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if is_f8(dtype):
        return np.array([f8.encode(float(v), dtype) for v in values[:4096]], np.uint8)[np.arange(values.size) % 4096]
    stored = np.dtype(STORED[dtype])
    return values.astype(stored).view(f"u{stored.itemsize}")


def compared(found: np.ndarray, exact: np.ndarray, dtype: str) -> tuple[float, int]:
    """The largest error in ulps, and how many infinities and NaNs differ."""
    with np.errstate(all="ignore"):
        largest = TYPES[dtype].largest
        rounded = np.where(np.abs(exact) > largest * (1 + EDGE), np.sign(exact) * np.inf, exact)
        edge = np.abs(np.abs(exact) - largest) <= largest * EDGE  # may round to either
        special = ~np.isfinite(rounded) & ~edge
        a, b = found.astype(np.float64), rounded
        differ = special & ~((a == b) | (np.isnan(a) & np.isnan(b)))
        both = np.isfinite(a) & np.isfinite(b)
        differ |= (np.isfinite(a) != np.isfinite(b)) & ~edge
        errors = np.abs(a[both] - exact[both]) / ulp(exact[both], dtype)
    return float(errors.max(initial=0.0)), int(differ.sum())


def check(launch: Callable[[str, list[np.ndarray]], np.ndarray]) -> list[dict[str, Any]]:
    """Every kernel: a row with its error, its bound, and what is wrong."""
    rows = []
    for dtype in FLOATS:
        for name, (exact, bound) in {**FUNCTIONS, **OF_TWO}.items():
            given = [drawn(dtype, seed) for seed in (range(2) if name in OF_TWO else range(1))]
            rows.append(row(f"{name}_{dtype}", dtype, exact, bound, given, launch, RANGE.get(name, math.inf)))
        given = [drawn(dtype, seed) for seed in range(3)]
        with np.errstate(all="ignore"):
            rows.append(row(f"fma_{dtype}", dtype, lambda a, b, c: a * b + c, 0.5, given, launch, 2.0**60))
    for source, target in CONVERSIONS:
        rows.append(converted(f"convert_{source}_{target}", source, target, launch))
    return rows


def row(
    name: str, dtype: str, exact: Numpy, bound: float, given: list[np.ndarray], launch: Any, limit: float
) -> dict[str, Any]:
    with np.errstate(invalid="ignore"):
        wide = [numbers(g, dtype).astype(np.float64) for g in given]
    keep = np.all([~(np.abs(w) > limit) | ~np.isfinite(w) for w in wide], axis=0)
    with np.errstate(all="ignore"):
        expected = np.asarray(exact(*(w[keep] for w in wide)))
    error, differ = compared(numbers(launch(name, given), dtype)[keep], expected, dtype)
    allowed = bound if dtype == "f32" else (0.0 if bound == 0 else 0.5 + 2.0 * bound * 2.0**-13 + 2.0**-9)
    return {"kernel": name, "ulps": error, "bound": allowed, "special": differ}


def converted(name: str, source: str, target: str, launch: Any) -> dict[str, Any]:
    """Conversions have one right result."""
    given = drawn(source, 0)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        wide = numbers(given, source).astype(np.float64)
        found = numbers(launch(name, [given]), target).astype(np.float64)
    if is_f8(target):
        table = {
            v: numbers(np.array([f8.encode(float(v), target)], np.uint8), target)[0] for v in np.unique(wide[:20_000])
        }
        wide, found = wide[:20_000], found[:20_000]
        expected = np.array([table.get(v, np.nan) for v in wide])
    else:
        with np.errstate(over="ignore"):
            expected = wide.astype(np.float32).astype(np.float64)
    wrong = int((~((found == expected) | (np.isnan(found) & np.isnan(expected)))).sum())
    return {"kernel": name, "ulps": 0.0, "bound": 0.0, "special": wrong}


# -- launches


def of_cpu() -> Callable[[str, list[np.ndarray]], np.ndarray]:
    from lego_mlir.runtime.cpu_kernels import compile_kernels

    made = {kernel.name: kernel for kernel in kernels()}

    def launch(name: str, given: list[np.ndarray]) -> np.ndarray:
        kernel = made[name]
        out = np.zeros(N, STORED[kernel.params[-1].dtype.name])
        compile_kernels(kernel.mlir())[name]([*given, out], (N // T,))
        return out

    return launch


def of_gpu(cp: Any) -> Callable[[str, list[np.ndarray]], np.ndarray]:
    from lego_mlir.runtime import cuda, manifest

    path = harness.rendered(harness.ARTIFACTS / NAME / f"{NAME}.ptx")
    module, entries = cuda.load(path), manifest.read(path).kernels

    def launch(name: str, given: list[np.ndarray]) -> np.ndarray:
        out = cp.zeros(N, STORED[entries[name].arguments[-1].dtype])
        module.kernel(name)(*map(cp.asarray, given), out)
        return np.asarray(cp.asnumpy(out))

    return launch


def shown(rows: list[Mapping[str, Any]], slack: float = 0.0) -> int:
    wrong = [r for r in rows if r["special"] or r["ulps"] > r["bound"] + slack + 2.0**-20]
    for r in rows:
        verdict = "WRONG" if r in wrong else "ok   "
        print(f"{verdict} {r['kernel']:28} {r['ulps']:8.3f} ulps, bound {r['bound']:.3f}, {r['special']} special wrong")
    return int(bool(wrong))


def run(words: Sequence[str]) -> int:
    """The kernels on the GPU, if there is one."""
    from lego_mlir.errors import DependencyError
    from lego_mlir.runtime.cuda import cupy

    try:
        rows = check(of_gpu(cupy()))
    except DependencyError as error:
        print(f"skipped: {error}")
        return 0
    print(harness.save(NAME, {"device": harness.device_name(), "inputs": N, "rows": rows}))
    return shown(rows)


BENCHMARK = runner.Benchmark(NAME, render=render, steps={"run": run})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
