"""One piece of synchronisation is removed at a time: whatever changes a value is reported. Needs nvcc."""

import re
from pathlib import Path

import numpy as np
import pytest

from lego_mlir import sanitize
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.sanitize.cuda_text import compile_to_ptx
from lego_mlir.sanitize.sanitized_kernels import SanitizedKernel
from lego_mlir.toolchain import nvidia_tools

pytestmark = [
    pytest.mark.tools,
    pytest.mark.skipif(nvidia_tools.find("nvcc") is None, reason="needs nvcc (pip install nvidia-cuda-nvcc)"),
]
FILE = Path(__file__).with_name("synchronised.cu")
SITE = re.compile(r"^\s*(@!?%p\d+ )?(bar\.|barrier\.|membar|fence|cp\.async\.wait_group)")
BLOCKS = {"tree": 4, "last_block": 4, "flag": 3}
KERNELS = re.findall(r"^KERNEL (\w+)", FILE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module", params=["sm_80", "sm_90"])
def text(request):
    return compile_to_ptx(FILE.read_text(), FILE, request.param)


def run(text: str, name: str, seed: int):
    x, y = np.random.default_rng(0).standard_normal(1024, np.float32), np.zeros(256, np.float32)
    kernel = SanitizedKernel(read_ptx(text, str(FILE)), name)
    with sanitize.session(seed=seed, budget=20_000):
        return kernel[BLOCKS.get(name, 1), 128](x, y, 128), y


def sites(text: str, name: str) -> list[int]:
    """The lines of the kernel that synchronise."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if re.search(rf"\.entry {name}\b", line))
    end = next((i for i in range(start + 1, len(lines)) if ".entry " in lines[i]), len(lines))
    return [i for i in range(start, end) if SITE.match(lines[i])]


def without(text: str, at: int) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:at], "", *lines[at + 1 :]])


def check(text: str, name: str, seeds: range) -> tuple[int, int, int]:
    """Mutants, those that are reported, and those that change a value, all of which are among them."""
    found = sites(text, name)
    right = [run(text, name, seed) for seed in seeds]
    assert all(report.clean for report, _ in right)
    assert all(np.array_equal(y, right[0][1]) for _, y in right)
    reported = changed = 0
    for at in found:
        mutants = [run(without(text, at), name, seed) for seed in seeds]
        is_reported = any(not report.clean for report, _ in mutants)
        is_changed = any(not np.array_equal(y, right[0][1]) for _, y in mutants)
        assert is_reported or not is_changed, (name, text.splitlines()[at])
        reported, changed = reported + is_reported, changed + is_changed
    return len(found), reported, changed


@pytest.mark.parametrize("name", KERNELS)
def test_what_changes_a_value_is_reported(text, name):
    mutants, reported, _ = check(text, name, range(2))
    assert mutants
    assert reported >= 1


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_under_any_of_many_orders(text, name):
    check(text, name, range(2, 40))
