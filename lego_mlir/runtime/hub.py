"""Packed kernels in the layout of the Hugging Face Hub, which its package `kernels` loads without lego_mlir.

    FOLDER/build.toml                          name, version, licence, backend
    FOLDER/build/torch-cuda/__init__.py        each kernel by name
    FOLDER/build/torch-cuda/metadata.json      the same, a unique id, the architectures, and the hash of each file
    FOLDER/build/torch-cuda/_code/sm_90/       the pack of one target, as `packs` writes it; others are next to it
    FOLDER/build/torch-cuda/_lego/             the modules that launch, whose imports are relative
    FOLDER/build/torch-cuda/NAME/__init__.py   the same names, for earlier versions of `kernels`

A kernel of the Hub may import Python's library, PyTorch and itself: several versions of it live in one process, under
ids that differ with their code. So what launches is copied into it. Writing another target into the folder of the same
name and version adds to it.

Source: "Kernel requirements" and "Writing Hub kernels" of the documentation of `kernels` 0.17.

>>> relative("from lego_mlir.runtime import manifest", 1), relative("from lego_mlir.errors import UsageError", 0)
('from ..runtime import manifest', 'from .errors import UsageError')
>>> architecture("sm_90a", "ptx"), architecture("sm_80", "ptx"), architecture("sm_103", "cubin")
('9.0a', '8.0+PTX', '10.3')
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.runtime import packs

if TYPE_CHECKING:
    from lego_mlir.toolchain.compile import Compilation

LICENCE: Final = "Apache-2.0"
VARIANT: Final = "torch-cuda"
"""One build for all versions of PyTorch: what the driver loads is PTX or a cubin, not an extension."""
LAUNCHING: Final = (
    "aliases", "errors", "expr/integer_operations", "expr/text", "hardware/device_numbers", "hardware/limits",
    "hardware/memory", "hardware/tensor_map_forms", "hardware/tensor_maps", "runtime/argument_checks", "runtime/arrays",
    "runtime/binding", "runtime/calls", "runtime/comparing", "runtime/compile_lock", "runtime/derived_sizes",
    "runtime/dlpack", "runtime/driver", "runtime/f8", "runtime/first_calls", "runtime/launches", "runtime/manifest",
    "runtime/packs", "runtime/plans", "runtime/tensor_map_frames", "runtime/value_ranges", "store", "syntax_tree",
)  # fmt: skip
"""The modules that a launch of a packed kernel loads."""
_NAME: Final = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
_IMPORT: Final = re.compile(r"^(\s*)from lego_mlir((?:\.\w+)*) import ", re.MULTILINE)
_INIT: Final = '''"""{name}, version {version}: {count} of lego-mlir, compiled ahead of time; needs NumPy.

    {example}

Arrays of PyTorch on a CUDA device; results that are left out are allocated. Sizes, types and alignment are checked.
"""

from pathlib import Path

from ._lego.runtime.packs import load_targets

_kernels = load_targets(Path(__file__).parent / "_code")
__all__ = {names}
globals().update(_kernels)
'''


def write(folder: Path, name: str, version: int, compiled: Mapping[str, Compilation]) -> list[Path]:
    """Add compiled kernels of one target to a repository of the Hub; its files of code.

    Raises UsageError for a name that is none on the Hub, for kernels whose names are no identifiers, and where the
    folder has another name or version.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--hub {name}: a name on the Hub has lower-case letters, digits and hyphens, such as my-kernels"
        )
    strange = [kernel for kernel in compiled if not kernel.isidentifier() or kernel.startswith("_")]
    if strange:
        raise UsageError(f"--hub: {', '.join(strange)} cannot be an attribute of a module; rename the kernel")
    build = folder / "build" / VARIANT
    _require_same(build / "metadata.json", name, version)
    (target,) = {str(made.manifest["target"]) for made in compiled.values()}
    written = packs.write(build / "_code" / target, compiled)
    kernels = packs.load_targets(build / "_code")
    first = next(iter(kernels.values()))
    arguments = ", ".join(argument.name for argument in first.host_entry.arguments)
    count = f"{len(kernels)} kernel{'s' * (len(kernels) > 1)}"
    init = _INIT.format(
        name=name, version=version, count=count, example=f"{first.name}({arguments})", names=sorted(kernels)
    )
    _copy_launcher(build / "_lego")
    (build / "__init__.py").write_text(init, encoding="utf-8")
    module = name.replace("-", "_")
    (build / module).mkdir(exist_ok=True)
    (build / module / "__init__.py").write_text(f'"""{name}."""\n\nfrom .. import *\n', encoding="utf-8")
    (build / "metadata.json").write_text(json.dumps(_metadata(build, name, version), indent=2) + "\n", encoding="utf-8")
    described = f'[general]\nname = "{name}"\nversion = {version}\nedition = 5\nlicense = "{LICENCE}"\n'
    (folder / "build.toml").write_text(f'{described}backends = ["cuda"]\n\n[torch-noarch]\n', encoding="utf-8")
    return written


