"""packaging/publisher.toml: the one file that says who publishes the package, and where."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PUBLISHER = runpy.run_path(str(ROOT / "packaging" / "publisher.py"))
MADE_UP = """
authors = ["A. Person", "B: Person"]
contact = "security@example.org"
repository = "https://code.example.org/owner/lego-mlir"
documentation = "https://docs.example.org/lego-mlir"
"""


@pytest.fixture
def root(tmp_path):
    """A folder with the files that are filled in, and what a build needs."""
    for name in (*PUBLISHER["FILES"], "pyproject.toml", "README.md", "LICENSE", "packaging/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("publisher.py", "publisher.toml"):
        shutil.copy(ROOT / "packaging" / name, tmp_path / "packaging" / name)
    return tmp_path


def metadata(root):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"], cwd=root, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_files_are_those_of_the_fields():
    assert PUBLISHER["stale"]() == [], "run python packaging/publisher.py"


def test_a_made_up_publisher_is_everywhere_and_leaves_again(root):
    before = {name: (root / name).read_text() for name in PUBLISHER["FILES"]}
    decided = (root / "packaging/publisher.toml").read_text()
    (root / "packaging/publisher.toml").write_text(MADE_UP)
    assert set(PUBLISHER["stale"](root)) == set(before)
    PUBLISHER["stale"](root, write=True)
    assert PUBLISHER["stale"](root) == []
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    assert [author["name"] for author in citation["authors"]] == ["A. Person", "B: Person"]
    assert citation["repository-code"] == "https://code.example.org/owner/lego-mlir"
    site = yaml.safe_load((root / "mkdocs.yml").read_text())
    assert site["repo_url"] == citation["repository-code"] and site["site_url"] == f"{citation['url']}/"
    recipe = yaml.safe_load((root / "packaging/conda/recipe.yaml").read_text())
    assert recipe["about"]["repository"] == citation["repository-code"]
    assert "to security@example.org." in (root / "SECURITY.md").read_text()
    install = (root / "docs/learn/1-install.md").read_text()
    assert "git clone https://code.example.org/owner/lego-mlir && cd lego-mlir\n" in install
    built = metadata(root)
    assert built["authors"] == [{"name": "A. Person"}, {"name": "B: Person"}]
    assert built["urls"]["Changelog"] == "https://code.example.org/owner/lego-mlir/blob/main/CHANGELOG.md"
    assert set(built["urls"]) == {"Documentation", "Repository", "Issues", "Changelog"}
    (root / "packaging/publisher.toml").write_text(decided)
    PUBLISHER["stale"](root, write=True)
    assert {name: (root / name).read_text() for name in before} == before


def test_without_an_address_nothing_invents_one(root):
    empty = 'authors = ["A"]\ncontact = ""\nrepository = ""\ndocumentation = ""\n'
    (root / "packaging/publisher.toml").write_text(empty)
    PUBLISHER["stale"](root, write=True)
    assert "urls" not in metadata(root) and metadata(root)["authors"] == [{"name": "A"}]
    assert "repository-code" not in (root / "CITATION.cff").read_text()
    assert not {"site_url", "repo_url"} & set(yaml.safe_load((root / "mkdocs.yml").read_text()))
    assert "whose address is not known yet" in (root / "SECURITY.md").read_text()
    assert "which has no public address yet" in (root / "docs/learn/1-install.md").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MADE_UP.replace("https://code", "git@code"),
            r"repository = 'git@code.* is no address such as https://host/owner",
        ),
        (MADE_UP.replace("owner/lego-mlir", "owner/lego-mlir/"), "is no address such as"),
        (MADE_UP + "homepage = ''\n", "publisher.toml: homepage = ''; it has authors, contact, repository"),
    ],
)
def test_a_field_that_is_wrong_is_named(root, text, message):
    (root / "packaging/publisher.toml").write_text(text)
    with pytest.raises(SystemExit, match=message):
        PUBLISHER["stale"](root)


def test_a_file_without_its_place_is_refused():
    with pytest.raises(SystemExit, match="one place between '# publisher' and '# end of publisher'"):
        PUBLISHER["place"]("no place", "")
