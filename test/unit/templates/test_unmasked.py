"""Notes of blocks that nothing masks: where there is one, and that the shipped kernels have none."""

import pytest

import lego_mlir as lego
from lego_mlir import Col, Padded, Row
from lego_mlir.cli.main import main
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.library.attention import attention
from lego_mlir.templates.library.matmul import batched_matmul, grouped_gemm, matmul, relayout
from lego_mlir.templates.library.rows import layer_norm, softmax
from lego_mlir.templates.readback.unmasked import unmasked

i, j = indices("i j")
RAGGED = Row(100, 64).tile_by([4, 2], [32, 32])
N = lego.size("N", max=4096)


def noted(text, **names):
    rendered = Template.of(text, "t.py.jinja", **{"A": RAGGED, "i": i, "j": j, **names}).render()
    return [line for line, _ in unmasked(rendered)]


def test_a_block_that_nothing_masks_is_noted():
    assert noted("x = 1\nx = tl.load(p + {{ A[i, j, :, :] }})") == [2]
    assert noted("tl.store(p + {{ A[i, j, :, :] }}, x)\n\ny = {{ A[i, 0, :, :] }}") == [1, 3]
    assert noted("x = {{ load('p', A[i, j, :, :]) }}\ny = tl.load(p + {{ A[j, i, :, :] }})") == [2]
    assert noted("x = {{ A.mask[i, j, 0, :] }}\ny = tl.load(p + {{ A[i, j, :, :] }})") == [2]  # of other elements
    assert noted("x = {{ load('p', A[i, j, :, :]) }}\ntl.store(p + {{ A[i, j, :, :] }}, x)") == [2]
    assert noted("at = p + {{ A[i, j, :, :] }}\nx = tl.load(at, mask={{ A[i, j, :, :].mask }})\ntl.store(at, x)") == [1]
    assert noted("{{ assign('at', A[i, j, :, :]) }}\ntl.store(p + at, tl.load(q + at, mask=at < 9).to(tl.int8))") == [1]
    assert noted("x = tl.load(p + {{ A[i, j, :, :] }},\n mask=at < 9)\ny = tl.load(p + {{ A[i, j, :, :] }})") == [3]
    n = Row(N).tile_by([lego.cdiv(N, 32)], [32])
    assert noted("def f(p{{ sizes }}):\n    x = tl.load(p + {{ B[i, :] }})", B=n) == [2]


@pytest.mark.parametrize(
    "text",
    [
        "x = {{ load('p', A[i, j, :, :], other=0.0) }}",
        "{{ store('p', A[i, j, :, :], 'x') }}",
        "x = tl.load(p + {{ A[i, j, :, :] }}{{ masked(A[i, j, :, :]) }})",
        "at = {{ A[i, j, :, :] }}\nx = tl.load(p + at, mask={{ A[i, j, :, :].mask }})",
        "inside = {{ A.mask[i, j, :, :] }}\nx = tl.load(p + {{ A[i, j, :, :] }}, mask=inside)",
        "inside = {{ A.mask[i, 0, :, 0] }}\nx = tl.load(p + {{ A[i, j, :, :] }}, inside[:, None])",
        "at = {{ A[i, j, :, :] }}\nx = tl.load(p + at, mask=at < 6400)",
        "x = tl.load(p + {{ A[i, j, :, :] }}, mask=m).to(tl.int32)\ny = tl.load(q + x)",
        "x = {{ A[0, j, :, :] }}",
        "x = {{ A[i, j, :, :].base }} + {{ A[i, j, :, :].offsets }}",
        "x = {{ load_block('d', A[i, j, :, :]) }}",
        "x = {{ A[i, j, 0, 0] }}",
        "x = {{ B[i, j, :, :] }}\n{{ store('p', A[i, j, :, :], 'x') }}",
        "x = {{ P[i, 0, 0, :] }}",
        "def f(p{{ sizes }}):\n    x = {{ S[i, :] }}",
    ],
)
def test_a_block_that_is_masked_or_needs_no_mask_is_not(text):
    names = {"B": Col(100, 64).tile_by([4, 2], [32, 32]), "P": Padded(Row(8, 32), [8, 30]).tile_by([8, 1], [1, 32])}
    m = lego.size("M", max=4096, multiple_of=32)
    assert noted(text, **names, S=Row(m).tile_by([m // 32], [32])) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: matmul(50, 70, 40, tile=(32, 32, 32)),
        lambda: matmul(*(lego.size(n, max=9999) for n in "MNK"), b="T", tile=(32, 32, 32)),
        lambda: matmul(50, 70, 40, tile=(32, 32, 32), descriptors=True),
        lambda: batched_matmul(3, 50, 70, 40, tile=(32, 32, 32)),
        lambda: grouped_gemm(programs=2, tile=(32, 32, 32)),
        lambda: relayout(Row(50, 70), Col(50, 70)),
        lambda: softmax(100, 100),
        lambda: layer_norm(100, 100),
        lambda: layer_norm(100, 10000),
        lambda: attention(2, 2, 100, 32, causal=True, tile=(32, 16)),
    ],
)
def test_the_shipped_kernels_have_none(make):
    assert unmasked(make().render()) == []


def test_the_command_line_notes_it_and_goes_on(tmp_path, capsys):
    spec, template, out = tmp_path / "s.py", tmp_path / "t.py.jinja", tmp_path / "t.py"
    template.write_text("x = tl.load(p + {{ A[i, :] }})\n")
    spec.write_text(
        "from lego_mlir import Row\nfrom lego_mlir.templates import Template, index\n"
        f"A, i = Row(100).tile_by([4], [32]), index('i')\nt = Template.read({str(template)!r}, dict(A=A, i=i))\n"
    )
    said = f"{template}:1: i * 32 + tl.arange(0, 32) reaches past the end of its layout, and nothing masks it; read and"
    assert main(["render", str(template), "--spec", str(spec), "--check", "-o", str(out)]) == 0
    assert f"note     {said}" in capsys.readouterr().err
    assert out.exists()
    assert main(["check", str(spec)]) == 0
    printed = capsys.readouterr().out
    assert f"  note     {said}" in printed
    assert "2 proved, 0 refuted, 0 unknown" in printed


def test_a_placeholder_beside_helpers_of_several_lines_is_read_once():
    root = Template.of("{{ helpers }}x = {{ isqrt(i) }}", "t.py.jinja", isqrt=lego.isqrt, i=index("i", 64)).render()
    assert unmasked(root) == []
