"""Facts about an array that a launch needs, whichever library it comes from.

    ArrayFacts      element type, shape, strides in elements, address, device, and whether it may be written
    ArrayLibrary    how one library's arrays are read: `pointer`, `facts`, `stream` (the current one of a device) and
                    `results` (of the same library)
    key_of          what a launch depends on but for addresses and numbers, hashable and cheap

NumPy, PyTorch, CuPy and JAX are read through their own attributes, which is cheaper than an exchange protocol: a
tensor's `data_ptr()` takes a tenth of a microsecond, its `__dlpack__()` two. Any other array comes through
`__cuda_array_interface__` or DLPack. No library is imported here; one whose arrays arrive has been.

>>> import numpy
>>> given = numpy.zeros((2, 3), numpy.float32).T
>>> facts = library_of(given).facts(given)
>>> facts.dtype, facts.shape, facts.strides, facts.device, facts.writable
('float32', (3, 2), (1, 3), ('cpu', 0), True)

Sources: NumPy, "The array interface protocol"; Numba, "CUDA Array Interface (Version 3)"; DLPack 1.1, `dlpack.h`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

from lego_mlir.aliases import AnyArray, Dtype
from lego_mlir.errors import UsageError

Device = tuple[str, int]
CPU: Final[Device] = ("cpu", 0)
DEFAULT_STREAM: Final = 0  # the legacy default stream; CUDA driver API, "Stream synchronization behavior"


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array. `dtype` is NumPy's name of the element type, or that of ml_dtypes; `strides` count elements."""

    library: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    device: Device
    itemsize: int
    writable: bool = True
    needs_gradient: bool = False

    @property
    def key(self) -> Hashable:
        """All but the address."""
        return self.library, self.dtype, self.shape, self.strides, self.device, self.writable, self.needs_gradient

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes from the first element to the end of the last one; strides are not negative."""
        if not self.size:
            return 0
        return (1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))) * self.itemsize


MakeArray = Callable[[], "AnyArray"]


@dataclass(frozen=True, slots=True)
class ArrayLibrary:
    """How the arrays of one library are read.

    `key` is the Python text of what `facts` depend on but for the address, with {0} for the array; `key_of` joins it.
    `results(dtype, shape, strides, device)` is a function that makes a result; `finish` turns one, once written, into
    what the caller gets.
    `guard(arrays)` is one check of several arrays that implies equal keys, where the library has a fast one. A launch
    that `waits` has ended when the call returns: no stream of the library orders what follows.
    """

    name: str
    key: str
    pointer: Callable[[AnyArray], int]
    facts: Callable[[AnyArray], ArrayFacts]
    stream: Callable[[int], int]
    results: Callable[[str, Sequence[int], Sequence[int], Device], MakeArray] | None = None
    finish: Callable[[AnyArray, Device], AnyArray] | None = None
    waits: bool = False
    guard: Callable[[Sequence[AnyArray]], Callable[..., bool] | None] | None = None


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major array.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def spanned(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The elements of memory from the first to the last of an array."""
    return 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _no_stream(device: int) -> int:
    return DEFAULT_STREAM


# NumPy


def _numpy_name(dtype: Dtype) -> str:
    """The name of an element type; with its mark if the byte order is foreign, so that no kernel type matches."""
    return str(dtype.name if dtype.isnative else dtype.str)


def _numpy_facts(array: AnyArray) -> ArrayFacts:
    return ArrayFacts(
        "numpy", _numpy_name(array.dtype), array.shape, _in_elements(array),
        array.__array_interface__["data"][0], CPU, array.itemsize, array.flags.writeable,
    )  # fmt: skip


