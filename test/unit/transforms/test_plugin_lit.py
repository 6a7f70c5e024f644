"""The lit files of the C++ plugin cover its definitions: each operation and pass, in both kinds of GPU kernels.

A kernel is a `gpu.func`, whose ids are operations, or a `gpu.launch`, whose ids and sizes are arguments of its region.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DEFINITIONS, FILES = ROOT / "dialects" / "include" / "LegoMLIR", ROOT / "dialects" / "test"
KERNELS = {
    "gpu.func": (r"gpu\.func @", "gpu.return"),
    "gpu.launch": (r"gpu\.launch (?:blocks|clusters)", "gpu.terminator"),
}
SPLIT = "// -----"


def defined(file, classes):
    """The names that a file of TableGen gives to records of these classes, each with the record's head."""
    text = (DEFINITIONS / file).read_text()
    found = re.findall(rf'^def \w+ ?: (?:{classes})<"([\w-]+)"(.*?)\{{$', text, re.MULTILINE | re.DOTALL)
    assert len(found) == len(re.findall(rf"^def \w+ ?: (?:{classes})<", text, re.MULTILINE)) > 0
    return dict(found)


def chunks():
    """Each module of the lit files: the file's RUN lines, and the module without comments."""
    for path in sorted(FILES.glob("*.mlir")):
        text = path.read_text()
        run = "\n".join(re.findall(r"// RUN: (.*)", text))
        for chunk in text.split(SPLIT):
            yield run, re.sub(r"//.*", "", chunk)


def kernels(text, kind):
    """The texts of the kernels of a kind, to the brace that closes their region."""
    opening, terminator = KERNELS[kind]
    for found in re.finditer(opening, text):
        depth = 0
        for place in re.finditer(r"[{}]", text[found.start() :]):
            depth += 1 if place[0] == "{" else -1
            kernel = text[found.start() : found.start() + place.end()]
            if depth == 0 and terminator in kernel:
                yield kernel
                break


OPERATIONS = defined("LegoOps.td", "Lego_Op|Lego_Access")
TRANSFORMS = defined("LegoTransformOps.td", "Lego_TransformOp")
PASSES = defined("LegoPasses.td", "Pass")


@pytest.mark.parametrize("kind", KERNELS)
def test_each_operation_is_in_a_kernel(kind):
    covered = set()
    for _, chunk in chunks():
        for kernel in kernels(chunk, kind):
            covered |= set(re.findall(r"\blego\.(\w+)", kernel))
            if "GenP(" in kernel:  # a symbol, which stands beside the kernel
                covered |= set(re.findall(r"\blego\.(genp)", chunk))
    assert sorted(OPERATIONS.keys() - covered) == []


@pytest.mark.parametrize("kind", KERNELS)
def test_each_transform_changes_a_kernel(kind):
    covered = set()
    for _, chunk in chunks():
        if any(kernels(chunk, kind)):
            covered |= set(re.findall(r"\btransform\.lego\.(\w+)", chunk))
    assert sorted(TRANSFORMS.keys() - covered) == []


@pytest.mark.parametrize("kind", KERNELS)
def test_each_pass_runs_on_a_kernel_with_layouts(kind):
    covered = set()
    for run, chunk in chunks():
        if any("#lego.layout" in kernel or "#lego.spread" in chunk for kernel in kernels(chunk, kind)):
            covered |= {name for name in PASSES if re.search(rf"{name}(?![\w-])", run)}
    assert sorted(PASSES.keys() - covered) == []


def test_a_kernel_ends_at_its_brace():
    text = "gpu.func @f() attributes {a = {}} { scf.if %b { lego.load } gpu.return } lego.store"
    assert list(kernels(text, "gpu.func")) == [text.removesuffix(" lego.store")]
    assert list(kernels(text, "gpu.launch")) == []
