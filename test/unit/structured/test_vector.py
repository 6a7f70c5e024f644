"""Vector code where tiles end: last rows and columns, several statements, and accesses of rolled code, one by one."""

import ctypes
import itertools
import re

import numpy as np
import pytest

from lego_mlir.runtime import cpu
from lego_mlir.structured import build, mlir_text, reference
from lego_mlir.structured.function import unmasked_parts
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.generate import Variant

TEXTS = [
    "A = Matrix({n}, {n}); L = LowerTriangular({n}); U = UpperTriangular({n}); S = Symmetric(L, {n}); A = L*U + S;",
    "S = Symmetric(U, {n}); A = Matrix({n}, 4); S = A*A' + S;",
    "S = Symmetric(L, {n}); A = Matrix({n}, 5); S = 2*(A*A') - S;",
    "A = Matrix({n}, {n}); S = Symmetric(U, {n}); L = LowerTriangular({n}); A = S*L + A;",
    "A = Matrix({n}, {n}); M = LowerTriangular({n}); N = LowerTriangular({n}); S = Symmetric(L, {n}); x = Vector({n}); "
    "A = (M + N)*S + x*x';",
    "A = Matrix({n}, {n}, storage=column_major); B = Matrix({n}, {n}, storage=column_major); A = 3*B*A' - A;",
    "A = Matrix({n}, 9); B = Matrix(9, {n}); C = Matrix({n}, {n}, storage=column_major); C = A*B + (A*B)' - C;",
    # the second product may not read the copies that the first one made
    "C = Matrix({n}, {n}); A = Matrix({n}, {n}); C = C + A*A'; A = 2*C; C = C + A*A';",
    "x = Vector({n}); A = Matrix({n}, {n}); B = UnitUpper({n}); A = A*B'; x = A*x; A = x*x' + B;",
    # one masked vector along k, then a loop of whole ones that goes on with its sums
    "x = Vector({n}); y = Vector({n}); U = UpperTriangular({n}); y = U*x - y;",
]


def run(cases, element="f64"):
    """All (program, variant) pairs, compiled as one module, against NumPy."""
    names = [f"k{at}" for at in range(len(cases))]
    functions = [
        generate.emit(lower(p), name, element, variant) for name, (p, variant) in zip(names, cases, strict=True)
    ]
    texts = map(mlir_text.text, functions)
    library = cpu.load(cpu.assemble("\n".join(texts), names), names)
    dtype, tolerance = (np.float64, 1e-12) if element == "f64" else (np.float32, 2e-4)
    for at, (program, variant) in enumerate(cases):
        arrays = reference.sample(program, dtype, at)
        want = reference.evaluate(program, arrays)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address(f"k{at}"))
        call(*(arrays[operand.name].ctypes.data for operand in program.operands))
        for operand in program.operands:
            got, right = reference.dense(operand, arrays[operand.name]), want[operand.name]
            assert np.abs(got - right).max() <= tolerance * np.abs(right).max(), (str(program), str(variant))


@pytest.mark.parametrize(
    "variant", [Variant(8, 4, 4), Variant(8, 8, 2, True), Variant(4, 4, 2), Variant(4, 8, 3, True)], ids=str
)
@pytest.mark.parametrize("n", [9, 17, 18, 20])
def test_sizes_that_end_within_a_tile(n, variant):
    run([(parse(text.format(n=n)), variant) for text in TEXTS])


def test_a_last_column_is_a_row_of_lanes():
    """A single column in the last vector would take as many multiply-adds as eight."""
    text = TEXTS[1].format(n=9)
    emitted = mlir_text.text(generate.emit(lower(parse(text)), "k", "f64", Variant(8, 4, 4)))
    # 8 rows of eight columns and k = 4; then the ninth column, turned: a vector and a single element
    assert emitted.count("vector.fma") == 8 * 4 + 2 * 4


