"""Structured matrices against BLAS libraries, Eigen and compilers: the LGen paper's five cases, and the same in float.

    pip install mkl scipy-openblas32                    the baselines' libraries, wherever `packages` is
    python bench/structured.py build DIR [packages=DIR] [sizes=8,40] [untuned] [one-buffer]
                                                       generate, compile and link our kernels and all baselines;
                                                       `one-buffer`: all calls take the same arrays
    python bench/structured.py run DIR                 correctness, then times, all baselines of a point interleaved;
                                                       JSON, to be kept in bench/results
    python bench/structured.py table                   ratios, into docs/results/structured.md
    python bench/structured.py points RESULTS.json     every point as Markdown

Two processes run the same points: one with MKL and OpenBLAS as they come, one in which MKL takes its AVX-512 kernels
(a preloaded library answers for the processor) and OpenBLAS those of SkylakeX. Ours, Eigen and the naive codes run in
both. Times are medians of 30 rounds with warm caches, taken on an otherwise idle core; a cycle's length is
measured with them. Where code and data come to lie in memory differs from process to process and can matter more than
anything else, so each of the two runs several times, on fresh copies of all libraries, and the middle time counts.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlir_kernels
import runner

RIVALS = Path(__file__).parent / "rivals" / "structured"
SIZES = (4, 5, 8, 9, 12, 16, 17, 20, 24, 28, 32, 33, 40, 48, 57, 64, 80, 96, 112, 120, 121)
DTYPES = {"float64": ("double", "d_"), "float32": ("float", "s_")}
CASES = {
    "dsyrk": "S = Symmetric(U, {n}); A = Matrix({n}, 4); S = A*A' + S;",
    "dtrsv": "x = Vector({n}); L = LowerTriangular({n}); x = L \\ x;",
    "dlusmm": "A = Matrix({n}, {n}); L = LowerTriangular({n}); U = UpperTriangular({n}); S = Symmetric(L, {n}); "
    "A = L*U + S;",
    "dsylmm": "A = Matrix({n}, {n}); S = Symmetric(U, {n}); L = LowerTriangular({n}); A = S*L + A;",
    "composite": "A = Matrix({n}, {n}); L0 = LowerTriangular({n}); L1 = LowerTriangular({n}); S = Symmetric(L, {n}); "
    "x = Vector({n}); A = (L0 + L1)*S + x*x';",
}
# Operations that the structures leave, as the paper counts them.
FLOPS = {
    "dsyrk": lambda n: 4 * n * n + 4 * n,
    "dtrsv": lambda n: n * n + n,
    "dlusmm": lambda n: (2 * n**3 + n) / 3 + n * n,
    "dsylmm": lambda n: n**3 + n * n,
    "composite": lambda n: n**3 + 2.5 * (n * n + n),
}
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang-22", "clang++-22")}
C_FORMS = ("naive", "rows")
EIGEN_FORMS = ("eigen", "eigen_dense")
OWN = ("ours", "ours_untuned")
FLAGS = ["-O3", "-march=native", "-ffast-math", "-fPIC", "-w"]
PROCESSES = ("as they come", "avx512")
RUNS = 3  # an odd number, so that there is a middle one


def call(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True)


def build(folder: Path, sizes: list[int], packages: Path, tune: bool, one_buffer: bool = False) -> None:
    """Everything that a run needs, as shared libraries and one plan."""
    folder.mkdir(parents=True, exist_ok=True)
    libraries = {"ours": ours(folder, "ours", sizes, tune)}
    if tune:
        libraries["ours_untuned"] = ours(folder, "ours_untuned", sizes, False)
    for source in ("blas", "timing", "intel"):
        call("gcc", "-O2", "-fPIC", "-shared", RIVALS / f"{source}.c", "-o", folder / f"{source}.so", "-ldl")
    libraries["blas"] = str(folder / "blas.so")
    for name, (c, _) in COMPILERS.items():
        if shutil.which(c) is None:
            print(f"{c} is not installed: no naive code by {name}", file=sys.stderr)
            continue
        for form in C_FORMS:
            libraries[f"{form}_{name}"] = per_size(folder, f"{form}_{name}", c, RIVALS / f"{form}.c", sizes)
    if Path("/usr/include/eigen3").is_dir():
        flags = ("-I/usr/include/eigen3", "-std=c++17")
        for form in EIGEN_FORMS:
            libraries[form] = per_size(folder, form, "g++", RIVALS / f"{form}.cpp", sizes, flags)
    blas = [found for found in (mkl(packages), openblas(packages)) if found is not None]
    points = [
        {
            "case": case,
            "n": n,
            "dtype": dtype,
            "entries": entries(case, n, dtype, libraries, [name for name, *_ in blas]),
            **({"copies": 1} if one_buffer else {}),
        }
        for dtype in DTYPES
        for case in CASES
        for n in sizes
    ]
    plan = {
        "timing": str(folder / "timing.so"),
        "libraries": libraries,
        "blas": [[path, prefix] for _, path, prefix in blas],
        "points": points,
    }
    (folder / "plan.json").write_text(json.dumps(plan))


def ours(folder: Path, library: str, sizes: list[int], tune: bool) -> str:
    """Our kernels of all points as one library; and a file that says which variants they are."""
    from lego_mlir.runtime import cpu
    from lego_mlir.store import Cache
    from lego_mlir.structured import build as structured
    from lego_mlir.structured import tuning as structured_tuning
    from lego_mlir.structured.language import parse

    objects, variants = [], {}
    cache = Cache(folder / "tuned")
    for dtype, (_, prefix) in DTYPES.items():
        for case, text in CASES.items():
            for n in sizes:
                program = parse(text.format(n=n))
                variant = structured_tuning.tuned(program, dtype, "host", cache) if tune else None
                name = f"{prefix}ours_{case}_{n}"
                source = structured.source_of(program, dtype=dtype, name=name, variant=variant)
                path = folder / f"{library}_{prefix}{case}_{n}.o"
                path.write_bytes(cpu.assemble(source.mlir(), (name,)))  # what a call from Python runs
                objects.append(path)
                variants[name] = str(source.variant)
    (folder / f"{library}.json").write_text(json.dumps(variants, indent=1))
    # the objects are meant to be placed by an in-process linker: absolute addresses in their code
    call("gcc", "-shared", "-Wl,-z,notext", *objects, "-o", folder / f"{library}.so")
    return str(folder / f"{library}.so")


def per_size(folder: Path, name: str, compiler: str, source: Path, sizes: list[int], more: tuple[str, ...] = ()) -> str:
    """A source that is compiled once for each size and type, linked as one library."""
    objects = []
    for kind, prefix in DTYPES.values():
        for n in sizes:
            path = folder / f"{name}_{prefix}{n}.o"
            if not path.exists():
                defined = [f"-DSIZE={n}", f"-DELEMENT={kind}", f"-DPREFIX={prefix}"]
                call(compiler, *FLAGS, *more, *defined, "-c", source, "-o", path)
            objects.append(path)
    library = folder / f"{name}.so"
    call("g++", "-shared", *objects, "-o", library)
    return str(library)


def mkl(packages: Path) -> tuple[str, str, str] | None:
    """MKL's single library, from the packages' lib folder."""
    found = sorted(packages.glob("**/libmkl_rt.so*"))
    return ("mkl", str(found[0]), "") if found else None


def openblas(packages: Path) -> tuple[str, str, str] | None:
    """OpenBLAS from scipy-openblas32, whose names have a prefix."""
    found = sorted(packages.glob("scipy_openblas32/lib/libscipy_openblas*.so"))
    return ("openblas", str(found[0]), "scipy_") if found else None


def entries(case: str, n: int, dtype: str, libraries: dict[str, str], blas: list[str]) -> list[dict[str, Any]]:
    prefix = DTYPES[dtype][1]
    found: list[dict[str, Any]] = [
        {"name": name, "library": name, "symbol": f"{prefix}ours_{case}_{n}"} for name in OWN if name in libraries
    ]
    for number, name in enumerate(blas):
        found.append({"name": name, "library": "blas", "symbol": f"{prefix}blas_{case}", "blas": number})
    for library in libraries:
        if library.startswith((*C_FORMS, *EIGEN_FORMS)):
            symbol = f"{prefix}{library.split('_')[0]}_{case}_{n}"
            found.append({"name": library, "library": library, "symbol": symbol})
    return found


def run(folder: Path) -> list[dict[str, Any]]:
    """Both processes' results, each the middle ones of several runs."""
    results: list[dict[str, Any]] = []
    wide = " avx512f " in Path("/proc/cpuinfo").read_text()
    for process in PROCESSES[: 2 if wide else 1]:
        environment = {
            **os.environ, "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_THREADING_LAYER": "SEQUENTIAL",
        }  # fmt: skip
        if process == "avx512":
            environment |= {"LD_PRELOAD": str(folder / "intel.so"), "OPENBLAS_CORETYPE": "SkylakeX"}
            environment |= {"MKL_ENABLE_INSTRUCTIONS": "AVX512"}
        runs = []
        for _ in range(RUNS):
            done = subprocess.run(
                [sys.executable, RIVALS / "worker.py", folder / "plan.json"],
                env=environment, check=True, stdout=subprocess.PIPE,
            )  # fmt: skip
            runs.append(json.loads(done.stdout))
        results += [{"process": process, **middle(points)} for points in zip(*runs, strict=True)]
    return results


