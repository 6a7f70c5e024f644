"""A template with its launch: what `lego.tune` builds from a configuration where a kernel is rendered text.

Text alone does not say how it is launched. A `TemplateLaunch` has the kernel's name, its grid, a value for each of its
parameters, and the reference that its results are compared with. Parameters are found by their names in the text:

>>> from lego_mlir import Row, Tensor, f32
>>> from lego_mlir.templates.library.rows import softmax
>>> X = Tensor(f32, Row(64, 100))
>>> launch = TemplateLaunch(
...     softmax(64, 100), "softmax", 64, {"x_ptr": X, "y_ptr": X}, writes=["y_ptr"], reference=lambda x_ptr: x_ptr)
>>> launch.parameters("softmax"), launch.language
(('x_ptr', 'y_ptr'), 'triton')
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lego_mlir.aliases import Given
from lego_mlir.errors import TemplateError, UsageError, brief, did_you_mean
from lego_mlir.hardware.limits import refusal
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.templates import Rendered, Template

TemplateArgument: TypeAlias = "Tensor | AddressesOf | Given"
Extents = int | Sequence[int]
Number = int | float | bool
OneMore = tuple[str, Extents, Mapping[str, Number]]
CONSTEXPR: Final = "constexpr"
_CUDA: Final = r'extern\s+"C"\s+__global__[^;{{]*?\b{name}\s*\('


@dataclass(frozen=True, slots=True)
class AddressesOf:
    """An argument that is an array of addresses, as a kernel of grouped products takes it: one for each tensor."""

    tensors: tuple[Tensor, ...]

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        object.__setattr__(self, "tensors", tuple(tensors))


@dataclass(frozen=True, eq=False)
class TemplateLaunch:
    """A template, the launch of one of its kernels, and the reference of what it writes.

    `arguments` has a value for each parameter of the kernel, by its name in the text: a `Tensor`, whose memory is made,
    a NumPy array, which is passed as it is, `AddressesOf`, or a number, for a `tl.constexpr` as well. Those in `writes`
    are compared with `reference`, a NumPy function of arguments by name; what it takes is read before it is written.
    `block` and `shared_bytes`, of dynamic shared memory, are those of a CUDA kernel. `then` are further launches of a
    CUDA template in order: kernel, grid, and numbers that differ. `tolerance` is relative to the largest value.
    Raises TemplateError and UsageError.
    """

    template: Template
    kernel: str
    grid: Extents
    arguments: Mapping[str, TemplateArgument]
    writes: Sequence[str]
    reference: Callable[..., Any]
    block: Extents | None = None
    shared_bytes: int = 0
    then: Sequence[OneMore] = ()
    tolerance: float | None = None
    options: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        for _, grid, _ in self.launches:
            self._require_extents("grid", grid)
        if self.language == "cuda":
            if self.block is None:
                raise UsageError(f"{self.template.name}: a CUDA kernel needs the threads of a block: block=(x, y, z)")
            self._require_extents("block", self.block)
        elif self.block is not None or self.shared_bytes or self.then:
            raise UsageError(
                f"{self.template.name}: block, shared_bytes and then are for CUDA templates; Triton chooses the block "
                "from num_warps, and one kernel is launched"
            )
        for name in self.writes:
            if not isinstance(self.arguments.get(name), Tensor | AddressesOf):
                raise UsageError(
                    f"{self.template.name}: {name} is written, and its argument must be a Tensor or AddressesOf, got "
                    f"{brief(self.arguments.get(name), 60)}"
                )
        if not self.writes or not callable(self.reference):
            raise UsageError(
                f"{self.template.name}: a launch is checked before it is timed; name what it writes and give a "
                "reference, a NumPy function of its arguments"
            )
        if unknown := [name for name in self.read if name not in self.arguments]:
            raise UsageError(
                f"{self.template.name}: the reference takes {', '.join(unknown)}, and the arguments are "
                f"{', '.join(self.arguments)}{did_you_mean(unknown[0], self.arguments)}"
            )

    def _require_extents(self, what: str, extents: Extents) -> None:
        if problem := refusal(what, extents_of(extents)):
            raise UsageError(f"{self.template.name}: {self.kernel}: {problem}")

    @property
    def language(self) -> str:
        """The language of the template: triton or cuda."""
        return self.template.language

    @property
    def read(self) -> tuple[str, ...]:
        """The arguments that the reference takes, by name; all for `**arrays`. What has a default is its own."""
        found = inspect.signature(self.reference).parameters.items()
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for _, p in found):
            return tuple(self.arguments)
        return tuple(name for name, p in found if name in self.arguments or p.default is inspect.Parameter.empty)

    @property
    def launches(self) -> tuple[OneMore, ...]:
        """Each launch in order: the kernel, its grid, and the numbers that differ from `arguments`."""
        return (self.kernel, self.grid, {}), *self.then

    @cached_property
    def rendered(self) -> Rendered:
        """The rendered text."""
        return self.template.render()

    def with_options(self, options: Mapping[str, int]) -> TemplateLaunch:
        """The same with launch options of Triton, such as num_warps; those that it was made with count more."""
        return replace(self, options=tuple(sorted({**options, **dict(self.options)}.items())))

    @property
    def text(self) -> str:
        """What the code and its launch are made from."""
        shown = {name: brief(value, 200) for name, value in self.arguments.items()}
        return f"{self.launches} {self.block} {self.shared_bytes} {self.options} {shown}\n{self.rendered.text}"

    def parameters(self, kernel: str) -> tuple[str, ...]:
        """The parameters of a kernel in the order of the text. Raises TemplateError where it has no such kernel."""
        names = parameters_of(self.rendered.text, kernel, self.language)
        if names is None:
            raise TemplateError(f"{self.template.name}: the rendered text has no kernel {kernel!r}")
        return tuple(names)

    def constants(self, kernel: str) -> tuple[str, ...]:
        """The parameters of a Triton kernel that are `tl.constexpr`."""
        names = parameters_of(self.rendered.text, kernel, self.language) or {}
        return tuple(name for name, kind in names.items() if kind == CONSTEXPR)

    def values(self, kernel: str, others: Mapping[str, Number]) -> dict[str, TemplateArgument]:
        """The value of each parameter of a kernel; tables of the template's layouts among them.

        Raises UsageError for a parameter without a value, and for a name that is not a parameter.
        """
        import numpy

        tables = {name: numpy.array(table, numpy.int32) for name, table in self.rendered.tables.items()}
        given = {**tables, **self.arguments, **others}
        names = self.parameters(kernel)
        if missing := [name for name in names if name not in given]:
            raise UsageError(
                f"{self.template.name}: {kernel}({', '.join(names)}) has no value for {', '.join(missing)}; the "
                f"arguments are {', '.join(self.arguments)}{did_you_mean(missing[0], self.arguments)}"
            )
        known = {name for one, _, _ in self.launches for name in self.parameters(one)}
        if unused := [name for name in [*self.arguments, *others] if name not in known]:
            raise UsageError(
                f"{self.template.name}: {kernel}({', '.join(names)}) does not take {', '.join(unused)}"
                f"{did_you_mean(unused[0], names)}"
            )
        return {name: given[name] for name in names}


def extents_of(extents: Extents) -> tuple[int, ...]:
    """A grid or block as a tuple."""
    return (int(extents),) if hasattr(extents, "__index__") else tuple(int(n) for n in extents)


def parameters_of(text: str, kernel: str, language: str) -> dict[str, str] | None:
    """The parameters of a kernel and the kind of each, "" or "constexpr"; None where the text has no such kernel.

    >>> parameters_of('extern "C" __global__ void __launch_bounds__(64) f(int *__restrict__ x, int n) {}', "f", "cuda")
    {'x': '', 'n': ''}
    >>> parameters_of("def f(x_ptr, n, BLOCK: tl.constexpr): pass", "f", "triton")
    {'x_ptr': '', 'n': '', 'BLOCK': 'constexpr'}
    """
    if language == "triton":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name == kernel:
                return {
                    a.arg: CONSTEXPR if a.annotation and CONSTEXPR in ast.unparse(a.annotation) else ""
                    for a in node.args.args
                }
        return None
    found = re.search(_CUDA.format(name=re.escape(kernel)), text)
    if found is None:
        return None
    listed, depth, begin = [], 1, found.end()
    for at in range(found.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 or (depth == 1 and text[at] == ","):
            listed.append(text[begin:at])
            begin = at + 1
        if depth == 0:
            break
    return {word[-1]: "" for one in listed if (word := re.findall(r"\w+", one))}
