"""Claims that were proved of shipped kernels stay proved: a table of them, by kernel and text, with their numbers.

A better proof adds rows (`--update-golden`, where a change of the prover is read); a lost one fails here, by name.
Kernels whose claims take long are compared with `--long`.
"""

import json
from collections import Counter

import pytest
import shipped_kernels
from golden_files import FOLDER

from lego_mlir.expr.verdict import Proved
from lego_mlir.proofs.claims import kernel_claims

TABLE = FOLDER / "proofs" / "shipped.json"
KNOWN = json.loads(TABLE.read_text())
LONG = {
    "attention_pipelined.py attention", "attention_spread.py attention", "attention_warpgroups.py attention",
    "cluster_product.py product", "low_bits/few_bits.py w4a16",
    "first_day/bitonic_sort.py sort", "grouped_matmul.py grouped_product", "warp_roles.py product", "matmul",
    "second_week/w4a16.py w4a16", "second_week/implicit_gemm.py implicit_gemm",
    "dot products", "stencil", "stencil shared", "stencil strips", "pad", "pad transposed", "crop", "batched products",
    "grouped products", "grouped depths", "attention", "packed attention", "added gradients", "packed gradients",
    "paged attention", "latent attention",
    "windowed attention", "persistent attention", "causal persistent attention",
}  # fmt: skip
NAMES = [
    *shipped_kernels.BUILT,
    *(f"{path.relative_to(shipped_kernels.EXAMPLES)}" for path in shipped_kernels.examples()),
]


def kernels(name):
    """The kernels of a row: what a builder makes, or all of an example."""
    if name in shipped_kernels.BUILT:
        return {name: shipped_kernels.BUILT[name]()}
    return {f"{name} {kernel}": found for kernel, found in shipped_kernels.example(name).items()}


def proved(kernel):
    """The proved claims by their texts, without the files and lines of barriers."""
    return Counter(
        text.split(".py:", 1)[-1].split(": ", 1)[-1]
        for text, verdict in kernel_claims(kernel, tried=False)
        if isinstance(verdict, Proved)
    )


def is_long(name):
    return any(name in (row, row.split(" ")[0]) for row in LONG)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if is_long(name) else ()) for name in NAMES]
)
def test_no_proof_is_lost(name, request):
    for row, kernel in kernels(name).items():
        found = proved(kernel)
        if request.config.getoption("--update-golden"):
            KNOWN[row] = dict(sorted(found.items()))
            TABLE.write_text(json.dumps(dict(sorted(KNOWN.items())), indent=1) + "\n")
        lost = Counter(KNOWN[row]) - found
        assert not lost, f"{row} had more proofs"


def test_the_table_has_every_kernel_and_no_fewer_claims_than_before_the_mends():
    listed = {row for name in NAMES for row in ([name] if name in shipped_kernels.BUILT else kernels(name))}
    assert listed == set(KNOWN)
