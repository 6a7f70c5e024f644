"""Logical arrays of any bits for the fields of a format."""

import numpy as np

from lego_mlir.formats.codings import numpy_type


def made_up(format_, seed=0):
    rng, found = np.random.default_rng(seed), {}
    for field in format_.fields:
        kind = np.dtype(numpy_type(field.dtype))
        if field.bits < 8:
            found[field.name] = rng.integers(0, 1 << field.bits, field.shape).astype(np.uint8)
        else:
            found[field.name] = rng.integers(0, 256, (*field.shape, kind.itemsize), dtype=np.uint8).view(kind)[..., 0]
    return found
