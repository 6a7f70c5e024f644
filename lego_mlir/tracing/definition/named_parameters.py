"""Parameters of a kernel whose names and types are known when its function is made.

>>> def double(*arrays): ...
>>> str(inspect.signature(with_parameters(double, {"x": "f32", "y": "f16"})))
"(x: 'f32', y: 'f16')"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping


def with_parameters(function: Callable[..., None], types: Mapping[str, object]) -> Callable[..., None]:
    """A kernel's function whose parameters have these names and types."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind, annotation=type_) for name, type_ in types.items()]
    )
    return function
