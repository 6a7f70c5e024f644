"""`lego.mma` with metadata against NumPy: random patterns, types, warps and depths; faults of metadata; refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f16, f32, gallery, i8, i32, interp, u16
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import emulate
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.toolchain import compile_kernel, ptxas

TYPES = {f16: f32, bf16: f32, i8: i32}


def product_of(dtype, warps, m, n, k, metadata_layout=None, metadata_type=u16):
    """C = A B for a transposed B, where A has what is kept of M x K."""
    width, parent, result = 32 // dtype.bits, f2.MmaSync(warps), TYPES[dtype]
    left = f2.MmaOperand(0, parent, width).layout((m, k // 2))
    right = f2.MmaOperand(1, parent, width).layout((k, n))
    places = metadata_layout or f2.MmaMetadata(parent, dtype.bits).layout((m, k // 16))
    tensors = (dtype, (m, k // 2)), (metadata_type, (m, k // 16)), (dtype, (n, k)), (result, (m, n))
    A, E, B, C = (lego.Tensor(of, Row(*shape)) for of, shape in tensors)

    @lego.kernel(grid=1, block=32 * warps[0] * warps[1])
    def product(a: A, e: E, b: B, c: C):
        zero = lego.zeros(result, parent.layout((m, n)))
        lego.mma(lego.load(a, left), lego.load(b.T, right), zero, metadata=lego.load(e, places)).store(c)

    return product


def pruned(rng, m, k):
    """Small integers, of which of each four at most two differ from 0, at random places."""
    groups = rng.integers(-4, 5, (m, k // 4, 4))
    np.put_along_axis(groups, rng.random(groups.shape).argsort(axis=2)[:, :, :2], 0, axis=2)
    return groups.reshape(m, k)


def check(dtype, warps, m, n, k, seed, run=launch):
    rng = np.random.default_rng(seed)
    a, b = pruned(rng, m, k), rng.integers(-4, 5, (n, k))
    kept, metadata = f2.two_of_four(a)
    *_, found = run(product_of(dtype, warps, m, n, k), kept, metadata, b, np.zeros((m, n)))
    np.testing.assert_array_equal(found.astype(np.int64), a @ b.T)


@settings(max_examples=8, deadline=None)
@given(
    dtype=st.sampled_from(list(TYPES)),
    warps=st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]),
    pieces=st.tuples(*[st.sampled_from([1, 2])] * 2, st.sampled_from([1, 2, 4])),
    seed=st.integers(0, 99),
)
def test_random_products(dtype, warps, pieces, seed):
    depth = 512 // dtype.bits
    check(dtype, warps, 16 * warps[0] * pieces[0], 8 * warps[1] * pieces[1], depth * pieces[2], seed)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_its_ptx(dtype):
    check(dtype, (2, 1), 32, 16, 128, 1, launch_emulated)


def of_groups(dtype, groups, n, k, in_registers, transposed, meets=True):
    """The same product by warpgroups, with shared operands; b is (k, n) in memory if `transposed`."""
    m, width, parent, result = 64 * groups, 32 // dtype.bits, f2.MmaSync((4 * groups, 1)), TYPES[dtype]
    right = (k, n) if transposed else (n, k)

    def shared(x):
        line = x[1] * dtype.bytes  # 128 bytes, or 64
        return lego.shared(dtype, gallery.xor_swizzle(*x, 16 // dtype.bytes, 128 // line, line // 16))

    @lego.kernel(grid=1, block=128 * groups)
    def product(
        a: lego.Tensor(dtype, Row(m, k // 2)),
        e: lego.Tensor(u16, Row(m, k // 16)),
        b: lego.Tensor(dtype, Row(*right)),
        c: lego.Tensor(result, Row(m, n)),
    ):
        left, tile = shared((m, k // 2)), shared(right)
        lego.copy_async(b, tile, at=(0, 0))
        lego.copy_async(a, left, at=(0, 0))
        lego.commit_copies()
        lego.wait_copies()
        if meets:
            lego.barrier()
        kept = lego.load(a, f2.MmaOperand(0, parent, width).layout((m, k // 2))) if in_registers else left
        places = lego.load(e, f2.MmaMetadata(parent, dtype.bits).layout((m, k // 16)))
        zeros = lego.zeros(result, parent.layout((m, n)))
        lego.mma(kept, tile if transposed else tile.T, zeros, metadata=places).store(c)

    return product


GROUPS = [
    (f16, 1, 64, False, False), (f16, 1, 64, True, False), (f16, 2, 128, True, False), (bf16, 1, 64, False, True),
    (bf16, 2, 8, False, False), (i8, 1, 64, False, False), (i8, 2, 128, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "groups", "n", "in_registers", "transposed"), GROUPS)
def test_warpgroups(dtype, groups, n, in_registers, transposed):
    k, m = 1024 // dtype.bits, 64 * groups
    product, rng = of_groups(dtype, groups, n, k, in_registers, transposed), np.random.default_rng(n)
    text = compile_kernel((product,), target="sm_90a").text
    assert text.count("wgmma.mma_async.sp.sync.aligned") == 2  # steps
    if ptxas.find() is not None:
        ptxas.assemble(text, target_named("sm_90a"))
    a, b = pruned(rng, m, k), rng.integers(-4, 5, (n, k))
    kept, metadata = f2.two_of_four(a)
    for run in (launch, lambda *given: launch_emulated(*given, target="sm_90a")):
        *_, found = run(product, kept, metadata, b.T if transposed else b, np.zeros((m, n)))
        np.testing.assert_array_equal(found.astype(np.int64), a @ b.T)


@pytest.mark.parametrize("meets", [True, False])
def test_tiles_of_a_sparse_product_are_read_after_all_have_copied(meets):
    product = of_groups(f16, 1, 64, 64, False, False, meets)
    races = [v for text, v in kernel_claims(product, tried=False) if text.startswith(("no race", "every read"))]
    assert len(races) >= 4
    assert all(isinstance(v, Proved) for v in races) == meets
    given = [np.zeros(n, dtype.numpy) for n, dtype in ((64 * 32, f16), (64 * 4, u16), (64 * 64, f16), (64 * 64, f32))]
    given[1][:] = 0b0100_0100_0100_0100
    compiled = compile_kernel((product,), target="sm_90a")
    shared = compiled.kernels[0].dynamic_shared
    assert emulate(compiled.text, grid=1, block=128, args=given, dynamic_shared=shared).clean == meets
    given[1][5] = 0
    assert "row 1" in str(emulate(compiled.text, grid=1, block=128, args=given, dynamic_shared=shared).faults)


def test_what_is_kept_is_at_its_places():
    a = pruned(np.random.default_rng(3), 8, 32)
    kept, metadata = f2.two_of_four(a)
    found = np.zeros_like(a)
    for row, number in np.ndindex(kept.shape):
        place = int(metadata[row, number // 8]) >> 2 * (number % 8) & 3
        found[row, number // 2 * 4 + place] = kept[row, number]
    np.testing.assert_array_equal(found, a)


@pytest.mark.parametrize("places", [0b0000, 0b0001])
def test_places_that_do_not_ascend_are_reported(places):
    product = product_of(f16, (1, 1), 16, 8, 32)
    metadata = np.full((16, 2), 0b0100_0100_0100_0100, np.uint16)
    metadata[5, 1] = places | 0b0100_0100_0100_0000
    arguments = [np.zeros(256, np.float16), metadata.reshape(-1), np.zeros(256, np.float16), np.zeros(128, np.float32)]
    report = interp.launch(product.mlir(), grid=1, block=32, args=arguments)
    assert "row 5" in str(report.faults[0].message)


def test_all_lanes_reach_it():
    found = dict(kernel_claims(product_of(f16, (1, 1), 16, 8, 32), tried=False))
    assert any("matrix product" in text and isinstance(verdict, Proved) for text, verdict in found.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata_layout": f2.MmaMetadata(f2.MmaSync((1, 1)), 8).layout((16, 4))}, "metadata is not in the layout"),
        ({"metadata_type": i32}, "with metadata of u16; got f16 times f16 into f32, with metadata of i32"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(LayoutError, match=message):
        product_of(f16, (1, 1), 16, 8, 64, **change).trace()


def test_the_depth_has_whole_instructions():
    with pytest.raises(LayoutError, match="the depth is a multiple of 64"):
        product_of(i8, (1, 1), 16, 8, 32).trace()


def test_accumulators_and_open_tiles_are_refused():
    @lego.kernel(grid=1, block=32)
    def into_accumulator(a: lego.Tensor(f16, Row(16, 16)), e: lego.Tensor(u16, Row(16, 2))):
        tile = lego.shared(f16, Row(16, 16))
        lego.mma(tile, tile, lego.accumulator(f32, 16, 16), metadata=lego.load(e, (16, 2)))

    with pytest.raises(TraceError, match="adds to a spread value"):
        into_accumulator.trace()

    @lego.kernel(grid=1, block=32)
    def without_layouts(
        a: lego.Tensor(f16, Row(16, 16)), e: lego.Tensor(u16, Row(16, 2)), b: lego.Tensor(f16, Row(32, 8))
    ):
        zero = lego.zeros(f32, f2.MmaSync((1, 1)).layout((16, 8)))
        lego.mma(lego.load(a, (16, 16)), lego.load(b, (32, 8)), zero, metadata=lego.load(e, (16, 2)))

    with pytest.raises(LayoutError, match="takes tiles with layouts, and a has none"):
        without_layouts.trace()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.zeros((2, 8)), "columns are a multiple of 16"),
        (np.ones((1, 16)), "4 of the neighbours .* in row 0, columns 0 .. differ from 0"),
    ],
)
def test_matrices_that_are_not_sparse(matrix, message):
    with pytest.raises(LayoutError, match=message):
        f2.two_of_four(matrix)


@pytest.mark.parametrize(("parent", "bits"), [(f2.MmaSync((1, 1)), 32), (f2.MmaSync((1, 1, 1)), 16)])
def test_metadata_of_other_products(parent, bits):
    with pytest.raises(LayoutError, match="MmaMetadata: operands of"):
        f2.MmaMetadata(parent, bits)
