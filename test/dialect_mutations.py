"""Mutated texts through mlir-opt with the plugin of the lego dialect: diagnostics, and never a crash or a hang.

    python test/dialect_mutations.py --first 0 --count 10000 --keep build/mutations
    cmake --preset sanitize && cmake --build --preset sanitize && python test/dialect_mutations.py --sanitized

A case is a number, which chooses a seed (layouts of every kind in an attribute and in operations, the modules of
docs/reference/dialect.md, and the kernels and transform scripts of the lit files) and the mutations of its text. Odd
cases change what often leaves it valid: a size or a type wherever it stands, or the bases of a layout. A process of
mlir-opt takes many cases, `--split-input-file` apart, and runs every pass on those that parse. Where it is killed by a
signal or prints a stack dump, the batch is halved until the case is found, which is kept with the command that fails
again.
"""

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mutations import MUTATIONS, TOKEN
from random_layouts import SYMBOLIC, random_layout

from lego_mlir.layout.notation import sizes_in_order
from lego_mlir.transforms import dialect_plugin

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 120  # for one process
BATCH = 250
SPLIT = "// -----"
CRASH = re.compile(r"Stack dump|PLEASE submit a bug report|AddressSanitizer|runtime error:")
PASSES = (
    "lego-verify{bound=1000},canonicalize,lego-simplify,int-range-optimizations,lego-lower-to-arith,lego-simplify,"
    "int-range-optimizations,canonicalize,cse"
)
AFFINE = "lego-lower-to-affine{skip=true},canonicalize"
SCRIPT = "transform-interpreter,lego-lower-to-arith,canonicalize"
SPREAD = (
    "gpu.module(lego-propagate-spread{warps=2},canonicalize,cse,lego-propagate-spread,lego-lower-spread,"
    "canonicalize,cse)"
)
OPEN = "gpu.module(lego-propagate-spread)"  # without a number of warps
LOWER = "gpu.module(lego-lower-spread)"
LIT = (
    "kernels.mlir",
    "transform.mlir",
    "transform-launch.mlir",
    "propagate-spread.mlir",
    "propagate-spread-loops.mlir",
    "propagate-spread-errors.mlir",
    "lower-spread.mlir",
    "lower-spread-box.mlir",
    "lower-spread-errors.mlir",
    "spread-box.mlir",
    "spread-products.mlir",
)
SIZES = ("0", "1", "2", "3", "4", "5", "8", "16", "24", "32", "48", "64", "96", "128", "1024", "4096")
WORDS = (
    ("f16", "bf16", "f32", "f64", "f80", "f128", "f8E4M3FN", "i1", "i8", "i32", "i48", "i64", "i128", "index", "none"),
    ("addf", "mulf", "subf", "maximumf", "addi", "muli", "subi", "maxsi", "divsi", "andi"),
    ("tile_load", "tile_store", "convert", "mma", "apply", "inv", "mask"),
    ("register", "lane", "warp"),
)
SANITIZED = ROOT / "build" / "dialect-sanitize" / "dialects" / "lib" / dialect_plugin.LIBRARY


def seeds() -> list[str]:
    """Texts that are valid before they are mutated."""
    layouts = [*(random_layout(number) for number in range(60)), *(layout for layout, _ in SYMBOLIC)]
    found = []
    for layout in layouts:
        text, rank = layout.to_mlir(), len(layout.dims())
        sizes = [f"%s{k}" for k in range(len(sizes_in_order(layout)))]
        index = [f"%i{k}" for k in range(rank)]
        bound = f"[{', '.join(sizes)}]" if sizes else ""
        arguments = ", ".join(f"{name}: index" for name in [*index, *sizes])
        found.append(f"module attributes {{t.a = {text}}} {{}}\n")
        found.append(
            f"func.func @f({arguments}) -> index {{\n  %p = lego.apply {text}({', '.join(index)}){bound}\n"
            f"  {', '.join(f'%q{k}' for k in range(rank))} = lego.inv {text}(%p){bound}\n"
            f"  %m = lego.mask {text}({', '.join(index)}){bound}\n  return %p : index\n}}\n"
        )
    page = (ROOT / "docs" / "reference/dialect.md").read_text()
    (code,) = (block for block in re.findall(r"```mlir\n(.*?)```", page, re.DOTALL) if "lego.for_each (" in block)
    genp = code[code.index("lego.genp") : code.index("%v = lego.view")]
    head = "func.func @f(%i: index, %j: index, %M: index, %a: index, %b: index, %buffer: memref<?xf32>, %zero: f32,\n"
    head += "    %box: memref<4x8xf32>) {\n"
    head += "%w = lego.view %box : !lego.view<memref<4x8xf32>, #lego.layout<Col(4, 8)>>\n"
    body = code.replace(genp, "")
    sums, copies = (body.index(f"{start}lego.for_each (") for start in ("%sum = ", "\n"))
    loop = body[sums:copies].replace("%x", "%u").replace("(%i, %j) in", "(%k, %l) in").replace("[%i, %j]", "[%k, %l]")
    last = body[copies:].replace("(%i, %j) in", "(%k, %l) in").replace("[%i, %j]", "[%k, %l]")
    body = body[:sums] + loop + last
    found += [genp] * 10
    found += [f"{head}{body}  return\n}}\n"] * 10
    return found + [module for module in modules_of_tests() if "linalg." not in module] * 2


