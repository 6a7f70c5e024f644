"""A spec is a Python file that defines kernels, layouts and templates; loading it runs it.

`load` collects the file's global variables by kind, in order. Errors of the file are raised as SpecError with the file,
the line and Python's message:

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "tile.py")
...     _ = path.write_text("from lego_mlir.layout import Row\\ntile = Row(4, 8)\\n")
...     load(path).layouts
{'tile': Row(4, 8)}
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from lego_mlir import syntax_tree
from lego_mlir.errors import DependencyError, LegoError, SpecError

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.templates import Template
    from lego_mlir.tracing.definition.generic import GenericKernel
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import KernelProgram, Runnable
    from lego_mlir.tuning.tunable import Tunable

# The classes whose instances are collected, looked up in the modules that the spec has loaded.
_KINDS: Final = {
    "kernels": ("lego_mlir.tracing.definition.kernel", "Kernel"),
    "layouts": ("lego_mlir.layout.base", "Layout"),
    "templates": ("lego_mlir.templates", "Template"),
    "programs": ("lego_mlir.tracing.definition.program", "KernelProgram"),
    "generics": ("lego_mlir.tracing.definition.generic", "GenericKernel"),
    "tunables": ("lego_mlir.tuning.tunable", "Tunable"),
}
_NOT_PYTHON: Final = {
    ".mlir": "modules are read by the commands analyze, check, compile, run and sanitize",
    ".ptx": "PTX is read by the command sanitize",
    ".cu": "CUDA C++ is read by the command sanitize",
    ".safetensors": "weights are read by lego-mlir check --format and lego-mlir convert",
}
"""What reads the files with these endings."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A loaded spec: its kernels, layouts and templates by the name of their variable, in the file's order."""

    path: Path
    digest: str
    kernels: Mapping[str, Kernel]
    layouts: Mapping[str, Layout]
    templates: Mapping[str, Template]
    generics: Mapping[str, GenericKernel] = field(default_factory=dict)
    programs: Mapping[str, KernelProgram] = field(default_factory=dict)
    tunables: Mapping[str, Tunable] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict, repr=False)  # all public variables, for templates

    @property
    def files(self) -> tuple[str, ...]:
        """The spec, and the files that define its kernels."""
        sources = [defined.source for defined in self.kernels.values()]
        sources += [defined.source for defined in self.generics.values()]
        sources += [defined.source for defined in self.programs.values()]
        return tuple(dict.fromkeys([str(self.path), *(source.file for source in sources)]))

    def tunable_named(self, name: str | None) -> Tunable:
        """The tunable of this name, or the only one. Raises SpecError otherwise."""
        if not self.tunables:
            raise SpecError(
                f"{self.path}: this spec has nothing to tune; decorate a function of the choices that returns a kernel "
                "with @lego.tune(space={..})"
            )
        if name is None and len(self.tunables) == 1:
            return next(iter(self.tunables.values()))
        if name is None or name not in self.tunables:
            asked = f"no tunable named {name!r}" if name else "several tunables; name one with --kernel"
            raise SpecError(f"{self.path}: {asked}; it has: {', '.join(self.tunables)}")
        return self.tunables[name]

    def kernels_named(self, name: str | None) -> tuple[Kernel, ...]:
        """All kernels, or the one of this name; `axpy[f16, 128]` selects one of a generic kernel.

        The name of a program selects its kernels. Raises SpecError if there is none.
        """
        if name is not None and name in self.programs:
            return self.programs[name].kernels
        if name is not None and name.endswith("]"):
            return (self._specialised(name),)
        if not self.kernels:
            raise SpecError(f"{self.path}: {self._no_kernel()}")
        if name is None:
            return tuple(self.kernels.values())
        if name in self.kernels:
            return (self.kernels[name],)
        called = {variable: kernel for variable, kernel in self.kernels.items() if kernel.name == name}
        if len(called) > 1:
            raise SpecError(
                f"{self.path}: {len(called)} kernels are named {name}; select one by its variable: {', '.join(called)}"
            )
        if called:
            return tuple(called.values())
        raise SpecError(f"{self.path}: no kernel named {name!r}; it has: {', '.join(self._kernel_names())}")

    def runnable(self, name: str | None) -> tuple[Runnable, ...]:
        """The program or kernel of this name; without one, all but the kernels that only serve as steps.

        A kernel of a program is run by itself as well if it has a reference.
        """
        if name is not None and name in self.programs:
            return (self.programs[name],)
        if name is not None:
            return self.kernels_named(name)
        steps = {kernel for program in self.programs.values() for kernel in program.kernels}
        alone = [kernel for kernel in self.kernels_named(None) if kernel not in steps or kernel.expected is not None]
        return (*self.programs.values(), *alone)

    def _kernel_names(self) -> list[str]:
        return [*self.kernels, *map(str, self.generics.values()), *self.programs]

    def _no_kernel(self) -> str:
        if self.generics:
            name = next(iter(self.generics))
            return (
                f"all kernels of this spec are generic: {', '.join(map(str, self.generics.values()))}; select one "
                f"with --kernel '{name}[..]', or in the file: its_name = {name}[..]"
            )
        return (
            "this spec has no kernel; decorate a function with @lego.kernel(grid=..., block=...) at the top level of "
            "the file"
        )

    def _specialised(self, text: str) -> Kernel:
        """The kernel that an expression such as `axpy[f16, 128]` selects, evaluated with the names of the spec."""
        from lego_mlir.tracing.definition.kernel import Kernel
        from lego_mlir.tracing.trace.dtypes import DTYPES

        name = text.partition("[")[0].strip()
        if name not in self.generics:
            listed = ", ".join(map(str, self.generics.values())) or "none"
            raise SpecError(f"{self.path}: no generic kernel named {name!r}; it has: {listed}")
        try:
            with blame(*self.files):
                kernel = eval(text, {**DTYPES, **self.names})
        except LegoError:
            raise
        except Exception as error:
            raise SpecError(
                f"{self.path}: cannot evaluate '{text}' ({type(error).__name__}: {error}); parameters are types, "
                "numbers and expressions over the names of the spec"
            ) from error
        if not isinstance(kernel, Kernel):
            raise SpecError(f"{self.path}: '{text}' does not select a kernel of {self.generics[name]}")
        return kernel


