"""A driver of Triton that needs no GPU: kernels are compiled for a chosen target, and run in the PTX emulator.

    lego_mlir.sanitize.triton(arch=90)      # then kernel[grid](x, y, n, BLOCK=128) as ever, on tensors of the CPU

Triton compiles as for a GPU up to PTX, which takes the place of the cubin. A launch gives the kernel its arguments, two
hidden pointers (scratch memory for all programs, for a profiler) and blocks of 32 * num_warps threads. A table of
pointers, int64 whose numbers are addresses in live tensors, is translated. `torch.empty` and its relatives are filled
with a mark, so that a read of what nobody wrote is found.

This is the one module that knows Triton's interface between compiler and driver, which is private: `SUPPORTED` has the
versions with which it was tested.
"""

from __future__ import annotations

import gc
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import DependencyError, InterpreterError
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.hardware.targets import TARGETS
from lego_mlir.interp.ptx.bulk_tensor_maps import TensorMapArgument
from lego_mlir.interp.ptx.checks import TRITON
from lego_mlir.interp.ptx.ptx_launch import emulate
from lego_mlir.interp.ptx.ptx_program import PtxModule
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.sanitize.sanitized_kernels import options_of
from lego_mlir.sanitize.sessions import current
from lego_mlir.sanitize.storages import PlacedStorages, StorageArgument, TensorStorage, mark_unwritten, on_cpu

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.address_spaces import GlobalMemory

TritonObject = Any
"""A value of Triton or PyTorch, which are not loaded when types are checked."""
SUPPORTED: Final = ("3.8", "3.9")
MAP_TYPES: Final = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16")
SWIZZLES: Final = (0, 32, 64, 128)
MADE_EMPTY: Final = ("empty", "empty_like", "empty_strided")


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The architecture, and whether `all` configurations of an autotuned kernel run, or the `first`.

    `edit` changes the PTX of each kernel before it runs, for tools.
    """

    arch: int = 90
    autotune: str = "all"
    edit: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class PointerTable:
    """A tensor of int64: where its words are addresses in live tensors, they become the emulator's addresses."""

    value: TritonObject
    placed: PlacedStorages

    def bind(self, memory: GlobalMemory, name: str) -> int:
        """Place the memory, and all that it points into; what a kernel stores to a table is not written back."""
        storage = TensorStorage.of(self.value)
        words = storage.view().view(np.uint64).copy()
        targets = _storages_at(words)
        if not targets:
            return self.placed.address(storage, memory, name)
        for target in targets:
            inside = (words >= target.start) & (words < target.start + target.nbytes)
            base = self.placed.address(replace(target, offset=0), memory, f"{name}->")
            words[inside] += np.uint64((base - target.start) % (1 << 64))
        return self.placed.address(storage, memory, name, words.tobytes())


def _storages_at(words: Array) -> list[TensorStorage]:
    """The memory of the live tensors into which some of these addresses point."""
    plausible = np.unique(words[(words > 1 << 32) & (words < 1 << 48)])
    if not len(plausible):
        return []
    import torch

    found: dict[int, TensorStorage] = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and _is_dense(thing) and on_cpu(thing):
            storage = TensorStorage.of(thing)
            if ((plausible >= storage.start) & (plausible < storage.start + storage.nbytes)).any():
                found[storage.start] = storage
    return list(found.values())


def _is_dense(tensor: TritonObject) -> bool:
    """Whether it has memory of its own, as a sparse tensor or one without data has not."""
    return str(tensor.layout) == "torch.strided" and not tensor.is_meta and type(tensor).__name__ != "FakeTensor"


class EmulatorLauncher:
    """`driver.launcher_cls`: made once a kernel, with its source and metadata, and called once a launch."""

    def __init__(self, source: TritonObject, metadata: TritonObject) -> None:
        from triton.backends.driver import expand_signature, wrap_handle_tensordesc_impl

        self.metadata = metadata
        self.signature: Mapping[str, TritonObject] = dict(source.signature)
        descriptors = getattr(metadata, "tensordesc_meta", None)
        self.kinds = expand_signature(self.signature.values(), descriptors, "nvTmaDesc")
        self.run = wrap_handle_tensordesc_impl(self._run, self.signature, descriptors, _descriptor)

    def __call__(
        self, x: int, y: int, z: int, stream: object, function: LoadedPtx, packed: object, described: object,
        enter: Callable[[object], None] | None, leave: Callable[[object], None] | None, *arguments: TritonObject,
    ) -> None:  # fmt: skip
        """Run the kernel on a grid."""
        if enter is not None:
            enter(described)
        if math.prod((x, y, z)):
            self.run((x, y, z), function, arguments)
        if leave is not None:
            leave(described)

    def _run(self, grid: tuple[int, int, int], function: LoadedPtx, arguments: Sequence[TritonObject]) -> None:
        session, metadata = current(), self.metadata
        placed, blocks = PlacedStorages(), getattr(metadata, "num_ctas", 1)
        values = [_argument(value, placed) for value in _flat(arguments, self.kinds)]
        for size in (metadata.global_scratch_size, metadata.profile_scratch_size):
            values.append(np.zeros(max(math.prod(grid) * blocks * size, 1), np.uint8))
        module = function.module()
        options = options_of(session)
        checks = replace(options.checks, fenced_barriers=TRITON.fenced_barriers, replicated=TRITON.replicated)
        report = emulate(
            module, metadata.name, args=values[: len(module.entry(metadata.name).parameters)], names=self._names(),
            grid=(grid[0] * blocks, *grid[1:]), block=(32 * metadata.num_warps, 1, 1),
            cluster=(blocks, 1, 1) if blocks > 1 else None, dynamic_shared=metadata.shared,
            options=replace(options, checks=checks),
        )  # fmt: skip
        if report.printed:
            print(report.printed, end="")
        session.add(report)

    def _names(self) -> list[str]:
        """The names of the pointers and numbers; those of a descriptor's parts follow from it."""
        found: list[str] = []
        for (name, kind), expanded in zip(self.signature.items(), _grouped(self.kinds, self.signature), strict=True):
            if kind != "constexpr":
                found += [name] if expanded == 1 else [f"{name}.{part}" for part in range(expanded)]
        return found


