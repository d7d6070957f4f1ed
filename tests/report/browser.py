"""A browser on a leash: Chromium without a window, driven through the DevTools protocol over two pipes."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")

# Chromium reads commands from descriptor 3 and answers on 4.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page open; what that requests and complains about is kept.

    Args:
        executable: The path of the browser.
        profile: An empty folder for it.
    """

    def __init__(self, executable: str, profile: Path) -> None:
        inside_read, outside_write = _pipe()
        outside_read, inside_write = _pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
        options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]
        options += [f"--user-data-dir={profile}", "--window-size=1200,900", "about:blank"]
        command = [sys.executable, "-c", _LAUNCH, str(inside_read), str(inside_write), executable, *options]
        self._process = subprocess.Popen(
            command, pass_fds=(inside_read, inside_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(inside_read)
        os.close(inside_write)
        self._read, self._write = outside_read, outside_write
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        attach = {"targetId": pages[0]["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", **attach)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)  # the browser ends when nobody can command it any more
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, page: Path | str) -> None:
        """Open a file or an address, and wait until it is loaded; what other pages did is forgotten."""
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """The value of a JavaScript expression, once it is neither false nor empty."""
        poll = (
            "new Promise((resolve, reject) => { const end = Date.now() + 20000; const look = () => {"
            f"const found = {expression}; if (found) resolve(found);"
            "else if (Date.now() > end) reject(new Error('it never came')); else setTimeout(look, 20); }; look(); })"
        )
        return self.evaluate(poll)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where the middle of an element is, once it has been scrolled to."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def hover(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text=text)

    @property
    def requests(self) -> list[str]:
        """Everything the page has asked for."""
        return [e["params"]["request"]["url"] for e in self._events if e["method"] == "Network.requestWillBeSent"]

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What went to the console, and errors that nobody caught."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self._events if event["method"] in kinds]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "the browser is gone"
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are clear of the descriptors that the browser will use."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends[0], ends[1]
