"""Claims that no two programs of a rendered template write one element."""

import json

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, cdiv, gallery
from lego_mlir.cli.main import CHECK_FAILED, DONE, main
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.single_writer import once_claims
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.library.attention import attention
from lego_mlir.templates.library.matmul import batched_matmul, grouped_gemm, matmul, relayout
from lego_mlir.templates.library.nw import nw
from lego_mlir.templates.library.rows import layer_norm, softmax

B, M, N, K = lego.size("B"), lego.size("M"), lego.size("N"), lego.size("K")
TRITON = """import triton
import triton.language as tl
{{{{ helpers }}}}
@triton.jit
def write(y_ptr{{{{ sizes }}}}):
    pid = tl.program_id(0)
    {before}
    {{{{ store("y_ptr", Y[{at}, :], "1.0") }}}}
"""
CUDA = """extern "C" __global__ void __launch_bounds__(64) write(float *y) {{
  {before}
  y[{{{{ A[{at}] }}}}] = 1.0f;
}}
"""
ROWS = Row(M).tile_by([cdiv(M, 32)], [32])


def triton(before, at, **names):
    i, j, pid = indices("i j pid")
    return Template.of(TRITON.format(before=before, at=at), "w.py.jinja", **{"Y": ROWS, **names}, i=i, j=j, pid=pid)


def cuda(before, at, layout):
    i, j, k = indices("i j k")
    return Template.of(CUDA.format(before=before, at=at), "w.cu.jinja", A=layout, i=i, j=j, k=k)


def verdicts(template):
    return [verdict for _, verdict in once_claims(template)]


@pytest.mark.parametrize(
    ("template", "tensors"),
    [
        (lambda: matmul(M, N, K), 1),
        (lambda: matmul(M, N, K, a="T", persistent=8), 1),
        (lambda: matmul(M, N, 512, descriptors=True), 1),
        (lambda: batched_matmul(B, M, N, K), 1),
        (lambda: relayout(Row(M, N), Col(M, N)), 1),
        (lambda: softmax(M, 1000), 1),
        (lambda: softmax(M, 1000, at_a_time=4), 1),
        (lambda: layer_norm(M, 1000), 7),
        (lambda: attention(2, 4, 1024, 64), 2),
    ],
)
def test_shipped_templates_are_proved(template, tensors):
    found = verdicts(template())
    assert len(found) == tensors and all(isinstance(v, Proved) for v in found)


def test_products_whose_sizes_are_loaded_are_unknown():
    assert [type(v) for v in verdicts(grouped_gemm())] == [Unknown]


def test_blocks_whose_numbers_are_arguments_are_unknown():
    (verdict,) = verdicts(nw(64, 32))
    assert verdict == Unknown("the value of block_column in line 53 is not known before it runs")


@pytest.mark.parametrize(
    ("before", "at"),
    [
        ("pass", "pid"),
        ("i = pid * 2 + 1", "i"),
        ('{{ assign("i", order.inv(pid)[0]) }}', "i"),
        ("for i in tl.range(pid, 8, 4):\n        pass", "pid"),
    ],
)
def test_programs_with_elements_of_their_own_are_proved(before, at):
    order = lego.as_layout(gallery.reverse(cdiv(M, 32)))
    assert [type(v) for v in verdicts(triton(before, at, order=order))] == [Proved]


def test_a_curve_of_many_levels_is_proved_by_bijectivity():
    curve = lego.as_layout(gallery.hilbert(256))
    text = TRITON.format(before='{{ assign("i, j", curve.inv(pid)) }}', at="i, j, :")
    i, j, pid = indices("i j pid")
    Y = Row(256 * 16, 256 * 16).tile_by([256, 256], [16, 16])
    template = Template.of(text, "w.py.jinja", Y=Y, i=i, j=j, pid=pid, curve=curve)
    assert [type(v) for v in verdicts(template)] == [Proved]


@pytest.mark.parametrize(
    ("before", "at", "programs"),
    [("i = pid // 2", "i", (0, 1)), ("i = pid % 4", "i", (0, 4)), ("i = pid - pid % 2", "i", (0, 1))],
)
def test_two_programs_that_write_one_element_are_refuted(before, at, programs):
    Y = Row(256).tile_by([8], [32])
    (verdict,) = verdicts(triton(before, at, Y=Y))
    assert isinstance(verdict, Refuted)
    one, other = (int(verdict.counter_example[who].split(" = ")[1]) for who in ("one", "other"))
    values = {p: eval(before.split(" = ")[1], {"pid": p}) for p in (one, other)}
    assert one != other and values[one] == values[other] == verdict.counter_example["element"] // 32
    assert (one, other) == programs
    assert verdict.explanation.startswith(f"element {values[one] * 32} is written by program_id = {one} and by program")


