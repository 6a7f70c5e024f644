"""Every block of every page is run or checked: commands succeed and print what the page shows, code names what exists.

Doctests (`>>>`) are run by pytest itself; blocks of MLIR and C++ by the tests that OTHERS names.
"""

import ast
import importlib
import importlib.util
import shlex

import page_commands
import pytest

import lego_mlir
from lego_mlir.cli.main import parser_of

ROOT = page_commands.ROOT
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]

# What is not run, and why. A command or its beginning.
LEFT_OUT = {
    "lego-mlir bench": "compares choices that were measured on a GPU",
    "lego-mlir tune examples/tuned_transpose.py --size M=4096 --size N=4096 --budget": "measures on a GPU",
    "lego-mlir tune examples/tuned_transpose.json --pack": "test/unit/cli/test_tune_jobs.py packs fewer",
    "lego-mlir tune candidates": "measures on a GPU",
    "lego-mlir pack grouped_matmul": "test/unit/runtime/test_role_kernels.py packs one tile instead of eight",
    "lego-mlir pack attention": "test/unit/runtime/test_packs.py packs the one kernel of sm_80, without gradients",
    "dask scheduler": "a service on another machine: test/unit/tuning starts a cluster here",
    "dask worker": "as above",
    "CUDA_VISIBLE_DEVICES=0 dask worker": "as above",
    ".venv/bin/python test/run.py": "runs the tests",
    "python3 -m venv": "sets up an environment: test/versions.py does so in CI",
    "pip install": "installs: test/versions.py does so in CI",
    "cmake": "builds the plugin: test/dialect.py does so in CI",
    "ctest": "as above",
    "mlir-opt-22 --load-dialect-plugin": "needs the plugin: test/integration/test_lego_plugin.py runs it",
    "python -m lego_mlir.runtime": "needs a GPU: test/unit/runtime runs it against a stand-in of the driver",
    "lego-mlir explore": "starts a server until it is stopped: test/unit/viz/explorer runs it in a browser",
    "lego-mlir completion bash >": "writes into the home directory; without the redirection it is run below",
    "lego-mlir analyze examples/linalg_transpose.mlir": "needs the plugin: test_lego_swizzle.py runs it",
    "lego-mlir sanitize": "needs nvcc: test/unit/sanitize runs such commands where it is",
    "LEGO_SANITIZE=1 pytest": "needs PyTorch: test/unit/sanitize runs Triton's kernels where it is",
    "lego-mlir convert": "needs a checkpoint: test/unit/formats converts small ones by the command line",
    "lego-mlir check model.safetensors": "as above",
    "python bench/pages.py": "writes the pages: test/unit/bench/test_pages.py compares them",
}
# Files that a page's commands read and that the page does not show.
GIVEN = {
    "scatter.py": """
import lego_mlir as lego
from lego_mlir import Row, f32, i32

N = lego.size("N")


@lego.kernel(grid=lego.cdiv(N, 128), block=128)
def scatter(order: lego.Tensor(i32, Row(N)), x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    i = lego.block_id[0] * 128 + lego.thread_id[0]
    with lego.when(i < N):
        y[order[i]] = x[i]


@scatter.reference
def expected(order, x):
    y = x.copy()
    y[order] = x
    return y
"""
}
# Languages that other tests run or parse.
OTHERS = {
    ("reference/dialect.md", "mlir"): "test/integration/test_lego_plugin.py and test/dialect_mutations.py parse it",
    ("reference/dialect-tiles.md", "mlir"): "test/integration/test_spread_tiles.py parses and runs it",
    ("reference/dialect-tiles.md", "text"): "the grammar: dialects/test/spread-attribute.mlir and spread-box.mlir",
    ("reference/dialect.md", "text"): "the grammar: test/unit/layout parses each production",
    ("reference/irs.md", "text"): "a diagram",
    ("how-to/check-cuda.md", "cuda"): "test/unit/sanitize compiles such kernels where nvcc is",
    ("how-to/check-cuda.md", "text"): "the counts of a line: test/unit/sanitize",
    ("how-to/check-triton.md", "text"): "the report of a Triton kernel: test/unit/sanitize",
    ("how-to/convert-weights.md", "text"): "the first difference of two files: test/unit/formats",
    ("how-to/sanitize-ci.md", "toml"): "a file of launches: test/unit/sanitize reads such files",
    ("how-to/sanitize-ci.md", "yaml"): "a workflow of a code host: test/unit/sanitize runs its command",
    ("how-to/shipped-templates.md", "c++"): "test/unit/templates/test_cuda_kernels.py compiles such a header",
}


def name_of(page):
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def has_commands(page):
    return any(block.language in ("console", "sh") for block in page_commands.blocks(page))


@pytest.mark.parametrize("page", [page for page in PAGES if has_commands(page)], ids=name_of)
def test_commands_succeed_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("examples", "transform_scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, text in GIVEN.items():
        (tmp_path / name).write_text(text)
    for block in page_commands.blocks(page):
        if block.title:
            (tmp_path / block.title).write_text(block.text)
        if block.language not in ("console", "sh"):
            continue
        for command in page_commands.commands(block):
            if left_out(command):
                continue
            with monkeypatch.context() as own:
                if command.text.startswith("lego-mlir cache"):  # it clears the cache, which the tests share
                    own.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
                code, printed = page_commands.run(command.text, tmp_path)
            place = f"{name_of(page)}:{command.line}: {command.text}"
            if command.output is None:
                assert code == 0, f"{place}\n{printed}"
            elif page_commands.differs(command.output, printed):
                pytest.fail(f"{place}\nprints\n{printed}\nthe page shows\n{command.output}")


def shown_code():
    """Blocks of Python that are no doctests and no files: excerpts, and code for a GPU."""
    for page in PAGES:
        for block in page_commands.blocks(page):
            if block.language in ("python", "pycon") and ">>> " not in block.text and not block.title:
                yield pytest.param(block, id=f"{name_of(page)}:{block.line}")


@pytest.mark.parametrize("block", list(shown_code()))
def test_code_that_is_only_shown_names_what_exists(block):
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "lego_mlir":
            module = importlib.import_module(node.module)
            for alias in node.names:
                found = hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
                assert found, f"{node.module} has no {alias.name}"
        name = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(name, ast.Name) and name.id in ("lego", "lego_mlir"):
            assert hasattr(lego_mlir, node.attr), f"lego_mlir has no {node.attr}"


def test_every_block_is_of_a_kind_that_some_test_runs():
    run = {"python", "pycon", "console", "sh"}
    unknown = [
        f"{name_of(page)}:{block.line} {block.language!r}"
        for page in PAGES
        for block in page_commands.blocks(page)
        if block.language not in run and not block.title and (name_of(page), block.language) not in OTHERS
    ]
    assert not unknown


def left_out(command):
    return any(command.text.startswith(beginning) for beginning in LEFT_OUT)


def written_commands():
    for page in PAGES:
        for block in page_commands.blocks(page):
            if block.language in ("console", "sh"):
                yield from page_commands.commands(block)


def test_commands_that_are_left_out_are_on_some_page():
    texts = [command.text for command in written_commands()]
    assert [b for b in LEFT_OUT if not any(text.startswith(b) for text in texts)] == []


def test_commands_that_are_left_out_have_the_arguments_of_their_command():
    found = [shlex.split(c.text, comments=True) for c in written_commands() if left_out(c)]
    found = [words[1:] for words in found if words[0] == "lego-mlir" and ">" not in words]
    assert len(found) > 15
    for words in found:
        parser_of(words)[0].parse_args(words)  # or exits with a message
