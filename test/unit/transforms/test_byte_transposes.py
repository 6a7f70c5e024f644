"""Transposes of bytes in registers: two shuffles of pairs for a word, and the same bytes as before."""

import re

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, bindings, f8e4m3fn, i8
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms.passes.byte_transposes import LowerByteTransposes

THREADS = 32


def turned(dtype, order):
    """Words of 4 x 4 bytes of each thread; word r of the result has the byte `order[r]` of each of its words."""

    @lego.kernel(grid=1, block=THREADS)
    def bytes_turned(a: lego.Tensor(dtype, Row(4, 4 * THREADS)), b: lego.Tensor(dtype, Row(4, 4 * THREADS))):
        t = lego.thread_id[0]
        words = [a.load(row, 4 * t, width=4) for row in range(4)]
        for row, place in enumerate(order):
            b.store(lego.vector(*(word[place] for word in words)), row, 4 * t, width=4)

    return bytes_turned


@pytest.mark.parametrize(("dtype", "order", "shuffles"), [
    (i8, (0, 1, 2, 3), 8), (f8e4m3fn, (3, 1, 0, 2), 8), (i8, (2, 2, 3, 3), 4),
])  # fmt: skip
def test_words_are_shuffled_in_pairs(dtype, order, shuffles):
    kernel = turned(dtype, order)
    assert len(re.findall(r"prmt", compile_kernel(kernel, target="sm_90").text)) == shuffles
    a = np.random.default_rng(0).integers(0, 120, (4, THREADS, 4)).astype(np.uint8)
    b = np.zeros_like(a)
    given = {name: x.reshape(-1).view(dtype.numpy) for name, x in (("a", a), ("b", b))}
    assert PtxRun(target="sm_90")(kernel, given, {}).clean
    np.testing.assert_array_equal(b, a.transpose(2, 1, 0)[list(order)])


def test_a_place_that_is_known_when_it_runs_is_left():
    words = ["%a", "%b", "%c", "%d"]
    taken = "\n".join(f"%{n} = vector.extract {w}[%i] : i8 from vector<4xi8>" for n, w in enumerate(words))
    ir = bindings.load().ir
    with bindings.context():
        module = ir.Module.parse(f"""func.func @f({", ".join(f"{w}: vector<4xi8>" for w in words)}, %i: index)
            -> vector<4xi8> {{ {taken}
            %r = vector.from_elements %0, %1, %2, %3 : vector<4xi8>
            return %r : vector<4xi8> }}""")
        before = str(module)
        LowerByteTransposes().run_on(module.body.operations[0])
    assert str(module) == before
