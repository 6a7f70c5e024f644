"""Everything that a change must pass, in one command: format, lint, types, layers, packages, lit, tests, documentation.

    python test/run.py            everything
    python test/run.py lint lit   only these steps
    python test/run.py --long     everything, with the long fuzzing, and all tests with the lowest versions
    python test/run.py newest     a part of the tests, all with --long, on the newest Python here, which only this runs

CI runs the same command. Each step prints its own output; the first lines of a failure are where it stands, the
summary at the end says which steps failed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
BIN = Path(PYTHON).parent

STEPS: dict[str, list[str]] = {
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "lint": [PYTHON, "-m", "ruff", "check", "."],
    "types": [PYTHON, "-m", "mypy"],
    "layers": [str(BIN / "lint-imports")],
    "docs": [PYTHON, "docs/builder"],
    "dialect": [PYTHON, "test/dialect.py"],
    "lit": [str(BIN / "lit"), "-v", "test/lit"],
    "notebooks": [PYTHON, "-m", "pytest", "-q", "--nbmake", "-n", "2", "docs/notebooks"],
    "packages": [PYTHON, "test/packages.py"],
    "floors": [PYTHON, "test/versions.py", "floors"],
    "newest": [PYTHON, "test/versions.py", "newest"],
    "interop": [PYTHON, "test/versions.py", "interop"],
    # neighbouring tests stay in one process, which shares their fixtures, until another one has nothing left to do
    "tests": [PYTHON, "-m", "pytest", "-q", "--dist", "worksteal", "-n", str(os.cpu_count() or 1), "--durations=15"],
}
BY_NAME = ("newest",)  # depends on what the machine has
LONG = {"tests": "--long", "floors": "--whole", "newest": "--whole"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help=f"steps to run: {', '.join(STEPS)}")
    parser.add_argument(
        "--long", action="store_true", help="also run the long fuzzing, and all tests in floors and newest"
    )
    options = parser.parse_args()
    failed = []
    for name in options.steps or [step for step in STEPS if step not in BY_NAME]:
        command = STEPS[name] + ([LONG[name]] if options.long and name in LONG else [])
        print(f"--- {name}: {' '.join(command)}", flush=True)
        start = time.perf_counter()
        # Tools that are installed beside this Python (lit's FileCheck among them) come before others.
        environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        outcome = "ok" if code == 0 else f"failed, exit code {code}"
        print(f"--- {name}: {outcome} in {time.perf_counter() - start:.0f} s", flush=True)
        if code:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
