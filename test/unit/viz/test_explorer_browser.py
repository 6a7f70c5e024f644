"""The explorer in a real browser: right numbers, one-click repair, keyboard, labels, nothing loaded from elsewhere.

Needs chromium with its driver and selenium; skipped by name without them.
"""

import json
import shutil
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from lego_mlir.cli.main import DONE, main
from lego_mlir.expr.explain import lines_of
from lego_mlir.viz.explorer.page import page
from lego_mlir.viz.explorer.server import ExplorerServer

from strategies import readable_layouts

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def server():
    with ExplorerServer(page("explorer", {"A": "Row(32, 32)", "B": "gallery.hilbert(16)"}, "lane, 0")) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@contextmanager
def answered(browser):
    """Change something inside; on leaving, the page has drawn the answer to it."""
    browser.execute_script("document.body.dataset.state = 'asked'")
    yield
    end = time.monotonic() + 30
    while browser.execute_script("return document.body.dataset.state") != "ready":
        assert time.monotonic() < end, "the page did not answer"
        time.sleep(0.01)


@pytest.fixture
def opened(server, browser):
    browser.get("about:blank")
    browser.get(server.address)
    with answered(browser):
        browser.execute_script("ask()")
    return browser


def put(browser, **fields):
    with answered(browser):
        browser.execute_script(
            "for (const [id, value] of Object.entries(arguments[0])) document.getElementById(id).value = value;"
            "document.getElementById('layout').dispatchEvent(new Event('input', {bubbles: true}));",
            fields,
        )


def text_of(browser, name):
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


def labels(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('[role=row]')].map(row =>"
        " [...row.querySelectorAll('[role=gridcell]')].map(cell => cell.querySelector('text')?.textContent ?? ''))"
    )


@seed(20261122)
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None, database=None)
@given(drawn=readable_layouts(), dtype=st.sampled_from(["f16", "f32", "f64"]))
def numbers(opened, drawn, dtype):
    text, layout = drawn
    put(opened, layout=text, access="", dtype=dtype, by="bank")
    dims = layout.dims()
    size = {"f16": 2, "f32": 4, "f64": 8}[dtype]
    rows, index = labels(opened), [()]
    for n in dims:
        index = [(*outer, i) for outer in index for i in range(n)]
    assert [int(label) for row in rows for label in row] == [int(layout.apply(*i)) * size // 4 % 32 for i in index]
    assert len(rows[0]) == dims[-1]
    assert text_of(opened, "expression") == "\n".join(lines_of(layout.derive().expr))


def test_edits_lead_to_the_numbers_that_python_computes(opened):
    numbers(opened)


def test_one_click_repairs_the_conflict(opened):
    put(opened, layout="Row(32, 32)", access="lane, 0", by="wavefront")
    assert text_of(opened, "counts").startswith("32 wavefronts, 1 at best, 32-way")
    assert len(opened.find_elements("css selector", "rect[stroke='#d55e00']")) == 32
    with answered(opened):
        opened.find_element("id", "apply").click()
    assert text_of(opened, "counts").startswith("1 wavefront, 1 at best, 1-way")
    assert opened.find_element("id", "layout").get_attribute("value") == "gallery.xor_swizzle(32, 32)"
    assert not opened.find_elements("css selector", "rect[stroke='#d55e00']")
    assert not opened.find_element("id", "repair").is_displayed()


def test_the_address_shares_the_state(opened, server):
    put(opened, layout="gallery.morton(4)", access="", by="order")
    shared = opened.current_url
    opened.get("about:blank")
    opened.get(shared)
    with answered(opened):
        opened.execute_script("ask()")
    assert opened.find_element("id", "layout").get_attribute("value") == "gallery.morton(4)"
    assert labels(opened)[1] == ["2", "3", "6", "7"]
    assert len(opened.find_elements("css selector", "polyline")) == 1


def test_the_keyboard_reaches_every_cell_and_says_what_it_is(opened):
    from selenium.webdriver.common.keys import Keys

    put(opened, layout="Row(4, 8)", access="", by="position")
    grid = opened.find_element("css selector", "#drawing svg")
    grid.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert text_of(opened, "cell") == "[1, 2]: position 10, byte 40, bank 10, sector 1"
    grid.send_keys(*[Keys.ARROW_DOWN] * 9, *[Keys.ARROW_RIGHT] * 9)
    assert text_of(opened, "cell").startswith("[3, 7]: position 31")


def test_fields_and_cells_have_names_for_a_screen_reader(opened):
    unnamed = opened.execute_script(
        "return [...document.querySelectorAll('input, select, textarea')].filter(f => !f.labels.length).map(f => f.id)"
    )
    assert unnamed == []
    grid = opened.find_element("css selector", "#drawing svg")
    assert grid.get_attribute("role") == "grid" and "arrow keys" in grid.get_attribute("aria-label")
    cells = opened.find_elements("css selector", "[role=gridcell]")
    assert all("position" in cell.get_attribute("aria-label") for cell in cells[:8])
    assert opened.find_element("id", "message").get_attribute("role") == "alert"


def test_a_fault_is_a_message_and_the_last_drawing_stays_without_its_numbers(opened):
    put(opened, layout="Row(32, 32)", access="lane, 0")
    assert opened.find_element("id", "repair").is_displayed()
    put(opened, layout="Row(4, 8)", access="")
    assert text_of(opened, "expression") and text_of(opened, "counts")
    put(opened, layout="Row(4, 8")
    assert "layout text, column 9" in text_of(opened, "message")
    assert len(labels(opened)) == 4
    assert not any(text_of(opened, part) for part in ("expression", "operations", "counts", "cell"))
    assert not opened.find_element("id", "repair").is_displayed()
    assert opened.execute_script("return getComputedStyle(document.getElementById('drawing')).opacity") == "0.35"
    put(opened, layout="Row(4, 8)")
    assert opened.execute_script("return getComputedStyle(document.getElementById('drawing')).opacity") == "1"
    put(opened, layout="Row(4, 8)", access="lane, 0")
    assert "index 0 goes from 0 to 31" in text_of(opened, "message")


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_its_window(opened, width):
    opened.set_window_size(width, 900)
    put(opened, layout="Row(64, 64)", access="lane, 0")
    inner, content = opened.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    assert content <= inner


def test_an_exported_page_works_without_a_server(browser, tmp_path):
    spec, exported = tmp_path / "spec.py", tmp_path / "page.html"
    spec.write_text("from lego_mlir import Row, gallery\nA = Row(32, 32)\nB = gallery.morton(8)\n")
    assert main(["explore", str(spec), "--export", str(exported)]) == DONE
    browser.get(exported.as_uri())
    with answered(browser):
        browser.execute_script("ask()")
    assert labels(browser)[1][:2] == ["32", "33"]
    with answered(browser):
        browser.execute_script(
            "const named = document.getElementById('named'); named.value = '2';"
            "named.dispatchEvent(new Event('change', {bubbles: true}));"
        )
    assert text_of(browser, "counts").startswith("32 wavefronts")


def test_nothing_leaves_the_machine_and_the_console_is_silent(opened, server):
    put(opened, layout="gallery.hilbert(8)", access="", by="order")
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert sent and all(url.startswith((server.origin, "data:", "file:", "about:")) for url in sent)
    assert opened.get_log("browser") == []
