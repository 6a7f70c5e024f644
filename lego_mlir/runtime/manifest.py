"""The manifest beside a kernel's code: JSON that describes how to launch it, read back as values.

`lego-mlir compile spec.py --emit ptx -o kernel.ptx` writes `kernel.ptx` and `kernel.json`. A size that is known only
at the launch has a name and facts; grids and element counts are texts over those names, in the language of `expr.text`:

>>> evaluate("((M + 31) // 32)", {"M": 100})
4
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import ExpressionError, SpecError, UsageError
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.store import from_json

if TYPE_CHECKING:
    from lego_mlir.aliases import Json
    from lego_mlir.tracing.definition.program import Runnable

FORMAT: Final = 1
Extent = int | str


@dataclass(frozen=True, slots=True)
class LaunchSize:
    """A size given at the launch, and what was assumed of it when the kernel was compiled."""

    name: str
    min: int
    max: int | None
    multiple_of: int

    def require(self, value: int) -> None:
        """Refuse a value for which the kernel was not compiled."""
        if value < self.min or (self.max is not None and value > self.max) or value % self.multiple_of:
            upper = "" if self.max is None else f", at most {self.max}"
            raise UsageError(
                f"size {self.name} = {value}: the kernel was compiled for at least {self.min}{upper}, a multiple of "
                f"{self.multiple_of}"
            )


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """A condition on several sizes: arithmetic that is 0 where it fails, and its text in a message."""

    condition: Extent
    text: str

    def require(self, entry: str, sizes: Mapping[str, int]) -> None:
        """Refuse values for which the kernel was not compiled."""
        if not evaluate(self.condition, sizes):
            values = ", ".join(f"{name} = {value}" for name, value in sizes.items())
            raise UsageError(f"kernel {entry} requires {self.text}, which fails for {values}")


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: a tensor (one pointer to `elements` of `dtype`, laid out as `layout`) or a scalar.

    A tensor begins at a multiple of `alignment` bytes, as its widest access needs; without one in the
    manifest, the widest access is assumed. `strides` are those of the layout, in elements, None where it has none or
    where some index names no element. `tolerance` is the relative and absolute error that the spec's reference
    allows, None where it names none. `values` is the range of its integers, `(lo, end)`. `tensor_map` holds the fields
    of a `TensorMap`, for a tensor that the kernel takes as one instead of a pointer. `addresses_of` names the tensors
    whose addresses its elements are. A `permutation` is a run-time table.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[Extent, ...] | None = None
    elements: Extent | None = None
    layout: str | None = None
    read: bool = True
    written: bool = True
    alignment: int = WIDEST_ACCESS
    strides: tuple[Extent, ...] | None = None
    tolerance: tuple[float, float] | None = None
    values: Sequence[Extent] | None = None
    tensor_map: Json | None = None
    addresses_of: Sequence[str] = ()
    permutation: bool = False


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """How to launch one entry of the code. `grid` and `block` are None where the module left them open.

    The blocks of a `cluster` along x run together; of other clusters it is 1. A `dependent` kernel may begin while the
    previous one on its stream runs.
    """

    entry: str
    grid: tuple[Extent, ...] | None
    block: tuple[Extent, ...] | None
    dynamic_shared_bytes: int
    static_shared_bytes: int
    sizes: tuple[LaunchSize, ...]
    arguments: tuple[Argument, ...]
    source: str | None = None
    requirements: tuple[SizeCondition, ...] = ()
    cluster: int = 1
    dependent: bool = False

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise UsageError where a size is missing, unknown, or not what the kernel was compiled for."""
        wanted = [size.name for size in self.sizes]
        for name in wanted:
            if name not in sizes:
                raise UsageError(f"kernel {self.entry} needs the sizes {', '.join(wanted)}; {name} is missing")
        for name in sizes:
            if name not in wanted:
                raise UsageError(f"kernel {self.entry} has no size {name}; it has: {', '.join(wanted) or 'none'}")
        for size in self.sizes:
            value = sizes[size.name]
            if not hasattr(value, "__index__") or isinstance(value, bool):
                raise UsageError(f"size {size.name} of kernel {self.entry} must be an int, got {value!r}")
            size.require(value)
        for requirement in self.requirements:
            requirement.require(self.entry, sizes)


