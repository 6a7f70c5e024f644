"""Python text as a syntax tree, by one thread at a time.

CPython 3.11 counts the depth of the tree that `ast.parse` builds in one counter for all threads; two that parse at once
end in "SystemError: AST constructor recursion depth mismatch".

>>> type(parse("i + 1", mode="eval").body).__name__
'BinOp'
"""

from __future__ import annotations

import ast
import threading
from typing import Any, Literal, overload

_LOCK = threading.Lock()


@overload
def parse(text: str | bytes, mode: Literal["eval"]) -> ast.Expression: ...
@overload
def parse(text: str | bytes, mode: Literal["exec"] = ...) -> ast.Module: ...
def parse(text: str | bytes, mode: Literal["eval", "exec"] = "exec") -> ast.Expression | ast.Module:
    """The tree of a module's text, or of an expression's. Raises SyntaxError as `ast.parse` does."""
    with _LOCK:
        tree: Any = ast.parse(text, mode=mode)
        found: ast.Expression | ast.Module = tree
        return found
