"""The rivals written in CUDA do what they are timed for: run on the CPU, also on sizes that tiles do not divide."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
using std::min;
#include "{header}"
{rival}
template <class Kernel> int check(const char* name, Kernel kernel, dim3 grid, dim3 block, int m, int n) {{
  std::vector<ELEMENT> in(m * n), out(m * n, ELEMENT(7));
  for (int i = 0; i < m * n; ++i) in[i] = ELEMENT(i % 2000);
  launch(grid, block, [&] {{ kernel(in.data(), out.data(), m, n); }});
  int wrong = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) wrong += out[j * m + i] != in[i * n + j];
  if (wrong) std::printf("%s %d x %d: %d wrong\\n", name, m, n, wrong);
  return wrong;
}}
int tiles(int size, int side) {{ return (size + side - 1) / side; }}
int main() {{
  int wide = 16 / sizeof(ELEMENT), large = 256 / sizeof(ELEMENT), small = large / 2, wrong = 0;
  for (auto [m, n] : {{std::pair(64, 64), std::pair(33, 70), std::pair(200, 72)}}) {{
    dim3 rows{{tiles(n, 32), tiles(m, 32), 1}}, warps{{32, 8, 1}};
    wrong += check("naive", transpose_naive, rows, warps, m, n);
    wrong += check("shared", transpose_shared, rows, warps, m, n);
    wrong += check("padded", transpose_padded, rows, warps, m, n);
    int a = m / wide * wide, b = n / wide * wide;  // blocks go down columns of tiles
    wrong += check("vectorised", transpose_vectorised, {{tiles(a, large), tiles(b, large), 1}}, {{256, 1, 1}}, a, b);
    wrong += check("small", transpose_vectorised_small, {{tiles(a, small), tiles(b, small), 1}}, {{64, 1, 1}}, a, b);
  }}
  return wrong != 0;
}}
"""


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("element", ["float", "uint16_t"])
def test_the_cuda_transposes(tmp_path, element):
    source, program = tmp_path / "rivals.cpp", tmp_path / "rivals"
    rival = (ROOT / "bench" / "rivals" / "transpose.cu").read_text()
    source.write_text(PROGRAM.format(header=ROOT / "test/unit/templates/cuda_on_host.h", rival=rival))
    command = ["g++", "-std=c++20", "-O1", "-pthread", "-w", f"-DELEMENT={element}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
