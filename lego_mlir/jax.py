"""Kernels as operators of JAX, inside `jax.jit` too: custom calls through XLA's foreign function interface.

    axpy = lego.jax.op(kernel)
    z = jax.jit(lambda x, y: axpy(x, y, 2.0))(x, y)

The operator takes the kernel's tensors and numbers in the order of the signature, and its sizes by keyword where the
shapes do not give them. JAX arrays never change: every tensor that the kernel writes is returned, one or a tuple; one
that it reads as well begins as a copy of its argument, or as the argument itself where that is donated. Numbers are
Python's, known when JAX traces.

The kernel runs on the device of the computation, on XLA's stream. Types, shapes and sizes are checked when JAX traces.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lego_mlir.aliases import Foreign, Given, Returned
from lego_mlir.errors import UsageError
from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import CPU, ArrayFacts, Device, dense_strides
from lego_mlir.runtime.binding import MISSING, Bound, is_result
from lego_mlir.runtime.manifest import KernelEntry
from lego_mlir.runtime.plans import HostBackend, number
from lego_mlir.runtime.xla_ffi import CustomCall, handler

__all__ = ["JaxOperator", "op"]

_numbers = itertools.count()
_kept: list[Any] = []  # XLA may call a handler as long as the process lives
_registering: Final = threading.Lock()


def __dir__() -> list[str]:
    return __all__


Backward = Callable[..., "Given"]


def op(kernel: Given, backward: Backward | None = None) -> Callable[..., Returned]:
    """A kernel, or one through a transform script, as a function on JAX arrays and traced values.

    `backward(gradients, inputs, results)` returns the gradients of the arguments, None for those without one; each of
    the three is a tuple. Without it a derivative is refused. `jax.vmap` runs the kernel once for each element of the
    mapped axis.
    Raises UsageError without JAX, for arguments that do not fit, and for layouts that are not row-major: pass their
    elements in memory order as one dimension.
    """
    _jax()
    calls = getattr(kernel, "calls", kernel)
    return JaxOperator(calls, backward)


def _jax() -> Foreign:
    try:
        import jax
        import jax.ffi
    except ImportError:
        raise UsageError("lego.jax needs JAX: pip install jax") from None
    return jax


def _tuple(found: Given) -> tuple[Given, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def _cotangent(jax: Foreign, gradient: Given, array: Given) -> Given:
    """The gradient of an array, zeros for None; integers have none."""
    import numpy

    if not jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
        return numpy.zeros(array.shape, jax.dtypes.float0)
    return jax.numpy.zeros_like(array) if gradient is None else gradient


class JaxOperator:
    """One kernel as a JAX operator. A custom call is registered for each combination of shapes."""

    def __init__(self, calls: Given, backward: Backward | None = None) -> None:
        self.calls, self.backward = calls, backward
        self.entry: KernelEntry = calls.host_entry
        self._targets: dict[Bound, str] = {}

    def __call__(self, *given: Given, **named: Given) -> Returned:
        """The tensors that the kernel writes, for arrays or traced values."""
        jax, entry = _jax(), self.entry
        values, sizes = binding.arrange(entry, given, named)
        facts = [
            _facts(entry, a.name, v) if a.kind == "tensor" and v is not MISSING else None
            for a, v in zip(entry.arguments, values, strict=True)
        ]
        bound = binding.bind(entry, facts, sizes, next((f for f in facts if f is not None), None))
        pairs = list(zip(entry.arguments, values, strict=True))
        inputs = [i for i, (a, v) in enumerate(pairs) if a.kind == "tensor" and (a.read or v is not MISSING)]
        inputs = [i for i in inputs if not is_result(entry.arguments[i])]
        written = [i for i, a in enumerate(entry.arguments) if a.kind == "tensor" and a.written]
        shapes = {r.position: (r.shape, r.strides, r.dtype) for r in bound.results}
        for i, found in enumerate(facts):
            if found is not None:
                shapes[i] = (found.shape, found.strides, found.dtype)
        for i in written:
            if shapes[i][1] != dense_strides(shapes[i][0]):
                raise UsageError(
                    f"kernel {entry.entry}: {entry.arguments[i].name} has the layout {entry.arguments[i].layout}, and "
                    "JAX's arrays are row-major; use a row-major layout for it"
                )
        results = [jax.ShapeDtypeStruct(shapes[i][0], shapes[i][2]) for i in written]
        call = jax.ffi.ffi_call(
            self._target(bound, inputs, written),
            results if len(results) != 1 else results[0],
            vmap_method="sequential",
            input_output_aliases={inputs.index(i): written.index(i) for i in written if i in inputs},
        )
        numbers = self._attributes(values)

        def run(*arrays: Given) -> Returned:
            returned: Returned = call(*arrays, **numbers)
            return tuple(returned) if isinstance(returned, list) else returned

        arrays = [values[i] for i in inputs]
        if not any(isinstance(array, jax.core.Tracer) for array in arrays):
            return run(*arrays)
        return self._differentiable(run, values, inputs)(*arrays)

    def _differentiable(
        self, run: Callable[..., Returned], values: Sequence[Given], inputs: Sequence[int]
    ) -> Callable[..., Returned]:
        """A run with the operator's derivative, of the arrays at the positions `inputs`. UsageError without one."""
        jax, entry, backward = _jax(), self.entry, self.backward
        places = [i for i, argument in enumerate(entry.arguments) if not is_result(argument)]

        def forward(*arrays: Given) -> tuple[Returned, Given]:
            if backward is None:
                raise UsageError(
                    f"kernel {entry.entry} has no derivative; give lego.jax.op a backward function, or stop the "
                    "gradient: jax.lax.stop_gradient(array)"
                )
            results = run(*arrays)
            return results, (arrays, results)

        def derive(saved: Given, gradients: Given) -> tuple[Given, ...]:
            arrays, results = saved
            known = dict(zip(inputs, arrays, strict=True))
            given = tuple(known.get(i, values[i]) for i in places)
            assert backward is not None  # forward refuses otherwise
            found = backward(_tuple(gradients), given, _tuple(results))
            answers = _tuple(found)
            if len(answers) != len(places):
                raise UsageError(
                    f"the backward function of {entry.entry} must return {len(places)} gradients, one for each of "
                    f"{', '.join(entry.arguments[i].name for i in places)} (None where there is none); it returned "
                    f"{len(answers)}"
                )
            by_place = dict(zip(places, answers, strict=True))
            return tuple(_cotangent(jax, by_place[i], known[i]) for i in inputs)

        found: Foreign = jax.custom_vjp(run)
        found.defvjp(forward, derive)
        return found

    def _attributes(self, values: Sequence[Given]) -> dict[str, Given]:
        """The numbers of a call as attributes. Raises UsageError for a value that is not a number of its type."""
        import numpy

        found: dict[str, Any] = {}
        for i, (argument, value) in enumerate(zip(self.entry.arguments, values, strict=True)):
            if argument.kind != "tensor":
                number(self.entry, argument, value)
                found[f"a{i}"] = numpy.float64(value) if argument.dtype[0] in "fb" else numpy.int64(value)
        return found

    def _target(self, bound: Bound, inputs: Sequence[int], written: Sequence[int]) -> str:
        """The custom call for these shapes, registered at its first use."""
        jax = _jax()
        with _registering:
            if bound not in self._targets:
                name = f"lego_{self.entry.entry}_{next(_numbers)}"
                for platform in ("cpu", "CUDA"):
                    run = handler(self._execution(bound, inputs, written, platform))
                    _kept.append(run)
                    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(run), platform=platform)
                self._targets[bound] = name
            return self._targets[bound]

    def _execution(
        self, bound: Bound, inputs: Sequence[int], written: Sequence[int], platform: str
    ) -> Callable[[CustomCall], None]:
        """One execution of the kernel, as XLA calls it."""
        entry = self.entry

        def execute(call: CustomCall) -> None:
            if bound.is_empty:
                return
            addresses = dict(zip(inputs, call.arguments, strict=True)) | dict(zip(written, call.results, strict=True))
            binding.require_addresses(entry, bound, addresses)
            numbers = {i: call.numbers[f"a{i}"] for i, a in enumerate(entry.arguments) if a.kind != "tensor"}
            device: Device = CPU if platform == "cpu" else ("cuda", call.device())
            backend = self.calls.backend(device)
            if isinstance(backend, HostBackend):
                values = [
                    addresses[i] if i in addresses else number(entry, a, numbers[i])
                    for i, a in enumerate(entry.arguments)
                ]
                backend.run(bound, values)
            else:
                _launch(backend, bound, addresses, numbers, call.stream())

        return execute


def _launch(
    backend: Foreign, bound: Bound, addresses: Mapping[int, int], numbers: Mapping[int, int | float], stream: int
) -> None:
    """Launch on a CUDA device, on XLA's stream."""
    from lego_mlir.runtime.launches import frame_of, write_number

    frame = frame_of(backend, bound)
    for i, address in addresses.items():
        frame.slots[i] = address
    for i, value in numbers.items():
        write_number(backend.entry, backend.entry.arguments[i], value, frame, i)
    frame.configuration.stream = stream
    failed = frame.launch()
    if failed:
        backend.driver.launch_failed(frame, backend.function, failed)


def _facts(entry: KernelEntry, name: str, value: Given) -> ArrayFacts:
    """The type and shape of an array or a traced value."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise UsageError(f"kernel {entry.entry}: {name} is a tensor; pass a JAX array, not {value!r}")
    shape, dtype = tuple(value.shape), value.dtype
    return ArrayFacts("jax", str(dtype.name), shape, dense_strides(shape), 0, CPU, dtype.itemsize)
