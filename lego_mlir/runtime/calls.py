"""`k(a, b, M=..)`: a kernel called on arrays.

    arrays ──key──► plan?  ──yes──────────────────────────────► addresses checked, launched
                      └─no──► facts ► backend of their device ► bound and checked, kept as the plan of this key

A plan holds all that does not depend on addresses and numbers, so that a second call on arrays of the same types,
shapes and strides repeats none of it. A backend is the kernel compiled for one device: for the CPU through the JIT
(`cpu_kernels`), for a CUDA device as PTX (`driver`), or the interpreter for a checked call on the CPU.

Results may be left out of a call: they are allocated by the library of the first array, on its device. A call returns
every tensor that the kernel writes, in the order of the signature: one array, or a tuple.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Given, Returned
from lego_mlir.errors import UsageError
from lego_mlir.runtime import binding, first_calls, manifest
from lego_mlir.runtime.arrays import CPU, ArrayFacts, ArrayLibrary, Device, key_of, library_of
from lego_mlir.runtime.binding import MISSING, DenseShape
from lego_mlir.runtime.first_calls import KeptKernel
from lego_mlir.runtime.manifest import KernelEntry
from lego_mlir.runtime.plans import Backend, EmptyPlan, HostBackend, InterpreterBackend, Plan
from lego_mlir.store import Cache, default_folder

if TYPE_CHECKING:
    from lego_mlir.runtime.launches import CudaBackend
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import KernelProgram
    from lego_mlir.tracing.definition.specialised import SizeFacts

Parameters = Mapping[str, int | bool]
FRAGMENTS: Final = "ldmatrix_mma.mlir"  # distributes the tiles of lego.mma to lanes, whatever copies them
SPECIAL: Final = 16  # kernels for sizes with some facts, and for values of numbers; others run the kernel for all
_PLANS: Final = 1024  # of one kernel; a caller whose shapes change all the time starts over


def _untraced(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """The function where PyTorch's compiler does not follow it: after a broken graph it would trace every frame."""
    dynamo = sys.modules.get("torch._dynamo")
    return function if dynamo is None else dynamo.disable(function)


def _never(*given: Given) -> bool:
    return False


Latest = tuple[int, Callable[..., bool], "Plan | None"]
"""The previous plan: the number of values, whether others are like them, and the plan."""


