"""Suites: benchmarks that take times, how they are rendered in parts, and whether their results are stale.

Results are stale where they are older than the last commit of a file that the kernels are made of: the benchmark's
own, and what it imports from SOURCES, also within functions, or names among the examples. The compiler below them does
not count, as any change of it might change all kernels.
"""

import ast
import importlib
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path

import harness
import mlir_kernels
from runner import Benchmark

ROOT = harness.BENCH.parent
SOURCES = ("lego_mlir/kernels", "lego_mlir/choices", "lego_mlir/formats", "lego_mlir/templates/library")
DATE = len("2026-01-02")
FEWEST_CASES = 2  # of a process that renders: it imports the compiler first


@dataclass(frozen=True)
class Suite:
    """A benchmark, and the file that runs it, which some `words` tell which of its benchmarks is meant."""

    benchmark: Benchmark
    path: Path
    words: tuple[str, ...] = ()

    def command(self, step: str, *words: str) -> list[str]:
        return [sys.executable, str(self.path), *self.words, step, *words]

    def renderings(self, jobs: int) -> list[list[str]]:
        """The commands that render all kernels, which may run at once."""
        cases = list(dict.fromkeys(" ".join(harness.words_of(case)) for case in self.benchmark.cases))
        parts = 1 if self.benchmark.together else max(1, min(jobs, len(cases) // FEWEST_CASES))
        ends = [len(cases) * part // parts for part in range(parts + 1)]
        shares = [cases[start:end] for start, end in pairwise(ends)] if parts > 1 else [[]]
        return [self.command("render", *share) for share in shares]

    def state(self) -> str:
        """The newest results, and the commit of a file of the kernels that is later than they are."""
        ends = (f"{self.benchmark.name}{more}.json" for more in ("", "-*"))
        results = [one for end in ends for one in mlir_kernels.RESULTS.glob(f"*/????-??-??-{end}")]
        if not results:
            return "never measured"
        newest = max(results, key=lambda one: one.name)
        day = (datetime.strptime(newest.name[:DATE], "%Y-%m-%d") + timedelta(days=1)).timestamp()
        measured = min(commits().get(_place(newest), (day, ""))[0], day)
        changes = sorted((commits().get(_place(one), (0, "")), _place(one)) for one in sources(self.path))
        later = [(commit, file) for (when, commit), file in changes if when > measured]
        about = f"{newest.name[:DATE]} on {newest.parent.name}"
        if not later:
            return f"{about}, current"
        commit, file = later[-1]
        return f"{about}, older than {len(later)} of {len(changes)} files; the last is {file}: {commit}"


def timed(folder: Path) -> dict[str, Suite]:
    """The benchmarks of a folder that take times, by name."""
    found: dict[str, Suite] = {}
    for path in sorted(folder.glob("*.py")):
        targets = [t for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign) for t in node.targets]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if path.stem != "pages" and names & {"BENCHMARK", "BENCHMARKS"}:
            module = importlib.import_module(path.stem)
            several = getattr(module, "BENCHMARKS", {})
            for one in several.values() or [module.BENCHMARK]:
                if "time" in one.known_steps:
                    found[one.name] = Suite(one, path, (one.name,) if several else ())
    return found


def sources(path: Path) -> set[Path]:
    """The files that the kernels of a benchmark are made of."""
    seen, waiting = {path}, [path]
    while waiting:
        new = _named(waiting.pop()) - seen
        seen |= new
        waiting += new
    return {one for one in seen if one == path or one.parent != harness.BENCH}


@cache
def commits() -> dict[str, tuple[float, str]]:
    """The time of the last commit of each file, and its name and subject."""
    found: dict[str, tuple[float, str]] = {}
    log = subprocess.check_output(["git", "log", "--format=%x00%ct %h %s", "--name-only"], cwd=ROOT, text=True)
    for entry in log.split("\0")[1:]:
        about, *files = entry.splitlines()
        when, _, commit = about.partition(" ")
        for file in filter(None, files):
            found.setdefault(file, (float(when), commit))
    return found


@cache
def _modules() -> dict[str, Path]:
    """The files of SOURCES by dotted name; those of examples and benchmarks by the name that a benchmark imports."""
    found = {path.stem: path for path in (*ROOT.glob("examples/**/*.py"), *harness.BENCH.glob("*.py"))}
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        found[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path
    return found


@cache
def _named(path: Path) -> set[Path]:
    """The files that a file imports, and the examples that it names."""
    names, texts = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
            case ast.Constant(value=str(text)) if text.isidentifier():
                texts.add(text)
    examples = [ROOT / "examples" / text for text in texts if "examples" in texts]
    named = {one for at in examples for one in (*at.glob("*.py"), at.with_suffix(".py")) if one.is_file()}
    return {_modules()[name] for name in names if name in _modules()} | named


def _place(path: Path) -> str:
    return str(path.relative_to(ROOT))