def _in_elements(array: AnyArray) -> tuple[int, ...]:
    """Strides in elements. Raises UsageError where they are no multiple of one, which no layout has."""
    size, strides = array.itemsize, array.strides
    if any(n > 1 and step % size for n, step in zip(array.shape, strides, strict=True)):
        raise UsageError(
            f"an array of {array.dtype} with strides of {strides} bytes, not all multiples of its element's {size}, "
            "as one field of records has; pass a copy"
        )
    return tuple(step // size for step in strides)


def _numpy_results(dtype: str, shape: Sequence[int], strides: Sequence[int], device: Device) -> MakeArray:
    import numpy

    stored = numpy_dtype(dtype)
    if tuple(strides) == dense_strides(shape):
        return partial(numpy.empty, shape, stored)
    steps, elements = [step * stored.itemsize for step in strides], spanned(shape, strides)
    return lambda: numpy.lib.stride_tricks.as_strided(numpy.empty(elements, stored), shape, steps)


def numpy_dtype(name: str) -> Dtype:
    """NumPy's element type of that name, from ml_dtypes where NumPy has none."""
    import numpy

    if hasattr(numpy, name):
        return numpy.dtype(getattr(numpy, name))
    import ml_dtypes

    return numpy.dtype(getattr(ml_dtypes, name))


def _numpy() -> ArrayLibrary:
    return ArrayLibrary(
        "numpy",
        key="{0}.dtype, {0}.shape, {0}.strides, {0}.flags.writeable",
        pointer=lambda a: int(a.__array_interface__["data"][0]),
        facts=_numpy_facts,
        stream=_no_stream,
        results=_numpy_results,
    )


def _numpy_masked() -> ArrayLibrary:
    def facts(array: AnyArray) -> ArrayFacts:
        raise UsageError("a masked array has no elements where its mask is set; pass array.filled(value)")

    return ArrayLibrary("numpy", "facts({0}).key", lambda a: facts(a).pointer, facts, _no_stream)


# PyTorch


def _torch() -> ArrayLibrary:
    torch = sys.modules["torch"]

    def facts(tensor: AnyArray) -> ArrayFacts:
        if tensor.layout is not torch.strided or tensor.is_neg() or tensor.is_conj():
            raise UsageError(
                f"a torch.Tensor of layout {tensor.layout} has no memory in the order of its elements; pass "
                "tensor.to_dense(), or tensor.resolve_neg()"
            )
        if tensor.device.type not in ("cpu", "cuda"):
            raise UsageError(f"a torch.Tensor is on the device {tensor.device}; move it to the CPU or a CUDA device")
        try:
            address = tensor.data_ptr()
        except RuntimeError as error:
            raise UsageError(
                "a torch.Tensor inside a transform of torch.func, such as vmap or grad, or a fake one, has no memory; "
                "call this outside of the transform"
            ) from error
        return ArrayFacts(
            "torch", str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape), tuple(tensor.stride()),
            address, (tensor.device.type, tensor.device.index or 0), tensor.element_size(), True,
            tensor.requires_grad,
        )  # fmt: skip

    def results(dtype: str, shape: Sequence[int], strides: Sequence[int], device: Device) -> MakeArray:
        where = torch.device("cpu" if device[0] == "cpu" else f"cuda:{device[1]}")
        return partial(torch.empty_strided, tuple(shape), tuple(strides), dtype=getattr(torch, dtype), device=where)

    pointer = torch.Tensor.data_ptr
    stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch.cuda.current_stream() wraps
    return ArrayLibrary(
        "torch",
        key="{0}.dtype, {0}.shape, {0}.is_contiguous() or {0}.stride(), {0}.device, {0}.requires_grad, {0}.is_neg()",
        pointer=pointer,
        facts=facts,
        stream=stream or _no_stream,
        results=results,
        guard=_tensor_guard,
    )


def _tensor_guard(tensors: Sequence[AnyArray]) -> Callable[..., bool] | None:
    """PyTorch's own check of compiled graphs: types, devices, sizes, strides and gradients in a quarter microsecond.

    None where this version of PyTorch does not have it, or for one tensor given twice.
    """
    try:
        from torch._C._dynamo.guards import TensorGuards

        sizes: list[Any] = [list(t.shape) for t in tensors]
        strides: list[Any] = [list(t.stride()) for t in tensors]
        check: Callable[..., bool] = TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        return check if check(*tensors) else None
    except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):
        return None


# CuPy


