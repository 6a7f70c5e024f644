"""Kernels called from other libraries on a GPU: right results on streams, in graphs, threads and compiled functions.

    python test/hardware/interop.py render      where MLIR is: the kernels into artifacts/interop
    python test/hardware/interop.py check       on the GPU machine: every check, as JSON

`check` needs torch and lego_mlir.runtime. CuPy and JAX are checked where they are installed; checks with two devices
run where there are two. A check that cannot run says why, and is not counted as passed.
"""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "test"), str(ROOT / "bench")]

import harness  # noqa: E402  (bench/ is a folder of scripts, not a package)
import runner  # noqa: E402

FOLDER = harness.ARTIFACTS / "interop"
TARGET = "sm_90"
N = 1 << 20


class AbsentError(Exception):
    """Why a check cannot run here."""


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    import interop_kernels

    from lego_mlir.runtime import packs
    from lego_mlir.toolchain import compile_kernel

    names = ("axpy", "double", "two_results")
    compiled = {name: compile_kernel(getattr(interop_kernels, name), target=TARGET) for name in names}
    packs.write(folder, compiled)


def kernel(name: str) -> Any:
    import lego_mlir

    return lego_mlir.load_kernels(FOLDER)[name]


def _pair(device: str = "cuda") -> tuple[Any, Any]:
    import torch

    return torch.rand(N, device=device), torch.rand(N, device=device)


def _close(found: Any, expected: Any) -> None:
    import torch

    torch.cuda.synchronize()
    if not torch.allclose(found, expected):
        raise AssertionError(f"the largest error is {(found - expected).abs().max().item():.3g}")


# -- checks: each a function without arguments that raises where something is wrong


def a_call_follows_the_current_stream() -> None:
    import torch

    x, y = _pair()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        a = x * 2
        found = kernel("axpy")(a, y, 3.0)
    side.synchronize()
    _close(found, 6 * x + y)


def a_stream_can_be_given() -> None:
    import torch

    x, y = _pair()
    side, z = torch.cuda.Stream(), torch.empty_like(x)
    torch.cuda.synchronize()
    kernel("axpy").on(side)(x, y, 3.0, z)
    side.synchronize()
    _close(z, 3 * x + y)


def calls_are_captured_in_a_graph() -> None:
    import torch

    (x, y), axpy = _pair(), kernel("axpy")
    z = torch.empty_like(x)
    axpy(x, y, 1.0, z)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        axpy(x, y, 2.0, z)
        axpy(z, y, 2.0, x)
    before = x.clone()
    graph.replay()
    _close(x, 2 * (2 * before + y) + y)


def threads_launch_together() -> None:
    import torch

    axpy, failed = kernel("axpy"), []

    def run(seed: int) -> None:
        try:
            x = torch.full((N,), float(seed), device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
                for _ in range(100):
                    x = axpy(x, x, 0.0)
                torch.cuda.current_stream().synchronize()
            _close(x, torch.full_like(x, float(seed)))
        except BaseException:  # whatever a thread raises is told by the one that waits for it
            failed.append(traceback.format_exc())

    workers = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise AssertionError(failed[0])


def an_operator_is_compiled_whole() -> None:
    import torch

    import lego_mlir

    (x, y), operator = _pair(), lego_mlir.torch.op(kernel("axpy"))
    for backend in ("aot_eager", "inductor"):
        graph = torch.compile(lambda a, b: operator(a * 2, b, 3.0) + 1, fullgraph=True, backend=backend)
        _close(graph(x, y), 6 * x + y + 1)
        _close(graph(x[:1000], y[:1000]), (6 * x + y + 1)[:1000])


def a_compiled_operator_runs_in_cuda_graphs() -> None:
    import torch

    import lego_mlir

    (x, y), operator = _pair(), lego_mlir.torch.op(kernel("axpy"))
    graph = torch.compile(lambda a, b: operator(a, b, 3.0) * 2, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        _close(graph(x, y).clone(), 6 * x + 2 * y)


def an_operator_passes_pytorchs_checks() -> None:
    import torch

    import lego_mlir

    operator = lego_mlir.torch.op(kernel("axpy"))
    found = torch.library.opcheck(operator, (torch.rand(100, device="cuda"), torch.rand(100, device="cuda"), 2.0))
    if set(found.values()) != {"SUCCESS"}:
        raise AssertionError(found)


def gradients_come_from_a_backward_function() -> None:
    import torch

    import lego_mlir

    operator = lego_mlir.torch.op(kernel("axpy"), backward=lambda g, inputs, _: (g[0] * inputs[2], g[0], None))
    x, y = (v.requires_grad_() for v in _pair())
    operator(x, y, 2.0).sum().backward()
    _close(x.grad, torch.full_like(x, 2.0))


def each_device_has_its_kernel() -> None:
    import torch

    if torch.cuda.device_count() < 2:
        raise AbsentError("one device")
    axpy = kernel("axpy")
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x, y = _pair(device)
        found = axpy(x, y, 2.0)
        assert found.device == x.device
        with torch.cuda.device(device):
            _close(found, 2 * x + y)


def arrays_of_cupy() -> None:
    try:
        import cupy
    except ImportError:
        raise AbsentError("CuPy is not installed") from None
    x, y = cupy.random.rand(N, dtype="f"), cupy.random.rand(N, dtype="f")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        found = kernel("axpy")(x, y, 2.0)
        stream.synchronize()
    assert isinstance(found, cupy.ndarray) and bool(cupy.allclose(found, 2 * x + y))


def arrays_by_dlpack() -> None:
    import torch

    class Exported:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    x, y = _pair()
    z = torch.empty_like(x)
    torch.cuda.synchronize()
    kernel("axpy")(Exported(x), Exported(y), 2.0, Exported(z))
    _close(z, 2 * x + y)


def operators_of_jax() -> None:
    try:
        import jax
    except ImportError:
        raise AbsentError("JAX is not installed") from None
    if jax.default_backend() != "gpu":
        raise AbsentError("JAX has no GPU here")
    import lego_mlir

    operator = lego_mlir.jax.op(kernel("axpy"))
    x = jax.numpy.arange(1000.0)
    assert bool(jax.numpy.allclose(jax.jit(lambda a: operator(a * 2, a, 3.0) + 1)(x), 7 * x + 1))


CHECKS: tuple[Callable[[], None], ...] = (
    a_call_follows_the_current_stream, a_stream_can_be_given, calls_are_captured_in_a_graph, threads_launch_together,
    an_operator_is_compiled_whole, a_compiled_operator_runs_in_cuda_graphs, an_operator_passes_pytorchs_checks,
    gradients_come_from_a_backward_function, each_device_has_its_kernel, arrays_of_cupy, arrays_by_dlpack,
    operators_of_jax,
)  # fmt: skip


def check(words: Sequence[str]) -> int:
    """Run every check, print a line for each, and keep them as JSON; 1 where one failed."""
    rows = []
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            result, detail = "ok", ""
        except AbsentError as absent:
            result, detail = "not run", str(absent)
        except Exception as error:  # a check that breaks is wrong, and the others still run
            result, detail = "WRONG", f"{type(error).__name__}: {error}"
            traceback.print_exc()
        print(f"{name}: {result}{f' ({detail[:200]})' if detail else ''}", flush=True)
        rows.append({"check": name, "result": result, "detail": detail[:500]})
    harness.save("interop", {**harness.versions(), "checks": rows})
    return int(any(row["result"] == "WRONG" for row in rows))


BENCHMARK = runner.Benchmark("interop", render=render, steps={"check": check})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
