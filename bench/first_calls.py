"""The first call in a process, calls at new lengths, and what a call costs the host, beside PyTorch.

    python bench/first_calls.py time [--to FOLDER] [first host lengths]     on the GPU machine, with the package

`first`     a process for each case, alone: seconds from the start of `import lego_mlir` to the first result, with an
            empty cache on disk and with a full one, user CPU seconds, and which compilers were imported; before it,
            torch and its context are there, as in a program that has arrays. PyTorch's own first call likewise.
            Two processes that start together with an empty cache tell how often the kernel was compiled.
`lengths`   one process: attention at lengths that it has not seen; then the kernel for all lengths beside one for
            exactly these, L2 flushed, in turns.
`host`      one process: microseconds of the host for a call in a loop, as `bench/launch.py` measures them.

The package may be a folder on PYTHONPATH, with the MLIR bindings and llvmlite. Figures of `first` and `host` are those
of the processor beside the GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import harness
import launch

HEAVY = ("sympy", "z3", "torch_mlir", "llvmlite")
REPEATS = 3
CASES = ("matmul", "odd", "fused", "fp8", "batched", "grouped", "attention", "gradients", "spec")
LENGTHS = (512, 520, 777, 1000, 1024, 1537, 2048, 3000, 4096, 8192)
SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

N = lego.size("N", min=1, max=2**30)

@lego.kernel(grid=lego.cdiv(N, 256), block=256)
def axpy(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), a: f32):
    i = lego.block_id[0] * 256 + lego.thread_id[0]
    with lego.when(i < N):
        y[i] = a * x[i] + y[i]
"""
"""A kernel of a user's file."""


def calls(name: str, rival: bool) -> Callable[[], Any]:
    """A call on tensors that are made here: of lego_mlir, or PyTorch's."""
    import torch

    def drawn(*shape: int, dtype: Any = torch.float16, learns: bool = False) -> Any:
        return torch.randn(shape, device="cuda").to(dtype).requires_grad_(learns)

    def ours(function: str, *given: Any, **options: Any) -> Callable[[], Any]:
        def call() -> Any:
            import lego_mlir

            return getattr(lego_mlir, function)(*given, **options)

        return call

    sdpa = torch.nn.functional.scaled_dot_product_attention
    if name in ("matmul", "odd"):
        a, b = (drawn(*shape) for shape in (((4096, 4096),) * 2 if name == "matmul" else ((1025, 1027), (1027, 1031))))
        return (lambda: a @ b) if rival else ours("matmul", a, b)
    if name == "fused":
        a, b, bias = drawn(1024, 1024), drawn(1024, 1024), drawn(1024)
        gelu = torch.ops.aten._addmm_activation
        return (lambda: gelu(bias, a, b)) if rival else ours("matmul", a, b, bias=bias, activation="relu")
    if name == "fp8":
        f8, one = torch.float8_e4m3fn, torch.ones(1, device="cuda")
        a, b = drawn(1024, 1024, dtype=f8), drawn(1024, 1024, dtype=f8).T
        if rival:
            return lambda: torch._scaled_mm(a, b, scale_a=one[0], scale_b=one[0], out_dtype=torch.bfloat16)
        return ours("matmul", a, b, result="bfloat16", scale_a=one, scale_b=one)
    if name == "batched":
        a, b = drawn(16, 512, 512), drawn(16, 512, 512)
        return (lambda: torch.bmm(a, b)) if rival else ours("matmul", a, b)
    if name == "grouped":
        a, b = drawn(2048, 1024, dtype=torch.bfloat16), drawn(8, 1024, 1024, dtype=torch.bfloat16)
        ends = torch.arange(256, 2049, 256, device="cuda", dtype=torch.int32)
        return (lambda: torch._grouped_mm(a, b, ends)) if rival else ours("grouped_matmul", a, b, ends)
    if name in ("attention", "gradients"):
        learns = name == "gradients"
        q, k, v = (drawn(2, 16, 1024, 128, learns=learns) for _ in range(3))
        forward = (lambda: sdpa(q, k, v, is_causal=True)) if rival else ours("attention", q, k, v, causal=True)
        gradient = drawn(2, 16, 1024, 128)
        return (lambda: torch.autograd.grad(forward(), (q, k, v), gradient)) if learns else forward
    x, y = (drawn(10**6, dtype=torch.float32) for _ in range(2))
    if rival:
        return lambda: y.add_(x, alpha=2.0)

    def of_a_spec() -> Any:
        import spec_of_first_calls

        return spec_of_first_calls.axpy(x, y, 2.0)

    return of_a_spec


