"""`lego.mma` on spread values against NumPy: types, warps, shapes, operands in registers and in shared memory."""

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f2, f16, f32, f64, gallery, i8, i32, interp
from lego_mlir.errors import LayoutError
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.spread.multiplication import INSTRUCTIONS
from lego_mlir.tracing.trace.trace import MatrixLoad

M, N, K = 64, 32, 64


def zeros(layout, dtype):
    return lego.Spread(layout, dtype, [dtype(0)] * layout.in_sizes["register"])


def matmul(dtype, warps=(2, 1), shape=(M, N, K), tiles=None):
    """a @ b with both operands in registers, or b, or both, in shared tiles of the layouts `tiles`."""
    m, n, k = shape
    kind, parent = INSTRUCTIONS[dtype], f2.MmaSync(warps)

    @lego.kernel(grid=1, block=32 * warps[0] * warps[1])
    def product(
        a: lego.Tensor(dtype, Row(m, k)), b: lego.Tensor(dtype, Row(k, n)), c: lego.Tensor(kind.result, Row(m, n))
    ):
        operands = []
        for index, view in enumerate((a, b)):
            tile = (tiles or (None, None))[index]
            layout = f2.MmaOperand(index, parent, kind.neighbours).layout(view.dims())
            x = lego.load(view, layout)
            if tile is None:
                operands.append(x)
                continue
            shared = lego.shared(dtype, tile)
            x.store(shared)
            operands.append(shared)
        lego.barrier()
        lego.mma(*operands, zeros(parent.layout((m, n)), kind.result)).store(c)

    return product


def check(kernel, dtype, shape=(M, N, K)):
    m, n, k = shape
    random = np.random.default_rng(0)
    a, b = random.integers(-8, 9, (m, k)), random.integers(-8, 9, (k, n))
    found = launch(kernel, a, b, np.zeros((m, n)))[-1]
    np.testing.assert_array_equal(found.astype(np.float64), a @ b)
    return [s for s in kernel.trace().body if isinstance(s, MatrixLoad)]


@pytest.mark.parametrize("dtype", INSTRUCTIONS, ids=str)
@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_operands_in_registers(dtype, warps):
    assert not check(matmul(dtype, warps), dtype)


@pytest.mark.parametrize("shape", [(16, 8, 32), (32, 64, 32), (128, 16, 32)])
@pytest.mark.parametrize("dtype", [f16, i8], ids=str)
def test_shapes(dtype, shape):
    check(matmul(dtype, (1, 1), shape), dtype, shape)


SWIZZLED = (gallery.xor_swizzle(M, K, vec=8), gallery.xor_swizzle(K, N, vec=8))
TILES = {
    "rows": (Row(M, K), Row(K, N)),
    "columns": (Col(M, K), Col(K, N)),
    "swizzled": SWIZZLED,
    "b only": (None, SWIZZLED[1]),
}


