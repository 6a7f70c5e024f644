"""Things of a kernel that are no values, such as tensors and barriers: Python cannot compare them while tracing.

`if a == b:` for two tensors would ask once, while tracing, whether they are one object, where the author may mean their
elements. So comparisons, truth values, and membership in sets and dicts are errors that name the remedy. `is` remains.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from lego_mlir.errors import LegoError, SymbolicBranchError, TraceError, brief


class Uncompared:
    """What has no truth value, order or equality. `_instead` says what to compare."""

    __slots__ = ()
    _instead: ClassVar[str]

    def _refuse(self, what: str, kind: type[LegoError] = TraceError) -> NoReturn:
        from lego_mlir.tracing.trace.tracer import active

        tracer = active()
        message = (
            f"{what} {brief(repr(self))} is not known while tracing: {self._instead}; whether two names are the same "
            "object is `a is b`"
        )
        raise kind(message) if tracer is None else tracer.error(message, kind)

    def __eq__(self, other: object) -> Any:
        self._refuse("a comparison of")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __bool__(self) -> NoReturn:
        self._refuse("the truth of")

    def __hash__(self) -> int:
        self._refuse("a set or dict compares its elements, and equality of", SymbolicBranchError)
