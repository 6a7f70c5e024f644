"""The store of timings: nothing lost with many writers, a torn line costs itself alone, two versions are read."""

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir.errors import CacheError, DependencyError, UsageError
from lego_mlir.tuning import dataframes, timings
from lego_mlir.tuning.candidates import Configuration, Timing
from lego_mlir.tuning.timings import TimingStore, from_line, to_line


def timing(tile=32, us=41.5, kernel="k1", **values):
    given = {"tunable": "transpose", "toolchain": "t1", "device": "H200", "failure": "", "sizes": {"M": 4096}, **values}
    return Timing(
        configuration=Configuration.of({"tile": tile, "order": lego.Row(2, 2)}), kernel=kernel, multiprocessors=132,
        driver="CUDA 13.0", median=us, quartiles=(us - 1, us + 2), repetitions=160, when="2026-11-22T14:00:00+00:00",
        **given,
    )  # fmt: skip


FAILED = timing(64, math.inf, failure="crashed: exit code -6 (SIGABRT)")
VERSION_1 = {
    "schema": 1, "tunable": "transpose", "configuration": {"tile": 16}, "sizes": {"M": 512}, "kernel": "k0",
    "device": "H100", "ms": 0.02, "quartiles": [0.019, 0.021], "repetitions": 100, "when": "2026-10-01T00:00:00+00:00",
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return TimingStore(tmp_path / "deep" / "timings.jsonl")


def test_what_is_added_is_read_back(store):
    assert list(store) == []
    store.add([timing(), FAILED])
    store.add([timing(16, 50.0)])
    assert list(store) == [timing(), replace(FAILED, quartiles=(math.inf, math.inf)), timing(16, 50.0)]
    assert json.loads(store.path.read_text().splitlines()[1])["us"] is None


def test_timings_are_selected(store):
    store.add([timing(), timing(kernel="k2"), timing(tunable="copy"), timing(sizes={"M": 1}), timing(device="H100")])
    assert len(store.timings(tunable="transpose")) == 4
    assert len(store.timings(sizes={"M": 1})) == 1
    assert len(store.timings(device="H100", tunable="transpose")) == 1
    assert store.timings(kernels={"k2"}) == [timing(kernel="k2")]


def test_stale_timings_are_told_by_digest_and_dropped_on_request(store):
    store.add([timing(), timing(kernel="k2"), timing(toolchain="t0"), timing(tunable="copy", kernel="k9")])
    assert store.timings(tunable="transpose", kernels={"k1"}, toolchain="t1") == [timing()]
    assert len(store.stale({"k1"}, "t1")) == 3
    assert store.drop_stale("transpose", {"k1", "k9"}) == 1
    assert [t.kernel for t in store] == ["k1", "k1", "k9"]


def test_version_1_is_read_and_version_3_is_kept(store):
    store.add([timing()])
    later = json.dumps({"schema": 3, "anything": True})
    with store.path.open("a") as file:
        file.write(json.dumps(VERSION_1) + "\n" + later + "\n")
    _, old = store
    assert (old.median, old.quartiles) == (pytest.approx(20), (pytest.approx(19), pytest.approx(21)))
    assert (old.device, old.multiprocessors, old.toolchain) == ("H100", 0, "")
    assert store.timings(toolchain="t1") == [timing()]
    assert store.unread() == 1
    other = TimingStore(store.path.with_name("other.jsonl"))
    assert other.merge(store) == 3
    assert later in other.path.read_text()


def test_a_line_cut_short_costs_itself_alone(store):
    store.add([timing()])
    torn = to_line(timing(kernel="k2")).encode()[:-20] + "é".encode()[:1]
    with store.path.open("ab") as file:
        file.write(torn)
    assert list(store) == [timing()]
    store.add([timing(kernel="k3")])
    assert [t.kernel for t in store] == ["k1", "k3"]
    assert store.unread() == 1


def test_lines_that_are_not_of_a_store_are_skipped():
    for line in (b"7", b"[]", b'{"schema": 2}', b'{"schema": 2, "device": 4, "quartiles": 3}', b"\xff"):
        assert from_line(line) is None


WRITER = """
import sys
sys.path[:0] = [{path!r}]
from dataclasses import replace
from pathlib import Path
from lego_mlir.tuning.timings import TimingStore, from_line
store, number = TimingStore(sys.argv[1]), sys.argv[2]
base = from_line(sys.stdin.buffer.read())
for i in range({count}):
    store.add([replace(base, kernel=f"{{number}}.{{i}}.{{j}}") for j in range(2)])
"""


def writers(store, numbers, count):
    code = WRITER.format(path=str(Path.cwd()), count=count)
    made = []
    for number in numbers:
        process = subprocess.Popen([sys.executable, "-c", code, str(store.path), str(number)], stdin=subprocess.PIPE)
        process.stdin.write(to_line(timing()).encode())
        process.stdin.close()
        made.append(process)
    return made


def test_eight_writers_lose_nothing(store):
    started = writers(store, range(8), 20)
    assert [process.wait(120) for process in started] == [0] * 8
    found = sorted(t.kernel for t in store)
    assert found == sorted(f"{n}.{i}.{j}" for n in range(8) for i in range(20) for j in range(2))
    assert store.unread() == 0


def test_a_writer_killed_in_the_middle_leaves_whole_lines_for_the_others(store):
    victim, other = writers(store, range(2), 200)
    while len(store._lines()) < 30:
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert other.wait(120) == 0
    assert sum(t.kernel.startswith("1.") for t in store) == 400
    assert store.unread() <= 1


def test_merging_twice_adds_nothing(store, tmp_path):
    other = TimingStore(tmp_path / "other.jsonl")
    store.add([timing(), timing(kernel="k2")])
    other.add([timing(kernel="k2"), FAILED])
    assert store.merge(other) == 1
    assert store.merge(other.path) == 0
    assert len(list(store)) == 3


def test_timings_travel_with_a_packed_kernel(store, tmp_path):
    store.add([timing(), timing(kernel="old"), timing(tunable="copy")])
    path = store.export(tmp_path / "kernels", "transpose", kernels={"k1"})
    assert path.name == "transpose.timings.jsonl"
    here = TimingStore(tmp_path / "here.jsonl")
    assert here.import_pack(tmp_path / "kernels") == 1
    assert list(here) == [timing()]
    assert here.import_pack(tmp_path / "kernels") == 0


def test_records_are_flat(store):
    store.add([timing()])
    (record,) = store.records()
    assert record["config.tile"] == 32
    assert record["config.order"] == "Row(2, 2)"
    assert (record["size.M"], record["us"], record["low"]) == (4096, 41.5, 40.5)
    assert all(isinstance(value, (str, int, float)) for value in record.values())


@pytest.mark.parametrize(
    ("library", "frame"), [("pandas", dataframes.pandas_frame), ("polars", dataframes.polars_frame)]
)
def test_frames_have_a_row_for_each_timing(store, library, frame):
    pytest.importorskip(library)
    store.add([timing(), FAILED])
    made = frame(store)
    assert made.shape[0] == 2
    assert list(made["config.tile"]) == [32, 64]


@pytest.mark.parametrize(
    ("library", "frame"), [("pandas", dataframes.pandas_frame), ("polars", dataframes.polars_frame)]
)
def test_without_the_library_its_name_is_the_remedy(store, monkeypatch, library, frame):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DependencyError, match=f"{library} is not installed .*; run: pip install {library}"):
        frame(store)


def test_messages(store, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"no timings there to merge"):
        store.merge(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match=r"has no timings of copy to export; tune it first"):
        store.export(tmp_path, "copy")
    with pytest.raises(UsageError, match=r"no \*\.timings\.jsonl beside the kernels; export them with the kernels"):
        store.import_pack(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match=r"timings cannot be written \(.*\); choose another file"):
        TimingStore(tmp_path / "file" / "timings.jsonl").add([timing()])
    with pytest.raises(CacheError, match=r"cannot be read \(Is a directory\); choose another file"):
        list(TimingStore(tmp_path))
    monkeypatch.setattr(timings, "LOCK_SECONDS", 0.05)
    store.add([timing()])
    with store._locked(), pytest.raises(CacheError, match=r"another process has held its lock for 0.05 s; end it"):
        TimingStore(store.path).add([timing()])
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(DependencyError, match=r"filelock is needed to write timings; run: pip install filelock"):
        store.add([timing()])
