"""Attention with values spread over threads against Triton and PyTorch's back ends.

    python bench/spread_attention.py NAME STEP [WORD ..]      the steps of `runner.py`

attention_spread   examples/attention_spread.py and attention_pipelined.py, f16 on mma.sync, in the fastest of their
                   configurations, against the kernel of Triton's tutorial and torch. On Hopper Triton and cuDNN use
                   wgmma, at 1.5 times the rate; the tutorial's kernel is therefore also compiled for sm_80
attention_layouts  examples/attention_spread.py by the layout engine, next to the same with its layouts by hand

Times are of 16,384 positions and 2,048 features in all batches and heads; those of rows of a table are over ours, above
1.00 ours is faster.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner
from attention import LENGTHS, MASKS, PAGE, TARGET, TOLERANCE, Way, heads_of, over, tflops, torch_ways
from harness import Contender

PLAIN_TARGET, EXAMPLES = "sm_90", harness.BENCH.parent / "examples"

# -- on mma.sync, the values spread over threads: against Triton's tutorial and torch

SPREAD_TEXTS = """\
64 128 64 4 held|64 128 64 4 held lazy|64 128 32 4|64 256 64 8 held|64 64 64 4 held|64 128 64 4 held pipelined
64 128 32 4 held pipelined|64 128 32 4 pipelined|64 128 32 4 held pipelined 3
128 128 64 4|128 128 64 4 lazy|128 256 64 8 lazy|128 64 64 4 held|128 128 32 4 pipelined"""
"""The features of a head, queries and keys of a block, warps, flags, and how many blocks ptxas fits into an SM."""
TILES = (  # of the tutorial's kernel: queries, keys, warps, stages
    (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (128, 128, 8, 3), (64, 64, 4, 3), (128, 32, 4, 4),
    (128, 64, 4, 4), (128, 128, 4, 2),
)  # fmt: skip
TILES_SM80 = ((128, 64, 4, 3), (128, 64, 8, 3), (64, 64, 4, 3), (128, 32, 4, 4), (128, 128, 8, 2))  # on mma.sync
SPREAD_BASELINES = {
    "Triton sm_80": "Triton, mma.sync", "torch flash": "torch flash, mma.sync", "Triton": "Triton, wgmma",
    "torch cudnn": "torch cuDNN, wgmma",
}  # fmt: skip


def configurations() -> dict[int, list[dict[str, Any]]]:
    """The configurations of our kernel, by features of a head."""
    found: dict[int, list[dict[str, Any]]] = {}
    for features, m, n, warps, *flags in (text.split() for text in SPREAD_TEXTS.replace("\n", "|").split("|")):
        one: dict[str, Any] = {"BM": int(m), "BN": int(n), "warps": int(warps), "held": "held" in flags}
        one |= {"pipelined": True} if "pipelined" in flags else {"lazy": "lazy" in flags}
        found.setdefault(int(features), []).append(one | ({"blocks": 3} if "3" in flags else {}))
    return found


CONFIGURATIONS = configurations()
SPREAD = list(product(CONFIGURATIONS, LENGTHS, MASKS))


def label(features: int, mask: str, configuration: dict[str, Any]) -> str:
    c = configuration
    flags = "".join(f"-{name}" for name in ("held", "lazy", "pipelined") if c.get(name))
    return f"{features}-{mask}-{c['BM']}x{c['BN']}-{c['warps']}w{flags}{'-3b' if 'blocks' in c else ''}"


def spread_kernel(features: int, mask: str, configuration: dict[str, Any], dtype: str = "f16") -> Any:
    """The kernel of a configuration, to PTX."""
    sys.path.insert(0, str(EXAMPLES))
    import attention_pipelined
    import attention_spread

    import lego_mlir as lego

    options = {name: value for name, value in configuration.items() if name not in ("pipelined", "blocks")}
    spec = attention_pipelined if "pipelined" in configuration else attention_spread
    kernel = spec.build(D=features, dtype=getattr(lego, dtype), causal=mask == "causal", **options)
    return mlir_kernels.compiled(kernel, PLAIN_TARGET, "ptx")


def spread_static() -> list[dict[str, Any]]:
    rows = []
    for features, mask, dtype in product(CONFIGURATIONS, MASKS, ("f16", "bf16")):
        for configuration in CONFIGURATIONS[features] if dtype == "f16" else CONFIGURATIONS[features][:1]:
            made = spread_kernel(features, mask, configuration, dtype)
            code = mlir_kernels.assembled(made.text, PLAIN_TARGET, mlir_kernels.shared_bytes(made))
            row = harness.static_row(
                code, "HMMA", kernel=f"{label(features, mask, configuration)} {dtype}", features=features, mask=mask,
                dtype=dtype, **configuration,
            )  # fmt: skip
            row["blocks_per_sm"] = mlir_kernels.blocks_per_sm(row, 32 * configuration["warps"])
            rows.append(row)
    return rows


def render_spread(folder: Path, cases: Sequence[harness.Case]) -> None:
    for features, mask in {(features, mask) for features, _, mask in cases}:
        for configuration in CONFIGURATIONS[features]:
            keep_ours(folder, features, mask, configuration)
        for tile in TILES_SM80:
            keep_by_triton(folder, features, mask, tile)


def keep_ours(folder: Path, features: int, mask: str, configuration: dict[str, Any]) -> None:
    """The PTX; with `blocks`, ptxas fits that number into an SM (PTX ISA, ".minnctapersm")."""
    name = label(features, mask, configuration)
    mlir_kernels.keep(folder, name, spread_kernel(features, mask, configuration))
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


def timed_spread(folder: Path, features: int, length: int, mask: str) -> list[Contender]:
    case = Spread(folder, features, length, mask)
    facts = {"features": features, "length": length, "mask": mask}
    ways = {"lego": case.ours(), "Triton": case.triton(), "Triton sm_80": case.triton_sm80()}
    results = [(case.o, case.expected)]
    found = [harness.fastest(kernel, runs, results, TOLERANCE, **facts) for kernel, runs in ways.items()]
    for name, run in torch_ways((case.q, case.k, case.v), mask, ("FLASH", "CUDNN")).items():
        harness.require_close(run(), case.expected, TOLERANCE, name)
        found.append(harness.contender(run, kernel=name, **facts))
    return found


class Spread:
    """One problem on the GPU, and ours and Triton's ways to compute it."""

    def __init__(self, folder: Path, features: int, length: int, mask: str) -> None:
        import torch

        self.folder, self.features, self.length, self.mask = folder, features, length, mask
        self.heads, self.scale = heads_of(features, length), math.log2(math.e) / math.sqrt(features)
        shape = (1, self.heads, length, features)
        self.q, self.k, self.v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in "qkv")
        self.o, self.expected = torch.empty_like(self.q), torch.empty_like(self.q)
        for head in range(self.heads):  # in f32, a head at a time
            given = [x[:, head : head + 1].float() for x in (self.q, self.k, self.v)]
            self.expected[:, head : head + 1] = torch_ways(given, mask, ("EFFICIENT",))["torch efficient"]()

    def ours(self) -> dict[str, Way]:
        import cupy as cp

        memory = [cp.from_dlpack(x.reshape(-1)) for x in (self.q, self.k, self.v, self.o)]
        sizes, found = {"H": self.heads, "S": self.length}, {}
        for configuration in CONFIGURATIONS[self.features]:
            name = label(self.features, self.mask, configuration)
            found[name] = partial(mlir_kernels.launcher(self.folder, name), *memory, sizes=sizes)
        return found

    def fitting(self, tiles: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
        return [tile for tile in tiles if not self.length % math.lcm(*tile[:2])]

    def triton(self) -> dict[Any, Way]:
        harness.descriptors_need_memory()
        forms = product(("pointers", "descriptors"), self.fitting(TILES))
        return {(form, *tile): self.tutorial(form == "descriptors", *tile) for form, tile in forms}

    def tutorial(self, descriptors: bool, queries: int, keys: int, warps: int, stages: int) -> Way:
        from rivals.triton_tutorial_attention import attention

        numbers = (self.scale, self.heads, self.length, self.features, queries, keys, self.mask == "causal")
        given = (self.q, self.k, self.v, self.o, *numbers, descriptors)
        return partial(attention[(self.length // queries, self.heads)], *given, num_warps=warps, num_stages=stages)

    def triton_sm80(self) -> dict[Any, Way]:
        return {tile: self.translated(tile) for tile in self.fitting(TILES_SM80)}

    def translated(self, tile: tuple[int, int, int, int]) -> Way:
        import cupy as cp
        import numpy as np

        path = harness.rendered(self.folder / f"{triton_name(self.features, self.mask, tile)}.ptx")
        shared = json.loads(path.with_suffix(".json").read_text())["shared_bytes"]
        function = cp.RawModule(path=str(path)).get_function("attention")
        function.max_dynamic_shared_size_bytes = shared
        memory = [np.uint64(x.data_ptr()) for x in (self.q, self.k, self.v, self.o)]
        scratch = [np.uint64(0)] * (path.read_text().count(".param .u64") - len(memory))  # Triton's, not used
        numbers = (np.float32(self.scale), np.int32(self.heads), np.int32(self.length))
        grid, block = (self.length // tile[0], self.heads), (32 * tile[2],)
        return partial(function, grid, block, (*memory, *numbers, *scratch), shared_mem=shared)


def spread_table() -> None:
    """Milliseconds, teraflops, and times over ours."""
    rows = []
    for (features, length, mask), found in mlir_kernels.measured_cases("attention_spread", SPREAD, "lego"):
        ours = found["lego"]
        speed = tflops(mask, heads_of(features, length), features, length, ours["ms"])
        cells = [str(features), str(length), mask, mlir_kernels.time_cell(ours), speed]
        rows.append([*cells, *over(found, list(SPREAD_BASELINES)), str(ours["config"])])
    heads = "|".join(SPREAD_BASELINES.values())
    columns = f"head|length|mask|ms (10th to 90th percentile)|Tflop/s|{heads}|configuration"
    made, note = mlir_kernels.table(columns, rows), "; above 1.00 ours is faster"
    mlir_kernels.put_results(PAGE, "attention_spread", "attention_spread", made, "triton", "torch", note=note)


# -- by the layout engine, and by hand

WAYS = {"engine": EXAMPLES / "attention_spread.py", "by hand": harness.BENCH / "rivals" / "attention_by_hand.py"}
BUILT = {"causal": {"causal": True}, "not causal": {}, "always rescaled": {"causal": True, "lazy": False}}
LAYOUTS = [(f"{form}, {heads} x {positions}",) for form in BUILT for heads, positions in ((64, 2048), (64, 4000))]


def render_layouts(folder: Path, _: Sequence[harness.Case]) -> None:
    """The kernels of each form, for any length."""
    sys.path[:0] = [str(path.parent) for path in WAYS.values()]
    for way, path in WAYS.items():
        module = __import__(path.stem)
        for form, options in BUILT.items():
            kernel = module.build(**options)
            scheduled = kernel.schedule("warpgroups") if way == "engine" else kernel
            mlir_kernels.keep_cubin(folder / f"{form} {way}".replace(" ", "-"), scheduled, TARGET)


def timed_layouts(folder: Path, case: str) -> list[Contender]:
    import cupy
    import torch

    from lego_mlir.runtime import cuda

    form, _, sizes = case.partition(", ")
    heads, positions = map(int, sizes.split(" x "))
    q, k, v = (torch.randn(heads, positions, 64, device="cuda").half() for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal="not" not in form)
    found = []
    for way in WAYS:
        kernel = cuda.load(harness.rendered(folder / f"{form} {way}".replace(" ", "-") / "attention.cubin")).kernel()
        out = torch.empty_like(q)
        arrays = [cupy.from_dlpack(x).reshape(-1) for x in (q, k, v, out)]
        launch = partial(kernel, *arrays, sizes={"H": heads, "S": positions})
        launch()
        torch.cuda.synchronize()
        harness.require_close(out, expected, TOLERANCE / 2, f"{way} {case}")
        found.append(harness.contender(launch, kernel=way))
    return found


def layouts_table() -> None:
    """The time by hand over that by the engine."""
    rows, ratios = [], []
    for (case,), found in mlir_kernels.measured_cases("attention_layouts", LAYOUTS, "engine"):
        ratios.append(found["by hand"]["ms"] / found["engine"]["ms"])
        rows.append([case, *(f"{1000 * found[way]['ms']:.1f}" for way in WAYS), f"{ratios[-1]:.3f}"])
    made = mlir_kernels.table("heads x positions|engine, us|by hand, us|by hand over engine", rows)
    page, note = "reference/layout-engine.md", f". In geometric mean {geometric_mean(ratios):.3f}"
    mlir_kernels.put_results(page, "attention-layouts", "attention_layouts", made, "torch", note=note)


BENCHMARKS = {one.name: one for one in (
    runner.Benchmark("attention_spread", SPREAD, timed_spread, spread_table, render_spread, spread_static),
    runner.Benchmark("attention_layouts", LAYOUTS, timed_layouts, layouts_table, render_layouts, target=TARGET,
                     together=True),
)}  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
