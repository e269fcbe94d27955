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


def frame(stack):
    return "{}:{} in {}".format(*stack[0]) if stack else "no Python frame"


def crashes(results):
    """Returns what did not end by itself, one line for each way that a phase ended in, with what stock Python does."""
    found = {}
    for runner, records in results:
        for record in filter(lambda record: outcomes.is_bad(record["outcome"]), records):
            evidence = record.get("evidence") or {"status": "not searched"}
            place = f"`{evidence['host_c'][0]}`" if evidence.get("host_c") else frame(record["stack"])
            stock = evidence["status"] + ("; as {0}, {2}".format(*evidence["kin"]) if evidence.get("kin") else "")
            phase, accounts, number = record["place"]
            where = f"{record['fatal']}; {place}" if record["fatal"] else place
            row = (runner.release, f"{phase}, {accounts}", record["outcome"], where, stock)
            found.setdefault(row, []).append(str(number))
    lines = ["| Python | phase, accounts | outcome | in | stock Python | N |", "|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join((*row, ", ".join(numbers))) + " |" for row, numbers in found.items()]
    return "\n".join(lines) + "\n" if found else "No run crashed, hung or ended in a fatal error.\n"


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
