"""`lego-mlir tune` for a recipe and for a folder of packed candidates."""

import json
from pathlib import Path

import pytest

from lego_mlir import spec
from lego_mlir.cli import main as cli
from lego_mlir.cli.main import BAD_INPUT, DONE
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.tuning import gpu_workbench, packed, recipes
from lego_mlir.tuning.candidates import PredictedTime
from lego_mlir.tuning.timings import TimingStore
from lego_mlir.tuning.workbench import made_up_workbench

pytestmark = pytest.mark.usefixtures("fresh_cache")  # timings are stored there
SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.tune(space={"threads": [64, 128], "each": [1, 2]}, key=["N"])
def doubled(threads, each):
    N = lego.size("N")
    @lego.kernel(grid=lego.cdiv(N, threads * each), block=threads)
    def double(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        for k in lego.unroll(each):
            i = (lego.block_id.x * each + k) * threads + lego.thread_id.x
            with lego.when(i < N):
                y[i] = 2 * x[i]
    @double.reference
    def expected(x):
        return 2 * x
    return double
"""
RECIPE = {
    "format": 1, "spec": "spec.py", "tunable": "doubled", "sizes": [{"N": 1000}, {"N": 3000}], "export": "choices.json",
}  # fmt: skip


def seconds_of(configuration, sizes):
    best = 64 if sizes["N"] == 1000 else 128
    return 1e-5 * (1 + (configuration["threads"] != best) + 0.5 * (configuration["each"] != 2))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spec.py").write_text(SPEC)
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    return tmp_path


def call(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_recipe_measures_its_sizes_and_writes_choices_with_its_digest(folder, capsys, monkeypatch):
    monkeypatch.setattr(gpu_workbench, "gpu_workbench", lambda *_, **__: made_up_workbench(seconds_of))
    store = folder / "timings.jsonl"
    code, out, _ = call(capsys, "tune", folder / "recipe.json", "--gpus", 2, "--store", store)
    assert code == DONE
    assert out.startswith("doubled: 2 sizes")
    assert len(list(TimingStore(store))) == 8
    choices = json.loads((folder / "choices.json").read_text())
    assert choices["recipe"] == recipes.read(folder / "recipe.json").digest
    assert [(row["sizes"]["N"], row["configuration"]["threads"]) for row in choices["choices"]] == [
        (1000, 64), (3000, 128),
    ]  # fmt: skip


def test_the_digest_of_a_recipe_follows_what_decides_the_table(folder):
    before = recipes.read(folder / "recipe.json").digest
    for change in ({"sizes": [{"N": 1000}]}, {"budget": "5s"}):
        (folder / "recipe.json").write_text(json.dumps({**RECIPE, **change}))
        assert recipes.read(folder / "recipe.json").digest != before
    (folder / "recipe.json").write_text(json.dumps({**RECIPE, "export": "elsewhere.json"}))
    assert recipes.read(folder / "recipe.json").digest == before
    (folder / "spec.py").write_text(SPEC + "\n")
    assert recipes.read(folder / "recipe.json").digest != before


@pytest.mark.tools
def test_candidates_are_packed_here_and_measured_there_without_the_spec(folder, capsys, monkeypatch):
    where = folder / "candidates"
    code, out, _ = call(capsys, "tune", folder / "recipe.json", "--pack", where, "--target", "sm_80")
    assert (code, out) == (DONE, f"{where}: 2 sizes, 8 candidates, 0 of them failed to compile\n")
    assert packed.read(where).recipe == recipes.read(folder / "recipe.json").digest
    code, out, _ = call(capsys, "tune", folder / "spec.py", "--size", "N=5000", "--pack", where, "--target", "sm_80")
    assert packed.read(where).recipe == ""  # the folder has a size that the recipe does not name
    assert out.startswith(f"{where}: 3 sizes, 12 candidates")
    (folder / "spec.py").unlink()
    monkeypatch.setattr(packed.PackedCandidates, "workbench", lambda self, device: made_up_workbench(seconds_of))
    store, choices = folder / "timings.jsonl", folder / "elsewhere.json"
    code, out, _ = call(capsys, "tune", where, "--trust", "--gpus", 2, "--store", store, "--export", choices, "--json")
    rows = json.loads(out)["sizes"]
    assert code == DONE
    assert [(row["sizes"]["N"], row["configuration"]["threads"]) for row in rows] == [
        (1000, 64), (3000, 128), (5000, 128),
    ]  # fmt: skip
    assert len(json.loads(choices.read_text())["choices"]) == 3


@pytest.mark.tools
def test_a_table_of_packed_candidates_keeps_the_digest_of_the_recipe(folder, capsys, monkeypatch):
    where, digest = folder / "candidates", recipes.read(folder / "recipe.json").digest
    call(capsys, "tune", folder / "recipe.json", "--pack", where, "--target", "sm_80")
    monkeypatch.setattr(packed.PackedCandidates, "workbench", lambda self, device: made_up_workbench(seconds_of))
    code, _, _ = call(
        capsys, "tune", where, "--trust", "--store", folder / "t.jsonl", "--export", folder / "choices.json"
    )
    assert (code, json.loads((folder / "choices.json").read_text())["recipe"]) == (DONE, digest)


BAD = {
    '{"format": 2}': '"format": 1',
    json.dumps({**RECIPE, "size": 3}): "a recipe has no 'size'; it has format, spec",
    json.dumps({k: v for k, v in RECIPE.items() if k != "export"}): "the recipe has no 'export'",
    json.dumps({**RECIPE, "sizes": []}): '"sizes" is a list such as',
    json.dumps({**RECIPE, "sizes": [{"N": 0}]}): "with ints of 1 to 2.48",
    json.dumps({**RECIPE, "sizes": [{"N": 4}, {"N": 4}]}): "are listed twice",
    "{": "not a recipe in JSON",
    json.dumps({**RECIPE, "sizes": [{"N": 10**30}]}): "with ints of 1 to 2.48",
    json.dumps({**RECIPE, "spec": 3}): "'spec' is a text, got 3",
    json.dumps({**RECIPE, "budget": 3}): "'budget' is a text, got 3",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_recipe_is_refused(tmp_path, text):
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(SpecError, match=BAD[text]):
        recipes.read(tmp_path / "recipe.json")


def test_options_that_do_not_go_together_are_refused(folder, capsys):
    code, _, err = call(capsys, "tune", folder / "recipe.json", "--size", "N=4")
    assert (code, "leave out --size and --kernel" in err) == (BAD_INPUT, True)
    code, _, err = call(capsys, "tune", folder / "recipe.json", "--pack", folder / "candidates")
    assert (code, "name it, such as --target sm_90" in err) == (BAD_INPUT, True)
    for export in ("", folder, folder / "nowhere" / "choices.json"):  # before anything is measured
        for given in ((folder / "spec.py", "--size", "N=4", "--kernel", "none"), (folder / "recipe.json",)):
            code, _, err = call(capsys, "tune", *given, "--export", export)
            assert (code, "is a folder; give" in err or "does not exist; create it, or choose" in err) == (
                BAD_INPUT,
                True,
            )
    code, _, err = call(capsys, "tune", folder)
    assert (code, "not a folder of packed candidates" in err) == (BAD_INPUT, True)


def test_a_recipe_whose_spec_is_gone_is_refused(folder):
    (folder / "spec.py").unlink()
    with pytest.raises(SpecError, match="cannot be read"):
        _ = recipes.read(folder / "recipe.json").digest


def test_the_recipe_of_the_example_reads_its_spec():
    recipe = recipes.read(Path(__file__).parents[3] / "examples" / "tuned_transpose.json")
    assert spec.load(str(recipe.spec)).tunable_named(recipe.tunable).key == ("M", "N")
    assert len(recipe.digest) == 24


def test_what_measuring_left_is_printed_for_triton_and_written_for_kernel_tuner(folder, capsys, monkeypatch):
    from lego_mlir.tuning import kernel_tuner

    monkeypatch.setattr(gpu_workbench, "gpu_workbench", lambda *_, **__: made_up_workbench(seconds_of))
    arguments = ("tune", folder / "recipe.json", "--store", folder / "t.jsonl", "--kernel-tuner", folder / "caches")
    code, out, _ = call(capsys, *arguments, "--autotune")
    assert code == DONE
    assert [line.strip() for line in out.splitlines() if "Config(" in line] == [
        "triton.Config({'threads': 64, 'each': 2}),", "triton.Config({'threads': 128, 'each': 2}),",
    ]  # fmt: skip
    assert "key=['N']" in out
    assert sorted(file.name for file in (folder / "caches").iterdir()) == ["doubled-N1000.json", "doubled-N3000.json"]
    best = min(kernel_tuner.read(folder / "caches" / "doubled-N3000.json"), key=lambda timing: timing.median)
    assert best.configuration.key == "each=2 threads=128"


@pytest.mark.tools
def test_the_python_of_a_packed_folder_is_run_only_if_it_is_trusted(folder, capsys, monkeypatch):
    where = folder / "candidates"
    call(capsys, "tune", folder / "recipe.json", "--pack", where, "--target", "sm_80")
    monkeypatch.setattr(packed.PackedCandidates, "workbench", lambda self, device: made_up_workbench(seconds_of))
    code, _, err = call(capsys, "tune", where, "--store", folder / "t.jsonl")
    assert code == BAD_INPUT
    assert "has Python text that measuring runs with your rights (checks/" in err
    assert "--trust" in err


@pytest.mark.tools
@pytest.mark.parametrize("name", ["../outside.ptx", "/etc/passwd", "..", "", 7])
def test_names_in_a_packed_folder_stay_in_it(name, folder, capsys):
    where = folder / "candidates"
    call(capsys, "tune", folder / "recipe.json", "--pack", where, "--target", "sm_80")
    index = json.loads((where / packed.INDEX).read_text())
    for place in ("code", "checks"):
        changed = json.loads(json.dumps(index))
        changed["jobs"][0]["candidates"][0][place] = name if place == "code" else [name]
        (where / packed.INDEX).write_text(json.dumps(changed))
        code, _, err = call(capsys, "tune", where, "--trust", "--store", folder / "t.jsonl")
        assert code == BAD_INPUT
        assert "is not the name of a file in the folder" in err


def packed_by_hand(folder, name="code.ptx", **changes):
    """A folder of one candidate without any compiler."""
    row = {"configuration": {"each": 1}, "digest": "d", "code": name, "checks": [], "sizes": {"N": 4}, **changes}
    head = {"tunable": "doubled", "space": "s", "toolchain": "t", "target": "sm_80"}
    index = {"format": packed.FORMAT, **head, "jobs": [{"sizes": {"N": 4}, "candidates": [row]}]}
    (folder / packed.INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize(
    "changes",
    [
        {"configuration": [1]}, {"digest": 1}, {"sizes": {"N": 0}}, {"sizes": None}, {"checks": 3}, {"failure": 1},
        {"predicted": {"us": 1}}, {"predicted": dict.fromkeys(PredictedTime.__dataclass_fields__, "1")},
    ],
)  # fmt: skip
def test_a_folder_whose_rows_are_no_candidates_is_refused(tmp_path, changes):
    packed_by_hand(tmp_path)
    assert len(packed.read(tmp_path).problems) == 1
    packed_by_hand(tmp_path, **changes)
    with pytest.raises(SpecError, match="not a folder of packed candidates"):
        packed.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("code.ptx", '{"code": "triton"}'),
        ("code.triton", '{"code": "ptx"}'),
        ("code.ptx", "[]"),
        ("code.ptx", "{}"),
        ("code.ptx", "no JSON"),
        ("code.ptx", "[" * 100_000),
    ],
)
def test_code_is_of_the_kind_that_its_name_says(tmp_path, name, manifest):
    """Triton's text is Python: were the manifest to decide, a folder without any .triton could have it run."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / name).write_text("raise SystemExit('run')")
    (tmp_path / "code" / "code.json").write_text(manifest)
    packed_by_hand(tmp_path, name)
    found = packed.read(tmp_path)
    (problem,) = found.problems
    with pytest.raises(UsageError, match=r"code\.json: .* pack the candidates again"):
        found.trial(problem.candidates[0], problem.sizes)
