"""A transform script as a value: its text, the scripts that it is composed of, and its parameters.

A script is a file in the transform dialect that `mlir-opt` reads unchanged. Attributes of its module add the rest:

    lego.parameters = {stages = {default = 4 : i64, min = 2 : i64, max = 8 : i64}}
    lego.pipeline = ["lego-shared-to-alloc", @__transform_main, "swizzle.mlir"]

A parameter replaces the value of an attribute where an operation names it in `lego.fill`:

    transform.memref.multibuffer %a {factor = 4 : i64, lego.fill = {factor = "stages"}}
    transform.nvgpu.pipeline_shared_memory_copies failures(propagate) %l {depth = 3, lego.fill = {depth = "stages - 1"}}

Schedules rewrite the kernel before it becomes a module; braces hold a parameter, and the schedule of a dictionary is
applied where its parameter is true or not 0:

    lego.schedules = ["warpgroups", "pipeline(stages={stages})", {apply = "overlay", when = "overlay"}]

Those of `lego.otherwise` are applied instead of the pipeline, to a kernel of a form that a pass of it does not take.

The pipeline names, in order, sequences of the file, our passes, and other scripts, whose own pipelines are put in
their place. Without one, the pipeline is `@__transform_main`. A script with operations of the lego dialect's plugin,
`transform.lego.*`, has no parameters and no pipeline: mlir-opt runs its `@__transform_main`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Module, Op
from lego_mlir.errors import ExpressionError, SpecError, UsageError, brief
from lego_mlir.expr.text import evaluate
from lego_mlir.transforms.dialect_plugin import uses_plugin
from lego_mlir.transforms.modules import ModuleError, walk
from lego_mlir.transforms.passes import PASSES, named

ENTRY: Final = "__transform_main"
PARAMETERS: Final = "lego.parameters"
PIPELINE: Final = "lego.pipeline"
FILL: Final = "lego.fill"
SCHEDULES: Final = "lego.schedules"
OTHERWISE: Final = "lego.otherwise"
Number = int | bool
_SUFFIX: Final = ".mlir"
_PARTS: Final = re.compile(r"lego\.pipeline\s*=\s*\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Script:
    """A transform script: the path by which messages call it, its text, its parts, and what was set by the user."""

    path: str
    text: str
    parts: tuple[Script, ...] = ()
    parameters: tuple[tuple[str, Number], ...] = ()

    def texts(self) -> list[str]:
        """The texts of the script and of its parts."""
        return [self.text, *(text for part in self.parts for text in part.texts())]

    def part(self, name: str) -> Script:
        """The script that this one calls by that name."""
        for part in self.parts:
            if Path(part.path).name == name:
                return part
        raise ModuleError(f"{self.path}: its pipeline names {name}, and there is no such script beside it")


@dataclass(frozen=True, slots=True)
class ScriptParameter:
    """The declaration of a parameter in a script."""

    name: str
    default: Number
    min: int | None = None
    max: int | None = None

    def check(self, value: Number, script: str) -> Number:
        """The value. Raises UsageError where it is not one that the parameter may have."""
        if isinstance(self.default, bool) != isinstance(value, bool):
            kind = "true or false" if isinstance(self.default, bool) else "an int"
            raise UsageError(f"{script}: the parameter {self.name} is {kind}, got {value!r}")
        if (self.min is not None and value < self.min) or (self.max is not None and value > self.max):
            raise UsageError(f"{script}: the parameter {self.name} is {self.min} .. {self.max}, got {value}")
        return value


def folder() -> Path:
    """Where the scripts that come with the package are: inside it once installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "transform_scripts"
    return installed if installed.is_dir() else package.parent / "transform_scripts"


def shipped() -> tuple[str, ...]:
    """The names of the scripts that come with the package."""
    return tuple(sorted(path.name for path in folder().glob(f"*{_SUFFIX}")))


def read(path: str | Path, parameters: Mapping[str, Number] | None = None) -> Script:
    """The script in this file, or of this name among those that come with the package, with its parts.

    Raises SpecError where a file cannot be read.
    """
    return _read(Path(path), tuple(sorted((parameters or {}).items())), ())


