"""Files that are not text, and texts that nest too deeply: one message each, from every reader."""

from pathlib import Path

import numpy as np
import pytest
from command_line import refusal_of

import lego_mlir as lego
from lego_mlir import interp
from lego_mlir.errors import LegoError
from lego_mlir.interp.ptx import emulate
from lego_mlir.runtime import data, data_files, inputs, manifest
from lego_mlir.spec import load
from lego_mlir.templates import Template
from lego_mlir.transforms import scripts
from lego_mlir.tuning import kernel_tuner, packed, recipes, timings
from lego_mlir.tuning.config_lookup import choices_from_text
from lego_mlir.tuning.tunable import Tunable

MASKED = np.ma.array([1.0, 2.0], mask=[0, 1], dtype=np.float32)
BYTES = b"\xff\xfe\x80 A = 4;\n"
DEEP = b"[" * 100_000
READERS = {
    "spec.py": load,
    "kernel.json": manifest.read,
    "recipe.json": recipes.read,
    "packed.json": lambda path: packed.read(path.parent),
    "timings.json": kernel_tuner.read,
    "script.mlir": scripts.read,
    "kernel.py.jinja": Template.read,
    "input.npz": lambda path: inputs.read(str(path)),
    "check.npz": data_files.read,
}


@pytest.mark.parametrize("name", READERS)
def test_bytes_that_are_no_text(name, tmp_path):
    path = tmp_path / (packed.INDEX if name == "packed.json" else name)
    path.write_bytes(BYTES)
    with pytest.raises(LegoError, match=path.stem):
        READERS[name](path)


@pytest.mark.parametrize("name", [name for name in READERS if name.endswith(".json")])
def test_json_that_nests_too_deeply(name, tmp_path):
    path = tmp_path / (packed.INDEX if name == "packed.json" else name)
    path.write_bytes(DEEP)
    with pytest.raises(LegoError, match=path.stem):
        READERS[name](path)


def test_choices_and_lines_of_a_store_that_nest_too_deeply():
    with pytest.raises(LegoError, match="file"):
        choices_from_text(DEEP.decode(), "file", "name", None)
    assert timings.from_line(DEEP) is None


def test_choices_and_the_spec_of_a_recipe_in_another_encoding(tmp_path):
    path = tmp_path / "choices.json"
    path.write_bytes(BYTES)
    with pytest.raises(LegoError, match=r"the choices cannot be read \('utf-8' codec"):
        Tunable.load(None, path)
    recipe = recipes.TuningRecipe(path, path, "name", (), path)
    with pytest.raises(LegoError, match=r"the spec .* cannot be read"):
        print(recipe.digest)


def test_a_spec_that_nests_too_deeply(tmp_path):
    path = tmp_path / "spec.py"
    for text in ("x = " + "-" * 100_000 + "1\n", "x = " + "(" * 1000 + "1" + ")" * 1000, "x = y" + ".a" * 100_000):
        path.write_text(text)
        with pytest.raises(LegoError, match=r"spec.py.*(nested too deeply|too many nested parentheses)"):
            load(path)


@pytest.mark.parametrize("command", ["check", "explain", "run", "compile", "analyze", "show"])
@pytest.mark.parametrize("suffix", [".ll", ".mlir", ".py", ".ptx", ".json", ".toml", ".py.jinja"])
def test_commands_on_bytes_that_are_no_text(command, suffix, tmp_path, capsys):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(BYTES)
    error = refusal_of(capsys, [command, str(path)])
    assert "internal error" not in error and "Traceback" not in error
    assert Path(path).name in error or "the stages are" in error


def test_a_page_of_a_spec_in_another_encoding(tmp_path):
    from lego_mlir.cli.analysis_page import _text

    path = tmp_path / "spec.py"
    path.write_bytes("# coding: latin-1\n# ä\n".encode("latin-1"))
    assert _text(path).endswith("# ä\n")


@lego.kernel(grid=1, block=2)
def copy(x: lego.Tensor(lego.f32, lego.Row(2)), y: lego.Tensor(lego.f32, lego.Row(2))):
    y[lego.thread_id.x] = x[lego.thread_id.x]


def test_masked_arrays_of_a_check():
    copy.reference(lambda x: MASKED)
    with pytest.raises(LegoError, match=r"returns a masked array for y; return array.filled\(value\)"):
        data.check_data(copy, {})
    copy.inputs(lambda: {"x": MASKED})
    with pytest.raises(LegoError, match=r"x is a masked array, .*; pass array.filled\(value\)"):
        data.draw(copy, {}, 0)


def test_masked_arrays_of_the_interpreters():
    text = "gpu.module @m { gpu.func @f(%x: memref<2xf32>) kernel { gpu.return } }"
    with pytest.raises(LegoError, match="pass a NumPy array, not MaskedArray"):
        interp.launch(text, "f", 1, 2, [MASKED])
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 x) {\nret;\n}\n"
    with pytest.raises(LegoError, match=r"a masked array has no elements .*; pass array.filled"):
        emulate(text, "f", args=[MASKED], block=1)


@pytest.mark.parametrize("opening", ["scf.if %c {\n", "tuple<", "(", "["])
def test_mlir_that_nests_too_deeply(opening, tmp_path, capsys):
    """MLIR's parser would overflow the stack, and the process with it."""
    path = tmp_path / "deep.mlir"
    path.write_text("module {\n" + opening * 20_000)
    for command in ("check", "analyze", "run", "compile"):
        assert "more than 128 levels of brackets; move the inner regions" in refusal_of(capsys, [command, str(path)])


def test_comparisons_and_strings_do_not_nest():
    from lego_mlir.transforms.modules import require_depth

    require_depth('affine_set<(d) : (d <= 1, d >= 0)> // {{{\n"(((\\"(((" (i1) -> (i1)\n' * 1000, "text")
