"""`lego_mlir.matmul(a, b)`: the product of two arrays on a GPU, by a kernel chosen for their size.

    import torch, lego_mlir
    c = lego_mlir.matmul(a, b)          # CuPy, PyTorch, or whatever speaks DLPack; f16 or bf16, in rows or in columns

The kernel is chosen from the table that comes with the package, traced for exactly these sizes, and compiled at its
first use: into the cache on disk, from where other processes take it. An array in rows or in columns is used in
place; another one is copied. Rows of an odd number of elements cannot be copied asynchronously: such products are right
and slow. The result has the type of `a` unless another is requested. It is PyTorch's where `a` is, else CuPy's, which
has no bfloat16: there such a result comes as its 16-bit words. The product has no derivative: tensors that require a
gradient are refused, unless gradients are disabled, and so are arrays in the host's memory.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.aliases import DeviceArray, Tensor

PIPELINED: Final = "matmul_sm80.mlir"
NOT_AHEAD: Final = "ldmatrix_mma.mlir"  # copies by the threads themselves, in step with the products
LEAST_COPY: Final = 4  # bytes that an asynchronous copy moves at least; PTX ISA, "cp.async"
LEAST: Final = 80  # the compute capability from which cp.async, ldmatrix and mma.sync m16n8k16 are there
ALIGNMENT: Final = 16  # bytes: the widest access of a kernel
CUDA_MEMORY: Final = (2, 13)  # kDLCUDA and kDLCUDAManaged; DLPack, "DLDeviceType"
_INPUTS: Final = {"float16": "f16", "bfloat16": "bf16"}
_RESULTS: Final = {**_INPUTS, "float32": "f32"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A product by everything that its kernel depends on; `layouts` is NN, NT, TN or TT, T for columns.

    `multiprocessors` of the device count where the blocks of a kernel are persistent.
    """

    m: int
    n: int
    k: int
    dtype: str
    result: str
    layouts: str
    target: str
    multiprocessors: int


def matmul(a: Tensor, b: Tensor, *, result: str | None = None) -> Tensor:
    """a @ b for two matrices on the device; `result` names the type of the result, such as "float32".

    It is computed on their device, on CuPy's current stream. Raises UsageError for arrays that cannot be
    multiplied here, DependencyError without CuPy or a device.
    """
    from lego_mlir.runtime.cuda import cupy

    cp = cupy()
    left, right = (_operand(cp, name, array) for name, array in (("a", a), ("b", b)))
    (m, k), (depth, n) = left.shape, right.shape
    if k != depth or left.dtype != right.dtype:
        raise UsageError(
            f"matmul of {m} x {k} {left.dtype} and {depth} x {n} {right.dtype}: the inner sizes and the types must "
            "agree"
        )
    name = left.dtype if result is None else result
    if name not in _RESULTS:
        raise UsageError(f"matmul: the result is one of {', '.join(_RESULTS)}, got {name!r}")
    device = left.memory.device
    if right.memory.device.id != device.id:
        raise UsageError(
            f"matmul: a is on device {device.id} and b on device {right.memory.device.id}; move one of them"
        )
    target, count = target_of(device.compute_capability), int(device.attributes["MultiProcessorCount"])
    problem = Problem(m, n, k, _INPUTS[left.dtype], _RESULTS[name], left.order + right.order, target, count)
    stored = "uint16" if name == "bfloat16" else name
    with device:
        product = cp.empty((m, n), dtype=stored)
        launcher(problem, device.id)(left.memory, right.memory, product.reshape(-1))
    return _like(a, product, name)


@dataclass(frozen=True, slots=True)
class _Operand:
    """An array on the device: its elements in memory order, and the order of the matrix in it."""

    memory: Any
    shape: tuple[int, int]
    dtype: str
    order: str


def _operand(cp: Any, name: str, array: Tensor) -> _Operand:
    dtype = str(getattr(array, "dtype", "")).rpartition(".")[2]
    shape = tuple(getattr(array, "shape", ()))
    if dtype not in _INPUTS or len(shape) != 2 or 0 in shape:
        raise UsageError(
            f"matmul takes matrices of {' or '.join(_INPUTS)}, got {name} of {dtype or type(array).__name__} and shape "
            f"{shape}"
        )
    if not isinstance(array, cp.ndarray):
        _require_on_device(name, array)
    words = array
    if _is_torch(array):  # CuPy has no bfloat16, and needs only the words
        words = array.detach().view(sys.modules["torch"].int16)
    if not isinstance(words, cp.ndarray):
        words = cp.from_dlpack(words)
    in_columns = words.flags.f_contiguous and not words.flags.c_contiguous
    if in_columns:
        words = words.T
    words = cp.ascontiguousarray(words)
    if words.data.ptr % ALIGNMENT:
        words = words.copy()
    return _Operand(words.reshape(-1), (int(shape[0]), int(shape[1])), dtype, "T" if in_columns else "N")


