"""The server: it answers to its own page, and to nobody and nothing else."""

import json
import socket
import threading
from http.client import HTTPConnection

import pytest

from tests.playground.test_pictures import BAD
from xcnorm.errors import UserError
from xcnorm.playground import PlaygroundServer
from xcnorm.playground.server import LARGEST_FILE, LARGEST_QUESTION

pytestmark = pytest.mark.xdist_group("playground")

ANY = "application/octet-stream"


@pytest.fixture(scope="module")
def server(playground):
    with PlaygroundServer(playground) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            found.shutdown()
            thread.join()


@pytest.fixture
def ask(server):
    """Ask the server something: the status, the headers and the content of its answer."""

    def send(method, path, body=None, **headers):
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        own = {"Origin": server.address.rstrip("/")} if method == "POST" else {}
        sent = own | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    return send


def raw(server, text: str) -> bytes:
    """What comes back for a request as it is written here."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_it_listens_on_the_loopback_address_alone(server):
    assert server.socket.getsockname() == ("127.0.0.1", server.server_port)
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/play.css", "/play.js", "/about"])
def test_the_page_and_its_parts_are_served_under_a_strict_policy(path, ask):
    status, headers, content = ask("GET", path)
    assert status == 200
    assert content
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert b"http://" not in content.replace(b"http://www.w3.org", b"")
    assert b"https://" not in content


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
@pytest.mark.parametrize("path", ["/", "/about"])
def test_a_name_that_somebody_else_let_point_here_is_refused(host, path, server, ask):
    status, _, content = ask("GET", path, Host=host.format(port=server.server_port))
    assert status == 403
    assert b"samples" not in content


def test_it_may_be_called_localhost(server, ask):
    host = f"localhost:{server.server_port}"
    assert ask("GET", "/about", Host=host)[0] == 200
    body = b"no picture"
    assert ask("POST", "/picture", body, Host=host, Origin=f"http://{host}", Content_Type=ANY)[0] == 400
    assert ask("POST", "/picture", body, Host=host, Content_Type=ANY)[0] == 403


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "https://127.0.0.1:{port}", None],
)
@pytest.mark.parametrize("path", ["/look", "/picture", "/drawing"])
def test_another_sites_page_gets_no_work_done(origin, path, server, ask):
    told = None if origin is None else origin.format(port=server.server_port)
    status, _, content = ask("POST", path, b"{}", Origin=told, Content_Type="application/json")
    assert status == 403
    assert json.loads(content) == {"error": "only the page of this server may ask it"}


def test_another_sites_page_reads_nothing(ask):
    assert ask("GET", "/about", Origin="https://evil.example")[0] == 403


def test_two_hosts_are_none(server):
    host = f"Host: 127.0.0.1:{server.server_port}\n"
    for hosts in (f"{host}Host: evil.example\n", f"Host: evil.example\n{host}", ""):
        assert raw(server, f"GET /about HTTP/1.1\n{hosts}\n").startswith(b"HTTP/1.1 403")
    assert raw(server, f"GET /about HTTP/1.1\n{host}\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "path", ["/../answering.py", "/%2e%2e/answering.py", "//etc/passwd", "/page.html", "/about?x", "/look", "/a\\b"]
)
def test_what_is_not_on_the_list_is_not_there(path, ask):
    assert ask("GET", path)[0] == 404


def test_work_that_is_not_on_the_list_is_not_done(ask):
    assert ask("POST", "/about", b"", Content_Type=ANY)[0] == 404
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "HEAD"):
        assert ask(method, "/look")[0] == 501


def test_no_answer_repeats_what_was_asked_as_a_page(server, ask):
    nasty = "/<script>alert(1)</script>"
    for answer in (ask("GET", nasty), ask("POST", nasty), ask("<b>", nasty)):
        assert answer[1]["Content-Type"].startswith("application/json")
        assert b"<" not in answer[2]
    assert b"<" not in raw(server, "<script> <script> <script> <script>\n\n")
    assert b"\r\n\r\n" in raw(server, f"GET /{'a' * 70_000} HTTP/1.1\n\n")


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("path", ["/picture", "/drawing"])
def test_a_bad_picture_is_one_line_and_the_server_goes_on(name, path, ask):
    kind = ANY if path == "/picture" else "image/png"
    status, _, content = ask("POST", path, BAD[name], Content_Type=kind)
    assert status == 400
    assert "\n" not in json.loads(content)["error"]
    assert ask("GET", "/about")[0] == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"[" * 100_000, b"\xff", b"{}", b'{"picture": NaN, "changes": {}}', b'{"picture": "", "x": 1}'],
)
def test_a_bad_question_is_one_line(body, ask):
    status, _, content = ask("POST", "/look", body, Content_Type="application/json")
    assert status == 400
    assert json.loads(content)["error"]


@pytest.mark.parametrize(("path", "largest"), [("/picture", LARGEST_FILE), ("/look", LARGEST_QUESTION)])
def test_what_is_too_large_is_refused_before_it_is_read(path, largest, server, ask):
    head = f"POST {path} HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\nOrigin: {server.address.rstrip('/')}\n"
    head += f"Content-Type: {ANY if path == '/picture' else 'application/json'}\n"
    for length, status in (
        (f"Content-Length: {largest + 1}\n", b"413"),
        (f"Content-Length: {'9' * 5000}\n", b"413"),
        ("Content-Length: -1\n", b"411"),
        ("Content-Length: ١\n".encode().decode("latin-1"), b"411"),
        ("Content-Length: 1\nContent-Length: 2\n", b"411"),
        ("Transfer-Encoding: chunked\n", b"411"),
        ("", b"411"),
        ("Content-Length: 100\n", b"400"),  # and then there is nothing
    ):
        answer = raw(server, f"{head}{length}\n")
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert b"Connection: close" in answer
    assert ask("GET", "/about")[0] == 200


def test_a_form_of_another_site_cannot_pose_as_a_question(ask):
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded", None):
        assert ask("POST", "/look", b"{}", Content_Type=kind)[0] == 415


def test_a_picture_is_fitted_and_looked_at(playground, ask):
    sample = playground.about()["samples"][0]["pictures"][0]["png"]
    question = json.dumps({"picture": sample, "changes": {"inversion": 100}})
    status, _, content = ask("POST", "/look", question, Content_Type="application/json")
    assert status == 200
    assert json.loads(content) == playground.look(json.loads(question))


def test_a_bug_is_told_and_the_server_goes_on(server, ask, monkeypatch):
    def fail(question):
        raise RuntimeError("<b>out of\nmemory")

    monkeypatch.setitem(server.works, "/look", ("application/json", 100, fail))
    status, _, content = ask("POST", "/look", b"{}", Content_Type="application/json")
    assert status == 500
    assert json.loads(content) == {"error": "internal error: RuntimeError: <b>out of memory"}
    assert ask("GET", "/")[0] == 200


def test_a_browser_that_leaves_early_is_nobodys_trouble(server, ask, capsys):
    head = f"POST /look HTTP/1.1\nHost: 127.0.0.1:{server.server_port}\nContent-Length: 9\n\n"
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert ask("GET", "/")[0] == 200
    assert capsys.readouterr() == ("", "")


def test_a_port_that_is_taken_is_one_line(server, playground):
    with pytest.raises(UserError, match=rf"cannot listen on port {server.server_port}: Address already in use"):
        PlaygroundServer(playground, server.server_port)
