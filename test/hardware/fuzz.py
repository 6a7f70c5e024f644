"""Random kernels on a real GPU against NumPy, launches that must be refused, shipped kernels under a memory checker.

    python test/hardware/fuzz.py render [count=1000] [seed=0]   where lego_mlir is: PTX, manifests and recipes
    python test/hardware/fuzz.py run [count=N]    on the GPU machine: every element of every random kernel
    python test/hardware/fuzz.py refuse           arrays that no launch may take; the context survives
    python test/hardware/fuzz.py shipped          the shipped kernels at odd sizes, against their references
    python test/hardware/fuzz.py sanitize         `shipped` and 100 random kernels under compute-sanitizer
    python test/hardware/fuzz.py all              these four in turn

The GPU machine needs Python, NumPy and CuPy, artifacts/fuzz/, and compute-sanitizer for its step. A kernel's recipe
(`fuzz_kernels.py`) is replayed in NumPy. Input is random words with zeros, infinities, NaNs and denormal numbers among
them; the result is poisoned, and guarded on both sides, so that an element that is not written and one that is written
outside its place are found. Results go to bench/results/<device>/<date>-fuzz.json, or where `to=FOLDER` says. Exit
code 1 for anything wrong; without a GPU a step prints that it was skipped and ends with 0.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import harness
import mlir_kernels
import runner

NAME, TARGET, GROUP = "fuzz", "sm_80", 50
ARCHIVE = "kernels.tar.gz"
GUARD, POISON = 256, 0xA5  # bytes on each side of an array; what memory holds before the launch
WORDS = {"f16": "u2", "bf16": "u2", "f32": "u4", "f64": "u8", "i8": "u1", "i32": "u4", "i64": "u8"}
NUMBERS = {"f16": "f2", "f32": "f4", "f64": "f8", "i8": "i1", "i32": "i4", "i64": "i8"}
TOOLS = {"memcheck": ["--leak-check", "no"], "racecheck": [], "initcheck": [], "synccheck": []}
SANITIZED = 100  # random kernels under memcheck, which makes each launch slow
ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")


# -- where lego_mlir is


def render(options: SimpleNamespace) -> None:
    """Compile the random kernels in groups, and the shipped ones with data to check with."""
    import fuzz_kernels

    from lego_mlir.toolchain import compile_kernel

    folder = harness.ARTIFACTS / NAME
    folder.mkdir(parents=True, exist_ok=True)
    recipes, arrays, group = [], {}, []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for drawn in fuzz_kernels.draw(options.count, options.seed):
            recipe, positions = fuzz_kernels.recipe(drawn)
            recipes.append({**recipe, "group": f"g{len(recipes) // GROUP:03}"})
            arrays |= {f"{recipe['name']}/{tensor}": at for tensor, at in positions.items()}
            group.append(drawn.kernel)
            if len(group) == GROUP or len(recipes) == options.count:
                mlir_kernels.keep(
                    work, recipes[-1]["group"], compile_kernel(tuple(group), target=TARGET, emit="ptx", cache=None)
                )
                group = []
                print(f"{len(recipes)} kernels", flush=True)
        (work / "recipes.json").write_text(json.dumps(recipes))
        np.savez_compressed(work / "positions.npz", **arrays)
        for name, compilation, data in fuzz_kernels.shipped(TARGET):
            mlir_kernels.keep(work, f"shipped-{name}", compilation)
            (work / f"shipped-{name}.npz").write_bytes(data)
        with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
            for path in sorted(work.iterdir()):
                archive.add(path, path.name)
    print(f"{folder / ARCHIVE}: {(folder / ARCHIVE).stat().st_size >> 10} KiB, {len(recipes)} random kernels")
    print(dict(Counter(r["kind"] for r in recipes)), dict(Counter(r["dtype"] for r in recipes)))


# -- the replay of a recipe in NumPy


def numbers(words: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers that words stand for; those of bfloat16 as f32."""
    if dtype == "bf16":
        return (words.astype(np.uint32) << 16).view(np.float32)
    return words.view(NUMBERS[dtype])


