"""Whatever an input file holds, a command ends with an exit code and one message: no traceback, abort or hang."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import TOKEN, Seed, mutated, run_case, seeds

ROOT = Path(__file__).parents[2]
EVERYDAY, LONG = 6, 10_000


def run(first, count, keep):
    command = [sys.executable, str(ROOT / "test" / "mutations.py"), "--first", str(first), "--count", str(count)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [*command, "--keep", str(keep)], env=environment, capture_output=True, text=True, check=False, cwd=keep
    )


def test_mutated_inputs_end_in_one_message(tmp_path):
    done = run(0, EVERYDAY, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{EVERYDAY} cases, 0 failed\n"), done.stdout + done.stderr


@pytest.mark.long
def test_many_mutated_inputs_end_in_one_message(tmp_path):
    first = random.SystemRandom().randrange(1, 10**6) * LONG
    done = run(first, LONG, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_case_is_the_same_each_time_and_not_its_seed():
    (text,) = (seed.text for seed in seeds()[:1])
    assert "".join(TOKEN.findall(text)) == text
    made = [mutated(random.Random(number), text) for number in range(20)]
    assert made == [mutated(random.Random(number), text) for number in range(20)]
    assert sum(body != text.encode() for body in made) > 15


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("import os\nos.abort()\n", "abort, SIGABRT"),
        ("import os\nos._exit(1)\n", "exit code 1 without a message"),
        ("import os\nos._exit(9)\n", "exit code 9"),
        ("import time\ntime.sleep(60)\n", "hang"),
        ("import traceback\ntry: 1 / 0\nexcept Exception: traceback.print_exc()\n", "Traceback (most recent"),
        ("x = 1 / 0\n", ""),
        ("from lego_mlir import Row\nx = Row(4)\n", ""),
    ],
)
def test_each_fault_is_seen(tmp_path, monkeypatch, text, fault):
    monkeypatch.setattr("mutations.SECONDS", 2 if fault == "hang" else 60)
    monkeypatch.setattr("mutations.mutated", lambda draw, text: text.encode())
    outcome = run_case(0, [Seed(".py", text, ("check {}",))], tmp_path / "case")
    assert outcome.fault == fault, outcome.output
