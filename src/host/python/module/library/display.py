"""The rich display of pyhost.track, pyhost.Lines and pyhost.LineProfile in a notebook.

Run in every interpreter that asks for it, and not before. The styles are in the cells: some front ends take style sheets out.
"""

from html import escape

from pyhost import _head, _rows, _text, _where

_LEFT = "text-align:left"
_RIGHT = "text-align:right"
_MOST = 10


def _bundle(shown):
    """What IPython asks an object for."""
    return {"text/plain": str(shown), "text/html": shown._repr_html_()}


def _table(caption, head, rows, left):
    """A table; the columns in `left` are texts, the others numbers."""
    def cells(tag, row):
        style = [_LEFT if place in left else _RIGHT for place in range(len(row))]
        return "".join(f'<{tag} style="{style}">{escape(cell)}</{tag}>' for style, cell in zip(style, row))

    lines = ["<table>", f'<caption style="{_LEFT}">{escape(caption)}</caption>',
             f"<thead><tr>{cells('th', head)}</tr></thead>", "<tbody>"]
    lines += [f"<tr>{cells('td', row)}</tr>" for row in rows]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _page(profiles):
    """A page of its own of tables, in ASCII: names of files may be no Unicode. It begins as `record::output::format` knows it."""
    page = '''<!DOCTYPE html>
<meta name="generator" content="pyhost">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Lines of functions</title>
<style>
:root { color-scheme: light dark; font: 14px system-ui, sans-serif }
body { margin: 2em }
table { border-collapse: collapse; margin-bottom: 2em }
caption { font-weight: 600; padding-bottom: .5em; white-space: nowrap }
th, td { padding: .15em .6em; white-space: nowrap; font-variant-numeric: tabular-nums }
th { border-bottom: 1px solid }
td:last-child { font-family: monospace }
</style>
''' + "\n".join(map(_html_of_profile, profiles)) + "\n"
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _html_of_lines(lines, views=("at_peak", "live")):
    found = []
    for title, rows in lines._tables(views, _MOST):
        texts = [(_text(row["bytes"]), f"\u00b1 {_text(row['error_bytes'])}", "+".join(row["accounts"]), _where(row)) for row in rows]
        found.append(_table(title, ("bytes", "error", "account", "line"), texts, (2, 3)))
    return "\n".join(found) or f"<p>{escape(str(lines))}</p>"


def _html_of_profile(profile):
    titles, *rows = profile._texts()
    # Spaces at the start of a cell are not shown.
    rows = [(*row[:-1], row[-1].replace(" ", "\u00a0")) for row in rows]
    return _table(profile._head(), titles, rows, (6, 7))


def _html_of_track(tracked):
    try:
        head, (titles, *rows) = _head(tracked), _rows(tracked)
    except RuntimeError:  # nothing was measured yet
        return f"<pre>{escape(repr(tracked))}</pre>"
    found = [_table(head, titles, rows, (0,))]
    lines = tracked.lines
    if lines is None:
        found.append("<p>Which lines: run under <code>pyhost --lines</code>.</p>")
    else:
        found.append(_html_of_lines(lines, ("at_peak", "grown")))
    return "\n".join(found)
