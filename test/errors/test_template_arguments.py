"""What the words of templates, the interpreter and the compiler take, and one message for anything else."""

import importlib.util

import numpy as np
import pytest

from lego_mlir import Row, size
from lego_mlir.errors import LegoError, TemplateError
from lego_mlir.templates import Template, index

triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs the package triton (pip install lego-mlir[triton])"
)
NAMES = {
    "X": Row(64, 256), "i": index("i"), "N": size("N", max=64), "n": None, "f": 1.5, "t": True,
    "a": np.arange(3), "l": [1, 2], "b": Row(64, 64).tile_by([4, 4], [16, 16]),
}  # fmt: skip
VALUES = ("n", "f", "t", "a", "l", "'s'", "X", "X[i, :]", "X.mask[i, :]", "i < 3", "all")
WORDS = ("X[{}, 1]", "X[{}:, 1]", "X[i, :{}]", "X[i, ::{}]", "X.mask[{}, 1]", "X.inv({})", "X.holds({})",
         "X.apply({}, 1)", "local({})", "assign({}, i)",
         "descriptor({}, b)", "descriptor('x', {})", "descriptor('x', b, {})",
         "load({}, X[i, :])", "load('x', {})", "load('x', X[i, :], where={})", "store('x', X[i, :], {})", "masked({})",
         "load_block({}, b[i, 0, :, :])", "load_block('d', {})", "store_block('d', b[i, 0, :, :], {})",
         "device_function('at', {})", "layout_class('At', {})")  # fmt: skip
MAY = {("X[i, :{}]", "n"), ("X[{}:, 1]", "n"), ("X[i, ::{}]", "n"), ("X[{}, 1]", "all"), ("X.mask[{}, 1]", "all"),
       ("X.apply({}, 1)", "all"), ("load('x', {})", "X[i, :]"), ("masked({})", "X[i, :]"), ("descriptor('x', {})", "X"),
       ("load('x', X[i, :], where={})", "t"), ("load('x', X[i, :], where={})", "i < 3"),
       ("descriptor('x', b, {})", "n"), ("load('x', X[i, :], where={})", "l"),
       ("device_function('at', {})", "X"), ("layout_class('At', {})", "X")}  # fmt: skip
MAY |= {(word, "'s'") for word in WORDS if "({}, " in word or ", :], {})" in word or ":, :], {})" in word}  # take text
TEXTS = [(word, value) for word in WORDS for value in VALUES if (word, value) not in MAY]


@pytest.mark.parametrize("language", ["py", "cu"])
@pytest.mark.parametrize(("word", "value"), TEXTS)
def test_a_wrong_argument_of_a_word_is_refused_in_one_line(word, value, language):
    with pytest.raises(TemplateError) as refused:
        Template.of(f"{{{{ {word.format(value)} }}}}{{{{ sizes }}}}", f"t.{language}.jinja", **NAMES).render()
    message = str(refused.value)
    assert refused.value.__cause__ is None
    assert message.startswith(f"t.{language}.jinja:1: ") and "\n" not in message
    assert "cannot be computed" not in message and "has no attribute" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ X[i, :i] }}", r"a slice over i values: tl\.arange needs a number or a constexpr"),
        ("{{ X.mask[i, :]|upper }}", "a filter has changed a value that is printed in the second pass"),
        ("{{ 1 // 0 }}", r"cannot be computed \(ZeroDivisionError: "),
        ("{{ i ~ 'a' + i }}", r"an index is an int or an expression of sizes and indices, got"),
    ],
)
def test_what_cannot_be_written(text, said):
    with pytest.raises(TemplateError, match=rf"^t\.py\.jinja:1: {said}"):
        Template.of(text, "t.py.jinja", **NAMES).render()


def kernel():
    text = "import triton\nimport triton.language as tl\n@triton.jit\ndef f(x_ptr, n):\n    tl.store(x_ptr, n)\n"
    return Template.of(text, "k.py.jinja").render()


@triton
@pytest.mark.parametrize("given", [[], [1, 2], [1.5], [np.zeros(2), None]])
def test_a_list_is_one_of_arrays(given):
    from lego_mlir.templates.run.triton_interpreter import interpret

    with pytest.raises(TemplateError, match=r"^k\.py\.jinja: f\(x_ptr, n\): x_ptr is a list, .* pass numpy\.array"):
        interpret(kernel(), "f", (1,), given, 1)


@triton
@pytest.mark.parametrize("grid", [1, (), (-1,), ("a",), (1, 1, 1, 1), None, 1.5])
def test_a_grid_is_one_to_three_numbers(grid):
    from lego_mlir.templates.run.triton_interpreter import interpret

    with pytest.raises(TemplateError, match=r"^k\.py\.jinja: f: a grid is one to three numbers of programs"):
        interpret(kernel(), "f", grid, np.zeros(1, np.float32), 1)


@triton
@pytest.mark.parametrize(
    ("types", "target", "said"),
    [
        ({"x_ptr": "*fp32", "n": "int"}, "sm_90", "f: the type of n is 'int', which Triton does not have"),
        ({"x_ptr": ["*fp32"], "n": "i32"}, "sm_90", "f: the type of x_ptr is"),
        ({"x_ptr": "*fp33", "n": "i32"}, "sm_90", r"f: the type of x_ptr is '\*fp33', .*did you mean fp32"),
        ({"x_ptr": "*fp32", "n": "i32"}, "hopper", "compile_for: a target is named as sm_80"),
        ({"x_ptr": "*fp32", "n": "i32"}, 90, "compile_for: a target is named as sm_80"),
        ({"x_ptr": "fp32", "n": "i32"}, "sm_90", "f: Triton cannot compile it: at 2:4:"),
    ],
)
def test_what_cannot_be_compiled(types, target, said):
    from lego_mlir.templates.run.triton import compile_for, load

    with pytest.raises(LegoError, match=f"^{said}") as refused:
        compile_for(load(kernel(), "f"), types, {}, target=target)
    assert refused.value.__cause__ is None
