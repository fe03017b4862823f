"""A real browser for tests: Chromium without a window, driven through its DevTools protocol over a pipe."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = f"no browser: none of {', '.join(NAMES)} is in the PATH (Debian: apt-get install chromium)"
# Chromium reads commands from descriptor 3 and writes answers to 4.
LAUNCH = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page. Errors in it and requests that leave the machine are collected in ``errors`` and ``requests``."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900):
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]
        options += [f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        launch = [sys.executable, "-c", LAUNCH, str(commands), str(answers), CHROMIUM, *options]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(launch, pass_fds=(commands, answers), **quiet)
        os.close(commands)
        os.close(answers)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", None
        self.errors: list[str] = []
        self.requests: list[str] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *exception) -> None:
        try:
            self._session = None
            self._call("Browser.close")
        finally:
            os.close(self._commands)
            os.close(self._answers)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def open(self, path: Path) -> None:
        """A page of ours, when it is ready."""
        self.errors.clear()
        self.requests.clear()
        self._call("Page.navigate", url=path.as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def run(self, script: str):
        """The value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not self.run(script):
            if time.monotonic() > end:
                raise TimeoutError(f"still not so: {script}; errors in the page: {self.errors}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Until the page has been drawn again."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def press(self, key: str) -> None:
        """A key, by its name in JavaScript."""
        # Enter counts as one that makes text; of the others, those with one character do.
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **code, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)
        self.settle()

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)
        self.settle()

    def point(self, script: str, click: bool = False) -> None:
        """Moves the mouse to the middle of the element that an expression gives, and clicks if wanted."""
        box = f"(box => [box.x + box.width / 2, box.y + box.height / 2])(({script}).getBoundingClientRect())"
        x, y = self.run(box)
        for kind in ["mouseMoved", *["mousePressed", "mouseReleased"] * click]:
            pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)
        self.settle()

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        """What the system would say: light or dark."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _call(self, method: str, **parameters) -> dict:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._notice(answer.get("method"), answer.get("params", {}))

    def _notice(self, event: str, details: dict) -> None:
        if event == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.errors.append(thrown.get("exception", {}).get("description") or thrown["text"])
        elif event == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.errors.append(details["entry"]["text"])
        elif event == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {details['message']}")
            raise AssertionError(self.errors[-1])
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def _read(self, seconds: float = 120) -> dict:
        while b"\0" not in self._buffer:
            if not select.select([self._answers], [], [], seconds)[0]:
                raise TimeoutError(f"no answer from the browser for {seconds} s")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError(f"the browser has ended, exit code {self._process.wait()}")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
