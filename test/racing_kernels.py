"""Random kernels that stage, exchange and store data, some right and some wrong, and mutants of them.

A kernel is a list of lines; each choice of an index, a barrier, a guard or a launch is mostly a right one. `mutants`
breaks a kernel in one place: a barrier dropped or moved, an index off by one or swapped, a stride, a mask, the block.
What is wrong about it is left to the interpreter.
"""

import random
import re
from dataclasses import dataclass

import lego_mlir as lego
from lego_mlir import Row, f32, gallery, i32

NAMES = {"lego": lego, "Row": Row, "f32": f32, "i32": i32, "gallery": gallery}
SIZES = (1, 7, 32, 33, 64, 100, 200)


@dataclass(frozen=True)
class Case:
    """A kernel as text."""

    block: tuple[int, ...]
    grid: str
    lines: tuple[str, ...]
    tile: str = "Row(T)"

    def text(self) -> str:
        threads = " * ".join(map(str, self.block))
        thread = "lego.thread_id[0]"
        if len(self.block) == 2:
            thread += f" + {self.block[0]} * lego.thread_id[1]"
        head = [
            f"T = {THREADS}",
            'M, N = lego.size("M"), lego.size("N")',
            f"@lego.kernel(grid={self.grid}, block={self.block})  # {threads} threads",
            "def k(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), z: lego.Tensor(f32, Row(M, N)),",
            "      w: lego.Tensor(f32, Row(8, 32))):",
            f"    b, t, total = lego.block_id[0], {thread}, lego.register(f32, 0.0)",
            f'    tile = lego.shared(f32, {self.tile}, name="tile")',
        ]
        if any("ring" in line for line in self.lines):
            head.append('    ring = lego.shared(f32, Row(12, 32), name="ring")')
        return "\n".join([*head, *(f"    {line}" for line in self.lines), ""])

    def kernel(self) -> lego.Kernel:
        names = dict(NAMES)
        exec(compile(self.text(), "<racing>", "exec"), names)
        return names["k"]


THREADS = 32  # of a block, unless a choice or a mutation makes it another


def drawn(rng: random.Random) -> Case:
    """A random kernel."""
    block = rng.choice([(32,), (32,), (64,), (16,), (16, 2), (8, 4), (8, 8)])
    threads = block[0] * (block[1] if len(block) == 2 else 1)
    tile = rng.choice(["Row(64)", "gallery.reverse(64)" if hasattr(gallery, "reverse") else "Row(64)"])
    lines: list[str] = []
    for _ in range(rng.randint(0, 2)):
        lines += _steps(rng, threads)
    own_grid = rng.random() < 0.25
    lines += _store(rng, threads, own_grid)
    grid = "3" if own_grid else f"lego.cdiv(N, {threads})"
    return Case(block, grid, tuple(lines), tile)


def _mostly(rng: random.Random, right: list[str], wrong: list[str]) -> str:
    return rng.choice(right if rng.random() < 0.8 else wrong)


def _own(rng: random.Random, threads: int) -> str:
    """An index that is another for each thread, mostly."""
    n = threads
    right = ["t", f"{n - 1} - t", f"(t + 5) % {n}", f"(5 * t + 1) % {n}", "t ^ 1", f"t // 4 + {n // 4} * (t % 4)"]
    return _mostly(rng, right, ["t // 2", f"(2 * t) % {n}", f"t % {n // 2}", "t * t % 32", "0"])


def _any(rng: random.Random, threads: int) -> str:
    """An index of what some thread has written."""
    return rng.choice([f"(t + {rng.randint(1, 9)}) % {threads}", f"{threads - 1} - t", "t ^ 3", "t // 2", "0", "t"])


def _steps(rng: random.Random, threads: int) -> list[str]:
    kinds = [_exchange, _exchange, _reduction, _loop, _strided, _pipeline, _clamped, _copied, _repeated, _by_warp]
    return rng.choice(kinds)(rng, threads)


def _barrier(rng: random.Random, right: str = "lego.barrier()") -> list[str]:
    return [] if rng.random() < 0.08 else ["lego.warp_sync()"] if rng.random() < 0.08 else [right]


def _exchange(rng: random.Random, threads: int) -> list[str]:
    guarded = rng.random() < 0.15
    store = f"tile[{_own(rng, threads)}] = x.halo()[b * {threads} + t]"
    stores = [f"with lego.when(t < {rng.choice([threads, threads, threads // 2])}):", f"    {store}"]
    lines = [*(stores if guarded else [store]), *_barrier(rng), f"total += tile[{_any(rng, threads)}]"]
    return [*lines, *_barrier(rng)]


