"""Compare the interpreter's counts with the GPU's counters: bank conflicts and memory sectors, kernel by kernel.

Every kernel here is launched once. A wavefront is one pass of shared memory's banks, a sector 32 bytes of a request to
global memory. ncu counts wavefronts twice: for each instruction, exactly (`sass`), and at the pipe that all
instructions of an SM share (`pipe`), where passes that were stalled by other traffic count again.
"""

# mypy: disable-error-code="valid-type"

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import ncu
import runner

NAME, PAGE, TARGET = "counters", "results/counters.md", "sm_90"
SIZE = 512
RAGGED = ((509, 517), (33, 65), (100, 300), (1, 70), (257, 31), (500, 636))
RAGGED_PRODUCTS = ((200, 104, 72), (65, 129, 33), (250, 250, 250))
ENTRIES = "regex:^(transpose|matmul)$"

SASS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
METRICS = {
    "shared loads": SASS.format("ld"),
    "shared stores": SASS.format("st"),
    "ldmatrix": SASS.format("ldsm"),
    "copies to shared": SASS.format("ldgsts"),
    "pipe: loads": PIPE.format("ld"),
    "pipe: stores": PIPE.format("st"),
    "conflicts: loads": CONFLICTS.format("ld"),
    "conflicts: stores": CONFLICTS.format("st"),
    "sectors read": SECTORS.format("ld"),
    "sectors written": SECTORS.format("st"),
}
"""The counters compared or shown, and ncu's names for them."""
PREDICTED = tuple(name for name in METRICS if ":" not in name)