def _require_on_device(name: str, array: Tensor) -> None:
    """Refuse what has no memory on a device, and a tensor whose gradient the product would lose."""
    if _is_torch(array):
        if array.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise UsageError(
                f"matmul: {name} requires a gradient, and this product has no derivative; pass {name}.detach(), or "
                "call it under torch.no_grad()"
            )
        if array.device.type != "cuda":
            raise UsageError(f"matmul: {name} is on {array.device}; move it to the GPU: {name}.cuda()")
    elif not hasattr(array, "__dlpack_device__"):
        raise UsageError(f"matmul: {name} is a {type(array).__name__}, which does not speak DLPack; pass a CuPy array")
    elif int(array.__dlpack_device__()[0]) not in CUDA_MEMORY:
        kind = type(array).__module__.partition(".")[0]
        raise UsageError(
            f"matmul: {name}, of {kind}, is in the host's memory; move it to the GPU: cupy.asarray({name})"
        )


def _is_torch(array: Tensor) -> bool:
    return type(array).__module__.partition(".")[0] == "torch"


def _like(given: Tensor, product: DeviceArray, dtype: str) -> Tensor:
    """The product as PyTorch's where `given` is."""
    if not _is_torch(given):
        return product
    torch = sys.modules["torch"]
    if dtype == "bfloat16":
        return torch.from_dlpack(product.view("int16")).view(torch.bfloat16)
    return torch.from_dlpack(product)


def target_of(capability: str) -> str:
    """The target to compile for on a device of this compute capability: its own, or the newest one before it."""
    from lego_mlir.hardware.targets import TARGETS

    device = int(capability)
    known = sorted({int(name.removeprefix("sm_")) for name in TARGETS if name.removeprefix("sm_").isdigit()})
    usable = [n for n in known if LEAST <= n <= device]
    if not usable:
        raise UsageError(f"matmul needs a device of compute capability {LEAST} or later, and this one is {device}")
    return f"sm_{usable[-1]}"


def kernel_for(problem: Problem) -> tuple[Any, str, dict[str, int]]:
    """The kernel that the table names for a problem, its script, and the script's parameters."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.kernels import choices, matmul
    from lego_mlir.layout import Col, Row
    from lego_mlir.tracing.dtypes import dtype_named

    p = problem
    room = target_named(p.target).shared_per_block
    result = dtype_named(p.result)
    chosen = choices.choose(choices.load(), p.m, p.n, p.k, p.layouts, room, result.bytes)
    a, b = (
        (Col if letter == "T" else Row)(*dims) for letter, dims in zip(p.layouts, ((p.m, p.k), (p.k, p.n)), strict=True)
    )
    built = matmul.build(
        p.m, p.n, p.k, dtype_named(p.dtype), a=a, b=b, result=result, tiling=chosen.tiling, order=chosen.order,
        blocks=chosen.blocks(p.multiprocessors),
    )  # fmt: skip
    copied = (access for _, access in built.trace().accesses() if access.buffer.name in ("a", "b"))
    if any(access.width * access.buffer.dtype.bytes < LEAST_COPY for access in copied):
        return built, NOT_AHEAD, {}
    return built, PIPELINED, {"stages": chosen.stages}


@cache
def launcher(problem: Problem, device: int) -> Any:
    """The kernel of a problem, compiled and loaded onto the current device; kept for the life of the process."""
    from lego_mlir.runtime import cuda
    from lego_mlir.store import replace_file
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    kernel, script, parameters = kernel_for(problem)
    compilation = compile_kernel(
        kernel, transform=script, parameters=parameters, target=problem.target, emit="ptx",
        cache=Cache(default_folder()),
    )  # fmt: skip
    manifest = compilation.manifest
    path = default_folder() / "matmul" / f"{manifest['code_sha256']}.ptx"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, compilation.bytes)
    replace_file(path.with_suffix(".json"), json.dumps(manifest).encode())
    return cuda.load(path).kernel()
