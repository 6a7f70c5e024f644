"""The emulator's values and counts against a GPU's: launches of the corpus, bit by bit.

    python test/hardware/sanitizer_hardware.py render FOLDER [WORD ..]   no GPU: cubins, arguments, emulated results
    python test/hardware/sanitizer_hardware.py run                       on the GPU machine: the same launches, compared
    python test/hardware/sanitizer_hardware.py count                     there, with ncu: wavefronts and sectors
    python test/hardware/sanitizer_hardware.py table                     the tables of docs/results/sanitizer.md

FOLDER has launches that `corpus/cases.py` kept. A launch takes part if its buffers hold no addresses. `exact` are the
kernels without approximate functions and without atomics on floats: their values must be equal bit by bit; of others
the largest distance in units of the last place is shown. `run` and `count` need NumPy and CuPy, and not this package's
compiler: `render` leaves a plain archive.
"""

import functools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import harness  # noqa: E402  (bench/ is a folder of scripts, not a package)
import mlir_kernels  # noqa: E402
import runner  # noqa: E402

NAME = "sanitizer_hardware"
SPARSE = "sanitizer_sparse"
"""The results of `run` for the launches of corpus/ptx_cases.py."""
TARGET = "sm_90a"
APPROXIMATE = re.compile(
    r"\b(?:ex2|lg2|sin|cos|tanh|rsqrt|sqrt|rcp|div)\.approx|\bdiv\.full|"
    r"\b(?:atom|red)\.\S*\.f(?:16|32|64)|\bmma\.(?!sp)|\bwgmma\.|tanh\.f|"
    r"\bex2\.f|clock|globaltimer|smid"
)
"""What a GPU computes in its own way, or in an order of its own. The corpus has mma.sp of small integers only."""
METRICS = {
    "shared loads": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared stores": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "sectors read": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "sectors written": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
CUDA, EXACT, OTHERS = "cuda_cases", 44, 8
COLUMNS = {
    ("shared", "read"): "shared loads", ("shared", "write"): "shared stores", ("global", "read"): "sectors read",
    ("global", "write"): "sectors written",
}  # fmt: skip


def folder() -> Path:
    found = harness.ARTIFACTS / NAME
    found.mkdir(parents=True, exist_ok=True)
    return found


def rendered(path: Path) -> dict[str, Any] | None:
    """A launch as plain data; None for one that cannot be on a device."""
    from dataclasses import replace

    from lego_mlir.errors import InterpreterError
    from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
    from lego_mlir.interp.ptx.recorded_launches import RecordedLaunch
    from lego_mlir.interp.ptx.replays import replayed

    launch = RecordedLaunch.load(path)
    try:
        launch.on_device([0] * len(launch.buffers))
    except InterpreterError:
        return None
    options = EmulatorOptions(checks=replace(launch.checks, counts=True))
    report, after = replayed(launch, options=options)
    if not report.clean or launch.cluster != (1, 1, 1):
        return None
    cubin = assembled(launch.text)
    if cubin is None:
        return None
    place = folder() / path.stem
    place.with_suffix(".cubin").write_bytes(cubin)
    before = {f"before{i}": np.frombuffer(b.contents, np.uint8) for i, b in enumerate(launch.buffers)}
    np.savez_compressed(place.with_suffix(".npz"), **before, **{f"after{i}": a for i, a in enumerate(after)})
    counts = dict.fromkeys(METRICS, 0)
    for site in report.sites:
        counts[COLUMNS[site.space, site.kind]] += site.wavefronts if site.space == "shared" else site.sectors
    addresses = [b.address for b in launch.buffers]
    return {
        "name": path.stem, "entry": launch.entry, "grid": launch.grid, "block": launch.block,
        "cluster": launch.cluster, "shared": launch.dynamic_shared, "items": [b.item for b in launch.buffers],
        "parameters": parameters(launch), "addresses": addresses, "counts": counts,
        "exact": not APPROXIMATE.search(body(launch)), "group": path.parent.name,
    }  # fmt: skip


def body(launch: Any) -> str:
    """The text of the entry, and of the functions of its module."""
    parts = re.split(r"(?=^\.(?:visible|weak|extern)?\s*\.?(?:entry|func)\b)", launch.text, flags=re.M)
    return "".join(part for part in parts if ".entry" not in part or f".entry {launch.entry}(" in part)


def parameters(launch: Any) -> list[tuple[str, int | float]]:
    """The type and value of each parameter, pointers with the emulator's addresses."""
    from lego_mlir.interp.ptx.ptx_reader import read_ptx

    declared = read_ptx(launch.text).entry(launch.entry).parameters
    return [(p.dtype, v.item() if hasattr(v, "item") else v) for p, v in zip(declared, launch.values, strict=True)]


@functools.cache
def assembled(text: str) -> bytes | None:
    """The machine code of a PTX text for TARGET, None where ptxas refuses it."""
    text = re.sub(r"^\.target sm_\d+a?\b.*$", f".target {TARGET}", text, flags=re.M)
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "k.ptx", Path(scratch) / "k.cubin"
        source.write_text(text)
        done = subprocess.run(["ptxas", "-arch", TARGET, str(source), "-o", str(out)], capture_output=True, check=False)
        return out.read_bytes() if done.returncode == 0 else None


def render(words: Sequence[str]) -> None:
    """All launches of a folder, or those whose names have a word."""
    source, chosen = Path(words[0]), words[1:]
    place = folder() / "index.json"
    index = json.loads(place.read_text()) if place.exists() else []
    known = {case["name"] for case in index}
    for path in sorted(source.rglob("*.npz")):
        if path.stem in known or (chosen and not any(word in path.stem for word in chosen)):
            continue
        try:
            found = rendered(path)
        except Exception as error:  # of one launch; the others still count
            print(f"{path.stem}: {type(error).__name__}: {error}")
            continue
        if found is not None:
            index.append(found)
        place.write_text(json.dumps(index))
    print(f"{len(index)} launches, {sum(i['exact'] for i in index)} of them exact")


# -- on the GPU machine


def launched(case: dict[str, Any]) -> list[np.ndarray]:
    """The bytes of the buffers after the launch on the device."""
    import cupy

    place = folder() / case["name"]
    kernel = cupy.RawModule(path=str(place.with_suffix(".cubin"))).get_function(case["entry"])
    data = np.load(place.with_suffix(".npz"))
    count = len(case["addresses"])
    # a buffer may be read a little past its end in vectors that are masked: room as the driver's allocator leaves
    held = [cupy.asarray(np.concatenate([data[f"before{i}"], np.zeros(256, np.uint8)])) for i in range(count)]
    values = []
    for dtype, value in case["parameters"]:
        values.append(scalar(dtype, value, case, held))
    if case["shared"] > 48 << 10:
        kernel.max_dynamic_shared_size_bytes = case["shared"]
    kernel(tuple(case["grid"]), tuple(case["block"]), tuple(values), shared_mem=case["shared"])
    cupy.cuda.runtime.deviceSynchronize()
    return [cupy.asnumpy(h)[: data[f"before{i}"].nbytes] for i, h in enumerate(held)]


def scalar(dtype: str, value: float, case: dict[str, Any], held: list[Any]) -> Any:
    """A parameter; a pointer becomes one of the device."""
    sizes = [h.nbytes - 256 for h in held]
    for i, address in enumerate(case["addresses"]):
        if isinstance(value, int) and 0 <= value - address <= sizes[i]:
            return np.uint64(held[i].data.ptr + value - address)
    bits = int(dtype[1:])
    if isinstance(value, float):
        return {16: np.float16, 32: np.float32, 64: np.float64}[bits](value)
    return np.array([value & ((1 << bits) - 1)], np.uint64).astype(f"u{bits // 8}")[0]


def compared(case: dict[str, Any]) -> dict[str, Any]:
    """How the device's values differ from the emulator's."""
    data, found = np.load((folder() / case["name"]).with_suffix(".npz")), launched(case)
    different = total = 0
    distance = 0
    for i, (mine, item) in enumerate(zip(found, case["items"], strict=True)):
        wanted = data[f"after{i}"]
        total += wanted.nbytes
        different += int((mine != wanted).sum())
        if item in (2, 4, 8) and (mine != wanted).any():
            distance = max(distance, apart(mine, wanted, item))
    return {"name": case["name"], "exact": case["exact"], "bytes": total, "different": different, "apart": distance}


def apart(x: np.ndarray, y: np.ndarray, item: int) -> int:
    """The largest distance of elements as ordered bit patterns: units of the last place of floats."""
    kind, size = f"i{item}", len(x) // item * item
    a, b = (v[:size].view(kind).astype(np.int64) for v in (x, y))
    low = np.int64(-(1 << 8 * item - 1)) if item < 8 else np.iinfo(np.int64).min
    a, b = (np.where(v < 0, low - v, v) for v in (a, b))
    return int(np.abs(a - b).max()) if len(a) else 0


def cases() -> list[dict[str, Any]]:
    """The chosen launches: EXACT that must be equal, those of CUDA first, then of each package in turn, and OTHERS."""
    index = json.loads((folder() / "index.json").read_text())
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in index:
        groups.setdefault(case["group"], []).append(case)
    exact = {name: [c for c in found if c["exact"]] for name, found in groups.items()}
    turns = [c for row in zip_longest(*(v for k, v in exact.items() if k != CUDA)) for c in row if c is not None]
    chosen = [*exact.get(CUDA, []), *turns][:EXACT]
    others = [c for row in zip_longest(*groups.values()) for c in row if c is not None and not c["exact"]]
    return chosen + others[:OTHERS]


def values() -> None:
    """All cases in this process; the results are written after each."""
    rows = []
    for case in cases():
        try:
            rows.append(compared(case))
        except Exception as error:  # recorded; the other launches still count
            rows.append({"name": case["name"], "exact": case["exact"], "error": f"{type(error).__name__}: {error}"})
        harness.save(NAME, {"device": harness.device_name(), "rows": rows})
        print(rows[-1], flush=True)


def counted() -> None:
    """ncu's counts of all cases, in one process under ncu."""
    import ncu

    chosen = cases()
    found = ncu.watch([__file__, "launch"], METRICS)
    names = {case["entry"] for case in chosen}
    launches = [launch for launch in found if launch.kernel.split("(")[0] in names]
    pairs = zip(chosen, launches, strict=len(chosen) == len(launches))
    rows = [{"name": c["name"], "emulated": c["counts"], "device": launch.counts} for c, launch in pairs]
    harness.save(f"{NAME}_counts", {"device": harness.device_name(), "rows": rows})
    print(f"{len(rows)} launches of {len(chosen)}, ncu saw {len(found)}")
    for row in rows:
        print(row)


def table() -> None:
    """What was equal, and what was not."""
    found = mlir_kernels.newest(NAME)
    rows = [row for row in found["rows"] if "error" not in row]
    exact = [row for row in rows if row["exact"]]
    print(f"{found['device']}: {len(exact)} launches that must be equal, {sum(not r['different'] for r in exact)} are")
    for row in exact:
        if row["different"]:
            print(f"- {row['name']}: {row['different']} of {row['bytes']} bytes differ, by {row['apart']} units")
    print("| others | bytes that differ | units of the last place |\n|---|---|---|")
    for row in rows:
        if not row["exact"]:
            print(f"| {row['name'].split('-')[0]} | {row['different']} of {row['bytes']} | {row['apart']} |")
    sparse = mlir_kernels.newest(SPARSE)["rows"]
    print(f"mma.sp (ptx_cases): {sum(not row['different'] for row in sparse)} of {len(sparse)} launches are equal")
    counts = mlir_kernels.newest(f"{NAME}_counts")["rows"]
    for name in METRICS:
        pairs = [(row["emulated"][name], row["device"][name], row["name"]) for row in counts]
        used = [pair for pair in pairs if pair[0] or pair[1]]
        print(f"{name}: equal in {sum(a == b for a, b, _ in used)} of {len(used)} launches")
        print(*(f"- {which.split('-')[0]}: {a} emulated, {b} counted" for a, b, which in used if a != b), sep="\n")


def launch(words: Sequence[str]) -> None:
    """Every case once, for ncu."""
    for case in cases():
        launched(case)


BENCHMARK = runner.Benchmark(
    NAME, table=table,
    steps={"render": render, "run": lambda words: values(), "count": lambda words: counted(), "launch": launch},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
