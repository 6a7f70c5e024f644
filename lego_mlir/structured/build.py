"""LL programs as Python functions on NumPy arrays: generated, compiled, cached, checked and batched.

>>> import numpy as np
>>> from lego_mlir.structured import structures as st
>>> operands = {"A": st.general(4, 4), "L": st.lower(4), "U": st.upper(4), "S": st.symmetric(4, "L")}
>>> kernel = compile("A = L*U + S", cache=None, **operands)
>>> L, U, S = np.tril(np.ones((4, 4))), np.triu(np.ones((4, 4))), np.eye(4)
>>> A = np.empty((4, 4))
>>> kernel(A, L, U, S)
>>> bool((A == L @ U + S).all())
True

The arguments are the operands in declaration order, from the keywords of `compile` or the text. An array with one more
dimension is a batch; read-only operands may be shared by the whole batch. Elements that a structure does not store are
never read: NaN there has no effect (docs/reference/structured.md, "NaN and infinity").
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache as memoised
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import LegoError, UsageError, did_you_mean
from lego_mlir.hardware import isa
from lego_mlir.runtime import cpu
from lego_mlir.store import Cache, default_folder, key
from lego_mlir.structured import entry_point, mlir_text, sets
from lego_mlir.structured.function import Function
from lego_mlir.structured.language import TypeRow, parse
from lego_mlir.structured.lower import Lowered, buffer_name, lower
from lego_mlir.structured.paper import scalar_code
from lego_mlir.structured.storage import ByLayout
from lego_mlir.structured.structures import Structure
from lego_mlir.structured.syntax import LLError, Operand, Program, Statement
from lego_mlir.structured.syntax import program as as_program
from lego_mlir.structured.vector import generate, lanes
from lego_mlir.structured.vector.generate import Variant

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


ELEMENTS: Final[dict[Any, str]] = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}
VARIANTS: Final = ("scalar", "tune")
OPTIONS: Final = ("dtype", "name", "target", "variant", "types", "by_lanes", "cache")
DTYPES: Final[dict[str, Any]] = {element: dtype for dtype, element in ELEMENTS.items()}


class ArgumentError(LegoError, TypeError, ValueError):
    """A call with arguments that do not match the kernel."""


@dataclass(frozen=True)
class KernelSource:
    """The input of compilation: the program, its symbol name, element type, instruction set and variant."""

    program: Program
    name: str
    element: str
    isa: isa.ISA
    variant: Variant | None  # None: the scalar path of the paper
    lanes: int = 1  # matrices computed at once, one per lane

    def mlir(self) -> str:
        """The kernel's module."""
        with sets.LOCK:
            lowered = lower(self.program)
            return mlir_text.text(_function(lowered, self)) + "\n"

    def c(self) -> str:
        """The kernel as C11: with intrinsics for sse2, avx2 and avx512, plain C for other targets.

        It has the operations of the MLIR in the same order. Raises UsageError for a variant with longer vectors than
        the target's, and for `by_lanes` on a target without intrinsics.
        """
        from lego_mlir.structured import c_text, x86_vectors

        entry_point.signature(self.program, self.name, self.element)  # refuses names that C cannot declare
        vectors = self.isa.name in x86_vectors.REQUIRED
        plain = self if vectors or self.variant is None else replace(self, variant=replace(self.variant, width=1))
        flags = f"; compile with -O3 -march={self.isa.cpu}" if vectors else ""
        about = (f"{self.program}", f"{DTYPES[self.element]}, {plain.isa.name}, {plain.variant or 'scalar'}{flags}")
        with sets.LOCK:
            function = _function(lower(self.program), plain)
        return c_text.text(function, self.isa.name, list(map(buffer_name, self.program.written)), about)

    def header(self) -> str:
        """A C header for the kernel."""
        storages = [_storage_name(operand) for operand in self.program.operands]
        return entry_point.header(self.program, self.name, self.element, storages)

    def object(self) -> bytes:
        """Relocatable object code that exports the kernel."""
        return cpu.object_code(self.mlir(), self.isa)

    def assembly(self) -> str:
        """Assembly text, for reading."""
        return cpu.assembly(self.mlir(), self.isa)

    def llvm(self) -> str:
        """LLVM IR before optimisation."""
        return cpu.llvm_ir(self.mlir(), self.isa)


