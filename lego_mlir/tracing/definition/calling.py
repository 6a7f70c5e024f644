"""Calls of a kernel on arrays: `k(a, b)`, `k.on(stream)`, `k.prepare(..)`, `k.compile(..)`, `k.ptx()`.

Arrays, devices and launches belong to `runtime`, which is above this room. So nothing of it is imported here: the
package `lego_mlir` has the public names of all rooms, `calls_of` among them, and a kernel looks it up there at its
first call, as a user's file looks up `lego.kernel`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import Given, Returned
from lego_mlir.tracing.definition.recording import current_program

if TYPE_CHECKING:
    from lego_mlir.toolchain import Compilation


class OnArrays:
    """A kernel's calls on arrays, and its compilation without any.

    It has the name, the documentation and the signature of its function, and is pickled by its name, as a function is.
    """

    __name__: str
    __qualname__: str

    def __reduce__(self) -> str:
        """The name under which the module has it. Raises PicklingError where that is something else."""
        found: object = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is not self:
            raise PicklingError(
                f"{self!r} is pickled by its name, {self.__module__}.{self.__qualname__}, which is not this kernel; "
                "make it at the top of a module, under its function's name, or build it where it is used"
            )
        return self.__qualname__

    @cached_property
    def calls(self) -> Returned:
        """The calls of this kernel, with a plan for each combination of shapes."""
        import lego_mlir

        return lego_mlir.calls_of(self)  # type: ignore[arg-type]  # a Kernel is the only subclass

    def __call__(self, *arrays: Given, check: bool = False, **named: Given) -> Returned:
        """Run the kernel on arrays, on their device: `k(a, b, c)`; sizes that the shapes do not give by name.

        NumPy arrays run on the CPU, with `check=True` in the interpreter; CUDA arrays on the current stream of their
        library. Results may be left out, and are then allocated. Returns the tensors that the kernel writes. Raises
        UsageError for arguments that do not fit, KernelFaultError for faults of a checked run. See
        docs/how-to/calling.md.
        """
        if (program := current_program.get()) is not None:
            return program.call(self, arrays, named)  # type: ignore[arg-type]
        return self.calls.call(arrays, named, None, check) if check else self.calls(*arrays, **named)

    # PyTorch's compiler reads these two: it breaks the graph at a call instead of tracing into bindings and launches.
    __call__._torchdynamo_disable = True  # type: ignore[attr-defined]
    __call__._torchdynamo_disable_msg = (  # type: ignore[attr-defined]
        "a kernel of lego-mlir is not traced; make it an operator, which is: op = lego.torch.op(kernel)"
    )

    def on(self, stream: Given) -> Callable[..., Returned]:
        """The kernel on a stream: `k.on(stream)(a, b, c)`; a stream of PyTorch, CuPy or cuda.core, or its handle."""
        return self.calls.on(stream)

    def prepare(self, *arrays: Given, **named: Given) -> Callable[..., Returned]:
        """Bind and check arrays once: a function that launches on them, or on others of the same types and shapes.

        The cheapest way to launch often: it checks nothing again.
        """
        return self.calls.prepare(*arrays, **named)

    def transformed(self, script: str | Path, **parameters: int | bool) -> Returned:
        """The kernel compiled for GPUs through a transform script: `k.transformed("matmul_sm80.mlir", stages=3)(..)`.

        The result is called, and has `on` and `prepare`, as the kernel itself.
        """
        return self.calls.transformed(script, **parameters)

    def compile(
        self,
        target: str = "sm_80",
        *,
        emit: str = "ptx",
        transform: str | Path | None = None,
        parameters: Mapping[str, int | bool] | None = None,
        cache: bool = True,
    ) -> Compilation:
        """Compile to a stage, `ptx` or `cubin` to run: its `text` or `bytes`, and its `manifest`.

        See `toolchain.compile_kernel`; what the cache on disk has is not compiled again.
        """
        from lego_mlir.toolchain import Cache, compile_kernel, default_folder

        return compile_kernel(
            self, target=target, emit=emit, transform=transform, parameters=parameters,
            cache=Cache(default_folder()) if cache else None,
        )  # fmt: skip

    def ptx(self, target: str = "sm_80", **options: Any) -> str:
        """The PTX of the kernel; `options` are those of `compile`."""
        return self.compile(target, **options).text
