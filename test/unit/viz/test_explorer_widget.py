"""The explorer as a notebook's widget: Python answers its messages, and its frame shows the answers."""

import json
import shutil

import pytest

import lego_mlir as lego
from lego_mlir import GenP, LegoError, Row, gallery
from lego_mlir.viz.explorer.page import packaged

pytest.importorskip("anywidget")


@pytest.fixture
def widget():
    made = lego.explore(Row(4, 8), gallery.morton(4))
    sent = []
    made.send = lambda content, buffers=None: sent.append(content)
    return made, sent


def ask(made, content):
    made._handle_custom_msg(content, [])


def test_a_message_is_answered_with_its_number(widget):
    made, sent = widget
    ask(made, {"number": 7, "question": {"layout": "gallery.morton(2)"}})
    ask(made, {"number": 8, "question": {"part": "index", "layout": "Row(4, 8)"}})
    ask(made, {})
    assert (sent[0]["number"], sent[0]["answer"]["positions"]) == (7, [[0, 1], [2, 3]])
    assert (sent[1]["number"], sent[1]["answer"]["text"]) == (8, "8*i0 + i1")
    assert "error" in sent[2]["answer"]


def test_the_page_holds_the_layouts(widget):
    made, _ = widget
    assert '"layout 1": "gallery.morton(4)"' in made.page and "export default" in str(made._esm)


def test_a_layout_of_functions_has_no_text():
    with pytest.raises(LegoError, match="layout text"):
        lego.explore(GenP([4], lambda i: 3 - i, lambda p: (3 - p,)))


@pytest.mark.skipif(not shutil.which("chromedriver"), reason="chromium-driver is not installed")
def test_the_frame_draws_what_the_messages_answer(widget, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver")
    made, sent = widget
    questions = [{"layout": "Row(4, 8)", "access": "lane, 0", "width": 1, "dtype": "f32"}]
    questions.append({"part": "index", "layout": "Row(4, 8)"})
    for question in questions:
        ask(made, {"number": 0, "question": question})
    answers = [found["answer"] for found in sent]
    page = tmp_path / "notebook.html"
    page.write_text(
        "<!doctype html><div id=cell></div><script type=module>"
        + packaged("widget.js").replace("export default", "const widget =")
        + f"const answers = {json.dumps(answers).replace('<', chr(92) + 'u003c')};"
        + "let reply; const model = { get: () => window.text, on: (name, call) => { reply = call; }, off: () => {},"
        + " send: (asked) => reply({ number: asked.number,"
        + " answer: answers[asked.question.part === 'index' ? 1 : 0] }) };"
        + f"window.text = {json.dumps(made.page).replace('<', chr(92) + 'u003c')};"
        + "widget.render({ model, el: document.getElementById('cell') });</script>"
    )
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.implicitly_wait(30)
        driver.get(page.as_uri())
        driver.switch_to.frame(driver.find_element("css selector", "iframe"))
        cells = driver.find_elements("css selector", "[role=gridcell]")
        assert [cell.text for cell in cells[8:11]] == ["8", "9", "10"]
        assert driver.find_element("id", "expression").text == "8*i0 + i1"
    finally:
        driver.quit()