def _read(path: Path, parameters: tuple[tuple[str, Number], ...], above: tuple[str, ...]) -> Script:
    found = path if path.exists() or path.name not in shipped() else folder() / path.name
    try:
        text = found.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(
            f"{path}: the transform script cannot be read ({reason}); those that come along are {', '.join(shipped())}"
        ) from error
    if found.name in above:
        raise SpecError(f"{path}: the pipeline of this script calls itself, by way of {' -> '.join(above)}")
    listed = _PARTS.search(text)
    names = [n for n in re.findall(r'"([^"]+)"', listed.group(1)) if n.endswith(_SUFFIX)] if listed else []
    parts = tuple(_read(found.parent / name, (), (*above, found.name)) for name in dict.fromkeys(names))
    shown = path if found == path else Path(path.name)
    return Script(str(shown), text, parts, parameters)


def parse_parameters(given: list[str]) -> dict[str, Number]:
    """The parameters of `--param stages=3 --param bypass_l1=false`. Raises UsageError for anything else."""
    numbers: dict[str, Number] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if equals and value in ("true", "false"):
            numbers[name] = value == "true"
        elif equals and value.lstrip("-").isdigit():
            numbers[name] = int(value)
        else:
            raise UsageError(f"--param takes NAME=VALUE, such as stages=3 or bypass_l1=false, not {text!r}")
    return numbers


def declared(schedule: Op) -> dict[str, ScriptParameter]:
    """The parameters that a parsed script declares."""
    if PARAMETERS not in schedule.attributes:
        return {}
    try:
        return {
            entry.name: ScriptParameter(entry.name, **{row.name: _number(row.attr) for row in entry.attr})
            for entry in schedule.attributes[PARAMETERS]
        }
    except (TypeError, ValueError, AttributeError) as error:
        raise ModuleError(
            f"{PARAMETERS} must be a dictionary such as {{stages = {{default = 4 : i64, min = 2 : i64}}}}, "
            f"got {brief(str(schedule.attributes[PARAMETERS]))}"
        ) from error


def values(script: Script, schedule: Op, outer: Mapping[str, Number]) -> dict[str, Number]:
    """What the parameters of a script are: from the script that calls it, else from the user, else its own defaults."""
    known = declared(schedule)
    given = dict(script.parameters)
    for name in given:
        if name not in known:
            raise UsageError(f"{script.path} has no parameter {name}; it has {', '.join(sorted(known)) or 'none'}")
    chosen = {name: outer.get(name, given.get(name, row.default)) for name, row in known.items()}
    return {name: known[name].check(value, script.path) for name, value in chosen.items()}


def pipeline(script: Script, schedule: Op) -> list[str]:
    """What a parsed script runs, in order: `@sequence`, `lego-pass` or `other.mlir`. Raises ModuleError."""
    if PIPELINE not in schedule.attributes:
        return [f"@{ENTRY}"]
    ir = bindings.load().ir
    steps = []
    for item in schedule.attributes[PIPELINE]:
        step = f"@{item.value}" if isinstance(item, ir.FlatSymbolRefAttr) else str(ir.StringAttr(item).value)
        if not step.startswith("@") and not step.endswith(_SUFFIX) and step not in PASSES:
            raise ModuleError(
                f"{script.path}: its pipeline names {step!r}, which is not a pass; there are {', '.join(PASSES)}, "
                "@sequences of the file and other .mlir scripts"
            )
        steps.append(step)
    return steps


def schedules(script: Script, attribute: str = SCHEDULES) -> str:
    """The composition of schedules that an attribute of a script names, with its parameters; empty without one."""
    if attribute not in script.text:
        return ""
    ir = bindings.load().ir
    with bindings.context():
        operation = ir.Module.parse(script.text).operation
        if attribute not in operation.attributes:
            return ""
        chosen = values(script, operation, {})
        found = [_schedule(script, item, chosen) for item in operation.attributes[attribute]]
        _require_named(script, operation, attribute)
    return ", ".join(text for text in found if text)


def _require_named(script: Script, operation: Op, attribute: str) -> None:
    """Raise UsageError for a parameter that the user gave and the schedules instead of a pass do not have."""
    named = set(re.findall(r"\w+", str(operation.attributes[attribute])))
    unused = [name for name, _ in script.parameters if name not in named]
    if attribute == OTHERWISE and unused:
        raise UsageError(
            f"{script.path}: the kernel is scheduled by {attribute}, which has no {', '.join(unused)}; leave it out"
        )