def test_a_store_in_each_round_of_a_loop_is_not_proved():
    loop = 'for k in range(0, 4):\n        {{ store("y_ptr", Y[pid, :], "2.0") }}'
    (verdict,) = verdicts(triton(loop, "pid", Y=Row(256).tile_by([8], [32])))
    assert isinstance(verdict, Unknown)


@pytest.mark.parametrize(
    "before", ["i = tl.load(y_ptr)", "i = pid\n    i += 1", "i = pid\n    while i < 4:\n        i = i * 2"]
)
def test_a_name_that_is_not_read_leaves_the_claim_unknown(before):
    (verdict,) = verdicts(triton(before, "i"))
    assert verdict == Unknown("the value of i in line " + verdict.reason.split("line ")[1])


@pytest.mark.parametrize(
    ("before", "at", "layout"),
    [
        ("const int i = blockIdx.x, j = threadIdx.x;", "i, j", Row(32, 64)),
        ("const int i = blockIdx.x, j = threadIdx.x;", "i, j", gallery.xor_swizzle(64, 64)),
        ("const int k = blockIdx.x * 64 + threadIdx.x;", "k", gallery.reverse(1024)),
        ("const int k = blockIdx.x;\n  for (int j = 0; j < 8; ++j)", "k, j", Row(64, 8)),
    ],
)
def test_threads_of_cuda_are_proved(before, at, layout):
    assert [type(v) for v in verdicts(cuda(before, at, layout))] == [Proved]


@pytest.mark.parametrize(
    ("before", "at", "layout", "writes"),
    [
        (
            "const int i = blockIdx.x / 2, j = threadIdx.x;",
            "i, j",
            Row(32, 64),
            lambda b, t: np.ravel_multi_index((b // 2, t), (32, 64)),
        ),
        ("const int k = blockIdx.x * 32 + threadIdx.x;", "k", gallery.reverse(1024), lambda b, t: 1023 - b * 32 - t),
    ],
)
def test_two_threads_of_cuda_are_refuted(before, at, layout, writes):
    (verdict,) = verdicts(cuda(before, at, layout))
    assert isinstance(verdict, Refuted)
    ids = [dict(part.split(" = ") for part in verdict.counter_example[who].split(", ")) for who in ("one", "other")]
    at_ids = {int(writes(int(i["blockIdx_x"]), int(i["threadIdx_x"]))) for i in ids}
    assert ids[0] != ids[1] and at_ids == {verdict.counter_example["element"]}


def test_check_lists_the_claims_of_a_template(tmp_path, capsys):
    spec = tmp_path / "w_spec.py"
    for before, at, code, verdict in (("pass", "pid", DONE, "proved"), ("i = pid // 2", "i", CHECK_FAILED, "refuted")):
        spec.write_text(
            "from lego_mlir import Row\nfrom lego_mlir.templates import Template, indices\n"
            "i, pid = indices('i pid')\nY = Row(256).tile_by([8], [32])\n"
            f"write = Template.of({TRITON.format(before=before, at=at)!r}, 'w.py.jinja', Y=Y, i=i, pid=pid)\n"
        )
        assert main(["check", str(spec), "--json"]) == code
        claims = [c for g in json.loads(capsys.readouterr().out)["groups"] for c in g["claims"]]
        assert [c["verdict"] for c in claims if "written twice" in c["claim"]] == [verdict]


def test_a_range_that_a_layout_declares_is_the_number_of_programs():
    """Both axes of programs are numbered by layouts, so that every launch that they allow is proved."""
    text = TRITON.replace("pid = tl.program_id(0)", "i = tl.program_id(0)\n    j = tl.program_id(1)")
    i, j = index("i"), index("j")
    Y = Row(64, 256).tile_by([64, 8], [1, 32])
    template = Template.of(text.format(before="pass", at="i, j, 0"), "w.py.jinja", Y=Y, i=i, j=j)
    assert [type(v) for v in verdicts(template)] == [Proved]
