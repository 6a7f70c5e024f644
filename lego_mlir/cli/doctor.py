"""`lego-mlir doctor`: report what is installed, what is missing, and how to get it."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.cli.json_output import print_json
from lego_mlir.cli.terminal import show

HELP: Final = "Report what is installed, what is missing, and how to get it."
EXAMPLE: Final = "lego-mlir doctor"

_REQUIRED: Final = {"numpy": "numpy", "sympy": "sympy", "z3": "z3-solver", "ml_dtypes": "ml-dtypes", "jinja2": "jinja2"}
_OPTIONAL: Final = {
    "cupy": ("cupy-cuda13x", "to run kernels on this machine's GPU"),
    "islpy": ("islpy", "for structured matrices"),
    "triton": ("triton", "to compile and interpret Triton kernels"),
    "rich": ("rich", "for tables and colours on a terminal"),
    "shtab": ("shtab", "for shell completion"),
    "filelock": ("filelock", "to store timings of tuned kernels"),
    "distributed": ("distributed", "to tune on several machines"),
    "optuna": ("optuna", "to tune spaces of more than 500 configurations"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: the version found; or missing, whether it is required, and the remedy."""

    name: str
    version: str | None
    needed: bool
    remedy: str

    def __str__(self) -> str:
        if self.version is not None:
            return f"  ok       {self.name:<14} {self.version}"
        return f"  {'MISSING' if self.needed else 'missing'}  {self.name:<14} {self.remedy}"

    def to_dict(self) -> Json:
        """What `--json` prints."""
        found = self.version is not None
        return {
            "name": self.name,
            "found": self.version,
            "needed": self.needed,
            "remedy": None if found else self.remedy,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line: the report is about this machine."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Print one line per dependency; CHECK_FAILED if a required one is missing."""
    from lego_mlir.cli.main import CHECK_FAILED, DONE, version

    findings = [*_packages(), *_compilers(), *_programs()]
    missing = any(finding.needed and finding.version is None for finding in findings)
    machine = {
        "version": version(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    cache = _cache()
    if args.json:
        rows = [finding.to_dict() for finding in findings]
        print_json(args.command, {**machine, "complete": not missing, "findings": rows, "cache": cache})
    else:
        title = "lego-mlir {version} on Python {python}, {platform}".format(**machine)
        show(title, *map(str, findings), _cache_line(cache))
    return CHECK_FAILED if missing else DONE


def _installed(distribution: str, module: str) -> str | None:
    if util.find_spec(module) is None:
        return None
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "(version unknown)"


def _packages() -> Iterator[Finding]:
    for module, distribution in _REQUIRED.items():
        yield Finding(distribution, _installed(distribution, module), True, f"run: pip install {distribution}")
    for module, (distribution, purpose) in _OPTIONAL.items():
        yield Finding(module, _installed(distribution, module), False, f"{purpose}: pip install {distribution}")


def _compilers() -> Iterator[Finding]:
    from lego_mlir import bindings
    from lego_mlir.errors import DependencyError
    from lego_mlir.toolchain import llvm, mathlib

    try:
        loaded = bindings.load()
        over = "".join(f"; passed over: {reason}" for reason in loaded.passed_over)
        yield Finding("MLIR bindings", loaded.version + over, True, "")
    except DependencyError as error:
        yield Finding("MLIR bindings", None, True, str(error))
    try:
        llvm.binding()
        found = f"{llvm.version()}, with NVPTX"
    except DependencyError:
        found = None
    yield Finding("llvmlite", found, True, "to make PTX: pip install llvmlite")
    path = mathlib.libdevice()
    yield Finding(
        "libdevice",
        None if path is None else str(path),
        False,
        "for pow, erf and other functions: pip install nvidia-nvvm",
    )


def _programs() -> Iterator[Finding]:
    from lego_mlir.toolchain import ptxas
    from lego_mlir.transforms import dialect_plugin

    program = ptxas.find()
    found = None if program is None else f"{ptxas.version()} at {program}"
    yield Finding("ptxas", found, False, f"for --emit cubin; {ptxas.REMEDY}")
    opt = dialect_plugin.mlir_opt()
    yield Finding("mlir-opt", opt, False, "for tests and the lego plugin: apt-get install mlir-22-tools")
    yield _plugin(opt)
    yield Finding("GPU", _gpu(), False, "no NVIDIA driver responds; compile kernels here and run them elsewhere")
    yield Finding("fitted devices", _fitted(), False, "")


def _plugin(opt: str | None) -> Finding:
    """Whether the plugin of the lego dialect is built and fits the mlir-opt found."""
    from lego_mlir.transforms import dialect_plugin

    found, name = dialect_plugin.find(), "lego plugin"
    if found is None:
        return Finding(name, None, False, f"for transform.lego scripts; {dialect_plugin.REMEDY}")
    if opt is None:
        return Finding(name, None, False, f"{found} needs mlir-opt 22: apt-get install mlir-22-tools")
    reason = dialect_plugin.misfit(found, opt)
    if reason is not None:
        return Finding(name, None, False, f"{found} does not fit {opt} ({reason}); {dialect_plugin.REMEDY}")
    return Finding(name, f"{found}, fits {opt}", False, "")


def _fitted() -> str:
    """The devices with constants for products; others have the model with their own numbers."""
    from lego_mlir.hardware import devices

    return "; ".join(f"{file['device']}, {file['products']['fitted']['date']}" for file in devices.having("products"))


def _gpu() -> str | None:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return None
    query = [smi, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout.strip().replace("\n", "; ") or None if done.returncode == 0 else None


def _cache() -> Json:
    from lego_mlir.errors import CacheError
    from lego_mlir.toolchain import Cache, default_folder

    try:
        folder = default_folder()
    except CacheError as error:
        return {"folder": None, "remedy": str(error)}
    entries, size = Cache(folder).size()
    return {"folder": str(folder), "entries": entries, "bytes": size}


def _cache_line(cache: Json) -> str:
    if cache["folder"] is None:
        return f"  cache    {cache['remedy']}"
    held = f"{cache['entries']} entries, {cache['bytes'] / 1e6:.1f} MB"
    return f"  cache    {cache['folder']}: {held}; lego-mlir cache --clear empties it"
