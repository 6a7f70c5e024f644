"""From a spec to stored choices on a machine with a GPU: the stand-in is the driver, here and in all processes."""

import json

import pytest
from cuda_stand_in import Machine
from stand_in_child import keep_modules

from lego_mlir import spec
from lego_mlir.cli import main as cli
from lego_mlir.cli.main import BAD_INPUT, DONE
from lego_mlir.errors import DependencyError
from lego_mlir.runtime import driver
from lego_mlir.tuning import isolated, recipes
from lego_mlir.tuning.timings import TimingStore

SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.tune(space={"threads": [32, 64], "sign": [1, -1]}, key=["N"])
def doubled(threads, sign):
    N = lego.size("N")
    @lego.kernel(grid=lego.cdiv(N, threads), block=threads)
    def double(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id.x * threads + lego.thread_id.x
        with lego.when(i < N):
            y[i] = 2.0 * sign * x[i]
    @double.reference
    def expected(x):
        return 2 * x
    return double
"""


@pytest.fixture
def machine(monkeypatch):
    """A machine with MLIR and a GPU, whose processes of candidates find the same driver."""
    monkeypatch.setattr(isolated, "START", isolated.START.replace(
        "from lego_mlir.tuning import child; child.main()", "import stand_in_child; stand_in_child.main()"
    ))  # fmt: skip
    yield Machine().plug_in(monkeypatch)
    driver.driver.cache_clear()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spec.py").write_text(SPEC)
    recipe = {"format": 1, "spec": "spec.py", "tunable": "doubled", "sizes": [{"N": 200}, {"N": 3000}],
              "export": "choices.json"}  # fmt: skip
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    return tmp_path


def call(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.tools
def test_a_tunable_measures_on_the_gpu_and_chooses_what_it_measured(machine, folder):
    tunable = spec.load(folder / "spec.py").tunable_named(None)
    found = tunable.tune({"N": 3000})
    times = {t.configuration.key: round(t.median) for t in found.timings if not t.failure}
    assert times == {"sign=1 threads=32": 32, "sign=1 threads=64": 64}
    wrong = {t.configuration.key: t.failure for t in found.timings if t.failure}
    assert sorted(wrong) == ["sign=-1 threads=32", "sign=-1 threads=64"]
    assert all(reason.startswith("wrong: y at N=200: WRONG: ") for reason in wrong.values())
    chosen = tunable.choose({"N": 3000})
    assert (chosen.configuration.key, chosen.basis) == ("sign=1 threads=32", "measured")


@pytest.mark.tools
def test_the_command_line_stores_resumes_and_exports(machine, folder, capsys):
    store, exported = folder / "timings.jsonl", folder / "choices.json"
    arguments = ("tune", folder / "spec.py", "--size", "N=3000", "--store", store, "--export", exported, "--json")
    code, out, _ = call(capsys, *arguments)
    assert code == DONE
    timings = json.loads(out)["timings"]
    assert sorted(t["us"] for t in timings if t["us"]) == pytest.approx([32, 64])
    assert {t.device for t in TimingStore(store)} == {"stand-in"}
    (row,) = json.loads(exported.read_text())["choices"]
    assert (row["configuration"]["threads"], row["sizes"]) == (32, {"N": 3000})
    before = len(list(TimingStore(store)))
    code, out, _ = call(capsys, *arguments, "--resume")
    assert code == DONE
    assert len(list(TimingStore(store))) == before  # nothing was measured again
    again = spec.load(folder / "spec.py").tunable_named(None)
    again.load(exported)
    assert again.choose({"N": 3000}).basis == "exported"


@pytest.mark.tools
def test_a_recipe_measures_all_its_sizes_on_the_gpu(machine, folder, capsys):
    code, out, _ = call(capsys, "tune", folder / "recipe.json", "--store", folder / "timings.jsonl")
    assert code == DONE
    assert out.startswith("doubled: 2 sizes")
    choices = json.loads((folder / "choices.json").read_text())["choices"]
    assert [(row["sizes"]["N"], row["configuration"]["threads"]) for row in choices] == [(200, 32), (3000, 32)]


@pytest.mark.tools
def test_a_gpu_machine_without_mlir_is_told_to_measure_packed_candidates(machine, folder, capsys, monkeypatch):
    from lego_mlir import bindings

    def missing():
        raise DependencyError("MLIR's Python bindings are not installed")

    monkeypatch.setattr(bindings, "load", missing)
    for given in (("spec.py", "--size", "N=3000"), ("recipe.json",)):
        code, _, err = call(capsys, "tune", folder / given[0], *given[1:])
        assert code == BAD_INPUT
        assert "MLIR's Python bindings are not installed; a machine without it measures packed candidates" in err
        assert "lego-mlir tune SPEC --pack FOLDER where it is installed, and lego-mlir tune FOLDER here" in err


FIXED = SPEC.replace('    N = lego.size("N")\n', "").replace(
    "def doubled(threads, sign):", "def doubled(threads, sign, N):"
)


@pytest.mark.tools
def test_packed_kernels_of_one_size_check_themselves_by_their_reference(machine, folder, capsys, monkeypatch):
    keep_modules(monkeypatch, folder / "modules")
    (folder / "spec.py").write_text(FIXED)
    code, out, _ = call(capsys, "tune", folder / "recipe.json", "--pack", folder / "packed", "--target", "sm_80")
    assert (code, "travels as data" in out) == (DONE, False)
    assert [path.suffix for path in (folder / "packed" / "checks").iterdir()] == [".json", ".json"]
    (folder / "spec.py").unlink()  # the machine of the device needs neither the spec nor the compiler
    exported = folder / "choices.json"
    code, *_ = call(
        capsys, "tune", folder / "packed", "--trust", "--store", folder / "timings.jsonl", "--export", exported
    )
    assert code == DONE, [t.failure for t in TimingStore(folder / "timings.jsonl")]
    for n in (200, 3000):
        failed = {
            t.configuration.key: t.failure
            for t in TimingStore(folder / "timings.jsonl").timings(sizes={"N": n})
            if t.failure
        }
        assert sorted(failed) == ["sign=-1 threads=32", "sign=-1 threads=64"]
        assert all(reason.startswith("wrong: y: WRONG: ") for reason in failed.values())
    table = json.loads(exported.read_text())
    (folder / "spec.py").write_text(FIXED)
    assert table["recipe"] == recipes.read(folder / "recipe.json").digest
    assert [row["configuration"]["threads"] for row in table["choices"]] == [32, 32]