def test_a_low_last_row_of_tiles_joins_the_one_above():
    text = "A = Matrix(17, 16); B = Matrix(17, 17); C = Matrix(17, 16); A = B*C;"
    emitted = mlir_text.text(generate.emit(lower(parse(text)), "k", "f64", Variant(8, 8, 2, True)))
    loops = re.findall(r"iter_args\(.*-> \((.*)\) {", emitted)
    assert sorted(loop.count("vector") for loop in loops) == [16, 18]


class Walk:
    """The index arithmetic of a kernel's text, carried out: every access with its buffer and positions."""

    def __init__(self, text):
        self.tables = {
            name: [int(value) for value in values.split(",")]
            for name, values in re.findall(r"@(\w+) : memref<\d+xi32> = dense<\[(.*)\]>", text)
        }
        heads = re.finditer(r"^func\.func (?:private )?@(\w+)\((.*)\) {$", text, re.MULTILINE)
        self.functions = {}
        for head in heads:
            body = text[head.end() : text.index("\n}", head.end())].splitlines()
            names = [argument.split(":")[0].strip() for argument in head[2].split(", ")]
            self.functions[head[1]] = names, body
        self.found = {}

    def call(self, name, given):
        names, body = self.functions[name]
        self.block(body, dict(zip(names, given, strict=True)), 0)

    def block(self, body, values, at):
        """Run from line `at` to the end of its block; the line behind it."""
        while at < len(body):
            line = body[at].strip()
            if line.startswith("}"):
                return at + 1
            loop = re.search(r"scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)", line)
            if loop is None:
                self.line(line, values)
                at += 1
                continue
            low, high, step = (values[loop[part]] for part in (2, 3, 4))
            end = self.skip(body, at + 1)
            for index in range(low, high, step):
                self.block(body, {**values, loop[1]: index}, at + 1)
            at = end
        return at

    @staticmethod
    def skip(body, at):
        depth = 1
        while depth:
            depth += body[at].endswith("{") - body[at].strip().startswith("}")
            at += 1
        return at

    def line(self, line, values):
        if made := re.match(r"(%\w+) = arith\.constant (-?\d+) : index", line):
            values[made[1]] = int(made[2])
        elif made := re.match(r"(%\w+) = arith\.(addi|muli) (%\w+), (%\w+) : index", line):
            a, b = values[made[3]], values[made[4]]
            values[made[1]] = a + b if made[2] == "addi" else a * b
        elif made := re.match(r"(%\w+) = memref\.(?:get_global @(\w+)|alloca)", line):
            values[made[1]] = made[2] or made[1][1:]
        elif made := re.match(r"(%\w+) = memref\.load (%\w+)\[(%\w+)\] : memref<\d+xi32>", line):
            values[made[1]] = self.tables[values[made[2]]][values[made[3]]]
        elif made := re.match(r"(%\w+) = arith\.index_cast (%\w+)", line):
            values[made[1]] = values[made[2]]
        elif made := re.match(r"func\.call @(\w+)\((.*)\) : ", line):
            self.call(made[1], [values[name] for name in made[2].split(", ")])
        elif made := re.search(r"(?:load|store)\b.*?(%\w+)\[(%\w+)\]", line):
            mask, vector = re.search(r"%mask([01]+)", line), re.search(r"vector<(\d+)xf", line)
            lanes = [bit == "1" for bit in mask[1]] if mask else [True] * int(vector[1] if vector else 1)
            touched = {values[made[2]] + lane for lane, used in enumerate(lanes) if used}
            self.found.setdefault(values[made[1]], set()).update(touched)


