"""How lit runs these tests: which programs the RUN lines mean, and which tests have to be left out.

`mlir-opt` is LLVM 22's, an independent reader of what is emitted: a test that needs it says `REQUIRES: mlir-opt`
and is listed as unsupported, by name, where it is absent. FileCheck is LLVM's, or the one from PyPI.
"""

# ruff: noqa: F821 (lit defines `config` and `lit_config` before it runs this file)

import re
import shutil
import subprocess
import sys
from pathlib import Path

import lit.formats

ROOT = Path(__file__).resolve().parents[2]
LLVM = Path("/usr/lib/llvm-22/bin")  # where Debian's packages of version 22 put their programs
BESIDE_PYTHON = Path(sys.executable).parent


def find(*names):
    """The first of these programs on PATH, in LLVM 22's folder, or beside this Python."""
    places = (None, str(LLVM), str(BESIDE_PYTHON))
    return next((path for name in names for place in places if (path := shutil.which(name, path=place))), None)


def is_version_22(program):
    """Whether an LLVM program says that it is of version 22, whose text form these tests are written for."""
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return re.search(r"LLVM version 22\.", output) is not None


def substitute(name, command):
    """Run `command` wherever a RUN line has the separate word `name`."""
    config.substitutions.append((rf"(?<![\w/.%{{-]){re.escape(name)}(?![\w/.-])", command))


config.name = "lego-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".py"]
config.excludes = ["lit.cfg.py", "Inputs"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(ROOT / "build" / "lit")
config.environment["XDG_CACHE_HOME"] = str(ROOT / "build" / "lit" / "cache")
config.environment["PYTHONPATH"] = str(ROOT)

substitute("lego-mlir", f"{sys.executable} -m lego_mlir.cli.main")
substitute("FileCheck", find("FileCheck-22", "FileCheck", "filecheck") or "FileCheck")
config.substitutions.append(("%{examples}", str(ROOT / "examples")))
config.substitutions.append(("%{scripts}", str(ROOT / "transform_scripts")))
config.substitutions.append(("%{python}", sys.executable))

mlir_opt = find("mlir-opt-22", "mlir-opt")
if mlir_opt is not None and is_version_22(mlir_opt):
    config.available_features.add("mlir-opt")
    substitute("mlir-opt", mlir_opt)
else:
    lit_config.note(
        "no mlir-opt of LLVM 22: tests that need it are unsupported (Debian: apt-get install mlir-22-tools)"
    )
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
