"""Random programs of nested branches and loops: all lanes in lockstep compute what each thread would compute alone.

A program is drawn once and written twice: as MLIR, run in the interpreter (also after `convert-scf-to-cf`, as branches
between blocks), and as a walk over its tree for one thread after the other.
"""

# ruff: noqa: E501  (MLIR reads better unbroken)
import numpy as np
import pytest

from lego_mlir import bindings, interp

THREADS, BLOCKS = 40, 3
PROGRAMS, MANY = 25, 600
MODULUS = 1009


class Program:
    """Statements in single assignment: `(name, kind, ...)`; a nested region is `(statements, result)`."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0
        self.body = self.region(["t", "b", "x"], depth=3)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, known: list[str]) -> str:
        return str(self.rng.choice(known[-6:]))

    def region(self, known: list[str], depth: int) -> tuple[list, str]:
        known, statements = list(known), []
        for _ in range(int(self.rng.integers(1, 4))):
            statements.append(self.statement(known, depth))
            known.append(statements[-1][0])
        return statements, known[-1]

    def statement(self, known: list[str], depth: int) -> tuple:
        kind = str(
            self.rng.choice(["add", "mul", "xor"] if depth == 0 else ["add", "xor", "if", "for", "while", "store"])
        )
        name, a, b = self.fresh(), self.pick(known), self.pick(known)
        match kind:
            case "if":
                return name, kind, a, b, self.region(known, depth - 1), self.region(known, depth - 1)
            case "for":
                index, carried = self.fresh(), self.fresh()
                return name, kind, a, b, index, carried, self.region([*known, index, carried], depth - 1)
            case "while":
                left, carried = self.fresh(), self.fresh()
                return name, kind, a, b, left, carried, self.region([*known, carried], depth - 1)
            case _:
                return name, kind, a, b

    def text(self) -> str:
        return f"""gpu.module @m {{ gpu.func @k(%in: memref<{BLOCKS}x{THREADS}xindex>, %out: memref<{BLOCKS}x{THREADS}xindex>,
            %side: memref<{BLOCKS}x{THREADS}xindex>) kernel {{
          %t = gpu.thread_id x
          %b = gpu.block_id x
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %x = memref.load %in[%b, %t] : memref<{BLOCKS}x{THREADS}xindex>
          {self.lines(self.body[0])}
          memref.store %{self.body[1]}, %out[%b, %t] : memref<{BLOCKS}x{THREADS}xindex>
          gpu.return }} }}"""

    def lines(self, statements: list) -> str:
        return "\n".join(self.line(*statement) for statement in statements)

    def line(self, name: str, kind: str, a: str, b: str, *rest) -> str:
        combined = f"%{name} = affine.apply affine_map<(d0, d1) -> ((d0 {{}} d1) mod {MODULUS})>(%{a}, %{b})"
        match kind:
            case "add":
                return combined.format("+")
            case "mul":
                return f"%{name}p = arith.muli %{a}, %{b} : index\n%{name} = affine.apply affine_map<(d0) -> (d0 mod {MODULUS})>(%{name}p)"
            case "xor":
                return f"%{name} = arith.xori %{a}, %{b} : index"
            case "store":
                memref = f"memref<{BLOCKS}x{THREADS}xindex>"
                return f"""%{name}o = memref.load %side[%b, %t] : {memref}
                    %{name} = arith.xori %{name}o, %{a} : index
                    memref.store %{name}, %side[%b, %t] : {memref}"""
            case "if":
                (yes, one), (no, other) = rest
                return f"""%{name}c = arith.cmpi ult, %{a}, %{b} : index
                    %{name} = scf.if %{name}c -> index {{ {self.lines(yes)}
                      scf.yield %{one} : index }} else {{ {self.lines(no)}
                      scf.yield %{other} : index }}"""
            case "for":
                index, carried, (body, result) = rest
                return f"""%{name}n = affine.apply affine_map<(d0) -> (d0 mod 4)>(%{a})
                    %{name} = scf.for %{index} = %c0 to %{name}n step %c1 iter_args(%{carried} = %{b}) -> index {{
                      {self.lines(body)}
                      scf.yield %{result} : index }}"""
            case _:
                left, carried, (body, result) = rest
                return f"""%{name}n = affine.apply affine_map<(d0) -> (d0 mod 3)>(%{a})
                    %{name}r:2 = scf.while (%{left} = %{name}n, %{carried}i = %{b}) : (index, index) -> (index, index) {{
                      %{name}g = arith.cmpi ne, %{left}, %c0 : index
                      scf.condition(%{name}g) %{left}, %{carried}i : index, index
                    }} do {{ ^bb0(%{left}d: index, %{carried}: index):
                      {self.lines(body)}
                      %{name}s = arith.subi %{left}d, %c1 : index
                      scf.yield %{name}s, %{result} : index, index }}
                    %{name} = arith.addi %{name}r#1, %c0 : index"""

    def one_thread(self, thread: int, block: int, x: int) -> tuple[int, int]:
        side = [0]
        found = self.run(self.body, {"t": thread, "b": block, "x": x}, side)
        return found, side[0]

    def run(self, region: tuple[list, str], known: dict[str, int], side: list[int]) -> int:
        known = dict(known)
        for name, kind, a, b, *rest in region[0]:
            left, right = known[a], known[b]
            match kind:
                case "add":
                    value = (left + right) % MODULUS
                case "mul":
                    value = left * right % MODULUS
                case "xor":
                    value = left ^ right
                case "store":
                    value = side[0] = side[0] ^ left
                case "if":
                    value = self.run(rest[0] if left < right else rest[1], known, side)
                case "for":
                    value = right
                    for i in range(left % 4):
                        value = self.run(rest[2], {**known, rest[0]: i, rest[1]: value}, side)
                case _:
                    value = right
                    for _ in range(left % 3):
                        value = self.run(rest[2], {**known, rest[1]: value}, side)
            known[name] = value
        return known[region[1]]


def check(seed: int) -> None:
    program = Program(seed)
    x = np.random.default_rng(seed).integers(0, 100, (BLOCKS, THREADS))
    expected = np.array([[program.one_thread(t, b, int(x[b, t])) for t in range(THREADS)] for b in range(BLOCKS)])
    mlir = bindings.load()
    module = mlir.ir.Module.parse(program.text(), mlir.ir.Context())
    for lowered in (False, True):
        if lowered:
            with module.context:
                mlir.passmanager.PassManager.parse("builtin.module(convert-scf-to-cf)").run(module.operation)
        out, side = np.zeros_like(x), np.zeros_like(x)
        report = interp.launch(module, grid=BLOCKS, block=THREADS, args=[x, out, side])
        assert report.clean, (seed, lowered, report.faults)
        assert np.array_equal(out, expected[..., 0]), (seed, lowered)
        assert np.array_equal(side, expected[..., 1]), (seed, lowered)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_lockstep_is_each_thread_alone(seed: int):
    check(seed)


@pytest.mark.long
def test_lockstep_is_each_thread_alone_in_many_programs():
    for seed in range(PROGRAMS, MANY):
        check(seed)
