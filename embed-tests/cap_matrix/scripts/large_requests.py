"""One request that alone passes any cap: refused at once, and the script goes on."""

from growing import FORMS, need, run

[zlib, array] = need("zlib", "array")

# Repeated, so that a refused large request leaves the script in no other state than before.
forms = {name: FORMS[name] for name in ("around", "inside", "inside, again", "caller", "finally", "with", "uncaught")}

run("large_requests", [
    ("data = 0", "data = bytes(10 ** 9)"),
    ("data = 0", "data = bytearray(2 ** 40)"),
    ("data = 0", "data = [0] * 10 ** 9"),
    ("data = 0", "data = (None,) * 10 ** 9"),
    ("data = 0", "data = 'x' * 10 ** 10"),
    ("data = 0", "data = 1 << (1 << 34)"),
    ("data = [0] * n", "data *= 2"),
    ("data = bytearray(n)", "data *= 2"),
    ("data = 'x' * n", "data = data.replace('x', 'xxx')"),
    ("data = 0", "data = array.array('d', [0]) * 10 ** 9"),
    ("data = b'x' * n", "data = data.ljust(10 ** 9)"),
    ("data = zlib.compress(bytes(10 ** 6))", "data = zlib.decompress(data, bufsize=10 ** 9)"),
], forms=forms, names={"zlib": zlib, "array": array})
