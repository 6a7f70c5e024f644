"""Functions shared by kernels: inlined or called, on the interpreter, in PTX and on the CPU."""

import re

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32, interp
from lego_mlir.cli.main import main
from lego_mlir.errors import LayoutIndexError, TraceError
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts
from lego_mlir.transforms.kernel_facts import kernel_facts

N = lego.size("N", max=10_000)


@lego.function
def halved(x):
    return x * 0.5


@lego.function(inline=False)
def poly(x, degree=3):
    total = lego.register(x.dtype, 1.0)
    for _ in range(degree):
        total.set(total * x + 1.0)
    return total


def scaled(function):
    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            y[i] = function(function(x[i]))

    return kernel


def run(kernel, sizes=None, **arrays):
    report = interp.run_kernel(kernel, arrays, sizes or {})
    assert report.clean, report.faults
    return report


def horner(x, degree=3):
    total = np.ones_like(x)
    for _ in range(degree):
        total = total * x + 1
    return total


@pytest.mark.parametrize(("function", "calls"), [(halved, 0), (poly, 2)], ids=["inlined", "called"])
def test_a_function_is_inlined_or_called(function, calls):
    kernel = scaled(function)
    x, y = np.linspace(-1, 1, 50, dtype=np.float32), np.zeros(50, np.float32)
    run(kernel, {"N": 50}, x=x, y=y)
    expected = x / 4 if function is halved else horner(horner(x))
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert kernel.mlir().count("func.call") == calls
    host = np.zeros(50, np.float32)
    compile_kernels(kernel.mlir())["kernel"]([x, host, 50], grid=(2,))
    np.testing.assert_allclose(host, expected, rtol=1e-6)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_called_function_stays_a_function_in_ptx(target):
    text = compile_kernel(scaled(poly), target=target).text
    assert re.findall(r"\.func .*?(\w+)\(", text)[-1] == "kernel_poly"
    assert text.count("call.uni") == 2
    assert "call.uni" not in compile_kernel(scaled(halved), target=target).text
    compile_kernel(scaled(poly), target=target, emit="cubin")


def test_two_kernels_share_a_function_in_one_module():
    @lego.kernel(grid=1, block=32)
    def first(x: lego.Tensor(f32, Row(32))):
        x[lego.thread_id[0]] = poly(x[lego.thread_id[0]])

    @lego.kernel(grid=1, block=32)
    def second(x: lego.Tensor(f16, Row(32))):
        x[lego.thread_id[0]] = poly(x[lego.thread_id[0]])

    text = compile_kernel((first, second)).text
    assert re.findall(r"\.entry (\w+)", text) == ["first", "second"]
    assert {"first_poly", "second_poly"} <= set(re.findall(r"\w+_poly", text))


@lego.function(inline=False)
def rotate(tile, i, by):
    """A function with memory, an index, a barrier, and two results."""
    value = tile[(i + by) % 32]
    lego.barrier()
    tile[i] = value + 1.0
    lego.barrier()
    return tile[31 - i], (i + by) % 32, i < by


@lego.kernel(grid=2, block=32)
def rotated(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64)), z: lego.Tensor(i32, Row(64))):
    b, t = lego.block_id[0], lego.thread_id[0]
    tile = lego.shared(f32, Row(32), name="tile")
    tile[t] = x[b * 32 + t]
    lego.barrier()
    value, place, low = rotate(tile, t, 3)
    again, _, _ = rotate(tile, t, 5)
    y[b * 32 + t] = value + again
    z[b * 32 + t] = lego.where(low, i32(place), -i32(place))


def rotated_in_numpy(x):
    y, z = np.zeros_like(x), np.zeros(x.size, np.int32)
    for block in (slice(0, 32), slice(32, 64)):
        first = np.roll(x[block], -3) + 1
        second = np.roll(first, -5) + 1
        y[block] = first[::-1] + second[::-1]
        place = (np.arange(32) + 3) % 32
        z[block] = np.where(np.arange(32) < 3, place, -place)
    return y, z


def test_memory_indices_conditions_and_several_results():
    x = np.random.default_rng(0).integers(0, 9, 64).astype(np.float32)
    y, z = np.zeros(64, np.float32), np.zeros(64, np.int32)
    run(rotated, x=x, y=y, z=z)
    expected = rotated_in_numpy(x)
    assert (y == expected[0]).all()
    assert (z == expected[1]).all()
    assert rotated.mlir().count("func.func") == 2  # an int argument is part of the code
    host_y, host_z = np.zeros(64, np.float32), np.zeros(64, np.int32)
    compile_kernels(rotated.mlir())["rotated"]([x, host_y, host_z], grid=(2,))
    assert (host_y == expected[0]).all()
    assert (host_z == expected[1]).all()
    compile_kernel(rotated, emit="cubin")


