"""Kept inputs of failed stages go to the test's own folder."""

import pytest


@pytest.fixture(autouse=True)
def _kept_inputs(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("kept")))
