"""Rendered text of random layouts, run: Triton's by its interpreter, C by g++ with its sanitizers, against NumPy.

The translation check is held to the same standard: it must take what runs right, and refuse a text that was changed so
that it runs wrong.
"""

import importlib.util
import random
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from lego_mlir.errors import LegoError
from lego_mlir.templates.readback import check
from lego_mlir.templates.run.triton_interpreter import interpret

import random_templates
from random_templates import POINTS, UNTOUCHED

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs the package triton (pip install lego-mlir[triton])"
)
SAMPLED = 4000
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
SANITIZED = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
HELPERS = ("LEGO_FLOOR_DIV", "LEGO_FLOOR_MOD", "LEGO_ISQRT")
MUTATIONS = [
    (r"\b\d+\b(?!\))", lambda m: str(int(m[0]) + 1)),
    (r"\b\d+\b(?!\))", lambda m: str(max(0, int(m[0]) - 1))),
    (r" \+ ", lambda m: " - "),
    (r" - ", lambda m: " + "),
    (r" \* ", lambda m: " + "),
    (r" // ", lambda m: " % "),
    (r" >> ", lambda m: " & "),
    (r" & ", lambda m: " | "),
    (r" < ", lambda m: " <= "),
    (r" <= ", lambda m: " < "),
    (r"tl\.cast\((\w+), tl\.int64\)", lambda m: m[1]),
    (r"_lego_floor_(div|mod)\(([^,()]+), ([^,()]+)\)", lambda m: f"({m[2]}) {'//' if m[1] == 'div' else '%'} ({m[3]})"),
]


def expected(case):
    return np.concatenate(case.expected, axis=1), np.concatenate(case.counts, axis=1)


def run_triton(case, rendered):
    """What a case's kernel writes: its values, and the array that it stores to."""
    tables = {name: np.array(entries, dtype=np.int32) for name, entries in rendered.tables.items()}
    text = rendered.text.replace("TABLES", "".join(f", {name}" for name in tables))
    narrow = not case.wide and np.abs(case.inputs).max() < 2**31
    inputs = case.inputs.astype(np.int32 if narrow else np.int64)
    out = np.full((POINTS, max(1, case.outputs)), UNTOUCHED, dtype=np.int64)
    data = random_templates.data_of(case)
    stored = np.full(data.size, UNTOUCHED, dtype=np.int64)
    sizes = {str(s): case.values[str(s)] for s in rendered.sizes}
    interpret(replace(rendered, text=text), "f", (POINTS,), inputs, out, data, stored, **sizes, **tables)
    return out, stored


def differs(case, rendered):
    """Whether a case's kernel computes anything else than the layout says, where it says anything."""
    out, stored = run_triton(case, rendered)
    wanted, counts = expected(case)
    wrong = (out != wanted) & counts & (out != UNTOUCHED)
    return bool(wrong.any()) or (case.stored is not None and not np.array_equal(stored, case.stored))


def triton_cases(seeds):
    for seed in seeds:
        case = random_templates.case(seed, "triton")
        if case.outputs:
            yield case, case.template().render()


def require_triton(seeds):
    for case, rendered in triton_cases(seeds):
        assert not differs(case, rendered), f"seed {case.seed}: {case.layout} with {case.values}\n{rendered.text}"
        check.require(rendered, sampled=SAMPLED)


@needs_triton
def test_triton_text_computes_what_the_layout_says():
    require_triton(range(25))


@needs_triton
@pytest.mark.long
def test_triton_text_computes_what_the_layout_says_long():
    require_triton(range(1000, 4000))


# -- C


