"""XLA's foreign function interface: a Python function as the handler of a custom call.

XLA calls a handler with a frame of pointers: buffers of arguments and results, attributes, and a table of functions of
its own, from which the stream and the device come. The structures are those of `xla/ffi/api/c_api.h`, version 0.3, as
jaxlib ships it; fields are only added at their ends.

A handler is also called once when it is registered, to state the version that it was written for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lego_mlir.aliases import Foreign

VERSION: Final = (0, 3)
_METADATA: Final = 1
_INTERNAL: Final = 13
_DOUBLE, _LONG = 12, 5  # XLA_FFI_DataType of F64 and S64

_Pointer = ctypes.c_void_p


class _Version(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("extension", _Pointer), ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Api(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("extension", _Pointer), ("version", _Version), ("internal", _Pointer),
        ("error_create", _Pointer), ("error_message", _Pointer), ("error_destroy", _Pointer), ("register", _Pointer),
        ("stream_get", _Pointer), ("type_register", _Pointer), ("context_get", _Pointer), ("state_set", _Pointer),
        ("state_get", _Pointer), ("allocate", _Pointer), ("free", _Pointer), ("schedule", _Pointer),
        ("threads", _Pointer), ("future_create", _Pointer), ("future_available", _Pointer),
        ("future_error", _Pointer), ("run_id", _Pointer), ("device_ordinal", _Pointer),
    ]  # fmt: skip


class _Buffers(ctypes.Structure):  # XLA_FFI_Args and XLA_FFI_Rets
    _fields_ = [
        ("size", ctypes.c_size_t), ("extension", _Pointer), ("count", ctypes.c_int64), ("types", _Pointer),
        ("items", ctypes.POINTER(_Pointer)),
    ]  # fmt: skip


class _Attributes(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("extension", _Pointer), ("count", ctypes.c_int64), ("types", _Pointer),
        ("names", ctypes.POINTER(_Pointer)), ("items", ctypes.POINTER(_Pointer)),
    ]  # fmt: skip


class _Frame(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("extension", _Pointer), ("api", ctypes.POINTER(_Api)), ("context", _Pointer),
        ("stage", ctypes.c_int), ("arguments", _Buffers), ("results", _Buffers), ("attributes", _Attributes),
    ]  # fmt: skip


class _Buffer(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("extension", _Pointer), ("dtype", ctypes.c_int), ("data", _Pointer)]


class _Span(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class _Number(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("value", _Pointer)]


class _Extension(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", _Pointer), ("metadata", _Pointer)]


class _Metadata(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32)]


class _ErrorArguments(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extension", _Pointer),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


class _Query(ctypes.Structure):  # XLA_FFI_Stream_Get_Args and XLA_FFI_DeviceOrdinal_Get_Args
    _fields_ = [("size", ctypes.c_size_t), ("extension", _Pointer), ("context", _Pointer), ("answer", _Pointer)]


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One execution: addresses of arguments and results, numbers by name, and where it runs."""

    arguments: Sequence[int]
    results: Sequence[int]
    numbers: Mapping[str, int | float]
    stream: Callable[[], int]
    device: Callable[[], int]


def handler(execute: Callable[[CustomCall], None]) -> Foreign:
    """A C function for XLA that runs `execute`; what it raises becomes an XLA error. Keep it as long as it may run."""

    def called(address: int) -> int | None:
        frame = _Frame.from_address(address)
        if frame.extension:
            extension = _Extension.from_address(frame.extension)
            if extension.type == _METADATA:
                metadata = _Metadata.from_address(extension.metadata)
                metadata.version.major, metadata.version.minor = VERSION
                metadata.traits = 0
                return None
        try:
            execute(_read(frame))
        except BaseException as error:  # nothing may leave a C callback
            return _error(frame, f"{type(error).__name__}: {error}")
        return None

    return ctypes.CFUNCTYPE(_Pointer, _Pointer)(called)


def _read(frame: _Frame) -> CustomCall:
    return CustomCall(
        _addresses(frame.arguments),
        _addresses(frame.results),
        dict(map(_number, *(f[: frame.attributes.count] for f in (frame.attributes.names, frame.attributes.items))))
        if frame.attributes.count
        else {},
        lambda: _answer(frame, frame.api.contents.stream_get),
        lambda: _answer(frame, frame.api.contents.device_ordinal) & 0xFFFFFFFF,
    )


def _addresses(buffers: _Buffers) -> list[int]:
    return [_Buffer.from_address(item).data or 0 for item in buffers.items[: buffers.count]] if buffers.count else []


def _number(name: int, item: int) -> tuple[str, int | float]:
    """An attribute that is one f64 or s64."""
    span, found = _Span.from_address(name), _Number.from_address(item)
    kinds: dict[int, Any] = {_DOUBLE: ctypes.c_double, _LONG: ctypes.c_int64}
    value: int | float = kinds[found.dtype].from_address(found.value).value
    return ctypes.string_at(span.text, span.length).decode(), value


def _answer(frame: _Frame, function: int) -> int:
    """What one of XLA's query functions answers."""
    query = _Query(ctypes.sizeof(_Query), None, frame.context, None)
    failed = ctypes.CFUNCTYPE(_Pointer, _Pointer)(function)(ctypes.addressof(query))
    if failed:
        raise RuntimeError("XLA gives neither stream nor device")
    return query.answer or 0


def _error(frame: _Frame, message: str) -> int | None:
    create = ctypes.CFUNCTYPE(_Pointer, _Pointer)(frame.api.contents.error_create)
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), _INTERNAL)
    made: int | None = create(ctypes.addressof(arguments))
    return made