def test_words_that_need_a_lowering_work_in_a_function():
    @lego.function(inline=False)
    def add_up(x, total, i):
        total.atomic_add(lego.warp_reduce(x[i].to(f32)), 0)
        return (x[i] * x[i]).to(f32)

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(lego.bf16, Row(32)), total: lego.Tensor(f32, Row(1)), y: lego.Tensor(f32, Row(32))):
        y[lego.thread_id[0]] = add_up(x, total, lego.thread_id[0])

    x, total, y = np.arange(32), np.zeros(1, np.float32), np.zeros(32, np.float32)
    run(kernel, x=x.astype(lego.bf16.numpy), total=total, y=y)
    assert total[0] == 32 * x.sum()
    for target in ("sm_80", "sm_90"):
        assert compile_kernel(kernel, target=target, emit="cubin").bytes


def test_accesses_of_a_function_are_claims_of_the_kernel():
    lines = [(text, type(verdict).__name__) for text, verdict in access_verdicts(rotated.trace(), 1000)]
    inside = [(text, verdict) for text, verdict in lines if "tile[" in text]
    assert len(inside) == 7  # one store in the kernel, three accesses in each of two functions
    assert {verdict for _, verdict in inside} == {"Proved"}


def test_a_race_in_a_function_is_found():
    @lego.function(inline=False)
    def swap(tile, i):
        tile[31 - i] = tile[i]

    @lego.kernel(grid=1, block=32)
    def racing(x: lego.Tensor(f32, Row(32))):
        tile, t = lego.shared(f32, Row(32)), lego.thread_id[0]
        tile[t] = x[t]
        swap(tile, t)
        x[t] = tile[t]

    report = interp.run_kernel(racing, {"x": np.zeros(32, np.float32)})
    assert any(fault.kind.value == "race" and fault.buffer == "shared0" for fault in report.faults)


def test_a_tensor_of_unknown_size_is_passed_to_functions_that_call_functions():
    @lego.function(inline=False)
    def read(x, i):
        return lego.where(i < N, x[lego.minimum(i, N - 1)], 0.0)

    @lego.function(inline=False)
    def pair(x, i):
        return read(x, i) + read(x, i + 1)

    @lego.kernel(grid=1, block=8)
    def sums(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(8))):
        y[lego.thread_id[0]] = pair(x, lego.thread_id[0])

    x, y = np.arange(1, 6, dtype=np.float32), np.zeros(8, np.float32)
    run(sums, {"N": 5}, x=x, y=y)
    assert y.tolist() == [3, 5, 7, 9, 5, 0, 0, 0]
    assert [p.read for p in sums.params] == [True, False]
    facts = kernel_facts(sums.mlir())[0].arguments
    assert [(a.read, a.written, a.alignment) for a in facts[:2]] == [(True, False, 4), (False, True, 4)]
    assert compile_kernel(sums, emit="cubin").bytes
    host = np.zeros(8, np.float32)
    compile_kernels(sums.mlir())["sums"]([x, host, 5], grid=(1,))
    assert host.tolist() == y.tolist()


def test_roundings_are_those_of_the_inlined_code():
    plain = lego.function(poly.function)
    called, inlined = (scaled(f).roundings({"N": 50})["y"] for f in (poly, plain))
    assert called == inlined
    assert called.count("f32") == 6


def test_outside_a_kernel_it_is_the_python_function():
    assert halved(3) == 1.5
    assert halved(np.ones(2)).tolist() == [0.5, 0.5]
    assert halved.__name__ == "halved"


def traced(function, block=32):
    @lego.kernel(grid=1, block=block)
    def kernel(x: lego.Tensor(f32, Row(32))):
        function(x)

    return kernel.trace()


def test_recursion_is_refused():
    @lego.function
    def even(n):
        return odd(n - 1)

    @lego.function
    def odd(n):
        return even(n - 1)

    with pytest.raises(
        TraceError, match=r"test_device_functions.py:\d+: even calls itself \(even -> odd -> even\): a k"
    ):
        traced(lambda x: even(4))


def test_a_called_function_sees_its_arguments_only():
    def kernel(x):
        value = x[0]
        register = lego.register(f32, 0.0)

        @lego.function(inline=False)
        def reads_value():
            return value + 1.0

        @lego.function(inline=False)
        def reads_register():
            return register + 1.0

        return reads_value, reads_register

    for number, what in enumerate(("a value", "a register")):
        with pytest.raises(
            TraceError, match=rf"{what} of the caller is used in reads_\w+, which is called and sees its"
        ):
            traced(lambda x, number=number: kernel(x)[number]())

    def reading(x, variable):
        def reads_variable():
            x[variable] = 1.0

        return lego.function(inline=False)(reads_variable)

    def loops(x):
        for k in lego.range(4):
            reading(x, k)()

    with pytest.raises(TraceError, match=r"the variable k0 of the caller is used in reads_variable"):
        traced(loops)


def test_what_is_known_at_the_call_does_not_hold_inside():
    @lego.function(inline=False)
    def store(x, i):
        x[i] = 1.0

    def guarded(x):
        with lego.when(lego.thread_id[0] < 32):
            store(x, lego.thread_id[0])

    with pytest.raises(LayoutIndexError, match=r"index 0 of \[32\] leaves 0 .. 31"):
        traced(guarded, block=64)


