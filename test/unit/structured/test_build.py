"""LL programs as Python functions: checks, batches, threads, storages, and what is accessed."""

import ctypes
import mmap
import os
import re
import threading
import time

import numpy as np
import pytest
from ll_example import EXAMPLE, arrays

from lego_mlir.errors import UsageError
from lego_mlir.structured import build as structured
from lego_mlir.structured import entry_point, reference
from lego_mlir.structured import structures as st
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.syntax import LLError, Operand, assign, solve
from lego_mlir.structured.vector.generate import Variant


@pytest.fixture(scope="module")
def example():
    return structured.compile(EXAMPLE.format(n=5), cache=None)


def test_positions_and_keywords(example):
    given = arrays(example)
    want = reference.evaluate(example.program, given)["A"]
    example(*given.values())
    assert np.allclose(given["A"], want, rtol=1e-14)
    given["A"][:] = 0
    example(given["A"], S=given["S"], U=given["U"], L=given["L"])
    assert np.allclose(given["A"], want, rtol=1e-14)
    assert "A = L * U + S" in repr(example)


def test_refusals_name_the_operand_and_what_was_expected(example):
    A, L, U, S = arrays(example).values()
    with pytest.raises(structured.ArgumentError, match="takes A, L, U, S; got 2 arrays"):
        example(A, L)
    with pytest.raises(structured.ArgumentError, match=r"got 4 arrays and \['B'\]"):
        example(A, L, U, S, B=A)
    with pytest.raises(
        structured.ArgumentError, match=r"L is LowerTriangular\(5\).*shape \(5, 5\).*got shape \(4, 4\)"
    ):
        example(A, np.zeros((4, 4)), U, S)
    with pytest.raises(structured.ArgumentError, match=r"U must be native float64, got <f4"):
        example(A, L, U.astype(np.float32), S)
    with pytest.raises(structured.ArgumentError, match=r"U must be native float64, got >f8"):
        example(A, L, U.astype(">f8"), S)
    with pytest.raises(structured.ArgumentError, match=r"S must be a numpy\.ndarray of float64, got list"):
        example(A, L, U, S.tolist())
    with pytest.raises(structured.ArgumentError, match=r"U must be C-contiguous"):
        example(A, L, U.T, S)
    A.flags.writeable = False
    with pytest.raises(structured.ArgumentError, match="A is written, and the array is read-only"):
        example(A, L, U, S)


def test_misaligned_data_is_refused(example):
    A, L, U, S = arrays(example).values()
    bytes_ = np.zeros(U.nbytes + 1, np.uint8)
    odd = bytes_[1:].view(np.float64).reshape(5, 5)
    with pytest.raises(structured.ArgumentError, match=r"U must be C-contiguous and aligned"):
        example(A, L, odd, S)


def test_a_batch_is_every_matrix_of_it(example):
    batch = [arrays(example, seed) for seed in range(7)]
    stacked = {name: np.stack([one[name] for one in batch]) for name in batch[0]}
    want = [reference.evaluate(example.program, one)["A"] for one in batch]
    example(*stacked.values())
    assert np.allclose(stacked["A"], want, rtol=1e-13)
    shared = batch[3]["L"]
    want = [reference.evaluate(example.program, {**one, "L": shared})["A"] for one in batch]
    example(stacked["A"], shared, stacked["U"], stacked["S"])
    assert np.allclose(stacked["A"], want, rtol=1e-13)
    with pytest.raises(structured.ArgumentError, match=r"batch sizes do not match.*'L': 6"):
        example(stacked["A"], stacked["L"][:6].copy(), stacked["U"], stacked["S"])
    with pytest.raises(structured.ArgumentError, match=r"batch sizes do not match.*'A': None"):
        example(batch[0]["A"], stacked["L"], stacked["U"], stacked["S"])
    empty = [np.zeros((0, 5, 5)) for _ in range(4)]
    example(*empty)