def _grouped(kinds: Sequence[TritonObject], signature: Mapping[str, TritonObject]) -> Iterator[int]:
    """How many of the expanded kinds belong to each parameter."""
    left = len(kinds) - sum(not str(kind).startswith("tensordesc") for kind in signature.values())
    described = sum(str(kind).startswith("tensordesc") for kind in signature.values())
    for kind in signature.values():
        yield left // described if str(kind).startswith("tensordesc") else _leaves(kind)


def _leaves(kind: TritonObject) -> int:
    if isinstance(kind, tuple):
        return sum(map(_leaves, kind))
    return 0 if kind == "constexpr" else 1


def _flat(arguments: Sequence[TritonObject], kinds: Sequence[TritonObject]) -> Iterator[TritonObject]:
    for argument, kind in zip(arguments, kinds, strict=True):
        if isinstance(kind, tuple):
            yield from _flat(argument, kind)
        elif kind != "constexpr":
            yield argument


def _argument(value: TritonObject, placed: PlacedStorages) -> TritonObject:
    """A tensor as a pointer, None as a null pointer, a number as it is."""
    if value is None:
        return 0
    if not hasattr(value, "data_ptr"):
        return value
    is_table = str(getattr(value, "dtype", "")).endswith("int64") and not TensorStorage.of(value).nbytes % 8
    return PointerTable(value, placed) if is_table else StorageArgument(value, placed)


def _descriptor(argument: TritonObject, metadata: Mapping[str, TritonObject] | None, _: object) -> list[TritonObject]:
    """A tensor descriptor as a tensor map, its shape and strides; without metadata, as its parts."""
    if metadata is None:
        from triton.backends.driver import decompose_descriptor

        return list(decompose_descriptor(argument))
    if metadata.get("is_im2col") or metadata.get("fp4_padded"):
        raise InterpreterError("tensor descriptors of im2col and padded fp4 are not modelled")
    kind, item = metadata["elem_type"], int(metadata["elem_size"])
    name = MAP_TYPES[kind] if isinstance(kind, int) else str(kind)
    if getattr(argument, "round_f32_to_tf32", False):
        name = "tf32"
    storage = TensorStorage.of(argument.base)
    map_ = TensorMapArgument(
        storage.view(), name, tuple(reversed(argument.shape)), tuple(s * item for s in reversed(argument.strides[:-1])),
        tuple(reversed(metadata["block_size"])), SWIZZLES[metadata["swizzle"]], offset=storage.offset,
    )  # fmt: skip
    return [map_, *argument.shape, *argument.strides]


class LoadedPtx:
    """A kernel's PTX, read when it first runs; `edit` may change it."""

    def __init__(self, text: str, name: str, options: TargetOptions) -> None:
        self.text, self.name, self.options = text, name, options
        self._module: PtxModule | None = None

    def module(self) -> PtxModule:
        """The text as values."""
        if self.options.edit is not None:
            return read_ptx(self.options.edit(self.text), self.name)
        if self._module is None:
            self._module = read_ptx(self.text, self.name)
        return self._module


class EmulatorUtilities:
    """`driver.utils`: what compiled kernels and tutorials ask for."""

    def __init__(self, options: TargetOptions) -> None:
        self.options = options

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[LoadedPtx, LoadedPtx, int, int, int]:
        """The module, the function, its registers, spills, and most threads."""
        loaded = LoadedPtx(kernel.decode(), name, self.options)
        return loaded, loaded, 32, 0, 1024

    def unload_module(self, module: LoadedPtx) -> None:
        """Nothing is loaded."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Of a device with few multiprocessors, so that persistent kernels have few programs."""
        target = TARGETS.get(f"sm_{self.options.arch}")
        return {
            "max_shared_mem": target.shared_per_block if target else LARGEST_SHARED_BYTES, "max_num_regs": 65536,
            "multiprocessor_count": 4, "warpSize": 32, "sm_clock_rate": 1_000_000, "mem_clock_rate": 1_000_000,
            "mem_bus_width": 4096,
        }  # fmt: skip