def c_source(cases):
    """One program of many cases, each with index variables that are ints, where these hold them, and long longs."""
    parts, calls = ["#define __device__\n#include <math.h>\n#include <stdio.h>\n"], []
    for case, rendered in cases:
        sizes = [str(s) for s in rendered.sizes]
        given = ", ".join(sizes)
        text = rendered.text.replace("USED", " ".join(f"(void){s};" for s in sizes))
        text = text.replace(", SIZES", f", {given}" if sizes else "").replace("{SIZES}", f"({given})" if sizes else "")
        wanted, counts = expected(case)
        columns, outputs = case.inputs.shape[1], case.outputs
        numbers = "".join(f", {case.values[s]}" for s in sizes)
        parts.append(
            "".join(f"#undef {name}_DEFINED\n" for name in HELPERS) + f"namespace case{case.seed} {{\n{text}"
            f"const long long in[] = {_list(case.inputs)}, want[] = {_list(wanted)};\n"
            f"const bool counts[] = {_list(counts)};\n"
            "template <class I> void run(const char *type) {\n"
            f"  for (int p = 0; p < {POINTS}; ++p) {{\n"
            f"    const long long *at = in + p * {columns};\n"
            f"    long long got[{outputs}] = {{}};\n    bool fits = true;\n"
            f"    for (int k = 0; k < {columns}; ++k) fits &= (I)at[k] == at[k];\n"
            f"    if (!fits) continue;\n    f<I>(at, got{numbers});\n"
            f"    for (int k = 0; k < {outputs}; ++k)\n"
            f"      if (counts[p * {outputs} + k] && got[k] != want[p * {outputs} + k])\n"
            f'        printf("seed {case.seed}, %s, point %d, value %d: %lld\\n", type, p, k, got[k]);\n  }}\n}}\n}}\n'
        )
        calls.append(f'  case{case.seed}::run<int>("int");\n  case{case.seed}::run<long long>("long long");\n')
    return "".join(parts) + f"int main() {{\n{''.join(calls)}}}\n"


def _list(array):
    return f"{{{', '.join(f'{int(v)}' for v in np.ravel(array))}}}"


def require_c(seeds, folder, flags):
    cases = []
    for seed in seeds:
        case = random_templates.case(seed, "cuda")
        rendered = case.template().render()
        check.require(rendered, sampled=SAMPLED)
        cases.append((case, rendered))
    source, program = folder / "cases.cpp", folder / "cases"
    source.write_text(c_source(cases))
    command = ["g++", "-std=c++17", *flags, str(source), "-o", str(program)]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@needs_gcc
def test_c_text_computes_what_the_layout_says(tmp_path):
    require_c(range(25), tmp_path, [*WARNINGS, *SANITIZED])


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 250))
def test_c_text_computes_what_the_layout_says_long(tmp_path, first):
    require_c(range(first, first + 250), tmp_path, ["-O1", *WARNINGS, *SANITIZED])


# -- the translation check


def mutants(case, rendered, most):
    """The rendered text with one change in one of its placeholders."""
    rng = random.Random(case.seed)
    found = []
    for number, placeholder in enumerate(rendered.placeholders):
        if rendered.text.count(placeholder.text) != 1 or placeholder.bindings or len(placeholder.text) < 4:
            continue
        for pattern, change in MUTATIONS:
            for match in re.finditer(pattern, placeholder.text):
                text = placeholder.text[: match.start()] + change(match) + placeholder.text[match.end() :]
                if text != placeholder.text:
                    found.append((number, text))
    for number, text in rng.sample(found, min(most, len(found))):
        old = rendered.placeholders[number]
        changed = [replace(p, text=text) if k == number else p for k, p in enumerate(rendered.placeholders)]
        yield replace(rendered, placeholders=tuple(changed), text=rendered.text.replace(old.text, text))


def require_refusals(seeds, most):
    """Changed texts that compute something else are refused; how many there were."""
    wrong = 0
    for case, rendered in triton_cases(seeds):
        for mutant in mutants(case, rendered, most):
            try:
                if not differs(case, mutant):
                    continue
            except LegoError:  # it reads or writes outside, or is not valid Triton
                pass
            wrong += 1
            assert any(found.error for found in check.check(mutant, sampled=SAMPLED)), f"{case.seed}: {mutant.text}"
    return wrong


@needs_triton
def test_the_check_refuses_a_changed_text_that_computes_something_else():
    assert require_refusals(range(200, 225), 2) > 12


@needs_triton
@pytest.mark.long
def test_the_check_refuses_a_changed_text_that_computes_something_else_long():
    assert require_refusals(range(4000, 4600), 8) > 500
