"""A product that Triton compiles for sm_100: `tcgen05` in tensor memory, right and clean, and what is removed reported.

Needs Triton, and no PyTorch: the kernel's PTX is emulated on NumPy arrays.
"""

import re
import runpy
from importlib.util import find_spec

import numpy as np
import pytest

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import TRITON
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.report import Kind

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton (pip install triton)")
M, N, K = 128, 64, 128


SOURCE = """
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, K, N: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    rows, columns, depth = tl.arange(0, BM), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((BM, N), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
        y = tl.load(b + (k + depth)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)
"""


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    folder = tmp_path_factory.mktemp("triton")
    path = folder / "kernel.py"
    path.write_text(SOURCE)  # Triton reads the source of a function from its file
    product = runpy.run_path(str(path))["product"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
        source = ASTSource(
            product, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"},
            {(4,): N, (5,): M, (6,): 64}, {(i,): [["tt.divisibility", 16]] for i in range(4)},
        )  # fmt: skip
        found = triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_stages": 2})
    return found.asm["ptx"], found.metadata.shared


def run(ptx, edit=lambda text: text, seed=0):
    """The report, and how far the product is from NumPy's."""
    text, shared = ptx
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (M, K)).astype(np.float16), random.integers(-3, 4, (K, N)).astype(np.float16)
    c, scratch = np.zeros((M, N), np.float32), np.zeros(1, np.uint8)
    report = emulate(
        edit(text), args=[a, b, c, K, scratch, scratch], dynamic_shared=shared,
        options=EmulatorOptions(seed=seed, checks=TRITON),
    )  # fmt: skip
    return report, np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max()


def test_a_product_of_triton_in_tensor_memory(ptx):
    assert {"alloc", "st", "mma", "commit", "ld", "dealloc"} <= set(re.findall(r"tcgen05\.(\w+)\.", ptx[0]))
    for seed in range(2):
        report, error = run(ptx, seed=seed)
        assert report.clean, report.faults
        assert error == 0


@pytest.mark.parametrize(
    ("removed", "kinds"),
    [
        (r"fence\.proxy\.async\.shared::cta;", {Kind.UNFENCED}),
        (r"tcgen05\.wait::st\.sync\.aligned;", {Kind.PENDING}),
        (r"tcgen05\.wait::ld\.sync\.aligned;", {Kind.PENDING}),
        (r"@%p\d+ tcgen05\.dealloc[^;]*;", {Kind.LEAK}),
        (r"mbarrier\.try_wait[^;]*;\s*@!complete bra\.uni waitLoop;", {Kind.PENDING}),
    ],
)
def test_what_is_removed_is_reported(ptx, removed, kinds):
    report, _ = run(ptx, lambda text: re.sub(removed, "", text))
    assert kinds <= report.kinds()