def _function(lowered: Lowered, source: KernelSource) -> Function:
    if source.lanes > 1:
        return lanes.emit(lowered, source.name, source.element, source.lanes)
    if source.variant is None:
        return scalar_code.emit(lowered, source.name, source.element)
    return generate.emit(lowered, source.name, source.element, source.variant, source.isa.registers)


def _storage_name(operand: Operand) -> str:
    return f"{operand.storage} in {'x'.join(map(str, entry_point.array_shape(operand))) or '1'} elements"


class Kernel:
    """A compiled program. Calls are thread-safe: temporaries live on the stack of the calling thread."""

    def __init__(self, source: KernelSource, code: bytes) -> None:
        self.source = source
        self.program = source.program
        self.variant = source.variant
        self.name = source.name
        self.lanes = source.lanes
        self.dtype = DTYPES[source.element]
        self._code = code
        self._library = cpu.load(code, (self.name, f"{self.name}_python"))
        self.address = self._library.address(self.name)
        count = len(self.program.operands)
        entry = self._library.address(f"{self.name}_python")
        kinds: list[Any] = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.py_object] * count]
        self._run: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(entry)
        self._names = names = tuple(operand.name for operand in self.program.operands)
        self._count = count
        # by the number of named operands: extract their arrays from the keyword dictionary
        self._named = [_getter(names[count - number :]) for number in range(count + 1)]
        self._numbers = tuple(
            at
            for at, operand in enumerate(self.program.operands)
            if entry_point.takes_numbers(self.program, operand, self.lanes)
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.program}>"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the machine code; a different processor recompiles the program."""
        return _unpickle, (self.source, self._code, cpu.processor())

    def __call__(self, *arrays: Array | float, **named: Array | float) -> None:
        """Check the arrays and run; outputs are written in place. Raises ArgumentError for mismatched arguments."""
        if named:
            try:
                arrays += self._named[len(named)](named)
            except (KeyError, IndexError):
                raise ArgumentError(self._expected(f"{len(arrays)} arrays and {list(named)}")) from None
        if len(arrays) != self._count:
            raise ArgumentError(self._expected(f"{len(arrays)} arrays{f' and {list(named)}' if named else ''}"))
        for at in self._numbers:
            if (kind := type(arrays[at])) is not float and kind is not _ARRAY:
                arrays = self._with_floats(arrays)
                break
        if self._run(_NDARRAY, _FLOAT, *arrays):
            self._retry(arrays)

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """The array shape of one matrix, or with lanes of one group of matrices."""
        one = entry_point.array_shape(operand)
        return one if self.lanes == 1 else (*one, self.lanes)

    def _expected(self, got: str) -> str:
        return f"{self.name} takes {', '.join(self._names)}; got {got}"

    def _with_floats(self, arrays: tuple[Array | float, ...]) -> tuple[Array | float, ...]:
        """Convert numbers passed for read-only scalars to plain floats."""
        converted = list(arrays)
        for at in self._numbers:
            if isinstance(arrays[at], _NUMBERS):
                try:
                    converted[at] = float(arrays[at])
                except OverflowError as error:
                    raise ArgumentError(f"{self._names[at]} is too large for {self.dtype}") from error
        return tuple(converted)

    def _retry(self, arrays: tuple[Array | float, ...]) -> None:
        """Slow path: accept columns as vectors, or raise the error."""
        arrays = tuple(
            self._array(operand, value) for operand, value in zip(self.program.operands, arrays, strict=True)
        )
        if self._run(_NDARRAY, _FLOAT, *arrays):
            raise ArgumentError(self._batches(arrays) or self._overlap(arrays))

    def _array(self, operand: Operand, value: Array | float) -> Array | float:
        shape = self.shape(operand)
        written = operand.name in self.program.written
        if type(value) is float and entry_point.takes_numbers(self.program, operand, self.lanes):
            return value
        if type(value) is not np.ndarray:
            number = "a number or " if entry_point.takes_numbers(self.program, operand, self.lanes) else ""
            raise ArgumentError(
                f"{operand.name} must be {number}a numpy.ndarray of {self.dtype}, got {type(value).__name__}"
            )
        if value.dtype != self.dtype or not value.dtype.isnative:
            raise ArgumentError(f"{operand.name} must be native {self.dtype}, got {value.dtype.str}")
        if len(shape) == 1 and value.shape[-2:] == (*shape, 1) and value.flags.c_contiguous:
            value = value.reshape(value.shape[:-1])
        if value.shape != shape and value.shape[1:] != shape:
            raise ArgumentError(
                f"{operand.name} is {operand.structure}, stored as an array of shape {shape}, plus a leading "
                f"dimension for a batch; got shape {value.shape}"
            )
        if not (value.flags.c_contiguous and value.flags.aligned):
            raise ArgumentError(
                f"{operand.name} must be C-contiguous and aligned, got strides {value.strides} for {value.shape}"
            )
        if written and not value.flags.writeable:
            raise ArgumentError(f"{operand.name} is written, and the array is read-only")
        return value

    def _batches(self, arrays: Sequence[Array | float]) -> str:
        """The mismatch of the batch sizes; empty if they agree."""
        found = {
            operand.name: value.shape[0]
            if isinstance(value, np.ndarray) and value.ndim > len(self.shape(operand))
            else None
            for operand, value in zip(self.program.operands, arrays, strict=True)
        }
        counts = {count for count in found.values() if count is not None}
        if len(counts) < 2 and not (counts and any(found[name] is None for name in self.program.written)):
            return ""
        return (
            f"the batch sizes do not match: {found}; all must be equal, and written operands must be batched if any is"
        )

    def _overlap(self, arrays: Sequence[Array | float]) -> str:
        """Which written operand overlaps another one."""
        for a, b in entry_point.overlapping_pairs(self.program):
            if isinstance(arrays[b], np.ndarray) and np.may_share_memory(arrays[a], arrays[b]):
                written, other = self._names[a], self._names[b]
                return (
                    f"{written} is written, and its array shares memory with that of {other}, whose elements would "
                    "change while the kernel runs. Pass a copy of one; to work in place, write the program with one "
                    "operand on both sides, as in x = L \\ x"
                )
        return "the arrays were rejected"