def _reduction(rng: random.Random, threads: int) -> list[str]:
    lines, distance = ["tile[t] = total", *_barrier(rng)], threads // 2
    while distance:
        lines += [f"with lego.when(t < {distance}):", f"    tile[t] = tile[t] + tile[t + {distance}]", *_barrier(rng)]
        distance //= rng.choice([2, 4])
    return [*lines, "total += tile[0]", *_barrier(rng)]


def _loop(rng: random.Random, threads: int) -> list[str]:
    inside = _exchange(rng, threads)
    end = rng.choice(["3", "M", "lego.cdiv(N, 32)", "M + 1"])
    return [f"for k in lego.range({end}):", *(f"    {line}" for line in inside)]


def _strided(rng: random.Random, threads: int) -> list[str]:
    step = _mostly(rng, [str(threads)], [str(threads // 2), str(2 * threads)])
    first = [f"for i in lego.range(t, 64, {step}):", "    tile[i] = x.halo()[i]"]
    if rng.random() < 0.5 and threads < 64:
        count = 64 // threads
        first = [f"for r in range({count}):", f"    tile[t + {step} * r] = x.halo()[t]"]
    return [*first, *_barrier(rng), f"total += tile[(t + {rng.randint(0, 40)}) % 64]", *_barrier(rng)]


def _pipeline(rng: random.Random, threads: int) -> list[str]:
    if threads > 32:
        return _exchange(rng, threads)
    stages = _mostly(rng, ["2"], ["1"])
    body = [
        *_barrier(rng), f"tile[(k + 1) % {stages} * {threads} + t] = x.halo()[t]",
        f"total += tile[k % {stages} * {threads} + {threads - 1} - t]",
    ]  # fmt: skip
    return [
        "tile[t] = 1.0",
        f"for k in lego.range({rng.choice(['4', 'M'])}):",
        *(f"    {x}" for x in body),
        *_barrier(rng),
    ]


def _clamped(rng: random.Random, threads: int) -> list[str]:
    """Unrolled reads at the edges of a tile, and a write after them."""
    count, border = rng.randint(2, 3), rng.choice(["clamp", "clamp", "wrap", "zero"])
    first = rng.choice([f"t - {rng.randint(0, 2)}", f"t + {64 - threads + rng.randint(-2, 2)}", f"{threads} - 2 * t"])
    lines = [f"for r in range({max(1, 64 // threads)}):", f"    tile[t + {threads} * r] = x.halo()[t]"]
    lines += [*_barrier(rng), f"for r in range({count}):", f'    total += tile.halo("{border}")[{first} + r]']
    return [*lines, *_barrier(rng), *rng.choice([[], ["tile[t] = total", *_barrier(rng)]])]


def _copied(rng: random.Random, threads: int) -> list[str]:
    """Asynchronous copies, unrolled, then read in another order, perhaps while the next ones are in flight."""
    count, held = rng.choice([1, 2, 3, 3]), rng.choice([0, 0, 1])
    slot = _mostly(rng, ["4 * r"], ["0", "4 * (r // 2)"])
    lines = [
        f"for r in range({count}):",
        f"    lego.copy_async(w, ring.part(({slot}, 0), (4, 32)), at=({rng.choice(['0', '4'])}, 0))",
        "    lego.commit_copies()",
        f"lego.wait_copies({held})",
        *_barrier(rng),
        f"total += ring[{_mostly(rng, [str(rng.randrange(max(1, count - held)) * 4)], ['4', '8'])} + t % 4, t // 4]",
    ]
    if held and rng.random() < 0.8:
        lines += ["lego.wait_copies()", *_barrier(rng), f"total += ring[{4 * count - 4} + t % 4, t // 4]"]
    return [*lines, *_barrier(rng)]


def _repeated(rng: random.Random, threads: int) -> list[str]:
    """A while, which may have no round for some sizes or threads, and whose accesses are after or before others."""
    start = rng.choice(["True", "M > 1", "M > 40", "t < 16", "t >= 0"])
    initialised = _mostly(rng, [f"tile[{_own(rng, threads)}] = 1.0"], ["pass"])
    inside = rng.choice([f"tile[{_own(rng, threads)}] = total", f"total += tile[{_any(rng, threads)}]"])
    body = [inside, *rng.choice([[], [], _barrier(rng), ["lego.warp_sync()"]])]
    return [
        initialised, *_barrier(rng),
        f"running, rounds = lego.register(lego.i1, {start}), lego.register(i32, 0)",
        "with lego.while_(running):",
        *(f"    {line}" for line in body),
        "    rounds += 1",
        f"    running.set(rounds < {rng.choice(['1', '3', '3', 'M'])})",
        *_barrier(rng), f"total += tile[{_any(rng, threads)}]", *_barrier(rng),
    ]  # fmt: skip


def _by_warp(rng: random.Random, threads: int) -> list[str]:
    """A shuffle or vote, which all lanes of a warp reach, mostly."""
    what = rng.choice(["lego.shuffle_xor(total, 1)", "lego.shuffle_down(total, 2)", "lego.shuffle(total, 0)"])
    guard = _mostly(rng, ["t < 32", "M > 3", "t // 32 == 0"], ["t < 16", "t % 2 == 0"])
    lines = [f"total += {what}"]
    return lines if rng.random() < 0.3 else [f"with lego.when({guard}):", *(f"    {line}" for line in lines)]


def _store(rng: random.Random, threads: int, own_grid: bool) -> list[str]:
    i = f"b * {threads} + t"
    if own_grid:
        step = _mostly(rng, [f"3 * {threads}"], [str(threads), f"4 * {threads}", f"2 * {threads}"])
        return [f"for i in lego.range({i}, N, {step}):", "    y[i] = total"]
    forms = [
        [f"y.tile_by([lego.cdiv(N, {threads})], [{threads}])[b, t] = total"],
        [f"with lego.when({i} < N):", f"    y[{i}] = total"],
        [f"y.halo()[b * {threads} + {_own(rng, threads)}] = total"],
        ["for m in lego.range(M):", f"    z.halo()[m, {i}] = total"],
        [f"with lego.when(({i} < N) & (t % 2 == 0)):", f"    y[{i}] = total",
         f"with lego.when(({i} < N) & (t % 2 == 1)):", f"    y[{i}] = total"],
        [f"y.halo()[b * {threads} + t // 2] = total", f"y.halo()[b * {threads} + {threads // 2} + t // 2] = total"],
        ["for r in range(2):", f"    y.halo()[b * {threads} + t + {threads // 2} * r] = total"],
    ]  # fmt: skip
    return forms[rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 6])]


# ---- mutants


CHANGES = (
    (r"\bt\b", "(t + 1)"),
    (r"\bt\b", "(t // 2)"),
    (r"\b(\d+) \* t\b", r"(\1 + 1) * t"),
    (r"\bb \* (\d+)", r"b * (\1 - 1)"),
    (r"< N\b", "< N + 1"),
    (r"< (\d+)\b", r"< 2 * \1"),
    (r"\b(t \+ \d+)", r"(\1 + 1)"),
    (r"(\d+)\)\s*:$", r"\1 // 2):"),
    (r"\[k % ", "[(k + 1) % "),
    (r"\bb, t\b", "t, b"),
)
"""What a mutant changes in a line: offsets, strides, masks, limits, the order of an index."""


def mutants(case: Case, rng: random.Random) -> list[Case]:
    """The case with one thing changed, a mutant for each kind of change that applies."""
    found = []
    barriers = [k for k, line in enumerate(case.lines) if "barrier()" in line]
    if barriers:
        k = rng.choice(barriers)
        found.append(_with(case, [line if n != k else _indent(line) + "pass" for n, line in enumerate(case.lines)]))
        found.append(_with(case, _moved(case.lines, k, rng)))
    for pattern, change in CHANGES:
        places = [n for n, line in enumerate(case.lines) if re.search(pattern, line)]
        if places:
            n = rng.choice(places)
            found.append(
                _with(case, [re.sub(pattern, change, x, count=1) if k == n else x for k, x in enumerate(case.lines)])
            )
    found.append(Case((max(1, case.block[0] // 2), *case.block[1:]), case.grid, case.lines, case.tile))
    return found


def _with(case: Case, lines: list[str]) -> Case:
    return Case(case.block, case.grid, tuple(lines), case.tile)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _moved(lines: tuple[str, ...], k: int, rng: random.Random) -> list[str]:
    """The barrier of line k one or more lines earlier, with the indentation of the line that it comes before."""
    rest = [line if n != k else _indent(line) + "pass" for n, line in enumerate(lines)]
    at = rng.randrange(0, k + 1)
    return [*rest[:at], _indent(rest[at]) + lines[k].strip(), *rest[at:]]
