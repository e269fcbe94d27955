"""Opens a page with sampled lines in headless Chromium, works the icicle as a user does, and prints what it showed, as JSON,
for page_lines.rs to judge.

`stacks.py PAGE SHOTS FUNCTION`: the page, a folder for screenshots, a function that the script called once.
"""

import json
import pathlib
import sys
import time

from browser import Browser
from check import CONTRAST, LAYOUT, shoot, told

# What the icicle shows, from the frame at its top on.
STATE = """(() => {
  const text = (id) => document.getElementById(id).textContent.replaceAll("\\u00a0", " ");
  const at = document.activeElement;
  return {
    frames: [...document.querySelectorAll("#icicle > g")].map((frame) => {
      const rect = frame.querySelector("rect");
      return {
        classes: frame.getAttribute("class").split(" "),
        label: frame.getAttribute("aria-label").replaceAll("\\u00a0", " "),
        level: Number(frame.getAttribute("aria-level")),
        x: Number(rect.getAttribute("x")),
        y: Number(rect.getAttribute("y")),
        width: Number(rect.getAttribute("width")),
        stop: frame.getAttribute("tabindex") === "0",
      };
    }),
    whole: Number(document.getElementById("icicle").getAttribute("width")),
    found: text("stacks-found"),
    at: text("stacks-at"),
    note: text("stacks-note"),
    focus: at.getAttribute("aria-label")?.replaceAll("\\u00a0", " ") ?? at.id,
    back: !document.getElementById("stacks-back").disabled,
  };
})()"""

CHOICES = """Object.fromEntries(["view", "account", "widths"].map((name) => [
  name,
  [...document.querySelectorAll("#stacks-" + name + " option")].map((option) => [option.value, option.textContent]),
]))"""


class Icicle:
    """The icicle of the page that the browser shows."""

    def __init__(self, browser):
        self.browser = browser

    def state(self):
        return self.browser.run(STATE)

    def choose(self, name, value):
        """Chooses in a list, as its keys or the mouse would."""
        self.browser.run(
            f"(() => {{ const list = document.getElementById('stacks-{name}'); list.value = '{value}';"
            " list.dispatchEvent(new Event('change', { bubbles: true })); })()"
        )

    def center(self, function):
        """The middle of the frame of a function, scrolled into view."""
        return self.browser.run(
            "(() => { const frame = [...document.querySelectorAll('#icicle > g')].find((frame) =>"
            f" frame.getAttribute('aria-label').startsWith('{function} '));"
            " frame.scrollIntoView({ block: 'center', behavior: 'instant' });"
            " const box = frame.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )

    def until(self, holds):
        """Returns the first state that a condition holds of: the browser hands input to the page with its next frame."""
        deadline = time.monotonic() + 30
        while True:
            state = self.state()
            if holds(state) or time.monotonic() > deadline:
                return state
            time.sleep(0.02)

    def press(self, key, code):
        self.browser.press(key, code)
        return self.state()

    def search(self, text):
        self.browser.run("(() => { const field = document.getElementById('stacks-search'); field.value = ''; field.focus(); })()")
        self.browser.ask("Input.insertText", text=text)
        # Text that is empty is no input.
        self.browser.run("document.getElementById('stacks-search').dispatchEvent(new Event('input'))")
        return self.state()


def work(browser, shots, function):
    """Works the icicle; what it showed at each step."""
    icicle = Icicle(browser)
    choices = browser.run(CHOICES)
    found = {"choices": choices, "first": icicle.state(), "sums": {}}
    for view, _ in choices["view"]:
        icicle.choose("view", view)
        for account, name in choices["account"]:
            icicle.choose("account", account)
            found["sums"].setdefault(view, {})[name] = icicle.state()
        icicle.choose("account", "0")
    icicle.choose("view", choices["view"][0][0])
    for width, _ in choices["widths"]:
        icicle.choose("widths", width)
        found.setdefault("widths", {})[width] = icicle.state()
    if choices["widths"]:
        icicle.choose("widths", choices["widths"][0][0])

    x, y = icicle.center(function)
    before = icicle.state()["at"]
    browser.move(x, y)
    found["hover"] = icicle.until(lambda state: state["at"] != before)
    browser.click(x, y)
    found["zoomed"] = icicle.until(lambda state: state["back"])
    shoot(browser, shots / "zoomed.png")
    # From the keyboard: the frame has the focus.
    found["escape"] = icicle.press("Escape", 27)
    found["home"] = icicle.press("Home", 36)
    found["down"] = icicle.press("ArrowDown", 40)
    found["right"] = icicle.press("ArrowRight", 39)
    found["left"] = icicle.press("ArrowLeft", 37)
    found["enter"] = icicle.press("Enter", 13)
    found["up"] = icicle.press("ArrowUp", 38)
    browser.run("document.getElementById('stacks-whole').click()")
    found["whole"] = icicle.state()
    found["search"] = icicle.search(function.upper())
    shoot(browser, shots / "search.png")
    found["nothing"] = icicle.search("no such function")
    found["cleared"] = icicle.search("")
    browser.size(700, 900)
    found["narrower"] = icicle.until(lambda state: state["whole"] < found["first"]["whole"])
    return found


def opened(browser, page):
    """Opens the page, and waits until its script has unpacked the stacks."""
    browser.open(page.as_uri())
    Icicle(browser).until(lambda state: state["frames"])


def main():
    page, shots, function = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    found = {}
    with Browser() as browser:
        for theme in ["light", "dark"]:
            for width, phone in [(1200, False), (375, True)]:
                browser.size(width, 1400, phone)
                browser.media(theme)
                opened(browser, page)
                browser.run("document.getElementById('lines').scrollIntoView({ behavior: 'instant' })")
                shoot(browser, shots / f"lines-{theme}-{width}.png")
                found[f"{theme}-{width}"] = {"contrast": browser.run(CONTRAST), "layout": browser.run(LAYOUT), **told(browser)}
        browser.size(1200, 1000)
        browser.media()
        opened(browser, page)
        found |= work(browser, shots, function) | told(browser)
        browser.open(page.as_uri(), scripts=False)
        found["without_scripts"] = browser.run(
            "({ rows: document.querySelectorAll('#lines table[data-view] tbody')[0].rows.length,"
            " icicle: document.getElementById('stacks').checkVisibility() })"
        )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
