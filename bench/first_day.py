"""The kernels of examples/first_day at realistic sizes, against torch, cuSPARSE and CUB; and their lines.

    python bench/first_day.py STEP [WORD ..]    the steps of `runner.py`
    python bench/first_day.py lines             their lines and those in CUDA C++: docs/results/data/first-day-lines.csv

A word chooses cases by what their names hold. Rendering replaces sizes that an example fixes as constants. `time` needs
CuPy, torch and lego_mlir.runtime, no MLIR. Where memory limits both, the fastest other's time over ours should be at
least 0.9.

A line counts if it has code on it: blank lines, comments, docstrings and imports do not count. On our side count the
kernels and programs with their decorators, and the functions and constants of the file that they use; not its reference
and inputs. In rivals/first_day.cu count the kernels of the example's namespace, its constants and functions, the body
of its `launch` (our decorators state the launch), and the functions shared between namespaces that it uses; not the
signature of `launch`, and not the lines that open and close a namespace.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner
from rivals import first_day as first_day_trials

NAME, TARGET = "first_day", "sm_90"
EXAMPLES = harness.BENCH.parent / "examples" / "first_day"
Numbers = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """An example with numbers: constants of its module, which rendering replaces, and sizes of a launch."""

    example: str
    constants: Numbers = field(default_factory=dict)
    sizes: Numbers = field(default_factory=dict)
    memory: bool = True  # bound by memory, ours and the baseline

    @property
    def artifact(self) -> str:
        return "-".join([self.example, *(f"{name}{value}" for name, value in self.constants.items())])

    def __str__(self) -> str:
        return " ".join([self.example, *(f"{k}={v}" for k, v in {**self.constants, **self.sizes}.items())])


def sized(example: str, *sizes: Numbers, memory: bool = True, **constants: int) -> list[Case]:
    return [Case(example, constants, each, memory) for each in sizes]


PER_SM = 132 * 8  # blocks: 8 for each multiprocessor of an H200
PRODUCTS = ({"M": 1024, "N": 1024, "K": 1024}, {"M": 4096, "N": 4096, "K": 4096})
CASES = [
    *sized("vector_add", {"N": 1_000_003}, {"N": 50_000_000}),
    *sized("axpy_f16", {"N": 1_000_000}, {"N": 100_000_000}),
    *sized("stencil", {"H": 1000, "W": 1000}, {"H": 8192, "W": 8192}),
    *sized("grid_sum", {"N": 1_000_003}, {"N": 100_000_000}, BLOCKS=PER_SM),
    *sized("row_softmax", {"M": 4096, "N": 1000}, T=128, KEPT=8),
    *sized("row_softmax", {"M": 8192, "N": 8192}, T=512, KEPT=16),
    *sized("histogram", {"N": 1_000_003}, {"N": 100_000_000}, BLOCKS=PER_SM),
    *sized("three_pass_scan", {"N": 100_000}, {"N": 1_000_000}, T=512),
    *sized("look_back_scan", {"N": 1_000_003}, {"N": 50_000_000}),
    *sized("matvec", {"M": 4096, "K": 4096}, {"M": 20000, "K": 10001}),
    *sized("nchw_to_nhwc", {"C": 64, "P": 112 * 112}, {"C": 256, "P": 56 * 56}, IMAGES=32),
    *[Case("conv2d", {"IMAGES": 8, "C": c, "K": c}, {"H": 56, "W": 56}, memory=False) for c in (16, 64)],
    *[Case("flash_attention", {"HEADS": 16, "S": s}, memory=False) for s in (1024, 4096)],
    *sized("bitonic_sort", {"M": 1000}, {"M": 20000}),
    *sized("csr_matvec", {"M": 100_000, "K": 100_000, "E": 3_000_000}, {"M": 1_000_000, "K": 10**6, "E": 50_000_000}),
    *sized("embedding", {"N": 8192}, {"N": 200_000}, V=32000, D=512),
    *sized("embedding_in_range", {"N": 8192, "V": 32000, "D": 768}, {"N": 100_000, "V": 50000, "D": 1024}),
    *sized("layer_norm", {"M": 4096, "N": 1000}, T=128, KEPT=8),
    *sized("layer_norm", {"M": 8192, "N": 4096}, T=512, KEPT=8),
    *sized("rope", {"S": 4096}, {"S": 65536}),
    *sized("quantise_int8", {"M": 4096, "N": 1000}, {"M": 8192, "N": 8192}),
    *[Case("matmul_gelu", each, memory=False) for each in PRODUCTS],
    *sized("ragged_matmul", {"M": 1000, "N": 1001, "K": 999}, {"M": 4001, "N": 4001, "K": 4001}, memory=False),
    *[Case("persistent_matmul", {**each, "BLOCKS": PER_SM // 2}, memory=False) for each in PRODUCTS],
    *[Case("big_tile", {"M": n, "N": n}) for n in (16, 64)],
    *[Case("morton_matmul", {"N": n}, memory=False) for n in (1024, 4096)],
]
SCRIPTS = dict.fromkeys(("matmul_gelu", "persistent_matmul"), "matmul_sm80.mlir")


# -- on the development machine


def with_constants(source: str, constants: Numbers) -> str:
    """The source of a module with other values for constants that it assigns. Raises LookupError for one it lacks."""
    tree, missing = ast.parse(source), set(constants)
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        target, value = statement.targets[0], statement.value
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value.elts if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else [value]
        for place, name in enumerate(names):
            if isinstance(name, ast.Name) and name.id in missing:
                values[place] = ast.Constant(constants[name.id])
                missing.remove(name.id)
        if not isinstance(target, ast.Tuple):
            (statement.value,) = values
    if missing:
        raise LookupError(f"the module assigns no {', '.join(sorted(missing))}")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir import spec

    specs = folder / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    for case in {case.artifact: case for (case,) in cases}.values():
        path = specs / f"{case.artifact}.py"
        path.write_text(with_constants((EXAMPLES / f"{case.example}.py").read_text(), case.constants))
        kernels, script = spec.load(path).kernels_named(None), SCRIPTS.get(case.example)
        mlir_kernels.keep(folder, case.artifact, mlir_kernels.compiled(kernels, TARGET, "ptx", transform=script))


# -- on the GPU machine


class Kernels:
    """The kernels of a rendered example: `launch` returns a function that launches one on tensors of torch."""

    def __init__(self, case: Case) -> None:
        from lego_mlir.runtime import cuda

        self.case = case
        self.module = cuda.load(harness.rendered(BENCHMARK.folder / f"{case.artifact}.ptx"))

    def launch(self, entry: str, *given: Any, **types: Any) -> Callable[[], None]:
        """A tensor of torch is passed as CuPy's; `types` gives, by position, an unsigned type for its bits."""
        import cupy
        import torch

        passed = [
            cupy.from_dlpack(value).view(types.get(f"_{place}") or cupy.from_dlpack(value).dtype)
            if isinstance(value, torch.Tensor)
            else value
            for place, value in enumerate(given)
        ]
        kernel, sizes = self.module.kernel(entry), dict(self.case.sizes)
        return lambda: kernel(*passed, sizes=sizes)


