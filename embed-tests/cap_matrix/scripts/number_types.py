"""Numbers grow: long integers, Decimals, Fractions, complex numbers in lists."""

from growing import need, run

[decimal, fractions] = need("decimal", "fractions")

run("number_types", [
    ("data = [3]", "data.append(data[-1] << n)"),
    ("data = []", "data.append(1 << (i + n))"),
    ("data = []", "data.append(decimal.Decimal(i) / 7)"),
    ("data = []", "data.append(decimal.Decimal('1' * n))"),
    ("data = []", "data.append(fractions.Fraction(i, 7))"),
    ("data = []", "data.append(complex(i, n))"),
    ("data = []", "data.append(int('7' * min(n, 4000)))"),
], names={"decimal": decimal, "fractions": fractions}, sizes=(48, 20_000))