def child(name: str, rival: bool) -> None:
    """The first call of this process, and the second one; prints seconds."""
    import torch

    torch.zeros(1, device="cuda").add_(1)
    call = calls(name, rival)
    torch.cuda.synchronize()
    before, began, used = set(sys.modules), time.perf_counter(), time.process_time()
    call()
    torch.cuda.synchronize()
    found = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - used}
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    new = set(sys.modules) - before
    compilers = [heavy for heavy in HEAVY if heavy in new]
    print(json.dumps({**found, "second": time.perf_counter() - began, "modules": len(new), "compilers": compilers}))


def start(name: str, cache: Path, *words: str) -> subprocess.Popen[str]:
    """A process of a case with a cache folder."""
    path = os.pathsep.join([str(cache), str(harness.BENCH.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": path, "CUDA_CACHE_PATH": str(cache / "nv")}
    (cache / "spec_of_first_calls.py").write_text(SPEC)
    command = [sys.executable, __file__, "child", name, *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process printed."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args} failed")
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def first() -> Iterator[dict[str, Any]]:
    """Seconds of first calls."""
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            row: dict[str, Any] = {"case": name, "empty": finished(start(name, cache))}
            full = [finished(start(name, cache)) for _ in range(REPEATS)]
            row["full"] = sorted(full, key=lambda one: one["seconds"])[REPEATS // 2]
            rivals = [finished(start(name, cache, "rival")) for _ in range(REPEATS)]
            row["torch"] = sorted(rivals, key=lambda one: one["seconds"])[REPEATS // 2]
            yield row
    for name in ("matmul", "attention"):
        with tempfile.TemporaryDirectory() as folder:
            found = [finished(one) for one in [start(name, Path(folder)) for _ in range(2)]]
            compiled = sum("torch_mlir" in one["compilers"] for one in found)
            yield {"case": name, "together": [one["seconds"] for one in found], "compiled": compiled}


def lengths() -> Iterator[dict[str, Any]]:
    """Attention at new lengths, and its kernel for all lengths beside exact ones."""
    import torch

    import lego_mlir
    from lego_mlir.hardware.targets import TARGETS
    from lego_mlir.kernels import fused_attention
    from lego_mlir.kernels.attention_forms import AttentionForm, fastest

    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    assert "sm_90a" in TARGETS
    for features in (64, 128):
        for causal in (False, True):
            for n in LENGTHS:
                q, k, v = (torch.randn(2, 16, n, features, device="cuda", dtype=torch.float16) for _ in range(3))
                torch.cuda.synchronize()
                began = time.perf_counter()
                lego_mlir.attention(q, k, v, causal=causal)
                torch.cuda.synchronize()
                row = {"features": features, "causal": causal, "length": n, "first": time.perf_counter() - began}
                if features == 128 and n not in (520, 1024, 8192):
                    yield row
                    continue
                form, sizes = AttentionForm(features, causal=causal), (32, n, n)
                tile, blocks = fastest(form, sizes, multiprocessors)
                exact = fused_attention.build(form, tile, sizes, blocks)
                flat = [x.reshape(32, n, features) for x in (q, k, v)]
                exact(*flat)
                runs = {
                    "all": lambda q=q, k=k, v=v, causal=causal: lego_mlir.attention(q, k, v, causal=causal),
                    "exact": lambda exact=exact, flat=flat: exact(*flat),
                }
                found = harness.times_ms(runs, 60, 10)
                yield {**row, **{name: median(times) for name, times in found.items()}}


def host() -> Iterator[dict[str, Any]]:
    """Microseconds of the host, by `bench/launch.py`'s protocol."""
    launch.BATCHES = 40
    for name in CASES[:-1]:
        rows = launch.timed([("lego_mlir", calls(name, False)), ("torch", calls(name, True))])
        for row in rows:
            yield {"case": name, **row}


def measure(parts: list[str], to: Path) -> None:
    """The parts, and where they were measured."""
    import torch

    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": launch._processor(), "python": platform.python_version(), "torch": torch.__version__,
        "cores": os.cpu_count(),
    }  # fmt: skip
    for part in parts:
        rows = found[part] = []
        for row in {"first": first, "lengths": lengths, "host": host}[part]():
            rows.append(row)
            print(part, json.dumps(row), flush=True)
        to.mkdir(parents=True, exist_ok=True)
        path = to / f"{found['date'][:10]}-first_calls.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
    print(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=["time", "child"])
    parser.add_argument("parts", nargs="*", default=["first", "host", "lengths"])
    parser.add_argument("--to", metavar="FOLDER", type=Path, default=harness.BENCH / "results" / "first_calls")
    options = parser.parse_args()
    if options.step == "child":
        child(options.parts[0], "rival" in options.parts)
    else:
        measure(options.parts, options.to)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