class Calls:
    """The calls of one kernel. `backend_for(device, checked)` compiles it, once for each device."""

    def __init__(self, name: str, backend_for: Callable[[Device, bool], Backend]) -> None:
        self.name = name
        self._backend_for = backend_for
        self._backends: dict[tuple[Device, bool], Backend] = {}
        self._plans: dict[Hashable, Plan] = {}
        self._latest: Latest = (-1, _never, None)
        self._loading = threading.Lock()

    def __call__(self, *given: Given, **named: Given) -> Returned:
        """Run the kernel on arrays, on the current stream of their library."""
        plan = None if named else self._known(given)
        return _untraced(self.call)(given, named, None) if plan is None else plan(given, None)

    def _known(self, given: Sequence[Given]) -> Plan | None:
        """The plan for values like these, if there is one; most calls have arrays like those of the previous one."""
        count, alike, latest = self._latest
        if len(given) == count and alike(*given):
            return latest
        plan = self._plans.get(key_of(given))
        if plan is not None:
            self._latest = len(given), plan.alike(given), plan
        return plan

    def call(
        self, given: Sequence[Given], named: Mapping[str, Given], stream: int | None, check: bool = False
    ) -> Returned:
        """The same on a stream, or checked by the interpreter."""
        plan, values = self.plan(given, named, check)
        return plan(values, stream)

    def on(self, stream: Given) -> Callable[..., Returned]:
        """The kernel on a stream: `k.on(stream)(a, b)`, for a stream of PyTorch, CuPy or cuda.core, or its handle."""
        from lego_mlir.runtime.driver import stream_handle

        handle = stream_handle(stream)

        def launch(*given: Given, **named: Given) -> Returned:
            plan = None if named else self._known(given)
            return self.call(given, named, handle) if plan is None else plan(given, handle)

        return launch

    def prepare(self, *given: Given, **named: Given) -> Callable[..., Returned]:
        """Bind and check arrays once: a function that launches on them, or on others of the same types and shapes.

        It reads the addresses and the current stream of each call, and checks neither types nor shapes again.
        """
        plan, values = self.plan(given, named)
        return plan.prepared(values)

    def plan(self, given: Sequence[Given], named: Mapping[str, Given], check: bool = False) -> tuple[Plan, list[Given]]:
        """The plan for these arrays, and the values in the order of the parameters, without results left out."""
        if any(library_of(value) is not None for value in named.values()):
            return self._bind(given, named, check)
        key = (key_of(given), check, *sorted(named.items())) if named or check else key_of(given)
        known = self._plans.get(key)
        if known is not None and not any(a.name in named for a in known.entry.arguments):
            return known, list(given)
        plan, values = self._bind(given, named, check)
        if not any(argument.name in named for argument in plan.entry.arguments):
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan, values

    def plan_of_views(
        self, views: Sequence[Given], arrays: Sequence[Given], named: Mapping[str, Given],
        shapes: Sequence[DenseShape], check: bool = False,
    ) -> Plan:  # fmt: skip
        """A plan for `arrays`, which the kernel reads as `views` that begin at the same addresses.

        Its results are allocated in the given `shapes`. Gradients are up to the caller.
        """
        backend, bound, _, library = self._bound(views, named, check)
        return backend.plan(binding.with_results_of(bound, *shapes), arrays, library)

    def _bind(self, given: Sequence[Given], named: Mapping[str, Given], check: bool) -> tuple[Plan, list[Given]]:
        backend, bound, present, library = self._bound(given, named, check)
        if bound.is_empty:
            return EmptyPlan(backend.entry, bound, present, library), present
        return backend.plan(bound, present, library), present

    def _bound(
        self, given: Sequence[Given], named: Mapping[str, Given], check: bool
    ) -> tuple[Backend, binding.Bound, list[Given], ArrayLibrary | None]:
        """The backend of the arrays' device, the launch, the values that are there, and the library of results."""
        read = [(value, _facts(value)) for value in (*given, *named.values())]
        tensors = [(value, found) for value, found in read if found is not None]
        like, first = next((pair for pair in tensors if pair[1].shape), tensors[0] if tensors else (None, None))
        device = CPU if first is None else first.device
        if check and device != CPU:
            raise UsageError(
                f"kernel {self.name}: check=True runs the interpreter, on the CPU, and the arrays are on "
                f"{binding.device_name(device)}; pass NumPy arrays"
            )
        backend = self.backend(device, check)
        bound, values = _launch_of(backend.entry, given, named, first)
        library = _numpy_library() if first is None else library_of(like)
        return backend, bound, [value for value in values if value is not MISSING], library

    def backend(self, device: Device, checked: bool = False) -> Backend:
        """The kernel compiled for a device, at its first use."""
        found = self._backends.get((device, checked))
        if found is None:
            with self._loading:
                found = self._backends.get((device, checked))
                if found is None:
                    found = self._backends[device, checked] = self._backend_for(device, checked)
        return found


def _launch_of(
    entry: KernelEntry, given: Sequence[Given], named: Mapping[str, Given], like: ArrayFacts | None
) -> tuple[binding.Bound, list[Given]]:
    """The launch, and a value for every parameter, MISSING for results that were left out."""
    values, sizes = binding.arrange(entry, given, named)
    described = [
        _tensor_facts(entry, argument, value) if argument.kind == "tensor" else None
        for argument, value in zip(entry.arguments, values, strict=True)
    ]
    return binding.bind(entry, described, sizes, like), values


def _facts(value: Given) -> ArrayFacts | None:
    library = library_of(value)
    return None if library is None else library.facts(value)


def _numpy_library() -> ArrayLibrary | None:
    import numpy

    return library_of(numpy.empty(0))


def _tensor_facts(entry: KernelEntry, argument: manifest.Argument, value: Given) -> ArrayFacts | None:
    """The facts of a tensor argument, None for a result that was left out."""
    if value is MISSING:
        return None
    found = _facts(value)
    if found is None:
        shown = repr(value)
        given = shown if len(shown) < 60 else f"a {type(value).__module__}.{type(value).__qualname__}"
        raise UsageError(
            f"kernel {entry.entry}: {argument.name} is a tensor of {argument.dtype}; pass an array of NumPy, PyTorch, "
            f"CuPy or JAX, or one with DLPack, not {given}"
        )
    return found


