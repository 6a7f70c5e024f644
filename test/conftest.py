"""Options and settings that every test shares."""

import gc
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["LEGO_MLIR_EXACT"] = "0"  # no compilers beside the tests
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is loaded: its threads spin beside the tests' own

import draws
import hypothesis
import kept_cache
import pytest
import samples

# Files with tests of many seconds, which begin first: none of them is then the last that a process waits for.
LONGEST = ("test_random_kernels.py", "test_mutations.py", "test_packed_attention_calls.py", "test_distributions.py",
           "test_matmul_laws.py", "test_explorer_browser.py", "test_unrolled_steps.py", "test_pages.py")  # fmt: skip
MOST_EXAMPLES = 25  # of a law in the everyday run; --long draws as many as the law says
# Times differ between machines, and a slow one proves nothing: no deadlines. The everyday run draws the same cases each
# time, so that a change is red for what it did; --long draws new ones, and prints how to get a failure again.
hypothesis.settings.register_profile("everyday", deadline=None, derandomize=True)
hypothesis.settings.register_profile("long", deadline=None, print_blob=True)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the long fuzzing, on new cases each time")
    parser.addoption(
        "--all-cases", action="store_true", help="run all cases of slow tests, not samples; --long does, too"
    )
    parser.addoption("--kernels-seed", type=int, help="draw other random kernels than the everyday ones")
    parser.addoption("--update-golden", action="store_true", help="accept what was produced as the new golden files")


def pytest_configure(config):
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the folder
        folder = Path(tempfile.mkdtemp(prefix="lego-mlir-tests-"))
        os.environ["XDG_CACHE_HOME"] = str(folder)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        if not config.getoption("--long"):  # which compiles everything anew
            kept_cache.begin(folder)
            config.add_cleanup(lambda: kept_cache.end(folder))  # the last one added is the first to run
    if config.getoption("--long"):
        hypothesis.settings.load_profile("long")
    else:
        hypothesis.settings.load_profile("everyday")
        draws.ignore_loaded_modules()


@pytest.fixture
def machine(monkeypatch):
    """A machine with CUDA devices that are not there, until the test's end."""
    from cuda_stand_in import Machine

    from lego_mlir.runtime import driver

    yield Machine().plug_in(monkeypatch)
    driver.driver.cache_clear()


@pytest.fixture
def fresh_cache(tmp_path_factory, monkeypatch):
    """An empty cache, for tests of caches, of stored timings, and of stand-ins for compilers; all others share one."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules that are imported while tests are collected are kept compiled, with their rewritten assertions, for the
    next run: that is half of the time of collecting. Not those that tests write, one over the other."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before


def pytest_collection_finish():
    gc.freeze()  # the tests and modules remain: no collection needs to visit them
    gc.set_threshold(50_000, 10, 10)  # a tenth of the time went to collections that found little


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if config.getoption("--long"):
        return
    skip, everyday = pytest.mark.skip(reason="long fuzzing; run with --long"), []
    for item in items:
        counted = item.get_closest_marker("examples")
        draws.limit_examples(item, **({"part": counted.args[0]} if counted else {"most": MOST_EXAMPLES}))
        if item.get_closest_marker("long") is not None:  # keywords hold the names of folders, too
            item.add_marker(skip)
        else:
            everyday.append(item)
    if config.getoption("--all-cases"):
        return
    for item, reason in samples.left_out(everyday, json.loads(samples.FILE.read_text())):
        item.add_marker(pytest.mark.skip(reason=reason))