def load(path: str | Path, source: bytes | None = None) -> Spec:
    """Run a spec and collect its kernels, layouts and templates; with `source`, its text, `path` is only a label.

    Raises SpecError for any error in the spec.
    """
    path = Path(path)
    if source is None:
        source = _read(path)
    else:
        _remember_lines(path, source)
    module = _execute(path, _compiled(path, source))
    _require_reachable(path, source, module)
    found: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
    seen: set[int] = set()
    for name, value in vars(module).items():
        kind = _kind(value)
        if kind is not None and not name.startswith("_") and id(value) not in seen:
            seen.add(id(value))
            found[kind][name] = value
    for family in found["generics"].values():
        unnamed = {text: kernel for text, kernel in family.made.items() if id(kernel) not in seen}
        found["kernels"].update(unnamed)
    with blame(path):
        for program in found["programs"].values():
            for kernel in program.kernels:
                if all(kernel is not known for known in found["kernels"].values()):
                    found["kernels"][_unused(kernel.name, found["kernels"])] = kernel
    names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return Spec(path, hashlib.sha256(source).hexdigest(), **found, names=names)


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    return name if name not in taken else _unused(f"{name}_", taken)


@contextmanager
def blame(*paths: Path | str) -> Iterator[None]:
    """Run code of a spec: its exceptions become SpecError with file and line, its `print` goes to standard error.

    `paths` are the spec and the files that its kernels were imported from. Standard output is reserved for the results
    of a command, which another program may read.
    """
    files = [str(path) for path in paths]
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (SpecError, DependencyError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise SpecError(_exit_message(error, files)) from error
    except BaseException as error:
        place = _place_in(error, files)
        if place is None:
            raise
        file, line = place
        if isinstance(error, LegoError):
            here = str(error).startswith(f"{file}:")
            raise SpecError(str(error) if here else f"{file}:{line}: {error}") from error
        message = "".join(traceback.format_exception_only(error)).strip()
        raise SpecError(f"{file}:{line}: {message}\n  {_source_line(Path(file), line)}{_remedy(error)}") from error


def _exit_message(error: SystemExit, files: list[str]) -> str:
    place = _place_in(error, files)
    where = files[0] if place is None else f"{place[0]}:{place[1]}"
    shown = "" if place is None else f"\n  {_source_line(Path(place[0]), place[1])}"
    return f"{where}: the spec exited the program (exit code {error.code}); a spec must only define{shown}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise SpecError(f"{path}: no such file; give the path of a spec, a Python file") from error
    except IsADirectoryError as error:
        raise SpecError(f"{path} is a folder; give the path of a spec, a Python file in it") from error
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from error


def _compiled(path: Path, source: bytes) -> CodeType:
    try:
        return compile(source, str(path), "exec", dont_inherit=True)  # or this file's __future__ applies too
    except (SyntaxError, ValueError) as error:
        if path.suffix in _NOT_PYTHON:
            raise SpecError(f"{path}: a spec is a Python file; {_NOT_PYTHON[path.suffix]}") from error
        if not isinstance(error, SyntaxError):
            raise SpecError(f"{path}: not a Python file ({error})") from error
        shown = f"\n  {error.text.strip()}" if error.text else ""
        where = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise SpecError(f"{where}: syntax error: {error.msg}{shown}") from error
    except (RecursionError, MemoryError) as error:
        raise SpecError(f"{path}: an expression is nested too deeply to be compiled; assign its parts") from error


def _execute(path: Path, code: CodeType) -> ModuleType:
    """Run the file as a new module, with its folder on the import path, as for a script."""
    name = f"lego_spec_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and inspect look up a class's module there
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with blame(path):
            exec(code, module.__dict__)
    finally:
        sys.path.remove(folder)
    return module


def _require_reachable(path: Path, source: bytes, module: ModuleType) -> None:
    """Raise SpecError for a kernel that no variable holds, because a later one of the same name replaced it."""
    reachable = {value.source.line for value in vars(module).values() if _kind(value) == "kernels"}
    latest: dict[str, int] = {}
    for statement in reversed(syntax_tree.parse(source).body):
        if not (isinstance(statement, ast.FunctionDef) and any(map(_makes_kernel, statement.decorator_list))):
            continue
        first, name = statement.decorator_list[0].lineno, statement.name
        if name in latest and first not in reachable:
            raise SpecError(
                f"{path}:{latest[name]}: a second kernel named {name} replaces the one at {path}:{first}; "
                "give one of them another name"
            )
        latest.setdefault(name, first)


def _makes_kernel(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(function).rpartition(".")[2] == "kernel"


def _kind(value: object) -> str | None:
    for kind, (module_name, class_name) in _KINDS.items():
        module = sys.modules.get(module_name)
        if isinstance(value, getattr(module, class_name, ())):  # another thread may be importing the module
            return kind
    return None


def _place_in(error: BaseException, files: list[str]) -> tuple[str, int] | None:
    """The innermost line of these files in the exception's traceback."""
    walked = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    places = [place for place in walked if place[0] in files]
    return places[-1] if places else None


def _remember_lines(path: Path, source: bytes) -> None:
    """Let messages quote lines of a text that was not read from a file."""
    lines = source.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[str(path)] = (len(source), None, lines, str(path))


def _source_line(path: Path, line: int) -> str:
    linecache.checkcache(str(path))
    return linecache.getline(str(path), line).strip()


def _remedy(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"\n  install what the spec imports: pip install {(error.name or '').partition('.')[0]}"
    if isinstance(error, TypeError) and "does not support ufuncs" in str(error):
        return "\n  NumPy functions do not accept kernel values; use lego.exp, lego.sqrt, lego.maximum, .."
    return ""