def _require_same(metadata: Path, name: str, version: int) -> None:
    if metadata.is_file():
        found = json.loads(metadata.read_text(encoding="utf-8"))
        if (found["name"], found["version"]) != (name, version):
            raise UsageError(
                f"{metadata.parents[2]} has {found['name']} version {found['version']}; write {name} version {version} "
                "into another folder"
            )


def _metadata(build: Path, name: str, version: int) -> dict[str, object]:
    """What `kernels` reads before it imports: who it is, what it runs on, and the hash of each file."""
    files = {str(path.relative_to(build)): _digest(path.read_bytes()) for path in _files(build)}
    unique = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:8]
    codes = sorted(path for path in (build / "_code").rglob("*") if path.suffix in packs.SUFFIXES)
    return {
        "name": name,
        "id": f"_{name.replace('-', '_')}_cuda_{unique}",
        "version": version,
        "license": LICENCE,
        "python-depends": [],
        "backend": {
            "type": "cuda",
            "archs": sorted({architecture(path.parent.name, path.suffix.removeprefix(".")) for path in codes}),
        },
        "digest": {"algorithm": "sha256", "files": files},
    }


def _files(build: Path) -> Iterator[Path]:
    """What belongs to the kernel, without caches and the file of hashes itself."""
    for path in sorted(build.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.name != "metadata.json":
            yield path


def _digest(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def architecture(target: str, emit: str) -> str:
    """A target as the Hub writes it; PTX without an `a` also runs on everything later."""
    number = target.removeprefix("sm_")
    exact = number.rstrip("a")
    return f"{exact[:-1]}.{exact[-1]}" + ("a" if number != exact else "+PTX" if emit == "ptx" else "")


def _copy_launcher(into: Path) -> None:
    """Copy the modules that launch, with relative imports; what is not copied is imported nowhere on their way."""
    package = Path(__file__).parents[1]
    if into.exists():
        shutil.rmtree(into)
    for name in LAUNCHING:
        path = into / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(relative((package / f"{name}.py").read_text(encoding="utf-8"), name.count("/")), "utf-8")
    for inside in (into, *(path for path in into.iterdir() if path.is_dir())):
        (inside / "__init__.py").write_text('"""Of lego-mlir."""\n', encoding="utf-8")
    shutil.copy(_licence(), into / "LICENSE")


def _licence() -> Path:
    """The licence of the installed distribution, or of a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = [Path(str(file.locate())) for file in files("lego-mlir") or () if file.name == "LICENSE"]
    except PackageNotFoundError:
        found = []
    return found[0] if found else Path(__file__).parents[2] / "LICENSE"


def relative(text: str, depth: int) -> str:
    """The text of a module `depth` folders below the package, with imports that do not name the package."""
    return _IMPORT.sub(lambda found: f"{found[1]}from {'.' * (depth + 1)}{found[2].removeprefix('.')} import ", text)
