"""The facts of an array that is known by protocol only: `__cuda_array_interface__`, otherwise DLPack.

A DLPack capsule holds a C structure, which is read here and left to its owner: the capsule is dropped, the array keeps
its memory.

    DLTensor { void *data; {int32 type, id} device; int32 ndim; {uint8 code, bits; uint16 lanes} dtype;
               int64 *shape; int64 *strides; uint64 byte_offset }

>>> import numpy
>>> by_capsule(numpy.ones((2, 3), numpy.int16)).strides
(3, 1)

DLPack 1.1, `dlpack.h`; Numba, "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from lego_mlir.aliases import DeviceArray
from lego_mlir.errors import UsageError
from lego_mlir.runtime.arrays import CPU, ArrayFacts, Device, dense_strides

_HOST: Final = (1, 3)  # kDLCPU, kDLCUDAHost
_CUDA: Final = (2, 13)  # kDLCUDA, kDLCUDAManaged
_READ_ONLY: Final = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_NEWEST: Final = (1, 1)
_SYNCHRONISED_WITH_DEFAULT: Final = 1  # the legacy default stream, as `__dlpack__(stream=)` spells it
_PREFIXES: Final = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_TYPES: Final = {
    (4, 16): "bfloat16", (6, 8): "bool", (8, 8): "float8_e4m3", (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2", (13, 8): "float8_e5m2fnuz",
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


def facts(array: DeviceArray) -> ArrayFacts:
    """The facts of an array. Raises UsageError where neither protocol gives them."""
    interface = getattr(array, "__cuda_array_interface__", None)
    return by_capsule(array) if interface is None else _by_interface(array, interface)


def _by_interface(array: DeviceArray, interface: dict[str, Any]) -> ArrayFacts:
    import numpy

    dtype = numpy.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    steps = dense_strides(shape) if strides is None else tuple(s // dtype.itemsize for s in strides)
    pointer, read_only = interface["data"]
    name = dtype.name if dtype.isnative else dtype.str
    return ArrayFacts(
        _library_name(array), name, shape, steps, int(pointer), ("cuda", _device_of(array)), dtype.itemsize,
        not read_only,
    )  # fmt: skip


def _device_of(array: DeviceArray) -> int:
    """The number of the device, which the interface leaves out: that of DLPack if the array has it, otherwise 0."""
    return int(array.__dlpack_device__()[1]) if hasattr(array, "__dlpack_device__") else 0


def by_capsule(array: DeviceArray) -> ArrayFacts:
    """The facts in an array's DLPack capsule."""
    capsule = _capsule(array)
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    versioned = bool(api.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
    address = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned" if versioned else b"dltensor")
    if versioned:
        held = _Versioned.from_address(address)
        tensor, writable = held.tensor, not held.flags & _READ_ONLY
    else:
        tensor, writable = _Tensor.from_address(address), True
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    steps = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else dense_strides(shape)
    return ArrayFacts(
        _library_name(array), _dtype_of(tensor), shape, steps, (tensor.data or 0) + tensor.byte_offset,
        _device(array, tensor), tensor.bits // 8, writable,
    )  # fmt: skip


def _capsule(array: DeviceArray) -> Any:
    """The capsule of the newest version that the array knows, synchronised with the default stream of its device."""
    on_device = int(array.__dlpack_device__()[0]) in _CUDA
    stream = {"stream": _SYNCHRONISED_WITH_DEFAULT} if on_device else {}
    try:
        return array.__dlpack__(max_version=_NEWEST, **stream)
    except TypeError:
        return array.__dlpack__(**stream)
    except (BufferError, RuntimeError, ValueError) as error:
        raise UsageError(f"a {_library_name(array)} array refuses to be read by DLPack: {error}") from error


def _device(array: DeviceArray, tensor: _Tensor) -> Device:
    if tensor.device_type in _HOST:
        return CPU
    if tensor.device_type in _CUDA:
        return "cuda", int(tensor.device_id)
    raise UsageError(
        f"a {_library_name(array)} array is on a device of DLPack's type {tensor.device_type}; kernels run on the CPU "
        "and on CUDA devices: move it to one"
    )


def _dtype_of(tensor: _Tensor) -> str:
    if tensor.lanes != 1:
        return f"{tensor.lanes} lanes of {_PREFIXES.get(tensor.code, 'code ' + str(tensor.code))}{tensor.bits}"
    known = _TYPES.get((tensor.code, tensor.bits))
    return known or f"{_PREFIXES.get(tensor.code, f'DLPack code {tensor.code}, bits ')}{tensor.bits}"


def _library_name(array: DeviceArray) -> str:
    return type(array).__module__.partition(".")[0]
