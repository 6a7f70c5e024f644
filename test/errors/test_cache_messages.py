"""What the models and the simulator of caches refuse, and with which message."""

import pytest

from lego_mlir.caches import bounds
from lego_mlir.errors import UsageError


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_extents_are_positive_integers(bad):
    with pytest.raises(UsageError, match=r"stencil_columns: column must be a positive integer, got"):
        bounds.stencil_columns(16, 16, bad, bounds.Stencil(7, 7), 4)
