"""Fused attention, forward, of examples/attention_spread.py and attention_pipelined.py, against Triton and torch.

A case is the size of a head, the length and the mask; 16,384 positions and 2,048 features in all, f16. Baselines: a
kernel after Triton's tutorial, by pointers and by descriptors, and torch's attention with each of its back ends. Every
kernel is timed in the fastest of its configurations. On Hopper Triton and cuDNN use wgmma, which runs at 1.5 times the
rate of mma.sync; the tutorial's kernel is therefore also compiled for sm_80. The goal is at least its time.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner

NAME, TARGET = "attention_spread", "sm_90"
POSITIONS, FEATURES = 16384, 2048  # of all batches, of all heads
LENGTHS = (1024, 2048, 4096, 8192, 16384)
MASKS = ("full", "causal")
TOLERANCE = 1e-2
SHARED_PER_SM = 228 * 1024  # CUDA C++ Programming Guide, "Compute Capabilities"
CONFIGURATIONS: dict[int, tuple[dict[str, Any], ...]] = {  # by features of a head
    64: (
        {"BM": 128, "BN": 64, "warps": 4, "held": True, "lazy": False},
        {"BM": 128, "BN": 64, "warps": 4, "held": True, "lazy": True},
        {"BM": 128, "BN": 32, "warps": 4, "held": False, "lazy": False},
        {"BM": 256, "BN": 64, "warps": 8, "held": True, "lazy": False},
        {"BM": 64, "BN": 64, "warps": 4, "held": True, "lazy": False},
        {"BM": 128, "BN": 64, "warps": 4, "held": True, "pipelined": True},
        {"BM": 128, "BN": 32, "warps": 4, "held": True, "pipelined": True},
        {"BM": 128, "BN": 32, "warps": 4, "held": False, "pipelined": True},
        {"BM": 128, "BN": 32, "warps": 4, "held": True, "pipelined": True, "blocks": 3},
    ),
    128: (
        {"BM": 128, "BN": 64, "warps": 4, "held": False, "lazy": False},
        {"BM": 128, "BN": 64, "warps": 4, "held": False, "lazy": True},
        {"BM": 256, "BN": 64, "warps": 8, "held": False, "lazy": True},
        {"BM": 64, "BN": 64, "warps": 4, "held": True, "lazy": False},
        {"BM": 128, "BN": 32, "warps": 4, "held": False, "pipelined": True},
    ),
}
TILES = (  # of the tutorial's kernel: queries, keys, warps, stages
    (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (128, 128, 8, 3), (64, 64, 4, 3), (128, 32, 4, 4),
    (128, 64, 4, 4), (128, 128, 4, 2),
)  # fmt: skip
TILES_SM80 = ((128, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 3), (128, 32, 4, 4), (128, 128, 8, 2))  # on mma.sync
KERNELS = {
    "Triton sm_80": "Triton, mma.sync", "torch flash": "torch flash, mma.sync", "Triton": "Triton, wgmma",
    "torch cudnn": "torch cuDNN, wgmma",
}  # fmt: skip
CASES = list(product(CONFIGURATIONS, LENGTHS, MASKS))


def label(features: int, mask: str, configuration: dict[str, Any]) -> str:
    c = configuration
    flags = "".join(f"-{name}" for name in ("held", "lazy", "pipelined") if c.get(name))
    return f"{features}-{mask}-{c['BM']}x{c['BN']}-{c['warps']}w{flags}{'-3b' if 'blocks' in c else ''}"


def compiled(features: int, mask: str, configuration: dict[str, Any], dtype: str = "f16") -> Any:
    """The kernel of a configuration, to PTX."""
    sys.path.insert(0, str(harness.BENCH.parent / "examples"))
    import attention_pipelined
    import attention_spread

    import lego_mlir as lego

    options = {name: value for name, value in configuration.items() if name not in ("pipelined", "blocks")}
    spec = attention_pipelined if "pipelined" in configuration else attention_spread
    kernel = spec.build(D=features, dtype=getattr(lego, dtype), causal=mask == "causal", **options)
    return mlir_kernels.compiled(kernel, TARGET, "ptx")


# -- the steps


def static() -> list[dict[str, Any]]:
    rows = []
    for features, mask, dtype in product(CONFIGURATIONS, MASKS, ("f16", "bf16")):
        for configuration in CONFIGURATIONS[features] if dtype == "f16" else CONFIGURATIONS[features][:1]:
            made = compiled(features, mask, configuration, dtype)
            code = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
            row = harness.static_row(
                code, "HMMA", kernel=f"{label(features, mask, configuration)} {dtype}", features=features, mask=mask,
                dtype=dtype, **configuration,
            )  # fmt: skip
            row["blocks_per_sm"] = mlir_kernels.blocks_per_sm(row, 32 * configuration["warps"], SHARED_PER_SM)
            rows.append(row)
    return rows


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for features, mask in {(features, mask) for features, _, mask in cases}:
        for configuration in CONFIGURATIONS[features]:
            keep_ours(folder, features, mask, configuration)
        for tile in TILES_SM80:
            keep_by_triton(folder, features, mask, tile)


def keep_ours(folder: Path, features: int, mask: str, configuration: dict[str, Any]) -> None:
    """The PTX; with `blocks`, ptxas fits that number into an SM (PTX ISA, ".minnctapersm")."""
    name = label(features, mask, configuration)
    mlir_kernels.keep(folder, name, compiled(features, mask, configuration))
    if "blocks" in configuration:
        path = folder / f"{name}.ptx"
        bound = f"\\1\n.minnctapersm {configuration['blocks']}"
        path.write_text(re.sub(r"^(\.maxntid .*)$", bound, path.read_text(), count=1, flags=re.MULTILINE))
        manifest = json.loads(path.with_suffix(".json").read_text())
        manifest["code_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        path.with_suffix(".json").write_text(json.dumps(manifest))


def keep_by_triton(folder: Path, features: int, mask: str, tile: tuple[int, int, int, int]) -> None:
    """The tutorial's kernel compiled for sm_80, as PTX that the driver translates: on mma.sync, as ours is."""
    from rivals.triton_tutorial_attention import attention

    from lego_mlir.templates.run.triton import compile_for

    queries, keys, warps, stages = tile
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16:16")
    types |= {"scale": "fp32", "heads": "i32", "positions": "i32:16"}
    constants = {"D": features, "BLOCK_M": queries, "BLOCK_N": keys, "CAUSAL": mask == "causal", "DESCRIPTORS": False}
    made = compile_for(attention, types, constants, target="sm_80", num_warps=warps, num_stages=stages)
    name = triton_name(features, mask, tile)
    (folder / f"{name}.ptx").write_text(made.ptx)
    (folder / f"{name}.json").write_text(json.dumps({"shared_bytes": made.shared_bytes}))


