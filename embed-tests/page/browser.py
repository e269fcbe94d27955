"""Drives headless Chromium by the DevTools protocol over a pair of pipes (--remote-debugging-pipe): messages are JSON,
each ended by a zero byte. No package is needed, and no port is opened.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

# Its name in the packages of Debian and others.
PROGRAMS = ["chromium", "chromium-browser", "google-chrome"]
ARGUMENTS = [
    "--headless=new",
    "--remote-debugging-pipe",
    # Its sandbox does not run as root, nor in most containers.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "about:blank",
]
# An answer that takes longer than this is taken for none.
TIMEOUT = 60


class Browser:
    """A browser with one page, started with more `arguments`. A context manager: at its end the browser and its profile are gone."""

    def __init__(self, *arguments):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise SystemExit("no chromium in PATH; expected Debian's package of that name")
        self.profile = tempfile.TemporaryDirectory(prefix="pyhost-page-", ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()

        def wire():
            # Its ends are 3 and 4, wherever they were: first out of the way of both.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            while reading < 5:
                reading = os.dup(reading)
            while writing < 5:
                writing = os.dup(writing)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, f"--user-data-dir={self.profile.name}", *arguments, *ARGUMENTS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log,
            preexec_fn=wire,
            close_fds=False,
            start_new_session=True,
            env={**os.environ, "HOME": self.profile.name},
        )
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.events = []
        self.session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            session, self.session = self.session, None
            self.ask("Browser.close")
            self.session = session
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            # A session of its own, so that its helpers end with it.
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.log.close()
        self.profile.cleanup()

    def message(self, deadline):
        """Returns the next message, an event or an answer."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.into, 1 << 16) if ready else b""
            if not chunk:
                self.log.seek(0)
                said = self.log.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"the browser says no more; it said:\n{said}")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **parameters):
        """Asks the browser and returns its answer; what it tells meanwhile is kept in `events`."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        text = json.dumps(request).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text) :]
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.number:
                break
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait_for(self, name):
        """Waits until an event of that name has come since the last `clear`."""
        deadline = time.monotonic() + TIMEOUT
        while not any(event.get("method") == name for event in self.events):
            self.events.append(self.message(deadline))

    def open(self, url, scripts=True):
        """Opens an address, forgetting what was told of the page before, and waits until it has loaded. The page may run
        its scripts, or not."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.ask("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        # The frame after is drawn, and late errors are told. Without scripts no promise is kept.
        if scripts:
            self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, expression):
        """Evaluates an expression in the page, or the promise that it gives, and returns its value."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key, code):
        """Presses a key and lets go of it."""
        shared = {"key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **shared)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **shared)

    def move(self, x, y):
        """Moves the mouse."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        """Moves the mouse to a place and clicks there."""
        self.move(x, y)
        for kind in ["mousePressed", "mouseReleased"]:
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def size(self, width, height, phone=False):
        """Sets the window's size in CSS pixels, as a desk's or a phone's."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def media(self, scheme="light", kind=""):
        """Sets the theme that the page is told of, and the medium: "" or "print"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=kind, features=features)
