"""A small server on 127.0.0.1 for the explorer: the page, and answers to its questions.

The address has a random token; a request without it gets nothing. Requests of other origins, with another host name or
of unexpected size or type are refused, each with a message. No text from the page is evaluated.
"""

from __future__ import annotations

import hmac
import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from lego_mlir.viz.explorer.page import POLICY
from lego_mlir.viz.explorer.worker import Worker

HOST: Final = "127.0.0.1"
MOST_BYTES: Final = 16_384
"""Of a question."""


class ExplorerServer(ThreadingHTTPServer):
    """Serves one page; `address` is what to open. Use as a context manager, and call `serve_forever`."""

    daemon_threads = True

    def __init__(self, text: str, port: int = 0, worker: Worker | None = None) -> None:
        self.text = text
        self.token = secrets.token_urlsafe(24)
        self.worker = Worker() if worker is None else worker
        super().__init__((HOST, port), _Handler)

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

    @property
    def address(self) -> str:
        return f"{self.origin}/{self.token}/"

    def server_close(self) -> None:
        """Close the socket and end the process for answers."""
        super().server_close()
        self.worker.close()


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    server_version = "lego-mlir"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Send the page."""
        if self._refused("/"):
            return
        self._send(HTTPStatus.OK, self.server.text.encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Answer one question."""
        if self._refused("/answer"):
            return
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question is application/json")
        elif not length.isdigit() or int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has at most {MOST_BYTES} bytes")
        else:
            self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        try:
            question: Any = json.loads(body)
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "the question is not JSON")
            return
        if not isinstance(question, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "a question is a JSON object")
            return
        self._send(HTTPStatus.OK, json.dumps(self.server.worker.ask(question)).encode(), "application/json")

    def _refused(self, path: str) -> bool:
        """Whether the request is not one of this page; if so, it has been answered."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host != self.server.origin.removeprefix("http://"):
            self._refuse(HTTPStatus.FORBIDDEN, f"the explorer answers {self.server.origin} only")
        elif origin is not None and origin != self.server.origin:
            self._refuse(HTTPStatus.FORBIDDEN, "the explorer answers its own page only")
        elif not hmac.compare_digest(self.path.encode(), f"/{self.server.token}{path}".encode()):
            self._refuse(HTTPStatus.NOT_FOUND, "open the whole address that lego-mlir explore printed")
        else:
            return False
        return True

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._send(status, json.dumps({"error": message}).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the address holds the token."""
