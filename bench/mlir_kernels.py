"""What the benchmarks of MLIR kernels share: artifacts that CuPy launches, figures of machine code, tables in docs."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness

DOCS = harness.BENCH.parent / "docs"
RESULTS = harness.BENCH / "results"
SHOWN = 8
"""Rows of a table that a page shows itself."""
LIBRARIES = {"triton": "Triton", "torch": "PyTorch"}


def compiled(kernel: Any, target: str, emit: str = "cubin", **options: Any) -> Any:
    """A kernel, compiled once: `options` are those of `compile_kernel`, such as a transform script."""
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    return compile_kernel(kernel, target=target, emit=emit, cache=Cache(default_folder()), **options)


def keep(folder: Path, name: str, compilation: Any) -> None:
    """A kernel's PTX and its manifest, for the GPU machine."""
    (folder / f"{name}.ptx").write_bytes(compilation.bytes)
    (folder / f"{name}.json").write_text(json.dumps(compilation.manifest))


def keep_code(folder: Path, name: str, compilation: Any) -> None:
    """A kernel's machine code and its manifest; processes may keep the same kernel at once."""
    from lego_mlir.store import replaced_whole

    for end, made in ((".cubin", compilation.bytes), (".json", json.dumps(compilation.manifest).encode())):
        with replaced_whole(folder / f"{name}{end}") as path:
            path.write_bytes(made)


def keep_cubin(folder: Path, kernel: Any, target: str, **options: Any) -> None:
    """A kernel's machine code in a folder, compiled anew where the kernel has changed: compilations are cached."""
    folder.mkdir(parents=True, exist_ok=True)
    keep_code(folder, kernel.name, compiled(kernel, target, **options))
    print(folder.name, kernel.name, flush=True)


def kept_kernel(path: Path) -> Any:
    """The one kernel of a file that `render` left; call it with tensors, or `prepare` it on them."""
    from lego_mlir.runtime.packs import load_kernels

    (kernel,) = load_kernels(harness.rendered(path)).values()
    return kernel


def launcher(folder: Path, name: str) -> Any:
    """A kept kernel, loaded: call it with CuPy arrays in memory order."""
    from lego_mlir.runtime import cuda

    return cuda.load(harness.rendered(folder / f"{name}.ptx")).kernel()


def assembled(ptx: str, target: str, shared_bytes: int) -> Any:
    """What `harness.static_row` reads: the instructions and resources of the one kernel in a PTX text."""
    from lego_mlir.toolchain import ptxas, sass, target_named

    cubin, (resources,) = ptxas.assemble(ptx, target_named(target))
    return SimpleNamespace(code=sass.disassemble(cubin), resources=resources, shared_bytes=shared_bytes)


def counted(code: Sequence[Any], kinds: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many instructions of machine code have one of the names of each kind."""
    names = [instruction.name for instruction in code]
    return {kind: sum(names.count(name) for name in among) for kind, among in kinds.items()}


def instructions(code: Sequence[Any]) -> int:
    """All instructions but those that end the code and fill its last line."""
    return sum(instruction.name not in ("NOP", "BRA") for instruction in code)


def by_triton(function: Any, pointers: Sequence[str], constants: Sequence[Any], warps: int, gluon: bool = False) -> Any:
    """A kernel of Triton, or in Gluon, compiled for sm_90 without a GPU: of aligned pointers, and constants."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    names, first = function.arg_names, len(pointers)
    signature = dict(zip(names, pointers, strict=False)) | dict.fromkeys(names[first:], "constexpr")
    values = {(first + k,): value for k, value in enumerate(constants)}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(first)}
    source = (GluonASTSource if gluon else ASTSource)(function, signature, values, aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})


def shared_bytes(compilation: Any) -> int:
    """Static and dynamic shared memory of a block."""
    (facts,) = compilation.kernels
    return facts.static_shared + facts.dynamic_shared