def _schedule(script: Script, item: Attribute, chosen: Mapping[str, Number]) -> str:
    ir = bindings.load().ir
    if isinstance(item, ir.DictAttr):
        rows = {row.name: str(ir.StringAttr(row.attr).value) for row in item}
        if set(rows) != {"apply", "when"}:
            raise ModuleError(f"{script.path}: {SCHEDULES} takes texts and {{apply = .., when = ..}}, got {item}")
        if not _formula(script, rows["when"], chosen):
            return ""
        text = rows["apply"]
    else:
        text = str(ir.StringAttr(item).value)
    return re.sub(r"\{([^{}]*)\}", lambda found: str(_formula(script, found.group(1), chosen)), text)


def fill(script: Script, schedule: Op, chosen: Mapping[str, Number]) -> None:
    """Write the parameters into the operations that name them."""
    ir = bindings.load().ir
    for operation in list(walk(schedule)):
        if FILL not in operation.attributes:
            continue
        for entry in operation.attributes[FILL]:
            value = _formula(script, str(ir.StringAttr(entry.attr).value), chosen)
            if isinstance(value, bool):
                _set_flag(operation, entry.name, value)
            else:
                there = operation.attributes[entry.name]
                operation.attributes[entry.name] = ir.IntegerAttr.get(ir.IntegerAttr(there).type, value)


def _set_flag(operation: Op, name: str, value: bool) -> None:
    if value:
        operation.attributes[name] = bindings.load().ir.UnitAttr.get()
    elif name in operation.attributes:
        del operation.attributes[name]


def _formula(script: Script, text: str, chosen: Mapping[str, Number]) -> Number:
    """The value of a parameter, or of integer arithmetic on parameters (`expr.text`)."""
    if text.strip() in chosen:
        return chosen[text.strip()]
    try:
        return evaluate(text, {name: value for name, value in chosen.items() if not isinstance(value, bool)})
    except ExpressionError as error:
        raise ModuleError(
            f"{script.path}: {FILL} must be a parameter, or integer arithmetic on parameters: {error}"
        ) from None


def _number(attribute: Attribute) -> Number:
    ir = bindings.load().ir
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    return int(ir.IntegerAttr(attribute).value)


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One step of a flattened pipeline: a sequence of a script, or a pass where `sequence` is empty.

    A step without a schedule is a script that mlir-opt runs with the plugin.
    """

    script: Script
    schedule: Module | None
    sequence: str
    passes: str
    parameters: Mapping[str, Number]


def flatten(
    script: Script, parse: Callable[[str, str], Module], outer: Mapping[str, Number] | None = None
) -> list[ScriptStep]:
    """All steps of a script, those of its parts in their places; `parse` makes a module of a script's text.

    A pass that opens or closes a script, such as the placement of shared memory, is run once, first or last.
    """
    steps = list(_steps(script, parse, outer or {}))
    kept: list[ScriptStep] = []
    for number, step in enumerate(steps):
        once = named(step.passes).once if step.passes else ""
        others = steps[:number] if once == "first" else steps[number + 1 :] if once == "last" else []
        if not any(other.passes == step.passes for other in others):
            kept.append(step)
    return kept


def _steps(script: Script, parse: Callable[[str, str], Module], outer: Mapping[str, Number]) -> Iterator[ScriptStep]:
    operation = uses_plugin(script.text)
    if operation is not None:
        _require_plain(script, operation)
        yield ScriptStep(script, None, ENTRY, "", {})
        return
    schedule = parse(script.text, script.path)
    chosen = values(script, schedule.operation, outer)
    fill(script, schedule.operation, chosen)
    for name in pipeline(script, schedule.operation):
        if name.startswith("@"):
            yield ScriptStep(script, schedule, name[1:], "", chosen)
        elif name.endswith(_SUFFIX):
            yield from _steps(script.part(name), parse, chosen)
        else:
            yield ScriptStep(script, schedule, "", name, chosen)


def _require_plain(script: Script, operation: str) -> None:
    """Raise UsageError for parameters or a pipeline of a script that mlir-opt runs, which does not know them."""
    declares = next((name for name in (PARAMETERS, PIPELINE, FILL) if name in script.text), None)
    if declares is not None:
        raise UsageError(
            f"{script.path}: mlir-opt runs this script, for {operation}, and does not know {declares}; put the "
            "transform.lego operations into another file and name that in the pipeline of this one"
        )
    if script.parameters:
        raise UsageError(f"{script.path} has no parameter {script.parameters[0][0]}; it has none")
