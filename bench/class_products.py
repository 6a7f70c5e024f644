"""Products by warpgroups with one kernel for all sizes of a class, beside the kernel of each size and cuBLAS.

    python bench/class_products.py render     the kernels of the sizes and of their classes, as cubins, no GPU
    python bench/class_products.py time       on the GPU machine: correctness, then times in turns of 0.2 s
    python bench/class_products.py table      the table of docs/results/matmul.md

`time` checks each class at sizes of small M as well. Results come to $OUT/class_products.json, or bench/results.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import hopper
import mlir_kernels

NAME, PAGE = "class_products", "results/matmul.md"
TURN_S, ROUNDS = 0.2, 3
Size = tuple[int, int, int]
SIZES: tuple[tuple[Size, str], ...] = (
    ((512,) * 3, "NT"), ((1024,) * 3, "NN"), ((2048,) * 3, "NT"), ((4096,) * 3, "NT"), ((4096,) * 3, "NN"),
    ((8192,) * 3, "NN"), ((8192,) * 3, "NT"), ((4104,) * 3, "NN"), ((3704,) * 3, "TT"), ((300, 4096, 4096), "NT"),
    ((777, 4096, 4096), "NT"), ((1500, 11008, 4096), "NT"), ((3000, 4096, 11008), "NN"), ((4095, 4096, 4096), "NT"),
    ((6000, 4096, 4096), "TN"), ((1176,) * 3, "NT"), ((1144,) * 3, "NN"), ((904, 2056, 1096), "NT"),
    ((1352, 872, 2200), "NN"),
)  # fmt: skip
KERNELS = ("fixed", "class")
CHECKED = (1, 8, 65, 129, 1000, 2047)
"""Values of M, times 64 in classes of whole columns along M, at which a class is checked with its N and K."""


def class_at(size: Size, layouts: str) -> Any:
    from lego_mlir.kernels.product_classes import class_of

    return class_of(size, layouts, "f16", "f16", hopper.SMS)


def render() -> None:
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    index: list[dict[str, Any]] = []
    made: dict[str, str] = {}
    for size, layouts in SIZES:
        found = class_at(size, layouts)
        if found.name not in made:
            made[found.name] = f"class-{len(made)}"
            built = compile_kernel(found.kernel(), target=hopper.TARGET, emit="cubin", cache=Cache(default_folder()))
            write(folder, made[found.name], built)
        fixed = f"{'x'.join(map(str, size))}-{layouts}"
        write(folder, fixed, hopper.compiled(size, layouts, "f16"))
        index.append({"size": size, "layouts": layouts, "fixed": fixed, "class": made[found.name], "name": found.name})
    (folder / "index.json").write_text(json.dumps(index, indent=1))
    print(f"{len(index)} sizes, {len(made)} classes in {folder}")


def write(folder: Path, name: str, made: Any) -> None:
    (folder / f"{name}.cubin").write_bytes(made.bytes)
    (folder / f"{name}.json").write_text(json.dumps(made.manifest))


def time() -> None:
    import torch

    from lego_mlir.runtime.packs import load_kernels

    folder = harness.ARTIFACTS / NAME
    index = json.loads(harness.rendered(folder / "index.json").read_text())
    kernels = {name: next(iter(load_kernels(folder / f"{name}.cubin").values()))
               for entry in index for name in (entry["fixed"], entry["class"])}  # fmt: skip
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    results["checked"] = [checked(kernels[entry["class"]], entry) for entry in first_of_class(index)]
    out = Path(os.environ.get("OUT", harness.BENCH / "results")) / f"{NAME}.json"
    results["rows"] = []
    for entry in index:
        results["rows"] += timed(kernels, entry)
        out.write_text(json.dumps(results, indent=1) + "\n")
    wrong = [row for row in results["checked"] if row["wrong"]]
    sys.exit(f"wrong: {wrong}" if wrong else 0)


def first_of_class(index: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({entry["class"]: entry for entry in index}.values())


def arrays(size: Size, layouts: str) -> tuple[Any, Any, Any]:
    import torch

    m, n, k = size
    a, b = (
        torch.randint(-4, 5, dims if letter == "N" else dims[::-1], device="cuda").half()
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    )
    a, b = (x if letter == "N" else x.t() for letter, x in zip(layouts, (a, b), strict=True))
    return a, b, torch.full((m, n), float("nan"), device="cuda").half()


def checked(kernel: Any, entry: dict[str, Any]) -> dict[str, Any]:
    """Products of small integers by one kernel for several M, exact unless a sum leaves the type's integers."""
    import torch

    _, n, k = entry["size"]
    wrong = []
    step = 1 if entry["layouts"][0] == "N" else 64 if "whole" in entry["name"] else 8
    for m in CHECKED:
        a, b, c = arrays((m * step, n, k), entry["layouts"])
        kernel(a, b, c)
        if not torch.equal(c, torch.mm(a, b)):
            wrong.append(m * step)
    print(entry["name"], "wrong at M =" if wrong else "right", wrong or "", flush=True)
    return {"class": entry["name"], "n": n, "k": k, "step": step, "m": CHECKED, "wrong": wrong}


def timed(kernels: dict[str, Any], entry: dict[str, Any]) -> list[dict[str, Any]]:
    import torch

    a, b, c = arrays(entry["size"], entry["layouts"])
    a, b = (torch.randn_like(x.float()).half().as_strided(x.shape, x.stride()) for x in (a, b))
    runs: dict[str, Any] = {"cuBLAS": lambda: torch.mm(a, b, out=c)}
    for name in ("fixed", "class"):
        kernel = kernels[entry[name]]
        c.fill_(float("nan"))
        kernel(a, b, c)
        harness.require_close(c, torch.mm(a, b), hopper.TOLERANCE, entry[name])
        runs[name] = kernel.prepare(a, b, c)
    times = {name: sorted(found)[len(found) // 2] for name, found in hopper.in_turns(runs, TURN_S, ROUNDS).items()}
    shown = ", ".join(f"{name} {times['cuBLAS'] / ms:.3f}" for name, ms in times.items())
    print(entry["size"], entry["layouts"], f"{times['cuBLAS']:.4f} ms:", shown, flush=True)
    return [{"kernel": name, "size": entry["size"], "layouts": entry["layouts"], "ms": ms}
            for name, ms in times.items()]  # fmt: skip


def table() -> None:
    """The table of the documentation, from the newest results."""
    results, path = mlir_kernels.latest(NAME), mlir_kernels.latest_path(NAME)
    if results is None or path is None:
        raise SystemExit(f"no results of {NAME}; run the step `time` on a GPU")
    times = {(tuple(row["size"]), row["layouts"], row["kernel"]): row["ms"] for row in results["rows"]}
    cells, ratios = [], {name: [] for name in KERNELS}  # type: ignore[var-annotated]
    for size, layouts in SIZES:
        for name in KERNELS:
            ratios[name].append(times[size, layouts, "cuBLAS"] / times[size, layouts, name])
        cells.append([" x ".join(map(str, size)), layouts, *(f"{ratios[name][-1]:.3f}" for name in KERNELS)])
    cells.append(["geometric mean", "", *(f"{geometric_mean(found):.3f}" for found in ratios.values())])
    circumstances = f"{results['device']}, {path.name[: len('2026-01-02')]}, PyTorch {results['torch']}.\n\n"
    text = mlir_kernels.table("M x N x K|layouts|its own kernel|the kernel of its class", cells)
    mlir_kernels.put_into(PAGE, "classes", circumstances, text)


if __name__ == "__main__":
    {"render": render, "time": time, "table": table}[sys.argv[1]]()
