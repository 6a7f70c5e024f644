"""A template's launch as a trial: a CUDA text is compiled to a cubin here, a Triton text where it is measured.

Both become a program of a manifest with one step for each launch, so that the trial, its check and its timing are those
of a kernel. Triton's compiler needs no front end, and its version decides the code: the text travels to `triton_trials`
with the types that Triton's own launcher specialises for: a pointer or a number that 16 divides, and the number 1.

>>> specialised(32), specialised(7), specialised(2**40), specialised(0.5)
('i32:16', 'i32', 'i64:16', 'fp32')
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from lego_mlir.aliases import AnyArray, Json
from lego_mlir.errors import UsageError
from lego_mlir.runtime.comparing import STORED, WORDS
from lego_mlir.store import Cache, default_folder
from lego_mlir.tracing.words.declared_tensor import Tensor
from lego_mlir.tuning.gpu_trials import TRITON, GpuSampler, GpuTrial
from lego_mlir.tuning.template_launches import AddressesOf, Number, TemplateArgument, TemplateLaunch, extents_of

POINTEES: Final = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "f8e4m3fn": "fp8e4nv", "f8e5m2": "fp8e5"}
I32: Final = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class TemplateBuild:
    """All that another process needs to build the trial of a template: its text and the description of its launch."""

    text: str
    target: str
    described: Mapping[str, Any]
    checks: tuple[Path | bytes, ...]
    device: int = 0
    sizes: Mapping[str, int] = ()  # type: ignore[assignment]

    @property
    def emit(self) -> str:
        """What the code is: Triton's text, or a cubin."""
        return TRITON if self.described["code"] == TRITON else "cubin"

    def __call__(self) -> GpuTrial:
        """The trial; a CUDA text is compiled by NVRTC or nvcc. DependencyError without both, ToolchainError by them."""
        code = self.text.encode()
        if self.emit != TRITON:
            from lego_mlir.templates.run import nvrtc

            code = nvrtc.compile_text(self.text, target=self.target, cache=Cache(default_folder()))
        described = {**self.described, "code_sha256": hashlib.sha256(code).hexdigest()}
        return GpuTrial(code, described, self.checks, {}, device=self.device)

    def open(self) -> GpuSampler:
        """Compile and load."""
        return self().open()

    def with_data(self) -> TemplateBuild:
        """The same with the contents of its files, for another machine."""
        return replace(self, checks=tuple(c if isinstance(c, bytes) else c.read_bytes() for c in self.checks))


def build_of(launch: TemplateLaunch, name: str, checks: Sequence[Path | bytes], target: str) -> TemplateBuild:
    """The build of a template's launch; `name` is that of the program in its manifest."""
    described: Json = {
        "format": 1, "target": target, "code": TRITON if launch.language == "triton" else "cubin", "code_sha256": "",
        "versions": [], "kernels": _kernels(launch), "programs": [_program(launch, name)],
    }  # fmt: skip
    if launch.language == "triton":
        described["triton"] = _signature(launch)
    return TemplateBuild(launch.rendered.text, target, described, tuple(checks))


def _kernels(launch: TemplateLaunch) -> list[Json]:
    """Each kernel once, with the parameters that its code takes."""
    found: dict[str, Json] = {}
    block = None if launch.block is None else list(extents_of(launch.block))
    for kernel, grid, others in launch.launches:
        if kernel not in found:
            arguments = [_parameter(name, value) for name, value in _passed(launch, kernel, others).items()]
            found[kernel] = {
                "entry": kernel, "grid": list(extents_of(grid)), "block": block, "static_shared_bytes": 0,
                "dynamic_shared_bytes": launch.shared_bytes, "sizes": [], "arguments": arguments,
            }  # fmt: skip
    return list(found.values())


def _passed(launch: TemplateLaunch, kernel: str, others: Mapping[str, Number]) -> dict[str, TemplateArgument]:
    """The values that a launch passes: in Triton's code neither a constexpr nor the number 1 is a parameter."""
    values = launch.values(kernel, others)
    constants = _constants(launch, kernel, values) if launch.language == "triton" else {}
    return {name: value for name, value in values.items() if name not in constants}


