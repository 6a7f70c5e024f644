"""`lego-mlir cache`: what the cache holds, its limit, and what is removed."""

import json
import os

import pytest

from lego_mlir import store
from lego_mlir.cli.main import main
from lego_mlir.store import Cache

KEYS = ["aa" + "0" * 62, "bb" + "0" * 62, "cc" + "0" * 62]
ENTRY = 1000


@pytest.fixture
def cache(tmp_path):
    """Three entries; the second was used last, the first longest ago."""
    made = Cache(tmp_path / "cache")
    for key, used in zip(KEYS, (1e6, 3e6, 2e6), strict=True):
        made.write(key, b"x" * ENTRY)
        os.utime(made._path(key), (used, used))
    return made


def reported(capsys, cache, *arguments):
    assert main(["cache", "--cache-dir", str(cache.folder), "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_sizes_are_those_of_the_files(cache, capsys):
    size = sum(path.stat().st_size for path in cache.folder.glob("??/*"))
    found = reported(capsys, cache)
    assert (found["entries"], found["bytes"], found["removed"]) == (3, size, 0)
    assert main(["cache", "--cache-dir", str(cache.folder)]) == 0
    assert f"3 entries, {size} bytes; the limit is 4294.97 MB" in capsys.readouterr().out


def test_what_was_unused_longest_goes_first(cache, capsys):
    size = cache.size()[1] // 3
    assert reported(capsys, cache, "--trim", str(2 * size))["removed"] == 1
    assert [cache.read(key) is not None for key in KEYS] == [False, True, True]
    os.utime(cache._path(KEYS[2]), (1e6, 1e6))
    assert cache.read(KEYS[2]) is not None  # which uses it again
    os.utime(cache._path(KEYS[1]), (2e6, 2e6))
    assert reported(capsys, cache, "--trim", str(size))["entries"] == 1
    assert cache.read(KEYS[2]) is not None


def test_all_entries_are_removed_and_nothing_else(cache, capsys):
    other = cache.folder / "failed" / "input.mlir"
    other.parent.mkdir()
    other.write_text("kept")
    assert reported(capsys, cache, "--clear") | {"folder": "", "limit": 0, "freed": 0} == {
        "schema": 1, "command": "cache", "folder": "", "entries": 0, "bytes": 0, "limit": 0, "removed": 3, "freed": 0,
    }  # fmt: skip
    assert other.read_text() == "kept"


def test_writes_keep_to_the_limit(cache, monkeypatch):
    size = cache.size()[1] // 3
    monkeypatch.setenv(store.LIMIT, str(2 * size))
    monkeypatch.setattr(store.secrets, "randbelow", lambda most: 0)
    cache.write("dd" + "0" * 62, b"x" * ENTRY)
    assert cache.size() == (2, 2 * size)
    assert cache.read("dd" + "0" * 62) is not None


@pytest.mark.parametrize("arguments", [["--trim", "4 apples"], ["--trim", "-1"], ["--trim", ""]])
def test_sizes_that_are_none(cache, arguments, capsys):
    assert main(["cache", "--cache-dir", str(cache.folder), *arguments]) == 2
    assert "is no size; write a number of bytes, or one such as 500MB or 4GiB" in capsys.readouterr().err
    assert cache.size()[0] == 3


def test_a_limit_that_is_none(cache, monkeypatch, capsys):
    monkeypatch.setenv(store.LIMIT, "much")
    assert main(["cache", "--cache-dir", str(cache.folder)]) == 2
    assert "LEGO_MLIR_CACHE_LIMIT='much' is no size" in capsys.readouterr().err
