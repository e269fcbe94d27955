"""Looks for accessibility faults in pages of HTML: axe-core, of npm, runs in headless Chromium on each, in light and dark, at two widths.

    axe.py PAGE...      prints each fault with the first element that has it; the status is 1 if there is one

Its rules are all but the experimental ones: WCAG 2.2 A and AA, and best practices.
"""

import pathlib
import subprocess
import sys

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
AXE = "axe-core@4.14.1"
# A page's light or dark is looked at wide, the other arrangement of its parts narrow.
VIEWS = [(1200, 900, "light"), (1200, 900, "dark"), (375, 812, "light")]
FAULTS = """axe.run({ resultTypes: ["violations"], iframes: false }).then(({ violations }) => violations.map((fault) =>
  `${fault.id} (${fault.impact}): ${fault.help}: ${fault.nodes.length} times: ${fault.nodes[0].html.slice(0, 160)}` +
  ` ${fault.nodes[0].any.concat(fault.nodes[0].all, fault.nodes[0].none).map((check) => check.message).join("; ")}`))"""


def faults(pages):
    """Each fault, after the page and the view that has it."""
    folder = subprocess.run([ROOT / "tools/npm-package", AXE], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    axe = pathlib.Path(folder, "axe.min.js").read_text()
    # No name resolves: a page is looked at as it is without a network.
    with Browser("--host-resolver-rules=MAP * ~NOTFOUND") as browser:
        for width, height, theme in VIEWS:
            browser.size(width, height)
            browser.media(theme)
            for page in pages:
                browser.open(pathlib.Path(page).resolve().as_uri())
                browser.run(axe + "\n0")
                for fault in browser.run(FAULTS):
                    yield f"{page}: {width} pixels, {theme}: {fault}"


def main(pages):
    found = list(faults(pages))
    print(*found, f"{len(found)} faults in {len(pages)} pages", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
