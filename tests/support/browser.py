"""A real browser for tests of pages: Chromium without a window, told what to do over a pipe (the DevTools
protocol), so that keys are pressed, colours chosen and pictures taken as a person's would be.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAMS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
NO_BROWSER = (
    "no browser: apt-get install -y --no-install-recommends chromium-headless-shell, or set "
    "LAKEHOUSE_BROWSER to a Chromium"
)
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


def program() -> str | None:
    """The browser of this machine, if it has one."""
    return os.environ.get("LAKEHOUSE_BROWSER") or next(filter(None, map(shutil.which, PROGRAMS)), None)


# The browser reads what it is told from file 3, and answers to file 4.
_AS_3_AND_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Tab:
    """One page in the browser. `problems` is what its console has: errors, and what its policy refused."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing, self._rest, self._number = reading, writing, b"", 0
        self._session: str | None = None
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        self._number += 1
        number = self._number
        said = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            said["sessionId"] = self._session
        os.write(self._writing, json.dumps(said).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == number:
                assert "error" not in told, told["error"]
                return dict(told["result"])
            self._note(told)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._reading, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def _note(self, told: dict[str, Any]) -> None:
        if told.get("method") == "Log.entryAdded":
            self.problems.append(told["params"]["entry"]["text"])
        elif told.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(told["params"]["exceptionDetails"]))

    def show(self, width: int = 1100, height: int = 900, dark: bool = False, scripts: bool = True) -> None:
        """How the pages are shown from now on."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)

    def open(self, url: str) -> None:
        """Go to an address and wait until its page is there."""
        self.call("Page.navigate", url=url)
        wait_for(lambda: self.ask("location.href !== 'about:blank' && document.readyState") == "complete")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, as a keyboard does."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        of_key = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key]}
        down = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **of_key, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **of_key)

    def picture(self, to: Path, whole: bool = True) -> Path:
        """Save what the page looks like."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        to.write_bytes(base64.b64decode(shot["data"]))
        return to


@contextmanager
def opened(path: str) -> Iterator[Tab]:
    """A tab of a browser that is started, and ended afterwards."""
    to_browser, from_browser = os.pipe(), os.pipe()
    ends = to_browser[0], from_browser[1]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
    started = subprocess.Popen(
        [sys.executable, "-c", _AS_3_AND_4, *map(str, ends), path, *options],
        pass_fds=ends,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser[0])
    os.close(from_browser[1])
    try:
        yield Tab(from_browser[0], to_browser[1])
    finally:
        started.kill()
        started.wait()
        for end in (to_browser[1], from_browser[0]):
            with suppress(OSError):
                os.close(end)


def wait_for(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
