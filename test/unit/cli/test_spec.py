"""Loading specs: what is found, under which names, and that the file behaves as a script does."""

import pytest

from lego_mlir import Row, spec
from lego_mlir.errors import SpecError

KERNEL = """
import lego_mlir as lego
from lego_mlir import Row, f32
{before}
@lego.kernel(grid=1, block=32)
def fill(dst: lego.Tensor(f32, Row(32))):
    dst[lego.thread_id[0]] = {value}
"""


def load(folder, text):
    path = folder / "spec.py"
    path.write_text(text)
    return spec.load(path)


def test_names_kinds_and_order(tmp_path):
    found = load(tmp_path, KERNEL.format(before="b = Row(4, 4)\na = Row(2, 2)\n_hidden = Row(8)\nn = 3", value="1.0"))
    assert list(found.layouts) == ["b", "a"]
    assert found.layouts["a"] == Row(2, 2)
    assert list(found.kernels) == ["fill"]
    assert found.templates == {}


def test_two_names_of_one_object_count_once(tmp_path):
    assert list(load(tmp_path, "from lego_mlir import Row\na = Row(2)\nb = a\nc = Row(2)").layouts) == ["a", "c"]


def test_a_kernel_is_found_by_its_variable_and_by_its_own_name(tmp_path):
    found = load(tmp_path, KERNEL.format(before="", value="1.0") + "\nother = fill\ndel fill\n")
    assert found.kernels_named("other") == found.kernels_named("fill") == found.kernels_named(None)


FACTORY = """
import lego_mlir as lego
from lego_mlir import Row, f32
def make(n):
    @lego.kernel(grid=1, block=n)
    def fill(dst: lego.Tensor(f32, Row(n))):
        dst[lego.thread_id[0]] = 1.0
    return fill
one, two = make(16), make(32)
"""


def test_annotations_see_what_is_local_to_a_factory(tmp_path):
    """The loader's own `from __future__ import annotations` must not reach the spec."""
    found = load(tmp_path, FACTORY)
    assert [kernel.block for kernel in found.kernels_named(None)] == [(16,), (32,)]


def test_a_name_that_two_kernels_have_chooses_none(tmp_path):
    found = load(tmp_path, FACTORY)
    assert found.kernels_named("two") == (found.kernels["two"],)
    with pytest.raises(SpecError, match="2 kernels are named fill; select one by its variable: one, two"):
        found.kernels_named("fill")


def test_a_spec_imports_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_the_spec.py").write_text("from lego_mlir import Row\ntile = Row(3, 5)\n")
    assert load(tmp_path, "from beside_the_spec import tile").layouts == {"tile": Row(3, 5)}


def test_a_spec_may_define_dataclasses_and_knows_its_file(tmp_path):
    text = (
        "from dataclasses import dataclass\nfrom lego_mlir import Row\n@dataclass(slots=True)\nclass C:\n    x: int\n"
    )
    assert load(tmp_path, text + "assert __file__.endswith('spec.py')\na = Row(C(4).x)").layouts == {"a": Row(4)}


def test_the_digest_is_the_content_s(tmp_path):
    one = load(tmp_path, "x = 1\n").digest
    assert load(tmp_path, "x = 1\n").digest == one
    assert load(tmp_path, "x = 2\n").digest != one


def test_blame_finds_the_line_of_code_that_runs_later(tmp_path):
    found = load(tmp_path, KERNEL.format(before="", value="undefined"))
    message = r"spec.py:7: NameError: name 'undefined' is not defined\n  dst\["
    with pytest.raises(SpecError, match=message), spec.blame(found.path):
        found.kernels["fill"].trace()


def test_numpy_s_functions_on_data_are_told_what_replaces_them(tmp_path):
    value = "__import__('numpy').exp(dst[lego.thread_id[0]])"
    found = load(tmp_path, KERNEL.format(before="", value=value))
    with (
        pytest.raises(SpecError, match=r"NumPy functions do not accept kernel values; use lego.exp"),
        spec.blame(found.path),
    ):
        found.kernels["fill"].trace()


def test_blame_leaves_our_own_defects_alone(tmp_path):
    with pytest.raises(ZeroDivisionError), spec.blame(tmp_path / "spec.py"):
        _ = 1 / 0
