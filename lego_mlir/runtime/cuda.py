"""Load PTX or a cubin with its manifest, and launch. The only importer of CuPy.

    module = load("transpose.ptx")
    transpose = module.kernel("transpose")
    transpose(source, destination, sizes={"M": 4096, "N": 4096})

Tensors are CuPy arrays that hold a layout's physical elements, in memory order; the manifest gives
their number, type and alignment, and the range of each size; a launch that disagrees is rejected before it starts
(`argument_checks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.hardware.limits import STATIC_SHARED_BYTES, refusal
from lego_mlir.runtime import argument_checks
from lego_mlir.runtime.comparing import STORED
from lego_mlir.runtime.manifest import KernelEntry, Manifest, ProgramEntry, check_code, evaluate, read

if TYPE_CHECKING:
    from lego_mlir.aliases import Array, DeviceArray, Json


def cupy() -> Any:
    """CuPy, with a device that answers. Raises DependencyError with the remedy."""
    try:
        import cupy
    except ImportError as error:
        raise DependencyError(f"CuPy is needed to run on a GPU ({error}); run: pip install cupy-cuda13x") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DependencyError(f"no CUDA device answers ({error}); a GPU and NVIDIA's driver are needed") from error
    if count == 0:
        raise DependencyError("no CUDA device is visible; a GPU and NVIDIA's driver are needed")
    return cupy


@dataclass(frozen=True, slots=True)
class Launcher:
    """One kernel, ready to be launched with arrays, scalars and sizes."""

    kernel: KernelEntry
    function: Any

    def __call__(
        self,
        *arguments: Any,
        sizes: Mapping[str, int] | None = None,
        grid: tuple[int, ...] | None = None,
        block: tuple[int, ...] | None = None,
    ) -> None:
        """Launch on the current stream. `grid` and `block` only where the manifest leaves them open."""
        sizes = dict(sizes or {})
        self.kernel.check_sizes(sizes)
        if len(arguments) != len(self.kernel.arguments):
            names = ", ".join(argument.name for argument in self.kernel.arguments)
            raise UsageError(f"kernel {self.kernel.entry} takes {names}; got {len(arguments)} arguments")
        import cupy
        import numpy

        passed = [
            argument_checks.scalar(declared, given)
            if declared.kind == "scalar"
            else argument_checks.tensor(declared, given, sizes, cupy)
            for declared, given in zip(self.kernel.arguments, arguments, strict=True)
        ]
        argument_checks.require_apart(self.kernel.entry, self.kernel.arguments, passed)
        passed = [
            array if declared.tensor_map is None else self.mapped(declared.tensor_map, array, sizes)
            for declared, array in zip(self.kernel.arguments, passed, strict=True)
        ]
        passed += [numpy.int64(sizes[size.name]) for size in self.kernel.sizes]
        self.function(
            launch_extents("grid", self.kernel.grid, grid, sizes, self.kernel.entry),
            launch_extents("block", self.kernel.block, block, sizes, self.kernel.entry),
            tuple(passed),
            shared_mem=self.kernel.dynamic_shared_bytes,
        )

    def mapped(self, described: Json, array: DeviceArray, sizes: Mapping[str, int]) -> Array:
        """The tensor map of an array: CuPy passes structures in NumPy's arrays by value."""
        from lego_mlir.hardware.tensor_map_forms import form_from
        from lego_mlir.runtime.driver import driver
        from lego_mlir.runtime.tensor_map_frames import encoded

        form = form_from(described)
        return encoded(driver(), form.at([sizes[size.name] for size in self.kernel.sizes]), array.data.ptr)


