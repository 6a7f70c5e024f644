"""Products of few rows, and of few tiles with long sums, by warpgroups (sm_90a): K in parts, against PyTorch's.

    python bench/divided_products.py render    the kernels that lego_mlir.matmul chooses, as cubins
    python bench/divided_products.py time      on the GPU machine: correctness, then times in turns of 0.03 s
    python bench/divided_products.py table     the table of docs/results/matmul-shapes.md

Cases are those of `hopper_types`: a size, layouts, types and an epilogue. Each kernel runs twice into memory of NaN: it
must be close to the product in f64, give the same bits again, and leave its counters at 0. Rivals are those of
`hopper_types`, and `mm` with a result of f32. Results come to $OUT/divided_products.json, or bench/results, after each
case: microseconds, and of our kernels the largest error and the mean one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import harness
import hopper
import hopper_types
import mlir_kernels
from hopper_types import Case

NAME, PAGE = "divided_products", "results/matmul-shapes.md"
TURN_S, ROUNDS = 0.03, 3
LONG: hopper.Size = (512, 512, 65536)
ROWS: tuple[hopper.Size, ...] = (
    (1, 2560, 8192), (8, 4096, 4096), (16, 1280, 8192), (24, 1536, 8960), (16, 2112, 7168), (64, 2112, 7168),
    (16, 3584, 18944), (32, 8192, 1024), (16, 7168, 8192), (1, 4608, 4096), (24, 10240, 8192), (48, 2048, 2048),
    (64, 2304, 5760), (56, 12288, 4096),
)  # fmt: skip
"""Few rows, and weights of which few were measured before."""
CASES = [
    *(Case(size, "NT", "f16", "f16") for size in ROWS),
    *(Case(size, "NN", "f16", "f16") for size in ((48, 2560, 8192), (40, 3072, 3072), (64, 1024, 8192), LONG)),
    *(Case(size, "NT", "f16", "f16") for size in ((512, 1024, 16384), (256, 256, 16384), (768, 768, 16384))),
    *(Case(LONG, "NT", "f16", "f32", "", exact) for exact in (0, 4)),
    Case((1, 768, 12288), "NT", "f16", "f16"), Case((384, 640, 24576), "NT", "f16", "f16"),
    Case((320, 320, 40000), "TT", "f16", "f16"), Case((128, 1024, 8192), "NN", "f16", "f16"),
    Case((512, 512, 8192), "TN", "f16", "f32"), Case((1024, 1024, 32768), "NT", "f16", "f32"),
    Case((256, 256, 16384), "NT", "bf16", "bf16", "bias_gelu"),
]  # fmt: skip


def tile_of(case: Case) -> Any:
    """The division that is chosen."""
    from lego_mlir.kernels import warpgroup_choices

    fused = hopper_types.epilogue_of(case)
    return warpgroup_choices.choose(
        *case.size, hopper.SMS, case.layouts, exact=case.exact, fused=fused is not None or case.result == "f32",
        operands=0 if fused is None else len(fused.operands),
    )  # fmt: skip


def render(_: list[str]) -> None:
    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        made = hopper_types.compiled(case)
        (folder / f"{case.name}.cubin").write_bytes(made.bytes)
        (folder / f"{case.name}.json").write_text(json.dumps(made.manifest))
    (folder / "index.json").write_text(json.dumps({case.name: str(tile_of(case)) for case in CASES}, indent=1))
    print(f"{len(CASES)} kernels in {folder}")


def time(_: list[str]) -> None:
    """Check and time all cases; exit code 1 where one is wrong."""
    import torch

    index = json.loads(harness.rendered(harness.ARTIFACTS / NAME / "index.json").read_text())
    out = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json"
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    failed = 0
    for case in CASES:
        try:
            results["rows"].append({"case": case.name, "tile": index[case.name], **measured(case)})
        except (harness.WrongResultError, RuntimeError) as error:
            print(f"{case.name}: {error}", file=sys.stderr, flush=True)
            failed += 1
        out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if failed else 0)


def measured(case: Case) -> dict[str, Any]:
    """The times and errors of one case."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    m, n, k = case.size
    torch.manual_seed(0)
    a, b = (hopper_types.operand(d, way, case) for d, way in zip(((m, k), (k, n)), case.layouts, strict=True))
    given = hopper_types.operands(case)
    expected, type_ = hopper_types.reference(case, a, b, given), hopper_types.type_of(case.result)
    (kernel,) = load_kernels(harness.ARTIFACTS / NAME / f"{case.name}.cubin").values()
    work = harness.scratch(kernel)
    found = [torch.full((m, n), float("nan"), device="cuda", dtype=type_) for _ in range(2)]
    for c in found:
        kernel(a, b, c, *given, *work)
    error = harness.require_close(found[0], expected, hopper_types.TOLERANCES[case.result], case.name)
    if not torch.equal(*found) or any(bool(one.any()) for one in work if one.dtype == torch.int32):
        raise harness.WrongResultError(f"{case.name}: two launches differ, or counters are left")
    runs: dict[str, Any] = {"lego": kernel.prepare(a, b, found[0], *given, *work)}
    if case.result == "f32" and not case.epilogue:
        runs["mm, f32 result"] = lambda: torch.mm(a, b, out_dtype=torch.float32)
    else:
        runs |= hopper_types.rivals(case, a, b, found[1], given)
    times = hopper.in_turns(runs, TURN_S, ROUNDS)
    us = {name: 1e3 * median(one) for name, one in times.items()}
    return {"us": us, "error": float(error), "mean": hopper_types.mean_error(found[0], expected)}


def table(_: list[str]) -> None:
    """The table of the documentation, from the newest results."""
    results = mlir_kernels.latest(NAME)
    if results is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    cells, ratios = [], []
    for row in results["rows"]:
        ours = row["us"]["lego"]
        best = min((us, name) for name, us in row["us"].items() if name != "lego")
        ratios.append(best[0] / ours)
        cells.append([
            row["case"].replace("-", " "), f"{best[0]:.2f}", best[1], f"{ours:.2f}", f"{ratios[-1]:.3f}", row["tile"]
        ])  # fmt: skip
    cells.append(["geometric mean", "", "", "", f"{geometric_mean(ratios):.3f}", ""])
    path = mlir_kernels.latest_path(NAME)
    circumstances = f"{results['device']}, {path.name[: len('2026-01-02')]}, PyTorch {results['torch']}.\n\n"
    heads = "M x N x K, layouts, types, epilogue|PyTorch us|its call|ours us|relative|division"
    mlir_kernels.put_into(PAGE, "divided", circumstances, mlir_kernels.table(heads, cells))


if __name__ == "__main__":
    mlir_kernels.main(__doc__ or "", {"render": render, "time": time, "table": table}, [], str)