def blocks_per_sm(row: Any, threads: int) -> int:
    """How many blocks fit an SM at once: registers are given out 8 a thread at a time, and the system takes 1 KiB of
    shared memory for each block."""
    from lego_mlir.hardware import limits

    registers = -(-row["registers"] // 8) * 8 * threads
    by_shared = limits.SHARED_PER_SM // (row["shared_bytes"] + limits.RESERVED_SHARED_BYTES)
    return max(
        1, min(limits.REGISTERS_PER_SM // registers, by_shared, limits.THREADS_PER_SM // threads, limits.BLOCKS_PER_SM)
    )


def static_path(name: str, target: str) -> Path:
    """Where counts without a device are."""
    return RESULTS / "static" / f"{name}-{target}.json"


def static_results(name: str, target: str) -> list[dict[str, Any]]:
    """The rows that the step `static` wrote."""
    path = static_path(name, target)
    if not path.is_file():
        raise SystemExit(f"{path} is not there; run the step `static`")
    return json.loads(path.read_text())


def update_static(name: str, target: str, rows: list[dict[str, Any]]) -> None:
    """Keep the rows of these cases, after the others that are there."""
    path, cases = static_path(name, target), [row["case"] for row in rows]
    others = json.loads(path.read_text()) if path.is_file() else []
    path.write_text(json.dumps([*(row for row in others if row["case"] not in cases), *rows], indent=1) + "\n")


def latest(name: str) -> dict[str, Any] | None:
    """The newest times of this name with their circumstances; None where nothing was measured."""
    path = latest_path(name)
    return json.loads(path.read_text()) if path else None


def newest(name: str) -> dict[str, Any]:
    """The newest times of this name. Exits where there are none."""
    found = latest(name)
    if found is None:
        raise SystemExit(f"no results of {name}; run its step `time` on a GPU")
    return found


def by_case(results: Mapping[str, Any], key: str = "case") -> dict[Any, dict[str, Any]]:
    """The rows by case and kernel; lists are tuples in keys."""
    found: dict[Any, dict[str, Any]] = {}
    for row in results["rows"]:
        case = tuple(row[key]) if isinstance(row[key], list) else row[key]
        found.setdefault(case, {})[row["kernel"]] = row
    return found


def measured_cases(name: str, cases: Iterable[harness.Case], ours: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The cases of which the newest times have our kernel, with the rows of all kernels."""
    measured = by_case(newest(name))
    for case in cases:
        rows = measured.get(tuple(harness.words_of(case)), {})
        if ours in rows:
            yield case, rows


def latest_path(name: str) -> Path | None:
    """Where the newest times of this name are."""
    found = all_paths(name)
    return found[-1] if found else None


def all_paths(name: str) -> list[Path]:
    """Where all times of this name are, the oldest first."""
    return sorted(RESULTS.glob(f"*/????-??-??-{name}.json"), key=lambda path: path.name)


def circumstances(name: str, results: Mapping[str, Any], *versions: str) -> str:
    """The device and the date of the newest times of this name, then the versions that `versions` names."""
    path = latest_path(name)
    date = [] if path is None else [path.name[: len("2026-01-02")]]
    known = [f"{LIBRARIES[key]} {results[key]}" for key in versions if key in results]
    return ", ".join([results["device"], *date, *known])


@dataclass(frozen=True)
class Table:
    """Rows of cells under heads; as text, a table of Markdown.

    >>> print(table("a|b", [["1", "2"]]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [f"| {' | '.join(self.heads)} |", "|" + "---|" * len(self.heads)]
        return "\n".join(lines + [f"| {' | '.join(cells)} |" for cells in self.rows]) + "\n"

    def write(self, path: Path) -> None:
        """As a file of comma-separated values."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([self.heads, *self.rows])


def table(columns: str, rows: list[list[str]]) -> Table:
    """A table whose heads are separated by bars."""
    return Table(columns.split("|"), rows)


def relative_table(name: str, others: list[str], turns: int) -> tuple[str, Table]:
    """The newest times of a benchmark: ours for one of its turns, in nanoseconds, and the others relative to ours."""
    results, lines = newest(name), []
    for (case, *_), rows in by_case(results).items():
        ours = rows["ours"]["ms"]
        cells = [f"{rows[way]['ms'] / ours:.2f}" if way in rows else "" for way in others]
        lines.append([case, f"{1e6 * ours / turns:.0f}", *cells])
    return f"{circumstances(name, results)}.\n\n", table("|".join(["case", "ours, ns", *others]), lines)


def time_cell(row: Any) -> str:
    """A median with its 10th and 90th percentile; empty where nothing was measured."""
    return "" if row is None else f"{row['ms']:.4f} ({row['p10']:.4f} to {row['p90']:.4f})"


def put_results(page: str, marker: str, name: str, made: Table, *versions: str, note: str = "") -> None:
    """Put a table of the newest times of a name into a page, under their circumstances."""
    about = circumstances(name, newest(name), *versions)
    put_into(page, marker, f"{about}{note}.\n\n", made)


def put_into(document: str, marker: str, *parts: str | Table) -> None:
    """Replace what stands between `<!-- marker -->` and `<!-- end -->` in a page of docs/.

    On a page of results a table of more than SHOWN rows becomes a file, data/NAME.csv, and a link to it.
    """
    path = DOCS / document
    before, found, rest = path.read_text().partition(f"<!-- {marker} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not found or not end:
        raise SystemExit(f"{path} has no <!-- {marker} --> .. <!-- end -->")
    name = marker.replace("_", "-").replace(" ", "-")
    name = name if name.startswith(path.stem) else path.stem if name in path.stem else f"{path.stem}-{name}"
    tables = [part for part in parts if isinstance(part, Table) and len(part.rows) > SHOWN]
    long, text = tables if path.parent.name == "results" else [], ""
    for part in parts:
        if part in long:
            data = Path("data") / (f"{name}.csv" if len(long) == 1 else f"{name}-{long.index(part) + 1}.csv")
            part.write(path.parent / data)
            text += f"[{len(part.rows)} rows]({data}): {', '.join(head or 'case' for head in part.heads)}.\n\n"
        else:
            text += str(part) + ("\n" if isinstance(part, Table) and part is not parts[-1] else "")
    path.write_text(f"{before}{found}{text}{end}{after}")
