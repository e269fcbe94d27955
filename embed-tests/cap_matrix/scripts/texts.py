"""Strings grow: by joining, adding, repeating, formatting, encoding, and in a StringIO."""

import io

from growing import run

run("texts", [
    ("data = []", "data.append('%d' % i + 'y' * n)"),
    ("data = []", "data.append(f'{i}:{n}' * 9)"),
    ("data = 'x' * n", "data = data + data[:len(data) // 4 + 9]"),
    ("data = 'x'", "data += data"),
    ("data = ['x' * n]", "data.append(''.join(data[-50:]))"),
    ("data = io.StringIO()", "data.write('text ' * n)"),
    ("data = []", "data.append(('\\u20ac' * n).encode('utf-8'))"),
    ("data = []", "data.append(('a b ' * n).split())"),
    ("data = []", "data.append('{0:>{1}}'.format(i, n))"),
], whole=[
    "data = ''.join(str(i) * n for i in itertools.count())",
    "data = ','.join(map(str, itertools.count()))",
], names={"io": io}, sizes=(48, 20_000))
