"""The fingerprint of a kernel: a digest of what its trace depends on, found without a trace.

    kernel      its options, and its signature field by field: types, layouts, sizes with their facts
    function    code with constants and lines, defaults, what its closure holds, and the globals that it names
    helpers     functions among these, likewise; modules of the user's files by their text and the names that are used

Values are taken at the call, so that a global which has changed gives another digest. Only kinds of values that are
known to be plain are taken, and what reads the world is not: an object of a user's class, an import inside a function,
`open`, `getattr`, `os`, `np.random`. Then there is no digest, and the kernel is traced as if nothing were kept.

Objects of this package count by their fields, and its functions by name: the keys of first calls have its contents.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass
from dis import get_instructions
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, EllipsisType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Given
from lego_mlir.expr.sizes import SizeIndex

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

PURE: Final = frozenset(
    (
        "math", "cmath", "operator", "functools", "itertools", "typing", "types", "dataclasses", "enum", "collections",
        "numbers", "fractions", "abc", "__future__", "builtins", "contextlib", "_functools", "_operator", "numpy",
        "ml_dtypes", "sympy", "lego_mlir",
    )
)  # fmt: skip
"""Modules whose named attributes depend on nothing but their version, which the keys of first calls have."""
IMPURE: Final = frozenset(
    (
        "open", "input", "globals", "locals", "vars", "dir", "eval", "exec", "compile", "__import__", "id", "hash",
        "getattr", "delattr", "setattr", "random", "load", "loads", "fromfile", "loadtxt", "genfromtxt", "memmap",
        "environ", "getenv", "time", "perf_counter", "import_module", "reload", "open_memmap", "load_library",
        "attrgetter", "methodcaller",
    )
)  # fmt: skip
"""Builtins, and attributes of pure modules, that read or change the world, or find names by a text."""
IMPURE_MODULES: Final = ("numpy.random", "numpy.lib", "numpy.ctypeslib")
REFLECTIVE: Final = frozenset(("__globals__", "__dict__", "__code__", "__closure__", "__builtins__"))
"""Attributes of anything that lead to names which are not seen here."""
_OPTIONS: Final = ("name", "grid", "block", "cluster", "bounds", "contract", "fast", "assumed", "tolerance")
_FIXED: Final = ("arguments_fixed", "number_types", "known_sizes")
_MUTABLE: Final = (list, dict, set)
_PLAIN: Final = (bool, int, str, bytes, complex)
_COMPUTED: Final = frozenset(("_args", "_assumptions", "_assumptions_orig", "_assumptions0", "_mhash", "_symbols"))
"""Slots of expressions that differ between processes, are filled later, or follow from the others."""


class UnknownPartError(Exception):
    """A value whose part in the trace cannot be told; it is caught here."""


def fingerprint(kernel: Kernel) -> bytes | None:
    """The digest of a kernel, None where it cannot be told, or after schedules, which trace it anyway."""
    from lego_mlir.tracing.definition.kernel import Kernel

    if type(kernel) is not Kernel or kernel.schedules or kernel._choice is not None:
        return None
    fixed = [tuple(getattr(kernel, n).items()) for n in _FIXED]
    return digest_of((tuple(getattr(kernel, n) for n in _OPTIONS), *fixed, kernel.signature, kernel.function))


def digest_of(value: Given) -> bytes | None:
    """The digest of a value and of what it holds, such as a function with its globals; None where it is not known."""
    try:
        return _Digests().of(value)
    except (UnknownPartError, RecursionError, OSError):
        return None


class _Digests:
    """Digests of values by what they hold, whether two are one object or not: libraries keep some of theirs.

    Of a user's list, dict or set it counts which one it is, since a function may change it. `held` keeps values alive,
    so that no id is used twice.
    """

    def __init__(self) -> None:
        self.done: dict[int, bytes] = {}
        self.open: dict[int, int] = {}
        self.mutable: dict[int, int] = {}
        self.held: list[object] = []

    def of(self, value: Given) -> bytes:
        """The digest of a value and of what it holds. Raises UnknownPartError."""
        kind = type(value)
        if value is None or kind in _PLAIN or kind is EllipsisType:
            return _joined(kind.__name__, value)
        if kind is float:
            return _joined("float", value.hex())
        key = id(value)
        if key in self.open:
            return _joined("around", len(self.open) - self.open[key])
        if key not in self.done:
            self.open[key] = len(self.open)
            self.held.append(value)
            parts = [self.of(part) for part in self.parts(value, kind)]
            del self.open[key]
            self.done[key] = _joined(f"{kind.__module__}.{kind.__qualname__}", *parts)
        if kind in _MUTABLE:
            return _joined(self.done[key], self.mutable.setdefault(key, len(self.mutable)))
        return self.done[key]

    def parts(self, value: Given, kind: type) -> Iterator[Given]:
        """What a value holds."""
        if kind in (tuple, list):
            yield from value
        elif kind is dict:
            for item in value.items():
                yield from item
        elif kind in (set, frozenset):
            yield from sorted(map(self.of, value))
        elif kind in (range, slice):
            yield from (value.start, value.stop, value.step)
        elif kind is CellType:
            yield _content(value)
        elif kind is partial:
            yield from (value.func, value.args, value.keywords)
        elif kind is MethodType:
            yield from (value.__func__, value.__self__)
        elif kind is CodeType:
            yield from (value.co_filename, value.co_code, value.co_names, value.co_varnames, value.co_freevars)
            yield from (value.co_argcount, value.co_kwonlyargcount, value.co_flags, value.co_exceptiontable)
            yield from (value.co_firstlineno, value.co_linetable, value.co_consts)
        elif kind is FunctionType:
            yield from (value.__module__, value.__qualname__, value.__code__.co_firstlineno)
            yield from (value.__defaults__, value.__kwdefaults__, value.__closure__)
            if value.__globals__.get("__name__", "").split(".")[0] != "lego_mlir":
                yield from (value.__code__, vars(value))
                yield from self.named(value)
        elif kind is BuiltinFunctionType or isinstance(value, type):
            if _root(value) not in PURE:
                raise UnknownPartError(repr(value))
            yield from (value.__module__, value.__qualname__)
        elif kind is ModuleType:
            if not _is_pure(value):
                raise UnknownPartError(repr(value))
            yield value.__name__
        else:
            yield from self.of_libraries(value, kind)

    def named(self, function: FunctionType) -> Iterator[Given]:
        """The globals that a function names, and what it names of modules of the user's files."""
        _refuse_impure(function)
        names = {name for code in codes_of(function.__code__) for name in code.co_names}
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            yield name
            root = value.__name__.split(".")[0] if isinstance(value, ModuleType) else ""
            if not root or root in PURE:
                yield value
                continue
            file = getattr(value, "__file__", None)
            if file is None or "site-packages" in file or root in sys.stdlib_module_names:
                raise UnknownPartError(f"the module {value.__name__}")
            yield Path(file).read_bytes()
            for attribute in sorted(names & vars(value).keys()):
                yield from (attribute, vars(value)[attribute])

    def of_libraries(self, value: Given, kind: type) -> Iterator[Given]:
        """The fields of an object of NumPy, SymPy or this package."""
        root = kind.__module__.split(".")[0]
        if root == "numpy":
            if getattr(value, "dtype", None) is None or value.dtype.hasobject:
                raise UnknownPartError(repr(value))
            yield from (str(value.dtype), value.shape, value.tobytes())
        elif _is_expression(kind):
            yield from value.args or (str(value), dict(sorted(value.assumptions0.items())))
            yield from _state(value, _COMPUTED)
        elif kind is SizeIndex:
            yield value.formula
        elif root == "lego_mlir":
            yield from _state(value)
        elif root == "ml_dtypes":
            yield repr(value)
        else:
            raise UnknownPartError(f"{kind.__module__}.{kind.__qualname__}")