def tile_of(x):
    return lego.shared(f32, Row(4))


WRONG = {
    "tile": (tile_of, r"lego.shared in tile_of, which is called: shared tiles belong to a kernel; pass the tile as an"),
    "view": (lambda x: x, r"is called and returns a tensor; return its elements"),
}


def test_what_a_called_function_cannot_do():
    for function, message in WRONG.values():
        function.__name__ = "tile_of"
        with pytest.raises(TraceError, match=message):
            traced(lego.function(inline=False)(function))
    with pytest.raises(
        TraceError, match=r"poly is called, and \[1\] cannot be passed: arguments are data, indices, ten"
    ):
        traced(lambda x: poly(x[0], [1]))
    with pytest.raises(TraceError, match=r"poly: missing a required argument: 'x'"):
        traced(lambda x: poly())


def test_what_is_decorated():
    with pytest.raises(TraceError, match=r"@lego.function decorates a Python function, got 3"):
        lego.function(3)
    with pytest.raises(TraceError, match=r"needs a name of ASCII letters, digits and underscores, not <lambda>"):
        lego.function(inline=False)(lambda x: x)
    with pytest.raises(TraceError, match=r"parameter 'rest' of wide, which is called, must be plain, without \* or /"):

        @lego.function(inline=False)
        def wide(*rest):
            pass


def test_accumulators_of_tiles_stay_in_the_kernel():
    @lego.function(inline=False)
    def product(a, acc):
        lego.mma(a.part((0, 0), (16, 16)), a.part((0, 0), (16, 16)), acc)

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f16, Row(16, 16))):
        a = lego.shared(f16, Row(16, 16))
        product(a, lego.accumulator(f32, 16, 16))
        x[0, 0] = 1.0

    with pytest.raises(TraceError, match=r"<accumulator of 16 x 16 f32> cannot be passed: arguments are data"):
        kernel.trace()


def test_products_of_tiles_stay_in_the_kernel():
    @lego.function(inline=False)
    def product(a):
        for _ in lego.range(2):
            total = lego.accumulator(f32, 16, 16)
            lego.mma(a.part((0, 0), (16, 16)), a.part((0, 0), (16, 16)), total)

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f16, Row(16, 16))):
        product(lego.shared(f16, Row(16, 16)))
        x[0, 0] = 1.0

    with pytest.raises(
        TraceError, match=r"test_device_functions.py:\d+: product is called, and lego.mma and tiles of a w"
    ):
        kernel.trace()


def test_the_command_line_accepts_calls(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text("""
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.function(inline=False)
def square(x):
    return x * x

@lego.kernel(grid=2, block=32)
def squares(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    y[i] = square(x[i])

squares.reference(lambda x: x * x)
""")
    for command in ("run", "analyze", "check", "explain"):
        assert main([command, str(path)]) == 0, capsys.readouterr()


def test_tiles_in_dynamic_shared_memory_are_passed():
    @lego.function(inline=False)
    def store(tile, i, value):
        tile[i] = value

    @lego.kernel(grid=1, block=32)
    def kernel(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        t, large = lego.thread_id[0], lego.shared(f32, Row(16 * 1024))
        store(large, t + 1024, x[t])
        lego.barrier()
        y[t] = large[1024 + 31 - t]

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run(kernel, x=x, y=y)
    assert (y == x[::-1]).all()
    assert compile_kernel(kernel, emit="cubin").bytes


def test_tiles_of_a_product_are_passed():
    @lego.function(inline=False)
    def fetch(tile, i, j):
        return tile[i, j]

    @lego.kernel(grid=1, block=128)
    def product(
        a: lego.Tensor(f16, Row(64, 64)), b: lego.Tensor(f16, lego.Col(64, 64)), c: lego.Tensor(f16, Row(64, 64)),
        y: lego.Tensor(f16, Row(128)),
    ):  # fmt: skip
        t, column, acc = lego.thread_id.x, lego.warp_id * 16, lego.accumulator(f32, 64, 16)
        ta, tb, out = (lego.shared(f16, layout) for layout in (Row(64, 64), lego.Col(64, 64), Row(64, 64)))
        lego.stage(a, (0, 0), ta)
        lego.stage(b, (0, 0), tb)
        lego.barrier()
        lego.mma(ta.part((0, 0), (64, 64)), tb.part((0, column), (64, 16)), acc)
        y[t] = fetch(ta, t % 64, t // 2)
        acc.store(out, at=(0, column))
        lego.barrier()
        lego.store_tile(out, c, (0, 0))

    draw, t = np.random.default_rng(0), np.arange(128)
    a, b = (draw.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))
    c, y = np.zeros((64, 64), np.float16), np.zeros(128, np.float16)
    memories = {"a": a.reshape(-1), "b": b.reshape(-1), "c": c.reshape(-1), "y": y}
    assert interp.run_kernel(product, memories).clean
    np.testing.assert_array_equal(c, a @ b.T)
    np.testing.assert_array_equal(y, a[t % 64, t // 2])
