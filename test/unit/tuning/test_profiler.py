"""Counters by a stand-in for ncu that runs the program and prints a table as ncu does."""

import sys

import pytest
from trials import Printing

from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.tuning import profiler

NCU = """#!{python}
import subprocess, sys
at = sys.argv.index("--metrics")
metrics, program = sys.argv[at + 1].split(","), sys.argv[at + 2 :]
done = subprocess.run(program, capture_output=True, text=True)
print("==PROF== Connected")
{body}
sys.exit(done.returncode)
"""
TABLE = """
print(",".join(f'"{name}"' for name in ["ID", "Kernel Name", *metrics]))
print(",".join('""' for _ in range(2 + len(metrics))))
print('"0","scaled"' + "".join(f',"1,{number}00.0"' for number in range(len(metrics))))
"""


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    def make(body):
        path = tmp_path / "ncu"
        path.write_text(NCU.format(python=sys.executable, body=body))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return make


def test_the_trial_is_launched_under_ncu_and_its_counts_have_our_names(ncu):
    ncu(TABLE)
    (found,) = profiler.count(Printing(), {"sectors": "l1tex__sectors.sum", "instructions": "inst.sum"})
    assert found == profiler.CountedLaunch("scaled", {"sectors": 1000, "instructions": 1100})


def test_messages(ncu, monkeypatch, tmp_path):
    ncu("print('==ERROR== ERR_NVGPUCTRPERM: no permission'); sys.exit(9)")
    with pytest.raises(UsageError, match="ncu failed with exit code 9: ==ERROR== ERR_NVGPUCTRPERM: no permission"):
        profiler.count(Printing(), {"a": "b"})
    ncu("")
    with pytest.raises(UsageError, match=r"ncu saw no kernel with these metrics: b\.sum"):
        profiler.count(Printing(), {"a": "b.sum"})
    ncu("import time; time.sleep(5)")
    monkeypatch.setattr(profiler, "SECONDS", 0.5)
    with pytest.raises(UsageError, match=r"ncu did not end within 0.5 s; count fewer metrics at a time"):
        profiler.count(Printing(), {"a": "b"})
    (tmp_path / "ncu").unlink()
    with pytest.raises(DependencyError, match="ncu was not found; install NVIDIA's nsight-compute"):
        profiler.count(Printing(), {"a": "b"})
