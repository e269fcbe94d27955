"""One comprehension grows until it fails: there is no loop of the script's own around it."""

from growing import run

run("comprehensions", [
    ("data = []", "data.append([j * 1.5 for j in range(n)])"),
    ("data = []", "data.append({j: str(j) for j in range(n)})"),
    ("data = []", "data.append({str(j) for j in range(n)})"),
], whole=[
    "data = [bytes(n) for i in itertools.count()]",
    "data = [object() for i in range(10 ** 9)]",
    "data = [[j for j in range(n)] for i in range(10 ** 9)]",
    "data = {i: i * 1.5 for i in itertools.count()}",
    "data = {str(i) for i in itertools.count()}",
    "data = list((i, bytes(n)) for i in itertools.count())",
    "data = [x for i in itertools.count() for x in (i, str(i))]",
], sizes=(48, 4000))
