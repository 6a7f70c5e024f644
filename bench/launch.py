"""Host time of a launch: what a caller pays before the GPU has the work, and for torch's own operators.

A batch of CALLS calls is timed by the clock of the host, without waiting for the device, whose queue takes more. Before
each batch the device is idle. The candidates take turns in random order; a row has the median of the batches and
their 10th and 90th percentile, in microseconds a call. Results are compared before anything is timed, also those of a
captured graph. `time` needs torch and lego_mlir.runtime; CuPy, cuda.core and cuda.bindings where they are installed.
"""

import ctypes
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import harness
import mlir_kernels
import runner

sys.path.insert(0, str(harness.BENCH.parent))

FOLDER = harness.ARTIFACTS / "launch"
TARGET = "sm_90"
SIZES = (512, 1024, 2048)
BLOCK = 256
CALLS, BATCHES = 200, 150
AIMS = {"prepared": 4.5, "call": 7.0, "torch operator": 8.0}  # microseconds, on an H200 host


SHOWN = {
    "bare: ctypes, cuLaunchKernelEx": "the driver's call alone, as made here",
    "bare: cuda.core": "the same by cuda.core",
    "bare: CuPy": "by CuPy",
    "prepared, the same arrays": "`k.prepare(x, y, z)()`",
    "prepared": "`k.prepare(x, y, z)(x, y, z)`",
    "call": "`k(x, y, z)`",
    "call on a stream": "`k.on(stream)(x, y, z)`",
    "call, result allocated": "`k(x, y)`",
    "torch operator, out=True": "`lego.torch.op(k, out=True)(x, y, z)`",
    "torch operator": "`lego.torch.op(k)(x, y)`",
    "replay of a captured call": "replay of a captured call",
    "torch.mul, out=": "`torch.mul(x, y, out=z)`",
    "torch.mul": "`torch.mul(x, y)`",
    "lego_mlir.matmul": "`lego_mlir.matmul(a, b)`",
    "torch.mm": "`torch.mm(a, b)`",
    "torch.mm, out=": "`torch.mm(a, b, out=c)`",
}
"""What the page calls the candidates."""


# -- where MLIR is