class TracedKernelCalls(Calls):
    """The calls of a kernel object, compiled for each device at its first use there; `script` is for GPUs."""

    def __init__(self, kernel: Kernel, script: str | Path | None = None, parameters: Parameters | None = None) -> None:
        super().__init__(kernel.name, self._compiled)
        self.kernel, self.script, self.parameters = kernel, script, parameters
        self.special: dict[SizeFacts, TracedKernelCalls] = {}
        """The kernels for sizes with some facts, at most SPECIAL of them; others run this one."""

    def _bound(
        self, given: Sequence[Given], named: Mapping[str, Given], check: bool
    ) -> tuple[Backend, binding.Bound, list[Given], ArrayLibrary | None]:
        if self.kernel.specialise and not check:
            launch, _ = _launch_of(self.host_entry, given, named, None)
            sizes = {size.name: n for size, n in zip(self.host_entry.sizes, launch.sizes, strict=True)}
            special = None if launch.is_empty else self._special_for(sizes)
            if special is not None:
                kept = {size.name: sizes[size.name] for size in special.host_entry.sizes}
                arrays = {name: value for name, value in named.items() if name not in sizes}
                return special._bound(given, arrays | kept, check)
        return super()._bound(given, named, check)

    def _special_for(self, sizes: Mapping[str, int]) -> TracedKernelCalls | None:
        """The calls of the kernel for sizes like these; None for this kernel."""
        from lego_mlir.tracing.definition.specialised import SizeFacts, specialised

        named = self.kernel.specialise if isinstance(self.kernel.specialise, tuple) else ()
        facts = SizeFacts.of(self.kernel.sizes, sizes, named)
        if facts and facts not in self.special and len(self.special) < SPECIAL:
            self.special[facts] = TracedKernelCalls(specialised(self.kernel, facts), self.script, self.parameters)
        return self.special.get(facts)

    def transformed(self, script: str | Path, **parameters: int | bool) -> TracedKernelCalls:
        """The kernel through a transform script where it is compiled for a GPU."""
        return TracedKernelCalls(self.kernel, script, parameters)

    @cached_property
    def host_entry(self) -> KernelEntry:
        """The launch of the module as traced."""
        made = self._kept("module", self._described) if self.kernel.specialise else self._described()
        return made.entry

    def _described(self) -> KeptKernel:
        from lego_mlir.toolchain.manifest import describe
        from lego_mlir.transforms.kernel_facts import kernel_facts

        (facts,) = kernel_facts(self.kernel.mlir(), self.name)
        return KeptKernel(describe(facts, self.kernel), b"")

    @cached_property
    def digest(self) -> str:
        """What the kernel computes, as a hash: of its module and of the script that it goes through."""
        from lego_mlir.transforms import scripts

        script = [] if self.script is None else scripts.read(self.script).texts()
        described = repr((self.kernel.mlir(), script, sorted((self.parameters or {}).items())))
        return hashlib.sha256(described.encode()).hexdigest()

    def _compiled(self, device: Device, checked: bool) -> Backend:
        if checked:
            distinct = {p.name: p for p in self.kernel.params if p.distinct is not None}
            return InterpreterBackend(self.host_entry, self.kernel.mlir(), distinct)
        if device == CPU:
            from lego_mlir.runtime import cpu, cpu_kernels

            made = self._kept(f"cpu {cpu.features()}", self._host_code)
            return HostBackend(made.entry, cpu_kernels.loaded(made.entry, made.code))
        from lego_mlir.runtime.driver import driver

        capability = driver().capability(device[1])
        made = self._kept(capability, lambda: self.code_for(capability))
        return loaded(made.entry, made.code, device[1], f"kernel {self.name} for sm_{capability}")

    def _host_code(self) -> KeptKernel:
        """The kernel compiled for this machine's processor."""
        from lego_mlir.runtime.cpu_kernels import machine_code
        from lego_mlir.transforms.modules import ModuleError

        try:
            code, _ = machine_code(self.kernel.mlir(), Cache(default_folder()))
        except (UsageError, ModuleError) as error:
            raise UsageError(
                f"kernel {self.name}: {error}; run it in the interpreter, with check=True, or on CUDA arrays"
            ) from error
        return KeptKernel(self._described().described, code)

    def _kept(self, form: str, make: Callable[[], KeptKernel]) -> KeptKernel:
        from lego_mlir.runtime.kept_traces import of_kernels

        return of_kernels([self.kernel], form, make, self.script, self.parameters)

    def code_for(self, capability: str) -> KeptKernel:
        """The kernel compiled for devices of a compute capability: traced, and without a look at what is on disk."""
        from lego_mlir.hardware.targets import TARGETS

        script = self.script
        specific = f"sm_{capability}a"  # code for exactly this architecture, which warpgroups' products are
        if self.kernel.trace().products and specific in TARGETS and TARGETS[specific].has_warpgroup_products:
            target = specific
        else:
            target = target_for(capability)
        if script is None:
            script = script_for(self.kernel)
        return first_calls.of_compilation(self.kernel.compile(target, transform=script, parameters=self.parameters))