ZEROS = [
    *TEXTS[:5],
    "A = Matrix({n}, {n}); B = Banded({n}, {n}, 1, 2, storage=band); Z = Zero({n}, {n}); A = B*A + Z*B;",
    "L = LowerTriangular({n}, storage=packed); x = Vector({n}); x = L \\ x;",
    "L = LowerTriangular({n}); X = UpperTriangular({n}); A = Matrix({n}, {n}); A = L \\ X;",
    "A = Matrix({n}, {n}); K = Blocked([LowerTriangular({n})], [Zero(3, {n})]); B = Matrix({m}, {n}); B = K*A;",
    "S = Symmetric(U, {n}); L = LowerTriangular({n}); L = chol(S);",
]


@pytest.mark.parametrize("variant", [Variant(8, 8, 2, True), Variant(4, 4, 2, True), Variant(1, 4, 2, True)], ids=str)
@pytest.mark.parametrize("n", [17, 24])
@pytest.mark.parametrize("text", ZEROS)
def test_rolled_code_touches_what_is_stored_and_nothing_else(text, n, variant):
    program = parse(text.format(n=n, m=n + 3))
    lowered = lower(program)
    walk = Walk(mlir_text.text(generate.emit(lowered, "kernel", "f64", variant)))
    walk.call("kernel", [leaf.name for leaf in lowered.operands])
    used = {name for name in walk.found if name in {leaf.name for leaf in lowered.operands}}
    assert set(program.written) <= used
    for leaf in lowered.operands:
        held = leaf.storage.positions(leaf.structure)
        assert walk.found.get(leaf.name, set()) <= set(held[held >= 0].tolist()), leaf.name


ACCESS = re.compile(
    r"(vector\.maskedload|vector\.maskedstore|vector\.load|vector\.store|memref\.load|memref\.store) "
    r"(?:%\w+, )?%X\[%c(\d+)\](?:.* : memref<\w+>, vector<(\d+)xf\d+>)?"
)
IN_PLACE = {
    "dsyrk": "X = Symmetric(U, {n}); A = Matrix({n}, 4); X = A*A' + X;",
    "dtrsv": "X = Vector({n}); L = LowerTriangular({n}); X = L \\ X;",
    "dsylmm": "X = Matrix({n}, {n}); S = Symmetric(U, {n}); L = LowerTriangular({n}); X = S*L + X;",
    "band": "X = Banded({n}, {n}, 1, 2); T = Diagonal({n}); X = T + X;",
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize("case", IN_PLACE)
def test_a_load_lies_within_one_store_of_the_call_before(case, target, dtype):
    """Otherwise a repeated call in place waits until the stores have reached the cache."""
    for n in range(2, 9):
        source = build.source_of(IN_PLACE[case].format(n=n), dtype=dtype, target=target)
        loads, stores = [], []
        for line in source.mlir().splitlines():
            if found := ACCESS.search(line):
                operation, first, length = found[1], int(found[2]), int(found[3] or 1)
                assert "masked" not in operation, line
                (loads if operation.endswith("load") else stores).append(range(first, first + length))
        assert stores, n
        for load in loads:
            touching = [store for store in stores if set(load) & set(store)]
            assert any(set(load) <= set(store) for store in touching), (n, load, touching)


@pytest.mark.parametrize("lanes", list(itertools.product([False, True], repeat=4)))
def test_unmasked_parts_cover_the_set_lanes(lanes):
    parts = unmasked_parts(lanes)
    covered = [lane for first, length in parts for lane in range(first, first + length)]
    assert covered == [lane for lane, there in enumerate(lanes) if there]
    assert all(length in (1, 2, 4) and first % length == 0 for first, length in parts)


@pytest.mark.parametrize("target", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("n", [33, 34, 35, 41])
def test_the_registers_hold_the_accumulators_of_the_default(n, target):
    """And beside them a row of the right factor and one element of the left; otherwise every step spills."""
    source = build.source_of(TEXTS[0].format(n=n), target=target)
    carried = [loop.count("vector") for loop in re.findall(r"iter_args\(.*-> \((.*)\) {", source.mlir())]
    assert source.variant.rolled
    assert 0 < max(carried) + source.variant.vectors + 1 <= source.isa.registers
