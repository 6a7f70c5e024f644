"""`lego-mlir compile` end to end, on specs and on texts."""

import io
import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from assembling import needs_ptxas

from lego_mlir.cli.main import main

ROOT = Path(__file__).parents[3]
TRANSPOSE = ROOT / "test" / "unit" / "toolchain" / "transpose.mlir"
SPECS = {path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))}
WITH_KERNELS = [
    name for name, text in SPECS.items() if "@lego.kernel" in text and not re.search("lego.mma|@lego.tune", text)
]
NEEDED = (("cluster=", 90, "has no clusters; compile for sm_90 or later"), ("lego.warps(", 80, "(PTX 7.0) lacks"))
"""Words of the language, the architecture from which they compile, and how earlier ones are refused."""
SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32
M = lego.size("M")

@lego.kernel(grid=lego.cdiv(M, 32), block=32)
def double(src: lego.Tensor(f32, Row(M)), dst: lego.Tensor(f32, Row(M))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    with lego.when(i < M):
        dst[i] = src[i] + src[i]

@double.reference
def doubled(src):
    return 2 * src

@lego.kernel(grid=4, block=32)
def fill(dst: lego.Tensor(f32, Row(128))):
    dst[lego.block_id[0] * 32 + lego.thread_id[0]] = 1.0
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.py"
    path.write_text(SPEC)
    return path


def test_all_kernels_of_a_spec_come_in_one_module(spec, capsysbinary):
    assert main(["compile", str(spec)]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert text.count("gpu.func") == 2
    assert text.count("module attributes {gpu.container_module}") == 1
    assert "loc(" not in text


def test_one_kernel_is_chosen_by_name(spec, capsysbinary):
    assert main(["compile", str(spec), "--kernel", "fill"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert "gpu.func @fill" in text
    assert "@double" not in text


def test_locations_on_demand_lead_to_the_spec(spec, capsysbinary):
    assert main(["compile", str(spec), "--locations"]) == 0
    assert f'loc("{spec}":10' in capsysbinary.readouterr().out.decode()


def test_ptx_comes_with_its_manifest(spec, tmp_path, capsys):
    out = tmp_path / "k.ptx"
    assert main(["compile", str(spec), "--emit", "ptx", "--target", "sm_90a", "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text().count(".visible .entry") == 2
    manifest = json.loads((tmp_path / "k.json").read_text())
    assert [kernel["entry"] for kernel in manifest["kernels"]] == ["double", "fill"]
    assert not (tmp_path / "k.npz").exists()


@pytest.mark.parametrize(
    ("name", "sign"), [("k.mlir", "gpu.func"), ("k.ll", "define"), ("k.ptx", ".visible .entry"), ("k", "gpu.func")]
)
def test_the_output_s_suffix_says_what_to_emit(spec, tmp_path, name, sign):
    assert main(["compile", str(spec), "--kernel", "fill", "-o", str(tmp_path / name)]) == 0
    assert f"{sign} " in (tmp_path / name).read_text()


def test_data_to_check_with(spec, tmp_path):
    out = tmp_path / "k.ptx"
    options = ["--kernel", "double", "--with-data", "--size", "M=77"]
    assert main(["compile", str(spec), "--emit", "ptx", "-o", str(out), *options]) == 0
    arrays = np.load(tmp_path / "k.npz")
    assert np.array_equal(arrays["double/dst/expected"], 2 * arrays["double/src"].astype(np.float64))
    assert arrays["double/src"].shape == (77,)


def test_a_spec_can_be_compiled_from_its_emitted_text(spec, tmp_path):
    whole, by_hand = tmp_path / "whole.ptx", tmp_path / "hand.ptx"
    assert main(["compile", str(spec), "--emit", "ptx", "-o", str(whole)]) == 0
    given = spec
    for stage, suffix in [("mlir", "mlir"), ("nvvm", "mlir"), ("llvm", "ll")]:
        out = tmp_path / f"{stage}.{suffix}"
        start = ["--from", "mlir"] if stage == "nvvm" else ["--from", "nvvm"] if stage == "llvm" else []
        assert main(["compile", str(given), *start, "--emit", stage, "-o", str(out)]) == 0
        given = out
    assert main(["compile", str(given), "--emit", "ptx", "-o", str(by_hand)]) == 0
    assert by_hand.read_text() == whole.read_text()


def test_mlir_comes_from_standard_input_too(monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRANSPOSE.read_bytes())))
    assert main(["compile", "-", "--emit", "ptx"]) == 0
    assert b".visible .entry transpose(" in capsysbinary.readouterr().out


@needs_ptxas
def test_a_cubin_goes_to_a_file(tmp_path, capsys):
    out = tmp_path / "k.cubin"
    assert main(["compile", str(TRANSPOSE), "--emit", "cubin", "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x7fELF")
    assert json.loads((tmp_path / "k.json").read_text())["code"] == "cubin"
    assert main(["compile", str(TRANSPOSE), "--emit", "cubin"]) == 2
    assert "a cubin is binary; give it a file with -o" in capsys.readouterr().err


def test_the_cache_is_where_the_option_says(tmp_path):
    folder = tmp_path / "mine"
    arguments = ["compile", str(TRANSPOSE), "--emit", "ptx", "-o", str(tmp_path / "a.ptx")]
    assert main([*arguments, "--no-cache"]) == 0
    assert main([*arguments, "--cache-dir", str(folder)]) == 0
    assert len(list(folder.glob("??/*"))) == 5


def test_a_new_output_file_has_the_usual_permissions(tmp_path):
    out = tmp_path / "k.mlir"
    plain = tmp_path / "plain"
    plain.write_text("")
    assert main(["compile", str(TRANSPOSE), "-o", str(out)]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.mlir", tmp_path / "link.mlir"
    real.write_text("")
    link.symlink_to(real)
    assert main(["compile", str(TRANSPOSE), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert "gpu.func" in real.read_text()


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("example", WITH_KERNELS)
def test_the_examples_become_ptx_for_every_architecture(example, target, tmp_path, capsys):
    out = tmp_path / "k.ptx"
    source = str(ROOT / "examples" / f"{example}.py")
    done = main(["compile", source, "--emit", "ptx", "--target", target, "-o", str(out)])
    refused = [words for word, since, words in NEEDED if word in SPECS[example] and int(target.strip("sma_")) < since]
    if refused:
        assert done == 2
        assert f"{target} {refused[0]}" in capsys.readouterr().err
    else:
        assert done == 0
        assert f".target {target}\n" in out.read_text()


AGAIN = """
import sys, warnings
from lego_mlir.cli.main import main
code = main(sys.argv[1:])
print(code, *(name for name in ("sympy", "z3", "torch_mlir", "llvmlite") if name in sys.modules))
"""
SECOND_NAME = """
import lego_mlir as lego
from lego_mlir import Row, f32
FACTOR = 2.0
N = lego.size("N", multiple_of=32)

@lego.kernel(grid=N // 32, block=32)
def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    best = lego.register(x[i])
    old = best
    best.set(best.value * FACTOR)
    y[i] = old.value
"""


def compiled_again(spec, *options):
    command = [sys.executable, "-c", AGAIN, "compile", str(spec), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize("suffix", [".ptx", ".mlir"])
def test_unchanged_kernels_are_not_traced_again(suffix, tmp_path):
    spec, out = tmp_path / "spec.py", tmp_path / f"out{suffix}"
    spec.write_text(SECOND_NAME)
    options = ["-o", str(out), "--cache-dir", str(tmp_path / "cache")]
    (code, *heavy), warned = compiled_again(spec, *options)
    assert code == "0" and "sympy" in heavy and "second name" in warned
    written = [path.read_bytes() for path in sorted(tmp_path.glob("out.*"))]
    assert len(written) == (2 if suffix == ".ptx" else 1)  # the manifest too
    for path in tmp_path.glob("out.*"):
        path.unlink()
    (code, *heavy), warned = compiled_again(spec, *options)
    assert code == "0" and not heavy and "second name" in warned
    assert [path.read_bytes() for path in sorted(tmp_path.glob("out.*"))] == written
    for changed in ([*options[:-1], str(tmp_path / "other")], [*options[:2], "--no-cache"], [*options, "--locations"]):
        if suffix == ".mlir" or "--locations" not in changed:
            assert "sympy" in compiled_again(spec, *changed)[0]
    spec.write_text(SECOND_NAME.replace("FACTOR = 2.0", "FACTOR = 3.0"))
    assert "sympy" in compiled_again(spec, *options)[0]
    assert (tmp_path / f"out{suffix}").read_bytes() not in written
