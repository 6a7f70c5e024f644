"""Compiled code that is checked and timed on a GPU: a trial needs the driver and NumPy, no compiler.

A candidate is compiled where the compiler is (`GpuBuild`), and its code, its manifest and the data of its checks go to
a machine with a GPU (`GpuTrial`). The checks come first: each is a `.npz` of `runtime.data`, with the memory before the
launch and what it must be after it; the last one may be of the sizes that are timed. What is timed is launched on the
memory of that check, or on random small integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError
from lego_mlir.runtime import argument_checks, data_files, manifest
from lego_mlir.runtime.comparing import STORED
from lego_mlir.runtime.driver import LoadedFunction, check_target, driver
from lego_mlir.runtime.manifest import KernelEntry, Manifest, ProgramEntry
from lego_mlir.tuning import computed_checks, device_launch
from lego_mlir.tuning.device_launch import DeviceBuffers, Stopwatch

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import TracedKernelCalls
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import Runnable


TRITON: Final = "triton"
"""The kind of code that Triton compiles where it is measured."""


@dataclass(frozen=True, slots=True)
class GpuTrial:
    """Code with its manifest as JSON data, the `.npz` files of its checks, and the sizes that are timed.

    The checks are paths, or for another machine the bytes of the files; one may be the description of
    `computed_checks`, from which the process of the candidate makes the data.
    """

    code: bytes
    described: Mapping[str, Any]
    checks: tuple[Path | bytes, ...]
    sizes: Mapping[str, int]
    entry: str | None = None
    device: int = 0

    def open(self) -> GpuSampler:
        """Load the code; Triton's text is compiled first. Raises UsageError for code of another architecture."""
        if self.described["code"] == TRITON:
            from lego_mlir.tuning import triton_trials

            return triton_trials.compiled(self, int(driver().capability(self.device))).open()
        read = manifest.from_data(self.described)
        check_target(read.target, driver().capability(self.device), "the candidate")
        return GpuSampler(self, read)


class GpuSampler:
    """A loaded kernel or program, its launches at the sizes of the checks and of the timings."""

    def __init__(self, trial: GpuTrial, read: Manifest) -> None:
        self.trial, self.manifest, self.driver = trial, read, driver()
        self.entry = _entry(read, trial.entry)
        self.kernel = self.entry.kernel if isinstance(self.entry, ProgramEntry) else self.entry
        self._functions: dict[str, LoadedFunction] = {}
        self._stopwatch: Stopwatch | None = None
        self._ready: DeviceLaunch | None = None
        self._launches: list[DeviceLaunch] = []

    def check(self) -> str:
        """Launch at the sizes of each check; the first result that is wrong."""
        for path in self.trial.checks:
            data = computed_checks.read(path, self.trial.sizes)
            if not data:
                raise UsageError(f"{path!s}: the data of a check are missing; copy them with the code")
            launch = self._launch(data, self._sizes_of(data))
            self.driver.within(self.trial.device, launch.run)
            if wrong := launch.wrong(data):
                return wrong
            if launch.sizes == dict(self.trial.sizes):
                self._ready = launch
        self._timed()  # its memory is filled here, at the same time as that of other candidates, and not in a turn
        return ""

    def sample(self, count: int) -> list[float]:
        """The seconds of launches at the sizes that are timed."""
        if self._stopwatch is None:
            self._stopwatch = Stopwatch(self.driver, self.trial.device)
        return self._stopwatch.seconds(self._timed().run, count)

    def _timed(self) -> DeviceLaunch:
        """The launch that is timed: that of the check at these sizes, or one on random input."""
        if self._ready is None:
            self._ready = self._launch({}, dict(self.trial.sizes))
        return self._ready

    def _sizes_of(self, data: Mapping[str, Array]) -> dict[str, int]:
        return {size.name: int(data[f"{self.kernel.entry}/{size.name}"]) for size in self.kernel.sizes}

    def _launch(self, data: Mapping[str, Array], sizes: dict[str, int]) -> DeviceLaunch:
        self.kernel.check_sizes(sizes)
        self._launches.append(DeviceLaunch(self, data, sizes))
        return self._launches[-1]

    def close(self) -> None:
        """Free its memory on the device: the process may open another trial."""
        self.driver.synchronise(self.trial.device, 0)
        for launch in self._launches:
            launch.buffers.close()
        if self._stopwatch is not None:
            self._stopwatch.close()

    def function(self, kernel: KernelEntry) -> LoadedFunction:
        """A kernel of the code, loaded once."""
        if kernel.entry not in self._functions:
            shared, device = kernel.dynamic_shared_bytes, self.trial.device
            found = self.driver.load(self.trial.code, kernel.entry, device, shared, "the candidate")
            self._functions[kernel.entry] = found
        return self._functions[kernel.entry]


