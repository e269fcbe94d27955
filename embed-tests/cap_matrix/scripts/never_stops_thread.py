"""As never_stops, in a thread beside the main one."""

from growing import NEVER_FORMS, run

run("never_stops_thread", [
    ("data = []", "data.append(bytes(n))"),
    ("data = {}", "data[i] = str(i)"),
    ("data = []", "data.append((i, [i]))"),
], forms=NEVER_FORMS, sizes=(48, 2000), in_thread=True)