@dataclass(frozen=True, slots=True)
class StepEntry:
    """A launch of a program: the kernel, its sizes over those of the program, and its arguments.

    An argument has the name of a tensor or number of the program, or else a value: a number or an expression of sizes.
    A `grid` replaces that of the kernel.
    """

    entry: str
    sizes: Mapping[str, Extent]
    arguments: tuple[Mapping[str, Any], ...]
    grid: tuple[Extent, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """Kernels that run one after the other, and temporary tensors: the name, element type and number of elements."""

    kernel: KernelEntry
    temporaries: tuple[Argument, ...]
    steps: tuple[StepEntry, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole manifest: its kernels by entry, the code they are in, and the programs of these kernels."""

    target: str
    code: str
    code_sha256: str
    versions: tuple[str, ...]
    kernels: Mapping[str, KernelEntry]
    programs: Mapping[str, ProgramEntry] = field(default_factory=dict)
    version: int | None = None
    """Of the pack that it belongs to."""

    def kernel(self, entry: str | None) -> KernelEntry:
        """The kernel of this name, or the only one."""
        if entry is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if entry is None or entry not in self.kernels:
            raise UsageError(f"which kernel? The code has: {', '.join(self.kernels)}")
        return self.kernels[entry]


def read(path: str | Path) -> Manifest:
    """The manifest of a kernel's code, or of the JSON file itself. Raises SpecError where it is missing or broken."""
    if Path(path).is_dir():
        raise SpecError(f"{path} is a folder; give the .ptx or .cubin file in it")
    path = Path(path).with_suffix(".json")
    try:
        data = from_json(path.read_text())
    except FileNotFoundError as error:
        raise SpecError(
            f"{path}: no manifest beside the code; lego-mlir compile SPEC --emit ptx -o {path.with_suffix('.ptx')} "
            "writes both"
        ) from error
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: not a manifest ({error}); compile the kernel again") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SpecError(f"{path}: a manifest of format {FORMAT} is read here; compile the kernel again")
    try:
        return from_data(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{path}: the manifest is not complete ({error!r}); compile the kernel again") from error


def from_data(data: Mapping[str, Any]) -> Manifest:
    """The manifest of what JSON holds."""
    kernels = [kernel_from(entry) for entry in data["kernels"]]
    programs = [_program(program) for program in data.get("programs", ())]
    return Manifest(
        data["target"],
        data["code"],
        data["code_sha256"],
        tuple(data["versions"]),
        {k.entry: k for k in kernels},
        {p.kernel.entry: p for p in programs},
        data.get("version"),
    )


def _program(data: Mapping[str, Any]) -> ProgramEntry:
    return ProgramEntry(
        kernel_from(data),
        tuple(Argument(kind="tensor", **temporary) for temporary in data["temporaries"]),
        tuple(
            StepEntry(step["entry"], step["sizes"], tuple(step["arguments"]), _extents(step.get("grid")))
            for step in data["steps"]
        ),
    )


def kernel_from(data: Mapping[str, Any]) -> KernelEntry:
    """One kernel of what JSON holds."""
    return KernelEntry(
        entry=data["entry"],
        grid=_extents(data["grid"]),
        block=_extents(data["block"]),
        dynamic_shared_bytes=data["dynamic_shared_bytes"],
        static_shared_bytes=data["static_shared_bytes"],
        sizes=tuple(LaunchSize(**size) for size in data["sizes"]),
        arguments=tuple(
            Argument(**{**_known(argument, Argument), **{n: _extents(argument.get(n)) for n in ("shape", "strides")}})
            for argument in data["arguments"]
        ),
        source=data.get("source"),
        requirements=tuple(SizeCondition(**one) for one in data.get("requirements", ())),
        cluster=data.get("cluster", 1),
        dependent=data.get("dependent", False),
    )


def _known(data: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The entries that this version has fields for: a later one may write more."""
    names = {known.name for known in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def _extents(data: Any) -> tuple[Extent, ...] | None:
    return None if data is None else tuple(data)


def check_code(manifest: Manifest, code: bytes, path: Path) -> None:
    """Refuse code that is not what the manifest was written for."""
    if hashlib.sha256(code).hexdigest() != manifest.code_sha256:
        raise SpecError(f"{path} is not the code that its manifest describes; compile the two together again")


def evaluate(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The value of an extent for these sizes. Raises UsageError for anything but integer arithmetic over them."""
    if isinstance(extent, int):
        return extent
    from lego_mlir.expr import text  # most grids are ints, and need no reader

    try:
        return text.evaluate(extent, sizes)
    except ExpressionError as error:
        raise UsageError(f"manifest: {error}; compile the kernel again") from None


LARGEST_SIZE: Final = 2**48
"""The largest size that a user gives; no memory holds more."""


def sizes_of(given: Sequence[str], option: str = "--size") -> dict[str, int]:
    """The sizes of `--size M=4096 --size N=512`, or of another option. Raises UsageError for anything else."""
    sizes: dict[str, int] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value.isdecimal():
            raise UsageError(f"{option} takes NAME=N, such as M=4096, not {text!r}")
        if int(value) > LARGEST_SIZE:
            raise UsageError(f"{option} {text}: a size is at most {LARGEST_SIZE}, which no memory holds")
        sizes[name] = int(value)
    return sizes


def refuse_unknown_sizes(given: Mapping[str, int], kernels: Iterable[KernelEntry | Runnable]) -> None:
    """Raise UsageError for a size that no kernel has."""
    known = {size.name for kernel in kernels for size in kernel.sizes}
    for name in given:
        if name not in known:
            raise UsageError(
                f"--size {name}: no kernel here has that size; sizes: {', '.join(sorted(known)) or 'none'}"
            )
