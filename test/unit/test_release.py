"""What a release is made of: the version of a tag, the files of the sdist, and the workflow that publishes it."""

import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VERSION = runpy.run_path(str(ROOT / "packaging" / "version.py"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def git(folder, *command):
    named = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *command], cwd=folder, check=True, capture_output=True)


def test_the_version_is_that_of_the_newest_tag(tmp_path):
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "one")
    version = VERSION["version"]
    assert version(tmp_path) == VERSION["FIRST"]
    git(tmp_path, "tag", "v1.4.2")
    assert version(tmp_path) == "1.4.2"
    git(tmp_path, "commit", "--allow-empty", "-m", "two")
    git(tmp_path, "tag", "unrelated")
    assert version(tmp_path) == "1.4.3.dev1"
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: lego-mlir\nVersion: 9.8.7\n")
    assert version(tmp_path) == "9.8.7"


def test_the_sdist_is_small_and_has_no_caches(tmp_path):
    pytest.importorskip("hatchling", reason="needs hatchling, which is in the extra dev")
    packages = runpy.run_path(str(ROOT / "test" / "packages.py"))
    from hatchling.builders.sdist import SdistBuilder

    (path,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    packages["require_small"](Path(path))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_take_no_more_rights_than_they_need(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        may = job.get("permissions", {})
        assert "write" not in may.values() or name in ("attest", "publish"), name
        for step in job["steps"]:
            assert "secrets." not in str(step)


def test_only_a_tag_that_was_tested_and_attested_is_published():
    (path,) = (path for path in WORKFLOWS if path.stem == "release")
    jobs = yaml.safe_load(path.read_text())["jobs"]
    assert [jobs[name]["needs"] for name in ("test", "attest", "publish")] == ["build", "test", "attest"]
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert jobs["test"]["strategy"]["matrix"]["python"] == listed
    assert "version" in project["dynamic"]


def test_the_changelog_has_the_version_and_is_short_enough_to_read():
    path = ROOT / "CHANGELOG.md"
    text = path.read_text()
    assert f"## {VERSION['FIRST']}\n" in text
    released = text.partition("### Last changes before the release")[0]
    assert len(released.encode()) < 10_000