@pytest.mark.parametrize(
    ("tiles", "dtype", "warps"), [*((name, f16, (2, 1)) for name in TILES), ("swizzled", bf16, (2, 2))], ids=str
)
def test_operands_in_shared_memory_are_loaded_as_matrices(dtype, tiles, warps):
    loads = check(matmul(dtype, warps, tiles=TILES[tiles]), dtype)
    assert {s.result.width for s in loads} == {(4, 2)}
    counts = {"a": M // 16 // warps[0] * K // 16, "b": N // 16 // warps[1] * K // 16 if warps[1] == 1 else K // 16}
    assert len(loads) == counts["b"] + (0 if tiles == "b only" else counts["a"])


def test_which_matrices_are_transposed():
    by_name = {}
    for s in check(matmul(f16, tiles=TILES["rows"]), f16):
        by_name.setdefault(s.access.buffer.name, set()).add(s.transposed)
    assert by_name == {"shared0": {False}, "shared1": {True}}


@pytest.mark.parametrize("dtype", [f32, i8, f64], ids=str)
def test_wider_and_narrower_types_in_shared_memory(dtype):
    check(matmul(dtype, tiles=(Row(M, K), Row(K, N))), dtype)


def test_other_tiles_are_loaded_element_by_element():
    assert not check(matmul(f16, tiles=(None, gallery.padded(K, N, 8))), f16)


def test_integer_sums_saturate():
    kernel = matmul(i8, (1, 1), (16, 8, 32))
    start = np.iinfo(np.int32).max - 5
    text = kernel.mlir().replace("arith.constant 0 : i32", f"arith.constant {start} : i32")
    a = [np.ones(16 * 32, np.int8), np.ones(32 * 8, np.int8), np.zeros(16 * 8, np.int32)]
    interp.launch(text, grid=[1], block=[32], args=a)
    assert (a[2] == np.iinfo(np.int32).max).all()


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_a_result_is_the_operand_of_the_next_product(dtype):
    parent = f2.MmaSync((2, 1))

    @lego.kernel(grid=1, block=64)
    def chained(q: lego.Tensor(dtype, Row(M, K)), k: lego.Tensor(dtype, Row(N, K)), o: lego.Tensor(f32, Row(M, K))):
        tile = lego.shared(dtype, gallery.xor_swizzle(2 * N, K, vec=8))
        second = tile.part((N, 0), (N, K))
        lego.copy_async(k, second)
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        queries = lego.load(q, f2.MmaOperand(0, parent).layout((M, K)))
        s = lego.mma(queries, second.T, zeros(parent.layout((M, N)), f32)).to(dtype)
        weights = lego.Spread(f2.MmaOperand(0, parent).layout((M, N)), dtype, s.registers)
        lego.mma(weights, second, zeros(parent.layout((M, K)), f32)).store(o)

    random = np.random.default_rng(0)
    q, k = random.integers(-2, 3, (M, K)), random.integers(-1, 2, (N, K))
    s = (q @ k.T).astype(dtype.numpy).astype(np.float64)
    np.testing.assert_array_equal(launch(chained, q, k, np.zeros((M, K)))[-1], s @ k)


@needs_ptxas
@pytest.mark.parametrize(
    ("dtype", "instruction"),
    [(f16, "m16n8k16.row.col.f32.f16"), (bf16, "m16n8k16.row.col.f32.bf16"), (f32, "m16n8k8.row.col.f32.tf32"),
     (i8, "m16n8k32.row.col.satfinite.s32.s8"), (f64, "m8n8k4.row.col.f64.f64.f64.f64")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_the_instruction_assembles(dtype, instruction, target):
    text = compile_kernel(matmul(dtype, tiles=(Row(M, K), Row(K, N))), target=target).text
    kind = INSTRUCTIONS[dtype]
    assert text.count(f"mma.sync.aligned.{instruction}") == M // 2 // kind.rows * N // 8 * K // kind.depth
    assemble(text, target)


def refused(dtype=f16, result=f32, left=None, right=None, total=None, shapes=((M, K), (K, N))):
    parent = f2.MmaSync((2, 1))

    @lego.kernel(grid=1, block=64)
    def k(
        a: lego.Tensor(dtype, Row(*shapes[0])),
        b: lego.Tensor(dtype, Row(*shapes[1])),
        c: lego.Tensor(result, Row(M, N)),
    ):
        x = lego.load(a, left or f2.MmaOperand(0, parent).layout(shapes[0]))
        y = lego.load(b, right or f2.MmaOperand(1, parent).layout(shapes[1]))
        lego.mma(x, y, zeros(total or parent.layout((M, N)), result)).store(c)

    return k


BLOCKED = f2.Blocked((1, 8), (8, 4), (2, 1), order=(1, 0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"left": BLOCKED.layout((M, K))},
            r"operand 0 .*write lego.convert\(a, to=f2.MmaOperand\(0, parent, k_width=2",
        ),
        ({"right": f2.MmaOperand(1, f2.MmaSync((1, 2))).layout((K, N))}, r"operand 1 .*lego.convert\(b, to="),
        ({"total": BLOCKED.layout((M, N))}, "layout must be that of an f2.MmaSync for at least 16 x 8 elements"),
        ({"result": i32}, "got f16 times f16 into i32"),
        ({"dtype": f64, "result": f32}, "got f64 times f64 into f32"),
        ({"shapes": ((M, 32), (K, N))}, "64 x 32 times 64 x 32 into 64 x 32"),
    ],
)
def test_messages(options, said):
    with pytest.raises(LayoutError, match=said):
        refused(**options).trace()
    with pytest.raises(
        LayoutError, match="b is a spread value of two dimensions, a shared tile or a part of one, got 3"
    ):

        @lego.kernel(grid=1, block=64)
        def k(c: lego.Tensor(f32, Row(M, N))):
            total = zeros(f2.MmaSync((2, 1)).layout((M, N)), f32)
            lego.mma(total, 3, total).store(c)

        k.trace()


@pytest.mark.parametrize("side", [0, 1])
def test_a_tensor_in_global_memory_is_refused(side):
    parent = f2.MmaSync((1, 1))

    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f16, Row(16, 16)), c: lego.Tensor(f32, Row(16, 16))):
        held = lego.load(x, f2.MmaOperand(1 - side, parent).layout((16, 16)))
        operands = (x, held) if side == 0 else (held, x)
        lego.mma(*operands, lego.zeros(f32, parent.layout((16, 16)))).store(c)

    with pytest.raises(LayoutError, match=f"{'ab'[side]}, x, is not in shared memory; load it .* with lego.load"):
        k.trace()