def test_scalars_vectors_and_floats():
    kernel = structured.compile(
        "a = Scalar(); d = Scalar(); x = Vector(6); y = Vector(6); y = a*x + y; d = x'*y;", dtype=np.float32, cache=None
    )
    x, y, d = np.arange(6, dtype=np.float32), np.ones(6, np.float32), np.zeros((), np.float32)
    kernel(2.0, d, x, y)
    assert np.array_equal(y, 2 * np.arange(6) + 1)
    assert d == x @ y
    kernel(np.full((), 0, np.float32), d, x, y.reshape(6, 1))
    assert d == x @ y
    with pytest.raises(structured.ArgumentError, match=r"d must be a numpy\.ndarray"):
        kernel(2.0, 1.0, x, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_number_does_for_a_scalar_that_is_read(dtype):
    kernel = structured.compile("a = Scalar(); x = Vector(3); y = Vector(3); y = a*x;", dtype=dtype, cache=None)
    x = np.arange(1, 4, dtype=dtype)
    for number in (0.1, 3, -(2**40), True, np.float64(0.1), np.float32(0.1), np.int8(-3), np.uint64(7), float("inf")):
        y, named = np.zeros(3, dtype), np.zeros(3, dtype)
        kernel(number, x, y)
        kernel(a=number, y=named, x=x)
        assert np.array_equal(y, dtype(number) * x), number
        assert np.array_equal(named, y), number
    batch = np.zeros((4, 3), dtype)
    kernel(2, x, batch)
    assert (batch == 2 * x).all()
    with pytest.raises(structured.ArgumentError, match="a is too large for float"):
        kernel(10**400, x, y)
    with pytest.raises(structured.ArgumentError, match=r"a must be a number or a numpy\.ndarray of float.*got complex"):
        kernel(1j, x, y)


def test_names_that_do_not_fit_are_refused(example):
    A, L, U, S = arrays(example).values()
    for given, named in [((A, L, U), {"s": S}), ((A, L, U), {"S": S, "L": L}), ((A, L, U, S), {"A": A}), ((), {})]:
        with pytest.raises(structured.ArgumentError, match=f"takes A, L, U, S; got {len(given)} arrays"):
            example(*given, **named)


def test_what_is_written_shares_memory_with_nothing_else():
    kernel = structured.compile("A = Matrix(4, 4); B = Matrix(4, 4); C = Matrix(4, 4); C = A*B;", cache=None)
    memory = np.ones(64)
    first, second, last = (memory[at : at + 16].reshape(4, 4) for at in (0, 8, 48))
    kernel(first, second, last)  # what is only read may overlap
    assert (last == 4).all()
    for A, B, C, word in [(first, last, first, "A"), (last, first, first, "B"), (first, last, second, "A")]:
        before = memory.copy()
        with pytest.raises(structured.ArgumentError, match=rf"C is written.* that of {word},.*Pass a copy"):
            kernel(A, B, C)
        assert np.array_equal(memory, before)


def test_overlaps_of_batches_and_of_two_results():
    kernel = structured.compile("a = Scalar(); x = Vector(4); y = Vector(4); y = a*x; x = 2*x;", cache=None)
    memory = np.ones((6, 4))
    kernel(2.0, memory[:3], memory[3:])
    assert (memory == 2).all()
    kernel(2.0, memory[:0], memory[:0])  # an empty batch shares nothing
    with pytest.raises(structured.ArgumentError, match=r"x is written.*that of y"):
        kernel(2.0, memory[:3], memory[2:5])
    with pytest.raises(structured.ArgumentError, match=r"x is written.*that of a"):
        kernel(memory[0, 1:2].reshape(()), memory[0], memory[1])
    nothing = structured.compile("Z = Zero(2, 2); A = Matrix(2, 2); A = A + Z;", cache=None)
    square = np.ones((2, 2))
    nothing(square, square)  # of Z, nothing is ever read


def test_python_embedding_and_usage_errors():
    L, x = Operand("L", st.unit_lower(4)), Operand("x", st.general(4, 1))
    kernel = structured.compile(assign(x, solve(L, x)), cache=None)
    given = {"x": np.arange(4.0).reshape(4, 1), "L": np.tril(np.ones((4, 4)))}
    want = np.linalg.solve(given["L"], given["x"])
    kernel(**given)
    assert np.allclose(given["x"], want)
    with pytest.raises(UsageError, match="float64 or float32, not int64"):
        structured.compile(assign(x, solve(L, x)), dtype=np.int64)
    with pytest.raises(UsageError, match="an identifier, got 'a b'"):
        structured.compile(assign(x, solve(L, x)), name="a b")
    with pytest.raises(UsageError, match="no instruction set is named 'mmx'"):
        structured.compile(assign(x, solve(L, x)), target="mmx")
    with pytest.raises(LLError, match="A is not declared"):
        structured.compile("A = B")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variant": "tuned"}, "a variant is a Variant, 'scalar', 'tune' or None, got 'tuned'; did you mean tune"),
        ({"variant": 4}, "a variant is a Variant.*got 4$"),
        ({"variant": "scalar", "by_lanes": True}, "by_lanes .* omit variant, got 'scalar'"),
        ({"varient": "tune"}, "no option 'varient'; did you mean variant"),
        ({"dtyp": np.float32}, "no option 'dtyp'; did you mean dtype"),
        ({"target": "avx51"}, "no instruction set is named 'avx51'.*did you mean avx512"),
        ({"target": "AVX2"}, "no instruction set is named 'AVX2'"),
        ({"name": "größe"}, "a kernel's name is an identifier"),
    ],
    ids=str,
)
def test_misspelt_options_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        structured.compile("x = Vector(2); y = Vector(2); y = 2*x;", **{"cache": None, **options})
    with pytest.raises(UsageError, match="'scalar' or None, got 'tune'"):
        structured.source_of("x = Vector(2); y = Vector(2); y = 2*x;", variant="tune")


