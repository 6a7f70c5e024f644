"""The C++ plugin of the lego dialect, and the `mlir-opt` 22 that loads it: where they are, and whether they fit.

Nothing in the package needs them, except transform scripts with `transform.lego.*` operations: the bindings can parse
those in no form, so such a script is handed to `mlir-opt`. The plugin is found where CMake builds it in a checkout, and
in the `lib` folder of a prefix that it is installed to: this Python's, or that of a folder on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError
from lego_mlir.transforms.modules import ModuleError

LIBRARY: Final = "libLegoMLIR.so"
PROGRAMS: Final = ("mlir-opt-22", "mlir-opt")
BUILD: Final = "cmake --preset default && cmake --build --preset default"
REMEDY: Final = f"in a checkout, run: {BUILD}"
_BUILT: Final = ("build/dialect/dialects/lib", "build/dialect/lib", "build/dialect")
_PROBE: Final = "module attributes {t.a = #lego.layout<Row(1)>} {}"
_OPERATION: Final = re.compile(r"\btransform\.lego\.\w+")
SECONDS: Final = 600


def mlir_opt() -> str | None:
    """The path of mlir-opt, that of LLVM 22 first."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def find() -> Path | None:
    """The path of the plugin, or None."""
    return next((path for path in _places() if path.is_file()), None)


def _places() -> Iterator[Path]:
    checkout = Path(__file__).resolve().parents[2]
    for root in dict.fromkeys((checkout, Path.cwd())):
        yield from (root / folder / LIBRARY for folder in _BUILT)
    prefixes = [Path(sys.prefix), *(Path(folder).parent for folder in os.get_exec_path()), Path("/usr/local")]
    for prefix in dict.fromkeys(prefixes):
        yield from (prefix / folder / LIBRARY for folder in ("lib", "lib64"))


def identity() -> tuple[str, ...]:
    """What distinguishes this build of the plugin from another, for cache keys."""
    found = find()
    return () if found is None else (str(found), str(found.stat().st_mtime_ns))


def misfit(plugin: Path, program: str) -> str | None:
    """Why mlir-opt cannot load a plugin; None if it can."""
    done = _run([program, f"--load-dialect-plugin={plugin}"], _PROBE)
    if done.returncode == 0:
        return None
    load = [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", str(plugin)]
    loaded = _run(load, "")
    if loaded.returncode:
        return loaded.stderr.strip().splitlines()[-1]
    return done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit code {done.returncode}"


def uses_plugin(script: str) -> str | None:
    """The first operation of a transform script that only the plugin has; None without one."""
    code = re.sub(r"//[^\n]*", "", script)
    found = _OPERATION.search(code)
    return None if found is None else found[0]


def require(what: str) -> tuple[Path, str]:
    """The plugin and mlir-opt. Raises DependencyError, which says why `what` needs them and how to get them."""
    program, plugin = mlir_opt(), find()
    if program is None:
        raise DependencyError(f"{what} needs mlir-opt of LLVM 22; run: apt-get install mlir-22-tools")
    if plugin is None:
        raise DependencyError(
            f"{what} needs the C++ plugin of the lego dialect, {LIBRARY}, which is not built; {REMEDY}"
        )
    return plugin, program


def run_script(payload: str, script: str, path: str) -> str:
    """The module `payload` after a transform script with operations of the plugin, in custom form.

    In generic form the bindings, which are of a later MLIR, refuse a gpu.launch: theirs has one more operand segment.
    Raises ModuleError with the diagnostics of mlir-opt, DependencyError without the plugin.
    """
    plugin, program = require(f"{path}: {uses_plugin(script)}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(path).name
        copy.write_text(script)
        passes = f"builtin.module(transform-preload-library{{transform-library-paths={copy}}},transform-interpreter)"
        command = [program, f"--load-dialect-plugin={plugin}", f"--pass-pipeline={passes}", "--mlir-print-debuginfo"]
        done = _run(command, payload)
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.strip().replace(str(copy), path).replace("<stdin>", "-")
        reason = misfit(plugin, program)
        if reason is not None:
            raise DependencyError(f"{plugin} does not fit {program}: {reason}; {REMEDY}")
        raise ModuleError(
            "\n".join(line for line in said.splitlines() if ": error:" in line or ": note:" in line) or said
        )


def _run(command: list[str], given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=SECONDS)
