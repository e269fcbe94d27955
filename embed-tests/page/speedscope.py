"""Has speedscope, in headless Chromium, read files; prints what it exports of each again, as a list in JSON.

    speedscope.py FOLDER FILE...

FOLDER is speedscope's package of npm. The program opens its page as the command `speedscope FILE` does: with a script
beside it that hands over the file.
"""

import base64
import json
import sys
import tempfile
import time
from pathlib import Path

from browser import TIMEOUT, Browser

# The export is a link to a blob, which the page would have the browser save.
EXPORT = """new Promise((done, failed) => {
  URL.createObjectURL = (blob) => { blob.text().then(done, failed); return "#"; };
  const buttons = [...document.querySelectorAll("div")].filter((div) => div.textContent.endsWith("Export"));
  buttons.reduce((one, other) => (one.contains(other) ? other : one)).click();
})"""


def exported(browser, page, file, script):
    """Returns speedscope's own file of what it read."""
    content = base64.b64encode(file.read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(file.name)}, {json.dumps(content)})")
    # A new address, so that the page loads anew.
    browser.open(f"{page.as_uri()}?{file.name}#localProfilePath={script}")
    deadline = time.monotonic() + TIMEOUT
    while not browser.run("document.title").endswith(" - speedscope"):
        said = [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]
        if said or time.monotonic() > deadline:
            raise SystemExit(f"speedscope does not read {file}: {said or browser.run('document.body.innerText')}")
        time.sleep(0.05)
    return json.loads(browser.run(EXPORT))


def main(folder, *files):
    page = Path(folder) / "dist/release/index.html"
    with Browser("--enable-unsafe-swiftshader") as browser, tempfile.TemporaryDirectory() as scripts:
        script = Path(scripts) / "file.js"
        print(json.dumps([exported(browser, page, Path(file), script) for file in files]))


main(*sys.argv[1:])
