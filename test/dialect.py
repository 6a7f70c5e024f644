"""Build and test the C++ plugin of the lego dialect, install it, and build a user's dialect against what is installed.

    python test/dialect.py

The plugin is built in build/dialect, where the other tests find it; the user's dialect is examples/user_dialect.
Without CMake or the development files of MLIR 22 nothing is built, which is printed; tests that need the plugin are
skipped by name.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD, PREFIX, IMAGE = ROOT / "build" / "dialect", ROOT / "build" / "installed", ROOT / "build" / "image"
EXAMPLE = ROOT / "examples" / "user_dialect"
MLIR = Path("/usr/lib/llvm-22/lib/cmake/mlir")
PACKAGES = "libmlir-22-dev llvm-22-dev llvm-22-tools mlir-22-tools cmake ninja-build"
EXPECTED = ("arith.divui", "arith.remui", "memref.load")


def run(*command: str | Path) -> str:
    """The output of a command. Exits with its message where it fails."""
    print(f"+ {' '.join(map(str, command))}", flush=True)
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    return done.stdout


def build_user_dialect() -> None:
    """Install the plugin, build the example with find_package, and run its two lowerings by its plugin alone."""
    shutil.rmtree(PREFIX, ignore_errors=True)
    run("cmake", "--install", BUILD, "--prefix", PREFIX)
    run("cmake", "-S", EXAMPLE, "-B", IMAGE, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}")
    run("cmake", "--build", IMAGE)
    passes = "builtin.module(image-to-lego,lego-lower-to-arith,canonicalize)"
    opt = shutil.which("mlir-opt-22") or "mlir-opt"
    made = run(
        opt, f"--load-dialect-plugin={IMAGE / 'libImage.so'}", EXAMPLE / "read.mlir", f"--pass-pipeline={passes}"
    )
    missing = [name for name in EXPECTED if name not in made]
    left = [name for name in ("image.", "lego.") if name in made]
    if missing or left:
        sys.exit(f"examples/user_dialect: missing {missing}, left {left} in\n{made}")


def main() -> int:
    lacking = [program for program in ("cmake", "ninja") if shutil.which(program) is None]
    if lacking or not MLIR.is_dir():
        print(
            f"the plugin of the lego dialect is not built: {', '.join(lacking) or MLIR} not found; install {PACKAGES}"
        )
        return 0
    run("cmake", "--preset", "default")
    run("cmake", "--build", "--preset", "default")
    print(run("ctest", "--preset", "default").splitlines()[-1])
    build_user_dialect()
    print("examples/user_dialect: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