def script_for(kernel: Kernel) -> str | None:
    """The script that a kernel is compiled through for GPUs, None without tiles of `lego.mma` in memory."""
    return FRAGMENTS if kernel.trace().tile_rows() else None


class BuiltCalls(Calls):
    """The calls of a shipped kernel by all that it is built for; it is built where no process has compiled it yet.

    `built_for` has the same `repr` in every process.
    """

    def __init__(self, built_for: tuple[object, ...], build: Callable[[], Kernel]) -> None:
        super().__init__(str(built_for[0]), self._compiled)
        self.built_for, self._build = built_for, build

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel object."""
        return self._build()

    def code_for(self, capability: str) -> KeptKernel:
        """The kernel compiled for devices of a compute capability, from the disk or now."""

        def code() -> KeptKernel:
            found: KeptKernel = self.kernel.calls.code_for(capability)
            return found

        return first_calls.kernel_of(self.call_of(capability), code)

    def call_of(self, capability: str) -> tuple[object, ...]:
        """What the kernel is kept by on disk."""
        return "built", self.built_for, capability

    def _compiled(self, device: Device, checked: bool) -> Backend:
        if device == CPU or checked:
            found: Backend = self.kernel.calls.backend(device, checked)
            return found
        from lego_mlir.runtime.driver import driver

        made = self.code_for(driver().capability(device[1]))
        return loaded(made.entry, made.code, device[1], self.name)


def loaded(entry: KernelEntry, code: bytes, device: int, origin: str) -> CudaBackend:
    """A kernel in PTX or a cubin, loaded onto a CUDA device."""
    from lego_mlir.runtime.driver import driver
    from lego_mlir.runtime.launches import CudaBackend

    function = driver().load(code, entry.entry, device, entry.dynamic_shared_bytes, origin)
    return CudaBackend(entry, driver(), function)


def target_for(capability: str) -> str:
    """The target to compile for on a device of this compute capability: its own, or the newest one before it."""
    from lego_mlir.hardware.targets import TARGETS

    known = sorted(int(name.removeprefix("sm_")) for name in TARGETS if name.removeprefix("sm_").isdigit())
    usable = [n for n in known if n <= int(capability)]
    if not usable:
        raise UsageError(
            f"the device has compute capability {capability}, and kernels are compiled for {known[0]} and later"
        )
    return f"sm_{usable[-1]}"


def calls_of(kernel: Kernel | KernelProgram) -> Calls:
    """How a kernel or program is called on arrays; `Kernel.__call__` and its companions use it."""
    from lego_mlir.tracing.definition.fixed_arguments import optional_names, specialised_numbers
    from lego_mlir.tracing.definition.kernel import Kernel

    if not isinstance(kernel, Kernel):
        from lego_mlir.runtime.program_calls import ProgramCalls

        return ProgramCalls(kernel)
    if optional_names(kernel) or specialised_numbers(kernel):
        from lego_mlir.runtime.routed_calls import RoutedCalls

        return RoutedCalls(kernel)
    return TracedKernelCalls(kernel)