@dataclass(frozen=True, slots=True)
class ProgramLauncher:
    """A program, ready to be launched like a kernel: its kernels run in order on the current stream."""

    program: ProgramEntry
    launchers: Mapping[str, Launcher]

    @property
    def kernel(self) -> KernelEntry:
        """The program's parameters and sizes."""
        return self.program.kernel

    def __call__(self, *arguments: Any, sizes: Mapping[str, int] | None = None) -> None:
        """Allocate the temporaries, and launch the steps."""
        import cupy

        sizes, entry = dict(sizes or {}), self.program.kernel
        entry.check_sizes(sizes)
        if len(arguments) != len(entry.arguments):
            names = ", ".join(argument.name for argument in entry.arguments)
            raise UsageError(f"program {entry.entry} takes {names}; got {len(arguments)} arguments")
        values = {argument.name: given for argument, given in zip(entry.arguments, arguments, strict=True)}
        for temporary in self.program.temporaries:
            assert temporary.elements is not None
            values[temporary.name] = cupy.empty(evaluate(temporary.elements, sizes), STORED[temporary.dtype])
        for step in self.program.steps:
            passed = [values[a["name"]] if "name" in a else _value(a["value"], sizes) for a in step.arguments]
            self.launchers[step.entry](*passed, sizes={n: evaluate(extent, sizes) for n, extent in step.sizes.items()})


def _value(value: Any, sizes: Mapping[str, int]) -> Any:
    return value if isinstance(value, float) else evaluate(value, sizes)


@dataclass(frozen=True, slots=True)
class Module:
    """Loaded code with its manifest."""

    manifest: Manifest
    module: Any

    def kernel(self, entry: str | None = None) -> Launcher:
        """The kernel of this name, or the only one."""
        described = self.manifest.kernel(entry)
        function = self.module.get_function(described.entry)
        if described.dynamic_shared_bytes > STATIC_SHARED_BYTES:  # the limit without an opt-in for the kernel
            function.max_dynamic_shared_size_bytes = described.dynamic_shared_bytes
        return Launcher(described, function)

    def program(self, name: str) -> ProgramLauncher:
        """The program of this name."""
        if name not in self.manifest.programs:
            raise UsageError(f"which program? The code has: {', '.join(self.manifest.programs) or 'none'}")
        described = self.manifest.programs[name]
        return ProgramLauncher(described, {step.entry: self.kernel(step.entry) for step in described.steps})


def load(path: str | Path) -> Module:
    """Load a `.ptx` or `.cubin` file and the manifest beside it onto the current device.

    CuPy remembers loaded code by its path: within one process, new code needs a new file.
    """
    path = Path(path)
    manifest = read(path)
    try:
        code = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    check_code(manifest, code, path)
    cp = cupy()
    check_device(manifest.target, cp.cuda.Device().compute_capability)
    try:
        module = cp.RawModule(path=str(path))
        module.compile()
    except cp.cuda.driver.CUDADriverError as error:
        raise UsageError(
            f"{path}: the driver refuses this code for {manifest.target} ({error}); a newer driver, or a --target "
            "that it knows, is needed"
        ) from error
    return Module(manifest, module)


def check_device(target: str, capability: str) -> None:
    """Refuse code for another architecture: `sm_90a` runs on 90 alone, `sm_80` on 80 and everything later."""
    wanted, device = int(target.removeprefix("sm_").rstrip("a")), int(capability)
    if device < wanted or (target.endswith("a") and device != wanted):
        raise UsageError(f"the code is for {target} and this device is sm_{device}; compile with --target sm_{device}")


def launch_extents(
    what: str, declared: tuple[Any, ...] | None, given: tuple[int, ...] | None, sizes: Mapping[str, int], entry: str
) -> tuple[int, ...]:
    """Grid or block of a launch: the manifest's for these sizes, or the given one where the manifest has none.

    Raises UsageError where no GPU would launch it.
    """
    extents = _chosen_extents(what, declared, given, sizes, entry)
    if refused := refusal(what, extents):
        raise UsageError(f"kernel {entry}: {refused}")
    return extents


def _chosen_extents(
    what: str, declared: tuple[Any, ...] | None, given: tuple[int, ...] | None, sizes: Mapping[str, int], entry: str
) -> tuple[int, ...]:
    if declared is not None:
        if given is not None:
            raise UsageError(f"kernel {entry}: {what} is fixed by its manifest: {declared}")
        return tuple(evaluate(n, sizes) for n in declared)
    if given is None:
        raise UsageError(f"kernel {entry}: its module does not fix the {what}; pass {what}=(x, y, z)")
    return tuple(given)
