"""A NumPy function as text: what it uses travels with it, and what cannot travel is refused with the reason."""

import functools
import math
import subprocess
import sys

import numpy as np
import pytest
from numpy import einsum

from lego_mlir.errors import SpecError, UsageError
from lego_mlir.tuning import reference_source

SCALE = 3.0
TABLE = np.array([1.0, 2.0, 4.0], np.float32)
PAIR = {"low": (1, -2), "high": [float("inf"), None]}


def clipped(x: "int", least=-1.0):
    return np.maximum(x, least)


def outer(x):
    return clipped(x) * SCALE + TABLE[1] + PAIR["low"][1]


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def closure():
    width, inner = 4, clipped

    def blocked(x: np.ndarray, *, depth: int = width) -> np.ndarray:
        def scaled(part):
            return inner(part) / width + depth

        return np.stack([scaled(row) for row in x])

    return blocked


FUNCTIONS = {
    "globals": (outer, (np.array([-3.0, 5.0]),)),
    "recursion": (factorial, (5,)),
    "closure": (closure(), (np.arange(-4.0, 4).reshape(2, 4),)),
    "lambda": (lambda x: math.sqrt(SCALE) * np.abs(x), (np.array([-2.0]),)),
    "NumPy by name": (lambda x: einsum("ij->ji", x), (np.ones((2, 3)),)),
    "the standard library": (lambda x: functools.reduce(max, x), ([1, 5, 2],)),
    "a default": (lambda x, table=TABLE: x * table, (np.ones(3),)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_the_same_in_another_process(name):
    function, arguments = FUNCTIONS[name]
    text = reference_source.text_of(function, "expected")
    code = (
        f"import numpy as np\nfrom numpy import array\nscope = {{}}\nexec({text!r}, scope)\n"
        f"print(repr(np.asarray(scope['expected'](*{arguments!r})).tolist()))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(np.asarray(function(*arguments)).tolist())
    np.testing.assert_array_equal(reference_source.loaded(text, "expected")(*arguments), function(*arguments))


def test_decorators_and_annotations_stay_behind():
    @functools.lru_cache
    def expected(x: "lego.Tensor") -> "lego.Tensor":  # noqa: F821
        return 2 * x

    assert reference_source.text_of(expected.__wrapped__, "expected") == "def expected(x):\n    return 2 * x\n"


def with_a_module():
    import lego_mlir as lego

    return lambda x: lego.cdiv(x, 2)


def with_an_object():
    kernel = object()
    return lambda x: (kernel, x)


def with_an_array():
    table = np.zeros(5000)
    return lambda x: x * table


def with_two_meanings():
    SCALE = 5

    def mine(x):
        return outer(x) * SCALE

    return mine


def twins():
    return (lambda x: x, lambda x: -x)


REFUSED = {
    "a module": (with_a_module(), "it uses the module lego_mlir; the machine of the device has NumPy and"),
    "an object": (with_an_object(), "it uses kernel, <object object"),
    "a large array": (with_an_array(), "table is an array of 5000 elements"),
    "two meanings": (with_two_meanings(), "SCALE has two meanings"),
    "a builtin function": (abs, "not a function written in Python"),
    "two functions on a line": (twins()[1], "2 functions of its line may be meant; define it with def"),
    "no source": (eval("lambda x: x"), "its source cannot be read"),
    "an undefined name": (lambda x: x + nowhere, "uses nowhere, which is not defined"),  # noqa: F821
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_travel_is_refused(name):
    function, reason = REFUSED[name]
    with pytest.raises(UsageError, match=reason):
        reference_source.text_of(function, "expected")


@pytest.mark.parametrize("text", ["import nowhere_to_be_found", "def other(): pass", "def expected(:", "x = 1 + ''"])
def test_a_text_that_does_not_load_is_refused(text):
    with pytest.raises(SpecError, match="the reference expected of the pack cannot be loaded"):
        reference_source.loaded(text, "expected")
