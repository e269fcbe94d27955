"""The tables of run.py, as Markdown."""

import outcomes

BEGIN, END = "<!-- fault_places: begin -->", "<!-- fault_places: end -->"
EXPLAINED = ("same place", "same C function", "same damage")


def outcomes_table(results):
    """Returns the outcomes by version: a line a Python, a column an outcome."""
    counts = []
    for runner, records in results:
        count = {}
        for record in records:
            count[record["outcome"]] = count.get(record["outcome"], 0) + 1
        counts.append((f"{runner.release}, NumPy {runner.numpy}", len(records), count))
    signals = sorted({name for _, _, count in counts for name in count} - set(outcomes.ORDER))
    names = outcomes.ORDER[:4] + signals + outcomes.ORDER[4:]
    names = [name for name in names if name in outcomes.ORDER[:3] or any(name in count for _, _, count in counts)]
    lines = ["| Python | places | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    for title, total, count in counts:
        lines.append(f"| {title} | {total} | " + " | ".join(str(count.get(name, 0)) for name in names) + " |")
    return "\n".join(lines) + "\n"


def failure(accounts, number):
    """Returns how stock Python was made to fail."""
    return f"`fail_native({number})`" if accounts == "native" else f"`set_nomemory({number - 1}, {number})`"


def frame(stack):
    return "{}:{} in {}".format(*stack[0]) if stack else "no Python frame"


def crashes(results):
    """Returns the list of what did not end by itself, one line for each crash place, with what stock Python does."""
    lines = ["| Python | phase, accounts, N | outcome | ends in | Python's line | stock Python |",
             "|---|---|---|---|---|---|"]
    for runner, records in results:
        for record in records:
            if not outcomes.is_bad(record["outcome"]):
                continue
            found = record.get("evidence") or {"status": "not searched"}
            names = " < ".join(f"`{name}`" for name in found.get("host_c", [])[:3]) or "-"
            stock = found["status"]
            if "start" in found:
                stock += ": " + failure(record["place"][1], found["start"])
            if found.get("kin"):
                stock += "; as {0}, {2}".format(*found["kin"])
            if record["fatal"]:
                names = f"{record['fatal']}; {names}"
            phase, accounts, number = record["place"]
            place = frame(record["stack"])
            lines.append(f"| {runner.release} | {phase}, {accounts}, {number} | {record['outcome']} | {names} "
                         f"| {place} | {stock} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No run crashed, hung or ended in a fatal error.\n"


def unexplained(results):
    """Returns the records that ended badly, and not at a place where stock Python does."""
    return [record for _, records in results for record in records if outcomes.is_bad(record["outcome"])
            and not is_explained(record)]


def is_explained(record):
    """Says whether stock Python does the same. Which thread waits where in the end differs from run to run: of a hang
    it is enough that stock Python hangs, too."""
    found = record.get("evidence") or {}
    status = found.get("status")
    return status in EXPLAINED or found.get("kin") is not None or (record["outcome"] == outcomes.HANG and status == "same way")


def put_into(path, text):
    """Replaces what lies between the marks of a file, or adds it with the marks."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    head, mark, rest = before.partition(BEGIN)
    tail = rest.partition(END)[2] if mark else "\n"
    path.write_text(f"{head}{BEGIN}\n{text}{END}{tail}", encoding="utf-8")