def _constants(
    launch: TemplateLaunch, kernel: str, values: Mapping[str, TemplateArgument]
) -> dict[str, TemplateArgument]:
    declared = launch.constants(kernel)
    ones = [name for name, value in values.items() if type(value) is int and value == 1]
    for name in declared:
        if not isinstance(values[name], bool | int | float | str):
            raise UsageError(f"{launch.template.name}: {name} is a tl.constexpr, so its argument is a number")
    return {name: values[name] for name in values if name in declared or name in ones}


def _signature(launch: TemplateLaunch) -> Json:
    """What Triton compiles: the kernel, the types of its arguments, the values of its constants, its options."""
    if any(name == "num_ctas" and n > 1 for name, n in launch.options):
        raise UsageError(f"{launch.template.name}: num_ctas above 1 is not timed; leave num_ctas out of the space")
    values = launch.values(launch.kernel, {})
    constants = _constants(launch, launch.kernel, values)
    types = {name: _triton_type(value) for name, value in values.items() if name not in constants}
    return {"kernel": launch.kernel, "signature": types, "constants": constants, "options": dict(launch.options)}


def _triton_type(value: TemplateArgument) -> str:
    if isinstance(value, AddressesOf):
        return "*i64:16"
    if isinstance(value, Tensor):
        return f"*{POINTEES.get(value.dtype.name, value.dtype.name)}:16"
    return specialised(value) if isinstance(value, bool | int | float) else f"*{_dtype_of(value)}:16"


def specialised(value: bool | int | float) -> str:
    """The type that Triton gives to a number."""
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, float):
        return "fp32"
    return f"{'i32' if value in I32 else 'i64'}{':16' if value % 16 == 0 else ''}"


def _dtype_of(array: AnyArray) -> str:
    """The element type of a NumPy array, in the language's words."""
    names = [name for name, stored in STORED.items() if stored == array.dtype.name and name not in (*WORDS, "i1")]
    if not names:
        raise UsageError(f"an array of {array.dtype} is not an argument of a kernel; convert it")
    return names[0]


def _parameter(name: str, value: TemplateArgument) -> Json:
    """A parameter of a kernel in a manifest."""
    if isinstance(value, bool | int | float):
        kind = specialised(value).partition(":")[0]
        return {"name": name, "kind": "scalar", "dtype": {"fp32": "f32"}.get(kind, kind)}
    dtype = value.dtype.name if isinstance(value, Tensor) else "i64" if isinstance(value, AddressesOf) else None
    return {"name": name, "kind": "tensor", "dtype": dtype or _dtype_of(value)}


def _program(launch: TemplateLaunch, name: str) -> Json:
    """The program: every tensor, the arrays of addresses, and a step for each launch."""
    from lego_mlir.tuning.template_checks import flat_tensors

    arguments: list[Json] = [
        {"name": tensor, "kind": "tensor", "dtype": declared.dtype.name, "elements": declared.layout.physical_size()}
        for tensor, declared in flat_tensors(launch).items()
    ]
    for argument, value in launch.arguments.items():
        if isinstance(value, AddressesOf):
            of = [f"{argument}.{i}" for i in range(len(value.tensors))]
            arguments.append({**_parameter(argument, value), "elements": len(of), "addresses_of": of})
        elif not isinstance(value, Tensor | bool | int | float):
            arguments.append({**_parameter(argument, value), "elements": int(value.size)})
    tables = {n: t for n, t in launch.rendered.tables.items() if n not in launch.arguments}
    arguments += [{"name": n, "kind": "tensor", "dtype": "i32", "elements": len(t)} for n, t in tables.items()]
    steps = []
    for kernel, grid, others in launch.launches:
        passed = _passed(launch, kernel, others)
        given = [
            {"value": value} if isinstance(value, bool | int | float) else {"name": parameter}
            for parameter, value in passed.items()
        ]
        steps.append({"entry": kernel, "sizes": {}, "arguments": given, "grid": list(extents_of(grid))})
    return {
        "entry": name, "grid": None, "block": None, "dynamic_shared_bytes": 0, "static_shared_bytes": 0, "sizes": [],
        "arguments": arguments, "temporaries": [], "steps": steps,
    }  # fmt: skip