@pytest.mark.parametrize("tiles", [(None, None), SWIZZLED, (None, Col(K, N))], ids=["registers", "swizzled", "columns"])
@pytest.mark.parametrize("dtype", INSTRUCTIONS, ids=str)
def test_a_cpu_computes_products(dtype, tiles):
    random = np.random.default_rng(1)
    a, b = random.integers(-8, 9, (M, K)), random.integers(-8, 9, (K, N))
    found = launch_on_cpu(matmul(dtype, (2, 2), tiles=tiles), a, b, np.zeros((M, N)))[-1]
    np.testing.assert_array_equal(found.astype(np.float64), a @ b)


def test_a_cpu_reads_f32_as_the_unit_does_and_saturates_integers():
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N)))
    read = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for x in (a, b)]
    expected = np.zeros((M, N), np.float32)
    for k in range(0, K, 8):  # an instruction's sum is rounded once
        expected = (read[0][:, k : k + 8] @ read[1][k : k + 8] + expected).astype(np.float32)
    np.testing.assert_array_equal(launch_on_cpu(matmul(f32, (2, 2)), a, b, np.zeros((M, N)))[-1], expected)

    parent = f2.MmaSync((1, 1))

    @lego.kernel(grid=1, block=32)
    def product(x: lego.Tensor(i8, Row(16, 32)), c: lego.Tensor(i32, Row(16, 8))):
        left = lego.load(x, f2.MmaOperand(0, parent, 4).layout((16, 32)))
        right = lego.full(i8, f2.MmaOperand(1, parent, 4).layout((32, 8)), 127)
        lego.mma(left, right, lego.full(i32, parent.layout((16, 8)), 2**31 - 5)).store(c)

    x = np.zeros((16, 32))
    x[3], x[4, 0] = 1, -1
    found = launch_on_cpu(product, x, np.zeros((16, 8)))[-1]
    assert found[:, 0].tolist() == [2**31 - 5] * 3 + [2**31 - 1, 2**31 - 132] + [2**31 - 5] * 11


def test_addresses_of_fragments_are_derived_when_they_are_read():
    """In any order, with one result; warpgroups read none."""
    shapes = {"dtype": f16, "warps": (4, 1), "tiles": (gallery.xor_swizzle(64, 64, 8), Row(64, 32))}
    forward, backward, unread = (matmul(**shapes) for _ in range(3))

    def loads(kernel):
        return [s.access for s in kernel.trace().statements() if isinstance(s, MatrixLoad)]

    found = [access.position for access in loads(forward)]
    assert len(found) > 4 and found == [access.position for access in loads(backward)[::-1]][::-1]
    assert [access.derivation.raw for access in loads(forward)] == [access.stated for access in loads(unread)]
    assert [hash(access.derived) for access in loads(forward)] == [hash(access.derived) for access in loads(unread)]
