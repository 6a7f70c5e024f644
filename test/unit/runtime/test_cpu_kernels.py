"""GPU kernels as loops of this machine: barriers, what passes them, and what only a GPU can do."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, gallery, i32
from lego_mlir.errors import UsageError
from lego_mlir.runtime import cpu
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.store import Cache
from lego_mlir.toolchain import llvm
from lego_mlir.toolchain.host_loops import to_host
from lego_mlir.transforms.modules import ModuleError


@lego.kernel(grid=(2,), block=(8, 4))
def _turns(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    b, tx, ty = lego.block_id[0], lego.thread_id[0], lego.thread_id[1]
    t = ty * 8 + tx
    tile = lego.shared(f32, Row(32))
    total = lego.register(f32, 0.0)
    mine = x[b * 32 + t] * 0.1
    for k in lego.range(b + 2):
        tile[t] = mine + total
        lego.barrier()
        total += tile[(31 - t + k) % 32]
        lego.barrier()
    y[b * 32 + t] = total + mine


def test_values_and_carried_sums_pass_barriers():
    given = [np.arange(64.0), np.zeros(64)]
    np.testing.assert_array_equal(launch_on_cpu(_turns, *given)[1], launch(_turns, *given)[1])


@lego.kernel(grid=3, block=40)
def _rounds(x: lego.Tensor(f32, Row(120)), y: lego.Tensor(f32, Row(120)), rounds: lego.Tensor(i32, Row(3))):
    b, t = lego.block_id[0], lego.thread_id[0]
    tile, running, count = lego.shared(f32, Row(40)), lego.register(lego.i1, True), lego.register(i32, 0)
    mine, left = lego.register(f32, x[b * 40 + t]), lego.register(i32, 7)
    with lego.while_(running):
        tile[t] = mine
        lego.barrier()
        mine.set(tile[(t + 1) % 40] + tile[39 - t] * 0.5)
        lego.barrier()
        count += 1
        left -= i32(b + 1)
        running.set(left > 0)
    y[b * 40 + t] = mine
    with lego.when(t == 0):
        rounds[b] = count


def test_rounds_with_barriers_end_by_a_condition():
    x = np.random.default_rng(0).normal(size=120).astype(np.float32)
    expected = x.copy().reshape(3, 40)
    for block, rounds in enumerate([7, 4, 3]):
        for _ in range(rounds):
            one = expected[block]
            expected[block] = np.roll(one, -1) + one[::-1] * np.float32(0.5)
    _, y, rounds = launch_on_cpu(_rounds, x, np.zeros(120), np.zeros(3))
    np.testing.assert_array_equal(rounds, [7, 4, 3])
    np.testing.assert_allclose(y.reshape(3, 40), expected, rtol=1e-6)


@lego.kernel(grid=(lego.cdiv(100, 16), 3), block=16)
def _half(
    x: lego.Tensor(f16, Row(3, 100)),
    a: f16,
    b: bf16,
    n: i32,
    y: lego.Tensor(f32, gallery.table([300], list(range(299, -1, -1)))),
):
    u = x.tile_by([3, lego.cdiv(100, 16)], [1, 16])
    i, j = lego.block_id[1], lego.block_id[0] * 16 + lego.thread_id[0]
    with lego.when(j < 100):
        y[i * 100 + j] = (u[i, lego.block_id[0], 0, lego.thread_id[0]] * a).to(f32) + b.to(f32) * f32(n)


def test_masks_tables_and_numbers_of_16_bits():
    given = [np.arange(300.0).reshape(3, 100) / 8, np.float16(0.3), 0.7, -3, np.zeros(300)]
    expected = launch(_half, *given[:2], _half.params[2].dtype.numpy.type(0.7), *given[3:])[4]
    np.testing.assert_array_equal(launch_on_cpu(_half, *given)[4], expected)
    assert expected.any()


@lego.kernel(grid=1, block=4)
def _rounded(
    x: lego.Tensor(i32, Row(4)), y: lego.Tensor(f32, Row(4)), z: lego.Tensor(f64, Row(4)), r: lego.Tensor(f64, Row(4))
):
    t = lego.thread_id[0]
    y[t] = (x[t].to(bf16) * 3.65505274708805e-38).to(f32)  # -321 is not a bf16: each step is rounded
    r[t] = lego.rsqrt(z[t]) + z[t].to(f16).to(f64) + z[t].to(bf16).to(f64)


def test_every_operation_on_16_bits_is_rounded():
    given = [[-321, 3, 257, 1], np.zeros(4), [1 + 2**-11 + 2**-40, 0.3, 1 + 2**-8 + 2**-40, 7.0], np.zeros(4)]
    expected, found = launch(_rounded, *given), launch_on_cpu(_rounded, *given)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[3], expected[3])


_HAS_BF16 = bool(llvm.binding().get_host_cpu_features().get("avx512bf16"))
BODY = """module attributes {{gpu.container_module}} {{ gpu.module @m {{
  gpu.func @k(%p: memref<64xf32>) kernel attributes {{{block}}} {{
    %t = gpu.thread_id x
    %v = memref.load %p[%t] : memref<64xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    {body}
    gpu.return }} }} }}"""
BLOCK = "known_block_size = array<i32: 64, 1, 1>"


@pytest.mark.parametrize(
    ("body", "block", "message"),
    [
        ("gpu.barrier", "", "@k does not fix its block"),
        ("scf.for %i = %c0 to %t step %c1 { gpu.barrier }", BLOCK, "not all threads of the block .* gpu.thread_id"),
        (
            "%b = arith.cmpf ogt, %v, %zero : f32\nscf.if %b { gpu.barrier }",
            BLOCK,
            "a barrier inside scf.if .* depends on gpu.thread_id",
        ),
        ("%s = gpu.all_reduce add %v {} : (f32) -> f32", BLOCK, "gpu.all_reduce has no form on a CPU"),
    ],
)
def test_what_only_a_gpu_can_do_is_named(body, block, message):
    with pytest.raises(ModuleError, match=message):
        to_host(BODY.format(body=body, block=block))


ALIKE = {
    "a branch that all threads take alike has a barrier": ("""%b = gpu.block_id x
    %first = arith.cmpi eq, %b, %c0 : index
    %w = scf.if %first -> (f32) {
      gpu.barrier
      %x = arith.addf %v, %v : f32
      scf.yield %x : f32
    } else {
      scf.yield %v : f32
    }
    memref.store %w, %p[%t] : memref<64xf32>""", 2, 2),
    "a condition is computed between barriers": ("""
    %w, %n = scf.while (%a = %v, %i = %c0) : (f32, index) -> (f32, index) {
      gpu.barrier
      %b = gpu.block_id x
      %c3 = arith.constant 3 : index
      %most = arith.addi %b, %c3 : index
      %again = arith.cmpi slt, %i, %most : index
      scf.condition(%again) %a, %i : f32, index
    } do {
    ^bb0(%a: f32, %i: index):
      %s = arith.addf %a, %v : f32
      %next = arith.addi %i, %c1 : index
      scf.yield %s, %next : f32, index
    }
    memref.store %w, %p[%t] : memref<64xf32>""", 1, 4),
    "a loop yields what a loop in it carries": ("""%c2 = arith.constant 2 : index
    %w = scf.for %i = %c0 to %c2 step %c1 iter_args(%a = %v) -> (f32) {
      %x = scf.for %j = %c0 to %c2 step %c1 iter_args(%b = %a) -> (f32) {
        gpu.barrier
        %y = arith.addf %b, %v : f32
        scf.yield %y : f32
      }
      scf.yield %x : f32
    }
    memref.store %w, %p[%t] : memref<64xf32>""", 1, 5),
}  # fmt: skip


@pytest.mark.parametrize(("body", "blocks", "times"), ALIKE.values(), ids=ALIKE)
def test_barriers_where_all_threads_go_alike(body, blocks, times):
    x = np.arange(64, dtype=np.float32)
    compile_kernels(BODY.format(body=body, block=BLOCK))["k"]([x], grid=(blocks,))
    np.testing.assert_array_equal(x, times * np.arange(64))


def test_threads_may_take_a_branch_alike_by_what_all_of_them_load():
    body = """%b = gpu.block_id x
    %head = memref.load %p[%b] : memref<64xf32>
    %is_one = arith.cmpf ogt, %head, %zero : f32
    gpu.barrier
    %w = scf.if %is_one -> (f32) {
      %s = gpu.subgroup_reduce add %v uniform : (f32) -> f32
      gpu.barrier
      scf.yield %s : f32
    } else {
      scf.yield %v : f32
    }
    memref.store %w, %p[%t] : memref<64xf32>"""
    for first, expected in ((1, [497] * 32 + [1520] * 32), (-1, range(64))):
        x = np.arange(64, dtype=np.float32)
        x[0] = first
        compile_kernels(BODY.format(body=body, block=BLOCK))["k"]([x], grid=(1,))
        np.testing.assert_array_equal(x[1:], expected[1:])


def test_arguments_are_checked():
    kernel = compile_kernels(_turns.mlir())["_turns"]
    with pytest.raises(UsageError, match="_turns takes 2 arguments, got 1"):
        kernel([np.zeros(64, np.float32)], grid=(2,))
    with pytest.raises(UsageError, match="C-contiguous NumPy array, got list"):
        kernel([[0.0] * 64, np.zeros(64, np.float32)], grid=(2,))


def test_machine_code_is_kept(tmp_path, monkeypatch):
    made = []
    assemble = cpu.assemble
    monkeypatch.setattr(cpu, "assemble", lambda *given, **named: made.append(1) or assemble(*given, **named))
    given = [np.arange(64.0), np.zeros(64)]
    results = []
    for _ in range(2):
        compiled = compile_kernels(_turns.mlir(), Cache(tmp_path))["_turns"]
        results.append(launch_on_cpu(_turns, *given, compiled=compiled)[1])
    assert len(made) == 1
    np.testing.assert_array_equal(*results)


@pytest.mark.skipif(not _HAS_BF16, reason="the processor has no AVX512-BF16")
@pytest.mark.xfail(strict=True, reason="LLVM selects bf16 by AVX512-BF16's conversion, which flushes denormals to 0")
def test_a_denormal_bf16_beside_a_mask_is_kept():

    @lego.kernel(grid=2, block=4)
    def masked(x: lego.Tensor(bf16, Row(5)), y: lego.Tensor(bf16, lego.Col(2, 4))):
        b, t = lego.block_id[0], lego.thread_id[0]
        y[b, t] = x.tile_by([1], [7]).load(0, (31 - b + t) % 7, other=2.0**-128)

    found = launch_on_cpu(masked, np.arange(1, 6), np.zeros((2, 4)))[1].astype(float)
    assert found.tolist() == [[4, 5, 2.0**-128, 2.0**-128], [3, 4, 5, 2.0**-128]]


def test_a_processor_without_bf16_rounds_to_nearest_even():
    """LLVM calls a function of its run-time library there, which no library of this process has."""
    text = """func.func @halved(%x: memref<12xf32>, %y: memref<12xbf16>) {
      %first = arith.constant 0 : index
      %end = arith.constant 12 : index
      %step = arith.constant 1 : index
      scf.for %i = %first to %end step %step {
        %v = memref.load %x[%i] : memref<12xf32>
        %w = arith.truncf %v : f32 to bf16
        memref.store %w, %y[%i] : memref<12xbf16>
      }
      return }"""
    bits = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF7FFFFF, 0x80000000, 1, 0x00018000, 0x7F800000]
    x = np.array([*bits, 0x7F800001, 0xFFC00001, 0x7FFFFFFF], np.uint32).view(np.float32)
    y = np.zeros(12, np.uint16)
    library = cpu.load(cpu.assemble(text, ("halved",), cpu="x86-64"), ("halved",))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("halved"))(x.ctypes.data, y.ctypes.data)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(y.view(ml_dtypes.bfloat16).astype(np.float32), expected)
    assert (np.signbit(y.view(ml_dtypes.bfloat16)) == np.signbit(x)).all()