def _unpickle(source: KernelSource, code: bytes, processor: str) -> Kernel:
    """Unpickle a kernel. Raises UsageError if the number of lanes of a `by_lanes` kernel differs here."""
    _check_numpy()
    if processor == cpu.processor():
        return Kernel(source, code)
    if source.lanes > 1 and host().lanes(source.element) != source.lanes:
        raise UsageError(
            f"{source.name} computes {source.lanes} matrices at once, the vector length of the machine that pickled "
            "it; this machine has a different one: compile it here"
        )
    scalar_path = source.variant is None and source.lanes == 1
    return compile(
        source.program, dtype=DTYPES[source.element], name=source.name, by_lanes=source.lanes > 1,
        variant="scalar" if scalar_path else None,
    )  # fmt: skip


_ARRAY: Final = np.ndarray
_NUMBERS: Final = (int, float, np.integer, np.floating)
_NDARRAY: Final = id(np.ndarray)
_FLOAT: Final = id(float)


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Array | float]], tuple[Array | float, ...]]:
    """A function from a dictionary to the values of these names, in order."""
    if len(names) == 1:
        (name,) = names
        return lambda named: (named[name],)
    return itemgetter(*names) if names else lambda _: ()


@memoised
def _check_numpy() -> bool:
    """Verify the offsets of array fields that the driver relies on. Raises LegoError otherwise."""
    probe = np.zeros((3, 5), np.float32)
    base = id(probe)

    def read(offset: int, kind: Any) -> int:
        return int(kind.from_address(base + offset).value)

    description = read(entry_point.DESCRIPTION, ctypes.c_void_p)
    sizes = read(entry_point.SIZES, ctypes.c_void_p)
    found = (
        read(entry_point.DATA, ctypes.c_void_p),
        read(entry_point.RANK, ctypes.c_int),
        ctypes.c_int64.from_address(sizes + 8).value,
        read(entry_point.FLAGS, ctypes.c_int) & 0x501,
        ctypes.c_int.from_address(description + entry_point.TYPE_NUMBER).value,
        read(entry_point.TYPE, ctypes.c_void_p),
    )
    number = 1.5
    held = ctypes.c_double.from_address(id(number) + entry_point.FLOAT).value
    if (*found, held) != (probe.ctypes.data, 2, 5, 0x501, entry_point.NUMBER_OF["f32"], id(np.ndarray), number):
        raise LegoError(f"NumPy {np.__version__} has an array struct layout that this version does not support")
    return True


