"""Names of a package that are imported on first use (PEP 562), from the imports that it shows to type checkers.

    if TYPE_CHECKING:
        from lego_mlir.tracing.words.control import loop as _loop
        from lego_mlir.tracing.words.control import unroll as unroll

        range = _loop

is the only list, read from the source or, where a package has none, from its code: `lego_mlir.unroll` is imported when
it is first asked for, and `lego_mlir.range` is `loop`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from itertools import takewhile
from types import CodeType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import SourceLoader

Homes = Mapping[str, tuple[str, str]]
"""The module of each name, and its name there."""


def listed(package: str) -> Homes:
    """The names that a package imports for type checkers, by one `from module import name as name` a line."""
    found, homes = sys.modules[package], dict[str, tuple[str, str]]()
    file, loader = found.__file__ or "", cast("SourceLoader", found.__loader__)
    if not file.endswith(".py"):  # of a package that is installed as compiled code
        return _compiled(cast("CodeType", loader.get_code(package)))
    block = loader.get_data(file).decode().partition("\nif TYPE_CHECKING:\n")[2].splitlines()
    for line in takewhile(lambda line: not line[:1].strip(), block):
        match line.split():
            case ["from", module, "import", name, "as", known]:
                homes[known] = (module, name)
            case [name, "=", known] if known in homes:
                homes[name] = homes.pop(known)
    return homes


def _compiled(code: CodeType) -> Homes:
    """The same names from the code of a package: what is imported where `TYPE_CHECKING` is true."""
    import dis

    steps, homes = list(dis.get_instructions(code)), dict[str, tuple[str, str]]()
    first = next(n for n, step in enumerate(steps) if step.argval == "TYPE_CHECKING" and step.opname == "LOAD_NAME")
    end = next(step.argval for step in steps[first:] if step.opname.startswith("POP_JUMP"))
    module = name = ""
    for step in steps[first:]:
        if step.offset >= end:
            break
        match step.opname:
            case "IMPORT_NAME":
                module = step.argval
            case "IMPORT_FROM" | "LOAD_NAME":
                name = step.argval
            case "STORE_NAME" if name in homes:
                homes[step.argval] = homes.pop(name)
            case "STORE_NAME":
                homes[step.argval] = (module, name)
    return homes


def attached(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package."""
    homes, module = listed(package), sys.modules[package]

    def found(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return kept(package, name, homes)

    return found, lambda: sorted({*vars(module), *homes}), sorted(homes)


def kept(package: str, name: str, homes: Homes) -> object:
    """The object of a name, imported and made an attribute of the package."""
    home, own = homes[name]
    value = importlib.import_module(f"{home}.{own}") if home == package else getattr(importlib.import_module(home), own)
    setattr(sys.modules[package], name, value)
    return value
