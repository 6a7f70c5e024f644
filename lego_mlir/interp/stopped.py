"""The end of a block that cannot go on: its faults are reported, and the launch continues with other blocks."""


class BlockStopped(Exception):  # noqa: N818  it ends a block, and is not an error of the interpreter
    """A block in which everything waits runs no further."""
