"""Shipped templates measured by the tuner: Triton texts compiled where they are timed, CUDA texts compiled here.

    python bench/tuned_templates.py pack [few] [NAME ..]     into artifacts/tuned_templates, one folder a tunable
                                                             (stencils whole, as a space that pruning is tested on)
    python bench/tuned_templates.py time [few] [NAME ..]     where a GPU, NumPy and Triton are
    python bench/tuned_templates.py table                    the tables of docs/how-to/tuning-measuring.md

This file is a spec as well: `lego-mlir tune bench/tuned_templates.py --kernel softmax --size N=1000`. With `few`, one
small size of each tunable, for a first launch.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

import harness  # noqa: E402
import mlir_kernels  # noqa: E402
import nw  # noqa: E402
import runner  # noqa: E402

NAME, TARGET, ROWS = "tuned_templates", "sm_90", 4096
FOLDER = harness.ARTIFACTS / NAME
SIZES = {
    "rowwise": [{"N": n} for n in (1000, 384, 1536, 6144, 12288)],
    "multiplied": [{"M": m} for m in (1024, 2048, 4096)],
    "grouped": [{"M": m} for m in (512, 1024)],
    "aligned": [{"N": n} for n in (1024, 2048)],
    "normalised": [{"N": n} for n in (1000, 3000, 8192)],
    "diffused": [{"N": n} for n in (64, 128, 256)],
}  # fmt: skip
"""The first size of each is the one of `few`."""


def _spec() -> dict[str, Any]:
    import lego_mlir as lego
    from lego_mlir import Row, f16, f32, i32
    from lego_mlir.templates.library import matmul as products
    from lego_mlir.templates.library import nw as wavefronts
    from lego_mlir.templates.library import rows, stencil
    from lego_mlir.tuning import template_counts

    def softmax_counts(values: Any, sizes: Any) -> Any:
        return template_counts.softmax(ROWS, sizes["N"], rows=values["at_a_time"], warps=values["num_warps"])

    def softmax_in_numpy(x_ptr: Any) -> Any:
        powers = np.exp(x_ptr - x_ptr.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    @lego.tune(space={"at_a_time": [1, 2, 4], "num_warps": [2, 4, 8, 16]}, key=["N"], counts=softmax_counts)
    def rowwise(at_a_time: int, N: int) -> Any:
        X = lego.Tensor(f32, Row(ROWS, N))
        return lego.TemplateLaunch(
            rows.softmax(ROWS, N, at_a_time=at_a_time), "softmax", lego.cdiv(ROWS, at_a_time),
            {"x_ptr": X, "y_ptr": X}, writes=["y_ptr"], reference=softmax_in_numpy,
        )  # fmt: skip

    def norm_in_numpy(x_ptr: Any, w_ptr: Any, b_ptr: Any) -> Any:
        mean, deviation = x_ptr.mean(axis=1), np.sqrt(x_ptr.var(axis=1) + 1e-5)
        y = (x_ptr - mean[:, None]) / deviation[:, None] * w_ptr + b_ptr
        return y, mean, 1 / deviation

    @lego.tune(space={"num_warps": [2, 4, 8, 16]}, key=["N"])
    def normalised(N: int) -> Any:
        X, W, S = (lego.Tensor(f32, Row(*dims)) for dims in ((ROWS, N), (N,), (ROWS,)))
        given = {"x_ptr": X, "w_ptr": W, "b_ptr": W, "y_ptr": X, "mean_ptr": S, "rstd_ptr": S}
        return lego.TemplateLaunch(
            rows.layer_norm(ROWS, N), "layer_norm_forward", ROWS, given, writes=["y_ptr", "mean_ptr", "rstd_ptr"],
            reference=norm_in_numpy,
        )  # fmt: skip

    def product_in_numpy(a_ptr: Any, b_ptr: Any) -> Any:
        return a_ptr.astype(np.float32) @ b_ptr.astype(np.float32)

    @lego.tune(
        space={"rows": [64, 128], "columns": [128, 256], "descriptors": [False, True], "num_warps": [4, 8],
               "num_stages": [3, 4]},
        where=["num_warps == 8 or rows * columns <= 16384"], key=["M"],
    )  # fmt: skip
    def multiplied(rows: int, columns: int, descriptors: bool, M: int) -> Any:
        T, tile = lego.Tensor(f16, Row(M, M)), (rows, columns, 64)
        template = products.matmul(M, M, M, tile=tile, descriptors=descriptors, dtype="float16")
        grid = lego.cdiv(M, rows) * lego.cdiv(M, columns)
        given = {"a_ptr": T, "b_ptr": T, "c_ptr": T}
        return lego.TemplateLaunch(template, "matmul", grid, given, writes=["c_ptr"], reference=product_in_numpy)

    def group_in_numpy(a_addresses: Any, b_addresses: Any) -> Any:
        return [product_in_numpy(a, b) for a, b in zip(a_addresses, b_addresses, strict=True)]

    @lego.tune(
        space={"programs": [66, 132, 264], "descriptors": [False, True], "num_warps": [4, 8], "num_stages": [3]},
        key=["M"],
    )
    def grouped(programs: int, descriptors: bool, M: int) -> Any:
        dims = [(M, M, M), (M, M // 2, M), (M // 2, M, 2 * M), (M // 4, M, M)]
        places = {"a_addresses": (0, 2), "b_addresses": (2, 1), "c_addresses": (0, 1)}
        given: dict[str, Any] = {
            name: lego.AddressesOf([lego.Tensor(f16, Row(*(d[axis] for axis in axes))) for d in dims])
            for name, axes in places.items()
        }
        given |= {"sizes_ptr": np.array(dims, np.int32).reshape(-1), "products": len(dims)}
        template = products.grouped_gemm(programs=programs, descriptors=descriptors)
        return lego.TemplateLaunch(
            template, "grouped_gemm", programs, given, writes=["c_addresses"], reference=group_in_numpy
        )

    @lego.tune(space={"b": [16, 32, 64, 128], "kind": ["row-major", "anti-diagonal", "padded"]}, key=["N"])
    def aligned(b: int, kind: str, N: int) -> Any:
        scores, blocks = lego.Tensor(i32, Row(N + 1, N + 1)), N // b
        growing = [("nw_growing", d + 1, {"diagonal": d}) for d in range(1, blocks)]
        shrinking = [("nw_shrinking", 2 * blocks - 1 - d, {"diagonal": d}) for d in range(blocks, 2 * blocks - 1)]
        given = {"scores": scores, "substitution": scores, "penalty": 3, "diagonal": 0}
        shared = wavefronts.shared_bytes(wavefronts.buffer(kind, b))
        return lego.TemplateLaunch(
            wavefronts.nw(N, b, kind), "nw_growing", 1, given, writes=["scores"], reference=nw.in_numpy, block=b,
            shared_bytes=shared if shared > 48 * 1024 else 0, then=[*growing, *shrinking],
        )  # fmt: skip

    @lego.tune(
        space={"layout": ["row-major", "bricks"], "depth": [1, 4], "y": [4, 8], "x": [8, 32], "planes": [1, 4],
               "width": [1, 4]},
        key=["N"], where=["depth * y * x <= 1024", "x * width <= N", "depth * planes <= N"],
        counts=lambda values, sizes: stencil_counts(values, sizes["N"]),
    )  # fmt: skip
    def diffused(layout: str, depth: int, y: int, x: int, planes: int, width: int, N: int) -> Any:
        cube = stencil.bricks(N) if layout == "bricks" else stencil.row_major(N)
        block, outputs = (depth, y, x), (depth * planes, y, x * width)
        X = lego.Tensor(f32, cube)
        template = stencil.stencil(N, "7-point", cube, block=block, each=(planes, width))
        grid = [N // outputs[2], N // outputs[1], N // outputs[0]]
        return lego.TemplateLaunch(
            template, "stencil", grid, {"in": X, "out": X}, writes=["out"], reference=stencil_in_numpy,
            block=block[::-1],
        )  # fmt: skip

    return {"rowwise": rowwise, "normalised": normalised, "multiplied": multiplied,
            "grouped": grouped, "aligned": aligned, "diffused": diffused}  # fmt: skip


def stencil_counts(values: Any, n: int) -> Any:
    """The counts of a configuration of `diffused`."""
    from lego_mlir.tuning import template_counts

    block, each = (values["depth"], values["y"], values["x"]), (values["planes"], values["width"])
    return template_counts.stencil(n, "7-point", block=block, each=each, bricks=values["layout"] == "bricks")


def stencil_in_numpy(**arrays: Any) -> Any:
    """The 7-point stencil; elements at the faces of the cube stay as they are."""
    from lego_mlir.templates.library.stencil import STENCILS

    field, after = arrays["in"], arrays["out"].copy()
    inner = slice(1, -1)
    rolled = (w * np.roll(field, (-dz, -dy, -dx), (0, 1, 2)) for dz, dy, dx, w in STENCILS["7-point"])
    after[inner, inner, inner] = sum(rolled)[inner, inner, inner]
    return after


def pack(words: Sequence[str]) -> None:
    from lego_mlir.tuning import packed
    from lego_mlir.tuning.gpu_workbench import Preparing, template_toolchain
    from lego_mlir.tuning.work_units import SizedProblem

    names, few = _chosen(words)
    for name in names:
        tunable = _spec()[name]
        sizes = SIZES[name][:1] if few else SIZES[name]
        problems = [SizedProblem(_candidates(tunable, name, at, few), at) for at in sizes]
        tools, prepare = template_toolchain(TARGET), Preparing(TARGET)
        folder = _folder(name, few)
        found = packed.write(folder, tunable, problems, TARGET, tools, prepare.trial)
        rows = [row for job in found.rows for row in job["candidates"]]
        failed = [row["failure"] for row in rows if "failure" in row]
        size = sum(file.stat().st_size for file in folder.rglob("*"))
        print(f"{folder}: {len(rows)} candidates, {size >> 10} KiB; {len(failed)} failed {failed[:1]}", flush=True)


def _chosen(words: Sequence[str]) -> tuple[list[str], bool]:
    """The tunables that are named, or all, and whether `few` of their candidates are wanted."""
    names = [word for word in words if word != "few"] or list(SIZES)
    if unknown := set(names) - set(SIZES):
        raise SystemExit(f"no tunable {', '.join(unknown)}; there are {', '.join(SIZES)}")
    return names, "few" in words


FEW, FEW_SECONDS = 4, 2.0
WHOLE = ("diffused",)
"""Spaces whose candidates are all measured, the pruned ones too."""


def _candidates(tunable: Any, name: str, sizes: dict[str, int], few: bool) -> Any:
    """What pruning leaves, all that builds of a WHOLE space, or FEW that are spread over the list."""
    kept = tunable.prune(sizes).kept
    if name in WHOLE and not few:
        kept = [
            c for c in tunable.candidates(sizes) if not tunable.space.excluded(c.configuration, sizes) and _built(c)
        ]
    return kept[:: max(len(kept) // FEW, 1)][:FEW] if few else kept


def _built(candidate: Any) -> bool:
    from lego_mlir.errors import LegoError

    try:
        return bool(candidate.built)
    except LegoError:
        return False


def _folder(name: str, few: bool) -> Path:
    return FOLDER / f"{name}-few" if few else FOLDER / name


def time(words: Sequence[str]) -> int:
    """Race each; exit code 1 where a candidate has no time."""
    from lego_mlir.tuning import packed
    from lego_mlir.tuning.several_devices import halve_on_devices

    rows, bench = [], None  # its processes have imported Triton, and have a context
    names, few = _chosen(words)
    for name in names:
        found = packed.read(_folder(name, few))
        workbench = found.workbench()
        bench = bench or workbench.bench
        one = [replace(workbench, bench=bench)]
        for timings in halve_on_devices(one, name, found.problems, seconds=FEW_SECONDS if few else None):
            row = _row(timings)
            configurations = {t.configuration.key: t.configuration.to_data() for t in timings}
            rows.append({"tunable": name, **row, "configurations": configurations})
            print(f"{name} {row['sizes']}: {len(row['us'])} timed, best {row['best']}, {row['failed']}", flush=True)
        harness.save(NAME, {"device": harness.device_name(), "few": few, "rows": rows})
    return int(any(row["failed"] for row in rows))


def _row(timings: Sequence[Any]) -> dict[str, Any]:
    """The times of the candidates of a size, in microseconds."""
    times = {t.configuration.key: round(t.median, 3) for t in timings if not t.failure}
    return {
        "sizes": dict(timings[0].sizes), "best": min(times, key=times.__getitem__, default=None), "us": times,
        "failed": {t.configuration.key: t.failure for t in timings if t.failure},
    }  # fmt: skip


def table() -> None:
    results = mlir_kernels.newest(NAME)
    cells = [
        [row["tunable"], " ".join(f"{n}={v}" for n, v in row["sizes"].items()), str(len(row["us"])),
         str(len(row["failed"])), row["best"] or "", f"{row['us'][row['best']]:.1f}" if row["best"] else ""]
        for row in results["rows"]
    ]  # fmt: skip
    columns = "template|size|timed|failed|fastest|us"
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(row["tunable"] for row in results["rows"]))
    text = (
        f"Shipped templates on {results['device']}, the tunables {names} of `bench/tuned_templates.py`; each candidate "
        f"was checked against NumPy first:\n\n{mlir_kernels.table(columns, cells)}\n"
    )
    mlir_kernels.put_into("how-to/tuning-measuring.md", "templates", text)


BENCHMARK = runner.Benchmark(NAME, table=table, steps={"pack": pack, "time": time})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
else:
    globals().update(_spec())  # as a spec
