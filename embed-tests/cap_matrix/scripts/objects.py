"""A list grows by small objects of many types, by appending, extending, storing and adding lists."""

from growing import run

run("objects", [
    ("data = []", "data.append(object())"),
    ("data = []", "data.append((i, i + 1))"),
    ("data = []", "data.append(i * 1.5)"),
    ("data = []", "data.append([i])"),
    ("data = []", "data += [i, str(i)]"),
    ("data = []", "data.extend((object(), object()))"),
    ("data = []", "data.append(lambda: i)"),
    ("data = None", "data = (data, i)"),
    ("data = []", "data[len(data):] = [b'x' * n]"),
    ("data = [object()]", "data = data + data[:n] + [object() for j in data]"),
], sizes=(48, 2000))
