"""Run a transform script on a module, and fail where it finds nothing to transform.

A `transform.structured.match` that matches no operation yields an empty handle, and the operations after it silently do
nothing: the kernel compiles, but is slow. Here a match must find something. Each one is followed, in
a copy of the script, by a check of its count; a match that may be empty carries the attribute `lego.optional`:

    %loops = transform.structured.match ops{["scf.for"]} in %f {lego.optional} : ...

The same check tells that a step did its work: after a conversion a script matches what it should have made.
"""

from __future__ import annotations

import re
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op
from lego_mlir.hardware.targets import Target, target_named
from lego_mlir.transforms import dialect_plugin
from lego_mlir.transforms.lego_ops.entry import plain
from lego_mlir.transforms.modules import ModuleError, parse, place, session, string_attribute, to_text, walk
from lego_mlir.transforms.passes import named
from lego_mlir.transforms.passes.base import PassError, census
from lego_mlir.transforms.scripts import Script, ScriptStep, flatten

OPTIONAL: Final = "lego.optional"
_MATCH: Final = "transform.structured.match"
_EMPTY: Final = re.compile(r"(loc\(.*?\)): expected parameter to be not equal to 0")
_DIAGNOSTIC: Final = re.compile(r"Diagnostic message at (\S+?):(?=\s)")
# Inside these a failed match is legitimate.
_TOLERANT: Final = frozenset({"transform.alternatives", "transform.foreach_match"})


def transform(text: str, script: str | Script, *, name: str = "payload", script_name: str = "script") -> str:
    """The module `text` after a transform script. Raises ModuleError with the script's line."""
    script = Script(script_name, script) if isinstance(script, str) else script
    return apply(text, script, target_named("sm_80"), name=name)


def apply(text: str, script: Script, target: Target, *, name: str = "payload") -> str:
    """The module `text` after every step of a script, for a target. Raises ModuleError with the script's line."""
    with session():
        payload = parse(text, name)
        for step in flatten(script, parse):
            try:
                if step.schedule is None:
                    payload = _run_by_mlir_opt(payload, step, name)
                elif step.passes:
                    named(step.passes).from_parameters(step.parameters).run(payload, target)
                else:
                    _run_sequence(payload, step)
                payload.operation.verify()
            except PassError as error:
                raise PassError(f"{step.script.path}: {error}") from error
            except bindings.load().ir.MLIRError as error:
                what = step.passes or f"@{step.sequence}"
                raise ModuleError(
                    f"{step.script.path} left a module that does not verify, after {what}: {place(str(error), name)}"
                ) from error
        return to_text(payload, locations=True)


def _run_by_mlir_opt(payload: Module, step: ScriptStep, name: str) -> Module:
    """The module after a script with operations of the plugin; what it leaves of the lego dialect is lowered here."""
    made = dialect_plugin.run_script(to_text(payload, locations=True), step.script.text, step.script.path)
    return parse(plain(made, name), name)


def _run_sequence(payload: Module, step: ScriptStep) -> None:
    assert step.schedule is not None
    interpreter = bindings.load().module("dialects.transform.interpreter")
    entry = _entry(step.schedule, step.script.path, step.sequence)
    expectations = _expect_matches(entry)
    try:
        interpreter.apply_named_sequence(payload.operation, entry, step.schedule.operation)
    except ValueError as error:
        raise ModuleError(_explain(str(error), expectations, step.script.path, payload)) from error


def _entry(schedule: Op, script_name: str, name: str) -> Op:
    sequences = [op.operation for op in schedule.body.operations if op.operation.name == "transform.named_sequence"]
    for sequence in sequences:
        if string_attribute(sequence, "sym_name") == name:
            return sequence
    names = ", ".join("@" + string_attribute(sequence, "sym_name") for sequence in sequences) or "none"
    raise ModuleError(
        f"{script_name}: a transform script begins at 'transform.named_sequence @{name}(%root: !transform.any_op "
        f"{{transform.readonly}})' inside 'module attributes {{transform.with_named_sequence}}'; "
        f"sequences found: {names}"
    )


def _expect_matches(schedule: Op) -> dict[str, str]:
    """Follow every match by a check of its count; the answer maps the check's location to what was looked for."""
    ir = bindings.load().ir
    matches = [op for op in walk(schedule) if op.name == _MATCH and OPTIONAL not in op.attributes and _strict(op)]
    i64 = ir.IntegerType.get_signless(64)
    param = ir.Type.parse("!transform.param<i64>")
    expectations: dict[str, str] = {}
    for match in matches:
        expectations[str(match.location)] = _sought(match)
        block, after = match.block, _next(match)
        with match.location, ir.InsertionPoint(after) if after is not None else ir.InsertionPoint(block):
            count = ir.Operation.create("transform.num_associations", [param], [match.results[0]])
            zero = ir.Operation.create(
                "transform.param.constant", [param], attributes={"value": ir.IntegerAttr.get(i64, 0)}
            )
            not_equal = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
            ir.Operation.create(
                "transform.match.param.cmpi", [], [count.result, zero.result], attributes={"predicate": not_equal}
            )
    return expectations


def _strict(match: Op) -> bool:
    parent = match.parent
    while parent is not None and parent.name != "builtin.module":
        if parent.name in _TOLERANT:
            return False
        parent = parent.parent
    return True


def _next(operation: Op) -> Op | None:
    siblings = [op.operation for op in operation.block.operations]
    at = siblings.index(operation)
    return siblings[at + 1] if at + 1 < len(siblings) else None


def _sought(match: Op) -> str:
    """`ops["memref.alloc"]`, `interface LinalgOp`, ...: the criteria of a match, as the script writes them."""
    wanted = sorted((name, str(value)) for name, value in match.attributes.items() if name != OPTIONAL)
    return ", ".join(f"{name} {value}" for name, value in wanted) or "any operation"


def _explain(message: str, expectations: dict[str, str], script_name: str, payload: Module) -> str:
    empty = _EMPTY.search(message)
    if empty is not None and empty.group(1) in expectations:
        where = place(empty.group(1), script_name)
        return (
            f"{where}: the script matched nothing: it looked for {expectations[empty.group(1)]}, and found "
            f"{census(payload.operation)}; if it may be missing, add {{{OPTIONAL}}} to the match"
        )
    message = message.removeprefix("Failed to apply named transform sequence.").strip()
    found = f"\nthe kernel has {census(payload.operation)}"
    return _DIAGNOSTIC.sub(r"\1: error:", place(message, script_name)) + found