def _cupy() -> ArrayLibrary:
    cupy = sys.modules["cupy"]

    def facts(array: AnyArray) -> ArrayFacts:
        return ArrayFacts(
            "cupy", _numpy_name(array.dtype), tuple(array.shape), _in_elements(array), array.data.ptr,
            ("cuda", array.device.id), array.itemsize,
        )  # fmt: skip

    def results(dtype: str, shape: Sequence[int], strides: Sequence[int], device: Device) -> MakeArray:
        stored = "uint16" if dtype == "bfloat16" else "uint8" if dtype.startswith("float8") else dtype  # their words
        dense, elements = tuple(strides) == dense_strides(shape), spanned(shape, strides)

        def make() -> AnyArray:
            with cupy.cuda.Device(device[1]):
                if dense:
                    return cupy.empty(shape, stored)
                memory = cupy.empty(elements, stored)
                return cupy.lib.stride_tricks.as_strided(memory, shape, [step * memory.itemsize for step in strides])

        return make

    return ArrayLibrary(
        "cupy",
        key="{0}.dtype, {0}.shape, {0}.strides, {0}.device.id",
        pointer=lambda a: int(a.data.ptr),
        facts=facts,
        stream=lambda device: int(cupy.cuda.get_current_stream().ptr),
        results=results,
    )


# JAX


def _jax() -> ArrayLibrary:
    def facts(array: AnyArray) -> ArrayFacts:
        devices = list(array.devices())
        if len(devices) != 1:
            raise UsageError(f"a JAX array is sharded over {len(devices)} devices; pass the parts of one device")
        device = CPU if devices[0].platform == "cpu" else ("cuda", int(devices[0].local_hardware_id))
        return ArrayFacts(
            "jax", str(array.dtype.name), tuple(array.shape), dense_strides(array.shape),
            array.unsafe_buffer_pointer(), device, array.dtype.itemsize, writable=False,
        )  # fmt: skip

    def results(dtype: str, shape: Sequence[int], strides: Sequence[int], device: Device) -> MakeArray:
        if device == CPU:
            return _numpy_results(dtype, shape, strides, device)
        if tuple(strides) != dense_strides(shape):
            raise UsageError(f"JAX arrays are row-major, and a result of strides {tuple(strides)} is not")
        jax = sys.modules["jax"]
        place = next(d for d in jax.local_devices() if d.local_hardware_id == device[1])
        return lambda: jax.block_until_ready(jax.numpy.empty(shape, dtype, device=place))

    def finish(result: AnyArray, device: Device) -> AnyArray:
        if device != CPU:
            return result
        made = sys.modules["jax"].numpy.asarray(result)
        if made.dtype != result.dtype:
            raise UsageError(
                f"JAX turns a result of {result.dtype} into {made.dtype}; set jax.config.update('jax_enable_x64', True)"
            )
        return made

    return ArrayLibrary(
        "jax",
        key="{0}.dtype, {0}.shape, *{0}.devices()",
        pointer=lambda a: int(a.block_until_ready().unsafe_buffer_pointer()),
        facts=facts,
        stream=_no_stream,
        results=results,
        finish=finish,
        waits=True,
    )


def _jax_tracer() -> ArrayLibrary:
    def facts(array: AnyArray) -> ArrayFacts:
        raise UsageError("a traced JAX value has no memory: call the kernel outside jax.jit")

    return ArrayLibrary("jax", "facts({0}).key", lambda a: facts(a).pointer, facts, _no_stream)


# Anything else


def _by_interface() -> ArrayLibrary:
    def facts(array: AnyArray) -> ArrayFacts:
        from lego_mlir.runtime import dlpack

        return dlpack.facts(array)

    return ArrayLibrary("other", "facts({0}).key", lambda a: facts(a).pointer, facts, _no_stream)


_MAKERS: Final = {
    "numpy": _numpy,
    "masked": _numpy_masked,
    "torch": _torch,
    "cupy": _cupy,
    "jax": _jax,
    "jax tracer": _jax_tracer,
}
_CLASSES: Final = {"numpy": "ndarray", "torch": "Tensor", "cupy": "ndarray"}
_libraries: dict[str, ArrayLibrary] = {}
_by_type: dict[type, ArrayLibrary | None] = {}


def library_of(value: object) -> ArrayLibrary | None:
    """How to read this value's type; None for a value that is not an array."""
    kind = type(value)
    try:
        return _by_type[kind]
    except KeyError:
        found = _by_type[kind] = _find(kind)
        return found