def multiply(n: int) -> Any:
    """z = x * y for n x n matrices of f32: what torch.mul does."""
    import lego_mlir as lego
    from lego_mlir import Row, f32

    shape = Row(n, n)

    def mul(x: Any, y: Any, z: Any) -> None:
        row, column = Row(n, n // 4).inv(lego.block_id.x * BLOCK + lego.thread_id.x)
        z.store(x.load(row, 4 * column, width=4) * y.load(row, 4 * column, width=4), row, 4 * column)

    mul.__annotations__ = dict.fromkeys("xyz", lego.Tensor(f32, shape))
    return lego.kernel(grid=n * n // 4 // BLOCK, block=BLOCK)(mul)


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.runtime import packs
    from lego_mlir.runtime.products.kernels import compiled as compiled_product
    from lego_mlir.runtime.products.problem import Problem
    from lego_mlir.toolchain import compile_kernel

    compiled = {f"mul_{n}": compile_kernel(multiply(n), target=TARGET) for n in SIZES}
    for n in SIZES:
        problem = Problem(n, n, n, "f16", "f16", "NN", TARGET, 132)
        compiled[problem.name] = compiled_product(problem)
    packs.write(folder, compiled)


# -- on the GPU machine


Candidate = tuple[str, Callable[[], Any]]


def bare(n: int, x: Any, y: Any, z: Any) -> Iterator[Candidate]:
    """The same launch by every way there is, all arguments made beforehand but for the call itself."""
    import torch

    from lego_mlir.runtime import manifest
    from lego_mlir.runtime.driver import Frame, driver

    path = FOLDER / f"mul_{n}.ptx"
    entry = manifest.read(path).kernel(None)
    grid, threads = entry.grid[0], entry.block[0]
    function = driver().load(path.read_bytes(), entry.entry, 0, 0, str(path))
    stream = torch.cuda.current_stream().cuda_stream
    frame = Frame(driver(), function, (grid, 1, 1, threads, 1, 1), 0, 3)
    frame.slots[0:3] = [x.data_ptr(), y.data_ptr(), z.data_ptr()]
    frame.configuration.stream = stream
    bare_launch: Any = frame.launch
    bare_launch.holds = frame  # its memory
    yield "ctypes, cuLaunchKernelEx", bare_launch
    yield "ctypes, cuLaunchKernel", _old_launch(driver(), function, frame, grid, threads, stream)
    for name, maker in (("CuPy", _cupy), ("cuda.core", _cuda_core), ("cuda.bindings", _cuda_bindings)):
        try:
            yield name, maker(path, entry.entry, function, grid, threads, (x, y, z), stream)
        except ImportError as error:
            print(f"{name} is left out: {error}")


def _old_launch(driver: Any, function: Any, frame: Any, grid: int, threads: int, stream: int) -> Callable[[], Any]:
    launch = driver.library["cuLaunchKernel"]
    launch.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
    begin = ctypes.addressof(frame.slots)
    parameters = (ctypes.c_void_p * 3)(*(begin + 8 * i for i in range(3)))
    return lambda holds=frame: launch(function.handle, grid, 1, 1, threads, 1, 1, 0, stream, parameters, None)


def _cupy(path: Path, name: str, function: Any, grid: int, threads: int, arrays: Any, stream: int) -> Callable[[], Any]:
    import cupy

    kernel = cupy.RawModule(path=str(path)).get_function(name)
    held = tuple(cupy.from_dlpack(array) for array in arrays)
    cupy.cuda.ExternalStream(stream).use()
    return lambda: kernel((grid,), (threads,), held)


def _cuda_core(
    path: Path, name: str, function: Any, grid: int, threads: int, arrays: Any, stream: int
) -> Callable[[], Any]:
    try:
        from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch
    except ImportError:
        from cuda.core.experimental import Device, LaunchConfig, ObjectCode, Stream, launch

    Device().set_current()
    kernel = ObjectCode.from_ptx(path.read_bytes()).get_kernel(name)
    configuration = LaunchConfig(grid=grid, block=threads)
    where, addresses = Stream.from_handle(stream), [array.data_ptr() for array in arrays]
    return lambda: launch(where, configuration, kernel, *addresses)


def _cuda_bindings(
    path: Path, name: str, function: Any, grid: int, threads: int, arrays: Any, stream: int
) -> Callable[[], Any]:
    from cuda.bindings import driver

    kernel, where = driver.CUfunction(function.handle), driver.CUstream(stream)
    values = tuple(array.data_ptr() for array in arrays), (ctypes.c_void_p,) * 3
    return lambda: driver.cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, 0, where, values, 0)


def elementwise(n: int) -> Iterator[Candidate]:
    import torch

    import lego_mlir

    x, y = (torch.rand(n, n, device="cuda") for _ in range(2))
    z = torch.empty_like(x)
    mul = lego_mlir.load_kernels(FOLDER)[f"mul_{n}"]
    for name, run in bare(n, x, y, z):
        yield from _compared(f"bare: {name}", run, z, x * y)
    prepared, stream = mul.prepare(x, y, z), torch.cuda.current_stream()
    yield from _compared("prepared, the same arrays", prepared, z, x * y)
    yield from _compared("prepared", lambda: prepared(x, y, z), z, x * y)
    yield from _compared("call", lambda: mul(x, y, z), z, x * y)
    yield from _compared("call on a stream", lambda: mul.on(stream)(x, y, z), z, x * y)
    yield from _compared("call, result allocated", lambda: mul(x, y), None, x * y)
    yield "torch.mul, out=", lambda: torch.mul(x, y, out=z)
    yield "torch.mul", lambda: torch.mul(x, y)
    z.zero_()
    replay = harness.recorded(lambda: mul(x, y, z))
    yield from _compared("replay of a captured call", replay, z, x * y)
    operator = lego_mlir.torch.op(mul)
    yield from _compared("torch operator", lambda: operator(x, y), None, x * y)
    changing = lego_mlir.torch.op(mul, out=True)
    yield from _compared("torch operator, out=True", lambda: changing(x, y, z), z, x * y)


def products_of(n: int) -> Iterator[Candidate]:
    import torch

    import lego_mlir

    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    expected = torch.mm(a, b)
    yield from _compared("lego_mlir.matmul", lambda: lego_mlir.matmul(a, b, kernels=FOLDER), None, expected, 0.02)
    yield "torch.mm", lambda: torch.mm(a, b)
    yield "torch.mm, out=", lambda: torch.mm(a, b, out=c)


def _compared(
    name: str, run: Callable[[], Any], into: Any, expected: Any, tolerance: float = 0.0
) -> Iterator[Candidate]:
    """The candidate, once its result is right: the returned one, or what `into` holds after it."""
    import torch

    if into is not None:
        into.zero_()
    returned = run()
    torch.cuda.synchronize()
    found = returned if into is None else into
    error = (found.float() - expected.float()).abs().max().item() / expected.float().abs().max().item()
    if not error <= tolerance:
        raise SystemExit(f"{name} is wrong: the largest error is {error:.2g} of the largest element")
    yield name, run


def timed(candidates: list[Candidate]) -> list[dict[str, Any]]:
    """Microseconds of the host for each call, in turns."""
    import torch

    samples: dict[str, list[float]] = {name: [] for name, _ in candidates}
    for _, run in candidates:
        for _ in range(CALLS):
            run()
    for _ in range(BATCHES):
        for name, run in random.sample(candidates, len(candidates)):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                run()
            samples[name].append((time.perf_counter() - began) / CALLS * 1e6)
    torch.cuda.synchronize()
    rows = []
    for name, values in samples.items():
        deciles = quantiles(values, n=10)
        rows.append({"name": name, "us": median(values), "p10": deciles[0], "p90": deciles[-1]})
    return rows


def measure(words: Sequence[str]) -> None:
    import torch

    rows = []
    for n in SIZES:
        for kind, make in (("mul", elementwise), ("matmul", products_of)):
            for row in timed(list(make(n))):
                rows.append({"kind": kind, "size": n, **row})
                print(f"{kind} {n:5}  {row['name']:28} {row['us']:7.2f} us  ({row['p10']:.2f} .. {row['p90']:.2f})")
    path = harness.save("launch", {
        **harness.versions(), "host": _processor(), "python": platform.python_version(),
        "devices": torch.cuda.device_count(), "calls": CALLS, "batches": BATCHES, "aims_us": AIMS, "rows": rows,
    })  # fmt: skip
    print(path)


def _processor() -> str:
    """The model of the host's processor: a launch is its work."""
    from lego_mlir.runtime.cpu import model_name

    return model_name()


def table() -> None:
    """Microseconds of the host for each way to launch, by the size of the matrices."""
    results = mlir_kernels.newest("launch")
    known = {(row["name"], row["size"]): row for row in results["rows"]}
    sizes, lines = sorted({row["size"] for row in results["rows"]}), []
    for name, shown in SHOWN.items():
        found = [known.get((name, size)) for size in sizes]
        lines.append(
            [shown, *("" if r is None else f"{r['us']:.2f} ({r['p10']:.2f} to {r['p90']:.2f})" for r in found)]
        )
    made = mlir_kernels.table("|".join(["call", *(f"{n} x {n}" for n in sizes)]), lines)
    torch = results.get("torch") or results["versions"]["torch"]
    mlir_kernels.put_results("results/launch.md", "launch", "launch", made, note=f", PyTorch {torch}; in us")


BENCHMARK = runner.Benchmark("launch", table=table, render=render, steps={"time": measure}, alone=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
