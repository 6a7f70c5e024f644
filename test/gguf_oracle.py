"""Values and records for comparisons with the gguf package."""

import numpy as np


def values(shape, seed=0):
    """Numbers of several magnitudes, with a block of zeros."""
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    x *= np.float32(2) ** np.random.default_rng(seed + 1).integers(-6, 6, (shape[0], 1)).astype(np.float32)
    x[0, :32] = 0
    return x


def records(format_, kind, seed=0):
    """Random records whose scales are finite numbers."""
    from lego_mlir.formats.codings import numpy_type
    from lego_mlir.formats.field_arrays import write

    rng, fields = np.random.default_rng(seed), {}
    for field in format_.fields:
        if field.dtype in ("f16", "e4m3"):
            fields[field.name] = rng.random(field.shape).astype(np.float16).astype(numpy_type(field.dtype))
        elif field.dtype == "e8m0":
            fields[field.name] = rng.integers(100, 140, field.shape).astype(np.uint8)
        else:
            fields[field.name] = rng.integers(0, 1 << min(field.bits, 7), field.shape).astype(numpy_type(field.dtype))
    return write(format_, fields)["data"]
