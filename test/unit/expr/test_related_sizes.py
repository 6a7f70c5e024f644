"""Relations between sizes: in proofs, simplification, layouts, kernels, manifests and templates."""

import json
import pickle

import numpy as np
import pytest
from command_line import output_of, refusal_of
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Range, Row, f32, interp, prove, simplify, size
from lego_mlir.errors import ExpressionError, InterpreterError, LayoutError, TraceError, UsageError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.related import in_order, refusal, with_related
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.runtime import data, manifest
from lego_mlir.toolchain import compile_kernel
from lego_mlir.toolchain.manifest import build

N, K = size("N"), size("K")
M, TWICE = size("M", max=N), size("K2", equals=2 * K)
(i,) = lego.symbols("i")


def test_a_bounded_size_is_known_to_the_prover():
    assert isinstance(prove(i < N, {i: Range(0, M)}), Proved)
    assert isinstance(prove(i < M, {i: Range(0, N)}), Refuted)
    assert isinstance(prove(M - 1 < N, {}), Proved)
    assert isinstance(prove(N <= M, {}), Refuted)


def test_a_computed_size_is_replaced():
    assert simplify(TWICE // 2, {}).expr == K.expr
    assert isinstance(prove(TWICE % 2 == 0, {}), Proved)
    assert isinstance(prove(i + K < TWICE, {i: Range(0, K)}), Proved)
    refuted = prove(TWICE * i < 5, {i: Range(0, 3)})
    assert isinstance(refuted, Refuted)
    assert refuted.counter_example["K2"] == 2 * refuted.counter_example["K"]


@given(st.integers(1, 50), st.integers(1, 8), st.integers(1, 4))
def test_claims_proved_with_a_relation_hold_at_its_values(n, step, factor):
    bound = size("B", max=factor * N + step)
    claim = bound + 1 <= (factor + 1) * N + step
    assert isinstance(prove(claim, {}), Proved)
    for value in (1, factor * n + step):
        assert evaluate(claim.expr, {"B": value, "N": n})
    assert isinstance(prove(bound <= factor * N + step - 1, {}), Refuted)


def test_order_refusal_and_pickle():
    assert [s.name for s in with_related([M.expr, TWICE.expr])] == ["M", "N", "K2", "K"]
    assert [s.name for s in in_order([M.expr, TWICE.expr])] == ["N", "M", "K", "K2"]
    assert refusal([M.expr], {"M": 3, "N": 2}) == "M = 3 must be at most N = 2"
    assert refusal([TWICE.expr], {"K2": 3, "K": 2}) == "K2 = 3 must be equal to 2*K = 4"
    assert refusal([M.expr, TWICE.expr], {"M": 2, "N": 2, "K2": 4, "K": 2}) == ""
    assert pickle.loads(pickle.dumps(M)).same(M)
    assert not M.same(size("M"))
    assert (M.expr.facts, TWICE.expr.facts) == ("min=1, max=N", "equals=2*K")


def test_layouts_take_the_relation_along():
    tiles = Row(M, 4).tile_by([N, 1], [1, 4])
    assert str(tiles.mask(*lego.symbols("a b c d"))) == "a + c < M"
    assert Row(M, M).subs(N=12).dims()[0].expr.max == 12
    with pytest.raises(LayoutError, match="subs: M = 13 must be at most N = 12"):
        Row(M, N).subs(M=13, N=12)


def part():
    @lego.kernel(grid=lego.cdiv(M, 32), block=32)
    def part(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(M))):
        b, t = lego.block_id[0], lego.thread_id[0]
        at = b * 32 + t
        with lego.when(at < M):
            y[at] = x[at] + 1

    return part


