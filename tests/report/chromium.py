"""Headless Chromium for tests, spoken to over its own debugging pipe: no driver, no port, no package.

In: an HTML file and how it is looked at. Out: `Page`, which runs scripts, moves the mouse and knows what went wrong.
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FLAGS = """--headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars
--no-first-run --disable-quic --disable-sync --disable-background-networking --disable-component-update"""
# Chromium reads commands from descriptor 3 and answers on 4.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
PATIENCE = 120.0  # seconds: the machine may be busy
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}


def installed() -> str | None:
    """Where Debian's Chromium is."""
    return shutil.which("chromium")


class Browser:
    """One process for all tests; a page at a time."""

    def __init__(self, profile: Path):
        command = installed()
        assert command is not None
        theirs, self._write = os.pipe()
        self._read, answers = os.pipe()
        # Well above 3 and 4, so that neither is closed before it is moved there.
        given = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (theirs, answers)]
        launch = [sys.executable, "-c", LAUNCH, *map(str, given)]
        arguments = [command, *FLAGS.split(), f"--user-data-dir={profile}"]
        null = subprocess.DEVNULL
        self._process = subprocess.Popen([*launch, *arguments], pass_fds=given, stdin=null, stdout=null, stderr=null)
        for descriptor in (theirs, answers, *given):
            os.close(descriptor)
        self._buffer, self._count = b"", 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the process that this began."""
        with suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to one command of the DevTools protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == self._count)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def wait(self, event: str, session: str) -> None:
        """Until an event has come, maybe before."""
        is_it = lambda message: message.get("method") == event and message.get("sessionId") == session  # noqa: E731
        if not any(map(is_it, self.events)):
            self._until(is_it)

    def open(self, path: Path, width: int = 1000, height: int = 800, *, touch: bool = False, **media: str) -> "Page":
        """A page of a size; `media` as in CSS, `prefers_color_scheme="dark"`, or `media="print"`."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        page.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        features = [{"name": key.replace("_", "-"), "value": value} for key, value in media.items() if key != "media"]
        page.call("Emulation.setEmulatedMedia", media=media.get("media", ""), features=features)
        page.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired", session)
        page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
        return page

    def _until(self, wanted: Any) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while True:
            *whole, self._buffer = self._buffer.split(b"\0")
            found = None
            for message in map(json.loads, whole):
                if "method" in message:
                    self.events.append(message)
                if found is None and wanted(message):
                    found = message
            if found is not None:
                return found
            if not select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium has not answered for {PATIENCE:.0f} seconds.")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium has ended.")
            self._buffer += chunk


class Page:
    """One open page."""

    def __init__(self, browser: Browser, target: str, session: str):
        self._browser, self._target, self._session = browser, target, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait for an expression to hold."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < deadline, f"never came true: {script}"
            time.sleep(0.05)

    def point(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def tap(self, x: float, y: float) -> None:
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        known = {"key": key, "windowsVirtualKeyCode": KEYS[key], **({"text": key} if key == " " else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def complaints(self) -> list[str]:
        """Errors and warnings so far: thrown, logged by a script, or logged by the browser."""
        self.run("0")
        kinds = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [json.dumps(event["params"]) for event in self._browser.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        self.run("0")
        sent = [event for event in self._browser.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]
