"""`lego_mlir.matmul` as a user calls it, on packed kernels: results against torch.mm, and the host's time of a call.

    python bench/product_calls.py render     packs kernels for sm_90a with MLIR, no GPU
    python bench/product_calls.py time       on the GPU machine, which needs neither MLIR nor Z3

512^3 and larger run on Hopper's units through tensor maps, the others on mma.sync. The host's time is the least mean of
200 calls of five turns, without waiting for the GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

NAME = "product_calls"
FOLDER = harness.ARTIFACTS / NAME
SIZES = [(4096,) * 3, (2048, 1024, 4096), (1024,) * 3, (512,) * 3, (1000, 1048, 2056), (100, 96, 64)]
LAYOUTS = ("NN", "NT", "TN", "TT")
CLOCKED = (512, 100)
TURNS, CALLS = 5, 200


def render() -> None:
    sizes = ["x".join(map(str, size)) for size in SIZES]
    command = ["lego-mlir", "pack", "matmul", "--sizes", *sizes, "--dtype", "f16", "bf16", "--layouts", *LAYOUTS]
    subprocess.run(
        [Path(sys.executable).parent / command[0], *command[1:], "--target", "sm_90a", "-o", FOLDER], check=True
    )


def time() -> None:
    import torch

    os.environ["LEGO_MLIR_KERNELS"] = str(FOLDER)
    rows = [
        called(size, dtype, layouts)
        for size in SIZES
        for dtype in (torch.float16, torch.bfloat16)
        for layouts in LAYOUTS
    ]
    path = harness.todays_results(torch.cuda.get_device_name(), NAME)
    path.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}))
    print(f"{path}: {sum(row['right'] for row in rows)} of {len(rows)} right")


def called(size: tuple[int, ...], dtype: Any, layouts: str) -> dict[str, Any]:
    import torch

    import lego_mlir

    m, n, k = size
    a, b = (torch.randint(-4, 5, shape, device="cuda").to(dtype) for shape in ((m, k), (k, n)))
    a = a.t().contiguous().t() if layouts[0] == "T" else a
    b = b.t().contiguous().t() if layouts[1] == "T" else b
    right = bool((lego_mlir.matmul(a, b) == torch.mm(a, b)).all())
    row = {"size": list(size), "dtype": str(dtype), "layouts": layouts, "right": right}
    if m in CLOCKED and layouts == "NN":
        row["us"] = {
            "lego_mlir.matmul": host_us(lambda: lego_mlir.matmul(a, b)),
            "torch.mm": host_us(lambda: torch.mm(a, b)),
            "torch.mul": host_us(lambda: torch.mul(a, a)),
        }
    print(row)
    return row


def host_us(call: Callable[[], Any]) -> float:
    """Microseconds of the host for a call."""
    import torch

    best = float("inf")
    for turn in range(TURNS + 1):  # the first warms up
        torch.cuda.synchronize()
        start = clock.perf_counter()
        for _ in range(CALLS):
            call()
        mean = (clock.perf_counter() - start) / CALLS
        best = min(best, mean) if turn else best
    return best * 1e6


if __name__ == "__main__":
    {"render": render, "time": time}[sys.argv[1]]()
