"""Random kernels through the whole toolchain: the interpreter, the CPU, mlir-opt and ptxas against NumPy.

The interpreter and the machine code of the same module must compute what NumPy says, bit for bit; LLVM's own `mlir-opt`
must verify the module, and `ptxas` take the PTX for two architectures. Kernels come several at a time, since starting a
program costs more than one of them. In a failing batch the kernel and the step that fail are found first; then only
this step of this kernel is repeated while Hypothesis shrinks it.

`pytest test/laws/test_random_kernels.py --kernels-seed=7` draws other kernels than the everyday ones.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import hypothesis
import pytest
from assembling import needs_ptxas
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import wrong
from launching import launch, launch_on_cpu
from random_kernels import cases

from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel, ptxas
from lego_mlir.transforms import modules
from lego_mlir.transforms.passes.narrow_indices import narrowed

TOGETHER = 5
EVERYDAY, LONG = 8, 100_000 // TOGETHER
TARGETS = ("sm_80", "sm_90")
NARROWED = ("sm_90",)
MLIR_OPT = shutil.which("mlir-opt-22")
TEST = pathlib.Path(__file__).parents[1]
needs_mlir_opt = pytest.mark.skipif(MLIR_OPT is None, reason="needs mlir-opt-22 (apt-get install mlir-22-tools)")
batches = st.tuples(*(cases(f"k{n}") for n in range(TOGETHER)))
# A batch is much to draw, and drawn on purpose; why a case fails is read off its text, not off the lines that ran.
settled = {
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
}


def agrees(case, found, where):
    difference = wrong(case, found)
    assert not difference, f"{where}: {difference}\n{case.text()}"


def interpret(batch, target):
    for case in batch:
        agrees(case, launch(case.kernel(), *case.arrays(), sizes=case.sizes, form=case.form), "interpreter")


def run_on_cpu(batch, target):
    kernels = [(case, case.kernel()) for case in batch if case.cpu]
    if kernels:
        text = module(batch, cpu=True)  # computes every index in 64 bits
        compiled = compile_kernels(narrowed(text) if target in NARROWED else text)
        for case, kernel in kernels:
            mine = compiled[kernel.name]
            agrees(case, launch_on_cpu(kernel, *case.arrays(), sizes=case.sizes, compiled=mine), "CPU")


def verify_module(batch, target):
    if MLIR_OPT is not None:
        verify(module(batch))


def assemble(batch, target):
    compile_kernel(module(batch), emit="ptx" if ptxas.find() is None else "cubin", target=target)


STEPS = (interpret, run_on_cpu, verify_module, assemble)


def module(batch, cpu=False):
    return modules.merge([case.kernel().mlir(case.form) for case in batch if case.cpu or not cpu])


def verify(text):
    done = subprocess.run([MLIR_OPT, "-o", "/dev/null", "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Checked:
    """Checks batches; after the first failure, only the step and the kernel that failed.

    The failing step is repeated from one place, outside of any handler: Hypothesis tells failures apart by the line
    and the exceptions being handled.
    """

    def __init__(self, steps=STEPS):
        self.steps = steps
        self.guilty = None  # a step, and positions in the batch

    def __call__(self, batch, target):
        if self.guilty is None:
            self.guilty = next(self.failing(batch, target), None)
        if self.guilty is not None:
            step, places = self.guilty
            step([batch[place] for place in places], target)

    def failing(self, batch, target):
        """The first step that fails, and the first kernel that fails in it alone, or all if none does."""
        for step in self.steps:
            if fails(step, batch, target):
                alone = [place for place, case in enumerate(batch) if fails(step, [case], target)]
                yield step, alone[:1] or range(len(batch))


def fails(step, batch, target):
    try:
        step(batch, target)
    except Exception:
        return True
    return False


def draw_and_check(batches_wanted, request):
    """Each call starts with no kernel found guilty."""
    checked = Checked()

    @given(batches, st.sampled_from(TARGETS))
    @settings(max_examples=batches_wanted, **settled)
    def random_kernels(batch, target):
        checked(batch, target)

    seed = request.config.getoption("--kernels-seed")
    (random_kernels if seed is None else hypothesis.seed(seed)(random_kernels))()


def test_random_kernels_compute_what_numpy_says_and_pass_every_tool(request):
    draw_and_check(EVERYDAY, request)


@pytest.mark.long
def test_many_more_random_kernels(request):
    draw_and_check(LONG, request)


def test_a_failing_kernel_is_found_in_its_batch_and_shrunk_alone():
    repeated = []

    def fails_where_a_store_is_ragged(batch, target):
        repeated.append(len(batch))
        assert not any("tile_by" in case.text() for case in batch)

    checked = Checked([fails_where_a_store_is_ragged])

    @given(batches)
    @settings(max_examples=50, **settled)
    def draw(batch):
        checked(batch, "sm_80")

    with pytest.raises(AssertionError):
        draw()
    step, places = checked.guilty
    assert step is fails_where_a_store_is_ragged and len(places) == 1
    first_alone = repeated.index(1)
    assert repeated[:first_alone] == [TOGETHER] * first_alone and set(repeated[first_alone:]) == {1}


def test_every_process_draws_the_same_kernels():
    """Whatever the hash seed, and whatever was imported before."""

    def digest(seed, *imported):
        command = [sys.executable, str(TEST / "draws.py"), *imported]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert len({digest("0"), digest("1", "expression_strategies", "random_templates")}) == 1


@pytest.mark.tools
@needs_mlir_opt
@needs_ptxas
def test_the_tools_saw_the_random_kernels():
    """Skipped with the reason where the two tests above ran without mlir-opt or ptxas."""
    with pytest.raises(AssertionError, match="undeclared"):
        verify("func.func @f() -> i32 { return %x : i32 }")
