"""Attention of packed sequences and its gradients against NumPy, with empty sequences and ones of odd lengths."""

import itertools

import numpy as np
import pytest
from assembling import machine_code, needs_ptxas
from attention_oracle import attended

from lego_mlir import bf16
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import packed_attention, packed_gradients
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile
from lego_mlir.toolchain import compile_kernel

ODD = [0, 70, 70, 75, 205], [0, 70, 80, 85, 90]  # no queries of the second sequence; fewer keys than queries at last
EMPTY = [0, 0, 100, 150], [0, 3, 90, 90]  # no keys of the last sequence
FORMS = [
    (AttentionForm(causal=True, group=2), ODD),
    (AttentionForm(features=128, dtype=bf16, causal=False), EMPTY),
    (AttentionForm(causal=True, window=20, group=2), ODD),
]
MANY = AttentionForm(causal=False), ([0, *itertools.accumulate([3, 0, 1] * 12)],) * 2  # in fewer blocks


class Packed:
    """Drawn sequences, and what is expected of them in f64."""

    def __init__(self, form, starts, heads=1):
        random, self.form, self.starts = np.random.default_rng(0), form, starts
        queries, keys = ((starts[0][-1], heads * form.group), (starts[1][-1], heads))
        shapes = [(*n, form.features) for n in (queries, keys, keys, queries)]
        self.q, self.k, self.v, self.do = (random.normal(size=shape).astype(form.dtype.numpy) for shape in shapes)
        self.o, self.dq, self.dk, self.dv = (np.zeros(shape) for shape in (shapes[0], shapes[0], shapes[1], shapes[2]))
        self.lse = np.full(queries[::-1], np.inf)
        for rows, columns in zip(*([slice(*pair) for pair in itertools.pairwise(x)] for x in starts), strict=True):
            if rows.start < rows.stop and columns.start < columns.stop:
                self._expect(rows, columns)

    def _expect(self, rows, columns):
        q, do, k, v = (
            x[part].swapaxes(0, 1)
            for x, part in ((self.q, rows), (self.do, rows), (self.k, columns), (self.v, columns))
        )
        queries, keys = q.shape[1], k.shape[1]
        row, column = np.indices((queries, keys))
        one = attended(q, k, v, self.form.allowed(row + (keys - queries) * self.form.causal, column, keys))
        self.lse[:, rows] = one.lse
        dq, dk, dv = one.gradients(do)
        for target, part, x in (
            (self.o, rows, one.o),
            (self.dq, rows, dq),
            (self.dk, columns, dk),
            (self.dv, columns, dv),
        ):
            target[part] = x.swapaxes(0, 1)

    def run(self, kernels, names):
        """Run kernels, and return the arrays of these names."""
        arrays = {name: getattr(self, name) for name in ("q", "k", "v", "do")}
        arrays |= {f"starts_{x}": np.array(starts, np.int32) for x, starts in zip("qk", self.starts, strict=True)}
        rows = self.lse.shape
        arrays |= {"o": self.o.astype(self.q.dtype), "lse": self.lse.astype(np.float32)}
        arrays |= {"delta": np.zeros(rows, np.float32), "sums": np.full((*rows, self.form.features), 7, np.float32)}
        arrays |= {name: np.full(getattr(self, name).shape, 7, arrays.get(name, self.q).dtype) for name in names}
        sizes = {"T": len(self.q), "S": len(self.k), "B": len(self.starts[0]) - 1}
        for kernel in kernels:
            given = {p.name: arrays[p.name].reshape(-1) for p in kernel.params}
            steps = {f"{p.name}_head": self.form.features for p in kernel.params}
            steps |= {f"{name}_row": arrays[name][0].size for name in given}
            values = {s.name: (sizes | steps)[s.name] for s in kernel.sizes}
            report = PtxRun(target="sm_90a")(kernel, given, values)
            assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
        return [arrays[name].astype(np.float64) for name in names]


def tolerance(form):
    return 2**-6 if form.dtype == bf16 else 2**-9


@pytest.mark.parametrize(("form", "starts", "groups"), [*((*form, 2) for form in FORMS), (*MANY, 1)])
def test_results_of_packed_sequences(form, starts, groups):
    packed = Packed(form, starts)
    o, lse = packed.run([packed_attention.build(form, 1, AttentionTile(groups, 64))], ["o", "lse"])
    assert np.abs(o - packed.o).max() <= tolerance(form) * np.abs(packed.o).max()
    finite = np.isfinite(packed.lse)
    assert np.array_equal(np.isfinite(lse), finite)
    assert np.abs(lse[finite] - packed.lse[finite]).max() < 2**-8


@pytest.mark.parametrize(("form", "starts"), [pytest.param(*FORMS[0], marks=pytest.mark.long), *FORMS[1:]])
def test_gradients_of_packed_sequences(form, starts):
    packed, kernels = Packed(form, starts), packed_gradients.build(form, 1)
    names = ["dq", "dk", "dv"]
    found = packed.run([kernels.prepare, kernels.main, kernels.round], names)
    for name, gradient in zip(names, found, strict=True):
        wanted = getattr(packed, name)
        assert np.abs(gradient - wanted).max() <= tolerance(form) * np.abs(wanted).max(), name


def test_gradients_of_wide_heads_are_refused():
    with pytest.raises(UsageError, match=r"heads of 64 or 128 features.*got 256"):
        packed_gradients.build(AttentionForm(features=256))


@needs_ptxas
@pytest.mark.parametrize("features", [64, 128])
@pytest.mark.parametrize("build", [packed_attention.build, lambda *form: packed_gradients.build(*form).main],
                         ids=["results", "gradients"])  # fmt: skip
def test_the_machine_code_serializes_nothing(build, features):
    machine_code(compile_kernel(build(AttentionForm(features=features, causal=True), 16), target="sm_90a").text)