def kernels() -> dict[str, tuple[Any, str | None]]:
    """Every kernel of the project that must avoid bank conflicts, and its transform script."""
    from lego_mlir import f16, f32
    from lego_mlir.kernels import matmul, transpose

    found: dict[str, tuple[Any, str | None]] = {
        f"transpose {variant} {dtype}": (transpose.build(variant, SIZE, SIZE, dtype, width=16 // dtype.bytes), None)
        for dtype in (f32, f16)
        for variant in transpose.VARIANTS
    }
    product = matmul.build(256, 256, 256, f16, tiling=matmul.ProductTile(64, 64, 32, (2, 2)))
    for script in ("ldmatrix_mma", "matmul_sm80"):
        found[f"matmul {script}"] = (product, f"{script}.mlir")
    return found | ragged_kernels()


def ragged_kernels() -> dict[str, tuple[Any, str | None]]:
    """Sizes that the tiles do not divide: masked loads and stores, and blocks with few active threads."""
    from lego_mlir import f16, f32
    from lego_mlir.kernels import matmul, transpose

    found: dict[str, tuple[Any, str | None]] = {}
    for M, N in RAGGED:
        for dtype in (f32, f16):
            for variant in transpose.VARIANTS:
                found[f"transpose {variant} {dtype} {M}x{N}"] = (transpose.build(variant, M, N, dtype), None)
    for M, N, K in RAGGED_PRODUCTS:
        product = matmul.build(M, N, K, f16, tiling=matmul.ProductTile(64, 64, 32, (2, 2)))
        for script in ("ldmatrix_mma", "matmul_sm80"):
            if script == "ldmatrix_mma" or M % 8 == N % 8 == K % 8 == 0:  # odd rows leave nothing to copy 16 bytes of
                found[f"matmul {script} {M}x{N}x{K}"] = (product, f"{script}.mlir")
    for size in (1000, 333):
        found[f"reversed {size}"] = (reversed_tiles(size), None)
    return found


def reversed_tiles(size: int) -> Any:
    """A kernel whose warps split at a branch around a store to shared memory.

    Each block writes its 128 elements of a ragged vector in reverse, threads below 70 two columns of a tile.
    """
    import lego_mlir as lego
    from lego_mlir import Row, f32

    blocks = lego.cdiv(size, 128)

    @lego.kernel(grid=blocks, block=128)
    def transpose(src: lego.Tensor(f32, Row(size)), dst: lego.Tensor(f32, Row(size))):  # type: ignore[no-untyped-def]
        block, thread = lego.block_id.x, lego.thread_id.x
        tile = lego.shared(f32, Row(4, 33))
        a, b = src.tile_by([blocks], [128]), dst.tile_by([blocks], [128])
        value = a[block, thread]
        with lego.when(thread < 70):
            tile[thread % 4, thread // 4] = value
        with lego.when(thread >= 70):
            tile[thread % 4, thread // 4] = value * 2.0
        lego.barrier()
        b[block, thread] = tile[3 - thread % 4, 31 - thread // 4]

    return transpose


def predicted(kernel: Any, compilation: Any) -> dict[str, int]:
    """The interpreter's counts for one launch of the compiled module."""
    import numpy as np

    from lego_mlir import interp

    memory = {p.name: np.zeros(p.size, p.dtype.numpy) for p in kernel.params}
    report = interp.run_kernel(kernel, memory, module=compilation.stage("transformed", locations=True))
    if not report.clean:
        raise SystemExit(f"{kernel.name}: {report.faults[0]}")
    counts: Counter[str] = Counter()
    for site in report.sites:
        asynchronous = site.operation == "nvgpu.device_async_copy"
        if site.space == "global":
            counts[f"sectors {'written' if site.kind == 'write' else 'read'}"] += site.sectors
        elif site.operation == "nvgpu.ldmatrix":
            counts["ldmatrix"] += site.wavefronts
        else:
            name = "copies to shared" if asynchronous else f"shared {'stores' if site.kind == 'write' else 'loads'}"
            counts[name] += site.wavefronts
    return {name: counts[name] for name in PREDICTED}


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    expected = {}
    for name, (kernel, script) in kernels().items():
        made = mlir_kernels.compiled(kernel, TARGET, "ptx", transform=script)
        mlir_kernels.keep(folder, name.replace(" ", "-"), made)
        expected[name] = predicted(kernel, made)
    (folder / "predicted.json").write_text(json.dumps(expected, indent=1) + "\n")


def expected() -> dict[str, dict[str, int]]:
    return json.loads(harness.rendered(harness.ARTIFACTS / NAME / "predicted.json").read_text())


def launch(_: Sequence[str]) -> None:
    """Launch each kernel once, in the order of `predicted.json`, for ncu to profile."""
    import cupy as cp

    for name in expected():
        run = mlir_kernels.launcher(harness.ARTIFACTS / NAME, name.replace(" ", "-"))
        arguments = run.kernel.arguments
        run(*(cp.zeros(a.elements, dtype=a.dtype.replace("f", "float")) for a in arguments))
    cp.cuda.get_current_stream().synchronize()


def count(_: Sequence[str]) -> None:
    found = ncu.watch([__file__, "launch"], METRICS, "--kernel-name", ENTRIES)
    wanted = expected()
    if len(found) != len(wanted):
        raise SystemExit(f"ncu saw {len(found)} of {len(wanted)} kernels")
    rows = [
        {"kernel": n, "predicted": wanted[n], "measured": seen.counts} for n, seen in zip(wanted, found, strict=True)
    ]
    for row in rows:
        for quantity, number in row["predicted"].items():
            if number or row["measured"][quantity]:
                print(f"{row['kernel']:28} {quantity:18} {number:10} {row['measured'][quantity]:10}")
    print(harness.save(NAME, {"device": harness.device_name(), "metrics": METRICS, "rows": rows}))


def table() -> None:
    """The table of the documentation: predicted and measured counts, except where both are 0."""
    cells = []
    for row in mlir_kernels.newest(NAME)["rows"]:
        pairs = [(row["predicted"][quantity], row["measured"][quantity]) for quantity in PREDICTED]
        texts = [f"{a}, not {b}" if a != b else str(a or "") for a, b in pairs]
        cells.append([row["kernel"], *texts])
    mlir_kernels.put_results(PAGE, NAME, NAME, mlir_kernels.table("|".join(["kernel", *PREDICTED]), cells))


BENCHMARK = runner.Benchmark(NAME, table=table, render=render, steps={"count": count, "launch": launch})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
