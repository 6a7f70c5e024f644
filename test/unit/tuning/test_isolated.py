"""Real processes: a crash, a hang and a refusal cost one candidate each, and no process is left behind."""

import gc
import os
import signal
import time

import pytest
from trials import Closing, Printing, Raising, Told, Unreadable

from lego_mlir.tuning.halving import RaceRules, race
from lego_mlir.tuning.isolated import IsolatedBench
from lego_mlir.tuning.simulated_device import MadeUpDevice


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_candidates_that_fail_in_any_way_cost_only_themselves():
    device = MadeUpDevice(noise=0.01)
    trials = [
        device.trial(30e-6), device.trial(20e-6), device.trial(1e-6, "crashed"), device.trial(1e-6, "wrong"),
        device.trial(1e-6, "refused"), device.trial(1e-6, "crashed", late=True),
    ]  # fmt: skip
    results = race(IsolatedBench(), trials, RaceRules(rungs=3))
    assert [result.fate for result in results] == ["slower", "best", "crashed", "wrong", "refused", "crashed"]
    assert results[2].reason == "exit code -6 (SIGABRT)"
    assert results[3].reason == "element 0 is 1, expected 0"
    assert "too few registers" in results[4].reason
    assert results[5].samples == ()


def test_a_hang_is_ended_while_it_is_opened_and_while_it_is_timed():
    device = MadeUpDevice()
    contender = IsolatedBench(patience=0.5).start(device.trial(1e-6, "timed out"))
    assert str(contender.ready()) == "timed out: no answer within 0.5 s"
    contender.close()
    contender = IsolatedBench().start(device.trial(1e-6, "timed out", late=True))
    assert contender.ready() is None
    contender.patience = 0.5
    assert str(contender.sample(3)) == "timed out: no answer within 0.5 s"
    assert contender.child.process.wait(20) == -signal.SIGKILL
    contender.close()


def test_what_a_trial_prints_is_no_answer_and_closing_ends_the_process():
    contender = IsolatedBench().start(Printing())
    process = int(contender.sample(1)[0])
    assert process != os.getpid()
    assert contender.sample(3) == (process,) * 3
    contender.close()
    assert not alive(process)


def test_an_exception_while_sampling_is_the_reason():
    contender = IsolatedBench().start(Raising())
    assert contender.ready() is None
    failure = contender.sample(2)
    assert str(failure) == "crashed: RuntimeError: no 2 samples"
    assert contender.sample(2) is failure
    contender.close()


def test_a_trial_that_cannot_be_opened_there_is_a_failure():
    contender = IsolatedBench().start(Unreadable())
    assert "No module named 'a_module_that_is_not_there'" in contender.ready().reason
    contender.close()


def test_a_process_ends_with_its_parent(tmp_path):
    contender = IsolatedBench().start(Told(str(tmp_path / "process")))
    for _ in range(200):
        if (tmp_path / "process").is_file() and (tmp_path / "process").read_text():
            break
        time.sleep(0.05)
    contender.child.process.stdin.close()
    assert contender.child.process.wait(20) == 1
    contender.close()


@pytest.mark.parametrize("live", [1, 2])
def test_with_few_open_at_a_time_the_best_is_found_all_the_same(live):
    device = MadeUpDevice(noise=0.01)
    results = race(IsolatedBench(live=live), [device.trial(t * 1e-5) for t in (3, 1, 2)], RaceRules(rungs=2))
    assert [result.fate for result in results].index("best") == 1


def test_a_kept_process_opens_the_next_trial_and_ends_with_its_bench():
    bench = IsolatedBench(kept=True)
    first = bench.start(Printing())
    process = int(first.sample(1)[0])
    first.close()
    second = bench.start(Printing())
    assert second.sample(2) == (process,) * 2
    third = bench.start(Printing())  # another one is open at the same time
    assert int(third.sample(1)[0]) != process
    second.close()
    third.close()
    del first, second, third, bench
    gc.collect()
    assert not alive(process)


def test_a_process_is_not_kept_after_a_failure():
    bench = IsolatedBench(kept=True)
    failing = bench.start(Raising())
    assert "no 2 samples" in failing.sample(2).reason
    failing.close()
    unopened = bench.start(Printing())
    unopened.close()
    assert bench.idle == []


def test_a_trial_is_closed_before_the_next_one_is_opened(tmp_path):
    bench, record = IsolatedBench(kept=True), tmp_path / "record"
    for name in ("one", "two"):
        contender = bench.start(Closing(str(record), name))
        assert contender.ready() is None
        contender.close()
    assert bench.start(Printing()).ready() is None
    assert record.read_text().split() == ["open-one", "close-one", "open-two", "close-two"]
