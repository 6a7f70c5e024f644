"""Figure 14's kernels give NumPy's scores in every layout of their buffer: ours in the interpreter, CUDA on the CPU."""

import shutil

import numpy as np
import nw  # bench/ is a folder of scripts, not a package
import pytest
from host_cuda import check_nw, scores_in_numpy

from lego_mlir import interp

N, B, PENALTY = 12, 4, 3


@pytest.mark.parametrize("layout", nw.KINDS)
def test_ours(layout):
    kernels, blocks = nw.built(N, B, layout), N // B
    substitution = np.random.default_rng(1).integers(-4, 5, (N + 1, N + 1), dtype=np.int32)
    scores = np.zeros((N + 1, N + 1), np.int32)
    scores[0] = scores[:, 0] = -PENALTY * np.arange(N + 1)
    memories = {"scores": scores.ravel().copy(), "substitution": substitution.ravel(), "penalty": PENALTY}
    for half, counts in (("growing", range(1, blocks + 1)), ("shrinking", range(blocks - 1, 0, -1))):
        for count in counts:
            interp.run_kernel(kernels[half], memories, {"count": count})
    assert np.array_equal(memories["scores"].reshape(N + 1, N + 1), scores_in_numpy(substitution, PENALTY))


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
@pytest.mark.parametrize("layout", nw.KINDS)
def test_cuda(tmp_path, layout):
    text = nw.cuda(N, B, layout)
    check_nw(tmp_path, f"#include <algorithm>\nusing std::max;\n{text}", N, B, PENALTY)


def test_only_the_layout_of_the_buffer_changes():
    """The kernels' text after the declarations is one text."""
    bodies = {nw.cuda(N, B, layout).partition("const int tx")[2] for layout in nw.KINDS}
    assert len(bodies) == 1
