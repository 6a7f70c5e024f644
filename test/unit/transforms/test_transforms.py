"""Transform scripts: applied, checked, and refused where they find nothing."""

from pathlib import Path

import pytest

from lego_mlir.errors import SpecError, ToolchainError
from lego_mlir.toolchain import compile_kernel

TRANSPOSE = (Path(__file__).parents[1] / "toolchain" / "transpose.mlir").read_text()
SCRIPT = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @{entry}(%root: !transform.any_op {{transform.readonly}}) {{
    %found = transform.structured.match ops{{["{op}"]}} in %root {mark} : (!transform.any_op) -> !transform.any_op
    {body}
    transform.yield
  }}
}}
"""
UNROLL = "transform.loop.unroll %found { factor = 4 } : !transform.any_op"


def transformed(folder, *, entry="__transform_main", op="scf.for", mark="", body=UNROLL):
    script = folder / "script.mlir"
    script.write_text(SCRIPT.format(entry=entry, op=op, mark=mark, body=body))
    return compile_kernel(TRANSPOSE, emit="transformed", transform=script).text


def test_a_script_changes_the_module(tmp_path):
    text = transformed(tmp_path)
    assert text.count("memref.load") == 8  # two loops of four, unrolled
    assert "transform." not in text


def test_the_transformed_module_goes_on_to_ptx(tmp_path):
    (tmp_path / "s.mlir").write_text(SCRIPT.format(entry="__transform_main", op="scf.for", mark="", body=UNROLL))
    assert ".visible .entry transpose(" in compile_kernel(TRANSPOSE, transform=tmp_path / "s.mlir").text


def test_a_match_of_nothing_is_an_error_that_names_the_operation(tmp_path):
    with pytest.raises(
        ToolchainError, match=r"script.mlir:4:14: the script matched nothing: it looked for ops"
    ) as caught:
        transformed(tmp_path, op="memref.alloc")
    assert '"memref.alloc"' in str(caught.value)
    assert "--transform" in caught.value.rerun.command


def test_a_match_may_be_declared_optional(tmp_path):
    text = transformed(tmp_path, op="memref.alloc", mark="{lego.optional}", body="")
    assert text == compile_kernel(TRANSPOSE, emit="mlir").text


def test_an_empty_match_inside_alternatives_is_an_answer(tmp_path):
    body = """transform.alternatives %found : !transform.any_op {
    ^bb0(%scope: !transform.any_op):
      %none = transform.structured.match ops{["memref.alloc"]} in %scope : (!transform.any_op) -> !transform.any_op
    }"""
    assert "scf.for" in transformed(tmp_path, op="gpu.func", body=body)


def test_without_an_entry_the_sequences_found_are_listed(tmp_path):
    with pytest.raises(ToolchainError, match=r"begins at 'transform.named_sequence @__transform_main.*found: @main"):
        transformed(tmp_path, entry="main")


def test_a_failing_transform_is_placed_in_the_script(tmp_path):
    with pytest.raises(ToolchainError, match=r"script.mlir:5:5: error: failed to unroll"):
        transformed(tmp_path, op="gpu.barrier")


def test_a_syntax_error_is_placed_in_the_script(tmp_path):
    with pytest.raises(ToolchainError, match=r"script.mlir:5:\d+: error"):
        transformed(tmp_path, body="transform.nonsense")


def test_a_missing_script(tmp_path):
    with pytest.raises(SpecError, match=r"none.mlir: the transform script cannot be read \(No such file"):
        compile_kernel(TRANSPOSE, transform=tmp_path / "none.mlir")
