"""Write every page of docs/results from bench/results: `python bench/pages.py`, on any machine, without a GPU.

The tables and plots are those of the newest run of each benchmark, with its device and its date. `--check` writes
nothing and fails where a page would change. Tables of counts that need the compiler instead of results
(`op_counts`, `order_counts`, `first_day_lines`, `layout_tables`) are written by the modules of these names.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import mlir_kernels
import recorded

# The module of each benchmark, its page in docs/results, the name of its results, and what it measures.
BENCHMARKS = (
    ("matmul", "matmul-mma", "matmul", "f16 products of this compiler's kernel against cuBLAS and Triton"),
    ("hopper", "matmul", "hopper", "products by warpgroups, with TMA and wgmma, against cuBLAS"),
    ("class_products", "matmul", "class_products", "one kernel for all sizes of a class, against cuBLAS"),
    ("hopper_types", "matmul", "hopper_types", "products of other types and with epilogues, against PyTorch's"),
    (
        "divided_products",
        "matmul-shapes",
        "divided_products",
        "few rows and long sums by warpgroups, against PyTorch's",
    ),
    ("odd_products", "matmul-shapes", "odd_products", "products of odd sizes on aligned copies, against cuBLAS"),
    ("small_products", "matmul-shapes", "small_products", "products of few rows, with K in parts, against cuBLAS"),
    ("grouped_products", "grouped-products", "grouped_products", "grouped and batched products, against PyTorch's"),
    ("product_fit", "product-choices", "product_tuning", "the tiles of products that the model chooses, at 39 sizes"),
    ("transpose", "transpose", "transpose", "five transposes against the copy of the same bytes"),
    ("attention", "attention", "attention_spread", "attention with values spread over threads"),
    ("fused_attention", "attention", "fused_attention", "attention by warpgroups and its gradients, against PyTorch"),
    ("attention_forms", "attention", "attention_forms", "errors of attention in other forms, against PyTorch in f32"),
    ("conversions", "conversions", "conversions", "conversions between linear layouts in a kernel"),
    ("gather", "conversions", "gather", "gathers from registers"),
    ("formats", "formats", "formats", "conversions into storage formats against a copy of the same bytes"),
    ("columns", "columns", "columns", "orders of execution: stencils and products in columns of blocks"),
    ("triton_matmul", "triton-matmul", "triton_matmul", "rendered Triton products against Triton by hand and cuBLAS"),
    ("triton_grouped", "triton-grouped", "triton_grouped", "grouped and batched products"),
    ("triton_softmax", "triton-softmax", "triton_softmax", "softmax against Triton by hand and PyTorch"),
    ("triton_layer_norm", "triton-layer-norm", "triton_layer_norm", "layer norm, forward and backward"),
    ("triton_attention", "triton-attention", "triton_attention", "attention against Triton by hand and PyTorch"),
    ("nw", "nw", "nw", "Needleman-Wunsch: three layouts of its buffer against Rodinia's kernel"),
    ("nw_layouts", "nw-layouts", "nw_layouts", "Needleman-Wunsch: only the layout of Rodinia's buffer changes"),
    ("bricks", "bricks", "bricks", "3-D stencils on bricks and on rows"),
    ("counters", "counters", "counters", "the interpreter's counts against the chip's counters"),
)
STRUCTURED = ("structured", "structured", "programs over structured matrices on a CPU")
LISTED = "benchmarks"


def structured(path: Path | None) -> None:
    """The table and pictures of structured matrices, whose results have another form."""
    import structured as benchmark
    import structured_curves

    if path is not None:
        benchmark.write_into(mlir_kernels.DOCS / "results" / "structured.md", benchmark.table(benchmark.recorded(path)))
        structured_curves.write(benchmark.recorded(path), benchmark.FLOPS, mlir_kernels.DOCS / "images")


def listing() -> str:
    """The table of all benchmarks: page, device and date of the newest run."""
    rows = []
    listed = [(name, page, what) for _, page, name, what in (*BENCHMARKS, *recorded.TABLES)]
    for name, page, what in [*listed, STRUCTURED]:
        path = mlir_kernels.latest_path(name)
        device = "" if path is None else _device(json.loads(path.read_text()))
        rows.append([f"[{what}]({page}.md)", device, "" if path is None else path.name[: len("2026-01-02")]])
    return mlir_kernels.table("benchmark|device|date", rows)


def _device(results: dict[str, Any]) -> str:
    return results["device"] if "device" in results else results["circumstances"]["processor"]["model name"]


def write() -> None:
    """All pages, in mlir_kernels.DOCS."""
    for module, *_ in BENCHMARKS:
        table = importlib.import_module(module).table
        table(*([[]] if table.__code__.co_argcount else []))
    for table, page, name, _ in recorded.TABLES:
        if (results := mlir_kernels.latest(name)) is not None:
            mlir_kernels.put_into(f"results/{page}.md", name, table(results))
    structured(mlir_kernels.latest_path("structured"))
    mlir_kernels.put_into("results/index.md", LISTED, listing())


def stale() -> list[str]:
    """The pages that `write` would change."""
    docs = mlir_kernels.DOCS
    with tempfile.TemporaryDirectory() as folder:
        mlir_kernels.DOCS = Path(folder)
        (mlir_kernels.DOCS / "results").mkdir()
        pages = sorted((docs / "results").glob("*.md"))
        for page in pages:
            (mlir_kernels.DOCS / "results" / page.name).write_text(page.read_text())
        try:
            write()
            return [p.name for p in pages if (mlir_kernels.DOCS / "results" / p.name).read_text() != p.read_text()]
        finally:
            mlir_kernels.DOCS = docs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page would change")
    if not parser.parse_args().check:
        write()
        return 0
    for name in (found := stale()):
        print(f"docs/results/{name} is out of date; run python bench/pages.py")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