def _emulator_driver(options: TargetOptions) -> TritonObject:
    """An instance of a class that derives from Triton's own, which is imported late."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class EmulatorDriver(DriverBase):
        launcher_cls = EmulatorLauncher

        def __init__(self) -> None:
            self.options, self.utils = options, EmulatorUtilities(options)
            self.get_device_capability = lambda device=0: divmod(options.arch, 10)

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> TritonObject:
            return GPUTarget("cuda", options.arch, 32)

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            return None

        def get_current_stream(self, device: int) -> int:
            return 0

        def get_active_torch_device(self) -> TritonObject:
            import torch

            return torch.device("cpu")

        def get_device_interface(self) -> TritonObject:
            from lego_mlir.sanitize.cuda_stand_in import IdleObject

            return types.SimpleNamespace(synchronize=lambda: None, is_available=lambda: True, Event=IdleObject)

        def get_benchmarker(self) -> Callable[..., list[float]]:
            return self._benchmark

        def _benchmark(
            self, call: Callable[[], object], *_: object, quantiles: Sequence[float] | None = None, **__: object
        ) -> list[float]:
            """Each configuration runs once, or not at all, and takes the same time, so that the first wins."""
            if options.autotune == "all":
                call()
            return [1.0] * len(quantiles or (1,))

        def get_empty_cache_for_benchmark(self) -> Array:
            return np.zeros(1, np.uint8)

        def clear_cache(self, cache: Array) -> None:
            return None

    return EmulatorDriver()


def _stages(
    backend: object = None,
    stages: dict[str, TritonObject] | None = None,
    options: object = None,
    language: object = None,
    capability: object = None,
) -> tuple[str, str] | None:
    """Without arguments, the key of Triton's cache; with them, PTX takes the place of the cubin."""
    if stages is None:
        return "lego-sanitize", "lego-sanitize"
    stages["cubin"] = lambda source, metadata: source.encode()
    return None


def install(arch: int = 90, *, autotune: str = "all", edit: Callable[[str], str] | None = None) -> TritonObject:
    """Make the emulator Triton's active driver, and return it. Raises DependencyError for a version not supported."""
    try:
        import triton
        from triton import knobs
    except ImportError as error:
        raise DependencyError("Triton is not installed: pip install triton") from error
    release = ".".join(triton.__version__.split(".")[:2])
    if release not in SUPPORTED:
        raise DependencyError(
            f"Triton {triton.__version__}: its driver interface changes between versions, and this package knows "
            f"{', '.join(SUPPORTED)}; install one of them"
        )
    driver = _emulator_driver(TargetOptions(arch, autotune, edit))
    triton.runtime.driver.set_active(driver)
    triton.testing.do_bench = _benchmarked(driver)
    knobs.runtime.add_stages_inspection_hook = _stages
    _mark_empty_tensors()
    return driver


def _benchmarked(driver: TritonObject) -> Callable[..., float | list[float]]:
    """`triton.testing.do_bench`, as tuners of projects call it: one time, or one for each quantile."""

    def do_bench(call: Callable[[], object], *_: object, **options: TritonObject) -> float | list[float]:
        times: list[float] = driver.get_benchmarker()(call, quantiles=options.get("quantiles"))
        return times if options.get("quantiles") else times[0]

    return do_bench


def _mark_empty_tensors() -> None:
    """Fill what `torch.empty` and the like make with the mark of memory that nobody wrote."""
    try:
        import torch
    except ImportError:  # kernels may run on other arrays
        return

    def marking(make: Callable[..., TritonObject]) -> Callable[..., TritonObject]:
        def call(*values: TritonObject, **options: TritonObject) -> TritonObject:
            tensor = make(*values, **options)
            if _is_dense(tensor) and on_cpu(tensor):
                mark_unwritten(tensor)
            return tensor

        call.__wrapped__ = make  # type: ignore[attr-defined]
        return call

    for owner, name in [(torch, name) for name in MADE_EMPTY] + [(torch.Tensor, "new_empty")]:
        make = getattr(owner, name)
        if not hasattr(make, "__wrapped__"):
            setattr(owner, name, marking(make))


class ArrayTensor:
    """A NumPy array as an argument of a Triton kernel: `kernel[grid](ArrayTensor(x), ..)` writes to x."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.dtype = f"numpy.{array.dtype.name}"
        self.shape, self.nbytes = array.shape, array.nbytes
        self.device = types.SimpleNamespace(type="cpu")

    def data_ptr(self) -> int:
        """Where the array begins."""
        return int(self.array.ctypes.data)

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.array.itemsize

    def stride(self, dimension: int | None = None) -> TritonObject:
        """Strides in elements."""
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        return strides if dimension is None else strides[dimension]