def middle(points: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """One point from several runs: of each entry the run with the middle time, and all those times."""
    entries = {}
    for name in points[0]["entries"]:
        found = sorted((point["entries"][name] for point in points), key=lambda entry: entry.get("ns", math.inf))
        chosen = found[len(found) // 2]
        if "ns" in chosen:
            low, high = chosen["quartiles"]
            runs = [round(entry.get("ns", math.inf), 2) for entry in found]
            chosen = {"ns": round(chosen["ns"], 2), "quartiles": [round(low, 2), round(high, 2)], "runs": runs}
        entries[name] = chosen
    cycles = sorted(point["cycle_ns"] for point in points)
    crowded = sum(point["crowded"] for point in points)
    return {**points[0], "entries": entries, "cycle_ns": round(cycles[len(cycles) // 2], 4), "crowded": crowded}


def circumstances(folder: Path) -> dict[str, Any]:
    """What a reader of the numbers must know: processor, compilers, libraries, and how it was timed."""
    told = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines())
    processor = {name.strip(): value.strip() for name, value in told.items()}
    versions = {
        c: subprocess.run([c, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
        for c, _ in COMPILERS.values()
        if shutil.which(c)
    }
    plan = json.loads((folder / "plan.json").read_text())
    return {
        "date": time.strftime("%Y-%m-%d"),
        "buffers": "one for all calls" if any("copies" in point for point in plan["points"]) else "rotated",
        "processor": {name: processor.get(name) for name in ("model name", "cpu family", "model", "cache size")},
        "compilers": versions,
        "flags": FLAGS,
        "libraries": [Path(path).name for path, _ in plan["blas"]],
        "timing": f"one thread; medians of 30 rounds with warm caches on a core of its own, of {RUNS} processes each",
    }


def recorded(path: Path) -> list[dict[str, Any]]:
    """The points of a recorded run."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["points"]
    return found


def mean(ratios: list[float]) -> str:
    """Geometric mean (least to greatest)."""
    if not ratios:
        return "-"
    middle = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def ratios(results: list[dict[str, Any]], own: str) -> list[dict[str, Any]]:
    """How many times longer MKL in its AVX-512 form takes than `own`, and the best baseline of both processes."""
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    for point in results:
        ours = point["entries"].get(own, {}).get("ns")
        if ours is None:
            continue
        where = (point["dtype"], point["case"], point["n"])
        row = found.setdefault(where, dict(zip(("dtype", "case", "n"), where, strict=True), best=math.inf))
        for name, entry in point["entries"].items():
            if name not in OWN and "ns" in entry and entry["ns"] / ours < row["best"]:
                row |= {"best": entry["ns"] / ours, "baseline": name}
        if point["process"] == "avx512" and "ns" in point["entries"].get("mkl", {}):
            row["mkl"] = point["entries"]["mkl"]["ns"] / ours
    return list(found.values())


def table(results: list[dict[str, Any]]) -> list[str | mlir_kernels.Table]:
    """Geometric means of the ratios (least to greatest), by case and range of sizes; then the closest points."""
    parts: list[str | mlir_kernels.Table] = []
    for own in OWN:
        rows = ratios(results, own)
        if not rows:
            continue
        head = "tuned" if own == "ours" else "not tuned"
        heads = f"{head}|over MKL AVX-512, n <= 33|n >= 40|over the best baseline, n <= 33|n >= 40|all"
        lines = []
        for dtype in DTYPES:
            for case in CASES:
                mine = [row for row in rows if (row["dtype"], row["case"]) == (dtype, case)]
                small, large = ([row for row in mine if (row["n"] <= 33) == few] for few in (True, False))
                cells = [
                    mean([row["mkl"] for row in small if "mkl" in row]),
                    mean([row["mkl"] for row in large if "mkl" in row]),
                    *(mean([row["best"] for row in part if "baseline" in row]) for part in (small, large, mine)),
                ]
                lines.append([f"{case} {dtype}", *cells])
        least = sorted((row for row in rows if "baseline" in row), key=lambda row: row["best"])[:8]
        named = [f"{row['case']} {row['dtype']} n={row['n']}: {row['best']:.2f} ({row['baseline']})" for row in least]
        parts += [mlir_kernels.table(heads, lines), f"Closest to a baseline, {head}: {'; '.join(named)}.\n\n"]
    return parts


def points(results: list[dict[str, Any]]) -> str:
    """Every point in flops a cycle."""
    names = sorted({name for point in results for name in point["entries"]}, key=lambda name: (name not in OWN, name))
    lines = [f"| process | case | n | {' | '.join(f'{name} f/c' for name in names)} | ours ns |"]
    lines.append("|" + "---|" * (len(names) + 4))
    for point in results:
        cells = []
        for name in names:
            entry = point["entries"].get(name, {})
            flops = FLOPS[point["case"]](point["n"])
            cells.append(
                f"{flops * point['cycle_ns'] / entry['ns']:.2f}" if "ns" in entry else "wrong" if entry else "-"
            )
        own = point["entries"]["ours"]
        shown = f"{own['ns']:.1f}" if "ns" in own else "wrong"
        case = f"{point['case']} {point['dtype']}"
        lines.append(f"| {point['process']} | {case} | {point['n']} | {' | '.join(cells)} | {shown} |")
    return "\n".join(lines)


def build_step(words: Sequence[str]) -> None:
    given = runner.options(words, packages=sys.prefix, sizes="")
    folder, *forms = given.words
    sizes = [int(size) for size in given.sizes.split(",") if size] or list(SIZES)
    build(Path(folder).resolve(), sizes, Path(given.packages), "untuned" not in forms, "one-buffer" in forms)


def run_step(words: Sequence[str]) -> None:
    folder = Path(words[0]).resolve()
    print(json.dumps({"circumstances": circumstances(folder), "points": run(folder)}))


def page() -> None:
    """The table of the page, from the newest results."""
    if (path := mlir_kernels.latest_path("structured")) is not None:
        mlir_kernels.put_into("results/structured.md", "structured", *table(recorded(path)))


BENCHMARK = runner.Benchmark(
    "structured", table=page,
    steps={"build": build_step, "run": run_step, "points": lambda words: print(points(recorded(Path(words[0]))))},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
