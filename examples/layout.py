"""1. A layout alone: map the elements of a matrix to memory, and memory to elements.

    lego-mlir check examples/layout.py
    lego-mlir explain examples/layout.py

A layout is a bijection between logical indices and physical positions. `tiled` stores a 6x6 matrix as 3x3 blocks, the
blocks in row-major order and the elements of each block in row-major order.
"""

from lego_mlir import Row, TileOrderBy

tiled = TileOrderBy(Row(2, 2), Row(3, 3)).GroupBy([6, 6])

assert tiled.apply(0, 3) == 9  # the first element of the second block, after the 9 elements of the first
assert tiled.inv(9) == (0, 3)
assert tiled.check()  # proved: each of the 36 positions is used once

if __name__ == "__main__":
    for row in range(6):
        print(*(f"{tiled.apply(row, column):3}" for column in range(6)))
