"""`@lego.program`: several kernels and temporary tensors as one callable.

    @lego.program
    def scan(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        sums = lego.empty(f32, Row(N // 1024))          steps of the program:
        scan_blocks(x, y, sums)                             scan_blocks   x, y, sums
        scan_sums(sums)                                     scan_sums     sums
        add_sums(sums, y)                                   add_sums      sums, y

The function runs once, on handles instead of arrays, and calls of kernels are recorded as steps. The steps run in
order, each on the results of those before it. A size of a kernel is taken from the extents of its tensors, or is the
program's size of the same name, or is given by name: `scan_sums(sums, M=N // 1024)`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, update_wrapper
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

from lego_mlir.aliases import Given, Symbol
from lego_mlir.errors import LegoError, TraceError
from lego_mlir.expr.index import Index, as_expr, is_symbolic
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.verdict import Refuted, Verdict
from lego_mlir.layout import as_layout
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size as Extent
from lego_mlir.layout.chain import same_number
from lego_mlir.tracing.checks.roundings import Roundings, joined, roundings
from lego_mlir.tracing.definition.calling import OnArrays
from lego_mlir.tracing.definition.declared_sizes import collect_sizes
from lego_mlir.tracing.definition.kernel import Kernel, require_entry_name
from lego_mlir.tracing.definition.kernel_declaration import signature_of
from lego_mlir.tracing.definition.kernel_traces import Parameter, located
from lego_mlir.tracing.definition.recording import current_program
from lego_mlir.tracing.definition.reference import Referenced
from lego_mlir.tracing.trace.data_ranges import Distinct
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.requirements import of_relations, refuse
from lego_mlir.tracing.trace.size_limits import greatest
from lego_mlir.tracing.trace.spec_line import Source, user_line
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.toolchain import Compilation


@dataclass(frozen=True, slots=True)
class ProgramTensor:
    """A tensor inside a program: a parameter, or a temporary. Passed to kernels; it has no elements."""

    name: str
    dtype: DType
    layout: Layout
    temporary: bool = False

    @property
    def size(self) -> Extent:
        """The number of physical elements."""
        return self.layout.physical_size()

    def dims(self) -> tuple[Extent, ...]:
        """The logical sizes."""
        return self.layout.dims()

    def __getitem__(self, index: object) -> NoReturn:
        raise TraceError(
            f"{user_line() or ''}: {self.name}[{index}]: a program passes tensors to kernels; elements are read and "
            "written inside a kernel"
        )

    __setitem__ = __getitem__

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype}, {self.layout!r}>"


@dataclass(frozen=True, slots=True, eq=False)
class ProgramNumber(Uncompared):
    """A number parameter of a program, passed to kernels."""

    _instead = "compare the program's sizes, or in a kernel"
    name: str
    dtype: DType


Operand = ProgramTensor | ProgramNumber | Index | int | float


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A launch: the kernel, its arguments in order, and the value of each of its sizes over those of the program.

    `claims` are that the memory of each tensor is what the kernel expects.
    """

    kernel: Kernel
    arguments: tuple[Operand, ...]
    sizes: Mapping[str, Extent]
    source: Source
    claims: tuple[tuple[str, Verdict], ...] = ()

    def size_values(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes of the kernel, for sizes of the program."""
        from lego_mlir.expr.evaluate import evaluate  # with NumPy

        return {name: n if isinstance(n, int) else int(evaluate(n, sizes)) for name, n in self.sizes.items()}

    def tensor(self, parameter: str) -> str:
        """The name, in the program, of the tensor that is passed for a parameter of the kernel."""
        operand = self.by_name()[parameter]
        assert isinstance(operand, ProgramTensor)
        return operand.name

    def by_name(self) -> dict[str, Operand]:
        """The arguments by the names of the kernel's parameters."""
        return dict(zip(self.kernel.signature, self.arguments, strict=True))


class KernelProgram(Referenced, OnArrays):
    """Kernels that run one after the other on parameters and temporary tensors."""

    def __init__(self, function: Callable[..., object], names: Mapping[str, object] | None = None) -> None:
        super().__init__()
        if not inspect.isfunction(function):
            raise TraceError(f"@lego.program decorates a Python function, got {function!r}")
        code = function.__code__
        self.name, self.function = function.__name__, function
        self.source = Source(code.co_filename, code.co_firstlineno)
        require_entry_name(self.name, self.source)
        self.signature = signature_of(function, self.source, names)
        update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<program {self.name}, {self.source}>"

    def _size_names(self) -> list[str]:
        return [size.name for size in self.declared_sizes()]

    def declared_sizes(self) -> dict[Symbol, None]:
        """The sizes of the parameters, in order of first use."""
        found: dict[Symbol, None] = {}
        for kind in self.signature.values():
            if isinstance(kind, Tensor):
                for extent in (*kind.layout.dims(), kind.layout.physical_size()):
                    collect_sizes(extent, found)
        return found

    @cached_property
    def _recorded(self) -> Recorder:
        recorder = Recorder(self)
        arguments = [
            ProgramTensor(name, kind.dtype, kind.layout) if isinstance(kind, Tensor) else ProgramNumber(name, kind)
            for name, kind in self.signature.items()
        ]
        token = current_program.set(recorder)
        try:
            returned = self.function(*arguments)
        except LegoError as error:
            raise located(error, self.source) from error
        finally:
            current_program.reset(token)
        if returned is not None:
            raise TraceError(
                f"{self.source}: a program returns nothing, its kernels store into its parameters; {self.name} "
                f"returns {returned!r}"
            )
        if not any(parameter.written for parameter in _used(self.signature, recorder.steps)):
            raise TraceError(f"{self.source}: no kernel of the program {self.name} writes one of its parameters")
        return recorder

    @property
    def steps(self) -> tuple[ProgramStep, ...]:
        """The launches, in order. Raises TraceError for an invalid program, with the line of the spec."""
        return tuple(self._recorded.steps)

    @property
    def temporaries(self) -> tuple[ProgramTensor, ...]:
        """The tensors of `lego.empty`."""
        return tuple(self._recorded.temporaries)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, each once, in order of first use."""
        return tuple(dict.fromkeys(step.kernel for step in self.steps))

    @cached_property
    def params(self) -> tuple[Parameter, ...]:
        """The parameters; `read` unless the first kernel that uses it only writes it."""
        return _used(self.signature, self.steps)

    def refuse_sizes(self, sizes: Mapping[str, int], error: type[LegoError] = TraceError) -> None:
        """Raise `error` for values that do not satisfy the relations of the sizes; a step checks its own claims."""
        refuse(tuple(of_relations(self.sizes, self.source)), sizes, error)

    @cached_property
    def sizes(self) -> tuple[Symbol, ...]:
        """The sizes (`Size` symbols) of the parameters, then those of temporaries and of arguments."""
        found = self.declared_sizes()
        for tensor in self.temporaries:
            for extent in (*tensor.dims(), tensor.size):
                collect_sizes(extent, found)
        for step in self.steps:
            for value in (*step.sizes.values(), *step.arguments):
                collect_sizes(value, found)
        return tuple(found)

    def compile(self, target: str = "sm_80", **options: Any) -> Compilation:
        """Compile the kernels into one module; options are those of `Kernel.compile`, but for `cache`."""
        from lego_mlir.toolchain import compile_kernel

        return compile_kernel(self.kernels, target=target, **options)

    def greatest(self, size: Symbol) -> int | None:
        """The largest value of a size for which every kernel whose grid depends on it alone can be launched."""
        limits = [size.max]
        for step in self.steps:
            grid = [substituted(n, step) for n in step.kernel.grid]
            limits.append(greatest(size, grid, [substituted(n, step) for n in step.kernel.block]))
        return min((limit for limit in limits if limit is not None), default=None)

    def tables(self) -> tuple[str, ...]:
        """The names of run-time tables: none, since kernels that need them are refused."""
        return ()

    def roundings(self, sizes: Mapping[str, int]) -> dict[str, Roundings]:
        """For each tensor, the roundings of what the steps store in it, those of earlier steps included."""
        memory: dict[str, Roundings] = {}
        for step in self.steps:
            tensors = {n: value.name for n, value in step.by_name().items() if isinstance(value, ProgramTensor)}
            known = {name: memory.get(tensor, Roundings()) for name, tensor in tensors.items()}
            stored = roundings(step.kernel.trace(), step.size_values(sizes), known)
            for name, tensor in tensors.items():
                memory[tensor] = joined((memory.get(tensor, Roundings()), stored[name]))
        return memory


Runnable = Kernel | KernelProgram
"""What has a reference and runs on arguments by name."""


def substituted(extent: Extent, step: ProgramStep) -> Extent:
    """An extent of a step's kernel, over the sizes of the program."""
    if not is_symbolic(extent):
        return extent
    by_symbol = {size: as_expr(step.sizes[size.name]) for size in step.kernel.sizes}
    found = Index(as_expr(extent).xreplace(by_symbol))
    return int(found.expr) if found.expr.is_Integer else found


class Recorder:
    """The steps and temporaries of a program while its function runs."""

    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self.steps: list[ProgramStep] = []
        self.temporaries: list[ProgramTensor] = []

    def empty(self, dtype: DType, layout: Layout, name: str | None) -> ProgramTensor:
        number = len(self.temporaries)
        taken = {*self.program.signature, *(tensor.name for tensor in self.temporaries)}
        chosen = f"temporary{number}" if name is None else name
        if not isinstance(chosen, str) or not chosen.isidentifier() or chosen in taken:
            raise self.error(f"lego.empty: the name of a temporary is an unused identifier, got {chosen!r}")
        declared = Tensor(dtype, layout)
        tensor = ProgramTensor(chosen, declared.dtype, declared.layout, temporary=True)
        self.temporaries.append(tensor)
        return tensor

    def call(self, kernel: Runnable, arguments: tuple[Given, ...], sizes: Mapping[str, Given]) -> None:
        """Record a launch, or those of a program. Raises TraceError where an argument does not fit its parameter."""
        if isinstance(kernel, KernelProgram):
            if len(arguments) != len(kernel.signature) or sizes:
                raise self.error(f"program {kernel.name} takes {', '.join(kernel.signature)}, in order")
            kernel.function(*arguments)
            return
        names = list(kernel.signature)
        if len(arguments) != len(names):
            raise self.error(f"kernel {kernel.name} takes {', '.join(names)}; got {len(arguments)} arguments")
        if tables := kernel.tables():
            raise self.error(
                f"kernel {kernel.name} takes the run-time table {tables[0]}, which a program does not pass; leave out "
                "runtime=True"
            )
        given = dict(zip(names, arguments, strict=True))
        if none := [name for name, value in given.items() if value is None]:
            self.call(
                kernel.fixed(**dict.fromkeys(none)), tuple(value for value in arguments if value is not None), sizes
            )
            return
        for name, value in given.items():
            self._require_kind(kernel, name, value)
        bound = self._sizes(kernel, given, sizes)
        self._require_apart(kernel, given)
        step = ProgramStep(kernel, arguments, bound, user_line() or self.program.source)
        claims = [
            self._layout_claim(step, name, value) for name, value in given.items() if isinstance(value, ProgramTensor)
        ]
        self.steps.append(replace(step, claims=tuple(claims)))

    def _require_apart(self, kernel: Kernel, given: Mapping[str, Given]) -> None:
        """Refuse one tensor for two parameters, where the kernel writes one of them."""
        tensors = [(p, given[p.name]) for p in kernel.params if isinstance(given.get(p.name), ProgramTensor)]
        for number, (first, tensor) in enumerate(tensors):
            for second, other in tensors[number + 1 :]:
                if tensor == other and (first.written or second.written):
                    raise self.error(
                        f"{tensor.name} is passed as {first.name} and as {second.name} of {kernel.name}, which writes "
                        "one of them; threads run in no order: pass a temporary, lego.empty(..)"
                    )

    def _require_kind(self, kernel: Kernel, name: str, value: Given) -> None:
        kind = kernel.signature[name]
        where = f"{name} of {kernel.name}"
        if isinstance(kind, Tensor):
            if not isinstance(value, ProgramTensor):
                raise self.error(
                    f"{where} is a tensor: pass a parameter of the program or lego.empty(..), not {value!r}"
                )
            if value.dtype != kind.dtype:
                raise self.error(f"{where} has elements of {kind.dtype}, and {value.name} of {value.dtype}")
        elif isinstance(value, ProgramNumber):
            if value.dtype != kind:
                raise self.error(f"{where} is a {kind}, and {value.name} a {value.dtype}")
        elif isinstance(value, bool) or not (isinstance(value, Real) or is_symbolic(value)):
            raise self.error(f"{where} is a {kind}: pass a number, a size or a number of the program, not {value!r}")

    def _sizes(self, kernel: Kernel, given: Mapping[str, Given], named: Mapping[str, Given]) -> dict[str, Extent]:
        """The value of each size of the kernel: named, or an extent of an argument, or the size of the same name."""
        known = {size.name: size for size in kernel.sizes}
        for name, value in named.items():
            if name not in known:
                raise self.error(
                    f"kernel {kernel.name} has no size {name}; its sizes: {', '.join(known) or 'none'}; tensors and "
                    "numbers are passed in order"
                )
            if not (isinstance(value, int) or is_symbolic(value)):
                raise self.error(f"{name}={value!r}: a size of a program is an int or an expression of sizes")
        found = {name: value if isinstance(value, int) else Index(as_expr(value)) for name, value in named.items()}
        for name, value in given.items():
            kind = kernel.signature[name]
            if isinstance(kind, Tensor):
                found = {**_extents_of(kind.layout, value.layout), **found}
        declared = {size.name: size for size in self.program.declared_sizes()}
        for name, size in known.items():
            found.setdefault(name, Index(declared.get(name, size)))
            if refuted := _refuted_fact(size, found[name]):
                raise self.error(f"{name} of {kernel.name} is {found[name]} here, and {refuted}")
        return {name: found[name] for name in known}

    def _layout_claim(self, step: ProgramStep, name: str, value: ProgramTensor) -> tuple[str, Verdict]:
        """The claim that the memory of a tensor is what the kernel expects. Raises TraceError where it is refuted."""
        kind = step.kernel.signature[name]
        assert isinstance(kind, Tensor)
        from lego_mlir.layout.substitute import sizes_of, substitute

        symbols = sizes_of(kind.layout).items()
        values = {n: step.sizes[n] for n, s in symbols if n in step.sizes and as_expr(step.sizes[n]) != s}
        try:
            wanted = substitute(kind.layout, values)
        except LegoError as error:
            raise self.error(f"{name} of {step.kernel.name}: {error}") from error
        if len(wanted.dims()) == len(value.dims()):
            verdict = wanted.equivalent(value.layout)
        else:
            verdict = same_number(wanted.physical_size(), value.size)
        if isinstance(verdict, Refuted):
            raise self.error(
                f"{name} of {step.kernel.name} is {wanted!r} here, and {value.name} is {value.layout!r}: "
                f"{verdict.explanation or 'they differ in their number of elements'}"
            )
        return f"{value.name} is passed as {name} of {step.kernel.name}, {wanted!r}", verdict

    def error(self, message: str) -> TraceError:
        """An error with the line of the program that is running."""
        return TraceError(f"{user_line() or self.program.source}: {message}")


def _extents_of(declared: Layout, passed: Layout) -> dict[str, Extent]:
    """The sizes of a kernel that are an extent of a parameter's layout, as the argument has them."""
    pairs = [(declared.physical_size(), passed.physical_size())]
    if len(declared.dims()) == len(passed.dims()):
        pairs = [*zip(declared.dims(), passed.dims(), strict=True), *pairs]
    found: dict[str, Extent] = {}
    for extent, value in pairs:
        if is_symbolic(extent) and isinstance(symbol := as_expr(extent), Size):
            found.setdefault(symbol.name, value)
    return found


def _refuted_fact(size: Symbol, value: Extent) -> str:
    """The declaration of a kernel's size that the value of a program violates, with the sizes for which it does."""
    expr = as_expr(value)
    if expr == size:
        return ""
    claims = [
        (Le(size.min, expr), f"at least {size.min}"),
        (Eq(FloorMod(expr, size.multiple_of), 0), f"a multiple of {size.multiple_of}"),
    ]
    if size.max is not None:
        claims.append((Le(expr, size.max), f"at most {size.max}"))
    for claim, what in claims:
        verdict = prove(claim, {})
        if isinstance(verdict, Refuted):
            at = ", ".join(f"{name} = {number}" for name, number in verdict.counter_example.items())
            return f"must be {what}{f', which {at} violates; declare it of the size of the program' if at else ''}"
    return ""


def _used(signature: Mapping[str, Tensor | DType], steps: Sequence[ProgramStep]) -> tuple[Parameter, ...]:
    read: set[str] = set()
    written: set[str] = set()
    distinct: dict[str, Distinct] = {}
    for step in steps:
        uses = {parameter.name: parameter for parameter in step.kernel.params}
        for name, value in step.by_name().items():
            if isinstance(value, ProgramTensor):
                if uses[name].read and value.name not in written:
                    read.add(value.name)
                found = uses[name].distinct
                if found is not None and value.name not in written:
                    distinct.setdefault(value.name, found.subs(step.sizes))
                if uses[name].written:
                    written.add(value.name)
    return tuple(
        Parameter(
            name,
            kind.dtype,
            kind.layout,
            kind.layout.physical_size(),
            name in read,
            name in written,
            kind.values,
            distinct.get(name),
        )
        if isinstance(kind, Tensor)
        else Parameter(name, kind, None, None, True, False)
        for name, kind in signature.items()
    )


def empty(dtype: DType, layout: Layout, name: str | None = None) -> ProgramTensor:
    """A temporary tensor of a program: memory for one call, whose contents are undefined until a kernel writes it.

    Reports call it `name`, or temporary0, temporary1, .. Raises TraceError outside a function with @lego.program.
    """
    current = current_program.get()
    if not isinstance(current, Recorder):
        raise TraceError("lego.empty can be used only inside a function decorated with @lego.program")
    return current.empty(dtype, as_layout(layout), name)


def program(function: Callable[..., object]) -> KernelProgram:
    """Decorate a function that calls kernels on its parameters and on temporaries of `lego.empty`.

    Parameters are annotated as those of a kernel. The program has `@p.reference` and `@p.inputs` like a kernel, is
    run, analyzed and compiled by the command line, and called on arrays. Raises TraceError for other objects.
    """
    return KernelProgram(function, sys._getframe(1).f_locals)