def _find(kind: type) -> ArrayLibrary | None:
    for base in kind.__mro__:
        name = base.__module__.partition(".")[0]
        if name == "numpy" and base.__name__ == "MaskedArray":
            return _library("masked")
        if name in _CLASSES and base.__name__ == _CLASSES[name]:
            return _library(name)
        if name in ("jax", "jaxlib") and "Tracer" in base.__name__:
            return _library("jax tracer")
        if name in ("jax", "jaxlib") and hasattr(kind, "unsafe_buffer_pointer"):
            return _library("jax")
    if hasattr(kind, "__cuda_array_interface__") or hasattr(kind, "__dlpack__"):
        return None if kind.__module__ == "numpy" else _library("other")  # a NumPy scalar is a number
    return None


def _library(name: str) -> ArrayLibrary:
    if name not in _libraries:
        _libraries[name] = _MAKERS.get(name, _by_interface)()
    return _libraries[name]


Keyer = Callable[..., Hashable]
_keyers: dict[tuple[type, ...], Keyer] = {}


def key_of(values: Sequence[object]) -> Hashable:
    """What a launch on these values depends on, but for the addresses of arrays and the numbers.

    One function for each combination of types reads all of it: a call for each array would take as long again.
    """
    kinds = tuple(map(type, values))
    try:
        keyer = _keyers[kinds]
    except KeyError:
        keyer = _keyers[kinds] = _keyer(values)
    try:
        return keyer(*values)
    except RuntimeError:  # of PyTorch, for tensors without strides, whose facts name the reason
        for value in values:
            if (library := library_of(value)) is not None:
                library.facts(value)
        raise


def likeness(values: Sequence[object]) -> Callable[..., bool]:
    """A function that tells whether other values have the key of these: a comparison for each part, and no key.

    >>> import numpy
    >>> same = likeness([numpy.zeros((2, 3)), 1.0])
    >>> same(numpy.ones((2, 3)), 2.0), same(numpy.ones((3, 2)), 2.0), same(numpy.ones((2, 3)), 1)
    (True, False, False)
    """
    conditions: list[str] = []
    context: dict[str, object] = {}
    guarded = _guarded(values)
    if guarded is not None:
        guard, numbers = guarded
        context["guard"] = guard
        conditions.append(f"guard({', '.join(f'a{k}' for k in numbers)})")
    for k, value in enumerate(values):
        library, name = library_of(value), f"a{k}"
        if guarded is not None and k in guarded[1]:
            continue
        parts = [f"type({name})"]
        if library is not None:
            context[f"facts_{name}"] = library.facts
            parts += library.key.format(name).replace("facts(", f"facts_{name}(").split(", ")
        for i, part in enumerate(parts):
            context[f"{name}_{i}"] = eval(_as_one(part), {**context, name: value})
            conditions.append(f"({_as_one(part)}) {'is' if i == 0 else '=='} {name}_{i}")
    names = ", ".join(f"a{k}" for k in range(len(values)))
    same: Callable[..., bool] = eval(f"lambda {names}: {' and '.join(conditions) or 'True'}", context)
    return same


def _guarded(values: Sequence[object]) -> tuple[Callable[..., bool], list[int]] | None:
    """One check of all arrays by their library, and their numbers; None if it has none, or they are of several."""
    numbers = [k for k, value in enumerate(values) if library_of(value) is not None]
    libraries = {id(library_of(values[k])) for k in numbers}
    library = library_of(values[numbers[0]]) if len(libraries) == 1 else None
    if library is None or library.guard is None:
        return None
    guard = library.guard([values[k] for k in numbers])
    return None if guard is None else (guard, numbers)


def _as_one(part: str) -> str:
    """A part of a key as one value: `*devices` is a tuple."""
    return f"({part},)" if part.startswith("*") else part


def _keyer(values: Sequence[object]) -> Keyer:
    names = [f"a{i}" for i in range(len(values))]
    parts: list[str] = ["kinds"]
    context: dict[str, object] = {"kinds": tuple(map(type, values))}
    for name, value in zip(names, values, strict=True):
        library = library_of(value)
        if library is not None:
            context[f"facts_{name}"] = library.facts
            parts.append(library.key.format(name).replace("facts(", f"facts_{name}("))
    return eval(f"lambda {', '.join(names)}: ({', '.join(parts)},)", context)
