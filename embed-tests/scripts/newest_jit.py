"""Hot functions, to be compiled by CPython's JIT. Prints their results, and the bytes of memory that holds machine code of no file."""

SOURCE = """
def work(rounds):
    total, kept = {number}, []
    for number in range(rounds):
        total += number * 3 % 7
        kept.append(number / 2)
        if number & 1: total ^= len(kept)
    return total
"""


def bytes_of_code():
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    spans = [line[0].split("-") for line in lines if len(line) == 5 and "x" in line[1]]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


functions = []
for number in range(50):
    names = {}
    exec(SOURCE.format(number=number), names)
    functions.append(names["work"])
results = [work(20_000) for work in functions]
print(sum(results))
print("bytes of code:", bytes_of_code())
