"""Structured programs are compiled, checked and timed on this machine's CPU."""

import json
import math

import pytest

import lego_mlir as lego
from lego_mlir.cli import main as cli
from lego_mlir.cli.main import DONE
from lego_mlir.errors import UsageError
from lego_mlir.structured import compile as compiled
from lego_mlir.structured import source_of
from lego_mlir.structured import structures as st
from lego_mlir.structured.vector.generate import Variant
from lego_mlir.tuning.candidates import Candidate, Configuration
from lego_mlir.tuning.cpu_workbench import CpuTrial, cpu_workbench, is_structured
from lego_mlir.tuning.workbench import halve

TEXT = "A = Matrix(8, 8); L = LowerTriangular(8); B = Matrix(8, 8); A = L*B;"
SPEC = f"""
import lego_mlir as lego

product = lego.tune(space={{"width": [2, 4], "rows": [4], "vectors": [1, 2]}})({TEXT!r})
"""


def source(**options):
    return source_of(TEXT, variant=Variant(4, 4, 2, False), **options)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_a_program_is_right_and_has_times(dtype):
    sampler = CpuTrial(source(dtype=dtype)).open()
    assert sampler.check() == ""
    assert all(0 < time < 1e-3 for time in sampler.sample(5))


def test_a_wrong_result_is_named():
    sampler = CpuTrial(source()).open()
    right = sampler.kernel

    def doubled(a, *others):
        right(a, *others)
        a *= 2

    sampler.kernel = doubled
    assert sampler.check().startswith("A: ")


def test_variants_are_raced_in_processes_and_remembered():
    tuned = lego.tune(space={"width": [2, 4], "rows": [4], "vectors": [1, 2]})(TEXT)
    found = tuned.tune()
    assert len(found.timings) == len(found.space.kept) >= 2
    assert not any(timing.failure for timing in found.timings)
    assert 0 < found.best.median < math.inf
    assert tuned.choose().basis == "measured"


def test_a_compiled_kernel_is_timed_as_its_source():
    kernel = compiled(TEXT, cache=None)
    candidate = Candidate(Configuration.of({"width": 4}), lambda: kernel)
    assert is_structured(candidate)
    (timing,) = halve(cpu_workbench(), "product", [candidate], {})
    assert timing.failure == ""


def test_what_is_not_a_program_is_refused():
    by_lanes = compiled(
        "A = B*C", cache=None, by_lanes=True, A=st.general(2, 2), B=st.general(2, 2), C=st.general(2, 2)
    )
    candidates = [
        Candidate(Configuration.of({"n": 1}), lambda: by_lanes), Candidate(Configuration.of({"n": 2}), lambda: "text"),
    ]  # fmt: skip
    prepare = cpu_workbench().prepare
    with pytest.raises(UsageError, match="a matrix per lane are not timed; leave out by_lanes"):
        prepare(candidates[0], {})
    with pytest.raises(UsageError, match="a str is not a structured program"):
        prepare(candidates[1], {})


def test_the_command_line_measures_programs_without_a_gpu(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(SPEC)
    code = cli.main(["tune", str(spec), "--json", "--store", str(tmp_path / "timings.jsonl"), "--budget", "20s"])
    plan = json.loads(capsys.readouterr().out)
    assert code == DONE
    assert len(plan["timings"]) == plan["to_measure"]
    assert all(row["us"] > 0 for row in plan["timings"])
