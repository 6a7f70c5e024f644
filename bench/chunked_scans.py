"""Recurrences in chunks: examples/chunked_scans next to flash-linear-attention's Triton kernels (`fla-core`).

    python bench/chunked_scans.py render      the kernels; no GPU
    python bench/chunked_scans.py time        on the GPU machine

Both are compared with the plain recurrence in f32. Of `state_space` the rival is `chunk_simple_gla`, which takes keys
and queries of each head, and values that are multiplied by their steps: it is given those, made before the time. A
block of ours keeps the state of a head, so that few heads leave a device idle; theirs divide the chunks, too.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "chunked_scans", "results/chunked-scans.md", "sm_90a"
EXAMPLES = harness.BENCH.parent / "examples" / NAME
CASES = [
    ("gated_delta_net", 8, 4096, 16), ("gated_delta_net", 4, 8192, 32), ("gated_delta_net", 3, 1000, 24),
    ("gated_delta_net", 1, 16384, 16),
    ("state_space", 8, 4096, 80), ("state_space", 4, 8192, 64), ("state_space", 3, 1000, 24),
    ("state_space", 1, 16384, 80),
]  # fmt: skip
WIDTHS = {"gated_delta_net": 128, "state_space": 64}
"""Columns of a head's state; it has 128 rows."""
ROWS, CHUNK = 128, 64
KERNELS = {"gated_delta_net": ("chunks", "states"), "state_space": ("state_space",)}
"""Those of a recurrence, launched one after another."""


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir import spec

    for name in dict.fromkeys(name for name, *_ in cases):
        for kernel in KERNELS[name]:
            mlir_kernels.keep_cubin(folder, spec.load(EXAMPLES / f"{name}.py").kernels[kernel], TARGET)


# -- on the GPU machine


def recurrence(q: Any, k: Any, v: Any, g: Any, beta: Any | None) -> tuple[Any, Any]:
    """h = exp(g) h + k' u, o = q h of f32 [b, t, h, n], with u = v, or beta (v - k h) of the state that has faded."""
    import torch

    b, steps, heads, n = q.shape
    state, made = torch.zeros((b, heads, n, v.shape[-1]), device="cuda"), torch.empty_like(v)
    fades = g.exp()
    for t in range(steps):
        state.mul_(fades[:, t, :, None, None])
        new = v[:, t]
        if beta is not None:
            new = (new - torch.einsum("bhn,bhnw->bhw", k[:, t], state)) * beta[:, t, :, None]
        state += k[:, t, :, :, None] * new[:, :, None, :]
        made[:, t] = torch.einsum("bhn,bhnw->bhw", q[:, t], state)
    return made, state


def timed(folder: Path, name: str, b: int, t: int, h: int) -> list[harness.Contender]:
    import torch

    torch.cuda.empty_cache()
    torch.manual_seed(0)
    width = WIDTHS[name]
    kernels = [mlir_kernels.kept_kernel(folder / f"{kernel}.cubin") for kernel in KERNELS[name]]
    v = torch.randn((b, t, h, width), device="cuda").bfloat16()
    o, last = torch.zeros_like(v).view(b, t, -1), torch.zeros((b, h, ROWS, width), device="cuda")
    rival: Callable[[], tuple[Any, Any]]
    if name == "state_space":
        from fla.ops.simple_gla import chunk_simple_gla

        keys, queries = (torch.randn((b, t, ROWS), device="cuda").bfloat16() for _ in range(2))
        step, rate = torch.rand((b, h, t), device="cuda") * 0.2 + 0.01, -torch.rand(h, device="cuda") - 0.5
        launches = [kernels[0].prepare(v.view(b, t, -1), step, rate, keys, queries, o, last, B=b, T=t, H=h)]
        q, k = (x[:, :, None].expand(b, t, h, ROWS).contiguous() for x in (queries, keys))
        g, scaled = (step * rate[:, None]).mT.contiguous(), (v * step.mT[..., None]).bfloat16()
        wanted = recurrence(q.float(), k.float(), v.float() * step.mT[..., None], g, None)
        rival = partial(chunk_simple_gla, q, k, scaled, g=g, scale=1.0, output_final_state=True)
    else:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        q, k = (torch.randn((b, t, h, ROWS), device="cuda") for _ in range(2))
        q, k = ((x / x.norm(dim=-1, keepdim=True)).bfloat16() for x in (q, k))
        g, beta = -torch.rand((b, t, h), device="cuda") / 8, torch.rand((b, t, h), device="cuda")
        scale, by_head = ROWS**-0.5, [x.mT.contiguous() for x in (g, beta)]
        three = [x.view(b, t, -1) for x in (q, k, v)]
        w, u, seen = (torch.empty((b, t, h * n), device="cuda").bfloat16() for n in (ROWS, width, CHUNK))
        launches = [
            kernels[0].prepare(*three, *by_head, w, u, seen, B=b, T=t, H=h),
            kernels[1].prepare(*three[:2], w, u, seen, by_head[0], scale, o, last, B=b, T=t, H=h),
        ]
        wanted = recurrence(q.float() * scale, k.float(), v.float(), g, beta)
        rival = partial(chunk_gated_delta_rule, q, k, v, g, beta, scale=scale, output_final_state=True)

    def ours() -> None:
        for launch in launches:
            launch()

    ours()
    theirs = rival()
    torch.cuda.synchronize()
    for who, found in (("ours", (o.view_as(v), last)), ("fla", theirs)):
        for what, one, expected in zip(("o", "state"), found, wanted, strict=True):
            print(f"{who} {name} {what}", f"{harness.require_close(one, expected, 3e-2, f'{who} {name} {what}'):.2e}")
    return [harness.contender(ours, kernel="ours"), harness.contender(rival, kernel="fla")]


def table() -> None:
    """The newest times, and fla's over ours."""
    results, cells, ratios = mlir_kernels.newest(NAME), [], []
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for row in results["rows"]:
        rows.setdefault(tuple(map(str, row["case"])), {})[row["kernel"]] = row["ms"]
    for (name, *sizes), ms in rows.items():
        ratios.append(ms["fla"] / ms["ours"])
        times = [f"{1000 * ms[who]:.0f}" for who in ("ours", "fla")]
        cells.append([f"`{name}`", " x ".join(sizes), *times, f"{ratios[-1]:.2f}"])
    known = mlir_kernels.circumstances(NAME, results, "torch", "triton")
    heading = f"{known}. fla's time over ours in geometric mean {geometric_mean(ratios):.2f}.\n\n"
    made = mlir_kernels.table("kernel|sequences x steps x heads|ours, us|fla, us|fla / ours", cells)
    mlir_kernels.put_into(PAGE, NAME, heading, made)


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, target=TARGET)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
