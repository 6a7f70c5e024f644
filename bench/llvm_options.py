"""LLVM's options compared over all examples: instructions and registers of the machine code, spilled bytes.

    python bench/llvm_options.py
    python bench/llvm_options.py compare -- target=sm_80 "-disable-machine-sink -disable-lsr"

Options are global to a process, so each set compiles the examples in its own. `lego_mlir/toolchain/llvm_options.py`
has those that were chosen.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import runner

from lego_mlir import spec
from lego_mlir.errors import LegoError
from lego_mlir.hardware.targets import target_named
from lego_mlir.toolchain import compile_kernel, llvm, llvm_options, ptxas, sass

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
FOLDERS: Final = (EXAMPLES / "first_day", EXAMPLES / "second_week", EXAMPLES)
PADDING: Final = ("NOP", "BRA")
"""`NOP` fills the end of a function, and a `BRA` to itself follows its last instruction."""
TRIED: Final = (
    "-disable-machine-sink",
    "-instcombine-code-sinking=0",
    "-disable-machine-sink -instcombine-code-sinking=0",
    "-nvptx-sched4reg",
    "-disable-machine-licm",
    "-disable-lsr",
)


def texts(target: str) -> dict[str, str]:
    """The LLVM IR of every kernel of the examples that compiles without a transform script."""
    found = {}
    for path in (path for folder in FOLDERS for path in sorted(folder.glob("*.py"))):
        with skipped(path):
            for name, kernel in spec.load(path).kernels.items():
                with skipped(path):
                    found[f"{path.stem}:{name}"] = compile_kernel((kernel,), target=target, emit="llvm").text
    return found


@contextlib.contextmanager
def skipped(path: Path) -> Iterator[None]:
    """Leave out what has no kernels, or needs a transform script or another target, with the message."""
    try:
        yield
    except LegoError as error:
        print(f"{path.name}: {error!s:.80}", file=sys.stderr)


def measured(options: str, target: str, given: dict[str, str]) -> dict[str, Any]:
    """Instructions, registers and spilled bytes of each kernel, compiled in a process with these options."""
    code = (
        "import json, sys; from lego_mlir.hardware.targets import target_named; from lego_mlir.toolchain import llvm;"
        f"llvm_options = __import__('lego_mlir.toolchain.llvm_options', fromlist=['x']);"
        f"llvm_options.CHOSEN = tuple({options.split()!r});"
        f"given = json.load(sys.stdin); target = target_named({target!r});"
        "json.dump({name: llvm.emit(text, target) for name, text in given.items()}, sys.stdout)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    found = {}
    for name, ptx in json.loads(run.stdout).items():
        cubin, (resources, *_) = ptxas.assemble(ptx, target_named(target))
        found[name] = [
            sum(i.name not in PADDING for i in sass.disassemble(cubin)),
            resources.registers,
            resources.spill_stores,
        ]
    return found


def compare(words: Sequence[str]) -> None:
    given = runner.options([word for word in words if word.startswith("target=")], target="sm_90a")
    tried = [word for word in words if not word.startswith("target=")]  # sets of options, which have `=` too
    kernels = texts(given.target)
    plain = measured(llvm_options.CHOSEN[0], given.target, kernels)
    print(
        f"{len(plain)} kernels, {given.target}, {llvm.version()}, {ptxas.version()}; next to {llvm_options.CHOSEN[0]}"
    )
    for options in tried or TRIED:
        try:
            found = measured(f"{llvm_options.CHOSEN[0]} {options}", given.target, kernels)
        except subprocess.CalledProcessError as error:
            print(f"{options}: {error.stderr.strip().splitlines()[-1]}")
            continue
        ratios = [geometric_mean(found[n][k] / plain[n][k] for n in plain) for k in range(2)]
        spills = sum(found[n][2] for n in plain), sum(plain[n][2] for n in plain)
        found_of = f"instructions {ratios[0]:.4f}, registers {ratios[1]:.4f}, spilled bytes {spills[0]} of {spills[1]}"
        print(f"{options}: {found_of}")
        for name in sorted(plain, key=lambda n: found[n][1] / plain[n][1]):
            if found[name] != plain[name] and (
                abs(found[name][1] - plain[name][1]) > 2 or found[name][0] > 1.03 * plain[name][0]
            ):
                print(f"    {name:40} {plain[name]} -> {found[name]}")


BENCHMARK = runner.Benchmark("llvm_options", steps={"compare": compare})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
