"""The kernels of examples/first_day take at most 1.3 times the lines of the same kernels in CUDA C++.

The counting rule is that of bench/first_day.py. Lines with code count: no blank lines, comments, docstrings or
imports. Ours are the kernels and programs with their decorators, and the functions and constants of the file that they
use. Those of CUDA are the kernels of the example's namespace in bench/rivals/first_day.cu, its constants and functions,
the body of its `launch`, and the shared functions that it uses.
"""

import shutil
import subprocess

import first_day as LINES  # noqa: N812  (bench/ is a folder of scripts, not a package)
import pytest

ROWS = LINES.rows()

SPEC = '''"""Head."""

import lego_mlir as lego

T = 4  # used by the decorator
UNUSED = 5
M, N = 1, (
    2
)


def helper(x):
    """Docstring."""

    return x + M  # a comment


def unused():
    return 1


# A comment.
@lego.kernel(grid=1,
             block=T)
def kernel(x: lego.Tensor(f32, Row(N))):
    """Two
    lines."""
    x[0] = helper(x[1])


@kernel.reference
def expected(x):
    return x
'''

CUDA = """\
// Head.
__device__ int inner(int x) { return x; }

template <typename T>
__device__ T outer(T x) {
  // A comment.
  return inner(x);
}

__device__ int unused(int x) { return x; }

namespace one {

using namespace nvcuda;

constexpr int kT = 4;

__global__ void kernel(int* x) {
  x[0] = outer(x[1]);
}

void launch(int* x,
            int y) {
  int blocks = 1;

  kernel<<<blocks, kT>>>(x);
}

}  // namespace one

namespace two {

__global__ void kernel(int* x) {}

void launch(int* x) { kernel<<<1, 1>>>(x); }

}  // namespace two
"""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_ours_takes_at_most_1_3_times_the_lines_of_cuda(row):
    assert row.ours <= LINES.LIMIT * row.cuda


def test_documented_table_is_current():
    assert LINES.lines_table(ROWS) == LINES.DATA.read_text(), "run python bench/first_day.py lines"


def test_lines_of_python_are_those_of_the_kernels_and_what_they_use():
    assert LINES.lines_of_python(SPEC) == 1 + 3 + 2 + 4  # T; M, N; helper; kernel


def test_lines_of_cuda_are_those_of_the_namespace_and_what_it_uses():
    assert LINES.lines_of_cuda(CUDA, "one") == (1 + 3 + 2 + 5, 5)  # kT; kernel; launch; outer and inner
    assert LINES.lines_of_cuda(CUDA, "two") == (1 + 1, 0)


def test_an_example_without_its_cuda_kernel_is_named():
    with pytest.raises(SystemExit, match=r"first_day\.cu has no namespace three"):
        LINES.lines_of_cuda(CUDA, "three")


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc of the CUDA toolkit on PATH")
def test_the_cuda_kernels_compile(tmp_path):
    """For sm_80, with warnings as errors, and without spills."""
    command = ["nvcc", "-arch=sm_80", "-cubin", "-Werror", "all-warnings", "-Xptxas", "-v", str(LINES.RIVALS)]
    done = subprocess.run([*command, "-o", tmp_path / "out.cubin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Compiling entry function") >= len(ROWS)
    assert done.stderr.count(" 0 bytes spill stores") == done.stderr.count("spill stores")
