"""Thirty queries and the page that the site's search must show first, by the search's own script."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import search_ranking

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
QUERIES = {
    "softmax": "how-to/softmax",
    "attention": "how-to/attention",
    "fused attention hopper": "how-to/attention",
    "matmul with epilogue": "how-to/epilogue",
    "quantised product": "how-to/quantised",
    "fp8": "how-to/quantised",
    "transpose": "how-to/transpose",
    "check my cuda kernel": "how-to/check-cuda",
    "bank conflicts": "how-to/check-cuda",
    "convert weights": "how-to/convert-weights",
    "convert a triton kernel": "how-to/convert-triton",
    "convert my cuda kernel": "how-to/convert-cuda",
    "bring your own mlir": "how-to/bring-mlir",
    "cutlass cute examples": "how-to/cute-examples",
    "jax grad": "how-to/interop",
    "onnx export": "how-to/interop",
    "torch.compile operator": "how-to/interop",
    "install": "learn/1-install",
    "grouped products": "how-to/batched-products",
    "run without a gpu": "how-to/running",
    "sarif github": "how-to/sanitize-ci",
    "which kernel for my gpu": "how-to/kernels-by-task",
    "hugging face hub": "how-to/calling",
    "odd sizes": "how-to/odd-sizes",
    "tune kernels": "how-to/tuning",
    "schedule a kernel": "how-to/schedules",
    "memory model": "reference/memory-model",
    "known issues": "reference/known-issues",
    "command line": "reference/command-line",
    "gallery of layouts": "reference/gallery",
    "structured matrices": "reference/structured",
    "protocol cold l2": "results/index",
    "name of the distribution decision": "decisions/0040-name",
}


def worker():
    zensical = pytest.importorskip("zensical", reason="needs zensical: pip install '.[docs]'")
    (script,) = (Path(zensical.__file__).parent / "templates/assets/javascripts/workers").glob("search.*.js")
    return script.read_text(encoding="utf-8")


def sections(page, path):
    """The parts of a page between headings, as the generator's index has them; the first begins the page."""
    location = str(page.relative_to(DOCS).with_suffix(".html"))
    fenced, found = False, []
    for line in page.read_text(encoding="utf-8").splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (heading := re.match(r"(#{1,3}) (.*)", line)):
            anchor = "" if len(heading[1]) == 1 else "#" + re.sub(r"\W+", "-", heading[2].lower())
            title = heading[2].replace("`", "")
            found.append({"location": location + anchor, "level": len(heading[1]), "title": title, "text": "",
                          "path": path, "tags": []})  # fmt: skip
        elif found:
            found[-1]["text"] += line + "\n"
    return found


def pages(nav, path=()):
    """The pages of the navigation with the titles above them."""
    for entry in nav:
        ((title, below),) = entry.items()
        if isinstance(below, str):
            yield below, [*path, title]
        else:
            yield from pages(below, (*path, title))


@pytest.fixture(scope="module")
def index():
    text = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text[text.index("\nnav:\n") :])["nav"]
    written = sorted((page, path) for page, path in pages(nav) if (DOCS / page).is_file())
    items = [section for page, path in written for section in sections(DOCS / page, path)]
    return {"config": {"lang": ["en"], "separator": r"""[\s\-_,:!=\[\]()\\"`/]+|\.(?!\d)"""}, "items": items}


def found(index, script, queries, folder):
    if shutil.which("node") is None:
        pytest.skip("needs node, which runs the script of the site's search")
    path = folder / "worker.js"
    path.write_text(script)
    given = json.dumps({"index": index, "queries": queries})
    command = ["node", str(ROOT / "test" / "search_worker.js"), str(path)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return dict(zip(queries, json.loads(done.stdout), strict=True))


def test_each_query_finds_its_page_first(index, tmp_path):
    arranged = search_ranking.ordered(index)
    count = sum(not item["location"].startswith(search_ranking.BACKGROUND) for item in arranged["items"])
    answers = found(arranged, search_ranking.ranking(worker(), count), list(QUERIES), tmp_path)
    wrong = {q: answers[q][:3] for q, page in QUERIES.items() if not answers[q] or page not in answers[q][0]}
    assert not wrong, "\n".join(f"{q}: {places}" for q, places in wrong.items())


def test_without_the_changes_it_does_not(index, tmp_path):
    answers = found(index, worker(), list(QUERIES), tmp_path)
    assert sum(page not in (answers[query] or [""])[0] for query, page in QUERIES.items()) >= 5


def test_another_script_is_refused():
    with pytest.raises(search_ranking.RankingError, match="change _PARSER and _SORT"):
        search_ranking.ranking("self.onmessage=()=>{}", 3)


def test_both_forms_of_the_index_are_arranged(index, tmp_path):
    (tmp_path / "assets/javascripts/workers").mkdir(parents=True)
    (tmp_path / "assets/javascripts/workers/search.1.min.js").write_text(worker())
    (tmp_path / "search.json").write_text(json.dumps(index))
    (tmp_path / "search.js").write_text(f"var __index = {json.dumps(index)};")
    search_ranking.arrange(tmp_path)
    arranged = json.loads((tmp_path / "search.json").read_text())
    assert (tmp_path / "search.js").read_text() == f"var __index = {json.dumps(arranged, separators=(',', ':'))};"
    assert arranged["items"][0]["location"].startswith("how-to/")
    assert arranged["items"][-1]["location"].startswith("decisions/")