class DeviceLaunch:
    """A kernel or program at some sizes, on memory that it keeps."""

    def __init__(self, sampler: GpuSampler, data: Mapping[str, Array], sizes: dict[str, int]) -> None:
        import numpy

        self.sampler, self.sizes = sampler, sizes
        kernel, self.buffers = sampler.kernel, DeviceBuffers(sampler.driver, sampler.trial.device)
        self.host = {a.name: data_files.memory_of(kernel, a, data, sizes) for a in kernel.arguments}
        self.addresses = {a.name: self.buffers.put(self.host[a.name]) for a in kernel.arguments if a.kind == "tensor"}
        for argument in kernel.arguments:
            if argument.addresses_of:
                addresses = numpy.array([self.addresses[name] for name in argument.addresses_of], numpy.uint64)
                self.buffers.put(addresses, self.addresses[argument.name])
        if isinstance(sampler.entry, ProgramEntry):
            for extra in sampler.entry.temporaries:
                assert extra.elements is not None
                size = manifest.evaluate(extra.elements, sizes) * numpy.dtype(STORED[extra.dtype]).itemsize
                self.addresses[extra.name] = self.buffers.empty(size)
        values = {name: address.to_bytes(8, "little") for name, address in self.addresses.items()}
        for argument in kernel.arguments:
            if argument.kind != "tensor":
                values[argument.name] = argument_checks.scalar(argument, self.host[argument.name][()]).tobytes()
        kernels = sampler.manifest.kernels
        self.frames = device_launch.frames(
            sampler.driver, sampler.function, sampler.entry, kernels, values, sizes
        )  # fmt: skip

    def run(self) -> None:
        """Launch, without waiting."""
        for frame, function in self.frames:
            code = frame.launch()
            if code:
                self.sampler.driver.launch_failed(frame, function, code)

    def wrong(self, data: Mapping[str, Array]) -> str:
        """The first result that differs from the data, with its sizes; nothing if all agree."""
        kernel, driver = self.sampler.kernel, self.sampler.driver
        driver.synchronise(self.sampler.trial.device, 0)
        for argument in kernel.arguments:
            name = f"{kernel.entry}/{argument.name}"
            if f"{name}/expected" not in data:
                continue
            found = self.buffers.get(self.addresses[argument.name], self.host[argument.name])
            compared = data_files.compare(found, name, data, argument)
            if not compared:
                at = "".join(f" {size}={n}" for size, n in self.sizes.items())
                return f"{argument.name}{f' at{at}' if at else ''}: {compared}"
        return ""


def _entry(read: Manifest, name: str | None) -> KernelEntry | ProgramEntry:
    """The program or kernel of this name; without one the only program, or the only kernel."""
    if name is None and len(read.programs) == 1:
        return next(iter(read.programs.values()))
    return read.programs[name] if name is not None and name in read.programs else read.kernel(name)


@dataclass(frozen=True, slots=True)
class GpuBuild:
    """All that a process or machine with the compiler needs to build a trial: a module after its transform script.

    `described` is the manifest but for the code. Opened as a trial, it compiles in the process of the candidate: a
    compiler that crashes or hangs costs that candidate only, and those of a heat are compiled at the same time.
    """

    module: str
    target: str
    emit: str
    described: Mapping[str, Any]
    checks: tuple[Path | bytes, ...]
    sizes: Mapping[str, int]
    device: int = 0

    def __call__(self) -> GpuTrial:
        """Compile, through the cache. Raises ToolchainError where a stage fails."""
        from lego_mlir.toolchain import Cache, compile_kernel, default_folder

        compiled = compile_kernel(
            self.module, start="transformed", target=self.target, emit=self.emit, cache=Cache(default_folder())
        )
        code = {"code": self.emit, "code_sha256": hashlib.sha256(compiled.bytes).hexdigest()}
        described = {**self.described, **code}
        return GpuTrial(compiled.bytes, described, self.checks, self.sizes, device=self.device)

    def open(self) -> GpuSampler:
        """Compile and load."""
        return self().open()

    def with_data(self) -> GpuBuild:
        """The same with the contents of its files, for another machine."""
        return replace(self, checks=tuple(c if isinstance(c, bytes) else c.read_bytes() for c in self.checks))


def build_of(
    built: Runnable | TracedKernelCalls,
    checks: Sequence[Path | bytes],
    sizes: Mapping[str, int],
    target: str,
    emit: str = "ptx",
    device: int = 0,
) -> GpuBuild:
    """The build of a kernel, of one with a transform script, or of a program with its kernels.

    Without a script, tiles of `lego.mma` become fragments.
    """
    from lego_mlir.runtime.calls import FRAGMENTS, TracedKernelCalls
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder
    from lego_mlir.toolchain.manifest import describe_steps
    from lego_mlir.tracing.definition.program import KernelProgram

    script, parameters, program = None, None, None
    kernels: tuple[Kernel, ...]
    if isinstance(built, TracedKernelCalls):
        kernels, script, parameters = (built.kernel,), built.script, built.parameters
    elif isinstance(built, KernelProgram):
        kernels, program = tuple(built.kernels), built
    else:
        kernels = (built,)
    if script is None and any(kernel.trace().tile_rows() for kernel in kernels):
        script = FRAGMENTS
    compiled = compile_kernel(
        kernels, target=target, emit="transformed", transform=script, parameters=parameters,
        cache=Cache(default_folder()),
    )  # fmt: skip
    described = compiled.manifest
    if program is not None:
        described["programs"] = [describe_steps(program, described["kernels"])]
    module = compiled.stage("transformed", locations=True)
    return GpuBuild(module, target, emit, described, tuple(checks), dict(sizes), device)
