"""The playground's server: one page, for a browser on this machine and for nobody else.

It listens on the loopback address only. That alone does not keep other sites out: their pages run in a browser on
this machine too, and a name of theirs may point here. So a request must name this server as its host, and what asks
for work must come from its own page. Nothing is read from disk for a request, nor beyond the length that it may have.
"""

from __future__ import annotations

import json
import re
import socketserver
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from xcnorm.errors import UserError
from xcnorm.playground.answering import Playground
from xcnorm.report.html import script, stylesheet

LARGEST_FILE = 20_000_000
LARGEST_QUESTION = 4_000_000

_HOST = "127.0.0.1"
_SECONDS = 20  # that a browser may take to say what it wants
_ANY = "application/octet-stream"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


Work = Callable[[bytes], dict[str, Any]]


class _RefusedError(Exception):
    """Why a request is not answered as it wishes."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class PlaygroundServer(ThreadingHTTPServer):
    """Serves a playground, until it is closed.

    Args:
        playground: What to serve.
        port: Where; any that is free unless given.

    Raises:
        UserError: The port is taken, or not allowed.
    """

    def __init__(self, playground: Playground, port: int = 0) -> None:
        # One thread looks at pictures: networks share the cores anyway, and torch keeps a team of threads for each.
        self._worker = ThreadPoolExecutor(1)
        page = files("xcnorm.playground") / "page"
        texts = {name: (page / name).read_text(encoding="utf-8") for name in ("page.html", "play.css", "play.js")}
        about = playground.about() | {"largest": LARGEST_FILE}
        self.pages = {
            "/": ("text/html", texts["page.html"].encode()),
            "/page.css": ("text/css", stylesheet().encode()),
            "/page.js": ("text/javascript", script().encode()),
            "/play.css": ("text/css", texts["play.css"].encode()),
            "/play.js": ("text/javascript", texts["play.js"].encode()),
            "/about": ("application/json", json.dumps(about).encode()),
        }
        self.works: dict[str, tuple[str, int, Work]] = {
            "/drawing": ("image/png", LARGEST_QUESTION, lambda content: playground.fit(content, drawn=True)),
            "/picture": (
                "application/octet-stream",
                LARGEST_FILE,
                lambda content: playground.fit(content, drawn=False),
            ),
            "/look": ("application/json", LARGEST_QUESTION, lambda content: playground.look(_parse(content))),
        }
        try:
            super().__init__((_HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            self._worker.shutdown()
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"cannot listen on port {port}: {reason}; give another --port, or none") from error

    def server_bind(self) -> None:
        """Without a look-up of the machine's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, self.server_address[1]

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{_HOST}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """How a browser on this machine may call it."""
        return tuple(f"{name}:{self.server_port}" for name in (_HOST, "localhost"))

    def work(self, do: Work, content: bytes) -> dict[str, Any]:
        """Do something in the thread that does everything.

        Raises:
            ConnectionAbortedError: The server has been closed; what browsers keep open ends here.
        """
        try:
            doing = self._worker.submit(do, content)
        except RuntimeError as error:
            raise ConnectionAbortedError from error
        return doing.result()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing, where a browser has gone before its answer came."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        """Stop listening; what is being worked on comes to its end."""
        super().server_close()
        self._worker.shutdown(cancel_futures=True)


class _Handler(BaseHTTPRequestHandler):
    """A connection of a browser."""

    server: PlaygroundServer
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._answer(self._page)

    def do_POST(self) -> None:
        self._answer(self._work)

    def _answer(self, find: Callable[[], tuple[str, bytes]]) -> None:
        status = HTTPStatus.OK
        try:
            self._check_origin()
            kind, content = find()
        except _RefusedError as refusal:
            self.close_connection = True  # its body was not read
            status, (kind, content) = refusal.status, _complaint(str(refusal))
        except UserError as error:
            status, (kind, content) = HTTPStatus.BAD_REQUEST, _complaint(str(error))
        except OSError:  # it has gone, or is too slow
            raise
        except Exception as error:  # one picture must not end the game
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            kind, content = _complaint(f"internal error: {type(error).__name__}: {error}")
        self._send(status, kind, content)

    def _check_origin(self) -> None:
        hosts, origins = (self.headers.get_all(name) or [] for name in ("Host", "Origin"))
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            raise _RefusedError(HTTPStatus.FORBIDDEN, f"this server is called {self.server.hosts[0]} only")
        if not origins and self.command == "GET":  # a browser that follows a link or loads its page names none
            return
        if origins != [f"http://{hosts[0]}"]:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "only the page of this server may ask it")

    def _page(self) -> tuple[str, bytes]:
        if self.path not in self.server.pages:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")
        return self.server.pages[self.path]

    def _work(self) -> tuple[str, bytes]:
        if self.path not in self.server.works:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such work")
        kind, largest, do = self.server.works[self.path]
        if self.headers.get("Content-Type") != kind:
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content must be of the type {kind}")
        content = self._content(largest)
        return "application/json", json.dumps(self.server.work(do, content)).encode()

    def _content(self, largest: int) -> bytes:
        lengths = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(lengths) != 1 or not re.fullmatch("[0-9]+", lengths[0]):
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "the content must have one length, which is a number")
        if len(lengths[0]) > 12 or int(lengths[0]) > largest:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"this is larger than {largest:,} bytes")
        content = self.rfile.read(int(lengths[0]))
        if len(content) != int(lengths[0]):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the content ends too early")
        return content

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """In the form of all other answers: no page that repeats what was asked."""
        self.close_connection = True
        self._send(code, *_complaint(HTTPStatus(code).phrase.lower()))

    def version_string(self) -> str:
        """The name of the program, without those it is made with."""
        return "xcnorm"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each move of a slider helps nobody."""


def _complaint(reason: str) -> tuple[str, bytes]:
    return "application/json", json.dumps({"error": " ".join(reason.split())}).encode()


def _parse(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError("the question is no JSON") from error
