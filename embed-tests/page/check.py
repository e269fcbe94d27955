"""Opens a page of `pyhostctl html` in headless Chromium and prints what it found there, as JSON, for page.rs to judge.

`check.py PAGE REPORT SHOTS`: the page, the report that it was made of, a folder for screenshots.
"""

import base64
import json
import pathlib
import struct
import sys
import time
import zlib

from browser import Browser

# Figures of accounts and of all: the DOM's beside the JSON's, the page's own copy and the file's.
FIGURES = """(() => {
  const found = {};
  for (const row of document.querySelectorAll("#accounts-table [data-account]")) {
    for (const cell of row.querySelectorAll("[data-field]")) {
      found[row.dataset.account + "." + cell.dataset.field] = Number(cell.querySelector("data").value);
    }
  }
  for (const place of document.querySelectorAll(".cards [data-field]")) {
    const data = place.querySelector("data");
    found["card." + place.dataset.field] = data && Number(data.value);
  }
  return found;
})()"""

# The elements that the Tab key reaches, by name.
FOCUSED = """(() => {
  const at = document.activeElement;
  return at.id || at.getAttribute("aria-label") || at.getAttribute("href") || at.tagName;
})()"""

# Where two rectangles of text would lie over one another, or a text over its box's edge, in the page's own tables.
STRUCTURE = """(() => ({
  lang: document.documentElement.lang,
  title: document.title,
  landmarks: ["header", "nav", "main", "footer"].filter((name) => document.querySelectorAll("body > " + name).length === 1),
  headings: [...document.querySelectorAll("h1, h2")].map((heading) => heading.textContent),
  headersWithoutScope: document.querySelectorAll("th:not([scope])").length,
  unnamedSections: [...document.querySelectorAll("main > section")]
    .filter((section) => !document.getElementById(section.getAttribute("aria-labelledby"))).length,
  doubledIds: [...document.querySelectorAll("[id]")].map((node) => node.id)
    .filter((id, index, all) => all.indexOf(id) !== index),
  loose: [...document.querySelectorAll("table")].filter((table) => !table.closest(".scroll")).length,
  unreachable: [...document.querySelectorAll(".scroll")].filter((box) => box.tabIndex !== 0 || !box.getAttribute("aria-label")).length,
  styles: document.querySelectorAll("[style]").length,
  scripts: [...document.scripts].map((script) => script.type),
  links: [...document.querySelectorAll("main a, nav a")].filter((link) => !document.querySelector(link.getAttribute("href"))).length,
  report: document.getElementById("report").textContent,
  samples: document.querySelectorAll("#samples tbody tr").length,
  events: [...document.querySelectorAll("#events tbody td:last-child")].map((cell) => cell.textContent),
  cursor: Boolean(document.querySelector("#cursor:not([hidden])")),
}))()"""

# The elements that cannot be read or reached at this width.
LAYOUT = """(() => {
  const box = document.scrollingElement;
  const wide = [...document.querySelectorAll("body *")].filter((node) => {
    const { left, right } = node.getBoundingClientRect();
    return right > innerWidth + 0.5 && left < right && !node.closest(".scroll, .unseen, .command, svg");
  });
  return {
    overflow: box.scrollWidth - innerWidth,
    wide: wide.slice(0, 5).map((node) => node.outerHTML.slice(0, 120)),
    plots: [...document.querySelectorAll("svg.plot")].filter((svg) => svg.getBoundingClientRect().width > 0).length,
  };
})()"""

# Every text whose contrast with what lies behind it is below 4.5 (3 where it is large).
CONTRAST = """(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => {
      part /= 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    const frame = node.closest("g.frame");
    if (frame) return parse(getComputedStyle(frame.querySelector("rect")).fill);
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || node.closest("script, style, title, #samples tbody tr + tr")) continue;
    if (!node.checkVisibility({ visibilityProperty: true })) continue;
    count += 1;
    const style = getComputedStyle(node);
    const front = parse(node.closest("text") ? style.fill : style.color);
    const [one, two] = [luminance(front), luminance(behind(node))];
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) poor.push([walker.currentNode.data.trim().slice(0, 40), contrast]);
  }
  return { count, poor: poor.slice(0, 10) };
})()"""


