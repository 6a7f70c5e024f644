"""Displays of IPython: pictures of layouts and tables of reports, registered by importing the package."""

import subprocess
import sys

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, gallery, interp, notebook

interactiveshell = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture(scope="module")
def shell():
    made = interactiveshell.InteractiveShell()
    notebook.register(made)
    return made


def displayed(shell, value):
    return shell.display_formatter.format(value)[0]


@pytest.mark.parametrize(
    "value", [Row(4, 4), gallery.morton(4), Row(4, 4).tile_by([2, 2], [2, 2]), Row(4, 4).derive()], ids=str
)
def test_what_is_drawn(shell, value):
    found = displayed(shell, value)
    assert found["image/svg+xml"] == lego.show(value).svg()
    assert found["text/plain"] == repr(value)


def test_a_picture_shows_itself(shell):
    picture = lego.show(Row(2, 2))
    assert displayed(shell, picture)["image/svg+xml"] == picture.svg()


def test_symbolic_sizes_are_shown_as_text(shell):
    layout = Row(lego.size("M"), 4)
    assert displayed(shell, layout) == {"text/plain": repr(layout)}


def test_a_report_is_a_table_with_its_faults(shell):
    @lego.kernel(grid=1, block=32)
    def columns(x: lego.Tensor(f32, Row(32, 32)), y: lego.Tensor(f32, Row(32, 32))):
        tile = lego.shared(f32, Row(32, 32))
        tile[lego.thread_id[0], 0] = x[lego.thread_id[0], 0]
        y[0, lego.thread_id[0]] = tile[(lego.thread_id[0] + 1) % 32, 0]

    x, y = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    text = displayed(shell, interp.launch(columns.mlir(), grid=1, block=32, args=[x, y]))["text/html"]
    assert "race" in text and "<td>write of shared0</td><td>32</td><td>1</td>" in text


def test_importing_the_package_in_a_session_registers(tmp_path):
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()\n"
        "s.run_cell('import lego_mlir'); s.run_cell('x = lego_mlir.Row(2, 2)')\n"
        "print('image/svg+xml' in s.display_formatter.format(s.user_ns['x'])[0])"
    )
    environment = {"IPYTHONDIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "True", done.stderr
