"""A real HTTP server on this machine whose manners are chosen by the path."""

import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DATA = bytes(range(256)) * 1200  # 307,200 bytes: several packets
WRONG = bytes(reversed(DATA))
PAGE = b"<!DOCTYPE html><title>Sign in</title>" + b" " * 2000


class Mirror(ThreadingHTTPServer):
    """Remembers what it was asked: pairs of a path and a Range header (None if there was none)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.log = []
        self.tag = '"one"'
        self.resting = threading.Event()  # ends the sleep of stalled answers

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, request, client_address):
        """Clients that hang up are what is being tested."""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.strip("/")
        self.server.log.append((path, self.headers["Range"]))
        getattr(self, path.replace("-", "_"))()

    def start(self, status=200, length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def offset(self):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "bytes=0-")
        return int(asked[1])

    def send(self, data, declared=None):
        """An honest answer to a Range header, unless more is declared than is sent."""
        start = self.offset()
        declared = len(data) if declared is None else declared
        if start >= declared:
            self.start(416, 0, Content_Range=f"bytes */{declared}")
        elif start:
            self.start(206, declared - start, Content_Range=f"bytes {start}-{declared - 1}/{declared}")
        else:
            self.start(200, declared)
        self.wfile.write(data[start:])

    def fine(self):
        self.send(DATA)

    def tagged(self):
        """Breaks off in the middle the first time; says which version it has, and minds If-Range."""
        first = [path for path, _ in self.server.log].count(self.path.strip("/")) == 1
        start = self.offset() if self.headers["If-Range"] == self.server.tag else 0
        if start:
            self.start(206, len(DATA) - start, Content_Range=f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        else:
            self.start(200, len(DATA), ETag=self.server.tag)
        self.wfile.write(DATA[start : len(DATA) // 2] if first else DATA[start:])

    def wrong(self):
        self.send(WRONG)

    def no_range(self):
        self.start(200, len(DATA))
        self.wfile.write(DATA)

    def truncates(self):
        """Sends half of what is left each time, and closes."""
        start = self.offset()
        self.send(DATA[: start + (len(DATA) - start) // 2], len(DATA))

    def truncates_once(self):
        if self.server.log.count((self.path.strip("/"), None)) == 1 and not self.headers["Range"]:
            self.truncates()
        else:
            self.fine()

    def truncates_without_range(self):
        self.start(200, len(DATA))
        self.wfile.write(DATA[:100_000])

    def stalls(self):
        self.start(200, len(DATA))
        self.wfile.write(DATA[:100_000])
        self.wfile.flush()
        self.server.resting.wait(20)

    def stalls_before_answering(self):
        self.server.resting.wait(20)

    def html(self):
        self.start(200, len(DATA), Content_Type="text/html; charset=utf-8")
        self.wfile.write(DATA)

    def html_as_data(self):
        self.start(200, len(PAGE), Content_Type="application/octet-stream")
        self.wfile.write(PAGE[:5])  # a page is a page however it is cut into packets
        self.wfile.flush()
        time.sleep(0.05)
        self.wfile.write(PAGE[5:])

    def redirects(self):
        self.start(302, 0, Location="/fine")

    def loops(self):
        self.start(302, 0, Location="/loops")

    def redirects_to_ftp(self):
        self.start(302, 0, Location="ftp://127.0.0.1/fine")

    def says_too_long(self):
        self.start(200, len(DATA) + 1)
        self.wfile.write(DATA + b"!")

    def says_too_short(self):
        self.send(DATA[:1000])

    def says_nothing(self):
        self.start(200)
        self.wfile.write(DATA)

    def says_nothing_and_goes_on(self):
        self.start(200)
        for _ in range(100):
            self.wfile.write(DATA)

    def says_nothing_and_truncates(self):
        self.start(200)
        self.wfile.write(DATA[:100_000])

    def chunked(self):
        self.protocol_version = "HTTP/1.1"
        self.start(200, Transfer_Encoding="chunked")
        for start in range(0, len(DATA), 100_000):
            chunk = DATA[start : start + 100_000]
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def chunked_and_truncates(self):
        self.protocol_version = "HTTP/1.1"
        self.start(200, Transfer_Encoding="chunked")
        self.wfile.write(b"186a0\r\n" + DATA[:100_000] + b"\r\n")
        self.close_connection = True

    def other_range(self):
        """Answers a Range header with the beginning of the file."""
        if self.headers["Range"]:
            self.start(206, len(DATA), Content_Range=f"bytes 0-{len(DATA) - 1}/{len(DATA)}")
            self.wfile.write(DATA)
        else:
            self.fine()

    def truncates_then_other_range(self):
        if self.headers["Range"]:
            self.other_range()
        else:
            self.truncates_once()

    def other_length(self):
        """Sends more than the range that it names."""
        start = self.offset()
        if start:
            self.start(206, len(DATA), Content_Range=f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
            self.wfile.write(DATA)
        else:
            self.truncates_without_range()

    def no_content(self):
        self.start(204)

    def not_found(self):
        self.start(404, 0)

    def broken(self):
        self.start(500, 0)


@contextmanager
def mirror():
    server = Mirror()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.resting.set()
        server.shutdown()
        thread.join()
        server.server_close()
