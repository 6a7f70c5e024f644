"""Timings are stored in the cache's folder: each test begins with none."""

import pytest


@pytest.fixture(autouse=True)
def _no_timings(fresh_cache):
    """The test's own folder."""