def test_operands_that_would_be_ignored_are_refused():
    x = Operand("x", st.general(4, 1))
    with pytest.raises(UsageError, match="a Statement already has its operands; remove the keywords y"):
        structured.compile(assign(x, 2 * x), y=x)
    with pytest.raises(UsageError, match="takes LL text, a Program or a Statement, got Operand"):
        structured.compile(x)
    with pytest.raises(LLError, match=r"got '' for Matrix\(4, 1\); pass name="):
        structured.compile(assign(Operand("", st.general(4, 1)), 2 * x))


AWKWARD = (
    "int for double restrict this c0 c8 k0 true mask1 mask11111000 i0 i5 a0_0 r3 row column t0 t1 copy0 one A_full "
    "positions_kernel_A kernel_A_to_A_full_from lambda chol Matrix func kernel"
)


@pytest.mark.parametrize("variant", [None, Variant(8, 8, 2, True), Variant(4, 4, 2), "scalar"], ids=str)
@pytest.mark.parametrize("names", [AWKWARD.split()[at::4] for at in range(4)], ids=str)
def test_operands_of_any_name(names, variant):
    for name in names:
        text = (
            f"{name} = Symmetric(L, 9, storage=packed); B = Matrix(9, 9, storage=column_major); A = Matrix(9, 9);"
            f"C = LowerTriangular(9); A = ({name} + B)*(A*A)' + 2*{name}'; C = chol({name}); B = {name}*B;"
        )
        kernel = structured.compile(text, cache=None, variant=variant)
        given = arrays(kernel)
        want = reference.evaluate(kernel.program, given)
        kernel(*(given[operand.name] for operand in kernel.program.operands))
        for operand in kernel.program.operands:
            found = reference.dense(operand, given[operand.name])
            assert np.allclose(found, want[operand.name], rtol=1e-10), name