def test_a_kernel_uses_and_checks_its_relations(tmp_path, capsys):
    kernel = part()
    assert [s.name for s in kernel.sizes] == ["N", "M"]
    memory = {"x": np.ones(40, np.float32), "y": np.zeros(33, np.float32)}
    assert interp.run_kernel(kernel, memory, {"M": 33, "N": 40}).clean
    assert (memory["y"] == 2).all()
    with pytest.raises(InterpreterError, match=r"the kernel requires M <= N, which fails for M = 41, N = 40"):
        interp.run_kernel(kernel, memory, {"M": 41, "N": 40})
    assert data.choose_sizes(kernel, {"N": 5}) == {"N": 5, "M": 5}
    with pytest.raises(UsageError, match="M = 7, N = 5"):
        data.choose_sizes(kernel, {"N": 5, "M": 7})


def test_the_manifest_carries_the_conditions():
    kernel = part()
    described = json.loads(json.dumps(build(compile_kernel((kernel,), emit="ptx", cache=None))))
    assert described["kernels"][0]["requirements"] == [{"condition": "(M <= N)", "text": "M <= N"}]
    entry = manifest.from_data(described).kernel(None)
    entry.check_sizes({"M": 4, "N": 4})
    with pytest.raises(UsageError, match="kernel part requires M <= N, which fails for M = 5, N = 4"):
        entry.check_sizes({"M": 5, "N": 4})


def test_a_required_condition_is_assumed_and_checked():
    A, B = size("A"), size("B")

    def build_with(condition):
        @lego.kernel(grid=1, block=32)
        def guarded(x: lego.Tensor(f32, Row(A)), y: lego.Tensor(f32, Row(B))):
            lego.require(condition)
            t = lego.thread_id[0]
            with lego.when(t < A):
                y[t] = x[t]

        return guarded

    with pytest.raises(LayoutError, match="index 0 of"):
        build_with(B > 2).trace()
    kernel = build_with((A <= B) & (B >= 2))
    assert [r.text for r in kernel.trace().requirements] == ["(2 <= B) & (A <= B)"]
    with pytest.raises(InterpreterError, match=r"which fails for A = 3, B = 2"):
        interp.run_kernel(kernel, {"x": np.ones(3, np.float32), "y": np.ones(2, np.float32)}, {"A": 3, "B": 2})


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda: lego.thread_id[0] < N, "takes a condition on sizes, which a launch can check"),
        (lambda: N < N, "a condition that no sizes satisfy"),
    ],
)
def test_conditions_that_are_refused(condition, message):
    @lego.kernel(grid=1, block=32)
    def refused(x: lego.Tensor(f32, Row(N))):
        lego.require(condition())
        x[0] = 1.0

    with pytest.raises(TraceError, match=message):
        refused.trace()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"max": i}, "max must be an int or an expression of other sizes, got i"),
        ({"equals": 2 * i}, "equals must be an int or an expression of other sizes"),
        ({"equals": K, "min": 2}, "gives all facts; leave out min, max and multiple_of"),
        ({"equals": K - 2}, "may be negative"),
        ({"min": K}, r"min must be an int, got K; state the relation on the smaller size, lego.size\(.., max=S\), or"),
    ],
)
def test_facts_that_are_refused(facts, message):
    with pytest.raises(ExpressionError, match=message):
        size("S", **facts)


def test_run_chooses_sizes_that_satisfy_the_relations(tmp_path, capsys):

    spec = tmp_path / "spec.py"
    spec.write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n"
        "K = lego.size('K', max=50)\nK2 = lego.size('K2', equals=2 * K)\n"
        "@lego.kernel(grid=lego.cdiv(K, 32), block=32)\n"
        "def pairs(x: lego.Tensor(f32, Row(K2)), y: lego.Tensor(f32, Row(K))):\n"
        "    i = lego.block_id[0] * 32 + lego.thread_id[0]\n"
        "    with lego.when(i < K):\n"
        "        y[i] = x[2 * i] + x[2 * i + 1]\n"
        "@pairs.reference\ndef expected(x):\n    return x[::2] + x[1::2]\n"
    )
    assert "K=50" in output_of(capsys, ["run", str(spec)])
    assert "0 refuted, 0 unknown" in output_of(capsys, ["check", str(spec)])
    assert "requires K2 == 2*K" in refusal_of(capsys, ["run", str(spec), "--size", "K2=9", "--size", "K=4"])