@memoised
def host() -> isa.ISA:
    """The widest instruction set of this machine."""
    return isa.of_host(dict(cpu.host_features()))


def row_of(target: str) -> isa.ISA:
    """The instruction set of a target; "host" is this machine's."""
    return host() if target == "host" else isa.isa_named(target)


def source_of(
    given: str | Program | Statement,
    *,
    dtype: DTypeLike = np.float64,
    name: str = "kernel",
    target: str = "host",
    variant: Variant | str | None = None,
    types: Mapping[str, TypeRow] | None = None,
    by_lanes: bool = False,
    **operands: Operand | Structure,
) -> KernelSource:
    """The source that `compile` would compile. `variant` "scalar" selects the paper's scalar path."""
    if np.dtype(dtype) not in ELEMENTS:
        raise UsageError(f"kernels work on float64 or float32, not {np.dtype(dtype)}")
    if not (name.isidentifier() and name.isascii()):
        raise UsageError(f"a kernel's name is an identifier, got {name!r}")
    _require_variant(variant, by_lanes, ["scalar"])
    element = ELEMENTS[np.dtype(dtype)]
    row = row_of(target)
    with sets.LOCK:
        program = _program(given, operands, types)
        if variant == "scalar" or by_lanes:
            return KernelSource(program, name, element, row, None, row.lanes(element) if by_lanes else 1)
        chosen = (
            variant
            if isinstance(variant, Variant)
            else generate.default(lower(program), row.lanes(element), row.registers)
        )
    return KernelSource(program, name, element, row, chosen)


def _require_variant(variant: object, by_lanes: bool, known: Sequence[str] = VARIANTS) -> None:
    """Raises UsageError for an unknown variant, or one combined with `by_lanes`."""
    if variant is not None and by_lanes:
        raise UsageError(f"by_lanes has one variant, one matrix per lane; omit variant, got {variant!r}")
    if variant is None or isinstance(variant, Variant) or variant in known:
        return
    meant = did_you_mean(variant, known) if isinstance(variant, str) else ""
    raise UsageError(f"a variant is a Variant, {', '.join(map(repr, known))} or None, got {variant!r}{meant}")


def _program(given: object, operands: Mapping[str, object], types: Mapping[str, TypeRow] | None) -> Program:
    """Coerce to a program. Raises UsageError for anything that is not a program or operand."""
    declared = {}
    for name, value in operands.items():
        if not isinstance(value, Operand | Structure):
            meant = did_you_mean(name, OPTIONS)
            raise UsageError(
                f"compile has no option {name!r}{meant}, and {value!r} is not an operand, such as "
                "structured.Matrix(4, 4)"
            )
        plain = Operand(name, value) if isinstance(value, Structure) else value
        declared[name] = Operand(name, plain.structure, plain.storage)
    if isinstance(given, Program | Statement):
        if operands:
            raise UsageError(
                f"a Program or a Statement already has its operands; remove the keywords {', '.join(operands)}"
            )
        return as_program(given) if isinstance(given, Statement) else given
    if not isinstance(given, str):
        raise UsageError(f"compile takes LL text, a Program or a Statement, got {type(given).__name__}")
    return parse(given, declared, types)


DEFAULT_CACHE: Final = "default"


