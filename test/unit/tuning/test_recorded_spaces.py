"""On whole recorded spaces the pruning keeps the best configuration or one within 2 % of it.

The spaces were measured on an H200 by bench/tuning_spaces.py: transposes (70 configurations), products (13) and softmax
(6 to 24) at 30 sizes that the model's constants were not fitted to; and bench/nw.py's 12 configurations at 5 sizes. The
counts of transposes and products are kept beside the times: they are those of the kernels that were timed, which may
have changed since. The space of stencils is that of bench/tuned_templates.py, 176 configurations at 3 sizes. Older
recordings of products have only the candidates that another model chose, those of softmax and of 3-D stencils the
chosen configuration alone, so they are not spaces.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
WITHIN = 1.02


def bench():
    """The benchmark that recorded the spaces."""
    if "tuning_spaces" not in sys.modules:
        sys.path.insert(0, str(BENCH))
        try:
            spec = importlib.util.spec_from_file_location("tuning_spaces", BENCH / "tuning_spaces.py")
            sys.modules["tuning_spaces"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(BENCH))
    return sys.modules["tuning_spaces"]


SPACES = {f"{kind} {'x'.join(map(str, sizes))}": rows for kind, sizes, rows in bench().recorded()}


def test_the_recordings_are_whole_spaces():
    kinds = [name.split()[0] for name in SPACES]
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == {
        "matmul": 20, "transpose": 4, "softmax": 6, "Needleman-Wunsch": 5, "stencil": 3,
    }  # fmt: skip
    assert all(len(rows) >= 6 for rows in SPACES.values())
    assert [len(rows) for name, rows in SPACES.items() if name.startswith("stencil")] == [48, 64, 64]


def test_a_recorded_stencil_becomes_a_space(monkeypatch):
    times = {"layout=bricks": 20.0, "layout=row-major": 10.0}
    values = {"depth": 1, "y": 4, "x": 32, "planes": 1, "width": 1}
    configurations = {key: {**values, "layout": key.removeprefix("layout=")} for key in times}
    row = {"tunable": "diffused", "sizes": {"N": 128}, "us": times, "configurations": configurations}
    recorded = bench().mlir_kernels.latest

    def latest(name, **more):
        return {"few": False, "rows": [row]} if name == "tuned_templates" else recorded(name, **more)

    monkeypatch.setattr(bench().mlir_kernels, "latest", latest)
    (rows,) = [rows for kind, sizes, rows in bench().recorded() if (kind, sizes) == ("stencil", (128,))]
    assert {config["layout"]: (us, counts.blocks) for config, us, counts in rows} == {
        "bricks": (20.0, 128**3 // 128), "row-major": (10.0, 128**3 // 128),
    }  # fmt: skip
    assert bench().pruned(rows)[:2] == (2, 1.0)


@pytest.mark.parametrize("name", SPACES)
def test_pruning_keeps_the_best_or_one_within_2_percent(name):
    kept, least, _ = bench().pruned(SPACES[name])
    assert least <= WITHIN
    assert 1 <= kept <= len(SPACES[name])


def test_pruning_leaves_out_about_a_fifth_of_all_configurations():
    kept = sum(bench().pruned(rows)[0] for rows in SPACES.values())
    assert kept <= 0.81 * sum(map(len, SPACES.values()))


def test_the_models_first_choice_is_within_10_percent_of_the_best_at_most_sizes():
    first = sorted(bench().pruned(rows)[2] for rows in SPACES.values())
    assert first[len(first) // 2] <= 1.05
    assert sum(ratio <= 1.1 for ratio in first) >= 0.75 * len(first)


def test_the_first_choice_for_a_product_is_within_5_percent_of_the_best_at_18_of_20_sizes():
    first = [bench().pruned(rows)[2] for name, rows in SPACES.items() if name.startswith("matmul")]
    assert (sum(ratio <= 1.05 for ratio in first) >= 18, len(first)) == (True, 20)