def colours(png):
    """Returns how many colours a PNG of 8 bits a channel has, and the mean of its bytes: enough to tell an empty picture
    and a dark one."""
    at, data, channels = 8, b"", 3
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    raw, step = zlib.decompress(data), width * channels
    before, seen, total = bytearray(step), set(), 0
    for line in range(height):
        start = line * (step + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + step])
        for i in range(step):
            left = row[i - channels] if i >= channels else 0
            up = before[i]
            corner = before[i - channels] if i >= channels else 0
            if kind == 1:
                row[i] = (row[i] + left) & 255
            elif kind == 2:
                row[i] = (row[i] + up) & 255
            elif kind == 3:
                row[i] = (row[i] + (left + up) // 2) & 255
            elif kind == 4:
                guess = left + up - corner
                near = min((left, up, corner), key=lambda value: abs(guess - value))
                row[i] = (row[i] + near) & 255
        if line % 4 == 0:
            for i in range(0, step, channels * 4):
                pixel = bytes(row[i : i + 3])
                seen.add(pixel)
                total += sum(pixel)
        before = row
    picked = ((height + 3) // 4) * ((step + channels * 4 - 1) // (channels * 4))
    return {"colours": len(seen), "mean": total / (3 * picked)}


def shoot(browser, path):
    """Takes a screenshot of what the window shows."""
    png = base64.b64decode(browser.ask("Page.captureScreenshot", format="png")["data"])
    path.write_bytes(png)
    return colours(png)


def told(browser):
    """Returns what the page said to the console, and the addresses that it asked for beside its own."""
    said, asked = [], []
    for event in browser.events:
        method, parameters = event.get("method", ""), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            said.append(str(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            said.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            said.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent" and parameters.get("type") != "Document":
            address = parameters["request"]["url"]
            if not address.startswith("data:"):
                asked.append(address)
    return {"said": said, "asked": asked}


def tour(browser):
    """Presses Tab through the page; what it came by, in order."""
    stops = []
    for _ in range(200):
        browser.press("Tab", 9)
        stop = browser.run(FOCUSED)
        if stop in ("BODY", "HTML"):
            break
        stops.append(stop)
    return stops


def moved(browser):
    """Moves the timeline's cursor by keys and by the mouse; what the page read out each time."""
    readout = "document.getElementById('readout').textContent"
    line = "Number(document.querySelector('svg.plot.wide .cursor').getAttribute('x1'))"
    found = {"before": browser.run(readout), "from": browser.run(line)}
    browser.run("document.getElementById('cursor').focus()")
    browser.press("ArrowRight", 39)
    found["right"], found["to"] = browser.run(readout), browser.run(line)
    browser.press("Home", 36)
    found["home"] = browser.run(readout)
    browser.press("ArrowLeft", 37)
    found["still_home"] = browser.run(readout)
    browser.press("End", 35)
    found["end"] = browser.run(readout)
    browser.run("document.querySelector('svg.plot.wide').scrollIntoView({ block: 'center', behavior: 'instant' })")
    x, y = browser.run(
        "(() => { const box = document.querySelector('svg.plot.wide').getBoundingClientRect();"
        " return [box.left + box.width * 0.62, box.top + box.height / 2]; })()"
    )
    browser.move(x, y)
    # The browser hands a movement to the page with its next frame.
    deadline = time.monotonic() + 30
    while browser.run(readout) == found["end"] and time.monotonic() < deadline:
        time.sleep(0.02)
    found["mouse"] = browser.run(readout)
    found["legend"] = browser.run("document.querySelector('[data-legend=\"total\"]').textContent")
    return found


def number(text):
    """Reads a fraction as JavaScript does: 0.0 is 0."""
    value = float(text)
    return int(value) if value.is_integer() else value


def main():
    page, report, shots = map(pathlib.Path, sys.argv[1:])
    found = {"report": json.loads(report.read_text(encoding="utf-8"), parse_float=number)}
    with Browser() as browser:
        for theme in ["light", "dark"]:
            browser.size(1200, 1000)
            browser.media(theme)
            browser.open(page.as_uri())
            found[theme] = {
                "shot": shoot(browser, shots / f"{theme}.png"),
                "contrast": browser.run(CONTRAST),
                "layout": browser.run(LAYOUT),
            }
            if theme == "light":
                found["figures"] = browser.run(FIGURES)
                found["structure"] = browser.run(STRUCTURE)
                packed = base64.b64decode(found["structure"]["report"])
                found["structure"]["report"] = json.loads(zlib.decompress(packed), parse_float=number)
                found["tour"] = tour(browser)
                if found["structure"]["cursor"]:
                    found["moved"] = moved(browser)
            found[theme] |= told(browser)
        for theme in ["light", "dark"]:
            browser.size(375, 812, phone=True)
            browser.media(theme)
            browser.open(page.as_uri())
            found[f"phone-{theme}"] = {"shot": shoot(browser, shots / f"phone-{theme}.png"), "layout": browser.run(LAYOUT)}
            # All that is folded is opened: tables too must keep to their boxes.
            browser.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
            found[f"phone-{theme}"] |= {"opened": browser.run(LAYOUT), **told(browser)}
        browser.size(794, 1123)
        browser.media("dark", "print")
        browser.open(page.as_uri())
        found["print"] = {"shot": shoot(browser, shots / "print.png"), **told(browser)}
        browser.size(1200, 1000)
        browser.media()
        browser.open(page.as_uri(), scripts=False)
        found["without_scripts"] = {"figures": browser.run(FIGURES), "structure": browser.run(STRUCTURE)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
