"""The workbench of this machine's GPU: candidates are compiled for it, checked, and timed in isolated processes.

The checks of a kernel are data at small sizes, if it has sizes, and at the sizes that are timed, made from its
reference; without one, the interpreter's results at the small sizes. They are kept in a folder that is removed with the
workbench.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.runtime import data_files
from lego_mlir.runtime.driver import driver
from lego_mlir.store import key, replace_file
from lego_mlir.tuning import computed_checks
from lego_mlir.tuning.candidates import Candidate
from lego_mlir.tuning.device_launch import identity
from lego_mlir.tuning.gpu_trials import GpuBuild, build_of
from lego_mlir.tuning.interpreted import interpreted_data
from lego_mlir.tuning.isolated import LIVE, IsolatedBench
from lego_mlir.tuning.workbench import Workbench

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.program import Runnable
    from lego_mlir.tuning.template_launches import TemplateLaunch
    from lego_mlir.tuning.template_trials import TemplateBuild


VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
ENTRY: Final = "template"
"""The program of a template's launch in its manifest."""


def gpu_workbench(device: int = 0, live: int = LIVE, templates: bool = False) -> Workbench:
    """The workbench of a CUDA device of this machine; of `templates`, which need no MLIR.

    Raises DependencyError, with the remedy, where there is no device.
    """
    from lego_mlir.runtime.calls import target_for

    found, target = identity(driver(), device), target_for(driver().capability(device))
    preparing = Preparing(target)
    bench = IsolatedBench(live, environment=visible(device), kept=True)
    digest = template_toolchain(target) if templates else toolchain(target)
    return Workbench(found.name, found.multiprocessors, found.driver, digest, bench, preparing.trial)


def visible(device: int) -> dict[str, str]:
    """The environment in which a device is the only one: a process opens it faster than one of many."""
    shown = [name for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return {VISIBLE: shown[device].strip() if device < len(shown) else str(device)}


@cache
def toolchain(target: str) -> str:
    """A digest of what turns a candidate into code: the target, the versions, and the compiler's own code."""
    from lego_mlir import bindings
    from lego_mlir.toolchain import llvm

    return key("tuning", target.encode(), bindings.load().version, llvm.version())[:16]


@cache
def template_toolchain(target: str) -> str:
    """A digest of what turns a template into code: the target, and the versions of Triton, NVRTC and nvcc."""
    from lego_mlir.templates.run import nvrtc
    from lego_mlir.toolchain import triton_text

    return key("templates", target.encode(), triton_text.version(), nvrtc.compilers())[:16]


def is_template(candidate: Candidate) -> bool:
    """Whether a candidate is rendered text, with or without its launch."""
    from lego_mlir.tuning.building import TunedTemplate
    from lego_mlir.tuning.template_launches import TemplateLaunch

    return isinstance(candidate.built, TemplateLaunch | TunedTemplate)


@dataclass
class Preparing:
    """Makes the trials of candidates for one target, with the data of their checks.

    With `travels`, for another machine, the data of the timed sizes are computed where they are used, from the
    reference as code (`computed_checks`). `uncarried` has the kernels whose reference cannot travel, with the reason:
    those have data; with `small`, for files, they are checked at small sizes alone if they have others.
    """

    target: str
    device: int = 0
    emit: str = "ptx"
    small: bool = False
    travels: bool = False
    folder: Path = field(init=False)
    uncarried: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lego-tuning-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def trial(self, candidate: Candidate, sizes: Mapping[str, int]) -> GpuBuild | TemplateBuild:
        """The trial of a kernel, a program or a template's launch, which compiles it as it is opened.

        Raises UsageError for what does not run as compiled code on a GPU.
        """
        from lego_mlir.runtime import data
        from lego_mlir.runtime.calls import TracedKernelCalls
        from lego_mlir.tracing.definition.kernel import Kernel
        from lego_mlir.tracing.definition.program import KernelProgram
        from lego_mlir.tuning.building import TunedTemplate
        from lego_mlir.tuning.template_launches import TemplateLaunch

        built = candidate.built
        if isinstance(built, TemplateLaunch):
            return self._template(built, candidate.digest)
        if isinstance(built, TunedTemplate):
            raise UsageError(
                f"{candidate.configuration}: {built.rendered.template.name} is text, which does not say how it is "
                "launched; return lego.TemplateLaunch(template, kernel, grid, arguments, writes=.., reference=..)"
            )
        if not isinstance(built, Kernel | KernelProgram | TracedKernelCalls):
            raise UsageError(
                f"{candidate.configuration}: a {type(built).__name__} is not timed through the driver; kernels, "
                "programs of kernels and launches of templates are"
            )
        run = built.kernel if isinstance(built, TracedKernelCalls) else built
        timed = data.choose_sizes(run, data.sizes_of_kernel(run, sizes))
        checks = self._checks(run, candidate.digest, timed)
        return build_of(built, checks, timed, self.target, self.emit, self.device)

    def _checks(self, built: Runnable, digest: str, timed: Mapping[str, int]) -> list[Path]:
        """The files of the checks: data, and of what travels a description in place of those of the timed sizes."""
        described = self._described(built, timed) if self.small or self.travels else None
        at = _check_sizes(built, timed, self.small)
        if described is not None:
            return [*(self._data(built, digest, sizes) for sizes in at if sizes != dict(timed)), described]
        return [self._data(built, digest, sizes) for sizes in at]

    def _described(self, built: Runnable, timed: Mapping[str, int]) -> Path | None:
        """The description of a check; None, and the reason kept, where the reference cannot travel as code."""
        try:
            text = json.dumps(computed_checks.describe(built, timed), indent=1)
        except UsageError as error:
            self.uncarried.setdefault(built.name, str(error))
            return None
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}{computed_checks.SUFFIX}"
        if not path.is_file():
            replace_file(path, text.encode())
        return path

    def _template(self, built: TemplateLaunch, digest: str) -> TemplateBuild:
        from lego_mlir.tuning import template_checks, template_trials

        path = self.folder / f"{template_checks.identity(built)}.npz"
        if not path.is_file():
            replace_file(path, data_files.to_npz(template_checks.check_arrays(built, ENTRY)))
        return template_trials.build_of(built, ENTRY, [path], self.target)

    def _data(self, built: Runnable, digest: str, sizes: Mapping[str, int]) -> Path:
        from lego_mlir.runtime import data

        words = hashlib.sha256(f"{digest} {sorted(sizes.items())}".encode()).hexdigest()[:24]
        path = self.folder / f"{words}.npz"
        if not path.is_file():
            made = interpreted_data(built, sizes) if built.expected is None else data.check_data(built, sizes)
            replace_file(path, data_files.to_npz(made))
        return path


def _check_sizes(built: Runnable, timed: Mapping[str, int], only_small: bool) -> list[dict[str, int]]:
    """The sizes of the checks: small ones that meet the masks, if they are smaller, and those that are timed."""
    from lego_mlir.runtime import data

    small = data.choose_sizes(built, {}) if built.sizes else {}
    smaller = bool(small) and all(small[name] <= timed[name] for name in small) and small != dict(timed)
    if smaller and (only_small or built.expected is None):
        return [small]
    return [*([small] if smaller else []), dict(timed)]
