"""Write every page of docs/results from bench/results: `python bench/pages.py`, on any machine, without a GPU.

A page has one plot, of `headlines`, and the tables of the newest run of each benchmark, with its device and its date;
long tables are files in docs/results/data. `--check` writes nothing and fails where a page or a file would change.
Tables of counts that need the compiler instead of results (`op_counts`, `order_counts`, `layout_tables`,
the step `lines` of `first_day`) are written by the modules of these names.
"""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import headlines
import mlir_kernels

# What writes the tables of each benchmark, its page in docs/results, the name of its results, and what it measures.
BENCHMARKS = tuple(tuple(part.strip() for part in line.split("|")) for line in """\
product_tables.matmul | matmul-mma | matmul | f16 products of this compiler's kernel against cuBLAS and Triton
product_tables.hopper | matmul | hopper | products by warpgroups, with TMA and wgmma, against cuBLAS
product_tables.class_products | matmul | class_products | one kernel for all sizes of a class, against cuBLAS
product_tables.hopper_types | matmul | hopper_types | products of other types and with epilogues, against PyTorch's
product_tables.divided_products | matmul-shapes | divided_products | few rows and long sums, against PyTorch's
product_tables.odd_products | matmul-shapes | odd_products | odd sizes on aligned copies, against cuBLAS
product_tables.product_rows | matmul-shapes | product_rows | rows up to 300 and drawn sizes, against cuBLAS
product_tables.small_products | matmul-shapes | small_products | products of few rows, with K in parts, against cuBLAS
grouped_products.table | grouped-products | grouped_products | grouped and batched products, against PyTorch's
product_fit.table | product-choices | product_tuning | the tiles of products that the model chooses, at 39 sizes
scheduled_products.table | scheduled-products | scheduled_products | products of a user, scheduled, against PyTorch's
scaled_products.table | scaled-products | scaled_products | f8 products with scales of blocks, against DeepGEMM
second_week.table | second-week | second_week | the kernels of a second week against nvcc
layout_free.table | layout-free | layout_free | kernels of TritonBench without a layout, against Triton
language_models.table | language-models | language_models | rows of language models and sampling, against PyTorch
random_tiles.table | layout-engine | random_tiles | random tile programs without a layout, against Triton
transpose.table | transpose | transpose | five transposes against the copy of the same bytes
spread_attention.spread_table | attention | attention_spread | attention with values spread over threads
attention.fused_table | attention | fused_attention | attention by warpgroups and its gradients, against PyTorch
attention.flash_table | attention | flash_attention | attention forward by strides against FlashAttention-3 and cuDNN
attention.narrow_table | attention | narrow_attention | attention forward in f8 against FlashAttention-3
attention_rules.table | attention | attention_rules | masks and scores of a user, against FlexAttention
attention.forms_table | attention | attention_forms | errors of attention in other forms, against PyTorch in f32
decoding.table | attention | decoding | attention of decoding with pages against FlashInfer and FlashAttention-3
latent.table | attention | latent | decoding with latent attention, against FlashMLA
conversions.table | conversions | conversions | conversions between linear layouts in a kernel
conversions.gather_table | conversions | gather | gathers from registers
low_bits.table | low-bits | low_bits | products with weights of 4 bits, against cuBLAS in f16 and Triton
chunked_scans.table | chunked-scans | chunked_scans | recurrences in chunks, against flash-linear-attention
decoder.table | decoder | decoder | a decoder token by token, against torch.compile
formats.table | formats | formats | conversions into storage formats against a copy of the same bytes
mesh.table | mesh | mesh-2 | moves of a matrix over GPUs, against DTensor and the copy between peers
mesh_products.table | mesh | mesh-products-2 | products over GPUs, against NCCL and cuBLAS in sequence
columns.table | columns | columns | orders of execution: stencils and products in columns of blocks
triton_templates.product_table | triton-matmul | triton_matmul | rendered Triton products against by hand and cuBLAS
triton_templates.group_table | triton-grouped | triton_grouped | grouped and batched products
template_rows.softmax_table | triton-softmax | triton_softmax | softmax against Triton by hand and PyTorch
template_rows.norm_table | triton-layer-norm | triton_layer_norm | layer norm, forward and backward
template_rows.attention_table | triton-attention | triton_attention | attention against Triton by hand and PyTorch
nw.table | nw | nw | Needleman-Wunsch: three layouts of its buffer against Rodinia's kernel
nw.layouts_table | nw-layouts | nw_layouts | Needleman-Wunsch: only the layout of Rodinia's buffer changes
bricks.table | bricks | bricks | 3-D stencils on bricks and on rows
counters.table | counters | counters | the interpreter's counts against the chip's counters
launch.table | launch | launch | host time of a call
first_calls.table | launch | first_calls | first calls, and the host's share of products and attention
first_day.table | first-day | first_day | the kernels of a first day against PyTorch, cuSPARSE and CUB
cluster_softmax.table | triton-softmax | cluster_softmax | softmax of rows that a cluster of blocks holds
""".splitlines())  # fmt: skip
STRUCTURED = ("structured", "structured", "programs over structured matrices on a CPU")
LISTED = "benchmarks"


def listing() -> mlir_kernels.Table:
    """The table of all benchmarks: the page, and by device the date of the newest run."""
    listed = [(name, page, what) for _, page, name, what in BENCHMARKS]
    rows = [
        [f"[{what}]({page}.md)", *(_date(device, name) for device in headlines.FOLDERS)]
        for name, page, what in [*listed, STRUCTURED]
    ]
    return mlir_kernels.table("|".join(["benchmark", *headlines.FOLDERS]), rows)


def _date(device: str, name: str) -> str:
    path = headlines.newest_path(device, name)
    return "" if path is None else path.name[: len("2026-01-02")]


def write() -> None:
    """All pages, in mlir_kernels.DOCS."""
    for where, *_ in (*BENCHMARKS, ("structured.page",)):
        module, _, name = where.partition(".")
        table = getattr(importlib.import_module(module), name)
        table(*([[]] if table.__code__.co_argcount else []))
    for page in headlines.HEADLINES:
        mlir_kernels.put_into(f"results/{page}.md", "headline", headlines.pictured(page))
    mlir_kernels.put_into("results/index.md", LISTED, str(listing()))


def stale() -> list[str]:
    """The pages that `write` would change."""
    docs = mlir_kernels.DOCS
    with tempfile.TemporaryDirectory() as folder:
        mlir_kernels.DOCS = Path(folder)
        (mlir_kernels.DOCS / "results").mkdir()
        for page in sorted((docs / "results").glob("*.md")):
            (mlir_kernels.DOCS / "results" / page.name).write_text(page.read_text())
        try:
            write()
            made = mlir_kernels.DOCS / "results"
            found = [path.relative_to(made) for path in sorted(made.rglob("*.*"))]
            return [str(name) for name in found if not _same(made / name, docs / "results" / name)]
        finally:
            mlir_kernels.DOCS = docs


def _same(made: Path, kept: Path) -> bool:
    return kept.is_file() and made.read_text() == kept.read_text()


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