def timed(folder: Path, case: Case) -> list[harness.Contender]:
    """Ours and each baseline, ours checked against the first."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    trial = first_day_trials.TRIALS[case.example](Kernels(case), {**case.constants, **case.sizes})
    for found in trial.results:
        found.zero_()
    trial.start()
    trial.run()
    error = 0.0
    for found, expected in zip(trial.results, trial.expected(), strict=True):
        error = max(error, harness.require_close(found, expected, trial.tolerance, str(case)))
    facts = {"memory": case.memory}
    ours = harness.contender(trial.run, kernel="lego", error=error, **facts)
    return [ours, *(harness.contender(run, kernel=name, **facts) for name, run in trial.baselines.items())]


def table() -> None:
    """Ours and the fastest of the others, case by case; above 1 ours is faster."""
    results, lines = mlir_kernels.newest(NAME), []
    for case, found in mlir_kernels.by_case(results).items():
        ours = found.pop("lego", None)
        if ours is None or not found:
            continue
        best = min(found, key=lambda name: found[name]["ms"])
        times = [mlir_kernels.time_cell(row) for row in (ours, found[best])]
        name = case if isinstance(case, str) else " ".join(case)
        lines.append([name, *times, best, f"{found[best]['ms'] / ours['ms']:.2f}", "yes" if ours["memory"] else ""])
    made = mlir_kernels.table("case|ours ms|fastest other ms|which|other / ours|limited by memory", lines)
    mlir_kernels.put_results("results/first-day.md", NAME, NAME, made, "torch")


# -- lines

RIVALS = harness.BENCH / "rivals" / "first_day.cu"
DATA = mlir_kernels.DOCS / "results" / "data" / "first-day-lines.csv"
LIMIT = 1.3  # our lines for one of CUDA
LAUNCHED = {"kernel", "program"}  # the decorators of functions that a caller runs
LAYOUT_TOKENS = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Row:
    """The lines of one example; `shared` of the CUDA lines are in functions that several namespaces use."""

    name: str
    ours: int
    cuda: int
    shared: int

    @property
    def ratio(self) -> float:
        return self.ours / self.cuda


def lines_of_python(text: str) -> int:
    """The code lines of the kernels of a spec and of what they use, by name, at the level of the module."""
    statements = {name: node for node in ast.parse(text).body for name in _defined(node)}
    launched = [node for node in statements.values() if isinstance(node, ast.FunctionDef) and _is_launched(node)]
    counted, waiting = set[int](), list[ast.stmt](launched)
    while waiting:
        node = waiting.pop()
        lines = set(range(_first_line(node), (node.end_lineno or node.lineno) + 1)) - _docstring(node)
        if not lines <= counted:
            counted |= lines
            used = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            waiting += [statements[name] for name in used if name in statements]
    return len(counted & _lines_with_code(text))


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return []


def _is_launched(node: ast.FunctionDef) -> bool:
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(isinstance(d, ast.Attribute) and d.attr in LAUNCHED for d in decorators)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def _docstring(node: ast.stmt) -> set[int]:
    if not isinstance(node, ast.FunctionDef) or ast.get_docstring(node) is None:
        return set()
    return set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))


def _lines_with_code(text: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {n for t in tokens if t.type not in LAYOUT_TOKENS for n in range(t.start[0], t.end[0] + 1)}


def lines_of_cuda(text: str, name: str) -> tuple[int, int]:
    """The code lines of one namespace with the shared functions it uses, and those of the shared functions alone."""
    text = re.sub(r"//.*", "", text)
    own = re.search(rf"^namespace {name} \{{$(.*?)^\}} *$(?=\s*(namespace|\Z))", text, re.M | re.S)
    if own is None:
        raise SystemExit(f"{RIVALS.name} has no namespace {name} for examples/first_day/{name}.py")
    body = re.sub(r"^using namespace .*$", "", own[1], flags=re.M)
    before, launch = re.split(r"^void launch\([^{]*\{", body, flags=re.M)
    code = before + launch[: launch.rindex("}")]
    shared = 0
    functions = {
        n: f for f in text.split("namespace ")[0].split("\n\n") for n in re.findall(r"__device__ \w+ (\w+)", f)
    }
    waiting, seen = [code], set[str]()
    while waiting:
        for used in set(re.findall(r"\w+", waiting.pop())) & functions.keys() - seen:
            seen.add(used)
            shared += _count(functions[used])
            waiting.append(functions[used])
    return _count(code) + shared, shared


def _count(code: str) -> int:
    return sum(1 for line in code.splitlines() if line.strip())


def rows() -> list[Row]:
    cuda = RIVALS.read_text()
    examples = sorted(EXAMPLES.glob("*.py"))
    return [Row(p.stem, lines_of_python(p.read_text()), *lines_of_cuda(cuda, p.stem)) for p in examples]


def lines_table(found: list[Row]) -> str:
    """The lines of every example, and of all, as comma-separated values."""
    lines = [f"{r.name},{r.ours},{r.cuda},{r.shared or ''},{r.ratio:.2f}" for r in found]
    ours, cuda = sum(r.ours for r in found), sum(r.cuda for r in found)
    return "\n".join(["example,ours,CUDA,of these shared,ratio", *lines, f"all,{ours},{cuda},,{ours / cuda:.2f}", ""])


def write_lines(_: Sequence[str]) -> int:
    """Print and keep the table; 1 where an example of ours is too long."""
    found = rows()
    print(lines_table(found))
    DATA.write_text(lines_table(found))
    long = [row.name for row in found if row.ratio > LIMIT]
    for name in long:
        print(f"more than {LIMIT} times the lines of CUDA: {name}")
    return int(bool(long))


BENCHMARK = runner.Benchmark(NAME, [(case,) for case in CASES], timed, table, render, steps={"lines": write_lines})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
