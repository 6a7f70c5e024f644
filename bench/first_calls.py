"""The first call in a process, and what a call costs the host, beside PyTorch.

`first`     a process for each case: seconds from the start of `import lego_mlir` to the first result, with an empty
            cache on disk, all cases at once on the cores of the machine, and then with a full one, one after the other;
            user CPU seconds, and which compilers were imported. Before it, torch and its context are there, as in a
            program that has arrays. PyTorch's own first call likewise. Two processes that start together with an empty
            cache tell how often the kernel was compiled.
`host`      one process: microseconds of the host for a call in a loop, as `bench/launch.py` measures them. Words after
            it name the cases: `python bench/first_calls.py time host odd "short backward"`. Sizes are such that 200
            calls fit into the queue of launches, and the short ones' work on the device takes less time than a call.

The package may be a folder on PYTHONPATH, with the MLIR bindings and llvmlite. Figures of `first` and `host` are those
of the processor beside the GPU.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import harness
import launch
import mlir_kernels
import runner

NAME = "first_calls"
HEAVY = ("sympy", "z3", "torch_mlir", "llvmlite")
REPEATS = 2
CASES = ("matmul", "odd", "fused", "fp8", "batched", "grouped", "attention", "gradients", "spec")
SHOWN = {
    "matmul": "`matmul(a, b)`, 4096 x 4096 x 4096, f16",
    "odd": "of 1025 x 1027 and 1027 x 1031",
    "fused": "with `bias=` and `activation=`, 1024 cubed",
    "fp8": "of e4m3 with scales, 1024 cubed",
    "batched": "16 matrices of 512 x 512",
    "grouped": "`grouped_matmul`, 8 groups of 256 rows, bf16",
    "attention": "`attention`, 2 x 16 x 1024 x 128, causal",
    "gradients": "the same and its gradients",
    "backward": "its gradients alone",
    "odd columns": "`matmul(a, b)`, 1025 x 1024 x 1031",
    "divided": "of 16 x 8192 x 512, the sum divided among blocks",
    "small": "of 512 cubed",
    "short attention": "`attention`, 2 x 16 x 256 x 128, causal",
    "short gradients": "the same and its gradients",
    "short backward": "its gradients alone",
    "spec": "a kernel of a user's file",
}
"""What the page calls the cases."""
PRODUCTS = {
    "matmul": (4096, 4096, 4096), "odd": (1025, 1027, 1031), "odd columns": (1025, 1024, 1031),
    "divided": (16, 8192, 512), "small": (512, 512, 512),
}  # fmt: skip
"""M, K and N of plain products."""
HOST = (*CASES[:-1], "backward", *[name for name in SHOWN if name.startswith("short")], *list(PRODUCTS)[2:])
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
    if name in PRODUCTS:
        m, k, n = PRODUCTS[name]
        a, b = drawn(m, k), drawn(k, n)
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
    kind = name.removeprefix("short ")
    if kind in ("attention", "gradients", "backward"):
        learns, length = kind != "attention", 1024 if kind == name else 256
        q, k, v = (drawn(2, 16, length, 128, learns=learns) for _ in range(3))
        forward = (lambda: sdpa(q, k, v, is_causal=True)) if rival else ours("attention", q, k, v, causal=True)
        gradient = drawn(2, 16, length, 128)
        if kind == "backward":
            result = forward()
            return lambda: torch.autograd.grad(result, (q, k, v), gradient, retain_graph=True)
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
    with tempfile.TemporaryDirectory() as top:
        folders = {name: Path(top, name) for name in CASES}
        for folder in folders.values():
            folder.mkdir()
        empty = {name: start(name, folder) for name, folder in folders.items()}
        rows = {name: {"case": name, "empty": finished(process)} for name, process in empty.items()}
        for name, folder in folders.items():
            for kind, words in (("full", ()), ("torch", ("rival",))):
                found = [finished(start(name, folder, *words)) for _ in range(REPEATS)]
                rows[name][kind] = min(found, key=lambda one: one["seconds"])
            yield rows[name]
    with tempfile.TemporaryDirectory() as top:
        found = [finished(one) for one in [start("matmul", Path(top)) for _ in range(2)]]
        compiled = sum("torch_mlir" in one["compilers"] for one in found)
        yield {"case": "matmul", "together": [one["seconds"] for one in found], "compiled": compiled}


def host(names: Sequence[str] = HOST) -> Iterator[dict[str, Any]]:
    """Microseconds of the host, by `bench/launch.py`'s protocol."""
    launch.BATCHES = 40
    for name in names:
        rows = launch.timed([("lego_mlir", calls(name, False)), ("torch", calls(name, True))])
        for row in rows:
            yield {"case": name, **row}


PARTS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {"host": host, "first": first}


def measure(words: Sequence[str]) -> None:
    """The parts that the words name, or all; each row is printed, and kept, when it is there."""
    if unknown := [word for word in words if word not in (*PARTS, *HOST)]:
        raise SystemExit(f"parts are {', '.join(PARTS)}, and cases of host {', '.join(HOST)}; got {unknown}")
    found = {**harness.versions(), "device": harness.device_name(), "processor": launch._processor()}
    found |= {"python": platform.python_version(), "cores": os.cpu_count()}
    for part in [word for word in words if word in PARTS] or PARTS:
        rows = found[part] = []
        named = [word for word in words if word in HOST]
        for row in PARTS[part](named) if part == "host" and named else PARTS[part]():
            rows.append(row)
            print(part, json.dumps(row), flush=True)
            path = harness.save(NAME, found)
    print(path)


def table() -> None:
    """Seconds to the first result of a new process, and microseconds of the host for a call in a loop."""
    results = mlir_kernels.newest(NAME)
    first = {row["case"]: row for row in results.get("first", ()) if "empty" in row}
    host = {(row["case"], row["name"]): row["us"] for row in results.get("host", ())}
    lines = []
    for name, shown in SHOWN.items():
        row = first.get(name, {})
        seconds = [f"{row[kind]['seconds']:.2f}" if row else "" for kind in ("empty", "full", "torch")]
        calls = [f"{host[name, who]:.1f}" if (name, who) in host else "" for who in ("lego_mlir", "torch")]
        if any((*seconds, *calls)):
            lines.append([shown, *seconds, *calls])
    heads = "call|empty cache, s|full cache, s|PyTorch, s|in a loop, us|PyTorch, us"
    note = f", PyTorch {results['torch']}, {results['processor']}"
    mlir_kernels.put_results("results/launch.md", NAME, NAME, mlir_kernels.table(heads, lines), note=note)


BENCHMARK = runner.Benchmark(
    NAME, table=table, steps={"time": measure, "child": lambda words: child(words[0], "rival" in words)}, alone=True
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
