"""Kernels as modules of the lego dialect: lowered in Python they are the kernels, and give the same values."""

from pathlib import Path

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, GenP, OrderBy, Padded, Row, f32, gallery, interp, spec
from lego_mlir.cli.main import main
from lego_mlir.toolchain import compile_kernel

EXAMPLES = Path(__file__).parents[3] / "examples"
N = lego.size("N", max=4096)
FLIP = GenP([8, N], lambda i, j: (7 - i) * N + j, lambda p: (7 - p // N, p % N))
ZIGZAG = GenP([16, 16], gallery.antidiagonal(16).f, gallery.antidiagonal(16).f_inv)


@lego.kernel(grid=lego.cdiv(N, 32), block=(32, 8))
def permuted(a: lego.Tensor(f32, FLIP), b: lego.Tensor(f32, OrderBy(ZIGZAG).GroupBy([256]))):
    tx, ty = lego.thread_id[:2]
    j = lego.block_id[0] * 32 + tx
    with lego.when(j < N):
        b[ty * 32 + tx] = a[ty, j]


@lego.kernel(grid=1, block=(8, 8))
def every_kind(
    a: lego.Tensor(f32, gallery.table([8, 8], [(13 * k) % 64 for k in range(64)])),
    b: lego.Tensor(f32, Padded(Row(8, 9), [8, 8])),
    c: lego.Tensor(f32, Row(6, 7)),
    d: lego.Tensor(f32, OrderBy(Col(2, 2), gallery.antidiagonal(4)).TileBy([2, 2], [4, 4])),
):
    tx, ty = lego.thread_id[:2]
    tile = lego.shared(f32, gallery.xor_swizzle(8, 8))
    tile[ty, tx] = a[ty, tx] + c.tile_by([2, 2], [4, 4])[ty // 4, tx // 4, ty % 4, tx % 4]
    lego.barrier()
    total = lego.register(f32, 0.0)
    for k in lego.range(8):
        total.set(total.get() + tile[k, tx] * d[ty // 4, tx // 4, ty % 4, tx % 4])
    b[ty, tx] = total.get()


@pytest.mark.parametrize("example", ["transpose", "matmul", "matrix_copy", "symbolic"])
def test_lowered_it_is_the_kernel(example):
    for kernel in spec.load(str(EXAMPLES / f"{example}.py")).kernels_named(None):
        text = kernel.mlir("lego", locations=False)
        assert "lego.apply #lego.layout<" in text
        assert compile_kernel(text, emit="mlir").stage("mlir") == compile_kernel(kernel, emit="mlir").stage("mlir")


@pytest.mark.parametrize("kernel", [permuted, every_kind], ids=lambda kernel: kernel.name)
def test_it_gives_the_same_values(kernel):
    rng, sizes = np.random.default_rng(0), {"N": 32}
    counts = [
        int(lego.as_layout(p.layout).subs(**{k: v for k, v in sizes.items() if "N" in str(p.size)}).physical_size())
        for p in kernel.params
    ]
    arrays = [rng.standard_normal(n).astype(np.float32) for n in counts]
    results = []
    for text in (kernel.mlir(), kernel.mlir("lego")):
        given = [a.copy() for a in arrays]
        report = interp.launch(text, args=[*given, *([32] if kernel is permuted else [])], grid=1)
        assert report.clean, report
        results.append(given)
    for ours, theirs in zip(*results, strict=True):
        assert np.array_equal(ours, theirs)
    changed = results[0][1]
    assert not np.array_equal(changed, arrays[1])


def test_functions_are_a_definition_of_the_module():
    text = permuted.mlir("lego", locations=False)
    assert '"lego.genp"' in text
    assert "#lego.layout<[N max 4096]: GenP([8, N], @permuted_perm0)>" in text
    assert "#lego.layout<OrderBy(GenP([16, 16], @permuted_perm1)) GroupBy([256])>" in text


def test_an_access_past_a_boundary_is_expanded():
    @lego.kernel(grid=1, block=32)
    def shifted(a: lego.Tensor(f32, Row(32)), b: lego.Tensor(f32, Row(32))):
        x = lego.thread_id[0]
        b[x] = a.halo("clamp")[x - 1]

    text = shifted.mlir("lego", locations=False)
    assert text.count("lego.apply") == 1


def test_the_command_line(tmp_path, capsys):
    spec_file, module = str(EXAMPLES / "transpose.py"), tmp_path / "transpose.mlir"
    assert main(["compile", spec_file, "--emit", "lego", "-o", str(module)]) == 0
    assert "lego.apply #lego.layout<gallery.xor_swizzle(32, 32)>(" in module.read_text()
    assert main(["run", str(module), "--blocks", "4"]) == 0
    assert main(["analyze", str(module), "--blocks", "4"]) == 0
    capsys.readouterr()
    texts = []
    for given in (spec_file, str(module)):
        assert main(["compile", given, "--emit", "ptx", "-o", "-"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_two_kernels_in_one_module(tmp_path):
    module = tmp_path / "both.mlir"
    assert main(["compile", str(EXAMPLES / "antidiagonal.py"), "--emit", "lego", "-o", str(module)]) == 0
    text = module.read_text()
    assert "@pack_perm0" in text
    assert "gpu.func @unpack" in text
    assert ".entry unpack" in compile_kernel(text).text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kernel.mlir"], "--emit lego takes a spec, whose layouts are known; kernel.mlir is the text of a module"),
        (["--transform", "matmul_sm80.mlir"], "with --emit lego, omit it"),
        (["--pipeline", "builtin.module()"], "--emit lego stops before it"),
    ],
)
def test_options_that_do_not_apply(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("kernel.mlir").write_text("module {}")
    given = arguments if arguments[0].endswith("mlir") else [str(EXAMPLES / "transpose.py"), *arguments]
    assert main(["compile", *given, "--emit", "lego"]) == 2
    assert message in capsys.readouterr().err
