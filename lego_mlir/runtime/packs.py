"""Kernels in a folder, for machines that launch and do not compile: no MLIR, SymPy or Z3 is needed there.

    kernels/add.ptx      the code, PTX or a cubin
    kernels/add.json     its manifest: how it is launched

`lego-mlir pack` writes such a folder. `load_kernels("kernels")` gives its kernels by name, and they are called as those
that were compiled here:

    kernels = lego_mlir.load_kernels("kernels")
    kernels["add"](a, b, c)

A folder of such folders, one a target, is read by `load_targets`: a call takes the code for its device. A pack may have
a version, which its manifests hold and `load_kernels("kernels", version=2)` requires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import manifest
from lego_mlir.runtime.arrays import CPU, Device
from lego_mlir.runtime.calls import Calls, loaded
from lego_mlir.runtime.plans import Backend
from lego_mlir.store import make_folder, replace_file

if TYPE_CHECKING:
    from lego_mlir.toolchain.compile import Compilation

SUFFIXES: Final = (".ptx", ".cubin")


@dataclass(frozen=True, slots=True)
class PackedKernel:
    """One kernel of a pack: its file, the target that it was compiled for, and how it is launched."""

    path: Path
    target: str
    entry: manifest.KernelEntry

    def backend(self, device: int) -> Backend:
        """The kernel on a CUDA device. Raises UsageError if the code is for another one."""
        from lego_mlir.runtime.driver import check_target, driver

        check_target(self.target, driver().capability(device), str(self.path))
        return loaded(self.entry, read_code(self.path), device, str(self.path))


class PackedCalls(Calls):
    """The calls of a packed kernel."""

    def __init__(self, kernel: PackedKernel) -> None:
        super().__init__(kernel.entry.entry, self._loaded)
        self.kernel = kernel

    @property
    def host_entry(self) -> manifest.KernelEntry:
        """The launch as the manifest describes it."""
        return self.kernel.entry

    @property
    def digest(self) -> str:
        """What the kernel computes, as the hash of its code."""
        return manifest.read(self.kernel.path).code_sha256

    def __repr__(self) -> str:
        return f"<packed kernel {self.name}, {self.kernel.target}, {self.kernel.path}>"

    def _loaded(self, device: Device, checked: bool) -> Backend:
        if device == CPU or checked:
            raise UsageError(
                f"kernel {self.name} of {self.kernel.path.parent} is packed for {self.kernel.target}, and the arrays "
                "are on the CPU; pass arrays on a CUDA device"
            )
        return self.kernel.backend(device[1])


class TargetedCalls(Calls):
    """The calls of a kernel that is packed for several targets: on each device the newest code that it runs."""

    def __init__(self, kernels: Sequence[PackedKernel]) -> None:
        super().__init__(kernels[0].entry.entry, self._loaded)
        self.kernels = sorted(kernels, key=lambda kernel: _age(kernel.target), reverse=True)

    @property
    def host_entry(self) -> manifest.KernelEntry:
        """The launch as the manifest for the newest target describes it."""
        return self.kernels[0].entry

    def __repr__(self) -> str:
        return f"<packed kernel {self.name}, {', '.join(kernel.target for kernel in self.kernels)}>"

    def _loaded(self, device: Device, checked: bool) -> Backend:
        return PackedCalls(self.kernels[0])._loaded(device, checked) if device == CPU else self._newest(device[1])

    def _newest(self, device: int) -> Backend:
        from lego_mlir.runtime.driver import driver

        capability = int(driver().capability(device))
        for kernel in self.kernels:
            number, is_exact = _age(kernel.target)
            if number == capability or (number < capability and not is_exact):
                return kernel.backend(device)
        packed = ", ".join(kernel.target for kernel in self.kernels)
        raise UsageError(f"kernel {self.name} is packed for {packed}, and this device is sm_{capability}")


def _age(target: str) -> tuple[int, bool]:
    """The architecture of a target, and whether its code runs on no other."""
    return int(target.removeprefix("sm_").rstrip("a")), target.endswith("a")


def load_targets(folder: Path) -> dict[str, TargetedCalls]:
    """The kernels of the packs in a folder, one pack a target, by name. Raises SpecError where there is none."""
    found: dict[str, list[PackedKernel]] = {}
    for pack in sorted(path for path in folder.iterdir() if path.is_dir()):
        for name, calls in load_kernels(pack).items():
            found.setdefault(name, []).append(calls.kernel)
    return {name: TargetedCalls(kernels) for name, kernels in sorted(found.items())}


def load_kernels(path: str | Path, version: int | None = None) -> dict[str, PackedCalls]:
    """The kernels of a folder that `lego-mlir pack` wrote, or of one file of code with its manifest, by name.

    They are called as kernel objects are: `load_kernels("kernels")["add"](a, b, c)`. Raises SpecError for a folder or
    file that has none, and for one of another `version` than `lego-mlir pack --version` gave it.
    """
    path = Path(path)
    files = [path] if path.suffix in SUFFIXES else code_files(path)
    found: dict[str, PackedCalls] = {}
    for file in files:
        read = manifest.read(file)
        if version is not None and read.version != version:
            packed = "without a version" if read.version is None else f"as version {read.version}"
            raise SpecError(f"{file} is packed {packed}, not {version}; lego-mlir pack --version {version} writes that")
        for entry in read.kernels.values():
            several = len(read.kernels) > 1
            found[entry.entry if several else file.stem] = PackedCalls(PackedKernel(file, read.target, entry))
    return found


def code_files(folder: Path) -> list[Path]:
    """The code in a folder. Raises SpecError if there is none."""
    files = sorted(file for file in folder.glob("*") if file.suffix in SUFFIXES) if folder.is_dir() else []
    if not files:
        raise SpecError(f"{folder}: no folder of packed kernels; write one with lego-mlir pack SPEC -o {folder}")
    return files


def find(folder: Path, name: str) -> PackedKernel | None:
    """The only kernel of the file of that name, None without such a file."""
    for suffix in SUFFIXES:
        path = folder / f"{name}{suffix}"
        if path.is_file():
            read = manifest.read(path)
            return PackedKernel(path, read.target, read.kernel(None))
    return None


def read_code(path: Path) -> bytes:
    """The code of a file, checked against its manifest."""
    try:
        code = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    manifest.check_code(manifest.read(path), code, path)
    return code


def write(folder: Path, compiled: Mapping[str, Compilation], version: int | None = None) -> list[Path]:
    """Write compiled kernels and their manifests into a folder, by name, with a version; the files of code."""
    make_folder(folder)
    written = []
    for name, compilation in compiled.items():
        path = folder / f"{name}.{compilation.emit}"
        replace_file(path, compilation.bytes)
        described = compilation.manifest if version is None else {**compilation.manifest, "version": version}
        replace_file(path.with_suffix(".json"), (json.dumps(described, indent=1) + "\n").encode())
        written.append(path)
    return written
