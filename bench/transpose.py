"""The transpose, five ways from one kernel, against CUDA by hand, Triton, torch, CuPy and a copy of the same bytes.

    python bench/transpose.py transpose STEP          the steps of `runner.py`
    python bench/transpose.py transpose_bytes STEP    elements of a byte, odd sizes, in several tiles

The CUDA baselines (naive, through shared memory, padded, 16 bytes at once) are in rivals/transpose.cu, compiled by
nvcc; of the last and of Triton there are several tiles, and the fastest is taken. The bound is the faster of two copies
of the same bytes, PyTorch's and the driver's.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "transpose", "results/transpose.md", "sm_90"
SIZES = (1024, 2048, 4096, 8192, 16384)
ODD = (4097, 8191)
DTYPES = {"f32": "float", "f16": "uint16_t"}
VARIANTS = ("naive", "shared", "padded", "swizzled", "vectorised")
BY_HAND = ("naive", "shared", "padded", "vectorised")
COPIES = ("copy", "copy by the driver")
RIVALS = Path(__file__).parent / "rivals" / "transpose.cu"
TRITON_TILES = ((32, 32), (64, 32), (32, 64), (64, 64), (128, 32), (32, 128), (128, 64), (64, 128), (128, 128))
TRITON_WARPS = (2, 4, 8)


def compiled(variant: str, size: int, dtype: str) -> Any:
    from lego_mlir.kernels import transpose
    from lego_mlir.tracing.trace.dtypes import dtype_named

    return mlir_kernels.compiled(transpose.build(variant, size, size, dtype_named(dtype)), TARGET, "ptx")


def by_hand(dtype: str) -> Any:
    """The baselines of an element type: one cubin of all kernels, and the resources of each."""
    from lego_mlir.templates.run import nvcc

    return nvcc.compile_text(f"#define ELEMENT {DTYPES[dtype]}\n{RIVALS.read_text()}", target=TARGET, name="transpose")


def static() -> list[dict[str, Any]]:
    """Ours at 4096; of the cubin by hand, which holds several kernels, the resources."""
    rows = []
    for dtype in DTYPES:
        for variant in VARIANTS:
            made = compiled(variant, 4096, dtype)
            code = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
            rows.append(harness.static_row(code, "BRA", kernel=f"ours {variant} {dtype}", dtype=dtype, variant=variant))
        for resources in sorted(by_hand(dtype).resources, key=lambda r: r.kernel):
            variant = resources.kernel.removeprefix("transpose_")
            code = SimpleNamespace(code=(), resources=resources, shared_bytes=None)
            row = harness.static_row(code, "BRA", kernel=f"by hand {variant} {dtype}", dtype=dtype, variant=variant)
            rows.append({**row, "instructions": None, "all": None})
    return rows


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for dtype in DTYPES:
        (folder / f"by_hand-{dtype}.cubin").write_bytes(by_hand(dtype).cubin)
    for (dtype, size), variant in product(cases, VARIANTS):
        mlir_kernels.keep(folder, f"{variant}-{dtype}-{size}", compiled(variant, size, dtype))


def timed(folder: Path, dtype: str, size: int) -> list[harness.Contender]:
    return Case(folder, dtype, size).contenders()


class Case:
    """One matrix, and every way to transpose it."""

    def __init__(self, folder: Path, dtype: str, size: int) -> None:
        import cupy as cp
        import torch

        self.folder, self.dtype, self.size = folder, dtype, size
        kind = {"f32": torch.float32, "f16": torch.float16}[dtype]
        self.source = torch.randn((size, size), device="cuda", dtype=kind)
        self.target = torch.empty_like(self.source)
        self.given, self.taken = cp.from_dlpack(self.source), cp.from_dlpack(self.target)

    def contenders(self) -> list[harness.Contender]:
        import cupy as cp

        by_driver = cp.cuda.runtime.memcpyAsync
        addresses = (self.taken.data.ptr, self.given.data.ptr, self.given.nbytes, cp.cuda.runtime.memcpyDeviceToDevice)
        ways = (lambda: self.target.copy_(self.source), lambda: by_driver(*addresses, cp.cuda.get_current_stream().ptr))
        copies = [harness.contender(run, kernel=name, **self.facts) for name, run in zip(COPIES, ways, strict=True)]
        turned = self.source.t()
        ways = [harness.exact(run, self.target, turned, kernel=k, **self.facts) for k, run in self.ways().items()]
        return [*copies, *ways]

    @property
    def facts(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "size": self.size}

    def ways(self) -> dict[str, Any]:
        import cupy as cp

        found = {}
        memory = (self.given.reshape(-1), self.taken.reshape(-1))
        for variant in VARIANTS:
            launch = mlir_kernels.launcher(self.folder, f"{variant}-{self.dtype}-{self.size}")
            found[f"ours {variant}"] = lambda launch=launch: launch(*memory)
        module = cp.RawModule(path=str(self.folder / f"by_hand-{self.dtype}.cubin"))
        for variant in ("naive", "shared", "padded"):
            function = module.get_function(f"transpose_{variant}")
            found[f"CUDA {variant}"] = self.launch(function, 32, (32, 8))
        if self.size % 16 == 0:  # by hand there is no vector for odd sizes
            found["CUDA vectorised"] = self.vectorised_by_hand(module)
        found["torch"] = lambda: self.target.copy_(self.source.t())
        found["CuPy"] = lambda: cp.copyto(self.taken, self.given.T)
        triton = self.triton()
        return {**found, "Triton": triton} if triton else found

    def launch(self, function: Any, side: int, block: tuple[int, ...]) -> Any:
        import numpy as np

        tiles = -(-self.size // side)
        arguments = (self.given, self.taken, np.int32(self.size), np.int32(self.size))
        return lambda: function((tiles, tiles), block, arguments)

    def vectorised_by_hand(self, module: Any) -> Any:
        """The faster of two tiles."""
        size, runs = self.source.element_size(), {}
        for kernel, side in (("transpose_vectorised", 256 // size), ("transpose_vectorised_small", 128 // size)):
            threads = (side * size // 16) ** 2
            runs[kernel] = self.launch(module.get_function(kernel), side, (threads,))
        return runs[harness.best(runs)]

    def triton(self) -> Any:
        """The fastest of a few tiles; None without Triton."""
        try:
            from rivals.triton_transpose import transpose
        except ImportError:
            return None
        n, runs = self.size, {}
        for tile in TRITON_TILES:
            for warps in TRITON_WARPS:
                launch = transpose[(-(-n // tile[1]), -(-n // tile[0]))]
                runs[tile, warps] = lambda launch=launch, tile=tile, warps=warps: launch(
                    self.source, self.target, n, n, *tile, num_warps=warps
                )
        return runs[harness.best(runs)]


def table() -> None:
    """The tables of the documentation, from the newest results."""
    cells = []
    for r in mlir_kernels.static_results(NAME, TARGET):
        known = [r["registers"], r["spill_bytes"], r["shared_bytes"], r["instructions"]]
        cells.append([r["kernel"], *("" if x is None else str(x) for x in known)])
    text = mlir_kernels.table("kernel|registers|spills|shared bytes|instructions", cells)
    mlir_kernels.put_into(PAGE, "static", text)
    mlir_kernels.put_into(PAGE, "measured", *shares(NAME, SIZES))
    mlir_kernels.put_into(PAGE, "odd", *shares(NAME if measured(NAME, ODD) else f"{NAME}_odd", ODD))


def measured(name: str, sizes: Sequence[int]) -> bool:
    """Whether the newest results have these sizes; odd ones once had results of their own."""
    return bool({row["size"] for row in (mlir_kernels.latest(name) or {"rows": ()})["rows"]} & set(sizes))


def shares(name: str, sizes: Sequence[int]) -> tuple[str, mlir_kernels.Table]:
    """The copy's time divided by each kernel's, for each element type."""
    results = mlir_kernels.latest(name)
    rows = [] if results is None else results["rows"]
    names = [*(f"ours {v}" for v in VARIANTS), *(f"CUDA {v}" for v in BY_HAND), "Triton", "torch", "CuPy"]
    copies: dict[Any, float] = {}
    for r in rows:
        if r["kernel"] in COPIES:
            copies[r["dtype"], r["size"]] = min(r["ms"], copies.get((r["dtype"], r["size"]), r["ms"]))
    share = {
        (dtype, kernel): {
            r["size"]: copies[dtype, r["size"]] / r["ms"] for r in rows if r["kernel"] == kernel and r["dtype"] == dtype
        }
        for dtype in DTYPES
        for kernel in names
    }
    shown = [str(size) for size in sizes]
    cells = [
        [dtype, kernel, *(f"{of[size]:.3f}" if size in of else "" for size in sizes)]
        for (dtype, kernel), of in share.items()
        if of or results is None
    ]
    about = "Not measured yet: the cells are empty" if results is None else mlir_kernels.circumstances(name, results)
    return f"{about}.\n\n", mlir_kernels.table("|".join(["type", "kernel", *shown]), cells)


# -- elements of a byte, in matrices of odd sizes

BYTES = ((4097, 4097), (5003, 6007), (8191, 8191))
SHAPES = [
    ((256, 64), 512, 4),
    ((128, 64), 512, 2),
    ((128, 64), 512, 4),
    *product(((128, 128), (256, 128), (256, 256)), (512, 1024), (4, 8)),
    ((512, 64), 1024, 4),
]
"""Tiles, threads and widths; the first two are what matrices take."""


def render_bytes(folder: Path, cases: Sequence[harness.Case]) -> None:
    """A matrix of bytes in every shape, on all cores."""
    with ProcessPoolExecutor() as pool:
        list(pool.map(render_shape, product([folder], cases, SHAPES)))


def render_shape(task: tuple[Path, harness.Case, Any]) -> None:
    from lego_mlir import u8
    from lego_mlir.kernels import transpose

    folder, (m, n), (tile, threads, width) = task
    kernel = transpose.build("realigned", m, n, u8, tile=tile, threads=threads, width=width)
    mlir_kernels.keep(folder, in_shape(m, n, tile, threads, width), mlir_kernels.compiled(kernel, TARGET, "ptx"))


def in_shape(m: int, n: int, tile: tuple[int, int], threads: int, width: int) -> str:
    return f"{m}x{n}-{tile[0]}x{tile[1]}-{threads}-{width}"


def timed_bytes(folder: Path, m: int, n: int) -> list[harness.Contender]:
    """Every shape, and a copy of the same bytes."""
    import cupy as cp
    import torch

    source = torch.randint(0, 256, (m, n), device="cuda", dtype=torch.uint8)
    target, turned = torch.empty((n, m), device="cuda", dtype=torch.uint8), source.t().contiguous()
    copied, memory = torch.empty_like(source), [cp.from_dlpack(x).reshape(-1) for x in (source, target)]
    found = [harness.contender(lambda: copied.copy_(source), kernel=COPIES[0])]
    for shape in SHAPES:
        name = in_shape(m, n, *shape)
        launch = mlir_kernels.launcher(folder, name)
        found.append(harness.exact(lambda launch=launch: launch(*memory), target, turned, kernel=name))
    return found


BENCHMARKS = {one.name: one for one in (
    runner.Benchmark(NAME, list(product(DTYPES, (*SIZES, *ODD))), timed, table, render, static),
    runner.Benchmark("transpose_bytes", BYTES, timed_bytes, render=render_bytes, together=True),
)}  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