def test_a_users_structure_by_its_two_dictionaries():
    inside = "{ [i, j] : 0 <= i, j < %d and (i = j or i = %d or j = %d) }"

    def arrow(n):
        region = inside % (n, n - 1, n - 1)
        outside = f"{{ [i, j] : 0 <= i, j < {n - 1} and i != j }}"
        return st.Structure(f"Arrow({n})", n, n, (("G", region), ("Z", outside)), (st.Access(region),))

    text = "W = Arrow(9); x = Vector(9); y = Vector(9); A = Matrix(9, 9); y = W*x; A = W*A + W';"
    kernel = structured.compile(text, types={"Arrow": ("n", arrow)}, cache=None)
    given = arrays(kernel)
    want = reference.evaluate(kernel.program, given)
    kernel(*(given[o.name].reshape(entry_point.array_shape(o)) for o in kernel.program.operands))
    assert np.allclose(given["A"], want["A"], rtol=1e-13)
    assert np.allclose(given["y"], want["y"], rtol=1e-13)


def test_several_threads_at_once(example):
    batch = [arrays(example, seed) for seed in range(8)]
    want = [reference.evaluate(example.program, one)["A"] for one in batch]

    def work(one):
        for _ in range(2000):
            example(*one.values())

    threads = [threading.Thread(target=work, args=(one,)) for one in batch]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(one["A"], right, rtol=1e-13) for one, right in zip(batch, want, strict=True))


def test_a_call_is_short(example):
    given = tuple(arrays(example).values())
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(500):
            example(*given)
        best = min(best, (time.perf_counter() - start) / 500)
    assert best < 5e-6  # 0.8 us measured, the goal is 1.5 us; the rest is for a busy machine


PAGE = mmap.PAGESIZE


class Guarded:
    """An array that ends where a page begins that may not be touched, and starts just behind another such page."""

    def __init__(self, size, dtype, at_end):
        libc = ctypes.CDLL(None, use_errno=True)
        pages = -(-size * np.dtype(dtype).itemsize // PAGE)
        self.memory = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for guard in (start, start + (pages + 1) * PAGE):
            if libc.mprotect(ctypes.c_void_p(guard), PAGE, 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        offset = PAGE + (pages * PAGE - size * np.dtype(dtype).itemsize if at_end else 0)
        self.array = np.frombuffer(self.memory, dtype, size, offset)


@pytest.mark.parametrize("at_end", [True, False], ids=["end", "start"])
@pytest.mark.parametrize("n", [3, 5, 8, 13])
def test_nothing_beyond_an_operand_is_touched(n, at_end):
    if not hasattr(ctypes.CDLL(None), "mprotect"):
        pytest.skip("this system has no mprotect")
    texts = [
        EXAMPLE.format(n=n),
        f"A = Matrix({n}, 4); S = Symmetric(U, {n}, storage=packed); S = A*A' + S;",
        f"L = LowerTriangular({n}, storage=packed); x = Vector({n}); x = L \\ x;",
        f"B = Banded({n}, {n}, 1, 2, storage=band); X = Matrix({n}, 3, storage=column_major); X = B*X - X;",
    ]
    for text in texts:
        for variant in (None, Variant(8, 4, 2, True), Variant(4, 2, 1)):
            kernel = structured.compile(text, variant=variant, cache=None)
            given = arrays(kernel)
            want = reference.evaluate(kernel.program, given)
            guarded = {name: Guarded(array.size, array.dtype, at_end) for name, array in given.items()}
            for name, array in given.items():
                guarded[name].array[:] = array.ravel()
            call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))(kernel.address)
            call(*(guarded[o.name].array.ctypes.data for o in kernel.program.operands))  # a bad access ends the process
            for operand in kernel.program.operands:
                got = reference.dense(operand, guarded[operand.name].array)
                assert np.allclose(got, want[operand.name], rtol=1e-12), (text, operand.name)


