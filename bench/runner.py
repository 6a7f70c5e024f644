"""The command line of a benchmark, which is data: its cases, its contenders, and where its tables go.

    python bench/NAME.py render [WORD ..]     where lego_mlir is: kernels into artifacts/NAME; no GPU
    python bench/NAME.py static               the same without launching: registers, spills, instructions
    python bench/NAME.py prepare [WORD ..]    on the GPU machine: Triton compiles all that `time` will try, on all cores
    python bench/NAME.py time [WORD ..]       there: correctness first, then times by the protocol of `harness.py`
    python bench/NAME.py count [WORD ..]      there, with ncu: instructions executed by what `time` chose
    python bench/NAME.py table                the tables of the pages, from the newest results
    python bench/NAME.py list [WORD ..]       anywhere: the steps and the cases, in words; nothing is built or launched

A benchmark has those of these steps that it defines, and further ones of its own. Words choose cases: those that they
name, or those that have all of them, in their names or a group's. `--drawn N --seed S` takes N cases drawn at random in
place of the listed ones where a benchmark can draw; the seed is printed, and recorded with the results. A step of a
benchmark's own takes words like `size=256` as its options. A benchmark with one step needs no name of it.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness
import instructions
from harness import Case, Protocol

SEED = 0


@dataclass(frozen=True)
class Benchmark:
    """One benchmark: `name` is that of its results and of its folder of artifacts."""

    name: str
    cases: Sequence[Case] = ()
    timed: harness.Timed | None = None
    table: Callable[[], Any] | None = None
    render: Callable[[Path, Sequence[Case]], Any] | None = None
    static: Callable[[], list[dict[str, Any]]] | None = None
    target: str = "sm_90"
    protocol: Protocol = field(default_factory=Protocol)
    groups: Mapping[str, Sequence[Case]] = field(default_factory=dict)
    draw: Callable[[random.Random], Case] | None = None
    steps: Mapping[str, Callable[[Sequence[str]], Any]] = field(default_factory=dict)
    """Further steps, called with the words of the command line."""
    counts: bool = False
    """Whether contenders can be launched again for ncu, in the configuration that was timed."""
    together: bool = False
    """Whether one process renders all cases: there is an index of them, or the step takes all cores itself."""
    alone: bool = False
    """Whether nothing may run beside `time`: it times the host, or takes several GPUs."""

    @property
    def folder(self) -> Path:
        return harness.ARTIFACTS / self.name

    @property
    def known_steps(self) -> list[str]:
        own = [step for step in ("render", "static", "table") if getattr(self, step)]
        timed = ["prepare", "time"] if self.timed else []
        return ["list", *own, *timed, *(["count", "launch"] if self.counts else []), *self.steps]

    def chosen(self, words: Sequence[str]) -> list[Case]:
        """The cases that these words name, or that have all of them."""
        wanted = set(words) - self.groups.keys()
        named = [case for case in self.cases if " ".join(harness.words_of(case)) in wanted]
        if named and len(named) >= len(wanted):
            return named
        listed = [case for word in words if word in self.groups for case in self.groups[word]]
        return [case for case in listed or self.cases if wanted <= _words(case)]


def options(words: Sequence[str], **defaults: Any) -> SimpleNamespace:
    """What words like `size=256` say, by the types of the defaults; the others are its `words`.

    >>> options(["a", "size=3"], size=0, seed=7)
    namespace(words=['a'], size=3, seed=7)
    """
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if unknown := given.keys() - defaults.keys():
        raise SystemExit(f"no option {', '.join(sorted(unknown))}; there are {', '.join(defaults) or 'none'}")
    found = {name: type(value)(given.get(name, value)) for name, value in defaults.items()}
    return SimpleNamespace(words=[word for word in words if "=" not in word], **found)


def _words(case: Case) -> set[str]:
    """What a case is chosen by: the parts of its name, whole and divided at dashes and spaces."""
    words = harness.words_of(case)
    return {*words, *(part for word in words for part in word.replace("-", " ").split())}


def main(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """Do one step; the exit code."""
    about = sys.modules["__main__"].__doc__ or ""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = benchmark.known_steps[1] if len(benchmark.known_steps) == 2 else None
    parser.add_argument("step", choices=benchmark.known_steps, nargs="?" if only else None, default=only)
    parser.add_argument("words", nargs="*", help="only the cases that have all these words")
    if benchmark.draw:
        parser.add_argument("--drawn", type=int, help="this many cases drawn at random in place of the listed ones")
        parser.add_argument("--seed", type=int, default=SEED, help="of the drawn cases")
    options = parser.parse_args(arguments)
    step, words, folder, facts = options.step, options.words, benchmark.folder, {}
    if step in benchmark.steps:
        return benchmark.steps[step](words) or 0
    chosen = benchmark.chosen(words)
    if benchmark.draw and options.drawn:
        generator = random.Random(options.seed)
        chosen, facts = [benchmark.draw(generator) for _ in range(options.drawn)], {"seed": options.seed}
        print(f"seed {options.seed}: {', '.join(' '.join(harness.words_of(case)) for case in chosen)}", flush=True)
    match step:
        case "list":
            print(f"{benchmark.name}: {', '.join(benchmark.known_steps)}; {len(chosen)} cases")
            for case in chosen:
                print(" ".join(harness.words_of(case)))
        case "render":
            folder.mkdir(parents=True, exist_ok=True)
            benchmark.render(folder, chosen)
            print(f"{len(list(folder.iterdir()))} files in {folder}")
        case "static":
            harness.write_static(benchmark.name, benchmark.static(), benchmark.target)
        case "table":
            benchmark.table()
        case "prepare":
            harness.prepare(folder, chosen, benchmark.timed)
        case "time":
            return harness.time_cases(benchmark.name, folder, chosen, benchmark.timed, benchmark.protocol, **facts)
        case "count":
            return instructions.count(benchmark.name, folder, words)
        case "launch":
            return instructions.launch(benchmark.name, folder, chosen, benchmark.timed)
    return 0


def document(made: Mapping[Path, str], complaints: Sequence[str] = (), arguments: Sequence[str] | None = None) -> int:
    """Write files that are made without results, or with `--check` compare them; 1 for a stale one or a complaint."""
    script = Path(sys.argv[0])
    about = sys.modules["__main__"].__doc__ or ""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check = parser.parse_args(arguments).check
    print(*complaints, sep="\n", end="\n" if complaints else "")
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.name} is out of date; run python bench/{script.name}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path])
    return int(bool(complaints) or (check and bool(stale)))


def main_of(benchmarks: Mapping[str, Benchmark], about: str | None) -> int:
    """The command line of a program with several benchmarks, the first word of which names one."""
    if sys.argv[1:2] and sys.argv[1] in benchmarks:
        return main(benchmarks[sys.argv[1]], sys.argv[2:])
    raise SystemExit(f"give one of {', '.join(benchmarks)}, and a step\n\n{about}")
