"""Random programs in LL, as text: several statements on shared operands, with names that generated code uses too."""

import random

NAMES = [
    "int", "for", "c0", "c2", "k0", "t0", "t1", "copy0", "one", "row", "column", "i0", "r1", "A_full", "x", "A", "B",
    "S", "L", "mask1", "true", "double", "_", "func", "chol", "inv", "symmetric", "tril", "Matrix", "kernel", "class",
]  # fmt: skip
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 24, 25, 31, 32, 33, 37, 40)
SQUARE = (
    "Matrix({n}, {n}", "LowerTriangular({n}", "UpperTriangular({n}", "UnitLower({n}", "UnitUpper({n}",
    "Symmetric(L, {n}", "Symmetric(U, {n}", "Diagonal({n}", "Tridiagonal({n}", "Banded({n}, {n}, {a}, {b}",
    "SymmetricBanded(L, {n}, {a}", "SymmetricBanded(U, {n}, {a}", "Identity({n}", "Zero({n}, {n}",
)  # fmt: skip
STORAGES = ("", "", ", storage=column_major", ", storage=packed", ", storage=packed_columns")


class Draw:
    """One random program: its operands by name, as (rows, columns, type)."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sizes = [*self.random.choices(SIZES, k=2), 1]
        self.operands = {}
        for name in self.random.sample(NAMES, self.random.randint(3, 7)):
            rows, columns = self.random.choice(self.sizes), self.random.choice(self.sizes)
            self.operands[name] = rows, columns, self.type(rows, columns)

    def type(self, rows, columns):
        storage = self.random.choice(STORAGES)
        if rows == columns and self.random.random() < 0.8:
            a, b = self.random.randint(0, 3), self.random.randint(0, 3)
            return self.random.choice(SQUARE).format(n=rows, a=a, b=b) + storage + ")"
        if columns == 1:
            return f"Vector({rows})" if rows > 1 else "Scalar()"
        return f"Matrix({rows}, {columns}{storage})"

    def leaf(self, rows, columns):
        fitting = [name for name, (m, n, _) in self.operands.items() if (m, n) == (rows, columns)]
        fitting += [f"{name}'" for name, (m, n, _) in self.operands.items() if (n, m) == (rows, columns)]
        return self.random.choice(fitting) if fitting else None

    def expression(self, rows, columns, depth):
        """The text of an expression of this shape, None where the operands make none."""
        choice = self.random.random()
        if depth <= 0 or choice < 0.25:
            return self.leaf(rows, columns)
        if choice < 0.5:
            return self.joined(self.random.choice("+-"), (rows, columns), (rows, columns), depth)
        if choice < 0.75:
            inner = self.random.choice(self.sizes)
            return self.joined("*", (rows, inner), (inner, columns), depth)
        argument = self.expression(rows, columns, depth - 1)
        if argument is None:
            return None
        if choice < 0.82:
            return f"(-{self.random.choice(['2', '0.5', '1e-3'])} * {argument})"
        if rows == columns and choice < 0.95:
            return f"{self.random.choice(['tril', 'triu', 'unit_tril', 'unit_triu', 'symmetric'])}({argument})"
        triangle = self.leaf(rows, rows)
        return triangle and f"({self.random.choice(['tril', 'triu'])}({triangle}) \\ {argument})"

    def joined(self, sign, left, right, depth):
        first, second = self.expression(*left, depth - 1), self.expression(*right, depth - 1)
        return f"({first} {sign} {second})" if first and second else None

    def text(self):
        """The whole program, None where no statement came about."""
        statements = []
        for _ in range(self.random.randint(1, 3)):
            target = self.random.choice(list(self.operands))
            value = self.expression(*self.operands[target][:2], self.random.randint(1, 3))
            statements += [f"{target} = {value};"] if value else []
        declared = [f"{name} = {kind};" for name, (_, _, kind) in self.operands.items()]
        return " ".join([*declared, *statements]) if statements else None