def _touched(text):
    """Buffer and positions of every access of written-out code, from the module's text."""
    constants = {name: int(value) for name, value in re.findall(r"(%c\w+) = arith.constant (-?\d+) : index", text)}
    found = []
    for line in text.splitlines():
        access = re.search(r"(?:load|store)\b.*?%(\w+)\[(%c\w+)\]", line)
        if access is None:
            continue
        base = constants[access[2]]
        mask = re.search(r"%mask([01]+)", line)
        vector = re.search(r"vector<(\d+)xf", line)
        lanes = [bit == "1" for bit in mask[1]] if mask else [True] * int(vector[1] if vector else 1)
        found.append((access[1], [base + lane for lane, used in enumerate(lanes) if used]))
    return found


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.format(n=9),
        "A = Matrix(7, 7); B = Banded(7, 7, 1, 1); Z = Zero(7, 7); A = B*A + Z*B;",
        "L = LowerTriangular(9); x = Vector(9); x = L \\ x;",
        "K = Blocked([Matrix(3, 3), Zero(3, 4)], [Zero(4, 3), UpperTriangular(4)]); A = Matrix(7, 7); A = K*A;",
    ],
)
def test_no_access_is_emitted_for_a_zero_region(text, width):
    program = parse(text)
    source = structured.source_of(program, variant=Variant(width, 4, 2))
    accesses = _touched(source.mlir())
    stored = {}
    for leaf in lower(program).operands:
        held = leaf.storage.positions(leaf.structure)
        stored[leaf.name] = set(held[held >= 0].tolist())
    checked = [(name, positions) for name, positions in accesses if name in stored]
    assert len(checked) > 10
    for name, positions in checked:
        assert set(positions) <= stored[name], name


def test_temporaries_that_the_stack_cannot_hold_are_refused():
    with pytest.raises(
        UsageError, match="kernel needs 8000000 bytes of temporaries, more than the stack limit of 4194304"
    ):
        structured.source_of("A = Matrix(1000, 1000); A = A*A;", variant=Variant(8, 8, 2, True)).mlir()


def _layouts():
    from lego_mlir.layout import OrderBy, RegP, gallery

    return [
        gallery.morton(8, 8), gallery.hilbert(8), gallery.xor_swizzle(8, 8), gallery.antidiagonal(8),
        gallery.padded(8, 8, 1), OrderBy(RegP([4, 4, 2, 2], [1, 3, 2, 4])).GroupBy([8, 8]),
    ]  # fmt: skip


@pytest.mark.parametrize("layout", _layouts(), ids=str)
@pytest.mark.parametrize("variant", [None, Variant(8, 4, 2, True), "scalar"], ids=str)
def test_any_layout_is_a_storage_of_any_structure(layout, variant):
    operands = {
        "A": Operand("", st.general(8, 8)).stored(layout),
        "B": Operand("", st.symmetric(8, "L")).stored(layout),
        "L": Operand("", st.unit_lower(8)).stored("packed"),
    }
    kernel = structured.compile("A = B*L - A'; A = L \\ A", variant=variant, cache=None, **operands)
    given = arrays(kernel)
    want = reference.evaluate(kernel.program, given)["A"]
    kernel(**given)
    got = reference.dense(kernel.program.operands[0], given["A"])
    assert np.abs(got - want).max() <= 1e-12 * np.abs(want).max()


@pytest.mark.parametrize("variant", [None, "scalar"])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 1e300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constants_that_the_type_cannot_hold_as_numbers(number, dtype, variant):
    A, B = Operand("A", st.general(2, 2)), Operand("B", st.general(2, 2))
    kernel = structured.compile(assign(A, number * B), dtype=dtype, variant=variant, cache=None)
    a, b = np.zeros((2, 2), dtype), np.full((2, 2), 2, dtype)
    kernel(a, b)
    with np.errstate(over="ignore"):
        expected = dtype(number) * b
    assert np.array_equal(a, expected, equal_nan=True)