def triton_name(features: int, mask: str, tile: tuple[int, int, int, int]) -> str:
    return f"triton80-{features}-{mask}-{'-'.join(map(str, tile))}"


def timed(folder: Path, features: int, length: int, mask: str) -> list[harness.Contender]:
    case = Attention(folder, features, length, mask)
    facts = {"features": features, "length": length, "mask": mask}
    results = [(case.o, case.expected)]
    found = [
        harness.fastest(kernel, runs, results, TOLERANCE, **facts)
        for kernel, runs in (("lego", case.ours()), ("Triton", case.triton()), ("Triton sm_80", case.triton_sm80()))
    ]
    return [*found, *(harness.contender(run, kernel=kernel, **facts) for kernel, run in case.torch().items())]


class Attention:
    """One problem on the GPU, and every way to compute it."""

    def __init__(self, folder: Path, features: int, length: int, mask: str) -> None:
        import torch

        self.folder, self.features, self.length, self.mask = folder, features, length, mask
        self.heads = POSITIONS // length * FEATURES // features
        shape = (1, self.heads, length, features)
        self.q, self.k, self.v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in "qkv")
        self.o = torch.empty_like(self.q)
        self.expected = self.reference()

    def reference(self) -> Any:
        """In f32, some heads at a time."""
        import torch

        found = torch.empty_like(self.q)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
            for head in range(self.heads):
                q, k, v = (x[:, head : head + 1].float() for x in (self.q, self.k, self.v))
                found[:, head : head + 1] = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=self.mask == "causal"
                )
        return found

    def ours(self) -> dict[str, Any]:
        import cupy as cp

        memory = [cp.from_dlpack(x.reshape(-1)) for x in (self.q, self.k, self.v, self.o)]
        sizes, runs = {"H": self.heads, "S": self.length}, {}
        for configuration in CONFIGURATIONS[self.features]:
            name = label(self.features, self.mask, configuration)
            launch = mlir_kernels.launcher(self.folder, name)
            runs[name] = lambda launch=launch: launch(*memory, sizes=sizes)
        return runs

    def triton(self) -> dict[Any, Any]:
        harness.descriptors_need_memory()
        return {
            (form, *tile): self._tutorial(form == "descriptors", *tile)
            for form, tile in product(("pointers", "descriptors"), TILES)
            if not self.length % math.lcm(*tile[:2])
        }

    def _tutorial(self, descriptors: bool, queries: int, keys: int, warps: int, stages: int) -> Any:
        from rivals.triton_tutorial_attention import attention

        launch = attention[(self.length // queries, self.heads)]
        scale = math.log2(math.e) / math.sqrt(self.features)
        numbers = (scale, self.heads, self.length, self.features, queries, keys, self.mask == "causal", descriptors)
        return lambda: launch(self.q, self.k, self.v, self.o, *numbers, num_warps=warps, num_stages=stages)

    def triton_sm80(self) -> dict[Any, Any]:
        return {tile: self._translated(tile) for tile in TILES_SM80 if not self.length % math.lcm(*tile[:2])}

    def _translated(self, tile: tuple[int, int, int, int]) -> Any:
        import cupy as cp
        import numpy as np

        path = harness.rendered(self.folder / f"{triton_name(self.features, self.mask, tile)}.ptx")
        shared = json.loads(path.with_suffix(".json").read_text())["shared_bytes"]
        function = cp.RawModule(path=str(path)).get_function("attention")
        function.max_dynamic_shared_size_bytes = shared
        memory = [np.uint64(x.data_ptr()) for x in (self.q, self.k, self.v, self.o)]
        scale = np.float32(math.log2(math.e) / math.sqrt(self.features))
        scratch = [np.uint64(0)] * (path.read_text().count(".param .u64") - len(memory))  # Triton's, not used
        arguments = (*memory, scale, np.int32(self.heads), np.int32(self.length), *scratch)
        grid, block = (self.length // tile[0], self.heads), (32 * tile[2],)
        return lambda: function(grid, block, arguments, shared_mem=shared)

    def torch(self) -> dict[str, Any]:
        """Its back ends that take this problem, and agree with the reference."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attend(backend: Any) -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    self.q, self.k, self.v, is_causal=self.mask == "causal"
                )

        found = {}
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            name = f"torch {backend.name.removesuffix('_ATTENTION').lower()}"
            try:
                harness.require_close(attend(backend), self.expected, TOLERANCE, name)
            except RuntimeError as error:
                print(f"  no {name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
                continue
            found[name] = partial(attend, backend)
        return found


def table() -> None:
    """The table of docs/results/attention.md: milliseconds, teraflops, and times over ours."""
    measured, rows = mlir_kernels.by_case(mlir_kernels.newest(NAME)), []
    for case in CASES:
        found = measured.get(tuple(harness.words_of(case)), {})
        if "lego" not in found:
            continue
        (features, length, mask), ours = case, found["lego"]["ms"]
        ratios = [f"{found[k]['ms'] / ours:.2f}" if k in found else "" for k in KERNELS]
        speed = 4 * POSITIONS * FEATURES * length / (2 if mask == "causal" else 1) / ours / 1e9
        cells = [str(features), str(length), mask, mlir_kernels.time_cell(found["lego"]), f"{speed:.0f}", *ratios]
        rows.append([*cells, str(found["lego"]["config"])])
    columns = f"head|length|mask|ms (10th to 90th percentile)|Tflop/s|{'|'.join(KERNELS.values())}|configuration"
    made, note = mlir_kernels.table(columns, rows), "; above 1.00 ours is faster"
    mlir_kernels.put_results("results/attention.md", NAME, NAME, made, "triton", "torch", note=note)


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, static)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
