"""Kernels of others under the sanitizer: installed from their packages into an environment of their own, and run.

    python bench/sanitizer_corpus.py install FOLDER              an environment in FOLDER/venv
    python bench/sanitizer_corpus.py run FOLDER [MODULE ..]      the cases of bench/corpus, into FOLDER/launches
    python bench/sanitizer_corpus.py keep FOLDER                 what was seen, to bench/results/static
    python bench/sanitizer_corpus.py table                       the tables of docs/results/sanitizer.md

A case is right if its values are those of PyTorch or of another form of the same operator. It is an alarm if a launch
has a fault; each alarm was examined, and EXAMINED says what it is. Nothing of the packages is in this repository.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlir_kernels
import runner

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "static" / "sanitizer_corpus.json"
ARCH = "90"
MODULES = (
    "flag_gems_cases", "fla_cases", "liger_cases", "conch_cases", "quantised_cases", "cuda_cases",
)  # fmt: skip
NAMES = {
    "flag_gems_cases": "FlagGems 5.0.2", "fla_cases": "fla-core 0.6.0", "liger_cases": "Liger Kernel 0.8.5",
    "conch_cases": "Conch 1.3", "quantised_cases": "GemLite 0.6, SageAttention 1.0, CCE 25.1",
    "cuda_cases": "CUDA, in `bench/corpus`",
}  # fmt: skip
REQUIRED = ("torch==2.13.0", "triton==3.8.0", "numpy", "sympy", "ml_dtypes", "llvmlite", "einops", "pyyaml",
            "sqlalchemy", "packaging", "transformers")  # fmt: skip
WITHOUT_DEPENDENCIES = (
    "flag-gems==5.0.2", "fla-core==0.6.0", "flash-linear-attention==0.6.0", "liger-kernel==0.8.5",
    "conch-triton-kernels==1.3", "gemlite==0.6.0.post2", "sageattention==1.0.6", "cut-cross-entropy==25.1.1",
)  # fmt: skip
TRIANGLE = "the upper triangle of a matrix, which no kernel wrote, is loaded, and `tl.where` drops it"
EXAMINED = {
    ("conch_cases", "int8_product"): "true: a tile of 128 along K is loaded without a mask where K is 64",
    ("fla_cases", "gla"): f"true: {TRIANGLE}",
    ("fla_cases", "kda"): f"true: {TRIANGLE}",
    ("fla_cases", "gsa"): f"true: {TRIANGLE}",
    ("fla_cases", "rwkv6"): f"true: {TRIANGLE}",
    **{
        ("quantised_cases", f"weights_of_{kind}_{rows}"): "true: scales are loaded without a mask past K"
        for kind in ("8_bits", "fp8")
        for rows in (4, 40)
    },
}
"""What each alarm is, by module and case."""


def install(folder: Path) -> None:
    """The packages, by their ordinary client."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv" / "bin" / "pip", "install"]
    subprocess.run([*pip, *REQUIRED], check=True)
    subprocess.run([*pip, "--no-deps", *WITHOUT_DEPENDENCIES, "-e", HERE.parent], check=True)


def run(folder: Path, modules: Sequence[str]) -> None:
    """Each module's cases in a process of its own."""
    python, out = folder / "venv" / "bin" / "python", folder / "launches"
    for module in modules or MODULES:
        subprocess.run([python, HERE / "corpus" / "cases.py", module, ARCH, out], check=False, env=dict(os.environ))


def keep(folder: Path) -> None:
    """The results of all modules as one file, kernels by name, and faults without paths of the machine."""
    found: dict[str, Any] = {}
    for module in MODULES:
        cases = json.loads((folder / f"{module}.json").read_text())
        for case in cases.values():
            case["kernels"] = sorted({name for name, _ in case["kernels"]})
            case["faults"] = [fault.rpartition("site-packages/")[2] for fault in case["faults"]]
        found[module] = cases
    RESULTS.write_text(json.dumps(found, indent=0) + "\n")


def kind(case: dict[str, Any]) -> str:
    """ok, alarm, or the first word of what stopped it."""
    return "alarm" if case["faults"] else str(case["said"]).split(":")[0]


def table() -> None:
    """Cases, kernels and what became of them, by package."""
    found = json.loads(RESULTS.read_text())
    rows = []
    for module in MODULES:
        cases = found[module].values()
        kernels = len({name for case in cases for name in case["kernels"]})
        kinds = [kind(case) for case in cases]
        stopped = len(kinds) - kinds.count("ok") - kinds.count("alarm")
        rows.append([NAMES[module], len(kinds), kernels, sum(c["launches"] for c in cases), kinds.count("ok"),
                     kinds.count("alarm"), stopped])  # fmt: skip
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, 7))])
    heads = "package|cases|kernels|launches|right and clean|alarms|not run"
    print(mlir_kernels.table(heads, [[str(cell) for cell in row] for row in rows]))
    for module in MODULES:
        for name, case in found[module].items():
            if case["faults"]:
                print(f"- {NAMES[module]}, {name}: {EXAMINED.get((module, name), 'NOT EXAMINED')}")
            elif case["said"] != "ok":
                print(f"- {NAMES[module]}, {name}: {case['said']}")


BENCHMARK = runner.Benchmark(
    "sanitizer_corpus", table=table,
    steps={"install": lambda words: install(Path(words[0])), "run": lambda words: run(Path(words[0]), words[1:]),
           "keep": lambda words: keep(Path(words[0]))},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
