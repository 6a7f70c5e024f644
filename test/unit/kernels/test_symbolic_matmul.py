"""Products whose sizes are known at launch: one kernel, every size of its ranges, before and after its script."""

import subprocess

import numpy as np
import pytest
from assembling import needs_ptxas
from gemm import LAYOUTS, operands

import lego_mlir as lego
from lego_mlir import Col, f16
from lego_mlir.errors import ToolchainError, UsageError
from lego_mlir.interp import run_kernel
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.kernels.split_k import SplitK
from lego_mlir.runtime.manifest import evaluate
from lego_mlir.toolchain import compile_kernel, ptxas, sass
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import parse, session
from lego_mlir.transforms.passes.known_ranges import range_of
from lego_mlir.transforms.passes.operations import operations as operations_of

SCRIPT = "matmul_sm80.mlir"
SMALL = ProductTile(32, 64, 32, (1, 2))


def sizes(divisors=(1, 8, 8), least=65, most=8192):
    return tuple(
        lego.size(name, min=least if name == "K" else 1, max=most, multiple_of=divisor)
        for name, divisor in zip("MNK", divisors, strict=True)
    )


def build(layouts="NN", divisors=(1, 8, 8), least=65, most=8192, c=None, **given):
    m, n, k = sizes(divisors, least, most)
    a, b = (kind(*dims) for kind, dims in zip(LAYOUTS[layouts], ((m, k), (k, n)), strict=True))
    c = None if c is None else c(m, n)
    return matmul.build(m, n, k, f16, **{"a": a, "b": b, "c": c, "tiling": SMALL, "result": f16, **given})


def stored(matrix, kind):
    return np.ravel(matrix, "F" if kind is Col else "C").astype(np.float16)


def run(kernel, layouts, size, module=None, c=None):
    """The product of small integers by the interpreter, with all its checks, against the reference."""
    m, n, k = size
    a, b = operands(m, n, k)
    out = np.full(m * n, np.nan, np.float16)
    memories = {
        "a": stored(a, LAYOUTS[layouts][0]), "b": stored(b, LAYOUTS[layouts][1]), "c": out,
    }  # fmt: skip
    report = run_kernel(kernel, memories, {"M": m, "N": n, "K": k}, module=module, counts=False)
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(out.reshape((m, n), order="F" if c is Col else "C"), a @ b)
    return report


@pytest.fixture(scope="module", params=["NN", "NT", "TN", "TT"])
def compiled(request):
    """A layout, its kernel, and the module that the script makes of it."""
    divisors = (8 if request.param[0] == "T" else 1, 8, 8)
    kernel = build(request.param, divisors, order="grouped", blocks=3)
    text = compile_kernel(kernel, transform=SCRIPT, parameters={"stages": 3}, emit="transformed", target="sm_80").text
    return request.param, kernel, text


@pytest.mark.parametrize("size", [(8, 8, 72), (64, 136, 96), (200, 72, 168)])
def test_one_module_for_all_sizes(compiled, size):
    layouts, kernel, text = compiled
    run(kernel, layouts, size, text)


@pytest.mark.parametrize("order", ["row", "column", "grouped", "columns"])
@pytest.mark.parametrize("blocks", [None, 2])
def test_orders_of_symbolic_counts_visit_every_tile_once(order, blocks):
    kernel = build(order=order, blocks=blocks)
    for size in ((33, 136, 72), (100, 64, 80)):
        tiles = -(-size[0] // 32) * -(-size[1] // 64)
        assert run(kernel, "NN", size).blocks_run == min(blocks or tiles, tiles)


def test_columns_of_c():
    run(build("NT", (8, 8, 8), c=Col), "NT", (40, 72, 80), c=Col)


def test_masks_are_those_that_the_divisors_leave():
    def masked(divisors):
        return {access.buffer.name for _, access in build(divisors=divisors).trace().accesses() if access.is_masked}

    assert masked((1, 8, 8)) == {"a", "b"}  # the stores to C are in a branch
    assert masked((32, 64, 32)) == set()
    widths = {access.width for _, access in build().trace().accesses() if access.buffer.name in ("a", "b")}
    assert widths == {8}


def test_the_manifest_says_what_the_sizes_may_be(compiled):
    _, kernel, _ = compiled
    (entry,) = compile_kernel(kernel, transform=SCRIPT, parameters={"stages": 3}, target="sm_80").manifest["kernels"]
    assert [(size["name"], size["min"], size["max"]) for size in entry["sizes"]] == [
        ("M", 1, 8192), ("K", 65, 8192), ("N", 1, 8192),
    ]  # fmt: skip
    assert evaluate(entry["grid"][0], {"M": 33, "N": 8, "K": 72}) == 2
    assert evaluate(entry["grid"][0], {"M": 100, "N": 72, "K": 72}) == 3


def test_split_k_takes_ints():
    with pytest.raises(UsageError, match=r"the sizes must be ints with split=SplitK\(.*\), got M x N x K"):
        build(split=SplitK(2))


def test_a_pipeline_needs_its_least_number_of_steps():
    with pytest.raises(ToolchainError, match=r"this one has 2 iterations, the least for its sizes' range"):
        compile_kernel(build(least=64), transform=SCRIPT, parameters={"stages": 4}, emit="transformed")
    m, n, k = (lego.size(name, min=96, multiple_of=8) for name in "MNK")
    kernel = matmul.build(m, n, k, f16, tiling=SMALL, order="row")
    with pytest.raises(ToolchainError, match=r"sizes without a range; declare it: lego.size\(.., min=.., max=..\)"):
        compile_kernel(kernel, transform=SCRIPT, emit="transformed")


def test_ranges_of_index_values():
    text = """module { gpu.module @m { gpu.func @k(%n: index {lego.range = array<i64: 65, 100>}, %x: index) kernel {
      %0 = affine.apply affine_map<(d0) -> ((d0 + 31) floordiv 32)>(%n)
      %c2 = arith.constant 2 : index
      %1 = index.maxs %0, %c2
      %2 = arith.addi %1, %x : index
      %3 = affine.apply affine_map<(d0)[s0] -> (d0 ceildiv 8 + s0 mod 4 + 1)>(%n)[%n]
      gpu.return } } }"""
    with session():
        module = parse(text)
        (function,) = kernels(module)
        found = [range_of(op.results[0]) for op in operations_of(function.regions[0].blocks[0]) if len(op.results)]
    assert found == [(3, 4), (2, 2), (3, 4), (-(2**63), 2**63 - 1), (10, 17)]


@needs_ptxas
def test_the_main_loop_is_as_short_as_with_numbers(tmp_path):
    if sass.find_lister() is None:
        pytest.skip("needs cuobjdump")
    kernel = build("NN", (1, 8, 32), 96, 32768, tiling=ProductTile(128, 128, 32, (2, 2)), order="grouped", blocks=132)
    source, output = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(compile_kernel(kernel, transform=SCRIPT, target="sm_80").text)
    done = subprocess.run(
        [ptxas.required(), "-arch=sm_80", "-v", source, "-o", output], capture_output=True, text=True, check=True
    )
    (resources,) = ptxas.parse_report(done.stdout + done.stderr)
    assert resources.spill_stores <= 16  # of what a tile needs, outside of the loop along K
    loop = sass.main_loop(sass.disassemble(output.read_bytes()), "HMMA")
    assert (sass.mix(loop)["HMMA"], sass.mix(loop)["LDGSTS"]) == (64, 8)
    assert len(loop) <= 150  # 164 for 4104 x 4104 x 4104 as numbers, 143 for 4096 x 4096 x 4096
