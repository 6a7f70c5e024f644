"""Build what is published, check it, and test it as a user gets it: installed from the wheel, outside the checkout.

    python test/packages.py

The sdist and the wheel pass `twine check --strict` and check-wheel-contents. A part of the tests runs against the
installed wheel, without the checkout's package on the path; a kernel that it packs is loaded with the same wheel where
only NumPy is installed, as it is without the extra `compile`. Where Docker or rattler-build
is there, the image and the conda package are built too.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("test/test_examples.py", "test/unit/cli/test_compile.py", "test/unit/runtime/test_packs.py")
LARGEST = 8 * 2**20  # bytes of the wheel; the packages of the extra have 600 MB
LARGEST_SDIST = 4 * 2**20
KEPT_OUT = ("__pycache__", ".pyc", "/build/", "/bench/", "_cache/", "/.")  # caches, and what only this repository needs
LOAD = """
import sys, lego_mlir
(kernel,) = lego_mlir.load_kernels(sys.argv[1]).values()
assert "site-packages" in lego_mlir.__file__, lego_mlir.__file__
print("loaded", kernel)
def nothing(): pass
try:
    lego_mlir.kernel(grid=1, block=32)(nothing).mlir()  # declared without them, and traced with them
except lego_mlir.errors.DependencyError as error:
    print("refused:", error)
else:
    raise SystemExit("kernels need the compiler's packages, which are not installed")
"""


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """A command that must succeed."""
    print("$", *command, flush=True)
    subprocess.run(command, cwd=cwd, check=True, env={**os.environ, **environment})


def built(folder: Path) -> Path:
    """The wheel of lego-mlir, made from its sdist, checked."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir()))
    (wheel,) = folder.glob("lego_mlir-*.whl")
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    if wheel.stat().st_size > LARGEST:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {LARGEST}")
    (sdist,) = folder.glob("lego_mlir-*.tar.gz")
    require_small(sdist)
    return wheel


def require_small(sdist: Path) -> None:
    """The sdist is under its limit, and has no caches."""
    with tarfile.open(sdist) as archive:
        unwanted = [name for name in archive.getnames() if any(part in name for part in KEPT_OUT)]
    unwanted = [name for name in unwanted if not name.endswith("/.gitignore")]
    if sdist.stat().st_size > LARGEST_SDIST or unwanted:
        raise SystemExit(f"{sdist.name} has {sdist.stat().st_size} bytes, and in it: {unwanted[:5]}")


def installed(folder: Path, wheel: Path, packages: Sequence[str] | None) -> Path:
    """The Python of an environment with a wheel, and with links to installed packages: those named, or all."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    given = Path(sysconfig.get_paths()["purelib"])
    if packages is None:
        (site / "others.pth").write_text(f"{given}\n")  # after this environment's own packages
    for name in packages or ():
        for path in given.glob(f"{name}*"):
            (site / path.name).symlink_to(path)
    return python


def same_requirements() -> None:
    """The conda recipe has the version and the bounds of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    version = runpy.run_path(str(ROOT / "packaging" / "version.py"))["version"]()
    versions = {version.partition(".dev")[0], recipe["context"]["version"]}
    needed = [*project["dependencies"], *project["optional-dependencies"]["compile"]]
    bounds = {name.replace("-", "_"): bound for name, bound in map(bounded, needed)}
    listed = {name.replace("-", "_"): bound for name, bound in map(bounded, recipe["requirements"]["run"])}
    del bounds["torch_mlir"], listed["python"]  # a wheel alone; not a dependency in pyproject.toml
    if len(versions) != 1 or bounds != listed:
        raise SystemExit(f"packaging/ differs from pyproject.toml: {versions}, {bounds}, {listed}")


def bounded(requirement: str) -> tuple[str, str]:
    """A requirement's name and lower bound."""
    found = re.match(r"([\w-]+) ?>=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"{requirement} has no lower bound; write name>=version")
    return found[1], found[2]


def main() -> int:
    same_requirements()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = built(folder / "dist")
        python = installed(folder / "whole", wheel, None)
        checkout = folder / "checkout"  # tests and examples, without the package
        checkout.mkdir()
        for part in ("test", "examples", "bench", "transform_scripts"):
            shutil.copytree(ROOT / part, checkout / part)
        shutil.copy(ROOT / "pyproject.toml", checkout)
        run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, cwd=checkout)
        packed = folder / "kernels"
        run(folder / "whole" / "bin" / "lego-mlir", "pack", ROOT / "examples" / "symbolic.py", "-o", packed, cwd=folder)
        run(installed(folder / "launching", wheel, ("numpy",)), "-c", LOAD, packed, cwd=folder)
    for tool, command in (
        ("docker", ["docker", "build", "--quiet", "-f", "packaging/Dockerfile", "."]),
        ("rattler-build", ["rattler-build", "build", "--recipe", "packaging/conda/recipe.yaml"]),
    ):
        working = shutil.which(tool) and not subprocess.run([tool, "info"], capture_output=True, check=False).returncode
        if working or (tool != "docker" and shutil.which(tool)):
            run(*command)
        else:
            print(f"skipped {command[-1]}: no working {tool} here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
