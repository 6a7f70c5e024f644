"""Where the plugin of the lego dialect is looked for, and transform scripts that need it."""

import sys
from pathlib import Path

import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli.main import main
from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.transforms import dialect_plugin, scripts
from lego_mlir.transforms.apply import transform
from lego_mlir.transforms.scripts import Script

TRANSPOSE = str(Path(__file__).parents[3] / "examples" / "transpose.py")
SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // transform.lego.other in a comment
    %tiles = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.lego.swizzle %tiles : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


@pytest.fixture
def no_plugin(monkeypatch):
    monkeypatch.setattr(dialect_plugin, "find", lambda: None)
    monkeypatch.setattr(dialect_plugin, "mlir_opt", lambda: "/usr/bin/mlir-opt-22")


def a_script(tmp_path, text=SCRIPT):
    path = tmp_path / "relay.mlir"
    path.write_text(text)
    return str(path)


def test_a_script_s_operation_is_found_outside_comments():
    assert dialect_plugin.uses_plugin(SCRIPT) == "transform.lego.swizzle"
    assert dialect_plugin.uses_plugin("// transform.lego.swizzle") is None


def test_a_script_without_the_plugin(no_plugin, tmp_path, capsys):
    path = a_script(tmp_path)
    error = refusal_of(capsys, ["compile", TRANSPOSE, "--transform", path, "--emit", "transformed", "--no-cache"])
    assert f"{path}: transform.lego.swizzle needs the C++ plugin of the lego dialect, libLegoMLIR.so" in error
    assert "run: cmake --preset default && cmake --build --preset default" in error


def test_a_script_without_mlir_opt(monkeypatch):
    monkeypatch.setattr(dialect_plugin, "mlir_opt", lambda: None)
    with pytest.raises(DependencyError, match="needs mlir-opt of LLVM 22; run: apt-get install mlir-22-tools"):
        transform("module {}", SCRIPT)


@pytest.mark.parametrize("declared", ["lego.parameters = {}", "lego.pipeline = []"])
def test_a_script_that_is_half_ours(declared):
    text = SCRIPT.replace("transform.with_named_sequence", f"transform.with_named_sequence, {declared}")
    with pytest.raises(UsageError, match=r"mlir-opt runs this script, for transform.lego.swizzle, and does not know"):
        transform("module {}", text)


def test_a_parameter_for_a_script_that_has_none(tmp_path):
    with pytest.raises(UsageError, match="has no parameter stages; it has none"):
        transform("module {}", scripts.read(a_script(tmp_path), {"stages": 3}))


def test_such_a_script_as_a_part_of_another(no_plugin):
    whole = 'module attributes {transform.with_named_sequence, lego.pipeline = ["part.mlir"]} {}'
    with pytest.raises(DependencyError, match=r"part.mlir: transform.lego.swizzle needs the C\+\+ plugin"):
        transform("module {}", Script("whole.mlir", whole, (Script("part.mlir", SCRIPT),)))


def test_the_doctor(monkeypatch, tmp_path, capsys):
    library = tmp_path / "libLegoMLIR.so"
    monkeypatch.setattr(dialect_plugin, "find", lambda: None)
    assert main(["doctor"]) == 0
    assert "  missing  lego plugin    for transform.lego scripts; in a checkout, run: cmake" in capsys.readouterr().out
    library.write_text("not a library")
    monkeypatch.setattr(dialect_plugin, "find", lambda: library)
    monkeypatch.setattr(dialect_plugin, "mlir_opt", lambda: sys.executable)
    out = output_of(capsys, ["doctor"])
    assert f"{library} does not fit {sys.executable} (OSError: " in out
    monkeypatch.setattr(dialect_plugin, "misfit", lambda plugin, program: None)
    main(["doctor"])
    assert f"  ok       lego plugin    {library}, fits {sys.executable}" in capsys.readouterr().out


def test_where_the_plugin_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dialect_plugin, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "installed" / "bin"))
    if Path("/usr/local/lib/libLegoMLIR.so").exists():
        pytest.skip("a plugin is installed in /usr/local")
    assert dialect_plugin.find() is None
    for folder in ("installed/lib", "python/lib", "build/dialect/dialects/lib"):
        place = tmp_path / folder / dialect_plugin.LIBRARY
        place.parent.mkdir(parents=True)
        place.touch()
        assert dialect_plugin.find() == place
