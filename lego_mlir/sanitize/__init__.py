"""Check anybody's GPU kernel without a GPU: CUDA, Triton, PTX and our own, on NumPy arrays or CPU tensors.

    report = lego_mlir.sanitize.cuda("saxpy.cu")[grid, block](x, y, 2.0, n)      compiled by nvcc
    report = lego_mlir.sanitize.ptx(text, "saxpy")[grid, block](x, y, 2.0, n)
    lego_mlir.sanitize.triton()                                                  from then on, kernel[grid](..)

A report has the faults by line of the source: accesses outside of arrays, reads of what nobody wrote, races, barriers
that not all threads reach, deadlocks, asynchronous copies used too early, leaks. Arrays hold the results.

sanitized_kernels   `cuda`, `ptx`, `traced`: something to subscript with a launch and to call
storages            arrays and tensors as arguments: views of one memory share a buffer; memory that nobody wrote
drawn_arguments     `x=f32[1024,512]:normal`, as the command line and launch files have it
launch_files        many launches in one TOML file
cuda_text           CUDA C++ to PTX with line numbers, by nvcc or clang
triton_driver       a driver under which Triton's kernels run in the emulator
cuda_stand_in       PyTorch's device "cuda" as the CPU, for projects that name it
sessions            what to do about a fault: raise, warn or collect
findings, fault_page  reports for code hosts, and as a page of the annotated source
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.late_names import attached as _attached

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.texture_memory import TextureArgument as TextureArgument
    from lego_mlir.sanitize.sanitized_kernels import SanitizedKernel as SanitizedKernel
    from lego_mlir.sanitize.sanitized_kernels import cuda as cuda
    from lego_mlir.sanitize.sanitized_kernels import ptx as ptx
    from lego_mlir.sanitize.sanitized_kernels import traced as traced
    from lego_mlir.sanitize.sessions import LaunchFaultError as LaunchFaultError
    from lego_mlir.sanitize.sessions import Session as Session
    from lego_mlir.sanitize.sessions import session as session
    from lego_mlir.sanitize.storages import empty as empty

# Loaded late: pytest imports the plugin in every run of everybody's tests.
__getattr__, __dir__, _names = _attached(__name__)
__all__ = [*_names, "triton"]


def triton(arch: int = 90, *, autotune: str = "all", cuda: bool = False) -> None:
    """Run Triton's kernels in the emulator from now on, compiled for `sm_<arch>`, on CPU tensors.

    `autotune`: check `all` configurations of an autotuned kernel, or the `first`. With `cuda`, PyTorch's device "cuda"
    means the CPU until the process ends, for projects that name it. Raises DependencyError without a Triton that is
    supported.
    """
    from lego_mlir.sanitize import triton_driver

    triton_driver.install(arch, autotune=autotune)
    if cuda:
        from lego_mlir.sanitize import cuda_stand_in

        cuda_stand_in.install(arch)