def modules_of_tests() -> list[str]:
    """The modules of the lit files that can be parsed."""
    found = []
    for name in LIT:
        for module in (ROOT / "dialects" / "test" / name).read_text().split(f"\n{SPLIT}"):
            if name.endswith("-errors.mlir") or "expected-error" not in module:
                found.append(re.sub(r"[ \t]*// .*\n", "", f"{module}\n").strip("\n") + "\n")
    return found


SEEDS = seeds()
SPREADS = [module for module in modules_of_tests() if "#lego.spread" in module or "linalg." in module]
"""Those of spread tiles; upstream's parsers of linalg.reduce and linalg.transpose crash on some malformed ones."""


def _other_number(draw: random.Random, text: str) -> str:
    """A number is another one wherever it stands, in sizes of types too."""
    found = re.findall(r"(?<![^\Wx])(?<![%#@.])\d+(?![\w.]|x\b)|(?<![\w%#@.])\d+(?=x)|(?<=\dx)\d+(?=x)", text)
    if not found:
        return text
    old, new = draw.choice(found), draw.choice((*found, *SIZES))
    return re.sub(rf"(?<![^\Wx])(?<![%#@.]){old}(?![\d.])", new, text)


def _other_word(draw: random.Random, text: str) -> str:
    """A type of elements, or an operation on them, is another one wherever it stands."""
    words = draw.choice(WORDS)
    places = r"(?<![^\Wx])(?<!array<){}\b"  # upstream's parser of array<..> crashes on some types
    found = [word for word in words if re.search(places.format(word), text)]
    return re.sub(places.format(draw.choice(found)), draw.choice(words), text) if found else text


def _other_bases(draw: random.Random, text: str) -> str:
    """Two bases of a layout of spread tiles change places."""
    layouts = re.findall(r"#lego\.spread<[^>]*>", text)
    if not layouts:
        return _other_number(draw, text)
    old = draw.choice(layouts)
    parts = re.split(r"((?<!= )\[\d[^\[\]]*\])", old)  # bases at odd places, and not the sizes of a box
    if len(parts) > 3:
        a, b = draw.sample(range(1, len(parts), 2), 2)
        parts[a], parts[b] = parts[b], parts[a]
    return text.replace(old, "".join(parts))


OFTEN_VALID = (_other_number, _other_word, _other_bases, _other_bases)


def case(number: int) -> str:
    """The text of a case."""
    draw = random.Random(number)
    text = draw.choice(draw.choice((SEEDS, SPREADS)) if number % 2 else SEEDS)
    if number % 2:
        for _ in range(draw.choice((1, 2, 3, 5))):
            text = draw.choice(OFTEN_VALID)(draw, text)
        return text
    tokens = TOKEN.findall(text)
    for _ in range(draw.choice((1, 1, 2, 3, 5))):
        if any(not token.isspace() for token in tokens):
            draw.choice(MUTATIONS)(draw, tokens, draw.randrange(len(tokens)))
    return "".join(tokens).replace(SPLIT, "").replace("\0", "")


def command(passes: str, sanitized: bool = False) -> list[str]:
    """mlir-opt with the plugin, or with that of the CMake preset `sanitize`."""
    plugin, program = dialect_plugin.require("this script")
    if not sanitized:
        return [program, f"--load-dialect-plugin={plugin}", f"--pass-pipeline=builtin.module({passes})"]
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    settings = [f"LD_PRELOAD={runtime.strip()}", "ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0"]
    return [
        "env",
        *settings,
        program,
        f"--load-dialect-plugin={SANITIZED}",
        f"--pass-pipeline=builtin.module({passes})",
    ]


def crashes(texts: Sequence[str], passes: str, sanitized: bool = False) -> str:
    """How mlir-opt ends abnormally on these texts; empty if it does not."""
    given = f"\n{SPLIT}\n".join(texts)
    try:
        done = subprocess.run(
            [*command(passes, sanitized), "--split-input-file", "-o", "/dev/null"],
            input=given.encode(errors="surrogatepass"),
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    said = done.stderr.decode(errors="replace")
    found = CRASH.search(said)
    if done.returncode < 0 or done.returncode > 1 or found:
        return f"exit code {done.returncode}: {said[found.start() if found else -2000 :][:2000]}"
    return ""


def failing(numbers: Sequence[int], passes: str, sanitized: bool = False) -> list[tuple[int, str]]:
    """The cases that crash, with how they do."""
    texts = [case(number) for number in numbers]
    how = crashes(texts, passes, sanitized)
    if not how:
        return []
    if len(numbers) == 1:
        return [(numbers[0], how)]
    half = len(numbers) // 2
    found = failing(numbers[:half], passes, sanitized) + failing(numbers[half:], passes, sanitized)
    return found or [(numbers[0], f"only the whole batch of {len(numbers)}: {how}")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "mutations")
    parser.add_argument("--sanitized", action="store_true", help="the plugin of build/dialect-sanitize")
    options = parser.parse_args()
    failed = 0
    for begin in range(options.first, options.first + options.count, BATCH):
        numbers = range(begin, min(begin + BATCH, options.first + options.count))
        for passes in (PASSES, AFFINE, SCRIPT, SPREAD, OPEN, LOWER):
            for number, how in failing(numbers, passes, options.sanitized):
                failed += 1
                options.keep.mkdir(parents=True, exist_ok=True)
                kept = options.keep / f"dialect-{number}.mlir"
                kept.write_text(case(number), errors="surrogatepass")
                print(f"case {number}: {how}\n  {' '.join(command(passes, options.sanitized))} {kept}")
    print(f"{options.count} cases, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
