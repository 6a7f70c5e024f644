"""What the GPU benchmarks share: three steps, artifacts between them, and how a time is taken.

    python bench/triton_softmax.py render     on the development machine: kernels into artifacts/
    python bench/triton_softmax.py static     on the development machine: registers, spills, instructions, no GPU
    python bench/triton_softmax.py time       on the GPU machine: correctness first, then times, rivals in the same run

`time` needs Python, NumPy, PyTorch, Triton and CuPy, and what `render` left in artifacts/; nothing of lego_mlir. A time
is 25 warm-ups and 100 repetitions between CUDA events, the L2 cache flushed before each; kept are the median and the
10th and 90th percentile, with device, clocks and date, in bench/results/<device>/<date>-<name>.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

BENCH = Path(__file__).resolve().parent
ARTIFACTS = BENCH.parent / "artifacts"
WARM_UP = 25
REPETITIONS = 100
SEARCHED = 10  # repetitions while configurations are compared; the best one is measured in full
L2_FLUSH_BYTES = 256 * 2**20


def main(name: str, render: Callable[[Path], None], static: Callable[[], Any], timed: Callable[[Path], Any]) -> int:
    """The command line of one benchmark."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.split("\n")[0])
    parser.add_argument("step", choices=["render", "static", "time"])
    step = parser.parse_args().step
    folder = ARTIFACTS / name
    if step == "render":
        folder.mkdir(parents=True, exist_ok=True)
        render(folder)
        print(f"{len(list(folder.iterdir()))} files in {folder}")
    elif step == "static":
        write_static(name, static())
    else:
        write_times(name, timed(folder))
    return 0


# -- artifacts


def keep(folder: Path, name: str, rendered: Any) -> None:
    """A rendered text, and the order of its size arguments, for the GPU machine."""
    suffix = ".py" if rendered.template.language == "triton" else ".cu"
    (folder / f"{name}{suffix}").write_text(rendered.text)
    (folder / f"{name}.json").write_text(json.dumps({"sizes": [str(s) for s in rendered.sizes]}))


def load(folder: Path, name: str, kernel: str) -> Any:
    """A Triton kernel that `render` left."""
    path = folder / f"{name}.py"
    if not path.is_file():
        raise SystemExit(f"{path} is missing: run the step `render` on a machine with lego_mlir, and copy artifacts/")
    spec = importlib.util.spec_from_file_location(f"artifact_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kernel)


def sizes_of(folder: Path, name: str) -> list[str]:
    """The names of the sizes that a kept kernel takes, in order."""
    return json.loads((folder / f"{name}.json").read_text())["sizes"]


# -- static figures


def static_row(compiled: Any, work: str, **facts: Any) -> dict[str, Any]:
    """What one kernel takes, and its instructions: all, and of the innermost loop with `work` in it."""
    from lego_mlir.toolchain import sass

    loop = sass.main_loop(compiled.code, work)
    return {
        **facts,
        "registers": compiled.resources.registers,
        "spill_bytes": compiled.resources.spill_stores + compiled.resources.spill_loads,
        "shared_bytes": compiled.shared_bytes,
        "instructions": len(compiled.code),
        "loop_instructions": len(loop) or None,
        "loop": dict(sass.mix(loop)) or None,
        "all": dict(sass.mix(compiled.code)),
    }


def write_static(name: str, rows: list[dict[str, Any]], target: str = "sm_90") -> None:
    """Keep the figures, and print them as a table."""
    path = BENCH / "results" / "static" / f"{name}-{target}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
    columns = ["registers", "spill_bytes", "shared_bytes", "instructions", "loop_instructions"]
    print(f"{'kernel':44}" + "".join(f"{c:>19}" for c in columns))
    for row in rows:
        print(f"{row['kernel']:44}" + "".join(f"{row.get(c) if row.get(c) is not None else '':>19}" for c in columns))
    print(path)


# -- times


def times_ms(run: Callable[[], Any], repetitions: int = REPETITIONS, warm_up: int = WARM_UP) -> list[float]:
    """Milliseconds of each repetition on the current stream, the L2 cache flushed before each."""
    import torch

    flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")
    for _ in range(warm_up):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repetitions)]
    for start, end in events:
        flush.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def measure(run: Callable[[], Any], **facts: Any) -> dict[str, Any]:
    """One row of results."""
    taken = times_ms(run)
    spread = quantiles(taken, n=10)
    return {**facts, "ms": median(taken), "p10": spread[0], "p90": spread[-1]}


def best(candidates: dict[Any, Callable[[], Any]]) -> Any:
    """The key of the fastest candidate; one that cannot be launched (registers, shared memory) is left out."""
    found = {}
    for key, run in candidates.items():
        try:
            found[key] = median(times_ms(run, SEARCHED, 3))
        except Exception as error:  # whatever Triton or the driver refuses
            print(f"  left out {key}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
    return min(found, key=found.get)


def write_times(name: str, rows: list[dict[str, Any]]) -> None:
    """Keep the rows with their circumstances, and print them."""
    import torch
    import triton

    device = torch.cuda.get_device_name().replace(" ", "-")
    clocks = subprocess.run(
        ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,clocks.max.sm,power.limit,driver_version", "--format=csv"],
        capture_output=True, text=True, check=False,
    ).stdout.splitlines()  # fmt: skip
    path = BENCH / "results" / device / f"{time.strftime('%Y-%m-%d')}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    circumstances = {
        "device": torch.cuda.get_device_name(), "clocks": clocks, "torch": torch.__version__,
        "triton": triton.__version__, "warm_up": WARM_UP, "repetitions": REPETITIONS,
    }  # fmt: skip
    path.write_text(json.dumps({**circumstances, "rows": rows}, indent=1) + "\n")
    for row in rows:
        print(json.dumps(row))
    print(path)


def descriptors_need_memory() -> None:
    """Descriptors made in a kernel live in memory that Triton asks the host for."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))


def require_close(found: Any, expected: Any, tolerance: float, what: str) -> float:
    """The largest error, relative to the largest value; stops the benchmark where it is too large."""
    import torch

    error = ((found.float() - expected.float()).abs().max() / expected.float().abs().max()).item()
    if not error <= tolerance or not torch.isfinite(found.float()).all():
        raise SystemExit(f"{what}: wrong by {error:.3g} of the largest value; nothing is timed")
    return error