def to_words(values: np.ndarray, dtype: str) -> np.ndarray:
    """The words of numbers, f32 rounded to the nearest bfloat16."""
    if dtype != "bf16":
        return np.ascontiguousarray(values, NUMBERS[dtype]).view(WORDS[dtype])
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def drawn_words(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random integers of all bits; floats near 1, every eighth with any bits at all."""
    word = np.dtype(WORDS[dtype])
    any_bits = generator.integers(0, 2 ** (8 * word.itemsize), shape, dtype=word, endpoint=False)
    if dtype.startswith("i"):
        return any_bits
    return np.where(generator.random(shape) < 1 / 8, any_bits, to_words(generator.standard_normal(shape), dtype))


def computed(operation: str, dtype: str, *operands: np.ndarray) -> np.ndarray:
    """The words of the result: one operation, rounded once."""
    if operation == "copy":
        return operands[0]
    a, b = (*(numbers(words, dtype) for words in operands), None)[:2]
    table: dict[str, Callable[[], Any]] = {
        "neg": lambda: -a,
        "abs": lambda: np.abs(a),
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "minimum": lambda: np.minimum(a, b),
        "maximum": lambda: np.maximum(a, b),
        "xor": lambda: a ^ b,
        "select": lambda: np.where(a < b, b, a),
    }
    with np.errstate(all="ignore"):
        return to_words(table[operation](), dtype)


def places(tensor: Mapping[str, Any], at: np.ndarray | None) -> np.ndarray:
    """The position in memory of each logical element."""
    if at is not None:
        return at.astype(np.int64)
    shape = tensor["shape"]
    linear = np.arange(tensor["elements"])
    return linear.reshape(shape) if tensor["order"] == "rows" else linear.reshape(shape[::-1]).T


def memories(recipe: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The words of each tensor before the launch, and after it."""
    dtype = recipe["dtype"]
    generator = np.random.default_rng([int(recipe["name"].removeprefix("k")), 1])
    before, logical, at = {}, [], {}
    for tensor in recipe["tensors"]:
        name = tensor["name"]
        at[name] = places(tensor, arrays.get(f"{recipe['name']}/{name}"))
        before[name] = np.full(tensor["elements"] * np.dtype(WORDS[dtype]).itemsize, POISON, np.uint8).view(
            WORDS[dtype]
        )
        if not tensor["written"]:
            logical.append(drawn_words(generator, at[name].shape, dtype))
            before[name][at[name]] = logical[-1]
    result = computed(recipe["operation"], dtype, *logical)
    after = {name: words.copy() for name, words in before.items()}
    (written,) = (tensor["name"] for tensor in recipe["tensors"] if tensor["written"])
    after[written][at[written]] = result.T if recipe["transposed"] else result
    return before, after


def replay(recipe: Mapping[str, Any], arrays: Mapping[str, np.ndarray], launch: Callable[..., Any], xp: Any) -> str:
    """Launch a kernel on guarded memory; what is wrong, or nothing. `xp` is CuPy, or NumPy in a test."""
    before, after = memories(recipe, arrays)
    dtype = recipe["dtype"]
    whole = {name: guarded(words) for name, words in before.items()}
    device = {name: xp.asarray(array) for name, array in whole.items()}
    stored = np.dtype("u2" if dtype == "bf16" else NUMBERS[dtype])
    launch(*(array[GUARD:-GUARD].view(stored) for array in device.values()), sizes=recipe["sizes"])
    for name, array in device.items():
        found = xp.asnumpy(array) if hasattr(xp, "asnumpy") else array
        outside = [*found[:GUARD], *found[-GUARD:]]
        if any(byte != POISON for byte in outside):
            return f"{name}: written outside of the array"
        words, expected = found[GUARD:-GUARD].view(WORDS[dtype]), after[name]
        wrong = np.flatnonzero(~same(words, expected, dtype))
        if wrong.size:
            k = wrong[0]
            shown = f"{numbers(words[k : k + 1], dtype)[0]}, expected {numbers(expected[k : k + 1], dtype)[0]}"
            return f"{name}: {wrong.size} of {words.size} elements wrong; in memory the first is {k}: {shown}"
    return ""


def guarded(words: np.ndarray) -> np.ndarray:
    guard = np.full(GUARD, POISON, np.uint8)
    return np.concatenate([guard, words.view(np.uint8), guard])


def same(found: np.ndarray, expected: np.ndarray, dtype: str) -> np.ndarray:
    """Equal words, or equal numbers: zeros of either sign, and NaNs of any payload."""
    a, b = numbers(found, dtype), numbers(expected, dtype)
    return (found == expected) | (a == b) | ((a != a) & (b != b))


# -- on the GPU machine


def unpacked(folder: str) -> Path:
    path = harness.ARTIFACTS / NAME / ARCHIVE
    with tarfile.open(harness.rendered(path)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder)


def run(options: SimpleNamespace) -> dict[str, Any]:
    """Every random kernel; a launch that the driver reports as failed ends the step, for the context is lost."""
    import cupy as cp

    from lego_mlir.errors import LegoError
    from lego_mlir.runtime import cuda

    cp.cuda.set_allocator(None)  # no pool: memcheck then sees where each array ends
    wrong, done = [], Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = unpacked(name)
        recipes = json.loads((folder / "recipes.json").read_text())[: options.count]
        arrays = dict(np.load(folder / "positions.npz"))
        modules: dict[str, Any] = {}
        for recipe in recipes:
            group = recipe["group"]
            try:
                if group not in modules:
                    modules[group] = cuda.load(folder / f"{group}.ptx")
                trouble = replay(recipe, arrays, modules[group].kernel(recipe["name"]), cp)
            except (LegoError, cp.cuda.runtime.CUDARuntimeError, cp.cuda.driver.CUDADriverError) as error:
                trouble = f"{type(error).__name__}: {error}"
            done[recipe["kind"]] += 1
            if trouble:
                wrong.append({key: recipe[key] for key in ("name", "kind", "dtype", "operation", "sizes", "layouts")})
                wrong[-1]["trouble"] = trouble
                print(f"WRONG {wrong[-1]}", flush=True)
            if "CUDA" in trouble.partition(":")[0]:
                break
    print(f"{'WRONG' if wrong else 'ok'}: {sum(done.values())} random kernels, {len(wrong)} wrong")
    return {"kernels": dict(done), "asked": len(recipes), "wrong": wrong}


def refusals(cp: Any, m: int, n: int) -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Pairs of source and result that the vectorised transpose of m x n f32 must not be launched with."""
    f32, size = cp.float32, m * n

    def shifted() -> Any:
        return cp.zeros(size + 1, f32)[1:]

    def overlapping(shift: int) -> tuple[Any, Any]:
        memory = cp.zeros(2 * size, f32)
        return memory[:size], memory[shift : shift + size]

    return {
        "misaligned source": lambda: (shifted(), cp.zeros(size, f32)),
        "misaligned result": lambda: (cp.zeros(size, f32), shifted()),
        "int32 for f32": lambda: (cp.zeros(size, cp.int32), cp.zeros(size, f32)),
        "float64 for f32": lambda: (cp.zeros(size, cp.float64), cp.zeros(size, f32)),
        "shape swapped": lambda: (cp.zeros((n, m), f32), cp.zeros((n, m), f32)),
        "result is source": lambda: overlapping(0),
        "result overlaps source": lambda: overlapping(size // 2),
        "too short": lambda: (cp.zeros(size - 4, f32), cp.zeros(size, f32)),
        "not contiguous": lambda: (cp.zeros(2 * size, f32)[::2], cp.zeros(size, f32)),
        "on the host": lambda: (np.zeros(size, np.float32), cp.zeros(size, f32)),
    }


def refuse(options: SimpleNamespace) -> dict[str, Any]:
    """Each pair is refused with a message, and after it the context still launches what is right."""
    import cupy as cp

    from lego_mlir.errors import UsageError
    from lego_mlir.runtime import cuda

    said, wrong = {}, []
    m, n = 64, 128
    with tempfile.TemporaryDirectory() as name:
        launch = cuda.load(unpacked(name) / "shipped-refused.ptx").kernel()
        for case, pair in refusals(cp, m, n).items():
            try:
                launch(*pair())
                said[case] = "launched"
                wrong.append(case)
                cp.cuda.get_current_stream().synchronize()
            except UsageError as error:
                said[case] = str(error)
            print(f"{case}: {said[case]}", flush=True)
            source, target = cp.arange(m * n, dtype=cp.float32), cp.zeros(m * n, cp.float32)
            launch(source, target)
            if not bool((target.reshape(n, m) == source.reshape(m, n).T).all()):
                raise SystemExit(f"after {case} a right launch gives a wrong result")
        launch(source.reshape(m, n), target.reshape(n, m))  # the logical shapes are right as well
    print(f"{'WRONG' if wrong else 'ok'}: {len(said) - len(wrong)} of {len(said)} launches refused")
    return {"said": said, "wrong": wrong}


def shipped(options: SimpleNamespace) -> dict[str, Any]:
    """Each shipped kernel with its data, by `python -m lego_mlir.runtime`, without a memory pool."""
    import cupy as cp

    from lego_mlir.runtime.__main__ import main as check

    cp.cuda.set_allocator(None)
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        paths = [p for p in sorted(unpacked(name).glob("shipped-*.ptx")) if p.stem != "shipped-refused"]
        for path in paths:
            if check([str(path)]):
                wrong.append(path.stem)
    print(f"{'WRONG' if wrong else 'ok'}: {len(paths)} shipped kernels, {len(wrong)} wrong")
    return {"kernels": len(paths), "wrong": wrong}


def sanitize(options: SimpleNamespace) -> dict[str, Any]:
    """The other steps under each tool of compute-sanitizer."""
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        print("skipped: compute-sanitizer is not on PATH; it comes with the CUDA toolkit")
        return {"skipped": "compute-sanitizer is not there", "wrong": []}
    programs = {name: ["shipped"] for name in TOOLS}
    programs |= {"memcheck, random": ["run", f"count={SANITIZED}"]}
    programs |= {"racecheck, random": ["run", f"count={SANITIZED}"]}
    found, wrong = {}, []
    for name, words in programs.items():
        kind = name.partition(",")[0]
        command = [tool, "--tool", kind, *TOOLS[kind], "--error-exitcode", "77", sys.executable, __file__, *words]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*command, f"to={folder}"], capture_output=True, text=True, check=False)
        errors = [int(a or b) for a, b in ERRORS.findall(done.stdout)]
        found[name] = {"errors": errors, "exit_code": done.returncode}
        if done.returncode or errors != [0]:
            wrong.append(name)
            found[name]["output"] = (done.stdout + done.stderr)[-6000:]
        print(f"{name}: {errors} errors, exit code {done.returncode}", flush=True)
        print(found[name].get("output", ""), flush=True)
    return {"tools": found, "wrong": wrong}


STEPS = {step.__name__: step for step in (run, refuse, shipped, sanitize)}


def on_gpu(options: SimpleNamespace) -> int:
    """Run the steps, and keep what they found."""
    from lego_mlir.errors import DependencyError
    from lego_mlir.runtime.cuda import cupy

    try:
        cp = cupy()
    except DependencyError as error:
        print(f"skipped: {error}")
        return 0
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    path = Path(options.to, "fuzz.json") if options.to else harness.results_path(device, NAME)
    found: dict[str, Any] = {"device": device, "archive": (harness.ARTIFACTS / NAME / ARCHIVE).name}
    for name in STEPS if options.step == "all" else (options.step,):
        print(f"-- {name}", flush=True)
        found[name] = STEPS[name](options)
        harness.save(NAME, found, path)
    print(path)
    return 1 if any(found[name]["wrong"] for name in STEPS if name in found) else 0


DEFAULTS = {"count": 1000, "seed": 0, "to": ""}
"""Options of the steps: this many random kernels, their seed, and the folder of the results."""


def step(name: str) -> Callable[[Sequence[str]], int | None]:
    def run_step(words: Sequence[str]) -> int | None:
        given = runner.options(words, **DEFAULTS)
        given.step = name
        return render(given) if name == "render" else on_gpu(given)

    return run_step


BENCHMARK = runner.Benchmark(NAME, steps={name: step(name) for name in ("render", *STEPS, "all")})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
