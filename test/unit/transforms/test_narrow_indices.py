"""Index arithmetic in 32 bits: the same numbers as in 64, at the limits of i32 too."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, bindings, f16, f32, interp
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.kernels import matmul, transpose
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel, lowering
from lego_mlir.transforms import index_operations, modules
from lego_mlir.transforms.passes.narrow_indices import NarrowIndices, narrowed

MLIR_OPT = shutil.which("mlir-opt-22")
THREADS = 32
POSITIVE = ("index.divs", "index.floordivs", "index.ceildivs", "index.rems", "arith.divsi", "arith.remsi")
UNSIGNED = ("index.divu", "index.remu", "index.ceildivu", "arith.divui", "arith.remui")
PLAIN = tuple(f"index.{kind}" for kind in ("add", "sub", "mul", "and", "or", "xor", "maxs", "mins", "maxu", "minu"))
SHIFTS = ("index.shl", "index.shrs", "index.shru", "arith.shli", "arith.shrsi", "arith.shrui")
NUMBERS = st.one_of(
    st.integers(-40, 40),
    st.sampled_from([s * (2**k + d) for k in (15, 16, 30, 31, 32, 33, 45) for d in (-1, 0, 1) for s in (1, -1)]),
)
GRIDS = (1, 7, 4096, 2**26, 2**26 + 1, 2**31 - 1)


def module(body, grid, buffers="%out: memref<4096xi64>", block=THREADS):
    return f"""gpu.module @m {{ gpu.func @k({buffers}) kernel attributes {{
      known_block_size = array<i32: {block}, 1, 1>, known_grid_size = array<i32: {grid}, 1, 1>}} {{
      %t = gpu.thread_id x
      %b = gpu.block_id x
      {body}
      gpu.return }} }}"""


def put(name, slot):
    """Store an index as an i64, in the row of 32 that is numbered `slot`."""
    return f"""%{name}_data = arith.index_cast %{name} : index to i64
      %{name}_at = affine.apply affine_map<(t) -> (t + {slot * THREADS})>(%t)
      memref.store %{name}_data, %out[%{name}_at] : memref<4096xi64>"""


def run(text, block, grid):
    out = np.zeros(4096, np.int64)
    report = interp.launch(text, grid=grid, args=[out], blocks=[block])
    assert report.clean, report.faults
    return out


def compare(text, grid):
    """The first, a middle and the last block store the same numbers before and after."""
    narrow = narrowed(text)
    for block in sorted({0, grid // 3, grid - 1}):
        np.testing.assert_array_equal(run(narrow, block, grid), run(text, block, grid), err_msg=f"{text}\n{narrow}")
    return narrow


@st.composite
def arithmetic(draw):
    """A module that stores every index of a random computation."""
    grid = draw(st.sampled_from(GRIDS))
    lines, names = [], ["t", "b"]
    for number in range(draw(st.integers(1, 10))):
        name, a = f"v{number}", draw(st.sampled_from(names))
        form = draw(st.sampled_from(("plain", "plain", "positive", "unsigned", "shift", "affine", "select")))
        constant = draw(NUMBERS)
        if form in ("positive", "unsigned"):
            constant = max(1, abs(constant))
        lines.append(f"%c{number} = arith.constant {draw(st.integers(0, 40)) if form == 'shift' else constant} : index")
        b = f"c{number}" if form not in ("plain", "select") else draw(st.sampled_from([*names, f"c{number}"]))
        if form == "affine":
            d = draw(st.integers(1, 70000))
            what = draw(st.sampled_from((f"d0 mod {d}", f"d0 floordiv {d}", f"d0 ceildiv {d}", f"(d0 - s0) mod {d}")))
            lines.append(f"%{name} = affine.apply affine_map<(d0)[s0] -> ({what} + s0 * 3)>(%{a})[%{b}]")
        elif form == "select":
            lines.append(f"%{name}_if = index.cmp slt(%{a}, %{b})")
            lines.append(f"%{name} = arith.select %{name}_if, %{b}, %{a} : index")
        else:
            family = {"plain": PLAIN, "positive": POSITIVE, "unsigned": UNSIGNED, "shift": SHIFTS}[form]
            operation = draw(st.sampled_from(family))
            lines.append(f"%{name} = {operation} %{a}, %{b}" + (" : index" if operation.startswith("arith") else ""))
        names.append(name)
        lines.append(put(name, number))
    return module("\n      ".join(lines), grid), grid


def test_an_index_that_a_branch_uses_first():
    """What a branch makes of a number, such as its value in 64 bits, does not exist behind it."""
    uses = [
        f"%{name} = affine.apply affine_map<(t) -> (t mod 2)>(%t)\n" + put(name, slot)
        for slot, name in enumerate(("inside", "behind"))
    ]
    compare(
        module(
            f"""%early = affine.apply affine_map<(t) -> ((t mod 2) * 3)>(%t)
      %c1 = arith.constant 1 : index
      %odd = index.cmp sgt(%early, %c1)
      scf.if %odd {{ {uses[0]} }}
      {uses[1]}""",
            1,
        ),
        1,
    )


@given(arithmetic())
@settings(max_examples=150)
def test_narrow_arithmetic_computes_the_same_numbers(case):
    compare(*case)


@given(st.sampled_from(list(index_operations.OPERATIONS)), st.data())
def test_bounds_hold_every_result(kind, data):
    def drawn(least=-(2**35)):
        low = data.draw(st.integers(least, 2**35))
        return low, data.draw(st.integers(low, low + data.draw(st.sampled_from([0, 5, 2**33]))))

    unsigned = kind in ("divu", "remu", "shru", "minu", "maxu", "ceildivu")
    a = drawn(0 if unsigned else -(2**35))
    b = (
        (data.draw(st.integers(0, 9)),) * 2
        if kind.startswith("sh")
        else drawn(1 if "div" in kind or "rem" in kind else 0)
    )
    x, y = data.draw(st.integers(*a)), data.draw(st.integers(*b))
    found = index_operations.bounds(kind, a, b)
    if found is not None and not (y == 0 and kind in ("mod", "divs", "rems")):
        assert found[0] <= EXACT[kind](x, y) <= found[1], (kind, a, b, x, y)


def truncated(x, y):
    return x // y if x >= 0 else -(-x // y)


EXACT = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "and": lambda x, y: x & y,
    "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y, "shl": lambda x, y: x << y, "shrs": lambda x, y: x >> y,
    "shru": lambda x, y: x >> y, "divs": truncated, "divu": truncated, "rems": lambda x, y: x - truncated(x, y) * y,
    "remu": lambda x, y: x % y, "mod": lambda x, y: x % y, "floordivs": lambda x, y: x // y,
    "ceildivs": lambda x, y: -(-x // y), "ceildivu": lambda x, y: -(-x // y), "mins": min, "maxs": max, "minu": min,
    "maxu": max,
}  # fmt: skip


@pytest.mark.parametrize("kind", index_operations.OPERATIONS)
def test_the_meaning_of_an_operation_holds_where_the_table_says(kind):
    row = index_operations.OPERATIONS[kind]
    for x in range(0 if row.natural else -9, 10):
        for y in range(0 if row.natural else -9, 10):
            if y or not ("div" in kind or "rem" in kind or kind == "mod"):
                assert row.meaning(x, y) == EXACT[kind](x, y), (x, y)


def test_the_names_of_the_table_are_operations_of_mlir():
    mlir = bindings.load()
    for name, kind in index_operations.KIND_OF.items():
        assert name.split(".")[0] in ("arith", "index")
        with mlir.ir.Context(), mlir.ir.Location.unknown():
            tail = ": index" if name.startswith("arith") else ""
            text = f"func.func @f(%a: index, %b: index) {{\n %c = {name} %a, %b {tail}\n return }}"
            mlir.ir.Module.parse(text).operation.verify()
        assert kind in index_operations.OPERATIONS


def test_unsigned_operations_know_nothing_of_negative_numbers():
    for kind in ("divu", "remu", "shru", "minu", "maxu", "ceildivu"):
        assert index_operations.bounds(kind, (-1, 5), (2, 3)) is None
    for kind in ("floordivs", "ceildivs", "divs", "rems", "mod"):
        assert index_operations.bounds(kind, (-1, 5), (-2, 3)) is None


# ---- the limit


@pytest.mark.parametrize(("grid", "is_narrow"), [(2**26, True), (2**26 + 1, False)])
def test_a_number_is_narrow_up_to_2_to_the_31_minus_1(grid, is_narrow):
    text = module("%p = affine.apply affine_map<(b, t) -> (b * 32 + t)>(%b, %t)\n" + put("p", 0), grid)
    narrow = compare(text, grid)
    assert run(narrow, grid - 1, grid)[THREADS - 1] == grid * THREADS - 1
    assert ("arith.muli" in re.sub(r"arith.muli.*: index", "", narrow)) == is_narrow


def test_a_division_of_a_number_beyond_32_bits_stays_wide():
    body = "%p = affine.apply affine_map<(b, t) -> ((b * 64 + t) floordiv 3)>(%b, %t)\n" + put("p", 0)
    assert re.search(r"arith.divui .* : index", compare(module(body, 2**27), 2**27))


def test_a_shift_by_more_than_31_stays_wide():
    body = f"""%c = arith.constant 33 : index
      %x = arith.shli %b, %c : index
      %z = arith.subi %t, %c : index
      %y = arith.shrsi %z, %c : index
      {put("x", 0)}
      {put("y", 1)}"""
    compare(module(body, 5), 5)


@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
def test_indices_become_data(kind):
    body = f"""%c = arith.constant -5 : index
      %x = arith.index_cast %c : index to {kind}
      %y = arith.index_cast %x : {kind} to index
      %s = arith.subi %t, %y : index
      %d = arith.index_cast %s : index to {kind}
      %z = arith.index_castui %d : {kind} to index
      {put("y", 0)}
      {put("z", 1)}"""
    compare(module(body, 3), 3)


def test_ids_are_bounded_by_what_a_launch_can_be():
    body = "%p = affine.apply affine_map<(b, t) -> (b * 4 + t)>(%b, %t)\n" + put("p", 0)
    free = re.sub(r",\s*known_grid_size = array<i32: \d+, 1, 1>", "", module(body, 9))
    assert "known_grid_size" not in free
    assert re.search(r"arith.muli .* : index", narrowed(free))
    high = free.replace("gpu.block_id x", "gpu.block_id y")  # at most 65535
    assert not re.search(r"arith.muli .* : index", narrowed(high))


# ---- accesses


def pieces(text, arrays, first, last, grid):
    """Run some blocks of a module on the CPU."""
    kernel = compile_kernels(text)["k"]
    passed = [ctypes.c_void_p(a.ctypes.data) for a in arrays] + [ctypes.c_int64(n) for n in (grid, 1, first, last)]
    ctypes.CFUNCTYPE(None, *map(type, passed))(kernel.library.address("k"))(*passed)


@pytest.mark.parametrize("elements", [2**31 - 64, 2**31, 2**31 + 64, 2**32])
@pytest.mark.parametrize("offset", [0, 32, -32])
def test_positions_up_to_the_end_of_a_large_tensor(elements, offset):
    """`b*64 - b floordiv 2 * 64` is less than the bounds of its terms: only the access shows that it fits."""
    grid = 2 * elements // 64
    body = f"""%p = affine.apply affine_map<(b, t) -> (b * 64 - (b floordiv 2) * 64 + t - (b mod 2) * 64 + 0)>(%b, %t)
      %q = affine.apply affine_map<(p)[b] -> (p + (b mod 2) * 32 + ({offset}) - {min(0, offset)})>(%p)[%b]
      %r = affine.apply affine_map<(q) -> (q - {max(0, offset)})>(%q)
      %v = memref.load %x[%r] : memref<{elements}xi8>
      memref.store %v, %y[%t] : memref<{THREADS}xi8>"""
    text = module(body, grid, f"%x: memref<{elements}xi8>, %y: memref<{THREADS}xi8>")
    narrow = narrowed(text)
    memory = np.zeros(elements, np.int8)  # pages that are not touched take no memory
    memory[-64:] = np.arange(64)
    for whole in (text, narrow):
        for block, wanted in ((grid - 2, np.arange(32)), (grid - 1, np.arange(32, 64))):
            found = np.zeros(THREADS, np.int8)
            pieces(whole, [memory, found], block, block + 1, grid)
            np.testing.assert_array_equal(found, wanted)


def test_a_memref_of_several_dimensions_is_accessed_as_one_of_one():
    body = """%z = arith.constant 2 : index
      %v = memref.load %x[%z, %b, %t] : memref<3x5x32xf32>
      memref.store %v, %y[%b, %t] : memref<5x32xf32>"""
    text = module(body, 5, "%x: memref<3x5x32xf32>, %y: memref<5x32xf32>")
    x, narrow = np.random.default_rng(0).random((3, 5, 32)).astype(np.float32), narrowed(text)
    assert "memref<480xf32>" in narrow
    for whole in (text, narrow):
        found = np.zeros((5, 32), np.float32)
        assert interp.launch(whole, args=[x, found]).clean
        np.testing.assert_array_equal(found, x[2])


# ---- loops


def loop(low, high, step, grid=4):
    body = f"""%low = arith.constant {low} : index
      %high = arith.constant {high} : index
      %step = arith.constant {step} : index
      %one = arith.constant 1 : index
      %zero = arith.constant 0 : index
      %r:4 = scf.for %i = %low to %high step %step iter_args(%s = %zero, %u = %one, %w = %b, %n = %zero)
          -> (index, index, index, index) {{
        %next = affine.apply affine_map<(i) -> ((i + 7) mod 3)>(%i)
        %sum = arith.addi %n, %i : index
        scf.yield %u, %next, %t, %sum : index, index, index, index
      }}
      %x = arith.addi %r#0, %r#1 : index
      %y = arith.addi %r#2, %zero : index
      %m = arith.muli %r#3, %one : index
      {put("x", 0)}
      {put("y", 1)}
      {put("m", 2)}"""
    return module(body, grid)


@pytest.mark.parametrize("bounds", [(0, 8, 1), (-9, 10, 4), (2**31 - 20, 2**31 - 2, 1), (2**31 - 20, 2**31 + 5, 3)])
def test_loops_and_what_they_carry(bounds):
    narrow = compare(loop(*bounds), 4)
    types = re.search(r"iter_args.*-> \(([^)]*)\)", narrow).group(1)
    assert types == "i32, i32, i32, index"  # the last is a sum without a bound
    assert (") : i32 {" in re.sub(r"\s+", " ", narrow)) == (bounds[1] + bounds[2] - 2 < 2**31 - 1)


# ---- whole kernels


def wide_arithmetic(text):
    """Arithmetic in 64 bits, but for sums of products, which are positions."""
    found = re.findall(r"(?:arith|index)\.\w+ .*: index$", modules.strip_locations(text), re.MULTILINE)
    return [line for line in found if not re.match(r"arith.(constant|addi|muli|index_cast)", line)]


@pytest.mark.parametrize("variant", transpose.VARIANTS)
@pytest.mark.parametrize("sizes", [(64, 96), (33, 65)])
def test_transposes_in_32_bits(variant, sizes):
    kernel = transpose.build(variant, *sizes, f32)
    narrow = narrowed(kernel.mlir())
    assert not wide_arithmetic(narrow)
    source = np.random.default_rng(1).random(sizes).astype(np.float32)
    found = np.zeros(sizes[::-1], np.float32)
    assert interp.launch(narrow, args=[source.reshape(-1), found.reshape(-1)]).clean
    np.testing.assert_array_equal(found, source.T)
    on_cpu = np.zeros(sizes[::-1], np.float32)
    compile_kernels(narrow)[kernel.name]([source.reshape(-1), on_cpu.reshape(-1)], kernel.grid)
    np.testing.assert_array_equal(on_cpu, source.T)


@pytest.mark.parametrize("blocks", [None, 3])
def test_a_pipelined_product_in_32_bits(blocks):
    kernel = matmul.build(128, 64, 128, f16, tiling=matmul.ProductTile(64, 64, 32, (2, 2)), blocks=blocks)
    text = compile_kernel(kernel, transform="matmul_sm80.mlir", parameters={"stages": 3}, emit="transformed").text
    narrow = narrowed(text)
    assert not wide_arithmetic(narrow)
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((128, 128), (128, 64)))
    found = np.zeros((128, 64), np.float32)
    report = interp.launch(narrow, args=[a.reshape(-1), b.reshape(-1), found.reshape(-1)])
    assert report.clean, report.faults
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))


# ---- sizes that are arguments


def masked(most):
    """Double an array of n elements."""
    n = lego.size("n", max=most)

    @lego.kernel(grid=lego.cdiv(n, 64), block=64)
    def double(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(n))):
        a, b = (v.tile_by([lego.cdiv(n, 64)], [64]) for v in (x, y))
        at = lego.block_id[0], lego.thread_id[0]
        b[at] = a[at] * 2.0

    return double


def test_a_declared_maximum_bounds_the_size_its_tensors_and_the_grid():
    text = masked(4096).mlir(locations=False)
    assert text.count("lego.largest = 4096 : i64") == 2
    assert "index {lego.range = array<i64: 1, 4096>}" in text
    assert "lego.largest_grid = array<i64: 64, 1, 1>" in text
    for other in (masked(None).mlir(locations=False), narrowed(text)):
        assert not re.search(r"lego\.(largest|range)", other)
    assert MLIR_OPT is None or "4096" in subprocess.run([MLIR_OPT], input=text, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("most", "is_narrow"), [(4096, True), (2**31 - 1, True), (2**31, False), (None, False)])
def test_a_size_with_a_maximum_has_narrow_indices(most, is_narrow):
    """The last block ends at a multiple of 64, as does i32."""
    kernel = masked(most)
    narrow = narrowed(kernel.mlir())
    assert bool(re.search("arith.cmpi slt, .* : i32", narrow)) == is_narrow
    for n in (1, 64, 65, 1000):
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        assert interp.launch(narrow, grid=-(-n // 64), args=[x, y, n]).clean
        np.testing.assert_array_equal(y, 2 * x)
    compile_kernel(kernel, emit="ptx", target="sm_90")


@pytest.mark.parametrize("variant", transpose.VARIANTS)
def test_transposes_of_bounded_sizes(variant):
    m, n = (lego.size(name, max=300) for name in "MN")
    kernel = transpose.build(variant, m, n, f32)
    narrow = narrowed(kernel.mlir())
    assert not wide_arithmetic(narrow)
    source = np.random.default_rng(1).random((45, 70)).astype(np.float32)
    grid = [int(evaluate(extent, {"M": 45, "N": 70})) for extent in kernel.grid]
    for run_it in (
        lambda arguments: interp.launch(narrow, grid=grid, args=arguments),
        lambda arguments: compile_kernels(narrow)[kernel.name](arguments, grid),
    ):
        found = np.zeros((70, 45), np.float32)
        run_it([source.reshape(-1), found.reshape(-1), 45, 70])
        np.testing.assert_array_equal(found, source.T)


def test_a_tensor_of_more_than_2_to_the_31_elements_keeps_wide_positions():
    for most, is_narrow in ((2**15, True), (2**17, False)):
        m, n = (lego.size(name, max=most) for name in "MN")
        ptx = compile_kernel(transpose.build("naive", m, n, f32), emit="ptx").text
        assert ("mul.lo.s64" not in ptx) == is_narrow


def test_the_stage_narrows_and_can_be_told_not_to():
    text = transpose.build("naive", 33, 65, f32).mlir()
    assert not re.search(r"llvm.[su]div .*: i64", lowering.to_nvvm(text))
    others = [one for one in lowering.LOWERINGS if not isinstance(one, NarrowIndices)]
    assert re.search(r"llvm.sdiv .*: i64", lowering.to_nvvm(text, lowerings=others))


def test_shared_memory_has_32_bit_addresses():
    ptx = compile_kernel(transpose.build("swizzled", 64, 64, f32), emit="ptx").text
    assert re.search(r"st\.shared\.b32 \t?\[%r\d", ptx)
    assert not re.search(r"(ld|st)\.shared\S* .*%rd", ptx)


def test_a_sum_that_a_condition_has_in_32_bits_is_extended_for_addresses():
    n = lego.size("n", max=1 << 20)

    @lego.kernel(grid=lego.cdiv(n, 64), block=64)
    def added(x: lego.Tensor(f32, Row(n)), h: lego.Tensor(f16, Row(n)), y: lego.Tensor(f32, Row(n))):
        i = lego.block_id[0] * 64 + lego.thread_id[0]
        with lego.when(i < n):
            y[i] = x[i] + h[i].to(f32)

    narrow = narrowed(added.mlir())
    assert not re.search(r"arith\.(addi|muli) .*: index", narrow)
    x, h, y = np.arange(100, dtype=np.float32), np.arange(100, dtype=np.float16), np.zeros(100, np.float32)
    assert interp.launch(narrow, grid=2, args=[x, h, y, 100]).clean
    np.testing.assert_array_equal(y, 2 * x)
