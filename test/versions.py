"""A part of the tests on other versions: the lowest dependencies that pyproject.toml allows, the newest Python here.

    python test/versions.py floors    in a virtual environment with the lower bound of every dependency
    python test/versions.py newest    with the newest Python on this machine and the newest dependencies
    python test/versions.py interop   with PyTorch and ONNX, JAX, TVM's FFI, MPI and the Hub's `kernels`, on the CPU

With `--whole` floors and newest run all tests, with the extra `dev` at its lowest or newest versions: that takes as
long as the tests do, and CI does it each week.

An environment is made once, in build/, and kept while what it holds does not change. Where no newer Python is found, or
the dependencies have no wheels for it, `newest` reports it and passes.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST, LAST = (3, 11), (3, 15)  # requires-python, and one beyond the newest release
# What touches every dependency: layouts and proofs (SymPy, Z3, NumPy), PTX (the bindings, llvmlite), templates, isl.
TESTS = (
    *("test/test_examples.py", "test/unit/layout/test_paper.py", "test/unit/layout/test_symbolic.py"),
    *("test/unit/expr/test_prove.py", "test/unit/expr/test_sharing.py", "test/unit/layout/test_gallery.py"),
    *("test/unit/cli/test_compile.py", "test/unit/cli/test_spec.py", "test/unit/tracing/test_values.py"),
    *("test/unit/templates/test_render.py", "test/unit/structured/test_infer.py", "test/unit/runtime/test_data.py"),
)
EVERYTHING = ("--all-cases",)  # which pytest finds by itself
TOOLS = ("pytest", "hypothesis", "pytest-xdist")
LIBRARIES = (
    *("torch==2.13.0", "jax==0.10.2", "apache-tvm-ffi", "onnx", "onnxscript", "kernels==0.17.2"),
    *("mpi4py", "mpich"),
)  # fmt: skip


def requirements(whole: bool = False) -> list[str]:
    """What the package needs, and what the tests here, or all, need, as pyproject.toml states it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for line in project["optional-dependencies"]["dev"] if not line.startswith("lego-mlir")]
    tools = [line for line in lines if whole or re.split(r"[<>=]", line)[0] in TOOLS]
    return [*project["dependencies"], *project["optional-dependencies"]["compile"], *tools]


def lowest(requirement: str) -> str:
    """The lowest version that a requirement allows.

    >>> lowest("numpy>=2.2"), lowest("triton>=3.9,<3.10; platform_system == 'Linux'")
    ('numpy==2.2', 'triton==3.9')
    """
    found = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: {requirement} has no lower bound; write name>=version")
    return f"{found[1]}=={found[2]}"


def pythons() -> Iterator[tuple[tuple[int, int], str]]:
    """The Pythons on the path and of pyenv, the newest first."""
    for minor in range(LAST[1], FIRST[1] - 1, -1):
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), reverse=True)
        for program in (f"python3.{minor}", *map(str, installed)):
            code = "import sys, ensurepip; print(*sys.version_info[:2])"
            try:
                done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
            except OSError:
                continue
            if done.returncode == 0 and done.stdout.split() == ["3", str(minor)]:
                yield (3, minor), program
                break


def environment(name: str, python: str, packages: list[str]) -> Path | None:
    """The Python of a virtual environment with these packages, None where they cannot be installed."""
    digest = hashlib.sha256("\n".join([python, *packages]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / f"{name}-{digest}"
    inside = folder / "bin" / "python"
    if (folder / "complete").exists():
        return inside
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    if subprocess.run([*install, *packages], check=False).returncode:
        return None
    (folder / "complete").touch()
    return inside


def run_tests(python: Path, chosen: tuple[str, ...] = TESTS) -> int:
    """Run these tests with another Python, in as many processes as there are cores."""
    versions = subprocess.run([python, "-m", "pip", "freeze", "--quiet"], capture_output=True, text=True, check=True)
    print(f"{python}: {', '.join(versions.stdout.split())}", flush=True)
    command = [str(python), "-m", "pytest", "-q", "--dist", "worksteal", "-n", str(os.cpu_count() or 1), *chosen]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False).returncode


def floors(whole: bool) -> int:
    python = next((program for version, program in pythons() if version == FIRST), sys.executable)
    made = environment("floors", python, [lowest(requirement) for requirement in requirements(whole)])
    return 1 if made is None else run_tests(made, EVERYTHING if whole else TESTS)


def newest(whole: bool) -> int:
    for version, program in pythons():
        if version <= sys.version_info[:2]:
            break
        made = environment("newest", program, requirements(whole))
        if made is not None:
            return run_tests(made, EVERYTHING if whole else TESTS)
        print(f"skipped {program}: not every dependency has a wheel for it")
    print("skipped: no Python here is newer than {}.{} and has wheels of every dependency".format(*sys.version_info))
    return 0


def interop() -> int:
    made = environment("interop", sys.executable, [*requirements(), *LIBRARIES])
    if made is not None:
        return run_tests(made, ("test/interop", "test/unit/runtime/test_libraries.py"))
    print(f"skipped: {', '.join(LIBRARIES)} cannot be installed here")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["floors", "newest", "interop"])
    parser.add_argument("--whole", action="store_true", help="floors and newest: all tests")
    options = parser.parse_args()
    return (
        interop() if options.which == "interop" else {"floors": floors, "newest": newest}[options.which](options.whole)
    )


if __name__ == "__main__":
    sys.exit(main())
