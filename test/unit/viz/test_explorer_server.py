"""The explorer's server: its own page only, on this machine only, and nothing that is too large."""

import http.client
import json
import threading

import pytest

from lego_mlir.viz.explorer.server import MOST_BYTES, ExplorerServer

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server():
    with ExplorerServer("<title>page</title>") as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def sent(server, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    connection.request(method, path, body=body, headers=headers or {})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply, text


def test_the_page_and_an_answer(server):
    reply, text = sent(server, "GET", f"/{server.token}/")
    assert (reply.status, text) == (200, "<title>page</title>")
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    reply, text = sent(server, "POST", f"/{server.token}/answer", '{"layout": "Row(2, 2)"}', JSON)
    assert reply.status == 200 and json.loads(text)["positions"] == [[0, 1], [2, 3]]


def test_it_listens_on_this_machine_only_with_a_long_token(server):
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32
    with ExplorerServer("") as other:
        assert other.token != server.token


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "message"),
    [
        ("GET", "/", None, {}, 404, "open the whole address"),
        ("GET", "/wrong/", None, {}, 404, "open the whole address"),
        ("POST", "/answer", "{}", JSON, 404, "open the whole address"),
        ("GET", "/TOKEN/", None, {"Host": "example.org"}, 403, "only"),
        ("POST", "/TOKEN/answer", "{}", {**JSON, "Origin": "http://example.org"}, 403, "its own page only"),
        ("POST", "/TOKEN/answer", "{}", {**JSON, "Origin": "null"}, 403, "its own page only"),
        ("POST", "/TOKEN/answer", "{}", {"Content-Type": "text/plain"}, 415, "application/json"),
        ("POST", "/TOKEN/answer", " " * (MOST_BYTES + 1), JSON, 413, f"at most {MOST_BYTES} bytes"),
        ("POST", "/TOKEN/answer", "{", JSON, 400, "not JSON"),
        ("POST", "/TOKEN/answer", "[" * 10_000, JSON, 400, "not JSON"),
        ("POST", "/TOKEN/answer", "[]", JSON, 400, "a JSON object"),
    ],
)
def test_refusals(server, method, path, body, headers, status, message):
    reply, text = sent(server, method, path.replace("TOKEN", server.token), body, headers)
    assert reply.status == status and message in json.loads(text)["error"]