def _joined(*parts: object) -> bytes:
    """The digest of several texts."""
    digest = hashlib.sha256()
    for part in parts:
        body = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(body).to_bytes(8, "little") + body)
    return digest.digest()


def _refuse_impure(function: FunctionType) -> None:
    """Raise UnknownPartError for a function that imports, or names what reads the world."""
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in codes_of(function.__code__):
        module: ModuleType | None = None
        for step in get_instructions(code):
            attribute = step.opname in ("LOAD_ATTR", "LOAD_METHOD")
            taken = step.opname == "LOAD_GLOBAL" or (attribute and module is not None)
            refused = (taken and step.argval in IMPURE) or (attribute and step.argval in REFLECTIVE)
            if (
                refused or step.opname == "IMPORT_NAME" or (module is not None and not attribute)
            ):  # not under a new name
                raise UnknownPartError(f"{function.__qualname__} takes {step.argval}")
            given: object = None
            if step.opname == "LOAD_GLOBAL":
                given = function.__globals__.get(step.argval)
            elif step.opname == "LOAD_DEREF" and step.argval in held:
                given = _content(held[step.argval])
            elif attribute and module is not None:
                given = getattr(module, step.argval, None)
            module = given if isinstance(given, ModuleType) and given.__name__.split(".")[0] != "lego_mlir" else None
            if module is not None and not _is_pure(module) and module.__name__.split(".")[0] in PURE:
                raise UnknownPartError(f"{function.__qualname__} takes {module.__name__}")


def _is_pure(module: ModuleType) -> bool:
    return module.__name__.split(".")[0] in PURE and not module.__name__.startswith(IMPURE_MODULES)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        raise UnknownPartError("an empty cell") from None


def _root(value: Given) -> str:
    """The first name of the module of a function or class."""
    return (value.__module__ or "").split(".")[0]


def _is_expression(kind: type) -> bool:
    basic = getattr(sys.modules.get("sympy"), "Basic", None)
    return basic is not None and issubclass(kind, basic)


def _state(value: Given, but: Collection[str] = ()) -> Iterator[Given]:
    """The fields of an object of this package; what it has computed for later is left out."""
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        names = [name for kind in type(value).__mro__ for name in _slots(kind)]
        names += [
            n for n in sorted(getattr(value, "__dict__", ())) if not hasattr(type(value), n)
        ]  # no cached_property
    for name in names:
        if name not in ("__weakref__", "__dict__", *but) and hasattr(value, name):
            yield name
            yield getattr(value, name)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code and those of functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)
