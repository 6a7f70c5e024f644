"""MLIR written line by line: fresh names for values, blocks that close themselves, and arithmetic on i32.

>>> text = ModuleText()
>>> three = text.i32(3)
>>> with text.block("scf.if %p {"):
...     text.line(f"nvvm.mbarrier.init %b, {three} : !llvm.ptr<3>, i32")
>>> print(text)
%0 = arith.constant 3 : i32
scf.if %p {
  nvvm.mbarrier.init %b, %0 : !llvm.ptr<3>, i32
}
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def operand_name(argument: int) -> str:
    """The name of an argument of a kernel that is not a tensor map."""
    return f"%operand{argument}"


class ModuleText:
    """Lines of MLIR under construction."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._indent = ""

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def line(self, line: str) -> None:
        """An operation without a result."""
        self._lines.append(self._indent + line)

    def name(self) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"%{self._count - 1}"

    def value(self, operation: str) -> str:
        """An operation with one result; its name."""
        name = self.name()
        self.line(f"{name} = {operation}")
        return name

    @contextmanager
    def block(self, head: str, end: str = "}") -> Iterator[None]:
        """The lines inside are a region of the operation that `head` begins."""
        self.line(head)
        self._indent += "  "
        yield
        self._indent = self._indent[:-2]
        self.line(end)

    def otherwise(self) -> None:
        """The else branch of the block around."""
        self._indent = self._indent[:-2]
        self.line("} else {")
        self._indent += "  "

    def i32(self, number: int) -> str:
        """A constant."""
        return self.value(f"arith.constant {number} : i32")

    def i64(self, number: int) -> str:
        """A constant."""
        return self.value(f"arith.constant {number} : i64")

    def op(self, operation: str, *operands: str, type_: str = "i32") -> str:
        """`arith.operation` on operands of one type."""
        return self.value(f"arith.{operation} {', '.join(operands)} : {type_}")

    def shared(self, base: str, offset: str) -> str:
        """The address `offset` bytes, an i32, after another one in shared memory."""
        return self.value(f"llvm.getelementptr {base}[{offset}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8")
