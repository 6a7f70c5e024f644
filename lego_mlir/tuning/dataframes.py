"""Timings as data frames of pandas or polars, where one of them is installed: the only importer of both."""

from __future__ import annotations

from lego_mlir.aliases import Foreign
from lego_mlir.errors import DependencyError
from lego_mlir.tuning.timings import TimingStore


def pandas_frame(store: TimingStore) -> Foreign:
    """One row for each timing, with the columns of `TimingStore.records`. Raises DependencyError without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise DependencyError(f"pandas is not installed ({error}); run: pip install pandas") from error
    return pandas.DataFrame.from_records(store.records())


def polars_frame(store: TimingStore) -> Foreign:
    """One row for each timing, with the columns of `TimingStore.records`. Raises DependencyError without polars."""
    try:
        import polars
    except ImportError as error:
        raise DependencyError(f"polars is not installed ({error}); run: pip install polars") from error
    return polars.DataFrame(store.records(), infer_schema_length=None)