def compile(  # the name is the contract's: lego.structured.compile
    given: str | Program | Statement,
    *,
    dtype: DTypeLike = np.float64,
    name: str = "kernel",
    target: str = "host",
    variant: Variant | str | None = None,
    types: Mapping[str, TypeRow] | None = None,
    by_lanes: bool = False,
    cache: Cache | str | None = DEFAULT_CACHE,
    **operands: Operand | Structure,
) -> Kernel:
    """A kernel for an LL program, cached by content.

    `given` is LL text, a `Program` or a `Statement`; operands not declared in the text are keywords. `variant` is a
    `Variant`, "scalar", "tune" (time the candidates and remember the best) or None for the default. `by_lanes` computes
    one matrix per lane, for sizes up to 8: arrays are groups of `kernel.lanes` matrices of shape (groups, *one matrix,
    lanes), as made by `interleave`. `cache` is a `Cache`, a folder, or None to disable caching. Raises LLError,
    UsageError.
    """
    _check_numpy()
    if isinstance(cache, str):
        cache = Cache(default_folder() if cache == DEFAULT_CACHE else Path(cache))
    with sets.LOCK:
        program = _program(given, operands, types)
    _require_variant(variant, by_lanes)
    if variant == "tune":
        from lego_mlir.structured.tuning import tuned

        variant = tuned(program, np.dtype(dtype), target, cache)
    entry = digest(program, np.dtype(dtype), name, target, "lanes" if by_lanes else variant)
    known = cache.read(entry) if cache is not None else None
    if known is not None:
        return _from_cache(program, np.dtype(dtype), name, known)
    source = source_of(program, dtype=dtype, name=name, target=target, variant=variant, by_lanes=by_lanes)
    entries = entry_point.text(program, name, source.element, source.lanes)
    code = cpu.assemble(source.mlir(), (name, f"{name}_python"), entries, *processor(source, target))
    if cache is not None:
        head = {"variant": source.variant and fields(source.variant), "isa": source.isa.name, "lanes": source.lanes}
        cache.write(entry, json.dumps(head).encode() + b"\n" + code)
    return Kernel(source, code)


def processor(source: KernelSource, target: str) -> tuple[str, str]:
    """The processor and features to restrict the code to; none for this machine."""
    return ("", "") if target in ("host", "scalar") else (source.isa.cpu, source.isa.features)


def fields(variant: Variant) -> dict[str, int]:
    """The on-disk form of a variant."""
    return {"width": variant.width, "rows": variant.rows, "vectors": variant.vectors, "rolled": variant.rolled}


def _from_cache(program: Program, dtype: DTypeLike, name: str, known: bytes) -> Kernel:
    """Load a kernel from a cache entry, without loading MLIR or LLVM."""
    head, _, code = known.partition(b"\n")
    kept = json.loads(head)
    variant = kept["variant"] and Variant(**kept["variant"])
    return Kernel(
        KernelSource(program, name, ELEMENTS[dtype], isa.isa_named(kept["isa"]), variant, kept["lanes"]), code
    )


def digest(program: Program, dtype: DTypeLike, name: str, target: str, variant: Variant | str | None) -> str:
    """The cache key of a kernel: the program, its structures and storages, and all else that affects the code."""
    return key(
        "structured",
        describe(program).encode(),
        str(dtype),
        name,
        target,
        repr(variant),
        cpu.processor(),
        _source_digest(),
    )


def describe(program: Program) -> str:
    """The program and the full description of its operands as text; a layout is described by its positions."""
    parts = [str(program)]
    for operand in program.operands:
        structure = operand.structure
        storage = str(operand.storage)
        if isinstance(operand.storage, ByLayout) or type(operand.storage).__module__ != ByLayout.__module__:
            storage = hashlib.sha256(operand.storage.positions(structure).tobytes()).hexdigest()
        parts.append(repr((operand.name, structure.name, structure.sinfo, structure.ainfo, storage)))
    return "\n".join(parts)


@memoised
def _source_digest() -> str:
    """A digest of the generator's source code."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(cpu.__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


__all__ = ["ArgumentError", "Kernel", "KernelSource", "LLError", "compile", "describe", "host", "source_of"]
