"""On whole recorded spaces the pruning keeps the best configuration or one within 2 % of it.

The spaces were measured on an H200 by bench/tuning_spaces.py: transposes (70 configurations), products (13) and softmax
(6 to 24) at 30 sizes that the model's constants were not fitted to; and bench/nw.py's 12 configurations at 5 sizes. The
counts of transposes and products are kept beside the times: they are those of the kernels that were timed, which may
have changed since. The space of stencils is that of bench/tuned_templates.py, 176 configurations at 3 sizes. Older
recordings of products have only the candidates that another model chose, those of softmax and of 3-D stencils the
chosen configuration alone, so they are not spaces.
"""

import pytest
import tuning_spaces

WITHIN = 1.02


SPACES = {f"{kind} {'x'.join(map(str, sizes))}": rows for kind, sizes, rows in tuning_spaces.recorded()}


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
    recorded = tuning_spaces.mlir_kernels.latest

    def latest(name, **more):
        return {"few": False, "rows": [row]} if name == "tuned_templates" else recorded(name, **more)

    monkeypatch.setattr(tuning_spaces.mlir_kernels, "latest", latest)
    (rows,) = [rows for kind, sizes, rows in tuning_spaces.recorded() if (kind, sizes) == ("stencil", (128,))]
    assert {config["layout"]: (us, counts.blocks) for config, us, counts in rows} == {
        "bricks": (20.0, 128**3 // 128), "row-major": (10.0, 128**3 // 128),
    }  # fmt: skip
    assert tuning_spaces.pruned(rows)[:2] == (2, 1.0)


@pytest.mark.parametrize("name", SPACES)
def test_pruning_keeps_the_best_or_one_within_2_percent(name):
    kept, least, _ = tuning_spaces.pruned(SPACES[name])
    assert least <= WITHIN
    assert 1 <= kept <= len(SPACES[name])


def test_pruning_leaves_out_about_a_fifth_of_all_configurations():
    kept = sum(tuning_spaces.pruned(rows)[0] for rows in SPACES.values())
    assert kept <= 0.81 * sum(map(len, SPACES.values()))


def test_the_models_first_choice_is_within_10_percent_of_the_best_at_most_sizes():
    first = sorted(tuning_spaces.pruned(rows)[2] for rows in SPACES.values())
    assert first[len(first) // 2] <= 1.05
    assert sum(ratio <= 1.1 for ratio in first) >= 0.75 * len(first)


def test_the_first_choice_for_a_product_is_within_5_percent_of_the_best_at_18_of_20_sizes():
    first = [tuning_spaces.pruned(rows)[2] for name, rows in SPACES.items() if name.startswith("matmul")]
    assert (sum(ratio <= 1.05 for ratio in first) >= 18, len(first)) == (True, 20)
