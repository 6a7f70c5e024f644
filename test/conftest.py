"""Options and settings that every test shares."""

import hypothesis
import pytest

# Times differ between machines, and a slow one proves nothing: no deadlines. Failures print how to get them again.
hypothesis.settings.register_profile("lego", deadline=None, print_blob=True)
hypothesis.settings.load_profile("lego")


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the long fuzzing")
    parser.addoption("--update-golden", action="store_true", help="accept what was produced as the new golden files")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="long fuzzing; run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)
