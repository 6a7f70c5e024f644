"""The public names: each is there, each is loaded late, and the list for type checkers is the list."""

import re
import subprocess
import sys

import pytest

import lego_mlir as lego
from lego_mlir import words
from lego_mlir.tracing.definition.kernel import Kernel


@pytest.mark.parametrize("name", lego.__all__)
def test_every_name_is_there(name):
    assert getattr(lego, name) is not None
    assert name in dir(lego)


def test_a_name_that_is_none():
    with pytest.raises(AttributeError, match="module 'lego_mlir' has no attribute 'kernels_of'"):
        lego.kernels_of


def test_importing_all_names_takes_none_of_python_s():
    space = {}
    exec("from lego_mlir import *", space)
    assert "Row" in space
    assert "range" not in space


@pytest.mark.parametrize("first", ["lego.f32", "lego.kernel", "import lego_mlir.tracing.trace.trace", "lego.Tensor"])
def test_the_decorator_and_its_package_share_a_name_whichever_comes_first(first):
    program = f"""
import lego_mlir as lego
{first}
@lego.kernel(grid=1, block=4)
def k(x: lego.Tensor(lego.f32, lego.Row(4))):
    x[lego.thread_id[0]] = 1.0
import lego_mlir.tracing.emit.emit_module
print(type(k).__name__, lego_mlir.tracing.emit.emit_module.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [Kernel.__name__, "lego_mlir.tracing.emit.emit_module"]


def test_a_misspelt_name_is_told_the_one_that_was_meant():
    with pytest.raises(AttributeError, match=r"no attribute 'barier'; did you mean barrier\?"):
        lego.barier
    assert not hasattr(lego, "__wrapped__")


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("syncthreads", r"'syncthreads'; write lego.barrier\(\)"),
        ("atomic_add", r"atomic updates are methods of tensors and tiles: write y.atomic_add\(value, i, j\)"),
        ("atomicCAS", r"write y.atomic_cas\(expected, value, i, j\)"),
        ("atomic_load", r"write y.atomic_load\(i, j\)"),
        ("__shfl_down_sync", r"write lego.shuffle_down\(v, distance\)"),
        ("syncwarp", r"write lego.warp_sync\(\)"),
        ("min", r"write lego.minimum\(a, b\)"),
        ("threadIdx", r"write lego.thread_id\[0\]"),
        ("program_id", r"write lego.block_id\[0\]"),
        ("float16", "write lego.f16"),
    ],
)
def test_a_word_of_cuda_or_triton_is_told_what_is_here_instead(word, remedy):
    with pytest.raises(AttributeError, match=remedy):
        getattr(lego, word)


def test_the_words_remedies_name_what_exists_and_no_word_hides_a_name():
    for word, remedy in words._REMEDIES.items():
        assert not hasattr(lego, word), word
        for name in re.findall(r"lego\.([A-Za-z]\w*)", remedy):
            assert hasattr(lego, name), remedy
