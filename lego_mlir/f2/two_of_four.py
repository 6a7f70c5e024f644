"""Two of each four neighbours: what sparse tensor cores keep of a row, and the places of what they keep.

    row          0 5 0 7 | 0 0 3 0          kept    5 7 | 0 3          places    1 3 | 0 2

The metadata of 16 columns is a number of 16 bits: eight places of two bits, the first in the lowest ones. Places of
four neighbours ascend; where fewer than two differ from 0, zeros are kept as well. PTX ISA, "Sparse matrix storage".
"""

from __future__ import annotations

from typing import Final

from lego_mlir.aliases import Array
from lego_mlir.errors import LayoutError

GROUP: Final = 4
"""Neighbours of which two are kept."""
COLUMNS: Final = 16
"""Columns of one number of the metadata."""


def two_of_four(matrix: Array) -> tuple[Array, Array]:
    """What is kept of a matrix, (M, K / 2), and its metadata, (M, K / 16) of u16.

    Raises LayoutError where more than two of four neighbours differ from 0, and for K that is no multiple of 16.

    >>> import numpy as np
    >>> kept, metadata = two_of_four(np.array([[0, 5, 0, 7, 0, 0, 3, 0, 1, 2, 0, 0, 0, 0, 0, 0]]))
    >>> kept.tolist(), bin(metadata[0, 0])
    ([[5, 7, 0, 3, 1, 2, 0, 0]], '0b100010010001101')
    """
    import numpy as np

    if matrix.ndim != 2 or matrix.shape[1] % COLUMNS:
        raise LayoutError(
            f"two_of_four: a matrix of {' x '.join(map(str, matrix.shape))}; its columns are a multiple of {COLUMNS}"
        )
    rows, columns = matrix.shape
    groups = matrix.reshape(rows, columns // GROUP, GROUP)
    nonzero = groups != 0
    if (nonzero.sum(axis=2) > 2).any():
        row, group = np.argwhere(nonzero.sum(axis=2) > 2)[0]
        raise LayoutError(
            f"two_of_four: {int(nonzero[row, group].sum())} of the neighbours {groups[row, group].tolist()} in row "
            f"{row}, columns {GROUP * group} .. differ from 0; two of four may"
        )
    places = np.sort(np.argsort(~nonzero, axis=2, kind="stable")[:, :, :2], axis=2)
    kept = np.take_along_axis(groups, places, axis=2).reshape(rows, columns // 2)
    codes = places.reshape(rows, columns // COLUMNS, COLUMNS // 2)
    return kept, (codes << 2 * np.arange(COLUMNS // 2)).sum(axis=2).astype(np.uint16)
