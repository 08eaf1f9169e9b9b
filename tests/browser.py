"""Chromium without a window, driven by the WebDriver protocol."""

import base64
import contextlib
import functools
import http.server
import json
import pathlib
import re
import subprocess
import threading
import urllib.request

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    # Nothing but this machine has a name, for plain http in the second case.
    "--host-resolver-rules=MAP\tplain.test\t127.0.0.1,"
    "MAP\t*\t~NOTFOUND,EXCLUDE\t127.0.0.1"
).split(" ")
_FLAGS = [flag.replace("\t", " ") for flag in _FLAGS]
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


@contextlib.contextmanager
def serving(folder):
    """Serves a folder on a free port; yields its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Browser:
    """A browser with one page.

    Args:
      address: that of the driver.
      profile: a new folder for the browser's files.
    """

    def __init__(self, address, profile):
        self._address = address
        chrome = {"args": [*_FLAGS, f"--user-data-dir={profile}"]}
        wanted = {
            "goog:chromeOptions": chrome,
            "goog:loggingPrefs": {"performance": "ALL"},
        }
        request = {"capabilities": {"alwaysMatch": wanted}}
        session = self._call("POST", "/session", **request)["sessionId"]
        self._address += f"/session/{session}"

    def _call(self, method, path, **values):
        data = json.dumps(values).encode() if method == "POST" else None
        request = urllib.request.Request(
            self._address + path, data=data, method=method
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["value"]

    def open(self, address):
        """Opens a page."""
        self._call("POST", "/url", url=address)

    def run(self, script, *arguments):
        """Returns what the body of a function returns; promises are awaited."""
        return self._call(
            "POST", "/execute/sync", script=script, args=arguments
        )

    def type(self, selector, text):
        """Replaces the text of an element by what is typed."""
        found = self._call(
            "POST", "/element", using="css selector", value=selector
        )
        path = f"/element/{found[_ELEMENT]}"
        self._call("POST", f"{path}/clear")
        self._call("POST", f"{path}/value", text=text)

    def emulate(self, scheme, width, height):
        """Emulates a phone's screen, and a "light" or "dark" color scheme."""
        screen = {"width": width, "height": height, "mobile": True}
        scheme = {"name": "prefers-color-scheme", "value": scheme}
        for command, values in {
            "setDeviceMetricsOverride": screen | {"deviceScaleFactor": 2},
            "setEmulatedMedia": {"features": [scheme]},
        }.items():
            self._call(
                "POST",
                "/goog/cdp/execute",
                cmd=f"Emulation.{command}",
                params=values,
            )

    def requests(self):
        """Returns the addresses that were asked for since the last call."""
        lines = self._call("POST", "/se/log", type="performance")
        events = [json.loads(line["message"])["message"] for line in lines]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path, width, height):
        """Writes a picture of the page in a window of this size."""
        self._call("POST", "/window/rect", width=width, height=height)
        picture = self._call("GET", "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(picture))

    def close(self):
        """Ends the browser."""
        self._call("DELETE", "")


@contextlib.contextmanager
def started(profile):
    """Yields a `Browser`."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True
    )
    try:
        for line in driver.stdout:
            if port := re.search(r"successfully on port (\d+)", line):
                break
        browser = Browser(f"http://127.0.0.1:{port[1]}", profile)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        driver.terminate()
        driver.communicate()
